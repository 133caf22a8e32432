// Queue in block RAM for the beats of a read client. It has no full flag: the client has credit for
// DEPTH beats and requests no more. First-word fall-through with a register stage: a word can leave
// two cycles after it arrived; one push and one pop per cycle.
module beat_fifo #(
  parameter int unsigned WIDTH = 64,
  parameter int unsigned DEPTH = 512,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  input  logic [WIDTH-1:0] wdata_i,
  output logic             valid_o,
  input  logic             ready_i,
  output logic [WIDTH-1:0] rdata_o
);
  if (DEPTH < 4 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_bad_depth
    $fatal(1, "beat_fifo: DEPTH must be a power of two of at least 4");
  end

  logic [AW:0] wptr_q, rptr_q;
  logic        out_valid_q;
  logic        fetch;

  assign fetch = (wptr_q != rptr_q) && (!out_valid_q || ready_i);
  assign valid_o = out_valid_q;

  ram_1r1w #(.WIDTH(WIDTH), .DEPTH(DEPTH)) u_ram (
    .clk_i,
    .we_i   (valid_i),
    .waddr_i(wptr_q[AW-1:0]),
    .wdata_i(wdata_i),
    .re_i   (fetch),
    .raddr_i(rptr_q[AW-1:0]),
    .rdata_o(rdata_o)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      wptr_q <= '0;
      rptr_q <= '0;
      out_valid_q <= 1'b0;
    end else begin
      if (valid_i) wptr_q <= wptr_q + 1'b1;
      if (fetch) rptr_q <= rptr_q + 1'b1;
      if (fetch) out_valid_q <= 1'b1;
      else if (ready_i) out_valid_q <= 1'b0;
    end
  end
endmodule
