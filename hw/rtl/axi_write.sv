// axi_write: the write half of one AXI4 master port.
//
// Promises: commands are split into bursts of at most MAX_BURST beats that never cross 4 KiB and
// are issued in order; the beats given follow in the order of the commands. An address may be
// announced (m_awvalid_o) before its data are there, and data may be taken before their address is. Every response is checked.
// With WITH_DATA a burst is announced when all data before it have been taken from the client and its first beat is offered:
// for interconnects that let nobody else write between an address and its last beat. A cycle more a burst.
//
// Latency: command to m_awvalid_o one cycle, wb_valid_i to m_wvalid_o one cycle. Throughput: one
// address and one beat a cycle without bubbles between bursts; up to MAX_OUT bursts are
// outstanding. wb_ready_o does not depend on m_wready_i in the same cycle (a skid register). It is
// low until the burst a beat belongs to has been announced.
//
// Flush: hold flush_i until idle_o. Bursts already announced are completed with beats whose strobes
// are zero, the rest is dropped; no error is passed on after the first cycle of flush_i. If answers
// are still outstanding, the port changes to another AXI ID (an epoch) without outstanding answers;
// answers to the old ID are discarded whenever they arrive. So a burst that is never answered
// blocks only one of the four IDs. If all other IDs are blocked, or a slave no longer takes data,
// idle_o stays low. The statistics (progress_o, stall_o, bytes_o) are one cycle late.
module axi_write #(
    parameter int AXI_BYTES = 8,   // bytes of a beat, a power of two 4..128
    parameter int MAX_BURST = 16,  // beats of the longest burst, 1..256
    parameter int MAX_OUT   = 16,  // outstanding bursts, a power of two 2..64
    parameter bit CUT       = 1'b1, // commands may be longer than a burst, or cross 4 KiB
    parameter bit WITH_DATA = 1'b0 // an address waits for its first beat
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         flush_i,
    output logic                         idle_o,  // all that was accepted has been answered

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

  logic [1:0]     epoch_q, free;
  logic           free_any, move;
  logic [OW:0]    owed_q[4];  // bursts announced and not answered, by epoch
  logic [OW:0]    owed_now;
  logic [OW:0]    unsent_q;  // bursts whose last beat has not been put into the data channel
  assign owed_now = owed_q[epoch_q];

  // The command being split. Addresses count beats.
  logic           pend_q, grant, len_last;
  logic [39-LB:0] addr_q;
  logic [15:0]    beats_q, to_page, len;
  always_comb begin
    to_page  = 16'(PAGE_BEATS) - 16'(addr_q[11-LB:0]);
    len      = (to_page < 16'(MAX_BURST)) ? to_page : 16'(MAX_BURST);
    len_last = !CUT || beats_q <= len;
    if (len_last) len = beats_q;
  end
  logic aw_ready;
  assign grant = pend_q && !flush_i && !owed_now[OW] && aw_ready && (!WITH_DATA || (unsent_q == '0 && wb_valid_i));
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

  // Address channel; m_awready_i reaches nothing but its register.
  logic [39-LB:0] aw_addr;
  spill #(.WIDTH(48 - LB)) u_aw (
    .clk_i,
    .rst_ni,
    .valid_i(grant),
    .ready_o(aw_ready),
    .data_i ({addr_q, 8'(len - 16'd1)}),
    .valid_o(m_awvalid_o),
    .ready_i(m_awready_i),
    .data_o ({aw_addr, m_awlen_o})
  );
  assign m_awaddr_o = {aw_addr, LB'(0)};
  assign m_awid_o   = epoch_q;  // changes only while m_awvalid_o is low

  // Announced bursts: one queue, read where their data are sent and where they are answered.
  logic [7:0]     ord_len [MAX_OUT];
  logic [31-LB:0] ord_addr[MAX_OUT];
  logic [OW-1:0]  wr_q, data_q, resp_q;
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

  // Data channel.
  logic                 w_ready;
  logic [AXI_BYTES-1:0] put_strb;
  // the youngest burst's address may still wait behind the one on the bus
  assign room       = (aw_ready ? unsent_q != '0 : unsent_q > (OW + 1)'(1)) && w_ready;
  assign wb_ready_o = room && !flush_i;
  assign put        = room && (wb_valid_i || flush_i);
  assign put_strb   = flush_i ? '0 : wb_strb_i;
  spill #(.WIDTH(9 * AXI_BYTES + 1)) u_w (
    .clk_i,
    .rst_ni,
    .valid_i(put),
    .ready_o(w_ready),
    .data_i ({put_last, put_strb, wb_data_i}),
    .valid_o(m_wvalid_o),
    .ready_i(m_wready_i),
    .data_o ({m_wlast_o, m_wstrb_o, m_wdata_o})
  );

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
  assign move = flush_i && !m_awvalid_o && unsent_q == '0 && !m_wvalid_o && owed_now != '0 && free_any;

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
  assign idle_o = !pend_q && !m_awvalid_o && unsent_q == '0 && !m_wvalid_o && owed_now == '0;

  // Answers and statistics.
  logic           err_q, decerr_q, progress_q, stall_q;
  logic [31-LB:0] err_addr_q;
  logic [SW-1:0]  bytes_q, strobes;
  always_comb begin
    strobes = '0;
    for (int i = 0; i < AXI_BYTES; i++) strobes = strobes + SW'(m_wstrb_o[i]);
    if (!m_wvalid_o || !m_wready_i) strobes = '0;
  end
  always_ff @(posedge clk_i) begin
    err_q      <= rst_ni && !flush_i && hit && m_bresp_i[1];
    decerr_q   <= m_bresp_i[0];
    err_addr_q <= ord_addr[resp_q];
    progress_q <= rst_ni && (hit || (m_awvalid_o && m_awready_i) || (m_wvalid_o && m_wready_i));
    stall_q    <= rst_ni && m_wvalid_o && !m_wready_i;
    bytes_q    <= strobes;
  end
  assign m_bready_o   = 1'b1;
  assign err_valid_o  = err_q;
  assign err_decerr_o = decerr_q;
  assign err_addr_o   = {err_addr_q, LB'(0)};
  assign progress_o   = progress_q;
  assign stall_o      = stall_q;
  assign bytes_o      = bytes_q;

  // A command's address is rounded down to whole beats.
  logic unused;
  assign unused = ^cmd_addr_i[LB-1:0];
endmodule
