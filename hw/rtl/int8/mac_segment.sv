// LEN packed multiply-accumulate cells for two output channels, one DSP48 a cell:
//   p[j] <= (j == 0 ? 2^(S-1) : p[j-1]) + m[j],  m[j] <= x[j] * weight[j],  weight = (w1 << S) + w2
// with w1, w2 -127 to 127. The constant makes p's upper S bits the sum of w1 x, and its lower S bits the
// sum of w2 x with its sign bit inverted, both exact, for at most 4 cells with S = 17 (DSP48E1) and 8 with S = 18
// (DSP48E2): mac_packed cuts its chains there, sim/formal proves it.
// Lane j is skewed by j cycles: a_i[j] and swap_i[j] arrive j cycles after lane 0's. Weights are double-buffered:
// load_i writes the shadow weights of all lanes; swap_i[j] makes lane j's shadow its weight, for the operand that
// arrives with it.
// CELLS: the same in cells of UltraScale+ (hw/xilinx/int8), where yosys infers the multiplier alone.
// Latency: p_o leaves LEN + 2 cycles after lane 0's operand.
module mac_segment #(
  parameter int unsigned LEN     = 4,
  parameter bit          DSP48E2 = 1'b0,
  parameter bit          CELLS   = DSP48E2,  // 0: written out for any tool, as sim/formal reads it
  localparam int unsigned S = DSP48E2 ? 18 : 17,
  localparam int unsigned W = S + 8
) (
  input  logic             clk_i,
  input  logic [LEN*8-1:0] a_i,
  input  logic [LEN-1:0]   swap_i,
  input  logic             load_i,
  input  logic [LEN*W-1:0] w_i,
  output logic [2*S-1:0]   p_o
);
  if (CELLS) begin : gen_cells
    mac_segment_dsp48e2 #(.LEN(LEN)) u_cells (.clk_i, .a_i, .swap_i, .load_i, .w_i, .p_o);
  end else begin : gen_mac
    localparam logic signed [2*S-1:0] HEAD = (2 * S)'(1) << (S - 1);
    logic signed [W-1:0]   shadow_q[LEN];
    logic signed [W-1:0]   weight_q[LEN];
    logic signed [7:0]     x_q[LEN];
    logic signed [W+7:0]   m_q[LEN];
    logic signed [2*S-1:0] p_q[LEN];

    for (genvar j = 0; j < LEN; j++) begin : gen_lane
      always_ff @(posedge clk_i) begin
        if (load_i) shadow_q[j] <= w_i[j*W+:W];
        if (swap_i[j]) weight_q[j] <= shadow_q[j];
        x_q[j] <= a_i[j*8+:8];
        m_q[j] <= x_q[j] * weight_q[j];
        if (j == 0) p_q[j] <= HEAD + (2 * S)'(m_q[j]);
        else p_q[j] <= p_q[(j == 0) ? 0 : j-1] + (2 * S)'(m_q[j]);
      end
    end

    assign p_o = p_q[LEN-1];
  end
endmodule
