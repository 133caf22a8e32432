// Checks npu_core's memory ports against AXI (IHI 0022, A3.2 and A3.4), in simulation: an offer
// does not change until it is taken; write data come in bursts of the announced lengths, and not
// before the address is taken.
module axi_offers_checker #(
  parameter int unsigned N_AXI     = 1,
  parameter int unsigned AXI_BYTES = 8,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned DW = AXI_BYTES * 8
) (
  input logic                       clk_i,
  input logic                       rst_ni,
  input logic [N_AXI-1:0]           arvalid_i,
  input logic [N_AXI-1:0]           arready_i,
  input logic [N_AXI*AW-1:0]        araddr_i,
  input logic [N_AXI*8-1:0]         arlen_i,
  input logic [N_AXI*2-1:0]         arid_i,
  input logic [N_AXI-1:0]           awvalid_i,
  input logic [N_AXI-1:0]           awready_i,
  input logic [N_AXI*AW-1:0]        awaddr_i,
  input logic [N_AXI*8-1:0]         awlen_i,
  input logic [N_AXI*2-1:0]         awid_i,
  input logic [N_AXI-1:0]           wvalid_i,
  input logic [N_AXI-1:0]           wready_i,
  input logic [N_AXI*DW-1:0]        wdata_i,
  input logic [N_AXI*AXI_BYTES-1:0] wstrb_i,
  input logic [N_AXI-1:0]           wlast_i
);
  for (genvar p = 0; p < N_AXI; p++) begin : gen_port
    logic            ar_q, aw_q, w_q;  // offered and not taken
    logic [AW+9:0]   ar_was_q, aw_was_q, ar_is, aw_is;
    logic [DW+AXI_BYTES:0] w_was_q, w_is;
    assign ar_is = {araddr_i[AW*p+:AW], arlen_i[8*p+:8], arid_i[2*p+:2]};
    assign aw_is = {awaddr_i[AW*p+:AW], awlen_i[8*p+:8], awid_i[2*p+:2]};
    assign w_is = {wdata_i[DW*p+:DW], wstrb_i[AXI_BYTES*p+:AXI_BYTES], wlast_i[p]};
    logic [7:0]      lens_q [64];
    logic [5:0]      head_q, tail_q;
    logic [7:0]      beat_q;
    always_ff @(posedge clk_i) begin
      ar_q <= rst_ni && arvalid_i[p] && !arready_i[p];
      aw_q <= rst_ni && awvalid_i[p] && !awready_i[p];
      w_q <= rst_ni && wvalid_i[p] && !wready_i[p];
      ar_was_q <= ar_is;
      aw_was_q <= aw_is;
      w_was_q <= w_is;
      if (!rst_ni) begin
        head_q <= '0;
        tail_q <= '0;
        beat_q <= '0;
      end else begin
        if (ar_q && (!arvalid_i[p] || ar_is != ar_was_q)) $fatal(1, "npu_core: port %0d: a read address is withdrawn or changed", p);
        if (aw_q && (!awvalid_i[p] || aw_is != aw_was_q)) $fatal(1, "npu_core: port %0d: a write address is withdrawn or changed", p);
        if (w_q && (!wvalid_i[p] || w_is != w_was_q)) $fatal(1, "npu_core: port %0d: write data is withdrawn or changed", p);
        // an address is in the list when it is first offered, since its data may come in the same
        // cycle
        if (awvalid_i[p] && !aw_q) begin
          lens_q[tail_q] <= awlen_i[8*p+:8];
          tail_q <= tail_q + 1'b1;
        end
        if (wvalid_i[p] && !w_q) begin
          if (head_q == tail_q && !(awvalid_i[p] && !aw_q)) $fatal(1, "npu_core: port %0d: write data of no address", p);
        end
        if (wvalid_i[p] && wready_i[p] && head_q != tail_q) begin
          if (wlast_i[p] != (beat_q == lens_q[head_q])) $fatal(1, "npu_core: port %0d: WLAST at beat %0d of %0d", p, beat_q, lens_q[head_q]);
          beat_q <= wlast_i[p] ? '0 : beat_q + 1'b1;
          if (wlast_i[p]) head_q <= head_q + 1'b1;
        end
      end
    end
  end
endmodule

bind npu_core axi_offers_checker #(.N_AXI(N_AXI), .AXI_BYTES(AXI_BYTES)) u_offers (
  .clk_i,
  .rst_ni,
  .arvalid_i(m_arvalid_o),
  .arready_i(m_arready_i),
  .araddr_i (m_araddr_o),
  .arlen_i  (m_arlen_o),
  .arid_i   (m_arid_o),
  .awvalid_i(m_awvalid_o),
  .awready_i(m_awready_i),
  .awaddr_i (m_awaddr_o),
  .awlen_i  (m_awlen_o),
  .awid_i   (m_awid_o),
  .wvalid_i (m_wvalid_o),
  .wready_i (m_wready_i),
  .wdata_i  (m_wdata_o),
  .wstrb_i  (m_wstrb_o),
  .wlast_i  (m_wlast_o)
);
