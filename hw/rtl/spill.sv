// Spill register: cuts valid, data and ready of a handshake. It holds two words, so that ready_o
// comes from a register and a word can still leave in every cycle. Latency one cycle.
module spill #(
  parameter int unsigned WIDTH = 8
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  output logic             ready_o,
  input  logic [WIDTH-1:0] data_i,
  output logic             valid_o,
  input  logic             ready_i,
  output logic [WIDTH-1:0] data_o
);
  logic             valid_q, full_q;
  logic [WIDTH-1:0] data_q, next_q;  // word that leaves; word that waits

  assign ready_o = !full_q;
  assign valid_o = valid_q;
  assign data_o = data_q;

  always_ff @(posedge clk_i) begin
    if (!valid_q || ready_i) data_q <= full_q ? next_q : data_i;
    if (!full_q) next_q <= data_i;
    if (!rst_ni) begin
      valid_q <= 1'b0;
      full_q <= 1'b0;
    end else if (!valid_q || ready_i) begin
      valid_q <= full_q || valid_i;
      full_q <= 1'b0;
    end else if (valid_i) begin
      full_q <= 1'b1;
    end
  end
endmodule
