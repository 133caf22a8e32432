// What holds of npu_regs on AXI4-Lite whatever comes, for yosys' sat: run.sh proves each from reset and by
// temporal induction. Of the master it assumes only that what is offered stays until it is taken. An answer comes exactly once
// for what was taken and stays until it is taken, within the cycles that npu_regs.sv promises; the interrupt falls by a
// write alone; while a start runs nothing changes that the core reads, and there is no second start.
module npu_regs_props #(
  parameter int unsigned QUIET = 0
) (
  input logic clk,
  input logic rst_n,
  input logic awvalid, wvalid, bready, arvalid, rready,
  input logic [11:0] awaddr, araddr,
  input logic [31:0] wdata,
  input logic [3:0] wstrb,
  input logic busy, done, error,
  input logic [7:0] err_code, err_layer,
  input logic [3:0] err_port,
  input logic [31:0] err_addr,
  input logic [abi_pkg::CNT_COUNT*16-1:0] cnt_inc
);
  logic awready, wready, bvalid, arready, rvalid, irq, start, soft_reset, fbcb_we;
  logic [1:0] bresp, rresp;
  logic [31:0] rdata, slot_stride, watchdog, fbcb_wdata;
  logic [7:0] first_layer, last_layer;
  logic [3:0] b_act;
  logic [39:0] desc_base, weight_base, slot_base;
  logic [6:0] n_slot;
  logic [47:0] slot_table;
  logic [10:0] fbcb_waddr;

  npu_regs #(.QUIET(QUIET), .ADDR_BITS(32)) u_regs (
    .clk_i(clk), .rst_ni(rst_n),
    .awvalid_i(awvalid), .awready_o(awready), .awaddr_i(awaddr), .wvalid_i(wvalid), .wready_o(wready),
    .wdata_i(wdata), .wstrb_i(wstrb), .bvalid_o(bvalid), .bready_i(bready), .bresp_o(bresp),
    .arvalid_i(arvalid), .arready_o(arready), .araddr_i(araddr), .rvalid_o(rvalid), .rready_i(rready),
    .rdata_o(rdata), .rresp_o(rresp), .irq_o(irq), .start_o(start), .soft_reset_o(soft_reset),
    .first_layer_o(first_layer), .last_layer_o(last_layer), .b_act_o(b_act), .desc_base_o(desc_base),
    .weight_base_o(weight_base), .slot_base_o(slot_base), .slot_stride_o(slot_stride), .n_slot_o(n_slot),
    .slot_table_o(slot_table), .watchdog_o(watchdog), .fbcb_we_o(fbcb_we), .fbcb_waddr_o(fbcb_waddr),
    .fbcb_wdata_o(fbcb_wdata), .busy_i(busy), .done_i(done), .error_i(error), .err_code_i(err_code),
    .err_layer_i(err_layer), .err_port_i(err_port), .err_addr_i(err_addr), .cnt_inc_i(cnt_inc)
  );

  // Transactions taken and not answered.
  logic [1:0] aw_n, w_n, ar_n;
  logic [2:0] b_wait, r_wait;  // cycles for which an answer could have come
  logic       past;            // there is a cycle before this one, out of reset
  initial past = 1'b0;
  always_ff @(posedge clk) begin
    past <= rst_n;
    aw_n <= aw_n + 2'(awvalid && awready) - 2'(bvalid && bready);
    w_n <= w_n + 2'(wvalid && wready) - 2'(bvalid && bready);
    ar_n <= ar_n + 2'(arvalid && arready) - 2'(rvalid && rready);
    b_wait <= (aw_n != '0 && w_n != '0 && !bvalid) ? b_wait + 3'd1 : '0;
    r_wait <= (ar_n != '0 && !rvalid && !(aw_n != '0 && w_n != '0)) ? r_wait + 3'd1 : '0;
    if (!rst_n) begin
      aw_n <= '0;
      w_n <= '0;
      ar_n <= '0;
      b_wait <= '0;
      r_wait <= '0;
    end
  end

  // The reset comes first and once.
  logic begun;
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;
  always_comb assume (rst_n == begun);

  always_ff @(posedge clk) begin
    if (past && rst_n) begin
      // the master
      if ($past(awvalid && !awready)) assume (awvalid && awaddr == $past(awaddr));
      if ($past(wvalid && !wready)) assume (wvalid && wdata == $past(wdata) && wstrb == $past(wstrb));
      if ($past(arvalid && !arready)) assume (arvalid && araddr == $past(araddr));
    end
  end

  always_ff @(posedge clk) begin
    if (past && rst_n) begin
      // answers stay
      if ($past(bvalid && !bready)) a_b_stays: assert (bvalid && bresp == $past(bresp));
      if ($past(rvalid && !rready)) begin
        a_r_stays: assert (rvalid && rresp == $past(rresp) && rdata == $past(rdata));
      end
      // the interrupt falls by a write
      if ($past(irq) && !irq) a_irq_falls: assert (bvalid && $past(!bvalid));
      // a start is one cycle long, and there is none while one runs
      if (start) a_start: assert ($past(!busy && !start));
      // while a start runs nothing moves that the core reads
      if ($past(busy)) begin
        a_still: assert (first_layer == $past(first_layer) && last_layer == $past(last_layer)
                         && b_act == $past(b_act) && desc_base == $past(desc_base)
                         && weight_base == $past(weight_base) && slot_base == $past(slot_base)
                         && slot_stride == $past(slot_stride) && n_slot == $past(n_slot)
                         && slot_table == $past(slot_table) && watchdog == $past(watchdog));
        a_fbcb: assert (!fbcb_we);
      end
    end
    if (past) begin
      // one answer for what was taken; this is what makes induction go through as well
      a_writes: assert (aw_n == 2'(!awready) + 2'(bvalid) && w_n == 2'(!wready) + 2'(bvalid));
      a_reads: assert (ar_n == 2'(!arready) + 2'(rvalid));
      // within two cycles of its last part being taken, where nothing is in the way
      a_b_soon: assert (b_wait <= 3'd1);
      a_r_soon: assert (r_wait <= 3'd1);
      if (bvalid) a_bresp: assert (bresp == 2'b00 || (QUIET == 0 && bresp == 2'b10));
      if (rvalid) a_rresp: assert (rresp == 2'b00 || (QUIET == 0 && rresp == 2'b10));
      // addresses are of 32 bits
      a_bases: assert (desc_base[39:32] == '0 && weight_base[39:32] == '0 && slot_base[39:32] == '0);
    end
  end
endmodule
