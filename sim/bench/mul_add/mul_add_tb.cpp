// mul_add_tb: every factor a with the extremes and random factors b, and the other way round, with
// extreme and random addends, compared with 64-bit arithmetic. --n: factors b for each a; 65536 is
// all pairs, in order (about an hour).
#include "Vmul_add.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("mul_add", args.seed);
  Vmul_add dut;
  // |a * b + c| <= 2^30 + 2^31 + 2^30, as post has it
  const int64_t addends[] = {0, 1, -1, (int64_t{1} << 31) - 1 + (int64_t{1} << 30), -(int64_t{1} << 31)};
  const auto one = [&](int64_t a, int64_t b, int64_t c) {
    dut.a_i = static_cast<unsigned short>(a);
    dut.b_i = static_cast<unsigned short>(b);
    unit::put(dut.c_i, 0, 33, static_cast<uint64_t>(c));
    dut.eval();
    const int64_t have = unit::sign(unit::get(dut.y_o, 0, 33), 33);
    check.that(have == a * b + c, "%" PRId64 " * %" PRId64 " + %" PRId64 " is %" PRId64, a, b, c, have);
  };
  const uint64_t others = args.n ? args.n : 24;
  for (int64_t a = -32768; a < 32768; a++) {
    for (uint64_t i = 0; i < others; i++) {
      const int64_t far[] = {-32768, -32767, -1, 0, 1, 2, 32766, 32767};
      const int64_t b = others == 65536 ? static_cast<int64_t>(i) - 32768 : i < 8 ? far[i] : unit::sign(random.next(), 16);
      const uint64_t r = random.next();
      const int64_t c = r % 8 < 5 ? addends[r % 8] : unit::sign(r >> 8, 32) + static_cast<int64_t>(r >> 60) * ((int64_t{1} << 26));
      one(a, b, c);
      if (others != 65536) one(b, a, c);
    }
  }
  return check.passed();
}
