// y = a * b in LUTs, b of 18 bits and at least -2^16 (its upper two bits are alike where it is negative): radix-4 Booth digits
// of b select 0, a or 2a, or their complements, as in mul_add, in a tree of adders with a register behind each level. The 1
// that completes a complement is added where the operand of a later adder has a free bit.
// Latency 4 cycles.
module mul_lut #(
  parameter int unsigned A = 32
) (
  input  logic                 clk_i,
  input  logic signed [A-1:0]  a_i,
  input  logic signed [17:0]   b_i,
  output logic signed [A+17:0] y_o
);
  logic [18:0]         digits;      // b, with a 0 below it
  logic signed [A:0]   row[9];
  logic [8:0]          neg;
  assign digits = {b_i, 1'b0};
  for (genvar j = 0; j < 9; j++) begin : gen_row
    logic signed [A:0] size;
    assign neg[j] = digits[2*j+2] && digits[2*j+:2] != 2'b11;
    always_comb begin
      unique case (digits[2*j+:3])
        3'b000, 3'b111: size = '0;
        3'b011, 3'b100: size = {a_i, 1'b0};
        default:        size = (A + 1)'(a_i);
      endcase
    end
    assign row[j] = neg[j] ? ~size : size;
  end

  logic signed [A+3:0]  pair_q[4];
  logic signed [A+8:0]  low_q, high_q;
  logic signed [A+16:0] both_q;
  logic signed [A+17:0] y_q;
  logic signed [A:0]    last_q[3];
  logic [3:0]           neg1_q;     // of rows 1, 3, 5, 7
  logic [1:0]           neg2_q;     // 3, 7
  logic                 neg3_q;     // 7
  always_ff @(posedge clk_i) begin
    for (int unsigned j = 0; j < 4; j++) begin
      pair_q[j] <= (A + 4)'(row[2*j]) + (A + 4)'($signed({row[2*j+1], 1'b0, neg[2*j]}));
    end
    neg1_q <= {neg[7], neg[5], neg[3], neg[1]};
    low_q <= (A + 9)'(pair_q[0]) + (A + 9)'($signed({pair_q[1], 1'b0, neg1_q[0], 2'b0}));
    high_q <= (A + 9)'(pair_q[2]) + (A + 9)'($signed({pair_q[3], 1'b0, neg1_q[2], 2'b0}));
    neg2_q <= {neg1_q[3], neg1_q[1]};
    both_q <= (A + 17)'(low_q) + (A + 17)'($signed({high_q, 1'b0, neg2_q[0], 6'b0}));
    neg3_q <= neg2_q[1];
    last_q[0] <= row[8];
    last_q[1] <= last_q[0];
    last_q[2] <= last_q[1];
    y_q <= (A + 18)'(both_q) + (A + 18)'($signed({last_q[2], 1'b0, neg3_q, 14'b0}));
  end
  assign y_o = y_q;

  logic unused;
  assign unused = neg[8];
endmodule
