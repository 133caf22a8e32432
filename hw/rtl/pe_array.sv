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
// C input of the heads of a pair; no adder is outside the chains. Behind the multiplexers stand two
// levels of registers: one here, one in each pe_group, which holds at most 16 PEs.
//
// Rows: valid_i with x_i (lanes 0 .. 2 T_P - 1 of the window) and y_i (the window of group 1), row_i,
// bank_i, first_i (accumulate from zero), swap_i (this row begins a pass: the shadow weights become
// the weights). One row a cycle, no stall. k and s change only while no row is on its way.
// Weights: load_i writes the shadow weights of PEs group_i * W_LOAD .. + W_LOAD - 1.
// A row may use an accumulator again D_k = chain + 3 cycles after its last use: a cycle to read it, one in the
// memory's register, one a cell, and one to write. last_i travels with the row; done_o says that the drain's reads
// from the next cycle on see its sum. Words leave dr_acc_o 4 cycles behind dr_en_i (the levels, memory, its register) and
// hold; before a bank computes again, its last word must have been taken.
module pe_array #(
  parameter int unsigned T_R    = 256,
  parameter int unsigned T_P    = 8,
  parameter int unsigned T_C    = 32,
  parameter int unsigned W_LOAD = 2,
  parameter bit          STUB   = 1'b0,
  parameter bit          STACK  = 1'b1,     // k = 1/2 and 2 are built
  parameter bit          FLUID  = 1'b1,     // s = 2 is built
  parameter int unsigned CELLS = 0,         // chains of the vendor's cells, as mac_chain has it
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
  // The longest chain's tail is 2 T_P + 1 stages behind the first.
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

  // ---- skew. Window lane j of x is needed j cycles behind lane 0 (lanes from T_P on only for
  // k = 2); lane j of y likewise. A swap runs along in the same way.
  logic [2*T_P*16-1:0] x_skew;
  logic [T_P*16-1:0]   y_skew;
  logic [3*T_P*16-1:0] lanes, skewed;
  logic [2*T_P-1:0]    swap_skew;
  assign lanes = {y_i, x_i};
  assign {y_skew, x_skew} = skewed;
  for (genvar n = 0; n < 3 * T_P; n++) begin : gen_skew
    localparam int unsigned J = (n < 2 * T_P) ? n : n - 2 * T_P;
    if (n >= T_P && !((n < 2 * T_P) ? STACK : FLUID)) begin : gen_none
      assign skewed[n*16+:16] = '0;
      logic unused;
      assign unused = ^lanes[n*16+:16];
    end else if (J == 0) begin : gen_now
      assign skewed[n*16+:16] = lanes[n*16+:16];
    end else begin : gen_line
      logic [15:0] line_q[J];
      always_ff @(posedge clk_i) begin
        line_q[0] <= lanes[n*16+:16];
        for (int unsigned i = 1; i < J; i++) line_q[i] <= line_q[i-1];
      end
      assign skewed[n*16+:16] = line_q[J-1];
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
  logic          v1, b1;
  logic [RW-1:0] r1;
  logic [AW+1:0] wr_a, wr_b;                       // {enable, bank, row}
  assign v1 = half ? valid_q[TH] : (pair ? valid_q[T2] : valid_q[T1]);
  assign b1 = half ? bank_q[TH] : (pair ? bank_q[T2] : bank_q[T1]);
  assign r1 = half ? row_q[TH] : (pair ? row_q[T2] : row_q[T1]);
  assign wr_a = half ? {valid_q[T0], bank_q[T0], row_q[T0][AW-1:0]} : {v1 && !r1[RW-1], b1, r1[AW-1:0]};
  assign wr_b = {v1 && (half || r1[RW-1]), b1, r1[AW-1:0]};
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

  // ---- the first level, and groups with the second
  localparam int unsigned PES = 16;                // of a group
  localparam int unsigned TOKENS = 4 * (AW + 2) + 8;
  logic [GROUPS-1:0]        load, load_q;
  logic [W_LOAD*T_P*16-1:0] w_q;
  logic [2*T_P*16-1:0]      a_q;
  logic [2*T_P-1:0]         s_q;
  logic [TOKENS-1:0]        tokens_q;
  for (genvar g = 0; g < GROUPS; g++) begin : gen_load
    assign load[g] = load_i && (group_i == GW'(g));
  end
  level #(.WIDTH(2 * T_P * 16)) u_operands (.clk_i, .d_i({a_odd1, a_odd0, a_even1, a_even0}), .q_o(a_q));
  level #(.WIDTH(2 * T_P)) u_swaps (.clk_i, .d_i({s_odd1, s_odd0, s_even1, s_even0}), .q_o(s_q));
  level #(.WIDTH(GROUPS + W_LOAD * T_P * 16)) u_weights (.clk_i, .d_i({load, w_i}), .q_o({load_q, w_q}));
  level #(.WIDTH(TOKENS)) u_tokens (
    .clk_i,
    .d_i({half, valid_i, bank_i, row_i[AW-1:0], first_q[1], row_sel_q, pick_odd_q, pick_even_q, wr_a, wr_b,
          dr_en_i, dr_bank_i, dr_row_i}),
    .q_o(tokens_q)
  );

  for (genvar p = 0; p < T_C; p += PES) begin : gen_group
    localparam int unsigned N = (T_C - p < PES) ? T_C - p : PES;
    localparam int unsigned LOADS = (p % W_LOAD + N + W_LOAD - 1) / W_LOAD;
    pe_group #(
      .N(N), .T_R(T_R), .T_P(T_P), .W_LOAD(W_LOAD), .SLOT(p % W_LOAD), .STUB(STUB), .STACK(STACK), .CELLS(CELLS)
    ) u_pes (
      .clk_i,
      .half_i  (tokens_q[TOKENS-1]),
      .rd_i    (tokens_q[3*(AW+2)+7+:AW+2]),
      .head_i  (tokens_q[3*(AW+2)+:7]),
      .wr_a_i  (tokens_q[2*(AW+2)+:AW+2]),
      .wr_b_i  (tokens_q[AW+2+:AW+2]),
      .dr_i    (tokens_q[0+:AW+2]),
      .a_i     (a_q),
      .swap_i  (s_q),
      .load_i  (load_q[p/W_LOAD+:LOADS]),
      .w_i     (w_q),
      .dr_acc_o(dr_acc_o[2*p*ACC+:2*N*ACC])
    );
  end

  logic unused;
  assign unused = ^swap_skew;
endmodule
