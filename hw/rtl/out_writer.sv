// Packs words into beats for runs that begin at any word of a beat. Strobes mark the words of the
// run, so neighbouring words in a shared beat are unchanged. A run's command is sent to the port
// when the run is taken; aligned runs follow each other without a bubble.
module out_writer #(
  parameter int unsigned IN_WORDS  = 8,
  parameter int unsigned AXI_BYTES = 8,
  localparam int unsigned AW = abi_pkg::ADDR_BITS,
  localparam int unsigned WPB = AXI_BYTES / 2,
  localparam int unsigned OW = $clog2(WPB),
  localparam int unsigned CW = $clog2(IN_WORDS + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   run_valid_i,
  output logic                   run_ready_o,
  input  logic [AW-1:0]          run_addr_i,
  input  logic [23:0]            run_elems_i,
  input  logic                   valid_i,
  output logic                   ready_o,
  input  logic [IN_WORDS*16-1:0] data_i,
  input  logic [CW-1:0]          cnt_i,
  output logic                   cmd_valid_o,
  input  logic                   cmd_ready_i,
  output logic [AW-1:0]          cmd_addr_o,
  output logic [15:0]            cmd_beats_o,
  output logic                   wb_valid_o,
  input  logic                   wb_ready_i,
  output logic [AXI_BYTES*8-1:0] wb_data_o,
  output logic [AXI_BYTES-1:0]   wb_strb_o,
  output logic                   idle_o
);
  // each word has a bit that marks it as valid; the head and tail of a run are filled with invalid
  // ones
  localparam int unsigned PUSH = (IN_WORDS > WPB) ? IN_WORDS : WPB;
  localparam int unsigned GW = $clog2(2 * PUSH + WPB + 1);

  typedef enum logic [1:0] {StIdle, StHead, StBody, StTail} state_e;
  state_e state_q;
  logic [OW-1:0] head_q, tail_q, head, tail;
  logic [23:0]   left_q;
  logic          gear_ready, push, pop, body_end, take, free_now;
  logic [GW-1:0] push_cnt, fill;
  logic [PUSH*17-1:0] words;
  logic [WPB*17-1:0]  beat;
  logic [23:0]   total;

  assign head = run_addr_i[OW:1];
  assign total = run_elems_i + 24'(head);
  assign tail = OW'(24'd0 - total);             // words to the end of the last beat

  assign body_end = state_q == StBody && valid_i && gear_ready && left_q == 24'(cnt_i);
  assign free_now = state_q == StIdle || (body_end && tail_q == '0)
                    || (state_q == StTail && gear_ready);
  assign take = run_valid_i && free_now && cmd_ready_i;
  assign run_ready_o = free_now && cmd_ready_i;
  assign cmd_valid_o = run_valid_i && free_now;
  assign cmd_addr_o = {run_addr_i[AW-1:OW+1], {(OW + 1) {1'b0}}};
  assign cmd_beats_o = 16'((total + 24'(WPB - 1)) >> OW);
  assign ready_o = state_q == StBody && gear_ready;

  always_comb begin
    words = '0;
    for (int unsigned i = 0; i < IN_WORDS; i++) words[i*17+:17] = {state_q == StBody, data_i[i*16+:16]};
    push = 1'b0;
    push_cnt = '0;
    unique case (state_q)
      StHead: begin
        push = 1'b1;
        push_cnt = GW'(head_q);
      end
      StBody: begin
        push = valid_i;
        push_cnt = GW'(cnt_i);
      end
      StTail: begin
        push = 1'b1;
        push_cnt = GW'(tail_q);
      end
      default: ;
    endcase
  end

  gearbox #(.IN_WORDS(PUSH), .OUT_WORDS(WPB), .W(17), .OUT_UNIT(WPB)) u_gear (
    .clk_i,
    .rst_ni,
    .push_i    (push),
    .push_cnt_i(push_cnt),
    .data_i    (words),
    .skip_i    ('0),
    .ready_o   (gear_ready),
    .pop_i     (pop),
    .pop_cnt_i (GW'(WPB)),
    .data_o    (beat),
    .fill_o    (fill)
  );
  assign wb_valid_o = fill >= GW'(WPB);
  assign pop = wb_valid_o && wb_ready_i;
  for (genvar i = 0; i < WPB; i++) begin : gen_beat
    assign wb_data_o[i*16+:16] = beat[i*17+:16];
    assign wb_strb_o[i*2+:2] = {2{beat[i*17+16]}};
  end
  assign idle_o = state_q == StIdle && fill == '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StHead: if (gear_ready) state_q <= StBody;
        StBody: begin
          if (valid_i && gear_ready) left_q <= left_q - 24'(cnt_i);
          if (body_end) state_q <= (tail_q == '0) ? StIdle : StTail;
        end
        StTail: if (gear_ready) state_q <= StIdle;
        default: ;
      endcase
      if (take) begin
        state_q <= (head == '0) ? StBody : StHead;
        head_q <= head;
        tail_q <= tail;
        left_q <= run_elems_i;
      end
    end
  end

  logic unused;
  assign unused = run_addr_i[0];
endmodule
