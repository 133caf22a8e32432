// out_writer_checker: bound to every out_writer where this file is compiled with --assert. A command
// has beats and begins on one; a run has words; groups end with their run.
module out_writer_checker #(
    parameter int unsigned AXI_BYTES = 8,
    parameter int unsigned CW        = 4
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          cmd_valid_i,
    input logic [39:0]   cmd_addr_i,
    input logic [15:0]   cmd_beats_i,
    input logic [23:0]   run_elems_i,
    input logic          word_i,
    input logic [CW-1:0] cnt_i,
    input logic [23:0]   left_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (cmd_valid_i) begin
        assert (cmd_beats_i != '0) else $error("out_writer: a command without beats");
        assert (cmd_addr_i % 40'(AXI_BYTES) == '0) else $error("out_writer: a command between beats");
        assert (run_elems_i != '0) else $error("out_writer: a run without words");
      end
      if (word_i) begin
        assert (cnt_i != '0) else $error("out_writer: a group without words");
        assert (24'(cnt_i) <= left_i) else $error("out_writer: a group longer than its run");
      end
    end
  end
endmodule

bind out_writer out_writer_checker #(
    .AXI_BYTES(AXI_BYTES),
    .CW       (CW)
) u_checker (
    .clk_i,
    .rst_ni,
    .cmd_valid_i(cmd_valid_o),
    .cmd_addr_i (cmd_addr_o),
    .cmd_beats_i(cmd_beats_o),
    .run_elems_i,
    .word_i     (valid_i && ready_o),
    .cnt_i,
    .left_i     (left_q)
);
