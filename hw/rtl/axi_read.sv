// axi_read: the read half of one AXI4 master port, shared by N clients.
//
// Promises: requests are split into bursts of at most MAX_BURST beats that never cross 4 KiB.
// Bursts of clients with the same level alternate (round robin; the pointer returns to client 0
// whenever the port is idle, so that a run does not depend on earlier ones). Answers arrive in
// order for each client, without back pressure (m_rready_o is constant one): a client requests only
// what it has room for. Every response is checked.
//
// Latency: request to m_arvalid_o one cycle, m_rvalid_i to rsp_valid_o one cycle. Throughput: one
// address and one beat a cycle; up to MAX_OUT bursts are outstanding.
//
// Flush: hold flush_i until idle_o. An address already on the bus is held until it is taken;
// everything else is dropped. No beat and no error is passed on after the first cycle of flush_i.
// If answers are still outstanding, the port changes to another AXI ID (an epoch) without
// outstanding answers, and beats of the old ID are discarded whenever they arrive. So a burst that
// is never answered blocks only one of the four IDs; if all other IDs are blocked, idle_o stays
// low. The statistics (progress_o, stall_o, beat_o) are one cycle late.
module axi_read #(
    parameter int N         = 4,   // clients, at least 1
    parameter int AXI_BYTES = 8,   // bytes of a beat, a power of two 4..128
    parameter int MAX_BURST = 16,  // beats of the longest burst, 1..256
    parameter int MAX_OUT   = 16,  // outstanding bursts, a power of two 2..64
    parameter bit CUT       = 1'b1 // requests may be longer than a burst, or cross 4 KiB
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   flush_i,
    output logic                   idle_o,        // nothing pending or outstanding (this epoch)

    // Clients; client c at slice c.
    input  logic [N-1:0]           req_valid_i,
    output logic [N-1:0]           req_ready_o,
    input  logic [N*40-1:0]        req_addr_i,    // bytes; the bits below a beat are ignored
    input  logic [N*16-1:0]        req_beats_i,   // > 0
    input  logic [N*2-1:0]         level_i,       // which client goes first: the highest
    output logic [N-1:0]           rsp_valid_o,
    output logic [8*AXI_BYTES-1:0] rsp_data_o,
    output logic                   rsp_last_o,    // last beat of the request

    // A read of the present epoch was answered with an error (the beat is delivered all the same).
    output logic                   err_valid_o,
    output logic                   err_decerr_o,  // 0: SLVERR, 1: DECERR
    output logic [31:0]            err_addr_o,    // of the beat, low 32 bits

    output logic                   progress_o,    // an address or a beat of this epoch was taken
    output logic                   stall_o,       // m_arvalid_o && !m_arready_i
    output logic                   beat_o,        // a beat of this epoch was taken

    output logic                   m_arvalid_o,
    input  logic                   m_arready_i,
    output logic [39:0]            m_araddr_o,
    output logic [7:0]             m_arlen_o,
    output logic [1:0]             m_arid_o,
    input  logic                   m_rvalid_i,
    output logic                   m_rready_o,
    input  logic [8*AXI_BYTES-1:0] m_rdata_i,
    input  logic [1:0]             m_rid_i,
    input  logic [1:0]             m_rresp_i,
    input  logic                   m_rlast_i
);
  localparam int LB = $clog2(AXI_BYTES);
  localparam int CW = (N > 1) ? $clog2(N) : 1;
  localparam int OW = $clog2(MAX_OUT);
  localparam int PAGE_BEATS = 4096 / AXI_BYTES;

  if (N < 1) $error("axi_read: N must be at least 1");
  if (AXI_BYTES < 4 || AXI_BYTES > 128 || (1 << LB) != AXI_BYTES)
    $error("axi_read: AXI_BYTES must be a power of two, 4..128");
  if (MAX_BURST < 1 || MAX_BURST > 256) $error("axi_read: MAX_BURST must be 1..256");
  if (MAX_OUT < 2 || MAX_OUT > 64 || (1 << OW) != MAX_OUT)
    $error("axi_read: MAX_OUT must be a power of two, 2..64");

  // Requests that are being split, one per client, and the next burst of each; addresses count
  // beats. The parameters of that burst are in registers before a client is chosen, so ready needs
  // only a gate after the choice, no arithmetic.
  logic [N-1:0]     pend_q, last_q, last_d, fresh;  // last burst of a request; new request
  logic [39-LB:0]   addr_q [N], addr_d [N];
  logic [15:0]      beats_q[N], beats_d[N];
  logic [12:0]      page_q [N], page_d [N];         // beats to the page's end
  logic [8:0]       cut_q  [N], cut_d  [N];         // the same, limited to MAX_BURST

  // Round robin: of the pending clients of the highest level the first at or after the pointer, in cyclic
  // order.
  logic [CW-1:0] ptr_q, sel;
  logic [N-1:0]  sel_one;   // sel, a bit a client
  logic [N*3-1:0] load;
  logic          sel_any;
  always_comb begin
    for (int c = 0; c < N; c++) load[c*3+:3] = {!pend_q[c], ~level_i[c*2+:2]};
  end
  fairest #(.N(N), .W(3)) u_turn (.load_i(load), .turn_i(ptr_q), .sel_o(sel_one), .port_o(sel));
  assign sel_any = |pend_q;

  always_comb begin
    for (int c = 0; c < N; c++) begin
      fresh[c] = !pend_q[c] || last_q[c];
      addr_d[c] = fresh[c] ? req_addr_i[c*40+LB+:40-LB] : addr_q[c] + (40 - LB)'(cut_q[c]);
      beats_d[c] = fresh[c] ? req_beats_i[c*16+:16] : beats_q[c] - 16'(cut_q[c]);
      if (fresh[c]) page_d[c] = 13'(PAGE_BEATS) - 13'(req_addr_i[c*40+LB+:12-LB]);
      else page_d[c] = (page_q[c] <= 13'(MAX_BURST)) ? 13'(PAGE_BEATS) : page_q[c] - 13'(MAX_BURST);
      cut_d[c] = (page_d[c] < 13'(MAX_BURST)) ? 9'(page_d[c]) : 9'(MAX_BURST);
      last_d[c] = !CUT || (beats_d[c] <= 16'(MAX_BURST) && beats_d[c] <= 16'(page_d[c]));
    end
  end

  logic [39-LB:0] cur_addr;
  logic [8:0]     len;
  logic           len_last;
  always_comb begin
    cur_addr = '0;
    len = '0;
    for (int c = 0; c < N; c++) begin
      cur_addr = cur_addr | (sel_one[c] ? addr_q[c] : '0);
      len = len | (sel_one[c] ? (last_q[c] ? beats_q[c][8:0] : cut_q[c]) : '0);
    end
  end
  assign len_last = (sel_one & last_q) != '0;

  logic [1:0]     epoch_q, free;
  logic           free_any, move;
  logic [OW:0]    owed_q[4];  // bursts announced and not fully answered, by epoch
  logic [OW:0]    owed_now;
  assign owed_now = owed_q[epoch_q];

  logic grant;
  logic ar_ready;
  assign grant = sel_any && !flush_i && !owed_now[OW] && ar_ready;

  always_comb begin
    for (int c = 0; c < N; c++)
      req_ready_o[c] = !flush_i && (!pend_q[c] || (grant && sel_one[c] && last_q[c]));
  end

  always_ff @(posedge clk_i) begin
    for (int c = 0; c < N; c++) begin
      if (!pend_q[c] || (grant && sel_one[c])) begin  // not needed without a request, but harmless
        addr_q[c]  <= addr_d[c];
        beats_q[c] <= beats_d[c];
        page_q[c]  <= page_d[c];
        cut_q[c]   <= cut_d[c];
        last_q[c]  <= last_d[c];
      end
    end
    if (!rst_ni || flush_i) begin
      pend_q <= '0;
    end else begin
      for (int c = 0; c < N; c++) begin
        if (req_valid_i[c] && req_ready_o[c]) pend_q[c] <= 1'b1;
        else if (grant && sel_one[c] && last_q[c]) pend_q[c] <= 1'b0;
      end
    end
    if (!rst_ni || flush_i || idle_o) ptr_q <= '0;
    else if (grant) ptr_q <= (sel == CW'(N - 1)) ? '0 : sel + 1'b1;
  end

  // Address channel; m_arready_i reaches nothing but its register.
  logic [39-LB:0] ar_addr;
  spill #(.WIDTH(48 - LB)) u_ar (
    .clk_i,
    .rst_ni,
    .valid_i(grant),
    .ready_o(ar_ready),
    .data_i ({cur_addr, 8'(len - 9'd1)}),
    .valid_o(m_arvalid_o),
    .ready_i(m_arready_i),
    .data_o ({ar_addr, m_arlen_o})
  );
  assign m_araddr_o = {ar_addr, LB'(0)};
  assign m_arid_o   = epoch_q;  // changes only while m_arvalid_o is low

  // Bursts in the order of their answers: client, last burst of its request, start address.
  logic [CW-1:0]  ord_client[MAX_OUT];
  logic           ord_last  [MAX_OUT];
  logic [31-LB:0] ord_addr  [MAX_OUT];
  logic [OW-1:0]  wr_q, rd_q;
  logic [8:0]     beat_q;  // beats of the present burst already here
  logic           hit, pop;
  assign hit = m_rvalid_i && m_rid_i == epoch_q && owed_now != '0;
  assign pop = hit && m_rlast_i;

  always_ff @(posedge clk_i) begin
    if (grant) begin
      ord_client[wr_q] <= sel;
      ord_last[wr_q]   <= len_last;
      ord_addr[wr_q]   <= cur_addr[31-LB:0];
    end
    if (!rst_ni) begin
      wr_q <= '0;
      rd_q <= '0;
    end else if (move) begin
      wr_q <= '0;
      rd_q <= '0;
    end else begin
      if (grant) wr_q <= wr_q + 1'b1;
      if (pop) rd_q <= rd_q + 1'b1;
    end
    if (!rst_ni || move || pop) beat_q <= '0;
    else if (hit) beat_q <= beat_q + 1'b1;
  end

  // Epochs. A flush that still awaits answers moves to any epoch that owes none.
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
  assign move = flush_i && !m_arvalid_o && owed_now != '0 && free_any;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) epoch_q <= '0;
    else if (move) epoch_q <= free;
    for (int e = 0; e < 4; e++) begin
      if (!rst_ni) owed_q[e] <= '0;
      else
        owed_q[e] <= owed_q[e] + (OW + 1)'(grant && epoch_q == 2'(e)) -
            (OW + 1)'(m_rvalid_i && m_rlast_i && m_rid_i == 2'(e) && owed_q[e] != '0);
    end
  end
  assign idle_o = pend_q == '0 && !m_arvalid_o && owed_now == '0;

  // Data channel. Nothing is handed out once a flush has begun.
  logic [N-1:0]           rsp_valid_q;
  logic [8*AXI_BYTES-1:0] rsp_data_q;
  logic                   rsp_last_q, err_q, decerr_q, progress_q, stall_q, beat_taken_q;
  logic [31-LB:0]         err_addr_q;
  always_ff @(posedge clk_i) begin
    for (int c = 0; c < N; c++)
      rsp_valid_q[c] <= rst_ni && !flush_i && hit && ord_client[rd_q] == CW'(c);
    rsp_data_q   <= m_rdata_i;
    rsp_last_q   <= m_rlast_i && ord_last[rd_q];
    err_q        <= rst_ni && !flush_i && hit && m_rresp_i[1];
    decerr_q     <= m_rresp_i[0];
    err_addr_q   <= ord_addr[rd_q] + (32 - LB)'(beat_q);
    beat_taken_q <= rst_ni && hit;
    progress_q   <= rst_ni && (hit || (m_arvalid_o && m_arready_i));
    stall_q      <= rst_ni && m_arvalid_o && !m_arready_i;
  end
  assign m_rready_o   = 1'b1;
  assign rsp_valid_o  = rsp_valid_q;
  assign rsp_data_o   = rsp_data_q;
  assign rsp_last_o   = rsp_last_q;
  assign err_valid_o  = err_q;
  assign err_decerr_o = decerr_q;
  assign err_addr_o   = {err_addr_q, LB'(0)};
  assign progress_o   = progress_q;
  assign stall_o      = stall_q;
  assign beat_o       = beat_taken_q;

  // A request's address is rounded down to whole beats.
  logic unused;
  always_comb begin
    unused = 1'b0;
    for (int c = 0; c < N; c++) unused = unused ^ (^req_addr_i[c*40+:LB]);
  end
endmodule
