// mac_chain_tb: one row per cycle, skewed by one cycle per lane, with weights loaded and swapped in
// between. The sum must leave LEN + 2 cycles after lane 0's operand, modulo 2^ACC.
#include "Vmac_chain.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("mac_chain", args.seed);
  Vmac_chain dut;
  constexpr unsigned kLen = P_LEN;
  struct Row {
    bool swap = false;  // the weights change before this row
    int64_t x[kLen] = {};
    int64_t c = 0, sum = 0;
    bool known = false;
  };
  std::deque<Row> rows(2 * kLen + 6);  // rows[k] entered lane 0 k cycles ago
  int64_t weight[kLen] = {}, shadow[kLen] = {};
  bool loaded = false, swapped = false;
  uint64_t swap_at = 0;
  const auto extreme = [&] { return random.percent(20) ? -32768 : unit::sign(random.next(), 16); };
  for (uint64_t i = 0; i < (args.n ? args.n : 20000); i++) {
    // its swap comes with its first operand
    rows.pop_back();
    Row next;
    // shadow weights may change when the last lane has swapped
    dut.load_i = 0;
    for (unsigned j = 0; j < kLen; j++) unit::put(dut.w_i, j * 16, 16, random.next());
    if (i >= swap_at + kLen - 1 && random.percent(20)) {
      dut.load_i = 1;
      for (unsigned j = 0; j < kLen; j++)
        unit::put(dut.w_i, j * 16, 16, static_cast<uint64_t>(extreme()));
    }
    next.swap = loaded && !dut.load_i && i >= swap_at + kLen && random.percent(15);
    if (next.swap) {
      std::memcpy(weight, shadow, sizeof weight);
      swap_at = i;
      swapped = true;
    }
    if (dut.load_i) {
      for (unsigned j = 0; j < kLen; j++)
        shadow[j] = unit::sign(unit::get(dut.w_i, j * 16, 16), 16);
      loaded = true;
    }
    next.known = swapped;
    next.c = unit::sign(random.next(), P_ACC);
    next.sum = next.c;
    for (unsigned j = 0; j < kLen; j++) {
      next.x[j] = extreme();
      next.sum += next.x[j] * weight[j];
    }
    rows.push_front(next);
    // rows[j] is at lane j
    unsigned swaps = 0;
    for (unsigned j = 0; j < kLen; j++) {
      swaps |= rows[j].swap ? 1u << j : 0;
      unit::put(dut.a_i, j * 16, 16, static_cast<uint64_t>(rows[j].x[j]));
    }
    dut.swap_i = static_cast<unsigned short>(swaps);
    dut.c_i = static_cast<uint64_t>(rows[2].c) & ((uint64_t{1} << P_ACC) - 1);
    dut.clk_i = 0;
    dut.eval();
    const Row& out = rows[kLen + 2];
    if (out.known) {
      const uint64_t want = static_cast<uint64_t>(out.sum) & ((uint64_t{1} << P_ACC) - 1);
      check.that(dut.p_o == want, "cycle %" PRIu64 ": %" PRIx64 ", not %" PRIx64, i,
                 static_cast<uint64_t>(dut.p_o), want);
    }
    dut.clk_i = 1;
    dut.eval();
  }
  return check.passed();
}
