// Stands in for the RTL that Vitis exports, if there is no Vitis: its ports as UG1399 documents
// them for ap_ctrl_hs, stable scalars, ap_memory, ap_vld and m_axi bundles (64-bit addresses, IDs
// and users of one bit), with the kernel's C++ behind them. It is only functional: a start reads
// the FBCB and BEATS beats of memory from BASE on through all four bundles at once, runs the C++ on
// them in zero time, and writes back the bursts that have changed.
//
// Its ports behave as an adapter may: a bundle requests up to DEPTH bursts before the first is
// answered, and takes data only in some cycles, at times for a while not at all; write addresses
// are ahead of their data, which have gaps; answers wait. Its requests respect what Vitis states
// about its adapters: that they have room for all that they request.
module sluice_npu #(
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned BURST     = 4,
  parameter int unsigned BEATS     = 65536,
  localparam int unsigned DW = AXI_BYTES * 8
) (
  input  logic        ap_clk,
  input  logic        ap_rst_n,
  input  logic        ap_start,
  output logic        ap_done,
  output logic        ap_idle,
  output logic        ap_ready,
  input  logic [7:0]  first,
  input  logic [7:0]  last,
  input  logic [3:0]  b_act,
  input  logic [39:0] desc_base,
  input  logic [39:0] weight_base,
  input  logic [39:0] slot_base,
  input  logic [31:0] slot_stride,
  input  logic [6:0]  n_slot,
  input  logic [47:0] slot_table,
  output logic [10:0] fbcb_address0,
  output logic        fbcb_ce0,
  input  logic [31:0] fbcb_q0,
  output logic [7:0]  err_code,
  output logic        err_code_ap_vld,
  output logic [7:0]  err_layer,
  output logic        err_layer_ap_vld,
  output logic [31:0] err_addr,
  output logic        err_addr_ap_vld,
  output logic              m_axi_a_AWVALID,
  output logic [63:0]       m_axi_a_AWADDR,
  output logic              m_axi_a_AWID,
  output logic [7:0]        m_axi_a_AWLEN,
  output logic [2:0]        m_axi_a_AWSIZE,
  output logic [1:0]        m_axi_a_AWBURST,
  output logic [1:0]        m_axi_a_AWLOCK,
  output logic [3:0]        m_axi_a_AWCACHE,
  output logic [2:0]        m_axi_a_AWPROT,
  output logic [3:0]        m_axi_a_AWQOS,
  output logic [3:0]        m_axi_a_AWREGION,
  output logic              m_axi_a_AWUSER,
  input  logic              m_axi_a_AWREADY,
  output logic              m_axi_a_WVALID,
  output logic [DW-1:0]     m_axi_a_WDATA,
  output logic [AXI_BYTES-1:0] m_axi_a_WSTRB,
  output logic              m_axi_a_WLAST,
  output logic              m_axi_a_WID,
  output logic              m_axi_a_WUSER,
  input  logic              m_axi_a_WREADY,
  output logic              m_axi_a_ARVALID,
  output logic [63:0]       m_axi_a_ARADDR,
  output logic              m_axi_a_ARID,
  output logic [7:0]        m_axi_a_ARLEN,
  output logic [2:0]        m_axi_a_ARSIZE,
  output logic [1:0]        m_axi_a_ARBURST,
  output logic [1:0]        m_axi_a_ARLOCK,
  output logic [3:0]        m_axi_a_ARCACHE,
  output logic [2:0]        m_axi_a_ARPROT,
  output logic [3:0]        m_axi_a_ARQOS,
  output logic [3:0]        m_axi_a_ARREGION,
  output logic              m_axi_a_ARUSER,
  input  logic              m_axi_a_ARREADY,
  input  logic              m_axi_a_RVALID,
  output logic              m_axi_a_RREADY,
  input  logic [DW-1:0]     m_axi_a_RDATA,
  input  logic              m_axi_a_RLAST,
  input  logic              m_axi_a_RID,
  input  logic              m_axi_a_RUSER,
  input  logic [1:0]        m_axi_a_RRESP,
  input  logic              m_axi_a_BVALID,
  output logic              m_axi_a_BREADY,
  input  logic [1:0]        m_axi_a_BRESP,
  input  logic              m_axi_a_BID,
  input  logic              m_axi_a_BUSER,
  output logic              m_axi_w_AWVALID,
  output logic [63:0]       m_axi_w_AWADDR,
  output logic              m_axi_w_AWID,
  output logic [7:0]        m_axi_w_AWLEN,
  output logic [2:0]        m_axi_w_AWSIZE,
  output logic [1:0]        m_axi_w_AWBURST,
  output logic [1:0]        m_axi_w_AWLOCK,
  output logic [3:0]        m_axi_w_AWCACHE,
  output logic [2:0]        m_axi_w_AWPROT,
  output logic [3:0]        m_axi_w_AWQOS,
  output logic [3:0]        m_axi_w_AWREGION,
  output logic              m_axi_w_AWUSER,
  input  logic              m_axi_w_AWREADY,
  output logic              m_axi_w_WVALID,
  output logic [DW-1:0]     m_axi_w_WDATA,
  output logic [AXI_BYTES-1:0] m_axi_w_WSTRB,
  output logic              m_axi_w_WLAST,
  output logic              m_axi_w_WID,
  output logic              m_axi_w_WUSER,
  input  logic              m_axi_w_WREADY,
  output logic              m_axi_w_ARVALID,
  output logic [63:0]       m_axi_w_ARADDR,
  output logic              m_axi_w_ARID,
  output logic [7:0]        m_axi_w_ARLEN,
  output logic [2:0]        m_axi_w_ARSIZE,
  output logic [1:0]        m_axi_w_ARBURST,
  output logic [1:0]        m_axi_w_ARLOCK,
  output logic [3:0]        m_axi_w_ARCACHE,
  output logic [2:0]        m_axi_w_ARPROT,
  output logic [3:0]        m_axi_w_ARQOS,
  output logic [3:0]        m_axi_w_ARREGION,
  output logic              m_axi_w_ARUSER,
  input  logic              m_axi_w_ARREADY,
  input  logic              m_axi_w_RVALID,
  output logic              m_axi_w_RREADY,
  input  logic [DW-1:0]     m_axi_w_RDATA,
  input  logic              m_axi_w_RLAST,
  input  logic              m_axi_w_RID,
  input  logic              m_axi_w_RUSER,
  input  logic [1:0]        m_axi_w_RRESP,
  input  logic              m_axi_w_BVALID,
  output logic              m_axi_w_BREADY,
  input  logic [1:0]        m_axi_w_BRESP,
  input  logic              m_axi_w_BID,
  input  logic              m_axi_w_BUSER,
  output logic              m_axi_r_AWVALID,
  output logic [63:0]       m_axi_r_AWADDR,
  output logic              m_axi_r_AWID,
  output logic [7:0]        m_axi_r_AWLEN,
  output logic [2:0]        m_axi_r_AWSIZE,
  output logic [1:0]        m_axi_r_AWBURST,
  output logic [1:0]        m_axi_r_AWLOCK,
  output logic [3:0]        m_axi_r_AWCACHE,
  output logic [2:0]        m_axi_r_AWPROT,
  output logic [3:0]        m_axi_r_AWQOS,
  output logic [3:0]        m_axi_r_AWREGION,
  output logic              m_axi_r_AWUSER,
  input  logic              m_axi_r_AWREADY,
  output logic              m_axi_r_WVALID,
  output logic [DW-1:0]     m_axi_r_WDATA,
  output logic [AXI_BYTES-1:0] m_axi_r_WSTRB,
  output logic              m_axi_r_WLAST,
  output logic              m_axi_r_WID,
  output logic              m_axi_r_WUSER,
  input  logic              m_axi_r_WREADY,
  output logic              m_axi_r_ARVALID,
  output logic [63:0]       m_axi_r_ARADDR,
  output logic              m_axi_r_ARID,
  output logic [7:0]        m_axi_r_ARLEN,
  output logic [2:0]        m_axi_r_ARSIZE,
  output logic [1:0]        m_axi_r_ARBURST,
  output logic [1:0]        m_axi_r_ARLOCK,
  output logic [3:0]        m_axi_r_ARCACHE,
  output logic [2:0]        m_axi_r_ARPROT,
  output logic [3:0]        m_axi_r_ARQOS,
  output logic [3:0]        m_axi_r_ARREGION,
  output logic              m_axi_r_ARUSER,
  input  logic              m_axi_r_ARREADY,
  input  logic              m_axi_r_RVALID,
  output logic              m_axi_r_RREADY,
  input  logic [DW-1:0]     m_axi_r_RDATA,
  input  logic              m_axi_r_RLAST,
  input  logic              m_axi_r_RID,
  input  logic              m_axi_r_RUSER,
  input  logic [1:0]        m_axi_r_RRESP,
  input  logic              m_axi_r_BVALID,
  output logic              m_axi_r_BREADY,
  input  logic [1:0]        m_axi_r_BRESP,
  input  logic              m_axi_r_BID,
  input  logic              m_axi_r_BUSER,
  output logic              m_axi_o_AWVALID,
  output logic [63:0]       m_axi_o_AWADDR,
  output logic              m_axi_o_AWID,
  output logic [7:0]        m_axi_o_AWLEN,
  output logic [2:0]        m_axi_o_AWSIZE,
  output logic [1:0]        m_axi_o_AWBURST,
  output logic [1:0]        m_axi_o_AWLOCK,
  output logic [3:0]        m_axi_o_AWCACHE,
  output logic [2:0]        m_axi_o_AWPROT,
  output logic [3:0]        m_axi_o_AWQOS,
  output logic [3:0]        m_axi_o_AWREGION,
  output logic              m_axi_o_AWUSER,
  input  logic              m_axi_o_AWREADY,
  output logic              m_axi_o_WVALID,
  output logic [DW-1:0]     m_axi_o_WDATA,
  output logic [AXI_BYTES-1:0] m_axi_o_WSTRB,
  output logic              m_axi_o_WLAST,
  output logic              m_axi_o_WID,
  output logic              m_axi_o_WUSER,
  input  logic              m_axi_o_WREADY,
  output logic              m_axi_o_ARVALID,
  output logic [63:0]       m_axi_o_ARADDR,
  output logic              m_axi_o_ARID,
  output logic [7:0]        m_axi_o_ARLEN,
  output logic [2:0]        m_axi_o_ARSIZE,
  output logic [1:0]        m_axi_o_ARBURST,
  output logic [1:0]        m_axi_o_ARLOCK,
  output logic [3:0]        m_axi_o_ARCACHE,
  output logic [2:0]        m_axi_o_ARPROT,
  output logic [3:0]        m_axi_o_ARQOS,
  output logic [3:0]        m_axi_o_ARREGION,
  output logic              m_axi_o_ARUSER,
  input  logic              m_axi_o_ARREADY,
  input  logic              m_axi_o_RVALID,
  output logic              m_axi_o_RREADY,
  input  logic [DW-1:0]     m_axi_o_RDATA,
  input  logic              m_axi_o_RLAST,
  input  logic              m_axi_o_RID,
  input  logic              m_axi_o_RUSER,
  input  logic [1:0]        m_axi_o_RRESP,
  input  logic              m_axi_o_BVALID,
  output logic              m_axi_o_BREADY,
  input  logic [1:0]        m_axi_o_BRESP,
  input  logic              m_axi_o_BID,
  input  logic              m_axi_o_BUSER
);
  import "DPI-C" function longint unsigned standin_base();
  import "DPI-C" function int unsigned standin_hangs();
  import "DPI-C" function void standin_fbcb(input int unsigned index, input int unsigned entry);
  import "DPI-C" function void standin_put(input int unsigned beat, input bit [DW-1:0] data);
  import "DPI-C" function void standin_run(input byte unsigned first, input byte unsigned last, input byte unsigned b_act,
      input longint unsigned desc_base, input longint unsigned weight_base, input longint unsigned slot_base,
      input int unsigned slot_stride, input byte unsigned n_slot, input longint unsigned slot_table,
      output byte unsigned code, output byte unsigned layer, output int unsigned address);
  import "DPI-C" function int unsigned standin_next(input int unsigned from, input int unsigned burst);
  import "DPI-C" function void standin_get(input int unsigned beat, output bit [DW-1:0] data);

  localparam int unsigned K = 4;
  localparam int unsigned ENTRIES = abi_pkg::L_MAX * abi_pkg::B_MAX;
  localparam logic [2:0] SIZE = 3'($clog2(AXI_BYTES));

  localparam int unsigned DEPTH = 4;

  typedef enum logic [2:0] {Idle, Entries, Reads, Compute, Results, Done} state_e;
  state_e state_q;
  longint unsigned base;
  initial base = standin_base();

  // ---- reads: every bundle every fourth burst
  logic [K-1:0] arvalid_q, rready, arready, rvalid;
  logic [31:0]  open_q [K];  // bursts that have been asked for and not answered
  logic [31:0]  chance_q;    // random bits
  for (genvar b = 0; b < K; b++) begin : gen_rready
    // data are taken in three cycles of four, but in 16 cycles of 64 not at all, at a different
    // time for each bundle
    assign rready[b] = state_q == Reads && (chance_q[b] || chance_q[b+9]) && pace_q[5:4] != 2'(b);
  end
  logic [5:0]   pace_q;
  always_ff @(posedge ap_clk) begin
    if (!ap_rst_n) begin
      chance_q <= 32'h1d872b41;
      pace_q <= '0;
    end else begin
      chance_q <= {chance_q[30:0], chance_q[31] ^ chance_q[21] ^ chance_q[1] ^ chance_q[0]};
      pace_q <= pace_q + 1'b1;
    end
  end
  logic [31:0]  burst_q [K];
  logic [31:0]  beat_q [K];
  logic [DW-1:0] rdata [K];
  logic [K-1:0] rlast, r_done_q;
  assign arready[0] = m_axi_a_ARREADY;
  assign rvalid[0] = m_axi_a_RVALID;
  assign rdata[0] = m_axi_a_RDATA;
  assign rlast[0] = m_axi_a_RLAST;
  assign m_axi_a_ARVALID = arvalid_q[0];
  assign m_axi_a_ARADDR = base + 64'(burst_q[0]) * BURST * AXI_BYTES;
  assign m_axi_a_ARLEN = 8'(BURST - 1);
  assign m_axi_a_RREADY = rready[0];
  assign {m_axi_a_ARID, m_axi_a_ARUSER, m_axi_a_ARLOCK, m_axi_a_ARPROT, m_axi_a_ARQOS, m_axi_a_ARREGION} = '0;
  assign {m_axi_a_ARSIZE, m_axi_a_ARBURST, m_axi_a_ARCACHE} = {SIZE, 2'b01, 4'b0011};
  assign {m_axi_a_AWVALID, m_axi_a_AWADDR, m_axi_a_AWID, m_axi_a_AWLEN, m_axi_a_AWSIZE, m_axi_a_AWBURST, m_axi_a_AWLOCK} = '0;
  assign {m_axi_a_AWCACHE, m_axi_a_AWPROT, m_axi_a_AWQOS, m_axi_a_AWREGION, m_axi_a_AWUSER, m_axi_a_BREADY} = '0;
  assign {m_axi_a_WVALID, m_axi_a_WDATA, m_axi_a_WSTRB, m_axi_a_WLAST, m_axi_a_WID, m_axi_a_WUSER} = '0;
  assign arready[1] = m_axi_w_ARREADY;
  assign rvalid[1] = m_axi_w_RVALID;
  assign rdata[1] = m_axi_w_RDATA;
  assign rlast[1] = m_axi_w_RLAST;
  assign m_axi_w_ARVALID = arvalid_q[1];
  assign m_axi_w_ARADDR = base + 64'(burst_q[1]) * BURST * AXI_BYTES;
  assign m_axi_w_ARLEN = 8'(BURST - 1);
  assign m_axi_w_RREADY = rready[1];
  assign {m_axi_w_ARID, m_axi_w_ARUSER, m_axi_w_ARLOCK, m_axi_w_ARPROT, m_axi_w_ARQOS, m_axi_w_ARREGION} = '0;
  assign {m_axi_w_ARSIZE, m_axi_w_ARBURST, m_axi_w_ARCACHE} = {SIZE, 2'b01, 4'b0011};
  assign {m_axi_w_AWVALID, m_axi_w_AWADDR, m_axi_w_AWID, m_axi_w_AWLEN, m_axi_w_AWSIZE, m_axi_w_AWBURST, m_axi_w_AWLOCK} = '0;
  assign {m_axi_w_AWCACHE, m_axi_w_AWPROT, m_axi_w_AWQOS, m_axi_w_AWREGION, m_axi_w_AWUSER, m_axi_w_BREADY} = '0;
  assign {m_axi_w_WVALID, m_axi_w_WDATA, m_axi_w_WSTRB, m_axi_w_WLAST, m_axi_w_WID, m_axi_w_WUSER} = '0;
  assign arready[2] = m_axi_r_ARREADY;
  assign rvalid[2] = m_axi_r_RVALID;
  assign rdata[2] = m_axi_r_RDATA;
  assign rlast[2] = m_axi_r_RLAST;
  assign m_axi_r_ARVALID = arvalid_q[2];
  assign m_axi_r_ARADDR = base + 64'(burst_q[2]) * BURST * AXI_BYTES;
  assign m_axi_r_ARLEN = 8'(BURST - 1);
  assign m_axi_r_RREADY = rready[2];
  assign {m_axi_r_ARID, m_axi_r_ARUSER, m_axi_r_ARLOCK, m_axi_r_ARPROT, m_axi_r_ARQOS, m_axi_r_ARREGION} = '0;
  assign {m_axi_r_ARSIZE, m_axi_r_ARBURST, m_axi_r_ARCACHE} = {SIZE, 2'b01, 4'b0011};
  assign {m_axi_r_AWVALID, m_axi_r_AWADDR, m_axi_r_AWID, m_axi_r_AWLEN, m_axi_r_AWSIZE, m_axi_r_AWBURST, m_axi_r_AWLOCK} = '0;
  assign {m_axi_r_AWCACHE, m_axi_r_AWPROT, m_axi_r_AWQOS, m_axi_r_AWREGION, m_axi_r_AWUSER, m_axi_r_BREADY} = '0;
  assign {m_axi_r_WVALID, m_axi_r_WDATA, m_axi_r_WSTRB, m_axi_r_WLAST, m_axi_r_WID, m_axi_r_WUSER} = '0;
  assign arready[3] = m_axi_o_ARREADY;
  assign rvalid[3] = m_axi_o_RVALID;
  assign rdata[3] = m_axi_o_RDATA;
  assign rlast[3] = m_axi_o_RLAST;
  assign m_axi_o_ARVALID = arvalid_q[3];
  assign m_axi_o_ARADDR = base + 64'(burst_q[3]) * BURST * AXI_BYTES;
  assign m_axi_o_ARLEN = 8'(BURST - 1);
  assign m_axi_o_RREADY = rready[3];
  assign {m_axi_o_ARID, m_axi_o_ARUSER, m_axi_o_ARLOCK, m_axi_o_ARPROT, m_axi_o_ARQOS, m_axi_o_ARREGION} = '0;
  assign {m_axi_o_ARSIZE, m_axi_o_ARBURST, m_axi_o_ARCACHE} = {SIZE, 2'b01, 4'b0011};

  // ---- writes: bursts that have changed; their addresses go from the requesting part to the
  // sending part
  logic [31:0] place_q [DEPTH];
  logic [31:0] asked_for_q, sent_bursts_q, answered_q, sent_q;
  logic        aw_q, w_q, w_last_q;
  logic [31:0] entry_q, out_q;
  logic        asked_q;
  bit [DW-1:0] word;
  logic [DW-1:0] w_data_q;
  byte unsigned code, layer;
  int unsigned  address;

  assign fbcb_ce0 = state_q == Entries;
  assign fbcb_address0 = entry_q[10:0];
  assign m_axi_o_AWVALID = aw_q;
  assign m_axi_o_AWADDR = base + 64'(out_q) * AXI_BYTES;
  assign m_axi_o_AWLEN = 8'(BURST - 1);
  assign {m_axi_o_AWID, m_axi_o_AWUSER, m_axi_o_AWLOCK, m_axi_o_AWPROT, m_axi_o_AWQOS, m_axi_o_AWREGION} = '0;
  assign {m_axi_o_AWSIZE, m_axi_o_AWBURST, m_axi_o_AWCACHE} = {SIZE, 2'b01, 4'b0011};
  assign m_axi_o_WVALID = w_q;
  assign m_axi_o_WDATA = w_data_q;
  assign m_axi_o_WSTRB = '1;
  assign m_axi_o_WLAST = w_last_q;
  assign {m_axi_o_WID, m_axi_o_WUSER} = '0;
  assign m_axi_o_BREADY = state_q == Results && chance_q[5];

  assign ap_idle = state_q == Idle && !ap_start;
  assign ap_done = state_q == Done;
  assign ap_ready = state_q == Done;
  assign err_code_ap_vld = state_q == Done;
  assign err_layer_ap_vld = state_q == Done;
  assign err_addr_ap_vld = state_q == Done;
  assign err_code = code;
  assign err_layer = layer;
  assign err_addr = address;

  always_ff @(posedge ap_clk) begin
    if (!ap_rst_n) begin
      state_q <= Idle;
      arvalid_q <= '0;
      aw_q <= 1'b0;
      w_q <= 1'b0;
    end else begin
      case (state_q)
        Idle: if (ap_start) begin
          state_q <= Entries;
          entry_q <= '0;
          asked_q <= 1'b0;
        end
        Entries: begin
          // an entry is there a cycle after its address
          if (asked_q) standin_fbcb(entry_q - 1, fbcb_q0);
          asked_q <= 1'b1;
          entry_q <= entry_q + 1;
          if (entry_q == ENTRIES) begin
            state_q <= Reads;
            for (int unsigned b = 0; b < K; b++) begin
              burst_q[b] <= b;
              beat_q[b] <= b * BURST;
              open_q[b] <= 0;
            end
            arvalid_q <= '1;
            r_done_q <= '0;
          end
        end
        Reads: begin
          for (int unsigned b = 0; b < K; b++) begin
            if (arvalid_q[b] && arready[b]) begin
              arvalid_q[b] <= 1'b0;
              burst_q[b] <= burst_q[b] + K;
            end else if (!arvalid_q[b]) arvalid_q[b] <= burst_q[b] < BEATS / BURST && open_q[b] < DEPTH;
            open_q[b] <= open_q[b] + 32'(arvalid_q[b] && arready[b]) - 32'(rready[b] && rvalid[b] && rlast[b]);
            if (rready[b] && rvalid[b]) begin
              standin_put(beat_q[b], rdata[b]);
              beat_q[b] <= beat_q[b] + 1;
              if (open_q[b] == 0) $fatal(1, "sluice_npu: bundle %0d is answered what it has not asked for", b);
              if (rlast[b] != ((beat_q[b] + 1) % BURST == 0)) $fatal(1, "sluice_npu: a burst of bundle %0d is cut", b);
              if (rlast[b]) begin
                beat_q[b] <= beat_q[b] + 1 + (K - 1) * BURST;
                if (beat_q[b] + 1 + (K - 1) * BURST >= BEATS) r_done_q[b] <= 1'b1;
              end
            end
          end
          if (&r_done_q) state_q <= Compute;
        end
        Compute: if (standin_hangs() == 0) begin
          standin_run(first, last, 8'(b_act), 64'(desc_base), 64'(weight_base), 64'(slot_base), slot_stride, 8'(n_slot),
                      64'(slot_table), code, layer, address);
          out_q <= standin_next(0, BURST);
          asked_for_q <= '0;
          sent_bursts_q <= '0;
          answered_q <= '0;
          sent_q <= '0;
          state_q <= Results;
        end
        Results: begin
          // an address is sent independently of the data of earlier ones; data may be sent before
          // their address is taken
          if (aw_q && m_axi_o_AWREADY) begin
            aw_q <= 1'b0;
            out_q <= standin_next(out_q + BURST, BURST);
          end else if (!aw_q && out_q < BEATS && asked_for_q - sent_bursts_q < DEPTH && chance_q[2]) begin
            aw_q <= 1'b1;
            place_q[asked_for_q%DEPTH] <= out_q;
            asked_for_q <= asked_for_q + 1;
          end
          if (!w_q || m_axi_o_WREADY) begin
            w_q <= 1'b0;
            if (asked_for_q != sent_bursts_q && (chance_q[3] || chance_q[11])) begin
              w_q <= 1'b1;
              standin_get(place_q[sent_bursts_q%DEPTH] + sent_q, word);
              w_data_q <= word;
              w_last_q <= sent_q == BURST - 1;
              sent_q <= sent_q == BURST - 1 ? 0 : sent_q + 1;
              if (sent_q == BURST - 1) sent_bursts_q <= sent_bursts_q + 1;
            end
          end
          if (m_axi_o_BVALID && m_axi_o_BREADY) begin
            if (answered_q == asked_for_q) $fatal(1, "sluice_npu: an answer to no write");
            answered_q <= answered_q + 1;
          end
          if (out_q >= BEATS && !aw_q && !w_q && answered_q == asked_for_q && asked_for_q == sent_bursts_q) state_q <= Done;
        end
        default: state_q <= Idle;  // Done
      endcase
    end
  end

  logic unused;
  assign unused = ^{m_axi_a_AWREADY, m_axi_w_AWREADY, m_axi_r_AWREADY, m_axi_a_WREADY, m_axi_w_WREADY, m_axi_r_WREADY,
                    m_axi_a_BVALID, m_axi_w_BVALID, m_axi_r_BVALID,
                    m_axi_a_RID, m_axi_a_RUSER, m_axi_a_RRESP, m_axi_a_BRESP, m_axi_a_BID, m_axi_a_BUSER,
                    m_axi_w_RID, m_axi_w_RUSER, m_axi_w_RRESP, m_axi_w_BRESP, m_axi_w_BID, m_axi_w_BUSER,
                    m_axi_r_RID, m_axi_r_RUSER, m_axi_r_RRESP, m_axi_r_BRESP, m_axi_r_BID, m_axi_r_BUSER,
                    m_axi_o_RID, m_axi_o_RUSER, m_axi_o_RRESP, m_axi_o_BRESP, m_axi_o_BID, m_axi_o_BUSER};
endmodule
