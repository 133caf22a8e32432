// Memory with one write and one read port on one clock: the one place that infers block RAM.
// Read data follow their address by one cycle and hold while re_i is low. A read of the address
// being written in the same cycle gives the old word. Contents are undefined after reset.
// OUT_REG: the memory's output register is used: read data follow their address by two cycles, and hold likewise.
module ram_1r1w #(
  parameter int unsigned WIDTH = 16,
  parameter int unsigned DEPTH = 512,
  parameter int unsigned OUT_REG = 0,
  localparam int unsigned AW = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
  input  logic             clk_i,
  input  logic             we_i,
  input  logic [AW-1:0]    waddr_i,
  input  logic [WIDTH-1:0] wdata_i,
  input  logic             re_i,
  input  logic [AW-1:0]    raddr_i,
  output logic [WIDTH-1:0] rdata_o
);
  logic [WIDTH-1:0] mem[DEPTH];
  logic [WIDTH-1:0] word_q;

  always_ff @(posedge clk_i) begin
    if (we_i) mem[waddr_i] <= wdata_i;
  end

  always_ff @(posedge clk_i) begin
    if (re_i) word_q <= mem[raddr_i];
  end

  if (OUT_REG != 0) begin : gen_out
    always_ff @(posedge clk_i) rdata_o <= word_q;
  end else begin : gen_latch
    assign rdata_o = word_q;
  end
endmodule
