// Round-robin arbitration among ports with unequal load: selects the port with the least load, and
// among equals the first one from turn_i on, in cyclic order. All pairs are compared in parallel,
// so that the depth hardly grows with N. Combinational.
module fairest #(
  parameter int unsigned N = 4,
  parameter int unsigned W = 8,
  localparam int unsigned PB = (N > 1) ? $clog2(N) : 1
) (
  input  logic [N*W-1:0] load_i,
  input  logic [PB-1:0]  turn_i,
  output logic [N-1:0]   sel_o,   // one of them
  output logic [PB-1:0]  port_o   // its number
);
  logic [N*N-1:0] ahead;                 // i comes before j
  always_comb begin
    ahead = '1;
    for (int unsigned i = 0; i < N; i++) begin
      for (int unsigned j = i + 1; j < N; j++) begin
        // turn_i is between i and j if j comes first
        ahead[i*N+j] = (load_i[i*W+:W] < load_i[j*W+:W])
                       || (!(load_i[j*W+:W] < load_i[i*W+:W])
                           && !({1'b0, turn_i} > (PB + 1)'(i) && {1'b0, turn_i} <= (PB + 1)'(j)));
        ahead[j*N+i] = !((load_i[i*W+:W] < load_i[j*W+:W])
                         || (!(load_i[j*W+:W] < load_i[i*W+:W])
                             && !({1'b0, turn_i} > (PB + 1)'(i) && {1'b0, turn_i} <= (PB + 1)'(j))));
      end
    end
    port_o = '0;
    for (int unsigned i = 0; i < N; i++) begin
      sel_o[i] = &ahead[i*N+:N];
      if (&ahead[i*N+:N]) port_o = port_o | PB'(i);
    end
  end
endmodule
