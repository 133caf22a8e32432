// act_loader_checker: bound to every act_loader where this file is compiled with --assert. An answer
// always finds the run it belongs to, the rows that have come and are not counted stay within the
// queue of places, and a half is freed only while it holds a tile.
module act_loader_checker (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       rsp_valid_i,
    input logic       run_known_i,
    input logic [6:0] rows_i,
    input logic [1:0] busy_i,
    input logic [1:0] free_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!rsp_valid_i || run_known_i) else $error("act_loader: an answer without its run");
      assert (rows_i <= 7'd65) else $error("act_loader: more rows come than places wait");
      assert ((free_i & ~busy_i) == '0) else $error("act_loader: a half is freed that is not in use");
    end
  end
endmodule

bind act_loader act_loader_checker u_checker (
    .clk_i,
    .rst_ni,
    .rsp_valid_i,
    .run_known_i(meta_unused),
    .rows_i     (rows_q),
    .busy_i     (busy_q),
    .free_i
);
