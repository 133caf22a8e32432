// read_ports_cover: bound to the whole NPU's read_ports where this file is compiled in. Counts, and says at the end
// of the simulation (sluice verify reads it), which client was answered while which waited, and the cycles in which
// each port kept an address waiting or a burst stood still in its middle.
/* verilator lint_off BLKSEQ */  // counts are bookkeeping
module read_ports_cover #(
    parameter int unsigned N     = 4,
    parameter int unsigned N_AXI = 2
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic             flush_i,
    input logic [N-1:0]     req_valid_i,
    input logic [N-1:0]     req_ready_i,
    input logic [N-1:0]     rsp_valid_i,
    input logic             rsp_last_i,
    input logic [N_AXI-1:0] m_arvalid_i,
    input logic [N_AXI-1:0] m_arready_i,
    input logic [N_AXI-1:0] m_rvalid_i,
    input logic [N_AXI-1:0] m_rlast_i
);
  // as npu_core numbers them
  function automatic string client(int unsigned i);
    case (i)
      0: return "descriptors";
      1: return "activations";
      2: return "weights";
      default: return "residual";
    endcase
  endfunction

  int unsigned      owed[N] = '{default: 0};  // requests without their last answer
  longint unsigned  passed[N*N] = '{default: 0};
  longint unsigned  held[N_AXI] = '{default: 0};
  longint unsigned  gaps[N_AXI] = '{default: 0};
  logic [N_AXI-1:0] inside_q = '0;            // a burst has begun and not ended

  always @(posedge clk_i) begin
    if (rst_ni && !flush_i) begin
      for (int unsigned i = 0; i < N; i++) begin
        for (int unsigned j = 0; j < N; j++) begin
          if (rsp_valid_i[i] && i != j && owed[j] != 0) passed[i*N+j] = passed[i*N+j] + 1;
        end
      end
      for (int unsigned i = 0; i < N; i++) begin
        if (req_valid_i[i] && req_ready_i[i]) owed[i] = owed[i] + 1;
        if (rsp_valid_i[i] && rsp_last_i) owed[i] = owed[i] - 1;
      end
    end else begin
      for (int unsigned i = 0; i < N; i++) owed[i] = 0;
    end
    for (int unsigned p = 0; p < N_AXI; p++) begin
      if (rst_ni && m_arvalid_i[p] && !m_arready_i[p]) held[p] = held[p] + 1;
      if (rst_ni && inside_q[p] && !m_rvalid_i[p]) gaps[p] = gaps[p] + 1;
      if (!rst_ni) inside_q[p] <= 1'b0;
      else if (m_rvalid_i[p]) inside_q[p] <= !m_rlast_i[p];
    end
  end

  final begin
    for (int unsigned i = 0; i < N; i++) begin
      for (int unsigned j = 0; j < N; j++) begin
        if (i != j) $display("cover: arbitration %s>%s %0d", client(i), client(j), passed[i*N+j]);
      end
    end
    for (int unsigned p = 0; p < N_AXI; p++) begin
      $display("cover: port_stall ar.%0d %0d", p, held[p]);
      $display("cover: port_stall r.%0d %0d", p, gaps[p]);
    end
  end
endmodule
/* verilator lint_on BLKSEQ */

bind read_ports read_ports_cover #(
    .N    (N),
    .N_AXI(N_AXI)
) u_cover (
    .clk_i,
    .rst_ni,
    .flush_i,
    .req_valid_i,
    .req_ready_i(req_ready_o),
    .rsp_valid_i(rsp_valid_o),
    .rsp_last_i (rsp_last_o),
    .m_arvalid_i(m_arvalid_o),
    .m_arready_i,
    .m_rvalid_i,
    .m_rlast_i
);
