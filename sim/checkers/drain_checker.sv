// drain_checker: bound to every drain where this file is compiled with --assert. At most two
// complete banks wait, a bank is given back only where one is complete, only words that are
// there are taken from the residual, and each word that comes from the accumulators finds room.
module drain_checker #(
    parameter int unsigned RES_CW = 5
) (
    input logic              clk_i,
    input logic              rst_ni,
    input logic [1:0]        full_i,
    input logic              done_i,
    input logic              free_i,
    input logic              read_i,
    input logic              word_i,
    input logic              room_i,
    input logic              res_pop_i,
    input logic [RES_CW-1:0] res_cnt_i,
    input logic [RES_CW-1:0] res_fill_i
);
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (full_i <= 2'd2) else $error("drain: more than two banks complete");
      assert (!(done_i && full_i == 2'd2 && !free_i)) else $error("drain: a third bank is completed");
      assert (!(free_i && full_i == '0)) else $error("drain: gives back a bank that is not complete");
      assert (!(read_i && full_i == '0)) else $error("drain: reads a bank that is not complete");
      assert (!word_i || room_i) else $error("drain: a word finds no room in the queue");
      assert (!res_pop_i || res_cnt_i <= res_fill_i) else $error("drain: residual words that are not there");
    end
  end
endmodule

bind drain drain_checker #(
    .RES_CW(RES_CW)
) u_checker (
    .clk_i,
    .rst_ni,
    .full_i    (full_q),
    .done_i,
    .free_i    (bank_free_o),
    .read_i    (dr_en_o),
    .word_i    (r_valid),
    .room_i    (q_room),
    .res_pop_i (res_pop_o),
    .res_cnt_i (res_cnt_o),
    .res_fill_i
);
