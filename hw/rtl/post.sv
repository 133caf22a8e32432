// Post-processing of LANES words per cycle: y = clamp(sat16(rnd(acc + bias + (res << rs), sh)))
// with rnd(x, n) = (x + 2^(n-1)) >> n. Latency 3 cycles. All lanes use one layer's shifts and
// bounds, of which each block of up to BLOCK lanes has a copy, so they are stable from the cycle
// before the layer's first word on. The adder has 49 bits: 36-bit sums, 32-bit bias, a residual
// shifted by up to 31, and a rounding constant of up to 2^46.
//
// With POST, three more cycles for one product a lane. t is the word before its clamp:
//   product_i: y = clamp(sat16(rnd(t * res, rs))); the residual is not added
//   curve_i:   y = clamp(sat16(rnd(SLOPE[i] * t + OFFSET[i], curve_sh)))
//              with i = (t - curve_lo) >> curve_step, limited to the segments
//   neither:   y = clamp(t)
// The segments of two layers are in a table in LUT RAM, a copy a lane.
module post #(
  parameter int unsigned LANES = 8,
  parameter int unsigned POST  = 0,
  localparam int unsigned ACC = abi_pkg::ACC_BITS,
  localparam int unsigned BLOCK = 4,
  localparam int unsigned SW = $clog2(abi_pkg::CURVE_SEGMENTS)
) (
  input  logic                 clk_i,
  input  logic [LANES*ACC-1:0] acc_i,
  input  logic [LANES*32-1:0]  bias_i,
  input  logic [LANES*16-1:0]  res_i,
  input  logic [4:0]           rs_i,
  input  logic [5:0]           sh_i,
  input  logic [15:0]          lo_i,
  input  logic [15:0]          hi_i,
  // with POST
  input  logic                 product_i,
  input  logic                 curve_i,
  input  logic [15:0]          curve_lo_i,
  input  logic [3:0]           curve_step_i,
  input  logic [4:0]           curve_sh_i,
  input  logic                 half_i,        // of the table
  input  logic                 table_we_i,
  input  logic [SW+1:0]        table_addr_i,  // {half, segment, OFFSET or SLOPE}
  input  logic [31:0]          table_data_i,
  input  logic [4:0]           table_sh_i,    // curve_sh of that layer
  output logic [LANES*16-1:0]  y_o
);
  logic signed [48:0] half;
  assign half = (sh_i == '0) ? 49'sd0 : (49'sd1 <<< (sh_i - 6'd1));

  logic        last;       // the first shift is the last: it clamps
  logic [15:0] lo, hi;
  assign last = POST == 0;
  assign lo = last ? lo_i : 16'h8000;
  assign hi = last ? hi_i : 16'h7FFF;
  logic signed [49:0] low, high;
  clamp_bounds #(.W(49)) u_bounds (.clk_i, .sh_i, .lo_i(lo), .hi_i(hi), .low_o(low), .high_o(high));

  logic [LANES*16-1:0] t;
  for (genvar n = 0; n < LANES; n += BLOCK) begin : gen_block
    logic               no_res;
    logic [4:0]         rs;
    logic [5:0]         sh;
    logic signed [48:0] half_n;
    logic [15:0]        lo_n, hi_n;
    logic signed [49:0] low_n, high_n;
    level #(.WIDTH(1 + 5 + 6 + 49 + 32 + 100)) u_layer (
      .clk_i,
      .d_i({POST != 0 && product_i, rs_i, sh_i, half, lo, hi, low, high}),
      .q_o({no_res, rs, sh, half_n, lo_n, hi_n, low_n, high_n})
    );
    for (genvar i = n; i < n + BLOCK && i < LANES; i++) begin : gen_lane
      logic signed [48:0] base_q, res_q, sum_q;
      logic signed [15:0] y, y_q, res;
      assign res = no_res ? '0 : res_i[i*16+:16];

      shift_clamp #(.W(49)) u_clamp (
        .x_i(sum_q), .sh_i(sh), .lo_i(lo_n), .hi_i(hi_n), .low_i(low_n), .high_i(high_n), .y_o(y)
      );
      always_ff @(posedge clk_i) begin
        base_q <= 49'($signed(acc_i[i*ACC+:ACC])) + 49'($signed(bias_i[i*32+:32]));
        res_q <= (49'(res) <<< rs) + half_n;
        sum_q <= base_q + res_q;
        y_q <= y;
      end
      assign t[i*16+:16] = y_q;
    end
  end

  if (POST == 0) begin : gen_plain
    assign y_o = t;
    logic unused;
    assign unused = ^{product_i, curve_i, curve_lo_i, curve_step_i, curve_sh_i, half_i, table_we_i,
                      table_addr_i, table_data_i, table_sh_i};
  end else begin : gen_post
    // t * factor + addend fits: 2^30 of the product, 2^31 of OFFSET, 2^30 of rounding
    localparam int unsigned W = 33;
    // curves and products have different shifts; neither multiplies by 1
    logic [4:0]          shift;
    logic signed [W-1:0] round, table_round;
    logic [15:0]         beyond;         // bits of t - curve_lo that are set after the last segment
    assign shift = curve_i ? curve_sh_i : (product_i ? rs_i : '0);
    assign round = (shift == '0) ? '0 : (33'sd1 <<< (shift - 5'd1));
    assign table_round = (table_sh_i == '0) ? '0 : (33'sd1 <<< (table_sh_i - 5'd1));
    assign beyond = 16'hFFFF << (5'(curve_step_i) + 5'(SW));

    logic signed [W:0] last_low, last_high;
    clamp_bounds #(.W(W)) u_last (
      .clk_i, .sh_i({1'b0, shift}), .lo_i(lo_i), .hi_i(hi_i), .low_o(last_low), .high_o(last_high)
    );

    // OFFSET is kept with its rounding constant
    logic signed [W-1:0] offset;
    assign offset = W'($signed(table_data_i)) + table_round;

    for (genvar n = 0; n < LANES; n += BLOCK) begin : gen_block
      logic                product, curve, half_n;
      logic [4:0]          shift_n;
      logic [3:0]          step;
      logic [15:0]         from_n, beyond_n, lo_n, hi_n;
      logic signed [W-1:0] round_n;
      logic signed [W:0]   low_n, high_n;
      level #(.WIDTH(3 + 5 + 4 + 64 + W + 2 * (W + 1))) u_layer (
        .clk_i,
        .d_i({product_i, curve_i, half_i, shift, curve_step_i, curve_lo_i, beyond, lo_i, hi_i, round, last_low, last_high}),
        .q_o({product, curve, half_n, shift_n, step, from_n, beyond_n, lo_n, hi_n, round_n, low_n, high_n})
      );
      for (genvar i = n; i < n + BLOCK && i < LANES; i++) begin : gen_lane
        (* ram_style = "distributed" *) logic [W-1:0] offsets[2*abi_pkg::CURVE_SEGMENTS];
        (* ram_style = "distributed" *) logic [15:0] slopes[2*abi_pkg::CURVE_SEGMENTS];
        logic signed [15:0]  t_q, factor_q, y, y_q;
        logic [15:0]         res1_q, res2_q, res3_q;
        logic signed [16:0]  from;
        logic [SW-1:0]       segment;
        logic signed [W-1:0] addend_q, sum, sum_q;

        assign from = 17'($signed(t[i*16+:16])) - 17'($signed(from_n));
        always_comb begin
          if (from[16]) segment = '0;
          else if ((from[15:0] & beyond_n) != '0) segment = '1;
          else segment = SW'(from[15:0] >> step);
        end
        mul_add #(.W(W)) u_mul (.a_i(t_q), .b_i(factor_q), .c_i(addend_q), .y_o(sum));
        shift_clamp #(.W(W)) u_clamp (
          .x_i(sum_q), .sh_i({1'b0, shift_n}), .lo_i(lo_n), .hi_i(hi_n), .low_i(low_n), .high_i(high_n), .y_o(y)
        );

        always_ff @(posedge clk_i) begin
          if (table_we_i && !table_addr_i[0]) offsets[table_addr_i[SW+1:1]] <= offset;
          if (table_we_i && table_addr_i[0]) slopes[table_addr_i[SW+1:1]] <= table_data_i[15:0];
        end
        always_ff @(posedge clk_i) begin
          res1_q <= res_i[i*16+:16];
          res2_q <= res1_q;
          res3_q <= res2_q;
          t_q <= t[i*16+:16];
          factor_q <= curve ? slopes[{half_n, segment}] : (product ? res3_q : 16'd1);
          addend_q <= curve ? offsets[{half_n, segment}] : round_n;
          sum_q <= sum;
          y_q <= y;
        end
        assign y_o[i*16+:16] = y_q;
      end
    end
  end
endmodule
