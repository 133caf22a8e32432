// Combines all read ports: N clients request wide beats (LANES beats of a port, aligned), answered
// in order and without back pressure, and do not see which port delivers them. Requests are cut at
// multiples of a stripe (at most 16 beats, so that 4 KiB is never crossed). Each stripe goes to the
// port whose queue has most room (in turn among equals), so that stripes of unequal length load all
// ports equally. Each port collects its beats into wide beats, and those of the oldest stripe leave
// first. So a single client can use the bandwidth of all ports.
//
// Among clients, the stripes of the highest level go first, round robin among equals. When
// everything is idle the turns start anew, so that a run does not depend on earlier ones. The next
// client and the port with most room are chosen one cycle ahead, for both cases: a stripe is
// granted in this cycle, or none. With one port, clients share it directly.
//
// Flush: hold flush_i until idle_o (late answers: see axi_read).
module read_ports #(
  parameter int unsigned N         = 4,   // clients
  parameter int unsigned N_AXI     = 2,
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned LANES     = 2,   // beats of a wide beat, a power of two
  parameter int unsigned MAX_BURST = 16,
  parameter int unsigned STRIPE    = 16,  // beats, a power of two from LANES to MAX_BURST
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned DW = AXI_BYTES * 8,
  localparam int unsigned WW = LANES * DW
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                flush_i,
  output logic                idle_o,
  // clients
  input  logic [N-1:0]        req_valid_i,
  output logic [N-1:0]        req_ready_o,
  input  logic [N*AW-1:0]     req_addr_i,    // aligned to a wide beat
  input  logic [N*16-1:0]     req_beats_i,   // wide beats, > 0
  input  logic [N*2-1:0]      level_i,       // which client goes first: the highest, in turns among equals
  output logic [N-1:0]        rsp_valid_o,
  output logic [WW-1:0]       rsp_data_o,
  output logic                rsp_last_o,    // last wide beat of the request
  // errors and statistics, a slice a port
  output logic [N_AXI-1:0]    err_valid_o,
  output logic [N_AXI-1:0]    err_decerr_o,
  output logic [N_AXI*32-1:0] err_addr_o,
  output logic [N_AXI-1:0]    progress_o,
  output logic [N_AXI-1:0]    stall_o,
  output logic [N_AXI-1:0]    beat_o,
  // ports
  output logic [N_AXI-1:0]    m_arvalid_o,
  input  logic [N_AXI-1:0]    m_arready_i,
  output logic [N_AXI*AW-1:0] m_araddr_o,
  output logic [N_AXI*8-1:0]  m_arlen_o,
  output logic [N_AXI*2-1:0]  m_arid_o,
  input  logic [N_AXI-1:0]    m_rvalid_i,
  output logic [N_AXI-1:0]    m_rready_o,
  input  logic [N_AXI*DW-1:0] m_rdata_i,
  input  logic [N_AXI*2-1:0]  m_rid_i,
  input  logic [N_AXI*2-1:0]  m_rresp_i,
  input  logic [N_AXI-1:0]    m_rlast_i
);
  if (N_AXI == 1) begin : gen_one
    if (LANES != 1) $error("read_ports: one port has one lane");
    axi_read #(.N(N), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST)) u_port (
      .clk_i, .rst_ni, .flush_i, .idle_o,
      .req_valid_i, .req_ready_o, .req_addr_i, .req_beats_i, .level_i,
      .rsp_valid_o, .rsp_data_o, .rsp_last_o,
      .err_valid_o, .err_decerr_o, .err_addr_o, .progress_o, .stall_o, .beat_o,
      .m_arvalid_o, .m_arready_i, .m_araddr_o, .m_arlen_o, .m_arid_o,
      .m_rvalid_i, .m_rready_o, .m_rdata_i, .m_rid_i, .m_rresp_i, .m_rlast_i
    );
  end else begin : gen_striped
    localparam int unsigned LB = $clog2(LANES * AXI_BYTES);
    localparam int unsigned WORDS = STRIPE / LANES;  // of a stripe
    localparam int unsigned SB = $clog2(WORDS);
    localparam int unsigned DEPTH = (8 * WORDS < 64) ? 8 * WORDS : 64;         // wide beats of a port
    localparam int unsigned DB = $clog2(DEPTH);
    localparam int unsigned CB = (N > 1) ? $clog2(N) : 1;
    localparam int unsigned PB = $clog2(N_AXI);
    localparam int unsigned LW = (LANES > 1) ? $clog2(LANES) : 1;

    if (WORDS == 0) $error("read_ports: a burst must hold a wide beat");

    // ---- requests, cut into stripes; addresses count wide beats
    logic [N-1:0]    pend, cut_ready, cut_last;
    logic [N*(AW-LB)-1:0] cut_addr;
    logic [N*(SB+1)-1:0]  cut_len;
    logic            grant, last;
    logic [AW-LB-1:0] cur_addr;
    logic [SB:0]     len;
    logic [CB-1:0]   ptr_q, sel;            // who goes first among equals; whose stripe is next
    logic [N-1:0]    one_q;                 // sel, a bit a client
    logic [PB-1:0]   turn_q, ask;           // the port that goes first among equals; the next stripe's
    logic [N_AXI-1:0] p_sel_q;              // ask, a bit a port
    logic [N_AXI-1:0] p_ready, p_idle, take_q;
    logic [N_AXI*(DB+1)-1:0] room_q;        // wide beats free in a port's queue and not reserved
    logic [N_AXI-1:0] ample_q;               // room for a stripe of any length
    logic            fits;                  // the next stripe in its port's queue
    logic            order_ready, order_valid, order_pop;

    for (genvar c = 0; c < N; c++) begin : gen_cut
      stripe_cut #(.AW(AW - LB), .WORDS(WORDS)) u_cut (
        .clk_i,
        .rst_ni (rst_ni && !flush_i),
        .valid_i(req_valid_i[c]),
        .ready_o(cut_ready[c]),
        .addr_i (req_addr_i[c*AW+LB+:AW-LB]),
        .words_i(req_beats_i[c*16+:16]),
        .valid_o(pend[c]),
        .take_i (grant && one_q[c]),
        .addr_o (cut_addr[c*(AW-LB)+:AW-LB]),
        .len_o  (cut_len[c*(SB+1)+:SB+1]),
        .last_o (cut_last[c])
      );
      assign req_ready_o[c] = !flush_i && cut_ready[c];
    end

    // All clients test in parallel whether their stripe fits a port.
    always_comb begin
      sel = '0;
      cur_addr = '0;
      len = '0;
      fits = 1'b0;
      ask = '0;
      for (int unsigned c = 0; c < N; c++) begin
        sel = sel | (one_q[c] ? CB'(c) : '0);
        cur_addr = cur_addr | (one_q[c] ? cut_addr[c*(AW-LB)+:AW-LB] : '0);
        len = len | (one_q[c] ? cut_len[c*(SB+1)+:SB+1] : '0);
        for (int unsigned p = 0; p < N_AXI; p++) begin
          if (one_q[c] && p_sel_q[p] && (ample_q[p] || room_q[p*(DB+1)+:SB+1] >= cut_len[c*(SB+1)+:SB+1])) fits = 1'b1;
        end
      end
      for (int unsigned p = 0; p < N_AXI; p++) ask = ask | (p_sel_q[p] ? PB'(p) : '0);
    end
    assign last = (one_q & cut_last) != '0;
    assign grant = (one_q & pend) != '0 && !flush_i && order_ready && (p_sel_q & p_ready) != '0 && fits;

    // ---- client and port of the next cycle: [0] if nothing is granted in this one, [1] if
    // something is. Of the clients of the highest level, the first at or after the pointer, in
    // cyclic order; of the ports, the one with most room
    logic [CB-1:0] ptr[2];
    logic [PB-1:0] turn[2];
    logic [N-1:0]  one[2];
    logic [N_AXI-1:0] p_sel[2];
    assign ptr[0] = idle_o ? '0 : ptr_q;
    assign ptr[1] = (sel == CB'(N - 1)) ? '0 : sel + 1'b1;
    assign turn[0] = idle_o ? '0 : turn_q;
    assign turn[1] = (ask == PB'(N_AXI - 1)) ? '0 : ask + 1'b1;
    for (genvar g = 0; g < 2; g++) begin : gen_next
      logic [N*3-1:0] load;
      logic [N_AXI*(DB+1)-1:0] room_d;
      logic [N_AXI-1:0] ample;
      logic [CB-1:0] sel_unused;
      logic [PB-1:0] ask_unused;
      always_comb begin
        for (int unsigned c = 0; c < N; c++) begin
          // a stripe is available: the current one, the next one, or one of a new request
          load[c*3+:3] = {!((pend[c] && !(g == 1 && one_q[c] && cut_last[c])) || !cut_ready[c] || req_valid_i[c]), ~level_i[c*2+:2]};
        end
        for (int unsigned p = 0; p < N_AXI; p++) begin
          room_d[p*(DB+1)+:DB+1] = room_q[p*(DB+1)+:DB+1] + (DB + 1)'(take_q[p])
                                   - ((g == 1 && p_sel_q[p]) ? (DB + 1)'(len) : '0);
          ample[p] = room_d[p*(DB+1)+:DB+1] >= (DB + 1)'(WORDS);
        end
      end
      fairest #(.N(N), .W(3)) u_turn (.load_i(load), .turn_i(ptr[g]), .sel_o(one[g]), .port_o(sel_unused));
      fairest #(.N(N_AXI), .W(DB + 1)) u_port (.load_i(~room_d), .turn_i(turn[g]), .sel_o(p_sel[g]), .port_o(ask_unused));
      logic unused;
      assign unused = ^{sel_unused, ask_unused};
    end

    always_ff @(posedge clk_i) begin
      if (!rst_ni || flush_i) begin
        ptr_q <= '0;
        turn_q <= '0;
        one_q <= N'(1);
        p_sel_q <= N_AXI'(1);
        room_q <= {N_AXI{(DB + 1)'(DEPTH)}};
        ample_q <= '1;
      end else begin
        ptr_q <= grant ? ptr[1] : ptr[0];
        turn_q <= grant ? turn[1] : turn[0];
        one_q <= grant ? one[1] : one[0];
        p_sel_q <= grant ? p_sel[1] : p_sel[0];
        room_q <= grant ? gen_next[1].room_d : gen_next[0].room_d;
        ample_q <= grant ? gen_next[1].ample : gen_next[0].ample;
      end
    end

    // ---- stripes in order: client, port, length, last of its request
    // The oldest stripe is in registers long before its first beat arrives, and so is whether one
    // of its beats leaves.
    logic [CB-1:0] o_client, o_client_q;
    logic [PB-1:0] o_port, o_port_d, o_port_q;
    logic [SB:0]   o_len, o_len_q;
    logic          o_last, o_last_q, oldest_d, oldest_q, more;
    fifo #(.WIDTH(CB + PB + SB + 2), .DEPTH(64)) u_order (
      .clk_i,
      .rst_ni (rst_ni && !flush_i),
      .valid_i(grant),
      .ready_o(order_ready),
      .wdata_i({sel, ask, len, last}),
      .valid_o(more),
      .ready_i(!oldest_q || order_pop),
      .rdata_o({o_client, o_port, o_len, o_last})
    );
    assign oldest_d = (!oldest_q || order_pop) ? more : 1'b1;
    assign o_port_d = (!oldest_q || order_pop) ? o_port : o_port_q;
    always_ff @(posedge clk_i) begin
      oldest_q <= rst_ni && !flush_i && oldest_d;
      o_port_q <= o_port_d;
      if (!oldest_q || order_pop) {o_client_q, o_len_q, o_last_q} <= {o_client, o_len, o_last};
    end
    assign order_valid = oldest_q || more;

    // ---- ports: each collects its beats into wide ones
    logic [N_AXI*WW-1:0] p_word;
    for (genvar p = 0; p < N_AXI; p++) begin : gen_port
      logic          valid, whole, rsp_last_unused;
      logic [DW-1:0] data;
      axi_read #(.N(1), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .CUT(1'b0)) u_port (
        .clk_i,
        .rst_ni,
        .flush_i,
        .idle_o      (p_idle[p]),
        .req_valid_i (grant && p_sel_q[p]),
        .req_ready_o (p_ready[p]),
        .req_addr_i  ({cur_addr, LB'(0)}),
        .req_beats_i (16'(len) << $clog2(LANES)),
        .level_i     ('0),
        .rsp_valid_o (valid),
        .rsp_data_o  (data),
        .rsp_last_o  (rsp_last_unused),
        .err_valid_o (err_valid_o[p]),
        .err_decerr_o(err_decerr_o[p]),
        .err_addr_o  (err_addr_o[p*32+:32]),
        .progress_o  (progress_o[p]),
        .stall_o     (stall_o[p]),
        .beat_o      (beat_o[p]),
        .m_arvalid_o (m_arvalid_o[p]),
        .m_arready_i (m_arready_i[p]),
        .m_araddr_o  (m_araddr_o[p*AW+:AW]),
        .m_arlen_o   (m_arlen_o[p*8+:8]),
        .m_arid_o    (m_arid_o[p*2+:2]),
        .m_rvalid_i  (m_rvalid_i[p]),
        .m_rready_o  (m_rready_o[p]),
        .m_rdata_i   (m_rdata_i[p*DW+:DW]),
        .m_rid_i     (m_rid_i[p*2+:2]),
        .m_rresp_i   (m_rresp_i[p*2+:2]),
        .m_rlast_i   (m_rlast_i[p])
      );

      logic [LW-1:0] lane_q;
      logic [DB:0]   wptr_q, rptr_q, wptr_d, rptr_d;
      assign whole = valid && lane_q == LW'(LANES - 1);
      assign wptr_d = wptr_q + (DB + 1)'(whole);
      assign rptr_d = rptr_q + (DB + 1)'(take_q[p]);
      for (genvar l = 0; l < LANES; l++) begin : gen_lane
        logic [DW-1:0] mem[DEPTH];
        always_ff @(posedge clk_i) if (valid && lane_q == LW'(l)) mem[wptr_q[DB-1:0]] <= data;
        assign p_word[p*WW+l*DW+:DW] = mem[rptr_q[DB-1:0]];
      end
      always_ff @(posedge clk_i) begin
        if (!rst_ni || flush_i) begin
          lane_q <= '0;
          wptr_q <= '0;
          rptr_q <= '0;
          take_q[p] <= 1'b0;
        end else begin
          if (valid) lane_q <= whole ? '0 : lane_q + 1'b1;
          wptr_q <= wptr_d;
          rptr_q <= rptr_d;
          take_q[p] <= o_port_d == PB'(p) && wptr_d != rptr_d;  // complete
        end
      end
      logic unused;
      assign unused = rsp_last_unused;
    end

    // ---- the oldest stripe's wide beats to its client
    logic [SB:0]   done_q;
    logic          take, stripe_end;
    assign take = take_q != '0;
    assign stripe_end = done_q + 1'b1 == o_len_q;
    assign order_pop = take && stripe_end;
    always_ff @(posedge clk_i) begin
      if (!rst_ni || flush_i) begin
        done_q <= '0;
      end else if (take) begin
        done_q <= stripe_end ? '0 : done_q + 1'b1;
      end
      for (int unsigned c = 0; c < N; c++) begin
        rsp_valid_o[c] <= rst_ni && !flush_i && take && o_client_q == CB'(c);
      end
      rsp_data_o <= p_word[o_port_q*WW+:WW];
      rsp_last_o <= stripe_end && o_last_q;
    end
    assign idle_o = pend == '0 && !order_valid && (&p_idle);

    logic unused;
    always_comb begin
      unused = 1'b0;
      for (int unsigned c = 0; c < N; c++) unused = unused ^ (^req_addr_i[c*AW+:LB]);
    end
  end
endmodule
