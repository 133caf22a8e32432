// read_ports_checker: bound to every read_ports where this file is compiled with --assert. Clients
// keep what they ask for until it is taken, aligned and not empty; they get as much as they asked
// for, in order, the last beat marked; nothing is owed at idle. Inside, no port's queue runs over, for
// its stripes are asked for by the room that is left, and turns begin anew at idle.
/* verilator lint_off BLKSEQ */  // queues are bookkeeping, updated in the order written
module read_ports_checker #(
    parameter int unsigned N         = 4,
    parameter int unsigned N_AXI     = 2,
    parameter int unsigned AXI_BYTES = 8,
    parameter int unsigned LANES     = 2
) (
    input logic            clk_i,
    input logic            rst_ni,
    input logic            flush_i,
    input logic            idle_i,
    input logic [N-1:0]    req_valid_i,
    input logic [N-1:0]    req_ready_i,
    input logic [N*40-1:0] req_addr_i,
    input logic [N*16-1:0] req_beats_i,
    input logic [N-1:0]    rsp_valid_i,
    input logic            rsp_last_i
);
  for (genvar c = 0; c < N; c++) begin : gen_client
    logic        stuck_q = 1'b0;
    logic [55:0] asked, asked_q;
    int unsigned owed_q[$];  // wide beats owed of each request
    assign asked = {req_addr_i[c*40+:40], req_beats_i[c*16+:16]};
    always_ff @(posedge clk_i) begin
      stuck_q <= rst_ni && !flush_i && req_valid_i[c] && !req_ready_i[c];
      asked_q <= asked;
      if (rst_ni) begin
        if (stuck_q && !flush_i) begin
          assert (req_valid_i[c] && asked == asked_q)
          else $error("read_ports: a request is withdrawn or changes");
        end
        if (rsp_valid_i[c]) begin
          assert (owed_q.size() > 0) else $error("read_ports: an answer to nothing");
          if (owed_q.size() > 0) begin
            owed_q[0] = owed_q[0] - 1;
            assert (rsp_last_i == (owed_q[0] == 0)) else $error("read_ports: rsp_last_o misplaced");
            if (owed_q[0] == 0) void'(owed_q.pop_front());
          end
        end
        assert (!idle_i || flush_i || owed_q.size() == 0)
        else $error("read_ports: idle although beats are owed");
        if (req_valid_i[c] && req_ready_i[c]) begin
          assert (asked[15:0] != '0) else $error("read_ports: a request for nothing");
          assert (asked[55:16] % 40'(LANES * AXI_BYTES) == '0)
          else $error("read_ports: a request that is not aligned to a wide beat");
          owed_q.push_back(32'(asked[15:0]));
        end
      end
      // what came up to a flush's first cycle still counts, then nothing
      if (!rst_ni || flush_i) owed_q.delete();
    end
  end
  always_ff @(posedge clk_i) begin
    assert (!rst_ni || $onehot0(rsp_valid_i)) else $error("read_ports: two clients answered at once");
  end

  if (N_AXI > 1) begin : gen_striped_check
    for (genvar p = 0; p < N_AXI; p++) begin : gen_port
      // pointers wrap at twice the depth
      int unsigned fill, room;
      assign room = 32'(gen_striped.room_q[p*(gen_striped.DB+1)+:gen_striped.DB+1]);
      assign fill = (32'(gen_striped.gen_port[p].wptr_q) - 32'(gen_striped.gen_port[p].rptr_q))
                    % (2 * gen_striped.DEPTH);
      always_ff @(posedge clk_i) begin
        if (rst_ni && !flush_i) begin
          assert (fill + room <= gen_striped.DEPTH) else $error("read_ports: a port's queue is promised twice");
          assert (!gen_striped.take_q[p] || gen_striped.oldest_q) else $error("read_ports: a beat of no stripe");
          assert (!idle_i || (fill == 0 && room == gen_striped.DEPTH && gen_striped.gen_port[p].lane_q == '0))
          else $error("read_ports: beats left over at idle");
        end
      end
    end
  end
endmodule
/* verilator lint_on BLKSEQ */

bind read_ports read_ports_checker #(
    .N        (N),
    .N_AXI    (N_AXI),
    .AXI_BYTES(AXI_BYTES),
    .LANES    (LANES)
) u_checker (
    .clk_i,
    .rst_ni,
    .flush_i,
    .idle_i(idle_o),
    .req_valid_i,
    .req_ready_i(req_ready_o),
    .req_addr_i,
    .req_beats_i,
    .rsp_valid_i(rsp_valid_o),
    .rsp_last_i (rsp_last_o)
);
