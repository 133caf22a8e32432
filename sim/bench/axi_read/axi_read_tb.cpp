// axi_read_tb: random requests of four clients to a random slave: stalls, answers out of order
// between IDs, error responses, flushes in the middle, bursts that are never answered. Then the
// promised figures: a beat per cycle, an address per cycle, fair turns.
#include <cinttypes>
#include <deque>
#include <vector>

#include "Vaxi_read.h"
#include "bench/tb.hpp"
#include "bits.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kClients = 4;
constexpr unsigned kOut = P_MAX_OUT;

uint64_t word_at(uint64_t addr) { return tb::Random(addr).next(); }

struct Burst {
  uint64_t addr;
  unsigned beats, id, done = 0;
  bool never = false;
  uint64_t ready_at = 0;
};

struct Beat {
  uint64_t addr;
  bool last;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("axi_read", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) tick();
    dut_.rst_ni = 1;
  }

  // Knobs of the slave.
  unsigned ar_ready = 100, r_valid = 100;  // per cent
  unsigned latency_lo = 1, latency_hi = 1;
  unsigned error = 0, never = 0;  // per cent of beats, bursts
  bool mute = false;              // answers nothing

  tb::Random& random() { return random_; }
  tb::Checks& check() { return check_; }
  Vaxi_read& dut() { return dut_; }
  uint64_t now() const { return now_; }

  void ask(unsigned client, uint64_t addr, unsigned beats) {
    want_[client].push_back({addr, beats});
  }
  bool asked() const {
    for (const auto& w : want_)
      if (!w.empty()) return true;
    for (const auto& e : expect_)
      if (!e.empty()) return true;
    return false;
  }
  void forget_requests() {
    for (auto& w : want_) w.clear();
  }
  std::vector<Burst>& slave() { return slave_; }
  std::vector<unsigned> granted;      // client of each address taken, by its region
  std::vector<uint64_t> beat_cycles;  // when beats came out
  std::vector<uint64_t> ar_cycles;    // when addresses were taken
  uint64_t errors_seen = 0;

  void tick() {
    // Inputs of this cycle.
    for (unsigned c = 0; c < kClients; c++) {
      const bool valid = !want_[c].empty() && (holding_[c] || random_.percent(req_valid));
      holding_[c] = valid;
      sluice::set_field(dut_.req_valid_i, c, 1, valid);
      const uint64_t addr = valid ? want_[c].front().addr : random_.next();
      sluice::set_bytes<5>(dut_.req_addr_i, c, addr);
      sluice::set_bytes<2>(dut_.req_beats_i, c, valid ? want_[c].front().beats : 0);
    }
    dut_.m_arready_i = random_.percent(ar_ready);
    drive_r();
    dut_.clk_i = 0;
    dut_.eval();

    // What the next edge takes, and the values of the outputs.
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
    for (auto& e : expect_) e.clear();  // from here on nothing may come out
    errors_.clear();
    unsigned waited = 0;
    while (!idle() && waited++ < 300) tick();
    if (expect_idle) check_.that(idle(), "flush does not end");
    if (!idle()) return;
    dut_.flush_i = 0;
    flushing_ = false;
    epoch_moved_ = true;
  }
  void end_flush() {
    dut_.flush_i = 0;
    flushing_ = false;
  }
  bool idle() {
    dut_.clk_i = 0;
    dut_.eval();
    return dut_.idle_o;
  }
  void drain(unsigned limit = 200000) {
    unsigned waited = 0;
    while ((asked() || !idle()) && waited++ < limit) tick();
    check_.that(!asked() && idle(), "requests are not answered within %u cycles", limit);
    tick();
    tick();
    check_.that(errors_.empty(), "%zu errors were not reported", errors_.size());
  }
  unsigned req_valid = 100;
  unsigned stuck_id() const { return static_cast<unsigned>(dut_.m_arid_o); }

 private:
  struct Want {
    uint64_t addr;
    unsigned beats;
  };

  void drive_r() {
    if (r_pending_ < 0 && !mute && random_.percent(r_valid)) {
      // One eligible burst: the first of its ID that is not stuck behind a never-answered one.
      std::vector<int> eligible;
      bool seen[4] = {};
      for (size_t i = 0; i < slave_.size(); i++) {
        if (seen[slave_[i].id]) continue;
        seen[slave_[i].id] = true;
        if (!slave_[i].never && slave_[i].ready_at <= now_) eligible.push_back(static_cast<int>(i));
      }
      if (!eligible.empty()) r_pending_ = eligible[random_.below(eligible.size())];
    }
    dut_.m_rvalid_i = r_pending_ >= 0;
    const Burst idle{random_.next(), 1, static_cast<unsigned>(random_.below(4))};
    const Burst& b = r_pending_ >= 0 ? slave_[static_cast<size_t>(r_pending_)] : idle;
    const uint64_t addr = b.addr + uint64_t{b.done} * AXI_BYTES;
    for (unsigned w = 0; w < AXI_BYTES / 8; w++)
      sluice::set_bytes<8>(dut_.m_rdata_i, w, word_at(addr + 8 * w));
    dut_.m_rid_i = b.id & 3;
    dut_.m_rlast_i = b.done + 1 == b.beats;
    dut_.m_rresp_i = random_.percent(error) ? 2 + random_.below(2) : random_.below(2);
  }

  void observe() {
    const unsigned valid = dut_.rsp_valid_o;
    check_.that((valid & (valid - 1)) == 0, "two clients answered in one cycle");
    for (unsigned c = 0; c < kClients; c++) {
      if (!(valid >> c & 1)) continue;
      check_.that(!expect_[c].empty(), "client %u answered without asking", c);
      const Beat beat = expect_[c].front();
      expect_[c].pop_front();
      for (unsigned w = 0; w < AXI_BYTES / 8; w++) {
        const uint64_t got = sluice::get_bytes<8>(dut_.rsp_data_o, w);
        check_.that(got == word_at(beat.addr + 8 * w), "client %u: wrong data for %" PRIx64, c,
                    beat.addr);
      }
      check_.that(dut_.rsp_last_o == beat.last, "client %u: rsp_last wrong at %" PRIx64, c,
                  beat.addr);
      beat_cycles.push_back(now_);
    }
    check_.that(dut_.beat_o == beat_taken_, "beat_o does not count a beat taken");
    check_.that(dut_.stall_o == stalled_, "stall_o wrong");
    check_.that(dut_.progress_o == (beat_taken_ || ar_taken_), "progress_o wrong");
    if (dut_.err_valid_o) {
      check_.that(!errors_.empty(), "an error is reported that was not answered");
      check_.that(dut_.err_addr_o == static_cast<uint32_t>(errors_.front().addr),
                  "error at %x instead of %" PRIx64, dut_.err_addr_o, errors_.front().addr);
      check_.that(dut_.err_decerr_o == errors_.front().last, "SLVERR and DECERR mixed up");
      errors_.pop_front();
      errors_seen++;
    } else {
      check_.that(errors_.empty() || flushing_, "an error was not reported at once");
    }
  }

  void take() {
    for (unsigned c = 0; c < kClients; c++) {
      const bool ready = dut_.req_ready_o >> c & 1;
      check_.that(!(ready && dut_.flush_i), "a request is taken during a flush");
      if (!ready || !holding_[c]) continue;
      holding_[c] = false;
      const Want w = want_[c].front();
      want_[c].pop_front();
      for (unsigned i = 0; i < w.beats; i++)
        expect_[c].push_back({w.addr + uint64_t{i} * AXI_BYTES, i + 1 == w.beats});
    }
    beat_taken_ = false;
    if (r_pending_ >= 0) {
      Burst& b = slave_[static_cast<size_t>(r_pending_)];
      const bool present = owed(b.id) && b.id == dut_.m_arid_o;
      beat_taken_ = present;
      if (present && !flushing_ && dut_.m_rresp_i >= 2)
        errors_.push_back({b.addr + uint64_t{b.done} * AXI_BYTES, dut_.m_rresp_i == 3});
      if (++b.done == b.beats) slave_.erase(slave_.begin() + r_pending_);
      r_pending_ = -1;
    }
    ar_taken_ = dut_.m_arvalid_o && dut_.m_arready_i;
    stalled_ = dut_.m_arvalid_o && !dut_.m_arready_i;
    if (ar_taken_) {
      Burst b;
      b.addr = sluice::get_bytes<5>(dut_.m_araddr_o, 0);
      b.beats = dut_.m_arlen_o + 1u;
      b.id = dut_.m_arid_o;
      b.never = random_.percent(never);
      b.ready_at = now_ + random_.range(latency_lo, latency_hi);
      check_.that(b.beats <= MAX_BURST, "burst of %u beats", b.beats);
      check_.that(b.addr % AXI_BYTES == 0, "burst at %" PRIx64, b.addr);
      check_.that(b.addr / 4096 == (b.addr + uint64_t{b.beats} * AXI_BYTES - 1) / 4096,
                  "burst at %" PRIx64 " of %u beats crosses 4 KiB", b.addr, b.beats);
      unsigned same = 0;
      for (const auto& o : slave_) same += o.id == b.id;
      check_.that(same < kOut, "more than %u bursts outstanding", kOut);
      if (epoch_moved_) check_.that(same == 0, "an ID is used again while it owes answers");
      epoch_moved_ = false;
      granted.push_back(static_cast<unsigned>(b.addr >> 36));
      ar_cycles.push_back(now_);
      slave_.push_back(b);
    }
  }
  bool owed(unsigned id) const {
    for (const auto& b : slave_)
      if (b.id == id) return true;
    return false;
  }

  Vaxi_read dut_;
  tb::Random random_;
  tb::Checks check_;
  uint64_t now_ = 0;
  std::deque<Want> want_[kClients];
  std::deque<Beat> expect_[kClients];
  bool holding_[kClients] = {};
  std::vector<Burst> slave_;
  int r_pending_ = -1;
  std::deque<Beat> errors_;  // last: DECERR
  bool flushing_ = false, epoch_moved_ = false;
  bool beat_taken_ = false, stalled_ = false, ar_taken_ = false;
};

