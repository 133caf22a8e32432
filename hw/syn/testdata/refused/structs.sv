// An array of packed structs: yosys 0.23 reads the members as undeclared wires of one bit.
module structs (
  input  logic [7:0] a_i,
  output logic [3:0] q_o
);
  typedef struct packed {
    logic [3:0] x;
    logic [3:0] y;
  } pair_t;
  pair_t [1:0] s;
  assign s[0] = a_i;
  assign s[1] = ~a_i;
  assign q_o = s[0].x ^ s[1].y;
endmodule
