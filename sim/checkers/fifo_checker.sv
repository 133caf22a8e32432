// fifo_checker: bound to every fifo where this file is compiled with --assert. Most users push by
// credit and do not look at ready_o; what comes while the queue is full would be lost, so it must
// not come, unless the pushing side holds it (valid_i stays until ready_o).
module fifo_checker #(
    parameter int unsigned WIDTH = 8
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic             valid_i,
    input logic             ready_i,
    input logic [WIDTH-1:0] wdata_i
);
  logic             stuck_q = 1'b0;
  logic [WIDTH-1:0] wdata_q;

  always_ff @(posedge clk_i) begin
    stuck_q <= rst_ni && valid_i && !ready_i;
    wdata_q <= wdata_i;
    if (rst_ni && stuck_q) begin
      assert (valid_i && wdata_i == wdata_q) else $error("fifo: a word pushed while full is lost");
    end
  end
endmodule

bind fifo fifo_checker #(
    .WIDTH(WIDTH)
) u_checker (
    .clk_i,
    .rst_ni,
    .valid_i,
    .ready_i(ready_o),
    .wdata_i
);
