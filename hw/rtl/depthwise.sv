// Depthwise convolution: NB channels side by side, each with weights of its own, one tap a cycle from the same walk
// as a pool's (pool_seq). Sums of windows leave in groups of NB, of which drain takes LANES a cycle in the order of the
// channels, in place of accumulators.
//
// By taps one of three multipliers a lane adds up a window. By columns (cols_i: windows three wide) all three work: an
// input column counts for the third column of one window, the second of the next and the first of the one behind it.
// For each channel group a memory keeps the two unfinished sums: every input column is read once an output row.
//
// Weights: word i of NB channels lies in memory i % 3 at i / 3, so that a kernel row of three is read at once. They are
// a layer's; w_ready_o is low from their last beat until the last tap of the layer has read them. Six stages from a tap to the
// memory of sums.
module depthwise #(
  parameter int unsigned NB        = 16,
  parameter int unsigned LANES     = 8,
  parameter int unsigned AXI_BYTES = 8,
  parameter int unsigned ROOM      = 8,     // groups of sums
  parameter int unsigned GROUPS    = 64,    // channel groups whose columns it remembers
  localparam int unsigned WPB = AXI_BYTES / 2,
  localparam int unsigned ACC = abi_pkg::ACC_BITS,
  localparam int unsigned GW = $clog2(GROUPS),
  localparam int unsigned CW = $clog2(LANES + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  // weights, in beats
  input  logic                   w_valid_i,
  output logic                   w_ready_o,
  input  logic                   w_last_i,
  input  logic [AXI_BYTES*8-1:0] w_data_i,
  output logic                   full_o,       // all of a layer's weights are here
  // taps
  input  logic                   cols_i,
  input  logic                   valid_i,
  input  logic [NB*16-1:0]       data_i,
  input  logic                   first_i,      // tap of a window or column
  input  logic                   last_i,
  input  logic                   result_i,     // a window ends with the last tap
  input  logic [GW-1:0]          group_i,
  input  logic                   restart_i,    // last tap of the last channel group: the next one takes the first weights
  input  logic                   release_i,    // last tap of the layer
  // sums
  output logic                   ok_o,         // the next cnt_i words are there
  input  logic [CW-1:0]          cnt_i,        // LANES, or fewer for the last of a pixel
  input  logic                   pixel_i,      // they are the last of a pixel
  input  logic                   pop_i,
  output logic [LANES*ACC-1:0]   data_o,
  output logic [1:0]             taken_o       // so many groups have left
);
  localparam int unsigned PARTS = NB / WPB;                       // beats of a word
  localparam int unsigned PW = (PARTS > 1) ? $clog2(PARTS) : 1;
  localparam int unsigned DEPTH = (abi_pkg::DW_WORDS + 2) / 3;
  localparam int unsigned AW = $clog2(DEPTH);
  if (NB % WPB != 0 || LANES > NB || ROOM % 4 != 0) begin : gen_bad
    $fatal(1, "depthwise: a word is whole beats, LANES at most NB, ROOM a multiple of 4");
  end

  // ---- weights
  logic          full_q, w_go;
  logic [PW-1:0] part_q;
  logic [1:0]    third_w_q, third_q, third1_q;
  logic [AW-1:0] waddr_q, raddr_q;
  logic [3*NB*16-1:0] words;
  assign full_o = full_q;
  assign w_ready_o = !full_q;
  assign w_go = w_valid_i && w_ready_o;
  for (genvar b = 0; b < 3; b++) begin : gen_bank
    for (genvar p = 0; p < PARTS; p++) begin : gen_part
      ram_1r1w #(.WIDTH(AXI_BYTES * 8), .DEPTH(DEPTH)) u_ram (
        .clk_i,
        .we_i   (w_go && third_w_q == 2'(b) && part_q == PW'(p)),
        .waddr_i(waddr_q),
        .wdata_i(w_data_i),
        .re_i   (valid_i),
        .raddr_i(raddr_q),
        .rdata_o(words[(b*PARTS+p)*AXI_BYTES*8+:AXI_BYTES*8])
      );
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      full_q <= 1'b0;
      part_q <= '0;
      third_w_q <= '0;
      waddr_q <= '0;
      third_q <= '0;
      raddr_q <= '0;
    end else begin
      if (w_go) begin
        part_q <= (part_q == PW'(PARTS - 1)) ? '0 : part_q + 1'b1;
        if (part_q == PW'(PARTS - 1)) begin
          third_w_q <= (third_w_q == 2'd2) ? '0 : third_w_q + 2'd1;
          if (third_w_q == 2'd2) waddr_q <= waddr_q + 1'b1;
        end
        if (w_last_i) begin
          full_q <= 1'b1;
          part_q <= '0;
          third_w_q <= '0;
          waddr_q <= '0;
        end
      end
      if (valid_i) begin
        third_q <= (cols_i || third_q == 2'd2) ? '0 : third_q + 2'd1;
        if (cols_i || third_q == 2'd2) raddr_q <= raddr_q + 1'b1;
        if (restart_i) begin
          third_q <= '0;
          raddr_q <= '0;
        end
        if (release_i) full_q <= 1'b0;
      end
    end
  end

  // ---- taps: 1 weights are read, 2 and chosen, 3 products, 4 sums
  logic [3:1]        v_q, first_q, last_q, res_q;
  logic              done_q, win_q;
  logic [3*GW-1:0]   group_q;
  logic [GW-1:0]     at_q;
  logic [NB*16-1:0]  x1_q, x2_q;
  logic [NB*ACC-1:0] sums;                  // of a window
  always_ff @(posedge clk_i) begin
    x1_q <= data_i;
    x2_q <= x1_q;
    third1_q <= third_q;
    first_q <= {first_q[2:1], first_i};
    last_q <= {last_q[2:1], last_i};
    res_q <= {res_q[2:1], result_i};
    group_q <= {group_q[2*GW-1:0], group_i};
    at_q <= group_q[2*GW+:GW];
    win_q <= res_q[3];
    if (!rst_ni) begin
      v_q <= '0;
      done_q <= 1'b0;
    end else begin
      v_q <= {v_q[2:1], valid_i};
      done_q <= v_q[3] && last_q[3];
    end
  end

  // Of a column: what its window still lacks behind it, one column and two. Leftovers of the row before are overwritten before
  // the first window of a row ends.
  (* ram_style = "distributed" *) logic [NB*2*ACC-1:0] kept_mem[GROUPS];
  logic [NB*2*ACC-1:0] kept_d, kept;
  assign kept = kept_mem[at_q];
  always_ff @(posedge clk_i) begin
    if (done_q) kept_mem[at_q] <= kept_d;
  end

  for (genvar i = 0; i < NB; i++) begin : gen_lane
    logic signed [15:0]    x, w0_q, w1_q, w2_q;
    logic signed [31:0]    p0_q, p1_q, p2_q;
    logic signed [ACC-1:0] acc0_q, acc1_q, acc2_q, one, two;
    assign x = x2_q[i*16+:16];
    assign one = kept[i*2*ACC+:ACC];
    assign two = kept[i*2*ACC+ACC+:ACC];
    always_ff @(posedge clk_i) begin
      w0_q <= words[i*16+:16];
      w1_q <= words[(NB+i)*16+:16];
      w2_q <= (cols_i || third1_q[1]) ? words[(2*NB+i)*16+:16]
                                      : (third1_q[0] ? words[(NB+i)*16+:16] : words[i*16+:16]);
      p0_q <= x * w0_q;
      p1_q <= x * w1_q;
      p2_q <= x * w2_q;
      if (v_q[3]) begin
        acc0_q <= (first_q[3] ? '0 : acc0_q) + ACC'(p0_q);
        acc1_q <= (first_q[3] ? '0 : acc1_q) + ACC'(p1_q);
        acc2_q <= (first_q[3] ? '0 : acc2_q) + ACC'(p2_q);
      end
    end
    assign sums[i*ACC+:ACC] = acc2_q + (cols_i ? one : '0);
    assign kept_d[i*2*ACC+:2*ACC] = {acc0_q, two + acc1_q};
  end

  // ---- groups of sums. LANES that do not divide NB may take words of two groups: then these lie in two queues in turn.
  localparam int unsigned SLOTS = (NB % LANES == 0) ? 1 : 2;
  localparam int unsigned UNIT = LANES & (~LANES + 1);            // where a step may begin
  localparam int unsigned UB = $clog2(UNIT);
  localparam int unsigned LB = $clog2(NB);
  localparam int unsigned PB = (SLOTS * NB > UNIT) ? $clog2(SLOTS * NB) - UB : 1;
  logic [SLOTS-1:0]        there, gone, room_unused;
  logic [SLOTS*NB*ACC-1:0] front, view;
  logic [PB-1:0]           pos_q;                                 // of the next word, in UNITs
  logic [LB+UB:0]          pos;
  logic [LB:0]             off, ends;                             // in its group; behind the words taken
  logic                    in_q, over;                            // the group that comes next; words of two
  assign pos = (LB + UB + 1)'(pos_q) << UB;
  assign off = {1'b0, pos[LB-1:0]};
  assign ends = off + (LB + 1)'(cnt_i);
  assign over = SLOTS == 2 && ends > (LB + 1)'(NB);
  for (genvar s = 0; s < SLOTS; s++) begin : gen_slot
    fifo #(.WIDTH(NB * ACC), .DEPTH(ROOM / SLOTS)) u_sums (
      .clk_i,
      .rst_ni,
      .valid_i(done_q && win_q && (SLOTS == 1 || in_q == (s == 1))),
      .ready_o(room_unused[s]),        // pool_seq begins no window or column without room
      .wdata_i(sums),
      .valid_o(there[s]),
      .ready_i(gone[s]),
      .rdata_o(front[s*NB*ACC+:NB*ACC])
    );
  end
  if (SLOTS == 1) begin : gen_one
    assign ok_o = there[0];
    assign gone[0] = pop_i && (pixel_i || ends == (LB + 1)'(NB));
    assign taken_o = {1'b0, gone[0]};
  end else begin : gen_two
    logic second, leaves, both;
    assign second = pos[LB];
    assign ok_o = there[second] && (!over || there[!second]);
    assign leaves = pop_i && (pixel_i || ends >= (LB + 1)'(NB));
    assign both = pop_i && pixel_i && over;
    assign gone = {second ? leaves : both, second ? both : leaves};
    assign taken_o = {both, leaves && !both};
  end
  always_comb begin
    view = front;
    for (int unsigned b = 0; b < PB; b++) begin
      if (SLOTS * NB > UNIT && pos_q[PB-1-b]) begin
        view = (view >> ((UNIT * ACC) << (PB - 1 - b))) | (view << (SLOTS * NB * ACC - ((UNIT * ACC) << (PB - 1 - b))));
      end
    end
  end
  assign data_o = view[LANES*ACC-1:0];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      pos_q <= '0;
      in_q <= 1'b0;
    end else begin
      if (done_q && win_q) in_q <= !in_q;
      if (pop_i) begin
        pos_q <= pos_q + PB'(LANES / UNIT);
        // the next pixel begins with a group
        if (SLOTS == 1 && gone[0]) pos_q <= '0;
        if (SLOTS == 2 && pixel_i) pos_q <= (pos[LB] != over) ? '0 : PB'(NB / UNIT);
      end
    end
  end

  logic unused;
  assign unused = ^{room_unused, view, pos, in_q};
endmodule
