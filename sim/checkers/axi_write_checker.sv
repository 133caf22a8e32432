// axi_write_checker: watches the AXI side of axi_write; bound to every instance where this file is
// compiled with --assert. Stops the simulation when a rule of AXI4 is broken: addresses and data
// must stay put until taken, no burst crosses 4 KiB or is longer than MAX_BURST, wlast stands at
// the end of the burst announced, and answers are always taken. AXI3 has an ID with every beat too,
// which is that of its burst: there awid is given for it, so it must be that for as long as data are
// owed. At idle the ID that is gone on with owes no answers.
/* verilator lint_off BLKSEQ */  // queues are bookkeeping, updated in the order written
/* verilator lint_off UNUSEDSIGNAL */  // only the carry of last_byte matters
module axi_write_checker #(
    parameter int AXI_BYTES = 8,
    parameter int MAX_BURST = 16,
    parameter int MAX_OUT   = 8
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic                   idle_i,
    input logic                   m_awvalid_i,
    input logic                   m_awready_i,
    input logic [39:0]            m_awaddr_i,
    input logic [7:0]             m_awlen_i,
    input logic [1:0]             m_awid_i,
    input logic                   m_wvalid_i,
    input logic                   m_wready_i,
    input logic [8*AXI_BYTES-1:0] m_wdata_i,
    input logic [AXI_BYTES-1:0]   m_wstrb_i,
    input logic                   m_wlast_i,
    input logic                   m_bvalid_i,
    input logic [1:0]             m_bid_i,
    input logic                   m_bready_i
);
  logic                   aw_stuck_q = 1'b0, w_stuck_q = 1'b0;
  logic [49:0]            aw_q;
  logic [8*AXI_BYTES-1:0] data_q;
  logic [AXI_BYTES:0]     strb_q;
  logic                   seen_q = 1'b0;  // the address on the bus has already been noted
  logic [12:0]            last_byte;
  assign last_byte = 13'(m_awaddr_i[11:0]) + 13'((32'(m_awlen_i) + 1) * AXI_BYTES) - 13'd1;

  // Lengths and IDs of the bursts announced whose data have not all been taken, in order. Data may be
  // taken before their address is, but not before it stands on the bus.
  int unsigned len_q[$];
  logic [1:0]  id_q[$];
  int unsigned beat_q = 0;
  int unsigned owed_q[4] = '{default: 0};  // bursts announced and not answered, by ID

  always_ff @(posedge clk_i) begin
    aw_stuck_q <= rst_ni && m_awvalid_i && !m_awready_i;
    w_stuck_q  <= rst_ni && m_wvalid_i && !m_wready_i;
    aw_q       <= {m_awaddr_i, m_awlen_i, m_awid_i};
    data_q     <= m_wdata_i;
    strb_q     <= {m_wlast_i, m_wstrb_i};
    if (!rst_ni) begin
      len_q.delete();
      id_q.delete();
      beat_q = 0;
      seen_q = 1'b0;
      owed_q = '{default: 0};
    end else begin
      if (aw_stuck_q) begin
        assert (m_awvalid_i) else $error("axi_write: awvalid withdrawn");
        assert (aw_q == {m_awaddr_i, m_awlen_i, m_awid_i}) else $error("axi_write: address moved");
      end
      if (w_stuck_q) begin
        assert (m_wvalid_i) else $error("axi_write: wvalid withdrawn");
        assert (data_q == m_wdata_i && strb_q == {m_wlast_i, m_wstrb_i})
        else $error("axi_write: data moved");
      end
      assert (!idle_i || owed_q[m_awid_i] == 0) else $error("axi_write: idle under an ID that owes answers");
      if (m_awvalid_i) begin
        assert (!last_byte[12]) else $error("axi_write: burst crosses 4 KiB");
        assert (int'(m_awlen_i) < MAX_BURST) else $error("axi_write: burst too long");
        assert (m_awaddr_i % 40'(AXI_BYTES) == 0) else $error("axi_write: address not aligned");
        if (!seen_q) begin
          len_q.push_back(32'(m_awlen_i));
          id_q.push_back(m_awid_i);
          owed_q[m_awid_i] = owed_q[m_awid_i] + 1;
        end
        seen_q = !m_awready_i;
      end
      if (m_wvalid_i && id_q.size() > 0) begin
        assert (m_awid_i == id_q[0]) else $error("axi_write: data under another ID than their burst's");
      end
      // a slave's answer to nothing is not the writer's fault
      if (m_bvalid_i && owed_q[m_bid_i] != 0) owed_q[m_bid_i] = owed_q[m_bid_i] - 1;
      assert (m_bready_i) else $error("axi_write: bready must be constant one");
      if (m_wvalid_i && m_wready_i) begin
        assert (len_q.size() > 0) else $error("axi_write: data before their address");
        if (len_q.size() > 0) begin
          assert (m_wlast_i == (beat_q == len_q[0])) else $error("axi_write: wlast misplaced");
          if (m_wlast_i) begin
            void'(len_q.pop_front());
            void'(id_q.pop_front());
            beat_q = 0;
          end else begin
            beat_q = beat_q + 1;
          end
        end
      end
      assert (len_q.size() <= MAX_OUT) else $error("axi_write: too many announced");
    end
  end
endmodule
/* verilator lint_on BLKSEQ */
/* verilator lint_on UNUSEDSIGNAL */

bind axi_write axi_write_checker #(
    .AXI_BYTES(AXI_BYTES),
    .MAX_BURST(MAX_BURST),
    .MAX_OUT  (MAX_OUT)
) u_checker (
    .clk_i,
    .rst_ni,
    .idle_i     (idle_o),
    .m_awvalid_i(m_awvalid_o),
    .m_awready_i(m_awready_i),
    .m_awaddr_i (m_awaddr_o),
    .m_awlen_i  (m_awlen_o),
    .m_awid_i   (m_awid_o),
    .m_wvalid_i (m_wvalid_o),
    .m_wready_i (m_wready_i),
    .m_wdata_i  (m_wdata_o),
    .m_wstrb_i  (m_wstrb_o),
    .m_wlast_i  (m_wlast_o),
    .m_bvalid_i,
    .m_bid_i,
    .m_bready_i (m_bready_o)
);
