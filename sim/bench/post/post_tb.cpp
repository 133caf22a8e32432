// post_tb: random and extreme operands, shifts and bounds, compared with 64-bit arithmetic; latency is
// 3 cycles, with POST 6. A layer's first word comes one cycle behind its shifts and bounds. With POST: plain layers, products
// and curves in turn. A curve is written while the previous layer, which uses the other half of the
// table, still computes. Some curves have the widest or narrowest segments, or extreme words.
#include "Vpost.h"
#include "bench/post_model.hpp"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_POST
#define P_POST 0
#endif

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("post", args.seed);
  Vpost dut;
  constexpr unsigned kLanes = P_LANES, kLatency = P_POST ? 6 : 3, kWords = sluice_abi::CURVE_WORDS;
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
  uint32_t table[2][kWords] = {};
  model::Behind next;  // the layer after this one
  unsigned written = kWords;
  const auto draw = [&](uint64_t layer) {
    model::Behind b;
    const uint64_t kind = P_POST ? random.below(4) : 0;
    b.product = kind == 1;
    b.curve = kind > 1;
    b.lo = pick(16);
    b.step = static_cast<unsigned>(random.below(sluice_abi::CURVE_STEP_MAX + 1));
    if (random.percent(20)) b.lo = -32768, b.step = sluice_abi::CURVE_STEP_MAX;  // all values
    b.shift = static_cast<unsigned>(random.percent(20) ? 31 : random.below(32));
    b.words = table[layer % 2];
    written = b.curve ? 0 : kWords;
    return b;
  };
  dut.table_we_i = 0;
  next = draw(0);
  const uint64_t layers = args.n ? args.n : 600;
  for (uint64_t layer = 0; layer < layers; layer++) {
    const model::Behind behind = next;
    const auto write = [&](uint64_t of, const model::Behind& b) {  // a word of a layer's curve
      dut.table_we_i = written < kWords && (of == layer || random.percent(90));
      dut.table_addr_i = static_cast<unsigned char>((of % 2) * kWords + written % kWords);
      dut.table_sh_i = static_cast<unsigned char>(b.shift);
      dut.table_data_i = static_cast<uint32_t>(written % 2 ? pick(16) : pick(32));
      if (dut.table_we_i) table[of % 2][written++] = dut.table_data_i;
    };
    const auto clock = [&] {
      dut.clk_i = 0;
      dut.eval();
      dut.clk_i = 1;
      dut.eval();
    };
    while (written < kWords) {
      write(layer, behind);
      clock();
    }
    const bool corner = layer % 16 == 0;  // the largest sum
    const unsigned rs = static_cast<unsigned>(corner ? 31 : random.below(32));
    const unsigned sh = static_cast<unsigned>(corner ? 47 : random.percent(30) ? random.below(8) : random.below(48));
    int64_t lo = pick(16), hi = pick(16);
    if (lo > hi) std::swap(lo, hi);
    if (random.percent(30)) lo = -32768, hi = 32767;
    dut.rs_i = static_cast<unsigned char>(rs);
    dut.sh_i = static_cast<unsigned char>(sh);
    dut.lo_i = static_cast<unsigned short>(lo);
    dut.hi_i = static_cast<unsigned short>(hi);
    dut.product_i = behind.product;
    dut.curve_i = behind.curve;
    dut.curve_lo_i = static_cast<unsigned short>(behind.lo);
    dut.curve_step_i = static_cast<unsigned char>(behind.step);
    dut.curve_sh_i = static_cast<unsigned char>(behind.shift);
    dut.half_i = layer % 2;
    dut.table_we_i = 0;
    clock();
    next = draw(layer + 1);
    std::deque<std::vector<int16_t>> expect;
    for (unsigned cycle = 0; cycle < 80; cycle++) {
      write(layer + 1, next);
      std::vector<int16_t> y;
      for (unsigned i = 0; i < kLanes; i++) {
        int64_t acc = pick(36), bias = pick(32), res = random.percent(30) ? 0 : pick(16);
        if (sh < 20 && random.percent(20)) {  // at the start of saturation
          const int64_t y =
              (random.percent(50) ? 32767 : -32768) + static_cast<int64_t>(random.below(5)) - 2;
          acc = y * (int64_t{1} << sh) + static_cast<int64_t>(random.below(3)) - 1;
          bias = 0;
          if (!behind.product) res = 0;
        } else if (sh < 20 && random.percent(50)) {  // any word, also at the ends of segments
          const int64_t end = behind.lo + static_cast<int64_t>(random.below(34)) * (int64_t{1} << behind.step);
          acc = random.percent(50) ? model::sat16(end - static_cast<int64_t>(random.below(2))) : unit::sign(random.next(), 16);
          acc *= int64_t{1} << sh;
          bias = 0;
        }
        unit::put(dut.acc_i, i * 36, 36, static_cast<uint64_t>(acc));
        unit::put(dut.bias_i, i * 32, 32, static_cast<uint64_t>(bias));
        unit::put(dut.res_i, i * 16, 16, static_cast<uint64_t>(res));
        y.push_back(behind.post(acc, bias, res, rs, sh, lo, hi));
      }
      expect.push_back(y);
      clock();
      if (expect.size() > kLatency) expect.pop_front();
      if (expect.size() == kLatency) {
        for (unsigned i = 0; i < kLanes; i++) {
          const int64_t have = unit::sign(unit::get(dut.y_o, i * 16, 16), 16);
          check.that(have == expect.front()[i], "%s, rs %u sh %u curve step %u shift %u: %" PRId64 ", not %d",
                     behind.product ? "product" : behind.curve ? "curve" : "plain", rs, sh, behind.step,
                     behind.shift, have, expect.front()[i]);
        }
      }
    }
  }
  return check.passed();
}
