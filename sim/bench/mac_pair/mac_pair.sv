// The inferred chain and those of cells, with the same inputs.
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
  output logic [2*ACC-1:0]  cells_o   // of series 7, of UltraScale+
);
  mac_chain #(.LEN(LEN), .ACC(ACC)) u_inferred (
    .clk_i, .a_i, .swap_i, .load_i, .w_i, .c_i, .p_o(inferred_o)
  );
  for (genvar i = 0; i < 2; i++) begin : gen_cells
    mac_chain #(.LEN(LEN), .ACC(ACC), .CELLS(i + 1)) u_chain (
      .clk_i, .a_i, .swap_i, .load_i, .w_i, .c_i, .p_o(cells_o[i*ACC+:ACC])
    );
  end
endmodule
