// act_buffer_checker: bound to every act_buffer where this file is compiled with --assert. Every
// element that a window shows was written since the reset, and none that is being read is being
// written: the loader fills places that do not yet count.
module act_buffer_checker #(
    parameter int unsigned NB         = 16,
    parameter int unsigned ABUF_WORDS = 1024,
    parameter int unsigned IN_WORDS   = 4,
    localparam int unsigned LB = $clog2(NB),
    localparam int unsigned EW = LB + $clog2(ABUF_WORDS)
) (
    input logic                clk_i,
    input logic                rst_ni,
    input logic                wr_half_i,
    input logic [EW-1:0]       wr_elem_i,
    input logic [IN_WORDS-1:0] wr_mask_i,
    input logic                rd_valid_i,
    input logic                rd_half_i,
    input logic [EW-1:0]       rd_elem_i,
    input logic [LB:0]         rd_lo_i,
    input logic [LB:0]         rd_hi_i
);
  // An element is written if it was in this epoch; every cycle of reset begins a new one.
  int unsigned epoch_q = 1;
  int unsigned written_q[2 << EW];

  function automatic logic in_window(input logic [EW-1:0] elem);
    logic [EW-1:0] lane;
    lane = elem - rd_elem_i;
    return 32'(lane) >= 32'(rd_lo_i) && 32'(lane) < 32'(rd_hi_i);
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      epoch_q <= epoch_q + 1;
    end else begin
      for (int unsigned i = 0; i < IN_WORDS; i++) begin
        if (wr_mask_i[i]) begin
          assert (32'(EW'(wr_elem_i + EW'(i))) < NB * ABUF_WORDS)
          else $error("act_buffer: a word beyond the buffer");
          written_q[{wr_half_i, wr_elem_i + EW'(i)}] <= epoch_q;
          if (rd_valid_i && rd_half_i == wr_half_i) begin
            assert (!in_window(wr_elem_i + EW'(i)))
            else $error("act_buffer: an element is read while it is written");
          end
        end
      end
      if (rd_valid_i && rd_hi_i > rd_lo_i) begin
        assert (32'(EW'(rd_elem_i + EW'(rd_lo_i))) < NB * ABUF_WORDS
                && 32'(EW'(rd_elem_i + EW'(rd_hi_i) - EW'(1))) < NB * ABUF_WORDS)
        else $error("act_buffer: a window beyond the buffer");
        for (int unsigned i = 0; i < NB; i++) begin
          if (i >= 32'(rd_lo_i) && i < 32'(rd_hi_i)) begin
            assert (written_q[{rd_half_i, rd_elem_i + EW'(i)}] == epoch_q)
            else $error("act_buffer: an element is read that was never written");
          end
        end
      end
    end
  end
endmodule

bind act_buffer act_buffer_checker #(
    .NB        (NB),
    .ABUF_WORDS(ABUF_WORDS),
    .IN_WORDS  (IN_WORDS)
) u_checker (
    .clk_i,
    .rst_ni,
    .wr_half_i,
    .wr_elem_i,
    .wr_mask_i,
    .rd_valid_i,
    .rd_half_i,
    .rd_elem_i,
    .rd_lo_i,
    .rd_hi_i
);
