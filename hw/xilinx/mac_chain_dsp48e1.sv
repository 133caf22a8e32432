// mac_chain in DSP48E1 cells (series 7, UG479): the same ports, the same bits in the same cycles. yosys infers these cells too,
// but leads the sum of one from P to the next one's C over the fabric. One cell a lane: the operand is its A register,
// the shadow weight B1, the weight B2, the product M, the sum P; the sum goes on over the cascade of one DSP column,
// c_i enters at the head's C.
module mac_chain_dsp48e1 #(
  parameter int unsigned LEN = 4,
  parameter int unsigned ACC = 36
) (
  input  logic              clk_i,
  input  logic [LEN*16-1:0] a_i,
  input  logic [LEN-1:0]    swap_i,
  input  logic              load_i,
  input  logic [LEN*16-1:0] w_i,
  input  logic [ACC-1:0]    c_i,
  output logic [ACC-1:0]    p_o
);
  if (ACC < 33 || ACC > 48) begin : gen_bad
    $fatal(1, "mac_chain_dsp48e1: ACC must be 33 to 48");
  end

  // packed: yosys 0.23 takes an unpacked array at a cell's output for a memory and drops the cell
  logic [LEN*48-1:0]     p;
  logic [(LEN+1)*48-1:0] pc;
  logic [47:0]           c;
  if (ACC < 48) begin : gen_extend
    assign c = {{(48-ACC){c_i[ACC-1]}}, c_i};
  end else begin : gen_whole
    assign c = c_i;
  end

  for (genvar j = 0; j < LEN; j++) begin : gen_lane
    logic [57:0] rest;
    logic        unused;
    // X and Y: the product, Z: C at the head, PCIN behind it
    DSP48E1 #(
      .A_INPUT("DIRECT"), .B_INPUT("DIRECT"), .USE_DPORT("FALSE"),
      .USE_MULT("MULTIPLY"), .USE_SIMD("ONE48"), .USE_PATTERN_DETECT("NO_PATDET"),
      .AREG(1), .ACASCREG(1), .BREG(2), .BCASCREG(2), .CREG(0), .DREG(0), .ADREG(0), .MREG(1), .PREG(1),
      .ALUMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0), .INMODEREG(0), .OPMODEREG(0)
    ) u_dsp (
      .CLK(clk_i),
      .A({{14{a_i[j*16+15]}}, a_i[j*16+:16]}),
      .B({{2{w_i[j*16+15]}}, w_i[j*16+:16]}),
      .C((j == 0) ? c : 48'd0),
      .PCIN(pc[j*48+:48]),
      .D(25'd0), .ACIN(30'd0), .BCIN(18'd0),
      .OPMODE((j == 0) ? 7'b011_01_01 : 7'b001_01_01),
      .ALUMODE(4'd0), .INMODE(5'd0), .CARRYIN(1'b0), .CARRYINSEL(3'd0), .CARRYCASCIN(1'b0),
      .MULTSIGNIN(1'b0),
      .CEA1(1'b0), .CEA2(1'b1), .CEB1(load_i), .CEB2(swap_i[j]), .CEC(1'b0), .CEM(1'b1), .CEP(1'b1),
      .CED(1'b0), .CEAD(1'b0), .CEALUMODE(1'b0), .CECARRYIN(1'b0), .CECTRL(1'b0), .CEINMODE(1'b0),
      .RSTA(1'b0), .RSTB(1'b0), .RSTC(1'b0), .RSTD(1'b0), .RSTM(1'b0), .RSTP(1'b0), .RSTCTRL(1'b0),
      .RSTALLCARRYIN(1'b0), .RSTALUMODE(1'b0), .RSTINMODE(1'b0),
      // every output, so that no tool warns of open pins
      .P(p[j*48+:48]), .PCOUT(pc[(j+1)*48+:48]), .ACOUT(rest[29:0]), .BCOUT(rest[47:30]),
      .CARRYOUT(rest[51:48]), .CARRYCASCOUT(rest[52]), .MULTSIGNOUT(rest[53]),
      .OVERFLOW(rest[54]), .UNDERFLOW(rest[55]), .PATTERNDETECT(rest[56]), .PATTERNBDETECT(rest[57])
    );
    assign unused = ^rest;
  end

  assign pc[47:0] = '0;
  assign p_o = p[(LEN-1)*48+:ACC];
  logic unused_sums;  // all but the last leave over the cascade
  assign unused_sums = ^{p, pc[LEN*48+:48]};
endmodule
