// A chain of LEN multiply-accumulate cells, p[j] <= c + m[j] with c the cell before (or c_i at the
// head): the shape that maps one cell to one DSP48. Lane j is skewed by j cycles: a_i[j] and
// swap_i[j] arrive j cycles after lane 0's. Weights are double-buffered: load_i writes the shadow
// weights of all lanes, swap_i[j] makes lane j's shadow its weight for the operand that comes with it.
// CELLS: the same in cells (hw/xilinx), 1 of series 7, 2 of UltraScale+; 0 leaves it to the tool. yosys would lead a link over the
// fabric, and of UltraScale+'s cells infer the multiplier alone.
// Latency: c_i is taken two cycles after lane 0's operand, p_o leaves LEN + 2 cycles after it.
module mac_chain #(
  parameter int unsigned LEN     = 4,
  parameter int unsigned ACC     = 36,
  parameter bit          STUB    = 1'b0,
  parameter int unsigned CELLS   = 0
) (
  input  logic              clk_i,
  input  logic [LEN*16-1:0] a_i,
  input  logic [LEN-1:0]    swap_i,
  input  logic              load_i,
  input  logic [LEN*16-1:0] w_i,
  input  logic [ACC-1:0]    c_i,
  output logic [ACC-1:0]    p_o
);
  if (STUB) begin : gen_stub
    // the control of the array without its MACs: same counters, but no values
    logic unused;
    assign unused = ^{clk_i, a_i, swap_i, load_i, w_i, c_i};
    assign p_o = '0;
  end else if (CELLS == 1) begin : gen_series7
    mac_chain_dsp48e1 #(.LEN(LEN), .ACC(ACC)) u_cells (
      .clk_i, .a_i, .swap_i, .load_i, .w_i, .c_i, .p_o
    );
  end else if (CELLS == 2) begin : gen_ultrascale
    mac_chain_dsp48e2 #(.LEN(LEN), .ACC(ACC)) u_cells (
      .clk_i, .a_i, .swap_i, .load_i, .w_i, .c_i, .p_o
    );
  end else begin : gen_mac
    logic signed [15:0] shadow_q[LEN];
    logic signed [15:0] weight_q[LEN];
    logic signed [15:0] a_q[LEN];
    logic signed [31:0] m_q[LEN];
    logic signed [ACC-1:0] p_q[LEN];

    for (genvar j = 0; j < LEN; j++) begin : gen_lane
      always_ff @(posedge clk_i) begin
        if (load_i) shadow_q[j] <= w_i[j*16+:16];
        if (swap_i[j]) weight_q[j] <= shadow_q[j];
        a_q[j] <= a_i[j*16+:16];
        m_q[j] <= a_q[j] * weight_q[j];
        if (j == 0) p_q[j] <= $signed(c_i) + ACC'(m_q[j]);
        else p_q[j] <= p_q[(j == 0) ? 0 : j-1] + ACC'(m_q[j]);
      end
    end

    assign p_o = p_q[LEN-1];
  end
endmodule
