// Fluid Batching Control Block: one 32-bit entry (abi_pkg::fbcb_t) for each layer and batch size,
// written by the driver when a bundle is loaded, read by layer_fetch. Together with that reader it
// is the paper's Fluid Batching Engine.
//
// Reading takes one cycle: rdata_o belongs to the layer and batch of the cycle before. Writing and
// reading the same entry in one cycle gives the old one. Contents are undefined until written, and
// survive a soft reset.
module fbcb #(
  localparam int unsigned LW = $clog2(abi_pkg::L_MAX),
  localparam int unsigned BW = $clog2(abi_pkg::B_MAX)
) (
  input  logic             clk_i,
  // write port; the address is the value of register FBCB_ADDR
  input  logic             we_i,
  input  logic [LW+BW-1:0] waddr_i,
  input  logic [31:0]      wdata_i,
  // read port
  input  logic [LW-1:0]    layer_i,
  input  logic [BW-1:0]    batch_minus_1_i,
  output logic [31:0]      rdata_o
);
  // the register's fields must be the address of this memory
  if (abi_pkg::REG_FBCB_ADDR_BATCH_LSB != 0 || abi_pkg::REG_FBCB_ADDR_BATCH_W != BW
      || abi_pkg::REG_FBCB_ADDR_LAYER_LSB != BW || abi_pkg::REG_FBCB_ADDR_LAYER_W != LW) begin
    $fatal(1, "fbcb: register FBCB_ADDR does not address L_MAX x B_MAX entries");
  end

  ram_1r1w #(
    .WIDTH(32),
    .DEPTH(abi_pkg::L_MAX * abi_pkg::B_MAX)
  ) u_ram (
    .clk_i,
    .we_i,
    .waddr_i,
    .wdata_i,
    .re_i   (1'b1),
    .raddr_i({layer_i, batch_minus_1_i}),
    .rdata_o
  );
endmodule
