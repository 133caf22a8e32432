// Half of the accumulators of a PE: two banks of DEPTH words, used in turn: one drains while the
// other computes. The head of the chain reads the computing bank and its tail writes it in every
// cycle; the drain reads the other bank. Words come behind the memory's register: two cycles after their address.
module acc_half #(
  parameter int unsigned DEPTH = 128,
  parameter int unsigned ACC   = 36,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input  logic           clk_i,
  input  logic           rd_bank_i,   // bank that the head reads
  input  logic           rd_en_i,
  input  logic [AW-1:0]  rd_row_i,
  output logic [ACC-1:0] rd_acc_o,    // two cycles later
  output logic [2*ACC-1:0] rd_both_o, // the same before the choice: bank 1, bank 0
  input  logic           wr_bank_i,   // bank that the tail writes
  input  logic           wr_en_i,
  input  logic [AW-1:0]  wr_row_i,
  input  logic [ACC-1:0] wr_acc_i,
  input  logic           dr_bank_i,   // bank that drains
  input  logic           dr_en_i,
  input  logic [AW-1:0]  dr_row_i,
  output logic [ACC-1:0] dr_acc_o     // two cycles later, holds
);
  logic [ACC-1:0] rdata[2];
  logic rd_bank_q, dr_bank_q, rd_bank_qq, dr_bank_qq, dr_en_q;

  for (genvar b = 0; b < 2; b++) begin : gen_bank
    logic head, drain;
    assign head = rd_en_i && (rd_bank_i == 1'(b));
    assign drain = dr_en_i && (dr_bank_i == 1'(b));
    ram_1r1w #(.WIDTH(ACC), .DEPTH(DEPTH), .OUT_REG(1)) u_ram (
      .clk_i,
      .we_i   (wr_en_i && (wr_bank_i == 1'(b))),
      .waddr_i(wr_row_i),
      .wdata_i(wr_acc_i),
      .re_i   (head || drain),
      .raddr_i(head ? rd_row_i : dr_row_i),
      .rdata_o(rdata[b])
    );
  end

  always_ff @(posedge clk_i) begin
    rd_bank_q <= rd_bank_i;
    rd_bank_qq <= rd_bank_q;
    dr_en_q <= dr_en_i;
    dr_bank_q <= dr_bank_i;
    if (dr_en_q) dr_bank_qq <= dr_bank_q;
  end

  assign rd_acc_o = rdata[rd_bank_qq];
  assign rd_both_o = {rdata[1], rdata[0]};
  assign dr_acc_o = rdata[dr_bank_qq];
endmodule
