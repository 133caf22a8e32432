// keep_writer_checker: bound to every keep_writer where this file is compiled with --assert. A run
// comes only when the one before it has ended or ends, words never reach over a run's end, and the lanes
// written are the first ones: npu_core asks the first alone whether there are any.
module keep_writer_checker #(
    parameter int unsigned IN_WORDS = 8,
    parameter int unsigned CW       = 4
) (
    input logic                clk_i,
    input logic                rst_ni,
    input logic                run_i,
    input logic                free_i,
    input logic                word_i,
    input logic                busy_i,
    input logic [CW-1:0]       cnt_i,
    input logic [23:0]         left_i,
    input logic [IN_WORDS-1:0] wr_mask_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!run_i || free_i) else $error("keep_writer: a run before the one in hand has ended");
      assert (!(word_i && busy_i) || 24'(cnt_i) <= left_i) else $error("keep_writer: words of two runs at once");
      assert ((wr_mask_i & (wr_mask_i + 1'b1)) == '0) else $error("keep_writer: written lanes are not the first ones");
    end
  end
endmodule

bind keep_writer keep_writer_checker #(
    .IN_WORDS(IN_WORDS),
    .CW      (CW)
) u_checker (
    .clk_i,
    .rst_ni,
    .run_i,
    .free_i   (free_o),
    .word_i,
    .busy_i   (busy_o),
    .cnt_i,
    .left_i   (left_q),
    .wr_mask_i(wr_mask_o)
);
