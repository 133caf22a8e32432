// read_ports_tb: random requests of several clients to memories that differ from port to port:
// stalls, answers out of order between IDs, a port that stalls for long, error responses, flushes
// in the middle, bursts that are never answered on one port. Every client must get its data in
// order, and every burst must be inside a stripe. Then the exact promises: the order of stripes by
// levels and turns, the bandwidth of all ports for one client, for stripes of equal and unequal
// length, and the same cycles for the same traffic after idle.
#include <algorithm>
#include <cinttypes>
#include <deque>
#include <vector>

#include "Vread_ports.h"
#include "bench/tb.hpp"
#include "bits.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kClients = P_N, kPorts = P_N_AXI, kLanes = P_LANES, kBeat = P_AXI_BYTES;
constexpr unsigned kWide = kLanes * kBeat;                           // bytes of a wide beat
constexpr unsigned kBurst = kPorts == 1 ? P_MAX_BURST : P_STRIPE;    // beats of the longest burst
constexpr unsigned kStripe = kPorts == 1 ? 4096 : P_STRIPE * kBeat;  // bytes; bursts stay inside
constexpr unsigned kOut = 16;                                         // outstanding bursts per port
constexpr unsigned kOwner = 38;                                      // address bits that hold the owner

uint64_t word_at(uint64_t addr) { return tb::Random(addr).next(); }

struct Request {
  uint64_t addr;
  unsigned beats;  // wide ones
};

struct Stripe {
  unsigned client;
  uint64_t addr;
  unsigned bytes;
};

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

struct Answer {
  uint64_t cycle;
  unsigned client;
  uint64_t addr;
};

