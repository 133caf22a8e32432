// Look-up tables, wide multiplexers, inverter, carry chain and buffers of series 7 (UG474): purely
// combinational. Written from the public description; only what yosys 0.23 emits.

module LUT1 #(parameter [1:0] INIT = 0) (output O, input I0);
  assign O = INIT[I0];
endmodule

module LUT2 #(parameter [3:0] INIT = 0) (output O, input I0, I1);
  assign O = INIT[{I1, I0}];
endmodule

module LUT3 #(parameter [7:0] INIT = 0) (output O, input I0, I1, I2);
  assign O = INIT[{I2, I1, I0}];
endmodule

module LUT4 #(parameter [15:0] INIT = 0) (output O, input I0, I1, I2, I3);
  assign O = INIT[{I3, I2, I1, I0}];
endmodule

module LUT5 #(parameter [31:0] INIT = 0) (output O, input I0, I1, I2, I3, I4);
  assign O = INIT[{I4, I3, I2, I1, I0}];
endmodule

module LUT6 #(parameter [63:0] INIT = 0) (output O, input I0, I1, I2, I3, I4, I5);
  assign O = INIT[{I5, I4, I3, I2, I1, I0}];
endmodule

module MUXF7 (output O, input I0, I1, S);
  assign O = S ? I1 : I0;
endmodule

module MUXF8 (output O, input I0, I1, S);
  assign O = S ? I1 : I0;
endmodule

module INV (output O, input I);
  assign O = !I;
endmodule

// Four bits of carry: S propagates, DI generates. The chain begins with CYINIT or comes in at CI,
// never both, so their OR is what the slice sees.
module CARRY4 (output [3:0] CO, O, input CI, CYINIT, input [3:0] DI, S);
  wire c0 = CI | CYINIT;
  wire c1 = S[0] ? c0 : DI[0];
  wire c2 = S[1] ? c1 : DI[1];
  wire c3 = S[2] ? c2 : DI[2];
  wire c4 = S[3] ? c3 : DI[3];
  assign CO = {c4, c3, c2, c1};
  assign O = S ^ {c3, c2, c1, c0};
endmodule

module BUFG (output O, input I);
  assign O = I;
endmodule

module IBUF (output O, input I);
  assign O = I;
endmodule

module OBUF (output O, input I);
  assign O = I;
endmodule
