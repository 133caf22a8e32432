// The inferred chain and the chain of DSP48E2 cells, with the same inputs.
module mac_pair #(
  parameter int unsigned LEN = 4,
  parameter int unsigned ACC = 36
) (
  input  logic              clk_i,
  input  logic [LEN*16-1:0] a_i,
  input  logic [LEN-1:0]    swap_i,
  input  logic              load_i,
  input  logic [LEN*16-1:0] w_i,
  input  logic [ACC-1:0]    c_i,
  output logic [ACC-1:0]    inferred_o,
  output logic [ACC-1:0]    cells_o
);
  mac_chain #(.LEN(LEN), .ACC(ACC), .DSP48E2(1'b0)) u_inferred (
    .clk_i, .a_i, .swap_i, .load_i, .w_i, .c_i, .p_o(inferred_o)
  );
  mac_chain #(.LEN(LEN), .ACC(ACC), .DSP48E2(1'b1)) u_cells (
    .clk_i, .a_i, .swap_i, .load_i, .w_i, .c_i, .p_o(cells_o)
  );
endmodule
