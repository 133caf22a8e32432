// axi_read_checker: watches the AXI side of axi_read; bound to every instance where this file is
// compiled with --assert. Stops the simulation when a rule of AXI4 is broken: an address must stay
// put until taken, no burst crosses 4 KiB or is longer than MAX_BURST, answers are always taken and
// end where their burst ends.
/* verilator lint_off BLKSEQ */  // queues are bookkeeping, updated in the order written
/* verilator lint_off UNUSEDSIGNAL */  // only the carry of last_byte matters
module axi_read_checker #(
    parameter int AXI_BYTES = 8,
    parameter int MAX_BURST = 16,
    parameter int MAX_OUT   = 8
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        m_arvalid_i,
    input logic        m_arready_i,
    input logic [39:0] m_araddr_i,
    input logic [7:0]  m_arlen_i,
    input logic [1:0]  m_arid_i,
    input logic        m_rvalid_i,
    input logic        m_rready_i,
    input logic [1:0]  m_rid_i,
    input logic        m_rlast_i
);
  logic        stuck_q = 1'b0;
  logic [49:0] ar_q;
  logic [12:0] last_byte;
  assign last_byte = 13'(m_araddr_i[11:0]) + 13'((32'(m_arlen_i) + 1) * AXI_BYTES) - 13'd1;

  // Lengths of the bursts owed, by ID, in order.
  int unsigned len_q[4][$];
  int unsigned beat_q[4] = '{default: 0};

  always_ff @(posedge clk_i) begin
    stuck_q <= rst_ni && m_arvalid_i && !m_arready_i;
    ar_q    <= {m_araddr_i, m_arlen_i, m_arid_i};
    if (!rst_ni) begin
      for (int e = 0; e < 4; e++) begin
        len_q[e].delete();
        beat_q[e] = 0;
      end
    end else begin
      if (stuck_q) begin
        assert (m_arvalid_i) else $error("axi_read: arvalid withdrawn");
        assert (ar_q == {m_araddr_i, m_arlen_i, m_arid_i}) else $error("axi_read: address moved");
      end
      if (m_arvalid_i) begin
        assert (!last_byte[12]) else $error("axi_read: burst crosses 4 KiB");
        assert (int'(m_arlen_i) < MAX_BURST) else $error("axi_read: burst too long");
        assert (m_araddr_i % 40'(AXI_BYTES) == 0) else $error("axi_read: address not aligned to a beat");
      end
      assert (m_rready_i) else $error("axi_read: rready must be constant one");
      if (m_rvalid_i && len_q[m_rid_i].size() > 0) begin
        assert (m_rlast_i == (beat_q[m_rid_i] == len_q[m_rid_i][0]))
        else $error("axi_read: rlast does not stand at the end of its burst");
        if (m_rlast_i) begin
          void'(len_q[m_rid_i].pop_front());
          beat_q[m_rid_i] = 0;
        end else begin
          beat_q[m_rid_i] = beat_q[m_rid_i] + 1;
        end
      end
      if (m_arvalid_i && m_arready_i) begin
        len_q[m_arid_i].push_back(32'(m_arlen_i));
        assert (len_q[m_arid_i].size() <= MAX_OUT) else $error("axi_read: too many outstanding");
      end
    end
  end
endmodule
/* verilator lint_on BLKSEQ */
/* verilator lint_on UNUSEDSIGNAL */

bind axi_read axi_read_checker #(
    .AXI_BYTES(AXI_BYTES),
    .MAX_BURST(MAX_BURST),
    .MAX_OUT  (MAX_OUT)
) u_checker (
    .clk_i,
    .rst_ni,
    .m_arvalid_i(m_arvalid_o),
    .m_arready_i(m_arready_i),
    .m_araddr_i (m_araddr_o),
    .m_arlen_i  (m_arlen_o),
    .m_arid_i   (m_arid_o),
    .m_rvalid_i (m_rvalid_i),
    .m_rready_i (m_rready_o),
    .m_rid_i    (m_rid_i),
    .m_rlast_i  (m_rlast_i)
);
