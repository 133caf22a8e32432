// The end of an int8 lane, a word a cycle: an accumulator becomes a code. With rnd as round_even has it,
//   t = sat16(rnd((acc + bias) * mul, sh)), where acc + bias has 32 bits,
//   u = sat16(rnd(t * a + res * b + d, s)), or with product_i sat16(rnd(t * (res + d) * a, s)),
//   y = clamp(u + zero).
// Of a layer without a residual, a is 1 and b, d, s, product_i are 0. A curve takes u. What is a channel's (bias, mul, sh)
// and res come with acc; what is a layer's is stable while words of it are on their way.
// With DSP four multipliers, each within one DSP48: two for 32 x 17 bits, one a factor behind them; else all in LUTs.
// Latency: 20 cycles, without DSP 26; u_o one less.
module requant #(
  parameter bit DSP = 1'b1
) (
  input  logic        clk_i,
  input  logic [31:0] acc_i,
  input  logic [31:0] bias_i,
  input  logic [16:0] mul_i,      // unsigned
  input  logic [5:0]  sh_i,       // at most 47
  input  logic [7:0]  res_i,
  // the layer's
  input  logic        product_i,
  input  logic [16:0] a_i,        // unsigned
  input  logic [16:0] b_i,        // unsigned
  input  logic [31:0] d_i,
  input  logic [5:0]  s_i,        // at most 47
  input  logic [7:0]  zero_i,
  input  logic [7:0]  lo_i,
  input  logic [7:0]  hi_i,
  output logic [15:0] u_o,
  output logic [7:0]  y_o
);
  logic signed [31:0] sum_q;
  logic [16:0]        mul_q;
  logic signed [48:0] product;    // four cycles later
  always_ff @(posedge clk_i) begin
    sum_q <= acc_i + bias_i;
    mul_q <= mul_i;
  end
  if (DSP) begin : gen_dsp
    // the upper part's multiplier adds what the lower one's has above bit 17
    logic signed [17:0] low_q, mul2_q, mul3_q;
    logic signed [14:0] high2_q, high3_q;
    logic signed [35:0] low_m_q, low_p_q;
    logic signed [32:0] high_m_q, high_p_q;
    logic [16:0]        low5_q;
    always_ff @(posedge clk_i) begin
      low_q <= {1'b0, sum_q[16:0]};
      high2_q <= sum_q[31:17];
      mul2_q <= {1'b0, mul_q};
      low_m_q <= low_q * mul2_q;
      high3_q <= high2_q;
      mul3_q <= mul2_q;
      low_p_q <= low_m_q;
      high_m_q <= high3_q * mul3_q;
      high_p_q <= high_m_q + 33'(low_p_q >>> 17);
      low5_q <= low_p_q[16:0];
    end
    assign product = {high_p_q[31:0], low5_q};
    logic unused;
    assign unused = high_p_q[32];
  end else begin : gen_lut
    logic signed [49:0] y;
    mul_lut #(.A(32)) u_mul (.clk_i, .a_i(sum_q), .b_i({1'b0, mul_q}), .y_o(y));
    assign product = y[48:0];
    logic unused;
    assign unused = y[49];
  end

  // what comes with a word, at the stages that use it
  localparam int unsigned SH = 5;     // register of the product
  localparam int unsigned RES = 9;    // of t
  localparam int unsigned M = DSP ? 1 : 4;  // cycles of a multiplier
  logic [5:0]        sh_q[SH];
  logic signed [7:0] res_q[RES+2+M];
  always_ff @(posedge clk_i) begin
    sh_q[0] <= sh_i;
    for (int unsigned i = 1; i < SH; i++) sh_q[i] <= sh_q[i-1];
    res_q[0] <= res_i;
    for (int unsigned i = 1; i < RES + 2 + M; i++) res_q[i] <= res_q[i-1];
  end

  logic signed [15:0] t;
  round_even #(.W(49)) u_first (
    .clk_i, .x_i(product), .sh_i(sh_q[SH-1]), .y_o(t)
  );

  // ---- t * a + d + res * b, or t * (res + d) * a
  logic signed [15:0] t_q;
  logic signed [17:0] factor_q, factor2_q;
  logic signed [33:0] m1, p1_q, add_q[M+1];
  logic signed [23:0] other_q;
  logic signed [41:0] m2, sum2_q;
  always_ff @(posedge clk_i) begin
    t_q <= t;
    factor_q <= product_i ? 18'(res_q[RES-1]) + 18'($signed(d_i[8:0])) : {1'b0, a_i};
    p1_q <= m1 + (product_i ? '0 : 34'($signed(d_i)));
    other_q <= product_i ? p1_q[23:0] : 24'(res_q[RES+1+M]);
    factor2_q <= {1'b0, product_i ? a_i : b_i};
    add_q[0] <= product_i ? '0 : p1_q;
    for (int unsigned i = 1; i <= M; i++) add_q[i] <= add_q[i-1];
    sum2_q <= m2 + 42'(add_q[M]);
  end
  if (DSP) begin : gen_dsp2
    logic signed [33:0] m1_q;
    logic signed [41:0] m2_q;
    always_ff @(posedge clk_i) begin
      m1_q <= t_q * factor_q;
      m2_q <= other_q * factor2_q;
    end
    assign m1 = m1_q;
    assign m2 = m2_q;
  end else begin : gen_lut2
    mul_lut #(.A(16)) u_first (.clk_i, .a_i(t_q), .b_i(factor_q), .y_o(m1));
    mul_lut #(.A(24)) u_second (.clk_i, .a_i(other_q), .b_i(factor2_q), .y_o(m2));
  end

  logic signed [15:0] u;
  round_even #(.W(42)) u_second (.clk_i, .x_i(sum2_q), .sh_i(s_i), .y_o(u));

  // ---- the code
  logic signed [16:0] code;
  logic signed [7:0]  y_q;
  assign code = 17'(u) + 17'($signed(zero_i));
  always_ff @(posedge clk_i) begin
    if (code < 17'($signed(lo_i))) y_q <= lo_i;
    else if (code > 17'($signed(hi_i))) y_q <= hi_i;
    else y_q <= code[7:0];
  end
  assign u_o = u;
  assign y_o = y_q;
endmodule
