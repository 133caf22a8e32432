// Converts a layer's clamp bounds to W-bit numbers that are compared before the shift, for any
// number of shift_clamp instances: x >> sh is below lo if x is less than low, and above hi if x is
// at least high. Values beyond the range of x saturate at 2^(W-1) and its negative. Latency 2
// cycles.
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
  localparam int unsigned FULL = 17 + 63;  // hi + 1, shifted by the maximum of a 6-bit shift
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
    // 2^(W-1) and its negative differ only in the highest bit
    low_o <= low_fits ? (W + 1)'(low_q) : {low_q[FULL-1], 1'b1, {(W - 1) {1'b0}}};
    high_o <= high_fits ? (W + 1)'(high_q) : {high_q[FULL-1], 1'b1, {(W - 1) {1'b0}}};
  end
endmodule
