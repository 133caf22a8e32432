// The weights ring: a queue in block RAM whose words stay until they are committed, so that the
// reader can go back and read them again (rewind_i: from the last commit on). It has no full flag;
// the writer has credit for DEPTH words and gets back freed_o at every commit. First-word
// fall-through from the memory's output register: a word can leave three cycles after it arrived.
module weight_ring #(
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
  output logic [WIDTH-1:0] rdata_o,
  input  logic             commit_i,   // the words taken before this cycle are no longer needed
  input  logic             rewind_i,   // not together with commit_i; no word is taken in this cycle
  output logic [AW:0]      freed_o     // words released by this cycle's commit
);
  if (DEPTH < 4 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_bad_depth
    $fatal(1, "weight_ring: DEPTH must be a power of two of at least 4");
  end

  logic [AW:0] wptr_q, rptr_q, taken_q, kept_q;  // written, fetched, taken, oldest that is kept
  logic        read_q, out_valid_q, fetch, move; // a word was read from the memory; lies in its register
  logic [WIDTH-1:0] word;

  assign move = read_q && (!out_valid_q || ready_i);
  assign fetch = wptr_q != rptr_q && (!read_q || move) && !rewind_i;
  assign valid_o = out_valid_q && !rewind_i;
  assign freed_o = commit_i ? taken_q - kept_q : '0;

  ram_1r1w #(.WIDTH(WIDTH), .DEPTH(DEPTH)) u_ram (
    .clk_i,
    .we_i   (valid_i),
    .waddr_i(wptr_q[AW-1:0]),
    .wdata_i(wdata_i),
    .re_i   (fetch),
    .raddr_i(rptr_q[AW-1:0]),
    .rdata_o(word)
  );
  always_ff @(posedge clk_i) begin
    if (move) rdata_o <= word;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      wptr_q <= '0;
      rptr_q <= '0;
      taken_q <= '0;
      kept_q <= '0;
      read_q <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (valid_i) wptr_q <= wptr_q + 1'b1;
      if (commit_i) kept_q <= taken_q;
      if (rewind_i) begin
        rptr_q <= kept_q;
        taken_q <= kept_q;
        read_q <= 1'b0;
        out_valid_q <= 1'b0;
      end else begin
        if (fetch) rptr_q <= rptr_q + 1'b1;
        if (valid_o && ready_i) taken_q <= taken_q + 1'b1;
        read_q <= fetch || (read_q && !move);
        out_valid_q <= move || (out_valid_q && !ready_i);
      end
    end
  end
endmodule
