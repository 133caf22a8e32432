// ram_1r1w with four words in each row of the memory: a bank of 16K x 16 becomes 4K x 64 with a
// write enable for each word. That is one UltraScale+ URAM (4K x 72), instead of four for 16K x 16.
// A multiplexer behind the memory selects the word; latency and all else are those of ram_1r1w;
// OUT_REG's registers stand before it. CELLS 2: in the vendor's cells (hw/xilinx), which have them.
module ram_fold #(
  parameter int unsigned WIDTH = 16,
  parameter int unsigned DEPTH = 16384,  // a multiple of 4
  parameter int unsigned OUT_REG = 0,
  parameter int unsigned CELLS = 0,
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
  localparam int unsigned LANES = 4;
  localparam int unsigned ROWS = DEPTH / LANES;
  if (DEPTH % LANES != 0 || ROWS < 2) begin : gen_bad
    $fatal(1, "ram_fold: DEPTH must be a multiple of four, at least eight");
  end

  logic [LANES*WIDTH-1:0] row;
  logic [LANES-1:0]       we;
  logic [1:0]             lane_q, lane;
  always_comb begin
    for (int unsigned l = 0; l < LANES; l++) we[l] = we_i && waddr_i[1:0] == 2'(l);
  end
  always_ff @(posedge clk_i) begin
    if (re_i) lane_q <= raddr_i[1:0];
  end

  if (CELLS == 2) begin : gen_cells
    if (WIDTH != 16 || OUT_REG == 0) begin : gen_bad_cells
      $fatal(1, "ram_fold: cells are 16 bits wide and have their output register");
    end
    ram_uram #(.ROWS(ROWS)) u_ram (
      .clk_i,
      .we_i   ({{2{we[3]}}, {2{we[2]}}, {2{we[1]}}, {2{we[0]}}}),
      .waddr_i(waddr_i[AW-1:2]),
      .wdata_i({LANES{wdata_i}}),
      .re_i,
      .raddr_i(raddr_i[AW-1:2]),
      .rdata_o(row)
    );
  end else begin : gen_mem
    (* ram_style = "ultra" *) logic [LANES*WIDTH-1:0] mem[ROWS];
    logic [LANES*WIDTH-1:0] row_q;
    always_ff @(posedge clk_i) begin
      for (int unsigned l = 0; l < LANES; l++) begin
        if (we[l]) mem[waddr_i[AW-1:2]][l*WIDTH+:WIDTH] <= wdata_i;
      end
    end
    always_ff @(posedge clk_i) begin
      if (re_i) row_q <= mem[raddr_i[AW-1:2]];
    end
    if (OUT_REG != 0) begin : gen_out
      always_ff @(posedge clk_i) row <= row_q;
    end else begin : gen_latch
      assign row = row_q;
    end
  end
  if (OUT_REG != 0) begin : gen_lane
    always_ff @(posedge clk_i) lane <= lane_q;
  end else begin : gen_at_once
    assign lane = lane_q;
  end
  assign rdata_o = row[lane*WIDTH+:WIDTH];
endmodule
