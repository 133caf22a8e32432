// pe_array_checker: bound to every pe_array and pe_array_int8 where this file is compiled with --assert. An
// accumulator is used again no sooner than its sum is back, no shadow weight is loaded while a swap
// is still travelling, the computing and the draining bank are never the same, k and s change only
// while no row is on its way, and with k = 1/2 rows stay within half the accumulators.
module pe_array_checker #(
    parameter int unsigned T_R = 256,
    parameter int unsigned T_P = 8,
    // cycles of a row until its sums are written, k = 1/2, 1, 2; how much later, or earlier, its accumulators may be used again
    parameter int unsigned END_HALF = 6,
    parameter int unsigned END_ONE  = 10,
    parameter int unsigned END_PAIR = 18,
    parameter int          AGAIN    = 1,
    localparam int unsigned RW = $clog2(T_R)
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          half_i,
    input logic          pair_i,
    input logic          two_i,
    input logic          valid_i,
    input logic [RW-1:0] row_i,
    input logic          bank_i,
    input logic          swap_i,
    input logic          load_i,
    input logic          dr_en_i,
    input logic          dr_bank_i
);
  longint unsigned now_q = 0;
  longint unsigned swap_end_q = 0;  // when the last lane has swapped
  longint unsigned rows_end_q = 0;  // when the last row is done
  // when an accumulator may be used again. First rows count too: banks change in between.
  longint unsigned free_q[2*T_R];
  longint unsigned chain, row_end;
  logic [2:0] mode_q = '0;
  assign chain = half_i ? 64'(T_P) - 64'(T_P) / 2 : (pair_i ? 2 * 64'(T_P) : 64'(T_P));
  assign row_end = now_q + (half_i ? 64'(END_HALF) : (pair_i ? 64'(END_PAIR) : 64'(END_ONE)));

  initial begin
    for (int unsigned i = 0; i < 2 * T_R; i++) free_q[i] = 0;
  end

  always_ff @(posedge clk_i) begin
    now_q <= now_q + 1;
    mode_q <= {half_i, pair_i, two_i};
    if (!rst_ni) begin
      now_q <= now_q + 64'(4 * T_P + 4);  // nothing is on its way after a reset
    end else begin
      assert (mode_q == {half_i, pair_i, two_i} || now_q > rows_end_q)
      else $error("pe_array: k or s changes under a row");
      if (valid_i) begin
        assert (now_q >= free_q[{bank_i, row_i}])
        else $error("pe_array: an accumulator is used again before its sum is back");
        assert (!(half_i && row_i[RW-1])) else $error("pe_array: a row beyond half the accumulators");
        free_q[{bank_i, row_i}] <= row_end + 64'(AGAIN);
        rows_end_q <= row_end;
        if (swap_i) swap_end_q <= now_q + chain - 64'd1;
      end
      assert (!load_i || now_q >= swap_end_q)
      else $error("pe_array: shadow weights loaded while a swap travels");
      assert (!(load_i && valid_i && swap_i) || chain == 64'd1)
      else $error("pe_array: shadow weights loaded in the cycle of a swap");
      assert (!(valid_i && dr_en_i && bank_i == dr_bank_i))
      else $error("pe_array: the computing bank is drained");
    end
  end
endmodule

bind pe_array pe_array_checker #(
    .T_R(T_R),
    .T_P(T_P),
    .END_HALF(TH + 1),
    .END_ONE(T1 + 1),
    .END_PAIR(T2 + 1)
) u_checker (
    .clk_i,
    .rst_ni,
    .half_i     (half),
    .pair_i     (pair),
    .two_i      (two),
    .valid_i,
    .row_i,
    .bank_i,
    .swap_i,
    .load_i,
    .dr_en_i,
    .dr_bank_i
);

bind pe_array_int8 pe_array_checker #(
    .T_R(T_R),
    .T_P(T_P),
    .END_HALF(T0),
    .END_ONE(T1),
    .END_PAIR(T2),
    .AGAIN(5 - int'(T0))
) u_checker (
    .clk_i,
    .rst_ni,
    .half_i     (half),
    .pair_i     (pair),
    .two_i      (two),
    .valid_i,
    .row_i,
    .bank_i,
    .swap_i,
    .load_i,
    .dr_en_i,
    .dr_bank_i
);
