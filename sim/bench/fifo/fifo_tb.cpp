// fifo_tb: random pushes and pops, compared with a queue; a word must be able to leave in the next
// cycle, with one push and one pop per cycle.
#include "Vfifo.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("fifo", args.seed);
  Vfifo dut;
  std::deque<uint64_t> queue;
  uint64_t word = 0;
  bool held = false;
  for (uint64_t i = 0; i < (args.n ? args.n : 20000); i++) {
    const unsigned in = i % 900 < 300 ? 100 : (i % 900 < 600 ? 30 : 80);
    const unsigned out = i % 700 < 300 ? 100 : (i % 700 < 500 ? 20 : 60);
    dut.rst_ni = i >= 2 && !(i % 5000 < 2);
    if (!dut.rst_ni) {
      queue.clear();
      held = false;
    }
    dut.valid_i = dut.rst_ni && (held || random.percent(in));
    if (!held) word = random.next() & ((uint64_t{1} << P_WIDTH) - 1);
    dut.wdata_i = word;
    dut.ready_i = random.percent(out);
    dut.clk_i = 0;
    dut.eval();
    if (dut.rst_ni) {
      check.that(dut.ready_o == (queue.size() < P_DEPTH), "ready_o with %zu words", queue.size());
      check.that(dut.valid_o == !queue.empty(), "valid_o with %zu words", queue.size());
      if (!queue.empty()) check.that(dut.rdata_o == queue.front(), "rdata_o");
      held = dut.valid_i && queue.size() == P_DEPTH;
      const bool push = dut.valid_i && queue.size() < P_DEPTH;
      if (dut.ready_i && !queue.empty()) queue.pop_front();
      if (push) queue.push_back(word);
    }
    dut.clk_i = 1;
    dut.eval();
  }
  return check.passed();
}
