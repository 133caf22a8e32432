// mac_segment in DSP48E2 cells (UltraScale+, UG579), for tools that infer the multiplier alone: the
// same ports, the same bits in the same cycles, for S = 18. One cell a lane: the shadow weight is its A1
// register, the weight A2, the operand B2, the product M, the sum P; the sum goes on over the cascade of one DSP
// column, and the head adds the constant at C.
module mac_segment_dsp48e2 #(
  parameter int unsigned LEN = 8,
  localparam int unsigned S = 18,
  localparam int unsigned W = S + 8
) (
  input  logic             clk_i,
  input  logic [LEN*8-1:0] a_i,
  input  logic [LEN-1:0]   swap_i,
  input  logic             load_i,
  input  logic [LEN*W-1:0] w_i,
  output logic [2*S-1:0]   p_o
);
  // packed: yosys 0.23 takes an unpacked array at a cell's output for a memory and drops the cell
  logic [LEN*48-1:0]     p;
  logic [(LEN+1)*48-1:0] pc;

  for (genvar j = 0; j < LEN; j++) begin : gen_lane
    logic [65:0] rest;
    logic        unused;
    // X and Y: the product, Z: C at the head, PCIN behind it, W: nothing
    DSP48E2 #(
      .A_INPUT("DIRECT"), .B_INPUT("DIRECT"), .AMULTSEL("A"), .BMULTSEL("B"),
      .USE_MULT("MULTIPLY"), .USE_SIMD("ONE48"), .USE_PATTERN_DETECT("NO_PATDET"),
      .AREG(2), .ACASCREG(2), .BREG(1), .BCASCREG(1), .CREG(0), .MREG(1), .PREG(1),
      .ALUMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0), .INMODEREG(0), .OPMODEREG(0)
    ) u_dsp (
      .CLK(clk_i),
      .A({{(30-W){w_i[j*W+W-1]}}, w_i[j*W+:W]}),
      .B({{10{a_i[j*8+7]}}, a_i[j*8+:8]}),
      .C((j == 0) ? 48'd1 << (S - 1) : 48'd0),
      .PCIN(pc[j*48+:48]),
      .D(27'd0), .ACIN(30'd0), .BCIN(18'd0),
      .OPMODE((j == 0) ? 9'b00_011_01_01 : 9'b00_001_01_01),
      .ALUMODE(4'd0), .INMODE(5'd0), .CARRYIN(1'b0), .CARRYINSEL(3'd0), .CARRYCASCIN(1'b0),
      .MULTSIGNIN(1'b0),
      .CEA1(load_i), .CEA2(swap_i[j]), .CEB1(1'b0), .CEB2(1'b1), .CEC(1'b0), .CEM(1'b1), .CEP(1'b1),
      .CED(1'b0), .CEAD(1'b0), .CEALUMODE(1'b0), .CECARRYIN(1'b0), .CECTRL(1'b0), .CEINMODE(1'b0),
      .RSTA(1'b0), .RSTB(1'b0), .RSTC(1'b0), .RSTD(1'b0), .RSTM(1'b0), .RSTP(1'b0), .RSTCTRL(1'b0),
      .RSTALLCARRYIN(1'b0), .RSTALUMODE(1'b0), .RSTINMODE(1'b0),
      // every output, so that no tool warns of open pins
      .P(p[j*48+:48]), .PCOUT(pc[(j+1)*48+:48]), .ACOUT(rest[29:0]), .BCOUT(rest[47:30]),
      .CARRYOUT(rest[51:48]), .XOROUT(rest[59:52]), .CARRYCASCOUT(rest[60]), .MULTSIGNOUT(rest[61]),
      .OVERFLOW(rest[62]), .UNDERFLOW(rest[63]), .PATTERNDETECT(rest[64]), .PATTERNBDETECT(rest[65])
    );
    assign unused = ^rest;
  end

  assign pc[47:0] = '0;
  assign p_o = p[(LEN-1)*48+:2*S];
  logic unused_sums;  // all but the last leave over the cascade
  assign unused_sums = ^{p, pc[LEN*48+:48]};
endmodule
