// DSP48E1 (UG479) as the array's chains and yosys 0.23 use it: A (25 bits) times B (18 bits), signed, plus C, PCIN or
// P, with any of the A, B, C, M and P registers. Control inputs that yosys ties off (ALUMODE,
// INMODE, CARRYIN and the registers before them) must stay so; anything else is an elaboration
// error where it is a parameter and ends the simulation where it is an input.
/* verilator lint_off UNUSED */
/* verilator lint_off UNDRIVEN */
/* verilator lint_off DECLFILENAME */
/* verilator lint_off WIDTH */
module DSP48E1 #(
  parameter integer ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1,
  parameter integer CARRYINREG = 1, CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1,
  parameter integer MREG = 1, OPMODEREG = 1, PREG = 1,
  parameter A_INPUT = "DIRECT", B_INPUT = "DIRECT", USE_DPORT = "FALSE", USE_MULT = "MULTIPLY",
  parameter USE_SIMD = "ONE48", AUTORESET_PATDET = "NO_RESET", USE_PATTERN_DETECT = "NO_PATDET"
) (
  output [47:0] P, PCOUT,
  output [29:0] ACOUT,
  output [17:0] BCOUT,
  output [3:0]  CARRYOUT,
  output        CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, UNDERFLOW, PATTERNDETECT, PATTERNBDETECT,
  input  [29:0] A, ACIN,
  input  [17:0] B, BCIN,
  input  [47:0] C, PCIN,
  input  [24:0] D,
  input  [6:0]  OPMODE,
  input  [4:0]  INMODE,
  input  [3:0]  ALUMODE,
  input  [2:0]  CARRYINSEL,
  input         CARRYIN, CARRYCASCIN, MULTSIGNIN, CLK,
  input         CEA1, CEA2, CEAD, CEALUMODE, CEB1, CEB2, CEC, CECARRYIN, CECTRL, CED, CEINMODE,
  input         CEM, CEP,
  input         RSTA, RSTALLCARRYIN, RSTALUMODE, RSTB, RSTC, RSTCTRL, RSTD, RSTINMODE, RSTM, RSTP
);
  if (A_INPUT != "DIRECT" || USE_DPORT != "FALSE" || USE_MULT != "MULTIPLY"
      || USE_SIMD != "ONE48" || USE_PATTERN_DETECT != "NO_PATDET") begin
    $fatal(1, "DSP48E1: cascaded A, pre-adder, SIMD or pattern detection");
  end
  if (ALUMODEREG != 0 || CARRYINREG != 0 || CARRYINSELREG != 0 || INMODEREG != 0 || OPMODEREG != 0)
  begin
    $fatal(1, "DSP48E1: registers before the control inputs");
  end
  // UG479: a cascade has one register less than the input at most, and none without the input's
  if (AREG < 0 || AREG > 2 || BREG < 0 || BREG > 2 || CREG < 0 || CREG > 1 || MREG < 0 || MREG > 1
      || PREG < 0 || PREG > 1 || ACASCREG > AREG || BCASCREG > BREG || (AREG != 0 && ACASCREG == 0)
      || (BREG != 0 && BCASCREG == 0)) begin
    $fatal(1, "DSP48E1: register counts");
  end

  reg [24:0] a1, a2;
  reg [17:0] b1, b2;
  reg [47:0] c1, p1;
  reg [42:0] m1;
  // one register is the second one: the first stays out
  wire [24:0] av = (AREG == 0) ? A[24:0] : a2;
  wire [17:0] bi = (B_INPUT == "CASCADE") ? BCIN : B;
  wire [17:0] bv = (BREG == 0) ? bi : b2;
  assign BCOUT = (BREG == 2 && BCASCREG == 1) ? b1 : bv;
  wire [47:0] cv = (CREG == 0) ? C : c1;
  wire signed [42:0] product = $signed(av) * $signed(bv);
  wire [42:0] mv = (MREG == 0) ? product : m1;

  wire multiplies = OPMODE[3:0] == 4'b0101;
  wire [47:0] xy = multiplies ? {{5{mv[42]}}, mv} : 48'd0;
  reg [47:0] z;
  always @* begin
    case (OPMODE[6:4])
      3'b001: z = PCIN;
      3'b010: z = p1;
      3'b011: z = cv;
      3'b101: z = {{17{PCIN[47]}}, PCIN[47:17]};
      3'b110: z = {{17{p1[47]}}, p1[47:17]};
      default: z = 48'd0;
    endcase
  end
  wire [47:0] sum = xy + z;

  if (AREG == 2) begin : gen_a1
    always @(posedge CLK) if (RSTA) a1 <= 0; else if (CEA1) a1 <= A[24:0];
  end
  if (AREG != 0) begin : gen_a2
    always @(posedge CLK) if (RSTA) a2 <= 0; else if (CEA2) a2 <= (AREG == 2) ? a1 : A[24:0];
  end
  if (BREG == 2) begin : gen_b1
    always @(posedge CLK) if (RSTB) b1 <= 0; else if (CEB1) b1 <= bi;
  end
  if (BREG != 0) begin : gen_b2
    always @(posedge CLK) if (RSTB) b2 <= 0; else if (CEB2) b2 <= (BREG == 2) ? b1 : bi;
  end
  if (CREG != 0) begin : gen_c
    always @(posedge CLK) if (RSTC) c1 <= 0; else if (CEC) c1 <= C;
  end
  if (MREG != 0) begin : gen_m
    always @(posedge CLK) if (RSTM) m1 <= 0; else if (CEM) m1 <= product;
  end
  if (PREG != 0) begin : gen_p
    always @(posedge CLK) if (RSTP) p1 <= 0; else if (CEP) p1 <= sum;
    assign P = p1;
  end else begin : gen_no_p
    assign P = sum;
  end
  assign PCOUT = P;

  always @(posedge CLK) begin
    if (ALUMODE != 0 || INMODE != 0 || CARRYIN || CARRYINSEL != 0 || !(multiplies || OPMODE[3:0] == 0)
        || OPMODE[6:4] == 3'b100 || OPMODE[6:4] == 3'b111
        || (PREG == 0 && (OPMODE[6:4] == 3'b010 || OPMODE[6:4] == 3'b110))) begin
      $fatal(1, "DSP48E1: an operation that this model does not know");
    end
  end
endmodule
