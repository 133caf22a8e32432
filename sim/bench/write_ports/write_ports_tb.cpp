// write_ports_tb: random commands and wide beats to memories that differ from port to port: stalls
// on every channel, data before or after their address, a port that stalls for long, late answers,
// errors, flushes in the middle, bursts that are never answered on one port. Every stripe must come
// exactly once, with exactly its beats, on any port, and in order on each port. Then the content of
// memory, the bandwidth of all ports for stripes of equal and unequal length, and the same cycles
// for the same traffic after idle.
#include <algorithm>
#include <cinttypes>
#include <deque>
#include <memory>
#include <vector>

#include "Vwrite_ports.h"
#include "bench/tb.hpp"
#include "bits.hpp"
#include "verilated.h"

namespace {

#ifdef P_AW_WITH_DATA
constexpr bool kWithData = true;  // a burst's address waits for its data: a cycle more
#else
constexpr bool kWithData = false;
#endif
constexpr unsigned kPorts = P_N_AXI, kLanes = P_LANES, kBeat = P_AXI_BYTES;
constexpr unsigned kWide = kLanes * kBeat;                           // bytes of a wide beat
constexpr unsigned kBurst = kPorts == 1 ? P_MAX_BURST : P_STRIPE;    // beats of the longest burst
constexpr unsigned kStripe = kPorts == 1 ? 4096 : P_STRIPE * kBeat;  // bytes; bursts stay inside
constexpr unsigned kOut = 16;                                         // outstanding bursts per port
constexpr unsigned kCountBits = kBeat == 8 ? 4 : 5;                  // of bytes_o, a port
constexpr unsigned kAll = (1u << kBeat) - 1;

struct Command {
  uint64_t addr;
  unsigned beats;  // wide ones
};

struct Beat {
  uint64_t data[kBeat / 8];
  unsigned strb;
};

struct Wide {
  Beat lane[kLanes];
};

struct Stripe {
  uint64_t serial, addr;
  unsigned beats;
  std::vector<Beat> given;
};

struct Burst {  // announced; waits for its data, then for its answer
  uint64_t addr;
  std::shared_ptr<Stripe> stripe;
  unsigned beats, id = 0, got = 0;
  bool never = false;
  uint64_t ready_at = 0;
};

struct Error {
  uint32_t addr;
  bool decerr;
};

// The memory behind a port.
struct Memory {
  unsigned aw_ready = 100, w_ready = 100, b_valid = 100;  // per cent
  unsigned latency_lo = 1, latency_hi = 1;                // cycles from last beat to answer
  bool mute = false;                                      // answers nothing
  bool never = false;                                     // will never answer what is announced now
  uint64_t serial = 0;                                    // of the stripe announced last
  std::deque<Burst> announced;                            // lacks data
  std::deque<Beat> early;                                 // taken before their address
  std::deque<bool> early_last;
  std::vector<Burst> owed;  // complete, unanswered
  std::deque<Error> errors;
  int answering = -1;
  bool cut_off = false;  // in a flush: from here on no strobes
  bool epoch_moved = false, stalled = false, progress = false;
  unsigned bytes = 0;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("write_ports", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) tick();
    dut_.rst_ni = 1;
  }

  unsigned cmd_valid = 100, wb_valid = 100, error = 0;  // per cent of cycles, bursts
  Memory port[kPorts];
  std::vector<uint64_t> w_cycles;      // when beats were taken, all ports
  std::vector<unsigned> w_ports;        // and the port
  std::vector<unsigned char> content;  // of memory from 0 on, where it is kept
  uint64_t errors_seen = 0, zero_beats = 0, data_first = 0;

  tb::Random& random() { return random_; }
  tb::Checks& check() { return check_; }
  uint64_t now() const { return now_; }

  // Returns the wide beats that are to be written.
  std::vector<Wide> write(uint64_t addr, unsigned beats, bool full = false) {
    commands_.push_back({addr, beats});
    std::vector<Wide> given;
    for (unsigned i = 0; i < beats; i++) {
      Wide w;
      const bool whole = full || random_.percent(50);
      for (auto& b : w.lane) {
        for (auto& d : b.data) d = random_.next();
        b.strb = whole ? kAll : static_cast<unsigned>(random_.next()) & kAll;
        if (!whole && random_.percent(20)) b.strb = 0;
      }
      to_give_.push_back(w);
      given.push_back(w);
    }
    return given;
  }

