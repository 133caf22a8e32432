// Regroups beats of up to IN_WORDS words of W bits into groups of up to OUT_WORDS, with any count
// in each cycle. push: push_i with push_cnt_i words (lowest first, after skip_i words to ignore),
// accepted while ready_o. pop: pop_i with pop_cnt_i <= fill_o words, taken from data_o (lowest
// first); words above fill_o are not valid. Full throughput on both sides. With ALL, pop_cnt_i may
// exceed fill_o: then all words are taken.
//
// The words are in a ring and do not move. Incoming words are rotated to their place, outgoing
// words to the front, each by a registered pointer. If counts are multiples of IN_UNIT and
// OUT_UNIT, fewer rotations are needed.
module gearbox #(
  parameter int unsigned IN_WORDS  = 4,
  parameter int unsigned OUT_WORDS = 8,
  parameter int unsigned W         = 16,
  parameter bit          ALL       = 1'b0,
  parameter int unsigned IN_UNIT   = 1,     // powers of two
  parameter int unsigned OUT_UNIT  = 1,
  localparam int unsigned CAP = 2 * IN_WORDS + OUT_WORDS,
  localparam int unsigned CW = $clog2(CAP + 1),
  localparam int unsigned SW = (IN_WORDS > 1) ? $clog2(IN_WORDS) : 1
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    push_i,
  input  logic [CW-1:0]           push_cnt_i,
  input  logic [IN_WORDS*W-1:0]  data_i,
  input  logic [SW-1:0]           skip_i,
  output logic                    ready_o,
  input  logic                    pop_i,
  input  logic [CW-1:0]           pop_cnt_i,
  output logic [OUT_WORDS*W-1:0] data_o,
  output logic [CW-1:0]           fill_o
);
  localparam int unsigned PW = $clog2(CAP);          // of a pointer
  localparam int unsigned SIZE = 1 << PW;
  localparam int unsigned IB = $clog2(IN_WORDS);
  localparam int unsigned IN = 1 << IB;              // number of positions for the input rotation
  localparam int unsigned IU = $clog2(IN_UNIT);
  localparam int unsigned OU = $clog2(OUT_UNIT);
  if (IN_UNIT != 1 << IU || OUT_UNIT != 1 << OU || IN_UNIT > IN_WORDS || OUT_UNIT > OUT_WORDS) begin : gen_bad
    $fatal(1, "gearbox: units must be powers of two, no larger than what comes or leaves");
  end

  logic [SIZE*W-1:0] ring_q, front;
  logic [IN*W-1:0]   turned;
  logic [SIZE-1:0]   put;
  logic [PW-IU-1:0]  wptr_q;
  logic [PW-OU-1:0]  rptr_q;
  logic [PW-1:0]     wptr, rptr, behind;
  logic [SW-1:0]     turn;
  logic [CW-1:0]     fill_q, goes;
  logic              push;

  assign ready_o = fill_q <= CW'(CAP - IN_WORDS);
  assign push = push_i && ready_o;
  assign fill_o = fill_q;
  assign goes = (ALL && fill_q < pop_cnt_i) ? fill_q : pop_cnt_i;
  assign wptr = PW'(wptr_q) << IU;
  assign rptr = PW'(rptr_q) << OU;

  assign turn = SW'(wptr) - skip_i;
  // By whole words: one stage a bit of the pointer, no product.
  always_comb begin
    turned = (IN * W)'(data_i);
    for (int unsigned b = 0; b < SW; b++) begin
      if (IN_WORDS > 1 && turn[b]) turned = (turned << (W << b)) | (turned >> ((IN * W) - (W << b)));
    end
    front = ring_q;
    for (int unsigned b = 0; b < PW; b++) begin
      if (rptr[PW-1-b]) front = (front >> (W << (PW - 1 - b))) | (front << ((SIZE * W) - (W << (PW - 1 - b))));
    end
    for (int unsigned i = 0; i < SIZE; i++) begin
      behind = PW'(i) - wptr;
      put[i] = push && CW'(behind) < push_cnt_i;
    end
  end
  assign data_o = front[OUT_WORDS*W-1:0];

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < SIZE; i++) begin
      if (put[i]) ring_q[i*W+:W] <= turned[(i%IN)*W+:W];
    end
    if (!rst_ni) begin
      wptr_q <= '0;
      rptr_q <= '0;
      fill_q <= '0;
    end else begin
      if (push) wptr_q <= wptr_q + (PW - IU)'(push_cnt_i >> IU);
      if (pop_i) rptr_q <= rptr_q + (PW - OU)'(goes >> OU);
      fill_q <= fill_q + (push ? push_cnt_i : '0) - (pop_i ? goes : '0);
    end
  end

  logic unused;
  assign unused = ^front[SIZE*W-1:OUT_WORDS*W];
endmodule
