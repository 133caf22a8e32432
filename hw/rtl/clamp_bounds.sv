// The bounds of a layer's words as numbers of W bits before the shift see them, for any number of
// shift_clamp: x >> sh is less than lo where x is less than low, more than hi where x is at least high. Beyond
// what x can be they end at 2^(W-1) and its negative. Latency 2 cycles.
module clamp_bounds #(
  parameter int unsigned W = 49
) (
  input  logic               clk_i,
  input  logic [5:0]         sh_i,
  input  logic signed [15:0] lo_i,
  input  logic signed [15:0] hi_i,
  output logic signed [W:0]  low_o,
  output logic signed [W:0]  high_o
);
  localparam int unsigned FULL = 17 + 63;  // hi + 1, shifted by all that six bits say
  if (W + 1 >= FULL) begin : gen_bad
    $fatal(1, "clamp_bounds: W must be less than %0d", FULL - 1);
  end

  logic signed [FULL-1:0] low_q, high_q;
  logic                   low_fits, high_fits;
  assign low_fits = low_q[FULL-1:W-1] == '0 || low_q[FULL-1:W-1] == '1;
  assign high_fits = high_q[FULL-1:W-1] == '0 || high_q[FULL-1:W-1] == '1;
  always_ff @(posedge clk_i) begin
    low_q <= FULL'(lo_i) <<< sh_i;
    high_q <= (FULL'(hi_i) + FULL'(1)) <<< sh_i;
    // 2^(W-1) and its negative differ in the first bit alone
    low_o <= low_fits ? (W + 1)'(low_q) : {low_q[FULL-1], 1'b1, {(W - 1) {1'b0}}};
    high_o <= high_fits ? (W + 1)'(high_q) : {high_q[FULL-1], 1'b1, {(W - 1) {1'b0}}};
  end
endmodule
