// Loads the shadow weights of the array from the weights ring, pass after pass: W_LOAD PEs per
// cycle. A pass is one chunk of k T_P elements of one kernel row, for the channels of one C tile.
// In the ring the words of a PE are consecutive (for k = 1/2 those of its first half, then of its
// second, floor(T_P/2) each; for k = 2 those of the even PE, then of the odd one). With s = 2 both
// PEs of a pair take the same words, so W_LOAD / 2 are read and W_LOAD loaded. A C tile ends with
// padding up to WEIGHT_ALIGN bytes. Weights to be replayed stay in the ring until their last row
// tile (weight_fetch decides): with loop order 1 a C tile, with order 0 the layer. full_o says that
// the shadow weights of the next pass are complete and its last load is leaving. swap_i takes them.
// Loading continues when the swap has passed the last lane: it reaches the array SWAP_LATENCY
// cycles after swap_i (read address register, activation buffer), and each further lane of a chain
// one cycle later. A load takes as long as a swap, so that none waits for the way of the other.
//
// With DEPTHWISE the weights of a depthwise layer go to that unit instead, beat by beat and once, when it takes them.
//
// Values of a layer and of a C tile that depend on k and s are computed once, in registers, as are
// those of the next load (for padding: all that can leave at once).
module weight_feed #(
  parameter int unsigned T_P       = 8,
  parameter int unsigned T_C       = 32,
  parameter int unsigned W_LOAD    = 2,
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned SWAP_LATENCY = 5,
  parameter int unsigned KEEP      = 256,   // bytes that the ring can keep
  parameter int unsigned DEPTHWISE = 0,
  localparam int unsigned GROUPS = (T_C + W_LOAD - 1) / W_LOAD,
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1,
  localparam int unsigned WPB = AXI_BYTES / 2
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic [3:0]               b_act_i,
  input  logic                     layer_valid_i,
  output logic                     layer_ready_o,
  input  abi_pkg::desc_t           layer_desc_i,
  input  abi_pkg::fbcb_t           layer_fbcb_i,
  input  logic                     ring_valid_i,
  output logic                     ring_ready_o,
  input  logic [AXI_BYTES*8-1:0]   ring_data_i,
  output logic                     ring_commit_o,  // the words taken will not be needed again
  output logic                     ring_rewind_o,  // read again from the last commit on
  output logic                     load_o,
  output logic [GW-1:0]            group_o,
  output logic [W_LOAD*T_P*16-1:0] w_o,
  output logic                     dw_valid_o,     // the ring's beat is the depthwise unit's
  input  logic                     dw_ready_i,
  output logic                     dw_last_o,
  output logic                     full_o,
  input  logic                     swap_i,
  output logic                     err_valid_o,   // the stream does not match the layer
  output logic [7:0]               err_layer_o    // which, counted from the start's first
);
  localparam int unsigned OUT = (W_LOAD * T_P > 8) ? W_LOAD * T_P : 8;
  localparam int unsigned PAD = abi_pkg::WEIGHT_ALIGN / 2;
  localparam int unsigned LB = $clog2(AXI_BYTES);
  localparam int unsigned CW = $clog2(2 * WPB + OUT + 1);
  localparam int unsigned FH = T_P / 2;
  // registers of a load: the first one is at the earliest in the cycle in which the last lane swaps
  localparam int unsigned OUT_REG = SWAP_LATENCY - 2;
  localparam int unsigned LOAD = GW + W_LOAD * T_P * 16;
  localparam int unsigned WW = $clog2(2 * T_P + 1);
  localparam int unsigned LW = $clog2(W_LOAD + 1);

  if (SWAP_LATENCY < 3) begin : gen_bad_latency
    $fatal(1, "weight_feed: SWAP_LATENCY must be at least 3");
  end
  if (W_LOAD % 2 != 0) begin : gen_bad
    $fatal(1, "weight_feed: W_LOAD must be even, both PEs of a pair load together");
  end

  typedef enum logic [2:0] {StIdle, StPass, StTile, StLoad, StFull, StPad, StError, StDepthwise} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  /* verilator lint_on UNUSEDSIGNAL */
  assign d = desc_q;
  assign f = fbcb_q;

  logic [7:0]  layer_no_q;
  logic [3:0]  b0_q;
  logic [15:0] oh0_q;
  logic [15:0] c_rest_q;                 // channels from this C tile on
  logic [7:0]  kh_q;
  logic [23:0] p0_q;
  logic [GW-1:0] group_q;
  logic [27:0] rest_q, len_q, left_q;    // beats: behind the C tile, of it, of it not taken yet
  logic [27:0] all, tile, len;
  logic [7:0]  pads_q;                   // words of padding, at most PAD
  logic [WW-1:0] wait_q;                 // cycles until the last swap has passed

  logic [15:0] nch;
  logic [CW-1:0] fill, need_q, need_d, gone;
  /* verilator lint_off UNUSEDSIGNAL */
  logic [31:0] w_bytes, w_tile;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        gear_ready, push, pop, last_chunk, last_kh, last_c, last_rows, last_b;
  logic        short_stream, tile_done, replay_q, last_visit_q;
  logic [OUT*16-1:0] words;

  // depending on k and s: vectors (a PE's words) of a pass, and how many are read at a time
  logic        half, pair, two, two_q, odd, odd_q;
  logic [3:0]  nb, rest_1;
  logic [15:0] tc, tc_q, nv, nv_q;
  logic [15:0] pe_left_q, pe_left_d;     // vectors of the pass that the next load and those behind it take
  logic [LW-1:0] at_once, at_once_q, next_load;
  logic        last_load_q, last_load_d, all_here;
  logic        fresh_q;                  // nothing of the tile has arrived yet
  logic [5:0]  lanes, lanes_q;
  assign half = f.k == 2'd1;
  assign pair = f.k == 2'd2;
  tile_size #(.T_C(T_C)) u_size (
    .fbcb_i(fbcb_q), .b_act_i, .b0_i(b0_q), .two_o(two), .tc_o(tc), .nb_o(nb), .rest_1_o(rest_1)
  );
  assign lanes = half ? 6'(FH) : (pair ? 6'(2 * T_P) : 6'(T_P));
  assign nch = (c_rest_q > tc_q) ? tc_q : c_rest_q;
  assign nv = half ? (nch + 16'd1) >> 1 : (pair ? nch << 1 : nch);
  assign odd = half && nch[0];            // the last PE has one channel only
  assign at_once = two ? LW'(W_LOAD / 2) : LW'(W_LOAD);
  // What the next load takes: a pass begins with all vectors of the C tile.
  always_comb begin
    pe_left_d = pe_left_q - 16'(at_once_q);
    if (state_q == StFull || fresh_q) pe_left_d = nv_q;
    last_load_d = pe_left_d <= 16'(at_once_q);
    next_load = last_load_d ? LW'(pe_left_d) : at_once_q;
    // constants only: a product would cost a DSP
    need_d = '0;
    for (int unsigned i = 1; i <= W_LOAD; i++) begin
      if (next_load == LW'(i)) need_d = half ? CW'(i * 2 * FH) : CW'(i * T_P);
    end
    if (odd_q && last_load_d) need_d = need_d - CW'(FH);
  end
  assign last_chunk = p0_q + 24'(lanes_q) >= d.kwc;
  assign last_kh = kh_q + 8'd1 == d.k_h;
  assign last_c = c_rest_q <= tc_q;
  assign last_rows = oh0_q + 16'(f.tile_rows) >= d.out_h;
  assign last_b = {1'b0, b0_q} + {1'b0, f.tile_b} >= {1'b0, f.b_r};

  assign w_bytes = half ? d.w_bytes_h : (pair ? d.w_bytes_2 : d.w_bytes_1);
  assign w_tile = half ? d.w_tile_h : (pair ? d.w_tile_2 : d.w_tile_1);
  assign all = 28'(w_bytes >> LB);
  assign tile = 28'(w_tile >> LB);
  assign len = (rest_q < tile) ? rest_q : tile;
  // its beats
  logic dw, to_dw;
  assign dw = DEPTHWISE != 0 && d.op == abi_pkg::OP_DEPTHWISE;
  assign to_dw = DEPTHWISE != 0 && state_q == StDepthwise;
  assign dw_valid_o = ring_valid_i && to_dw;
  assign dw_last_o = DEPTHWISE != 0 && left_q == 28'd1;
  assign push = ring_valid_i && ring_ready_o;
  assign ring_ready_o = (to_dw ? dw_ready_i : gear_ready) && left_q != '0;
  assign all_here = fill >= need_q;
  assign pop = (state_q == StLoad && wait_q == '0 && all_here) || (state_q == StPad && fill != '0);
  assign gone = (fill > CW'(OUT)) ? CW'(OUT) : fill;  // of padding
  assign short_stream = state_q == StLoad && left_q == '0 && !all_here;
  assign tile_done = state_q == StPad && left_q == '0 && fill == '0;
  assign ring_commit_o = !replay_q || last_visit_q;
  assign ring_rewind_o = tile_done && replay_q && !last_visit_q && (f.order || last_c);

  gearbox #(.IN_WORDS(WPB), .OUT_WORDS(OUT), .ALL(1'b1), .IN_UNIT(WPB)) u_gear (
    .clk_i,
    .rst_ni,
    .push_i    (push && !to_dw),
    .push_cnt_i(CW'(WPB)),
    .data_i    (ring_data_i),
    .skip_i    ('0),
    .ready_o   (gear_ready),
    .pop_i     (pop),
    .pop_cnt_i (need_q),
    .data_o    (words),
    .fill_o    (fill)
  );

  logic [W_LOAD*T_P*16-1:0] w;
  logic [OUT_REG-1:0]       load_q;
  logic [OUT_REG*LOAD-1:0]  loads_q;
  for (genvar i = 0; i < W_LOAD; i++) begin : gen_slot
    // PE i of the group takes vector i, or with s = 2 vector i / 2; a layer's values for these words alone, the first of
    // which goes two cycles after StPass
    logic by_half, by_two;
    level #(.WIDTH(2)) u_level (.clk_i, .d_i({half, two_q}), .q_o({by_half, by_two}));
    assign w[i*T_P*16+:T_P*16] = by_half ? (by_two ? words[(i/2)*2*FH*16+:T_P*16] : words[i*2*FH*16+:T_P*16])
                                         : (by_two ? words[(i/2)*T_P*16+:T_P*16] : words[i*T_P*16+:T_P*16]);
  end
  always_ff @(posedge clk_i) begin
    load_q <= rst_ni ? OUT_REG'({load_q, state_q == StLoad && pop}) : '0;
    loads_q <= (OUT_REG * LOAD)'({loads_q, group_q, w});
  end
  assign load_o = load_q[OUT_REG-1];
  assign {group_o, w_o} = loads_q[(OUT_REG-1)*LOAD+:LOAD];
  assign full_o = state_q == StFull;
  assign layer_ready_o = state_q == StIdle;
  assign err_valid_o = state_q == StError;
  assign err_layer_o = layer_no_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      wait_q <= '0;
      left_q <= '0;
      layer_no_q <= '1;
      replay_q <= 1'b0;
      last_visit_q <= 1'b0;
    end else begin
      if (push) left_q <= left_q - 28'd1;
      fresh_q <= state_q == StTile;
      if (state_q == StFull || fresh_q || (state_q == StLoad && pop)) begin
        pe_left_q <= pe_left_d;
        last_load_q <= last_load_d;
        need_q <= need_d;
      end
      if (wait_q != '0) wait_q <= wait_q - 1'b1;
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          b0_q <= '0;
          oh0_q <= '0;
          kh_q <= '0;
          p0_q <= '0;
          if (layer_valid_i) begin
            state_q <= StPass;
            layer_no_q <= layer_no_q + 8'd1;
          end
        end
        StPass: begin
          rest_q <= all;
          c_rest_q <= d.out_c;
          tc_q <= tc;
          two_q <= two;
          at_once_q <= at_once;
          lanes_q <= lanes;
          replay_q <= !dw && (f.order || w_bytes <= 32'(KEEP));
          state_q <= (d.op == abi_pkg::OP_GEMM) ? StTile : StIdle;
          if (dw) begin
            left_q <= all;
            state_q <= StDepthwise;
          end
        end
        StTile: begin
          nv_q <= nv;
          odd_q <= odd;
          last_visit_q <= last_rows && last_b;
          group_q <= '0;
          pads_q <= '0;
          need_q <= CW'(OUT);
          len_q <= len;
          left_q <= len;
          rest_q <= rest_q - len;
          state_q <= StLoad;
        end
        StLoad: begin
          if (pop) begin
            group_q <= group_q + 1'b1;
            if (last_load_q) state_q <= StFull;
          end
          if (short_stream) state_q <= StError;
        end
        StFull: begin
          group_q <= '0;
          if (swap_i) begin
            wait_q <= (half ? WW'(T_P - FH) : WW'(lanes_q));
            state_q <= StLoad;
            p0_q <= p0_q + 24'(lanes_q);
            if (last_chunk) begin
              p0_q <= '0;
              kh_q <= kh_q + 8'd1;
              if (last_kh) begin
                kh_q <= '0;
                need_q <= CW'(OUT);
                state_q <= StPad;
              end
            end
          end
        end
        StPad: begin  // the padding is removed; then the stream must be used up
          if (pop) pads_q <= (pads_q >= 8'(PAD) || 32'(gone) >= PAD) ? 8'(PAD) : pads_q + 8'(gone);
          if (tile_done) begin
            if (f.order ? last_visit_q : 1'b1) begin
              c_rest_q <= last_c ? d.out_c : c_rest_q - tc_q;
            end
            if (f.order || last_c) begin
              oh0_q <= oh0_q + 16'(f.tile_rows);
              if (last_rows) begin
                oh0_q <= '0;
                b0_q <= last_b ? '0 : b0_q + f.tile_b;
              end
            end
            if (f.order && !last_visit_q) rest_q <= rest_q + len_q;
            state_q <= (last_c && last_visit_q) ? StIdle : ((!f.order && last_c) ? StPass : StTile);
            if (pads_q >= 8'(PAD) || (last_c && rest_q != '0)) state_q <= StError;
          end
        end
        StError: ;
        default: if (!to_dw || (push && dw_last_o)) state_q <= StIdle;  // StDepthwise
      endcase
    end
  end

  logic unused;
  assign unused = ^{words, nb, rest_1};  // where W_LOAD * T_P < 8 the upper ones are pads only
endmodule
