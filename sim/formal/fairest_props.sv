// What holds of fairest for every load and every turn: one port is selected; none has less load, and of those with as little
// it is the first from the turn on, in cyclic order.
module fairest_props #(
  parameter int unsigned N = 4,
  parameter int unsigned W = 3,
  localparam int unsigned PB = (N > 1) ? $clog2(N) : 1
) (
  input logic clk,
  input logic [N*W-1:0] load,
  input logic [PB-1:0] turn
);
  logic [N-1:0]  sel;
  logic [PB-1:0] port;
  fairest #(.N(N), .W(W)) u_fairest (.load_i(load), .turn_i(turn), .sel_o(sel), .port_o(port));

  function automatic int unsigned after(input int unsigned i);  // steps from the turn
    after = (i >= 32'(turn)) ? i - 32'(turn) : i + N - 32'(turn);
  endfunction
  logic least, first;
  always_comb begin
    least = 1'b1;
    first = 1'b1;
    for (int unsigned i = 0; i < N; i++) begin
      for (int unsigned j = 0; j < N; j++) begin
        if (sel[i] && load[j*W+:W] < load[i*W+:W]) least = 1'b0;
        if (sel[i] && load[j*W+:W] == load[i*W+:W] && after(j) < after(i)) first = 1'b0;
      end
    end
    assume (32'(turn) < N);
    a_one: assert (sel == N'(1) << port && 32'(port) < N);
    a_least: assert (least);
    a_first: assert (first);
  end
endmodule
