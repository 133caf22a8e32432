// A group of N neighbouring chains of pe_array_int8, with its own copy of what all chains read: the second of two levels of
// registers, the first one being pe_array_int8's. From there, for a chain as there:
//   rd reads the accumulators; two cycles later a head takes their words, first and upper say which; wr says where sums go.
// The drain's words leave dr_acc_o three cycles behind dr, the level among them.
module pe_group_int8 #(
  parameter int unsigned N      = 8,        // even
  parameter int unsigned T_R    = 256,
  parameter int unsigned T_P    = 8,
  parameter int unsigned W_LOAD = 2,
  parameter int unsigned SLOT   = 0,        // of w_i, whose weights are the first chain's
  parameter bit          STUB   = 1'b0,
  parameter bit          DSP48E2 = 1'b0,
  localparam int unsigned ACC = 32,
  localparam int unsigned FH = T_P / 2,            // first half chain
  localparam int unsigned CH = T_P - FH,           // second half chain
  localparam int unsigned AW = $clog2(T_R) - 1,
  localparam int unsigned W = (DSP48E2 ? 18 : 17) + 8,
  localparam int unsigned TOKENS = 3 * (AW + 2) + 5
) (
  input  logic                    clk_i,
  // {k = 1/2, k = 2, first, upper rows, read {enable, bank, row}, write {first half's, second half's, bank, row}, drain as read}
  input  logic [TOKENS-1:0]       tokens_i,
  // operands and swaps: odd chains, even chains; of each the second half chain, the first
  input  logic [2*T_P*8-1:0]      a_i,
  input  logic [2*T_P-1:0]        swap_i,
  input  logic [N-1:0]            load_i,
  input  logic [W_LOAD*T_P*W-1:0] w_i,      // packed
  output logic [4*N*ACC-1:0]      dr_acc_o
);
  logic [2*T_P*8-1:0]      a;
  logic [2*T_P-1:0]        swap;
  logic [N-1:0]            load;
  logic [W_LOAD*T_P*W-1:0] w;
  logic                    half, pair, first, upper, rd_en, rd_bank, wr_a, wr_b, wr_bank, dr_en, dr_bank;
  logic [AW-1:0]           rd_row, wr_row, dr_row;
  level #(.WIDTH(2 * T_P * 8)) u_operands (.clk_i, .d_i(a_i), .q_o(a));
  level #(.WIDTH(2 * T_P)) u_swaps (.clk_i, .d_i(swap_i), .q_o(swap));
  level #(.WIDTH(N + W_LOAD * T_P * W)) u_weights (.clk_i, .d_i({load_i, w_i}), .q_o({load, w}));
  level #(.WIDTH(TOKENS)) u_tokens (
    .clk_i, .d_i(tokens_i),
    .q_o({half, pair, first, upper, rd_en, rd_bank, rd_row, wr_a, wr_b, wr_bank, wr_row, dr_en, dr_bank, dr_row})
  );

  for (genvar c = 0; c < N; c += 2) begin : gen_pair
    logic [2*ACC-1:0] odd_acc, even_tail;
    for (genvar o = 0; o < 2; o++) begin : gen_chain
      localparam int unsigned P = c + o;
      logic [2*ACC-1:0] acc_a, acc_b, own, head0, head1, tail0, tail1;
      logic [4*ACC-1:0] unused_a, unused_b;
      logic             unused;
      logic [FH*W-1:0]  w0;
      logic [CH*W-1:0]  w1;
      assign unused = ^{unused_a, unused_b};
      assign {w1, w0} = w[((SLOT+P)%W_LOAD)*T_P*W+:T_P*W];

      assign own = upper ? acc_b : acc_a;
      if (o == 0) begin : gen_even
        assign even_tail = tail1;
        assign head0 = first ? '0 : (pair ? odd_acc : own);
      end else begin : gen_odd
        assign odd_acc = own;
        assign head0 = pair ? even_tail : (first ? '0 : own);
      end
      assign head1 = half ? (first ? '0 : acc_b) : tail0;

      if (STUB) begin : gen_stub
        assign tail0 = '0;
        assign tail1 = '0;
        logic unused_stub;
        assign unused_stub = ^{head0, head1, w0, w1, load[P]};
      end else begin : gen_mac
        mac_packed #(.LEN(FH), .ACC(ACC), .DSP48E2(DSP48E2)) u_first (
          .clk_i,
          .a_i   (a[o*T_P*8+:FH*8]),
          .swap_i(swap[o*T_P+:FH]),
          .load_i(load[P]),
          .w_i   (w0),
          .c_i   (head0),
          .p_o   (tail0)
        );
        mac_packed #(.LEN(CH), .ACC(ACC), .DSP48E2(DSP48E2)) u_second (
          .clk_i,
          .a_i   (a[(o*T_P+FH)*8+:CH*8]),
          .swap_i(swap[o*T_P+FH+:CH]),
          .load_i(load[P]),
          .w_i   (w1),
          .c_i   (head1),
          .p_o   (tail1)
        );
      end

      acc_half #(.DEPTH(T_R / 2), .ACC(2 * ACC)) u_acc_a (
        .clk_i,
        .rd_bank_i(rd_bank),
        .rd_en_i  (rd_en),
        .rd_row_i (rd_row),
        .rd_acc_o (acc_a),
        .rd_both_o(unused_a),
        .wr_bank_i(wr_bank),
        .wr_en_i  (wr_a),
        .wr_row_i (wr_row),
        .wr_acc_i (half ? tail0 : tail1),
        .dr_bank_i(dr_bank),
        .dr_en_i  (dr_en),
        .dr_row_i (dr_row),
        .dr_acc_o (dr_acc_o[4*P*ACC+:2*ACC])
      );
      acc_half #(.DEPTH(T_R / 2), .ACC(2 * ACC)) u_acc_b (
        .clk_i,
        .rd_bank_i(rd_bank),
        .rd_en_i  (rd_en),
        .rd_row_i (rd_row),
        .rd_acc_o (acc_b),
        .rd_both_o(unused_b),
        .wr_bank_i(wr_bank),
        .wr_en_i  (wr_b),
        .wr_row_i (wr_row),
        .wr_acc_i (tail1),
        .dr_bank_i(dr_bank),
        .dr_en_i  (dr_en),
        .dr_row_i (dr_row),
        .dr_acc_o (dr_acc_o[(4*P+2)*ACC+:2*ACC])
      );
    end
  end

  logic unused;
  assign unused = ^{a, swap, w, half, pair, first, upper};
endmodule
