// What holds of ram_fold (DEEP = 0) and ram_deep beside ram_1r1w, which gets the same: of one address, any of them, the
// word that is read is that of ram_1r1w as soon as it was written once, and stands until the next read; with OUT_REG a cycle later.
module ram_props #(
  parameter bit          DEEP = 1'b0,
  parameter int unsigned WIDTH = 2,
  parameter int unsigned DEPTH = 12,
  parameter int unsigned OUT_REG = 0,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input logic clk, we, re,
  input logic [AW-1:0] any, waddr, raddr,
  input logic [WIDTH-1:0] wdata
);
  logic [WIDTH-1:0] got, want;
  ram_1r1w #(.WIDTH(WIDTH), .DEPTH(DEPTH), .OUT_REG(OUT_REG)) u_ref (
    .clk_i(clk), .we_i(we), .waddr_i(waddr), .wdata_i(wdata), .re_i(re), .raddr_i(raddr), .rdata_o(want)
  );
  if (DEEP) begin : gen_deep
    ram_deep #(.WIDTH(WIDTH), .DEPTH(DEPTH), .LEAST(2), .OUT_REG(OUT_REG)) u_ram (
      .clk_i(clk), .we_i(we), .waddr_i(waddr), .wdata_i(wdata), .re_i(re), .raddr_i(raddr), .rdata_o(got)
    );
  end else begin : gen_fold
    ram_fold #(.WIDTH(WIDTH), .DEPTH(DEPTH), .OUT_REG(OUT_REG)) u_ram (
      .clk_i(clk), .we_i(we), .waddr_i(waddr), .wdata_i(wdata), .re_i(re), .raddr_i(raddr), .rdata_o(got)
    );
  end

  logic          begun, known, read, shown;  // the word was written; was read last; so it was a cycle ago
  logic [AW-1:0] addr;
  initial begun = 1'b0;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    if (!begun) addr <= any;
    known <= begun && (known || (we && waddr == addr));
    read <= begun && (re ? known && raddr == addr : read);
    shown <= begun && read;
  end
  always_comb begin
    assume (32'(any) < DEPTH);
    if (begun && (OUT_REG != 0 ? shown : read)) a_word: assert (got == want);
  end
endmodule
