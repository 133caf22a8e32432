// ram_1r1w for a deep memory whose depth is not a power of two: one memory for each power of two,
// the largest first (14,336 words are 8K + 4K + 2K), with a multiplexer behind them. Vivado extends
// a depth to a power of two on 7 series (AMD AR 61995): 14,336 x 16 would use the 8 BRAM36 of
// 16,384, while the parts use 4 + 2 + 1. Latency and all else are those of ram_1r1w: the part of a
// word is registered with its address; OUT_REG's registers are the parts', before the multiplexer. The smallest part is rounded up to a whole memory; a write
// beyond it is lost, a read there returns no valid word.
module ram_deep #(
  parameter int unsigned WIDTH = 16,
  parameter int unsigned DEPTH = 14336,
  parameter int unsigned LEAST = 1024,  // words of the smallest part, a power of two: what half a BRAM36 holds
  parameter int unsigned OUT_REG = 0,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input  logic             clk_i,
  input  logic             we_i,
  input  logic [AW-1:0]    waddr_i,
  input  logic [WIDTH-1:0] wdata_i,
  input  logic             re_i,
  input  logic [AW-1:0]    raddr_i,
  output logic [WIDTH-1:0] rdata_o
);
  localparam int unsigned LOW = $clog2(LEAST);
  localparam int unsigned SPAN = (DEPTH + LEAST - 1) / LEAST * LEAST;  // a part for each of its bits
  if (LEAST < 2 || 2 ** LOW != LEAST || DEPTH < LEAST) begin : gen_bad
    $fatal(1, "ram_deep: LEAST must be a power of two, at least 2 and at most DEPTH");
  end

  function automatic int unsigned ones(input int unsigned n);
    ones = 0;
    for (int unsigned i = 0; i < 32; i++) ones = ones + ((n >> i) & 1);
  endfunction
  localparam int unsigned PARTS = ones(SPAN);
  localparam int unsigned PW = (PARTS > 1) ? $clog2(PARTS) : 1;

  logic [AW:0] wdiff, rdiff;  // the highest bit that differs from SPAN selects the part
  logic [PARTS*WIDTH-1:0] words, outs;
  logic [PW-1:0] part_d, part_q, part;
  assign wdiff = {1'b0, waddr_i} ^ (AW + 1)'(SPAN);
  assign rdiff = {1'b0, raddr_i} ^ (AW + 1)'(SPAN);

  for (genvar b = LOW; b <= AW; b++) begin : gen_bit
    if (((SPAN >> b) & 1) != 0) begin : gen_part
      localparam int unsigned PART = ones(SPAN >> (b + 1));
      (* ram_style = "block" *) logic [WIDTH-1:0] mem[2**b];

      always_ff @(posedge clk_i) begin
        if (we_i && (wdiff >> b) == (AW + 1)'(1)) mem[waddr_i[b-1:0]] <= wdata_i;
      end

      always_ff @(posedge clk_i) begin
        if (re_i) words[PART*WIDTH+:WIDTH] <= mem[raddr_i[b-1:0]];
      end
    end
  end

  always_comb begin
    part_d = '0;
    for (int unsigned b = LOW; b <= AW; b++) begin
      if ((rdiff >> b) == (AW + 1)'(1)) part_d = PW'(ones(SPAN >> (b + 1)));
    end
  end
  always_ff @(posedge clk_i) begin
    if (re_i) part_q <= part_d;
  end

  if (OUT_REG != 0) begin : gen_out
    always_ff @(posedge clk_i) begin
      outs <= words;
      part <= part_q;
    end
  end else begin : gen_latch
    assign outs = words;
    assign part = part_q;
  end
  assign rdata_o = outs[part*WIDTH+:WIDTH];
endmodule
