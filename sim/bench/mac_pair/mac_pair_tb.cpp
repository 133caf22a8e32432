// mac_pair_tb: arbitrary inputs in every cycle, also some that no array generates (loads during a
// swap, swaps of single lanes, sums that wrap). Once all registers are known, the cells of either
// family must give the same bits as the inferred chain in every cycle.
#include "Vmac_pair.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("mac_pair", args.seed);
  Vmac_pair dut;
  constexpr unsigned kLen = P_LEN;
  const auto word = [&] { return random.percent(20) ? uint64_t{0x8000} : random.percent(10) ? uint64_t{0x7fff} : random.next(); };
  unsigned loads = 50, swaps = 50;
  for (uint64_t i = 0; i < (args.n ? args.n : 50000); i++) {
    if (i % 64 == 0) {  // idle and busy stretches
      loads = static_cast<unsigned>(random.below(101));
      swaps = static_cast<unsigned>(random.below(101));
    }
    dut.load_i = i < 2 || random.percent(loads);
    unsigned swap = 0;
    for (unsigned j = 0; j < kLen; j++) {
      if (i < 2 || random.percent(swaps)) swap |= 1u << j;
      unit::put(dut.w_i, j * 16, 16, word());
      unit::put(dut.a_i, j * 16, 16, word());
    }
    dut.swap_i = static_cast<unsigned char>(swap);
    const uint64_t ones = (uint64_t{1} << P_ACC) - 1;
    dut.c_i = random.percent(20) ? ones >> 1 : random.percent(20) ? ~(ones >> 1) & ones : random.next() & ones;
    dut.clk_i = 0;
    dut.eval();
    // two loads and swaps, the product, LEN sums
    for (unsigned f = 0; f < 2 && i >= kLen + 3; f++) {
      const uint64_t have = unit::get(dut.cells_o, f * P_ACC, P_ACC);
      check.that(have == dut.inferred_o, "cycle %" PRIu64 ", family %u: %" PRIx64 ", not %" PRIx64, i, f, have,
                 static_cast<uint64_t>(dut.inferred_o));
    }
    dut.clk_i = 1;
    dut.eval();
  }
  return check.passed();
}
