// A latch.
module latchy (
  input  logic a_i,
  input  logic b_i,
  output logic q_o
);
  always @* if (a_i) q_o = b_i;
endmodule
