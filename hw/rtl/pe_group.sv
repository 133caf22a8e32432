// A group of N neighbouring PEs of pe_array, with its own copy of what all PEs read: the second of two levels of registers, the
// first one being pe_array's. Everything comes one cycle later to the PEs; from there, with lane 0's operand at t:
//   t      rd_i reads the accumulators
//   t + 2  their words, behind the memory's register, are added in the heads; head_i says which
//   t + 2 + (cells of the chain)  the sum is written; wr_i says where
// The drain's words leave dr_acc_o three cycles behind dr_i, the level among them.
module pe_group #(
  parameter int unsigned N      = 16,       // even
  parameter int unsigned T_R    = 256,
  parameter int unsigned T_P    = 8,
  parameter int unsigned W_LOAD = 2,
  parameter int unsigned SLOT   = 0,        // of w_i, whose weights are the first PE's
  parameter bit          STUB   = 1'b0,
  parameter bit          STACK  = 1'b1,
  parameter int unsigned CELLS = 0,
  localparam int unsigned ACC = abi_pkg::ACC_BITS,
  localparam int unsigned FH = T_P / 2,            // first half chain
  localparam int unsigned CH = T_P - FH,           // second half chain
  localparam int unsigned LOADS = (SLOT + N + W_LOAD - 1) / W_LOAD,
  localparam int unsigned AW = $clog2(T_R) - 1
) (
  input  logic                     clk_i,
  input  logic                     half_i,    // k = 1/2
  // operands and swaps: odd PEs, even PEs; of each the second half chain, the first
  input  logic [2*T_P*16-1:0]      a_i,
  input  logic [2*T_P-1:0]         swap_i,
  input  logic [LOADS-1:0]         load_i,    // of W_LOAD PEs each, the first one of W_LOAD - SLOT
  input  logic [W_LOAD*T_P*16-1:0] w_i,
  input  logic [AW+1:0]            rd_i,      // {enable, bank, row}
  input  logic [6:0]               head_i,    // {first, row_sel, pick of odd PEs, of even PEs}
  input  logic [AW+1:0]            wr_a_i,    // {enable, bank, row}: first half's accumulators
  input  logic [AW+1:0]            wr_b_i,    // second half's
  input  logic [AW+1:0]            dr_i,      // {enable, bank, row}
  output logic [2*N*ACC-1:0]       dr_acc_o
);
  localparam int unsigned TOKENS = 4 * (AW + 2) + 8;

  logic [2*T_P*16-1:0]      a;
  logic [2*T_P-1:0]         swap;
  logic [LOADS-1:0]         load;
  logic [W_LOAD*T_P*16-1:0] w;
  logic                     half, first, rd_en, rd_bank, wr_a, bank_a, wr_b, bank_b, dr_en, dr_bank;
  logic [1:0]               row_sel, pick_odd, pick_even;
  logic [AW-1:0]            rd_row, row_a, row_b, dr_row;
  level #(.WIDTH(2 * T_P * 16)) u_operands (.clk_i, .d_i(a_i), .q_o(a));
  level #(.WIDTH(2 * T_P)) u_swaps (.clk_i, .d_i(swap_i), .q_o(swap));
  level #(.WIDTH(LOADS + W_LOAD * T_P * 16)) u_weights (.clk_i, .d_i({load_i, w_i}), .q_o({load, w}));
  level #(.WIDTH(TOKENS)) u_tokens (
    .clk_i,
    .d_i({half_i, rd_i, head_i, wr_a_i, wr_b_i, dr_i}),
    .q_o({half, rd_en, rd_bank, rd_row, first, row_sel, pick_odd, pick_even, wr_a, bank_a, row_a, wr_b, bank_b, row_b,
          dr_en, dr_bank, dr_row})
  );

  for (genvar c = 0; c < N; c += 2) begin : gen_pair
    logic [ACC-1:0] odd_acc, even_tail;
    logic           unused_pair;
    assign unused_pair = ^{odd_acc, even_tail};

    for (genvar o = 0; o < 2; o++) begin : gen_pe
      localparam int unsigned P = c + o;
      logic [ACC-1:0]   acc_a, acc_b, head0, head1, tail0, tail1;
      logic [2*ACC-1:0] both_a, both_b;
      logic             unused;
      assign unused = ^{acc_a, both_a, both_b};
      logic [FH*16-1:0] w0;
      logic [CH*16-1:0] w1;
      assign {w1, w0} = w[((SLOT+P)%W_LOAD)*T_P*16+:T_P*16];

      if (o == 0) begin : gen_even
        assign even_tail = tail1;
      end else begin : gen_odd
        // from the four words, not from the selected one: one level less before the even head
        assign odd_acc = row_sel[1] ? both_b[(row_sel[0] ? ACC : 0)+:ACC]
                                    : both_a[(row_sel[0] ? ACC : 0)+:ACC];
      end
      if (STACK) begin : gen_stack
        logic [1:0]     pick;
        logic [ACC-1:0] upper, other;
        assign pick = (o == 0) ? pick_even : pick_odd;
        assign upper = first ? '0 : acc_b;
        assign other = (o == 0) ? odd_acc : even_tail;
        assign head0 = pick[1] ? (pick[0] ? other : upper) : both_a[(pick[0] ? ACC : 0)+:ACC];
        assign head1 = half ? upper : tail0;
      end else begin : gen_whole
        assign head0 = first ? '0 : (row_sel[1] ? acc_b : acc_a);
        assign head1 = tail0;
      end

      mac_chain #(.LEN(FH), .ACC(ACC), .STUB(STUB), .CELLS(CELLS)) u_first (
        .clk_i,
        .a_i   (a[o*T_P*16+:FH*16]),
        .swap_i(swap[o*T_P+:FH]),
        .load_i(load[(SLOT+P)/W_LOAD]),
        .w_i   (w0),
        .c_i   (head0),
        .p_o   (tail0)
      );
      mac_chain #(.LEN(CH), .ACC(ACC), .STUB(STUB), .CELLS(CELLS)) u_second (
        .clk_i,
        .a_i   (a[(o*T_P+FH)*16+:CH*16]),
        .swap_i(swap[o*T_P+FH+:CH]),
        .load_i(load[(SLOT+P)/W_LOAD]),
        .w_i   (w1),
        .c_i   (head1),
        .p_o   (tail1)
      );

      // first half's accumulators: its own tail for k = 1/2, the lower rows of the PE otherwise
      acc_half #(.DEPTH(T_R / 2), .ACC(ACC)) u_acc_a (
        .clk_i,
        .rd_bank_i(rd_bank),
        .rd_en_i  (rd_en),
        .rd_row_i (rd_row),
        .rd_acc_o (acc_a),
        .rd_both_o(both_a),
        .wr_bank_i(bank_a),
        .wr_en_i  (wr_a),
        .wr_row_i (row_a),
        .wr_acc_i (half ? tail0 : tail1),
        .dr_bank_i(dr_bank),
        .dr_en_i  (dr_en),
        .dr_row_i (dr_row),
        .dr_acc_o (dr_acc_o[(2*P)*ACC+:ACC])
      );
      acc_half #(.DEPTH(T_R / 2), .ACC(ACC)) u_acc_b (
        .clk_i,
        .rd_bank_i(rd_bank),
        .rd_en_i  (rd_en),
        .rd_row_i (rd_row),
        .rd_acc_o (acc_b),
        .rd_both_o(both_b),
        .wr_bank_i(bank_b),
        .wr_en_i  (wr_b),
        .wr_row_i (row_b),
        .wr_acc_i (tail1),
        .dr_bank_i(dr_bank),
        .dr_en_i  (dr_en),
        .dr_row_i (dr_row),
        .dr_acc_o (dr_acc_o[(2*P+1)*ACC+:ACC])
      );
    end
  end

  logic unused;
  assign unused = ^{w, half, first, row_sel, pick_even, pick_odd};
endmodule
