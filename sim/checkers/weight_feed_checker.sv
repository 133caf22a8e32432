// weight_feed_checker: bound to every weight_feed where this file is compiled with --assert. Weights
// are taken only when complete, and no shadow weight is loaded while a swap is still on its way
// through the lanes of the layer's chain (SWAP_LATENCY cycles to the array, then a lane a cycle).
module weight_feed_checker #(
    parameter int unsigned T_P          = 8,
    parameter int unsigned SWAP_LATENCY = 3
) (
    input logic clk_i,
    input logic rst_ni,
    input logic load_i,
    input logic full_i,
    input logic swap_i,
    input logic half_i,
    input logic pair_i
);
  int unsigned since_q = 1000;
  int unsigned chain_q = T_P;
  always_ff @(posedge clk_i) begin
    if (swap_i) chain_q <= half_i ? T_P - T_P / 2 : (pair_i ? 2 * T_P : T_P);
    if (!rst_ni) since_q <= 1000;
    else if (swap_i) since_q <= 1;
    else if (since_q < 1000) since_q <= since_q + 1;
    if (rst_ni) begin
      assert (!swap_i || full_i) else $error("weight_feed: weights taken before they are complete");
      assert (!load_i || since_q >= SWAP_LATENCY + chain_q - 1)
      else $error("weight_feed: shadow weights loaded under a swap");
    end
  end
endmodule

bind weight_feed weight_feed_checker #(
    .T_P         (T_P),
    .SWAP_LATENCY(SWAP_LATENCY)
) u_checker (
    .clk_i,
    .rst_ni,
    .load_i(load_o),
    .full_i(full_o),
    .swap_i,
    .half_i(half),
    .pair_i(pair)
);
