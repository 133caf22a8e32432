// A shift register that stands still while en_i is low: yosys 0.23 by itself loses the enable.
module shift (
  input  logic clk_i,
  input  logic en_i,
  input  logic d_i,
  output logic q_o
);
  logic [7:0] r_q;
  always_ff @(posedge clk_i) if (en_i) r_q <= {r_q[6:0], d_i};
  assign q_o = r_q[7];
endmodule
