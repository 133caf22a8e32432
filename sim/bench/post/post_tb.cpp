// post_tb: random and extreme operands, shifts and bounds, compared with 64-bit arithmetic, with
// the enable low at random; latency is 3 enabled cycles.
#include "Vpost.h"
#include "bench/post_model.hpp"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("post", args.seed);
  Vpost dut;
  constexpr unsigned kLanes = P_LANES;
  const auto pick = [&](unsigned bits) -> int64_t {  // often extreme or small values
    const int64_t top = (int64_t{1} << (bits - 1)) - 1;
    switch (random.below(5)) {
      case 0:
        return top - static_cast<int64_t>(random.below(3));
      case 1:
        return -top - 1 + static_cast<int64_t>(random.below(3));
      case 2:
        return unit::sign(random.next(), bits) >> random.below(bits);
      default:
        return unit::sign(random.next(), bits);
    }
  };
  const uint64_t layers = args.n ? args.n : 600;
  for (uint64_t layer = 0; layer < layers; layer++) {
    const bool corner = layer % 16 == 0;  // the largest sum
    const unsigned rs = static_cast<unsigned>(corner ? 31 : random.below(32));
    const unsigned sh = static_cast<unsigned>(corner ? 47 : random.below(48));
    int64_t lo = pick(16), hi = pick(16);
    if (lo > hi) std::swap(lo, hi);
    if (random.percent(30)) lo = -32768, hi = 32767;
    dut.rs_i = static_cast<unsigned char>(rs);
    dut.sh_i = static_cast<unsigned char>(sh);
    dut.lo_i = static_cast<unsigned short>(lo);
    dut.hi_i = static_cast<unsigned short>(hi);
    std::deque<std::vector<int16_t>> expect;
    for (unsigned cycle = 0; cycle < 60; cycle++) {
      dut.en_i = random.percent(80);
      std::vector<int16_t> y;
      for (unsigned i = 0; i < kLanes; i++) {
        int64_t acc = pick(36), bias = pick(32), res = random.percent(30) ? 0 : pick(16);
        if (sh < 20 && random.percent(20)) {  // at the start of saturation
          const int64_t y =
              (random.percent(50) ? 32767 : -32768) + static_cast<int64_t>(random.below(5)) - 2;
          acc = y * (int64_t{1} << sh) + static_cast<int64_t>(random.below(3)) - 1;
          bias = res = 0;
        }
        unit::put(dut.acc_i, i * 36, 36, static_cast<uint64_t>(acc));
        unit::put(dut.bias_i, i * 32, 32, static_cast<uint64_t>(bias));
        unit::put(dut.res_i, i * 16, 16, static_cast<uint64_t>(res));
        y.push_back(model::post(acc, bias, res, rs, sh, lo, hi));
      }
      if (dut.en_i) expect.push_back(y);
      dut.clk_i = 0;
      dut.eval();
      dut.clk_i = 1;
      dut.eval();
      if (expect.size() > 3) expect.pop_front();
      if (expect.size() == 3) {
        for (unsigned i = 0; i < kLanes; i++) {
          const int64_t have = unit::sign(unit::get(dut.y_o, i * 16, 16), 16);
          check.that(have == expect.front()[i], "rs %u sh %u: %" PRId64 ", not %d", rs, sh, have,
                     expect.front()[i]);
        }
      }
    }
  }
  return check.passed();
}
