// skid_checker: bound to every skid where this file is compiled with --assert. A word that comes finds room, and only one that
// is there is taken.
module skid_checker #(
    parameter int unsigned DEPTH = 4,
    parameter int unsigned AW    = 2
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        valid_i,
    input logic        valid_o,
    input logic        pop_i,
    input logic [AW:0] waiting_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!valid_i || pop_i || waiting_i != (AW + 1)'(DEPTH)) else $error("skid: a word finds no room");
      assert (!pop_i || valid_o) else $error("skid: a word is taken that is not there");
    end
  end
endmodule

bind skid skid_checker #(
    .DEPTH(DEPTH),
    .AW(AW)
) u_checker (
    .clk_i,
    .rst_ni,
    .valid_i,
    .valid_o,
    .pop_i,
    .waiting_i(wptr_q - rptr_q)
);
