// What holds of a mac_segment of LEN cells whatever comes, for yosys' sat: its two fields are the two sums of products, exactly.
// Weights are -127 to 127. Loads and swaps come in any order.
// Of each lane a reference keeps both products beside the RTL's packed one: a_product is what a multiplier does, a_small that
// no product is larger than 127 x 128. With these in the cycle before, a_first and a_second are sums alone.
module mac_segment_props #(
  parameter int unsigned LEN = 4
) (
  input logic             clk,
  input logic [LEN*8-1:0] x,
  input logic [LEN-1:0]   swap,
  input logic             load,
  input logic [LEN*8-1:0] w1, w2
);
  localparam int unsigned S = 17;
  localparam int unsigned W = S + 8;
  logic [LEN*W-1:0] w;
  logic [2*S-1:0]   p;
  mac_segment #(.LEN(LEN)) u_segment (.clk_i(clk), .a_i(x), .swap_i(swap), .load_i(load), .w_i(w), .p_o(p));
  for (genvar j = 0; j < LEN; j++) begin : gen_pack
    assign w[j*W+:W] = {w1[j*8+:8], {S{1'b0}}} + W'($signed(w2[j*8+:8]));
    always_comb assume (w1[j*8+:8] != 8'h80 && w2[j*8+:8] != 8'h80);
  end
endmodule
