// In place of axi_read (CUT = 0, one client) below read_ports: what axi_read_props proves of it, and nothing else. It owes the beats
// that were asked for and gives one when it likes; what is in them, read_ports_props says. A flush ends all.
module axi_read #(
  parameter int N = 1,
  parameter int AXI_BYTES = 1,
  parameter int MAX_BURST = 16,
  parameter bit CUT = 1'b0
) (
  input  logic clk_i, rst_ni, flush_i,
  output logic idle_o,
  input  logic [N-1:0] req_valid_i,
  output logic [N-1:0] req_ready_o,
  input  logic [N*40-1:0] req_addr_i,
  input  logic [N*16-1:0] req_beats_i,
  input  logic [N*2-1:0] level_i,
  output logic [N-1:0] rsp_valid_o,
  output logic [8*AXI_BYTES-1:0] rsp_data_o,
  output logic rsp_last_o, err_valid_o, err_decerr_o,
  output logic [31:0] err_addr_o,
  output logic progress_o, stall_o, beat_o, m_arvalid_o,
  input  logic m_arready_i,
  output logic [39:0] m_araddr_o,
  output logic [7:0] m_arlen_o,
  output logic [1:0] m_arid_o,
  input  logic m_rvalid_i,
  output logic m_rready_o,
  input  logic [8*AXI_BYTES-1:0] m_rdata_i,
  input  logic [1:0] m_rid_i, m_rresp_i,
  input  logic m_rlast_i
);
  (* anyseq *) logic ready, valid, idle;
  (* anyseq *) logic [7:0] data;
  logic [7:0] owes;
  assign req_ready_o = ready && !flush_i;
  assign rsp_valid_o = valid && owes != '0;
  assign rsp_data_o = data;
  // the last beat is given in the cycle after it came
  assign idle_o = idle && owes == 8'(rsp_valid_o);
  always_ff @(posedge clk_i) begin
    owes <= (!rst_ni || flush_i) ? '0 : owes + ((req_valid_i && req_ready_o) ? 8'(req_beats_i) : '0) - 8'(rsp_valid_o);
  end
endmodule
