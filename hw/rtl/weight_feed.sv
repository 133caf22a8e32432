// Loads the shadow weights of the array, pass after pass, from the weights ring: W_LOAD PEs a cycle.
// A pass is one chunk of k T_P elements of one kernel row for the channels of one C tile. In the
// ring a PE's words follow each other (for k = 1/2 its first half's, then its second's, floor(T_P/2)
// each; for k = 2 the even PE's, then the odd one's); with s = 2 the PEs of a pair take the same
// words, so that W_LOAD / 2 are read and W_LOAD loaded. full_o says
// that the shadow weights of the next pass are complete; swap_i takes them, and loading goes on when
// the swap has passed the last lane: it reaches the array SWAP_LATENCY cycles after swap_i (read
// address register, activation buffer) and the last lane of a chain one cycle a lane later.
module weight_feed #(
  parameter int unsigned T_P       = 8,
  parameter int unsigned T_C       = 32,
  parameter int unsigned W_LOAD    = 2,
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned SWAP_LATENCY = 3,
  localparam int unsigned GROUPS = (T_C + W_LOAD - 1) / W_LOAD,
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1,
  localparam int unsigned WPB = AXI_BYTES / 2,
  localparam int unsigned OW = $clog2(WPB)
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic [3:0]               b_act_i,
  input  logic                     layer_valid_i,
  output logic                     layer_ready_o,
  input  logic [1023:0]            layer_desc_i,
  input  logic [31:0]              layer_fbcb_i,
  input  logic                     ring_valid_i,
  output logic                     ring_ready_o,
  input  logic [AXI_BYTES*8-1:0]   ring_data_i,
  input  logic                     ring_last_i,
  output logic                     load_o,
  output logic [GW-1:0]            group_o,
  output logic [W_LOAD*T_P*16-1:0] w_o,
  output logic                     full_o,
  input  logic                     swap_i,
  output logic                     err_valid_o    // the stream does not match the layer
);
  localparam int unsigned OUT = (W_LOAD * T_P > 8) ? W_LOAD * T_P : 8;  // pads are up to 7 words
  localparam int unsigned CW = $clog2(2 * WPB + OUT + 1);
  // the first load stands at the earliest in the cycle in which the last lane swaps
  localparam int unsigned FH = T_P / 2;
  localparam int unsigned WAIT = SWAP_LATENCY - 2;
  localparam int unsigned WW = $clog2(WAIT + 2 * T_P + 1);

  if (W_LOAD % 2 != 0) begin : gen_bad
    $fatal(1, "weight_feed: W_LOAD must be even, both PEs of a pair load together");
  end

  typedef enum logic [2:0] {StIdle, StPass, StLoad, StFull, StPad, StEnd, StError} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d;
  abi_pkg::fbcb_t f;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [1023:0] desc_q;
  logic [31:0]   fbcb_q;
  assign d = desc_q;
  assign f = fbcb_q;

  logic [3:0]  b0_q;
  logic [15:0] oh0_q, c0_q, pe_q;
  logic [7:0]  kh_q;
  logic [23:0] p0_q;
  logic [2:0]  phase_q;                  // words of the tile so far, modulo 8
  logic [GW-1:0] group_q;
  logic        saw_last_q;
  logic [WW-1:0] wait_q;                 // cycles until the last swap has passed

  logic [15:0] nch, pe_left;
  logic [CW-1:0] fill, need, pad, pop_cnt, push_cnt;
  /* verilator lint_off UNUSEDSIGNAL */
  logic [31:0] w_bytes;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [OW-1:0] tail;
  logic        gear_ready, push, pop, last_chunk, last_kh, last_c, last_rows, last_b;
  logic        short_stream;
  logic [OUT*16-1:0] words;

  // what k and s make of it: vectors (a PE's words) of a pass, how many are read at a time
  logic        half, pair, two, odd;
  logic [15:0] tc, nv, at_once;
  logic [5:0]  lanes;
  assign half = f.k == 2'd1;
  assign pair = f.k == 2'd2;
  assign two = f.b_r != b_act_i;
  assign lanes = half ? 6'(FH) : (pair ? 6'(2 * T_P) : 6'(T_P));
  assign tc = half ? (two ? 16'(T_C) : 16'(2 * T_C))
                   : ((pair || two) ? 16'(T_C / 2) : 16'(T_C));
  assign nch = (c0_q + tc > d.out_c) ? d.out_c - c0_q : tc;
  assign nv = half ? (nch + 16'd1) >> 1 : (pair ? nch << 1 : nch);
  assign odd = half && nch[0];            // the last PE has one channel only
  assign at_once = two ? 16'(W_LOAD / 2) : 16'(W_LOAD);
  assign pe_left = nv - pe_q;
  // constants only: a product would cost a DSP
  always_comb begin
    need = '0;
    for (int unsigned i = 1; i <= W_LOAD; i++) begin
      if (at_once == 16'(i) || (pe_left == 16'(i) && pe_left < at_once)) begin
        if (pe_left >= 16'(i)) need = half ? CW'(i * 2 * FH) : CW'(i * T_P);
      end
    end
    if (odd && pe_left <= at_once) need = need - CW'(FH);
  end
  logic [2:0] pad3;
  assign pad3 = 3'd0 - phase_q;
  assign pad = CW'(pad3);
  assign last_chunk = p0_q + 24'(lanes) >= d.kwc;
  assign last_kh = kh_q + 8'd1 == d.k_h;
  assign last_c = c0_q + tc >= d.out_c;
  assign last_rows = oh0_q + 16'(f.tile_rows) >= d.out_h;
  assign last_b = {1'b0, b0_q} + {1'b0, f.tile_b} >= {1'b0, f.b_r};

  // the last beat of a row tile's stream may be partly beyond it
  assign w_bytes = half ? d.w_bytes_h : (pair ? d.w_bytes_2 : d.w_bytes_1);
  assign tail = w_bytes[OW:1];
  assign push_cnt = (ring_last_i && tail != '0) ? CW'(tail) : CW'(WPB);
  assign push = ring_valid_i && ring_ready_o;
  // how much of a last beat counts is known once the layer is
  assign ring_ready_o = gear_ready && !saw_last_q && state_q != StIdle && state_q != StPass;
  assign pop = (state_q == StLoad && wait_q == '0 && fill >= need)
               || (state_q == StPad && fill >= pad);
  assign pop_cnt = (state_q == StPad) ? pad : need;
  assign short_stream = saw_last_q && ((state_q == StLoad && fill < need)
                                       || (state_q == StPad && fill < pad));

  gearbox #(.IN_WORDS(WPB), .OUT_WORDS(OUT)) u_gear (
    .clk_i,
    .rst_ni,
    .push_i    (push),
    .push_cnt_i(push_cnt),
    .data_i    (ring_data_i),
    .ready_o   (gear_ready),
    .pop_i     (pop),
    .pop_cnt_i (pop_cnt),
    .data_o    (words),
    .fill_o    (fill)
  );

  assign load_o = state_q == StLoad && pop;
  assign group_o = group_q;
  for (genvar i = 0; i < W_LOAD; i++) begin : gen_slot
    // PE i of the group takes vector i, or with s = 2 vector i / 2
    assign w_o[i*T_P*16+:T_P*16] = half ? (two ? words[(i/2)*2*FH*16+:T_P*16]
                                               : words[i*2*FH*16+:T_P*16])
                                        : (two ? words[(i/2)*T_P*16+:T_P*16]
                                               : words[i*T_P*16+:T_P*16]);
  end
  assign full_o = state_q == StFull;
  assign layer_ready_o = state_q == StIdle;
  assign err_valid_o = state_q == StError;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      saw_last_q <= 1'b0;
      wait_q <= '0;
    end else begin
      if (push && ring_last_i) saw_last_q <= 1'b1;
      if (wait_q != '0) wait_q <= wait_q - 1'b1;
      unique case (state_q)
        StIdle: begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          b0_q <= '0;
          oh0_q <= '0;
          c0_q <= '0;
          kh_q <= '0;
          p0_q <= '0;
          phase_q <= '0;
          if (layer_valid_i) state_q <= StPass;
        end
        StPass: begin
          pe_q <= '0;
          group_q <= '0;
          state_q <= (d.op == abi_pkg::OP_GEMM) ? StLoad : StIdle;
        end
        StLoad: begin
          if (pop) begin
            pe_q <= pe_q + at_once;
            group_q <= group_q + 1'b1;
            phase_q <= phase_q + 3'(need);
            if (pe_left <= at_once) state_q <= StFull;
          end
          if (short_stream) state_q <= StError;
        end
        StFull: begin
          pe_q <= '0;
          group_q <= '0;
          if (swap_i) begin
            wait_q <= WW'(WAIT) + (half ? WW'(T_P - FH) : WW'(lanes));
            state_q <= StLoad;
            p0_q <= p0_q + 24'(lanes);
            if (last_chunk) begin
              p0_q <= '0;
              kh_q <= kh_q + 8'd1;
              if (last_kh) begin
                kh_q <= '0;
                state_q <= StPad;
              end
            end
          end
        end
        StPad: begin  // a C tile ends on 16 bytes
          if (pop) begin
            phase_q <= '0;
            c0_q <= c0_q + tc;
            state_q <= StLoad;
            if (last_c) begin
              c0_q <= '0;
              state_q <= StEnd;
            end
          end
          if (short_stream) state_q <= StError;
        end
        StEnd: begin  // of a row tile: its stream must be used up
          if (fill != '0) begin
            state_q <= StError;
          end else if (saw_last_q) begin
            saw_last_q <= 1'b0;
            state_q <= StPass;
            oh0_q <= oh0_q + 16'(f.tile_rows);
            if (last_rows) begin
              oh0_q <= '0;
              b0_q <= b0_q + f.tile_b;
              if (last_b) state_q <= StIdle;
            end
          end else if (ring_valid_i) begin
            state_q <= StError;
          end
        end
        StError: ;
        default: state_q <= StIdle;
      endcase
    end
  end

  logic unused;
  assign unused = ^words;  // where W_LOAD * T_P < 8 the upper ones are pads only
endmodule
