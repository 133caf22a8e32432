// The NPU without its registers: runs the layers of a start for a batch and ends it with one pulse
// of done_o or error_o. Between starts, and while a start is aborted (soft reset, error, watchdog),
// all units are held in reset; only the memory ports continue, so that transfers on the bus end as
// AXI requires. Nothing stays on chip from one start to the next.
//
// Wiring: npu_start begins and ends a start, npu_output orders the writes, npu_counters adds up.
// The rest here selects which of two units uses the ports of the activation buffer.
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
  parameter int unsigned DEPTHWISE   = 0,
  parameter int unsigned POST        = 0,        // curves and products (post), a residual of one pixel
  parameter int unsigned FOLD        = 0,        // banks of the activation buffer folded (ram_fold)
  parameter int unsigned SPLIT       = 1024,     // words of the smallest part of a bank in parts (ram_deep)
  parameter int unsigned AW_WITH_DATA = 0,       // a write's address waits for its first beat (axi_write)
  parameter int unsigned CELLS       = 0,        // chains and folded banks in the vendor's cells: 1 of series 7, 2 of UltraScale+
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned BM = abi_pkg::B_MAX,
  localparam int unsigned CN = abi_pkg::CNT_COUNT,
  localparam int unsigned DW = AXI_BYTES * 8
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  // control
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
  // memory
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
  // lanes of a half of the activation buffer: a window of 2 T_P lies in one half
  localparam int unsigned NB = 1 << $clog2(2 * T_P);
  localparam int unsigned LB = $clog2(NB);
  localparam int unsigned EW = $clog2(NB * ABUF_WORDS);
  localparam int unsigned RW = $clog2(T_R);
  // The beats that memory clients see are wide: LANES beats of a port. LANES is the number of
  // ports, limited by what the activation buffer takes in a cycle and by a burst.
  localparam int unsigned STRIPE = (MAX_BURST >= 16) ? 16 : ((MAX_BURST >= 8) ? 8
                                 : ((MAX_BURST >= 4) ? 4 : ((MAX_BURST >= 2) ? 2 : 1)));
  localparam int unsigned WANTED = (N_AXI == 1) ? 1 : ((N_AXI == 2) ? 2 : 4);
  localparam int unsigned FIT = (NB * 2 / AXI_BYTES < STRIPE) ? NB * 2 / AXI_BYTES : STRIPE;
  localparam int unsigned LANES = (WANTED < FIT) ? WANTED : FIT;
  localparam int unsigned WIDE = LANES * AXI_BYTES;      // bytes
  localparam int unsigned WW = WIDE * 8;
  localparam int unsigned WPB = WIDE / 2;
  localparam int unsigned KEEP = WRING_BEATS * AXI_BYTES - abi_pkg::RING_SPARE;
  localparam int unsigned ACC = abi_pkg::ACC_BITS;
  localparam int unsigned GROUPS = (T_C + W_LOAD - 1) / W_LOAD;
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1;
  localparam int unsigned BW = $clog2(2 * (C_MAX / DRAIN));
  localparam int unsigned DL = (DRAIN > 1) ? $clog2(DRAIN) : 1;
  localparam int unsigned CW = $clog2(DRAIN + 1);
  localparam int unsigned RESCW = $clog2(2 * WPB + DRAIN + 1);
  localparam int unsigned POOL_ROOM = 8;     // results, from the first tap until they leave
  localparam int unsigned POOL_GROUPS = 64;  // whose columns the pool unit remembers
  localparam int unsigned POOL_MULS = (DRAIN >= 20) ? 8 : 4;  // DSPs beside the array's
  localparam int unsigned POOL_GW = $clog2(POOL_GROUPS);
  localparam int unsigned BUF_IN = (WPB > DRAIN) ? WPB : DRAIN;   // words written at a time

  if (T_P < 2 || T_P > 16) begin : gen_bad_tp
    $fatal(1, "npu_core: T_P must be 2..16");
  end
  if ((T_C / 2) % DRAIN != 0 || C_MAX % DRAIN != 0) begin : gen_bad_drain
    $fatal(1, "npu_core: DRAIN must divide T_C / 2 and C_MAX");
  end
  if (NB < WPB || DRAIN > NB) begin : gen_bad_nb
    $fatal(1, "npu_core: a beat, and DRAIN words, must fit the lanes of the activation buffer");
  end

  localparam int unsigned UNITS = 8;
  logic [UNITS-1:0] l_ready;
  logic             unit_rst_n, flush, go, rd_idle, wr_idle;
  logic [8:0]       layers_written;

  // errors
  logic        f_err;
  logic [7:0]  f_err_code, f_err_layer, w_err_layer;
  logic        a_err, o_err, x_err, w_err;     // activations, output, residual, weights
  logic        o_ahead_err;
  logic [31:0] a_err_addr, o_err_addr, x_err_addr;

  // ------------------------------------------------------------------ memory ports
  // clients: 0 descriptors, 1 activations, 2 weights, 3 residual
  logic [3:0]      req_valid, req_ready, rsp_valid;
  logic            w_low, x_low;             // little of it is on chip or requested
  logic [4*AW-1:0] req_addr;
  logic [63:0]     req_beats;
  logic            rsp_last;
  logic [WW-1:0]   rsp_data;
  logic            cmd_valid, cmd_ready, wb_valid, wb_ready;
  logic [AW-1:0]   cmd_addr;
  logic [15:0]     cmd_beats;
  logic [WW-1:0]   wb_data;
  logic [WIDE-1:0] wb_strb;

  logic [N_AXI-1:0]    p_rd_err, p_rd_dec, p_rd_progress, p_rd_stall, p_rd_beat;
  logic [N_AXI-1:0]    p_wr_err, p_wr_dec, p_wr_progress, p_wr_stall;
  logic [N_AXI*32-1:0] p_rd_err_addr, p_wr_err_addr;
  localparam int unsigned NW = $clog2(AXI_BYTES + 1);
  logic [N_AXI*NW-1:0] p_wr_bytes;

  read_ports #(
    .N(4), .N_AXI(N_AXI), .AXI_BYTES(AXI_BYTES), .LANES(LANES), .MAX_BURST(MAX_BURST), .STRIPE(STRIPE)
  ) u_read (
    .clk_i,
    .rst_ni,
    .flush_i     (flush),
    .idle_o      (rd_idle),
    .req_valid_i (req_valid),
    .req_ready_o (req_ready),
    .req_addr_i  (req_addr),
    .req_beats_i (req_beats),
    // first what the array or the drain will soon wait for, then activations, whose amount is
    // limited; weights and residuals for later fill the rest
    .level_i     ({x_low ? 2'd2 : 2'd0, w_low ? 2'd2 : 2'd0, 2'd1, 2'd3}),
    .rsp_valid_o (rsp_valid),
    .rsp_data_o  (rsp_data),
    .rsp_last_o  (rsp_last),
    .err_valid_o (p_rd_err),
    .err_decerr_o(p_rd_dec),
    .err_addr_o  (p_rd_err_addr),
    .progress_o  (p_rd_progress),
    .stall_o     (p_rd_stall),
    .beat_o      (p_rd_beat),
    .m_arvalid_o, .m_arready_i, .m_araddr_o, .m_arlen_o, .m_arid_o,
    .m_rvalid_i, .m_rready_o, .m_rdata_i, .m_rid_i, .m_rresp_i, .m_rlast_i
  );

  write_ports #(
    .N_AXI(N_AXI), .AXI_BYTES(AXI_BYTES), .LANES(LANES), .MAX_BURST(MAX_BURST), .STRIPE(STRIPE),
    .AW_WITH_DATA(AW_WITH_DATA)
  ) u_write (
    .clk_i,
    .rst_ni,
    .flush_i     (flush),
    .idle_o      (wr_idle),
    .cmd_valid_i (cmd_valid),
    .cmd_ready_o (cmd_ready),
    .cmd_addr_i  (cmd_addr),
    .cmd_beats_i (cmd_beats),
    .wb_valid_i  (wb_valid),
    .wb_ready_o  (wb_ready),
    .wb_data_i   (wb_data),
    .wb_strb_i   (wb_strb),
    .err_valid_o (p_wr_err),
    .err_decerr_o(p_wr_dec),
    .err_addr_o  (p_wr_err_addr),
    .progress_o  (p_wr_progress),
    .stall_o     (p_wr_stall),
    .bytes_o     (p_wr_bytes),
    .m_awvalid_o, .m_awready_i, .m_awaddr_o, .m_awlen_o, .m_awid_o,
    .m_wvalid_o, .m_wready_i, .m_wdata_o, .m_wstrb_o, .m_wlast_o,
    .m_bvalid_i, .m_bready_o, .m_bid_i, .m_bresp_i
  );

  // ------------------------------------------------------------------ layers
  // takers: 0 act_loader, 1 weight_fetch, 2 weight_feed, 3 gemm_seq, 4 pool_seq, 5 drain,
  // 6 output runs, 7 residual
  logic [UNITS-1:0] l_valid;
  abi_pkg::desc_t   l_desc;
  abi_pkg::fbcb_t   l_fbcb;
  logic [23:0]      l_samp;
  logic [BM*AW-1:0] slot_addr;
  logic [7:0]       l_index_unused;
  logic             l_last_unused;

  layer_fetch #(
    .T_R(T_R), .T_C(T_C), .STACK(STACK), .FLUID(FLUID), .POST(POST), .NB(NB), .ABUF_WORDS(ABUF_WORDS), .AXI_BYTES(WIDE),
    .C_MAX(C_MAX), .KEEP(KEEP),
    .UNITS(UNITS), .DEPTHWISE(DEPTHWISE)
  ) u_fetch (
    .clk_i,
    .rst_ni       (unit_rst_n),
    .start_i      (go),
    .first_layer_i,
    .last_layer_i,
    .b_act_i,
    .desc_base_i,
    .slot_base_i,
    .slot_stride_i,
    .n_slot_i,
    .slot_table_i,
    .slot_addr_o  (slot_addr),
    .fbcb_raddr_o,
    .fbcb_rdata_i,
    .req_valid_o  (req_valid[0]),
    .req_ready_i  (req_ready[0]),
    .req_addr_o   (req_addr[0+:AW]),
    .req_beats_o  (req_beats[0+:16]),
    .rsp_valid_i     (rsp_valid[0]),
    .rsp_last_i   (rsp_last),
    .rsp_data_i   (rsp_data),
    .layer_valid_o(l_valid),
    .layer_ready_i(l_ready),
    .layer_desc_o (l_desc),
    .layer_fbcb_o (l_fbcb),
    .layer_index_o(l_index_unused),
    .layer_last_o (l_last_unused),
    .layer_samp_o (l_samp),
    .err_valid_o  (f_err),
    .err_code_o   (f_err_code),
    .err_layer_o  (f_err_layer)
  );

  // ------------------------------------------------------------------ activations
  logic            wr_half, kw_half;
  logic [EW-1:0]   wr_elem, kw_elem;
  logic [WPB-1:0]  wr_mask;
  logic [WW-1:0]   wr_data;
  logic [DRAIN-1:0]    kw_mask;       // a kept tensor's
  logic [DRAIN*16-1:0] kw_data;
  logic                kw;
  logic [63:0]     avail;
  logic [1:0]      g_free, p_free;

  act_loader #(.T_C(T_C), .NB(NB), .ABUF_WORDS(ABUF_WORDS), .AXI_BYTES(WIDE)) u_act (
    .clk_i,
    .rst_ni          (unit_rst_n),
    .b_act_i,
    .slot_addr_i     (slot_addr),
    .slot_stride_i,
    .layers_written_i(layers_written),
    .layer_valid_i   (l_valid[0]),
    .layer_ready_o   (l_ready[0]),
    .layer_desc_i    (l_desc),
    .layer_fbcb_i    (l_fbcb),
    .layer_samp_i    (l_samp),
    .req_valid_o     (req_valid[1]),
    .req_ready_i     (req_ready[1]),
    .req_addr_o      (req_addr[AW+:AW]),
    .req_beats_o     (req_beats[16+:16]),
    .rsp_valid_i     (rsp_valid[1]),
    .rsp_last_i      (rsp_last),
    .rsp_data_i      (rsp_data),
    .wr_half_o       (wr_half),
    .wr_elem_o       (wr_elem),
    .wr_mask_o       (wr_mask),
    .wr_data_o       (wr_data),
    .avail_o         (avail),
    .free_i          (g_free | p_free),
    .err_valid_o     (a_err),
    .err_addr_o      (a_err_addr)
  );

  // gemm_seq and pool_seq are never active together: activations of a layer are loaded only when
  // the layer before has been written
  localparam int unsigned GTAG = RW + 4;
  localparam int unsigned PTAG = POOL_GW + LB + 12;
  localparam int unsigned TAG = ((GTAG > PTAG) ? GTAG : PTAG) + 1;
  logic            g_rd_valid, g_rd_two, g_rd_half, p_rd_valid, p_rd_half, p_rd_max;
  logic [EW-1:0]   g_rd_elem, p_rd_elem;
  logic [LB:0]     g_rd_lo, g_rd_hi, p_rd_hi;
  logic [GTAG-1:0] g_tag;
  logic [PTAG-1:0] p_tag;
  logic            w_valid;
  logic [NB*16-1:0] w_data;
  logic [T_P*16-1:0] w_two;
  logic [1:0]      k;
  logic [TAG-1:0]  w_tag;
  // The two writers never collide: a GEMM whose output is kept has loaded its only tile before its first word is
  // drained, and a depthwise layer, which drains while rows come, keeps its output only where its input is kept.
  assign kw = kw_mask[0];  // the valid lanes are the lowest ones
  act_buffer #(
    .NB(NB), .ABUF_WORDS(ABUF_WORDS), .IN_WORDS(BUF_IN), .TAG(TAG), .Y_LANES(T_P), .FOLD(FOLD), .SPLIT(SPLIT), .CELLS(CELLS)
  ) u_abuf (
    .clk_i,
    .rst_ni     (unit_rst_n),
    .wr_half_i  (kw ? kw_half : wr_half),
    .wr_elem_i  (kw ? kw_elem : wr_elem),
    .wr_mask_i  (kw ? BUF_IN'(kw_mask) : BUF_IN'(wr_mask)),
    .wr_data_i  (kw ? (BUF_IN * 16)'(kw_data) : (BUF_IN * 16)'(wr_data)),
    .rd_valid_i (g_rd_valid || p_rd_valid),
    .rd_half_i  (g_rd_valid ? g_rd_half : p_rd_half),
    .rd_two_i   (g_rd_valid && g_rd_two),
    .rd_elem_i  (g_rd_valid ? g_rd_elem : p_rd_elem),
    .rd_lo_i    (g_rd_valid ? g_rd_lo : '0),
    .rd_hi_i    (g_rd_valid ? g_rd_hi : p_rd_hi),
    .rd_fill_i  (!g_rd_valid && p_rd_max ? 16'h8000 : 16'h0000),
    .rd_tag_i   (g_rd_valid ? {1'b1, (TAG - 1)'(g_tag)} : {1'b0, (TAG - 1)'(p_tag)}),
    .out_valid_o(w_valid),
    .out_data_o (w_data),
    .out_two_o  (w_two),
    .out_tag_o  (w_tag)
  );

  // ------------------------------------------------------------------ weights
  logic            dw_w_valid, dw_w_ready, dw_w_last, dw_full;  // the depthwise unit's
  logic            ring_valid, ring_ready, ring_commit, ring_rewind, bias_we, table_we, full, swap, load;
  logic [WW-1:0]   ring_data;
  logic [DL-1:0]   bias_lane;
  logic [BW-1:0]   bias_addr;
  logic [31:0]     bias_data;
  logic [8:0]      bias_index;
  logic [8:0]      bias_layers, layers_drained;
  logic            curve_we;
  logic [$clog2(2*abi_pkg::CURVE_WORDS)-1:0] curve_addr;
  logic [4:0]      curve_sh;
  logic [GW-1:0]   group;
  logic [W_LOAD*T_P*16-1:0] weights;

  weight_fetch #(
    .AXI_BYTES(WIDE), .WRING_BEATS(WRING_BEATS / LANES), .C_MAX(C_MAX), .DRAIN(DRAIN), .POST(POST), .DEPTHWISE(DEPTHWISE)
  ) u_wfetch (
    .clk_i,
    .rst_ni          (unit_rst_n),
    .weight_base_i,
    .layer_valid_i   (l_valid[1]),
    .layer_ready_o   (l_ready[1]),
    .layer_desc_i    (l_desc),
    .layer_fbcb_i    (l_fbcb),
    .req_valid_o     (req_valid[2]),
    .req_ready_i     (req_ready[2]),
    .req_addr_o      (req_addr[2*AW+:AW]),
    .req_beats_o     (req_beats[32+:16]),
    .rsp_valid_i     (rsp_valid[2]),
    .rsp_last_i      (rsp_last),
    .rsp_data_i      (rsp_data),
    .ring_valid_o    (ring_valid),
    .ring_ready_i    (ring_ready),
    .ring_data_o     (ring_data),
    .ring_commit_i   (ring_commit),
    .ring_rewind_i   (ring_rewind),
    .low_o           (w_low),
    .bias_we_o       (bias_we),
    .bias_lane_o     (bias_lane),
    .bias_addr_o     (bias_addr),
    .bias_data_o     (bias_data),
    .table_we_o      (table_we),
    .bias_index_o    (bias_index),
    .curve_we_o      (curve_we),
    .curve_addr_o    (curve_addr),
    .curve_sh_o      (curve_sh),
    .bias_layers_o   (bias_layers),
    .layers_drained_i(layers_drained)
  );

  weight_feed #(
    .T_P(T_P), .T_C(T_C), .W_LOAD(W_LOAD), .AXI_BYTES(WIDE), .KEEP(KEEP), .DEPTHWISE(DEPTHWISE)
  ) u_wfeed (
    .clk_i,
    .rst_ni       (unit_rst_n),
    .b_act_i,
    .layer_valid_i(l_valid[2]),
    .layer_ready_o(l_ready[2]),
    .layer_desc_i (l_desc),
    .layer_fbcb_i (l_fbcb),
    .ring_valid_i (ring_valid),
    .ring_ready_o (ring_ready),
    .ring_data_i  (ring_data),
    .ring_commit_o(ring_commit),
    .ring_rewind_o(ring_rewind),
    .load_o       (load),
    .group_o      (group),
    .w_o          (weights),
    .dw_valid_o   (dw_w_valid),
    .dw_ready_i   (dw_w_ready),
    .dw_last_o    (dw_w_last),
    .full_o       (full),
    .swap_i       (swap),
    .err_valid_o  (w_err),
    .err_layer_o  (w_err_layer)
  );

  // ------------------------------------------------------------------ sequencers
  logic        bank_free, mac_cycle, st_weights, st_acts, st_pool, st_drain, st_depth;
  logic [15:0] macs, dw_macs;

  gemm_seq #(.T_R(T_R), .T_P(T_P), .T_C(T_C), .NB(NB), .ABUF_WORDS(ABUF_WORDS)) u_gemm (
    .clk_i,
    .rst_ni         (unit_rst_n),
    .b_act_i,
    .layers_written_i(layers_written),
    .layer_valid_i  (l_valid[3]),
    .layer_ready_o  (l_ready[3]),
    .layer_desc_i   (l_desc),
    .layer_fbcb_i   (l_fbcb),
    .layer_samp_i   (l_samp),
    .avail_i        (avail),
    .free_o         (g_free),
    .rd_valid_o     (g_rd_valid),
    .rd_half_o      (g_rd_half),
    .rd_two_o       (g_rd_two),
    .k_o            (k),
    .rd_elem_o      (g_rd_elem),
    .rd_lo_o        (g_rd_lo),
    .rd_hi_o        (g_rd_hi),
    .rd_tag_o       (g_tag),
    .full_i         (full),
    .swap_o         (swap),
    .bank_free_i    (bank_free),
    .mac_cycle_o    (mac_cycle),
    .macs_o         (macs),
    .stall_weights_o(st_weights),
    .stall_acts_o   (st_acts),
    .stall_drain_o  (st_drain),
    .stall_depth_o  (st_depth)
  );

  logic            pool_table, pool_table_half;
  logic [1:0]      pool_cols;
  logic            pool_wide;
  logic            pool_taken, pool_avg, pool_valid, pool_ready;
  logic [16:0]     pool_mul;
  logic [5:0]      pool_shift;
  logic [15:0]     pool_lo, pool_hi;
  logic [DRAIN*16-1:0] pool_data;
  logic [CW-1:0]   pool_cnt;

  logic            dw;                    // the layer is the depthwise unit's
  logic [1:0]      dw_taken;

  pool_seq #(
    .NB(NB), .ABUF_WORDS(ABUF_WORDS), .ROOM(POOL_ROOM), .GROUPS(POOL_GROUPS), .DEPTHWISE(DEPTHWISE)
  ) u_pseq (
    .clk_i,
    .rst_ni        (unit_rst_n),
    .b_act_i,
    .layers_written_i(layers_written),
    .layer_valid_i (l_valid[4]),
    .layer_ready_o (l_ready[4]),
    .layer_desc_i  (l_desc),
    .layer_fbcb_i  (l_fbcb),
    .layer_samp_i  (l_samp),
    .bias_layers_i (bias_layers),
    .avail_i       (avail[31:0]),
    .free_o        (p_free),
    .rd_valid_o    (p_rd_valid),
    .rd_half_o     (p_rd_half),
    .rd_elem_o     (p_rd_elem),
    .rd_hi_o       (p_rd_hi),
    .rd_max_o      (p_rd_max),
    .rd_tag_o      (p_tag),
    .result_taken_i(pool_taken),
    .dw_full_i     (dw_full),
    .dw_taken_i    (dw_taken),
    .dw_o          (dw),
    .dw_macs_o     (dw_macs),
    .stall_acts_o  (st_pool),
    .avg_o         (pool_avg),
    .wide_o        (pool_wide),
    .cols_o        (pool_cols),
    .table_o       (pool_table),
    .table_half_o  (pool_table_half),
    .avg_mul_o     (pool_mul),
    .avg_shift_o   (pool_shift),
    .clamp_lo_o    (pool_lo),
    .clamp_hi_o    (pool_hi)
  );

  // ------------------------------------------------------------------ array and pool
  logic               bank_done, dr_bank, dr_en;
  logic [RW-2:0]      dr_row;
  logic [2*T_C*ACC-1:0] dr_acc;
  logic               is_gemm;
  assign is_gemm = w_tag[TAG-1];

  pe_array #(
    .T_R(T_R), .T_P(T_P), .T_C(T_C), .W_LOAD(W_LOAD), .STUB(STUB != 0), .STACK(STACK != 0),
    .FLUID(FLUID != 0), .CELLS(CELLS)
  ) u_array (
    .clk_i,
    .rst_ni   (unit_rst_n),
    .k_i      (k),
    .two_i    (g_rd_two),
    .valid_i  (w_valid && is_gemm),
    .x_i      (w_data[2*T_P*16-1:0]),
    .y_i      (w_two),
    .row_i    (w_tag[4+:RW]),
    .bank_i   (w_tag[3]),
    .first_i  (w_tag[2]),
    .swap_i   (w_tag[1]),
    .last_i   (w_tag[0]),
    .done_o   (bank_done),
    .load_i   (load),
    .group_i  (group),
    .w_i      (weights),
    .dr_bank_i(dr_bank),
    .dr_en_i  (dr_en),
    .dr_row_i (dr_row),
    .dr_acc_o (dr_acc)
  );

  pool #(.NB(NB), .OUT(DRAIN), .MULS(POOL_MULS), .ROOM(POOL_ROOM), .GROUPS(POOL_GROUPS)) u_pool (
    .clk_i,
    .rst_ni    (unit_rst_n),
    .avg_i     (pool_avg),
    .wide_i    (pool_wide),
    .cols_i    (pool_cols),
    .mul_i     (pool_mul),
    .table_i   (pool_table),
    .table_half_i(pool_table_half),
    .table_we_i(table_we),
    .table_addr_i(bias_index),
    .table_data_i(bias_data[16:0]),
    .shift_i   (pool_shift),
    .lo_i      (pool_lo),
    .hi_i      (pool_hi),
    .valid_i   (w_valid && !is_gemm && !dw),
    .data_i    (w_data),
    .first_i   (w_tag[LB+2]),
    .last_i    (w_tag[LB+1]),
    .result_i  (w_tag[LB+11]),
    .group_i   (w_tag[LB+12+:POOL_GW]),
    .channels_i(w_tag[LB:0]),
    .taps_i    (w_tag[LB+3+:8]),
    .taken_o   (pool_taken),
    .valid_o   (pool_valid),
    .ready_i   (pool_ready),
    .data_o    (pool_data),
    .cnt_o     (pool_cnt)
  );

  logic                dw_ok, dw_pixel, dw_pop;
  logic [CW-1:0]       dw_cnt;
  logic [DRAIN*ACC-1:0] dw_data;
  if (DEPTHWISE != 0) begin : gen_depthwise
    depthwise #(.NB(NB), .LANES(DRAIN), .AXI_BYTES(WIDE), .ROOM(POOL_ROOM), .GROUPS(POOL_GROUPS)) u_depthwise (
      .clk_i,
      .rst_ni   (unit_rst_n),
      .w_valid_i(dw_w_valid),
      .w_ready_o(dw_w_ready),
      .w_last_i (dw_w_last),
      .w_data_i (ring_data),
      .full_o   (dw_full),
      .cols_i   (pool_cols[0]),
      .valid_i  (w_valid && !is_gemm && dw),
      .data_i   (w_data),
      .first_i  (w_tag[LB+2]),
      .last_i   (w_tag[LB+1]),
      .result_i (w_tag[LB+11]),
      .group_i  (w_tag[LB+12+:POOL_GW]),
      .restart_i(w_tag[LB+3]),
      .release_i(w_tag[LB+4]),
      .ok_o     (dw_ok),
      .cnt_i    (dw_cnt),
      .pixel_i  (dw_pixel),
      .pop_i    (dw_pop),
      .data_o   (dw_data),
      .taken_o  (dw_taken)
    );
  end else begin : gen_no_depthwise
    assign dw_w_ready = 1'b0;
    assign dw_full = 1'b0;
    assign dw_ok = 1'b0;
    assign dw_data = '0;
    assign dw_taken = '0;
    logic unused_dw;
    assign unused_dw = ^{dw_w_valid, dw_w_last, dw_cnt, dw_pixel, dw_pop};
  end

  // ------------------------------------------------------------------ drain and write-back
  logic               res_pop, d_valid, d_ready;
  logic [RESCW-1:0]   res_fill, res_cnt;
  logic [DRAIN*16-1:0] res_data, d_data;
  logic [CW-1:0]      d_cnt;

  res_loader #(.T_C(T_C), .AXI_BYTES(WIDE), .LANES(DRAIN)) u_res (
    .clk_i,
    .rst_ni          (unit_rst_n),
    .b_act_i,
    .slot_addr_i     (slot_addr),
    .slot_stride_i,
    .layers_written_i(layers_written),
    .layer_valid_i   (l_valid[7]),
    .layer_ready_o   (l_ready[7]),
    .layer_desc_i    (l_desc),
    .layer_fbcb_i    (l_fbcb),
    .req_valid_o     (req_valid[3]),
    .req_ready_i     (req_ready[3]),
    .req_addr_o      (req_addr[3*AW+:AW]),
    .req_beats_o     (req_beats[48+:16]),
    .rsp_valid_i     (rsp_valid[3]),
    .rsp_last_i      (rsp_last),
    .rsp_data_i      (rsp_data),
    .low_o           (x_low),
    .fill_o          (res_fill),
    .data_o          (res_data),
    .pop_i           (res_pop),
    .pop_cnt_i       (res_cnt),
    .err_valid_o     (x_err),
    .err_addr_o      (x_err_addr)
  );

  drain #(
    .T_R(T_R), .T_C(T_C), .LANES(DRAIN), .C_MAX(C_MAX), .RES_CW(RESCW), .POST(POST), .DEPTHWISE(DEPTHWISE)
  ) u_drain (
    .clk_i,
    .rst_ni          (unit_rst_n),
    .b_act_i,
    .layers_written_i(layers_written),
    .layer_valid_i   (l_valid[5]),
    .layer_ready_o   (l_ready[5]),
    .layer_desc_i    (l_desc),
    .layer_fbcb_i    (l_fbcb),
    .layers_drained_o(layers_drained),
    .done_i          (bank_done),
    .bank_free_o     (bank_free),
    .dr_bank_o       (dr_bank),
    .dr_en_o         (dr_en),
    .dr_row_o        (dr_row),
    .dr_acc_i        (dr_acc),
    .dw_ok_i         (dw_ok),
    .dw_cnt_o        (dw_cnt),
    .dw_pixel_o      (dw_pixel),
    .dw_pop_o        (dw_pop),
    .dw_data_i       (dw_data),
    .bias_we_i       (bias_we),
    .bias_lane_i     (bias_lane),
    .bias_addr_i     (bias_addr),
    .bias_data_i     (bias_data),
    .bias_layers_i   (bias_layers),
    .curve_we_i      (curve_we),
    .curve_addr_i    (curve_addr),
    .curve_sh_i      (curve_sh),
    .res_fill_i      (res_fill),
    .res_data_i      (res_data),
    .res_pop_o       (res_pop),
    .res_cnt_o       (res_cnt),
    .valid_o         (d_valid),
    .ready_i         (d_ready),
    .data_o          (d_data),
    .cnt_o           (d_cnt)
  );

  logic          run_valid, run_ready, run_done, run_pool, out_ready, out_idle;
  logic [AW-1:0] run_addr;
  logic [23:0]   run_elems, run_elem;
  logic          run_keep, run_half, run_local, run_take, keep_free, keep_busy;

  run_gen #(.T_C(T_C), .RESIDUAL(1'b0), .DEPTHWISE(DEPTHWISE)) u_runs (
    .clk_i,
    .rst_ni       (unit_rst_n),
    .b_act_i,
    .slot_addr_i  (slot_addr),
    .slot_stride_i,
    .layer_valid_i(l_valid[6]),
    .layer_ready_o(l_ready[6]),
    .layer_desc_i (l_desc),
    .layer_fbcb_i (l_fbcb),
    .run_valid_o  (run_valid),
    .run_ready_i  (run_take),
    .run_addr_o   (run_addr),
    .run_elems_o  (run_elems),
    .pool_o       (run_pool),
    .keep_o       (run_keep),
    .keep_half_o  (run_half),
    .local_o      (run_local),
    .run_elem_o   (run_elem),
    .done_o       (run_done),
    .err_valid_o  (o_ahead_err),
    .err_addr_o   (o_err_addr)
  );

  logic                   out_run, out_valid, keep_run, keep_word;
  logic                   word_valid, word_ready, words_valid, words_ready;
  logic [DRAIN*16+CW-1:0] word;               // before its register
  logic [DRAIN*16-1:0]    words;              // after its register
  logic [CW-1:0]          words_cnt;

  npu_output #(.WIDTH(DRAIN * 16 + CW)) u_output (
    .clk_i,
    .rst_ni          (unit_rst_n),
    .layers_written_o(layers_written),
    .run_valid_i     (run_valid),
    .run_ready_o     (run_take),
    .run_pool_i      (run_pool),
    .run_keep_i      (run_keep),
    .run_local_i     (run_local),
    .run_done_i      (run_done),
    .run_err_i       (o_ahead_err),
    .err_valid_o     (o_err),
    .out_run_valid_o (out_run),
    .out_run_ready_i (run_ready),
    .out_idle_i      (out_idle),
    .keep_run_o      (keep_run),
    .keep_free_i     (keep_free),
    .keep_busy_i     (keep_busy),
    .wr_idle_i       (wr_idle),
    .drain_valid_i   (d_valid),
    .drain_ready_o   (d_ready),
    .drain_data_i    ({d_cnt, d_data}),
    .pool_valid_i    (pool_valid),
    .pool_ready_o    (pool_ready),
    .pool_data_i     ({pool_cnt, pool_data}),
    .valid_o         (word_valid),
    .ready_i         (word_ready),
    .data_o          (word),
    .words_valid_i   (words_valid),
    .words_ready_o   (words_ready),
    .out_valid_o     (out_valid),
    .out_ready_i     (out_ready),
    .keep_word_o     (keep_word)
  );

  spill #(.WIDTH(DRAIN * 16 + CW)) u_words (
    .clk_i,
    .rst_ni (unit_rst_n),
    .valid_i(word_valid),
    .ready_o(word_ready),
    .data_i (word),
    .valid_o(words_valid),
    .ready_i(words_ready),
    .data_o ({words_cnt, words})
  );

  keep_writer #(.IN_WORDS(DRAIN), .EW(EW)) u_keep (
    .clk_i,
    .rst_ni     (unit_rst_n),
    .run_i      (keep_run),
    .run_half_i (run_half),
    .run_elem_i (run_elem[EW-1:0]),
    .run_elems_i(run_elems),
    .free_o     (keep_free),
    .word_i     (keep_word),
    .data_i     (words),
    .cnt_i      (words_cnt),
    .busy_o     (keep_busy),
    .wr_half_o  (kw_half),
    .wr_elem_o  (kw_elem),
    .wr_mask_o  (kw_mask),
    .wr_data_o  (kw_data)
  );

  out_writer #(.IN_WORDS(DRAIN), .AXI_BYTES(WIDE)) u_out (
    .clk_i,
    .rst_ni     (unit_rst_n),
    .run_valid_i(out_run),
    .run_ready_o(run_ready),
    .run_addr_i (run_addr),
    .run_elems_i(run_elems),
    .valid_i    (out_valid),
    .ready_o    (out_ready),
    .data_i     (words),
    .cnt_i      (words_cnt),
    .cmd_valid_o(cmd_valid),
    .cmd_ready_i(cmd_ready),
    .cmd_addr_o (cmd_addr),
    .cmd_beats_o(cmd_beats),
    .wb_valid_o (wb_valid),
    .wb_ready_i (wb_ready),
    .wb_data_o  (wb_data),
    .wb_strb_o  (wb_strb),
    .idle_o     (out_idle)
  );

  // ------------------------------------------------------------------ start, end, counters
  npu_start #(.N_AXI(N_AXI)) u_start (
    .clk_i,
    .rst_ni,
    .start_i,
    .soft_reset_i,
    .first_layer_i,
    .last_layer_i,
    .watchdog_i,
    .busy_o,
    .done_o,
    .error_o,
    .err_code_o,
    .err_layer_o,
    .err_port_o,
    .err_addr_o,
    .unit_rst_no      (unit_rst_n),
    .go_o             (go),
    .flush_o          (flush),
    .layers_written_i (layers_written),
    // long without memory traffic: a tile on chip, the drain of a tensor that stays on chip
    .computing_i      (g_rd_valid || p_rd_valid || kw),
    .weights_idle_i   (l_ready[2]),
    .fetch_err_i      (f_err),
    .fetch_err_code_i (f_err_code),
    .fetch_err_layer_i(f_err_layer),
    .act_err_i        (a_err),
    .act_err_addr_i   (a_err_addr),
    .out_err_i        (o_err),
    .out_err_addr_i   (o_err_addr),
    .res_err_i        (x_err),
    .res_err_addr_i   (x_err_addr),
    .feed_err_i       (w_err),
    .feed_err_layer_i (w_err_layer),
    .rd_idle_i        (rd_idle),
    .rd_progress_i    (p_rd_progress),
    .rd_err_i         (p_rd_err),
    .rd_err_dec_i     (p_rd_dec),
    .rd_err_addr_i    (p_rd_err_addr),
    .wr_idle_i        (wr_idle),
    .wr_progress_i    (p_wr_progress),
    .wr_err_i         (p_wr_err),
    .wr_err_dec_i     (p_wr_dec),
    .wr_err_addr_i    (p_wr_err_addr)
  );

  npu_counters #(.N_AXI(N_AXI), .AXI_BYTES(AXI_BYTES)) u_counters (
    .mac_cycle_i    (mac_cycle),
    .macs_i         (macs),
    .dw_macs_i      (dw_macs),
    .stall_weights_i(st_weights),
    .stall_acts_i   (st_acts),
    .stall_pool_i   (st_pool),
    .stall_drain_i  (st_drain),
    .stall_depth_i  (st_depth),
    .rd_stall_i     (p_rd_stall),
    .rd_beat_i      (p_rd_beat),
    .wr_stall_i     (p_wr_stall),
    .wr_bytes_i     (p_wr_bytes),
    .cnt_inc_o
  );

  logic unused;
  assign unused = ^{l_index_unused, l_last_unused, run_elem[23:EW]};
endmodule
