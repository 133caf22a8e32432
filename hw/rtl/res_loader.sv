// Fetches a layer's residual in the order of the drain, as far ahead as its queue has room, and
// delivers up to LANES words per cycle, in any number.
module res_loader #(
  parameter int unsigned T_C       = 32,
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned LANES     = 8,
  parameter int unsigned BEATS     = 256,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX,
  localparam int unsigned WPB = AXI_BYTES / 2,
  localparam int unsigned OW = $clog2(WPB),
  localparam int unsigned CW = $clog2(2 * WPB + LANES + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic [3:0]             b_act_i,
  input  logic [BM*AW-1:0]       slot_addr_i,
  input  logic [31:0]            slot_stride_i,
  input  logic [8:0]             layers_written_i,
  input  logic                   layer_valid_i,
  output logic                   layer_ready_o,
  input  abi_pkg::desc_t         layer_desc_i,
  input  abi_pkg::fbcb_t         layer_fbcb_i,
  output logic                   req_valid_o,
  input  logic                   req_ready_i,
  output logic [AW-1:0]          req_addr_o,
  output logic [15:0]            req_beats_o,
  input  logic                   rsp_valid_i,
  input  logic                   rsp_last_i,
  input  logic [AXI_BYTES*8-1:0] rsp_data_i,
  output logic                   low_o,         // less than half is filled or requested
  output logic [CW-1:0]          fill_o,
  output logic [LANES*16-1:0]    data_o,
  input  logic                   pop_i,
  input  logic [CW-1:0]          pop_cnt_i,
  output logic                   err_valid_o,
  output logic [31:0]            err_addr_o
);
  localparam int unsigned RW = $clog2(BEATS) + 1;
  localparam int unsigned CHUNK = (AXI_BYTES <= 16) ? 16 : 256 / AXI_BYTES;  // at most 128 words

  logic            run_valid, run_ready, run_done, run_err, pool_unused;
  logic [2:0]      keep_unused;
  logic [23:0]     elem_unused;
  logic [AW-1:0]   run_addr;
  logic [23:0]     run_elems;
  logic [8:0]      layer_no_q;

  run_gen #(.T_C(T_C), .RESIDUAL(1'b1)) u_runs (
    .clk_i,
    .rst_ni,
    .b_act_i,
    .slot_addr_i,
    .slot_stride_i,
    .layer_valid_i,
    .layer_ready_o,
    .layer_desc_i,
    .layer_fbcb_i,
    .run_valid_o(run_valid),
    .run_ready_i(run_ready),
    .run_addr_o (run_addr),
    .run_elems_o(run_elems),
    .pool_o     (pool_unused),
    .keep_o     (keep_unused[0]),
    .keep_half_o(keep_unused[1]),
    .local_o    (keep_unused[2]),
    .run_elem_o (elem_unused),
    .done_o     (run_done),
    .err_valid_o(run_err),
    .err_addr_o
  );
  // run_gen may be several layers ahead if the layers before have no residual: an error waits, like
  // a run, until its own layer is written
  assign err_valid_o = run_err && layers_written_i == layer_no_q;

  // A run is requested in chunks of at most CHUNK beats, each with room for it in the queue, and
  // only when the previous layer is written (its output may be this residual).
  logic          busy_q;
  logic [AW-1:0] addr_q;
  logic [23:0]   words_q, words_d;      // words left, counted from addr_q's beat on
  logic [OW-1:0] skip_q;
  logic [RW-1:0] free_q, free_d;
  logic [4:0]    chunk_q, beats_d;
  logic          last_q, last_d, fits_q, go, taken, meta_ready, beat_pop;
  logic [7:0]    chunk_words;

  assign run_ready = !busy_q && layers_written_i == layer_no_q;
  assign chunk_words = last_q ? words_q[7:0] : 8'(CHUNK * WPB);
  assign go = busy_q && fits_q && meta_ready;
  assign taken = go && req_ready_i;
  assign low_o = free_q > RW'(BEATS / 2);
  assign req_valid_o = go;
  assign req_addr_o = addr_q;
  assign req_beats_o = 16'(chunk_q);

  // The next chunk, and whether the queue has room for it, are in registers, so the ports see only
  // a gate.
  always_comb begin
    words_d = words_q;
    if (!busy_q) words_d = run_elems + 24'(run_addr[OW:1]);
    else if (taken) words_d = words_q - 24'(CHUNK * WPB);
    last_d = words_d <= 24'(CHUNK * WPB);
    beats_d = 5'((9'(words_d[7:0]) + 9'(WPB - 1)) >> OW);
    free_d = free_q + RW'(beat_pop) - (taken ? RW'(chunk_q) : '0);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      layer_no_q <= '0;
      free_q <= RW'(BEATS);
    end else begin
      if (run_done) layer_no_q <= layer_no_q + 9'd1;
      free_q <= free_d;
      if (run_valid && run_ready) busy_q <= 1'b1;
      else if (taken && last_q) busy_q <= 1'b0;
    end
    words_q <= words_d;
    last_q <= last_d;
    chunk_q <= last_d ? beats_d : 5'(CHUNK);
    fits_q <= free_d >= (last_d ? RW'(beats_d) : RW'(CHUNK));
    if (!busy_q) begin
      addr_q <= {run_addr[AW-1:OW+1], {(OW + 1) {1'b0}}};
      skip_q <= run_addr[OW:1];
    end else if (taken) begin
      addr_q <= addr_q + AW'({chunk_q, {(OW + 1) {1'b0}}});
      skip_q <= '0;
    end
  end

  // Beats and the valid words of each: skip at the first of a chunk, the rest at its last. The
  // words of the next beat are in registers before it arrives, as answers take longer than that.
  localparam int unsigned CHUNKS = 16;
  logic                  m_valid, next, room_unused, head_q, ends_q;
  logic [$clog2(CHUNKS):0] asked_q;      // chunks
  logic [OW-1:0]         m_skip, drop_q;
  logic [7:0]            m_words, left_q;
  logic [CW-1:0]         push_cnt_q;
  assign meta_ready = asked_q != ($clog2(CHUNKS) + 1)'(CHUNKS);
  fifo #(.WIDTH(OW + 8), .DEPTH(CHUNKS)) u_meta (
    .clk_i,
    .rst_ni,
    .valid_i(taken),
    .ready_o(room_unused),
    .wdata_i({skip_q, chunk_words}),
    .valid_o(m_valid),
    .ready_i(next),
    .rdata_o({m_skip, m_words})
  );

  logic                   b_valid, gear_ready, push;
  logic [AXI_BYTES*8-1:0] b_data;
  beat_fifo #(.WIDTH(AXI_BYTES * 8), .DEPTH(BEATS)) u_beats (
    .clk_i,
    .rst_ni,
    .valid_i(rsp_valid_i),
    .wdata_i(rsp_data_i),
    .valid_o(b_valid),
    .ready_i(push),
    .rdata_o(b_data)
  );
  assign push = b_valid && head_q && gear_ready;
  assign beat_pop = push;
  assign next = !head_q || (push && ends_q);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q <= 1'b0;
      asked_q <= '0;
    end else begin
      if (next) head_q <= m_valid;
      asked_q <= asked_q + ($clog2(CHUNKS) + 1)'(taken) - ($clog2(CHUNKS) + 1)'(push && ends_q);
    end
    if (next) begin
      drop_q <= m_skip;
      left_q <= m_words;
      ends_q <= m_words <= 8'(WPB);
      push_cnt_q <= CW'(((m_words <= 8'(WPB)) ? m_words : 8'(WPB)) - 8'(m_skip));
    end else if (push) begin
      drop_q <= '0;
      left_q <= left_q - 8'(WPB);
      ends_q <= left_q <= 8'(2 * WPB);
      push_cnt_q <= CW'((left_q <= 8'(2 * WPB)) ? left_q - 8'(WPB) : 8'(WPB));
    end
  end

  gearbox #(.IN_WORDS(WPB), .OUT_WORDS(LANES)) u_gear (
    .clk_i,
    .rst_ni,
    .push_i    (push),
    .push_cnt_i(push_cnt_q),
    .data_i    (b_data),
    .skip_i    (drop_q),
    .ready_o   (gear_ready),
    .pop_i,
    .pop_cnt_i,
    .data_o,
    .fill_o
  );

  logic unused;
  assign unused = ^{pool_unused, room_unused, keep_unused, elem_unused, rsp_last_i, run_addr[0]};
endmodule
