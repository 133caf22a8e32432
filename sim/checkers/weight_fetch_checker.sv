// weight_fetch_checker: bound to every weight_fetch where this file is compiled with --assert. The
// credits of ring and bias queue stay within their sizes, an answer finds its kind, biases are at
// most two layers ahead of the drain, and weights are low where few are there or asked for that were
// not taken, or came back with a rewind.
module weight_fetch_checker #(
    parameter int unsigned WRING_BEATS = 512,
    parameter int unsigned RW          = 10,
    parameter int unsigned BFIFO       = 32,
    parameter int unsigned AXI_BYTES   = 8
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic [RW-1:0] free_i,
    input logic [5:0]    bfree_i,
    input logic          asks_i,
    input logic          last_i,
    input logic          few_i,
    input logic          asked_i,
    input logic [15:0]   beats_i,
    input logic          taken_i,
    input logic          commit_i,
    input logic          rewind_i,
    input logic          low_i,
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
      assert (!asks_i || last_i == few_i) else $error("weight_fetch: the last request is not known");
      assert (!rsp_valid_i || kind_known_i) else $error("weight_fetch: an answer without its kind");
      assert (!bias_push_i || bias_ready_i) else $error("weight_fetch: the bias queue runs over");
    end
  end
  // a sixteenth of the ring, or two KiB where that is more and no more than half
  localparam int unsigned KIB2 = (2048 / AXI_BYTES < WRING_BEATS / 2) ? 2048 / AXI_BYTES : WRING_BEATS / 2;
  localparam int unsigned LOW = (WRING_BEATS / 16 > KIB2) ? WRING_BEATS / 16 : KIB2;
  int unsigned ahead_q, again_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      ahead_q <= 0;
      again_q <= 0;
    end else begin
      ahead_q <= ahead_q + (asked_i ? 32'(beats_i) : 0) + (rewind_i ? again_q : 0) - 32'(taken_i);
      again_q <= ((commit_i || rewind_i) ? 0 : again_q) + 32'(taken_i);
      assert (low_i == (ahead_q < LOW)) else $error("weight_fetch: low_o is wrong, %0d beats are ahead", ahead_q);
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
    .BFIFO      (BFIFO),
    .AXI_BYTES  (AXI_BYTES)
) u_checker (
    .clk_i,
    .rst_ni,
    .free_i       (free_q),
    .bfree_i      (bfree_q),
    .asks_i       (state_q == StBias || state_q == StWeights),
    .last_i       (last_q),
    .few_i        (left_q <= 28'(CHUNK)),
    .asked_i      (req_valid_o && req_ready_i && !is_bias),
    .beats_i      (req_beats_o),
    .taken_i      (ring_valid_o && ring_ready_i),
    .commit_i     (ring_commit_i),
    .rewind_i     (ring_rewind_i),
    .low_i        (low_o),
    .rsp_valid_i,
    .kind_known_i (kind_valid),
    .bias_ready_i (b_ready_unused),
    .bias_push_i  (rsp_valid_i && k_bias),
    .bias_we_i    (bias_we_o),
    .bias_layers_i(bias_layers_o),
    .layers_drained_i
);
