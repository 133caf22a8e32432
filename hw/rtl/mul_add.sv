// y = a * b + c of 16-bit factors, combinational and in LUTs: written as a tree of adders, so that
// no tool takes a DSP for it. Radix-4 Booth digits of b select 0, a or 2a, or their complements;
// each of these rows is one LUT before or in an adder. The 1 that completes a complement is added
// where the operand of a later adder has a free bit.
module mul_add #(
  parameter int unsigned W = 33   // of c and y; y must fit
) (
  input  logic signed [15:0]  a_i,
  input  logic signed [15:0]  b_i,
  input  logic signed [W-1:0] c_i,
  output logic signed [W-1:0] y_o
);
  if (W < 33) begin : gen_bad
    $fatal(1, "mul_add: W must be at least 33");
  end

  logic [16:0]        digits;            // b, with a 0 below it
  logic signed [16:0] row[8];
  logic signed [19:0] pair[4];
  logic [7:0]         neg;
  assign digits = {b_i, 1'b0};
  for (genvar j = 0; j < 8; j++) begin : gen_row
    logic signed [16:0] size;
    assign neg[j] = digits[2*j+2];
    always_comb begin
      unique case (digits[2*j+:3])
        3'b000, 3'b111: size = '0;
        3'b011, 3'b100: size = {a_i, 1'b0};
        default:        size = 17'(a_i);
      endcase
    end
    assign row[j] = neg[j] ? ~size : size;
  end
  for (genvar j = 0; j < 4; j++) begin : gen_pair
    assign pair[j] = 20'(row[2*j]) + 20'($signed({row[2*j+1], 1'b0, neg[2*j]}));
  end

  logic signed [24:0] low, high;
  logic signed [W-1:0] c, l, h, sum, carry;
  assign low = 25'(pair[0]) + 25'($signed({pair[1], 1'b0, neg[1], 2'b0}));
  assign high = 25'(pair[2]) + 25'($signed({pair[3], 1'b0, neg[5], 2'b0}));
  assign c = c_i + W'($signed({1'b0, neg[7], 14'b0}));
  // three operands: one level of full adders, then an adder
  assign l = W'(low);
  assign h = W'($signed({high, 1'b0, neg[3], 6'b0}));
  assign sum = l ^ h ^ c;
  assign carry = (l & h) | (l & c) | (h & c);
  assign y_o = sum + {carry[W-2:0], 1'b0};

  logic unused;
  assign unused = carry[W-1];
endmodule