void random_requests(Bench& b, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    const unsigned c = static_cast<unsigned>(b.random().below(kClients));
    uint64_t addr = (uint64_t{c} << 36) | b.random().below(uint64_t{1} << 36);
    // Often near a page's end; not aligned to a beat, which must make no difference.
    if (b.random().percent(50)) addr = (addr & ~0xFFFull) + 4096 - b.random().below(40) * 8;
    addr &= (uint64_t{1} << 40) - 1;
    const unsigned beats = static_cast<unsigned>(
        b.random().percent(60) ? b.random().range(1, 20) : b.random().range(1, 3000 / AXI_BYTES));
    b.ask(c, addr & ~uint64_t{AXI_BYTES - 1}, beats);
  }
}

void random_knobs(Bench& b) {
  static const unsigned kShare[] = {100, 100, 80, 50, 20};
  b.ar_ready = kShare[b.random().below(5)];
  b.r_valid = kShare[b.random().below(5)];
  b.req_valid = kShare[b.random().below(5)];
  b.latency_lo = static_cast<unsigned>(b.random().range(1, 30));
  b.latency_hi = b.latency_lo + static_cast<unsigned>(b.random().below(50));
}

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench b(args);
  const unsigned rounds = args.n ? static_cast<unsigned>(args.n) : 400;

  // Random traffic; every third round with errors, every second with a flush in its middle.
  for (unsigned round = 0; round < rounds; round++) {
    random_knobs(b);
    b.error = round % 3 == 2 ? 5 : 0;
    random_requests(b, 40);
    if (round % 2) {
      const uint64_t cycles = b.random().below(1500);
      for (uint64_t i = 0; i < cycles; i++) b.tick();
      // The slave may hold its answers back until after the flush, so that they come late.
      b.mute = b.random().percent(50);
      b.forget_requests();
      b.flush();
      for (uint64_t i = b.random().below(20); i > 0; i--) b.tick();
      random_requests(b, 5);
      for (uint64_t i = b.random().below(20); i > 0; i--) b.tick();
      b.mute = false;
    }
    b.drain();
    // Old answers that are still pending must not affect the records of the next round.
    for (int i = 0; i < 2000 && !b.slave().empty(); i++) b.tick();
  }
  b.check().that(rounds < 400 || b.errors_seen > 0, "no error response was exercised");
  b.error = 0;
  b.req_valid = 100;

  // Never answered: each of three epochs may be lost, and traffic goes on in the fourth.
  b.ar_ready = b.r_valid = 100;
  for (int lost = 0; lost < 3; lost++) {
    b.never = 100;
    b.ask(0, 0x1000, 64);
    for (int i = 0; i < 100; i++) b.tick();
    b.check().that(!b.idle(), "idle although answers are owed");
    b.flush();
    b.never = 0;
    random_requests(b, 10);
    b.drain();
  }
  // The fourth time no ID is free, so the flush cannot end until an old burst is answered.
  b.never = 100;
  b.ask(1, 0x2000, 64);
  for (int i = 0; i < 100; i++) b.tick();
  b.flush(false);
  b.check().that(!b.idle(), "flush ends although no ID is free");
  for (auto& burst : b.slave()) burst.never = false;
  for (int i = 0; i < 2000 && !b.idle(); i++) b.tick();
  b.check().that(b.idle(), "flush does not end although the old bursts were answered");
  for (int i = 0; i < 2000 && !b.slave().empty(); i++) b.tick();
  b.end_flush();
  b.never = 0;
  random_requests(b, 20);
  b.drain();

  // One client alone: after the first beat, a beat a cycle to the end, at any alignment.
  for (unsigned shift = 0; shift < 3; shift++) {
    b.latency_lo = b.latency_hi = 60;
    b.beat_cycles.clear();
    b.ask(0, 0x10000 + shift * AXI_BYTES * 5, 2000);
    b.drain();
    b.check().that(b.beat_cycles.size() == 2000, "%zu beats", b.beat_cycles.size());
    const uint64_t span = b.beat_cycles.back() - b.beat_cycles.front() + 1;
    // An odd alignment shortens bursts, so that fewer beats are outstanding; even so no bubble.
    b.check().that(span == 2000, "2000 beats took %" PRIu64 " cycles", span);
  }
  // Requests of one beat: an address a cycle until MAX_OUT are outstanding.
  b.latency_lo = b.latency_hi = 40;
  b.ar_cycles.clear();
  for (unsigned i = 0; i < kOut; i++) b.ask(2, 0x40000 + i * 4096, 1);
  b.drain();
  b.check().that(b.ar_cycles.back() - b.ar_cycles.front() == kOut - 1,
                 "%u addresses took %" PRIu64 " cycles", kOut,
                 b.ar_cycles.back() - b.ar_cycles.front() + 1);
  // Fair turns: 0 1 2 3 0 1 2 3 while all of them ask.
  b.granted.clear();
  for (unsigned c = 0; c < kClients; c++) b.ask(c, uint64_t{c} << 36, 4 * MAX_BURST);
  b.drain();
  b.check().that(b.granted.size() == 4 * kClients, "%zu bursts", b.granted.size());
  for (unsigned i = 0; i < b.granted.size(); i++)
    b.check().that(b.granted[i] == i % kClients, "burst %u went to client %u", i, b.granted[i]);

  return b.check().passed();
}
