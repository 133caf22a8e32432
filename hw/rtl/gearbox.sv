// Turns beats of up to IN_WORDS words of W bits into groups of up to OUT_WORDS, any count each cycle.
// push: push_i with push_cnt_i words (lowest first), accepted while ready_o. pop: pop_i with
// pop_cnt_i <= fill_o words, taken from data_o (lowest first). Full throughput on both sides.
module gearbox #(
  parameter int unsigned IN_WORDS  = 4,
  parameter int unsigned OUT_WORDS = 8,
  parameter int unsigned W         = 16,
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
  logic [CAP*W-1:0] buf_q, shifted, inserted;
  logic [IN_WORDS*W-1:0] masked;
  logic [CW-1:0] fill_q, left;
  logic push, pop_any;

  assign ready_o = fill_q <= CW'(CAP - IN_WORDS);
  assign push = push_i && ready_o;
  assign pop_any = pop_i;
  assign fill_o = fill_q;
  assign data_o = buf_q[OUT_WORDS*W-1:0];

  always_comb begin
    masked = '0;
    for (int unsigned i = 0; i < IN_WORDS; i++) begin
      if (CW'(i) < push_cnt_i) masked[i*W+:W] = data_i[i*W+:W];
    end
  end

  // Words above the fill are zero, so that inserting is an OR; shifts are by whole words: one stage a
  // bit of the count, no product. What comes is inserted before anything leaves, since whether
  // something leaves is known last.
  assign left = pop_any ? fill_q - pop_cnt_i : fill_q;
  always_comb begin
    inserted = push ? {{((CAP - IN_WORDS) * W) {1'b0}}, masked} : '0;
    for (int unsigned b = 0; b < CW; b++) begin
      if (fill_q[b]) inserted = inserted << (W << b);
    end
    shifted = buf_q | inserted;
    for (int unsigned b = 0; b < CW; b++) begin
      if (pop_any && pop_cnt_i[b]) shifted = shifted >> (W << b);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      buf_q <= '0;
      fill_q <= '0;
    end else begin
      buf_q <= shifted;
      fill_q <= push ? left + push_cnt_i : left;
    end
  end
endmodule
