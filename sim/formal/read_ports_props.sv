// What holds of read_ports whatever comes, over ports of which axi_read_props holds (port_read.sv): the stripes of a client's
// requests follow each other and are as long as these; no port is asked across a stripe's end; each word of a stripe comes
// to its client, once, in the order of its client's requests, each beat in its lane from the address that was asked for, the last word of
// a request marked; nothing comes that is not due, nor after a flush's first cycle; idle means that nothing is due. Assumed: a
// request has words; a flush lasts until idle. "Of one, any" is a choice of the solver's.
module read_ports_props #(
  parameter int STRIPE = 4,
  localparam int N = 2,
  localparam int LANES = 2,
  localparam int WORDS = STRIPE / LANES,
  localparam int ORDER = 4,  // stripes in the order's queue
  localparam int DEPTH = 4,  // words in a port's queue
  localparam int LOW = 4     // bits of a word's address: what is above has the same registers
) (
  input logic clk, flush, pick, lane_any,
  input logic any,
  input logic [1:0] off_any,
  input logic [LOW:0] beat_any,
  input logic [N-1:0] req_valid,
  input logic [N*40-1:0] req_addr,
  input logic [N*16-1:0] req_words,
  input logic [N*2-1:0] level
);
  logic begun;  // the reset comes first and once
  initial begun = 1'b0;
  always_ff @(posedge clk) begun <= 1'b1;

  logic idle, last;
  logic [N-1:0] req_ready, rsp;
  logic [15:0] data;
  read_ports #(.N(N), .N_AXI(2), .AXI_BYTES(1), .LANES(LANES), .MAX_BURST(STRIPE), .STRIPE(STRIPE)) u (
    .clk_i(clk), .rst_ni(begun), .flush_i(flush), .idle_o(idle),
    .req_valid_i(req_valid), .req_ready_o(req_ready), .req_addr_i(req_addr), .req_beats_i(req_words), .level_i(level),
    .rsp_valid_o(rsp), .rsp_data_o(data), .rsp_last_o(last)
  );
  (* hierconn *) wire \u.gen_striped.grant ;
  (* hierconn *) wire [1:0] \u.gen_striped.one_q , \u.gen_striped.p_sel_q , \u.gen_striped.take_q , \u.gen_striped.ample_q ;
  (* hierconn *) wire [38:0] \u.gen_striped.cur_addr ;
  (* hierconn *) wire [1:0] \u.gen_striped.len , \u.gen_striped.o_len_q , \u.gen_striped.done_q ;
  (* hierconn *) wire \u.gen_striped.last , \u.gen_striped.oldest_q , \u.gen_striped.o_client_q , \u.gen_striped.o_port_q , \u.gen_striped.o_last_q ;
  (* hierconn *) wire [5:0] \u.gen_striped.room_q ;
  (* hierconn *) wire \u.gen_striped.gen_cut[0].u_cut.pend_q , \u.gen_striped.gen_cut[1].u_cut.pend_q ;
  (* hierconn *) wire \u.gen_striped.gen_cut[0].u_cut.last_q , \u.gen_striped.gen_cut[1].u_cut.last_q ;
  (* hierconn *) wire \u.gen_striped.gen_cut[0].u_cut.next_valid_q , \u.gen_striped.gen_cut[1].u_cut.next_valid_q ;
  (* hierconn *) wire [1:0] \u.gen_striped.gen_cut[0].u_cut.len_q , \u.gen_striped.gen_cut[1].u_cut.len_q ;
  (* hierconn *) wire [38:0] \u.gen_striped.gen_cut[0].u_cut.addr_q , \u.gen_striped.gen_cut[1].u_cut.addr_q ;
  (* hierconn *) wire [38:0] \u.gen_striped.gen_cut[0].u_cut.next_addr_q , \u.gen_striped.gen_cut[1].u_cut.next_addr_q ;
  (* hierconn *) wire [15:0] \u.gen_striped.gen_cut[0].u_cut.words_q , \u.gen_striped.gen_cut[1].u_cut.words_q ;
  (* hierconn *) wire [15:0] \u.gen_striped.gen_cut[0].u_cut.next_words_q , \u.gen_striped.gen_cut[1].u_cut.next_words_q ;
  (* hierconn *) wire [2:0] \u.gen_striped.u_order.wptr_q , \u.gen_striped.u_order.rptr_q ;
  (* hierconn *) wire [4:0] \u.gen_striped.u_order.mem[0] , \u.gen_striped.u_order.mem[1] , \u.gen_striped.u_order.mem[2] , \u.gen_striped.u_order.mem[3] ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].lane_q , \u.gen_striped.gen_port[1].lane_q ;
  (* hierconn *) wire [2:0] \u.gen_striped.gen_port[0].wptr_q , \u.gen_striped.gen_port[1].wptr_q ;
  (* hierconn *) wire [2:0] \u.gen_striped.gen_port[0].rptr_q , \u.gen_striped.gen_port[1].rptr_q ;
  (* hierconn *) wire [7:0] \u.gen_striped.gen_port[0].gen_lane[0].mem[0] , \u.gen_striped.gen_port[0].gen_lane[0].mem[1] ,
    \u.gen_striped.gen_port[0].gen_lane[0].mem[2] , \u.gen_striped.gen_port[0].gen_lane[0].mem[3] ,
    \u.gen_striped.gen_port[0].gen_lane[1].mem[0] , \u.gen_striped.gen_port[0].gen_lane[1].mem[1] ,
    \u.gen_striped.gen_port[0].gen_lane[1].mem[2] , \u.gen_striped.gen_port[0].gen_lane[1].mem[3] ,
    \u.gen_striped.gen_port[1].gen_lane[0].mem[0] , \u.gen_striped.gen_port[1].gen_lane[0].mem[1] ,
    \u.gen_striped.gen_port[1].gen_lane[0].mem[2] , \u.gen_striped.gen_port[1].gen_lane[0].mem[3] ,
    \u.gen_striped.gen_port[1].gen_lane[1].mem[0] , \u.gen_striped.gen_port[1].gen_lane[1].mem[1] ,
    \u.gen_striped.gen_port[1].gen_lane[1].mem[2] , \u.gen_striped.gen_port[1].gen_lane[1].mem[3] ;
  (* hierconn *) wire [7:0] \u.gen_striped.gen_port[0].u_port.owes , \u.gen_striped.gen_port[1].u_port.owes ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.rsp_valid_o , \u.gen_striped.gen_port[1].u_port.rsp_valid_o ;
  (* hierconn *) wire [7:0] \u.gen_striped.gen_port[0].u_port.data , \u.gen_striped.gen_port[1].u_port.data ;
  (* hierconn *) wire [39:0] \u.gen_striped.gen_port[0].u_port.req_addr_i , \u.gen_striped.gen_port[1].u_port.req_addr_i ;
  (* hierconn *) wire [15:0] \u.gen_striped.gen_port[0].u_port.req_beats_i , \u.gen_striped.gen_port[1].u_port.req_beats_i ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.req_valid_i , \u.gen_striped.gen_port[1].u_port.req_valid_i ;
  (* hierconn *) wire \u.gen_striped.gen_port[0].u_port.req_ready_o , \u.gen_striped.gen_port[1].u_port.req_ready_o ;

  // ---- of one client, any: its requests, of the first what is left (as in stripe_cut_props), and its words that are due
  logic who, lane, grant, whose, put, pop;
  logic [1:0] n, len;
  logic [LOW-1:0] addr1, addr2, addr_in;
  logic [15:0] words1, words2, words_in, stripe;
  logic [4:0] due;
  assign grant = \u.gen_striped.grant ;
  assign len = \u.gen_striped.len ;
  assign whose = grant && \u.gen_striped.one_q [who];
  assign addr_in = who ? req_addr[41+:LOW] : req_addr[1+:LOW];
  assign words_in = who ? req_words[31:16] : req_words[15:0];
  assign put = req_valid[who] && req_ready[who];
  assign pop = whose && \u.gen_striped.last ;
  assign stripe = 16'(WORDS) - (16'(addr1) & 16'(WORDS - 1));  // words to its end
  always_ff @(posedge clk) begin
    if (!begun) {who, lane} <= {any, lane_any};
    n <= (begun && !flush) ? n + 2'(put) - 2'(pop) : '0;
    if (whose) {addr1, words1} <= {addr1 + LOW'(len), words1 - 16'(len)};
    if (pop) {addr1, words1} <= {addr2, words2};
    if (put && n == 2'(pop)) {addr1, words1} <= {addr_in, words_in};
    if (put && n == 2'(pop) + 2'd1) {addr2, words2} <= {addr_in, words_in};
    due <= (begun && !flush) ? due + (whose ? 5'(len) : '0) - 5'(rsp[who]) : '0;
  end

  // ---- of one word, any, of a stripe of that client, and one lane: where it is from, and what comes before it
  logic mine, port, mark, told, first, marked, asked;
  logic [LOW:0] beat, want_beat;   // of one address, any: whether a beat is from there is what the ports tell
  logic [1:0] off, mine_len;
  logic mine_last, end_last;
  logic [1:0] at;                  // its stripe in the order's queue
  logic in_old, out;               // its stripe is the oldest; it has been taken
  logic [4:0] ahead;               // words of the client before it
  logic [3:0] words;               // words of the port before it
  logic [7:0] beats;               // beats that the port owes before it
  logic [LOW:0] port_beat;
  logic p_now;
  assign p_now = \u.gen_striped.p_sel_q [1];
  assign port_beat = (p_now ? \u.gen_striped.gen_port[1].u_port.req_addr_i [LOW:0] : \u.gen_striped.gen_port[0].u_port.req_addr_i [LOW:0])
                     + {LOW'(off_any), lane};
  logic [7:0] owes[2], in[2];
  logic given[2];
  assign owes[0] = \u.gen_striped.gen_port[0].u_port.owes ;
  assign owes[1] = \u.gen_striped.gen_port[1].u_port.owes ;
  assign in[0] = \u.gen_striped.gen_port[0].u_port.data ;
  assign in[1] = \u.gen_striped.gen_port[1].u_port.data ;
  assign given[0] = \u.gen_striped.gen_port[0].u_port.rsp_valid_o ;
  assign given[1] = \u.gen_striped.gen_port[1].u_port.rsp_valid_o ;
  logic take;
  assign take = \u.gen_striped.take_q != '0;
  logic pop_order;                 // the head of the order's queue becomes the oldest
  logic [2:0] wptr, rptr;
  assign wptr = \u.gen_striped.u_order.wptr_q ;
  assign rptr = \u.gen_striped.u_order.rptr_q ;
  assign pop_order = wptr != rptr && (!\u.gen_striped.oldest_q || (take && \u.gen_striped.done_q + 1'b1 == \u.gen_striped.o_len_q ));
  always_ff @(posedge clk) begin
    if (!begun) beat <= beat_any;
    if (mine) begin
      if (rsp[who]) ahead <= ahead - 5'd1;
      if (out) mine <= 1'b0;
      if (pop_order && rptr[1:0] == at && !in_old) in_old <= 1'b1;
      if (in_old && take && \u.gen_striped.done_q == off) out <= 1'b1;
      if (\u.gen_striped.take_q [port]) words <= words - 4'd1;
      if (given[port]) {told, beats} <= {told || beats == '0, beats - 8'd1};
    end else begin
      mine <= whose && pick;
      ahead <= due - 5'(rsp[who]) + 5'(off_any);
      {port, off, mine_len, mine_last, at} <= {p_now, off_any, len, \u.gen_striped.last , wptr[1:0]};
      {in_old, out, told} <= '0;
      words <= (p_now ? 4'(DEPTH) - 4'(\u.gen_striped.room_q [5:3]) : 4'(DEPTH) - 4'(\u.gen_striped.room_q [2:0])) - 4'(\u.gen_striped.take_q [p_now]) + 4'(off_any);
      beats <= owes[p_now] - 8'(given[p_now]) + 8'({off_any, lane});
      mark <= {addr1 + LOW'(off_any), lane} == beat;
      asked <= port_beat == beat;
      end_last <= words1 == 16'(off_any) + 16'd1;
    end
    if (!begun || flush) mine <= 1'b0;
  end
  always_comb begin
    if (!mine && pick) assume (off_any < len);
    if (mine && !told && given[port] && beats == '0) assume (in[port][0] == asked);
  end

  // ---- what makes an invariant: counts of the unit are those that its queues' contents say
  logic [4:0] entry[ORDER];
  logic [2:0] used;
  logic [2:0] count[2];
  logic [5:0] sum[2], before, sum_who, before_who, here[2], here_who;
  logic [7:0] lanes[2][DEPTH];
  logic entries_right;
  logic [1:0] pend, next_valid, cut_last;
  logic [1:0] cut_len[2];
  logic [LOW-1:0] cut_addr[2], next_addr[2];
  logic [15:0] cut_words[2], next_words[2];
  logic [1:0] cut_right, room_right, owes_right, take_right;
  logic oldest, o_port, o_client, o_last;
  logic [1:0] o_len, done;
  logic [2:0] room[2], wp[2], rp[2];
  logic lane_q[2];
  logic stored;
  logic [1:0] slot;
  assign {oldest, o_port, o_client, o_last} = {\u.gen_striped.oldest_q , \u.gen_striped.o_port_q , \u.gen_striped.o_client_q , \u.gen_striped.o_last_q };
  assign o_len = \u.gen_striped.o_len_q ;
  assign done = \u.gen_striped.done_q ;
  assign room[0] = \u.gen_striped.room_q [2:0];
  assign room[1] = \u.gen_striped.room_q [5:3];
  assign wp[0] = \u.gen_striped.gen_port[0].wptr_q ;
  assign wp[1] = \u.gen_striped.gen_port[1].wptr_q ;
  assign rp[0] = \u.gen_striped.gen_port[0].rptr_q ;
  assign rp[1] = \u.gen_striped.gen_port[1].rptr_q ;
  assign lane_q[0] = \u.gen_striped.gen_port[0].lane_q ;
  assign lane_q[1] = \u.gen_striped.gen_port[1].lane_q ;
  assign pend = {\u.gen_striped.gen_cut[1].u_cut.pend_q , \u.gen_striped.gen_cut[0].u_cut.pend_q };
  assign next_valid = {\u.gen_striped.gen_cut[1].u_cut.next_valid_q , \u.gen_striped.gen_cut[0].u_cut.next_valid_q };
  assign cut_last = {\u.gen_striped.gen_cut[1].u_cut.last_q , \u.gen_striped.gen_cut[0].u_cut.last_q };
  assign cut_len[0] = \u.gen_striped.gen_cut[0].u_cut.len_q ;
  assign cut_len[1] = \u.gen_striped.gen_cut[1].u_cut.len_q ;
  assign cut_addr[0] = \u.gen_striped.gen_cut[0].u_cut.addr_q [LOW-1:0];
  assign cut_addr[1] = \u.gen_striped.gen_cut[1].u_cut.addr_q [LOW-1:0];
  assign next_addr[0] = \u.gen_striped.gen_cut[0].u_cut.next_addr_q [LOW-1:0];
  assign next_addr[1] = \u.gen_striped.gen_cut[1].u_cut.next_addr_q [LOW-1:0];
  assign cut_words[0] = \u.gen_striped.gen_cut[0].u_cut.words_q ;
  assign cut_words[1] = \u.gen_striped.gen_cut[1].u_cut.words_q ;
  assign next_words[0] = \u.gen_striped.gen_cut[0].u_cut.next_words_q ;
  assign next_words[1] = \u.gen_striped.gen_cut[1].u_cut.next_words_q ;
  assign entry[0] = \u.gen_striped.u_order.mem[0] ;
  assign entry[1] = \u.gen_striped.u_order.mem[1] ;
  assign entry[2] = \u.gen_striped.u_order.mem[2] ;
  assign entry[3] = \u.gen_striped.u_order.mem[3] ;
  logic [3:0] bits[4];  // of a port and lane: one bit of each word
  assign bits[0] = {\u.gen_striped.gen_port[0].gen_lane[0].mem[3] [0], \u.gen_striped.gen_port[0].gen_lane[0].mem[2] [0],
                    \u.gen_striped.gen_port[0].gen_lane[0].mem[1] [0], \u.gen_striped.gen_port[0].gen_lane[0].mem[0] [0]};
  assign bits[1] = {\u.gen_striped.gen_port[0].gen_lane[1].mem[3] [0], \u.gen_striped.gen_port[0].gen_lane[1].mem[2] [0],
                    \u.gen_striped.gen_port[0].gen_lane[1].mem[1] [0], \u.gen_striped.gen_port[0].gen_lane[1].mem[0] [0]};
  assign bits[2] = {\u.gen_striped.gen_port[1].gen_lane[0].mem[3] [0], \u.gen_striped.gen_port[1].gen_lane[0].mem[2] [0],
                    \u.gen_striped.gen_port[1].gen_lane[0].mem[1] [0], \u.gen_striped.gen_port[1].gen_lane[0].mem[0] [0]};
  assign bits[3] = {\u.gen_striped.gen_port[1].gen_lane[1].mem[3] [0], \u.gen_striped.gen_port[1].gen_lane[1].mem[2] [0],
                    \u.gen_striped.gen_port[1].gen_lane[1].mem[1] [0], \u.gen_striped.gen_port[1].gen_lane[1].mem[0] [0]};
  assign used = wptr - rptr;
  assign slot = rp[port][1:0] + words[1:0];
  assign stored = bits[{port, lane}][slot];
  logic [1:0] place;
  logic [7:0] arrived, mine_at;
  always_comb begin
    entries_right = used <= 3'(ORDER);
    sum[0] = '0;
    sum[1] = '0;
    sum_who = '0;
    before = '0;
    before_who = '0;
    place = '0;
    for (int i = 0; i < ORDER; i++) begin
      place = 2'(i) - rptr[1:0];  // stripes before it in the queue
      if (3'(place) < used) begin
        if (entry[i][2:1] == '0 || entry[i][2:1] > 2'(WORDS)) entries_right = 1'b0;
        if (entry[i][3]) sum[1] = sum[1] + 6'(entry[i][2:1]);
        else sum[0] = sum[0] + 6'(entry[i][2:1]);
        if (entry[i][4] == who) sum_who = sum_who + 6'(entry[i][2:1]);
        if (place < 2'(at - rptr[1:0])) begin
          if (entry[i][3] == port) before = before + 6'(entry[i][2:1]);
          if (entry[i][4] == who) before_who = before_who + 6'(entry[i][2:1]);
        end
      end
    end
    for (int p = 0; p < 2; p++) begin
      here[p] = (oldest && o_port == 1'(p)) ? 6'(o_len - done) : '0;
      count[p] = wp[p] - rp[p];
      room_right[p] = room[p] <= 3'(DEPTH) && 6'(DEPTH) - 6'(room[p]) == sum[p] + here[p] && \u.gen_striped.ample_q [p] == (room[p] >= 3'(WORDS));
      owes_right[p] = count[p] <= 3'(DEPTH) && {4'd0, 3'(DEPTH) - room[p], 1'b0} == owes[p] + {4'd0, count[p], lane_q[p]} && owes[p] <= 8'(2 * DEPTH);
      take_right[p] = !\u.gen_striped.take_q [p] || (oldest && o_port == 1'(p) && count[p] != '0);
    end
    here_who = (oldest && o_client == who) ? 6'(o_len - done) : '0;
    for (int c = 0; c < 2; c++) begin
      cut_right[c] = pend[c] ? cut_words[c] != '0 && cut_last[c] == (cut_words[c] == 16'(cut_len[c]))
                     && 16'(cut_len[c]) == ((cut_words[c] < 16'(WORDS) - (16'(cut_addr[c]) & 16'(WORDS - 1))) ? cut_words[c]
                                            : 16'(WORDS) - (16'(cut_addr[c]) & 16'(WORDS - 1)))
                     && (!next_valid[c] || next_words[c] != '0) : !next_valid[c];
    end
    arrived = {4'd0, count[port], lane_q[port]};
    mine_at = {3'd0, words, lane};
    if (begun) begin
      i_order: assert (entries_right && (oldest ? o_len != '0 && o_len <= 2'(WORDS) && done < o_len : done == '0 && used <= 3'd1));
      i_turn: assert (^\u.gen_striped.one_q && ^\u.gen_striped.p_sel_q );
      i_room: assert (&room_right);
      i_owes: assert (&owes_right);
      i_take: assert (&take_right);
      i_cut: assert (&cut_right);
      i_who: assert (n == 2'(pend[who]) + 2'(next_valid[who])
                     && (!pend[who] || {addr1, words1} == {cut_addr[who], cut_words[who]})
                     && (!next_valid[who] || {addr2, words2} == {next_addr[who], next_words[who]}));
      i_due: assert (6'(due) == sum_who + here_who + 6'(rsp[who]));
      if (mine) begin
        i_same: assert (asked == mark && off < mine_len && end_last == (mine_last && off + 2'd1 == mine_len));
        if (!out) begin
          i_place: assert (in_old ? {o_client, o_port, o_len, o_last} == {who, port, mine_len, mine_last} && oldest && done <= off
                           : 3'(2'(at - rptr[1:0])) < used && entry[at] == {who, port, mine_len, mine_last});
          i_ahead: assert (6'(ahead) == 6'(rsp[who]) + (in_old ? 6'(off - done) : before_who + here_who + 6'(off)));
          i_words: assert (6'(words) == (in_old ? 6'(off - done) : before + here[port] + 6'(off)));
          i_told: assert (told == (mine_at < arrived) && (told || beats == mine_at - arrived));
          if (told) i_stored: assert (stored == asked);
        end else i_out: assert (ahead == '0 && rsp[who]);
      end
    end
  end

  always_comb begin
    if (!begun) assume (!flush);
    for (int c = 0; c < N; c++) if (req_valid[c]) assume (req_words[c*16+:16] != '0);
    if (begun) begin
      a_one: assert (rsp != 2'b11);
      if (rsp[who]) a_due: assert (due != '0);
      if (whose) a_stripe: assert (n != '0 && \u.gen_striped.cur_addr [LOW-1:0] == addr1 && 16'(len) == (words1 < stripe ? words1 : stripe)
                                   && \u.gen_striped.last == (words1 == 16'(len)));
      if (idle) a_idle: assert (n == '0 && due == 5'(rsp[who]));
      if (mine && rsp[who] && ahead == '0) begin
        a_word: assert ((lane ? data[8] : data[0]) == mark);
        a_last: assert (last == end_last);
      end
      if (grant) begin
        a_asked: assert (p_now ? \u.gen_striped.gen_port[1].u_port.req_valid_i && \u.gen_striped.gen_port[1].u_port.req_ready_o
                         && \u.gen_striped.gen_port[1].u_port.req_beats_i == {13'd0, len, 1'b0}
                       : \u.gen_striped.gen_port[0].u_port.req_valid_i && \u.gen_striped.gen_port[0].u_port.req_ready_o
                         && \u.gen_striped.gen_port[0].u_port.req_beats_i == {13'd0, len, 1'b0});
      end
    end
  end
  always_ff @(posedge clk) if (begun && $past(begun)) begin
    if ($past(flush && !idle)) assume (flush);
    if ($past(flush)) a_quiet: assert (rsp == '0);
  end
endmodule
