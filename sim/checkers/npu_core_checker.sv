// npu_core_checker: bound to every npu_core where this file is compiled with --assert. The loader and
// what is kept on chip never write into the activation buffer in the same cycle, and what is kept is
// never written into the half that is being read.
module npu_core_checker (
    input logic clk_i,
    input logic rst_ni,
    input logic load_i,      // the loader writes
    input logic keep_i,      // a kept tensor's words are written
    input logic keep_half_i,
    input logic read_i,
    input logic read_half_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(load_i && keep_i)) else $error("npu_core: two writers of the activation buffer");
      assert (!(read_i && keep_i && read_half_i == keep_half_i))
      else $error("npu_core: a kept tensor is written into the half that is read");
    end
  end
endmodule

bind npu_core npu_core_checker u_checker (
    .clk_i,
    .rst_ni     (unit_rst_n),
    .load_i     (|wr_mask),
    .keep_i     (|kw_mask),
    .keep_half_i(kw_half),
    .read_i     (g_rd_valid || p_rd_valid),
    .read_half_i(g_rd_valid ? g_rd_half : p_rd_half)
);
