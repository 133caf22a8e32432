// Generates the DRAM runs (address, elements) of a layer's output, or of its residual, in the order
// in which the drain produces words: row tiles and C tiles in the layer's loop order, sample
// groups, samples, output rows, and pixels if a C tile holds only a part of the channels in DRAM
// (otherwise a whole output row is one run). One run per cycle, except for one cycle between tiles;
// done_o pulses when the last run of the layer has been taken.
//
// The sizes of a tile are computed in a separate state. A run passes two registers: first its start
// in the tensor, then its address and bounds. The second is a spill register, so that run_ready_i
// affects nothing else. So run_gen is a few runs ahead, perhaps in the next layer; the properties
// of a run (pool_o, keep_o, keep_half_o, local_o, run_elem_o) are passed along with it.
module run_gen #(
  parameter int unsigned T_C      = 32,
  parameter bit          RESIDUAL = 1'b0,
  parameter int unsigned DEPTHWISE = 0,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [3:0]       b_act_i,
  input  logic [BM*AW-1:0] slot_addr_i,
  input  logic [31:0]      slot_stride_i,
  input  logic             layer_valid_i,
  output logic             layer_ready_o,
  input  abi_pkg::desc_t   layer_desc_i,
  input  abi_pkg::fbcb_t   layer_fbcb_i,
  output logic             run_valid_o,
  input  logic             run_ready_i,
  output logic [AW-1:0]    run_addr_o,
  output logic [23:0]      run_elems_o,
  output logic             pool_o,        // the layer's words come from the pool unit
  output logic             keep_o,        // the layer's words go to half keep_half_o on chip
  output logic             keep_half_o,
  output logic             local_o,       // and only there
  output logic [23:0]      run_elem_o,    // where on chip: samples without a gap
  output logic             done_o,
  output logic             err_valid_o,   // the tensor leaves its slot
  output logic [31:0]      err_addr_o
);
  typedef enum logic [1:0] {StIdle, StTest, StTile, StRun} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  /* verilator lint_on UNUSEDSIGNAL */
  assign d = desc_q;
  assign f = fbcb_q;

  logic           start_q, start_d;      // half in which the layer's input lies
  logic [31:0]    samp_off_q;
  assign start_d = layer_fbcb_i.keep_in && !start_q;

  logic [31:0] base, row_bytes;
  logic [15:0] pix;
  if (RESIDUAL) begin : gen_res
    assign base = d.res_offset;
    assign row_bytes = d.res_row_bytes;
    assign pix = d.res_pix;
  end else begin : gen_out
    assign base = d.out_offset;
    assign row_bytes = d.out_row_bytes;
    assign pix = d.out_pix;
  end

  // ---- the layer (StTest) and the tile (StTile)
  logic        is_pool, dw, two, one_c, two_q, one_c_q, whole_row_q;
  logic [15:0] tc, tc_q;
  logic [3:0]  b0_q, nb, rest_1, nb_q, rest_1_q;
  logic        last_c, last_t, last_b, last_c_q, last_t_q, last_b_q;
  logic [15:0] c0_q, c_rest_q, oh_rest_q;  // channel; channels and rows from the tile on
  logic [15:0] nr, nr_q, nch, nch_q;
  logic [33:0] tile_base_q;                // of the tile's channels in the tensor

  assign is_pool = d.op != abi_pkg::OP_GEMM;  // or like one
  assign dw = DEPTHWISE != 0 && d.op == abi_pkg::OP_DEPTHWISE;  // drain's words
  tile_size #(.T_C(T_C)) u_size (
    .fbcb_i(fbcb_q), .b_act_i, .b0_i(b0_q), .two_o(two), .tc_o(tc), .nb_o(nb), .rest_1_o(rest_1)
  );
  assign one_c = is_pool || d.out_c <= tc;
  assign last_c = one_c_q || c_rest_q <= tc_q;
  assign last_t = oh_rest_q <= 16'(f.tile_rows);
  assign last_b = b0_q + nb == f.b_r;
  assign nr = last_t ? oh_rest_q : 16'(f.tile_rows);
  assign nch = last_c ? c_rest_q : tc_q;

  // ---- runs of a tile
  logic [3:0]  i_q, nb_g;
  logic        group_q, last_ow, last_r, last_i, last_g, tile_end, layer_end, go;
  logic [15:0] r_left_q, ow_left_q;
  // After a run that leaves the slot, a few more are computed, of less than 2^25 bytes each:
  // offsets stay below 2^33, so their sum does not overflow.
  logic [32:0] tile_off_q, row_off_q, pix_off_q;
  assign nb_g = (group_q && rest_1_q < nb_q) ? rest_1_q : nb_q;
  assign last_g = group_q || !two_q || rest_1_q == '0;
  assign last_ow = whole_row_q || ow_left_q == 16'd1;
  assign last_r = r_left_q == 16'd1;
  assign last_i = i_q + 4'd1 == nb_g;
  assign tile_end = last_ow && last_r && last_i && last_g;
  assign layer_end = tile_end && last_c_q && last_t_q && last_b_q;

  // ---- a run: where it begins
  logic        a_valid_q, a_ready;
  logic [34:0] a_off_q;
  logic [24:1] a_elem_q;
  logic [23:0] a_elems_q;
  logic [2:0]  a_slot_q;
  logic        a_pool_q, a_keep_q, a_half_q, a_local_q, a_last_q;
  /* verilator lint_off UNUSEDSIGNAL */
  logic [31:0] kept_off;
  /* verilator lint_on UNUSEDSIGNAL */
  assign kept_off = samp_off_q + row_off_q[31:0] + pix_off_q[31:0] + {15'b0, c0_q, 1'b0};
  assign go = state_q == StRun && (!a_valid_q || a_ready);
  always_ff @(posedge clk_i) begin
    if (go) begin
      a_off_q <= 35'(tile_base_q) + 35'(row_off_q) + 35'(pix_off_q);
      a_elem_q <= kept_off[24:1];
      a_elems_q <= whole_row_q ? row_bytes[24:1] : 24'(nch_q);
      a_slot_q <= 3'(b0_q + i_q + (group_q ? f.b_r : 4'd0));
      a_pool_q <= is_pool && !dw;
      a_keep_q <= f.keep_out;
      a_half_q <= !start_q;
      a_local_q <= f.on_chip;
      a_last_q <= layer_end;
    end
    if (!rst_ni) a_valid_q <= 1'b0;
    else if (go) a_valid_q <= 1'b1;
    else if (a_ready) a_valid_q <= 1'b0;
  end

  // ---- its address, and whether it stays in its slot
  logic        s_valid, s_err, s_last, out_of_slot;
  assign out_of_slot = a_off_q + 35'({a_elems_q, 1'b0}) > 35'(slot_stride_i);
  spill #(.WIDTH(AW + 24 + 24 + 32 + 6)) u_run (
    .clk_i,
    .rst_ni,
    .valid_i(a_valid_q),
    .ready_o(a_ready),
    .data_i ({slot_addr_i[a_slot_q*AW+:AW] + AW'(a_off_q), a_elems_q, a_elem_q, a_off_q[31:0],
              a_pool_q, a_keep_q, a_half_q, a_local_q, a_last_q, out_of_slot}),
    .valid_o(s_valid),
    .ready_i(run_ready_i && !s_err),
    .data_o ({run_addr_o, run_elems_o, run_elem_o, err_addr_o,
              pool_o, keep_o, keep_half_o, local_o, s_last, s_err})
  );
  assign run_valid_o = s_valid && !s_err;
  assign err_valid_o = s_valid && s_err;

  // a layer without runs ends when the runs of the previous layer are gone
  logic skip, skip_done;
  assign skip = RESIDUAL && !d.residual;
  assign skip_done = state_q == StTest && skip && !a_valid_q && !s_valid;
  assign done_o = skip_done || (run_valid_o && run_ready_i && s_last);
  assign layer_ready_o = state_q == StIdle;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      start_q <= 1'b0;
    end else begin
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          b0_q <= '0;
          group_q <= 1'b0;
          i_q <= '0;
          c0_q <= '0;
          tile_off_q <= '0;
          row_off_q <= '0;
          pix_off_q <= '0;
          samp_off_q <= '0;
          if (layer_valid_i) begin
            start_q <= start_d;
            state_q <= StTest;
          end
        end
        StTest: begin
          tc_q <= tc;
          two_q <= two;
          one_c_q <= one_c;
          whole_row_q <= one_c && pix == d.out_c;
          c_rest_q <= d.out_c;
          oh_rest_q <= d.out_h;
          if (!skip) state_q <= StTile;
          else if (skip_done) state_q <= StIdle;
        end
        StTile: begin
          nb_q <= nb;
          rest_1_q <= rest_1;
          nr_q <= nr;
          nch_q <= nch;
          last_c_q <= last_c;
          last_t_q <= last_t;
          last_b_q <= last_b;
          tile_base_q <= 34'(base) + 34'({c0_q, 1'b0});
          r_left_q <= nr;
          ow_left_q <= d.out_w;
          state_q <= StRun;
        end
        StRun: begin
          if (go) begin
            ow_left_q <= ow_left_q - 16'd1;
            pix_off_q <= pix_off_q + 33'({pix, 1'b0});
            if (last_ow) begin
              ow_left_q <= d.out_w;
              pix_off_q <= '0;
              r_left_q <= r_left_q - 16'd1;
              row_off_q <= row_off_q + 33'(row_bytes);
              if (last_r) begin
                r_left_q <= nr_q;
                row_off_q <= tile_off_q;
                samp_off_q <= last_i ? '0 : samp_off_q + row_off_q[31:0] + row_bytes;
                i_q <= i_q + 4'd1;
                if (last_i) begin
                  i_q <= '0;
                  group_q <= !last_g;
                end
              end
            end
            if (tile_end) begin
              state_q <= layer_end ? StIdle : StTile;
              if (!f.order || (last_t_q && last_b_q)) begin
                c0_q <= last_c_q ? '0 : c0_q + tc_q;
                c_rest_q <= last_c_q ? d.out_c : c_rest_q - tc_q;
              end
              if (f.order || last_c_q) begin
                oh_rest_q <= oh_rest_q - nr_q;
                tile_off_q <= row_off_q + 33'(row_bytes);
                row_off_q <= row_off_q + 33'(row_bytes);
                if (last_t_q) begin
                  oh_rest_q <= d.out_h;
                  tile_off_q <= '0;
                  row_off_q <= '0;
                  b0_q <= last_b_q ? '0 : b0_q + nb_q;
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
  assign unused = ^row_bytes;
endmodule
