// act_buffer_tb: beats at any element with any mask into either half, and at the same time windows
// from any element on, from either half or from both, compared with two arrays. Lanes inside the
// mask must be the elements, the others the fill. A window must come 4 cycles after its request,
// with its tag.
#include "Vact_buffer.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("act_buffer", args.seed);
  Vact_buffer dut;
  constexpr unsigned kNB = P_NB, kIn = P_IN_WORDS, kElems = kNB * P_ABUF_WORDS, kY = P_Y_LANES;
  constexpr unsigned kWrap = 1u << unit::clog2(kElems), kFill = 2 * kElems / kIn;
  constexpr unsigned kEdge = kWrap > kElems ? kWrap / 2 : 0;  // where a deep bank is split
  std::vector<int> half[2];
  for (auto& h : half) h.assign(kElems, -1);
  struct Window {
    bool valid = false, two = false;
    std::vector<int> lane, y;  // -1: not defined
    uint64_t mask = 0;
    unsigned tag = 0;
  };
  std::deque<Window> pipe(4);
  const auto edge = [&] {
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
  };
  dut.rst_ni = 0;
  for (int i = 0; i < 3; i++) edge();
  dut.rst_ni = 1;
  const uint64_t n = args.n ? args.n : 20000;
  for (uint64_t i = 0; i < n; i++) {
    // a beat; like the loader's, it may begin before the lanes that it writes
    const bool filling = i < kFill;
    const unsigned wh = static_cast<unsigned>(filling ? i % 2 : random.below(2));
    const unsigned elem = filling ? static_cast<unsigned>(i / 2) * kIn
                          : random.percent(20) ? kEdge + static_cast<unsigned>(random.below(kIn))
                                               : static_cast<unsigned>(random.below(kElems));
    unsigned mask = filling ? (1u << kIn) - 1 : random.percent(30) ? 0 : static_cast<unsigned>(random.below(1u << kIn));
    const unsigned shift = static_cast<unsigned>(!filling && random.percent(20) ? random.below(kIn) : 0);  // lanes before element 0
    const unsigned begin = (elem + kWrap - shift) % kWrap;
    for (unsigned k = 0; k < kIn; k++) {
      if ((begin + k) % kWrap >= kElems) mask &= ~(1u << k);
    }
    dut.wr_half_i = static_cast<unsigned char>(wh);
    dut.wr_elem_i = static_cast<unsigned short>(begin);
    dut.wr_mask_i = static_cast<unsigned char>(mask);
    std::vector<int> word(kIn);
    for (unsigned k = 0; k < kIn; k++) {
      word[k] = static_cast<int>(random.below(1 << 16));
      unit::put(dut.wr_data_i, k * 16, 16, static_cast<uint64_t>(word[k]));
    }
    // a window, which may begin before the first element (padding): those lanes are masked
    Window w;
    w.valid = !filling && random.percent(80);
    w.two = random.percent(40);
    w.tag = static_cast<unsigned>(random.below(1u << P_TAG));
    const unsigned rh = static_cast<unsigned>(random.below(2));
    const int at = static_cast<int>(random.percent(20) ? kEdge + random.below(kNB) : random.below(kElems + kNB)) -
                   static_cast<int>(kNB) + 1;
    unsigned lo = static_cast<unsigned>(random.percent(50) ? 0 : random.below(kNB + 1));
    unsigned hi = static_cast<unsigned>(random.percent(50) ? kNB : random.below(kNB + 1));
    if (at < 0) lo = std::max(lo, static_cast<unsigned>(-at));
    if (at + static_cast<int>(hi) > static_cast<int>(kElems)) hi = static_cast<unsigned>(std::max(0, static_cast<int>(kElems) - at));
    const int fill = random.percent(50) ? 0 : 0x8000;
    dut.rd_valid_i = w.valid;
    dut.rd_half_i = static_cast<unsigned char>(rh);
    dut.rd_two_i = w.two;
    dut.rd_elem_i = static_cast<unsigned short>((at + static_cast<int>(kWrap)) % static_cast<int>(kWrap));
    dut.rd_lo_i = static_cast<unsigned char>(lo);
    dut.rd_hi_i = static_cast<unsigned char>(hi);
    dut.rd_fill_i = static_cast<unsigned short>(fill);
    dut.rd_tag_i = static_cast<unsigned short>(w.tag);
    for (unsigned j = 0; j < kNB; j++) {
      const bool in = j >= lo && j < hi;
      w.mask |= in ? uint64_t{1} << j : 0;
      w.lane.push_back(in ? half[w.two ? 0 : rh][static_cast<size_t>(at + static_cast<int>(j))] : fill);
      if (w.two && j < kY) w.y.push_back(in ? half[1][static_cast<size_t>(at + static_cast<int>(j))] : fill);
    }
    // an element is not written while it is read, and nothing is read before the first round has
    // ended
    for (unsigned k = 0; k < kIn; k++) {
      const unsigned lane = (begin + k + kWrap - static_cast<unsigned>(at + static_cast<int>(kWrap))) % kWrap;
      if (w.valid && (w.two || rh == wh) && lane < kNB && ((w.mask >> lane) & 1)) mask &= ~(1u << k);
    }
    dut.wr_mask_i = static_cast<unsigned char>(mask);
    for (unsigned k = 0; k < kIn; k++) {
      if ((mask >> k) & 1) half[wh][(begin + k) % kWrap] = word[k];
    }
    pipe.push_back(w);
    edge();
    const Window& out = pipe[1];
    check.that(dut.out_valid_o == out.valid, "out_valid_o");
    if (out.valid) {
      check.that(dut.out_tag_o == out.tag, "tag");
      for (unsigned j = 0; j < kNB; j++) {
        const int have = static_cast<int>(unit::get(dut.out_data_o, j * 16, 16));
        if (out.lane[j] >= 0) check.that(have == out.lane[j], "lane %u is %04x, not %04x", j, static_cast<unsigned>(have), static_cast<unsigned>(out.lane[j]));
      }
      for (unsigned j = 0; j < out.y.size(); j++) {
        const int have = static_cast<int>(unit::get(dut.out_two_o, j * 16, 16));
        if (out.y[j] >= 0) check.that(have == out.y[j], "second window: lane %u is %04x, not %04x", j, static_cast<unsigned>(have), static_cast<unsigned>(out.y[j]));
      }
    }
    pipe.pop_front();
  }
  return check.passed();
}
