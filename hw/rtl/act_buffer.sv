// The activation buffer and Toeplitz formation: two halves, each with NB banks of 16 bits. The
// loader writes one beat at a time. A read returns NB consecutive elements per cycle, from any
// element on, rotated so that lane j is element elem + j, and masked to lanes lo .. hi-1 (others
// read as fill_i). With rd_two_i both halves are read at the same element: out_data_o is the window
// of half 0, out_two_o (Y_LANES lanes) that of half 1.
// FOLD: each row of a bank's memory holds four words (ram_fold). Without FOLD, a bank of more than
// SPLIT words whose depth is not a power of two consists of several memories (ram_deep).
// Addresses, enables and words have a register at each bank, the memories their output register.
// Latency: 4 cycles from rd_valid_i to out_valid_o; no stall. tag_i is delayed along with the data.
module act_buffer #(
  parameter int unsigned NB         = 16,
  parameter int unsigned ABUF_WORDS = 1024,
  parameter int unsigned IN_WORDS   = 4,
  parameter int unsigned TAG        = 8,
  parameter int unsigned Y_LANES    = 8,
  parameter int unsigned FOLD       = 0,
  parameter int unsigned SPLIT      = 1024,
  parameter int unsigned CELLS      = 0,     // as npu_core has it
  localparam int unsigned LB = $clog2(NB),
  localparam int unsigned WA = $clog2(ABUF_WORDS),
  localparam int unsigned EW = LB + WA
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  // loader: lane 0 of the beat is element wr_elem_i; wr_mask_i picks lanes
  input  logic                   wr_half_i,
  input  logic [EW-1:0]          wr_elem_i,
  input  logic [IN_WORDS-1:0]    wr_mask_i,
  input  logic [IN_WORDS*16-1:0] wr_data_i,
  // reader
  input  logic                   rd_valid_i,
  input  logic                   rd_half_i,
  input  logic                   rd_two_i,
  input  logic [EW-1:0]          rd_elem_i,
  input  logic [LB:0]            rd_lo_i,
  input  logic [LB:0]            rd_hi_i,
  input  logic [15:0]            rd_fill_i,
  input  logic [TAG-1:0]         rd_tag_i,
  output logic                   out_valid_o,
  output logic [NB*16-1:0]       out_data_o,
  output logic [Y_LANES*16-1:0]  out_two_o,
  output logic [TAG-1:0]         out_tag_o
);
  logic [NB*16-1:0] rdata[2];
  logic [WA-1:0] wr_word, rd_word;
  logic [LB-1:0] wr_lsb, rd_lsb;
  assign wr_word = wr_elem_i[EW-1:LB];
  assign wr_lsb = wr_elem_i[LB-1:0];
  assign rd_word = rd_elem_i[EW-1:LB];
  assign rd_lsb = rd_elem_i[LB-1:0];

  // the beat rotated to its banks: bank b takes lane b - wr_lsb, if that exists
  logic [2*NB-1:0]    hits;
  logic [2*NB*16-1:0] words;
  assign hits = {2{NB'(wr_mask_i)}} << wr_lsb;
  assign words = {2{(NB * 16)'(wr_data_i)}} << {wr_lsb, 4'b0};
  logic unused_beat;
  assign unused_beat = ^{hits[NB-1:0], words[NB*16-1:0]};

  for (genvar b = 0; b < NB; b++) begin : gen_bank
    logic [15:0]   word_q;
    logic [WA-1:0] waddr_q, raddr_q;
    always_ff @(posedge clk_i) begin
      word_q <= words[(NB+b)*16+:16];
      waddr_q <= (b < NB - 1 && LB'(b) < wr_lsb) ? wr_word + 1'b1 : wr_word;
      raddr_q <= (b < NB - 1 && LB'(b) < rd_lsb) ? rd_word + 1'b1 : rd_word;
    end
    for (genvar h = 0; h < 2; h++) begin : gen_half
      logic we_q, re_q;
      always_ff @(posedge clk_i) begin
        we_q <= hits[NB+b] && (wr_half_i == 1'(h));
        re_q <= rd_valid_i && (rd_two_i || rd_half_i == 1'(h));
      end
      if (FOLD != 0) begin : gen_fold
        ram_fold #(.WIDTH(16), .DEPTH(ABUF_WORDS), .OUT_REG(1), .CELLS(CELLS)) u_ram (
          .clk_i,
          .we_i   (we_q),
          .waddr_i(waddr_q),
          .wdata_i(word_q),
          .re_i   (re_q),
          .raddr_i(raddr_q),
          .rdata_o(rdata[h][b*16+:16])
        );
      end else if (ABUF_WORDS > SPLIT && 2 ** WA != ABUF_WORDS) begin : gen_deep
        ram_deep #(.WIDTH(16), .DEPTH(ABUF_WORDS), .LEAST(SPLIT), .OUT_REG(1)) u_ram (
          .clk_i,
          .we_i   (we_q),
          .waddr_i(waddr_q),
          .wdata_i(word_q),
          .re_i   (re_q),
          .raddr_i(raddr_q),
          .rdata_o(rdata[h][b*16+:16])
        );
      end else begin : gen_plain
        ram_1r1w #(.WIDTH(16), .DEPTH(ABUF_WORDS), .OUT_REG(1)) u_ram (
          .clk_i,
          .we_i   (we_q),
          .waddr_i(waddr_q),
          .wdata_i(word_q),
          .re_i   (re_q),
          .raddr_i(raddr_q),
          .rdata_o(rdata[h][b*16+:16])
        );
      end
    end
  end

  // ---- rotate and mask, with what came along with the address: in its register, in the memory, in that one's register
  localparam int unsigned WITH = 1 + LB + 2 * (LB + 1) + 16 + TAG;
  logic [2:0]      v_q;
  logic [WITH-1:0] with_q[2];
  logic            half, half_q;
  logic [LB-1:0]   lsb, lsb_q;
  logic [LB:0]     lo, hi;
  logic [15:0]     fill, fill_q;
  logic [TAG-1:0]  tag, tag_q;
  assign {half, lsb, lo, hi, fill, tag} = with_q[1];
  level #(.WIDTH(1 + LB)) u_turn (.clk_i, .d_i({half, lsb}), .q_o({half_q, lsb_q}));
  logic [NB*16-1:0] raw, turned, masked;
  logic [2*NB*16-1:0] twice, twice_y;
  logic [Y_LANES*16-1:0] masked_y;
  logic [NB-1:0] mask_q;

  assign raw = rdata[half_q];
  assign twice = {raw, raw} >> {lsb_q, 4'b0};
  assign turned = twice[NB*16-1:0];
  assign twice_y = {rdata[1], rdata[1]} >> {lsb_q, 4'b0};
  always_comb begin
    for (int unsigned i = 0; i < NB; i++) begin
      masked[i*16+:16] = mask_q[i] ? turned[i*16+:16] : fill_q;
    end
    for (int unsigned i = 0; i < Y_LANES; i++) begin
      masked_y[i*16+:16] = mask_q[i] ? twice_y[i*16+:16] : fill_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      v_q <= '0;
      out_valid_o <= 1'b0;
    end else begin
      v_q <= {v_q[1:0], rd_valid_i};
      out_valid_o <= v_q[2];
    end
    with_q[0] <= {rd_half_i && !rd_two_i, rd_lsb, rd_lo_i, rd_hi_i, rd_fill_i, rd_tag_i};
    with_q[1] <= with_q[0];
    {fill_q, tag_q} <= {fill, tag};
    for (int unsigned i = 0; i < NB; i++) mask_q[i] <= ((LB + 1)'(i) >= lo) && ((LB + 1)'(i) < hi);
    out_data_o <= masked;
    out_two_o <= masked_y;
    out_tag_o <= tag_q;
  end

  logic unused;
  assign unused = ^{twice[2*NB*16-1:NB*16], twice_y[2*NB*16-1:Y_LANES*16]};
endmodule
