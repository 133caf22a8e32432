// Distributed memories and shift registers of series 7 (UG474): written at the clock's edge, read
// without a clock. yosys gives a memory whose contents are undefined the INIT 0; here it begins with
// whatever --x-initial says, so that a design that reads what it never wrote shows. A true INIT is
// therefore an elaboration error, and so is an inverted clock.

// Four memories of 32 words by 2 bits with one write address (D's).
module RAM32M #(
  parameter [63:0] INIT_A = 64'h0, INIT_B = 64'h0, INIT_C = 64'h0, INIT_D = 64'h0,
  parameter [0:0] IS_WCLK_INVERTED = 0
) (
  output [1:0] DOA, DOB, DOC, DOD,
  input  [4:0] ADDRA, ADDRB, ADDRC, ADDRD,
  input  [1:0] DIA, DIB, DIC, DID,
  input        WCLK, WE
);
  if (IS_WCLK_INVERTED) $fatal(1, "RAM32M: inverted clock");
  if ({INIT_A, INIT_B, INIT_C, INIT_D} !== 256'b0) $fatal(1, "RAM32M: initial contents");
  reg [1:0] a[0:31], b[0:31], c[0:31], d[0:31];
  always @(posedge WCLK) begin
    if (WE) begin
      a[ADDRD] <= DIA;
      b[ADDRD] <= DIB;
      c[ADDRD] <= DIC;
      d[ADDRD] <= DID;
    end
  end
  assign DOA = a[ADDRA];
  assign DOB = b[ADDRB];
  assign DOC = c[ADDRC];
  assign DOD = d[ADDRD];
endmodule

// Four memories of 64 words by 1 bit with one write address (D's).
module RAM64M #(
  parameter [63:0] INIT_A = 64'h0, INIT_B = 64'h0, INIT_C = 64'h0, INIT_D = 64'h0,
  parameter [0:0] IS_WCLK_INVERTED = 0
) (
  output       DOA, DOB, DOC, DOD,
  input  [5:0] ADDRA, ADDRB, ADDRC, ADDRD,
  input        DIA, DIB, DIC, DID,
  input        WCLK, WE
);
  if (IS_WCLK_INVERTED) $fatal(1, "RAM64M: inverted clock");
  if ({INIT_A, INIT_B, INIT_C, INIT_D} !== 256'b0) $fatal(1, "RAM64M: initial contents");
  reg a[0:63], b[0:63], c[0:63], d[0:63];
  always @(posedge WCLK) begin
    if (WE) begin
      a[ADDRD] <= DIA;
      b[ADDRD] <= DIB;
      c[ADDRD] <= DIC;
      d[ADDRD] <= DID;
    end
  end
  assign DOA = a[ADDRA];
  assign DOB = b[ADDRB];
  assign DOC = c[ADDRC];
  assign DOD = d[ADDRD];
endmodule

// One write and one read address, 32 or 64 words by 1 bit.
module RAM32X1D #(parameter [31:0] INIT = 0, parameter [0:0] IS_WCLK_INVERTED = 0) (
  output DPO, SPO,
  input  A0, A1, A2, A3, A4, DPRA0, DPRA1, DPRA2, DPRA3, DPRA4, D, WCLK, WE
);
  if (IS_WCLK_INVERTED || INIT !== 32'b0) $fatal(1, "RAM32X1D: inverted clock or initial contents");
  wire [4:0] w = {A4, A3, A2, A1, A0};
  reg m[0:31];
  always @(posedge WCLK) if (WE) m[w] <= D;
  assign SPO = m[w];
  assign DPO = m[{DPRA4, DPRA3, DPRA2, DPRA1, DPRA0}];
endmodule

module RAM64X1D #(parameter [63:0] INIT = 0, parameter [0:0] IS_WCLK_INVERTED = 0) (
  output DPO, SPO,
  input  A0, A1, A2, A3, A4, A5, DPRA0, DPRA1, DPRA2, DPRA3, DPRA4, DPRA5, D, WCLK, WE
);
  if (IS_WCLK_INVERTED || INIT !== 64'b0) $fatal(1, "RAM64X1D: inverted clock or initial contents");
  wire [5:0] w = {A5, A4, A3, A2, A1, A0};
  reg m[0:63];
  always @(posedge WCLK) if (WE) m[w] <= D;
  assign SPO = m[w];
  assign DPO = m[{DPRA5, DPRA4, DPRA3, DPRA2, DPRA1, DPRA0}];
endmodule

// Shift registers of up to 16 and 32 bits with a free tap. yosys shortens an INIT of zeros.
module SRL16E #(parameter [15:0] INIT = 0, parameter [0:0] IS_CLK_INVERTED = 0) (
  output Q, input A0, A1, A2, A3, CE, CLK, D
);
  if (IS_CLK_INVERTED || INIT !== 16'b0) $fatal(1, "SRL16E: inverted clock or initial contents");
  reg [15:0] r;
  always @(posedge CLK) if (CE) r <= {r[14:0], D};
  assign Q = r[{A3, A2, A1, A0}];
endmodule

module SRLC32E #(parameter [31:0] INIT = 0, parameter [0:0] IS_CLK_INVERTED = 0) (
  output Q, Q31, input [4:0] A, input CE, CLK, D
);
  if (IS_CLK_INVERTED || INIT !== 32'b0) $fatal(1, "SRLC32E: inverted clock or initial contents");
  reg [31:0] r;
  always @(posedge CLK) if (CE) r <= {r[30:0], D};
  assign Q = r[A];
  assign Q31 = r[31];
endmodule
