// write_ports_cover: bound to the whole NPU's write_ports where this file is compiled in. Counts, and says at the end
// of the simulation (sluice verify reads it), the cycles in which each port kept an address or data waiting.
/* verilator lint_off BLKSEQ */  // counts are bookkeeping
module write_ports_cover #(
    parameter int unsigned N_AXI = 2
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic [N_AXI-1:0] m_awvalid_i,
    input logic [N_AXI-1:0] m_awready_i,
    input logic [N_AXI-1:0] m_wvalid_i,
    input logic [N_AXI-1:0] m_wready_i
);
  longint unsigned addresses[N_AXI] = '{default: 0};
  longint unsigned data[N_AXI] = '{default: 0};

  always @(posedge clk_i) begin
    for (int unsigned p = 0; p < N_AXI; p++) begin
      if (rst_ni && m_awvalid_i[p] && !m_awready_i[p]) addresses[p] = addresses[p] + 1;
      if (rst_ni && m_wvalid_i[p] && !m_wready_i[p]) data[p] = data[p] + 1;
    end
  end

  final begin
    for (int unsigned p = 0; p < N_AXI; p++) begin
      $display("cover: port_stall aw.%0d %0d", p, addresses[p]);
      $display("cover: port_stall w.%0d %0d", p, data[p]);
    end
  end
endmodule
/* verilator lint_on BLKSEQ */

bind write_ports write_ports_cover #(
    .N_AXI(N_AXI)
) u_cover (
    .clk_i,
    .rst_ni,
    .m_awvalid_i(m_awvalid_o),
    .m_awready_i,
    .m_wvalid_i (m_wvalid_o),
    .m_wready_i
);
