// All read ports as one: N clients ask for wide beats (LANES beats of a port, aligned), in order and
// without back pressure, and neither know nor care which port brings them. A request is cut at
// multiples of a stripe (at most 16 beats, so that 4 KiB is never crossed); each stripe goes to the
// port whose queue has most room (in turn among equals), so that stripes of unequal length load all
// ports alike; each port collects its own into wide beats, and the oldest stripe's leave first. So one
// client alone gets the bandwidth of all ports.
//
// The order over all clients is that of the requests' stripes: the highest level first, round robin
// among equals; whenever everything is
// idle the turns begin anew, so that a run does not depend on the one before. With one port clients
// share it directly.
//
// Flush: hold flush_i until idle_o (axi_read says how late answers are dealt with).
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
    logic [CB-1:0]   ptr_q, sel;
    logic [N-1:0]    sel_one;               // sel, a bit a client
    logic [N*3-1:0]  load;
    logic            grant, last;
    logic [AW-LB-1:0] cur_addr;
    logic [SB:0]     len;
    logic [PB-1:0]   turn_q, ask;           // the port that goes first among equals, and the next one's
    logic [N_AXI-1:0] p_sel, p_ready, p_idle, p_room;
    logic [N_AXI*(DB+1)-1:0] room_q;        // wide beats that a port's queue has unpromised
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
        .take_i (grant && sel_one[c]),
        .addr_o (cut_addr[c*(AW-LB)+:AW-LB]),
        .len_o  (cut_len[c*(SB+1)+:SB+1]),
        .last_o (cut_last[c])
      );
      assign req_ready_o[c] = !flush_i && cut_ready[c];
    end

    // The port with most room. Whether a client's stripe fits a port is asked for all of them side by side.
    fairest #(.N(N_AXI), .W(DB + 1)) u_port (
      .load_i(~room_q), .turn_i(turn_q), .sel_o(p_sel), .port_o(ask)
    );
    always_comb begin
      p_room = '0;
      for (int unsigned p = 0; p < N_AXI; p++) begin
        for (int unsigned c = 0; c < N; c++) begin
          if (sel_one[c] && room_q[p*(DB+1)+:DB+1] >= (DB + 1)'(cut_len[c*(SB+1)+:SB+1])) p_room[p] = 1'b1;
        end
      end
    end
    // Of those of the highest level the first at or after the pointer, in cyclic order.
    always_comb begin
      for (int unsigned c = 0; c < N; c++) load[c*3+:3] = {!pend[c], ~level_i[c*2+:2]};
    end
    fairest #(.N(N), .W(3)) u_turn (.load_i(load), .turn_i(ptr_q), .sel_o(sel_one), .port_o(sel));
    always_comb begin
      cur_addr = '0;
      len = '0;
      for (int unsigned c = 0; c < N; c++) begin
        cur_addr = cur_addr | (sel_one[c] ? cut_addr[c*(AW-LB)+:AW-LB] : '0);
        len = len | (sel_one[c] ? cut_len[c*(SB+1)+:SB+1] : '0);
      end
    end
    assign last = (sel_one & cut_last) != '0;
    assign grant = pend != '0 && !flush_i && order_ready && (p_sel & p_ready & p_room) != '0;

    always_ff @(posedge clk_i) begin
      if (!rst_ni || flush_i || idle_o) begin
        ptr_q <= '0;
        turn_q <= '0;
      end else if (grant) begin
        ptr_q <= (sel == CB'(N - 1)) ? '0 : sel + 1'b1;
        turn_q <= (ask == PB'(N_AXI - 1)) ? '0 : ask + 1'b1;
      end
    end

    // ---- stripes in order: whose, from which port, how long, whether the request's last
    logic [CB-1:0] o_client;
    logic [PB-1:0] o_port;
    logic [SB:0]   o_len;
    logic          o_last;
    fifo #(.WIDTH(CB + PB + SB + 2), .DEPTH(64)) u_order (
      .clk_i,
      .rst_ni (rst_ni && !flush_i),
      .valid_i(grant),
      .ready_o(order_ready),
      .wdata_i({sel, ask, len, last}),
      .valid_o(order_valid),
      .ready_i(order_pop),
      .rdata_o({o_client, o_port, o_len, o_last})
    );

    // ---- ports: each collects its beats into wide ones
    logic [N_AXI-1:0]    p_any;             // a complete wide beat is there
    logic [N_AXI*WW-1:0] p_word;
    logic [N_AXI-1:0]    p_take;
    for (genvar p = 0; p < N_AXI; p++) begin : gen_port
      logic          valid, whole, rsp_last_unused;
      logic [DW-1:0] data;
      axi_read #(.N(1), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .CUT(1'b0)) u_port (
        .clk_i,
        .rst_ni,
        .flush_i,
        .idle_o      (p_idle[p]),
        .req_valid_i (grant && p_sel[p]),
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
      logic [DB:0]   wptr_q, rptr_q;
      assign whole = valid && lane_q == LW'(LANES - 1);
      assign p_any[p] = wptr_q != rptr_q;
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
          room_q[p*(DB+1)+:DB+1] <= (DB + 1)'(DEPTH);
        end else begin
          if (valid) lane_q <= whole ? '0 : lane_q + 1'b1;
          if (whole) wptr_q <= wptr_q + 1'b1;
          if (p_take[p]) rptr_q <= rptr_q + 1'b1;
          room_q[p*(DB+1)+:DB+1] <= room_q[p*(DB+1)+:DB+1] + (DB + 1)'(p_take[p])
                       - ((grant && p_sel[p]) ? (DB + 1)'(len) : '0);
        end
      end
      logic unused;
      assign unused = rsp_last_unused;
    end

    // ---- the oldest stripe's wide beats to its client
    logic [SB:0]   done_q;
    logic          take, stripe_end;
    assign take = order_valid && p_any[o_port];
    assign stripe_end = done_q + 1'b1 == o_len;
    assign order_pop = take && stripe_end;
    always_comb begin
      for (int unsigned p = 0; p < N_AXI; p++) p_take[p] = take && o_port == PB'(p);
    end
    always_ff @(posedge clk_i) begin
      if (!rst_ni || flush_i || idle_o) begin
        done_q <= '0;
      end else if (take) begin
        done_q <= stripe_end ? '0 : done_q + 1'b1;
      end
      for (int unsigned c = 0; c < N; c++) begin
        rsp_valid_o[c] <= rst_ni && !flush_i && take && o_client == CB'(c);
      end
      rsp_data_o <= p_word[o_port*WW+:WW];
      rsp_last_o <= stripe_end && o_last;
    end
    assign idle_o = pend == '0 && !order_valid && (&p_idle);

    logic unused;
    always_comb begin
      unused = 1'b0;
      for (int unsigned c = 0; c < N; c++) unused = unused ^ (^req_addr_i[c*AW+:LB]);
    end
  end
endmodule
