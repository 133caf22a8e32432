// A level of registers on a way across the die, for values that many places read: a copy a place, each near its loads. Copies
// are equal, so tools would make one of them, or a shift register's end: the attributes hold that off. Latency one cycle.
module level #(
  parameter int unsigned WIDTH = 8
) (
  input  logic             clk_i,
  input  logic [WIDTH-1:0] d_i,
  output logic [WIDTH-1:0] q_o
);
  (* keep = "true", dont_touch = "true" *) logic [WIDTH-1:0] q;
  // yosys takes the attribute of the process, Vivado that of the registers
  (* keep *) always_ff @(posedge clk_i) q <= d_i;
  assign q_o = q;
endmodule
