// y = clamp(sat16(x >> sh)), combinational. What a word does not hold is seen in x itself, beside the
// shift, and both bounds are compared side by side: too large a word lies beyond the upper bound whatever
// that is, too small a one beyond the lower.
module shift_clamp #(
  parameter int unsigned W = 49
) (
  input  logic signed [W-1:0] x_i,
  input  logic [5:0]          sh_i,
  input  logic signed [15:0]  lo_i,
  input  logic signed [15:0]  hi_i,
  output logic signed [15:0]  y_o
);
  logic neg, over;
  logic signed [15:0] word;
  assign neg = x_i[W-1];
  always_comb begin
    over = 1'b0;
    for (int unsigned i = 15; i < W - 1; i++) begin
      if (x_i[i] != neg && sh_i <= 6'(i - 15)) over = 1'b1;
    end
    word = 16'(x_i >>> sh_i);
    if (over ? neg : word < lo_i) y_o = lo_i;
    else if (over || word > hi_i) y_o = hi_i;
    else y_o = word;
  end
endmodule
