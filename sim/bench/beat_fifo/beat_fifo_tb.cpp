// beat_fifo_tb: random pushes within the credit and random pops, compared with a queue. A word must
// be able to leave two cycles after it came, and the throughput must be one word per cycle.
#include "Vbeat_fifo.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("beat_fifo", args.seed);
  Vbeat_fifo dut;
  struct Word {
    uint64_t value, at;
  };
  std::deque<Word> queue;
  uint64_t moved = 0, begin = 0;
  const uint64_t n = args.n ? args.n : 30000;
  for (uint64_t i = 0; i < n; i++) {
    const bool full = i >= n - 1000;
    if (i == n - 1000) begin = moved;
    const unsigned in = full || i % 900 < 300 ? 100 : (i % 900 < 600 ? 30 : 80);
    const unsigned out = full || i % 700 < 300 ? 100 : (i % 700 < 500 ? 10 : 60);
    dut.rst_ni = i >= 2;
    const uint64_t word = random.next() & ((uint64_t{1} << P_WIDTH) - 1);
    // credit is returned when a word leaves, so up to DEPTH words may be inside
    dut.valid_i = dut.rst_ni && queue.size() < P_DEPTH && random.percent(in);
    dut.wdata_i = static_cast<uint32_t>(word);
    dut.ready_i = random.percent(out);
    dut.clk_i = 0;
    dut.eval();
    if (dut.rst_ni) {
      check.that(!dut.valid_o || !queue.empty(), "a word too many");
      if (!queue.empty())
        check.that(dut.valid_o == (i >= queue.front().at + 2), "valid_o %d", dut.valid_o);
      if (dut.valid_o) check.that(dut.rdata_o == queue.front().value, "rdata_o");
      if (dut.valid_o && dut.ready_i) {
        queue.pop_front();
        moved++;
      }
      if (dut.valid_i) queue.push_back({word, i});
    }
    dut.clk_i = 1;
    dut.eval();
  }
  check.that(n < 30000 || P_DEPTH < 8 || moved - begin >= 990, "%" PRIu64 " words in 1000 cycles",
             moved - begin);
  return check.passed();
}
