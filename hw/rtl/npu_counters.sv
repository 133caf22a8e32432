// The increments of all counters of abi_pkg (CNT_*) in this cycle, 16 bits each, while a start
// runs: activity and stalls of the sequencers, and the sums of the stalls and bytes of the memory
// ports. Combinational; npu_regs defines the order and when they count.
module npu_counters #(
  parameter int unsigned N_AXI     = 1,
  parameter int unsigned AXI_BYTES = 8,
  localparam int unsigned CN = abi_pkg::CNT_COUNT,
  localparam int unsigned NW = $clog2(AXI_BYTES + 1)
) (
  input  logic                mac_cycle_i,
  input  logic [15:0]         macs_i,          // gemm_seq's
  input  logic [15:0]         dw_macs_i,       // pool_seq's; never both
  input  logic                stall_weights_i,
  input  logic                stall_acts_i,    // gemm_seq's
  input  logic                stall_pool_i,    // pool_seq's only kind of stall
  input  logic                stall_drain_i,
  input  logic                stall_depth_i,
  // of each port
  input  logic [N_AXI-1:0]    rd_stall_i,
  input  logic [N_AXI-1:0]    rd_beat_i,
  input  logic [N_AXI-1:0]    wr_stall_i,
  input  logic [N_AXI*NW-1:0] wr_bytes_i,
  output logic [CN*16-1:0]    cnt_inc_o
);
  logic [2:0]  rd_stalls, rd_beats, wr_stalls;  // how many ports
  logic [15:0] wr_bytes;

  if (N_AXI > 7) begin : gen_bad_ports
    $fatal(1, "npu_counters: at most 7 ports are summed");
  end

  always_comb begin
    rd_stalls = '0;
    rd_beats = '0;
    wr_stalls = '0;
    wr_bytes = '0;
    for (int unsigned p = 0; p < N_AXI; p++) begin
      rd_stalls = rd_stalls + 3'(rd_stall_i[p]);
      rd_beats = rd_beats + 3'(rd_beat_i[p]);
      wr_stalls = wr_stalls + 3'(wr_stall_i[p]);
      wr_bytes = wr_bytes + 16'(wr_bytes_i[p*NW+:NW]);
    end
  end

  always_comb begin
    cnt_inc_o = '0;
    cnt_inc_o[abi_pkg::CNT_CYCLES_BUSY*16+:16] = 16'd1;
    cnt_inc_o[abi_pkg::CNT_MAC_CYCLES*16+:16] = 16'(mac_cycle_i);
    cnt_inc_o[abi_pkg::CNT_MACS*16+:16] = macs_i | dw_macs_i;
    cnt_inc_o[abi_pkg::CNT_STALL_WEIGHTS*16+:16] = 16'(stall_weights_i);
    cnt_inc_o[abi_pkg::CNT_STALL_ACTIVATIONS*16+:16] = 16'(stall_acts_i) | 16'(stall_pool_i);
    cnt_inc_o[abi_pkg::CNT_STALL_DRAIN*16+:16] = 16'(stall_drain_i);
    cnt_inc_o[abi_pkg::CNT_STALL_DEPTH*16+:16] = 16'(stall_depth_i);
    cnt_inc_o[abi_pkg::CNT_STALL_READ*16+:16] = 16'(rd_stalls);
    cnt_inc_o[abi_pkg::CNT_STALL_WRITE*16+:16] = 16'(wr_stalls);
    cnt_inc_o[abi_pkg::CNT_BYTES_READ*16+:16] = {13'b0, rd_beats} << $clog2(AXI_BYTES);
    cnt_inc_o[abi_pkg::CNT_BYTES_WRITTEN*16+:16] = wr_bytes;
  end
endmodule
