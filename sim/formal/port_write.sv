// In place of what axi_write (CUT = 0) has behind its ports, below write_ports: what axi_write_props proves of it, and nothing
// else. It takes commands and their beats when it likes, both in order, no more than MAX_OUT + 1 commands whose beats it lacks,
// and owes an answer until it has given it. A flush drops what it lacks.
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
