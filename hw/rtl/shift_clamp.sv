// y = clamp(sat16(x >> sh)), combinational. Whether y is a bound is decided from x itself, in
// parallel with the shift. low_i and high_i are the bounds converted by clamp_bounds: the result is
// below lo_i if x is less than low_i, and above hi_i if x is at least high_i. Any value that does
// not fit a word is beyond one of the bounds.
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
