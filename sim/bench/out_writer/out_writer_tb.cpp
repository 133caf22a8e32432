// out_writer_tb: runs at every alignment and of every short length, words in groups of any size,
// back pressure on commands and beats. The beats must change exactly the run's words, and aligned
// runs must follow each other without a bubble.
#include "Vout_writer.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kIn = P_IN_WORDS, kWPB = P_AXI_BYTES / 2;

struct Run {
  uint64_t address;
  unsigned elems;
};
struct Word {
  uint64_t address;
  uint16_t value;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("out_writer", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 2; i++) cycle();
    dut_.rst_ni = 1;
  }

  void add(uint64_t address, unsigned elems) {
    runs_.push_back({address, elems});
    // groups of words, none with words of two runs
    for (unsigned k = 0; k < elems;) {
      const unsigned cnt =
          std::min(whole ? kIn : static_cast<unsigned>(random_.range(1, kIn)), elems - k);
      groups_.push_back(cnt);
      for (unsigned i = 0; i < cnt; i++, k++)
        words_.push_back({address + 2 * k, static_cast<uint16_t>(random_.next())});
    }
  }

  void finish_runs() {
    unsigned waited = 0;
    while (!runs_.empty() || !groups_.empty() || !commands_.empty()) {
      cycle();
      check_.that(++waited < 200000, "runs do not end");
    }
    for (int i = 0; i < 3; i++) cycle();
    check_.that(words_.empty() && got_ == 0, "words left over");
    settle();
    check_.that(dut_.idle_o, "not idle");
  }

  unsigned run_valid = 100, in_valid = 100, cmd_ready = 100, wb_ready = 100;
  bool whole = false;  // full groups only
  uint64_t now() const { return now_; }
  tb::Random& random() { return random_; }
  tb::Checks& check() { return check_; }

 private:
  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  void cycle() {
    const bool run = dut_.rst_ni && !runs_.empty() && (run_held_ || random_.percent(run_valid));
    dut_.run_valid_i = run;
    dut_.run_addr_i = run ? runs_.front().address : 2 * random_.below(1 << 20);
    dut_.run_elems_i = run ? runs_.front().elems : static_cast<unsigned>(random_.range(1, 99));
    const bool in = dut_.rst_ni && !groups_.empty() && (in_held_ || random_.percent(in_valid));
    dut_.valid_i = in;
    const unsigned cnt = in ? groups_.front() : static_cast<unsigned>(random_.range(1, kIn));
    dut_.cnt_i = static_cast<unsigned char>(cnt);
    for (unsigned i = 0; i < kIn; i++) {
      unit::put(dut_.data_i, i * 16, 16,
                in && i < cnt ? words_[pushed_ + i].value : random_.next());
    }
    dut_.cmd_ready_i = random_.percent(cmd_ready);
    dut_.wb_ready_i = random_.percent(wb_ready);
    settle();
    if (!dut_.rst_ni) return edge();
    if (dut_.cmd_valid_o && dut_.cmd_ready_i) {
      check_.that(run && dut_.run_ready_o, "a command without its run");
      const Run& r = runs_.front();
      const uint64_t first = r.address / P_AXI_BYTES,
                     last = (r.address + 2 * r.elems - 1) / P_AXI_BYTES;
      check_.that(dut_.cmd_addr_o == first * P_AXI_BYTES, "address of a command");
      check_.that(dut_.cmd_beats_o == last - first + 1, "%u beats, not %" PRIu64, dut_.cmd_beats_o,
                  last - first + 1);
      for (uint64_t b = first; b <= last; b++) commands_.push_back(b * P_AXI_BYTES);
    }
    run_held_ = run && !dut_.run_ready_o;
    if (run && dut_.run_ready_o) {
      check_.that(dut_.cmd_valid_o && dut_.cmd_ready_i, "a run without its command");
      runs_.pop_front();
    }
    in_held_ = in && !dut_.ready_o;
    if (in && dut_.ready_o) {
      pushed_ += cnt;
      groups_.pop_front();
    }
    if (wb_held_) {
      check_.that(
          dut_.wb_valid_o && std::memcmp(&dut_.wb_data_o, &held_data_, sizeof held_data_) == 0,
          "a beat changes while it waits");
    }
    wb_held_ = dut_.wb_valid_o && !dut_.wb_ready_i;
    held_data_ = dut_.wb_data_o;
    if (dut_.wb_valid_o) check_.that(!dut_.idle_o, "idle with a beat");
    if (dut_.wb_valid_o && dut_.wb_ready_i) {
      check_.that(!commands_.empty(), "a beat without a command");
      beat_at_ = now_;
      const uint64_t address = commands_.front();
      commands_.pop_front();
      for (unsigned i = 0; i < kWPB; i++) {
        const unsigned strobe = (uint64_t{dut_.wb_strb_o} >> (2 * i)) & 3;
        check_.that(strobe == 0 || strobe == 3, "half a word");
        if (!strobe) continue;
        check_.that(!words_.empty() && pushed_ > 0, "a word too many");
        check_.that(words_.front().address == address + 2 * i,
                    "a word at %" PRIx64 ", not %" PRIx64, address + 2 * i, words_.front().address);
        const unsigned value = static_cast<unsigned>(unit::get(dut_.wb_data_o, i * 16, 16));
        check_.that(words_.front().value == value, "%04x, not %04x", value, words_.front().value);
        words_.pop_front();
        pushed_--;
      }
    }
    got_ = pushed_;
    edge();
  }
  void edge() {
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  tb::Random random_;
  tb::Checks check_;
  Vout_writer dut_;
  std::deque<Run> runs_;
  std::deque<unsigned> groups_;
  std::deque<Word> words_;
  std::deque<uint64_t> commands_;  // addresses of the beats announced
  uint64_t now_ = 0, beat_at_ = 0;
  unsigned pushed_ = 0, got_ = 0;
  bool run_held_ = false, in_held_ = false, wb_held_ = false;
  std::remove_reference_t<decltype(Vout_writer::wb_data_o)> held_data_{};
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench b(args);
  const auto knob = [&] {
    return static_cast<unsigned>(b.random().percent(50) ? 100 : b.random().range(10, 100));
  };
  // every alignment with every short length
  for (int round = 0; round < 2; round++) {
    for (unsigned skip = 0; skip < kWPB; skip++) {
      for (unsigned elems = 1; elems <= 3 * kWPB + 1; elems++)
        b.add(64 * b.random().below(1 << 20) + 2 * skip, elems);
    }
    b.finish_runs();
    b.cmd_ready = 50;
    b.wb_ready = 60;
    b.in_valid = 70;
  }
  for (uint64_t i = 0; i < (args.n ? args.n : 100); i++) {
    b.run_valid = knob();
    b.in_valid = knob();
    b.cmd_ready = knob();
    b.wb_ready = knob();
    for (int k = 0; k < 20; k++) {
      const unsigned most = b.random().percent(20) ? 300 : 20;
      b.add(2 * b.random().below(1 << 30), static_cast<unsigned>(b.random().range(1, most)));
    }
    b.finish_runs();
  }
  // aligned runs without a bubble: the slower side, in or out, limits the throughput
  b.run_valid = b.in_valid = b.cmd_ready = b.wb_ready = 100;
  b.whole = true;
  const unsigned unit_words = kIn > kWPB ? kIn : kWPB;
  const uint64_t begin = b.now();
  for (int k = 0; k < 50; k++) b.add(1024ull * static_cast<unsigned>(k), unit_words * 2);
  b.finish_runs();
  const uint64_t slow = kIn < kWPB ? kIn : kWPB;
  const uint64_t ideal = 50ull * unit_words * 2 / slow;
  b.check().that(b.now() - begin <= ideal + 10,
                 "%" PRIu64 " cycles for aligned runs, ideally %" PRIu64, b.now() - begin, ideal);
  return b.check().passed();
}
