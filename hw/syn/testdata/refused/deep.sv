// More than 64 words that are read without a clock: no block RAM does that.
module deep (
  input  logic       clk_i,
  input  logic       we_i,
  input  logic [6:0] waddr_i,
  input  logic [6:0] raddr_i,
  input  logic       d_i,
  output logic       q_o
);
  logic mem[128];
  always_ff @(posedge clk_i) if (we_i) mem[waddr_i] <= d_i;
  assign q_o = mem[raddr_i];
endmodule
