// weight_pack_tb: every pair of weights in one of two words, with random weights in the other.
#include "Vweight_pack.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_DSP48E2
#define P_DSP48E2 0
#endif

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("weight_pack", args.seed);
  Vweight_pack dut;
  constexpr unsigned kShift = P_DSP48E2 ? 18 : 17, kWidth = kShift + 8;
  for (int64_t upper = -127; upper <= 127; upper++) {
    for (int64_t lower = -127; lower <= 127; lower++) {
      const int64_t w[2][2] = {{lower, upper}, {static_cast<int64_t>(random.below(255)) - 127, static_cast<int64_t>(random.below(255)) - 127}};
      const unsigned first = random.percent(50);
      for (unsigned k = 0; k < 4; k++) unit::put(dut.w_i, k * 8, 8, static_cast<uint64_t>(w[(k / 2) ^ first][k % 2]));
      dut.eval();
      for (unsigned j = 0; j < 2; j++) {
        const auto& of = w[j ^ first];
        const int64_t have = unit::sign(unit::get(dut.w_o, j * kWidth, kWidth), kWidth), want = of[1] * (int64_t{1} << kShift) + of[0];
        check.that(have == want, "%" PRId64 " and %" PRId64 ": %" PRId64 ", not %" PRId64, of[1], of[0], have, want);
      }
    }
  }
  return check.passed();
}
