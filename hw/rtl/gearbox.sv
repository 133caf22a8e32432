// Turns beats of up to IN_WORDS words of W bits into groups of up to OUT_WORDS, any count each cycle.
// push: push_i with push_cnt_i words (lowest first), accepted while ready_o. pop: pop_i with
// pop_cnt_i <= fill_o words, taken from data_o (lowest first). Full throughput on both sides. With ALL
// pop_cnt_i may be more than there is: then all goes.
module gearbox #(
  parameter int unsigned IN_WORDS  = 4,
  parameter int unsigned OUT_WORDS = 8,
  parameter int unsigned W         = 16,
  parameter bit          ALL       = 1'b0,
  localparam int unsigned CAP = 2 * IN_WORDS + OUT_WORDS,
  localparam int unsigned CW = $clog2(CAP + 1)
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    push_i,
  input  logic [CW-1:0]           push_cnt_i,
  input  logic [IN_WORDS*W-1:0]  data_i,
  output logic                    ready_o,
  input  logic                    pop_i,
  input  logic [CW-1:0]           pop_cnt_i,
  output logic [OUT_WORDS*W-1:0] data_o,
  output logic [CW-1:0]           fill_o
);
  logic [CAP*W-1:0] buf_q, stay_in, go_in, gone;
  logic [IN_WORDS*W-1:0] masked;
  logic [CW-1:0] fill_q, rest;
  logic push;

  assign ready_o = fill_q <= CW'(CAP - IN_WORDS);
  assign push = push_i && ready_o;
  assign fill_o = fill_q;
  assign data_o = buf_q[OUT_WORDS*W-1:0];

  always_comb begin
    masked = '0;
    for (int unsigned i = 0; i < IN_WORDS; i++) begin
      if (CW'(i) < push_cnt_i) masked[i*W+:W] = data_i[i*W+:W];
    end
  end

  // Words above the fill are zero, so that inserting is an OR; shifts are by whole words: one stage a
  // bit of the count, no product. Whether something comes and whether something leaves is known last, so
  // all that may be stands ready for one choice: what is there and what is left of it, what comes behind
  // either.
  assign rest = (ALL && fill_q < pop_cnt_i) ? '0 : fill_q - pop_cnt_i;
  always_comb begin
    stay_in = {{((CAP - IN_WORDS) * W) {1'b0}}, masked};
    go_in = stay_in;
    gone = buf_q;
    for (int unsigned b = 0; b < CW; b++) begin
      if (fill_q[b]) stay_in = stay_in << (W << b);
      if (rest[b]) go_in = go_in << (W << b);
      if (pop_cnt_i[b]) gone = gone >> (W << b);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      buf_q <= '0;
      fill_q <= '0;
    end else begin
      buf_q <= pop_i ? gone | (push ? go_in : '0) : buf_q | (push ? stay_in : '0);
      fill_q <= pop_i ? (push ? rest + push_cnt_i : rest) : (push ? fill_q + push_cnt_i : fill_q);
    end
  end
endmodule
