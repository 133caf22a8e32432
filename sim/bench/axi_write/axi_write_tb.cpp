// axi_write_tb: random commands and beats to a random slave: stalls on every channel, data before
// or after their address, late answers, errors, flushes in the middle, bursts that are never
// answered. Then the promised figures: a beat and an address per cycle.
#include <cinttypes>
#include <deque>
#include <vector>

#include "Vaxi_write.h"
#include "bench/tb.hpp"
#include "bits.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kOut = 16;

struct Command {
  uint64_t addr;
  unsigned beats;
};

struct Beat {
  uint64_t addr;
  uint64_t data[AXI_BYTES / 8];
  unsigned strb;
};

struct Burst {  // announced; waits for its data, then for its answer
  uint64_t addr;
  unsigned beats, id, got = 0;
  bool never = false;
  uint64_t ready_at = 0;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("axi_write", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) tick();
    dut_.rst_ni = 1;
  }

  unsigned aw_ready = 100, w_ready = 100, cmd_valid = 100, wb_valid = 100;  // per cent
  unsigned latency_lo = 1, latency_hi = 1;                                  // cycles from last beat to answer
  unsigned error = 0, never = 0;                                            // per cent of bursts
  bool mute = false;                                                        // no answers

  tb::Random& random() { return random_; }
  tb::Checks& check() { return check_; }
  std::vector<Burst>& slave() { return slave_; }
  std::vector<uint64_t> w_cycles, aw_cycles;
  uint64_t errors_seen = 0, zero_beats = 0, data_first = 0;

  void write(uint64_t addr, unsigned beats, bool full = false) {
    commands_.push_back({addr, beats});
    for (unsigned i = 0; i < beats; i++) {
      Beat b;
      b.addr = addr + uint64_t{i} * AXI_BYTES;
      for (auto& d : b.data) d = random_.next();
      b.strb = static_cast<unsigned>(random_.next()) & ((1u << AXI_BYTES) - 1);
      if (full || random_.percent(50)) b.strb = (1u << AXI_BYTES) - 1;
      to_give_.push_back(b);
    }
  }

  bool idle() {
    dut_.clk_i = 0;
    dut_.eval();
    return dut_.idle_o;
  }

  void tick() {
    cmd_held_ = !commands_.empty() && (cmd_held_ || random_.percent(cmd_valid));
    dut_.cmd_valid_i = cmd_held_;
    dut_.cmd_addr_i = cmd_held_ ? commands_.front().addr : random_.next() & 0xFFFFFFFFFF;
    dut_.cmd_beats_i = cmd_held_ ? commands_.front().beats : 0;
    wb_held_ = !to_give_.empty() && (wb_held_ || random_.percent(wb_valid));
    dut_.wb_valid_i = wb_held_;
    for (unsigned w = 0; w < AXI_BYTES / 8; w++)
      sluice::set_bytes<8>(dut_.wb_data_i, w, wb_held_ ? to_give_.front().data[w] : random_.next());
    dut_.wb_strb_i = wb_held_ ? to_give_.front().strb : random_.below(1u << AXI_BYTES);
    dut_.m_awready_i = random_.percent(aw_ready);
    dut_.m_wready_i = random_.percent(w_ready);
    drive_b();
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      observe();
      take();
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  void flush(bool expect_idle = true) {
    dut_.flush_i = 1;
    flushing_ = true;
    tick();
    errors_.clear();
    // A flush may also stop the client at once, or the client goes on offering until the end.
    if (random_.percent(50)) forget();
    unsigned waited = 0;
    while (!idle() && waited++ < 20000) tick();
    if (expect_idle) check_.that(idle(), "flush does not end");
    forget();
    if (!idle()) return;
    check_.that(given_.empty(), "%zu beats taken were lost", given_.size());
    check_.that(announced_.empty() && w_early_ == 0, "a burst announced was not completed");
    end_flush();
    epoch_moved_ = true;
  }
  void forget() {
    commands_.clear();
    to_give_.clear();
    cmd_held_ = wb_held_ = false;
  }
  void end_flush() {
    dut_.flush_i = 0;
    flushing_ = false;
  }

  void drain(unsigned limit = 200000) {
    unsigned waited = 0;
    while ((!commands_.empty() || !to_give_.empty() || !idle()) && waited++ < limit) tick();
    check_.that(commands_.empty() && to_give_.empty() && idle(), "not done within %u cycles",
                limit);
    check_.that(given_.empty() && announced_.empty(), "idle although data are owed");
    tick();
    tick();
    check_.that(errors_.empty(), "%zu errors were not reported", errors_.size());
  }

 private:
  struct Error {
    uint32_t addr;
    bool decerr;
  };

  void drive_b() {
    b_pending_ = -1;
    if (!mute && random_.percent(70)) {
      std::vector<int> eligible;
      bool seen[4] = {};
      for (size_t i = 0; i < slave_.size(); i++) {
        if (seen[slave_[i].id]) continue;
        seen[slave_[i].id] = true;
        if (!slave_[i].never && slave_[i].ready_at <= now_) eligible.push_back(static_cast<int>(i));
      }
      if (!eligible.empty()) b_pending_ = eligible[random_.below(eligible.size())];
    }
    dut_.m_bvalid_i = b_pending_ >= 0;
    dut_.m_bid_i = b_pending_ >= 0 ? slave_[static_cast<size_t>(b_pending_)].id : random_.below(4);
    dut_.m_bresp_i = random_.percent(error) ? 2 + random_.below(2) : random_.below(2);
  }

  void observe() {
    check_.that(dut_.bytes_o == bytes_, "bytes_o is %u instead of %u", dut_.bytes_o, bytes_);
    check_.that(dut_.stall_o == stalled_, "stall_o wrong");
    check_.that(dut_.progress_o == progress_, "progress_o wrong");
    if (dut_.err_valid_o) {
      check_.that(!errors_.empty(), "an error is reported that was not answered");
      check_.that(dut_.err_addr_o == errors_.front().addr, "error at %x instead of %x",
                  dut_.err_addr_o, errors_.front().addr);
      check_.that(dut_.err_decerr_o == errors_.front().decerr, "SLVERR and DECERR mixed up");
      errors_.pop_front();
      errors_seen++;
    } else {
      check_.that(errors_.empty() || flushing_, "an error was not reported at once");
    }
    check_.that(!(dut_.flush_i && (dut_.cmd_ready_o || dut_.wb_ready_o)), "taken during a flush");
    check_.that(!dut_.idle_o || slave_present() == 0, "idle_o although an answer is owed");
  }
  unsigned slave_present() const {
    unsigned n = 0;
    for (const auto& b : slave_) n += b.id == dut_.m_awid_o;
    return n;
  }

  void take() {
    progress_ = false;
    if (cmd_held_ && dut_.cmd_ready_o) {
      commands_.pop_front();
      cmd_held_ = false;
    }
    if (wb_held_ && dut_.wb_ready_o) {
      given_.push_back(to_give_.front());
      to_give_.pop_front();
      wb_held_ = false;
    }
    if (b_pending_ >= 0) {
      const Burst b = slave_[static_cast<size_t>(b_pending_)];
      if (b.id == dut_.m_awid_o) {
        progress_ = true;
        if (!flushing_ && dut_.m_bresp_i >= 2)
          errors_.push_back({static_cast<uint32_t>(b.addr), dut_.m_bresp_i == 3});
      }
      slave_.erase(slave_.begin() + b_pending_);
    }
    if (dut_.m_awvalid_o && dut_.m_awready_i) {
      Burst b;
      b.addr = dut_.m_awaddr_o;
      b.beats = dut_.m_awlen_o + 1u;
      b.id = dut_.m_awid_o;
      b.never = random_.percent(never);
      check_.that(b.beats <= MAX_BURST, "burst of %u beats", b.beats);
      check_.that(b.addr / 4096 == (b.addr + uint64_t{b.beats} * AXI_BYTES - 1) / 4096,
                  "burst at %" PRIx64 " of %u beats crosses 4 KiB", b.addr, b.beats);
      unsigned same = 0;
      for (const auto& o : slave_) same += o.id == b.id;
      for (const auto& o : announced_) same += o.id == b.id;
      check_.that(same < kOut, "more than %u bursts outstanding", kOut);
      if (epoch_moved_) check_.that(same == 0, "an ID is used again while it owes answers");
      epoch_moved_ = false;
      announced_.push_back(b);
      aw_cycles.push_back(now_);
      progress_ = true;
    }
    const bool taken = dut_.m_wvalid_o && dut_.m_wready_i;
    stalled_ = dut_.m_wvalid_o && !dut_.m_wready_i;
    bytes_ = taken ? static_cast<unsigned>(__builtin_popcount(dut_.m_wstrb_o)) : 0;
    if (taken) {
      progress_ = true;
      w_cycles.push_back(now_);
      W w;
      w.last = dut_.m_wlast_o;
      w.zero = given_.empty();
      if (given_.empty()) {
        check_.that(flushing_ && dut_.m_wstrb_o == 0, "a beat nobody gave, with strobes %x",
                    dut_.m_wstrb_o);
        zero_beats++;
      } else {
        const Beat& g = given_.front();
        check_.that(dut_.m_wstrb_o == g.strb, "strobes of %" PRIx64, g.addr);
        for (unsigned i = 0; i < AXI_BYTES / 8; i++)
          check_.that(sluice::get_bytes<8>(dut_.m_wdata_o, i) == g.data[i], "data of %" PRIx64,
                      g.addr);
        w.addr = g.addr;
        given_.pop_front();
      }
      early_.push_back(w);
    }
    // Match data with addresses, whichever came first.
    while (!early_.empty() && !announced_.empty()) {
      Burst& b = announced_.front();
      const W w = early_.front();
      early_.pop_front();
      check_.that(w.zero || w.addr == b.addr + uint64_t{b.got} * AXI_BYTES,
                  "data of %" PRIx64 " sent to %" PRIx64, w.addr,
                  b.addr + uint64_t{b.got} * AXI_BYTES);
      b.got++;
      check_.that(w.last == (b.got == b.beats), "wlast misplaced");
      if (b.got < b.beats) continue;
      b.ready_at = now_ + random_.range(latency_lo, latency_hi);
      slave_.push_back(b);
      announced_.pop_front();
    }
    w_early_ = early_.size();
    data_first += w_early_ > 0;
  }

  struct W {
    uint64_t addr = 0;
    bool last = false, zero = false;
  };

  Vaxi_write dut_;
  tb::Random random_;
  tb::Checks check_;
  uint64_t now_ = 0;
  std::deque<Command> commands_;
  std::deque<Beat> to_give_, given_;
  std::deque<Burst> announced_;
  std::deque<W> early_;
  size_t w_early_ = 0;
  std::vector<Burst> slave_;  // complete, unanswered
  std::deque<Error> errors_;
  int b_pending_ = -1;
  bool cmd_held_ = false, wb_held_ = false;
  bool flushing_ = false, epoch_moved_ = false;
  bool progress_ = false, stalled_ = false;
  unsigned bytes_ = 0;
};

