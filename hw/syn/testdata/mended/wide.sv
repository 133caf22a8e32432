// A memory of 72 bits a word: yosys 0.23 by itself writes four of them from others.
module wide (
  input  logic        clk_i,
  input  logic        we_i,
  input  logic [8:0]  waddr_i,
  input  logic [71:0] wdata_i,
  input  logic [8:0]  raddr_i,
  output logic [71:0] rdata_o
);
  logic [71:0] mem[512];
  always_ff @(posedge clk_i) if (we_i) mem[waddr_i] <= wdata_i;
  always_ff @(posedge clk_i) rdata_o <= mem[raddr_i];
endmodule