// The memory behind a port.
struct Memory {
  unsigned ar_ready = 100, r_valid = 100;  // per cent
  unsigned latency_lo = 1, latency_hi = 1;
  bool mute = false;   // answers nothing
  bool never = false;  // will never answer what is announced now
  std::vector<Burst> bursts;
  int giving = -1;
  std::deque<Beat> errors;  // last: DECERR
  std::vector<Burst> log;   // bursts announced since `log` was cleared
  bool epoch_moved = false, beat_taken = false, stalled = false, ar_taken = false;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("read_ports", args.seed) {
    for (auto& e : every) e = 1;
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) tick();
    dut_.rst_ni = 1;
  }

  unsigned req_valid = 100, error = 0;  // per cent of cycles, beats
  unsigned every[kClients];             // a client requests only in every so many cycles
  Memory port[kPorts];
  std::vector<Answer> answers;
  uint64_t errors_seen = 0;

  tb::Random& random() { return random_; }
  tb::Checks& check() { return check_; }
  uint64_t now() const { return now_; }

  void ask(unsigned client, uint64_t addr, unsigned beats) {
    want_[client].push_back({addr, beats});
  }
  void levels(unsigned value) {
    dut_.level_i = static_cast<unsigned char>(value & ((1u << 2 * kClients) - 1));
  }
  void forget_requests() {
    for (auto& w : want_) w.clear();
  }
  bool asked() const {
    for (unsigned c = 0; c < kClients; c++)
      if (!want_[c].empty() || !expect_[c].empty()) return true;
    return false;
  }
  bool owed() const {
    for (const auto& m : port)
      if (!m.bursts.empty()) return true;
    return false;
  }

  void tick() {
    for (unsigned c = 0; c < kClients; c++) {
      const bool valid = !want_[c].empty() && (holding_[c] || (now_ % every[c] == 0 && random_.percent(req_valid)));
      holding_[c] = valid;
      sluice::set_field(dut_.req_valid_i, c, 1, valid);
      const uint64_t addr = valid ? want_[c].front().addr : random_.next();
      sluice::set_bytes<5>(dut_.req_addr_i, c, addr);
      sluice::set_bytes<2>(dut_.req_beats_i, c, valid ? want_[c].front().beats : 0);
    }
    for (unsigned p = 0; p < kPorts; p++) {
      sluice::set_field(dut_.m_arready_i, p, 1, random_.percent(port[p].ar_ready));
      drive_r(p);
    }
    settle();
    if (dut_.rst_ni) {
      observe();
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
    for (auto& e : expect_) e.clear();  // from here on nothing may come out
    for (auto& m : port) m.errors.clear();
    unsigned waited = 0;
    while (!idle() && waited++ < 300) tick();
    if (expect_idle) check_.that(idle(), "flush does not end");
    if (idle()) end_flush();
  }
  void end_flush() {
    dut_.flush_i = 0;
    flushing_ = false;
    for (auto& m : port) m.epoch_moved = true;
  }
  bool idle() {
    settle();
    return dut_.idle_o;
  }
  void drain(unsigned limit = 100000) {
    unsigned waited = 0;
    while ((asked() || !idle()) && waited++ < limit) tick();
    check_.that(!asked() && idle(), "requests are not answered within %u cycles", limit);
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

  void drive_r(unsigned p) {
    Memory& m = port[p];
    if (m.giving < 0 && !m.mute && random_.percent(m.r_valid)) {
      // One eligible burst: the first of its ID that is not stuck behind a never-answered one.
      int eligible[4];
      unsigned n = 0;
      bool seen[4] = {};
      for (size_t i = 0; i < m.bursts.size(); i++) {
        const Burst& b = m.bursts[i];
        if (seen[b.id]) continue;
        seen[b.id] = true;
        if (!b.never && b.ready_at <= now_) eligible[n++] = static_cast<int>(i);
      }
      if (n) m.giving = eligible[random_.below(n)];
    }
    const bool valid = m.giving >= 0;
    sluice::set_field(dut_.m_rvalid_i, p, 1, valid);
    if (!valid) {  // random values, similar to a real answer
      sluice::set_field(dut_.m_rid_i, p, 2, static_cast<unsigned>(random_.below(4)));
      sluice::set_field(dut_.m_rlast_i, p, 1, 1);
      sluice::set_field(dut_.m_rresp_i, p, 2, 2);
      return;
    }
    const Burst& b = m.bursts[static_cast<size_t>(m.giving)];
    const uint64_t addr = b.addr + uint64_t{b.done} * kBeat;
    for (unsigned w = 0; w < kBeat / 8; w++)
      sluice::set_bytes<8>(dut_.m_rdata_i, p * kBeat / 8 + w, word_at(addr + 8 * w));
    sluice::set_field(dut_.m_rid_i, p, 2, b.id);
    sluice::set_field(dut_.m_rlast_i, p, 1, b.done + 1 == b.beats);
    const unsigned bad = random_.percent(error) ? 2 : 0;
    sluice::set_field(dut_.m_rresp_i, p, 2, bad + static_cast<unsigned>(random_.below(2)));
  }

  void observe() {
    const unsigned valid = dut_.rsp_valid_o;
    check_.that((valid & (valid - 1)) == 0, "two clients answered in one cycle");
    for (unsigned c = 0; c < kClients; c++) {
      if (!(valid >> c & 1)) continue;
      check_.that(!expect_[c].empty(), "client %u answered without asking", c);
      const Beat beat = expect_[c].front();
      expect_[c].pop_front();
      for (unsigned w = 0; w < kWide / 8; w++) {
        check_.that(sluice::get_bytes<8>(dut_.rsp_data_o, w) == word_at(beat.addr + 8 * w),
                    "client %u: wrong data for %" PRIx64, c, beat.addr + 8 * w);
      }
      check_.that(dut_.rsp_last_o == beat.last, "client %u: rsp_last wrong at %" PRIx64, c,
                  beat.addr);
      answers.push_back({now_, c, beat.addr});
    }
  }

  void observe(unsigned p) {
    Memory& m = port[p];
    check_.that((dut_.beat_o >> p & 1) == m.beat_taken, "beat_o does not count a beat taken");
    check_.that((dut_.stall_o >> p & 1) == m.stalled, "stall_o wrong");
    check_.that((dut_.progress_o >> p & 1) == (m.beat_taken || m.ar_taken), "progress_o wrong");
    if (dut_.err_valid_o >> p & 1) {
      check_.that(!m.errors.empty(), "port %u reports an error that was not answered", p);
      const uint32_t addr = static_cast<uint32_t>(sluice::get_bytes<4>(dut_.err_addr_o, p));
      check_.that(addr == static_cast<uint32_t>(m.errors.front().addr),
                  "error at %x instead of %" PRIx64, addr, m.errors.front().addr & 0xFFFFFFFF);
      check_.that((dut_.err_decerr_o >> p & 1) == m.errors.front().last,
                  "SLVERR and DECERR mixed up");
      m.errors.pop_front();
      errors_seen++;
    } else {
      check_.that(m.errors.empty() || flushing_, "an error was not reported at once");
    }
  }

  void take() {
    for (unsigned c = 0; c < kClients; c++) {
      const bool ready = dut_.req_ready_o >> c & 1;
      check_.that(!(ready && dut_.flush_i), "a request is taken during a flush");
      if (!ready || !holding_[c]) continue;
      holding_[c] = false;
      const Request w = want_[c].front();
      want_[c].pop_front();
      for (unsigned i = 0; i < w.beats; i++)
        expect_[c].push_back({w.addr + uint64_t{i} * kWide, i + 1 == w.beats});
    }
  }

  void take(unsigned p) {
    Memory& m = port[p];
    const unsigned id = sluice::get_field(dut_.m_arid_o, p, 2);
    m.beat_taken = false;
    if (m.giving >= 0) {
      Burst& b = m.bursts[static_cast<size_t>(m.giving)];
      m.beat_taken = b.id == id;
      const unsigned resp = sluice::get_field(dut_.m_rresp_i, p, 2);
      if (m.beat_taken && !flushing_ && resp >= 2)
        m.errors.push_back({b.addr + uint64_t{b.done} * kBeat, resp == 3});
      if (++b.done == b.beats) m.bursts.erase(m.bursts.begin() + m.giving);
      m.giving = -1;
    }
    const bool valid = dut_.m_arvalid_o >> p & 1, ready = dut_.m_arready_i >> p & 1;
    m.ar_taken = valid && ready;
    m.stalled = valid && !ready;
    if (!m.ar_taken) return;
    Burst b;
    b.addr = sluice::get_bytes<5>(dut_.m_araddr_o, p);
    b.beats = static_cast<unsigned>(sluice::get_bytes<1>(dut_.m_arlen_o, p)) + 1;
    b.id = id;
    b.never = m.never;
    b.ready_at = now_ + random_.range(m.latency_lo, m.latency_hi);
    check_.that(b.beats <= kBurst, "burst of %u beats", b.beats);
    check_.that(b.addr % kWide == 0 && b.beats % kLanes == 0, "burst of half a wide beat");
    const uint64_t end = b.addr + uint64_t{b.beats} * kBeat - 1;
    check_.that(b.addr / 4096 == end / 4096, "burst at %" PRIx64 " crosses 4 KiB", b.addr);
    check_.that(b.addr / kStripe == end / kStripe, "burst at %" PRIx64 " leaves its stripe",
                b.addr);
    unsigned same = 0;
    for (const auto& o : m.bursts) same += o.id == b.id;
    check_.that(same < kOut, "more than %u bursts outstanding", kOut);
    if (m.epoch_moved) check_.that(same == 0, "an ID is used again while it owes answers");
    m.epoch_moved = false;
    m.log.push_back(b);
    m.bursts.push_back(b);
  }

  Vread_ports dut_;
  tb::Random random_;
  tb::Checks check_;
  uint64_t now_ = 0;
  std::deque<Request> want_[kClients];
  std::deque<Beat> expect_[kClients];
  bool holding_[kClients] = {};
  bool flushing_ = false;
};

// ------------------------------------------------------------------------------- traffic
Request random_request(Bench& b, unsigned client) {
  uint64_t addr =
      (uint64_t{client} << kOwner) | b.random().below((uint64_t{1} << kOwner) - (1 << 20));
  // often near a page's end
  if (b.random().percent(50)) addr = (addr | 0xFFF) + 1 - b.random().below(40) * kWide / 2;
  const unsigned beats = static_cast<unsigned>(
      b.random().percent(60) ? b.random().range(1, 12) : b.random().range(1, 3000 / kWide));
  return {addr / kWide * kWide, beats};
}

void random_requests(Bench& b, unsigned count) {
  while (count > 0) {
    const unsigned c = static_cast<unsigned>(b.random().below(kClients));
    Request r = random_request(b, c);
    // one request, or a few at a stride as rows of a tensor have it
    const unsigned rows =
        std::min(count, static_cast<unsigned>(b.random().percent(70) ? 1 : b.random().range(2, 6)));
    const uint64_t stride = kWide * b.random().range(1, 200);
    for (unsigned i = 0; i < rows; i++) b.ask(c, r.addr + i * stride, r.beats);
    count -= rows;
  }
}

void ideal(Bench& b, unsigned latency) {
  b.req_valid = 100;
  b.error = 0;
  for (auto& m : b.port) {
    m.ar_ready = m.r_valid = 100;
    m.latency_lo = m.latency_hi = latency;
    m.mute = m.never = false;
  }
}

void random_knobs(Bench& b) {
  static const unsigned kShare[] = {100, 100, 80, 50, 20};
  b.req_valid = kShare[b.random().below(5)];
  const bool alike = b.random().percent(30);
  for (auto& m : b.port) {
    m.ar_ready = kShare[b.random().below(5)];
    m.r_valid = kShare[b.random().below(5)];
    m.latency_lo = static_cast<unsigned>(b.random().range(1, 30));
    m.latency_hi = m.latency_lo + static_cast<unsigned>(b.random().below(50));
    if (alike) m.ar_ready = b.port[0].ar_ready, m.r_valid = b.port[0].r_valid;
  }
  b.levels(static_cast<unsigned>(b.random().next()));
}

// ------------------------------------------------------------------------------- order
// The order in which the stripes of clients are granted if each always has a request ready. level
// holds the clients' levels before and after `switch_at` stripes.
std::vector<Stripe> granted(std::vector<std::deque<Request>> want, const unsigned level[2][4],
                            size_t switch_at) {
  std::vector<Stripe> stripes;
  unsigned turn = 0;
  for (;;) {
    const unsigned* l = level[stripes.size() >= switch_at];
    int best = -1;
    for (unsigned i = 0; i < kClients; i++) {
      const unsigned c = (turn + i) % kClients;
      if (!want[c].empty() && (best < 0 || l[c] > l[best])) best = static_cast<int>(c);
    }
    if (best < 0) return stripes;
    const unsigned c = static_cast<unsigned>(best);
    Request& r = want[c].front();
    unsigned bytes = kStripe - static_cast<unsigned>(r.addr % kStripe);
    bytes = std::min(std::min(bytes, kBurst * kBeat), r.beats * kWide);
    stripes.push_back({c, r.addr, bytes});
    r.addr += bytes;
    r.beats -= bytes / kWide;
    if (r.beats == 0) want[c].pop_front();
    turn = (c + 1) % kClients;
  }
}

void order(Bench& b, bool change) {
  random_knobs(b);
  b.req_valid = 100;
  unsigned level[2][4] = {};
  const auto draw = [&](unsigned* l) {
    unsigned all = 0;
    const unsigned different = static_cast<unsigned>(b.random().range(1, 4));
    for (unsigned c = 0; c < kClients; c++) {
      l[c] = static_cast<unsigned>(b.random().below(different));
      all |= l[c] << (2 * c);
    }
    return all;
  };
  b.levels(draw(level[0]));
  std::vector<std::deque<Request>> want(kClients);
  for (unsigned c = 0; c < kClients; c++) {
    for (uint64_t n = b.random().below(4); n > 0; n--) {
      Request r = random_request(b, c);
      r.beats = static_cast<unsigned>(b.random().range(1, 4 * kBurst / kLanes));
      if (change) {  // whole stripes, so that the number granted before the levels change is known
        r.addr -= r.addr % kStripe;
        r.beats = static_cast<unsigned>(b.random().range(1, 4)) * kBurst / kLanes;
      }
      want[c].push_back(r);
      b.ask(c, r.addr, r.beats);
    }
  }
  for (auto& m : b.port) m.log.clear();
  b.answers.clear();
  size_t switch_at = ~size_t{0};
  unsigned after = 0;
  if (change) {
    // With no address taken a port takes three stripes; then the levels change.
    switch_at = kPorts == 1 ? 2 : 3 * kPorts;  // two where clients share it
    after = draw(level[1]);
    for (auto& m : b.port) m.ar_ready = 0;
    for (int i = 0; i < 30; i++) b.tick();
    b.levels(after);
    for (auto& m : b.port) m.ar_ready = 60;
  }
  b.drain();
  const auto stripes = granted(want, level, switch_at);
  size_t at = 0, seen[kPorts] = {};
  for (size_t k = 0; k < stripes.size(); k++) {
    const Stripe& s = stripes[k];
    // on any port, but behind that port's older ones
    unsigned p = 0;
    while (p < kPorts && (seen[p] >= b.port[p].log.size() || b.port[p].log[seen[p]].addr != s.addr ||
                          b.port[p].log[seen[p]].beats * kBeat != s.bytes))
      p++;
    b.check().that(p < kPorts, "stripe %zu of %u beats at %" PRIx64 " does not come", k,
                   s.bytes / kBeat, s.addr);
    seen[p]++;
    for (unsigned i = 0; i < s.bytes / kWide; i++, at++) {
      b.check().that(at < b.answers.size() && b.answers[at].client == s.client &&
                         b.answers[at].addr == s.addr + uint64_t{i} * kWide,
                     "answers do not come in the order of their stripes");
    }
  }
  b.check().that(at == b.answers.size(), "%zu answers, not %zu", b.answers.size(), at);
}

// ------------------------------------------------------------------------------- figures
// `count` wide beats in requests of `each` by `clients`, from memories with this latency: the
// throughput must be as many beats per cycle as there are ports, but at most one wide beat.
void bandwidth(Bench& b, unsigned latency, unsigned count, unsigned each, unsigned clients) {
  ideal(b, latency);
  b.answers.clear();
  const unsigned shift = static_cast<unsigned>(b.random().below(2 * P_STRIPE / kLanes));
  for (unsigned done = 0, k = 0; done < count; done += each, k++) {
    const uint64_t addr =
        (uint64_t{k % clients} << kOwner) + 0x10000 + uint64_t{done + shift} * kWide;
    b.ask(k % clients, addr, each);
  }
  b.drain();
  b.check().that(b.answers.size() == count, "%zu wide beats", b.answers.size());
  const uint64_t span = b.answers.back().cycle - b.answers.front().cycle + 1;
  const unsigned rate = std::min(kPorts, kLanes);
  const uint64_t least = (uint64_t{count} * kLanes + rate - 1) / rate;
  b.check().that(span * 95 <= least * 100,
                 "%u wide beats in requests of %u by %u, latency %u: %" PRIu64
                 " cycles, not %" PRIu64,
                 count, each, clients, latency, span, least);
}

// Single wide beats of a client that always requests, and of one with a higher level that requests
// rarely: no cycle may be lost on the one without a stripe.
void now_and_then(Bench& b, unsigned every) {
  constexpr unsigned kOften = 600;
  const unsigned seldom = kOften / (2 * every);
  ideal(b, 1);
  b.levels(1u << 2 * (kClients - 1));
  b.every[kClients - 1] = every;
  b.answers.clear();
  for (unsigned i = 0; i < kOften; i++) b.ask(0, 0x10000 + uint64_t{i} * kWide, 1);
  for (unsigned i = 0; i < seldom; i++) b.ask(kClients - 1, (uint64_t{kClients - 1} << kOwner) + 0x10000 + uint64_t{i} * kWide, 1);
  b.drain();
  b.every[kClients - 1] = 1;
  b.levels(0);
  const uint64_t span = b.answers.back().cycle - b.answers.front().cycle + 1;
  const unsigned rate = std::min(kPorts, kLanes);
  const uint64_t least = (uint64_t{kOften + seldom} * kLanes + rate - 1) / rate;
  b.check().that(span <= least, "single wide beats, a client that asks every %u cycles first: %" PRIu64
                 " cycles, not %" PRIu64, every, span, least);
}

// Whole stripes and single wide beats in turn must load all ports equally.
void unequal(Bench& b) {
  ideal(b, 1);
  b.answers.clear();
  constexpr unsigned kWhole = P_STRIPE / kLanes;
  for (unsigned i = 0; i < 200; i++) {
    b.ask(0, uint64_t{2 * i} * kStripe, kWhole);
    b.ask(0, uint64_t{2 * i + 1} * kStripe, 1);
  }
  b.drain();
  const uint64_t span = b.answers.back().cycle - b.answers.front().cycle + 1;
  const unsigned rate = std::min(kPorts, kLanes);
  const uint64_t least = (200 * (kWhole + 1) * kLanes + rate - 1) / rate;
  b.check().that(span * 90 <= least * 100, "stripes of unequal length: %" PRIu64 " cycles, not %" PRIu64,
                 span, least);
}

// Runs of three quarters of a stripe, a stripe and a half apart, make stripes of several lengths.
// They must fill a port's queue like whole ones, and so hide the same latency.
void reach(Bench& b, unsigned latency) {
  constexpr unsigned kWhole = P_STRIPE / kLanes, kRun = kWhole * 3 / 4, kRuns = 400;
  ideal(b, latency);
  b.answers.clear();
  for (unsigned i = 0; i < kRuns; i++) b.ask(0, 0x10000 + uint64_t{i} * 2 * kRun * kWide, kRun);
  b.drain();
  const uint64_t span = b.answers.back().cycle - b.answers.front().cycle + 1;
  const unsigned rate = std::min(kPorts, kLanes);
  const uint64_t least = (uint64_t{kRuns} * kRun * kLanes + rate - 1) / rate;
  b.check().that(span * 97 <= least * 100, "stripes of several lengths, latency %u: %" PRIu64 " cycles, not %" PRIu64,
                 latency, span, least);
}

// The number of short requests that ports and queues take while no memory answers.
void fill(Bench& b) {
  ideal(b, 1);
  for (auto& m : b.port) m.mute = true;
  for (unsigned i = 0; i < 200; i++) b.ask(0, 0x40000 + uint64_t{i} * kStripe, 1);
  for (int i = 0; i < 400; i++) b.tick();
  for (auto& m : b.port) m.mute = false;
  b.drain();
}

// A fixed mixture of requests on ports that differ; returns the times of its answers, from its
// start.
std::vector<uint64_t> fixed_traffic(Bench& b) {
  ideal(b, 9);
  for (unsigned p = 0; p < kPorts; p++) b.port[p].latency_lo = b.port[p].latency_hi = 9 + 5 * p;
  b.levels(0x1B);
  b.answers.clear();
  for (unsigned i = 0; i < 12; i++) {
    const unsigned c = i * 5 % kClients;
    b.ask(c, (uint64_t{c} << kOwner) + 0x3000 + 3 * i * kWide, 1 + i * 7 % 23);
  }
  const uint64_t begin = b.now();
  b.drain();
  std::vector<uint64_t> said;
  for (const auto& a : b.answers) {
    said.push_back(a.cycle - begin);
    said.push_back(a.addr);
  }
  return said;
}

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench b(args);
  const unsigned rounds = args.n ? static_cast<unsigned>(args.n) : 80;
  const auto first = fixed_traffic(b);

  // Random traffic; every third round with errors, every second with a flush in its middle. In some
  // rounds one port stalls for a while, so that data from the others must wait.
  for (unsigned round = 0; round < rounds; round++) {
    random_knobs(b);
    b.error = round % 3 == 2 ? 5 : 0;
    random_requests(b, 30);
    if (b.random().percent(40)) {
      Memory& still = b.port[b.random().below(kPorts)];
      still.mute = true;
      for (int i = 0; i < 400; i++) b.tick();
      still.mute = false;
    }
    if (round % 2) {
      for (uint64_t i = b.random().below(800); i > 0; i--) b.tick();
      // Memories may hold their answers back until after the flush, so that they come late.
      for (auto& m : b.port) m.mute = b.random().percent(50);
      b.forget_requests();
      b.flush();
      for (uint64_t i = b.random().below(20); i > 0; i--) b.tick();
      random_requests(b, 5);
      for (uint64_t i = b.random().below(20); i > 0; i--) b.tick();
      for (auto& m : b.port) m.mute = false;
    }
    b.drain();
    b.finish_old();
  }
  b.check().that(rounds < 80 || b.errors_seen > 0, "no error response was exercised");

  // Never answered on one port: three of its epochs may be lost, and traffic goes on in the fourth.
  ideal(b, 3);
  Memory& lost = b.port[kPorts - 1];
  for (int i = 0; i < 4; i++) {
    lost.never = true;
    b.ask(0, 0x1000, 4 * kPorts * kBurst / kLanes);
    for (int k = 0; k < 200; k++) b.tick();
    b.check().that(!b.idle(), "idle although answers are owed");
    b.flush(i < 3);
    lost.never = false;
    if (i < 3) {
      random_requests(b, 10);
      b.drain();
    }
  }
  // All four: no ID is free, so the flush cannot end until an old burst is answered.
  b.check().that(!b.idle(), "flush ends although no ID is free");
  for (auto& burst : lost.bursts) burst.never = false;
  for (int i = 0; i < 2000 && !b.idle(); i++) b.tick();
  b.check().that(b.idle(), "flush does not end although the old bursts were answered");
  b.finish_old();
  b.end_flush();
  random_requests(b, 20);
  b.drain();

  for (unsigned i = 0; i < rounds * 2; i++) order(b, i % 3 == 2);

  b.levels(0);
  bandwidth(b, 1, 1500, 1500, 1);
  bandwidth(b, 1, 1500, 1, 1);
  bandwidth(b, 1, 1500, 500, 1);
  bandwidth(b, 1, 1500, 15, std::min(kClients, 3u));
  // A port's bursts and queue must hide the memory's latency up to their limit.
  if (P_STRIPE == 16) bandwidth(b, 60, 3000, 3000, 1);

  for (unsigned every = 2; every < 5; every++) now_and_then(b, every);
  if (P_STRIPE > kLanes) unequal(b);
  if (P_STRIPE == 16 && kPorts > 1) reach(b, 102);  // of the 128 beats of a queue
  fill(b);

  b.check().that(fixed_traffic(b) == first, "the same traffic takes other cycles than before");
  return b.check().passed();
}
