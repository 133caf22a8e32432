// Rows of eight bytes, each written alone, in UltraScale+ URAMs (UG573, 4K x 72) with their output register: for tools that promise
// writes of bytes for a block RAM only (UG901). A read row follows its address by two cycles and holds while re_i is low. A read of
// the row being written in the same cycle gives the old bytes.
module ram_uram #(
  parameter int unsigned ROWS = 4096,
  localparam int unsigned AW = (ROWS > 1) ? $clog2(ROWS) : 1
) (
  input  logic          clk_i,
  input  logic [7:0]    we_i,
  input  logic [AW-1:0] waddr_i,
  input  logic [63:0]   wdata_i,
  input  logic          re_i,
  input  logic [AW-1:0] raddr_i,
  output logic [63:0]   rdata_o
);
  localparam int unsigned URAMS = (ROWS + 4095) / 4096;
  logic [22:0]         waddr, raddr;
  logic [URAMS*64-1:0] rows;
  logic [10:0]         which1_q, which2_q;
  assign waddr = 23'(waddr_i);
  assign raddr = 23'(raddr_i);

  for (genvar u = 0; u < URAMS; u++) begin : gen_uram
    logic [83:0] rest;
    logic        unused;
    // port A reads; in a cycle it comes before B
    URAM288_BASE #(
      .BWE_MODE_A("PARITY_INDEPENDENT"), .BWE_MODE_B("PARITY_INDEPENDENT"), .OREG_A("TRUE"), .USE_EXT_CE_A("TRUE")
    ) u_uram (
      .CLK(clk_i), .SLEEP(1'b0),
      .ADDR_A({11'd0, raddr[11:0]}), .EN_A(re_i), .RDB_WR_A(1'b0), .BWE_A(9'd0), .DIN_A(72'd0), .RST_A(1'b0),
      .ADDR_B({11'd0, waddr[11:0]}), .EN_B((we_i != '0) && waddr[22:12] == 11'(u)), .RDB_WR_B(1'b1), .BWE_B({1'b0, we_i}),
      .DIN_B({8'd0, wdata_i}), .RST_B(1'b0),
      .OREG_CE_A(1'b1), .OREG_CE_B(1'b0), .OREG_ECC_CE_A(1'b0), .OREG_ECC_CE_B(1'b0),
      .INJECT_DBITERR_A(1'b0), .INJECT_DBITERR_B(1'b0), .INJECT_SBITERR_A(1'b0), .INJECT_SBITERR_B(1'b0),
      // every output, so that no tool warns of open pins
      .DOUT_A({rest[7:0], rows[u*64+:64]}), .DOUT_B(rest[79:8]),
      .DBITERR_A(rest[80]), .DBITERR_B(rest[81]), .SBITERR_A(rest[82]), .SBITERR_B(rest[83])
    );
    assign unused = ^rest;
  end

  always_ff @(posedge clk_i) begin
    if (re_i) which1_q <= raddr[22:12];
    which2_q <= which1_q;
  end
  always_comb begin
    rdata_o = rows[63:0];
    for (int unsigned u = 1; u < URAMS; u++) begin
      if (which2_q == 11'(u)) rdata_o = rows[u*64+:64];
    end
  end
endmodule
