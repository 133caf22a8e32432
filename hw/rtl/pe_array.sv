// The array: T_C processing elements of T_P MACs and T_R accumulators each, with Stackable PEs and
// sample groups (paper, section III-A, Fig. 4c).
//
// A PE is two half chains (floor and ceil of T_P / 2 MACs), each with half of the PE's accumulators.
//   k = 1    the second half continues the first; T_R rows, the upper half of them in the second's
//            accumulators
//   k = 1/2  the halves are PEs of their own, floor(T_P / 2) wide, T_R / 2 rows each: channel 2c is
//            PE c's first half, 2c + 1 its second
//   k = 2    an odd PE continues the even one before it: channel c is the pair 2c, 2c + 1; its rows
//            stand in the odd PE's accumulators
//   s = 2    even PEs work for sample group 0, odd ones for group 1, with the same weights: channel
//            c of group g is PE 2c + g (k = 1) or the halves of it (k = 1/2)
// All of this is multiplexing at the inputs, which are shared by all PEs of one parity, and at the
// C input of the heads of a pair; no adder is outside the chains.
//
// Rows: valid_i with x_i (lanes 0 .. 2 T_P - 1 of the window) and y_i (the window of group 1), row_i,
// bank_i, first_i (accumulate from zero), swap_i (this row begins a pass: the shadow weights become
// the weights). One row a cycle, no stall. k and s change only while no row is on its way.
// Weights: load_i writes the shadow weights of PEs group_i * W_LOAD .. + W_LOAD - 1.
// A row may use an accumulator again D_k = chain + 2 cycles after its last use. last_i travels with
// the row; done_o says that it is accumulated.
module pe_array #(
  parameter int unsigned T_R    = 256,
  parameter int unsigned T_P    = 8,
  parameter int unsigned T_C    = 32,
  parameter int unsigned W_LOAD = 2,
  parameter bit          STUB   = 1'b0,
  parameter bit          STACK  = 1'b1,     // k = 1/2 and 2 are built
  parameter bit          FLUID  = 1'b1,     // s = 2 is built
  parameter bit          DSP48E2 = 1'b0,    // chains of UltraScale+ cells, as mac_chain has it
  localparam int unsigned ACC = abi_pkg::ACC_BITS,
  localparam int unsigned RW = $clog2(T_R),
  localparam int unsigned GROUPS = (T_C + W_LOAD - 1) / W_LOAD,
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic [1:0]               k_i,       // as in an FBCB entry: 0: 1, 1: 1/2, 2: 2
  input  logic                     two_i,     // s = 2
  input  logic                     valid_i,
  input  logic [2*T_P*16-1:0]      x_i,
  input  logic [T_P*16-1:0]        y_i,
  input  logic [RW-1:0]            row_i,
  input  logic                     bank_i,
  input  logic                     first_i,
  input  logic                     swap_i,
  input  logic                     last_i,
  output logic                     done_o,
  input  logic                     load_i,
  input  logic [GW-1:0]            group_i,
  input  logic [W_LOAD*T_P*16-1:0] w_i,
  input  logic                     dr_bank_i,
  input  logic                     dr_en_i,
  input  logic [RW-2:0]            dr_row_i,
  output logic [2*T_C*ACC-1:0]     dr_acc_o   // PE c: first half's word at 2c, second's at 2c + 1
);
  localparam int unsigned FH = T_P / 2;            // first half chain
  localparam int unsigned CH = T_P - FH;           // second half chain
  localparam int unsigned AW = RW - 1;
  // Stage 0 registers the row; the longest chain's tail is 2 T_P + 1 stages behind.
  localparam int unsigned TAIL = (STACK ? 2 * T_P : T_P) + 1;

  if (T_C % 2 != 0 || T_P < 2) begin : gen_bad
    $fatal(1, "pe_array: T_C must be even, T_P at least 2");
  end
  if (T_R != 1 << RW) begin : gen_bad_rows  // a row's top bit says which half it stands in
    $fatal(1, "pe_array: T_R must be a power of two");
  end

  logic half, pair, two;
  assign half = STACK && k_i == 2'd1;
  assign pair = STACK && k_i == 2'd2;
  assign two = FLUID && two_i;

  // ---- signals that accompany the row
  logic [TAIL:0] valid_q, last_q, bank_q;
  logic [RW-1:0] row_q[TAIL+1];
  logic [1:0]    first_q;

  // A row ends at the tail of its chain; beyond it, it would be seen again after a change of k.
  localparam int unsigned T0 = FH + 1;
  localparam int unsigned TH = CH + 1;
  localparam int unsigned T1 = T_P + 1;
  localparam int unsigned T2 = TAIL;
  logic [TAIL:0] on_way;
  for (genvar i = 0; i <= TAIL; i++) begin : gen_on_way
    assign on_way[i] = i <= TH || (i <= T1 && !half) || pair;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      last_q <= '0;
    end else begin
      valid_q <= {valid_q[TAIL-1:0], valid_i} & on_way;
      last_q <= {last_q[TAIL-1:0], valid_i && last_i} & on_way;
    end
    bank_q <= {bank_q[TAIL-1:0], bank_i};
    row_q[0] <= row_i;
    for (int unsigned i = 1; i <= TAIL; i++) row_q[i] <= row_q[i-1];
    first_q <= {first_q[0], first_i};
  end

  // ---- skew. Window lane j of x is needed j cycles behind stage 0 (lanes from T_P on only for
  // k = 2); lane j of y likewise. A swap runs along in the same way, one cycle earlier.
  logic [2*T_P*16-1:0] x_skew;
  logic [T_P*16-1:0]   y_skew;
  logic [2*T_P-1:0]    swap_skew;
  for (genvar j = 0; j < 2 * T_P; j++) begin : gen_skew
    if (j < T_P || STACK) begin : gen_x
      logic [15:0] line_q[j+1];
      always_ff @(posedge clk_i) begin
        line_q[0] <= x_i[j*16+:16];
        for (int unsigned i = 1; i <= j; i++) line_q[i] <= line_q[i-1];
      end
      assign x_skew[j*16+:16] = line_q[j];
    end else begin : gen_no_x
      assign x_skew[j*16+:16] = '0;
      logic unused;
      assign unused = ^x_i[j*16+:16];
    end
  end
  for (genvar j = 0; j < T_P; j++) begin : gen_skew_y
    if (FLUID) begin : gen_y
      logic [15:0] line_q[j+1];
      always_ff @(posedge clk_i) begin
        line_q[0] <= y_i[j*16+:16];
        for (int unsigned i = 1; i <= j; i++) line_q[i] <= line_q[i-1];
      end
      assign y_skew[j*16+:16] = line_q[j];
    end else begin : gen_no_y
      assign y_skew[j*16+:16] = '0;
      logic unused;
      assign unused = ^y_i[j*16+:16];
    end
  end
  logic [2*T_P-2:0] swap_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) swap_q <= '0;
    else swap_q <= {swap_q[2*T_P-3:0], valid_i && swap_i};
  end
  assign swap_skew = {swap_q, valid_i && swap_i};

  // ---- the four kinds of half chains: parity of the PE, first or second half
  logic [FH*16-1:0] a_even0, a_odd0;
  logic [CH*16-1:0] a_even1, a_odd1;
  logic [FH-1:0]    s_even0, s_odd0;
  logic [CH-1:0]    s_even1, s_odd1;
  for (genvar j = 0; j < FH; j++) begin : gen_first
    assign a_even0[j*16+:16] = x_skew[j*16+:16];
    assign s_even0[j] = swap_skew[j];
    assign a_odd0[j*16+:16] = pair ? x_skew[(T_P+j)*16+:16]
                                   : (two ? y_skew[j*16+:16] : x_skew[j*16+:16]);
    assign s_odd0[j] = pair ? swap_skew[T_P+j] : swap_skew[j];
  end
  for (genvar j = 0; j < CH; j++) begin : gen_second
    logic [15:0] x_half, y_half;
    if (j < FH) begin : gen_lane
      assign x_half = x_skew[j*16+:16];
      assign y_half = y_skew[j*16+:16];
    end else begin : gen_idle  // an odd T_P leaves one lane over
      assign x_half = '0;
      assign y_half = '0;
    end
    assign a_even1[j*16+:16] = half ? x_half : x_skew[(FH+j)*16+:16];
    assign s_even1[j] = half ? swap_skew[j] : swap_skew[FH+j];
    assign a_odd1[j*16+:16] = pair ? x_skew[(T_P+FH+j)*16+:16]
                            : (half ? (two ? y_half : x_half)
                                    : (two ? y_skew[(FH+j)*16+:16] : x_skew[(FH+j)*16+:16]));
    assign s_odd1[j] = pair ? swap_skew[T_P+FH+j] : (half ? swap_skew[j] : swap_skew[FH+j]);
  end

  // ---- when tails write: the first halves (k = 1/2 only), the second halves, and the pair
  logic          v0, v1, b0, b1;
  logic [RW-1:0] r0, r1;
  assign v0 = half && valid_q[T0];
  assign b0 = bank_q[T0];
  assign r0 = row_q[T0];
  assign v1 = half ? valid_q[TH] : (pair ? valid_q[T2] : valid_q[T1]);
  assign b1 = half ? bank_q[TH] : (pair ? bank_q[T2] : bank_q[T1]);
  assign r1 = half ? row_q[TH] : (pair ? row_q[T2] : row_q[T1]);
  assign done_o = half ? last_q[TH] : (pair ? last_q[T2] : last_q[T1]);

  // Input of a PE's head, encoded in two bits that all PEs share, so that each bit needs one
  // six-input LUT: the word of the lower rows from either bank; the word of the upper rows (or of
  // the half PE), which is zero for a first row; or the output of the other PE of the pair.
  // row_sel_q selects which of four words holds a row.
  localparam logic [1:0] PICK_UPPER = 2'd2;
  localparam logic [1:0] PICK_OTHER = 2'd3;
  logic [1:0] pick_own, pick_even_q, pick_odd_q, row_sel_q;
  assign pick_own = (first_q[0] || (row_q[0][RW-1] && !half)) ? PICK_UPPER : {1'b0, bank_q[0]};
  always_ff @(posedge clk_i) begin
    pick_even_q <= (pair && !first_q[0]) ? PICK_OTHER : pick_own;
    pick_odd_q <= pair ? PICK_OTHER : pick_own;
    row_sel_q <= {row_q[0][RW-1], bank_q[0]};
  end

  for (genvar c = 0; c < T_C; c += 2) begin : gen_pair
    logic [ACC-1:0] odd_acc, even_tail;
    logic           unused_pair;
    assign unused_pair = ^{odd_acc, even_tail};

    for (genvar o = 0; o < 2; o++) begin : gen_pe
      localparam int unsigned P = c + o;
      logic [ACC-1:0]   acc_a, acc_b, head0, head1, tail0, tail1;
      logic [2*ACC-1:0] both_a, both_b;
      logic             load, wr_a, wr_b, unused;
      assign unused = ^{acc_a, both_a, both_b};
      logic [FH*16-1:0] w0;
      logic [CH*16-1:0] w1;

      assign load = load_i && (group_i == GW'(P / W_LOAD));
      assign {w1, w0} = w_i[(P%W_LOAD)*T_P*16+:T_P*16];

      if (o == 0) begin : gen_even
        assign even_tail = tail1;
      end else begin : gen_odd
        // from the four words, not from the selected one: one level less before the even head
        assign odd_acc = row_sel_q[1] ? both_b[(row_sel_q[0] ? ACC : 0)+:ACC]
                                      : both_a[(row_sel_q[0] ? ACC : 0)+:ACC];
      end
      if (STACK) begin : gen_stack
        logic [1:0]     pick;
        logic [ACC-1:0] upper, other;
        assign pick = (o == 0) ? pick_even_q : pick_odd_q;
        assign upper = first_q[1] ? '0 : acc_b;
        assign other = (o == 0) ? odd_acc : even_tail;
        assign head0 = pick[1] ? (pick[0] ? other : upper) : both_a[(pick[0] ? ACC : 0)+:ACC];
        assign head1 = half ? upper : tail0;
      end else begin : gen_whole
        assign head0 = first_q[1] ? '0 : (row_sel_q[1] ? acc_b : acc_a);
        assign head1 = tail0;
      end

      mac_chain #(.LEN(FH), .ACC(ACC), .STUB(STUB), .DSP48E2(DSP48E2)) u_first (
        .clk_i,
        .a_i   (o == 0 ? a_even0 : a_odd0),
        .swap_i(o == 0 ? s_even0 : s_odd0),
        .load_i(load),
        .w_i   (w0),
        .c_i   (head0),
        .p_o   (tail0)
      );
      mac_chain #(.LEN(CH), .ACC(ACC), .STUB(STUB), .DSP48E2(DSP48E2)) u_second (
        .clk_i,
        .a_i   (o == 0 ? a_even1 : a_odd1),
        .swap_i(o == 0 ? s_even1 : s_odd1),
        .load_i(load),
        .w_i   (w1),
        .c_i   (head1),
        .p_o   (tail1)
      );

      // first half's accumulators: its own tail for k = 1/2, the lower rows of the PE otherwise
      assign wr_a = half ? v0 : (v1 && !r1[RW-1]);
      assign wr_b = half ? v1 : (v1 && r1[RW-1]);
      acc_half #(.DEPTH(T_R / 2), .ACC(ACC)) u_acc_a (
        .clk_i,
        .rd_bank_i(bank_q[0]),
        .rd_en_i  (valid_q[0]),
        .rd_row_i (row_q[0][AW-1:0]),
        .rd_acc_o (acc_a),
        .rd_both_o(both_a),
        .wr_bank_i(half ? b0 : b1),
        .wr_en_i  (wr_a),
        .wr_row_i (half ? r0[AW-1:0] : r1[AW-1:0]),
        .wr_acc_i (half ? tail0 : tail1),
        .dr_bank_i,
        .dr_en_i,
        .dr_row_i,
        .dr_acc_o (dr_acc_o[(2*P)*ACC+:ACC])
      );
      acc_half #(.DEPTH(T_R / 2), .ACC(ACC)) u_acc_b (
        .clk_i,
        .rd_bank_i(bank_q[0]),
        .rd_en_i  (valid_q[0]),
        .rd_row_i (row_q[0][AW-1:0]),
        .rd_acc_o (acc_b),
        .rd_both_o(both_b),
        .wr_bank_i(b1),
        .wr_en_i  (wr_b),
        .wr_row_i (r1[AW-1:0]),
        .wr_acc_i (tail1),
        .dr_bank_i,
        .dr_en_i,
        .dr_row_i,
        .dr_acc_o (dr_acc_o[(2*P+1)*ACC+:ACC])
      );
    end
  end

  logic unused;
  assign unused = ^{swap_skew, r0[RW-1], pick_even_q, pick_odd_q};
endmodule
