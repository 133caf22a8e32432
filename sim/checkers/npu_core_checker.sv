// npu_core_checker: bound to every npu_core where this file is compiled with --assert. The loader and
// what is kept on chip never write into the activation buffer in the same cycle, and what is kept is
// never written into the half that is being read. What the array and the sequencers say they do and wait for is
// what is counted, each under its own name.
module npu_core_checker (
    input logic clk_i,
    input logic rst_ni,
    input logic load_i,      // the loader writes
    input logic keep_i,      // a kept tensor's words are written
    input logic keep_half_i,
    input logic read_i,
    input logic read_half_i,
    input logic mac_cycle_i,
    input logic [15:0] macs_i,
    input logic [15:0] dw_macs_i,
    input logic st_weights_i,
    input logic st_acts_i,   // of GEMMs or pools
    input logic st_drain_i,
    input logic st_depth_i,
    input logic [7:0] st_read_i,   // ports
    input logic [7:0] st_write_i,
    input logic [abi_pkg::CNT_COUNT*16-1:0] cnt_inc_i
);
  function automatic logic [15:0] inc(input int unsigned c);
    return cnt_inc_i[c*16+:16];
  endfunction

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(load_i && keep_i)) else $error("npu_core: two writers of the activation buffer");
      assert (!(read_i && keep_i && read_half_i == keep_half_i))
      else $error("npu_core: a kept tensor is written into the half that is read");
      assert (inc(abi_pkg::CNT_CYCLES_BUSY) == 16'd1) else $error("npu_core: CYCLES_BUSY");
      assert (inc(abi_pkg::CNT_MAC_CYCLES) == 16'(mac_cycle_i)) else $error("npu_core: MAC_CYCLES");
      assert (inc(abi_pkg::CNT_MACS) == (macs_i | dw_macs_i)) else $error("npu_core: MACS");
      assert (inc(abi_pkg::CNT_STALL_WEIGHTS) == 16'(st_weights_i)) else $error("npu_core: STALL_WEIGHTS");
      assert (inc(abi_pkg::CNT_STALL_ACTIVATIONS) == 16'(st_acts_i)) else $error("npu_core: STALL_ACTIVATIONS");
      assert (inc(abi_pkg::CNT_STALL_DRAIN) == 16'(st_drain_i)) else $error("npu_core: STALL_DRAIN");
      assert (inc(abi_pkg::CNT_STALL_DEPTH) == 16'(st_depth_i)) else $error("npu_core: STALL_DEPTH");
      assert (inc(abi_pkg::CNT_STALL_READ) == 16'(st_read_i)) else $error("npu_core: STALL_READ");
      assert (inc(abi_pkg::CNT_STALL_WRITE) == 16'(st_write_i)) else $error("npu_core: STALL_WRITE");
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
    .read_half_i(g_rd_valid ? g_rd_half : p_rd_half),
    .mac_cycle_i (mac_cycle),
    .macs_i      (macs),
    .dw_macs_i   (dw_macs),
    .st_weights_i(st_weights),
    .st_acts_i   (st_acts || st_pool),
    .st_drain_i  (st_drain),
    .st_depth_i  (st_depth),
    .st_read_i   (8'($countones(p_rd_stall))),
    .st_write_i  (8'($countones(p_wr_stall))),
    .cnt_inc_i   (cnt_inc_o)
);
