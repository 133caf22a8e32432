// Pooling: NB channels side by side, one tap a cycle. Max keeps the largest, average the sum of the
// taps from a first to a last one: a window, or (cols_i) a column of at most four. Columns are combined
// with the one or two before them of the same channel group, which a memory keeps; some complete a
// window. The average is then (sum * M + 2^(S-1)) >> S on AVG_MUL multipliers, M the layer's or, where
// the count of taps varies at the borders, a table's. Results leave as up to OUT
// words a cycle (max) or AVG_MUL (average), channels in order, saturated and clamped.
module pool #(
  parameter int unsigned NB      = 16,
  parameter int unsigned OUT     = 8,
  parameter int unsigned AVG_MUL = 2,
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
  if (OUT > NB || OUT < AVG_MUL) begin : gen_bad
    $fatal(1, "pool: AVG_MUL <= OUT <= NB");
  end

  // ---- windows, columns
  // Kept of a group, a lane: the last column, and the last one (windows two wide) or two combined. What
  // is left of the row before is replaced before the first window of a row ends.
  localparam int unsigned COL = abi_pkg::DATA_BITS + 2;
  localparam int unsigned KEPT = 2 * COL + 1;
  logic [NB*SUM-1:0]  acc_q, acc_d, win;
  logic [NB*KEPT-1:0] kept_q, kept_d, kept;
  logic               full_q, done_q;
  logic [LB:0]        chan_q;
  logic [7:0]         taps_q;
  logic [GW-1:0]      group_q;
  for (genvar i = 0; i < NB; i++) begin : gen_lane
    logic signed [SUM-1:0] x, a, two;
    logic signed [COL:0]   col, one, both;
    assign x = SUM'($signed(data_i[i*16+:16]));
    assign a = $signed(acc_q[i*SUM+:SUM]);
    assign acc_d[i*SUM+:SUM] = first_i ? x : (avg_i ? a + x : ((x > a) ? x : a));
    assign two = SUM'($signed(kept_q[i*KEPT+:COL+1]));
    assign win[i*SUM+:SUM] = avg_i ? a + two : ((two > a) ? two : a);
    assign col = (COL + 1)'($signed(acc_q[i*SUM+:COL]));
    assign one = (COL + 1)'($signed(kept_q[i*KEPT+COL+1+:COL]));
    assign both = avg_i ? col + one : ((one > col) ? one : col);
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
      // where there is nothing to combine with: zero, or less than anything
      for (int unsigned i = 0; i < NB; i++) begin
        kept_q[i*KEPT+:COL+1] <= cols_i[0] ? kept[i*KEPT+:COL+1] : {!avg_i, {COL{1'b0}}};
        kept_q[i*KEPT+COL+1+:COL] <= cols_i[1] ? kept[i*KEPT+COL+1+:COL] : {!avg_i, {(COL - 1) {1'b0}}};
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
  logic [LB:0]        pos_q, left, count;
  logic [PAD*SUM-1:0] view;
  logic               step, en;
  assign left = res_chan - pos_q;
  assign count = avg_i ? ((left > (LB + 1)'(AVG_MUL)) ? (LB + 1)'(AVG_MUL) : left)
                       : ((left > (LB + 1)'(OUT)) ? (LB + 1)'(OUT) : left);
  assign step = res_valid && en;
  assign res_pop = step && count == left;
  assign taken_o = res_pop;
  // groups start at multiples of the group's size: a mux, not a shifter
  always_comb begin
    view = '0;
    for (int unsigned g = 0; g < NB; g += AVG_MUL) begin
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

  // ---- multiply, round, saturate, clamp: three stages under one enable
  logic [OUT*SUM-1:0] s0_q;
  logic [OUT*48-1:0]  s1_q;
  logic [OUT*16-1:0]  s2_q;
  logic [CW-1:0]      c0_q, c1_q, c2_q;
  logic               v0_q, v1_q, v2_q;
  logic signed [47:0] half;
  assign half = 48'sd1 <<< (shift_i - 6'd1);
  assign en = ready_i || !v2_q;

  for (genvar i = 0; i < OUT; i++) begin : gen_post
    logic signed [47:0] full, shifted;
    logic signed [15:0] sat;
    if (i < AVG_MUL) begin : gen_mul
      // widened first: a product takes its operands' width
      logic signed [47:0] sum, factor, product;
      assign sum = 48'($signed(s0_q[i*SUM+:SUM]));
      assign factor = 48'($signed({1'b0, mul}));
      assign product = sum * factor;
      assign full = avg_i ? product + half : 48'($signed(s0_q[i*SUM+:SUM]));
    end else begin : gen_pass
      assign full = 48'($signed(s0_q[i*SUM+:SUM]));
    end
    assign shifted = avg_i ? $signed(s1_q[i*48+:48]) >>> shift_i : $signed(s1_q[i*48+:48]);
    always_comb begin
      if (shifted > 48'sd32767) sat = 16'sh7FFF;
      else if (shifted < -48'sd32768) sat = 16'sh8000;
      else sat = shifted[15:0];
    end
    always_ff @(posedge clk_i) begin
      if (en) begin
        s1_q[i*48+:48] <= full;
        if (sat < $signed(lo_i)) s2_q[i*16+:16] <= lo_i;
        else if (sat > $signed(hi_i)) s2_q[i*16+:16] <= hi_i;
        else s2_q[i*16+:16] <= sat;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      v0_q <= 1'b0;
      v1_q <= 1'b0;
      v2_q <= 1'b0;
    end else if (en) begin
      v0_q <= res_valid;
      v1_q <= v0_q;
      v2_q <= v1_q;
    end
    if (en) begin
      s0_q <= view[OUT*SUM-1:0];
      c0_q <= CW'(count);
      c1_q <= c0_q;
      c2_q <= c1_q;
    end
  end
  assign valid_o = v2_q;
  assign data_o = s2_q;
  assign cnt_o = c2_q;

  logic unused;
  assign unused = ^{room_unused, view[PAD*SUM-1:OUT*SUM]};
endmodule
