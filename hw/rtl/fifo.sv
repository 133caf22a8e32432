// Small first-word fall-through queue in registers or LUT RAM (at most 64 words; larger queues are
// beat_fifo). Full throughput: one push and one pop a cycle. rdata_o is valid while valid_o.
module fifo #(
  parameter int unsigned WIDTH = 8,
  parameter int unsigned DEPTH = 4,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  output logic             ready_o,
  input  logic [WIDTH-1:0] wdata_i,
  output logic             valid_o,
  input  logic             ready_i,
  output logic [WIDTH-1:0] rdata_o
);
  if (DEPTH < 2 || DEPTH > 64 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_bad_depth
    $fatal(1, "fifo: DEPTH must be a power of two from 2 to 64");
  end

  logic [WIDTH-1:0] mem[DEPTH];
  logic [AW:0] wptr_q, rptr_q;
  logic push, pop;

  assign ready_o = (wptr_q[AW-1:0] != rptr_q[AW-1:0]) || (wptr_q[AW] == rptr_q[AW]);
  assign valid_o = wptr_q != rptr_q;
  assign rdata_o = mem[rptr_q[AW-1:0]];
  assign push = valid_i && ready_o;
  assign pop = valid_o && ready_i;

  always_ff @(posedge clk_i) begin
    if (push) mem[wptr_q[AW-1:0]] <= wdata_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      wptr_q <= '0;
      rptr_q <= '0;
    end else begin
      if (push) wptr_q <= wptr_q + 1'b1;
      if (pop) rptr_q <= rptr_q + 1'b1;
    end
  end
endmodule
