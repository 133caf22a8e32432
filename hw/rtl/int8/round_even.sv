// y = sat16(rnd(x, n)), where rnd(x, n) is x / 2^n rounded to the nearest integer, of two to the even one. The shift is in
// three steps, by 16s, 4s and 1s. Behind each, what can still reach the result is kept: the bits that a later step may shift
// into it, whether those above differ from the sign, the bit below (guard) and whether one under that is set (rest).
// Latency 4 cycles; sh_i, at most 47, comes with x_i.
module round_even #(
  parameter int unsigned W = 49   // of x, at most 64
) (
  input  logic                clk_i,
  input  logic signed [W-1:0] x_i,
  input  logic [5:0]          sh_i,
  output logic signed [15:0]  y_o
);
  if (W < 33 || W > 64) begin : gen_bad
    $fatal(1, "round_even: W must be 33 to 64");
  end

  // steps of 16: at most 15 more, so bits 31..0 stay
  logic signed [63:0] x, x16;
  logic               guard16, rest16;
  assign x = 64'(x_i);
  assign x16 = sh_i[5] ? x >>> 32 : (sh_i[4] ? x >>> 16 : x);
  always_comb begin
    if (sh_i[5]) {guard16, rest16} = {x[31], x[30:0] != '0};
    else if (sh_i[4]) {guard16, rest16} = {x[15], x[14:0] != '0};
    else {guard16, rest16} = 2'b00;
  end

  logic signed [31:0] x16_q, x4;
  logic               beyond16_q, sign16_q, guard16_q, rest16_q, guard4, rest4;
  logic [3:0]         sh16_q;
  // steps of 4: at most 3 more, so bits 18..0 stay
  assign x4 = x16_q >>> {sh16_q[3:2], 2'b0};
  always_comb begin
    unique case (sh16_q[3:2])
      2'd0: {guard4, rest4} = {guard16_q, rest16_q};
      2'd1: {guard4, rest4} = {x16_q[3], x16_q[2:0] != '0 || guard16_q || rest16_q};
      2'd2: {guard4, rest4} = {x16_q[7], x16_q[6:0] != '0 || guard16_q || rest16_q};
      default: {guard4, rest4} = {x16_q[11], x16_q[10:0] != '0 || guard16_q || rest16_q};
    endcase
  end

  logic signed [18:0] x4_q, x1;
  logic               beyond4_q, sign4_q, guard4_q, rest4_q, guard1, rest1;
  logic [1:0]         sh4_q;
  assign x1 = x4_q >>> sh4_q;
  always_comb begin
    unique case (sh4_q)
      2'd0: {guard1, rest1} = {guard4_q, rest4_q};
      2'd1: {guard1, rest1} = {x4_q[0], guard4_q || rest4_q};
      2'd2: {guard1, rest1} = {x4_q[1], x4_q[0] || guard4_q || rest4_q};
      default: {guard1, rest1} = {x4_q[2], x4_q[1:0] != '0 || guard4_q || rest4_q};
    endcase
  end

  logic signed [15:0] x1_q, y_q;
  logic               beyond1_q, sign1_q, up_q;
  logic signed [16:0] y;
  assign y = 17'(x1_q) + 17'($signed({1'b0, up_q}));
  always_ff @(posedge clk_i) begin
    x16_q <= x16[31:0];
    beyond16_q <= x16[63:31] != '0 && x16[63:31] != '1;
    sign16_q <= x_i[W-1];
    guard16_q <= guard16;
    rest16_q <= rest16;
    sh16_q <= sh_i[3:0];

    x4_q <= x4[18:0];
    beyond4_q <= beyond16_q || (x4[31:18] != '0 && x4[31:18] != '1);
    sign4_q <= sign16_q;
    guard4_q <= guard4;
    rest4_q <= rest4;
    sh4_q <= sh16_q[1:0];

    x1_q <= x1[15:0];
    beyond1_q <= beyond4_q || (x1[18:15] != '0 && x1[18:15] != '1);
    sign1_q <= sign4_q;
    up_q <= guard1 && (rest1 || x1[0]);

    // the largest word, rounded up, is beyond too
    y_q <= (beyond1_q || y[16] != y[15]) ? {sign1_q, {15{!sign1_q}}} : y[15:0];
  end
  assign y_o = y_q;
endmodule
