// pool_checker: bound to every pool where this file is compiled with --assert. While a tap, a column or a result is under way,
// the copies of what a layer sets are equal to it.
module pool_checker #(
    parameter int unsigned NB = 16
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          busy_i,
    input logic          avg_i,
    input logic [NB-1:0] copies_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni && busy_i) assert (copies_i == {NB{avg_i}}) else $error("pool: a copy is not the layer's");
  end
endmodule

bind pool pool_checker #(
    .NB(NB)
) u_checker (
    .clk_i,
    .rst_ni,
    .busy_i  (valid_i || full_q || done_q || res_valid || v_q != '0),
    .avg_i,
    .copies_i(avg)
);
