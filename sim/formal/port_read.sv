// In place of what axi_read (CUT = 0, one client) has behind its ports, below read_ports: what axi_read_props proves of it, and
// nothing else. It owes the beats that were asked for and gives one when it likes; what is in them, read_ports_props says. A
// flush ends all.
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
