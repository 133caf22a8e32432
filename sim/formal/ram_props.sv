// What holds of ram_fold (DEEP = 0) and ram_deep beside ram_1r1w, which gets the same: of one address, any of them, the
// word that is read is that of ram_1r1w as soon as it was written once, and stands until the next read.
module ram_props #(
  parameter bit          DEEP = 1'b0,
  parameter int unsigned WIDTH = 2,
  parameter int unsigned DEPTH = 12,
  localparam int unsigned AW = $clog2(DEPTH)
) (
  input logic clk, we, re,
  input logic [AW-1:0] any, waddr, raddr,
  input logic [WIDTH-1:0] wdata
);
  logic [WIDTH-1:0] got, want;
  ram_1r1w #(.WIDTH(WIDTH), .DEPTH(DEPTH)) u_ref (
    .clk_i(clk), .we_i(we), .waddr_i(waddr), .wdata_i(wdata), .re_i(re), .raddr_i(raddr), .rdata_o(want)
  );
  if (DEEP) begin : gen_deep
    ram_deep #(.WIDTH(WIDTH), .DEPTH(DEPTH), .LEAST(2)) u_ram (
      .clk_i(clk), .we_i(we), .waddr_i(waddr), .wdata_i(wdata), .re_i(re), .raddr_i(raddr), .rdata_o(got)
    );
  end else begin : gen_fold
    ram_fold #(.WIDTH(WIDTH), .DEPTH(DEPTH)) u_ram (
      .clk_i(clk), .we_i(we), .waddr_i(waddr), .wdata_i(wdata), .re_i(re), .raddr_i(raddr), .rdata_o(got)
    );
  end

  logic          begun, known, shown;  // the word was written; the output shows it
  logic [AW-1:0] addr;
  initial begun = 1'b0;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    if (!begun) addr <= any;
    known <= begun && (known || (we && waddr == addr));
    shown <= begun && (re ? known && raddr == addr : shown);
  end
  always_comb begin
    assume (32'(any) < DEPTH);
    if (begun && shown) a_word: assert (got == want);
  end
endmodule
