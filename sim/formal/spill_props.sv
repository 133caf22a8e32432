// What holds of spill whatever comes: it is a queue of two words. A word is there from the cycle after it was taken on, what
// stands at the output stays until it is taken, and every word leaves once, in order.
module spill_props #(
  parameter int unsigned WIDTH = 4
) (
  input logic clk, valid, ready,
  input logic [WIDTH-1:0] data
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic ready_o, valid_o;
  logic [WIDTH-1:0] data_o;
  spill #(.WIDTH(WIDTH)) u_spill (
    .clk_i(clk), .rst_ni(begun), .valid_i(valid), .ready_o(ready_o), .data_i(data),
    .valid_o(valid_o), .ready_i(ready), .data_o(data_o)
  );

  logic put, take;
  logic [1:0] n;  // words in it
  logic [WIDTH-1:0] first, second;
  assign put = valid && ready_o;
  assign take = valid_o && ready;
  always_ff @(posedge clk) begin
    n <= begun ? n + 2'(put) - 2'(take) : '0;
    if (take) first <= second;
    if (put && n == 2'(take)) first <= data;
    if (put && n == 2'(take) + 2'd1) second <= data;
  end

  always_comb begin
    if (begun) begin
      a_room: assert (ready_o == (n < 2'd2));
      a_there: assert (valid_o == (n != '0));
      if (n != '0) a_order: assert (data_o == first);
    end
  end

  always_ff @(posedge clk) begin
    if (begun && $past(begun && valid_o && !ready)) a_stays: assert (valid_o && data_o == $past(data_o));
  end
endmodule
