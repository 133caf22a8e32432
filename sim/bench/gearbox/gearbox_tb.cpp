// gearbox_tb: random counts in and out, in multiples of the units, compared with a queue; with ALL
// also counts above the fill. Then full throughput on both sides.
#include "Vgearbox.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("gearbox", args.seed);
  Vgearbox dut;
  constexpr unsigned kIn = P_IN_WORDS, kOut = P_OUT_WORDS, kCap = 2 * kIn + kOut;
  const auto edge = [&] {
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
  };
  dut.rst_ni = 0;
  edge();
  edge();
  dut.rst_ni = 1;
  std::deque<uint64_t> queue;
  uint64_t popped = 0, fast = 0;
  const uint64_t n = args.n ? args.n : 20000;
  for (uint64_t i = 0; i < n; i++) {
    const bool full = i >= n - 2000;  // without stalls
    const unsigned percent = i % 1000 < 300 ? 100 : (i % 1000 < 600 ? 30 : 60);
    dut.push_i = full || random.percent(percent);
    const unsigned count =
        full || random.percent(50) ? kIn / P_IN_UNIT * P_IN_UNIT
                                   : P_IN_UNIT * static_cast<unsigned>(random.below(kIn / P_IN_UNIT + 1));
    dut.push_cnt_i = static_cast<unsigned char>(count);
    std::vector<uint64_t> words;
    const unsigned skip = P_IN_UNIT == 1 ? static_cast<unsigned>(random.below(kIn - std::max(count, 1u) + 1)) : 0;
    dut.skip_i = static_cast<unsigned char>(skip);
    for (unsigned k = 0; k < kIn; k++) {
      const uint64_t word = random.next() & ((uint64_t{1} << P_W) - 1);
      if (k >= skip) words.push_back(word);
      unit::put(dut.data_i, k * P_W, P_W, word);
    }
    const unsigned most = static_cast<unsigned>(std::min<size_t>(queue.size(), kOut));
    const unsigned out = full ? (most < std::min(kIn, kOut) ? 0 : std::min(kIn, kOut))
                              : P_OUT_UNIT * static_cast<unsigned>(random.below(
                                                 (P_ALL && random.percent(30) ? kOut : most) / P_OUT_UNIT + 1));
    dut.pop_i = out > 0 && (full || random.percent(130 - percent));
    dut.pop_cnt_i = static_cast<unsigned char>(dut.pop_i ? out : random.below(kOut + 1));
    dut.clk_i = 0;
    dut.eval();
    check.that(dut.fill_o == queue.size(), "fill %u, not %zu", dut.fill_o, queue.size());
    check.that(dut.ready_o == (queue.size() <= kCap - kIn), "ready_o");
    for (unsigned k = 0; k < most; k++)
      check.that(unit::get(dut.data_o, k * P_W, P_W) == queue[k], "word %u", k);
    if (dut.pop_i) {
      queue.erase(queue.begin(), queue.begin() + std::min<size_t>(out, queue.size()));
      if (full) popped += out;
    }
    if (dut.push_i && dut.ready_o) queue.insert(queue.end(), words.begin(), words.begin() + count);
    if (full) fast++;
    edge();
  }
  check.that(n < 20000 || popped >= (fast - 4) * std::min(kIn, kOut), "%" PRIu64 " words in %" PRIu64 " cycles",
             popped, fast);
  return check.passed();
}
