// Cuts requests (an address and a number of words) at multiples of a stripe of WORDS words. A
// second request waits behind the one being cut, so that ready_o comes from a register and stripes
// follow each other without a bubble. A request can be cut in the cycle after it arrived; the
// stripe's values also come from registers.
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

  logic          pend_q, last_q, next_valid_q, free;
  logic [AW-1:0] addr_q, next_addr_q, new_addr;
  logic [15:0]   words_q, next_words_q, new_words, rest;
  logic [SB:0]   len_q, to_stripe;

  // The first stripe of a new request ends at a stripe boundary; the following ones are whole,
  // except the last.
  assign new_addr = next_valid_q ? next_addr_q : addr_i;
  assign new_words = next_valid_q ? next_words_q : words_i;
  always_comb begin
    to_stripe = (SB + 1)'(WORDS);
    if (WORDS > 1) to_stripe = (SB + 1)'(WORDS) - ((SB + 1)'(new_addr) & (SB + 1)'(WORDS - 1));
  end
  assign rest = words_q - 16'(len_q);
  assign last_o = last_q;
  assign len_o = len_q;
  assign addr_o = addr_q;
  assign valid_o = pend_q;
  assign ready_o = !next_valid_q;
  assign free = !pend_q || (take_i && last_q);

  always_ff @(posedge clk_i) begin
    if (!next_valid_q) begin
      next_addr_q <= addr_i;
      next_words_q <= words_i;
    end
    if (free) begin
      addr_q <= new_addr;
      words_q <= new_words;
      last_q <= new_words <= 16'(to_stripe);
      len_q <= (new_words <= 16'(to_stripe)) ? (SB + 1)'(new_words) : to_stripe;
    end else if (take_i) begin
      addr_q <= addr_q + AW'(len_q);
      words_q <= rest;
      last_q <= rest <= 16'(WORDS);
      len_q <= (rest <= 16'(WORDS)) ? (SB + 1)'(rest) : (SB + 1)'(WORDS);
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
