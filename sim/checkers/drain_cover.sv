// drain_cover: bound to the whole NPU's drain where this file is compiled in. Counts, and says at the end of the
// simulation (sluice verify reads it), the cycles in which the queue of words from the accumulators was full.
/* verilator lint_off BLKSEQ */  // counts are bookkeeping
module drain_cover (
    input logic clk_i,
    input logic rst_ni,
    input logic room_i
);
  longint unsigned full = 0;

  always @(posedge clk_i) if (rst_ni && !room_i) full = full + 1;

  final $display("cover: drain queue_full %0d", full);
endmodule
/* verilator lint_on BLKSEQ */

bind drain drain_cover u_cover (
    .clk_i,
    .rst_ni,
    .room_i(q_room)
);
