// layer_fetch_checker: bound to every layer_fetch where this file is compiled with --assert. What is
// offered does not change while any unit has yet to take it, an offer stands until it is taken, and
// nothing is offered after an error.
module layer_fetch_checker #(
    parameter int unsigned UNITS = 6
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic [UNITS-1:0] valid_i,
    input logic [UNITS-1:0] ready_i,
    input logic [1023:0]    desc_i,
    input logic [31:0]      fbcb_i,
    input logic [23:0]      samp_i,
    input logic             err_i
);
  logic [UNITS-1:0] open_q = '0;
  logic [1079:0]    what_q;
  always_ff @(posedge clk_i) begin
    open_q <= rst_ni ? valid_i & ~ready_i : '0;
    what_q <= {desc_i, fbcb_i, samp_i};
    if (rst_ni) begin
      assert ((open_q & ~valid_i) == '0) else $error("layer_fetch: an offer is withdrawn");
      assert (open_q == '0 || what_q == {desc_i, fbcb_i, samp_i})
      else $error("layer_fetch: an offer changes");
      assert (!err_i || valid_i == '0) else $error("layer_fetch: an offer after an error");
    end
  end
endmodule

bind layer_fetch layer_fetch_checker #(
    .UNITS(UNITS)
) u_checker (
    .clk_i,
    .rst_ni,
    .valid_i(layer_valid_o),
    .ready_i(layer_ready_i),
    .desc_i (layer_desc_o),
    .fbcb_i (layer_fbcb_o),
    .samp_i (layer_samp_o),
    .err_i  (err_valid_o)
);
