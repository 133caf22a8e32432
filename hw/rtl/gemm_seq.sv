// Walks a GEMM layer and issues one row of the Toeplitz matrix per cycle. The nesting is: row
// tiles, C tiles (with loop order 1 the other way round), passes (kernel row, chunk of T_P
// elements), rows (sample, output row, output column). Each row waits for its input row. The first
// row of a pass also waits for its weights and for the chain (D_k = chain + 3 cycles after the
// previous pass), the first row of a C tile for a free accumulator bank. Every waiting cycle is
// counted by its cause.
module gemm_seq #(
  parameter int unsigned T_R = 256,
  parameter int unsigned T_P = 8,
  parameter int unsigned T_C = 32,
  parameter int unsigned NB  = 16,
  parameter int unsigned ABUF_WORDS = 1024,
  localparam int unsigned LB = $clog2(NB),
  localparam int unsigned EW = $clog2(NB * ABUF_WORDS),
  localparam int unsigned RW = $clog2(T_R)
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic [3:0]     b_act_i,
  input  logic [8:0]     layers_written_i,
  input  logic           layer_valid_i,
  output logic           layer_ready_o,
  input  abi_pkg::desc_t layer_desc_i,
  input  abi_pkg::fbcb_t layer_fbcb_i,
  input  logic [23:0]    layer_samp_i,
  // activations
  input  logic [63:0]    avail_i,
  output logic [1:0]     free_o,
  output logic           rd_valid_o,
  output logic           rd_half_o,
  output logic           rd_two_o,      // s = 2: both halves
  output logic [EW-1:0]  rd_elem_o,
  output logic [LB:0]    rd_lo_o,
  output logic [LB:0]    rd_hi_o,
  output logic [1:0]     k_o,           // of the layer
  output logic [RW+3:0]  rd_tag_o,      // {row, bank, first, swap, last}
  // weights
  input  logic           full_i,
  output logic           swap_o,
  // accumulators
  input  logic           bank_free_i,   // pulse: the older bank has drained
  // counters
  output logic           mac_cycle_o,
  output logic [15:0]    macs_o,
  output logic           stall_weights_o,
  output logic           stall_acts_o,
  output logic           stall_drain_o,
  output logic           stall_depth_o
);
  typedef enum logic [1:0] {StIdle, StBarrier, StTile, StRun} state_e;
  state_e state_q, state_d;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  logic [23:0]    samp_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [8:0]    layer_no_q;     // layers taken since the start
  assign d = desc_q;
  assign f = fbcb_q;

  // A kept tensor (KEEP_IN) is in the half that the previous layer did not read, without padding:
  // its element 0 is PAD_T rows above it.
  logic           start_q, start_d;
  logic [EW-1:0]  base_q;
  logic [7:0]     above_q;       // rows by which base_q still has to move up
  assign start_d = layer_fbcb_i.keep_in && !start_q;

  // tile
  logic [3:0]         b0_q, nb, nb_q;
  logic [15:0]        oh0_q, nr, nr_q, step_rows, step_rows_q, n_j;
  logic signed [17:0] ih_tile_q, ih_tile_d;  // input row of the tile's first output row, kernel row 0
  logic               half_q;
  // C tile, pass
  logic [15:0]        c0_q, nch;
  logic               bank_q;
  logic [1:0]         banks_q;         // how many banks are in use
  logic [7:0]         kh_q;
  logic [23:0]        p0_q, rest_q;    // elements before the chunk, from it on
  logic [EW:0]        kh_elem_q;
  logic               first_q;         // first pass of the C tile
  // Cycles since the pass began, limited to the depth. Stalls inside a pass do not count: the row
  // after a stall may be the second one of the next pass.
  logic [5:0]         age_q;
  // rows
  logic [3:0]         i_q;
  logic [15:0]        r_left_q, ow_left_q;   // rows, columns of the tile from this one on
  logic [RW-1:0]      row_q;
  logic               begin_q;         // next issue is the first of its pass
  logic [EW:0]        samp_elem_q, line_q;
  logic [15:0]        samp_row_q, place_q;
  logic signed [17:0] ih_q;
  logic signed [25:0] col_q, right_q;  // right: elements from the window's start to the row's end

  // values that depend on k and s: lanes of a chunk, channels of a C tile, depth of a chain
  localparam int unsigned FH = T_P / 2;
  logic        half, pair, two, two_q;
  logic [5:0]  lanes_k, depth;
  logic [15:0] tc, tc_q;
  logic [3:0]  rest_1, rest_1_q;
  logic        other_q;               // a sample of group 1 goes with this one
  assign half = f.k == 2'd1;
  assign pair = f.k == 2'd2;
  tile_size #(.T_C(T_C)) u_size (
    .fbcb_i(fbcb_q), .b_act_i, .b0_i(b0_q), .two_o(two), .tc_o(tc), .nb_o(nb), .rest_1_o(rest_1)
  );
  assign lanes_k = half ? 6'(FH) : (pair ? 6'(2 * T_P) : 6'(T_P));
  assign depth = half ? 6'(T_P - FH + 3) : (pair ? 6'(2 * T_P + 3) : 6'(T_P + 3));
  assign nr = (oh0_q + 16'(f.tile_rows) > d.out_h) ? d.out_h - oh0_q : 16'(f.tile_rows);
  assign ih_tile_d = (oh0_q == '0) ? -$signed({10'b0, d.pad_t}) : ih_tile_q;
  assign step_rows = (d.s_h[0] ? nr : 16'd0) + (d.s_h[1] ? nr << 1 : 16'd0)
                   + (d.s_h[2] ? nr << 2 : 16'd0) + (d.s_h[3] ? nr << 3 : 16'd0);
  assign n_j = step_rows_q - 16'(d.s_h) + 16'(d.k_h);
  assign nch = (c0_q + tc_q > d.out_c) ? d.out_c - c0_q : tc_q;

  logic last_t_q, last_b_q;            // of the tile
  // For the next row, known one row ahead: whether it is the last one decides everything that
  // follows.
  logic last_ow_q, last_r_q, last_i_q, one_ow_q;
  logic last_row, last_chunk, last_kh, last_pass, last_c, last_t, last_b;
  assign last_row = last_ow_q && last_r_q && last_i_q;
  assign last_chunk = rest_q <= 24'(lanes_k);
  assign last_kh = kh_q + 8'd1 == d.k_h;
  assign last_pass = last_chunk && last_kh;
  assign last_c = c0_q + tc_q >= d.out_c;
  assign last_t = oh0_q + 16'(f.tile_rows) >= d.out_h;
  assign last_b = {1'b0, b0_q} + {1'b0, f.tile_b} >= {1'b0, f.b_r};

  // ---- may this row go?
  logic row_in, act_ok, weight_ok, depth_ok, bank_ok, go, run;
  logic [15:0] avail, avail1;
  assign avail = half_q ? avail_i[31:16] : avail_i[15:0];
  assign avail1 = half_q ? avail_i[63:48] : avail_i[47:32];
  assign row_in = (ih_q >= 0) && (ih_q < $signed({2'b0, d.in_h}));
  assign act_ok = place_q < avail && (!other_q || place_q < avail1);  // also for padding
  assign weight_ok = !begin_q || full_i;
  assign depth_ok = !begin_q || first_q || (age_q >= depth);
  assign bank_ok = !(begin_q && first_q) || !banks_q[1];
  assign run = state_q == StRun;
  assign go = run && act_ok && weight_ok && depth_ok && bank_ok;

  assign stall_acts_o = run && !act_ok;
  assign stall_weights_o = run && act_ok && !weight_ok;
  assign stall_drain_o = run && act_ok && weight_ok && !bank_ok;
  assign stall_depth_o = run && act_ok && weight_ok && bank_ok && !depth_ok;
  assign mac_cycle_o = go;
  assign layer_ready_o = state_q == StIdle;
  // Loop order: what ends with an item: the visit of a row tile, of a C tile, or of both. With
  // order 1 a row tile is loaded again for the next C tile, unless all row tiles fit on chip.
  logic tile_end, c_end, one_tile, few;
  assign tile_end = f.order || last_c;
  assign c_end = !f.order || (last_t_q && last_b_q);
  assign one_tile = f.tile_b >= f.b_r && 16'(f.tile_rows) >= d.out_h;
  assign few = (f.tile_b >= f.b_r && {4'b0, f.tile_rows, 1'b0} >= {1'b0, d.out_h})
               || (16'(f.tile_rows) >= d.out_h && {f.tile_b, 1'b0} >= {1'b0, f.b_r});
  assign free_o = {2{go && last_row && last_pass && (last_c || (f.order && !few))}} & {half_q, !half_q};

  // ---- lanes that carry data
  logic [LB:0]        lo, hi_row, hi_chunk, hi;
  assign lo = (col_q >= 0) ? '0 : ((-col_q >= $signed(26'(lanes_k))) ? (LB + 1)'(lanes_k) : (LB + 1)'(-col_q));
  assign hi_row = (right_q >= $signed(26'(lanes_k))) ? (LB + 1)'(lanes_k) : ((right_q < 0) ? '0 : (LB + 1)'(right_q));
  assign hi_chunk = last_chunk ? (LB + 1)'(rest_q) : (LB + 1)'(lanes_k);
  assign hi = !row_in ? '0 : ((hi_row < hi_chunk) ? hi_row : hi_chunk);

  // MACs of a row, three cycles after it was issued: lanes times channels, by additions (a product
  // would need a DSP), in two partial sums
  localparam int unsigned TERMS = (LB + 1) / 2;
  logic [LB:0] lanes_q;
  logic [15:0] nch1_q, nch2_q;
  logic        go2_q;
  logic [15:0] low_sum, high_sum, low_sum_q, high_sum_q;
  always_comb begin
    low_sum = '0;
    high_sum = '0;
    for (int unsigned i = 0; i <= LB; i++) begin
      if (go2_q && lanes_q[i] && i < TERMS) low_sum = low_sum + 16'(nch2_q << i);
      if (go2_q && lanes_q[i] && i >= TERMS) high_sum = high_sum + 16'(nch2_q << i);
    end
  end
  always_ff @(posedge clk_i) begin
    low_sum_q <= rst_ni ? low_sum : '0;
    high_sum_q <= rst_ni ? high_sum : '0;
    macs_o <= rst_ni ? low_sum_q + high_sum_q : '0;
  end

  always_ff @(posedge clk_i) begin
    rd_half_o <= half_q;
    if (state_q == StTile) begin  // earlier, rows of the previous layer may be in flight
      k_o <= f.k;
      rd_two_o <= two_q;
    end
    rd_elem_o <= EW'(line_q) + EW'(col_q) + ((two_q && half_q) ? EW'(NB * ABUF_WORDS / 2) : base_q);
    rd_lo_o <= lo;
    rd_hi_o <= hi;
    rd_tag_o <= {row_q, bank_q, first_q, begin_q, last_row && last_pass};
    lanes_q <= (rd_hi_o > rd_lo_o) ? rd_hi_o - rd_lo_o : '0;
    nch1_q <= other_q ? nch << 1 : nch;
    nch2_q <= nch1_q;
    if (!rst_ni) begin
      rd_valid_o <= 1'b0;
      go2_q <= 1'b0;
    end else begin
      rd_valid_o <= go;
      go2_q <= rd_valid_o;
    end
  end
  assign swap_o = go && begin_q;

  // ---- the walk: what ends with the issued row, from the innermost loop to the outermost. During
  // reset nothing moves, not even registers without a reset value.
  logic in_idle, in_barrier, in_tile;
  logic step, ow_end, r_end, pass_end, item_end, visit_end, layer_end, layer_begin;
  assign in_idle = rst_ni && state_q == StIdle;
  assign in_barrier = rst_ni && state_q == StBarrier;
  assign in_tile = rst_ni && state_q == StTile;
  assign step = rst_ni && go;
  assign ow_end = step && last_ow_q;        // of an output row
  assign r_end = ow_end && last_r_q;        // of a sample
  assign pass_end = r_end && last_i_q;
  assign item_end = pass_end && last_pass;  // of a C tile of a row tile
  assign visit_end = item_end && tile_end;
  assign layer_end = visit_end && last_t_q && last_b_q && last_c;
  // data that were in the buffer before belong to the previous layer
  assign layer_begin = in_barrier && above_q == '0 && layers_written_i == layer_no_q;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle: if (layer_valid_i) state_d = StBarrier;
      StBarrier: if (layer_begin) state_d = (d.op == abi_pkg::OP_GEMM) ? StTile : StIdle;
      StTile: state_d = StRun;
      StRun: if (visit_end) state_d = layer_end ? StIdle : StTile;
      default: state_d = StIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      layer_no_q <= '0;
      start_q <= 1'b0;
      banks_q <= '0;
      bank_q <= 1'b0;
    end else begin
      state_q <= state_d;
      if (layer_begin) layer_no_q <= layer_no_q + 9'd1;
      if (in_idle && layer_valid_i) start_q <= start_d;
      // banks are filled and drained in turn, so a count tells which one is free
      banks_q <= banks_q + 2'(go && begin_q && first_q) - 2'(bank_free_i);
      if (item_end) bank_q <= !bank_q;
    end
  end

  // the layer
  always_ff @(posedge clk_i) begin
    if (in_idle) begin
      desc_q <= layer_desc_i;
      fbcb_q <= layer_fbcb_i;
      samp_q <= layer_samp_i;
      base_q <= '0;
      above_q <= '0;
      // not for pools: these may be written before that many cycles have passed
      if (layer_valid_i && layer_fbcb_i.keep_in && layer_desc_i.op == abi_pkg::OP_GEMM) above_q <= layer_desc_i.pad_t;
    end
    if (in_barrier) begin
      tc_q <= tc;
      two_q <= two;
      one_ow_q <= d.out_w == 16'd1;
      if (above_q != '0) begin
        above_q <= above_q - 8'd1;
        base_q <= base_q - EW'(d.in_row);
      end
    end
  end

  // sample blocks, row tiles
  always_ff @(posedge clk_i) begin
    if (in_idle) begin
      b0_q <= '0;
      oh0_q <= '0;
      half_q <= start_d;
    end else if (visit_end) begin
      oh0_q <= last_t_q ? '0 : oh0_q + nr_q;
      if (last_t_q) b0_q <= last_b_q ? '0 : b0_q + nb_q;
      if (!(f.order && one_tile)) half_q <= !half_q;
    end
    if (in_tile) begin
      nb_q <= nb;
      last_b_q <= last_b;
      rest_1_q <= rest_1;
      nr_q <= nr;
      last_t_q <= last_t;
      step_rows_q <= step_rows;
      ih_tile_q <= ih_tile_d;
    end else if (visit_end) begin
      ih_tile_q <= ih_tile_q + $signed({2'b0, step_rows_q});
    end
  end

  // C tiles
  always_ff @(posedge clk_i) begin
    if (in_idle || (item_end && c_end && last_c)) c0_q <= '0;
    else if (item_end && c_end) c0_q <= c0_q + tc_q;
  end

  // passes: kernel rows, in each the chunks. The last row of a pass is followed by one of the next
  // pass.
  logic [23:0]        p0_d, rest_d;
  logic [7:0]         kh_d;
  logic [EW:0]        kh_elem_d;
  always_comb begin
    p0_d = p0_q;
    rest_d = rest_q;
    kh_d = kh_q;
    kh_elem_d = kh_elem_q;
    if (last_row) begin
      p0_d = p0_q + 24'(lanes_k);
      rest_d = rest_q - 24'(lanes_k);
      if (last_chunk) begin
        p0_d = '0;
        rest_d = d.kwc;
        kh_d = kh_q + 8'd1;
        kh_elem_d = kh_elem_q + (EW + 1)'(d.in_row);
        if (last_kh) begin
          kh_d = '0;
          kh_elem_d = '0;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (in_tile) begin
      kh_q <= '0;
      p0_q <= '0;
      rest_q <= d.kwc;
      kh_elem_q <= '0;
      first_q <= 1'b1;
    end else if (pass_end) begin
      kh_q <= kh_d;
      p0_q <= p0_d;
      rest_q <= rest_d;
      kh_elem_q <= kh_elem_d;
      first_q <= last_pass;
    end
    if (in_tile || pass_end) begin
      begin_q <= 1'b1;
      row_q <= '0;
    end else if (step) begin
      begin_q <= 1'b0;
      row_q <= row_q + 1'b1;
    end
    if (step && begin_q) age_q <= 6'd1;
    else if (rst_ni && age_q < depth && (go || begin_q)) age_q <= age_q + 6'd1;
  end

  // rows: samples, output rows, output columns. The values of the registers are selected by
  // registers; only the enable depends on go, which is late.
  always_ff @(posedge clk_i) begin
    if (in_tile) begin
      i_q <= '0;
      last_i_q <= nb == 4'd1;
      other_q <= two_q && rest_1 != '0;
      r_left_q <= nr;
      last_r_q <= f.tile_rows == 12'd1 || oh0_q + 16'd1 == d.out_h;
      ow_left_q <= d.out_w;
      last_ow_q <= one_ow_q;
    end
    if (r_end) begin
      i_q <= i_q + 4'd1;
      last_i_q <= i_q + 4'd2 == nb_q;
      other_q <= two_q && i_q + 4'd1 < rest_1_q;
      if (last_i_q) begin
        i_q <= '0;
        last_i_q <= nb_q == 4'd1;
        other_q <= two_q && rest_1_q != '0;
      end
    end
    if (ow_end) begin
      r_left_q <= r_left_q - 16'd1;
      last_r_q <= r_left_q == 16'd2;
      if (last_r_q) begin
        r_left_q <= nr_q;
        last_r_q <= nr_q == 16'd1;
      end
    end
    if (step) begin
      ow_left_q <= ow_left_q - 16'd1;
      last_ow_q <= ow_left_q == 16'd2;
      if (last_ow_q) begin
        ow_left_q <= d.out_w;
        last_ow_q <= one_ow_q;
      end
    end
  end

  // position of a row's window: its line in the buffer, its place and input row, its columns
  always_ff @(posedge clk_i) begin
    if (in_tile) begin
      samp_elem_q <= '0;
      line_q <= '0;
      samp_row_q <= '0;
      place_q <= '0;
      ih_q <= ih_tile_d;
      col_q <= -$signed({2'b0, d.pad_col});
      right_q <= $signed({2'b0, d.in_row}) + $signed({2'b0, d.pad_col});
    end
    if (ow_end) begin
      line_q <= line_q + (EW + 1)'(d.step_row);
      place_q <= place_q + 16'(d.s_h);
      ih_q <= ih_q + $signed({10'b0, d.s_h});
      if (last_r_q) begin
        samp_elem_q <= samp_elem_q + (EW + 1)'(samp_q);
        line_q <= samp_elem_q + (EW + 1)'(samp_q) + kh_elem_q;
        samp_row_q <= samp_row_q + n_j;
        place_q <= samp_row_q + n_j + 16'(kh_q);
        ih_q <= ih_tile_q + $signed({10'b0, kh_q});
        if (last_i_q) begin
          samp_elem_q <= '0;
          line_q <= kh_elem_d;
          samp_row_q <= '0;
          place_q <= 16'(kh_d);
          ih_q <= ih_tile_q + $signed({10'b0, kh_d});
        end
      end
    end
    if (step) begin
      col_q <= col_q + $signed({2'b0, d.step_col});
      right_q <= right_q - $signed({2'b0, d.step_col});
      if (last_ow_q) begin
        col_q <= $signed({2'b0, p0_d}) - $signed({2'b0, d.pad_col});
        right_q <= $signed({2'b0, d.in_row}) + $signed({2'b0, d.pad_col}) - $signed({2'b0, p0_d});
      end
    end
  end

  logic unused;
  assign unused = ^{line_q[EW], col_q[25:EW]};
endmodule
