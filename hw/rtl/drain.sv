// Drains finished accumulator banks, one group per cycle unless the residual or the writer stalls:
// sample groups, in each the rows in order, in each row groups of up to LANES channels. The words
// pass bias, residual, requantisation and clamp. A bank is released when its last group is read.
//
// Words come READ - 1 cycles behind their row (pe_array); those of the group's PEs go into a register and, a cycle later, those of
// the lanes into a queue. A group is read where the queue has room for all that are under way, so nothing before it has to wait.
// Behind it nothing waits either: en stalls a word's place (v_q), its data go on to a queue at the end, where they wait for it.
// Lanes are in blocks of up to BLOCK, each with its own copy of what controls them.
//
// A step takes LANES adjacent PEs: all of them for k = 1, half of them (with both halves) for k =
// 1/2, and every second one (LANES / 2 channels) for k = 2, and for s = 2 with k = 1.
//
// A layer's sizes are computed in the state that tests it, a bank's while waiting for the bank.
//
// With DEPTHWISE the words of a depthwise layer come from that unit: of a row tile all channels of each pixel, as of a
// bank of one C tile.
//
// A layer counts as drained when its last word has left the pipeline: until then it needs its biases and its curve, which
// weight_fetch writes.
module drain #(
  parameter int unsigned T_R   = 256,
  parameter int unsigned T_C   = 32,
  parameter int unsigned LANES = 8,
  parameter int unsigned C_MAX = 512,
  parameter int unsigned RES_CW = 5,
  parameter int unsigned DEPTHWISE = 0,
  parameter int unsigned POST  = 0,
  localparam int unsigned STAGES = (POST != 0) ? 6 : 3,   // of post
  localparam int unsigned READ = 5,                       // from dr_en_o to the queue
  localparam int unsigned QUEUE = 8,                      // at a group a cycle READ + 1 are under way
  localparam int unsigned END = 1 << $clog2(STAGES + 1),  // of the queue at the end: a word in C and one in each stage
  localparam int unsigned BLOCK = 4,                      // lanes
  localparam int unsigned BLOCKS = (LANES + BLOCK - 1) / BLOCK,
  localparam int unsigned KW = $clog2(2 * abi_pkg::CURVE_WORDS),
  localparam int unsigned ACC = abi_pkg::ACC_BITS,
  localparam int unsigned RW = $clog2(T_R),
  localparam int unsigned CW = $clog2(LANES + 1),
  localparam int unsigned BW = $clog2(2 * (C_MAX / LANES)),
  localparam int unsigned GROUPS = T_C / LANES,
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1,
  localparam int unsigned DL = (LANES > 1) ? $clog2(LANES) : 1
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic [3:0]          b_act_i,
  input  logic [8:0]          layers_written_i,
  input  logic                layer_valid_i,
  output logic                layer_ready_o,
  input  abi_pkg::desc_t      layer_desc_i,
  input  abi_pkg::fbcb_t      layer_fbcb_i,
  output logic [8:0]          layers_drained_o,
  // accumulators
  input  logic                done_i,          // pulse: a bank is complete
  output logic                bank_free_o,     // pulse: the older bank is free
  output logic                dr_bank_o,
  output logic                dr_en_o,
  output logic [RW-2:0]       dr_row_o,
  input  logic [2*T_C*ACC-1:0] dr_acc_i,       // PE c: halves at 2c and 2c + 1
  // sums of the depthwise unit
  input  logic                dw_ok_i,         // the next dw_cnt_o are there
  output logic [CW-1:0]       dw_cnt_o,
  output logic                dw_pixel_o,      // they are a pixel's last
  output logic                dw_pop_o,
  input  logic [LANES*ACC-1:0] dw_data_i,
  // bias memory
  input  logic                bias_we_i,
  input  logic [DL-1:0]       bias_lane_i,
  input  logic [BW-1:0]       bias_addr_i,
  input  logic [31:0]         bias_data_i,
  input  logic [8:0]          bias_layers_i,
  // the curve's words, which are bias_data_i too
  input  logic                curve_we_i,
  input  logic [KW-1:0]       curve_addr_i,
  input  logic [4:0]          curve_sh_i,
  // residual
  input  logic [RES_CW-1:0]   res_fill_i,
  input  logic [LANES*16-1:0] res_data_i,
  output logic                res_pop_o,
  output logic [RES_CW-1:0]   res_cnt_o,
  // words out
  output logic                valid_o,
  input  logic                ready_i,
  output logic [LANES*16-1:0] data_o,
  output logic [CW-1:0]       cnt_o
);
  if ((T_C / 2) % LANES != 0 || LANES % 2 != 0) begin : gen_bad
    $fatal(1, "drain: DRAIN must be even and divide T_C / 2");
  end

  typedef enum logic [2:0] {StIdle, StTest, StPool, StWait, StRun, StLast} state_e;
  state_e state_q;

  /* verilator lint_off UNUSEDSIGNAL */
  abi_pkg::desc_t d, desc_q;
  abi_pkg::fbcb_t f, fbcb_q;
  /* verilator lint_on UNUSEDSIGNAL */
  assign d = desc_q;
  assign f = fbcb_q;

  logic [3:0]    b0_q, nb, nb_q, nb_g, rest_1, rest_1_q, i_q;
  logic [15:0]   c_rest_q, oh_rest_q;     // channels and rows from this tile on
  logic [15:0]   nr, nr_q, nch, nch_q;
  logic [15:0]   r_left_q, ow_left_q, ch_left_q;
  logic          ch_first_q;              // the row's first group
  logic [RW-1:0] row_q;
  logic [GW-1:0] group_q;                 // group of LANES neighbouring PEs
  logic          sub_q;                   // k = 1/2, s = 1: upper half of the group's PEs
  logic          high_q;                  // upper half of the bias word's lanes
  logic          g_q;                     // sample group
  logic [BW-1:0] word_q, word0_q;         // bias word of the C tile's first group, of this group
  logic [1:0]    full_q;                  // complete banks waiting
  logic          bank_q;
  logic [8:0]    layers_q;

  logic          dw;                      // the layer's words are the depthwise unit's
  assign dw = DEPTHWISE != 0 && d.op == abi_pkg::OP_DEPTHWISE;

  // values that depend on k and s
  logic        half, pair, two_q, sparse_q;
  logic [15:0] tc, tc_q;
  logic [CW-1:0] step_q;
  logic        two;
  assign half = f.k == 2'd1;
  assign pair = f.k == 2'd2;
  tile_size #(.T_C(T_C)) u_size (
    .fbcb_i(fbcb_q), .b_act_i, .b0_i(b0_q), .two_o(two), .tc_o(tc), .nb_o(nb), .rest_1_o(rest_1)
  );

  logic last_c, last_t, last_b, last_c_q, last_t_q, last_b_q;
  assign last_c = c_rest_q <= tc_q;
  assign last_t = oh_rest_q <= 16'(f.tile_rows);
  assign last_b = b0_q + nb == f.b_r;
  assign nr = last_t ? oh_rest_q : 16'(f.tile_rows);
  assign nch = last_c ? c_rest_q : tc_q;

  logic last_g, last_ow, last_r, last_i, last_row, last_group;
  assign nb_g = (g_q && rest_1_q < nb_q) ? rest_1_q : nb_q;
  assign last_g = ch_left_q <= 16'(step_q);
  assign last_ow = ow_left_q == 16'd1;
  assign last_r = r_left_q == 16'd1;
  assign last_i = i_q + 4'd1 == nb_g;
  assign last_group = g_q || !two_q || rest_1_q == '0;
  assign last_row = last_ow && last_r && last_i && last_group;

  // ---- stages: A addresses, R are READ cycles later the lanes' words, then the queue, B biases (residual), C registers, then post
  typedef enum logic [3:0] {
    Low      = 4'd0,   // PE i
    Upper    = 4'd1,   // PE i, rows above T_R / 2
    Halves   = 4'd2,   // k = 1/2: half i % 2 of PE i / 2,
    Second   = 4'd3,   //   for the second step from the group's middle on,
    Halves0  = 4'd4,   //   with s = 2 of PE 2 (i / 2),
    Halves1  = 4'd5,   //   and of the one behind it for sample group 1
    Even     = 4'd8,   // every second PE: 2 i
    EvenUp   = 4'd9,
    Odd      = 4'd10,  // or the one behind it
    OddUp    = 4'd11
  } pick_e;
  localparam int unsigned LANE = 1 + BW + 4;               // of a token: what the lanes need
  localparam int unsigned UW = $clog2(QUEUE + 1);
  logic          a_go, q_room, q_valid, q_ready, b_valid_q, b_go, b_load, c_valid_q, en, pop, empty;
  pick_e         pick;
  logic [READ-2:0]     way_q;                              // a bit a cycle
  logic [1+CW+LANE+GW-1:0] token_q[READ-1];
  logic            r_valid, r_last;
  logic [CW-1:0]   r_cnt;
  logic [CW-1:0]   a_cnt, b_cnt_q, q_cnt;
  logic            q_last, b_last_q;
  logic [UW-1:0]   under_q;               // words read that have not come to B
  logic [STAGES-1:0] v_q;                 // places of words
  logic [STAGES:0]   done_q;              // data of words
  logic [CW-1:0]     cnt_q[STAGES+1];
  logic          res_ok;
  logic          curve_half;              // of the layer's curve in its table

  assign valid_o = v_q[STAGES-1];
  assign en = ready_i || !valid_o;
  assign pop = ready_i && valid_o;
  assign res_ok = !d.residual || res_fill_i >= RES_CW'(b_cnt_q);
  assign b_go = b_valid_q && en && res_ok && (!dw || dw_ok_i);
  assign a_go = state_q == StRun && under_q != UW'(QUEUE);
  assign a_cnt = last_g ? CW'(ch_left_q) : step_q;
  assign b_load = q_valid && q_ready;
  assign q_ready = !b_valid_q || b_go;

  assign dw_cnt_o = b_cnt_q;
  assign dw_pixel_o = b_last_q;
  assign dw_pop_o = b_go && dw;
  assign dr_en_o = a_go && ch_first_q && !dw;
  assign dr_row_o = row_q[RW-2:0];
  assign dr_bank_o = bank_q;
  assign res_pop_o = b_go && d.residual;
  assign res_cnt_o = RES_CW'(b_cnt_q);
  // words in the pipeline still need the shift and bounds of their layer
  assign empty = under_q == '0 && !b_valid_q && !c_valid_q && v_q == '0;
  assign layer_ready_o = state_q == StIdle && empty;
  // a row of the next C tile comes to the accumulators later than the last word of this one from them
  assign bank_free_o = state_q == StLast && !dw;

  // ---- on the way and in the queue
  level #(.WIDTH(2 + CW)) u_token (
    .clk_i, .d_i({rst_ni && way_q[READ-2], token_q[READ-2][GW+LANE+:1+CW]}), .q_o({r_valid, r_last, r_cnt})
  );
  always_ff @(posedge clk_i) begin
    token_q[0] <= {last_g, a_cnt, high_q, word_q, pick, group_q};
    for (int unsigned i = 1; i < READ - 1; i++) token_q[i] <= token_q[i-1];
    if (!rst_ni) begin
      way_q <= '0;
      under_q <= '0;
    end else begin
      way_q <= {way_q[READ-3:0], a_go};
      under_q <= under_q + UW'(a_go) - UW'(b_load);
    end
  end
  // what the control needs of a word
  fifo #(.WIDTH(1 + CW), .DEPTH(QUEUE)) u_queue (
    .clk_i,
    .rst_ni,
    .valid_i(r_valid),
    .ready_o(q_room),
    .wdata_i({r_last, r_cnt}),
    .valid_o(q_valid),
    .ready_i(q_ready),
    .rdata_o({q_last, q_cnt})
  );
  logic unused_room;                      // under_q counts it
  assign unused_room = q_room;

  // ---- the PE half of each lane is selected with the address
  always_comb begin
    if (half && two_q) pick = g_q ? Halves1 : Halves0;
    else if (half) pick = sub_q ? Second : Halves;
    else if (!sparse_q) pick = row_q[RW-1] ? Upper : Low;
    else if (pair || g_q) pick = row_q[RW-1] ? OddUp : Odd;
    else pick = row_q[RW-1] ? EvenUp : Even;
  end

  // ---- lanes
  logic [2*LANES*ACC-1:0] pes_q;          // of the group's PEs, both halves
  logic [LANES*32-1:0] bias, bias_q;
  logic [LANES*ACC-1:0] acc_q;
  logic [LANES*16-1:0]  res_q, y;
  logic [GROUPS-1:0]    group_sel;        // a bit a group
  for (genvar g = 0; g < GROUPS; g++) begin : gen_sel
    assign group_sel[g] = token_q[READ-3][GW-1:0] == GW'(g);
  end
  for (genvar n = 0; n < BLOCKS; n++) begin : gen_block
    localparam int unsigned FIRST = n * BLOCK;
    localparam int unsigned N = (FIRST + BLOCK > LANES) ? LANES - FIRST : BLOCK;
    logic [GROUPS-1:0] sel;
    logic [3:0]        way;               // to the lane
    logic              valid, high, there, q_high, b_there, b_high_q, load, dw_n, residual, done;
    logic [BW-1:0]     word, at;
    logic [2*N*ACC-1:0] pes;
    logic [N*ACC-1:0]  group, q_acc, b_acc_q;

    level #(.WIDTH(GROUPS)) u_sel (.clk_i, .d_i(group_sel), .q_o(sel));
    level #(.WIDTH(1 + LANE)) u_token (
      .clk_i, .d_i({rst_ni && way_q[READ-2], token_q[READ-2][GW+:LANE]}), .q_o({valid, high, word, way})
    );
    level #(.WIDTH(2)) u_layer (.clk_i, .d_i({dw, d.residual}), .q_o({dw_n, residual}));
    level #(.WIDTH(1)) u_done (.clk_i, .d_i(rst_ni && done_q[STAGES-1]), .q_o(done));

    always_comb begin
      pes = '0;
      for (int unsigned g = 0; g < GROUPS; g++) begin
        if (sel[g]) pes = pes | dr_acc_i[2*(g*LANES+FIRST)*ACC+:2*N*ACC];
      end
    end
    always_ff @(posedge clk_i) pes_q[2*FIRST*ACC+:2*N*ACC] <= pes;

    skid #(.WIDTH(1 + BW + N * ACC), .DEPTH(QUEUE)) u_queue (
      .clk_i, .rst_ni, .valid_i(valid), .data_i({high, word, group}), .valid_o(there), .pop_i(load), .data_o({q_high, at, q_acc})
    );
    assign load = there && (!b_there || b_go);
    level #(.WIDTH(1)) u_there (.clk_i, .d_i(rst_ni && (there || (b_there && !b_go))), .q_o(b_there));
    always_ff @(posedge clk_i) begin
      if (load) begin
        b_acc_q <= q_acc;
        b_high_q <= q_high;
      end
      acc_q[FIRST*ACC+:N*ACC] <= dw_n ? dw_data_i[FIRST*ACC+:N*ACC] : b_acc_q;
      res_q[FIRST*16+:N*16] <= residual ? res_data_i[FIRST*16+:N*16] : '0;
    end

    for (genvar i = FIRST; i < FIRST + N; i++) begin : gen_lane
      localparam int unsigned SP = (2 * i < LANES) ? 2 * i : 0;   // lanes beyond that carry no data
      always_comb begin
        unique case (way)
          Upper:   group[(i-FIRST)*ACC+:ACC] = pes_q[(2*i+1)*ACC+:ACC];
          Halves:  group[(i-FIRST)*ACC+:ACC] = pes_q[(2*(i/2)+i%2)*ACC+:ACC];
          Second:  group[(i-FIRST)*ACC+:ACC] = pes_q[(2*(LANES/2+i/2)+i%2)*ACC+:ACC];
          Halves0: group[(i-FIRST)*ACC+:ACC] = pes_q[(2*(2*(i/2))+i%2)*ACC+:ACC];
          Halves1: group[(i-FIRST)*ACC+:ACC] = pes_q[(2*(2*(i/2)+1)+i%2)*ACC+:ACC];
          Even:    group[(i-FIRST)*ACC+:ACC] = pes_q[(2*SP)*ACC+:ACC];
          EvenUp:  group[(i-FIRST)*ACC+:ACC] = pes_q[(2*SP+1)*ACC+:ACC];
          Odd:     group[(i-FIRST)*ACC+:ACC] = pes_q[(2*(SP+1))*ACC+:ACC];
          OddUp:   group[(i-FIRST)*ACC+:ACC] = pes_q[(2*(SP+1)+1)*ACC+:ACC];
          default: group[(i-FIRST)*ACC+:ACC] = pes_q[(2*i)*ACC+:ACC];
        endcase
      end
      ram_1r1w #(.WIDTH(32), .DEPTH(2 * (C_MAX / LANES))) u_bias (
        .clk_i,
        .we_i   (bias_we_i && bias_lane_i == DL'(i)),
        .waddr_i(bias_addr_i),
        .wdata_i(bias_data_i),
        .re_i   (load),
        .raddr_i(at),
        .rdata_o(bias[i*32+:32])
      );
      always_ff @(posedge clk_i) begin
        bias_q[i*32+:32] <= (i < LANES / 2 && b_high_q) ? bias[((i+LANES/2)%LANES)*32+:32] : bias[i*32+:32];
      end
    end

    logic unused;
    skid #(.WIDTH(N * 16), .DEPTH(END), .PASS(1'b1)) u_end (
      .clk_i, .rst_ni, .valid_i(done), .data_i(y[FIRST*16+:N*16]), .valid_o(unused), .pop_i(pop), .data_o(data_o[FIRST*16+:N*16])
    );
  end

  always_ff @(posedge clk_i) begin
    if (b_load) begin
      b_cnt_q <= q_cnt;
      b_last_q <= q_last;
    end
    cnt_q[0] <= b_cnt_q;
    for (int unsigned i = 1; i <= STAGES; i++) cnt_q[i] <= cnt_q[i-1];
    if (!rst_ni) begin
      b_valid_q <= 1'b0;
      c_valid_q <= 1'b0;
      v_q <= '0;
      done_q <= '0;
    end else begin
      if (q_ready) b_valid_q <= q_valid;
      if (en) begin
        c_valid_q <= b_go;
        v_q <= {v_q[STAGES-2:0], c_valid_q};
      end
      done_q <= {done_q[STAGES-1:0], b_go};
    end
  end

  post #(.LANES(LANES), .POST(POST)) u_post (
    .clk_i,
    .acc_i       (acc_q),
    .bias_i      (bias_q),
    .res_i       (res_q),
    .rs_i        (d.res_shift),
    .sh_i        (d.shift),
    .lo_i        (d.clamp_lo),
    .hi_i        (d.clamp_hi),
    .product_i   (d.product),
    .curve_i     (d.curve),
    .curve_lo_i  (d.curve_lo),
    .curve_step_i(d.curve_step),
    .curve_sh_i  (d.curve_shift),
    .half_i      (curve_half),
    .table_we_i  (curve_we_i),
    .table_addr_i(curve_addr_i),
    .table_data_i(bias_data_i),
    .table_sh_i  (curve_sh_i),
    .y_o         (y)
  );
  logic unused_valid;
  skid #(.WIDTH(CW), .DEPTH(END), .PASS(1'b1)) u_cnt (
    .clk_i, .rst_ni, .valid_i(done_q[STAGES]), .data_i(cnt_q[STAGES]), .valid_o(unused_valid), .pop_i(pop), .data_o(cnt_o)
  );

  logic [8:0] drained_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) drained_q <= '0;
    else if (state_q == StIdle && empty) drained_q <= layers_q;
    if (state_q == StIdle && empty) curve_half <= layers_q[0];
  end
  assign layers_drained_o = drained_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      full_q <= '0;
      bank_q <= 1'b0;
      layers_q <= '0;
    end else begin
      full_q <= full_q + 2'(done_i) - 2'(bank_free_o);
      unique case (state_q)
        StIdle: if (empty) begin
          desc_q <= layer_desc_i;
          fbcb_q <= layer_fbcb_i;
          b0_q <= '0;
          word0_q <= layers_q[0] ? BW'(C_MAX / LANES) : '0;
          if (layer_valid_i) state_q <= StTest;
        end
        StTest: begin
          state_q <= (d.op == abi_pkg::OP_GEMM || dw) ? StWait : StPool;
          g_q <= 1'b0;
          tc_q <= dw ? '1 : tc;
          two_q <= two;
          sparse_q <= pair || (two && !half);
          step_q <= (pair || (two && !half)) ? CW'(LANES / 2) : CW'(LANES);
          c_rest_q <= d.out_c;
          oh_rest_q <= d.out_h;
        end
        StPool: begin  // the pool unit may need its table until the layer is written
          if (layers_written_i == layers_q + 9'd1) begin
            layers_q <= layers_q + 9'd1;
            state_q <= StIdle;
          end
        end
        StWait: begin  // waits for a complete bank and, at the start of a layer, for its biases
          nb_q <= nb;
          rest_1_q <= rest_1;
          nr_q <= nr;
          nch_q <= nch;
          last_c_q <= last_c;
          last_t_q <= last_t;
          last_b_q <= last_b;
          i_q <= '0;
          r_left_q <= nr;
          ow_left_q <= d.out_w;
          row_q <= '0;
          ch_left_q <= nch;
          ch_first_q <= 1'b1;
          group_q <= '0;
          sub_q <= 1'b0;
          high_q <= 1'b0;
          g_q <= 1'b0;
          word_q <= word0_q;
          if ((dw || full_q != '0) && bias_layers_i != layers_q) state_q <= StRun;
        end
        StRun: begin
          if (a_go) begin
            ch_left_q <= ch_left_q - 16'(step_q);
            ch_first_q <= last_g;
            sub_q <= half && !two_q && !sub_q;
            if (!half || two_q || sub_q) group_q <= group_q + 1'b1;
            high_q <= sparse_q && !high_q;
            if (!sparse_q || high_q) word_q <= word_q + 1'b1;
            if (last_g) begin
              ch_left_q <= nch_q;
              group_q <= '0;
              sub_q <= 1'b0;
              high_q <= 1'b0;
              word_q <= word0_q;
              row_q <= row_q + 1'b1;
              ow_left_q <= ow_left_q - 16'd1;
              if (last_ow) begin
                ow_left_q <= d.out_w;
                r_left_q <= r_left_q - 16'd1;
                if (last_r) begin
                  r_left_q <= nr_q;
                  i_q <= i_q + 4'd1;
                  if (last_i) begin
                    i_q <= '0;
                    row_q <= '0;
                    g_q <= 1'b1;
                  end
                end
              end
              if (last_row) state_q <= StLast;
            end
          end
        end
        StLast: begin
          bank_q <= bank_q ^ !dw;
          state_q <= StWait;
          if (!f.order || (last_t_q && last_b_q)) begin  // the next C tile
            c_rest_q <= last_c_q ? d.out_c : c_rest_q - tc_q;
            word0_q <= word0_q + (half ? BW'(2 * GROUPS) : (pair ? BW'(GROUPS / 2) : BW'(GROUPS)));
            if (last_c_q) word0_q <= layers_q[0] ? BW'(C_MAX / LANES) : '0;
          end
          if (f.order || last_c_q) begin               // the next row tile
            oh_rest_q <= last_t_q ? d.out_h : oh_rest_q - nr_q;
            if (last_t_q) begin
              b0_q <= last_b_q ? '0 : b0_q + nb_q;
              if (last_b_q && last_c_q) begin
                layers_q <= layers_q + 9'd1;
                state_q <= StIdle;
              end
            end
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end
endmodule
