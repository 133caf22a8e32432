// Pooling: NB channels side by side, one tap a cycle. Max keeps the largest, average the sum of the
// taps from a first to a last one: a window, or (cols_i) a column of at most four. Columns are combined
// with the one or two before them of the same channel group, which a memory keeps; some complete a
// window. The average is then (sum * M + 2^(S-1)) >> S, M the layer's or, where the count of taps varies
// at the borders, a table's. There are MULS multipliers of 25 x 18 bit, a DSP each: one makes a word
// where a sum has 25 bits (512 taps), two (wide_i) where it has more. Results leave as up to OUT
// words a cycle (max), MULS or MULS / 2 (average), channels in order, saturated and clamped.
module pool #(
  parameter int unsigned NB      = 16,
  parameter int unsigned OUT     = 8,
  parameter int unsigned MULS    = 4,
  parameter int unsigned ROOM    = 4,
  parameter int unsigned GROUPS  = 64,
  localparam int unsigned LB = $clog2(NB),
  localparam int unsigned GW = $clog2(GROUPS),
  localparam int unsigned SUM = abi_pkg::DATA_BITS + $clog2(abi_pkg::AVG_TAPS),
  localparam int unsigned CW = $clog2(OUT + 1)
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              avg_i,
  input  logic              wide_i,               // a window may have more than 512 taps
  input  logic [1:0]        cols_i,               // by columns, of windows three wide
  input  logic [16:0]       mul_i,
  input  logic              table_i,              // M is table word {half, taps}
  input  logic              table_half_i,
  input  logic              table_we_i,
  input  logic [8:0]        table_addr_i,
  input  logic [16:0]       table_data_i,
  input  logic [5:0]        shift_i,
  input  logic [15:0]       lo_i,
  input  logic [15:0]       hi_i,
  input  logic              valid_i,
  input  logic [NB*16-1:0]  data_i,
  input  logic              first_i,
  input  logic              last_i,
  input  logic              result_i,             // a window ends with the last tap
  input  logic [GW-1:0]     group_i,
  input  logic [LB:0]       channels_i,
  input  logic [7:0]        taps_i,
  output logic              taken_o,              // a result has left
  output logic              valid_o,
  input  logic              ready_i,
  output logic [OUT*16-1:0] data_o,
  output logic [CW-1:0]     cnt_o
);
  localparam int unsigned NARROW = (MULS < OUT) ? MULS : OUT;   // words an average gives in a cycle
  localparam int unsigned WIDE = MULS / 2;
  localparam int unsigned BLOCK = 4;                            // lanes that share a copy of what a layer sets
  localparam int unsigned LOW = 17;                             // bits of a sum in the lower of two products
  if (OUT > NB || OUT < WIDE || MULS % 2 != 0 || OUT % 2 != 0) begin : gen_bad
    $fatal(1, "pool: MULS / 2 <= OUT <= NB, both even");
  end

  // ---- windows, columns
  // Stored for each group and lane: the last column, and what the next column is combined with: the
  // last column (windows two wide) or the last two combined. Leftovers of the previous row are
  // overwritten before the first window of a row ends.
  localparam int unsigned COL = abi_pkg::DATA_BITS + 2;
  localparam int unsigned KEPT = 2 * COL + 1;
  logic [NB*SUM-1:0]  acc_q, acc_d, win;
  logic [NB*KEPT-1:0] kept_q, kept_d, kept;
  logic               full_q, done_q;
  logic [LB:0]        chan_q;
  logic [7:0]         taps_q;
  logic [GW-1:0]      group_q;
  logic [NB-1:0]      avg;                          // avg_i, stable before a layer's first tap
  for (genvar n = 0; n < NB; n += BLOCK) begin : gen_block
    localparam int unsigned N = (n + BLOCK > NB) ? NB - n : BLOCK;
    logic one;
    level #(.WIDTH(1)) u_level (.clk_i, .d_i(avg_i), .q_o(one));
    assign avg[n+:N] = {N{one}};
  end
  for (genvar i = 0; i < NB; i++) begin : gen_lane
    logic signed [SUM-1:0] x, a, two;
    logic signed [COL:0]   col, one, both;
    assign x = SUM'($signed(data_i[i*16+:16]));
    assign a = $signed(acc_q[i*SUM+:SUM]);
    assign acc_d[i*SUM+:SUM] = first_i ? x : (avg[i] ? a + x : ((x > a) ? x : a));
    assign two = SUM'($signed(kept_q[i*KEPT+:COL+1]));
    assign win[i*SUM+:SUM] = avg[i] ? a + two : ((two > a) ? two : a);
    assign col = (COL + 1)'($signed(acc_q[i*SUM+:COL]));
    assign one = (COL + 1)'($signed(kept_q[i*KEPT+COL+1+:COL]));
    assign both = avg[i] ? col + one : ((one > col) ? one : col);
    assign kept_d[i*KEPT+:KEPT] = {col[COL-1:0], both};
  end

  (* ram_style = "distributed" *) logic [NB*KEPT-1:0] kept_mem[GROUPS];
  assign kept = kept_mem[group_i];
  always_ff @(posedge clk_i) begin
    if (done_q) kept_mem[group_q] <= kept_d;
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      acc_q <= acc_d;
      chan_q <= channels_i;
      taps_q <= taps_i;
      group_q <= group_i;
      // if there is no column to combine with: zero, or the smallest value
      for (int unsigned i = 0; i < NB; i++) begin
        kept_q[i*KEPT+:COL+1] <= cols_i[0] ? kept[i*KEPT+:COL+1] : {!avg[i], {COL{1'b0}}};
        kept_q[i*KEPT+COL+1+:COL] <= cols_i[1] ? kept[i*KEPT+COL+1+:COL] : {!avg[i], {(COL - 1) {1'b0}}};
      end
    end
    if (!rst_ni) begin
      full_q <= 1'b0;
      done_q <= 1'b0;
    end else begin
      full_q <= valid_i && last_i && result_i;
      done_q <= valid_i && last_i;
    end
  end

  logic              res_valid, res_pop, room_unused;
  logic [NB*SUM-1:0] res_data;
  logic [LB:0]       res_chan;
  logic [7:0]        res_taps;
  fifo #(.WIDTH(NB * SUM + LB + 9), .DEPTH(ROOM)) u_results (
    .clk_i,
    .rst_ni,
    .valid_i(full_q),
    .ready_o(room_unused),           // pool_seq begins no window or column without room
    .wdata_i({taps_q, chan_q, win}),
    .valid_o(res_valid),
    .ready_i(res_pop),
    .rdata_o({res_taps, res_chan, res_data})
  );

  // ---- serialise
  localparam int unsigned PAD = NB + OUT;
  logic [LB:0]        pos_q, left, count, most;
  logic [PAD*SUM-1:0] view;
  logic               step, en;
  assign left = res_chan - pos_q;
  assign most = !avg_i ? (LB + 1)'(OUT) : (wide_i ? (LB + 1)'(WIDE) : (LB + 1)'(NARROW));
  assign count = (left > most) ? most : left;
  assign step = res_valid && en;
  assign res_pop = step && count == left;
  assign taken_o = res_pop;
  // groups start at multiples of the even group size: a multiplexer instead of a shifter
  always_comb begin
    view = '0;
    for (int unsigned g = 0; g < NB; g += 2) begin
      if (pos_q == (LB + 1)'(g)) begin
        view = {{OUT * SUM{1'b0}}, res_data} >> (g * SUM);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) pos_q <= '0;
    else if (res_pop) pos_q <= '0;
    else if (step) pos_q <= pos_q + count;
  end

  logic [16:0] table_mul, mul;
  ram_1r1w #(.WIDTH(17), .DEPTH(512)) u_table (
    .clk_i,
    .we_i   (table_we_i),
    .waddr_i(table_addr_i),
    .wdata_i(table_data_i),
    .re_i   (en),
    .raddr_i({table_half_i, res_taps}),
    .rdata_o(table_mul)
  );
  assign mul = table_i ? table_mul : mul_i;

  // ---- multiply, round, saturate, clamp: six stages under one enable. Of these 1 to 3 are a DSP's: operands, product, its output.
  // A maximum, of 16 bits, goes beside it.
  localparam int unsigned STAGES = 5;             // behind the first
  logic [OUT*SUM-1:0]  s0_q;
  logic [3*OUT*16-1:0] max_q;
  logic [MULS*43-1:0]  p_q;
  logic [OUT*48-1:0]   s4_q;
  logic [OUT*16-1:0]   s5_q;
  logic [(STAGES+1)*CW-1:0] c_q;
  logic [STAGES:0]     v_q;
  logic signed [47:0] half;
  logic [5:0]         sh, sh_q;
  logic [OUT*6-1:0]   shs;
  logic signed [48:0] low, high;
  assign half = 48'sd1 <<< (shift_i - 6'd1);
  assign en = ready_i || !v_q[STAGES];
  // the shift and bounds of a layer are stable long before its first result
  assign sh = avg_i ? shift_i : 6'd0;
  level #(.WIDTH(6)) u_sh (.clk_i, .d_i(sh), .q_o(sh_q));
  for (genvar n = 0; n < OUT; n += BLOCK) begin : gen_shift
    localparam int unsigned N = (n + BLOCK > OUT) ? OUT - n : BLOCK;
    logic [5:0] one;
    level #(.WIDTH(6)) u_level (.clk_i, .d_i(sh), .q_o(one));
    assign shs[n*6+:N*6] = {N{one}};
  end
  clamp_bounds #(.W(48)) u_bounds (.clk_i, .sh_i(sh_q), .lo_i(lo_i), .hi_i(hi_i), .low_o(low), .high_o(high));

  for (genvar m = 0; m < MULS; m++) begin : gen_mul
    // word m, or the lower or upper part of word m / 2
    logic signed [24:0] narrow, x, x_q;
    logic signed [17:0] factor_q;
    logic signed [42:0] m_q;
    if (m < NARROW) begin : gen_word
      assign narrow = s0_q[m*SUM+:25];
    end else begin : gen_none
      assign narrow = '0;
    end
    if (m % 2 == 0) begin : gen_lower
      // no multiplexer with zeros, of which yosys makes a reset that these bits alone have
      assign x = {narrow[24:LOW] & {(25 - LOW){!wide_i}}, wide_i ? s0_q[(m/2)*SUM+:LOW] : narrow[LOW-1:0]};
    end else begin : gen_upper
      assign x = wide_i ? 25'($signed(s0_q[(m/2)*SUM+LOW+:SUM-LOW])) : narrow;
    end
    always_ff @(posedge clk_i) begin
      if (en) begin
        x_q <= x;
        factor_q <= {1'b0, mul};
        m_q <= 43'(x_q) * 43'(factor_q);
        p_q[m*43+:43] <= m_q;
      end
    end
  end

  for (genvar i = 0; i < OUT; i++) begin : gen_post
    logic signed [47:0] word, full;
    logic signed [15:0] y;
    assign word = 48'($signed(max_q[(2*OUT+i)*16+:16]));
    if (i < NARROW) begin : gen_avg
      logic signed [47:0] one, two;
      assign one = 48'($signed(p_q[i*43+:43]));
      if (i < WIDE) begin : gen_two
        assign two = 48'($signed(p_q[(2*i)*43+:43])) + (48'($signed(p_q[(2*i+1)*43+:43])) <<< LOW);
      end else begin : gen_one
        assign two = '0;
      end
      assign full = !avg[i] ? word : (wide_i ? two : one) + half;
    end else begin : gen_pass
      assign full = word;
    end
    shift_clamp #(.W(48)) u_clamp (
      .x_i(s4_q[i*48+:48]), .sh_i(shs[i*6+:6]), .lo_i(lo_i), .hi_i(hi_i), .low_i(low), .high_i(high), .y_o(y)
    );
    always_ff @(posedge clk_i) begin
      if (en) begin
        max_q[i*16+:16] <= s0_q[i*SUM+:16];
        s4_q[i*48+:48] <= full;
        s5_q[i*16+:16] <= y;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) v_q <= '0;
    else if (en) v_q <= {v_q[STAGES-1:0], res_valid};
    if (en) begin
      s0_q <= view[OUT*SUM-1:0];
      max_q[3*OUT*16-1:OUT*16] <= max_q[2*OUT*16-1:0];
      c_q <= {c_q[STAGES*CW-1:0], CW'(count)};
    end
  end
  assign valid_o = v_q[STAGES];
  assign data_o = s5_q;
  assign cnt_o = c_q[STAGES*CW+:CW];

  logic unused;
  assign unused = ^{room_unused, s0_q, view[PAD*SUM-1:OUT*SUM]};
endmodule
