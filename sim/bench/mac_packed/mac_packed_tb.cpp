// mac_packed_tb: one row per cycle, its lanes skewed as mac_packed expects, with packed weights loaded and swapped in
// between. Both sums must leave with their accumulators, modulo 2^32. In half of the segments all weights are extremes, in
// half of the rows all operands. Every segment must reach the largest sum of each sign in each channel.
#include "Vmac_packed.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_DSP48E2
#define P_DSP48E2 0
#endif

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("mac_packed", args.seed);
  Vmac_packed dut;
  constexpr unsigned kLen = P_LEN, kMost = P_DSP48E2 ? 8 : 4, kShift = P_DSP48E2 ? 18 : 17, kWidth = kShift + 8;
  constexpr unsigned kSegments = (kLen + kMost - 1) / kMost, kSpan = std::min(kLen, kMost);
  constexpr unsigned kLatency = kSpan + 3 + unit::clog2(kSegments), kLargest = 127 * 128;
  const auto cells = [=](unsigned s) { return std::min(kMost, kLen - s * kMost); };
  const auto skew = [&](unsigned j) { return kSpan - cells(j / kMost) + j % kMost; };
  struct Row {
    bool swap = false;  // the weights change with this row
    int64_t x[kLen] = {}, c[2] = {}, sum[2] = {};
    bool known = false;
  };
  std::deque<Row> rows(kLatency + 1);  // rows[k] began k cycles ago
  int64_t weight[kLen][2] = {}, shadow[kLen][2] = {};
  bool loaded = false, swapped = false, ends[kSegments][2][2] = {};
  uint64_t swap_at = 0;
  for (uint64_t i = 0; i < (args.n ? args.n : 20000); i++) {
    rows.pop_back();
    Row next;
    // shadow weights may change when the last lane has swapped
    dut.load_i = i >= swap_at + kSpan && random.percent(20);
    for (unsigned s = 0; s < kSegments; s++) {
      const bool extreme = random.percent(50);
      const int64_t end[2] = {random.percent(50) ? 127 : -127, random.percent(50) ? 127 : -127};
      for (unsigned j = s * kMost; j < s * kMost + cells(s); j++) {
        int64_t w[2];
        for (unsigned f = 0; f < 2; f++) w[f] = extreme ? end[f] : static_cast<int64_t>(random.below(255)) - 127;
        const int64_t packed = w[1] * (int64_t{1} << kShift) + w[0];
        unit::put(dut.w_i, j * kWidth, kWidth, static_cast<uint64_t>(dut.load_i ? packed : static_cast<int64_t>(random.next())));
        if (dut.load_i) std::memcpy(shadow[j], w, sizeof w);
      }
    }
    next.swap = loaded && !dut.load_i && i >= swap_at + kSpan && random.percent(15);
    loaded = loaded || dut.load_i;
    if (next.swap) {
      std::memcpy(weight, shadow, sizeof weight);
      swap_at = i;
      swapped = true;
    }
    next.known = swapped;
    for (unsigned f = 0; f < 2; f++) next.sum[f] = next.c[f] = unit::sign(random.next(), 32);
    for (unsigned s = 0; s < kSegments; s++) {
      const bool extreme = random.percent(50);
      const int64_t end = random.percent(70) ? -128 : random.percent(50) ? 127 : static_cast<int64_t>(random.below(3)) - 1;
      int64_t sum[2] = {};
      for (unsigned j = s * kMost; j < s * kMost + cells(s); j++) {
        next.x[j] = extreme ? end : unit::sign(random.next(), 8);
        for (unsigned f = 0; f < 2; f++) sum[f] += next.x[j] * weight[j][f];
      }
      for (unsigned f = 0; f < 2; f++) {
        next.sum[f] += sum[f];
        if (swapped && static_cast<unsigned>(std::abs(sum[f])) == kLargest * cells(s)) ends[s][f][sum[f] > 0] = true;
      }
    }
    rows.push_front(next);
    unsigned swaps = 0;
    for (unsigned j = 0; j < kLen; j++) {
      swaps |= rows[skew(j)].swap ? 1u << j : 0;
      unit::put(dut.a_i, j * 8, 8, static_cast<uint64_t>(rows[skew(j)].x[j]));
    }
    dut.swap_i = static_cast<unsigned short>(swaps);
    for (unsigned f = 0; f < 2; f++) unit::put(dut.c_i, f * 32, 32, static_cast<uint64_t>(rows[kLatency - 2].c[f]));
    dut.clk_i = 0;
    dut.eval();
    const Row& out = rows[kLatency];
    for (unsigned f = 0; f < 2 && out.known; f++) {
      const uint64_t have = unit::get(dut.p_o, f * 32, 32), want = static_cast<uint64_t>(out.sum[f]) & 0xffffffff;
      check.that(have == want, "cycle %" PRIu64 ", channel %u: %" PRIx64 ", not %" PRIx64, i, f, have, want);
    }
    dut.clk_i = 1;
    dut.eval();
  }
  for (unsigned s = 0; s < kSegments && !args.n; s++) {
    for (unsigned f = 0; f < 2; f++) {
      check.that(ends[s][f][0] && ends[s][f][1], "segment %u, channel %u: not all extremes were met", s, f);
    }
  }
  return check.passed();
}
