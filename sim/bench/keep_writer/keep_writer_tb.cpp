// keep_writer_tb: random runs of words, some kept and some not, at random times. Kept words must be
// in their half from the run's element on, in order, one cycle after they were taken; nothing else
// may be written. A run must be able to follow the previous one without a cycle in between.
#include "Vkeep_writer.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kIn = P_IN_WORDS, kMask = (1u << P_EW) - 1;

struct Word {
  unsigned half, elem;
  uint16_t data;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("keep_writer", args.seed) {}

  void start(unsigned n) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) cycle(false);
    dut_.rst_ni = 1;
    left_ = 0;
    runs_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(5, 100));
    words_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(5, 100));
    full_ = random_.percent(40);
    for (unsigned i = 0; i < n; i++) cycle(true);
  }
  int finish() { return check_.passed(); }

 private:
  void cycle(bool run) {
    const bool in_hand = left_ > 0;
    unsigned count = static_cast<unsigned>(full_ ? kIn : random_.range(1, kIn));
    if (in_hand) count = std::min(count, left_);  // words of two runs never come together
    dut_.word_i = random_.percent(words_);
    dut_.cnt_i = static_cast<unsigned char>(count);
    std::vector<uint16_t> data;
    for (unsigned i = 0; i < kIn; i++) {
      data.push_back(static_cast<uint16_t>(random_.next()));
      unit::put(dut_.data_i, 16 * i, 16, data[i]);
    }
    const bool taken = dut_.rst_ni && in_hand && dut_.word_i, free = !in_hand || (taken && left_ == count);
    const unsigned half = static_cast<unsigned>(random_.below(2)), elem = static_cast<unsigned>(random_.next()) & kMask;
    const unsigned elems = static_cast<unsigned>(random_.percent(50) ? random_.range(1, 3 * kIn) : random_.range(1, 500));
    const bool take = run && free && random_.percent(runs_);
    dut_.run_i = take;
    dut_.run_half_i = half;
    dut_.run_elem_i = static_cast<unsigned short>(elem);
    dut_.run_elems_i = elems;
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      check_.that(dut_.busy_o == in_hand, "busy_o");
      check_.that(dut_.free_o == free, "free_o");
    }
    look();
    expected_.clear();
    if (taken) {
      for (unsigned i = 0; i < count; i++) expected_.push_back({half_, (elem_ + i) & kMask, data[i]});
      elem_ += count;
      left_ -= count;
    }
    if (take) {
      half_ = half;
      elem_ = elem;
      left_ = elems;
    }
    dut_.clk_i = 1;
    dut_.eval();
  }

  // The words taken one cycle ago.
  void look() {
    size_t next = 0;
    for (unsigned i = 0; i < kIn; i++) {
      if (!((dut_.wr_mask_o >> i) & 1)) continue;
      check_.that(next < expected_.size(), "a word is written that is not kept");
      const Word& w = expected_[next++];
      check_.that(dut_.wr_half_o == w.half, "half");
      check_.that(((dut_.wr_elem_o + i) & kMask) == w.elem, "element %u, not %u", (dut_.wr_elem_o + i) & kMask, w.elem);
      check_.that(unit::get(dut_.wr_data_o, 16 * i, 16) == w.data, "data of element %u", w.elem);
    }
    check_.that(next == expected_.size(), "%zu words written, not %zu", next, expected_.size());
  }

  tb::Random random_;
  tb::Checks check_;
  Vkeep_writer dut_;
  std::vector<Word> expected_;
  unsigned half_ = 0, elem_ = 0, left_ = 0;
  unsigned runs_ = 100, words_ = 100;
  bool full_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 60); i++) bench.start(500);
  return bench.finish();
}
