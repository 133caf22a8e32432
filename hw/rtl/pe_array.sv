// The array: T_C processing elements, each a chain of T_P MACs over one input vector that goes to
// all of them, with its accumulators.
//
// Rows: valid_i with x_i (T_P lanes), row_i, bank_i, first_i (accumulate from zero) and swap_i (this
// row begins a pass: the shadow weights become the weights). One row a cycle, no stall.
// Weights: load_i writes the shadow weights of PEs group_i * W_LOAD .. + W_LOAD - 1.
// A row may use an accumulator again DEPTH cycles after its last use; shadow weights may be loaded
// again T_P cycles after swap_i. last_i travels with the row; done_o says that row is accumulated.
module pe_array #(
  parameter int unsigned T_R    = 256,
  parameter int unsigned T_P    = 8,
  parameter int unsigned T_C    = 32,
  parameter int unsigned W_LOAD = 2,
  parameter bit          STUB   = 1'b0,
  localparam int unsigned ACC = abi_pkg::ACC_BITS,
  localparam int unsigned RW = $clog2(T_R),
  localparam int unsigned GROUPS = (T_C + W_LOAD - 1) / W_LOAD,
  localparam int unsigned GW = (GROUPS > 1) ? $clog2(GROUPS) : 1
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic                     valid_i,
  input  logic [T_P*16-1:0]        x_i,
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
  input  logic [RW-1:0]            dr_row_i,
  output logic [T_C*ACC-1:0]       dr_acc_o
);
  // Stage 0 registers the row; lane j then waits j cycles more.
  localparam int unsigned TAIL = T_P + 1;  // from stage 0 to the chain's tail

  logic                valid_q[TAIL+1];
  logic                last_q[TAIL+1];
  logic                bank_q[TAIL+1];
  logic [RW-1:0]       row_q[TAIL+1];
  logic                first_q[2];
  logic [T_P*16-1:0]   lane;
  logic [T_P-1:0]      swap;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i <= TAIL; i++) begin
        valid_q[i] <= 1'b0;
        last_q[i] <= 1'b0;
      end
    end else begin
      valid_q[0] <= valid_i;
      last_q[0] <= valid_i && last_i;
      for (int unsigned i = 1; i <= TAIL; i++) begin
        valid_q[i] <= valid_q[i-1];
        last_q[i] <= last_q[i-1];
      end
    end
    bank_q[0] <= bank_i;
    row_q[0] <= row_i;
    for (int unsigned i = 1; i <= TAIL; i++) begin
      bank_q[i] <= bank_q[i-1];
      row_q[i] <= row_q[i-1];
    end
    first_q[0] <= first_i;
    first_q[1] <= first_q[0];
  end

  // Skew: lane j delays its operand by j cycles behind stage 0, and its swap likewise.
  for (genvar j = 0; j < T_P; j++) begin : gen_skew
    logic [15:0] x_q[j+1];
    logic        swap_q[j+1];
    always_ff @(posedge clk_i) begin
      x_q[0] <= x_i[j*16+:16];
      for (int unsigned i = 1; i <= j; i++) x_q[i] <= x_q[i-1];
      if (!rst_ni) begin
        for (int unsigned i = 0; i <= j; i++) swap_q[i] <= 1'b0;
      end else begin
        swap_q[0] <= valid_i && swap_i;
        for (int unsigned i = 1; i <= j; i++) swap_q[i] <= swap_q[i-1];
      end
    end
    assign lane[j*16+:16] = x_q[j];
    if (j == 0) begin : gen_first
      assign swap[0] = valid_i && swap_i;
    end else begin : gen_rest
      assign swap[j] = swap_q[(j == 0) ? 0 : j-1];
    end
    logic unused_last;
    assign unused_last = swap_q[j];
  end

  for (genvar c = 0; c < T_C; c++) begin : gen_pe
    logic [ACC-1:0] head, acc, tail;
    logic           load;
    assign load = load_i && (group_i == GW'(c / W_LOAD));
    assign head = first_q[1] ? '0 : acc;

    mac_chain #(.LEN(T_P), .ACC(ACC), .STUB(STUB)) u_chain (
      .clk_i,
      .a_i   (lane),
      .swap_i(swap),
      .load_i(load),
      .w_i   (w_i[(c%W_LOAD)*T_P*16+:T_P*16]),
      .c_i   (head),
      .p_o   (tail)
    );

    acc_bank #(.T_R(T_R), .ACC(ACC)) u_acc (
      .clk_i,
      .rd_bank_i(bank_q[0]),
      .rd_en_i  (valid_q[0]),
      .rd_row_i (row_q[0]),
      .rd_acc_o (acc),
      .wr_bank_i(bank_q[TAIL]),
      .wr_en_i  (valid_q[TAIL]),
      .wr_row_i (row_q[TAIL]),
      .wr_acc_i (tail),
      .dr_bank_i(dr_bank_i),
      .dr_en_i  (dr_en_i),
      .dr_row_i (dr_row_i),
      .dr_acc_o (dr_acc_o[c*ACC+:ACC])
    );
  end

  assign done_o = last_q[TAIL];
endmodule
