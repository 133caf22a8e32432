// What holds of write_ports whatever comes, over ports of which axi_write_props holds (port_write.sv): the stripes of commands follow
// each other and are as long as these; a port is told of each stripe once, with its address; each word that is given leaves
// by the port that its stripe was told to, once and as the stripe's word for that place, each beat with its data and strobes; a flush drops what is inside; idle
// means that no command has words to come, none is inside and each port has its answers. Assumed: a command has words; a flush lasts until
// idle. "Of one, any" is a choice of the solver's.
module write_ports_props #(
  parameter int STRIPE = 4,
  localparam int LANES = 2,
  localparam int WORDS = STRIPE / LANES,
  localparam int ORDER = 4,    // stripes in the order's queue
  localparam int DEPTH = 2,    // words in a port's queue
  localparam int MAX_OUT = 2,  // bursts of a port under way
  localparam int LOW = 4       // bits of a word's address: what is above has the same registers
) (
  input logic clk, flush, cmd_valid, wb_valid, pick, lane_any,
  input logic [1:0] off_any,
  input logic [39:0] cmd_addr,
  input logic [15:0] cmd_words,
  input logic [15:0] wb_data,
  input logic [1:0] wb_strb
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic idle, cmd_ready, wb_ready;
  write_ports #(.N_AXI(2), .AXI_BYTES(1), .LANES(LANES), .MAX_BURST(STRIPE), .STRIPE(STRIPE)) u (
    .clk_i(clk), .rst_ni(begun), .flush_i(flush), .idle_o(idle),
    .cmd_valid_i(cmd_valid), .cmd_ready_o(cmd_ready), .cmd_addr_i(cmd_addr), .cmd_beats_i(cmd_words),
    .wb_valid_i(wb_valid), .wb_ready_o(wb_ready), .wb_data_i(wb_data), .wb_strb_i(wb_strb)
  );
  (* hierconn *) wire \u.gen_striped.grant , \u.gen_striped.o_port , \u.gen_striped.order_valid , \u.gen_striped.ask ;
  (* hierconn *) wire [1:0] \u.gen_striped.sel , \u.gen_striped.len , \u.gen_striped.o_len , \u.gen_striped.done_q ;
  (* hierconn *) wire [7:0] \u.gen_striped.owed_q ;
  (* hierconn *) wire \u.gen_striped.u_cut.pend_q , \u.gen_striped.u_cut.last_q , \u.gen_striped.u_cut.next_valid_q ;
  (* hierconn *) wire [1:0] \u.gen_striped.u_cut.len_q ;
  (* hierconn *) wire [38:0] \u.gen_striped.u_cut.addr_q , \u.gen_striped.u_cut.next_addr_q ;
  (* hierconn *) wire [15:0] \u.gen_striped.u_cut.words_q , \u.gen_striped.u_cut.next_words_q ;
  (* hierconn *) wire [2:0] \u.gen_striped.u_order.wptr_q , \u.gen_striped.u_order.rptr_q ;
  (* hierconn *) wire [2:0] \u.gen_striped.u_order.mem[0] , \u.gen_striped.u_order.mem[1] , \u.gen_striped.u_order.mem[2] , \u.gen_striped.u_order.mem[3] ;
  (* hierconn *) wire [17:0] \u.gen_striped.gen_port[0].u_queue.mem[0] , \u.gen_striped.gen_port[0].u_queue.mem[1] ,
    \u.gen_striped.gen_port[1].u_queue.mem[0] , \u.gen_striped.gen_port[1].u_queue.mem[1] ;
  (* hierconn *) wire [1:0] \u.gen_striped.gen_port[0].u_queue.wptr_q , \u.gen_striped.gen_port[1].u_queue.wptr_q ,
    \u.gen_striped.gen_port[0].u_queue.rptr_q , \u.gen_striped.gen_port[1].u_queue.rptr_q ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].lane_q , \u.gen_striped.gen_port[1].lane_q ;
  (* hierconn *) wire [7:0] \u.gen_striped.gen_port[0].u_port.lacks , \u.gen_striped.gen_port[1].u_port.lacks ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.owes , \u.gen_striped.gen_port[1].u_port.owes ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.cmd , \u.gen_striped.gen_port[1].u_port.cmd ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.beat , \u.gen_striped.gen_port[1].u_port.beat ;
  (* hierconn *) wire [39:0] \u.gen_striped.gen_port[0].u_port.cmd_addr_i , \u.gen_striped.gen_port[1].u_port.cmd_addr_i ;
  (* hierconn *) wire [15:0] \u.gen_striped.gen_port[0].u_port.cmd_beats_i , \u.gen_striped.gen_port[1].u_port.cmd_beats_i ;
  (* hierconn *) wire [7:0] \u.gen_striped.gen_port[0].u_port.wb_data_i , \u.gen_striped.gen_port[1].u_port.wb_data_i ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.wb_strb_i , \u.gen_striped.gen_port[1].u_port.wb_strb_i ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.wb_valid_i , \u.gen_striped.gen_port[1].u_port.wb_valid_i ;

  // ---- the commands, of the first what is left (as in stripe_cut_props), and the words of stripes that are to come
  logic lane, grant, put, pop, given, p_now;
  logic [1:0] n, len;
  logic [LOW-1:0] addr1, addr2;
  logic [15:0] words1, words2, stripe, whole;
  logic [4:0] due;
  assign grant = \u.gen_striped.grant ;
  assign len = \u.gen_striped.len ;
  assign put = cmd_valid && cmd_ready;
  assign given = wb_valid && wb_ready;
  assign stripe = 16'(WORDS) - (16'(addr1) & 16'(WORDS - 1));  // words to its end
  assign whole = (words1 < stripe) ? words1 : stripe;
  assign pop = grant && words1 == whole;
  assign p_now = \u.gen_striped.gen_port[1].u_port.cmd ;
  always_ff @(posedge clk) begin
    if (!begun) lane <= lane_any;
    n <= (begun && !flush) ? n + 2'(put) - 2'(pop) : '0;
    if (grant) {addr1, words1} <= {addr1 + LOW'(whole), words1 - whole};
    if (pop) {addr1, words1} <= {addr2, words2};
    if (put && n == 2'(pop)) {addr1, words1} <= {cmd_addr[1+:LOW], cmd_words};
    if (put && n == 2'(pop) + 2'd1) {addr2, words2} <= {cmd_addr[1+:LOW], cmd_words};
    due <= (begun && !flush) ? due + (grant ? 5'(whole) : '0) - 5'(given) : '0;
  end

  // ---- of one word, any, of a stripe, and one lane: what is given, what comes before it
  logic mine, port, mark, strobe, have;
  logic [1:0] off, mine_len, at;
  logic [4:0] ahead;   // words to be given before it
  logic [7:0] beats;   // beats that its port takes before it
  logic [7:0] lacks[2], out[2];
  logic [1:0] beat, strb;
  assign lacks[0] = \u.gen_striped.gen_port[0].u_port.lacks ;
  assign lacks[1] = \u.gen_striped.gen_port[1].u_port.lacks ;
  assign out[0] = \u.gen_striped.gen_port[0].u_port.wb_data_i ;
  assign out[1] = \u.gen_striped.gen_port[1].u_port.wb_data_i ;
  assign strb = {\u.gen_striped.gen_port[1].u_port.wb_strb_i , \u.gen_striped.gen_port[0].u_port.wb_strb_i };
  assign beat = {\u.gen_striped.gen_port[1].u_port.beat , \u.gen_striped.gen_port[0].u_port.beat };
  logic [2:0] wptr, rptr;
  assign wptr = \u.gen_striped.u_order.wptr_q ;
  assign rptr = \u.gen_striped.u_order.rptr_q ;
  always_ff @(posedge clk) begin
    if (mine) begin
      if (given && !have) ahead <= ahead - 5'd1;
      if (given && ahead == '0 && !have) {have, mark, strobe} <= {1'b1, lane ? {wb_data[8], wb_strb[1]} : {wb_data[0], wb_strb[0]}};
      if (beat[port]) {mine, beats} <= {beats != '0, beats - 8'd1};
    end else begin
      mine <= grant && pick;
      have <= 1'b0;
      ahead <= due - 5'(given) + 5'(off_any);
      beats <= lacks[p_now] - 8'(beat[p_now]) + 8'({off_any, lane});
      {port, off, mine_len, at} <= {p_now, off_any, len, wptr[1:0]};
    end
    if (!begun || flush) mine <= 1'b0;
  end
  always_comb if (!mine && pick) assume (off_any < len);

  // ---- what makes an invariant: counts of the unit are those that its queues' contents say
  logic [2:0] entry[ORDER];
  logic [2:0] used;
  logic [1:0] place, count[2], wp[2], rp[2], room_right, len_right;
  logic [5:0] left, sum[2], sum_all, before, before_all;
  logic [3:0] owed[2];
  logic lane_q[2];
  logic entries_right, cut_right;
  logic [1:0] done;
  logic [17:0] slot[4], stored;
  logic [7:0] first;
  assign done = \u.gen_striped.done_q ;
  assign owed[0] = \u.gen_striped.owed_q [3:0];
  assign owed[1] = \u.gen_striped.owed_q [7:4];
  assign wp[0] = \u.gen_striped.gen_port[0].u_queue.wptr_q ;
  assign wp[1] = \u.gen_striped.gen_port[1].u_queue.wptr_q ;
  assign rp[0] = \u.gen_striped.gen_port[0].u_queue.rptr_q ;
  assign rp[1] = \u.gen_striped.gen_port[1].u_queue.rptr_q ;
  assign lane_q[0] = \u.gen_striped.gen_port[0].lane_q ;
  assign lane_q[1] = \u.gen_striped.gen_port[1].lane_q ;
  assign entry[0] = \u.gen_striped.u_order.mem[0] ;
  assign entry[1] = \u.gen_striped.u_order.mem[1] ;
  assign entry[2] = \u.gen_striped.u_order.mem[2] ;
  assign entry[3] = \u.gen_striped.u_order.mem[3] ;
  assign slot[0] = \u.gen_striped.gen_port[0].u_queue.mem[0] ;
  assign slot[1] = \u.gen_striped.gen_port[0].u_queue.mem[1] ;
  assign slot[2] = \u.gen_striped.gen_port[1].u_queue.mem[0] ;
  assign slot[3] = \u.gen_striped.gen_port[1].u_queue.mem[1] ;
  assign used = wptr - rptr;
  always_comb begin
    entries_right = used <= 3'(ORDER) && (used != '0 ? done < entry[rptr[1:0]][1:0] : done == '0);
    sum[0] = '0;
    sum[1] = '0;
    sum_all = '0;
    before = '0;
    before_all = '0;
    place = '0;
    left = '0;
    for (int i = 0; i < ORDER; i++) begin
      place = 2'(i) - rptr[1:0];  // stripes before it in the queue; of the first, some words are done
      if (3'(place) < used) begin
        if (entry[i][1:0] == '0 || entry[i][1:0] > 2'(WORDS)) entries_right = 1'b0;
        left = 6'(entry[i][1:0]) - (place == '0 ? 6'(done) : '0);
        if (entry[i][2]) sum[1] = sum[1] + left;
        else sum[0] = sum[0] + left;
        sum_all = sum_all + left;
        if (place < 2'(at - rptr[1:0])) begin
          if (entry[i][2] == port) before = before + left;
          before_all = before_all + left;
        end
      end
    end
    for (int p = 0; p < 2; p++) begin
      count[p] = wp[p] - rp[p];
      room_right[p] = count[p] <= 2'(DEPTH) && 6'(owed[p]) == sum[p] + 6'(count[p]) && 8'(owed[p]) << 1 == lacks[p] + 8'(lane_q[p])
                      && (!lane_q[p] || count[p] != '0) && (\u.gen_striped.gen_port[0].u_port.owes || lacks[0] == '0)
                      && (\u.gen_striped.gen_port[1].u_port.owes || lacks[1] == '0) && lacks[p] <= 8'((MAX_OUT + 1) * STRIPE);
    end
    cut_right = \u.gen_striped.u_cut.pend_q ? n != '0 && words1 != '0 && {addr1, words1} == {\u.gen_striped.u_cut.addr_q [LOW-1:0], \u.gen_striped.u_cut.words_q }
                 && 16'(\u.gen_striped.u_cut.len_q ) == whole && \u.gen_striped.u_cut.last_q == (words1 == whole)
                 && (!\u.gen_striped.u_cut.next_valid_q
                     || words2 != '0 && {addr2, words2} == {\u.gen_striped.u_cut.next_addr_q [LOW-1:0], \u.gen_striped.u_cut.next_words_q })
               : !\u.gen_striped.u_cut.next_valid_q ;
    // where it is: beats of its port's queue before it
    stored = slot[{port, rp[port][0] + beats[1] + (beats[0] && lane_q[port])}];
    first = 8'(beats + 8'(lane_q[port]));
    if (begun) begin
      i_order: assert (entries_right);
      i_room: assert (&room_right);
      i_cut: assert (cut_right && n == 2'(\u.gen_striped.u_cut.pend_q ) + 2'(\u.gen_striped.u_cut.next_valid_q ));
      i_due: assert (6'(due) == sum_all);
      if (mine) begin
        i_lane: assert (off < mine_len && beats < lacks[port] && first[0] == lane);
        if (!have) begin
          i_place: assert (3'(2'(at - rptr[1:0])) < used && entry[at] == {port, mine_len} && (at != rptr[1:0] || done <= off));
          i_ahead: assert (6'(ahead) == before_all + 6'(off) - (at == rptr[1:0] ? 6'(done) : '0));
          i_words: assert (8'(first[7:1]) == 8'(count[port]) + before + 6'(off) - (at == rptr[1:0] ? 6'(done) : '0));
        end else begin
          i_stored: assert (first[7:1] < 7'(count[port]) && {mark, strobe} == (lane ? {stored[8], stored[17]} : {stored[0], stored[16]}));
        end
      end
    end
  end

  always_comb begin
    if (!begun) assume (!flush);
    if (cmd_valid) assume (cmd_words != '0);
    if (begun) begin
      if (put) a_whole: assert (n < 2'd2);
      if (given) a_due: assert (due != '0);
      a_told: assert ({\u.gen_striped.gen_port[1].u_port.cmd , \u.gen_striped.gen_port[0].u_port.cmd } == (grant ? 2'd1 << p_now : '0));
      if (grant) begin
        a_stripe: assert (n != '0 && (p_now ? \u.gen_striped.gen_port[1].u_port.cmd_addr_i [LOW:0] == {addr1, 1'b0}
                                              && \u.gen_striped.gen_port[1].u_port.cmd_beats_i == whole << 1
                                            : \u.gen_striped.gen_port[0].u_port.cmd_addr_i [LOW:0] == {addr1, 1'b0}
                                              && \u.gen_striped.gen_port[0].u_port.cmd_beats_i == whole << 1));
      end
      if (mine && beat[port] && beats == '0) a_word: assert (have && {out[port][0], strb[port]} == {mark, strobe});
      if (idle) a_idle: assert (n == '0 && due == '0 && lacks[0] == '0 && lacks[1] == '0 && !\u.gen_striped.gen_port[0].u_port.owes
                                && !\u.gen_striped.gen_port[1].u_port.owes );
    end
  end
  always_ff @(posedge clk) if (begun && $past(begun)) begin
    if ($past(flush && !idle)) assume (flush);
    if ($past(flush)) a_quiet: assert (!\u.gen_striped.gen_port[0].u_port.wb_valid_i && !\u.gen_striped.gen_port[1].u_port.wb_valid_i );
  end
endmodule
