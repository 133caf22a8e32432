// beat_fifo_checker: bound to every beat_fifo where this file is compiled with --assert. Its users
// ask for no more than there is room for, so it never runs over.
module beat_fifo_checker #(
    parameter int unsigned DEPTH = 512,
    parameter int unsigned PW    = 10
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          valid_i,
    input logic          fetch_i,
    input logic [PW-1:0] wptr_i,
    input logic [PW-1:0] rptr_i
);
  logic [PW-1:0] fill;
  assign fill = wptr_i - rptr_i;
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (32'(fill) <= DEPTH) else $error("beat_fifo: overrun");
      assert (!(valid_i && !fetch_i && 32'(fill) == DEPTH)) else $error("beat_fifo: a beat comes without room");
    end
  end
endmodule

bind beat_fifo beat_fifo_checker #(
    .DEPTH(DEPTH),
    .PW   (AW + 1)
) u_checker (
    .clk_i,
    .rst_ni,
    .valid_i,
    .fetch_i(fetch),
    .wptr_i (wptr_q),
    .rptr_i (rptr_q)
);
