// Fills the halves of the activation buffer in turn with row tiles (layout: hw/README.md). A layer
// begins when the previous layer is in DRAM (layers_written_i), a tile when its half is free. Rows
// outside the image need no memory traffic but keep their place.
//
// Loop order 1 (C tiles outermost) loads all row tiles again for every C tile, unless both halves
// together hold them.
//
// With one sample group a tile fills a half. With two (s = 2) group g's samples go to half g, and the
// two tiles in flight share each half, the odd one beginning in its middle.
//
// A tensor kept by the previous layer (KEEP_IN) is ready when that layer has ended. It is in the
// half that the previous layer did not read, and this layer begins with that half.
//
// avail_o counts, for each group and tile in flight, the row places whose data have arrived, in
// order, so that computing starts long before a tile is complete. free_i releases a tile's places.
module act_loader #(
  parameter int unsigned T_C        = 32,
  parameter int unsigned NB         = 16,
  parameter int unsigned ABUF_WORDS = 1024,
  parameter int unsigned AXI_BYTES  = 8,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX,
  localparam int unsigned EW = $clog2(NB * ABUF_WORDS),
  localparam int unsigned WPB = AXI_BYTES / 2,
  localparam int unsigned OW = $clog2(WPB)
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic [3:0]        b_act_i,
  input  logic [BM*AW-1:0]  slot_addr_i,
  input  logic [31:0]       slot_stride_i,
  input  logic [8:0]        layers_written_i,
  // layer
  input  logic              layer_valid_i,
  output logic              layer_ready_o,
  input  abi_pkg::desc_t    layer_desc_i,
  input  abi_pkg::fbcb_t    layer_fbcb_i,
  input  logic [23:0]       layer_samp_i,
  // reads
  output logic              req_valid_o,
  input  logic              req_ready_i,
  output logic [AW-1:0]     req_addr_o,
  output logic [15:0]       req_beats_o,
  input  logic              rsp_valid_i,
  input  logic              rsp_last_i,
  input  logic [AXI_BYTES*8-1:0] rsp_data_i,
  // buffer
  output logic              wr_half_o,
  output logic [EW-1:0]     wr_elem_o,
  output logic [WPB-1:0]    wr_mask_o,
  output logic [AXI_BYTES*8-1:0] wr_data_o,
  // tokens
  output logic [63:0]       avail_o,        // counts of 16 bit: {group, tile in flight}
  input  logic [1:0]        free_i,         // pulse per tile in flight
  // errors
  output logic              err_valid_o,    // a tensor leaves its slot
  output logic [31:0]       err_addr_o
);
  typedef enum logic [3:0] {
    StIdle, StBarrier, StPad, StHalf, StRow, StRun, StNext, StAdvance, StError
  } state_e;
  state_e state_q;

  logic [8:0]     layer_no_q;     // layers taken since the start
  // each unit reads only its part of the descriptor
  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  logic [23:0]    samp_q;
  /* verilator lint_on UNUSEDSIGNAL */
  assign d = desc_q;
  assign f = fbcb_q;

  logic               start_q, start_d, kept_go;  // half in which the layer begins
  assign start_d = layer_fbcb_i.keep_in && !start_q;
  assign kept_go = state_q == StBarrier && f.keep_in && layers_written_i == layer_no_q;

  logic [1:0]         busy_q;     // tiles in flight
  logic               half_q;     // the tile being loaded
  logic               two, group_q, other;
  logic [3:0]         b0_q, i_q;
  logic [15:0]        oh0_q, j_q, n_j;
  logic signed [17:0] ih0_q, ih_q;
  logic signed [33:0] init_off_q, tile_off_q, row_off_q, next_off_q;
  logic [7:0]         pad_q;
  logic               next_known_q;
  logic [15:0]        pix_q;
  logic [EW:0]        dst_i_q, dst_j_q, dst_p_q;

  logic [3:0]  nb, rest_1, rest_1_q;
  logic [15:0] nr, nr_q, step_rows, step_rows_q;
  logic        last_i, last_j, last_tile_rows, last_b, few, last_c, last_rows_q, last_b_q, last_c_q;
  logic [15:0] tc, c0_q;
  logic        row_in, whole_row, whole_row_q;
  logic [34:0] row_start, run_off_q, run_off_d;  // in the image no offset is negative; the sum fits
  logic [AW-1:0] run_addr_q;
  logic [2:0]  slot_q;              // of the tensor, known a cycle before its row
  logic [23:0] run_elems_q, run_words;
  logic signed [35:0] last_off_q;  // the last offset in a slot at which a run may begin
  logic [OW-1:0] run_skip;
  logic        meta_ready, run_go, out_of_slot_q;

  tile_size #(.T_C(T_C)) u_size (
    .fbcb_i(fbcb_q), .b_act_i, .b0_i(b0_q), .two_o(two), .tc_o(tc), .nb_o(nb), .rest_1_o(rest_1)
  );
  assign other = !group_q && i_q < rest_1_q;
  assign nr = (oh0_q + 16'(f.tile_rows) > d.out_h) ? d.out_h - oh0_q : 16'(f.tile_rows);
  // rows times stride without a multiplier: strides are at most 15
  assign step_rows = (d.s_h[0] ? nr : 16'd0) + (d.s_h[1] ? nr << 1 : 16'd0)
                   + (d.s_h[2] ? nr << 2 : 16'd0) + (d.s_h[3] ? nr << 3 : 16'd0);
  assign last_i = i_q + 4'd1 == nb;
  // input rows of this tile: (nr - 1) * S_H + K_H
  assign n_j = step_rows_q - 16'(d.s_h) + 16'(d.k_h);
  assign last_j = j_q + 16'd1 == n_j;
  assign last_tile_rows = oh0_q + nr_q == d.out_h;
  assign last_b = b0_q + nb == f.b_r;
  assign few = (f.tile_b >= f.b_r && {4'b0, f.tile_rows, 1'b0} >= {1'b0, d.out_h})
               || (16'(f.tile_rows) >= d.out_h && {f.tile_b, 1'b0} >= {1'b0, f.b_r});
  assign last_c = !f.order || few || c0_q + tc >= d.out_c;
  assign row_in = (ih_q >= 0) && (ih_q < $signed({2'b0, d.in_h}));
  assign whole_row = d.in_pix == d.in_c;

  assign row_start = 35'(d.in_offset) + {1'b0, row_off_q};
  assign run_off_d = (state_q == StRow) ? row_start : run_off_q + 35'({d.in_pix, 1'b0});
  assign run_skip = run_addr_q[OW:1];
  assign run_words = run_elems_q + 24'(run_skip);
  assign run_go = state_q == StRun && meta_ready && !out_of_slot_q;

  assign req_valid_o = run_go;
  assign req_addr_o = {run_addr_q[AW-1:OW+1], {(OW + 1) {1'b0}}};
  assign req_beats_o = 16'((run_words + 24'(WPB - 1)) >> OW);
  assign layer_ready_o = state_q == StIdle;
  assign err_valid_o = state_q == StError;
  assign err_addr_o = run_off_q[31:0];

  // ---- expected runs, in order
  localparam int unsigned MW = 1 + 1 + EW + 24 + OW;
  logic          run_push, run_meta_ready, place_push, place_ready, meta_pop, meta_unused;
  logic          m_half, m_done;
  logic [EW-1:0] m_dst;
  logic [23:0]   m_elems;
  logic [OW-1:0] m_skip;
  logic          null_row, last_pix;
  assign null_row = state_q == StRow && !row_in;
  assign last_pix = whole_row_q || (pix_q + 16'd1 == d.in_w);
  assign meta_ready = run_meta_ready && place_ready;
  assign run_push = run_go && req_ready_i;
  fifo #(.WIDTH(MW), .DEPTH(64)) u_meta (
    .clk_i,
    .rst_ni,
    .valid_i(run_push),
    .ready_o(run_meta_ready),
    .wdata_i({two ? group_q : half_q, last_pix, dst_p_q[EW-1:0], run_elems_q, run_skip}),
    .valid_o(meta_unused),
    .ready_i(meta_pop),
    .rdata_o({m_half, m_done, m_dst, m_elems, m_skip})
  );

  // ---- row places in order, each marked if it waits for data. This needs a separate queue:
  // answers cannot be held up and must find their run while places without data are still being
  // counted.
  logic       place_valid, place_pop, place_group, place_half, place_null;
  logic [6:0] rows_q;            // rows whose data have arrived but are not counted yet
  assign place_push = (null_row && meta_ready) || (run_push && last_pix);
  assign place_pop = place_valid && (place_null || rows_q != '0);
  fifo #(.WIDTH(3), .DEPTH(64)) u_place (
    .clk_i,
    .rst_ni,
    .valid_i(place_push),
    .ready_o(place_ready),
    .wdata_i({group_q, half_q, null_row}),
    .valid_o(place_valid),
    .ready_i(place_pop),
    .rdata_o({place_group, place_half, place_null})
  );

  // ---- answers into the banks
  logic          begun_q;
  logic [EW-1:0] cur_q;
  logic [23:0]   left_q;
  logic [EW-1:0] elem;
  logic [23:0]   left;
  logic [OW-1:0] skip;
  assign elem = begun_q ? cur_q : m_dst - EW'(m_skip);
  assign left = begun_q ? left_q : m_elems + 24'(m_skip);
  assign skip = begun_q ? '0 : m_skip;
  assign meta_pop = rsp_valid_i && rsp_last_i;

  always_ff @(posedge clk_i) begin
    wr_half_o <= m_half;
    wr_elem_o <= elem;
    wr_data_o <= rsp_data_i;
    for (int unsigned i = 0; i < WPB; i++) begin
      wr_mask_o[i] <= rst_ni && rsp_valid_i && (OW'(i) >= skip) && (24'(i) < left);
    end
    if (rsp_valid_i) begin
      cur_q <= elem + EW'(WPB);
      left_q <= left - 24'(WPB);
    end
  end

  // ---- row places available; one cycle after the write, so that the data are in the banks
  logic [15:0] avail_q[4];
  assign avail_o = {avail_q[3], avail_q[2], avail_q[1], avail_q[0]};
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      begun_q <= 1'b0;
      rows_q <= '0;
      for (int unsigned h = 0; h < 4; h++) avail_q[h] <= '0;
    end else begin
      if (rsp_valid_i) begun_q <= !rsp_last_i;
      rows_q <= rows_q + 7'(meta_pop && m_done) - 7'(place_pop && !place_null);
      for (int unsigned h = 0; h < 4; h++) begin
        if (kept_go && {1'b0, half_q} == 2'(h)) avail_q[h] <= '1;
        else if (free_i[h%2]) avail_q[h] <= '0;
        else if (place_pop && {place_group, place_half} == 2'(h)) avail_q[h] <= avail_q[h] + 16'd1;
      end
    end
  end

  // Constants of a layer, and whether the tile is its last one. They are registered two cycles
  // after their sources, early enough: rows begin, and tiles end, later than that.
  always_ff @(posedge clk_i) begin
    last_rows_q <= last_tile_rows;
    last_b_q <= last_b;
    last_c_q <= last_c;
    whole_row_q <= whole_row;
    run_elems_q <= whole_row ? d.in_row : 24'(d.in_c);
    last_off_q <= $signed({4'b0, slot_stride_i}) - $signed({11'b0, run_elems_q, 1'b0});
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      layer_no_q <= '0;
      busy_q <= '0;
      start_q <= 1'b0;
    end else begin
      if (free_i[0]) busy_q[0] <= 1'b0;
      if (free_i[1]) busy_q[1] <= 1'b0;
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          samp_q <= layer_samp_i;
          init_off_q <= '0;
          pad_q <= '0;
          half_q <= start_d;
          if (layer_valid_i) begin
            start_q <= start_d;
            state_q <= StPad;
          end
        end
        StPad: begin  // offset of the first row place: PAD_T rows above the image
          pad_q <= pad_q + 8'd1;
          init_off_q <= init_off_q - $signed({2'b0, d.in_row_bytes});
          if (pad_q == d.pad_t) begin
            init_off_q <= init_off_q;
            state_q <= StBarrier;
          end
          b0_q <= '0;
          oh0_q <= '0;
          c0_q <= '0;
        end
        StBarrier: begin
          tile_off_q <= init_off_q;
          ih0_q <= -$signed({10'b0, d.pad_t});
          if (kept_go) begin
            busy_q[half_q] <= 1'b1;
            layer_no_q <= layer_no_q + 9'd1;
            state_q <= StIdle;
          end else if (layers_written_i == layer_no_q) begin
            state_q <= StHalf;
          end
        end
        StHalf: begin
          i_q <= '0;
          slot_q <= 3'(b0_q);
          j_q <= '0;
          nr_q <= nr;
          rest_1_q <= rest_1;
          step_rows_q <= step_rows;
          ih_q <= ih0_q;
          row_off_q <= tile_off_q;
          dst_i_q <= (two && half_q) ? (EW + 1)'(NB * ABUF_WORDS / 2) : '0;
          dst_j_q <= '0;
          dst_p_q <= (two && half_q) ? (EW + 1)'(NB * ABUF_WORDS / 2) : '0;
          group_q <= 1'b0;
          pix_q <= '0;
          next_known_q <= 1'b0;
          if (!busy_q[half_q]) begin
            busy_q[half_q] <= 1'b1;
            state_q <= StRow;
          end
        end
        StRow: begin
          run_off_q <= run_off_d;
          out_of_slot_q <= $signed({1'b0, run_off_d}) > last_off_q;
          run_addr_q <= slot_addr_i[slot_q*AW+:AW] + AW'(row_start);
          if (j_q == step_rows_q) begin
            next_off_q <= row_off_q;
            next_known_q <= 1'b1;
          end
          if (row_in) state_q <= StRun;
          else if (meta_ready) state_q <= StNext;
        end
        StRun: begin
          if (out_of_slot_q) begin
            state_q <= StError;
          end else if (meta_ready && req_ready_i) begin
            pix_q <= pix_q + 16'd1;
            run_off_q <= run_off_d;
            out_of_slot_q <= $signed({1'b0, run_off_d}) > last_off_q;
            run_addr_q <= run_addr_q + AW'({d.in_pix, 1'b0});
            dst_p_q <= dst_p_q + (EW + 1)'(d.in_c);
            if (last_pix) state_q <= StNext;
          end
        end
        StNext: begin
          pix_q <= '0;
          j_q <= j_q + 16'd1;
          ih_q <= ih_q + 18'sd1;
          row_off_q <= row_off_q + $signed({2'b0, d.in_row_bytes});
          dst_j_q <= dst_j_q + (EW + 1)'(d.in_row);
          dst_p_q <= dst_i_q + dst_j_q + (EW + 1)'(d.in_row);
          state_q <= StRow;
          if (last_j) begin
            group_q <= other;
            slot_q <= other ? 3'(slot_q + f.b_r[2:0]) : 3'(b0_q + i_q + 4'd1);
            if (other) begin
              j_q <= '0;
              ih_q <= ih0_q;
              row_off_q <= tile_off_q;
              dst_j_q <= '0;
              dst_p_q <= dst_i_q;
            end else if (last_i) begin
              state_q <= StAdvance;
            end else begin
              i_q <= i_q + 4'd1;
              j_q <= '0;
              ih_q <= ih0_q;
              row_off_q <= tile_off_q;
              dst_i_q <= dst_i_q + (EW + 1)'(samp_q);
              dst_j_q <= '0;
              dst_p_q <= dst_i_q + (EW + 1)'(samp_q);
            end
          end
        end
        StAdvance: begin  // to the next tile; if K_H < S_H its first row still has to be reached
          if (last_rows_q) begin
            half_q <= !half_q;
            oh0_q <= '0;
            b0_q <= last_b_q ? '0 : b0_q + nb;
            if (last_b_q) c0_q <= c0_q + tc;
            state_q <= (last_b_q && last_c_q) ? StIdle : StBarrier;
            if (last_b_q && last_c_q) layer_no_q <= layer_no_q + 9'd1;
          end else if (next_known_q || j_q == step_rows_q) begin
            half_q <= !half_q;
            oh0_q <= oh0_q + nr_q;
            ih0_q <= ih0_q + $signed({2'b0, step_rows_q});
            tile_off_q <= next_known_q ? next_off_q : row_off_q;
            state_q <= StHalf;
          end else begin
            j_q <= j_q + 16'd1;
            row_off_q <= row_off_q + $signed({2'b0, d.in_row_bytes});
          end
        end
        StError: ;
        default: state_q <= StIdle;
      endcase
    end
  end

  logic unused;
  assign unused = ^{meta_unused, dst_i_q[EW], dst_j_q[EW], dst_p_q[EW], run_addr_q[0]};
endmodule
