// Writes the words of a kept tensor (KEEP_OUT) into the activation buffer, from the element given
// by the run on, as many per cycle as the drain delivers. Words that also go to DRAM are taken when
// out_writer takes them (word_i); words that only stay on chip (ON_CHIP) are always taken here.
module keep_writer #(
  parameter int unsigned IN_WORDS = 8,
  parameter int unsigned EW       = 14,
  localparam int unsigned CW = $clog2(IN_WORDS + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   run_i,        // a run of a kept tensor has been taken
  input  logic                   run_half_i,
  input  logic [EW-1:0]          run_elem_i,
  input  logic [23:0]            run_elems_i,
  output logic                   free_o,       // the current run ends now, or there is none
  input  logic                   word_i,
  input  logic [IN_WORDS*16-1:0] data_i,
  input  logic [CW-1:0]          cnt_i,
  output logic                   busy_o,       // a run's words are awaited
  output logic                   wr_half_o,
  output logic [EW-1:0]          wr_elem_o,
  output logic [IN_WORDS-1:0]    wr_mask_o,
  output logic [IN_WORDS*16-1:0] wr_data_o
);
  logic          half_q;
  logic [EW-1:0] elem_q;
  logic [23:0]   left_q;
  assign busy_o = left_q != '0;
  assign free_o = !busy_o || (word_i && left_q == 24'(cnt_i));

  always_ff @(posedge clk_i) begin
    wr_half_o <= half_q;
    wr_elem_o <= elem_q;
    wr_data_o <= data_i;
    for (int unsigned i = 0; i < IN_WORDS; i++) begin
      wr_mask_o[i] <= rst_ni && busy_o && word_i && CW'(i) < cnt_i;
    end
    if (!rst_ni) begin
      left_q <= '0;
    end else if (run_i) begin
      half_q <= run_half_i;
      elem_q <= run_elem_i;
      left_q <= run_elems_i;
    end else if (busy_o && word_i) begin
      elem_q <= elem_q + EW'(cnt_i);
      left_q <= left_q - 24'(cnt_i);
    end
  end
endmodule
