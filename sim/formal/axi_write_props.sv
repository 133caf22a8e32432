// What holds of axi_write on AXI4 whatever comes: what is offered stays until it is taken; no burst crosses 4 KiB or is longer
// than MAX_BURST; the bursts of a command follow each other and are as long as it is; data have the last beat where their
// burst's address says, under its ID, and are the beats that the client gave, each once and in order; a flush's own beats write
// nothing; with WITH_DATA no burst is announced before its first beat, nor while another lacks one; errors are passed on, but
// not in a flush, nor later those of bursts from before it. Assumed: the slave answers what it has wholly taken or never; a
// command has beats and, with CUT = 0, fits a burst; a flush lasts until idle.
// "Of one, any" is a choice of the solver's.
module axi_write_props #(
  parameter int AXI_BYTES = 8,
  parameter int MAX_BURST = 2,
  parameter int MAX_OUT = 2,
  parameter bit CUT = 1'b1,
  parameter bit WITH_DATA = 1'b0,
  localparam int LB = $clog2(AXI_BYTES),
  localparam int PAGE = 4096 / AXI_BYTES  // beats
) (
  input logic clk, flush, cmd_valid, wb_valid, awready, wready, bvalid, pick_burst, pick_beat,
  input logic [LB+2:0] any,
  input logic [8*AXI_BYTES-1:0] wb_data,
  input logic [AXI_BYTES-1:0] wb_strb,
  input logic [39:0] cmd_addr,
  input logic [15:0] cmd_beats,
  input logic [1:0] bid, bresp
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic idle, cmd_ready, wb_ready, err_valid, err_decerr, awvalid, wvalid, wlast, bready, progress, stall;
  logic [31:0] err_addr;
  logic [$clog2(AXI_BYTES+1)-1:0] bytes;
  logic [39:0] awaddr;
  logic [7:0] awlen;
  logic [1:0] awid;
  logic [8*AXI_BYTES-1:0] wdata;
  logic [AXI_BYTES-1:0] wstrb;
  logic [LB+2:0] one;  // of a beat's bits, any
  logic [1:0] bit_in, bit_out;  // it and its byte's strobe
  assign bit_in = {wb_data[one], wb_strb[one[LB+2:3]]};
  assign bit_out = {wdata[one], wstrb[one[LB+2:3]]};
  always_ff @(posedge clk) if (!begun) one <= any;
  axi_write #(.AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .MAX_OUT(MAX_OUT), .CUT(CUT), .WITH_DATA(WITH_DATA)) u_write (
    .clk_i(clk), .rst_ni(begun), .flush_i(flush), .idle_o(idle),
    .cmd_valid_i(cmd_valid), .cmd_ready_o(cmd_ready), .cmd_addr_i(cmd_addr), .cmd_beats_i(cmd_beats),
    .wb_valid_i(wb_valid), .wb_ready_o(wb_ready), .wb_data_i(wb_data), .wb_strb_i(wb_strb),
    .err_valid_o(err_valid), .err_decerr_o(err_decerr), .err_addr_o(err_addr),
    .progress_o(progress), .stall_o(stall), .bytes_o(bytes),
    .m_awvalid_o(awvalid), .m_awready_i(awready), .m_awaddr_o(awaddr), .m_awlen_o(awlen), .m_awid_o(awid),
    .m_wvalid_o(wvalid), .m_wready_i(wready), .m_wdata_o(wdata), .m_wstrb_o(wstrb), .m_wlast_o(wlast),
    .m_bvalid_i(bvalid), .m_bready_o(bready), .m_bid_i(bid), .m_bresp_i(bresp)
  );
  (* hierconn *) wire \u_write.grant ;
  (* hierconn *) wire \u_write.u_aw.full_q ;
  (* hierconn *) wire \u_write.u_w.full_q ;
  (* hierconn *) wire [9*AXI_BYTES:0] \u_write.u_w.next_q ;
  (* hierconn *) wire [1:0] \u_write.unsent_q ;
  (* hierconn *) wire \u_write.put ;
  (* hierconn *) wire \u_write.put_last ;
  (* hierconn *) wire \u_write.wr_q ;
  (* hierconn *) wire \u_write.data_q ;
  (* hierconn *) wire [7:0] \u_write.beat_q ;
  (* hierconn *) wire [1:0] \u_write.owed_q[0] ;
  (* hierconn *) wire [1:0] \u_write.owed_q[1] ;
  (* hierconn *) wire [1:0] \u_write.owed_q[2] ;
  (* hierconn *) wire [1:0] \u_write.owed_q[3] ;
  (* hierconn *) wire [39-LB:0] \u_write.addr_q ;
  (* hierconn *) wire [15:0] \u_write.len ;

  // ---- the client: the command's rest, from the bursts that were granted
  logic cmd, beat, grant;
  logic [12:0] cmd_end;
  logic [13-LB:0] at;  // the low bits: what is above has the same registers
  logic [15:0] left;
  logic [1:0] lacks;  // beats of the granted burst that are still to come; with WITH_DATA it is one burst, here of two beats at most
  assign cmd = cmd_valid && cmd_ready;
  assign beat = wb_valid && wb_ready;
  assign grant = \u_write.grant ;
  assign cmd_end = 13'(cmd_addr[11:LB]) + 13'(cmd_beats);
  always_ff @(posedge clk) begin
    if (grant) {at, left} <= {at + (14 - LB)'(\u_write.len ), left - \u_write.len };
    if (cmd) {at, left} <= {cmd_addr[13:LB], cmd_beats};
    if (!begun || flush) left <= '0;
    lacks <= begun ? lacks + (grant ? 2'(\u_write.len ) : '0) - 2'(\u_write.put ) : '0;
  end

  // ---- the bursts that stand on the bus or were taken: those with data to come; of one, any, what its address said
  logic shown_q, burst, last, mine;
  logic [2:0] open, ahead;
  logic [7:0] want, done;
  logic [1:0] id;
  assign burst = awvalid && !shown_q;
  assign last = wvalid && wready && wlast;
  always_ff @(posedge clk) begin
    shown_q <= begun && awvalid && !awready;
    open <= begun ? open + 3'(burst) - 3'(last) : '0;
    if (mine) begin
      if (last && ahead != '0) ahead <= ahead - 3'd1;
      if (wvalid && wready && ahead == '0) done <= done + 8'd1;
      if (last && ahead == '0) mine <= 1'b0;
    end else begin
      mine <= burst && pick_burst;
      ahead <= open - 3'(last);
      {want, done, id} <= {awlen, 8'd0, awid};
    end
    if (!begun) mine <= 1'b0;
  end

  // ---- beats given and not yet taken; of one, any, what it was
  logic held;
  logic [1:0] bit_held;
  logic [1:0] given, before;
  always_ff @(posedge clk) begin
    given <= begun ? given + 2'(beat) - 2'(wvalid && wready && given != '0) : '0;
    if (held) begin
      if (wvalid && wready) {held, before} <= {before != '0, before - 2'd1};
    end else begin
      held <= beat && pick_beat;
      before <= given - 2'(wvalid && wready && given != '0);
      bit_held <= bit_in;
    end
    if (!begun) held <= 1'b0;
  end

  // ---- the slave: by ID addresses and last beats taken and not answered, and how many are from before the last flush
  logic [2:0] addrs[4], lasts[4], old[4];
  logic flush_q;
  always_ff @(posedge clk) begin
    flush_q <= begun && flush;
    for (int e = 0; e < 4; e++) begin
      addrs[e] <= begun ? addrs[e] + 3'(awvalid && awready && awid == 2'(e)) - 3'(bvalid && bid == 2'(e)) : '0;
      lasts[e] <= begun ? lasts[e] + 3'(last && awid == 2'(e)) - 3'(bvalid && bid == 2'(e)) : '0;
      if (!begun) old[e] <= '0;
      else if (flush_q && !flush) old[e] <= lasts[e] - 3'(bvalid && bid == 2'(e));
      else if (bvalid && bid == 2'(e) && old[e] != '0) old[e] <= old[e] - 3'd1;
    end
  end

  // ---- what makes an invariant easy to find: the unit's own counts are those from outside and what waits in its registers
  logic [2:0] inside_a, inside_l;  // addresses, last beats
  logic       full_w, next_last, owed_as_seen;
  logic [1:0] bit_next;
  logic [AXI_BYTES-1:0] next_strb;
  logic [8*AXI_BYTES-1:0] next_data;
  logic [7:0] owed;
  assign full_w = \u_write.u_w.full_q ;
  assign {next_last, next_strb, next_data} = \u_write.u_w.next_q ;
  assign bit_next = {next_data[one], next_strb[one[LB+2:3]]};
  assign inside_a = 3'(awvalid) + 3'(\u_write.u_aw.full_q );
  assign inside_l = 3'(\u_write.unsent_q ) + 3'(wvalid && wlast) + 3'(full_w && next_last);
  assign owed = {\u_write.owed_q[3] , \u_write.owed_q[2] , \u_write.owed_q[1] , \u_write.owed_q[0] };
  always_comb begin
    owed_as_seen = 1'b1;
    for (int e = 0; e < 4; e++) begin
      if (3'(owed[2*e+:2]) != addrs[e] + (awid == 2'(e) ? inside_a : '0)) owed_as_seen = 1'b0;
      if (3'(owed[2*e+:2]) != lasts[e] + (awid == 2'(e) ? inside_l : '0)) owed_as_seen = 1'b0;
      if (old[e] > lasts[e] || owed[2*e+:2] > 2'(MAX_OUT)) owed_as_seen = 1'b0;
    end
    if (begun) begin
      i_owed: assert (owed_as_seen);
      i_open: assert (open + 3'(burst) + 3'(\u_write.u_aw.full_q ) == inside_l);
      i_lacks: assert (!WITH_DATA || (\u_write.unsent_q == '0 ? lacks == '0 && \u_write.wr_q == \u_write.data_q && \u_write.beat_q == '0
        : \u_write.unsent_q == 2'd1 && lacks != '0 && (lacks == 2'd1) == \u_write.put_last && \u_write.wr_q != \u_write.data_q ));
      i_given: assert (given <= 2'(wvalid) + 2'(full_w) && (!full_w || given == 2'd2 || (!bit_next[0] && flush)));
      if (held) i_held: assert (before < given && (before == '0 || bit_next == bit_held));
      if (mine) i_mine: assert (ahead < open && want < 8'(MAX_BURST) && done <= want);
    end
  end

  always_comb begin
    if (!begun) assume (!flush);
    if (cmd_valid) assume (cmd_beats != '0 && (CUT || (cmd_beats <= 16'(MAX_BURST) && cmd_end <= 13'(PAGE))));
    if (bvalid) assume (addrs[bid] != '0 && lasts[bid] != '0);
    if (begun) begin
      if (awvalid) begin
        a_page: assert (13'(awaddr[11:LB]) + 13'(awlen) < 13'(PAGE));
        a_long: assert (awlen < 8'(MAX_BURST));
      end
      if (grant) a_follow: assert (\u_write.addr_q [13-LB:0] == at && \u_write.len <= left && \u_write.len != '0);
      if (grant && WITH_DATA) a_with_data: assert (wb_valid && lacks == '0);
      if (cmd) a_whole: assert (left == (grant ? \u_write.len : '0));
      if (wvalid) a_after: assert (open != '0);
      if (wvalid && mine && ahead == '0) begin
        a_last: assert (wlast == (done == want));
        a_id: assert (awid == id);
      end
      if (wvalid && held && before == '0) a_beat: assert (bit_out == bit_held);
      if (wvalid && given == '0) a_nothing: assert (!bit_out[0] && flush);
      if (idle) a_idle: assert (left == '0 && open == '0 && given == '0 && addrs[awid] == '0 && lasts[awid] == '0);
    end
  end

  always_ff @(posedge clk) if (begun && $past(begun)) begin
    if ($past(flush && !idle)) assume (flush);
    if ($past(awvalid && !awready)) a_aw_stays: assert (awvalid && {awaddr[13:0], awlen, awid} == $past({awaddr[13:0], awlen, awid}));
    if ($past(wvalid && !wready)) a_w_stays: assert (wvalid && {bit_out, wlast} == $past({bit_out, wlast}));
    a_error: assert (err_valid == $past(bvalid && bresp[1] && !flush && !flush_q && old[bid] == '0));
  end
endmodule
