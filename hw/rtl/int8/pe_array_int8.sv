// The array of an int8 NPU, in the place of pe_array: T_C / 2 chains of T_P DSPs, two neighbouring output channels each, T_R
// accumulators of 32 bits a channel in two banks. Rows, k, s, weights, banks and last_i are as there, with a chain for a PE.
// The half chains are mac_packed: lane j of a segment is skewed by its place in it, and accumulators are added two cycles before
// their sums leave. So the first half's sum leaves T0 cycles after the row came, for k = 1 the second's two cycles later, for
// k = 2 the odd chain's two and four cycles after that; a row may use an accumulator again after 5, 7, 11 cycles (k = 1/2, 1,
// 2), which is no more than gemm_seq waits where T_P is 4 or more.
// Weights are packed in a cycle on their way to the shadow weights, so they may come as early after a swap as in pe_array.
// What all chains read passes two levels of registers, as there: everything behind them is two cycles later than said here, and so
// is what the drain reads, whose words leave dr_acc_o four cycles behind dr_row_i.
module pe_array_int8 #(
  parameter int unsigned T_R    = 256,
  parameter int unsigned T_P    = 8,
  parameter int unsigned T_C    = 32,
  parameter int unsigned W_LOAD = 2,        // chains
  parameter bit          STUB   = 1'b0,
  parameter bit          STACK  = 1'b1,     // k = 1/2 and 2 are built
  parameter bit          FLUID  = 1'b1,     // s = 2 is built
  parameter bit          DSP48E2 = 1'b0,
  localparam int unsigned ACC = 32,
  localparam int unsigned NC = T_C / 2,
  localparam int unsigned RW = $clog2(T_R),
  localparam int unsigned GROUPS = (NC + W_LOAD - 1) / W_LOAD,
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic [1:0]               k_i,       // as in an FBCB entry: 0: 1, 1: 1/2, 2: 2
  input  logic                     two_i,     // s = 2
  input  logic                     valid_i,
  input  logic [2*T_P*8-1:0]       x_i,
  input  logic [T_P*8-1:0]         y_i,
  input  logic [RW-1:0]            row_i,
  input  logic                     bank_i,
  input  logic                     first_i,
  input  logic                     swap_i,
  input  logic                     last_i,
  output logic                     done_o,
  input  logic                     load_i,
  input  logic [GW-1:0]            group_i,
  input  logic [W_LOAD*T_P*16-1:0] w_i,       // of two channels a word, as in DRAM
  input  logic                     dr_bank_i,
  input  logic                     dr_en_i,
  input  logic [RW-2:0]            dr_row_i,
  output logic [2*T_C*ACC-1:0]     dr_acc_o   // chain c: first half's two channels at 4c, second's at 4c + 2
);
  localparam int unsigned FH = T_P / 2;            // first half chain
  localparam int unsigned CH = T_P - FH;           // second half chain
  localparam int unsigned AW = RW - 1;
  localparam int unsigned S = DSP48E2 ? 18 : 17;
  localparam int unsigned W = S + 8;
  localparam int unsigned MOST = DSP48E2 ? 8 : 4;  // cells of a segment
  localparam int unsigned SPAN0 = (FH < MOST) ? FH : MOST;
  localparam int unsigned SPAN1 = (CH < MOST) ? CH : MOST;
  localparam int unsigned L0 = SPAN0 + 3 + $clog2((FH + MOST - 1) / MOST);  // latency of mac_packed; L1 is the longer one
  localparam int unsigned L1 = SPAN1 + 3 + $clog2((CH + MOST - 1) / MOST);
  localparam int unsigned T0 = L1 + 1;             // when sums leave: the first half's, both for k = 1/2
  localparam int unsigned T1 = T0 + 2;             // k = 1
  localparam int unsigned T2 = T0 + 6;             // k = 2, of the odd chain
  localparam int unsigned TAIL = STACK ? T2 : T1;
  localparam int unsigned C0 = T0 - 2;             // when the head takes its accumulators

  if (T_C % 4 != 0 || T_P < 4) begin : gen_bad
    $fatal(1, "pe_array_int8: T_C must be a multiple of 4, T_P at least 4");
  end
  if (T_R != 1 << RW) begin : gen_bad_rows  // a row's top bit says which half it stands in
    $fatal(1, "pe_array_int8: T_R must be a power of two");
  end

  // Cycles by which lane j of a half chain of n is later than its first operands.
  function automatic int unsigned skew(int unsigned j, int unsigned n);
    int unsigned from, cells;
    from = j / MOST * MOST;
    cells = (n - from < MOST) ? n - from : MOST;
    skew = ((n < MOST) ? n : MOST) - cells + j % MOST;
  endfunction

  logic half, pair, two;
  assign half = STACK && k_i == 2'd1;
  assign pair = STACK && k_i == 2'd2;
  assign two = FLUID && two_i;

  // ---- signals that accompany the row: bit or word d - 1 is d cycles behind it
  logic [TAIL-1:0] valid_q, last_q, bank_q;
  logic [RW-1:0]   row_q[TAIL];
  logic [C0-1:0]   first_q;
  // A row ends when its sums leave; beyond that, it would be seen again after a change of k.
  logic [TAIL-1:0] on_way;
  for (genvar i = 0; i < TAIL; i++) begin : gen_on_way
    assign on_way[i] = i < T0 || (i < T1 && !half) || pair;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      last_q <= '0;
    end else begin
      valid_q <= {valid_q[TAIL-2:0], valid_i} & on_way;
      last_q <= {last_q[TAIL-2:0], valid_i && last_i} & on_way;
    end
    bank_q <= {bank_q[TAIL-2:0], bank_i};
    row_q[0] <= row_i;
    for (int unsigned i = 1; i < TAIL; i++) row_q[i] <= row_q[i-1];
    first_q <= {first_q[C0-2:0], first_i};
  end

  // ---- swaps and operands, by lane: both of a lane come in the same cycle
  localparam int unsigned LATEST = T2 - L1 + SPAN1;  // later than any lane
  logic [LATEST-1:0] swap_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) swap_q <= '0;
    else swap_q <= {swap_q[LATEST-2:0], valid_i && swap_i};
  end

  logic [T_P*8-1:0] even, odd;            // operands of even and of odd chains, k = 1 and 2
  logic [T_P-1:0]   even_swap, odd_swap;
  logic [FH*8-1:0]  half_even, half_odd;  // and of their second halves, k = 1/2
  logic [FH-1:0]    half_swap;
  for (genvar j = 0; j < T_P; j++) begin : gen_lane
    // k = 1: cycles behind the row; the odd chain of a pair is four later, the second half of k = 1/2 two earlier
    localparam bit          SECOND = j >= FH;
    localparam int unsigned D = SECOND ? T1 - L1 + skew(SECOND ? j - FH : 0, CH) : T0 - L0 + skew(SECOND ? 0 : j, FH);
    localparam int unsigned H = T0 - L1 + skew(SECOND ? 0 : j, CH);
    localparam int unsigned LEN = (SECOND || D > H) ? D : H;
    logic [7:0] x_q[LEN], y_q[LEN], z_q[D+4];
    always_ff @(posedge clk_i) begin
      x_q[0] <= x_i[j*8+:8];
      y_q[0] <= y_i[j*8+:8];
      z_q[0] <= x_i[(T_P+j)*8+:8];
      for (int unsigned i = 1; i < LEN; i++) begin
        x_q[i] <= x_q[i-1];
        y_q[i] <= y_q[i-1];
      end
      for (int unsigned i = 1; i < D + 4; i++) z_q[i] <= z_q[i-1];
    end
    assign even[j*8+:8] = x_q[D-1];
    assign odd[j*8+:8] = pair ? z_q[D+3] : (two ? y_q[D-1] : x_q[D-1]);
    assign even_swap[j] = swap_q[D-1];
    assign odd_swap[j] = pair ? swap_q[D+3] : swap_q[D-1];
    if (!SECOND) begin : gen_first
      assign half_even[j*8+:8] = x_q[H-1];
      assign half_odd[j*8+:8] = two ? y_q[H-1] : x_q[H-1];
      assign half_swap[j] = swap_q[H-1];
    end
  end
  // the four kinds of half chains: parity of the chain, first or second half. For k = 1/2 the second takes the first one's
  // lanes, and where T_P is odd nothing in its last lane.
  logic [CH*8-1:0] a_even1, a_odd1;
  logic [CH-1:0]   s_even1, s_odd1;
  assign a_even1 = half ? (CH * 8)'(half_even) : even[T_P*8-1:FH*8];
  assign a_odd1 = half ? (CH * 8)'(half_odd) : odd[T_P*8-1:FH*8];
  assign s_even1 = half ? CH'(half_swap) : even_swap[T_P-1:FH];
  assign s_odd1 = half ? CH'(half_swap) : odd_swap[T_P-1:FH];

  // ---- packed weights, in the cycle before the first level
  logic                    load_q;
  logic [GW-1:0]           group_q;
  logic [W_LOAD*T_P*16-1:0] w_q;
  logic [W_LOAD*T_P*W-1:0] packed_w;
  always_ff @(posedge clk_i) begin
    load_q <= rst_ni && load_i;
    group_q <= group_i;
    w_q <= w_i;
  end
  weight_pack #(.WORDS(W_LOAD * T_P), .DSP48E2(DSP48E2)) u_pack (.w_i(w_q), .w_o(packed_w));

  // ---- when sums are written: of the first halves (k = 1/2 only), of the second ones
  logic          v1, b1;
  logic [RW-1:0] r1;
  assign v1 = half ? valid_q[T0-1] : (pair ? valid_q[TAIL-1] : valid_q[T1-1]);
  assign b1 = half ? bank_q[T0-1] : (pair ? bank_q[TAIL-1] : bank_q[T1-1]);
  assign r1 = half ? row_q[T0-1] : (pair ? row_q[TAIL-1] : row_q[T1-1]);
  assign done_o = half ? last_q[T0-1] : (pair ? last_q[TAIL-1] : last_q[T1-1]);

  // ---- tokens of a row and of the drain: accumulators are read two cycles before a head takes them, first half's are its own
  // sums' for k = 1/2, the lower rows' otherwise
  localparam int unsigned TOKENS = 3 * (AW + 2) + 5;
  logic [AW+1:0]     rd, dr;
  logic [AW+2:0]     wr;
  logic [TOKENS-1:0] tokens_q;
  assign rd = {valid_q[C0-3], bank_q[C0-3], row_q[C0-3][AW-1:0]};
  assign wr = {v1 && (half || !r1[RW-1]), v1 && (half || r1[RW-1]), b1, r1[AW-1:0]};
  assign dr = {dr_en_i, dr_bank_i, dr_row_i};

  // ---- the first level, and groups with the second
  localparam int unsigned CHAINS = 8;              // of a group
  logic [GROUPS-1:0]       load, loads_q;
  logic [W_LOAD*T_P*W-1:0] packed_q;
  logic [2*T_P*8-1:0]      a_q;
  logic [2*T_P-1:0]        s_q;
  for (genvar g = 0; g < GROUPS; g++) begin : gen_load
    assign load[g] = load_q && group_q == GW'(g);
  end
  level #(.WIDTH(2 * T_P * 8)) u_operands (.clk_i, .d_i({a_odd1, odd[FH*8-1:0], a_even1, even[FH*8-1:0]}), .q_o(a_q));
  level #(.WIDTH(2 * T_P)) u_swaps (.clk_i, .d_i({s_odd1, odd_swap[FH-1:0], s_even1, even_swap[FH-1:0]}), .q_o(s_q));
  level #(.WIDTH(GROUPS + W_LOAD * T_P * W)) u_weights (.clk_i, .d_i({load, packed_w}), .q_o({loads_q, packed_q}));
  level #(.WIDTH(TOKENS)) u_tokens (
    .clk_i,
    .d_i({half, pair, first_q[C0-1], row_q[C0-1][RW-1] && !half, rd, wr, dr}),
    .q_o(tokens_q)
  );

  for (genvar p = 0; p < NC; p += CHAINS) begin : gen_group
    localparam int unsigned N = (NC - p < CHAINS) ? NC - p : CHAINS;
    logic [N-1:0] chain_load;
    for (genvar i = 0; i < N; i++) begin : gen_chain
      assign chain_load[i] = loads_q[(p+i)/W_LOAD];
    end
    pe_group_int8 #(.N(N), .T_R(T_R), .T_P(T_P), .W_LOAD(W_LOAD), .SLOT(p % W_LOAD), .STUB(STUB), .DSP48E2(DSP48E2)) u_chains (
      .clk_i,
      .tokens_i(tokens_q),
      .a_i     (a_q),
      .swap_i  (s_q),
      .load_i  (chain_load),
      .w_i     (packed_q),
      .dr_acc_o(dr_acc_o[4*p*ACC+:4*N*ACC])
    );
  end

  logic unused;
  assign unused = ^{even, odd, even_swap, odd_swap};
endmodule
