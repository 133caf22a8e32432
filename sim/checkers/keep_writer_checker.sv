// keep_writer_checker: bound to every keep_writer where this file is compiled with --assert. A run
// comes only when the one before it has ended or ends, and words never reach over a run's end.
module keep_writer_checker #(
    parameter int unsigned CW = 4
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          run_i,
    input logic          free_i,
    input logic          word_i,
    input logic          busy_i,
    input logic [CW-1:0] cnt_i,
    input logic [23:0]   left_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!run_i || free_i) else $error("keep_writer: a run before the one in hand has ended");
      assert (!(word_i && busy_i) || 24'(cnt_i) <= left_i) else $error("keep_writer: words of two runs at once");
    end
  end
endmodule

bind keep_writer keep_writer_checker #(
    .CW(CW)
) u_checker (
    .clk_i,
    .rst_ni,
    .run_i,
    .free_i(free_o),
    .word_i,
    .busy_i(busy_o),
    .cnt_i,
    .left_i(left_q)
);
