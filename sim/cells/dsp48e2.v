// DSP48E2 (UG579) as the array's chains and yosys 0.23 use it: A (27 bits) times B (18 bits),
// signed, plus C, PCIN or P, with any of the A, B, C, M and P registers. Everything else (pre-adder,
// cascades of A and B, SIMD, patterns, inverted pins, registers before the control inputs, the W
// multiplexer) is an elaboration error where it is a parameter and ends the simulation where it is
// an input.
/* verilator lint_off UNUSED */
/* verilator lint_off UNDRIVEN */
/* verilator lint_off DECLFILENAME */
module DSP48E2 #(
  parameter integer ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1,
  parameter integer CARRYINREG = 1, CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1,
  parameter integer MREG = 1, OPMODEREG = 1, PREG = 1,
  parameter A_INPUT = "DIRECT", B_INPUT = "DIRECT", AMULTSEL = "A", BMULTSEL = "B",
  parameter USE_MULT = "MULTIPLY", USE_SIMD = "ONE48", USE_PATTERN_DETECT = "NO_PATDET",
  parameter USE_WIDEXOR = "FALSE", AUTORESET_PATDET = "NO_RESET",
  parameter [0:0] IS_CLK_INVERTED = 1'b0, IS_CARRYIN_INVERTED = 1'b0,
  parameter [3:0] IS_ALUMODE_INVERTED = 4'b0,
  parameter [4:0] IS_INMODE_INVERTED = 5'b0,
  parameter [8:0] IS_OPMODE_INVERTED = 9'b0
) (
  output [47:0] P, PCOUT,
  output [29:0] ACOUT,
  output [17:0] BCOUT,
  output [3:0]  CARRYOUT,
  output [7:0]  XOROUT,
  output        CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, UNDERFLOW, PATTERNDETECT, PATTERNBDETECT,
  input  [29:0] A, ACIN,
  input  [17:0] B, BCIN,
  input  [47:0] C, PCIN,
  input  [26:0] D,
  input  [8:0]  OPMODE,
  input  [4:0]  INMODE,
  input  [3:0]  ALUMODE,
  input  [2:0]  CARRYINSEL,
  input         CARRYIN, CARRYCASCIN, MULTSIGNIN, CLK,
  input         CEA1, CEA2, CEAD, CEALUMODE, CEB1, CEB2, CEC, CECARRYIN, CECTRL, CED, CEINMODE,
  input         CEM, CEP,
  input         RSTA, RSTALLCARRYIN, RSTALUMODE, RSTB, RSTC, RSTCTRL, RSTD, RSTINMODE, RSTM, RSTP
);
  if (A_INPUT != "DIRECT" || B_INPUT != "DIRECT" || AMULTSEL != "A" || BMULTSEL != "B"
      || USE_MULT != "MULTIPLY" || USE_SIMD != "ONE48" || USE_PATTERN_DETECT != "NO_PATDET"
      || USE_WIDEXOR != "FALSE") begin
    $fatal(1, "DSP48E2: cascaded A or B, pre-adder, SIMD, patterns or XOR");
  end
  if (IS_CLK_INVERTED != 0 || IS_CARRYIN_INVERTED != 0 || IS_ALUMODE_INVERTED != 0
      || IS_INMODE_INVERTED != 0 || IS_OPMODE_INVERTED != 0) begin
    $fatal(1, "DSP48E2: inverted pins");
  end
  if (ALUMODEREG != 0 || CARRYINREG != 0 || CARRYINSELREG != 0 || INMODEREG != 0 || OPMODEREG != 0)
  begin
    $fatal(1, "DSP48E2: registers before the control inputs");
  end
  // UG579: a cascade has one register less than the input at most, and none without the input's
  if (AREG < 0 || AREG > 2 || BREG < 0 || BREG > 2 || CREG < 0 || CREG > 1 || MREG < 0 || MREG > 1
      || PREG < 0 || PREG > 1 || ACASCREG > AREG || BCASCREG > BREG || (AREG != 0 && ACASCREG == 0)
      || (BREG != 0 && BCASCREG == 0)) begin
    $fatal(1, "DSP48E2: register counts");
  end

  wire [26:0] av;
  wire [17:0] bv;
  wire [47:0] cv;
  wire [44:0] mv;
  reg  [47:0] sum;

  // one register is the second one: the first stays out
  if (AREG == 0) begin : gen_a0
    assign av = A[26:0];
  end else begin : gen_a
    reg  [26:0] a2;
    wire [26:0] first;
    if (AREG == 2) begin : gen_a1
      reg [26:0] a1;
      always @(posedge CLK) if (RSTA) a1 <= 0; else if (CEA1) a1 <= A[26:0];
      assign first = a1;
    end else begin : gen_no_a1
      assign first = A[26:0];
    end
    always @(posedge CLK) if (RSTA) a2 <= 0; else if (CEA2) a2 <= first;
    assign av = a2;
  end
  if (BREG == 0) begin : gen_b0
    assign bv = B;
  end else begin : gen_b
    reg  [17:0] b2;
    wire [17:0] first;
    if (BREG == 2) begin : gen_b1
      reg [17:0] b1;
      always @(posedge CLK) if (RSTB) b1 <= 0; else if (CEB1) b1 <= B;
      assign first = b1;
    end else begin : gen_no_b1
      assign first = B;
    end
    always @(posedge CLK) if (RSTB) b2 <= 0; else if (CEB2) b2 <= first;
    assign bv = b2;
  end
  if (CREG == 0) begin : gen_c0
    assign cv = C;
  end else begin : gen_c
    reg [47:0] c1;
    always @(posedge CLK) if (RSTC) c1 <= 0; else if (CEC) c1 <= C;
    assign cv = c1;
  end
  wire signed [44:0] product = $signed({{18{av[26]}}, av}) * $signed({{27{bv[17]}}, bv});
  if (MREG == 0) begin : gen_m0
    assign mv = product;
  end else begin : gen_m
    reg [44:0] m1;
    always @(posedge CLK) if (RSTM) m1 <= 0; else if (CEM) m1 <= product;
    assign mv = m1;
  end

  wire multiplies = OPMODE[3:0] == 4'b0101;
  wire [47:0] xy = multiplies ? {{3{mv[44]}}, mv} : 48'd0;
  if (PREG == 0) begin : gen_p0
    assign P = sum;
    always @* begin
      case (OPMODE[6:4])
        3'b001: sum = xy + PCIN;
        3'b011: sum = xy + cv;
        default: sum = xy;
      endcase
    end
  end else begin : gen_p
    reg [47:0] p1;
    assign P = p1;
    always @* begin
      case (OPMODE[6:4])
        3'b001: sum = xy + PCIN;
        3'b010: sum = xy + p1;
        3'b011: sum = xy + cv;
        default: sum = xy;
      endcase
    end
    always @(posedge CLK) if (RSTP) p1 <= 0; else if (CEP) p1 <= sum;
  end
  assign PCOUT = P;

  always @(posedge CLK) begin
    if (ALUMODE != 0 || INMODE != 0 || CARRYIN || CARRYINSEL != 0
        || !(multiplies || OPMODE[3:0] == 0) || OPMODE[8:7] != 0 || OPMODE[6]
        || (PREG == 0 && OPMODE[6:4] == 3'b010)) begin
      $fatal(1, "DSP48E2: an operation that this model does not know");
    end
  end
endmodule
