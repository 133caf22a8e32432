// The NPU <T_R, T_P, T_C>: AXI4-Lite registers, AXI4 masters, one level interrupt. Parameters carry
// the names of hw/configs; DESIGN_HASH identifies the configuration to the driver.
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
  parameter int unsigned STACK       = 1,
  parameter int unsigned FLUID       = 1,
  parameter int unsigned DEPTHWISE   = 0,        // the depthwise unit
  parameter int unsigned POST        = 0,        // curves and products behind the shift, a residual of one pixel
  parameter int unsigned CELLS       = 0,        // chains and folded banks in the vendor's cells: 1 of series 7, 2 of UltraScale+
  parameter int unsigned FOLD        = 0,        // the activation buffer's banks folded, for UltraScale+ URAMs (ram_fold)
  parameter int unsigned SPLIT       = 1024,     // words of the smallest part of a bank in parts (ram_deep)
  parameter int unsigned AW_WITH_DATA = 0,       // a write's address waits for its first beat (axi_write)
  parameter int unsigned ADDR_BITS   = abi_pkg::ADDR_BITS,  // of an address that the driver may give, 32..40
  parameter int unsigned QUIET       = 0,        // refused register accesses answer OKAY (ACCESS shows them)
  parameter logic [63:0] DESIGN_HASH = 64'h0,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned DW = AXI_BYTES * 8
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   s_axil_awvalid,
  output logic                   s_axil_awready,
  input  logic [11:0]            s_axil_awaddr,
  input  logic                   s_axil_wvalid,
  output logic                   s_axil_wready,
  input  logic [31:0]            s_axil_wdata,
  input  logic [3:0]             s_axil_wstrb,
  output logic                   s_axil_bvalid,
  input  logic                   s_axil_bready,
  output logic [1:0]             s_axil_bresp,
  input  logic                   s_axil_arvalid,
  output logic                   s_axil_arready,
  input  logic [11:0]            s_axil_araddr,
  output logic                   s_axil_rvalid,
  input  logic                   s_axil_rready,
  output logic [31:0]            s_axil_rdata,
  output logic [1:0]             s_axil_rresp,
  output logic [N_AXI-1:0]       m_axi_arvalid,
  input  logic [N_AXI-1:0]       m_axi_arready,
  output logic [N_AXI*AW-1:0]    m_axi_araddr,
  output logic [N_AXI*8-1:0]     m_axi_arlen,
  output logic [N_AXI*2-1:0]     m_axi_arid,
  input  logic [N_AXI-1:0]       m_axi_rvalid,
  output logic [N_AXI-1:0]       m_axi_rready,
  input  logic [N_AXI*DW-1:0]    m_axi_rdata,
  input  logic [N_AXI*2-1:0]     m_axi_rid,
  input  logic [N_AXI*2-1:0]     m_axi_rresp,
  input  logic [N_AXI-1:0]       m_axi_rlast,
  output logic [N_AXI-1:0]       m_axi_awvalid,
  input  logic [N_AXI-1:0]       m_axi_awready,
  output logic [N_AXI*AW-1:0]    m_axi_awaddr,
  output logic [N_AXI*8-1:0]     m_axi_awlen,
  output logic [N_AXI*2-1:0]     m_axi_awid,
  output logic [N_AXI-1:0]       m_axi_wvalid,
  input  logic [N_AXI-1:0]       m_axi_wready,
  output logic [N_AXI*DW-1:0]    m_axi_wdata,
  output logic [N_AXI*AXI_BYTES-1:0] m_axi_wstrb,
  output logic [N_AXI-1:0]       m_axi_wlast,
  input  logic [N_AXI-1:0]       m_axi_bvalid,
  output logic [N_AXI-1:0]       m_axi_bready,
  input  logic [N_AXI*2-1:0]     m_axi_bid,
  input  logic [N_AXI*2-1:0]     m_axi_bresp,
  output logic                   irq_o
);
  localparam int unsigned CN = abi_pkg::CNT_COUNT;
  localparam int unsigned BM = abi_pkg::B_MAX;

  if (N_AXI < 1 || N_AXI > 4) begin : gen_bad_ports
    $fatal(1, "npu_top: one to four memory ports");
  end

  logic start, soft_reset, busy, done, error, fbcb_we;
  logic [7:0] first_layer, last_layer, err_code, err_layer;
  logic [3:0] b_act, err_port;
  logic [AW-1:0] desc_base, weight_base, slot_base;
  logic [31:0] slot_stride, watchdog, err_addr, fbcb_wdata, fbcb_rdata;
  logic [6:0] n_slot;
  logic [BM*6-1:0] slot_table;
  logic [10:0] fbcb_waddr, fbcb_raddr;
  logic [CN*16-1:0] cnt_inc;

  npu_regs #(
    .T_R(T_R), .T_P(T_P), .T_C(T_C), .N_AXI(N_AXI), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST),
    .ABUF_WORDS(ABUF_WORDS), .WRING_BEATS(WRING_BEATS), .C_MAX(C_MAX), .STUB(STUB), .STACK(STACK),
    .FLUID(FLUID), .POST(POST), .DEPTHWISE(DEPTHWISE), .ADDR_BITS(ADDR_BITS), .QUIET(QUIET), .DESIGN_HASH(DESIGN_HASH)
  ) u_regs (
    .clk_i,
    .rst_ni,
    .awvalid_i    (s_axil_awvalid),
    .awready_o    (s_axil_awready),
    .awaddr_i     (s_axil_awaddr),
    .wvalid_i     (s_axil_wvalid),
    .wready_o     (s_axil_wready),
    .wdata_i      (s_axil_wdata),
    .wstrb_i      (s_axil_wstrb),
    .bvalid_o     (s_axil_bvalid),
    .bready_i     (s_axil_bready),
    .bresp_o      (s_axil_bresp),
    .arvalid_i    (s_axil_arvalid),
    .arready_o    (s_axil_arready),
    .araddr_i     (s_axil_araddr),
    .rvalid_o     (s_axil_rvalid),
    .rready_i     (s_axil_rready),
    .rdata_o      (s_axil_rdata),
    .rresp_o      (s_axil_rresp),
    .irq_o,
    .start_o      (start),
    .soft_reset_o (soft_reset),
    .first_layer_o(first_layer),
    .last_layer_o (last_layer),
    .b_act_o      (b_act),
    .desc_base_o  (desc_base),
    .weight_base_o(weight_base),
    .slot_base_o  (slot_base),
    .slot_stride_o(slot_stride),
    .n_slot_o     (n_slot),
    .slot_table_o (slot_table),
    .watchdog_o   (watchdog),
    .fbcb_we_o    (fbcb_we),
    .fbcb_waddr_o (fbcb_waddr),
    .fbcb_wdata_o (fbcb_wdata),
    .busy_i       (busy),
    .done_i       (done),
    .error_i      (error),
    .err_code_i   (err_code),
    .err_layer_i  (err_layer),
    .err_port_i   (err_port),
    .err_addr_i   (err_addr),
    .cnt_inc_i    (cnt_inc)
  );

  fbcb u_fbcb (
    .clk_i,
    .we_i           (fbcb_we),
    .waddr_i        (fbcb_waddr),
    .wdata_i        (fbcb_wdata),
    .layer_i        (fbcb_raddr[10:3]),
    .batch_minus_1_i(fbcb_raddr[2:0]),
    .rdata_o        (fbcb_rdata)
  );

  npu_core #(
    .T_R(T_R), .T_P(T_P), .T_C(T_C), .N_AXI(N_AXI), .AXI_BYTES(AXI_BYTES), .MAX_BURST(MAX_BURST), .W_LOAD(W_LOAD),
    .DRAIN(DRAIN), .ABUF_WORDS(ABUF_WORDS), .WRING_BEATS(WRING_BEATS), .C_MAX(C_MAX), .STUB(STUB),
    .STACK(STACK), .FLUID(FLUID), .POST(POST), .DEPTHWISE(DEPTHWISE), .CELLS(CELLS), .FOLD(FOLD), .SPLIT(SPLIT),
    .AW_WITH_DATA(AW_WITH_DATA)
  ) u_core (
    .clk_i,
    .rst_ni,
    .start_i      (start),
    .soft_reset_i (soft_reset),
    .busy_o       (busy),
    .done_o       (done),
    .error_o      (error),
    .err_code_o   (err_code),
    .err_layer_o  (err_layer),
    .err_port_o   (err_port),
    .err_addr_o   (err_addr),
    .first_layer_i(first_layer),
    .last_layer_i (last_layer),
    .b_act_i      (b_act),
    .desc_base_i  (desc_base),
    .weight_base_i(weight_base),
    .slot_base_i  (slot_base),
    .slot_stride_i(slot_stride),
    .n_slot_i     (n_slot),
    .slot_table_i (slot_table),
    .watchdog_i   (watchdog),
    .fbcb_raddr_o (fbcb_raddr),
    .fbcb_rdata_i (fbcb_rdata),
    .cnt_inc_o    (cnt_inc),
    .m_arvalid_o  (m_axi_arvalid),
    .m_arready_i  (m_axi_arready),
    .m_araddr_o   (m_axi_araddr),
    .m_arlen_o    (m_axi_arlen),
    .m_arid_o     (m_axi_arid),
    .m_rvalid_i   (m_axi_rvalid),
    .m_rready_o   (m_axi_rready),
    .m_rdata_i    (m_axi_rdata),
    .m_rid_i      (m_axi_rid),
    .m_rresp_i    (m_axi_rresp),
    .m_rlast_i    (m_axi_rlast),
    .m_awvalid_o  (m_axi_awvalid),
    .m_awready_i  (m_axi_awready),
    .m_awaddr_o   (m_axi_awaddr),
    .m_awlen_o    (m_axi_awlen),
    .m_awid_o     (m_axi_awid),
    .m_wvalid_o   (m_axi_wvalid),
    .m_wready_i   (m_axi_wready),
    .m_wdata_o    (m_axi_wdata),
    .m_wstrb_o    (m_axi_wstrb),
    .m_wlast_o    (m_axi_wlast),
    .m_bvalid_i   (m_axi_bvalid),
    .m_bready_o   (m_axi_bready),
    .m_bid_i      (m_axi_bid),
    .m_bresp_i    (m_axi_bresp)
  );
endmodule
