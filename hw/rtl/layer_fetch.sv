// Walks the layers of a start: reads each descriptor, checks it and its FBCB entry against this
// build, computes what the units need, and offers it to all of them. It works one layer ahead of
// the slowest unit, so that fetching is hidden behind computing (except for the first layer of a
// start). Together with fbcb, which it reads, it is the paper's Fluid Batching Engine.
//
// It also converts the slot table to slot addresses at the beginning of a start.
//
// Checking is a short program on one shift-and-add multiplier (no DSP). Products are compared with
// the descriptor's, so a descriptor that contradicts itself is rejected.
module layer_fetch #(
  parameter int unsigned T_R        = 256,
  parameter int unsigned T_C        = 32,
  parameter int unsigned STACK      = 1,
  parameter int unsigned FLUID      = 1,
  parameter int unsigned POST       = 0,     // curves, products, a residual of one pixel
  parameter int unsigned NB         = 16,
  parameter int unsigned ABUF_WORDS = 1024,
  parameter int unsigned AXI_BYTES  = 8,
  parameter int unsigned C_MAX      = 512,
  parameter int unsigned KEEP       = 256,   // bytes that the weights ring can keep
  parameter int unsigned UNITS      = 6,
  parameter int unsigned DEPTHWISE  = 0,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  // start
  input  logic               start_i,
  input  logic [7:0]         first_layer_i,
  input  logic [7:0]         last_layer_i,
  input  logic [3:0]         b_act_i,
  input  logic [AW-1:0]      desc_base_i,
  input  logic [AW-1:0]      slot_base_i,
  input  logic [31:0]        slot_stride_i,
  input  logic [6:0]         n_slot_i,
  input  logic [BM*6-1:0]    slot_table_i,
  output logic [BM*AW-1:0]   slot_addr_o,
  // FBCB, one cycle
  output logic [10:0]        fbcb_raddr_o,
  input  logic [31:0]        fbcb_rdata_i,
  // descriptor reads
  output logic               req_valid_o,
  input  logic               req_ready_i,
  output logic [AW-1:0]      req_addr_o,
  output logic [15:0]        req_beats_o,
  input  logic               rsp_valid_i,
  input  logic               rsp_last_i,
  input  logic [AXI_BYTES*8-1:0] rsp_data_i,
  // the layer, offered to each unit until it takes it
  output logic [UNITS-1:0]   layer_valid_o,
  input  logic [UNITS-1:0]   layer_ready_i,
  output abi_pkg::desc_t     layer_desc_o,
  output abi_pkg::fbcb_t     layer_fbcb_o,
  output logic [7:0]         layer_index_o,
  output logic               layer_last_o,
  output logic [23:0]        layer_samp_o,   // elements of one sample of a row tile on chip
  // errors
  output logic               err_valid_o,
  output logic [7:0]         err_code_o,
  output logic [7:0]         err_layer_o
);
  localparam int unsigned BEATS = abi_pkg::DESC_BYTES / AXI_BYTES;
  localparam int unsigned ABUF = NB * ABUF_WORDS;

  typedef enum logic [3:0] {
    StIdle, StRange, StSlots, StRequest, StReceive, StStatic, StMul, StMulWait, StOffer, StError
  } state_e;
  state_e state_q;

  // ---- the descriptor as received
  logic [1023:0] vec_q;
  // fields that only units need are not used here
  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d;
  abi_pkg::fbcb_t f;
  /* verilator lint_on UNUSEDSIGNAL */
  assign d = vec_q;
  assign f = fbcb_rdata_i;

  logic [7:0] layer_q;
  logic       is_gemm, is_avg, dw, weighted;
  assign is_gemm = d.op == abi_pkg::OP_GEMM;
  assign is_avg = d.op == abi_pkg::OP_AVG_POOL;
  assign dw = DEPTHWISE != 0 && d.op == abi_pkg::OP_DEPTHWISE;
  assign weighted = is_gemm || dw;

  // ---- multiplier: one bit of the small factor a cycle, ends with its highest one
  logic [31:0] mul_a_q, mul_p_q;
  logic [15:0] mul_b_q;
  logic        mul_over_q;  // the product left 32 bits

  // ---- check program
  logic [3:0]  step_q;
  logic [31:0] mul_a, want, want_q;   // want: the required product, or its limit
  logic [15:0] mul_b;
  logic        exact_q, any_q;        // the product must be equal to want; any product is accepted
  logic        exact, any;
  logic [11:0] tile_rows_m1;
  logic        fits;        // the product of the step is accepted
  logic        too_many_q;  // input rows of a tile
  logic [7:0]  step_err;
  logic [23:0] samp_q;
  logic [15:0] n_ih_q;
  logic [2:0]  slot_q, bit_q;
  logic [BM*AW-1:0] slot_addr_q;
  logic [BM*6-1:0] table_q;
  logic [UNITS-1:0] taken_q;
  logic [AW-1:0] step_addr_q, addr_q;
  logic [7:0]  err_q;

  // what the layer before, in this start, leaves on chip
  logic        kept_q;
  logic [15:0] kept_h_q, kept_w_q, kept_c_q;
  logic        one_tile, keep_bad, two;
  assign one_tile = !two && f.tile_b == b_act_i && 16'(f.tile_rows) == d.out_h;
  assign keep_bad = f.keep_in != kept_q || (f.on_chip && !f.keep_out)
                    || (f.keep_in && (!one_tile || d.in_h != kept_h_q || d.in_w != kept_w_q
                                      || d.in_c != kept_c_q))
                    || (f.keep_out && (!one_tile || !(is_gemm || dw && f.keep_in) || layer_last_o
                                       || d.out_pix != d.out_c));

  assign tile_rows_m1 = f.tile_rows - 12'd1;

  logic        half;
  logic [31:0] room;        // elements of the activation buffer available to a tile
  logic [$clog2(abi_pkg::WEIGHT_ALIGN)-1:0] w_align;
  logic [31:0] w_bytes, w_tile, w_kept;
  logic        pair;
  assign half = f.k == 2'd1 && !dw;
  assign pair = f.k == 2'd2 && !dw;
  assign two = f.b_r != b_act_i;
  assign room = two ? ABUF / 2 : ABUF;
  assign w_tile = half ? d.w_tile_h : (pair ? d.w_tile_2 : d.w_tile_1);
  assign w_kept = (w_tile < w_bytes) ? w_tile : w_bytes;  // what loop order 1 keeps in the ring
  localparam int unsigned WA = $clog2(abi_pkg::WEIGHT_ALIGN);
  assign w_align = half ? d.w_offset_h[WA-1:0]
                        : (pair ? d.w_offset_2[WA-1:0] : d.w_offset_1[WA-1:0]);
  assign w_bytes = half ? d.w_bytes_h : (pair ? d.w_bytes_2 : d.w_bytes_1);

  always_comb begin
    mul_a = '0;
    mul_b = '0;
    want = '0;
    exact = (step_q <= 4'd7 && step_q != 4'd5) || (DEPTHWISE != 0 && step_q == 4'd15);  // a view may leave rows out
    any = 1'b0;
    step_err = (step_q >= 4'd8 && step_q != 4'd11 && step_q != 4'd13
                && (DEPTHWISE == 0 || (step_q != 4'd14 && step_q != 4'd15))) ? abi_pkg::ERR_TILE_RANGE
                                                                      : abi_pkg::ERR_DESC_SHAPE;
    unique case (step_q)
      4'd0: begin
        mul_a = 32'(d.in_c);
        mul_b = d.in_w;
        want = 32'(d.in_row);
      end
      4'd1: begin
        mul_a = 32'(d.in_c);
        mul_b = 16'(d.k_w);
        want = 32'(d.kwc);
      end
      4'd2: begin
        mul_a = 32'(d.in_row);
        mul_b = 16'(d.s_h);
        want = 32'(d.step_row);
      end
      4'd3: begin
        mul_a = 32'(d.in_c);
        mul_b = 16'(d.s_w);
        want = 32'(d.step_col);
      end
      4'd4: begin
        mul_a = 32'(d.in_c);
        mul_b = 16'(d.pad_l);
        want = 32'(d.pad_col);
      end
      4'd5: begin
        mul_a = {15'b0, d.in_pix, 1'b0};
        mul_b = d.in_w;
        want = d.in_row_bytes;
      end
      4'd6: begin
        mul_a = {15'b0, d.out_pix, 1'b0};
        mul_b = d.out_w;
        want = d.out_row_bytes;
      end
      4'd7: begin
        mul_a = {15'b0, d.res_pix, 1'b0};
        mul_b = d.residual ? d.out_w : '0;
        want = d.residual ? d.res_row_bytes : '0;
      end
      4'd8: begin  // input rows of a tile
        mul_a = 32'(tile_rows_m1);
        mul_b = 16'(d.s_h);
        want = 32'd32767;
      end
      4'd9: begin  // elements of a sample
        mul_a = 32'(d.in_row);
        mul_b = f.keep_in ? d.in_h : n_ih_q;  // a kept tensor lies there without padding
        want = room;
      end
      4'd10: begin  // elements of a tile
        mul_a = 32'(samp_q);
        mul_b = 16'(f.tile_b);
        want = room;
      end
      4'd11: begin  // rows of a tile, one sample
        mul_a = 32'(d.out_w);
        mul_b = 16'(f.tile_rows);
        any = 1'b1;
      end
      4'd12: begin  // rows of a tile
        mul_a = mul_p_q;
        mul_b = 16'(f.tile_b);
        want = half ? T_R / 2 : T_R;
        any = !is_gemm;
      end
      4'd13: begin  // taps of a window
        mul_a = 32'(d.k_h);
        mul_b = 16'(d.k_w);
        // below a table's count (which then is at most AVG_TABLE); no window has no taps
        want = !d.avg_table ? abi_pkg::AVG_TAPS : ((d.bias_count == '0) ? '0 : 32'(d.bias_count) - 32'd1);
        any = !is_avg;
      end
      4'd14: if (DEPTHWISE != 0) begin  // words of depthwise weights
        mul_a = mul_p_q;
        mul_b = 16'((17'(d.in_c) + 17'(NB - 1)) >> $clog2(NB));
        want = abi_pkg::DW_WORDS;
      end
      4'd15: if (DEPTHWISE != 0) begin  // their bytes
        mul_a = ((mul_p_q << $clog2(2 * NB)) + (abi_pkg::WEIGHT_ALIGN - 1)) & ~(abi_pkg::WEIGHT_ALIGN - 1);
        mul_b = 16'd1;
        want = w_bytes;
      end
      default: ;
    endcase
  end
  if (abi_pkg::AVG_TABLE > abi_pkg::AVG_TAPS) begin : gen_bad_table
    $fatal(1, "layer_fetch: a table counts more taps than a window may have");
  end
  // The product is ready: want is registered by then.
  assign fits = any_q || (!mul_over_q && (exact_q ? mul_p_q == want_q : mul_p_q <= want_q)
                          && !(step_q == 4'd10 && too_many_q));

  // Input rows of a tile, over all samples: their counters have 16 bits.
  logic [19:0] places;
  assign places = (f.tile_b[0] ? 20'(n_ih_q) : '0) + (f.tile_b[1] ? {3'b0, n_ih_q, 1'b0} : '0)
                + (f.tile_b[2] ? {2'b0, n_ih_q, 2'b0} : '0) + (f.tile_b[3] ? {1'b0, n_ih_q, 3'b0} : '0);
  always_ff @(posedge clk_i) too_many_q <= places > 20'd65535;

  // ---- windows that begin after the last row or column of the input: such descriptors are
  // rejected. Also sizes that fit the descriptor but not the counters: bytes of a row have 25 bits;
  // an output row plus its last tile has 16; a run of a whole row is one command, whose beats have
  // 16 bits, with up to two of them shared with other runs.
  localparam logic [31:0] RUN_BYTES = 32'(65534 * AXI_BYTES);
  logic [19:0] reach_h, reach_w;
  logic        behind, too_large;
  assign reach_h = (d.s_h[0] ? 20'(d.out_h) : '0) + (d.s_h[1] ? {3'b0, d.out_h, 1'b0} : '0)
                 + (d.s_h[2] ? {2'b0, d.out_h, 2'b0} : '0) + (d.s_h[3] ? {1'b0, d.out_h, 3'b0} : '0);
  assign reach_w = (d.s_w[0] ? 20'(d.out_w) : '0) + (d.s_w[1] ? {3'b0, d.out_w, 1'b0} : '0)
                 + (d.s_w[2] ? {2'b0, d.out_w, 2'b0} : '0) + (d.s_w[3] ? {1'b0, d.out_w, 3'b0} : '0);
  assign behind = reach_h >= 20'(d.in_h) + 20'(d.pad_t) + 20'(d.s_h) || reach_w >= 20'(d.in_w) + 20'(d.pad_l) + 20'(d.s_w);
  assign too_large = d.out_h > 16'hEFFF
                     || {d.in_row_bytes[31:25], d.out_row_bytes[31:25]} != '0
                     || (d.residual && d.res_row_bytes[31:25] != '0)
                     || (d.out_pix == d.out_c && d.out_row_bytes > RUN_BYTES)
                     || (d.in_pix == d.in_c && {7'b0, d.in_row, 1'b0} > RUN_BYTES);

  // ---- checks without products. The table of an average has one entry for each possible count of
  // taps. Results are used one cycle later, while the first product is computed.
  logic [15:0] curve_words;     // out_c is small where this is used
  assign curve_words = (POST != 0 && d.curve) ? 16'(abi_pkg::CURVE_WORDS) : '0;
  logic bad_magic_q, bad_op_q, behind_q, too_large_q, bad_shape_q, bad_shift_q, bad_address_q, bad_fbcb_q;
  always_ff @(posedge clk_i) begin
    bad_magic_q <= d.magic != 8'(abi_pkg::DESC_MAGIC) || (vec_q & abi_pkg::DESC_RSVD_MASK) != '0;
    bad_op_q <= (!weighted && !is_avg && d.op != abi_pkg::OP_MAX_POOL)
                || (POST == 0 && (d.curve || d.product));
    behind_q <= behind;
    too_large_q <= too_large;
    bad_shape_q <= d.in_h == '0 || d.in_w == '0 || d.in_c == '0 || d.out_h == '0 || d.out_w == '0
                 || d.out_c == '0 || d.in_pix < d.in_c || d.out_pix < d.out_c
                 || (d.residual && (!weighted || (d.res_pix < d.out_c && (POST == 0 || d.res_pix != '0))))
                 || (POST != 0 && ((d.product && (!d.residual || d.curve)) || (d.curve && !weighted)))
                 || d.k_h == '0 || d.k_w == '0 || d.s_h == '0 || d.s_w == '0
                 || d.s_h > 8'd15 || d.s_w > 8'd15
                 || (weighted && (32'(d.out_c) > C_MAX || d.bias_count != d.out_c + curve_words
                                  || w_bytes == '0 || w_tile == '0))
                 || (dw && w_tile != w_bytes)
                 || (!is_gemm && d.out_c != d.in_c)
                 || (d.avg_table ? (!is_avg || d.bias_count > 16'(abi_pkg::AVG_TABLE))
                                 : (!weighted && d.bias_count != '0));
    bad_shift_q <= d.shift > 6'd47 || (POST != 0 && d.curve && d.curve_step > 4'(abi_pkg::CURVE_STEP_MAX)) || (is_avg && (d.avg_shift == '0 || d.avg_shift > 6'd47));
    bad_address_q <= d.in_offset[0] || d.out_offset[0] || d.res_offset[0]
                 || w_align != '0 || w_bytes[WA-1:0] != '0 || w_tile[WA-1:0] != '0
                 || d.bias_offset[WA-1:0] != '0;
    bad_fbcb_q <= (fbcb_rdata_i & abi_pkg::FBCB_RSVD_MASK) != '0
                 || f.k == 2'd3 || (f.k != 2'd0 && (STACK == 0 || !is_gemm))
                 || (two && (FLUID == 0 || !is_gemm || f.k == 2'd2 || b_act_i == 4'd1
                             || f.b_r != (b_act_i + 4'd1) >> 1
                             || 32'(d.out_c) > (half ? T_C : T_C / 2)))
                 || (f.order && (!is_gemm || w_kept > 32'(KEEP))) || keep_bad
                 || f.tile_b == '0 || f.tile_b > f.b_r
                 || f.tile_rows == '0 || 16'(f.tile_rows) > d.out_h;
  end
  logic [7:0] static_err;
  always_comb begin
    static_err = abi_pkg::ERR_NONE;
    if (bad_magic_q) static_err = abi_pkg::ERR_DESC_MAGIC;
    else if (bad_op_q) static_err = abi_pkg::ERR_DESC_OP;
    else if (behind_q || too_large_q || bad_shape_q) static_err = abi_pkg::ERR_DESC_SHAPE;
    else if (bad_shift_q) static_err = abi_pkg::ERR_DESC_SHIFT;
    else if (bad_address_q) static_err = abi_pkg::ERR_DESC_ADDRESS;
    else if (bad_fbcb_q) static_err = abi_pkg::ERR_FBCB_RANGE;
  end

  // ---- the slot table: in range, no slot twice; evaluated before the state that needs it
  logic slots_bad, slots_bad_q;
  always_ff @(posedge clk_i) slots_bad_q <= slots_bad;
  always_comb begin
    slots_bad = 1'b0;
    for (int unsigned i = 0; i < BM; i++) begin
      if (4'(i) < b_act_i) begin
        if ({1'b0, slot_table_i[i*6+:6]} >= n_slot_i) slots_bad = 1'b1;
        for (int unsigned j = 0; j < i; j++) begin
          if (slot_table_i[i*6+:6] == slot_table_i[j*6+:6]) slots_bad = 1'b1;
        end
      end
    end
  end

  assign fbcb_raddr_o = {layer_q, 3'(b_act_i - 4'd1)};
  assign req_valid_o = state_q == StRequest;
  assign req_addr_o = desc_base_i + AW'({layer_q, 7'b0});
  assign req_beats_o = 16'(BEATS);
  assign slot_addr_o = slot_addr_q;
  assign layer_desc_o = vec_q;
  assign layer_fbcb_o = fbcb_rdata_i;
  assign layer_index_o = layer_q;
  assign layer_last_o = layer_q == last_layer_i;
  assign layer_samp_o = samp_q;
  assign layer_valid_o = (state_q == StOffer) ? ~taken_q : '0;
  assign err_valid_o = state_q == StError;
  assign err_code_o = err_q;
  assign err_layer_o = layer_q;

  logic [UNITS-1:0] taken_d;
  assign taken_d = taken_q | layer_ready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      taken_q <= '0;
    end else begin
      unique case (state_q)
        StIdle: begin
          layer_q <= first_layer_i;
          slot_q <= '0;
          bit_q <= '0;
          table_q <= slot_table_i;
          if (start_i) state_q <= StRange;
        end

        StRange: begin
          kept_q <= 1'b0;
          state_q <= StSlots;
          if (first_layer_i > last_layer_i) begin
            err_q <= abi_pkg::ERR_LAYER_RANGE;
            state_q <= StError;
          end else if (b_act_i == '0 || b_act_i > 4'(BM)) begin
            err_q <= abi_pkg::ERR_BATCH_RANGE;
            state_q <= StError;
          end else if (slots_bad_q) begin
            err_q <= abi_pkg::ERR_SLOT_RANGE;
            state_q <= StError;
          end
          step_addr_q <= AW'(slot_stride_i);
          addr_q <= slot_base_i;
        end

        // slot addresses: base + stride * slot, one entry after the other, always over all bits, so
        // that the cycles of a start do not depend on its slots
        StSlots: begin
          step_addr_q <= {step_addr_q[AW-2:0], 1'b0};
          table_q[5:0] <= {1'b0, table_q[5:1]};
          if (table_q[0] && bit_q != 3'd6) addr_q <= addr_q + step_addr_q;
          bit_q <= bit_q + 3'd1;
          if (bit_q == 3'd6) begin
            bit_q <= '0;
            slot_addr_q <= {addr_q, slot_addr_q[BM*AW-1:AW]};
            table_q <= {6'b0, table_q[BM*6-1:6]};
            step_addr_q <= AW'(slot_stride_i);
            addr_q <= slot_base_i;
            slot_q <= slot_q + 3'd1;
            if (slot_q == 3'(BM - 1)) state_q <= StRequest;
          end
        end

        StRequest: begin
          if (req_ready_i) state_q <= StReceive;
        end

        StReceive: begin
          if (rsp_valid_i) begin
            vec_q <= {rsp_data_i, vec_q[1023:AXI_BYTES*8]};
            if (rsp_last_i) state_q <= StStatic;
          end
        end

        StStatic: begin
          step_q <= 4'd0;
          state_q <= StMul;
        end

        StMul: begin
          mul_a_q <= mul_a;
          mul_b_q <= mul_b;
          mul_p_q <= '0;
          mul_over_q <= 1'b0;
          want_q <= want;
          exact_q <= exact;
          any_q <= any;
          err_q <= static_err;
          state_q <= (static_err == abi_pkg::ERR_NONE) ? StMulWait : StError;
        end

        StMulWait: begin
          if (mul_b_q != '0) begin
            mul_a_q <= {mul_a_q[30:0], 1'b0};
            mul_b_q <= {1'b0, mul_b_q[15:1]};
            if (mul_b_q[0]) {mul_over_q, mul_p_q} <= {mul_over_q, 32'b0} | (33'(mul_p_q) + 33'(mul_a_q));
            if (mul_a_q[31] && mul_b_q[15:1] != '0) mul_over_q <= 1'b1;
          end else begin
            err_q <= step_err;
            step_q <= step_q + 4'd1;
            state_q <= StMul;
            if (!fits) begin
              state_q <= StError;
            end else if (step_q == 4'd8) begin
              n_ih_q <= mul_p_q[15:0] + 16'(d.k_h);
            end else if (step_q == 4'd9) begin
              samp_q <= mul_p_q[23:0];
            end else if (step_q == 4'd15 || !dw && step_q == 4'd13) begin
              state_q <= StOffer;
            end
          end
        end

        StOffer: begin
          taken_q <= taken_d;
          if (taken_d == '1) begin
            taken_q <= '0;
            kept_q <= f.keep_out;
            kept_h_q <= d.out_h;
            kept_w_q <= d.out_w;
            kept_c_q <= d.out_c;
            layer_q <= layer_q + 8'd1;
            state_q <= layer_last_o ? StIdle : StRequest;
          end
        end

        StError: ;  // the core resets all units

        default: state_q <= StIdle;
      endcase
    end
  end
endmodule
