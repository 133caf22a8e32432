// weight_fetch_checker: bound to every weight_fetch where this file is compiled with --assert. The
// credits of ring and bias queue stay within their sizes, an answer finds its kind, and biases are
// at most two layers ahead of the drain.
module weight_fetch_checker #(
    parameter int unsigned WRING_BEATS = 512,
    parameter int unsigned RW          = 10,
    parameter int unsigned BFIFO       = 32
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic [RW-1:0] free_i,
    input logic [5:0]    bfree_i,
    input logic          rsp_valid_i,
    input logic          kind_known_i,
    input logic          bias_ready_i,
    input logic          bias_push_i,
    input logic          bias_we_i,
    input logic [8:0]    bias_layers_i,
    input logic [8:0]    layers_drained_i
);
  logic [8:0] ahead;
  assign ahead = bias_layers_i - layers_drained_i;
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (32'(free_i) <= WRING_BEATS) else $error("weight_fetch: more room than the ring has");
      assert (32'(bfree_i) <= BFIFO) else $error("weight_fetch: more room than the bias queue has");
      assert (!rsp_valid_i || kind_known_i) else $error("weight_fetch: an answer without its kind");
      assert (!bias_push_i || bias_ready_i) else $error("weight_fetch: the bias queue runs over");
    end
  end
  // the write stands one cycle behind its step, so a layer may just have been counted
  always_ff @(posedge clk_i) begin
    if (rst_ni && bias_we_i) begin
      assert (ahead <= 9'd2) else $error("weight_fetch: biases written over those in use");
    end
  end
endmodule

bind weight_fetch weight_fetch_checker #(
    .WRING_BEATS(WRING_BEATS),
    .RW         (RW),
    .BFIFO      (BFIFO)
) u_checker (
    .clk_i,
    .rst_ni,
    .free_i       (free_q),
    .bfree_i      (bfree_q),
    .rsp_valid_i,
    .kind_known_i (kind_valid),
    .bias_ready_i (b_ready_unused),
    .bias_push_i  (rsp_valid_i && k_bias),
    .bias_we_i    (bias_we_o),
    .bias_layers_i(bias_layers_o),
    .layers_drained_i
);
