// axi_write: the write half of one AXI4 master port.
//
// Promises: commands are split into bursts of at most MAX_BURST beats that never cross 4 KiB and
// are issued in order; the beats given follow in the order of the commands. An address may be
// announced before its data are there. Every response is checked.
//
// Latency: command to m_awvalid_o one cycle, wb_valid_i to m_wvalid_o one cycle. Throughput: one
// address and one beat a cycle without bubbles between bursts; up to MAX_OUT bursts are
// outstanding. wb_ready_o does not depend on m_wready_i in the same cycle (a skid register). It is
// low until the burst a beat belongs to has been announced.
//
// Flush: hold flush_i until idle_o. Bursts already announced are completed with beats whose strobes
// are zero, the rest is dropped; no error comes out after flush_i's first cycle. Where answers are
// still owed the port moves on to another AXI ID (an epoch) that owes nothing; answers to the old
// one are discarded whenever they come. A burst that is never answered blocks one of the four IDs
// and nothing else; with every other ID blocked, or with a slave that no longer takes data, idle_o
// stays low. The statistics (progress_o, stall_o,
// bytes_o) come one cycle after the event.
module axi_write #(
    parameter int AXI_BYTES = 8,   // bytes of a beat, a power of two 4..128
    parameter int MAX_BURST = 16,  // beats of the longest burst, 1..256
    parameter int MAX_OUT   = 16   // outstanding bursts, a power of two 2..64
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         flush_i,
    output logic                         idle_o,  // nothing accepted is still unanswered

    input  logic                         cmd_valid_i,
    output logic                         cmd_ready_o,
    input  logic [39:0]                  cmd_addr_i,   // bytes; the bits below a beat are ignored
    input  logic [15:0]                  cmd_beats_i,  // > 0
    input  logic                         wb_valid_i,
    output logic                         wb_ready_o,
    input  logic [8*AXI_BYTES-1:0]       wb_data_i,
    input  logic [AXI_BYTES-1:0]         wb_strb_i,

    // A write of the present epoch was answered with an error.
    output logic                         err_valid_o,
    output logic                         err_decerr_o,  // 0: SLVERR, 1: DECERR
    output logic [31:0]                  err_addr_o,    // of the burst's first beat, low 32 bits

    output logic                         progress_o,  // address, data or answer (this epoch) taken
    output logic                         stall_o,     // m_wvalid_o && !m_wready_i
    output logic [$clog2(AXI_BYTES+1)-1:0] bytes_o,   // strobes set in the beat taken, else 0

    output logic                         m_awvalid_o,
    input  logic                         m_awready_i,
    output logic [39:0]                  m_awaddr_o,
    output logic [7:0]                   m_awlen_o,
    output logic [1:0]                   m_awid_o,
    output logic                         m_wvalid_o,
    input  logic                         m_wready_i,
    output logic [8*AXI_BYTES-1:0]       m_wdata_o,
    output logic [AXI_BYTES-1:0]         m_wstrb_o,
    output logic                         m_wlast_o,
    input  logic                         m_bvalid_i,
    output logic                         m_bready_o,
    input  logic [1:0]                   m_bid_i,
    input  logic [1:0]                   m_bresp_i
);
  localparam int LB = $clog2(AXI_BYTES);
  localparam int OW = $clog2(MAX_OUT);
  localparam int SW = $clog2(AXI_BYTES + 1);
  localparam int PAGE_BEATS = 4096 / AXI_BYTES;

  if (AXI_BYTES < 4 || AXI_BYTES > 128 || (1 << LB) != AXI_BYTES)
    $error("axi_write: AXI_BYTES must be a power of two, 4..128");
  if (MAX_BURST < 1 || MAX_BURST > 256) $error("axi_write: MAX_BURST must be 1..256");
  if (MAX_OUT < 2 || MAX_OUT > 64 || (1 << OW) != MAX_OUT)
    $error("axi_write: MAX_OUT must be a power of two, 2..64");

  logic           awvalid_q;
  logic [39-LB:0] awaddr_q;
  logic [7:0]     awlen_q;

  logic [1:0]     epoch_q, free;
  logic           free_any, move;
  logic [OW:0]    owed_q[4];  // bursts announced and not answered, by epoch
  logic [OW:0]    owed_now;
  assign owed_now = owed_q[epoch_q];

  // The command being split. Addresses count beats.
  logic           pend_q, grant, len_last;
  logic [39-LB:0] addr_q;
  logic [15:0]    beats_q, to_page, len;
  always_comb begin
    to_page  = 16'(PAGE_BEATS) - 16'(addr_q[11-LB:0]);
    len      = (to_page < 16'(MAX_BURST)) ? to_page : 16'(MAX_BURST);
    len_last = beats_q <= len;
    if (len_last) len = beats_q;
  end
  assign grant = pend_q && !flush_i && !owed_now[OW] && (!awvalid_q || m_awready_i);
  assign cmd_ready_o = !flush_i && (!pend_q || (grant && len_last));

  always_ff @(posedge clk_i) begin
    if (cmd_valid_i && cmd_ready_o) begin
      addr_q  <= cmd_addr_i[39:LB];
      beats_q <= cmd_beats_i;
    end else if (grant) begin
      addr_q  <= addr_q + (40 - LB)'(len);
      beats_q <= beats_q - len;
    end
    if (!rst_ni || flush_i) pend_q <= 1'b0;
    else if (cmd_valid_i && cmd_ready_o) pend_q <= 1'b1;
    else if (grant && len_last) pend_q <= 1'b0;
  end

  // Address channel.
  always_ff @(posedge clk_i) begin
    if (grant) begin
      awaddr_q <= addr_q;
      awlen_q  <= 8'(len - 16'd1);
    end
    if (!rst_ni) awvalid_q <= 1'b0;
    else if (grant) awvalid_q <= 1'b1;
    else if (m_awready_i) awvalid_q <= 1'b0;
  end
  assign m_awvalid_o = awvalid_q;
  assign m_awaddr_o  = {awaddr_q, LB'(0)};
  assign m_awlen_o   = awlen_q;
  assign m_awid_o    = epoch_q;  // changes only while awvalid_q is low

  // Announced bursts: one queue, read where their data are sent and where they are answered.
  logic [7:0]     ord_len [MAX_OUT];
  logic [31-LB:0] ord_addr[MAX_OUT];
  logic [OW-1:0]  wr_q, data_q, resp_q;
  logic [OW:0]    unsent_q;  // bursts whose last beat has not been put into the skid register
  logic [7:0]     beat_q;    // beats of the present burst put there
  logic           room, put, put_last, hit;
  assign put_last = beat_q == ord_len[data_q];
  assign hit      = m_bvalid_i && m_bid_i == epoch_q && owed_now != '0;

  always_ff @(posedge clk_i) begin
    if (grant) begin
      ord_len[wr_q]  <= 8'(len - 16'd1);
      ord_addr[wr_q] <= addr_q[31-LB:0];
    end
    if (!rst_ni || move) begin
      wr_q   <= '0;
      data_q <= '0;
      resp_q <= '0;
    end else begin
      if (grant) wr_q <= wr_q + 1'b1;
      if (put && put_last) data_q <= data_q + 1'b1;
      if (hit) resp_q <= resp_q + 1'b1;
    end
    if (!rst_ni || (put && put_last)) beat_q <= '0;
    else if (put) beat_q <= beat_q + 1'b1;
    if (!rst_ni) unsent_q <= '0;
    else unsent_q <= unsent_q + (OW + 1)'(grant) - (OW + 1)'(put && put_last);
  end

  // Data channel: an output register and a skid register behind it.
  logic                   wvalid_q, skid_q, wlast_q, skid_last_q;
  logic [8*AXI_BYTES-1:0] wdata_q, skid_data_q;
  logic [AXI_BYTES-1:0]   wstrb_q, skid_strb_q, put_strb;
  assign room       = unsent_q != '0 && !skid_q;
  assign wb_ready_o = room && !flush_i;
  assign put        = room && (wb_valid_i || flush_i);
  assign put_strb   = flush_i ? '0 : wb_strb_i;

  always_ff @(posedge clk_i) begin
    if (!wvalid_q || m_wready_i) begin
      wdata_q <= skid_q ? skid_data_q : wb_data_i;
      wstrb_q <= skid_q ? skid_strb_q : put_strb;
      wlast_q <= skid_q ? skid_last_q : put_last;
    end
    if (put) begin
      skid_data_q <= wb_data_i;
      skid_strb_q <= put_strb;
      skid_last_q <= put_last;
    end
    if (!rst_ni) begin
      wvalid_q <= 1'b0;
      skid_q   <= 1'b0;
    end else if (!wvalid_q || m_wready_i) begin
      wvalid_q <= skid_q || put;
      skid_q   <= 1'b0;
    end else if (put) begin
      skid_q <= 1'b1;
    end
  end
  assign m_wvalid_o = wvalid_q;
  assign m_wdata_o  = wdata_q;
  assign m_wstrb_o  = wstrb_q;
  assign m_wlast_o  = wlast_q;

  // Epochs. A flush that still awaits answers, all data sent, moves to any epoch that owes none.
  always_comb begin
    free     = '0;
    free_any = 1'b0;
    for (int e = 3; e >= 0; e--) begin
      if (owed_q[e] == '0 && epoch_q != 2'(e)) begin
        free     = 2'(e);
        free_any = 1'b1;
      end
    end
  end
  assign move = flush_i && !awvalid_q && unsent_q == '0 && !wvalid_q && owed_now != '0 && free_any;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) epoch_q <= '0;
    else if (move) epoch_q <= free;
    for (int e = 0; e < 4; e++) begin
      if (!rst_ni) owed_q[e] <= '0;
      else
        owed_q[e] <= owed_q[e] + (OW + 1)'(grant && epoch_q == 2'(e)) -
            (OW + 1)'(m_bvalid_i && m_bid_i == 2'(e) && owed_q[e] != '0);
    end
  end
  assign idle_o = !pend_q && !awvalid_q && unsent_q == '0 && !wvalid_q && owed_now == '0;

  // Answers and statistics.
  logic           err_q, decerr_q, progress_q, stall_q;
  logic [31-LB:0] err_addr_q;
  logic [SW-1:0]  bytes_q, strobes;
  always_comb begin
    strobes = '0;
    for (int i = 0; i < AXI_BYTES; i++) strobes = strobes + SW'(wstrb_q[i]);
    if (!wvalid_q || !m_wready_i) strobes = '0;
  end
  always_ff @(posedge clk_i) begin
    err_q      <= rst_ni && !flush_i && hit && m_bresp_i[1];
    decerr_q   <= m_bresp_i[0];
    err_addr_q <= ord_addr[resp_q];
    progress_q <= rst_ni && (hit || (awvalid_q && m_awready_i) || (wvalid_q && m_wready_i));
    stall_q    <= rst_ni && wvalid_q && !m_wready_i;
    bytes_q    <= strobes;
  end
  assign m_bready_o   = 1'b1;
  assign err_valid_o  = err_q;
  assign err_decerr_o = decerr_q;
  assign err_addr_o   = {err_addr_q, LB'(0)};
  assign progress_o   = progress_q;
  assign stall_o      = stall_q;
  assign bytes_o      = bytes_q;

  // A command's address is taken in whole beats.
  logic unused;
  assign unused = ^cmd_addr_i[LB-1:0];
endmodule
