// Words of weights as they lie in DRAM, two channels a word (the lower byte's and the upper byte's, each -127 to 127), become
// mac_packed's: (upper << S) + lower. A lower byte below 0 takes 1 from the upper one. Combinational, in front of the shadow
// weights, once for all PEs.
module weight_pack #(
  parameter int unsigned WORDS   = 14,
  parameter bit          DSP48E2 = 1'b0,
  localparam int unsigned S = DSP48E2 ? 18 : 17,
  localparam int unsigned W = S + 8
) (
  input  logic [WORDS*16-1:0] w_i,
  output logic [WORDS*W-1:0]  w_o
);
  for (genvar j = 0; j < WORDS; j++) begin : gen_word
    logic [7:0] lower, upper;
    assign {upper, lower} = w_i[j*16+:16];
    assign w_o[j*W+:W] = {upper - 8'(lower[7]), {(S-8){lower[7]}}, lower};
  end
endmodule
