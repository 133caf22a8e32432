// gearbox_checker: bound to every gearbox where this file is compiled with --assert. A pop never
// takes more than there is (ALL: may) or than stands at the output, a push brings no more than fits behind
// what it skips, and both are multiples of their units: the pointers count no less.
module gearbox_checker #(
    parameter int unsigned IN_WORDS  = 4,
    parameter int unsigned OUT_WORDS = 8,
    parameter int unsigned CW        = 5,
    parameter int unsigned SW        = 2,
    parameter bit          ALL       = 1'b0,
    parameter int unsigned IN_UNIT   = 1,
    parameter int unsigned OUT_UNIT  = 1
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          push_i,
    input logic [CW-1:0] push_cnt_i,
    input logic [SW-1:0] skip_i,
    input logic          pop_i,
    input logic [CW-1:0] pop_cnt_i,
    input logic [CW-1:0] goes_i,     // of what is popped, what there is
    input logic [CW-1:0] fill_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!pop_i || ALL || pop_cnt_i <= fill_i) else $error("gearbox: pop of more than there is");
      assert (!pop_i || 32'(pop_cnt_i) <= OUT_WORDS) else $error("gearbox: pop of more than stands out");
      assert (!pop_i || 32'(goes_i) % OUT_UNIT == 0) else $error("gearbox: pop of part of a unit");
      assert (!push_i || push_cnt_i == '0 || 32'(skip_i) + 32'(push_cnt_i) <= IN_WORDS)
      else $error("gearbox: push of more than comes in");
      assert (!push_i || 32'(push_cnt_i) % IN_UNIT == 0) else $error("gearbox: push of part of a unit");
      assert (32'(fill_i) <= 2 * IN_WORDS + OUT_WORDS) else $error("gearbox: overfull");
    end
  end
endmodule

bind gearbox gearbox_checker #(
    .IN_WORDS (IN_WORDS),
    .OUT_WORDS(OUT_WORDS),
    .CW       (CW),
    .SW       (SW),
    .ALL      (ALL),
    .IN_UNIT  (IN_UNIT),
    .OUT_UNIT (OUT_UNIT)
) u_checker (
    .clk_i,
    .rst_ni,
    .push_i,
    .push_cnt_i,
    .skip_i,
    .pop_i,
    .pop_cnt_i,
    .goes_i(goes),
    .fill_i(fill_o)
);
