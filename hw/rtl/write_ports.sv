// Combines all write ports: takes commands and wide beats (LANES beats of a port, aligned) in
// order, and cuts the commands at multiples of a stripe, as read_ports does. Each stripe goes to
// the port with the fewest wide beats left to send (in turn among equals), so that stripes of
// unequal length load all ports equally. Each port has a queue of wide beats that it sends beat by
// beat. With one port, commands and beats go directly to it.
//
// Flush: hold flush_i until idle_o (announced bursts: see axi_write).
module write_ports #(
  parameter int unsigned N_AXI     = 2,
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned LANES     = 2,
  parameter int unsigned MAX_BURST = 16,
  parameter int unsigned STRIPE    = 16,  // beats, a power of two from LANES to MAX_BURST
  parameter int unsigned AW_WITH_DATA = 0,  // axi_write's WITH_DATA
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned DW = AXI_BYTES * 8,
  localparam int unsigned WW = LANES * DW,
  localparam int unsigned NW = $clog2(AXI_BYTES + 1)
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                flush_i,
  output logic                idle_o,        // all that was accepted has been answered
  input  logic                cmd_valid_i,
  output logic                cmd_ready_o,
  input  logic [AW-1:0]       cmd_addr_i,    // aligned to a wide beat
  input  logic [15:0]         cmd_beats_i,   // wide beats, > 0
  input  logic                wb_valid_i,
  output logic                wb_ready_o,
  input  logic [WW-1:0]       wb_data_i,
  input  logic [WW/8-1:0]     wb_strb_i,
  // errors and statistics, a slice a port
  output logic [N_AXI-1:0]    err_valid_o,
  output logic [N_AXI-1:0]    err_decerr_o,
  output logic [N_AXI*32-1:0] err_addr_o,
  output logic [N_AXI-1:0]    progress_o,
  output logic [N_AXI-1:0]    stall_o,
  output logic [N_AXI*NW-1:0] bytes_o,
  // ports
  output logic [N_AXI-1:0]    m_awvalid_o,
  input  logic [N_AXI-1:0]    m_awready_i,
  output logic [N_AXI*AW-1:0] m_awaddr_o,
  output logic [N_AXI*8-1:0]  m_awlen_o,
  output logic [N_AXI*2-1:0]  m_awid_o,
  output logic [N_AXI-1:0]    m_wvalid_o,
  input  logic [N_AXI-1:0]    m_wready_i,
  output logic [N_AXI*DW-1:0] m_wdata_o,
  output logic [N_AXI*AXI_BYTES-1:0] m_wstrb_o,
  output logic [N_AXI-1:0]    m_wlast_o,
  input  logic [N_AXI-1:0]    m_bvalid_i,
  output logic [N_AXI-1:0]    m_bready_o,
  input  logic [N_AXI*2-1:0]  m_bid_i,
  input  logic [N_AXI*2-1:0]  m_bresp_i
);
  if (N_AXI == 1) begin : gen_one
    if (LANES != 1) $error("write_ports: one port has one lane");
    axi_write #(.AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .WITH_DATA(AW_WITH_DATA != 0)) u_port (
      .clk_i, .rst_ni, .flush_i, .idle_o,
      .cmd_valid_i, .cmd_ready_o, .cmd_addr_i, .cmd_beats_i,
      .wb_valid_i, .wb_ready_o, .wb_data_i, .wb_strb_i,
      .err_valid_o, .err_decerr_o, .err_addr_o, .progress_o, .stall_o, .bytes_o,
      .m_awvalid_o, .m_awready_i, .m_awaddr_o, .m_awlen_o, .m_awid_o,
      .m_wvalid_o, .m_wready_i, .m_wdata_o, .m_wstrb_o, .m_wlast_o,
      .m_bvalid_i, .m_bready_o, .m_bid_i, .m_bresp_i
    );
  end else begin : gen_striped
    localparam int unsigned LB = $clog2(LANES * AXI_BYTES);
    localparam int unsigned WORDS = STRIPE / LANES;
    localparam int unsigned SB = $clog2(WORDS);
    localparam int unsigned PB = $clog2(N_AXI);
    localparam int unsigned LW = (LANES > 1) ? $clog2(LANES) : 1;
    localparam int unsigned MAX_OUT = 16;                        // bursts of a port under way
    localparam int unsigned OWE = $clog2((MAX_OUT + 2) * WORDS + 1);

    // ---- the command being cut; addresses count wide beats
    logic            pend, grant;
    logic [AW-LB-1:0] addr;
    logic [SB:0]     len;
    logic [PB-1:0]   turn_q, ask;           // the port that goes first among equals, and the next one's
    logic [N_AXI-1:0] sel, p_ready, p_idle;
    logic [N_AXI*OWE-1:0] owed_q;           // wide beats of a port's stripes not yet sent
    logic            order_ready, order_valid, order_pop;
    logic [SB:0]     o_len;
    logic [PB-1:0]   o_port;
    logic            cut_ready, last_unused;

    stripe_cut #(.AW(AW - LB), .WORDS(WORDS)) u_cut (
      .clk_i,
      .rst_ni (rst_ni && !flush_i),
      .valid_i(cmd_valid_i),
      .ready_o(cut_ready),
      .addr_i (cmd_addr_i[AW-1:LB]),
      .words_i(cmd_beats_i),
      .valid_o(pend),
      .take_i (grant),
      .addr_o (addr),
      .len_o  (len),
      .last_o (last_unused)
    );
    fairest #(.N(N_AXI), .W(OWE)) u_port (.load_i(owed_q), .turn_i(turn_q), .sel_o(sel), .port_o(ask));
    assign grant = pend && !flush_i && order_ready && (sel & p_ready) != '0;
    assign cmd_ready_o = !flush_i && cut_ready;
    always_ff @(posedge clk_i) begin
      if (!rst_ni || flush_i || idle_o) turn_q <= '0;
      else if (grant) turn_q <= (ask == PB'(N_AXI - 1)) ? '0 : ask + 1'b1;
    end

    fifo #(.WIDTH(PB + SB + 1), .DEPTH(32)) u_order (
      .clk_i,
      .rst_ni (rst_ni && !flush_i),
      .valid_i(grant),
      .ready_o(order_ready),
      .wdata_i({ask, len}),
      .valid_o(order_valid),
      .ready_i(order_pop),
      .rdata_o({o_port, o_len})
    );

    // ---- wide beats go to the port of the oldest stripe that is not complete
    logic [SB:0]      done_q;
    logic [N_AXI-1:0] q_ready, q_valid;
    logic             put, stripe_end;
    assign put = order_valid && wb_valid_i && q_ready[o_port];
    assign wb_ready_o = order_valid && q_ready[o_port] && !flush_i;
    assign stripe_end = done_q + 1'b1 == o_len;
    assign order_pop = put && stripe_end;
    always_ff @(posedge clk_i) begin
      if (!rst_ni || flush_i || idle_o) done_q <= '0;
      else if (put) done_q <= stripe_end ? '0 : done_q + 1'b1;
    end

    for (genvar p = 0; p < N_AXI; p++) begin : gen_port
      logic [WW-1:0]   word;
      logic [WW/8-1:0] strb;
      logic [LW-1:0]   lane_q;
      logic            ready, sent, word_end;
      fifo #(.WIDTH(WW + WW / 8), .DEPTH(16)) u_queue (
        .clk_i,
        .rst_ni (rst_ni && !flush_i),
        .valid_i(put && o_port == PB'(p)),
        .ready_o(q_ready[p]),
        .wdata_i({wb_strb_i, wb_data_i}),
        .valid_o(q_valid[p]),
        .ready_i(sent && word_end),
        .rdata_o({strb, word})
      );
      assign sent = q_valid[p] && ready;
      assign word_end = lane_q == LW'(LANES - 1);
      always_ff @(posedge clk_i) begin
        if (!rst_ni || flush_i) begin
          lane_q <= '0;
          owed_q[p*OWE+:OWE] <= '0;
        end else begin
          if (sent) lane_q <= word_end ? '0 : lane_q + 1'b1;
          owed_q[p*OWE+:OWE] <= owed_q[p*OWE+:OWE] - OWE'(sent && word_end)
                       + ((grant && sel[p]) ? OWE'(len) : '0);
        end
      end
      axi_write #(.AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .WITH_DATA(AW_WITH_DATA != 0), .MAX_OUT(MAX_OUT), .CUT(1'b0)) u_port (
        .clk_i,
        .rst_ni,
        .flush_i,
        .idle_o      (p_idle[p]),
        .cmd_valid_i (grant && sel[p]),
        .cmd_ready_o (p_ready[p]),
        .cmd_addr_i  ({addr, LB'(0)}),
        .cmd_beats_i (16'(len) << $clog2(LANES)),
        .wb_valid_i  (q_valid[p]),
        .wb_ready_o  (ready),
        .wb_data_i   (word[lane_q*DW+:DW]),
        .wb_strb_i   (strb[lane_q*AXI_BYTES+:AXI_BYTES]),
        .err_valid_o (err_valid_o[p]),
        .err_decerr_o(err_decerr_o[p]),
        .err_addr_o  (err_addr_o[p*32+:32]),
        .progress_o  (progress_o[p]),
        .stall_o     (stall_o[p]),
        .bytes_o     (bytes_o[p*NW+:NW]),
        .m_awvalid_o (m_awvalid_o[p]),
        .m_awready_i (m_awready_i[p]),
        .m_awaddr_o  (m_awaddr_o[p*AW+:AW]),
        .m_awlen_o   (m_awlen_o[p*8+:8]),
        .m_awid_o    (m_awid_o[p*2+:2]),
        .m_wvalid_o  (m_wvalid_o[p]),
        .m_wready_i  (m_wready_i[p]),
        .m_wdata_o   (m_wdata_o[p*DW+:DW]),
        .m_wstrb_o   (m_wstrb_o[p*AXI_BYTES+:AXI_BYTES]),
        .m_wlast_o   (m_wlast_o[p]),
        .m_bvalid_i  (m_bvalid_i[p]),
        .m_bready_o  (m_bready_o[p]),
        .m_bid_i     (m_bid_i[p*2+:2]),
        .m_bresp_i   (m_bresp_i[p*2+:2])
      );
    end
    assign idle_o = !pend && !order_valid && q_valid == '0 && (&p_idle);

    logic unused;
    assign unused = ^{cmd_addr_i[LB-1:0], last_unused};
  end
endmodule
