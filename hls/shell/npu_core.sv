// The HLS kernel in npu_core's place: the ports of hw/rtl/npu_core.sv around the RTL that Vitis
// exports for hls/src (module sluice_npu, hls/vitis), so that npu_top with its registers, FBCB and
// interrupt, and all its benches, can use either.
//
// The kernel's four m_axi ports a, w, r, o have the IDs 0 to 3. Port b uses memory port b mod
// N_AXI; ports that share one take turns. Results leave only through o. A start holds ap_start
// until ap_ready; it ends when the kernel is done and all its requests are answered. A soft reset
// holds the kernel in reset for at least 16 cycles, takes outstanding answers, completes
// outstanding writes without strobes, and then ends the start. So does the watchdog. An offer on a
// memory port does not change until it is taken: addresses and write data are registers.
//
// Differences to the RTL. Bus errors (RRESP, BRESP) are detected here, because the kernel's
// adapters ignore them: the start runs to its end and then reports the first error, with
// ERROR.LAYER and ERROR_ADDR zero. The watchdog sees only the memory ports and the FBCB, because an
// exported kernel does not show whether it computes: it must be set to more than the time that a
// layer computes without them. Of the counters, only CYCLES_BUSY, STALL_READ, STALL_WRITE,
// BYTES_READ and BYTES_WRITTEN exist (and those that npu_regs counts itself); a cycle in which the
// addresses of two ports wait counts as one.
module npu_core #(
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
  parameter int unsigned POST        = 0,
  parameter int unsigned DEPTHWISE   = 0,
  parameter int unsigned CELLS       = 0,
  parameter int unsigned FOLD        = 0,
  parameter int unsigned SPLIT       = 1024,
  parameter int unsigned AW_WITH_DATA = 0,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX,
  localparam int unsigned CN = abi_pkg::CNT_COUNT,
  localparam int unsigned DW = AXI_BYTES * 8
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             start_i,
  input  logic             soft_reset_i,
  output logic             busy_o,
  output logic             done_o,
  output logic             error_o,
  output logic [7:0]       err_code_o,
  output logic [7:0]       err_layer_o,
  output logic [3:0]       err_port_o,
  output logic [31:0]      err_addr_o,
  input  logic [7:0]       first_layer_i,
  input  logic [7:0]       last_layer_i,
  input  logic [3:0]       b_act_i,
  input  logic [AW-1:0]    desc_base_i,
  input  logic [AW-1:0]    weight_base_i,
  input  logic [AW-1:0]    slot_base_i,
  input  logic [31:0]      slot_stride_i,
  input  logic [6:0]       n_slot_i,
  input  logic [BM*6-1:0]  slot_table_i,
  input  logic [31:0]      watchdog_i,
  output logic [10:0]      fbcb_raddr_o,
  input  logic [31:0]      fbcb_rdata_i,
  output logic [CN*16-1:0] cnt_inc_o,
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
  input  logic [N_AXI-1:0]    m_rlast_i,
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
  localparam int unsigned K = 4;                // the kernel's ports: a, w, r, o
  localparam int unsigned O = K - 1;            // writes
  localparam int unsigned WP = O % N_AXI;       // the memory port of o
  localparam int unsigned QD = 16;              // bursts of writes whose data is owed
  localparam int unsigned QB = $clog2(QD);

  if (N_AXI < 1 || N_AXI > K) $fatal(1, "npu_core: one to four memory ports");

  typedef enum logic [1:0] {Idle, Run, End, Stop} state_e;
  state_e state_q;

  // ---- the kernel's side
  logic [K-1:0]    k_arvalid, k_arready, k_rvalid, k_rready;
  logic [K*64-1:0] k_araddr;
  logic [K*8-1:0]  k_arlen;
  logic            k_awvalid, k_awready, k_wvalid, k_wready, k_bready, k_bvalid;
  logic [63:0]     k_awaddr;
  logic [7:0]      k_awlen;
  logic [DW-1:0]   k_wdata;
  logic [AXI_BYTES-1:0] k_wstrb;
  logic            ap_start_q, ap_done, ap_ready, code_valid, layer_valid, addr_valid;
  logic [7:0]      k_code, k_layer;
  logic [31:0]     k_addr;

  logic stopping;
  assign stopping = state_q == Stop;
  logic [4:0] held_q;  // cycles of a stop, to 16

  // ---- reads: an address register a memory port, filled in turns by the kernel's ports that share it
  logic [N_AXI-1:0]    ar_q;
  logic [N_AXI*AW-1:0] ar_addr_q;
  logic [N_AXI*8-1:0]  ar_len_q;
  logic [N_AXI*2-1:0]  ar_id_q;  // client that had the last turn
  logic [N_AXI-1:0]    ar_take, r_end;
  logic [N_AXI*2-1:0]  ar_sel;
  logic [N_AXI*6-1:0]  reads_q;  // bursts asked for and not answered
  logic [N_AXI-1:0]    reads_open;

  for (genvar p = 0; p < N_AXI; p++) begin : gen_reads
    logic [1:0] sel, at;
    logic       any;
    always_comb begin
      sel = '0;
      any = 1'b0;
      // the port after the last in turn comes first
      for (int unsigned i = K; i > 0; i--) begin
        at = ar_id_q[2*p+:2] + 2'(i);
        if (32'(at) % N_AXI == p && k_arvalid[at]) begin
          sel = at;
          any = 1'b1;
        end
      end
    end
    assign ar_sel[2*p+:2] = sel;
    assign ar_take[p] = any && !ar_q[p] && !stopping && reads_q[6*p+:6] != '1;
    assign r_end[p] = m_rvalid_i[p] && m_rready_o[p] && m_rlast_i[p];
    assign reads_open[p] = reads_q[6*p+:6] != '0;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        ar_q[p] <= 1'b0;
        ar_id_q[2*p+:2] <= '0;
        reads_q[6*p+:6] <= '0;
      end else begin
        if (ar_take[p]) begin
          ar_q[p] <= 1'b1;
          ar_id_q[2*p+:2] <= sel;
        end else if (m_arready_i[p]) ar_q[p] <= 1'b0;
        reads_q[6*p+:6] <= reads_q[6*p+:6] + 6'(ar_take[p]) - 6'(r_end[p]);
      end
    end
    always_ff @(posedge clk_i) begin
      if (ar_take[p]) begin
        ar_addr_q[AW*p+:AW] <= k_araddr[64*sel+:AW];
        ar_len_q[8*p+:8] <= k_arlen[8*sel+:8];
      end
    end
    assign m_rready_o[p] = stopping || k_rready[m_rid_i[2*p+:2]];
  end
  assign m_arvalid_o = ar_q;
  assign m_araddr_o = ar_addr_q;
  assign m_arlen_o = ar_len_q;
  assign m_arid_o = ar_id_q;

  for (genvar b = 0; b < K; b++) begin : gen_kernel_reads
    assign k_arready[b] = ar_take[b % N_AXI] && ar_sel[2*(b % N_AXI)+:2] == 2'(b);
    assign k_rvalid[b] = m_rvalid_i[b % N_AXI] && m_rid_i[2*(b % N_AXI)+:2] == 2'(b) && !stopping;
  end

  // ---- writes: an address and a data register; data only after its address was taken, so that the
  // outstanding data are known
  logic          aw_q, aw_take, w_q, w_last_q, w_take, w_beat, w_end, b_beat;
  logic [DW-1:0] w_data_q;
  logic [AXI_BYTES-1:0] w_strb_q;
  logic [AW-1:0] aw_addr_q;
  logic [7:0]    aw_len_q, w_left_q;
  logic [5:0]    writes_q;  // bursts taken and not answered
  logic [QD*8-1:0] lens_q;
  logic [QB:0]   owed_q;    // bursts whose data has not all been in the register
  logic [QB-1:0] head_q, tail_q;
  logic          w_first_q; // the next beat is a burst's first
  logic [7:0]    w_left;

  assign aw_take = k_awvalid && !aw_q && !stopping && owed_q != (QB+1)'(QD) && writes_q != '1;
  assign k_awready = aw_take;
  assign w_left = w_first_q ? lens_q[8*head_q+:8] : w_left_q;
  assign w_beat = w_q && m_wready_i[WP];
  assign w_take = owed_q != '0 && (!w_q || w_beat) && (stopping || k_wvalid);
  assign w_end = w_take && w_left == '0;
  assign b_beat = m_bvalid_i[WP] && m_bready_o[WP];
  assign k_wready = owed_q != '0 && (!w_q || w_beat) && !stopping;
  assign k_bvalid = m_bvalid_i[WP] && !stopping;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      aw_q <= 1'b0;
      writes_q <= '0;
      owed_q <= '0;
      head_q <= '0;
      tail_q <= '0;
      w_first_q <= 1'b1;
      w_q <= 1'b0;
    end else begin
      if (aw_take) aw_q <= 1'b1;
      else if (m_awready_i[WP]) aw_q <= 1'b0;
      writes_q <= writes_q + 6'(aw_take) - 6'(b_beat);
      owed_q <= owed_q + (QB+1)'(aw_take) - (QB+1)'(w_end);
      if (aw_take) tail_q <= tail_q + 1'b1;
      if (w_end) head_q <= head_q + 1'b1;
      if (w_take) w_first_q <= w_end;
      if (w_take) w_q <= 1'b1;
      else if (w_beat) w_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (aw_take) begin
      aw_addr_q <= k_awaddr[AW-1:0];
      aw_len_q <= k_awlen;
      lens_q[8*tail_q+:8] <= k_awlen;
    end
    if (w_take) begin
      w_left_q <= w_left - 1'b1;
      w_data_q <= k_wdata;
      w_strb_q <= stopping ? '0 : k_wstrb;
      w_last_q <= w_end;
    end
  end

  for (genvar p = 0; p < N_AXI; p++) begin : gen_writes
    if (p == WP) begin : gen_o
      assign m_awvalid_o[p] = aw_q;
      assign m_awaddr_o[AW*p+:AW] = aw_addr_q;
      assign m_awlen_o[8*p+:8] = aw_len_q;
      assign m_wvalid_o[p] = w_q;
      assign m_wdata_o[DW*p+:DW] = w_data_q;
      assign m_wstrb_o[AXI_BYTES*p+:AXI_BYTES] = w_strb_q;
      assign m_wlast_o[p] = w_last_q;
      assign m_bready_o[p] = stopping || k_bready;
    end else begin : gen_none
      assign m_awvalid_o[p] = 1'b0;
      assign m_awaddr_o[AW*p+:AW] = '0;
      assign m_awlen_o[8*p+:8] = '0;
      assign m_wvalid_o[p] = 1'b0;
      assign m_wdata_o[DW*p+:DW] = '0;
      assign m_wstrb_o[AXI_BYTES*p+:AXI_BYTES] = '0;
      assign m_wlast_o[p] = 1'b0;
      assign m_bready_o[p] = 1'b1;
    end
    assign m_awid_o[2*p+:2] = 2'(O);
  end

  // ---- starts and ends
  logic        open, dog, fbcb_ce;
  logic [31:0] quiet_q;  // cycles in which nothing has moved
  logic [7:0] stop_code_q, code_q, layer_q, bus_code_q, bus_code;
  logic [31:0] addr_q;
  logic [3:0] bus_port_q, bus_port;

  assign open = |reads_open || writes_q != '0;

  always_comb begin
    bus_code = '0;
    bus_port = '0;
    for (int unsigned p = 0; p < N_AXI; p++) begin
      if (m_rvalid_i[p] && m_rready_o[p] && m_rresp_i[2*p+1]) begin
        bus_code = 8'(m_rresp_i[2*p] ? abi_pkg::ERR_READ_DECERR : abi_pkg::ERR_READ_SLVERR);
        bus_port = 4'(p);
      end
    end
    if (b_beat && m_bresp_i[2*WP+1]) begin
      bus_code = 8'(m_bresp_i[2*WP] ? abi_pkg::ERR_WRITE_DECERR : abi_pkg::ERR_WRITE_SLVERR);
      bus_port = 4'(WP);
    end
  end

  always_ff @(posedge clk_i) begin
    done_o <= 1'b0;
    error_o <= 1'b0;
    if (!rst_ni) begin
      state_q <= Idle;
      ap_start_q <= 1'b0;
    end else begin
      case (state_q)
        Idle: if (start_i) begin
          state_q <= Run;
          ap_start_q <= 1'b1;
        end
        Run: begin
          if (ap_ready) ap_start_q <= 1'b0;
          if (soft_reset_i || dog) begin
            state_q <= Stop;
            ap_start_q <= 1'b0;
            stop_code_q <= 8'(soft_reset_i ? abi_pkg::ERR_SOFT_RESET : abi_pkg::ERR_WATCHDOG);
          end else if (ap_done) state_q <= End;
        end
        End: if (soft_reset_i || dog) begin  // answers may never come: complete them with the rest
          state_q <= Stop;
          stop_code_q <= 8'(soft_reset_i ? abi_pkg::ERR_SOFT_RESET : abi_pkg::ERR_WATCHDOG);
        end else if (!open) begin
          state_q <= Idle;
          done_o <= code_q == 8'(abi_pkg::ERR_NONE) && bus_code_q == '0;
          error_o <= !(code_q == 8'(abi_pkg::ERR_NONE) && bus_code_q == '0);
          err_code_o <= bus_code_q != '0 ? bus_code_q : code_q;
          err_layer_o <= bus_code_q != '0 ? '0 : layer_q;
          err_port_o <= bus_code_q != '0 ? bus_port_q : '0;
          err_addr_o <= bus_code_q != '0 ? '0 : addr_q;
        end
        default: if (!open && ar_q == '0 && !aw_q && held_q[4]) begin  // Stop
          state_q <= Idle;
          error_o <= 1'b1;
          err_code_o <= stop_code_q;
          err_layer_o <= first_layer_i;
          err_port_o <= '0;
          err_addr_o <= '0;
        end
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Idle) bus_code_q <= '0;
    else if (bus_code_q == '0) begin
      bus_code_q <= bus_code;
      bus_port_q <= bus_port;
    end
    if (state_q == Idle) code_q <= '0;
    else if (code_valid) code_q <= k_code;
    if (layer_valid) layer_q <= k_layer;
    if (addr_valid) addr_q <= k_addr;
  end
  assign busy_o = state_q != Idle;

  // ---- the watchdog: what moves on the memory ports, and the FBCB
  always_ff @(posedge clk_i) begin
    held_q <= !stopping ? '0 : (held_q[4] ? held_q : held_q + 1'b1);
    if (state_q == Idle || |(m_arvalid_o & m_arready_i) || |(m_rvalid_i & m_rready_o) || |(m_awvalid_o & m_awready_i) ||
        |(m_wvalid_o & m_wready_i) || |(m_bvalid_i & m_bready_o) || fbcb_ce) quiet_q <= '0;
    else if (!dog) quiet_q <= quiet_q + 1'b1;
  end
  assign dog = watchdog_i != '0 && quiet_q >= watchdog_i;

  // ---- counters
  logic [15:0] bytes_read, bytes_written;
  always_comb begin
    bytes_read = '0;
    for (int unsigned p = 0; p < N_AXI; p++) begin
      if (m_rvalid_i[p] && m_rready_o[p]) bytes_read = bytes_read + 16'(AXI_BYTES);
    end
    bytes_written = '0;
    for (int unsigned i = 0; i < AXI_BYTES; i++) begin
      if (w_beat && m_wstrb_o[AXI_BYTES*WP+i]) bytes_written = bytes_written + 1'b1;
    end
    cnt_inc_o = '0;
    cnt_inc_o[16*abi_pkg::CNT_CYCLES_BUSY+:16] = 16'd1;
    cnt_inc_o[16*abi_pkg::CNT_STALL_READ+:16] = 16'(|(m_arvalid_o & ~m_arready_i));
    cnt_inc_o[16*abi_pkg::CNT_STALL_WRITE+:16] = 16'(m_wvalid_o[WP] && !m_wready_i[WP]);
    cnt_inc_o[16*abi_pkg::CNT_BYTES_READ+:16] = bytes_read;
    cnt_inc_o[16*abi_pkg::CNT_BYTES_WRITTEN+:16] = bytes_written;
  end

  // ---- what Vitis exports
  logic [10:0] fbcb_address;
  assign fbcb_raddr_o = fbcb_address;

  sluice_npu u_kernel (
    .ap_clk             (clk_i),
    .ap_rst_n           (rst_ni && !stopping),
    .ap_start           (ap_start_q),
    .ap_done            (ap_done),
    .ap_idle            (),
    .ap_ready           (ap_ready),
    .first              (first_layer_i),
    .last               (last_layer_i),
    .b_act              (b_act_i),
    .desc_base          (desc_base_i),
    .weight_base        (weight_base_i),
    .slot_base          (slot_base_i),
    .slot_stride        (slot_stride_i),
    .n_slot             (n_slot_i),
    .slot_table         (slot_table_i),
    .fbcb_address0      (fbcb_address),
    .fbcb_ce0           (fbcb_ce),
    .fbcb_q0            (fbcb_rdata_i),
    .err_code           (k_code),
    .err_code_ap_vld    (code_valid),
    .err_layer          (k_layer),
    .err_layer_ap_vld   (layer_valid),
    .err_addr           (k_addr),
    .err_addr_ap_vld    (addr_valid),
    .m_axi_a_AWVALID    (),
    .m_axi_a_AWADDR     (),
    .m_axi_a_AWID       (),
    .m_axi_a_AWLEN      (),
    .m_axi_a_AWSIZE     (),
    .m_axi_a_AWBURST    (),
    .m_axi_a_AWLOCK     (),
    .m_axi_a_AWCACHE    (),
    .m_axi_a_AWPROT     (),
    .m_axi_a_AWQOS      (),
    .m_axi_a_AWREGION   (),
    .m_axi_a_AWUSER     (),
    .m_axi_a_AWREADY    (1'b0),
    .m_axi_a_WVALID     (),
    .m_axi_a_WDATA      (),
    .m_axi_a_WSTRB      (),
    .m_axi_a_WLAST      (),
    .m_axi_a_WID        (),
    .m_axi_a_WUSER      (),
    .m_axi_a_WREADY     (1'b0),
    .m_axi_a_ARVALID    (k_arvalid[0]),
    .m_axi_a_ARADDR     (k_araddr[64*0+:64]),
    .m_axi_a_ARLEN      (k_arlen[8*0+:8]),
    .m_axi_a_ARID       (),
    .m_axi_a_ARSIZE     (),
    .m_axi_a_ARBURST    (),
    .m_axi_a_ARLOCK     (),
    .m_axi_a_ARCACHE    (),
    .m_axi_a_ARPROT     (),
    .m_axi_a_ARQOS      (),
    .m_axi_a_ARREGION   (),
    .m_axi_a_ARUSER     (),
    .m_axi_a_ARREADY    (k_arready[0]),
    .m_axi_a_RVALID     (k_rvalid[0]),
    .m_axi_a_RREADY     (k_rready[0]),
    .m_axi_a_RDATA      (m_rdata_i[DW*(0 % N_AXI)+:DW]),
    .m_axi_a_RLAST      (m_rlast_i[0 % N_AXI]),
    .m_axi_a_RID        (1'b0),
    .m_axi_a_RUSER      (1'b0),
    .m_axi_a_RRESP      (m_rresp_i[2*(0 % N_AXI)+:2]),
    .m_axi_a_BVALID     (1'b0),
    .m_axi_a_BREADY     (),
    .m_axi_a_BRESP      (2'b00),
    .m_axi_a_BID        (1'b0),
    .m_axi_a_BUSER      (1'b0),
    .m_axi_w_AWVALID    (),
    .m_axi_w_AWADDR     (),
    .m_axi_w_AWID       (),
    .m_axi_w_AWLEN      (),
    .m_axi_w_AWSIZE     (),
    .m_axi_w_AWBURST    (),
    .m_axi_w_AWLOCK     (),
    .m_axi_w_AWCACHE    (),
    .m_axi_w_AWPROT     (),
    .m_axi_w_AWQOS      (),
    .m_axi_w_AWREGION   (),
    .m_axi_w_AWUSER     (),
    .m_axi_w_AWREADY    (1'b0),
    .m_axi_w_WVALID     (),
    .m_axi_w_WDATA      (),
    .m_axi_w_WSTRB      (),
    .m_axi_w_WLAST      (),
    .m_axi_w_WID        (),
    .m_axi_w_WUSER      (),
    .m_axi_w_WREADY     (1'b0),
    .m_axi_w_ARVALID    (k_arvalid[1]),
    .m_axi_w_ARADDR     (k_araddr[64*1+:64]),
    .m_axi_w_ARLEN      (k_arlen[8*1+:8]),
    .m_axi_w_ARID       (),
    .m_axi_w_ARSIZE     (),
    .m_axi_w_ARBURST    (),
    .m_axi_w_ARLOCK     (),
    .m_axi_w_ARCACHE    (),
    .m_axi_w_ARPROT     (),
    .m_axi_w_ARQOS      (),
    .m_axi_w_ARREGION   (),
    .m_axi_w_ARUSER     (),
    .m_axi_w_ARREADY    (k_arready[1]),
    .m_axi_w_RVALID     (k_rvalid[1]),
    .m_axi_w_RREADY     (k_rready[1]),
    .m_axi_w_RDATA      (m_rdata_i[DW*(1 % N_AXI)+:DW]),
    .m_axi_w_RLAST      (m_rlast_i[1 % N_AXI]),
    .m_axi_w_RID        (1'b0),
    .m_axi_w_RUSER      (1'b0),
    .m_axi_w_RRESP      (m_rresp_i[2*(1 % N_AXI)+:2]),
    .m_axi_w_BVALID     (1'b0),
    .m_axi_w_BREADY     (),
    .m_axi_w_BRESP      (2'b00),
    .m_axi_w_BID        (1'b0),
    .m_axi_w_BUSER      (1'b0),
    .m_axi_r_AWVALID    (),
    .m_axi_r_AWADDR     (),
    .m_axi_r_AWID       (),
    .m_axi_r_AWLEN      (),
    .m_axi_r_AWSIZE     (),
    .m_axi_r_AWBURST    (),
    .m_axi_r_AWLOCK     (),
    .m_axi_r_AWCACHE    (),
    .m_axi_r_AWPROT     (),
    .m_axi_r_AWQOS      (),
    .m_axi_r_AWREGION   (),
    .m_axi_r_AWUSER     (),
    .m_axi_r_AWREADY    (1'b0),
    .m_axi_r_WVALID     (),
    .m_axi_r_WDATA      (),
    .m_axi_r_WSTRB      (),
    .m_axi_r_WLAST      (),
    .m_axi_r_WID        (),
    .m_axi_r_WUSER      (),
    .m_axi_r_WREADY     (1'b0),
    .m_axi_r_ARVALID    (k_arvalid[2]),
    .m_axi_r_ARADDR     (k_araddr[64*2+:64]),
    .m_axi_r_ARLEN      (k_arlen[8*2+:8]),
    .m_axi_r_ARID       (),
    .m_axi_r_ARSIZE     (),
    .m_axi_r_ARBURST    (),
    .m_axi_r_ARLOCK     (),
    .m_axi_r_ARCACHE    (),
    .m_axi_r_ARPROT     (),
    .m_axi_r_ARQOS      (),
    .m_axi_r_ARREGION   (),
    .m_axi_r_ARUSER     (),
    .m_axi_r_ARREADY    (k_arready[2]),
    .m_axi_r_RVALID     (k_rvalid[2]),
    .m_axi_r_RREADY     (k_rready[2]),
    .m_axi_r_RDATA      (m_rdata_i[DW*(2 % N_AXI)+:DW]),
    .m_axi_r_RLAST      (m_rlast_i[2 % N_AXI]),
    .m_axi_r_RID        (1'b0),
    .m_axi_r_RUSER      (1'b0),
    .m_axi_r_RRESP      (m_rresp_i[2*(2 % N_AXI)+:2]),
    .m_axi_r_BVALID     (1'b0),
    .m_axi_r_BREADY     (),
    .m_axi_r_BRESP      (2'b00),
    .m_axi_r_BID        (1'b0),
    .m_axi_r_BUSER      (1'b0),
    .m_axi_o_AWVALID    (k_awvalid),
    .m_axi_o_AWADDR     (k_awaddr),
    .m_axi_o_AWID       (),
    .m_axi_o_AWLEN      (k_awlen),
    .m_axi_o_AWSIZE     (),
    .m_axi_o_AWBURST    (),
    .m_axi_o_AWLOCK     (),
    .m_axi_o_AWCACHE    (),
    .m_axi_o_AWPROT     (),
    .m_axi_o_AWQOS      (),
    .m_axi_o_AWREGION   (),
    .m_axi_o_AWUSER     (),
    .m_axi_o_AWREADY    (k_awready),
    .m_axi_o_WVALID     (k_wvalid),
    .m_axi_o_WDATA      (k_wdata),
    .m_axi_o_WSTRB      (k_wstrb),
    .m_axi_o_WLAST      (),
    .m_axi_o_WID        (),
    .m_axi_o_WUSER      (),
    .m_axi_o_WREADY     (k_wready),
    .m_axi_o_ARVALID    (k_arvalid[3]),
    .m_axi_o_ARADDR     (k_araddr[64*3+:64]),
    .m_axi_o_ARLEN      (k_arlen[8*3+:8]),
    .m_axi_o_ARID       (),
    .m_axi_o_ARSIZE     (),
    .m_axi_o_ARBURST    (),
    .m_axi_o_ARLOCK     (),
    .m_axi_o_ARCACHE    (),
    .m_axi_o_ARPROT     (),
    .m_axi_o_ARQOS      (),
    .m_axi_o_ARREGION   (),
    .m_axi_o_ARUSER     (),
    .m_axi_o_ARREADY    (k_arready[3]),
    .m_axi_o_RVALID     (k_rvalid[3]),
    .m_axi_o_RREADY     (k_rready[3]),
    .m_axi_o_RDATA      (m_rdata_i[DW*(3 % N_AXI)+:DW]),
    .m_axi_o_RLAST      (m_rlast_i[3 % N_AXI]),
    .m_axi_o_RID        (1'b0),
    .m_axi_o_RUSER      (1'b0),
    .m_axi_o_RRESP      (m_rresp_i[2*(3 % N_AXI)+:2]),
    .m_axi_o_BVALID     (k_bvalid),
    .m_axi_o_BREADY     (k_bready),
    .m_axi_o_BRESP      (m_bresp_i[2*WP+:2]),
    .m_axi_o_BID        (1'b0),
    .m_axi_o_BUSER      (1'b0)
  );

  if (AW_WITH_DATA != 0) begin : gen_bad
    $fatal(1, "npu_core: the kernel announces a write when it likes, so AW_WITH_DATA must be 0");
  end

  // the kernel has fixed sizes: the parameters here state the values that it was exported with
  logic unused;
  assign unused = ^{m_bid_i, m_bvalid_i, m_bresp_i, m_awready_i, m_wready_i, k_araddr, k_awaddr[63:AW],
                    T_R, T_P, T_C, MAX_BURST, W_LOAD, DRAIN, ABUF_WORDS, WRING_BEATS, C_MAX, STUB, STACK, FLUID, POST, DEPTHWISE,
                    CELLS, FOLD, SPLIT};
endmodule
