// In place of axi_write (CUT = 0) below write_ports: what axi_write_props proves of it, and nothing else. It takes commands and their
// beats when it likes, both in order, no more than MAX_OUT + 1 commands whose beats it lacks, and owes an answer until it has given it. A flush
// drops what it lacks.
module axi_write #(
  parameter int AXI_BYTES = 1,
  parameter int MAX_BURST = 16,
  parameter int MAX_OUT = 16,
  parameter bit CUT = 1'b0
) (
  input  logic clk_i, rst_ni, flush_i,
  output logic idle_o,
  input  logic cmd_valid_i,
  output logic cmd_ready_o,
  input  logic [39:0] cmd_addr_i,
  input  logic [15:0] cmd_beats_i,
  input  logic wb_valid_i,
  output logic wb_ready_o,
  input  logic [8*AXI_BYTES-1:0] wb_data_i,
  input  logic [AXI_BYTES-1:0] wb_strb_i,
  output logic err_valid_o, err_decerr_o,
  output logic [31:0] err_addr_o,
  output logic progress_o, stall_o,
  output logic [$clog2(AXI_BYTES+1)-1:0] bytes_o,
  output logic m_awvalid_o,
  input  logic m_awready_i,
  output logic [39:0] m_awaddr_o,
  output logic [7:0] m_awlen_o,
  output logic [1:0] m_awid_o,
  output logic m_wvalid_o,
  input  logic m_wready_i,
  output logic [8*AXI_BYTES-1:0] m_wdata_o,
  output logic [AXI_BYTES-1:0] m_wstrb_o,
  output logic m_wlast_o,
  input  logic m_bvalid_i,
  output logic m_bready_o,
  input  logic [1:0] m_bid_i, m_bresp_i
);
  (* anyseq *) logic ready, wants, answers;
  logic cmd, beat, owes;
  logic [7:0] lacks;  // beats of its commands
  // each of those commands has MAX_BURST beats at most
  assign cmd_ready_o = ready && !flush_i && lacks <= 8'(MAX_OUT * MAX_BURST);
  assign cmd = cmd_valid_i && cmd_ready_o;
  assign wb_ready_o = wants && !flush_i && lacks != '0;
  assign beat = wb_valid_i && wb_ready_o;
  assign idle_o = !owes;
  always_ff @(posedge clk_i) begin
    lacks <= (!rst_ni || flush_i) ? '0 : lacks + (cmd ? 8'(cmd_beats_i) : '0) - 8'(beat);
    owes <= rst_ni && (cmd || (owes && !(answers && lacks == '0)));
  end
endmodule
