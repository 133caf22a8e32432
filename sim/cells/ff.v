// Flip-flops of series 7 (UG474) with clock enable and synchronous (FDRE, FDSE) or asynchronous
// (FDCE, FDPE) reset or set; reset wins over enable. A flip-flop without INIT holds at the start
// whatever the simulator's --x-initial says. Inverted pins are elaboration errors: yosys 0.23 does
// not emit them.

module FDRE #(
  parameter [0:0] INIT = 1'bx, IS_C_INVERTED = 0, IS_D_INVERTED = 0, IS_R_INVERTED = 0
) (output reg Q, input C, CE, D, R);
  if (IS_C_INVERTED || IS_D_INVERTED || IS_R_INVERTED) $fatal(1, "FDRE: inverted pins");
  if (INIT !== 1'bx) initial Q = INIT;
  always @(posedge C) begin
    if (R) Q <= 1'b0;
    else if (CE) Q <= D;
  end
endmodule

module FDSE #(
  parameter [0:0] INIT = 1'bx, IS_C_INVERTED = 0, IS_D_INVERTED = 0, IS_S_INVERTED = 0
) (output reg Q, input C, CE, D, S);
  if (IS_C_INVERTED || IS_D_INVERTED || IS_S_INVERTED) $fatal(1, "FDSE: inverted pins");
  if (INIT !== 1'bx) initial Q = INIT;
  always @(posedge C) begin
    if (S) Q <= 1'b1;
    else if (CE) Q <= D;
  end
endmodule

module FDCE #(
  parameter [0:0] INIT = 1'bx, IS_C_INVERTED = 0, IS_D_INVERTED = 0, IS_CLR_INVERTED = 0
) (output reg Q, input C, CE, D, CLR);
  if (IS_C_INVERTED || IS_D_INVERTED || IS_CLR_INVERTED) $fatal(1, "FDCE: inverted pins");
  if (INIT !== 1'bx) initial Q = INIT;
  always @(posedge C or posedge CLR) begin
    if (CLR) Q <= 1'b0;
    else if (CE) Q <= D;
  end
endmodule

module FDPE #(
  parameter [0:0] INIT = 1'bx, IS_C_INVERTED = 0, IS_D_INVERTED = 0, IS_PRE_INVERTED = 0
) (output reg Q, input C, CE, D, PRE);
  if (IS_C_INVERTED || IS_D_INVERTED || IS_PRE_INVERTED) $fatal(1, "FDPE: inverted pins");
  if (INIT !== 1'bx) initial Q = INIT;
  always @(posedge C or posedge PRE) begin
    if (PRE) Q <= 1'b1;
    else if (CE) Q <= D;
  end
endmodule
