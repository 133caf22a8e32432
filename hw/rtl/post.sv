// Post-processing of LANES words per cycle: y = clamp(sat16(rnd(acc + bias + (res << rs), sh)))
// with rnd(x, n) = (x + 2^(n-1)) >> n. Latency 3 cycles under en_i. All lanes use one layer's
// shifts and bounds, which are stable from a word's first cycle on. The adder has 49 bits: 36-bit
// sums, 32-bit bias, a residual shifted by up to 31, and a rounding constant of up to 2^46.
module post #(
  parameter int unsigned LANES = 8,
  localparam int unsigned ACC = abi_pkg::ACC_BITS
) (
  input  logic                 clk_i,
  input  logic                 en_i,
  input  logic [LANES*ACC-1:0] acc_i,
  input  logic [LANES*32-1:0]  bias_i,
  input  logic [LANES*16-1:0]  res_i,
  input  logic [4:0]           rs_i,
  input  logic [5:0]           sh_i,
  input  logic [15:0]          lo_i,
  input  logic [15:0]          hi_i,
  output logic [LANES*16-1:0]  y_o
);
  logic signed [48:0] half;
  assign half = (sh_i == '0) ? 49'sd0 : (49'sd1 <<< (sh_i - 6'd1));

  logic signed [49:0] low, high;
  clamp_bounds #(.W(49)) u_bounds (.clk_i, .sh_i, .lo_i(lo_i), .hi_i(hi_i), .low_o(low), .high_o(high));

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [48:0] base_q, res_q, sum_q;
    logic signed [15:0] y, y_q;

    shift_clamp #(.W(49)) u_clamp (
      .x_i(sum_q), .sh_i, .lo_i(lo_i), .hi_i(hi_i), .low_i(low), .high_i(high), .y_o(y)
    );
    always_ff @(posedge clk_i) begin
      if (en_i) begin
        base_q <= 49'($signed(acc_i[i*ACC+:ACC])) + 49'($signed(bias_i[i*32+:32]));
        res_q <= (49'($signed(res_i[i*16+:16])) <<< rs_i) + half;
        sum_q <= base_q + res_q;
        y_q <= y;
      end
    end
    assign y_o[i*16+:16] = y_q;
  end
endmodule
