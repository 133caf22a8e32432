// Walks a pooling layer and issues one tap of up to NB channels a cycle: row tiles, in them
// (sample, output row, output column, channel group), in each the taps of the window. Where windows
// overlap along the width and are small, the walk is by columns: (sample, output row, input column,
// channel group), in each the taps of the column, of which the pool unit makes windows, so that every
// column is read once a row. A tap waits for its input row; a window, or a column that completes
// one, begins only when the pool unit has room for its result.
//
// With DEPTHWISE it walks depthwise layers for that unit too, by columns where windows are three wide: that unit sums
// any height of a column, and its columns may be of one tap.
module pool_seq #(
  parameter int unsigned NB         = 16,
  parameter int unsigned ABUF_WORDS = 1024,
  parameter int unsigned ROOM       = 4,     // results the pool unit can hold
  parameter int unsigned GROUPS     = 64,    // channel groups whose columns it remembers
  parameter int unsigned DEPTHWISE  = 0,
  localparam int unsigned LB = $clog2(NB),
  localparam int unsigned GW = $clog2(GROUPS),
  localparam int unsigned RW = $clog2(ROOM + 1),
  localparam int unsigned EW = $clog2(NB * ABUF_WORDS)
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
  input  logic [8:0]     bias_layers_i,  // layers whose tables are in place
  input  logic [31:0]    avail_i,        // of group 0
  output logic [1:0]     free_o,
  output logic           rd_valid_o,
  output logic           rd_half_o,
  output logic [EW-1:0]  rd_elem_o,
  output logic [LB:0]    rd_hi_o,        // lanes 0 .. hi-1
  output logic           rd_max_o,       // max pool: masked lanes read as -32768
  output logic [GW+LB+11:0] rd_tag_o,    // {channel group, gives a result, taps inside the image, first tap, last tap, channels}
  input  logic           result_taken_i,
  // depthwise unit
  input  logic           dw_full_i,      // the layer's weights are there
  input  logic [1:0]     dw_taken_i,
  output logic           dw_o,           // the layer is its; tag: taps is {release, restart}
  output logic [15:0]    dw_macs_o,      // of this cycle
  output logic           stall_acts_o,
  // layer parameters for the pool unit
  output logic           avg_o,
  output logic           wide_o,         // a window may have more than 512 taps (in the law: Geom.WideAverage)
  output logic [1:0]     cols_o,         // by columns, of windows three wide
  output logic           table_o,        // M by the count of taps
  output logic           table_half_o,
  output logic [16:0]    avg_mul_o,
  output logic [5:0]     avg_shift_o,
  output logic [15:0]    clamp_lo_o,
  output logic [15:0]    clamp_hi_o
);
  typedef enum logic [1:0] {StIdle, StBarrier, StTile, StRun} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  logic [23:0]    samp_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [8:0]    layer_no_q;     // layers taken since the start
  assign d = desc_q;
  assign f = fbcb_q;

  // a kept tensor (KEEP_IN): as in gemm_seq
  logic           start_q, start_d;
  logic [EW-1:0]  base_q;
  logic [7:0]     above_q;
  assign start_d = layer_fbcb_i.keep_in && !start_q;

  logic [3:0]         b0_q, nb, nb_q, i_q;
  logic [15:0]        oh0_q, nr, nr_q, step_rows, step_rows_q, n_j, c0_q, rest_c_q;
  logic [15:0]        r_q;            // rows of the tile, and samples i_q, count from one
  logic [15:0]        ow_left_q;      // results of the row behind this one
  logic [7:0]         kh_q, kw_q;
  logic               half_q;
  logic signed [17:0] ih_tile_q, ih_row_q, ih_q, iw_col_q, iw_q;
  logic [EW:0]        samp_elem_q, row_elem_q, line_q;
  logic [15:0]        samp_place_q, row_place_q, place_q;
  logic signed [25:0] col_q, tap_q;
  logic [RW-1:0]      room_q;

  // Condition for the walk by columns (in the law: Geom.ByColumns). A column needs at least two
  // taps: the pool unit reads the stored columns of a group before the next column of the group
  // ends.
  logic by_columns, cols_q, dw;
  assign dw = DEPTHWISE != 0 && d.op == abi_pkg::OP_DEPTHWISE;
  assign by_columns = dw ? d.k_w == 8'd3 && d.s_w < 8'd3 && d.in_c <= 16'(GROUPS * NB)
                      : (d.k_w == 8'd2 || d.k_w == 8'd3) && d.s_w < d.k_w && d.k_h >= 8'd2
                      && d.k_h <= 8'd4 && d.in_c <= 16'(GROUPS * NB);
  // a window's taps are at most 2 to the bits of its sides: no product
  logic [4:0] side_bits;
  function automatic logic [3:0] bits(logic [7:0] k);
    bits = '0;
    for (int unsigned i = 0; i < 8; i++) begin
      if (9'(k) > 9'd1 << i) bits = 4'(i + 1);
    end
  endfunction
  assign side_bits = 5'(bits(d.k_h)) + 5'(bits(d.k_w));
  // number of columns without a result: before the first result, between two results, from here on
  logic [1:0] lead_q, gap_q, skip_q;

  assign nb = ({1'b0, b0_q} + {1'b0, f.tile_b} > {1'b0, b_act_i}) ? b_act_i - b0_q : f.tile_b;
  assign nr = (oh0_q + 16'(f.tile_rows) > d.out_h) ? d.out_h - oh0_q : 16'(f.tile_rows);
  assign step_rows = (d.s_h[0] ? nr : 16'd0) + (d.s_h[1] ? nr << 1 : 16'd0)
                   + (d.s_h[2] ? nr << 2 : 16'd0) + (d.s_h[3] ? nr << 3 : 16'd0);
  assign n_j = step_rows_q - 16'(d.s_h) + 16'(d.k_h);
  logic signed [17:0] iw_step;
  logic signed [25:0] col_step;
  assign iw_step = cols_q ? 18'sd1 : $signed({10'b0, d.s_w});
  assign col_step = cols_q ? $signed({10'b0, d.in_c}) : $signed({2'b0, d.step_col});

  logic emit;
  // for the window's taps, known one tap ahead
  logic first_tap_q, last_kw_q, last_kh_q, one_kw_q, one_kh_q;
  logic last_cg, last_ow, last_r, last_i, last_t_q, last_b_q;
  assign last_cg = rest_c_q <= 16'(NB);
  assign last_ow = emit && ow_left_q == '0;
  assign last_r = r_q == nr_q;
  assign last_i = i_q == nb_q;

  logic last_tap, row_in, col_in, tap_in, act_ok, go, end_tile;
  logic [15:0] avail;
  logic [LB:0] channels;
  logic [7:0]  taps_q, taps;        // of the window so far, this one included; by columns: its rows
  logic [1:0]  beside_q, columns;   // two columns before, inside; columns of the window inside
  logic [3:0]  in_window;
  assign taps = (first_tap_q ? 8'd0 : taps_q) + 8'(row_in && (cols_q || col_in));
  assign columns = 2'(col_in) + 2'(beside_q[0]) + 2'(beside_q[1] && lead_q[1]);
  assign in_window = (columns[0] ? taps[3:0] : 4'd0) + (columns[1] ? {taps[2:0], 1'b0} : 4'd0);
  assign emit = skip_q == '0;
  assign avail = half_q ? avail_i[31:16] : avail_i[15:0];
  assign last_tap = last_kh_q && last_kw_q;
  assign row_in = (ih_q >= 0) && (ih_q < $signed({2'b0, d.in_h}));
  assign col_in = (iw_q >= 0) && (iw_q < $signed({2'b0, d.in_w}));
  assign tap_in = row_in && col_in;
  assign act_ok = place_q < avail || avail == '1;   // a kept tensor is all there
  assign channels = (rest_c_q >= 16'(NB)) ? (LB + 1)'(NB) : (LB + 1)'(rest_c_q);
  assign go = state_q == StRun && act_ok && !(first_tap_q && emit && room_q == '0);
  assign end_tile = last_tap && last_cg && last_ow && last_r && last_i;

  assign layer_ready_o = state_q == StIdle;
  assign stall_acts_o = state_q == StRun && !act_ok;
  assign free_o = {2{go && end_tile}} & {half_q, !half_q};
  // taken when the previous layer has been written: until then the pool unit may need the old
  // values
  always_ff @(posedge clk_i) begin
    if (state_q == StTile) begin
      avg_o <= d.op == abi_pkg::OP_AVG_POOL;
      dw_o <= dw;
      cols_o <= {lead_q[1], cols_q};
      wide_o <= side_bits > 5'd9;
      table_o <= d.avg_table;
      table_half_o <= !layer_no_q[0];   // counted already
      avg_mul_o <= d.avg_mul;
      avg_shift_o <= d.avg_shift;
      clamp_lo_o <= d.clamp_lo;
      clamp_hi_o <= d.clamp_hi;
    end
  end

  always_ff @(posedge clk_i) begin
    rd_half_o <= half_q;
    rd_elem_o <= EW'(line_q) + EW'(tap_q) + EW'(c0_q) + base_q;
    rd_hi_o <= tap_in ? channels : '0;
    rd_max_o <= !avg_o && !dw_o;
    if (go) taps_q <= taps;
    rd_tag_o <= {c0_q[LB+:GW], emit, dw ? {6'b0, end_tile && last_t_q && last_b_q, last_tap && last_cg}
                                             : (cols_q ? {4'b0, in_window} : taps), first_tap_q, last_tap, channels};
    // a column that ends a window: three taps a row of it
    dw_macs_o <= (rst_ni && go && dw && emit) ? 16'(channels) + (cols_q ? {15'(channels), 1'b0} : '0) : '0;
    if (!rst_ni) rd_valid_o <= 1'b0;
    else rd_valid_o <= go;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      layer_no_q <= '0;
      room_q <= RW'(ROOM);
      start_q <= 1'b0;
    end else begin
      room_q <= room_q + RW'(result_taken_i) + RW'(dw_taken_i) - RW'(go && first_tap_q && emit);
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          samp_q <= layer_samp_i;
          b0_q <= '0;
          oh0_q <= '0;
          half_q <= start_d;
          base_q <= '0;
          above_q <= '0;
          if (layer_valid_i) begin
            start_q <= start_d;
            if (layer_fbcb_i.keep_in) above_q <= layer_desc_i.pad_t;
            state_q <= StBarrier;
          end
        end
        StBarrier: begin  // data that were in the buffer before belong to the previous layer
          cols_q <= by_columns;
          lead_q <= by_columns ? 2'(d.k_w - 8'd1) : 2'd0;
          gap_q <= by_columns ? 2'(d.s_w - 8'd1) : 2'd0;
          if (above_q != '0) begin
            above_q <= above_q - 8'd1;
            base_q <= base_q - EW'(d.in_row);
          end else if (layers_written_i == layer_no_q && (!d.avg_table || bias_layers_i != layer_no_q)
                       && (!dw || dw_full_i)) begin
            layer_no_q <= layer_no_q + 9'd1;
            state_q <= (d.op == abi_pkg::OP_GEMM) ? StIdle : StTile;
          end
        end
        StTile: begin
          nr_q <= nr;
          nb_q <= nb;
          last_t_q <= 17'(oh0_q) + 17'(f.tile_rows) >= 17'(d.out_h);
          last_b_q <= {1'b0, b0_q} + {1'b0, f.tile_b} >= {1'b0, b_act_i};
          step_rows_q <= step_rows;
          skip_q <= lead_q;
          i_q <= 4'd1;
          r_q <= 16'd1;
          ow_left_q <= d.out_w - 16'd1;
          c0_q <= '0;
          rest_c_q <= d.in_c;
          kh_q <= '0;
          kw_q <= '0;
          one_kw_q <= cols_q || d.k_w == 8'd1;
          last_kw_q <= cols_q || d.k_w == 8'd1;
          one_kh_q <= d.k_h == 8'd1;
          last_kh_q <= d.k_h == 8'd1;
          first_tap_q <= 1'b1;
          samp_elem_q <= '0;
          row_elem_q <= '0;
          line_q <= '0;
          samp_place_q <= '0;
          row_place_q <= '0;
          place_q <= '0;
          ih_tile_q <= (oh0_q == '0) ? -$signed({10'b0, d.pad_t}) : ih_tile_q;
          ih_row_q <= (oh0_q == '0) ? -$signed({10'b0, d.pad_t}) : ih_tile_q;
          ih_q <= (oh0_q == '0) ? -$signed({10'b0, d.pad_t}) : ih_tile_q;
          iw_col_q <= -$signed({10'b0, d.pad_l});
          iw_q <= -$signed({10'b0, d.pad_l});
          col_q <= -$signed({2'b0, d.pad_col});
          tap_q <= -$signed({2'b0, d.pad_col});
          state_q <= StRun;
        end
        StRun: begin
          if (go) begin
            // next tap of the window
            kw_q <= kw_q + 8'd1;
            iw_q <= iw_q + 18'sd1;
            tap_q <= tap_q + $signed({10'b0, d.in_c});
            last_kw_q <= kw_q + 8'd2 == d.k_w;
            first_tap_q <= last_tap;
            if (last_kw_q) begin
              kw_q <= '0;
              last_kw_q <= one_kw_q;
              iw_q <= iw_col_q;
              tap_q <= col_q;
              kh_q <= kh_q + 8'd1;
              last_kh_q <= kh_q + 8'd2 == d.k_h;
              ih_q <= ih_q + 18'sd1;
              line_q <= line_q + (EW + 1)'(d.in_row);
              place_q <= place_q + 16'd1;
              if (last_kh_q) begin
                // next channel group of the same window
                kh_q <= '0;
                last_kh_q <= one_kh_q;
                ih_q <= ih_row_q;
                line_q <= row_elem_q;
                place_q <= row_place_q;
                c0_q <= c0_q + 16'(NB);
                rest_c_q <= rest_c_q - 16'(NB);
                if (last_cg) begin
                  c0_q <= '0;
                  rest_c_q <= d.in_c;
                  ow_left_q <= ow_left_q - 16'(emit);
                  skip_q <= emit ? gap_q : skip_q - 2'd1;
                  beside_q <= {beside_q[0], col_in};
                  iw_col_q <= iw_col_q + iw_step;
                  iw_q <= iw_col_q + iw_step;
                  col_q <= col_q + col_step;
                  tap_q <= col_q + col_step;
                  if (last_ow) begin
                    ow_left_q <= d.out_w - 16'd1;
                    skip_q <= lead_q;
                    iw_col_q <= -$signed({10'b0, d.pad_l});
                    iw_q <= -$signed({10'b0, d.pad_l});
                    col_q <= -$signed({2'b0, d.pad_col});
                    tap_q <= -$signed({2'b0, d.pad_col});
                    r_q <= r_q + 16'd1;
                    ih_row_q <= ih_row_q + $signed({10'b0, d.s_h});
                    ih_q <= ih_row_q + $signed({10'b0, d.s_h});
                    row_elem_q <= row_elem_q + (EW + 1)'(d.step_row);
                    line_q <= row_elem_q + (EW + 1)'(d.step_row);
                    row_place_q <= row_place_q + 16'(d.s_h);
                    place_q <= row_place_q + 16'(d.s_h);
                    if (last_r) begin
                      r_q <= 16'd1;
                      i_q <= i_q + 4'd1;
                      ih_row_q <= ih_tile_q;
                      ih_q <= ih_tile_q;
                      samp_elem_q <= samp_elem_q + (EW + 1)'(samp_q);
                      row_elem_q <= samp_elem_q + (EW + 1)'(samp_q);
                      line_q <= samp_elem_q + (EW + 1)'(samp_q);
                      samp_place_q <= samp_place_q + n_j;
                      row_place_q <= samp_place_q + n_j;
                      place_q <= samp_place_q + n_j;
                      if (last_i) begin
                        half_q <= !half_q;
                        oh0_q <= oh0_q + nr_q;
                        ih_tile_q <= ih_tile_q + $signed({2'b0, step_rows_q});
                        state_q <= StTile;
                        if (last_t_q) begin
                          oh0_q <= '0;
                          b0_q <= b0_q + nb_q;
                          if (last_b_q) state_q <= StIdle;
                        end
                      end
                    end
                  end
                end
              end
            end
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  logic unused;
  assign unused = ^{line_q[EW], tap_q[25:EW]};
endmodule
