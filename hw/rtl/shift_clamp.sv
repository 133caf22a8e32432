// y = clamp(sat16(x >> sh)), combinational. Whether y is a bound is seen in x itself, beside the shift: low_i
// and high_i are what clamp_bounds makes of the bounds, so that x lies below lo_i where it is less than
// low_i, beyond hi_i where it is not less than high_i. What a word does not hold lies beyond a bound,
// whatever that is.
module shift_clamp #(
  parameter int unsigned W = 49
) (
  input  logic signed [W-1:0] x_i,
  input  logic [5:0]          sh_i,
  input  logic signed [15:0]  lo_i,
  input  logic signed [15:0]  hi_i,
  input  logic signed [W:0]   low_i,
  input  logic signed [W:0]   high_i,
  output logic signed [15:0]  y_o
);
  logic signed [W:0] x;
  assign x = (W + 1)'(x_i);
  always_comb begin
    if (x < low_i) y_o = lo_i;
    else if (x >= high_i) y_o = hi_i;
    else y_o = 16'(x_i >>> sh_i);
  end
endmodule
