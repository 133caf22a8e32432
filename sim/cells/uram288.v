// URAM288_BASE (UG573) as ram_uram uses it: port A reads, port B writes bytes, one clock, output register of A. In a cycle port
// A comes before B, so a read of the address being written gives the old bytes. Contents and registers begin with whatever
// --x-initial says. Everything else is an elaboration error where it is a parameter and ends the simulation where it is an input.
/* verilator lint_off UNUSED */
/* verilator lint_off UNDRIVEN */
/* verilator lint_off DECLFILENAME */
/* verilator lint_off WIDTH */
module URAM288_BASE #(
  parameter integer AUTO_SLEEP_LATENCY = 8, AVG_CONS_INACTIVE_CYCLES = 10,
  parameter BWE_MODE_A = "PARITY_INTERLEAVED", BWE_MODE_B = "PARITY_INTERLEAVED",
  parameter EN_AUTO_SLEEP_MODE = "FALSE",
  parameter EN_ECC_RD_A = "FALSE", EN_ECC_RD_B = "FALSE", EN_ECC_WR_A = "FALSE", EN_ECC_WR_B = "FALSE",
  parameter IREG_PRE_A = "FALSE", IREG_PRE_B = "FALSE",
  parameter [0:0] IS_CLK_INVERTED = 1'b0, IS_EN_A_INVERTED = 1'b0, IS_EN_B_INVERTED = 1'b0,
  parameter [0:0] IS_RDB_WR_A_INVERTED = 1'b0, IS_RDB_WR_B_INVERTED = 1'b0,
  parameter [0:0] IS_RST_A_INVERTED = 1'b0, IS_RST_B_INVERTED = 1'b0,
  parameter OREG_A = "FALSE", OREG_B = "FALSE", OREG_ECC_A = "FALSE", OREG_ECC_B = "FALSE",
  parameter RST_MODE_A = "SYNC", RST_MODE_B = "SYNC", USE_EXT_CE_A = "FALSE", USE_EXT_CE_B = "FALSE"
) (
  output        DBITERR_A, DBITERR_B, SBITERR_A, SBITERR_B,
  output [71:0] DOUT_A, DOUT_B,
  input  [22:0] ADDR_A, ADDR_B,
  input  [8:0]  BWE_A, BWE_B,
  input  [71:0] DIN_A, DIN_B,
  input         CLK, EN_A, EN_B, RDB_WR_A, RDB_WR_B, RST_A, RST_B, SLEEP,
  input         INJECT_DBITERR_A, INJECT_DBITERR_B, INJECT_SBITERR_A, INJECT_SBITERR_B,
  input         OREG_CE_A, OREG_CE_B, OREG_ECC_CE_A, OREG_ECC_CE_B
);
  if (BWE_MODE_A != "PARITY_INDEPENDENT" || BWE_MODE_B != "PARITY_INDEPENDENT") $fatal(1, "URAM288: nine bits to a byte");
  if (OREG_A != "TRUE" || USE_EXT_CE_A != "TRUE" || OREG_B != "FALSE" || USE_EXT_CE_B != "FALSE") $fatal(1, "URAM288: output registers");
  if (RST_MODE_A != "SYNC" || RST_MODE_B != "SYNC") $fatal(1, "URAM288: asynchronous reset");
  if (EN_AUTO_SLEEP_MODE != "FALSE" || EN_ECC_RD_A != "FALSE" || EN_ECC_RD_B != "FALSE" || EN_ECC_WR_A != "FALSE"
      || EN_ECC_WR_B != "FALSE" || OREG_ECC_A != "FALSE" || OREG_ECC_B != "FALSE" || IREG_PRE_A != "FALSE"
      || IREG_PRE_B != "FALSE") begin
    $fatal(1, "URAM288: sleep, ECC or input registers");
  end
  if ({IS_CLK_INVERTED, IS_EN_A_INVERTED, IS_EN_B_INVERTED, IS_RDB_WR_A_INVERTED, IS_RDB_WR_B_INVERTED, IS_RST_A_INVERTED,
       IS_RST_B_INVERTED} != 0) begin
    $fatal(1, "URAM288: inverted pins");
  end

  reg [71:0] mem[0:4095];
  reg [71:0] read_q, out_q;
  integer i;
  always @(posedge CLK) begin
    if (EN_A) read_q <= mem[ADDR_A[11:0]];
    if (OREG_CE_A) out_q <= read_q;
    if (EN_B && RDB_WR_B) begin
      for (i = 0; i < 8; i = i + 1) if (BWE_B[i]) mem[ADDR_B[11:0]][i*8+:8] <= DIN_B[i*8+:8];
      if (BWE_B[8]) mem[ADDR_B[11:0]][71:64] <= DIN_B[71:64];
    end
    if (RDB_WR_A && EN_A || !RDB_WR_B && EN_B || RST_A || RST_B || SLEEP || ADDR_A[22:12] != 0 || ADDR_B[22:12] != 0
        || INJECT_DBITERR_A || INJECT_DBITERR_B || INJECT_SBITERR_A || INJECT_SBITERR_B) begin
      $fatal(1, "URAM288: an operation that this model does not know");
    end
  end
  assign DOUT_A = out_q;
endmodule
