// What holds of stripe_cut whatever comes: requests leave whole and in order, each cut at every multiple of WORDS words and
// nowhere else. A stripe is there from the cycle after its request, the next one from the cycle after it was taken on, so there
// is no bubble; a second request waits.
module stripe_cut_props #(
  parameter int unsigned AW = 8,
  parameter int unsigned WORDS = 4,
  localparam int unsigned SB = $clog2(WORDS)
) (
  input logic clk, valid, take,
  input logic [AW-1:0] addr,
  input logic [15:0] words
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic ready_o, valid_o, last_o;
  logic [AW-1:0] addr_o;
  logic [SB:0] len_o;
  stripe_cut #(.AW(AW), .WORDS(WORDS)) u_cut (
    .clk_i(clk), .rst_ni(begun), .valid_i(valid), .ready_o(ready_o), .addr_i(addr), .words_i(words),
    .valid_o(valid_o), .take_i(take), .addr_o(addr_o), .len_o(len_o), .last_o(last_o)
  );

  // The requests in it: where they begin and their words, of the first those that are left.
  logic [1:0] n;
  logic [AW-1:0] addr1, addr2;
  logic [15:0] words1, words2, room, len;
  logic put, pop;
  assign room = 16'(WORDS) - (16'(addr1) & 16'(WORDS - 1));  // words to the next multiple
  assign len = (words1 < room) ? words1 : room;
  assign put = valid && ready_o;
  assign pop = valid_o && take && last_o;
  always_ff @(posedge clk) begin
    n <= begun ? n + 2'(put) - 2'(pop) : '0;
    if (valid_o && take) {addr1, words1} <= {addr1 + AW'(len_o), words1 - 16'(len_o)};
    if (pop) {addr1, words1} <= {addr2, words2};
    if (put && n == 2'(pop)) {addr1, words1} <= {addr, words};
    if (put && n == 2'(pop) + 2'd1) {addr2, words2} <= {addr, words};
  end

  always_comb begin
    if (valid) assume (words != '0);
    if (!valid_o) assume (!take);
    if (begun) begin
      a_room: assert (ready_o == (n < 2'd2));
      a_there: assert (valid_o == (n != '0));
      if (n != '0) begin
        a_begins: assert (addr_o == addr1);
        a_length: assert (16'(len_o) == len && len != '0);
        a_last: assert (last_o == (len == words1));
      end
    end
  end
endmodule
