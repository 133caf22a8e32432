// Block RAM of series 7 (UG473) as yosys 0.23 uses it for memories with one write and one read
// port: TDP with one port writing and the other reading, or SDP. The writing port is READ_FIRST, so
// a read of the address being written in the same cycle gives the old word (one clock). Contents,
// output latches and registers begin with whatever --x-initial says. Everything else (two writers, unequal
// widths, the register of a port that does not read, cascades, initial contents) is an elaboration error; a reset of an
// output latch or register, which has no value to go to, ends the simulation.

// The memory itself: words of W bits, written in lanes.
module ramb_1r1w #(
  parameter integer W = 18, ABITS = 10, LANES = 2
) (
  input              wclk, wen,
  input  [LANES-1:0] we,
  input  [ABITS-1:0] waddr,
  input  [W-1:0]     wdata,
  input              rclk, ren,
  input  [ABITS-1:0] raddr,
  output reg [W-1:0] rdata
);
  localparam integer LW = W / LANES;
  reg [W-1:0] mem[0:(1<<ABITS)-1];
  integer i;
  always @(posedge wclk) begin
    if (wen) begin
      for (i = 0; i < LANES; i = i + 1) if (we[i]) mem[waddr][i*LW+:LW] <= wdata[i*LW+:LW];
    end
  end
  always @(posedge rclk) if (ren) rdata <= mem[raddr];
endmodule