  bool idle() {
    settle();
    return dut_.idle_o;
  }
  bool owed() const {
    for (const auto& m : port)
      if (!m.owed.empty()) return true;
    return false;
  }

  void tick() {
    cmd_held_ = !commands_.empty() && (cmd_held_ || random_.percent(cmd_valid));
    dut_.cmd_valid_i = cmd_held_;
    dut_.cmd_addr_i = cmd_held_ ? commands_.front().addr : random_.next() & 0xFFFFFFFFFF;
    dut_.cmd_beats_i = static_cast<unsigned short>(cmd_held_ ? commands_.front().beats : 0);
    wb_held_ = !to_give_.empty() && (wb_held_ || random_.percent(wb_valid));
    dut_.wb_valid_i = wb_held_;
    for (unsigned l = 0; l < kLanes; l++) {
      for (unsigned w = 0; w < kBeat / 8; w++) {
        sluice::set_bytes<8>(dut_.wb_data_i, l * kBeat / 8 + w,
                             wb_held_ ? to_give_.front().lane[l].data[w] : random_.next());
      }
      sluice::set_bytes<kBeat / 8>(dut_.wb_strb_i, l,
                                   wb_held_ ? to_give_.front().lane[l].strb : random_.next());
    }
    for (unsigned p = 0; p < kPorts; p++) {
      sluice::set_field(dut_.m_awready_i, p, 1, random_.percent(port[p].aw_ready));
      sluice::set_field(dut_.m_wready_i, p, 1, random_.percent(port[p].w_ready));
      drive_b(p);
    }
    settle();
    if (dut_.rst_ni) {
      for (unsigned p = 0; p < kPorts; p++) observe(p);
      take();
      for (unsigned p = 0; p < kPorts; p++) take(p);
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  void flush(bool expect_idle = true) {
    dut_.flush_i = 1;
    flushing_ = true;
    tick();
    for (auto& m : port) m.errors.clear();
    // A flush may also stop the client at once, or the client goes on offering until the end.
    if (random_.percent(50)) forget();
    unsigned waited = 0;
    while (!idle() && waited++ < 20000) tick();
    if (expect_idle) check_.that(idle(), "flush does not end");
    forget();
    if (idle()) end_flush();
  }
  void end_flush() {
    filling_.clear();
    open_.clear();
    for (auto& m : port) {
      check_.that(m.announced.empty() && m.early.empty(), "a burst announced was not completed");
      m.cut_off = false;
      m.epoch_moved = true;
    }
    dut_.flush_i = 0;
    flushing_ = false;
  }

  void drain(unsigned limit = 100000) {
    unsigned waited = 0;
    while ((!commands_.empty() || !to_give_.empty() || !idle()) && waited++ < limit) tick();
    check_.that(commands_.empty() && to_give_.empty() && idle(), "not done within %u cycles",
                limit);
    tick();
    tick();
    for (const auto& m : port)
      check_.that(m.errors.empty(), "%zu errors were not reported", m.errors.size());
  }
  // Old answers that are still pending must not affect the records of the next round.
  void finish_old() {
    for (int i = 0; i < 4000 && owed(); i++) tick();
  }

 private:
  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  void forget() {
    commands_.clear();
    to_give_.clear();
    cmd_held_ = wb_held_ = false;
  }

  void drive_b(unsigned p) {
    Memory& m = port[p];
    m.answering = -1;
    if (!m.mute && !m.owed.empty() && random_.percent(m.b_valid)) {
      int eligible[4];
      unsigned n = 0;
      bool seen[4] = {};
      for (size_t i = 0; i < m.owed.size(); i++) {
        const Burst& b = m.owed[i];
        if (seen[b.id]) continue;
        seen[b.id] = true;
        if (!b.never && b.ready_at <= now_) eligible[n++] = static_cast<int>(i);
      }
      if (n) m.answering = eligible[random_.below(n)];
    }
    sluice::set_field(dut_.m_bvalid_i, p, 1, m.answering >= 0);
    const unsigned id = m.answering >= 0 ? m.owed[static_cast<size_t>(m.answering)].id
                                         : static_cast<unsigned>(random_.below(4));
    sluice::set_field(dut_.m_bid_i, p, 2, id);
    const unsigned bad = random_.percent(error) ? 2 : 0;
    sluice::set_field(dut_.m_bresp_i, p, 2, bad + static_cast<unsigned>(random_.below(2)));
  }

  void observe(unsigned p) {
    Memory& m = port[p];
    const unsigned bytes = sluice::get_field(dut_.bytes_o, p, kCountBits);
    check_.that(bytes == m.bytes, "bytes_o is %u instead of %u", bytes, m.bytes);
    check_.that((dut_.stall_o >> p & 1) == m.stalled, "stall_o wrong");
    check_.that((dut_.progress_o >> p & 1) == m.progress, "progress_o wrong");
    if (dut_.err_valid_o >> p & 1) {
      check_.that(!m.errors.empty(), "port %u reports an error that was not answered", p);
      const uint32_t addr = static_cast<uint32_t>(sluice::get_bytes<4>(dut_.err_addr_o, p));
      check_.that(addr == m.errors.front().addr, "error at %x instead of %x", addr,
                  m.errors.front().addr);
      check_.that((dut_.err_decerr_o >> p & 1) == m.errors.front().decerr,
                  "SLVERR and DECERR mixed up");
      m.errors.pop_front();
      errors_seen++;
    } else {
      check_.that(m.errors.empty() || flushing_, "an error was not reported at once");
    }
  }

  // The client's side: a command becomes stripes.
  void take() {
    check_.that(!(dut_.flush_i && (dut_.cmd_ready_o || dut_.wb_ready_o)), "taken during a flush");
    if (dut_.idle_o && !flushing_) {
      check_.that(open_.empty() && filling_.empty(), "idle although stripes are owed");
      for (const auto& m : port) check_.that(m.announced.empty(), "idle although data are owed");
    }
    if (wb_held_ && dut_.wb_ready_o) {
      check_.that(!filling_.empty(), "a beat is taken without a command");
      Stripe& s = *filling_.front();
      for (const auto& b : to_give_.front().lane) s.given.push_back(b);
      if (s.given.size() == s.beats) filling_.pop_front();
      to_give_.pop_front();
      wb_held_ = false;
    }
    if (cmd_held_ && dut_.cmd_ready_o) {
      Command c = commands_.front();
      commands_.pop_front();
      cmd_held_ = false;
      while (c.beats > 0) {
        unsigned bytes = kStripe - static_cast<unsigned>(c.addr % kStripe);
        bytes = std::min(std::min(bytes, kBurst * kBeat), c.beats * kWide);
        open_.push_back(std::make_shared<Stripe>(Stripe{++serial_, c.addr, bytes / kBeat, {}}));
        filling_.push_back(open_.back());
        c.addr += bytes;
        c.beats -= bytes / kWide;
      }
    }
  }

  void take(unsigned p) {
    Memory& m = port[p];
    const unsigned id = sluice::get_field(dut_.m_awid_o, p, 2);
    m.progress = false;
    if (m.answering >= 0) {
      const Burst b = m.owed[static_cast<size_t>(m.answering)];
      if (b.id == id) {
        m.progress = true;
        const unsigned resp = sluice::get_field(dut_.m_bresp_i, p, 2);
        if (!flushing_ && resp >= 2) m.errors.push_back({static_cast<uint32_t>(b.addr), resp == 3});
      }
      m.owed.erase(m.owed.begin() + m.answering);
    }
    if ((dut_.m_awvalid_o >> p & 1) && (dut_.m_awready_i >> p & 1)) {
      m.progress = true;
      Burst b;
      b.addr = sluice::get_bytes<5>(dut_.m_awaddr_o, p);
      b.beats = static_cast<unsigned>(sluice::get_bytes<1>(dut_.m_awlen_o, p)) + 1;
      b.id = id;
      b.never = m.never;
      const auto want = std::find_if(open_.begin(), open_.end(), [&](const auto& s) {
        return s->addr == b.addr && s->beats == b.beats;
      });
      check_.that(want != open_.end(), "port %u: %u beats at %" PRIx64 ", no stripe that is owed", p,
                  b.beats, b.addr);
      b.stripe = *want;
      check_.that(b.stripe->serial > m.serial, "port %u: stripes out of order", p);
      m.serial = b.stripe->serial;
      open_.erase(want);
      const uint64_t end = b.addr + uint64_t{b.beats} * kBeat - 1;
      check_.that(b.addr / 4096 == end / 4096, "burst at %" PRIx64 " crosses 4 KiB", b.addr);
      unsigned same = 0;
      for (const auto& o : m.owed) same += o.id == b.id;
      for (const auto& o : m.announced) same += o.id == b.id;
      check_.that(same < kOut, "more than %u bursts outstanding", kOut);
      if (m.epoch_moved) check_.that(same == 0, "an ID is used again while it owes answers");
      m.epoch_moved = false;
      m.announced.push_back(b);
    }
    const bool valid = dut_.m_wvalid_o >> p & 1, ready = dut_.m_wready_i >> p & 1;
    m.stalled = valid && !ready;
    m.bytes = 0;
    if (valid && ready) {
      m.progress = true;
      w_cycles.push_back(now_);
      w_ports.push_back(p);
      Beat got;
      got.strb = static_cast<unsigned>(sluice::get_bytes<kBeat / 8>(dut_.m_wstrb_o, p));
      for (unsigned w = 0; w < kBeat / 8; w++)
        got.data[w] = sluice::get_bytes<8>(dut_.m_wdata_o, p * kBeat / 8 + w);
      m.bytes = static_cast<unsigned>(__builtin_popcount(got.strb));
      m.early.push_back(got);
      m.early_last.push_back(dut_.m_wlast_o >> p & 1);
    }
    // Match data with addresses, whichever came first.
    while (!m.early.empty() && !m.announced.empty()) {
      Burst& b = m.announced.front();
      same_beat(p, m.early.front(), *b.stripe, b.got);
      const uint64_t at = b.addr + uint64_t{b.got} * kBeat;
      for (unsigned i = 0; i < kBeat; i++) {
        if (!(m.early.front().strb >> i & 1) || at + i >= content.size()) continue;
        content[at + i] = static_cast<unsigned char>(m.early.front().data[i / 8] >> (i % 8 * 8));
      }
      b.got++;
      check_.that(m.early_last.front() == (b.got == b.beats), "wlast misplaced");
      m.early.pop_front();
      m.early_last.pop_front();
      if (b.got < b.beats) continue;
      b.ready_at = now_ + random_.range(m.latency_lo, m.latency_hi);
      m.owed.push_back(b);
      m.announced.pop_front();
    }
    data_first += !m.early.empty();
  }

  // A beat of a stripe must be the given one, or have no strobes after a flush has cut the stripe
  // off.
  void same_beat(unsigned p, const Beat& got, const Stripe& s, unsigned i) {
    Memory& m = port[p];
    const bool known = i < s.given.size() && s.given[i].strb == got.strb;
    if (flushing_ && got.strb == 0 && !known) m.cut_off = true;
    if (m.cut_off) {
      check_.that(got.strb == 0, "port %u: strobes behind what a flush cut off", p);
      zero_beats++;
      return;
    }
    check_.that(known, "port %u: %s beat with strobes %x", p,
                i < s.given.size() ? "another" : "nobody gave the", got.strb);
    for (unsigned w = 0; w < kBeat / 8; w++)
      check_.that(got.data[w] == s.given[i].data[w] || (flushing_ && got.strb == 0),
                  "port %u: data", p);
  }

  Vwrite_ports dut_;
  tb::Random random_;
  tb::Checks check_;
  uint64_t now_ = 0;
  std::deque<Command> commands_;
  std::deque<Wide> to_give_;
  std::deque<std::shared_ptr<Stripe>> open_, filling_;  // not announced yet; not all given yet
  uint64_t serial_ = 0;
  bool cmd_held_ = false, wb_held_ = false, flushing_ = false;
};

// ------------------------------------------------------------------------------- traffic
void random_commands(Bench& b, unsigned count) {
  while (count > 0) {
    uint64_t addr = b.random().below((uint64_t{1} << 40) - (1 << 20));
    // often near a page's end
    if (b.random().percent(50)) addr = (addr | 0xFFF) + 1 - b.random().below(40) * kWide / 2;
    const unsigned beats = static_cast<unsigned>(
        b.random().percent(60) ? b.random().range(1, 12) : b.random().range(1, 3000 / kWide));
    // one command, or a few at a stride as rows of a tensor have it
    const unsigned rows =
        std::min(count, static_cast<unsigned>(b.random().percent(70) ? 1 : b.random().range(2, 6)));
    // apart, so that a stripe is known by its address
    const uint64_t stride = kWide * (beats + b.random().below(200));
    for (unsigned i = 0; i < rows; i++) b.write(addr / kWide * kWide + i * stride, beats);
    count -= rows;
  }
}

void ideal(Bench& b, unsigned latency) {
  b.cmd_valid = b.wb_valid = 100;
  b.error = 0;
  for (auto& m : b.port) {
    m.aw_ready = m.w_ready = m.b_valid = 100;
    m.latency_lo = m.latency_hi = latency;
    m.mute = m.never = false;
  }
}

void random_knobs(Bench& b) {
  static const unsigned kShare[] = {100, 100, 80, 50, 20};
  b.cmd_valid = kShare[b.random().below(5)];
  b.wb_valid = kShare[b.random().below(5)];
  const bool alike = b.random().percent(30);
  for (auto& m : b.port) {
    m.aw_ready = kShare[b.random().below(5)];
    m.w_ready = kShare[b.random().below(5)];
    m.b_valid = kShare[b.random().below(5)];
    m.latency_lo = static_cast<unsigned>(b.random().range(1, 30));
    m.latency_hi = m.latency_lo + static_cast<unsigned>(b.random().below(50));
    if (alike) m.aw_ready = b.port[0].aw_ready, m.w_ready = b.port[0].w_ready;
  }
}

// Commands that leave gaps, over memory with other content.
void content(Bench& b) {
  random_knobs(b);
  std::vector<unsigned char> want(1 << 15);
  for (auto& byte : want) byte = static_cast<unsigned char>(b.random().next());
  b.content = want;
  for (uint64_t addr = 0; addr < want.size();) {
    const uint64_t room = (want.size() - addr) / kWide;
    const unsigned beats = static_cast<unsigned>(std::min(room, b.random().range(1, 40)));
    const auto given = b.write(addr, beats);
    for (unsigned i = 0; i < beats * kWide; i++) {
      const Beat& beat = given[i / kWide].lane[i % kWide / kBeat];
      const unsigned k = i % kBeat;
      if (beat.strb >> k & 1)
        want[addr + i] = static_cast<unsigned char>(beat.data[k / 8] >> (k % 8 * 8));
    }
    addr += (beats + b.random().below(4)) * kWide;
  }
  b.drain();
  for (size_t i = 0; i < want.size(); i++)
    b.check().that(b.content[i] == want[i], "%02x at %zx, not %02x", b.content[i], i, want[i]);
  b.content.clear();
}

// `count` wide beats in commands of `each`: the throughput must be as many beats per cycle as there
// are ports, but at most one wide beat.
void bandwidth(Bench& b, unsigned latency, unsigned count, unsigned each) {
  ideal(b, latency);
  b.w_cycles.clear();
  const unsigned shift = static_cast<unsigned>(b.random().below(2 * P_STRIPE / kLanes));
  for (unsigned done = 0; done < count; done += each)
    b.write(0x10000 + uint64_t{done + shift} * kWide, each, true);
  b.drain();
  b.check().that(b.w_cycles.size() == count * kLanes, "%zu beats", b.w_cycles.size());
  const uint64_t span = b.w_cycles.back() - b.w_cycles.front() + 1;
  const unsigned rate = std::min(kPorts, kLanes);
  uint64_t least = (uint64_t{count} * kLanes + rate - 1) / rate;
  if (kWithData) least += least / kBurst;
  b.check().that(span * 95 <= least * 100 && span >= least,
                 "%u wide beats in commands of %u, latency %u: %" PRIu64 " cycles, not %" PRIu64,
                 count, each, latency, span, least);
}

// Whole stripes and single wide beats in turn must load all ports equally.
void unequal(Bench& b) {
  ideal(b, 1);
  b.w_cycles.clear();
  constexpr unsigned kWhole = P_STRIPE / kLanes;
  for (unsigned i = 0; i < 200; i++) {
    b.write(uint64_t{2 * i} * kStripe, kWhole, true);
    b.write(uint64_t{2 * i + 1} * kStripe, 1, true);
  }
  b.drain();
  const uint64_t span = b.w_cycles.back() - b.w_cycles.front() + 1;
  const unsigned rate = std::min(kPorts, kLanes);
  const uint64_t least = (200 * (kWhole + 1) * kLanes + rate - 1) / rate + (kWithData ? 400 / kPorts : 0);
  b.check().that(span * 90 <= least * 100, "stripes of unequal length: %" PRIu64 " cycles, not %" PRIu64,
                 span, least);
}

// A fixed mixture of commands; returns the times of their beats, from its start, and the port of
// each.
std::pair<std::vector<uint64_t>, std::vector<unsigned>> fixed_traffic(Bench& b) {
  ideal(b, 9);
  b.w_cycles.clear();
  b.w_ports.clear();
  for (unsigned i = 0; i < 12; i++) b.write(0x3000 + 57 * i * kWide, 1 + i * 7 % 23);
  const uint64_t begin = b.now();
  b.drain();
  for (auto& c : b.w_cycles) c -= begin;
  return {b.w_cycles, b.w_ports};
}

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench b(args);
  const unsigned rounds = args.n ? static_cast<unsigned>(args.n) : 80;
  const auto first = fixed_traffic(b);

  for (unsigned round = 0; round < rounds; round++) {
    random_knobs(b);
    b.error = round % 3 == 2 ? 10 : 0;
    random_commands(b, 15);
    if (b.random().percent(40)) {
      Memory& still = b.port[b.random().below(kPorts)];
      const unsigned was = still.w_ready;
      still.w_ready = 0;
      for (int i = 0; i < 400; i++) b.tick();
      still.w_ready = was;
    }
    if (round % 2) {
      for (uint64_t i = b.random().below(800); i > 0; i--) b.tick();
      for (auto& m : b.port) m.mute = b.random().percent(50);
      b.flush();
      random_commands(b, 3);
      for (uint64_t i = b.random().below(20); i > 0; i--) b.tick();
      for (auto& m : b.port) m.mute = false;
    }
    b.drain();
    b.finish_old();
  }
  if (rounds >= 80) {
    b.check().that(b.errors_seen > 0, "no error response was exercised");
    b.check().that(b.zero_beats > 0, "no announced burst was completed by a flush");
    b.check().that(b.data_first > 0, "data never came before their address");
  }

  // Never answered on one port: three of its epochs may be lost; the fourth waits for an old
  // answer.
  ideal(b, 3);
  Memory& lost = b.port[kPorts - 1];
  for (int i = 0; i < 4; i++) {
    lost.never = true;
    b.write(0x1000, 4 * kPorts * kBurst / kLanes);
    for (int k = 0; k < 200; k++) b.tick();
    b.check().that(!b.idle(), "idle although answers are owed");
    b.flush(i < 3);
    lost.never = false;
    if (i < 3) {
      random_commands(b, 10);
      b.drain();
    }
  }
  b.check().that(!b.idle(), "flush ends although no ID is free");
  for (auto& burst : lost.owed) burst.never = false;
  for (int i = 0; i < 2000 && !b.idle(); i++) b.tick();
  b.check().that(b.idle(), "flush does not end although the old bursts were answered");
  b.finish_old();
  b.end_flush();
  random_commands(b, 10);
  b.drain();

  for (int i = 0; i < 3; i++) content(b);

  bandwidth(b, 1, 1500, 1500);
  if (!kWithData) {
    bandwidth(b, 1, 1500, 1);
    bandwidth(b, 1, 1500, 15);
  }
  // A port's bursts must hide the memory's latency up to their limit.
  if (P_STRIPE == 16) bandwidth(b, 60, 3000, 3000);

  unequal(b);

  for (unsigned p = 0; p <= kPorts; p++) {  // whichever port was last
    b.check().that(fixed_traffic(b) == first, "the same traffic takes other cycles or ports than before");
    ideal(b, 9);
    b.write(0x3000, 1, true);
    b.drain();
  }
  return b.check().passed();
}
