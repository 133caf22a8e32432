// gearbox_checker: bound to every gearbox where this file is compiled with --assert. A pop never
// takes more than there is (ALL: may) or than stands at the output, a push brings no more than fits.
module gearbox_checker #(
    parameter int unsigned IN_WORDS  = 4,
    parameter int unsigned OUT_WORDS = 8,
    parameter int unsigned CW        = 5,
    parameter bit          ALL       = 1'b0
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          push_i,
    input logic [CW-1:0] push_cnt_i,
    input logic          pop_i,
    input logic [CW-1:0] pop_cnt_i,
    input logic [CW-1:0] fill_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!pop_i || ALL || pop_cnt_i <= fill_i) else $error("gearbox: pop of more than there is");
      assert (!pop_i || 32'(pop_cnt_i) <= OUT_WORDS) else $error("gearbox: pop of more than stands out");
      assert (!push_i || 32'(push_cnt_i) <= IN_WORDS) else $error("gearbox: push of more than comes in");
      assert (32'(fill_i) <= 2 * IN_WORDS + OUT_WORDS) else $error("gearbox: overfull");
    end
  end
endmodule

bind gearbox gearbox_checker #(
    .IN_WORDS (IN_WORDS),
    .OUT_WORDS(OUT_WORDS),
    .CW       (CW),
    .ALL      (ALL)
) u_checker (
    .clk_i,
    .rst_ni,
    .push_i,
    .push_cnt_i,
    .pop_i,
    .pop_cnt_i,
    .fill_i(fill_o)
);
