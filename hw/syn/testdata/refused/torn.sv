// More than 64 words with a reset: yosys tears them into registers before any mapping.
module torn (
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic [6:0] addr_i,
  input  logic       d_i,
  output logic       q_o
);
  logic mem[128];
  always_ff @(posedge clk_i) begin
    if (!rst_ni) for (int i = 0; i < 128; i++) mem[i] <= 1'b0;
    else mem[addr_i] <= d_i;
  end
  assign q_o = mem[addr_i];
endmodule
