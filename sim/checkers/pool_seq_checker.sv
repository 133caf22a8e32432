// pool_seq_checker: bound to every pool_seq where this file is compiled with --assert. A tap reads
// only places that are available, no window, or column that completes one, begins without room for its
// result, room is never more than there is, no average by table begins without its table, and a half is
// freed only where it holds data.
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
    input logic [15:0] place_i,
    input logic [1:0]  free_i,
    input logic        table_i,
    input logic [8:0]  layer_no_i,     // this layer counted
    input logic [8:0]  bias_layers_i
);
  logic [15:0] avail;
  assign avail = half_i ? avail_i[31:16] : avail_i[15:0];
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (32'(room_i) <= ROOM) else $error("pool_seq: more room than there is");
      assert (!(taken_i && 32'(room_i) == ROOM)) else $error("pool_seq: a result leaves that never came");
      assert (!(go_i && first_tap_i && emit_i && room_i == '0)) else $error("pool_seq: a window without room");
      assert (!go_i || place_i < avail) else $error("pool_seq: a tap reads a place not yet available");
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
    .taken_i    (result_taken_i),
    .avail_i,
    .half_i     (half_q),
    .place_i    (place_q),
    .free_i     (free_o),
    .table_i    (d.avg_table),
    .layer_no_i (layer_no_q),
    .bias_layers_i
);
