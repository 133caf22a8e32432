// A chain of LEN products for two output channels that share its DSPs: mac_segments of 4 cells (DSP48E1) or 8 (DSP48E2),
// whose sums are added outside the DSPs, and to the accumulators c_i: p_o = c_i + sum w x, with w1 in the upper ACC bits, with
// w2 in the lower. It stands where an int16 array has mac_chain: a half chain of a PE, whose tail may be
// the next one's c_i.
// All segments end in the same cycle. So lane j of a segment of N cells is skewed by SPAN - N + j cycles, where SPAN is the
// longest segment; the last segment is the shorter one.
// Latency: p_o leaves SPAN + 3 + LEVELS cycles after the first operands, LEVELS of adders; c_i is taken two cycles
// before.
module mac_packed #(
  parameter int unsigned LEN     = 7,
  parameter int unsigned ACC     = 32,
  parameter bit          DSP48E2 = 1'b0,
  localparam int unsigned S = DSP48E2 ? 18 : 17,
  localparam int unsigned W = S + 8
) (
  input  logic             clk_i,
  input  logic [LEN*8-1:0] a_i,
  input  logic [LEN-1:0]   swap_i,
  input  logic             load_i,
  input  logic [LEN*W-1:0] w_i,     // packed, by weight_pack: (w1 << S) + w2
  input  logic [2*ACC-1:0] c_i,
  output logic [2*ACC-1:0] p_o
);
  localparam int unsigned MOST = DSP48E2 ? 8 : 4;    // cells that are exact
  localparam int unsigned N = (LEN + MOST - 1) / MOST;
  localparam int unsigned LEVELS = $clog2(N);
  localparam int unsigned T = S + LEVELS;            // bits of the sum of all segments
  if (LEN < 1 || T > ACC) begin : gen_bad
    $fatal(1, "mac_packed: LEN must be at least 1, and ACC hold the sum of all segments");
  end

  logic [N*2*S-1:0] p;
  for (genvar s = 0; s < N; s++) begin : gen_segment
    localparam int unsigned FROM = s * MOST;
    localparam int unsigned CELLS = (LEN - FROM < MOST) ? LEN - FROM : MOST;
    mac_segment #(.LEN(CELLS), .DSP48E2(DSP48E2)) u_segment (
      .clk_i,
      .a_i   (a_i[FROM*8+:CELLS*8]),
      .swap_i(swap_i[FROM+:CELLS]),
      .load_i,
      .w_i   (w_i[FROM*W+:CELLS*W]),
      .p_o   (p[s*2*S+:2*S])
    );
  end

  // f 0: the channel of w2, 1: of w1. Level l adds pairs of the level before; each has a register.
  for (genvar f = 0; f < 2; f++) begin : gen_channel
    logic signed [T-1:0] sum[(LEVELS+1)*N];
    for (genvar s = 0; s < N; s++) begin : gen_field
      logic signed [S-1:0] field;
      assign field = {p[s*2*S+f*S+S-1] ^ (f == 0), p[s*2*S+f*S+:S-1]};
      assign sum[s] = T'(field);
    end
    for (genvar l = 1; l <= LEVELS; l++) begin : gen_level
      for (genvar s = 0; s < N; s++) begin : gen_sum
        localparam int unsigned BEFORE = (N + (1 << (l - 1)) - 1) >> (l - 1);  // sums of that level
        if (2 * s < BEFORE) begin : gen_add
          logic signed [S+l-1:0] sum_q;
          always_ff @(posedge clk_i) begin
            sum_q <= (S + l)'(sum[(l-1)*N+2*s])
                   + ((2 * s + 1 < BEFORE) ? (S + l)'(sum[(l-1)*N+2*s+((2*s+1<BEFORE)?1:0)]) : '0);
          end
          assign sum[l*N+s] = T'(sum_q);
        end else begin : gen_none
          assign sum[l*N+s] = '0;
          logic unused;
          assign unused = ^sum[l*N+s];
        end
      end
    end

    logic signed [ACC-1:0] c_q, acc_q;
    always_ff @(posedge clk_i) begin
      c_q <= c_i[f*ACC+:ACC];
      acc_q <= c_q + ACC'(sum[LEVELS*N]);
    end
    assign p_o[f*ACC+:ACC] = acc_q;
  end
endmodule
