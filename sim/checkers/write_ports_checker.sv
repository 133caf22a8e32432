// write_ports_checker: bound to every write_ports where this file is compiled with --assert. The
// client keeps commands and beats until they are taken, commands aligned and not empty; it gives no
// more beats than its commands have room for, and nothing is under way at idle.
module write_ports_checker #(
    parameter int unsigned AXI_BYTES = 8,
    parameter int unsigned LANES     = 2
) (
    input logic                           clk_i,
    input logic                           rst_ni,
    input logic                           flush_i,
    input logic                           idle_i,
    input logic                           cmd_valid_i,
    input logic                           cmd_ready_i,
    input logic [39:0]                    cmd_addr_i,
    input logic [15:0]                    cmd_beats_i,
    input logic                           wb_valid_i,
    input logic                           wb_ready_i,
    input logic [LANES*AXI_BYTES*8-1:0]   wb_data_i,
    input logic [LANES*AXI_BYTES-1:0]     wb_strb_i
);
  logic                                 cmd_stuck_q = 1'b0, wb_stuck_q = 1'b0;
  logic [55:0]                          cmd_q;
  logic [LANES*AXI_BYTES*9-1:0]         wb_q;
  logic [31:0]                          owed_q = '0;  // wide beats of commands that were not given yet

  always_ff @(posedge clk_i) begin
    cmd_stuck_q <= rst_ni && !flush_i && cmd_valid_i && !cmd_ready_i;
    wb_stuck_q  <= rst_ni && !flush_i && wb_valid_i && !wb_ready_i;
    cmd_q       <= {cmd_addr_i, cmd_beats_i};
    wb_q        <= {wb_strb_i, wb_data_i};
    owed_q      <= owed_q + ((cmd_valid_i && cmd_ready_i) ? 32'(cmd_beats_i) : '0)
                   - 32'(wb_valid_i && wb_ready_i);
    if (!rst_ni || flush_i) owed_q <= '0;
    if (rst_ni && !flush_i) begin
      assert (!cmd_stuck_q || (cmd_valid_i && cmd_q == {cmd_addr_i, cmd_beats_i}))
      else $error("write_ports: a command is withdrawn or changes");
      assert (!wb_stuck_q || (wb_valid_i && wb_q == {wb_strb_i, wb_data_i}))
      else $error("write_ports: a beat is withdrawn or changes");
      assert (!(wb_valid_i && wb_ready_i) || owed_q != '0) else $error("write_ports: a beat without a command");
      assert (!idle_i || owed_q == '0) else $error("write_ports: idle although beats are owed");
      if (cmd_valid_i && cmd_ready_i) begin
        assert (cmd_beats_i != '0) else $error("write_ports: a command for nothing");
        assert (cmd_addr_i % 40'(LANES * AXI_BYTES) == '0)
        else $error("write_ports: a command that is not aligned to a wide beat");
      end
    end
  end
endmodule

bind write_ports write_ports_checker #(
    .AXI_BYTES(AXI_BYTES),
    .LANES    (LANES)
) u_checker (
    .clk_i,
    .rst_ni,
    .flush_i,
    .idle_i(idle_o),
    .cmd_valid_i,
    .cmd_ready_i(cmd_ready_o),
    .cmd_addr_i,
    .cmd_beats_i,
    .wb_valid_i,
    .wb_ready_i (wb_ready_o),
    .wb_data_i,
    .wb_strb_i
);