// What RAMB18E1 and RAMB36E1 share: HALF is the width of one port's data without parity, PORT_A its
// address bits at width 1.
module ramb_e1 #(
  parameter integer HALF = 16, PORT_A = 14, WEA_W = 2, WEB_W = 4,
  parameter integer READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
  parameter RAM_MODE = "TDP", WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST",
  parameter integer DOA_REG = 0, DOB_REG = 0
) (
  input  [PORT_A-1:0] addr_a, addr_b,
  input               clk_a, clk_b, en_a, en_b, regce_a, regce_b, rst_a, rst_b,
  input  [WEA_W-1:0]  we_a,
  input  [WEB_W-1:0]  we_b,
  input  [HALF-1:0]   di_a, di_b,
  input  [HALF/8-1:0] dip_a, dip_b,
  output [HALF-1:0]   do_a, do_b,
  output [HALF/8-1:0] dop_a, dop_b
);
  localparam integer SDP = (RAM_MODE == "SDP") ? 1 : 0;
  localparam integer A_WRITES = (WRITE_WIDTH_A != 0) ? 1 : 0;
  localparam integer W = A_WRITES ? WRITE_WIDTH_A : WRITE_WIDTH_B;
  localparam integer PORT_MAX = HALF + HALF / 8;
  localparam integer SHIFT = (W == 1) ? 0 : (W == 2) ? 1 : (W == 4) ? 2 : (W == 9) ? 3 : (W == 18) ? 4
                           : (W == 36) ? 5 : 6;
  localparam integer LANES = (W < 9) ? 1 : W / 9;
  localparam integer ABITS = PORT_A - SHIFT;

  if (SDP == 0 && RAM_MODE != "TDP") $fatal(1, "RAMB: RAM_MODE");
  if (A_WRITES ? (WRITE_WIDTH_B != 0 || READ_WIDTH_A != 0 || READ_WIDTH_B != W)
               : (READ_WIDTH_B != 0 || READ_WIDTH_A != W)) begin
    $fatal(1, "RAMB: not one writing and one reading port of the same width");
  end
  if (!(W == 1 || W == 2 || W == 4 || W == 9 || W == 18 || (W == 36 && (SDP != 0 || HALF == 32))
        || (W == 72 && SDP != 0 && HALF == 32))) begin
    $fatal(1, "RAMB: width");
  end
  if (SDP != 0 ? DOA_REG != DOB_REG : (A_WRITES ? DOA_REG : DOB_REG) != 0) $fatal(1, "RAMB: output registers");
  if (SDP != 0 && (A_WRITES || W != 2 * PORT_MAX)) $fatal(1, "RAMB: SDP narrower than both ports");
  if (A_WRITES ? (WRITE_MODE_A != "READ_FIRST") : (WRITE_MODE_B != "READ_FIRST")) begin
    $fatal(1, "RAMB: a colliding read is undefined unless the writing port is READ_FIRST");
  end

  // all bits in and out, as lanes of a byte and its parity
  wire [2*PORT_MAX-1:0] wide_in, wide_out;
  wire [W-1:0] word_in, word_out, word_read;
  wire [LANES-1:0] we;
  genvar i;
  for (i = 0; i < 2 * HALF / 8; i = i + 1) begin : gen_lane
    if (SDP != 0) begin : gen_sdp
      wire [2*HALF-1:0]   d = {di_b, di_a};
      wire [2*HALF/8-1:0] p = {dip_b, dip_a};
      assign wide_in[9*i+:9] = {p[i], d[8*i+:8]};
    end else if (i < HALF / 8) begin : gen_tdp
      wire [HALF-1:0]   d = A_WRITES ? di_a : di_b;
      wire [HALF/8-1:0] p = A_WRITES ? dip_a : dip_b;
      assign wide_in[9*i+:9] = {p[i], d[8*i+:8]};
    end else begin : gen_none
      assign wide_in[9*i+:9] = 9'b0;
    end
  end
  assign word_in = wide_in[W-1:0];
  if (A_WRITES) begin : gen_we_a
    assign we = we_a[LANES-1:0];
  end else begin : gen_we_b
    assign we = we_b[LANES-1:0];
  end
  ramb_1r1w #(.W(W), .ABITS(ABITS), .LANES(LANES)) u_mem (
    .wclk (A_WRITES ? clk_a : clk_b),
    .wen  (A_WRITES ? en_a : en_b),
    .we   (we),
    .waddr(A_WRITES ? addr_a[PORT_A-1:SHIFT] : addr_b[PORT_A-1:SHIFT]),
    .wdata(word_in),
    .rclk (A_WRITES ? clk_b : clk_a),
    .ren  (A_WRITES ? en_b : en_a),
    .raddr(A_WRITES ? addr_b[PORT_A-1:SHIFT] : addr_a[PORT_A-1:SHIFT]),
    .rdata(word_read)
  );
  if ((A_WRITES ? DOB_REG : DOA_REG) != 0) begin : gen_reg
    reg [W-1:0] word_q;
    wire rclk = A_WRITES ? clk_b : clk_a;
    always @(posedge rclk) if (A_WRITES ? regce_b : regce_a) word_q <= word_read;
    assign word_out = word_q;
  end else begin : gen_latch
    assign word_out = word_read;
  end
  assign wide_out = {{(2*PORT_MAX-W){1'b0}}, word_out};
  for (i = 0; i < HALF / 8; i = i + 1) begin : gen_out
    if (A_WRITES) begin : gen_b
      assign {dop_b[i], do_b[8*i+:8]} = wide_out[9*i+:9];
      assign {dop_a[i], do_a[8*i+:8]} = 9'b0;
    end else begin : gen_a
      assign {dop_a[i], do_a[8*i+:8]} = wide_out[9*i+:9];
      assign {dop_b[i], do_b[8*i+:8]} = wide_out[9*(i+HALF/8)+:9];
    end
  end

  always @(posedge clk_a) if (rst_a || rst_b) $fatal(1, "RAMB: reset of an output");
endmodule

module RAMB18E1 #(
  parameter integer DOA_REG = 0, DOB_REG = 0,
  parameter integer READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
  parameter RAM_MODE = "TDP", WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST",
  parameter [17:0] INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0,
  parameter [255:0]
    INIT_00 = 256'bx, INIT_01 = 256'bx, INIT_02 = 256'bx, INIT_03 = 256'bx, INIT_04 = 256'bx, INIT_05 = 256'bx, INIT_06 = 256'bx, INIT_07 = 256'bx,
    INIT_08 = 256'bx, INIT_09 = 256'bx, INIT_0A = 256'bx, INIT_0B = 256'bx, INIT_0C = 256'bx, INIT_0D = 256'bx, INIT_0E = 256'bx, INIT_0F = 256'bx,
    INIT_10 = 256'bx, INIT_11 = 256'bx, INIT_12 = 256'bx, INIT_13 = 256'bx, INIT_14 = 256'bx, INIT_15 = 256'bx, INIT_16 = 256'bx, INIT_17 = 256'bx,
    INIT_18 = 256'bx, INIT_19 = 256'bx, INIT_1A = 256'bx, INIT_1B = 256'bx, INIT_1C = 256'bx, INIT_1D = 256'bx, INIT_1E = 256'bx, INIT_1F = 256'bx,
    INIT_20 = 256'bx, INIT_21 = 256'bx, INIT_22 = 256'bx, INIT_23 = 256'bx, INIT_24 = 256'bx, INIT_25 = 256'bx, INIT_26 = 256'bx, INIT_27 = 256'bx,
    INIT_28 = 256'bx, INIT_29 = 256'bx, INIT_2A = 256'bx, INIT_2B = 256'bx, INIT_2C = 256'bx, INIT_2D = 256'bx, INIT_2E = 256'bx, INIT_2F = 256'bx,
    INIT_30 = 256'bx, INIT_31 = 256'bx, INIT_32 = 256'bx, INIT_33 = 256'bx, INIT_34 = 256'bx, INIT_35 = 256'bx, INIT_36 = 256'bx, INIT_37 = 256'bx,
    INIT_38 = 256'bx, INIT_39 = 256'bx, INIT_3A = 256'bx, INIT_3B = 256'bx, INIT_3C = 256'bx, INIT_3D = 256'bx, INIT_3E = 256'bx, INIT_3F = 256'bx,
    INITP_00 = 256'bx, INITP_01 = 256'bx, INITP_02 = 256'bx, INITP_03 = 256'bx, INITP_04 = 256'bx, INITP_05 = 256'bx, INITP_06 = 256'bx, INITP_07 = 256'bx
) (
  output [15:0] DOADO, DOBDO,
  output [1:0] DOPADOP, DOPBDOP,
  input  [13:0] ADDRARDADDR, ADDRBWRADDR,
  input  [15:0] DIADI, DIBDI,
  input  [1:0] DIPADIP, DIPBDIP,
  input  [1:0] WEA,
  input  [3:0] WEBWE,
  input  CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB,
  input  RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB
);
  if ({
    INIT_00, INIT_01, INIT_02, INIT_03, INIT_04, INIT_05, INIT_06, INIT_07,
    INIT_08, INIT_09, INIT_0A, INIT_0B, INIT_0C, INIT_0D, INIT_0E, INIT_0F,
    INIT_10, INIT_11, INIT_12, INIT_13, INIT_14, INIT_15, INIT_16, INIT_17,
    INIT_18, INIT_19, INIT_1A, INIT_1B, INIT_1C, INIT_1D, INIT_1E, INIT_1F,
    INIT_20, INIT_21, INIT_22, INIT_23, INIT_24, INIT_25, INIT_26, INIT_27,
    INIT_28, INIT_29, INIT_2A, INIT_2B, INIT_2C, INIT_2D, INIT_2E, INIT_2F,
    INIT_30, INIT_31, INIT_32, INIT_33, INIT_34, INIT_35, INIT_36, INIT_37,
    INIT_38, INIT_39, INIT_3A, INIT_3B, INIT_3C, INIT_3D, INIT_3E, INIT_3F,
    INITP_00, INITP_01, INITP_02, INITP_03, INITP_04, INITP_05, INITP_06, INITP_07
  } !== {72{256'bx}}) $fatal(1, "RAMB18E1: initial contents");
  ramb_e1 #(
    .HALF(16), .PORT_A(14), .WEA_W(2), .WEB_W(4), .READ_WIDTH_A(READ_WIDTH_A),
    .READ_WIDTH_B(READ_WIDTH_B), .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B),
    .RAM_MODE(RAM_MODE), .WRITE_MODE_A(WRITE_MODE_A), .WRITE_MODE_B(WRITE_MODE_B),
    .DOA_REG(DOA_REG), .DOB_REG(DOB_REG)
  ) u_ramb (
    .addr_a(ADDRARDADDR[13:0]), .addr_b(ADDRBWRADDR[13:0]), .clk_a(CLKARDCLK), .clk_b(CLKBWRCLK),
    .en_a(ENARDEN), .en_b(ENBWREN), .regce_a(REGCEAREGCE), .regce_b(REGCEB),
    .rst_a(RSTRAMARSTRAM || RSTREGARSTREG), .rst_b(RSTRAMB || RSTREGB), .we_a(WEA), .we_b(WEBWE),
    .di_a(DIADI), .di_b(DIBDI), .dip_a(DIPADIP), .dip_b(DIPBDIP),
    .do_a(DOADO), .do_b(DOBDO), .dop_a(DOPADOP), .dop_b(DOPBDOP)
  );
endmodule

module RAMB36E1 #(
  parameter integer DOA_REG = 0, DOB_REG = 0,
  parameter integer READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
  parameter RAM_MODE = "TDP", WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST",
  parameter RAM_EXTENSION_A = "NONE", RAM_EXTENSION_B = "NONE",
  parameter [35:0] INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0,
  parameter [255:0]
    INIT_00 = 256'bx, INIT_01 = 256'bx, INIT_02 = 256'bx, INIT_03 = 256'bx, INIT_04 = 256'bx, INIT_05 = 256'bx, INIT_06 = 256'bx, INIT_07 = 256'bx,
    INIT_08 = 256'bx, INIT_09 = 256'bx, INIT_0A = 256'bx, INIT_0B = 256'bx, INIT_0C = 256'bx, INIT_0D = 256'bx, INIT_0E = 256'bx, INIT_0F = 256'bx,
    INIT_10 = 256'bx, INIT_11 = 256'bx, INIT_12 = 256'bx, INIT_13 = 256'bx, INIT_14 = 256'bx, INIT_15 = 256'bx, INIT_16 = 256'bx, INIT_17 = 256'bx,
    INIT_18 = 256'bx, INIT_19 = 256'bx, INIT_1A = 256'bx, INIT_1B = 256'bx, INIT_1C = 256'bx, INIT_1D = 256'bx, INIT_1E = 256'bx, INIT_1F = 256'bx,
    INIT_20 = 256'bx, INIT_21 = 256'bx, INIT_22 = 256'bx, INIT_23 = 256'bx, INIT_24 = 256'bx, INIT_25 = 256'bx, INIT_26 = 256'bx, INIT_27 = 256'bx,
    INIT_28 = 256'bx, INIT_29 = 256'bx, INIT_2A = 256'bx, INIT_2B = 256'bx, INIT_2C = 256'bx, INIT_2D = 256'bx, INIT_2E = 256'bx, INIT_2F = 256'bx,
    INIT_30 = 256'bx, INIT_31 = 256'bx, INIT_32 = 256'bx, INIT_33 = 256'bx, INIT_34 = 256'bx, INIT_35 = 256'bx, INIT_36 = 256'bx, INIT_37 = 256'bx,
    INIT_38 = 256'bx, INIT_39 = 256'bx, INIT_3A = 256'bx, INIT_3B = 256'bx, INIT_3C = 256'bx, INIT_3D = 256'bx, INIT_3E = 256'bx, INIT_3F = 256'bx,
    INIT_40 = 256'bx, INIT_41 = 256'bx, INIT_42 = 256'bx, INIT_43 = 256'bx, INIT_44 = 256'bx, INIT_45 = 256'bx, INIT_46 = 256'bx, INIT_47 = 256'bx,
    INIT_48 = 256'bx, INIT_49 = 256'bx, INIT_4A = 256'bx, INIT_4B = 256'bx, INIT_4C = 256'bx, INIT_4D = 256'bx, INIT_4E = 256'bx, INIT_4F = 256'bx,
    INIT_50 = 256'bx, INIT_51 = 256'bx, INIT_52 = 256'bx, INIT_53 = 256'bx, INIT_54 = 256'bx, INIT_55 = 256'bx, INIT_56 = 256'bx, INIT_57 = 256'bx,
    INIT_58 = 256'bx, INIT_59 = 256'bx, INIT_5A = 256'bx, INIT_5B = 256'bx, INIT_5C = 256'bx, INIT_5D = 256'bx, INIT_5E = 256'bx, INIT_5F = 256'bx,
    INIT_60 = 256'bx, INIT_61 = 256'bx, INIT_62 = 256'bx, INIT_63 = 256'bx, INIT_64 = 256'bx, INIT_65 = 256'bx, INIT_66 = 256'bx, INIT_67 = 256'bx,
    INIT_68 = 256'bx, INIT_69 = 256'bx, INIT_6A = 256'bx, INIT_6B = 256'bx, INIT_6C = 256'bx, INIT_6D = 256'bx, INIT_6E = 256'bx, INIT_6F = 256'bx,
    INIT_70 = 256'bx, INIT_71 = 256'bx, INIT_72 = 256'bx, INIT_73 = 256'bx, INIT_74 = 256'bx, INIT_75 = 256'bx, INIT_76 = 256'bx, INIT_77 = 256'bx,
    INIT_78 = 256'bx, INIT_79 = 256'bx, INIT_7A = 256'bx, INIT_7B = 256'bx, INIT_7C = 256'bx, INIT_7D = 256'bx, INIT_7E = 256'bx, INIT_7F = 256'bx,
    INITP_00 = 256'bx, INITP_01 = 256'bx, INITP_02 = 256'bx, INITP_03 = 256'bx, INITP_04 = 256'bx, INITP_05 = 256'bx, INITP_06 = 256'bx, INITP_07 = 256'bx,
    INITP_08 = 256'bx, INITP_09 = 256'bx, INITP_0A = 256'bx, INITP_0B = 256'bx, INITP_0C = 256'bx, INITP_0D = 256'bx, INITP_0E = 256'bx, INITP_0F = 256'bx
) (
  output [31:0] DOADO, DOBDO,
  output [3:0] DOPADOP, DOPBDOP,
  input  [15:0] ADDRARDADDR, ADDRBWRADDR,
  input  [31:0] DIADI, DIBDI,
  input  [3:0] DIPADIP, DIPBDIP,
  input  [3:0] WEA,
  input  [7:0] WEBWE,
  input  CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB,
  input  RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB
);
  if (RAM_EXTENSION_A != "NONE" || RAM_EXTENSION_B != "NONE") $fatal(1, "RAMB36E1: cascade");
  if ({
    INIT_00, INIT_01, INIT_02, INIT_03, INIT_04, INIT_05, INIT_06, INIT_07,
    INIT_08, INIT_09, INIT_0A, INIT_0B, INIT_0C, INIT_0D, INIT_0E, INIT_0F,
    INIT_10, INIT_11, INIT_12, INIT_13, INIT_14, INIT_15, INIT_16, INIT_17,
    INIT_18, INIT_19, INIT_1A, INIT_1B, INIT_1C, INIT_1D, INIT_1E, INIT_1F,
    INIT_20, INIT_21, INIT_22, INIT_23, INIT_24, INIT_25, INIT_26, INIT_27,
    INIT_28, INIT_29, INIT_2A, INIT_2B, INIT_2C, INIT_2D, INIT_2E, INIT_2F,
    INIT_30, INIT_31, INIT_32, INIT_33, INIT_34, INIT_35, INIT_36, INIT_37,
    INIT_38, INIT_39, INIT_3A, INIT_3B, INIT_3C, INIT_3D, INIT_3E, INIT_3F,
    INIT_40, INIT_41, INIT_42, INIT_43, INIT_44, INIT_45, INIT_46, INIT_47,
    INIT_48, INIT_49, INIT_4A, INIT_4B, INIT_4C, INIT_4D, INIT_4E, INIT_4F,
    INIT_50, INIT_51, INIT_52, INIT_53, INIT_54, INIT_55, INIT_56, INIT_57,
    INIT_58, INIT_59, INIT_5A, INIT_5B, INIT_5C, INIT_5D, INIT_5E, INIT_5F,
    INIT_60, INIT_61, INIT_62, INIT_63, INIT_64, INIT_65, INIT_66, INIT_67,
    INIT_68, INIT_69, INIT_6A, INIT_6B, INIT_6C, INIT_6D, INIT_6E, INIT_6F,
    INIT_70, INIT_71, INIT_72, INIT_73, INIT_74, INIT_75, INIT_76, INIT_77,
    INIT_78, INIT_79, INIT_7A, INIT_7B, INIT_7C, INIT_7D, INIT_7E, INIT_7F,
    INITP_00, INITP_01, INITP_02, INITP_03, INITP_04, INITP_05, INITP_06, INITP_07,
    INITP_08, INITP_09, INITP_0A, INITP_0B, INITP_0C, INITP_0D, INITP_0E, INITP_0F
  } !== {144{256'bx}}) $fatal(1, "RAMB36E1: initial contents");
  // address bit 15 only counts in cascades
  ramb_e1 #(
    .HALF(32), .PORT_A(15), .WEA_W(4), .WEB_W(8), .READ_WIDTH_A(READ_WIDTH_A),
    .READ_WIDTH_B(READ_WIDTH_B), .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B),
    .RAM_MODE(RAM_MODE), .WRITE_MODE_A(WRITE_MODE_A), .WRITE_MODE_B(WRITE_MODE_B),
    .DOA_REG(DOA_REG), .DOB_REG(DOB_REG)
  ) u_ramb (
    .addr_a(ADDRARDADDR[14:0]), .addr_b(ADDRBWRADDR[14:0]), .clk_a(CLKARDCLK), .clk_b(CLKBWRCLK),
    .en_a(ENARDEN), .en_b(ENBWREN), .regce_a(REGCEAREGCE), .regce_b(REGCEB),
    .rst_a(RSTRAMARSTRAM || RSTREGARSTREG), .rst_b(RSTRAMB || RSTREGB), .we_a(WEA), .we_b(WEBWE),
    .di_a(DIADI), .di_b(DIBDI), .dip_a(DIPADIP), .dip_b(DIPBDIP),
    .do_a(DOADO), .do_b(DOBDO), .dop_a(DOPADOP), .dop_b(DOPBDOP)
  );
endmodule
