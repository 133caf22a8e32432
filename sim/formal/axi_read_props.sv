// What holds of axi_read on AXI4 whatever comes: an address stays until it is taken; no burst crosses 4 KiB or is longer than
// MAX_BURST; the bursts of a client's request follow each other and are as long as it is; each beat goes to the client of its
// burst, once and in the order of the bursts, with the last one of a request marked; errors come with their beats; after a
// flush's first cycle there is neither, nor later for bursts from before it. Assumed: the slave answers only what it
// has taken, in any order of the IDs, or never; a request has beats and, with CUT = 0, fits a burst; a flush lasts until idle.
// "Of one, any" is a choice of the solver's.
module axi_read_props #(
  parameter int N = 2,
  parameter int AXI_BYTES = 128,
  parameter int MAX_BURST = 2,
  parameter int MAX_OUT = 2,
  parameter bit CUT = 1'b1,
  localparam int LB = $clog2(AXI_BYTES),
  localparam int CW = (N > 1) ? $clog2(N) : 1,
  localparam int PAGE = 4096 / AXI_BYTES  // beats
) (
  input logic clk, flush, arready, rvalid, rlast, pick,
  input logic [CW-1:0] any,
  input logic [N-1:0] req_valid,
  input logic [N*40-1:0] req_addr,
  input logic [N*16-1:0] req_beats,
  input logic [N*2-1:0] level,
  input logic [1:0] rid, rresp
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic idle, rsp_last, err_valid, err_decerr, progress, stall, taken, arvalid, rready;
  logic [N-1:0] req_ready, rsp_valid;
  logic [8*AXI_BYTES-1:0] rsp_data;
  logic [31:0] err_addr;
  logic [39:0] araddr;
  logic [7:0] arlen;
  logic [1:0] arid;
  axi_read #(.N(N), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .MAX_OUT(MAX_OUT), .CUT(CUT)) u_read (
    .clk_i(clk), .rst_ni(begun), .flush_i(flush), .idle_o(idle),
    .req_valid_i(req_valid), .req_ready_o(req_ready), .req_addr_i(req_addr), .req_beats_i(req_beats), .level_i(level),
    .rsp_valid_o(rsp_valid), .rsp_data_o(rsp_data), .rsp_last_o(rsp_last),
    .err_valid_o(err_valid), .err_decerr_o(err_decerr), .err_addr_o(err_addr),
    .progress_o(progress), .stall_o(stall), .beat_o(taken),
    .m_arvalid_o(arvalid), .m_arready_i(arready), .m_araddr_o(araddr), .m_arlen_o(arlen), .m_arid_o(arid),
    .m_rvalid_i(rvalid), .m_rready_o(rready), .m_rdata_i('0), .m_rid_i(rid), .m_rresp_i(rresp), .m_rlast_i(rlast)
  );
  (* hierconn *) wire \u_read.grant ;
  (* hierconn *) wire \u_read.len_last ;
  (* hierconn *) wire \u_read.u_ar.full_q ;
  (* hierconn *) wire [8:0] \u_read.len ;
  (* hierconn *) wire [39-LB:0] \u_read.cur_addr ;
  (* hierconn *) wire [N-1:0] \u_read.sel_one ;
  (* hierconn *) wire [N-1:0] \u_read.pend_q ;
  (* hierconn *) wire [39-LB:0] \u_read.addr_q[0] ;
  (* hierconn *) wire [39-LB:0] \u_read.addr_q[1] ;
  (* hierconn *) wire [15:0] \u_read.beats_q[0] ;
  (* hierconn *) wire [15:0] \u_read.beats_q[1] ;
  (* hierconn *) wire [12:0] \u_read.page_q[0] ;
  (* hierconn *) wire [12:0] \u_read.page_q[1] ;
  (* hierconn *) wire [8:0] \u_read.cut_q[0] ;
  (* hierconn *) wire [8:0] \u_read.cut_q[1] ;
  (* hierconn *) wire [1:0] \u_read.owed_q[0] ;
  (* hierconn *) wire [1:0] \u_read.owed_q[1] ;
  (* hierconn *) wire [1:0] \u_read.owed_q[2] ;
  (* hierconn *) wire [1:0] \u_read.owed_q[3] ;

  // ---- of one client, any: its request's rest, from the bursts that were granted
  logic [CW-1:0] who;
  logic grant, whose, request;
  logic [13-LB:0] at;  // the low bits: what is above has the same registers
  logic [15:0] left, len;
  assign grant = \u_read.grant ;
  assign len = 16'(\u_read.len );
  assign whose = grant && \u_read.sel_one [who];
  assign request = req_valid[who] && req_ready[who];
  always_ff @(posedge clk) begin
    if (!begun) who <= any;
    if (whose) {at, left} <= {at + (14 - LB)'(len), left - len};
    if (request) {at, left} <= {req_addr[who*40+LB+:14-LB], req_beats[who*16+:16]};
    if (!begun || flush) left <= '0;
  end

  // ---- the slave: by ID bursts taken and not answered, and how many are from before the last flush
  logic [2:0] owes[4], old[4];
  logic flush_q, fresh;
  assign fresh = rvalid && !flush && !flush_q && old[rid] == '0;
  always_ff @(posedge clk) begin
    flush_q <= begun && flush;
    for (int e = 0; e < 4; e++) begin
      owes[e] <= begun ? owes[e] + 3'(arvalid && arready && arid == 2'(e)) - 3'(rvalid && rlast && rid == 2'(e)) : '0;
      if (!begun) old[e] <= '0;
      else if (flush_q && !flush) old[e] <= owes[e] - 3'(rvalid && rlast && rid == 2'(e));
      else if (rvalid && rlast && rid == 2'(e) && old[e] != '0) old[e] <= old[e] - 3'd1;
    end
  end

  // ---- of one burst, any, its client, and how many are answered before it
  logic mine, mine_last;
  logic [N-1:0] client;
  logic [2:0] ahead, owed_now;
  logic [7:0] owed;
  assign owed = {\u_read.owed_q[3] , \u_read.owed_q[2] , \u_read.owed_q[1] , \u_read.owed_q[0] };
  assign owed_now = 3'(owed[2*arid+:2]);
  always_ff @(posedge clk) begin
    if (mine) begin
      if (fresh && rlast) {mine, ahead} <= {ahead != '0, ahead - 3'd1};
    end else begin
      mine <= grant && pick;
      ahead <= owed_now - 3'(fresh && rlast);
      {client, mine_last} <= {\u_read.sel_one , \u_read.len_last };
    end
    if (!begun || flush) mine <= 1'b0;
  end

  // what makes an invariant easy to find: the unit's counts are those from outside and what waits in its registers
  logic owed_as_seen;
  logic [13-LB:0] lows[2];
  logic [15:0] beats[2];
  logic [12:0] pages[2];
  logic [8:0] cuts[2];
  logic [1:0] cut_right;
  always_comb begin
    lows[0] = \u_read.addr_q[0] [13-LB:0];
    lows[1] = \u_read.addr_q[1] [13-LB:0];
    beats[0] = \u_read.beats_q[0] ;
    beats[1] = \u_read.beats_q[1] ;
    pages[0] = \u_read.page_q[0] ;
    pages[1] = \u_read.page_q[1] ;
    cuts[0] = \u_read.cut_q[0] ;
    cuts[1] = \u_read.cut_q[1] ;
    for (int c = 0; c < 2; c++) begin
      cut_right[c] = pages[c] == 13'(PAGE) - 13'(lows[c][11-LB:0]) && beats[c] != '0
                     && cuts[c] == ((pages[c] < 13'(MAX_BURST)) ? 9'(pages[c]) : 9'(MAX_BURST));
    end
  end
  always_comb begin
    owed_as_seen = 1'b1;
    for (int e = 0; e < 4; e++) begin
      if (3'(owed[2*e+:2]) != owes[e] + (arid == 2'(e) ? 3'(arvalid) + 3'(\u_read.u_ar.full_q ) : '0)) owed_as_seen = 1'b0;
      if (old[e] > owes[e] || owed[2*e+:2] > 2'(MAX_OUT)) owed_as_seen = 1'b0;
      if (!flush && !flush_q && old[e] != (arid == 2'(e) ? '0 : owes[e])) owed_as_seen = 1'b0;
    end
    if (begun) begin
      i_owed: assert (owed_as_seen);
      i_cut: assert ((\u_read.pend_q & ~cut_right) == '0);
      i_left: assert (\u_read.pend_q [who] ? left == beats[who] && at == lows[who] : left == '0);
      if (mine) i_mine: assert (ahead < owed_now);
    end
  end

  always_comb begin
    if (!begun) begin
      assume (!flush);
      assume (32'(any) < N);
    end
    for (int c = 0; c < N; c++) begin
      if (req_valid[c]) begin
        assume (req_beats[c*16+:16] != '0);
        if (!CUT) assume (req_beats[c*16+:16] <= 16'(MAX_BURST) && 17'(req_addr[c*40+LB+:12-LB]) + 17'(req_beats[c*16+:16]) <= 17'(PAGE));
      end
    end
    if (rvalid) assume (owes[rid] != '0);
    if (begun) begin
      a_taken: assert (rready && (rsp_valid & (rsp_valid - 1'b1)) == '0);
      if (arvalid) begin
        a_page: assert (13'(araddr[11:LB]) + 13'(arlen) < 13'(PAGE));
        a_long: assert (arlen < 8'(MAX_BURST));
      end
      if (whose) a_follow: assert (\u_read.cur_addr [13-LB:0] == at && len <= left && len != '0 && \u_read.len_last == (len == left));
      if (request) a_whole: assert (left == (whose ? len : '0));
      if (idle) a_idle: assert (left == '0 && owes[arid] == '0 && !arvalid);
    end
  end

  always_ff @(posedge clk) if (begun && $past(begun)) begin
    if ($past(flush && !idle)) assume (flush);
    if ($past(arvalid && !arready)) a_ar_stays: assert (arvalid && {araddr[13:0], arlen, arid} == $past({araddr[13:0], arlen, arid}));
    a_once: assert ((rsp_valid != '0) == $past(fresh));
    a_error: assert (err_valid == $past(fresh && rresp[1]));
    if ($past(fresh && mine && ahead == '0)) a_client: assert (rsp_valid == $past(client) && rsp_last == $past(rlast && mine_last));
  end
endmodule
