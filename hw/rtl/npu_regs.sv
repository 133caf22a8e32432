// Registers of the NPU behind AXI4-Lite: everything in hw/abi/abi.yaml, addresses from abi_pkg.
//
// Bus. AW and W come in any order; one transaction is carried out at a time, a complete write
// before a waiting read. A write is answered 2 cycles after the later of AW and W was taken, a read
// 2 cycles after AR; so at best one transaction every 2 cycles. Address bits 1:0 are ignored.
//
// Answers. SLVERR, and no effect at all, for
//   - an address that has no register, a write to a read-only one,
//   - a write while a start runs to a register that is not "busy: ok",
//   - a write that sets a bit the register does not have (byte strobes considered),
//   - CTRL: START while a start runs, START together with any other bit, CLEAR_COUNTERS while a
//     start runs,
//   - FBCB_DATA: a write without all four strobes, or with a reserved bit of fbcb_t set.
// Byte strobes are honoured everywhere else; a write without strobes changes nothing and is OKAY.
// Reads are always allowed; write-only registers read as zero. ACCESS.REFUSED remembers that something was
// refused. With QUIET such an answer is OKAY (a read's data zero) and ACCESS alone shows it: an SLVERR can abort
// the process that wrote. Bases have ADDR_BITS bits: more are bits that the register does not have.
//
// Core. start_o and soft_reset_o are pulses of one cycle. The core answers start_o with busy_i
// (or at once with done_i or error_i) and ends every start with one pulse of done_i or error_i; it
// ignores soft_reset_o while idle. Between start_o and the core's answer the block counts as busy.
// cnt_inc_i holds one increment of 16 bits a counter, added in every cycle with busy_i; STARTS and
// INTERRUPTS are counted here and their increments ignored. TIME counts every cycle since the reset,
// and has a latch for its high word of its own, so that a clock and counters may be read by two.
module npu_regs #(
  parameter int unsigned T_R         = 256,
  parameter int unsigned T_P         = 8,
  parameter int unsigned T_C         = 32,
  parameter int unsigned N_AXI       = 1,
  parameter int unsigned AXI_BYTES   = 8,
  parameter int unsigned MAX_BURST   = 16,
  parameter int unsigned ABUF_WORDS  = 1024,
  parameter int unsigned WRING_BEATS = 512,
  parameter int unsigned C_MAX       = 512,
  parameter int unsigned STUB        = 0,
  parameter int unsigned STACK       = 1,
  parameter int unsigned FLUID       = 1,
  parameter int unsigned DEPTHWISE   = 0,
  parameter int unsigned POST        = 0,
  parameter int unsigned ADDR_BITS   = abi_pkg::ADDR_BITS,
  parameter int unsigned QUIET       = 0,
  parameter logic [63:0] DESIGN_HASH = 64'h0,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned CN = abi_pkg::CNT_COUNT,
  localparam int unsigned SW = 6,  // bits of a slot number
  localparam int unsigned FW = $clog2(abi_pkg::L_MAX * abi_pkg::B_MAX)
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  // AXI4-Lite
  input  logic                      awvalid_i,
  output logic                      awready_o,
  input  logic [11:0]               awaddr_i,
  input  logic                      wvalid_i,
  output logic                      wready_o,
  input  logic [31:0]               wdata_i,
  input  logic [3:0]                wstrb_i,
  output logic                      bvalid_o,
  input  logic                      bready_i,
  output logic [1:0]                bresp_o,
  input  logic                      arvalid_i,
  output logic                      arready_o,
  input  logic [11:0]               araddr_i,
  output logic                      rvalid_o,
  input  logic                      rready_i,
  output logic [31:0]               rdata_o,
  output logic [1:0]                rresp_o,
  output logic                      irq_o,
  // to the core
  output logic                      start_o,
  output logic                      soft_reset_o,
  output logic [7:0]                first_layer_o,
  output logic [7:0]                last_layer_o,
  output logic [3:0]                b_act_o,
  output logic [AW-1:0]             desc_base_o,
  output logic [AW-1:0]             weight_base_o,
  output logic [AW-1:0]             slot_base_o,
  output logic [31:0]               slot_stride_o,
  output logic [6:0]                n_slot_o,
  output logic [abi_pkg::B_MAX*SW-1:0] slot_table_o,
  output logic [31:0]               watchdog_o,
  output logic                      fbcb_we_o,
  output logic [FW-1:0]             fbcb_waddr_o,
  output logic [31:0]               fbcb_wdata_o,
  // from the core
  input  logic                      busy_i,
  input  logic                      done_i,
  input  logic                      error_i,
  input  logic [7:0]                err_code_i,
  input  logic [7:0]                err_layer_i,
  input  logic [3:0]                err_port_i,
  input  logic [31:0]               err_addr_i,
  input  logic [CN*16-1:0]          cnt_inc_i
);
  localparam logic [1:0] RespOkay = 2'b00;
  localparam logic [1:0] RespRefused = (QUIET != 0) ? RespOkay : 2'b10;  // SLVERR
  localparam logic [31:0] HighMask = 32'((64'd1 << (ADDR_BITS - 32)) - 64'd1);
  localparam int unsigned NB = 1 << $clog2(2 * T_P);

  if (T_P < 2 || T_C < 2 || T_R < 16) $fatal(1, "npu_regs: T_R, T_P or T_C is too small");
  if (N_AXI < 1 || N_AXI > 4) $fatal(1, "npu_regs: N_AXI is not in 1..4");
  if (AXI_BYTES != 8 && AXI_BYTES != 16) $fatal(1, "npu_regs: AXI_BYTES is neither 8 nor 16");
  if (MAX_BURST < 1 || MAX_BURST > 256) $fatal(1, "npu_regs: MAX_BURST is not in 1..256");
  if (STUB > 1 || STACK > 1 || FLUID > 1 || POST > 1 || QUIET > 1 || DEPTHWISE > 1) begin
    $fatal(1, "npu_regs: STUB, STACK, FLUID, POST, QUIET, DEPTHWISE are 0 or 1");
  end
  if (ADDR_BITS < 32 || ADDR_BITS > AW) $fatal(1, "npu_regs: ADDR_BITS is not in 32..%0d", AW);
  if (abi_pkg::REG_SLOT_TABLE_MASK != 32'((1 << SW) - 1)
      || abi_pkg::REG_SLOT_TABLE_COUNT != abi_pkg::B_MAX) begin
    $fatal(1, "npu_regs: SLOT_TABLE is not B_MAX registers of %0d bits", SW);
  end
  if (abi_pkg::REG_IRQ_STATUS_MASK != 32'h3 || abi_pkg::REG_IRQ_ENABLE_MASK != 32'h3
      || abi_pkg::REG_N_SLOT_MASK != 32'h7F || abi_pkg::REG_ACCESS_MASK != 32'h1) begin
    $fatal(1, "npu_regs: IRQ_STATUS, IRQ_ENABLE, N_SLOT or ACCESS has other bits than are kept here");
  end
  if (abi_pkg::REG_FBCB_ADDR_MASK != 32'((1 << FW) - 1)) begin
    $fatal(1, "npu_regs: FBCB_ADDR is not %0d bits", FW);
  end

  // ---- bus: what has been taken and waits
  logic        aw_full_q, w_full_q, ar_full_q, aw_full_d, w_full_d, ar_full_d;
  logic [9:0]  aw_q, ar_q, aw_d, ar_d, addr_q;
  logic [31:0] wdata_q;
  logic [3:0]  wstrb_q;
  logic        bvalid_q, rvalid_q, bvalid_d, rvalid_d;
  logic        do_write_q, do_read_q, do_write_d, do_read_d;  // executed now; in the next cycle

  assign awready_o = !aw_full_q;
  assign wready_o = !w_full_q;
  assign arready_o = !ar_full_q;
  assign aw_full_d = aw_full_q ? !do_write_q : awvalid_i;
  assign w_full_d = w_full_q ? !do_write_q : wvalid_i;
  assign ar_full_d = ar_full_q ? !do_read_q : arvalid_i;
  assign bvalid_d = do_write_q || (bvalid_q && !bready_i);
  assign rvalid_d = do_read_q || (rvalid_q && !rready_i);
  assign do_write_d = aw_full_d && w_full_d && !bvalid_d;
  assign do_read_d = ar_full_d && !rvalid_d && !do_write_d;
  assign aw_d = aw_full_q ? aw_q : awaddr_i[11:2];
  assign ar_d = ar_full_q ? ar_q : araddr_i[11:2];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      aw_full_q <= 1'b0;
      w_full_q <= 1'b0;
      ar_full_q <= 1'b0;
      bvalid_q <= 1'b0;
      rvalid_q <= 1'b0;
      do_write_q <= 1'b0;
      do_read_q <= 1'b0;
    end else begin
      aw_full_q <= aw_full_d;
      w_full_q <= w_full_d;
      ar_full_q <= ar_full_d;
      bvalid_q <= bvalid_d;
      rvalid_q <= rvalid_d;
      do_write_q <= do_write_d;
      do_read_q <= do_read_d;
    end
  end

  always_ff @(posedge clk_i) begin
    aw_q <= aw_d;
    ar_q <= ar_d;
    addr_q <= do_write_d ? aw_d : ar_d;
    if (wready_o) begin
      wdata_q <= wdata_i;
      wstrb_q <= wstrb_i;
    end
  end

  logic unused_addr;
  assign unused_addr = ^{awaddr_i[1:0], araddr_i[1:0]};

  // ---- state
  logic [31:0] scratch0_q, scratch1_q, slot_stride_q, watchdog_q;
  logic [1:0]  irq_status_q, irq_enable_q;
  logic        pending_q, start_q, soft_reset_q, done_q, error_q, fbcb_we_q;
  logic [31:0] error_reg_q, error_addr_q, fbcb_wdata_q;
  logic [7:0]  first_q, last_q;
  logic [3:0]  b_act_q;
  logic [AW-1:0] desc_base_q, weight_base_q, slot_base_q;
  logic [6:0]  n_slot_q;
  logic [FW-1:0] fbcb_addr_q, fbcb_waddr_q;
  logic [abi_pkg::B_MAX*SW-1:0] slot_table_q;
  logic [CN*64-1:0] cnt_q;
  logic [31:0] cnt_hi_q;
  logic [63:0] time_q;
  logic [31:0] time_hi_q;
  logic        refused_q;

  logic busy;
  assign busy = busy_i || pending_q;

  // ---- decode: reads and writes share it, since one is carried out at a time
  logic [11:0] addr;
  logic        hit, writable, busy_ok;
  logic [31:0] mask, value;
  logic        is_cnt_lo;
  logic [63:0] cnt_sel;

  assign addr = {addr_q, 2'b00};

  always_comb begin
    cnt_sel = '0;
    is_cnt_lo = 1'b0;
    for (int unsigned i = 0; i < CN; i++) begin
      if (addr == abi_pkg::CNT_BASE + 12'(8 * i)) begin
        cnt_sel = cnt_q[64*i+:64];
        is_cnt_lo = 1'b1;
      end
    end
  end

  always_comb begin
    hit = 1'b1;
    writable = 1'b0;
    busy_ok = 1'b0;
    mask = '0;
    value = '0;
    case (addr)
      abi_pkg::REG_ID: value = abi_pkg::ID;
      abi_pkg::REG_VERSION: value = abi_pkg::ABI_VERSION;
      abi_pkg::REG_ABI_HASH0: value = abi_pkg::ABI_HASH[31:0];
      abi_pkg::REG_ABI_HASH1: value = abi_pkg::ABI_HASH[63:32];
      abi_pkg::REG_DESIGN_HASH0: value = DESIGN_HASH[31:0];
      abi_pkg::REG_DESIGN_HASH1: value = DESIGN_HASH[63:32];
      abi_pkg::REG_BUILD_TR: value = T_R;
      abi_pkg::REG_BUILD_TP: value = T_P;
      abi_pkg::REG_BUILD_TC: value = T_C;
      abi_pkg::REG_BUILD_AXI: begin
        value = (N_AXI << abi_pkg::REG_BUILD_AXI_N_AXI_LSB)
              | (AXI_BYTES << abi_pkg::REG_BUILD_AXI_AXI_BYTES_LSB)
              | (MAX_BURST << abi_pkg::REG_BUILD_AXI_MAX_BURST_LSB)
              | (STUB << abi_pkg::REG_BUILD_AXI_STUB_LSB)
              | (STACK << abi_pkg::REG_BUILD_AXI_STACK_LSB)
              | (FLUID << abi_pkg::REG_BUILD_AXI_FLUID_LSB)
              | (QUIET << abi_pkg::REG_BUILD_AXI_QUIET_LSB)
              | (POST << abi_pkg::REG_BUILD_AXI_POST_LSB)
              | (DEPTHWISE << abi_pkg::REG_BUILD_AXI_DEPTHWISE_LSB);
      end
      abi_pkg::REG_BUILD_ABUF: value = NB * ABUF_WORDS;
      abi_pkg::REG_BUILD_WRING: value = WRING_BEATS;
      abi_pkg::REG_BUILD_CMAX: value = C_MAX;
      abi_pkg::REG_SCRATCH0: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_SCRATCH0_BUSY_OK;
        mask = abi_pkg::REG_SCRATCH0_MASK;
        value = scratch0_q;
      end
      abi_pkg::REG_SCRATCH1: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_SCRATCH1_BUSY_OK;
        mask = abi_pkg::REG_SCRATCH1_MASK;
        value = scratch1_q;
      end
      abi_pkg::REG_CTRL: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_CTRL_BUSY_OK;
        mask = abi_pkg::REG_CTRL_MASK;
      end
      abi_pkg::REG_STATUS: begin
        value[abi_pkg::REG_STATUS_BUSY_LSB] = busy;
        value[abi_pkg::REG_STATUS_DONE_LSB] = done_q;
        value[abi_pkg::REG_STATUS_ERROR_LSB] = error_q;
      end
      abi_pkg::REG_IRQ_STATUS: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_IRQ_STATUS_BUSY_OK;
        mask = abi_pkg::REG_IRQ_STATUS_MASK;
        value[1:0] = irq_status_q;
      end
      abi_pkg::REG_IRQ_ENABLE: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_IRQ_ENABLE_BUSY_OK;
        mask = abi_pkg::REG_IRQ_ENABLE_MASK;
        value[1:0] = irq_enable_q;
      end
      abi_pkg::REG_ERROR: value = error_reg_q;
      abi_pkg::REG_ERROR_ADDR: value = error_addr_q;
      abi_pkg::REG_LAYERS: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_LAYERS_BUSY_OK;
        mask = abi_pkg::REG_LAYERS_MASK;
        value[abi_pkg::REG_LAYERS_FIRST_LSB+:abi_pkg::REG_LAYERS_FIRST_W] = first_q;
        value[abi_pkg::REG_LAYERS_LAST_LSB+:abi_pkg::REG_LAYERS_LAST_W] = last_q;
      end
      abi_pkg::REG_BATCH: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_BATCH_BUSY_OK;
        mask = abi_pkg::REG_BATCH_MASK;
        value[abi_pkg::REG_BATCH_B_ACT_LSB+:abi_pkg::REG_BATCH_B_ACT_W] = b_act_q;
      end
      abi_pkg::REG_DESC_BASE_LO: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_DESC_BASE_LO_BUSY_OK;
        mask = abi_pkg::REG_DESC_BASE_LO_MASK;
        value = desc_base_q[31:0];
      end
      abi_pkg::REG_DESC_BASE_HI: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_DESC_BASE_HI_BUSY_OK;
        mask = abi_pkg::REG_DESC_BASE_HI_MASK & HighMask;
        value = 32'(desc_base_q[AW-1:32]);
      end
      abi_pkg::REG_WEIGHT_BASE_LO: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_WEIGHT_BASE_LO_BUSY_OK;
        mask = abi_pkg::REG_WEIGHT_BASE_LO_MASK;
        value = weight_base_q[31:0];
      end
      abi_pkg::REG_WEIGHT_BASE_HI: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_WEIGHT_BASE_HI_BUSY_OK;
        mask = abi_pkg::REG_WEIGHT_BASE_HI_MASK & HighMask;
        value = 32'(weight_base_q[AW-1:32]);
      end
      abi_pkg::REG_SLOT_BASE_LO: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_SLOT_BASE_LO_BUSY_OK;
        mask = abi_pkg::REG_SLOT_BASE_LO_MASK;
        value = slot_base_q[31:0];
      end
      abi_pkg::REG_SLOT_BASE_HI: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_SLOT_BASE_HI_BUSY_OK;
        mask = abi_pkg::REG_SLOT_BASE_HI_MASK & HighMask;
        value = 32'(slot_base_q[AW-1:32]);
      end
      abi_pkg::REG_SLOT_STRIDE: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_SLOT_STRIDE_BUSY_OK;
        mask = abi_pkg::REG_SLOT_STRIDE_MASK;
        value = slot_stride_q;
      end
      abi_pkg::REG_N_SLOT: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_N_SLOT_BUSY_OK;
        mask = abi_pkg::REG_N_SLOT_MASK;
        value[6:0] = n_slot_q;
      end
      abi_pkg::REG_WATCHDOG: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_WATCHDOG_BUSY_OK;
        mask = abi_pkg::REG_WATCHDOG_MASK;
        value = watchdog_q;
      end
      abi_pkg::REG_FBCB_ADDR: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_FBCB_ADDR_BUSY_OK;
        mask = abi_pkg::REG_FBCB_ADDR_MASK;
        value[FW-1:0] = fbcb_addr_q;
      end
      abi_pkg::REG_FBCB_DATA: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_FBCB_DATA_BUSY_OK;
        mask = abi_pkg::REG_FBCB_DATA_MASK & ~abi_pkg::FBCB_RSVD_MASK;
      end
      abi_pkg::REG_TIME_LO: value = time_q[31:0];
      abi_pkg::REG_TIME_HI: value = time_hi_q;
      abi_pkg::REG_ACCESS: begin
        writable = 1'b1;
        busy_ok = abi_pkg::REG_ACCESS_BUSY_OK;
        mask = abi_pkg::REG_ACCESS_MASK;
        value[abi_pkg::REG_ACCESS_REFUSED_LSB] = refused_q;
      end
      default: begin
        hit = is_cnt_lo;
        value = cnt_sel[31:0];
        for (int unsigned i = 0; i < CN; i++) begin
          if (addr == abi_pkg::CNT_BASE + 12'(8 * i + 4)) begin
            hit = 1'b1;
            value = cnt_hi_q;
          end
        end
        for (int unsigned i = 0; i < abi_pkg::REG_SLOT_TABLE_COUNT; i++) begin
          if (addr == abi_pkg::REG_SLOT_TABLE + 12'(4 * i)) begin
            hit = 1'b1;
            writable = 1'b1;
            busy_ok = abi_pkg::REG_SLOT_TABLE_BUSY_OK;
            mask = abi_pkg::REG_SLOT_TABLE_MASK;
            value[SW-1:0] = slot_table_q[SW*i+:SW];
          end
        end
      end
    endcase
  end

  // ---- writes: a bit changes if its byte is strobed, which is the clock enable
  logic [31:0] strobes, set;
  logic        is_ctrl, ctrl_start, ctrl_reset, ctrl_clear, ctrl_ok, ctrl_go, reg_ok, write_ok, we;

  assign strobes = {{8{wstrb_q[3]}}, {8{wstrb_q[2]}}, {8{wstrb_q[1]}}, {8{wstrb_q[0]}}};
  assign set = wdata_q & strobes;
  assign is_ctrl = addr == abi_pkg::REG_CTRL;
  assign ctrl_start = set[abi_pkg::REG_CTRL_START_LSB];
  assign ctrl_reset = set[abi_pkg::REG_CTRL_SOFT_RESET_LSB];
  assign ctrl_clear = set[abi_pkg::REG_CTRL_CLEAR_COUNTERS_LSB];

  always_comb begin
    // commands are decoded separately: they affect what a start changes, without waiting for the
    // address decoder
    ctrl_ok = (abi_pkg::REG_CTRL_BUSY_OK || !busy) && (set & ~abi_pkg::REG_CTRL_MASK) == '0;
    if (ctrl_start && (busy || ctrl_reset || ctrl_clear)) ctrl_ok = 1'b0;
    if (ctrl_clear && busy) ctrl_ok = 1'b0;
    reg_ok = hit && writable && (busy_ok || !busy) && (set & ~mask) == '0;
    if (addr == abi_pkg::REG_FBCB_DATA && wstrb_q != 4'hF) reg_ok = 1'b0;
    write_ok = is_ctrl ? ctrl_ok : reg_ok;
  end

  assign we = do_write_q && reg_ok;
  assign ctrl_go = do_write_q && is_ctrl && ctrl_ok;

  always_ff @(posedge clk_i) begin
    if (do_write_q) bresp_o <= write_ok ? RespOkay : RespRefused;
    if (do_read_q) begin
      rresp_o <= hit ? RespOkay : RespRefused;
      rdata_o <= hit ? value : '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      scratch0_q <= '0;
      scratch1_q <= '0;
      irq_enable_q <= '0;
      first_q <= '0;
      last_q <= '0;
      b_act_q <= '0;
      desc_base_q <= '0;
      weight_base_q <= '0;
      slot_base_q <= '0;
      slot_stride_q <= '0;
      n_slot_q <= '0;
      watchdog_q <= '0;
      fbcb_addr_q <= '0;
      slot_table_q <= '0;
    end else if (we) begin
      case (addr)
        abi_pkg::REG_SCRATCH0: for (int i = 0; i < 32; i++) if (strobes[i]) scratch0_q[i] <= wdata_q[i];
        abi_pkg::REG_SCRATCH1: for (int i = 0; i < 32; i++) if (strobes[i]) scratch1_q[i] <= wdata_q[i];
        abi_pkg::REG_IRQ_ENABLE: for (int i = 0; i < 2; i++) if (strobes[i]) irq_enable_q[i] <= wdata_q[i];
        abi_pkg::REG_LAYERS: begin
          for (int i = 0; i < abi_pkg::REG_LAYERS_FIRST_W; i++) begin
            if (strobes[abi_pkg::REG_LAYERS_FIRST_LSB+i]) first_q[i] <= wdata_q[abi_pkg::REG_LAYERS_FIRST_LSB+i];
          end
          for (int i = 0; i < abi_pkg::REG_LAYERS_LAST_W; i++) begin
            if (strobes[abi_pkg::REG_LAYERS_LAST_LSB+i]) last_q[i] <= wdata_q[abi_pkg::REG_LAYERS_LAST_LSB+i];
          end
        end
        abi_pkg::REG_BATCH: begin
          for (int i = 0; i < abi_pkg::REG_BATCH_B_ACT_W; i++) begin
            if (strobes[abi_pkg::REG_BATCH_B_ACT_LSB+i]) b_act_q[i] <= wdata_q[abi_pkg::REG_BATCH_B_ACT_LSB+i];
          end
        end
        abi_pkg::REG_DESC_BASE_LO: for (int i = 0; i < 32; i++) if (strobes[i]) desc_base_q[i] <= wdata_q[i];
        abi_pkg::REG_DESC_BASE_HI: for (int i = 0; i < AW - 32; i++) if (strobes[i]) desc_base_q[32 + i] <= wdata_q[i];
        abi_pkg::REG_WEIGHT_BASE_LO: for (int i = 0; i < 32; i++) if (strobes[i]) weight_base_q[i] <= wdata_q[i];
        abi_pkg::REG_WEIGHT_BASE_HI: for (int i = 0; i < AW - 32; i++) if (strobes[i]) weight_base_q[32 + i] <= wdata_q[i];
        abi_pkg::REG_SLOT_BASE_LO: for (int i = 0; i < 32; i++) if (strobes[i]) slot_base_q[i] <= wdata_q[i];
        abi_pkg::REG_SLOT_BASE_HI: for (int i = 0; i < AW - 32; i++) if (strobes[i]) slot_base_q[32 + i] <= wdata_q[i];
        abi_pkg::REG_SLOT_STRIDE: for (int i = 0; i < 32; i++) if (strobes[i]) slot_stride_q[i] <= wdata_q[i];
        abi_pkg::REG_N_SLOT: for (int i = 0; i < 7; i++) if (strobes[i]) n_slot_q[i] <= wdata_q[i];
        abi_pkg::REG_WATCHDOG: for (int i = 0; i < 32; i++) if (strobes[i]) watchdog_q[i] <= wdata_q[i];
        abi_pkg::REG_FBCB_ADDR: for (int i = 0; i < FW; i++) if (strobes[i]) fbcb_addr_q[i] <= wdata_q[i];
        abi_pkg::REG_FBCB_DATA: fbcb_addr_q <= fbcb_addr_q + 1'b1;
        default: begin
          for (int unsigned i = 0; i < abi_pkg::REG_SLOT_TABLE_COUNT; i++) begin
            if (addr == abi_pkg::REG_SLOT_TABLE + 12'(4 * i)) begin
              for (int unsigned b = 0; b < SW; b++) if (strobes[b]) slot_table_q[SW*i+b] <= wdata_q[b];
            end
          end
        end
      endcase
    end
  end

  // ---- commands, ends, interrupts
  logic start_d, done, ended, clear;
  assign start_d = ctrl_go && ctrl_start;
  assign clear = ctrl_go && ctrl_clear;
  assign done = done_i && !error_i;
  assign ended = done_i || error_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      start_q <= 1'b0;
      soft_reset_q <= 1'b0;
      fbcb_we_q <= 1'b0;
      pending_q <= 1'b0;
      done_q <= 1'b0;
      error_q <= 1'b0;
      irq_status_q <= '0;
      error_reg_q <= '0;
      error_addr_q <= '0;
    end else begin
      start_q <= start_d;
      soft_reset_q <= ctrl_go && ctrl_reset;
      fbcb_we_q <= we && addr == abi_pkg::REG_FBCB_DATA;
      if (start_d) pending_q <= 1'b1;
      else if (busy_i || ended) pending_q <= 1'b0;

      // an event during its own clearing is kept
      if (we && addr == abi_pkg::REG_IRQ_STATUS) irq_status_q <= irq_status_q & ~set[1:0];
      if (done) irq_status_q[abi_pkg::REG_IRQ_STATUS_DONE_LSB] <= 1'b1;
      if (error_i) irq_status_q[abi_pkg::REG_IRQ_STATUS_ERROR_LSB] <= 1'b1;

      if (start_d || ended) begin
        done_q <= done;
        error_q <= error_i;
        error_reg_q <= '0;
        error_addr_q <= '0;
        if (error_i) begin
          error_reg_q[abi_pkg::REG_ERROR_CODE_LSB+:abi_pkg::REG_ERROR_CODE_W] <= err_code_i;
          error_reg_q[abi_pkg::REG_ERROR_LAYER_LSB+:abi_pkg::REG_ERROR_LAYER_W] <= err_layer_i;
          error_reg_q[abi_pkg::REG_ERROR_PORT_LSB+:abi_pkg::REG_ERROR_PORT_W] <= err_port_i;
          error_addr_q <= err_addr_i;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    fbcb_waddr_q <= fbcb_addr_q;
    fbcb_wdata_q <= wdata_q;
  end

  // ---- counters: increments are registered first, which keeps the adders out of the core's paths
  logic [CN*16-1:0] inc_q;

  always_ff @(posedge clk_i) begin
    inc_q <= busy_i ? cnt_inc_i : '0;
    inc_q[16*abi_pkg::CNT_STARTS+:16] <= {15'b0, start_d};
    inc_q[16*abi_pkg::CNT_INTERRUPTS+:16] <= {15'b0, ended};
    if (!rst_ni) inc_q <= '0;
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < CN; i++) begin
      cnt_q[64*i+:64] <= cnt_q[64*i+:64] + {48'b0, inc_q[16*i+:16]};
    end
    if (!rst_ni || clear) cnt_q <= '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) cnt_hi_q <= '0;
    else if (do_read_q && is_cnt_lo) cnt_hi_q <= cnt_sel[63:32];
  end

  always_ff @(posedge clk_i) begin
    time_q <= time_q + 1'b1;
    if (do_read_q && addr == abi_pkg::REG_TIME_LO) time_hi_q <= time_q[63:32];
    if (!rst_ni) begin
      time_q <= '0;
      time_hi_q <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    refused_q <= rst_ni && ((do_write_q && !write_ok) || (do_read_q && !hit)
                 || (refused_q && !(we && addr == abi_pkg::REG_ACCESS && set[abi_pkg::REG_ACCESS_REFUSED_LSB])));
  end

  assign bvalid_o = bvalid_q;
  assign rvalid_o = rvalid_q;
  assign irq_o = |(irq_status_q & irq_enable_q);
  assign start_o = start_q;
  assign soft_reset_o = soft_reset_q;
  assign first_layer_o = first_q;
  assign last_layer_o = last_q;
  assign b_act_o = b_act_q;
  assign desc_base_o = desc_base_q;
  assign weight_base_o = weight_base_q;
  assign slot_base_o = slot_base_q;
  assign slot_stride_o = slot_stride_q;
  assign n_slot_o = n_slot_q;
  assign slot_table_o = slot_table_q;
  assign watchdog_o = watchdog_q;
  assign fbcb_we_o = fbcb_we_q;
  assign fbcb_waddr_o = fbcb_waddr_q;
  assign fbcb_wdata_o = fbcb_wdata_q;
endmodule
