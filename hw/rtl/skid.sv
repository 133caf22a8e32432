// Queue behind a pipeline that does not stop: it has no ready, since whoever sends a word knows that there is room. With PASS a
// word can be taken in the cycle in which it comes; without, a cycle later. Equal queues side by side have equal pointers: each
// keeps its own near its data (level), so that tools do not make one of them.
module skid #(
  parameter int unsigned WIDTH = 8,
  parameter int unsigned DEPTH = 4,
  parameter bit          PASS  = 1'b0,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  input  logic [WIDTH-1:0] data_i,
  output logic             valid_o,
  input  logic             pop_i,
  output logic [WIDTH-1:0] data_o
);
  if (DEPTH < 2 || DEPTH > 64 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_bad
    $fatal(1, "skid: DEPTH must be a power of two from 2 to 64");
  end

  (* ram_style = "distributed" *) logic [WIDTH-1:0] mem[DEPTH];
  logic [AW:0] wptr_q, rptr_q;
  logic        waiting;
  level #(.WIDTH(AW + 1)) u_wptr (.clk_i, .d_i(rst_ni ? wptr_q + (AW + 1)'(valid_i) : '0), .q_o(wptr_q));
  level #(.WIDTH(AW + 1)) u_rptr (.clk_i, .d_i(rst_ni ? rptr_q + (AW + 1)'(pop_i) : '0), .q_o(rptr_q));
  always_ff @(posedge clk_i) begin
    if (valid_i) mem[wptr_q[AW-1:0]] <= data_i;
  end
  assign waiting = wptr_q != rptr_q;
  assign valid_o = waiting || (PASS && valid_i);
  assign data_o = (PASS && !waiting) ? data_i : mem[rptr_q[AW-1:0]];
endmodule
