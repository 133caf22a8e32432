// pe_array_checker: bound to every pe_array where this file is compiled with --assert. An
// accumulator is used again no sooner than its sum is back, no shadow weight is loaded while a swap
// is still travelling, and the computing and the draining bank are never the same.
module pe_array_checker #(
    parameter int unsigned T_R = 256,
    parameter int unsigned T_P = 8,
    localparam int unsigned RW = $clog2(T_R)
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          valid_i,
    input logic [RW-1:0] row_i,
    input logic          bank_i,
    input logic          swap_i,
    input logic          load_i,
    input logic          head_i,       // reads an accumulator
    input logic          head_bank_i,
    input logic          dr_en_i,
    input logic          dr_bank_i
);
  localparam int unsigned DEPTH = T_P + 2;
  longint unsigned now_q = 0;
  longint unsigned swap_q = 0;
  logic swapped_q = 1'b0;
  // when an accumulator was last used; zero: never. First rows count too: banks change in between.
  longint unsigned used_q[2*T_R];

  initial begin
    for (int unsigned i = 0; i < 2 * T_R; i++) used_q[i] = 0;
  end

  always_ff @(posedge clk_i) begin
    now_q <= now_q + 1;
    if (!rst_ni) begin
      swapped_q <= 1'b0;
      now_q <= now_q + 64'(2 * DEPTH);  // nothing is on its way after a reset
    end else begin
      if (valid_i) begin
        assert (used_q[{bank_i, row_i}] == 0 || now_q - used_q[{bank_i, row_i}] >= 64'(DEPTH))
        else $error("pe_array: an accumulator is used again before its sum is back");
        used_q[{bank_i, row_i}] <= now_q;
        if (swap_i) begin
          swapped_q <= 1'b1;
          swap_q <= now_q;
        end
      end
      assert (!(load_i && swapped_q) || now_q - swap_q >= 64'(T_P) - 64'd1)
      else $error("pe_array: shadow weights loaded while a swap travels");
      assert (!(load_i && valid_i && swap_i) || T_P == 1)
      else $error("pe_array: shadow weights loaded in the cycle of a swap");
      assert (!(head_i && dr_en_i && head_bank_i == dr_bank_i))
      else $error("pe_array: the computing bank is drained");
    end
  end
endmodule

bind pe_array pe_array_checker #(
    .T_R(T_R),
    .T_P(T_P)
) u_checker (
    .clk_i,
    .rst_ni,
    .valid_i,
    .row_i,
    .bank_i,
    .swap_i,
    .load_i,
    .head_i     (valid_q[0]),
    .head_bank_i(bank_q[0]),
    .dr_en_i,
    .dr_bank_i
);
