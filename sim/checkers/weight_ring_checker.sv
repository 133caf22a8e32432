// weight_ring_checker: bound to every weight_ring where this file is compiled with --assert. The
// writer keeps to its credit (what is kept and what comes are never more than DEPTH words), nothing
// is taken that has not come, and a commit and a way back never meet.
module weight_ring_checker #(
    parameter int unsigned DEPTH = 512,
    parameter int unsigned AW    = 9
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        valid_i,
    input logic        commit_i,
    input logic        rewind_i,
    input logic [AW:0] wptr_i,
    input logic [AW:0] taken_i,
    input logic [AW:0] kept_i
);
  logic [AW:0] held, taken;
  assign held = wptr_i - kept_i;
  assign taken = taken_i - kept_i;
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (32'(held) <= DEPTH) else $error("weight_ring: more words than it has");
      assert (!(valid_i && 32'(held) == DEPTH)) else $error("weight_ring: a word over one that is kept");
      assert (taken <= held) else $error("weight_ring: a word is taken that has not come");
      assert (!(commit_i && rewind_i)) else $error("weight_ring: a commit and a way back in one");
    end
  end
endmodule

bind weight_ring weight_ring_checker #(
    .DEPTH(DEPTH),
    .AW   (AW)
) u_checker (
    .clk_i,
    .rst_ni,
    .valid_i,
    .commit_i,
    .rewind_i,
    .wptr_i (wptr_q),
    .taken_i(taken_q),
    .kept_i (kept_q)
);
