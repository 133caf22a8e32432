// requant_tb: the definition's vectors (vectors.txt, written by the test of dse/golden/int8). Then random and extreme
// operands, factors, shifts and bounds, often with ties and the extremes of 16 and 8 bits, compared with 64-bit
// arithmetic. Latency is 20 cycles, 26 without DSP. Rare cases that must occur are
// counted.
#include <cstdio>

#include "Vrequant.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_DSP
#define P_DSP 1
#endif

namespace {

struct Word {
  int64_t acc, bias, mul, sh, res;
};
struct Layer {
  int64_t product, a, b, d, s, zero, lo, hi;
};

bool tied;  // the last rnd was between two integers
int64_t rnd(int64_t x, int64_t n) {
  tied = n && (x & ((int64_t{1} << n) - 1)) == int64_t{1} << (n - 1);
  return n ? (x + (int64_t{1} << (n - 1)) - 1 + (x >> n & 1)) >> n : x;
}
int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }
int64_t sat16(int64_t x) { return clamp(x, -32768, 32767); }

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("requant", args.seed);
  Vrequant dut;
  constexpr unsigned kLatency = P_DSP ? 20 : 26;
  struct Expected {
    int64_t u, y;
  };
  std::deque<Expected> expect;
  uint64_t ties[2] = {}, ends[2][2] = {}, products = 0;
  const auto clock = [&] {
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
  };
  const auto set = [&](const Layer& l) {
    dut.product_i = static_cast<unsigned char>(l.product);
    dut.a_i = static_cast<unsigned>(l.a);
    dut.b_i = static_cast<unsigned>(l.b);
    dut.d_i = static_cast<unsigned>(l.d);
    dut.s_i = static_cast<unsigned char>(l.s);
    dut.zero_i = static_cast<unsigned char>(l.zero);
    dut.lo_i = static_cast<unsigned char>(l.lo);
    dut.hi_i = static_cast<unsigned char>(l.hi);
    expect.clear();
  };
  const auto of = [&](const Layer& l, const Word& w) {
    int64_t t = rnd((w.acc + w.bias) * w.mul, w.sh);
    ties[0] += tied;
    if (t != sat16(t)) ends[0][t > 0]++;
    t = sat16(t);
    int64_t u = l.product ? rnd(t * (w.res + l.d) * l.a, l.s) : rnd(t * l.a + w.res * l.b + l.d, l.s);
    ties[1] += tied;
    if (u != sat16(u)) ends[1][u > 0]++;
    products += static_cast<uint64_t>(l.product);
    u = sat16(u);
    return Expected{u, clamp(u + l.zero, l.lo, l.hi)};
  };
  const auto step = [&](const Layer& l, const Word& w) {
    dut.acc_i = static_cast<unsigned>(w.acc);
    dut.bias_i = static_cast<unsigned>(w.bias);
    dut.mul_i = static_cast<unsigned>(w.mul);
    dut.sh_i = static_cast<unsigned char>(w.sh);
    dut.res_i = static_cast<unsigned char>(w.res);
    expect.push_back(of(l, w));
    clock();
    if (expect.size() > kLatency) expect.pop_front();
    const auto have_u = unit::sign(dut.u_o, 16), have_y = unit::sign(dut.y_o, 8);
    if (expect.size() == kLatency) {
      check.that(have_y == expect.front().y, "a %" PRId64 " b %" PRId64 " d %" PRId64 " s %" PRId64 " product %" PRId64 " zero %" PRId64 ": %" PRId64 ", not %" PRId64,
                 l.a, l.b, l.d, l.s, l.product, l.zero, have_y, expect.front().y);
    }
    if (expect.size() >= kLatency - 1) {
      const auto& e = expect[expect.size() - (kLatency - 1)];
      check.that(have_u == e.u, "s %" PRId64 ": %" PRId64 " for a curve, not %" PRId64, l.s, have_u, e.u);
    }
  };

  // ---- vectors of the definition
  std::FILE* file = std::fopen("sim/bench/requant/vectors.txt", "r");
  check.that(file, "sim/bench/requant/vectors.txt: cannot be read");
  Layer l;
  Word w;
  int64_t want;
  unsigned vectors = 0;
  while (std::fscanf(file, "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64,
                     &w.acc, &w.bias, &w.mul, &w.sh, &w.res, &l.product, &l.a, &l.b, &l.d, &l.s, &l.zero, &l.lo, &l.hi, &want) == 14) {
    set(l);
    check.that(of(l, w).y == want, "vector %u: %" PRId64 " by the model, %" PRId64 " by definition", vectors, of(l, w).y, want);
    for (unsigned i = 0; i < kLatency; i++) step(l, w);
    vectors++;
  }
  check.that(std::feof(file) && vectors >= 500, "sim/bench/requant/vectors.txt: %u vectors are read", vectors);
  std::fclose(file);

  // ---- random operands
  const auto pick = [&](unsigned bits) -> int64_t {  // often extreme or small values
    const int64_t top = (int64_t{1} << (bits - 1)) - 1;
    switch (random.below(5)) {
      case 0: return top - static_cast<int64_t>(random.below(3));
      case 1: return -top - 1 + static_cast<int64_t>(random.below(3));
      case 2: return unit::sign(random.next(), bits) >> random.below(bits);
      default: return unit::sign(random.next(), bits);
    }
  };
  const auto factor = [&]() -> int64_t {
    return random.percent(20) ? (1 << 17) - 1 : random.percent(30) ? int64_t{1} << random.below(17) : static_cast<int64_t>(random.below(1 << 17));
  };
  for (uint64_t layer = 0; layer < (args.n ? args.n : 1500); layer++) {
    l.product = random.percent(25);
    l.a = factor();
    l.b = l.product ? 0 : factor();
    l.d = !l.product ? pick(32) : random.percent(30) ? 128 : -127 + static_cast<int64_t>(random.below(256));
    l.s = static_cast<int64_t>(random.percent(60) ? random.below(26) : random.below(48));
    if (random.percent(20)) l = {0, 1, 0, 0, 0, 0, 0, 0};  // no residual
    l.zero = pick(8);
    l.lo = pick(8);
    l.hi = pick(8);
    if (l.lo > l.hi) std::swap(l.lo, l.hi);
    if (random.percent(50)) l.lo = -128, l.hi = 127;
    set(l);
    for (unsigned cycle = 0; cycle < 60; cycle++) {
      w.mul = factor();
      w.sh = static_cast<int64_t>(random.percent(50) ? random.below(24) : random.below(48));
      w.res = pick(8);
      w.bias = pick(32);
      int64_t sum = pick(32);
      if (random.percent(50)) {  // near a code, a tie or an extreme, of 16 or 8 bits
        const int64_t end = random.percent(50) ? 32767 : -32768;
        const int64_t twice = 2 * (random.percent(40) ? pick(9) : end + static_cast<int64_t>(random.below(5)) - 2) + static_cast<int64_t>(random.below(2));
        w.mul = int64_t{1} << random.below(17);
        w.sh = static_cast<int64_t>(random.below(30));
        const int64_t x = w.sh ? twice * (int64_t{1} << (w.sh - 1)) : twice / 2;
        sum = clamp(x / w.mul + static_cast<int64_t>(random.below(3)) - 1, INT32_MIN, INT32_MAX);
      }
      if (random.percent(20)) {  // small values, around the rounding position
        const int64_t m = static_cast<int64_t>(random.below(17)), n = static_cast<int64_t>(random.below(28));
        w.mul = int64_t{1} << m;
        w.sh = m + n + static_cast<int64_t>(random.below(5));
        sum = (static_cast<int64_t>(random.below(32)) - 16) * (int64_t{1} << n);
      }
      w.acc = sum - w.bias;
      if (w.acc != unit::sign(static_cast<uint64_t>(w.acc), 32)) w.acc = sum, w.bias = 0;
      step(l, w);
    }
  }
  if (!args.n) {
    check.that(products && ties[0] > 100 && ties[1] > 100 && ends[0][0] && ends[0][1] && ends[1][0] && ends[1][1],
               "ties, products or saturations were not met");
  }
  return check.passed();
}
