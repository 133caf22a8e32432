// Cuts requests (an address and a number of words) at multiples of a stripe of WORDS words. A second
// request waits behind the one being cut, so that ready_o comes out of a register and stripes follow each
// other without a bubble. A request can be cut in the cycle after it came.
module stripe_cut #(
  parameter int unsigned AW    = 32,  // bits of an address, which counts words
  parameter int unsigned WORDS = 4,   // a power of two
  localparam int unsigned SB = $clog2(WORDS)
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          valid_i,
  output logic          ready_o,
  input  logic [AW-1:0] addr_i,
  input  logic [15:0]   words_i,   // > 0
  output logic          valid_o,   // a stripe is there
  input  logic          take_i,
  output logic [AW-1:0] addr_o,
  output logic [SB:0]   len_o,     // words of it
  output logic          last_o     // the request's last
);
  if ((WORDS & (WORDS - 1)) != 0) begin : gen_bad
    $fatal(1, "stripe_cut: WORDS must be a power of two");
  end

  logic          pend_q, next_valid_q, free;
  logic [AW-1:0] addr_q, next_addr_q;
  logic [15:0]   words_q, next_words_q;
  logic [SB:0]   to_stripe;

  always_comb begin
    to_stripe = (SB + 1)'(WORDS);
    if (WORDS > 1) to_stripe = (SB + 1)'(WORDS) - ((SB + 1)'(addr_q) & (SB + 1)'(WORDS - 1));
  end
  assign last_o = words_q[15:SB+1] == '0 && words_q[SB:0] <= to_stripe;
  assign len_o = last_o ? (SB + 1)'(words_q) : to_stripe;
  assign addr_o = addr_q;
  assign valid_o = pend_q;
  assign ready_o = !next_valid_q;
  assign free = !pend_q || (take_i && last_o);

  always_ff @(posedge clk_i) begin
    if (!next_valid_q) begin
      next_addr_q <= addr_i;
      next_words_q <= words_i;
    end
    if (free) begin
      addr_q <= next_valid_q ? next_addr_q : addr_i;
      words_q <= next_valid_q ? next_words_q : words_i;
    end else if (take_i) begin
      addr_q <= addr_q + AW'(to_stripe);
      words_q <= words_q - 16'(to_stripe);
    end
    if (!rst_ni) begin
      pend_q <= 1'b0;
      next_valid_q <= 1'b0;
    end else if (free) begin
      pend_q <= next_valid_q || valid_i;
      next_valid_q <= 1'b0;
    end else if (valid_i) begin
      next_valid_q <= 1'b1;
    end
  end
endmodule
