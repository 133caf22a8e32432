// pool_seq_checker: bound to every pool_seq where this file is compiled with --assert. A tap reads
// only places that are available, no window, or column that completes one, begins without room for its
// result, room is never more than there is, no average by table begins without its table, and a half is
// freed only where it holds data. Which place a tap reads is counted here, from the layer's sizes.
module pool_seq_checker #(
    parameter int unsigned ROOM = 4
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        go_i,
    input logic        first_tap_i,
    input logic        emit_i,
    input logic [$clog2(ROOM+1)-1:0] room_i,
    input logic        taken_i,
    input logic [31:0] avail_i,
    input logic        half_i,
    input logic [1:0]  free_i,
    input logic        table_i,
    input logic [8:0]  layer_no_i,     // this layer counted
    input logic [8:0]  bias_layers_i,
    // where a tap stands: a tile begins; its output rows, what a row walks of columns, channel groups and
    // taps, and a kernel's rows
    input logic        tile_i,
    input int unsigned nr_i,
    input int unsigned columns_i,
    input int unsigned groups_i,
    input int unsigned k_w_i,
    input int unsigned k_h_i,
    input int unsigned s_h_i
);
  int unsigned i_q, r_q, walk_q, kh_q, kw_q, place;  // walk: columns and their channel groups
  assign place = i_q * ((nr_i - 1) * s_h_i + k_h_i) + r_q * s_h_i + kh_q;
  always_ff @(posedge clk_i) begin
    if (tile_i) begin
      {i_q, r_q, walk_q, kh_q, kw_q} <= '0;
    end else if (go_i) begin
      kw_q <= (kw_q + 1) % k_w_i;
      if (kw_q + 1 == k_w_i) begin
        kh_q <= (kh_q + 1) % k_h_i;
        if (kh_q + 1 == k_h_i) begin
          walk_q <= (walk_q + 1) % (columns_i * groups_i);
          if (walk_q + 1 == columns_i * groups_i) begin
            r_q <= (r_q + 1) % nr_i;
            if (r_q + 1 == nr_i) i_q <= i_q + 1;
          end
        end
      end
    end
  end
  logic [15:0] avail;
  assign avail = half_i ? avail_i[31:16] : avail_i[15:0];
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (32'(room_i) <= ROOM) else $error("pool_seq: more room than there is");
      assert (!(taken_i && 32'(room_i) == ROOM)) else $error("pool_seq: a result leaves that never came");
      assert (!(go_i && first_tap_i && emit_i && room_i == '0)) else $error("pool_seq: a window without room");
      assert (!go_i || place < 32'(avail) || avail == '1) else $error("pool_seq: a tap reads a place not yet available");
      assert (!(go_i && first_tap_i && table_i) || 9'(bias_layers_i - layer_no_i) < 9'd2)
      else $error("pool_seq: a window without its table");
      assert (!free_i[0] || avail_i[15:0] != '0) else $error("pool_seq: half 0 freed while empty");
      assert (!free_i[1] || avail_i[31:16] != '0) else $error("pool_seq: half 1 freed while empty");
    end
  end
endmodule

bind pool_seq pool_seq_checker #(
    .ROOM(ROOM)
) u_checker (
    .clk_i,
    .rst_ni,
    .go_i       (go),
    .first_tap_i(first_tap_q),
    .emit_i     (emit),
    .room_i     (room_q),
    .taken_i    (result_taken_i || dw_taken_i != '0),
    .avail_i,
    .half_i     (half_q),
    .free_i     (free_o),
    .table_i    (d.avg_table),
    .layer_no_i (layer_no_q),
    .bias_layers_i,
    .tile_i     (state_q == StTile),
    .nr_i       (32'(nr_q)),
    .columns_i  (cols_q ? (32'(d.out_w) - 1) * 32'(d.s_w) + 32'(d.k_w) : 32'(d.out_w)),
    .groups_i   ((32'(d.in_c) + NB - 1) / NB),
    .k_w_i      (cols_q ? 1 : 32'(d.k_w)),
    .k_h_i      (32'(d.k_h)),
    .s_h_i      (32'(d.s_h))
);
