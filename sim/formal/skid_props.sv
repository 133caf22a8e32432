// What holds of skid whatever comes. With PASS, behind a pipeline that does not stop: the words are those of a pipeline that a
// stall stops as a whole, in the same cycles. Without, where no word comes that finds no room: it is fifo.
module skid_props #(
  parameter int unsigned WIDTH  = 2,
  parameter int unsigned STAGES = 4
) (
  input logic clk, go, ready, put, pop,
  input logic [WIDTH-1:0] data
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic en, take, end_valid;
  logic [STAGES-1:0] v_q, done_q;
  logic [STAGES*WIDTH-1:0] stop_q, run_q;
  logic [WIDTH-1:0] end_data;
  assign en = ready || !v_q[STAGES-1];
  assign take = ready && v_q[STAGES-1];
  always_ff @(posedge clk) begin
    if (en) stop_q <= {stop_q[(STAGES-1)*WIDTH-1:0], data};
    run_q <= {run_q[(STAGES-1)*WIDTH-1:0], data};
    if (!begun) {v_q, done_q} <= '0;
    else begin
      if (en) v_q <= {v_q[STAGES-2:0], go};
      done_q <= {done_q[STAGES-2:0], go && en};
    end
  end
  skid #(.WIDTH(WIDTH), .DEPTH(4), .PASS(1'b1)) u_end (
    .clk_i(clk), .rst_ni(begun), .valid_i(done_q[STAGES-1]), .data_i(run_q[(STAGES-1)*WIDTH+:WIDTH]),
    .valid_o(end_valid), .pop_i(take), .data_o(end_data)
  );

  logic room, there, fifo_there;
  logic [WIDTH-1:0] word, fifo_word;
  skid #(.WIDTH(WIDTH), .DEPTH(4)) u_queue (
    .clk_i(clk), .rst_ni(begun), .valid_i(put && room), .data_i(data), .valid_o(there), .pop_i(pop && there), .data_o(word)
  );
  fifo #(.WIDTH(WIDTH), .DEPTH(4)) u_fifo (
    .clk_i(clk), .rst_ni(begun), .valid_i(put), .ready_o(room), .wdata_i(data), .valid_o(fifo_there), .ready_i(pop), .rdata_o(fifo_word)
  );

  always_comb begin
    if (begun) begin
      if (v_q[STAGES-1]) a_end: assert (end_valid);
      if (v_q[STAGES-1]) a_end_word: assert (end_data == stop_q[(STAGES-1)*WIDTH+:WIDTH]);
      a_there: assert (there == fifo_there);
      if (there) a_word: assert (word == fifo_word);
    end
  end
endmodule
