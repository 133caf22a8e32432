// standin: a module with the ports and parameters of npu_top that copies memory, to test the
// co-simulation process (every width of port) without the NPU. Each port copies BATCH beats from
// SRC + port * STRIDE to DST + port * STRIDE, reading all of them first.
//
// Registers: ID, ABI_HASH, DESIGN_HASH as in npu_top; DESC_BASE_LO is SRC, SLOT_BASE_LO is DST,
// SLOT_STRIDE is STRIDE, BATCH the beats (1..256), CTRL.START starts, IRQ_STATUS is written to lower
// the interrupt, ERROR counts bus errors. Everything else answers SLVERR.
module npu_top #(
  parameter int unsigned T_R         = 256,
  parameter int unsigned T_P         = 8,
  parameter int unsigned T_C         = 32,
  parameter int unsigned N_AXI       = 1,
  parameter int unsigned AXI_BYTES   = 8,
  parameter int unsigned MAX_BURST   = 16,
  parameter int unsigned W_LOAD      = 2,
  parameter int unsigned DRAIN       = 8,
  parameter int unsigned ABUF_WORDS  = 1024,
  parameter int unsigned WRING_BEATS = 512,
  parameter int unsigned C_MAX       = 512,
  parameter int unsigned STUB        = 0,
  parameter int unsigned STACK       = 0,
  parameter int unsigned FLUID       = 0,
  parameter int unsigned SPLIT       = 1024,
  parameter logic [63:0] DESIGN_HASH = 64'h0,
  localparam int unsigned DW = AXI_BYTES * 8
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  logic                       s_axil_awvalid,
  output logic                       s_axil_awready,
  input  logic [11:0]                s_axil_awaddr,
  input  logic                       s_axil_wvalid,
  output logic                       s_axil_wready,
  input  logic [31:0]                s_axil_wdata,
  input  logic [3:0]                 s_axil_wstrb,
  output logic                       s_axil_bvalid,
  input  logic                       s_axil_bready,
  output logic [1:0]                 s_axil_bresp,
  input  logic                       s_axil_arvalid,
  output logic                       s_axil_arready,
  input  logic [11:0]                s_axil_araddr,
  output logic                       s_axil_rvalid,
  input  logic                       s_axil_rready,
  output logic [31:0]                s_axil_rdata,
  output logic [1:0]                 s_axil_rresp,
  output logic [N_AXI-1:0]           m_axi_arvalid,
  input  logic [N_AXI-1:0]           m_axi_arready,
  output logic [N_AXI*40-1:0]        m_axi_araddr,
  output logic [N_AXI*8-1:0]         m_axi_arlen,
  output logic [N_AXI*2-1:0]         m_axi_arid,
  input  logic [N_AXI-1:0]           m_axi_rvalid,
  output logic [N_AXI-1:0]           m_axi_rready,
  input  logic [N_AXI*DW-1:0]        m_axi_rdata,
  input  logic [N_AXI*2-1:0]         m_axi_rid,
  input  logic [N_AXI*2-1:0]         m_axi_rresp,
  input  logic [N_AXI-1:0]           m_axi_rlast,
  output logic [N_AXI-1:0]           m_axi_awvalid,
  input  logic [N_AXI-1:0]           m_axi_awready,
  output logic [N_AXI*40-1:0]        m_axi_awaddr,
  output logic [N_AXI*8-1:0]         m_axi_awlen,
  output logic [N_AXI*2-1:0]         m_axi_awid,
  output logic [N_AXI-1:0]           m_axi_wvalid,
  input  logic [N_AXI-1:0]           m_axi_wready,
  output logic [N_AXI*DW-1:0]        m_axi_wdata,
  output logic [N_AXI*AXI_BYTES-1:0] m_axi_wstrb,
  output logic [N_AXI-1:0]           m_axi_wlast,
  input  logic [N_AXI-1:0]           m_axi_bvalid,
  output logic [N_AXI-1:0]           m_axi_bready,
  input  logic [N_AXI*2-1:0]         m_axi_bid,
  input  logic [N_AXI*2-1:0]         m_axi_bresp,
  output logic                       irq_o
);
  logic [31:0] src_q, dst_q, stride_q, errors_q;
  logic [15:0] beats_q;
  logic        irq_q, start_q, busy_q;
  logic [N_AXI-1:0] done, rd_err, wr_err;

  // One register access at a time, answered in the cycle after it was taken.
  assign s_axil_awready = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
  assign s_axil_wready  = s_axil_awready;
  assign s_axil_arready = !s_axil_rvalid;
  always_ff @(posedge clk_i) begin
    start_q <= 1'b0;
    if (s_axil_bready) s_axil_bvalid <= 1'b0;
    if (s_axil_awready) begin
      s_axil_bvalid <= 1'b1;
      s_axil_bresp  <= 2'b00;
      case (s_axil_awaddr)
        abi_pkg::REG_DESC_BASE_LO: src_q <= s_axil_wdata;
        abi_pkg::REG_SLOT_BASE_LO: dst_q <= s_axil_wdata;
        abi_pkg::REG_SLOT_STRIDE:  stride_q <= s_axil_wdata;
        abi_pkg::REG_BATCH:        beats_q <= s_axil_wdata[15:0];
        abi_pkg::REG_CTRL:         start_q <= s_axil_wdata[0];
        abi_pkg::REG_IRQ_STATUS:   irq_q <= 1'b0;
        default:                   s_axil_bresp <= 2'b10;
      endcase
    end
    if (s_axil_rready) s_axil_rvalid <= 1'b0;
    if (s_axil_arvalid && s_axil_arready) begin
      s_axil_rvalid <= 1'b1;
      s_axil_rresp  <= 2'b00;
      case (s_axil_araddr)
        abi_pkg::REG_ID:           s_axil_rdata <= abi_pkg::ID;
        abi_pkg::REG_ABI_HASH0:    s_axil_rdata <= abi_pkg::ABI_HASH[31:0];
        abi_pkg::REG_ABI_HASH1:    s_axil_rdata <= abi_pkg::ABI_HASH[63:32];
        abi_pkg::REG_DESIGN_HASH0: s_axil_rdata <= DESIGN_HASH[31:0];
        abi_pkg::REG_DESIGN_HASH1: s_axil_rdata <= DESIGN_HASH[63:32];
        abi_pkg::REG_ERROR:        s_axil_rdata <= errors_q;
        default: begin
          s_axil_rdata <= '0;
          s_axil_rresp <= 2'b10;
        end
      endcase
    end
    if (start_q) begin
      busy_q   <= 1'b1;
      errors_q <= '0;
    end
    if (busy_q && !start_q && &done) begin
      busy_q <= 1'b0;
      irq_q  <= 1'b1;
    end
    for (int p = 0; p < N_AXI; p++)
      if (rd_err[p] || wr_err[p]) errors_q <= errors_q + 1;
    if (!rst_ni) begin
      s_axil_bvalid <= 1'b0;
      s_axil_rvalid <= 1'b0;
      irq_q         <= 1'b0;
      busy_q        <= 1'b0;
      errors_q      <= '0;
    end
  end
  assign irq_o = irq_q;

  for (genvar p = 0; p < N_AXI; p++) begin : gen_port
    logic [DW-1:0] buffer[256];
    logic [15:0]   in_q, out_q;
    logic          asked_q, told_q, run_q, ask_ready, tell_ready, rsp_valid, wb_ready, rd_idle,
                   wr_idle;
    logic [DW-1:0] rsp_data;
    logic [39:0]   offset;
    assign offset  = 40'(stride_q) * 40'(p);
    assign done[p] = !run_q;
    always_ff @(posedge clk_i) begin
      if (start_q) begin
        run_q   <= 1'b1;
        asked_q <= 1'b0;
        told_q  <= 1'b0;
        in_q    <= '0;
        out_q   <= '0;
      end else if (run_q) begin
        if (ask_ready) asked_q <= 1'b1;
        if (tell_ready && in_q == beats_q) told_q <= 1'b1;
        if (rsp_valid) begin
          buffer[in_q[7:0]] <= rsp_data;
          in_q <= in_q + 1;
        end
        if (wb_ready && told_q && out_q != beats_q) out_q <= out_q + 1;
        if (told_q && out_q == beats_q && wr_idle && rd_idle) run_q <= 1'b0;
      end
      if (!rst_ni) run_q <= 1'b0;
    end
    axi_read #(.N(1), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST)) u_read (
      .clk_i, .rst_ni, .flush_i(1'b0), .idle_o(rd_idle),
      .req_valid_i(run_q && !asked_q), .req_ready_o(ask_ready), .req_addr_i(40'(src_q) + offset),
      .req_beats_i(beats_q), .level_i(2'b0), .rsp_valid_o(rsp_valid), .rsp_data_o(rsp_data), .rsp_last_o(),
      .err_valid_o(rd_err[p]), .err_decerr_o(), .err_addr_o(),
      .progress_o(), .stall_o(), .beat_o(),
      .m_arvalid_o(m_axi_arvalid[p]), .m_arready_i(m_axi_arready[p]),
      .m_araddr_o(m_axi_araddr[40*p+:40]), .m_arlen_o(m_axi_arlen[8*p+:8]),
      .m_arid_o(m_axi_arid[2*p+:2]), .m_rvalid_i(m_axi_rvalid[p]), .m_rready_o(m_axi_rready[p]),
      .m_rdata_i(m_axi_rdata[DW*p+:DW]), .m_rid_i(m_axi_rid[2*p+:2]),
      .m_rresp_i(m_axi_rresp[2*p+:2]), .m_rlast_i(m_axi_rlast[p])
    );
    axi_write #(.AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST)) u_write (
      .clk_i, .rst_ni, .flush_i(1'b0), .idle_o(wr_idle),
      .cmd_valid_i(run_q && !told_q && in_q == beats_q), .cmd_ready_o(tell_ready),
      .cmd_addr_i(40'(dst_q) + offset), .cmd_beats_i(beats_q),
      .wb_valid_i(run_q && told_q && out_q != beats_q), .wb_ready_o(wb_ready),
      .wb_data_i(buffer[out_q[7:0]]), .wb_strb_i({AXI_BYTES{1'b1}}),
      .err_valid_o(wr_err[p]), .err_decerr_o(), .err_addr_o(),
      .progress_o(), .stall_o(), .bytes_o(),
      .m_awvalid_o(m_axi_awvalid[p]), .m_awready_i(m_axi_awready[p]),
      .m_awaddr_o(m_axi_awaddr[40*p+:40]), .m_awlen_o(m_axi_awlen[8*p+:8]),
      .m_awid_o(m_axi_awid[2*p+:2]), .m_wvalid_o(m_axi_wvalid[p]), .m_wready_i(m_axi_wready[p]),
      .m_wdata_o(m_axi_wdata[DW*p+:DW]), .m_wstrb_o(m_axi_wstrb[AXI_BYTES*p+:AXI_BYTES]),
      .m_wlast_o(m_axi_wlast[p]), .m_bvalid_i(m_axi_bvalid[p]), .m_bready_o(m_axi_bready[p]),
      .m_bid_i(m_axi_bid[2*p+:2]), .m_bresp_i(m_axi_bresp[2*p+:2])
    );
  end
endmodule
