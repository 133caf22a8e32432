// How a layer with an entry of the FBCB is cut: into one or two sample groups (s = 1, 2), C tiles of as many channels as
// k and s leave the array, and row tiles of nb samples of a group from b0 on. With two groups rest_1 is what group 1 has
// from there on: it may be fewer, or none. Combinational; units register what they need.
module tile_size #(
  parameter int unsigned T_C = 32
) (
  input  abi_pkg::fbcb_t fbcb_i,
  input  logic [3:0]     b_act_i,
  input  logic [3:0]     b0_i,
  output logic           two_o,
  output logic [15:0]    tc_o,
  output logic [3:0]     nb_o,
  output logic [3:0]     rest_1_o
);
  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::fbcb_t f;
  /* verilator lint_on UNUSEDSIGNAL */
  assign f = fbcb_i;
  assign two_o = f.b_r != b_act_i;
  assign tc_o = (f.k == 2'd1) ? (two_o ? 16'(T_C) : 16'(2 * T_C))
                              : ((f.k == 2'd2 || two_o) ? 16'(T_C / 2) : 16'(T_C));
  assign nb_o = ({1'b0, b0_i} + {1'b0, f.tile_b} > {1'b0, f.b_r}) ? f.b_r - b0_i : f.tile_b;
  assign rest_1_o = ({1'b0, b0_i} + {1'b0, f.b_r} >= {1'b0, b_act_i}) ? 4'd0 : b_act_i - f.b_r - b0_i;
endmodule
