// weight_feed_checker: bound to every weight_feed where this file is compiled with --assert. Weights
// are taken only when complete, and no shadow weight is loaded while a swap is still on its way
// through the lanes of the layer's chain (SWAP_LATENCY cycles to the array, then a lane a cycle).
module weight_feed_checker #(
    parameter int unsigned T_P          = 8,
    parameter int unsigned SWAP_LATENCY = 5
) (
    input logic clk_i,
    input logic rst_ni,
    input logic load_i,
    input logic full_i,
    input logic swap_i,
    input logic half_i,
    input logic pair_i
);
  int unsigned lanes_q = 0;           // that the swap in the array has still to pass
  int unsigned chain_q[SWAP_LATENCY]; // of swaps on their way to it; 0: none
  always_ff @(posedge clk_i) begin
    chain_q[0] <= !(rst_ni && swap_i) ? 0 : (half_i ? T_P - T_P / 2 : (pair_i ? 2 * T_P : T_P));
    for (int unsigned i = 1; i < SWAP_LATENCY; i++) chain_q[i] <= rst_ni ? chain_q[i-1] : 0;
    if (!rst_ni) lanes_q <= 0;
    else if (chain_q[SWAP_LATENCY-2] != 0) lanes_q <= chain_q[SWAP_LATENCY-2];
    else if (lanes_q != 0) lanes_q <= lanes_q - 1;
    if (rst_ni) begin
      assert (!swap_i || full_i) else $error("weight_feed: weights taken before they are complete");
      assert (!load_i || lanes_q <= 1)
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
