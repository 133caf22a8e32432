// Streams the biases and weights of layer after layer from DRAM, as far ahead as the weights ring
// and the second half of the bias memory allow. It does not wait for activations, so the weights of
// the next layer arrive while the present one still computes.
//
// The M table of an average pool is read like biases, but goes to the pool unit. With POST, the last
// words of a layer with a curve go to the drain's table of segments.
//
// The weights of a layer are read once for every row tile, or only once if the ring can keep what
// is needed again: with loop order 1 a C tile, else the whole layer if it fits (replay: weight_feed
// goes back in the ring). Biases are written one per cycle.
module weight_fetch #(
  parameter int unsigned AXI_BYTES   = 8,
  parameter int unsigned WRING_BEATS = 512,
  parameter int unsigned C_MAX       = 512,
  parameter int unsigned DRAIN       = 8,
  parameter int unsigned DEPTHWISE   = 0,
  parameter int unsigned POST        = 0,
  localparam int unsigned KW = $clog2(2 * abi_pkg::CURVE_WORDS),
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BPB = AXI_BYTES / 4,            // biases of a beat
  // beats asked for at a time: a burst's bytes, however wide a beat is
  localparam int unsigned CHUNK = (AXI_BYTES <= 16) ? 16 : 256 / AXI_BYTES,
  localparam int unsigned BW = $clog2(2 * (C_MAX / DRAIN)),
  localparam int unsigned DL = (DRAIN > 1) ? $clog2(DRAIN) : 1
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic [AW-1:0]          weight_base_i,
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
  // ring out
  output logic                   ring_valid_o,
  input  logic                   ring_ready_i,
  output logic [AXI_BYTES*8-1:0] ring_data_o,
  input  logic                   ring_commit_i,
  input  logic                   ring_rewind_i,
  output logic                   low_o,            // few words present or requested (LOW)
  // bias memory: half = layer parity
  output logic                   bias_we_o,
  output logic [DL-1:0]          bias_lane_o,
  output logic [BW-1:0]          bias_addr_o,
  output logic [31:0]            bias_data_o,
  output logic                   table_we_o,      // bias_data_o is a table's word
  output logic [8:0]             bias_index_o,    // of it: {half, index}
  output logic                   curve_we_o,      // bias_data_o is a curve's word
  output logic [KW-1:0]          curve_addr_o,    // of it: {half, index}
  output logic [4:0]             curve_sh_o,      // its layer's CURVE_SHIFT
  output logic [8:0]             bias_layers_o,   // layers whose biases are in place
  input  logic [8:0]             layers_drained_i // layers that no longer need their biases
);
  localparam int unsigned RW = $clog2(WRING_BEATS) + 1;
  localparam int unsigned BFIFO = 32;
  // a 16th of the ring, but at least the amount for one latency, if half of the ring is that much
  localparam int unsigned LATENT = (2048 / AXI_BYTES < WRING_BEATS / 2) ? 2048 / AXI_BYTES : WRING_BEATS / 2;
  localparam int unsigned LOW = (WRING_BEATS / 16 > LATENT) ? WRING_BEATS / 16 : LATENT;
  // bytes that can be kept for replay: the ring, less the part that a request may need
  localparam int unsigned KEEP = WRING_BEATS * AXI_BYTES - abi_pkg::RING_SPARE;

  if (WRING_BEATS < 2 * CHUNK) begin : gen_bad_ring
    $fatal(1, "weight_fetch: WRING_BEATS must hold two requests");
  end

  typedef enum logic [2:0] {StIdle, StRoom, StBias, StTile, StWeights, StNextTile} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  /* verilator lint_on UNUSEDSIGNAL */
  assign d = desc_q;
  assign f = fbcb_q;

  logic [8:0]    layer_no_q;
  logic [3:0]    b0_q;
  logic [15:0]   oh0_q;
  logic [AW-1:0] addr_q;
  logic [27:0]   left_q;                // beats left of the bias or of the tile's weights
  logic [RW-1:0] free_q;                // beats of the ring not promised
  logic [RW-1:0] spare_q, spare;        // those, and what is only kept for replay
  logic          low_q;
  logic [5:0]    bfree_q;               // beats of the bias queue not promised
  logic [4:0]    chunk;
  logic          last_q;                // left_q is at most a request
  logic          is_bias, go, room, bias_pop;
  logic [RW-1:0] freed;
  logic          dw, is_gemm, has_bias, lq_ready, replay;
  logic [31:0]   w_offset, w_bytes;

  assign dw = DEPTHWISE != 0 && d.op == abi_pkg::OP_DEPTHWISE;
  assign is_gemm = d.op == abi_pkg::OP_GEMM || dw;  // biases and weights
  assign has_bias = is_gemm || d.avg_table;
  assign w_offset = (f.k == 2'd1) ? d.w_offset_h : ((f.k == 2'd2) ? d.w_offset_2 : d.w_offset_1);
  assign w_bytes = (f.k == 2'd1) ? d.w_bytes_h : ((f.k == 2'd2) ? d.w_bytes_2 : d.w_bytes_1);
  assign replay = dw || f.order || w_bytes <= 32'(KEEP);
  assign is_bias = state_q == StBias;
  assign chunk = last_q ? left_q[4:0] : 5'(CHUNK);
  // for either size at once: whether a request leaves goes far, over the choice of a client
  always_comb begin
    if (is_bias) room = last_q ? bfree_q >= 6'(left_q[4:0]) : bfree_q >= 6'(CHUNK);
    else room = last_q ? free_q >= RW'(left_q[4:0]) : free_q >= RW'(CHUNK);
  end

  // kinds of the requests in flight: bias or weights
  logic kind_ready, k_bias, kind_valid;
  assign go = (is_bias || state_q == StWeights) && left_q != '0 && room && kind_ready;
  assign req_valid_o = go;
  assign req_addr_o = addr_q;
  assign req_beats_o = 16'(chunk);
  assign layer_ready_o = state_q == StIdle;
  fifo #(.WIDTH(1), .DEPTH(32)) u_kind (
    .clk_i,
    .rst_ni,
    .valid_i(go && req_ready_i),
    .ready_o(kind_ready),
    .wdata_i(is_bias),
    .valid_o(kind_valid),
    .ready_i(rsp_valid_i && rsp_last_i),
    .rdata_o(k_bias)
  );

  // Words kept for replay cannot be read before the rewind. Whether a request leaves is known last,
  // so both cases are prepared.
  logic issued;
  assign issued = go && req_ready_i && !is_bias;
  assign spare = ring_rewind_i ? free_q : spare_q + RW'(ring_valid_o && ring_ready_i);
  assign low_o = low_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      spare_q <= RW'(WRING_BEATS);
      low_q <= 1'b1;
      free_q <= RW'(WRING_BEATS);
    end else begin
      spare_q <= issued ? spare - RW'(chunk) : spare;
      low_q <= issued ? spare > RW'(WRING_BEATS - LOW) + RW'(chunk) : spare > RW'(WRING_BEATS - LOW);
      free_q <= issued ? free_q + freed - RW'(chunk) : free_q + freed;
    end
  end
  weight_ring #(.WIDTH(AXI_BYTES * 8), .DEPTH(WRING_BEATS)) u_ring (
    .clk_i,
    .rst_ni,
    .valid_i(rsp_valid_i && !k_bias),
    .wdata_i(rsp_data_i),
    .valid_o(ring_valid_o),
    .ready_i(ring_ready_i),
    .rdata_o(ring_data_o),
    .commit_i(ring_commit_i),
    .rewind_i(ring_rewind_i),
    .freed_o(freed)
  );

  logic                   b_valid;
  logic [AXI_BYTES*8-1:0] b_data;
  logic                   b_ready_unused;
  fifo #(.WIDTH(AXI_BYTES * 8), .DEPTH(BFIFO)) u_bias (
    .clk_i,
    .rst_ni,
    .valid_i(rsp_valid_i && k_bias),
    .ready_o(b_ready_unused),
    .wdata_i(rsp_data_i),
    .valid_o(b_valid),
    .ready_i(bias_pop),
    .rdata_o(b_data)
  );

  logic [8:0] layer_room;
  assign layer_room = layer_no_q - layers_drained_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      layer_no_q <= '0;
      bfree_q <= 6'(BFIFO);
    end else begin
      bfree_q <= bfree_q + 6'(bias_pop) - ((go && req_ready_i && is_bias) ? 6'(chunk) : '0);
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          if (layer_valid_i) state_q <= StRoom;
        end
        StRoom: begin
          b0_q <= '0;
          oh0_q <= '0;
          addr_q <= weight_base_i + AW'(d.bias_offset);
          left_q <= (28'(d.bias_count) + 28'(BPB - 1)) >> $clog2(BPB);
          last_q <= 28'(d.bias_count) <= 28'(CHUNK * BPB);
          if (!lq_ready) begin
            state_q <= StRoom;
          end else if (!has_bias) begin
            layer_no_q <= layer_no_q + 9'd1;
            state_q <= StIdle;
          end else if (layer_room < 9'd2) begin
            state_q <= StBias;
          end
        end
        StBias: begin
          if (go && req_ready_i) begin
            addr_q <= addr_q + AW'({chunk, {$clog2(AXI_BYTES) {1'b0}}});
            left_q <= left_q - 28'(chunk);
            last_q <= last_q || left_q <= 28'(2 * CHUNK);
          end
          if (left_q == '0) begin
            state_q <= is_gemm ? StTile : StIdle;
            if (!is_gemm) layer_no_q <= layer_no_q + 9'd1;
          end
        end
        StTile: begin
          addr_q <= weight_base_i + AW'(w_offset);
          left_q <= 28'(w_bytes >> $clog2(AXI_BYTES));
          last_q <= 28'(w_bytes >> $clog2(AXI_BYTES)) <= 28'(CHUNK);
          state_q <= StWeights;
        end
        StWeights: begin
          if (go && req_ready_i) begin
            addr_q <= addr_q + AW'({chunk, {$clog2(AXI_BYTES) {1'b0}}});
            left_q <= left_q - 28'(chunk);
            last_q <= last_q || left_q <= 28'(2 * CHUNK);
            if (last_q) state_q <= StNextTile;
          end
        end
        StNextTile: begin  // weights again for each row tile, if the ring does not keep them
          state_q <= StTile;
          oh0_q <= oh0_q + 16'(f.tile_rows);
          if (oh0_q + 16'(f.tile_rows) >= d.out_h) begin
            oh0_q <= '0;
            b0_q <= b0_q + f.tile_b;
            if ({1'b0, b0_q} + {1'b0, f.tile_b} >= {1'b0, f.b_r}) begin
              layer_no_q <= layer_no_q + 9'd1;
              state_q <= StIdle;
            end
          end
          if (replay) begin
            layer_no_q <= layer_no_q + 9'd1;
            state_q <= StIdle;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  // ---- biases into their memory, one per cycle. Layers that are completely read wait in a short
  // queue.
  localparam int unsigned LW = (POST != 0) ? 24 : 18;
  logic        l_valid, l_curve, l_gemm, l_bias, l_pop, on_curve;
  logic [4:0]  l_shift;
  logic [LW-1:0] l_item;
  logic [15:0] l_count;
  logic [15:0] pos_q;
  logic [BW-1:0] word_q;
  logic [DL-1:0] lane_q;
  logic [$clog2(BPB):0] sub_q;
  logic [8:0]  bias_layers_q;
  logic        last_of_layer, step;

  fifo #(.WIDTH(LW), .DEPTH(4)) u_layers (
    .clk_i,
    .rst_ni,
    .valid_i(state_q == StRoom && (!has_bias || layer_room < 9'd2)),
    .ready_o(lq_ready),
    .wdata_i(LW'({d.curve, d.curve_shift, is_gemm, has_bias, d.bias_count})),
    .valid_o(l_valid),
    .ready_i(l_pop),
    .rdata_o(l_item)
  );
  assign {l_curve, l_shift, l_gemm, l_bias, l_count} = 24'(l_item);
  assign on_curve = l_curve && pos_q >= l_count - 16'(abi_pkg::CURVE_WORDS);
  assign last_of_layer = pos_q + 16'd1 == l_count;
  assign step = l_valid && l_bias && b_valid;
  assign l_pop = l_valid && (!l_bias || (step && last_of_layer));
  assign bias_pop = step && (last_of_layer || sub_q == ($clog2(BPB) + 1)'(BPB - 1));
  assign bias_layers_o = bias_layers_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      pos_q <= '0;
      word_q <= '0;
      lane_q <= '0;
      sub_q <= '0;
      bias_layers_q <= '0;
      bias_we_o <= 1'b0;
      table_we_o <= 1'b0;
    end else begin
      bias_we_o <= step && l_gemm && !on_curve;
      table_we_o <= step && !l_gemm;
      if (l_pop) bias_layers_q <= bias_layers_q + 9'd1;
      if (l_pop) begin
        pos_q <= '0;
        word_q <= '0;
        lane_q <= '0;
        sub_q <= '0;
      end else if (step) begin
        pos_q <= pos_q + 16'd1;
        sub_q <= (sub_q == ($clog2(BPB) + 1)'(BPB - 1)) ? '0 : sub_q + 1'b1;
        if (lane_q == DL'(DRAIN - 1)) begin
          lane_q <= '0;
          word_q <= word_q + 1'b1;
        end else begin
          lane_q <= lane_q + 1'b1;
        end
      end
    end
    bias_index_o <= {bias_layers_q[0], pos_q[7:0]};
    bias_lane_o <= lane_q;
    bias_addr_o <= word_q + (bias_layers_q[0] ? BW'(C_MAX / DRAIN) : '0);
    bias_data_o <= b_data[sub_q[$clog2(BPB)-1:0]*32+:32];
  end

  if (POST != 0) begin : gen_curve
    always_ff @(posedge clk_i) begin
      curve_we_o <= rst_ni && step && on_curve;
      // the first of the curve's words has index 0: their number is a power of two
      curve_addr_o <= {bias_layers_q[0], (KW - 1)'(pos_q - l_count)};
      curve_sh_o <= l_shift;
    end
  end else begin : gen_curve
    assign curve_we_o = 1'b0;
    assign curve_addr_o = '0;
    assign curve_sh_o = '0;
  end

  logic unused;
  assign unused = ^{l_shift, kind_valid, b_ready_unused, sub_q[$clog2(BPB)]};
endmodule
