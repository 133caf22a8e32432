// Two banks of the activation buffer, one of each half, in a memory: bytes that are read at the same address, each written
// alone. So they fill the blocks that a bank of 16 bits does. All else is as in ram_1r1w.
// FOLD: four words to a row, as in ram_fold. Without FOLD, a depth beyond LEAST that is no power of two is split, as in ram_deep.
// OUT_REG's registers are the memories', before what selects a part or a word. CELLS: as in ram_fold.
module ram_pair #(
  parameter int unsigned DEPTH = 1024,
  parameter int unsigned FOLD  = 0,
  parameter int unsigned LEAST = 1024,
  parameter int unsigned OUT_REG = 0,
  parameter int unsigned CELLS = 0,
  localparam int unsigned AW = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
  input  logic          clk_i,
  input  logic [1:0]    we_i,
  input  logic [AW-1:0] waddr_i,
  input  logic [7:0]    wdata_i,
  input  logic          re_i,
  input  logic [AW-1:0] raddr_i,
  output logic [15:0]   rdata_o
);
  if (FOLD != 0) begin : gen_fold
    if (DEPTH % 4 != 0 || DEPTH < 8) begin : gen_bad
      $fatal(1, "ram_pair: with FOLD, DEPTH must be a multiple of four, at least eight");
    end
    logic [63:0] row;
    logic [7:0]  we;
    logic [1:0]  lane_q, lane;
    always_comb begin
      for (int unsigned i = 0; i < 8; i++) we[i] = we_i[i%2] && waddr_i[1:0] == 2'(i / 2);
    end
    always_ff @(posedge clk_i) begin
      if (re_i) lane_q <= raddr_i[1:0];
    end
    if (CELLS == 2) begin : gen_cells
      if (OUT_REG == 0) begin : gen_bad_cells
        $fatal(1, "ram_pair: cells have their output register");
      end
      ram_uram #(.ROWS(DEPTH / 4)) u_ram (
        .clk_i, .we_i(we), .waddr_i(waddr_i[AW-1:2]), .wdata_i({8{wdata_i}}), .re_i, .raddr_i(raddr_i[AW-1:2]), .rdata_o(row)
      );
    end else begin : gen_mem
      (* ram_style = "ultra" *) logic [63:0] mem[DEPTH/4];
      logic [63:0] row_q;
      always_ff @(posedge clk_i) begin
        for (int unsigned i = 0; i < 8; i++) begin
          if (we[i]) mem[waddr_i[AW-1:2]][i*8+:8] <= wdata_i;
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
    assign rdata_o = row[lane*16+:16];
  end else begin : gen_parts
    localparam int unsigned SPAN = (DEPTH > LEAST) ? (DEPTH + LEAST - 1) / LEAST * LEAST : 2 ** AW;
    logic [AW:0]       wdiff, rdiff;  // the highest bit that differs from SPAN selects the part
    logic [16*AW+15:0] words;
    assign wdiff = {1'b0, waddr_i} ^ (AW + 1)'(SPAN);
    assign rdiff = {1'b0, raddr_i} ^ (AW + 1)'(SPAN);
    for (genvar b = 0; b <= AW; b++) begin : gen_bit
      if (((SPAN >> b) & 1) != 0) begin : gen_part
        logic [15:0] mem[2**b];
        logic [15:0] word_q, word;
        logic        here_q, here;    // the word read is of this part
        always_ff @(posedge clk_i) begin
          for (int unsigned h = 0; h < 2; h++) begin
            if (we_i[h] && (wdiff >> b) == (AW + 1)'(1)) mem[waddr_i[b-1:0]][h*8+:8] <= wdata_i;
          end
        end
        always_ff @(posedge clk_i) begin
          if (re_i) begin
            word_q <= mem[raddr_i[b-1:0]];
            here_q <= (rdiff >> b) == (AW + 1)'(1);
          end
        end
        if (OUT_REG != 0) begin : gen_out
          always_ff @(posedge clk_i) begin
            word <= word_q;
            here <= here_q;
          end
        end else begin : gen_latch
          assign word = word_q;
          assign here = here_q;
        end
        assign words[b*16+:16] = here ? word : '0;
      end else begin : gen_none
        assign words[b*16+:16] = '0;
      end
    end
    always_comb begin
      rdata_o = '0;
      for (int unsigned b = 0; b <= AW; b++) rdata_o = rdata_o | words[b*16+:16];
    end
  end
endmodule
