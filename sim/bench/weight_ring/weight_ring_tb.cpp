// weight_ring_tb: random pushes within the credit, random pops, commits held or pulsed, and rewinds
// at any time, compared with a list of all words ever pushed. A word must be able to leave three
// cycles after it came, and three cycles after a rewind. Words that are not committed stay, however
// often they are read. The credit of every word must come back once, with its commit. The
// throughput must be one word per cycle, with commits and between rewinds.
#include "Vweight_ring.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr uint64_t kMask = P_WIDTH < 64 ? (uint64_t{1} << (P_WIDTH % 64)) - 1 : ~uint64_t{0};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("weight_ring", args.seed) {}

  // The actions in a stretch of cycles, in per cent; commit: also 100 and 0, held.
  struct Mood {
    unsigned push, pop, commit, rewind;
  };

  void reset() {
    dut_.rst_ni = 0;
    for (int i = 0; i < 2; i++) cycle({0, 0, 0, 0});
    dut_.rst_ni = 1;
    words_.clear();
    taken_ = kept_ = freed_ = moved_ = 0;
    back_at_ = 0;
  }
  void random(uint64_t cycles) {
    reset();
    while (cycles > 0) {
      const auto speed = [&] { return static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(1, 100)); };
      Mood m{speed(), speed(), 0, 0};
      m.commit = static_cast<unsigned>(random_.percent(30) ? 100 : (random_.percent(40) ? 0 : random_.range(1, 60)));
      m.rewind = static_cast<unsigned>(random_.percent(40) ? 0 : random_.range(1, random_.percent(50) ? 5 : 60));
      for (uint64_t n = std::min<uint64_t>(cycles, random_.range(1, 6 * P_DEPTH)); n > 0; n--, cycles--) cycle(m);
    }
    drain();
  }
  // With every commit at once: one word per cycle.
  void streaming() {
    reset();
    for (unsigned i = 0; i < 20; i++) cycle({100, 100, 100, 0});
    const uint64_t begin = moved_;
    for (unsigned i = 0; i < 1000; i++) cycle({100, 100, 100, 0});
    // the credit's round trip takes five cycles
    check_.that(P_DEPTH < 8 || moved_ - begin == 1000, "%" PRIu64 " words in 1000 cycles", moved_ - begin);
  }
  // A full ring again and again: one word per cycle except for the three cycles of a rewind.
  void replay() {
    reset();
    while (words_.size() < P_DEPTH) cycle({100, 0, 0, 0});
    for (unsigned visit = 0; visit < 5; visit++) {
      for (unsigned i = 0; i < P_DEPTH + (visit ? 2 : 0); i++) cycle({100, 100, 0, 0});
      check_.that(taken_ == P_DEPTH, "%" PRIu64 " words of %u in as many cycles", taken_, P_DEPTH);
      for (unsigned i = 0; i < 3; i++) cycle({100, 100, 0, 0});  // no further words
      check_.that(taken_ == P_DEPTH && words_.size() == P_DEPTH, "more words than the ring has");
      cycle({100, 100, 0, 100});
    }
    drain();
  }
  int finish() { return check_.passed(); }

 private:
  void drain() {
    for (unsigned i = 0; i < 2 * P_DEPTH + 10; i++) cycle({0, 100, 100, 0});
    check_.that(taken_ == words_.size() && kept_ == taken_, "words left over");
    check_.that(freed_ == words_.size(), "%" PRIu64 " words of credit for %zu", freed_, words_.size());
  }
  void cycle(const Mood& m) {
    const bool on = dut_.rst_ni;
    const uint64_t word = random_.next() & kMask;
    dut_.valid_i = on && words_.size() - freed_ < P_DEPTH && random_.percent(m.push);
    unit::put(dut_.wdata_i, 0, P_WIDTH, word);
    dut_.ready_i = random_.percent(m.pop);
    dut_.rewind_i = random_.percent(m.rewind);
    dut_.commit_i = !dut_.rewind_i && random_.percent(m.commit);
    dut_.clk_i = 0;
    dut_.eval();
    if (on) {
      const bool there = taken_ < words_.size() && now_ >= words_[taken_].at + 3 && now_ >= back_at_ + 3;
      check_.that(dut_.valid_o == (there && !dut_.rewind_i), "valid_o %d", dut_.valid_o);
      if (dut_.valid_o) check_.that(unit::get(dut_.rdata_o, 0, P_WIDTH) == words_[taken_].value, "word %" PRIu64, taken_);
      check_.that(dut_.freed_o == (dut_.commit_i ? taken_ - kept_ : 0), "%u words freed", dut_.freed_o);
      freed_ += dut_.freed_o;
      if (dut_.commit_i) kept_ = taken_;  // not including the word taken in this cycle
      if (dut_.valid_o && dut_.ready_i) taken_++, moved_++;
      if (dut_.rewind_i) taken_ = kept_, back_at_ = now_;
      if (dut_.valid_i) words_.push_back({word, now_});
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  struct Word {
    uint64_t value, at;
  };
  tb::Random random_;
  tb::Checks check_;
  Vweight_ring dut_;
  std::vector<Word> words_;
  uint64_t taken_ = 0, kept_ = 0, freed_ = 0, moved_ = 0, back_at_ = 0, now_ = 10;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  bench.streaming();
  bench.replay();
  for (uint64_t i = 0; i < (args.n ? args.n : 20); i++) bench.random(4000);
  return bench.finish();
}