void random_commands(Bench& b, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    uint64_t addr = b.random().below(uint64_t{1} << 40);
    if (b.random().percent(50)) addr = (addr & ~0xFFFull) + 4096 - b.random().below(40) * 8;
    addr &= ((uint64_t{1} << 40) - 1) & ~uint64_t{AXI_BYTES - 1};
    if (addr > 0xFFFFFF0000) addr = 0x1000;
    b.write(addr,
            static_cast<unsigned>(b.random().percent(60) ? b.random().range(1, 20)
                                                         : b.random().range(1, 3000 / AXI_BYTES)));
  }
}

void random_knobs(Bench& b) {
  static const unsigned kShare[] = {100, 100, 80, 50, 20};
  b.aw_ready = kShare[b.random().below(5)];
  b.w_ready = kShare[b.random().below(5)];
  b.cmd_valid = kShare[b.random().below(5)];
  b.wb_valid = kShare[b.random().below(5)];
  b.latency_lo = static_cast<unsigned>(b.random().range(1, 30));
  b.latency_hi = b.latency_lo + static_cast<unsigned>(b.random().below(50));
}

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench b(args);
  const unsigned rounds = args.n ? static_cast<unsigned>(args.n) : 60;

  for (unsigned round = 0; round < rounds; round++) {
    random_knobs(b);
    b.error = round % 3 == 2 ? 10 : 0;
    random_commands(b, 20);
    if (round % 2) {
      for (uint64_t i = b.random().below(1500); i > 0; i--) b.tick();
      b.mute = b.random().percent(50);
      b.flush();
      random_commands(b, 3);
      for (uint64_t i = b.random().below(20); i > 0; i--) b.tick();
      b.mute = false;
    }
    b.drain();
    for (int i = 0; i < 2000 && !b.slave().empty(); i++) b.tick();
  }
  if (rounds >= 60) {
    b.check().that(b.errors_seen > 0, "no error response was exercised");
    b.check().that(b.zero_beats > 0, "no announced burst was completed by a flush");
    b.check().that(b.data_first > 0, "data never came before their address");
  }
  b.error = 0;
  b.cmd_valid = b.wb_valid = b.aw_ready = b.w_ready = 100;

  // Never answered: three epochs may be lost; the fourth waits for an old answer.
  for (int lost = 0; lost < 3; lost++) {
    b.never = 100;
    b.write(0x1000, 64);
    for (int i = 0; i < 100; i++) b.tick();
    b.check().that(!b.idle(), "idle although answers are owed");
    b.flush();
    b.never = 0;
    random_commands(b, 10);
    b.drain();
  }
  b.never = 100;
  b.write(0x2000, 64);
  for (int i = 0; i < 100; i++) b.tick();
  b.flush(false);
  b.check().that(!b.idle(), "flush ends although no ID is free");
  for (auto& burst : b.slave()) burst.never = false;
  for (int i = 0; i < 2000 && !b.idle(); i++) b.tick();
  b.check().that(b.idle(), "flush does not end although the old bursts were answered");
  for (int i = 0; i < 2000 && !b.slave().empty(); i++) b.tick();
  b.end_flush();
  b.never = 0;
  random_commands(b, 10);
  b.drain();

  // A beat per cycle over bursts and commands, with the longest answer time that MAX_OUT bursts can
  // hide.
  b.latency_lo = b.latency_hi = 60;
  b.w_cycles.clear();
  b.aw_cycles.clear();
  b.write(0x10000, 1000, true);
  b.write(0x20000 + 5 * AXI_BYTES, 1000, true);
  b.drain();
  b.check().that(b.w_cycles.size() == 2000, "%zu beats", b.w_cycles.size());
#ifdef P_WITH_DATA
  const uint64_t more = b.aw_cycles.size() - 1;  // an address goes when the burst before it has its last beat
#else
  const uint64_t more = 0;
#endif
  b.check().that(b.w_cycles.back() - b.w_cycles.front() == 1999 + more, "2000 beats took %" PRIu64,
                 b.w_cycles.back() - b.w_cycles.front() + 1);
  // Commands of one beat: an address a cycle until MAX_OUT are outstanding.
  b.aw_cycles.clear();
  for (unsigned i = 0; i < kOut; i++) b.write(0x40000 + i * 4096, 1);
  b.drain();
  b.check().that(b.aw_cycles.back() - b.aw_cycles.front() == (kOut - 1) * (more != 0 ? 2 : 1),
                 "%u addresses took %" PRIu64 " cycles", kOut,
                 b.aw_cycles.back() - b.aw_cycles.front() + 1);
  return b.check().passed();
}
