// gemm_seq_checker: bound to every gemm_seq where this file is compiled with --assert. No more than
// two accumulator banks are in use, a bank is given back only where one is, one cause a cycle, a
// half is freed only where it holds data, a row reads only places that are available, of group 1 too
// where a sample of it goes along, and a pass takes only weights that are complete. Which place a row reads is
// counted here, from the layer's sizes.
module gemm_seq_checker (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        go_i,
    input logic        begin_i,
    input logic        first_i,
    input logic        full_i,
    input logic        bank_free_i,
    input logic [63:0] avail_i,
    input logic        half_i,
    input logic        other_i,
    input logic [1:0]  free_i,
    input logic [3:0]  stalls_i,
    // where a row stands: a tile begins; its samples, output rows and columns; the kernel row
    input logic        tile_i,
    input int unsigned nr_i,
    input int unsigned nb_i,
    input int unsigned out_w_i,
    input int unsigned s_h_i,
    input int unsigned k_h_i,
    input int unsigned kh_i
);
  int unsigned i_q, r_q, ow_q, place;
  assign place = i_q * ((nr_i - 1) * s_h_i + k_h_i) + r_q * s_h_i + kh_i;
  always_ff @(posedge clk_i) begin
    if (tile_i) begin
      i_q <= 0;
      r_q <= 0;
      ow_q <= 0;
    end else if (go_i) begin  // the last of a pass is followed by the first
      ow_q <= (ow_q + 1) % out_w_i;
      if (ow_q + 1 == out_w_i) begin
        r_q <= (r_q + 1) % nr_i;
        if (r_q + 1 == nr_i) i_q <= (i_q + 1) % nb_i;
      end
    end
  end

  logic [1:0] used_q;
  logic [15:0] avail, avail1;
  assign avail = half_i ? avail_i[31:16] : avail_i[15:0];
  assign avail1 = half_i ? avail_i[63:48] : avail_i[47:32];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      used_q <= '0;
    end else begin
      used_q <= used_q + 2'(go_i && begin_i && first_i) - 2'(bank_free_i);
      assert (used_q <= 2'd2) else $error("gemm_seq: more than two banks in use");
      assert (!(bank_free_i && used_q == '0)) else $error("gemm_seq: a bank is freed that is not in use");
      assert (!(go_i && begin_i && first_i && used_q == 2'd2))
      else $error("gemm_seq: a third bank is taken");
      assert ($onehot0({go_i, stalls_i})) else $error("gemm_seq: two causes in one cycle");
      assert (!go_i || place < 32'(avail)) else $error("gemm_seq: a row reads a place not yet available");
      assert (!(go_i && other_i) || place < 32'(avail1)) else $error("gemm_seq: a row of group 1 is not yet available");
      assert (!(go_i && begin_i) || full_i) else $error("gemm_seq: a pass without its weights");
      assert (!free_i[0] || avail_i[15:0] != '0) else $error("gemm_seq: half 0 freed while empty");
      assert (!free_i[1] || avail_i[31:16] != '0) else $error("gemm_seq: half 1 freed while empty");
      assert (free_i == '0 || go_i) else $error("gemm_seq: a half freed without a row");
    end
  end
endmodule

bind gemm_seq gemm_seq_checker u_checker (
    .clk_i,
    .rst_ni,
    .go_i       (go),
    .begin_i    (begin_q),
    .first_i    (first_q),
    .full_i,
    .bank_free_i,
    .avail_i,
    .half_i     (half_q),
    .other_i    (other_q),
    .free_i     (free_o),
    .stalls_i   ({stall_acts_o, stall_weights_o, stall_drain_o, stall_depth_o}),
    .tile_i     (state_q == StTile),
    .nr_i       (32'(nr_q)),
    .nb_i       (32'(nb_q)),
    .out_w_i    (32'(d.out_w)),
    .s_h_i      (32'(d.s_h)),
    .k_h_i      (32'(d.k_h)),
    .kh_i       (32'(kh_q))
);
