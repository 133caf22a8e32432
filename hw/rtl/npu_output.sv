// Passes each run of the output to its writer (out_writer, and keep_writer if the tensor is kept),
// connects the source of words with the writers, and counts the layers written. A layer is written
// when its last run has been answered, or when its last word is on chip; runs of the next layer
// wait for that.
//
// Handshakes are combinational; the register for words is outside, between data_o and
// words_valid_i. A layer counts at the earliest two cycles after run_done_i.
module npu_output #(
  parameter int unsigned WIDTH = 8             // of what drain and pool give at a time
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  output logic [8:0]       layers_written_o,
  // runs, run_gen's
  input  logic             run_valid_i,
  output logic             run_ready_o,
  input  logic             run_pool_i,         // of a pool
  input  logic             run_keep_i,         // also, or only, kept on chip
  input  logic             run_local_i,        // only
  input  logic             run_done_i,         // the layer's last run has been taken
  input  logic             run_err_i,
  output logic             err_valid_o,
  // writers
  output logic             out_run_valid_o,
  input  logic             out_run_ready_i,
  input  logic             out_idle_i,
  output logic             keep_run_o,
  input  logic             keep_free_i,
  input  logic             keep_busy_i,
  input  logic             wr_idle_i,          // all writes are answered
  // words, before their register
  input  logic             drain_valid_i,
  output logic             drain_ready_o,
  input  logic [WIDTH-1:0] drain_data_i,
  input  logic             pool_valid_i,
  output logic             pool_ready_o,
  input  logic [WIDTH-1:0] pool_data_i,
  output logic             valid_o,
  input  logic             ready_i,
  output logic [WIDTH-1:0] data_o,
  // and behind it
  input  logic             words_valid_i,
  output logic             words_ready_o,
  output logic             out_valid_o,
  input  logic             out_ready_i,
  output logic             keep_word_o
);
  logic       closing_q;
  logic [8:0] layers_written_q;
  // the source of words is selected by the run that is being written, not by the one that run_gen
  // offers
  logic       pool_q, local_q;

  assign run_ready_o = (run_local_i ? keep_free_i : out_run_ready_i) && !closing_q;
  assign out_run_valid_o = run_valid_i && !closing_q && !run_local_i;
  assign keep_run_o = run_valid_i && run_ready_o && run_keep_i;
  // run_gen may offer the first run of the next layer while the last runs of this one are being
  // answered; an error names its own layer
  assign err_valid_o = run_err_i && !closing_q;

  always_ff @(posedge clk_i) begin
    if (run_valid_i && run_ready_o) begin
      pool_q <= run_pool_i;
      local_q <= run_local_i;
    end
  end

  // Words wait for their run at most: drain and pool never hold words of different layers at the
  // same time, since a layer's activations are loaded when the previous layer is written.
  assign valid_o = pool_q ? pool_valid_i : drain_valid_i;
  assign data_o = pool_q ? pool_data_i : drain_data_i;
  assign drain_ready_o = ready_i && !pool_q;
  assign pool_ready_o = ready_i && pool_q;

  assign words_ready_o = local_q ? keep_busy_i : out_ready_i;
  assign out_valid_o = words_valid_i && !local_q;
  assign keep_word_o = words_valid_i && words_ready_o;

  assign layers_written_o = layers_written_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      layers_written_q <= '0;
      closing_q <= 1'b0;
    end else if (run_done_i) begin
      closing_q <= 1'b1;
    end else if (closing_q && out_idle_i && wr_idle_i && !keep_busy_i) begin
      closing_q <= 1'b0;
      layers_written_q <= layers_written_q + 9'd1;
    end
  end
endmodule
