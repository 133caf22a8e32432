// What holds of a cell of mac_segment whatever comes, for yosys' sat: with any sums of CELLS - 1 products in the fields of the
// cell before, and any product more, its own fields are the two sums, exactly. run.sh puts them in the place of the
// RTL's p_q[0] and m_q[1], and proves it for as many cells as a segment has; for one more it expects a counterexample.
// That a packed product's fields are its two products, of weights from -127 to 127 by any code, go test ./hw -run Packed tries
// exhaustively.
module mac_segment_props #(
  parameter int unsigned CELLS = 4,
  parameter bit          DSP48E2 = 1'b0,
  localparam int unsigned S = DSP48E2 ? 18 : 17,
  localparam int unsigned W = S + 8
) (
  input logic               clk,
  input logic signed [15:0] m1, m2,
  input logic signed [19:0] sum1, sum2
);
  localparam logic signed [15:0] MOST = 16'sd16256;  // 127 * 128
  localparam logic signed [19:0] REACH = 20'(MOST) * 20'(CELLS - 1);

  logic [2*S-1:0] out;
  mac_segment #(.LEN(2), .DSP48E2(DSP48E2), .CELLS(1'b0)) u_segment (
    .clk_i(clk), .a_i('0), .swap_i('0), .load_i('0), .w_i('0), .p_o(out)
  );
  logic [2*S-1:0] before;   // p_q[0]
  logic [W+7:0]   product;  // m_q[1]
  logic [S-1:0]   low;
  assign low = S'(sum2);
  assign before = {S'(sum1), ~low[S-1], low[S-2:0]};
  assign product = {m1 - 16'(m2[15]), S'(m2)};
  always_comb begin
    assume (sum1 >= -REACH && sum1 <= REACH && sum2 >= -REACH && sum2 <= REACH);
    assume (m1 >= -MOST && m1 <= MOST && m2 >= -MOST && m2 <= MOST);
  end

  logic               past;  // there is a cycle before this one
  logic signed [19:0] want1_q, want2_q;
  initial past = 1'b0;
  always_ff @(posedge clk) begin
    past <= 1'b1;
    want1_q <= sum1 + 20'(m1);
    want2_q <= sum2 + 20'(m2);
  end
  always_comb if (past) begin
    a_first: assert (20'($signed(out[2*S-1:S])) == want1_q);
    a_second: assert (20'($signed({~out[S-1], out[S-2:0]})) == want2_q);
  end
endmodule
