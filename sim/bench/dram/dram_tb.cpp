// dram_tb: the DRAM model with random masters: data, order, strobes, latency, bandwidth to the
// beat, limits of outstanding bursts, every kind of fault, and the same cycles when repeated.
#include <cinttypes>
#include <map>
#include <memory>

#include "bench/tb.hpp"
#include "dram.hpp"

namespace {

using sluice::Dram;
using sluice::Fault;
using sluice::FaultDirection;
using sluice::FaultKind;
using sluice::MemoryTiming;
using sluice::Window;

constexpr uint64_t kBase = 0x40000000;
constexpr uint64_t kSize = 1 << 20;

struct Burst {
  uint64_t addr = 0;
  unsigned beats = 1, id = 0;
  // The outcome.
  uint64_t taken = 0, first = 0, last = 0;  // cycles
  unsigned got = 0;
  uint8_t resp = 0, first_resp = 0;
  bool done = false;
  std::vector<uint8_t> data;
  std::vector<uint32_t> strb;
};

// Drives one model; the masters take and give beats with the given probabilities.
template <unsigned kBytes>
class Bed {
 public:
  Bed(unsigned ports, tb::Random* random, tb::Checks* check)
      : memory(kSize),
        random_(random),
        check_(check),
        dram(ports, Window{memory.data(), kBase, kSize}),
        ports_(ports),
        in_(ports) {
    for (auto& b : memory) b = static_cast<uint8_t>(random->next());
    shadow = memory;
  }

  std::vector<uint8_t> memory, shadow;

 private:
  tb::Random* random_;
  tb::Checks* check_;

 public:
  Dram<kBytes> dram;
  unsigned ready = 100, give = 100;  // per cent
  uint64_t now = 0;

  struct Port {
    std::deque<Burst> reads, writes;     // to ask
    std::deque<Burst> reading, writing;  // asked; writing: data not all given
    std::deque<Burst> waiting;           // given, unanswered
    std::vector<Burst> done_reads, done_writes;
    bool holding = false;  // a beat shown and not taken
  };
  Port& port(unsigned p) { return ports_[p]; }

  void read(unsigned p, uint64_t addr, unsigned beats, unsigned id = 0) {
    Burst b;
    b.addr = addr;
    b.beats = beats;
    b.id = id;
    ports_[p].reads.push_back(b);
  }
  void write(unsigned p, uint64_t addr, unsigned beats, bool full, unsigned id = 0) {
    Burst b;
    b.addr = addr;
    b.beats = beats;
    b.id = id;
    for (unsigned i = 0; i < beats; i++) {
      b.strb.push_back(full ? (1u << kBytes) - 1
                            : static_cast<uint32_t>(random_->next()) & ((1u << kBytes) - 1));
      for (unsigned j = 0; j < kBytes; j++) b.data.push_back(static_cast<uint8_t>(random_->next()));
    }
    ports_[p].writes.push_back(b);
  }

  void cycle() {
    for (unsigned p = 0; p < ports_.size(); p++) show(p);
    // Handshakes of this cycle, before the model's edge changes its outputs.
    for (unsigned p = 0; p < ports_.size(); p++) shake(p);
    dram.step(in_.data());
    now++;
  }
  bool pending() const {
    for (const auto& p : ports_)
      if (!p.reads.empty() || !p.writes.empty() || !p.reading.empty() || !p.writing.empty() ||
          !p.waiting.empty())
        return true;
    return false;
  }
  void drain(unsigned limit) {
    for (unsigned i = 0; i < limit && pending(); i++) cycle();
    check_->that(!pending(), "traffic does not end within %u cycles", limit);
    check_->that(memory == shadow, "memory differs");
  }

 private:
  void show(unsigned p) {
    auto& m = in_[p];
    Port& port = ports_[p];
    m.arvalid = !port.reads.empty();
    if (m.arvalid) {
      m.araddr = port.reads.front().addr;
      m.arlen = static_cast<uint8_t>(port.reads.front().beats - 1);
      m.arid = static_cast<uint8_t>(port.reads.front().id);
    }
    m.awvalid = !port.writes.empty();
    if (m.awvalid) {
      m.awaddr = port.writes.front().addr;
      m.awlen = static_cast<uint8_t>(port.writes.front().beats - 1);
      m.awid = static_cast<uint8_t>(port.writes.front().id);
    }
    m.wvalid = port.holding || (!port.writing.empty() && random_->percent(give));
    port.holding = m.wvalid;
    if (m.wvalid) {
      const Burst& b = port.writing.front();
      std::memcpy(m.wdata, &b.data[b.got * kBytes], kBytes);
      m.wstrb = b.strb[b.got];
      m.wlast = b.got + 1 == b.beats;
    }
    m.rready = random_->percent(ready);
    m.bready = random_->percent(ready);
  }

  void shake(unsigned p) {
    auto& m = in_[p];
    const auto& s = dram.out(p);
    Port& port = ports_[p];
    if (s.rvalid) {
      auto b = port.reading.begin();
      while (b != port.reading.end() && b->id != s.rid) ++b;
      check_->that(b != port.reading.end(), "a beat of ID %u that nobody asked for", s.rid);
      check_->that(s.rlast == (b->got + 1 == b->beats), "rlast misplaced");
      if (m.rready) {
        const uint64_t addr = b->addr + b->got * kBytes;
        if (s.rresp == 0)
          check_->that(std::memcmp(s.rdata, &shadow[addr - kBase], kBytes) == 0, "data of %" PRIx64,
                       addr);
        if (b->got == 0) {
          b->first = now;
          b->first_resp = s.rresp;
        }
        b->resp = std::max(b->resp, s.rresp);
        b->last = now;
        if (++b->got == b->beats) {
          b->done = true;
          port.done_reads.push_back(*b);
          port.reading.erase(b);
        }
      }
    }
    if (s.bvalid && m.bready) {
      auto b = port.waiting.begin();
      while (b != port.waiting.end() && b->id != s.bid) ++b;
      check_->that(b != port.waiting.end(), "an answer of ID %u that nobody waits for", s.bid);
      b->resp = s.bresp;
      b->first = now;
      b->done = true;
      if (s.bresp == 0)
        for (unsigned i = 0; i < b->beats * kBytes; i++)
          if (b->strb[i / kBytes] >> (i % kBytes) & 1) shadow[b->addr - kBase + i] = b->data[i];
      port.done_writes.push_back(*b);
      port.waiting.erase(b);
    }
    if (m.wvalid && s.wready) {
      Burst& b = port.writing.front();
      port.holding = false;
      if (++b.got == b.beats) {
        b.last = now;
        port.waiting.push_back(b);
        port.writing.pop_front();
      }
    }
    if (m.arvalid && s.arready) {
      port.reads.front().taken = now;
      port.reading.push_back(port.reads.front());
      port.reads.pop_front();
    }
    if (m.awvalid && s.awready) {
      port.writes.front().taken = now;
      port.writing.push_back(port.writes.front());
      port.writes.pop_front();
    }
  }

  std::vector<Port> ports_;
  std::vector<sluice::MasterOut<kBytes>> in_;
};

MemoryTiming timing(double bytes, uint32_t read, uint32_t write) {
  MemoryTiming t;
  t.bytes_per_cycle_q16 = static_cast<uint32_t>(bytes * 65536 + 0.5);
  t.read_latency = read;
  t.write_latency = write;
  return t;
}

// Random traffic. Reads and writes of one round touch different halves, since their order is free.
template <unsigned kBytes>
void random_traffic(unsigned ports, tb::Random& random, tb::Checks& check, unsigned rounds) {
  Bed<kBytes> bed(ports, &random, &check);
  for (unsigned round = 0; round < rounds; round++) {
    bed.dram.set_timing(timing(0.5 + static_cast<double>(random.below(400)) / 10,
                               static_cast<uint32_t>(random.below(200)),
                               static_cast<uint32_t>(random.below(200))));
    bed.ready = 30 + static_cast<unsigned>(random.below(71));
    bed.give = 30 + static_cast<unsigned>(random.below(71));
    const uint64_t half = kSize / 2, read_half = round % 2;
    for (unsigned p = 0; p < ports; p++) {
      const uint64_t span = half / ports;
      for (unsigned i = 0; i < 40; i++) {
        const unsigned beats = static_cast<unsigned>(random.range(1, 16));
        const uint64_t room = (span - beats * kBytes) / kBytes;
        bed.read(p, kBase + read_half * half + p * span + random.below(room) * kBytes, beats,
                 static_cast<unsigned>(random.below(4)));
        bed.write(p, kBase + (1 - read_half) * half + p * span + random.below(room) * kBytes, beats,
                  random.percent(50));
      }
    }
    bed.drain(400000);
  }
}

void latency(tb::Random& random, tb::Checks& check) {
  for (const uint32_t n : {1u, 2u, 37u, 100u, 1000u}) {
    Bed<8> bed(1, &random, &check);
    bed.dram.set_timing(timing(8, n, n));
    for (int i = 0; i < 5; i++) bed.cycle();
    bed.read(0, kBase + 64, 4);
    bed.drain(5000);
    const Burst r = bed.port(0).done_reads.at(0);
    check.that(r.first - r.taken == n, "first beat after %" PRIu64 " cycles instead of %u",
               r.first - r.taken, n);
    check.that(r.last - r.first == 3, "4 beats took %" PRIu64 " cycles", r.last - r.first + 1);
    bed.write(0, kBase + 64, 4, true);
    bed.drain(5000);
    const Burst w = bed.port(0).done_writes.at(0);
    // The last beat is in memory one edge after it was taken, at full bandwidth.
    check.that(w.first - w.last >= n && w.first - w.last <= n + 1,
               "answer after %" PRIu64 " cycles instead of %u", w.first - w.last, n);
  }
}

// All ports read and write without pause: together exactly the bandwidth, to a beat or two.
void bandwidth(tb::Random& random, tb::Checks& check) {
  for (const double rate : {0.37, 4.0, 8.0, 15.3, 28.0, 30.0, 64.0}) {
    for (const unsigned ports : {1u, 2u, 4u}) {
      for (const bool writes : {false, true}) {
        Bed<8> bed(ports, &random, &check);
        bed.dram.set_timing(timing(rate, 100, 100));
        auto feed = [&] {
          for (unsigned p = 0; p < ports; p++) {
            while (bed.port(p).reads.size() < 4) bed.read(p, kBase + p * 4096, 16);
            while (writes && bed.port(p).writes.size() < 4)
              bed.write(p, kBase + kSize / 2 + p * 4096, 16, true);
          }
        };
        auto moved = [&] {
          uint64_t beats = 0;
          for (unsigned p = 0; p < ports; p++)
            beats += bed.dram.stats(p).read_beats + bed.dram.stats(p).write_beats;
          return static_cast<double>(beats * 8);
        };
        for (int i = 0; i < 3000; i++) {
          feed();
          bed.cycle();
        }
        const double before = moved();
        const int cycles = 20000;
        for (int i = 0; i < cycles; i++) {
          feed();
          bed.cycle();
        }
        const double most = 8.0 * ports * (writes ? 2 : 1);
        const double want = std::min(rate, most) * cycles, got = moved() - before;
        // Writes taken into the ports' buffers (16 beats) count before they reach memory.
        check.that(got <= want + 8 * ports * 18 && got >= want - 8 * ports * 18,
                   "%.1f bytes per cycle on %u ports (writes: %d): moved %.4f", rate, ports, writes,
                   got / cycles);
        uint64_t least = ~0ull, greatest = 0;
        for (unsigned p = 0; p < ports; p++) {
          least = std::min(least, bed.dram.stats(p).read_beats);
          greatest = std::max(greatest, bed.dram.stats(p).read_beats);
        }
        // (A port in pause for its latency may fall behind a little.)
        check.that(greatest - least <= greatest / 50 + 16,
                   "ports got %" PRIu64 "..%" PRIu64 " beats", least, greatest);
      }
    }
  }
}

void outstanding(tb::Random& random, tb::Checks& check) {
  Bed<8> bed(2, &random, &check);
  MemoryTiming t = timing(8, 500, 500);
  t.max_reads = 3;
  t.max_writes = 5;
  bed.dram.set_timing(t);
  for (int i = 0; i < 10; i++) {
    bed.read(0, kBase, 1);
    bed.write(0, kBase + kSize / 2, 1, true);
  }
  for (int i = 0; i < 200; i++) bed.cycle();
  check.that(bed.port(0).reading.size() == 3, "%zu reads outstanding", bed.port(0).reading.size());
  check.that(bed.port(0).waiting.size() == 5, "%zu writes outstanding", bed.port(0).waiting.size());
  bed.drain(20000);
}

void faults(tb::Random& random, tb::Checks& check) {
  Bed<8> bed(2, &random, &check);
  auto rule = [&](FaultKind kind, FaultDirection direction) {
    Fault f;
    f.kind = kind;
    f.direction = direction;
    return f;
  };
  auto reset = [&] {
    for (unsigned p = 0; p < 2; p++) {
      bed.port(p).done_reads.clear();
      bed.port(p).done_writes.clear();
    }
    bed.dram.clear_faults();
  };
  for (const FaultKind kind : {FaultKind::kSlverr, FaultKind::kDecerr}) {
    const uint8_t resp = kind == FaultKind::kSlverr ? 2 : 3;
    // The second and third read on port 1, from beat 2 on.
    Fault f = rule(kind, FaultDirection::kRead);
    f.port = 1;
    f.beat = 2;
    f.first = 2;
    f.count = 2;
    bed.dram.add_fault(f);
    for (int i = 0; i < 5; i++) {
      bed.read(0, kBase, 4);
      bed.read(1, kBase, 4);
      bed.write(1, kBase + 4096, 4, true);
    }
    bed.drain(5000);
    for (unsigned i = 0; i < 5; i++) {
      check.that(bed.port(0).done_reads.at(i).resp == 0, "fault on the wrong port");
      check.that(bed.port(1).done_writes.at(i).resp == 0, "fault in the wrong direction");
      const bool hit = i == 1 || i == 2;
      check.that(bed.port(1).done_reads.at(i).resp == (hit ? resp : 0), "read %u was answered %u",
                 i, bed.port(1).done_reads.at(i).resp);
      check.that(bed.port(1).done_reads.at(i).first_resp == 0, "fault before its beat");
    }
    reset();
    // Writes to an address range, which must not be executed (drain() compares memory).
    f = rule(kind, FaultDirection::kWrite);
    f.count = 0;
    f.low = kBase + 0x100;
    f.high = kBase + 0x110;
    bed.dram.add_fault(f);
    for (const uint64_t at : {0xE0, 0xE8, 0x100, 0x110, 0x118}) bed.write(0, kBase + at, 4, true);
    bed.drain(5000);
    for (unsigned i = 0; i < 5; i++)
      check.that(bed.port(0).done_writes.at(i).resp == (i >= 1 && i <= 3 ? resp : 0),
                 "write %u was answered %u", i, bed.port(0).done_writes.at(i).resp);
    reset();
  }
  // Outside of memory: DECERR without any rule, also where the end wraps.
  bed.read(0, kBase - 8, 1);
  bed.read(0, kBase + kSize - 8, 2);
  bed.read(0, kBase + kSize - 8, 1);
  bed.write(0, kBase + kSize, 1, true);
  bed.write(0, 0xFFFFFFFFF8, 1, true);
  bed.drain(5000);
  check.that(bed.port(0).done_reads.at(0).resp == 3 && bed.port(0).done_reads.at(1).resp == 3 &&
                 bed.port(0).done_reads.at(2).resp == 0 &&
                 bed.port(0).done_writes.at(0).resp == 3 && bed.port(0).done_writes.at(1).resp == 3,
             "edges of memory");
  reset();
  // Delay.
  Fault d = rule(FaultKind::kDelay, FaultDirection::kBoth);
  d.delay = 777;
  d.count = 2;
  bed.dram.add_fault(d);
  bed.read(0, kBase, 1);
  bed.drain(5000);
  bed.write(0, kBase, 1, true);
  bed.drain(5000);
  bed.read(0, kBase, 1);
  bed.drain(5000);
  const auto& r = bed.port(0).done_reads;
  check.that(r.at(0).first - r.at(0).taken == 877 && r.at(1).first - r.at(1).taken == 100,
             "delays of %" PRIu64 " and %" PRIu64, r.at(0).first - r.at(0).taken,
             r.at(1).first - r.at(1).taken);
  const Burst w = bed.port(0).done_writes.at(0);
  check.that(w.first - w.last >= 877, "write delayed by %" PRIu64, w.first - w.last);
  reset();
  // Never: later bursts with its ID wait for ever, other IDs and ports go on.
  Fault n = rule(FaultKind::kNever, FaultDirection::kRead);
  n.port = 0;
  n.beat = 1;
  bed.dram.add_fault(n);
  bed.read(0, kBase, 4, 1);
  for (int i = 0; i < 40; i++) bed.read(0, kBase, 4, 2);
  bed.read(0, kBase, 4, 1);
  bed.read(1, kBase, 4, 1);
  for (int i = 0; i < 3000; i++) bed.cycle();
  check.that(bed.port(0).done_reads.size() == 40 && bed.port(1).done_reads.size() == 1,
             "%zu and %zu reads got past one that is never answered", bed.port(0).done_reads.size(),
             bed.port(1).done_reads.size());
  check.that(bed.port(0).reading.size() == 2 && bed.port(0).reading.front().got == 1,
             "the lost read");
  bed.port(0).reading.clear();
  reset();
  bed.dram.reset();
  n.direction = FaultDirection::kWrite;
  bed.dram.add_fault(n);
  bed.write(0, kBase, 2, true, 3);
  for (int i = 0; i < 40; i++) bed.write(0, kBase + 64, 2, true, 0);
  bed.write(0, kBase + 128, 2, true, 3);
  for (int i = 0; i < 9000; i++) bed.cycle();
  check.that(bed.port(0).done_writes.size() == 40 && bed.port(0).waiting.size() == 2,
             "%zu writes got past one that is never answered", bed.port(0).done_writes.size());
  reset();
  auto refused = [&](Fault f, const char* what) {
    bool thrown = false;
    try {
      bed.dram.add_fault(f);
    } catch (const std::invalid_argument& e) {
      thrown = true;
      check.that(std::strlen(e.what()) < 40, "\"%s\" is cut on its way", e.what());  // protocol.hpp
    }
    check.that(thrown, "%s was taken", what);
  };
  Fault bad;
  bad.kind = static_cast<FaultKind>(5);
  refused(bad, "an unknown kind");
  bad = Fault();
  bad.direction = static_cast<FaultDirection>(3);
  refused(bad, "an unknown direction");
  bad = Fault();
  bad.first = 0;
  refused(bad, "the zeroth burst");
  bad = Fault();
  bad.low = 1;
  bad.high = 0;
  refused(bad, "an empty range");
  bad = Fault();
  bad.port = 2;
  refused(bad, "port 2 of two");
}

// The same traffic takes the same cycles: from reset, and again after an idle phase.
void repeats(uint64_t seed, tb::Checks& check) {
  uint64_t span = 0;
  for (int process = 0; process < 2; process++) {
    tb::Random random(seed + 17);
    Bed<16> bed(2, &random, &check);
    bed.dram.set_timing(timing(15.3, 100, 60));
    for (int round = 0; round < 4; round++) {
      // Earlier traffic, and how long ago it was, must make no difference.
      bed.read(static_cast<unsigned>(round) % 2, kBase, 1 + static_cast<unsigned>(round));
      bed.drain(1000);
      bed.port(static_cast<unsigned>(round) % 2).done_reads.clear();
      for (int i = 0; i < 5 + 37 * round; i++) bed.cycle();
      const uint64_t begin = bed.now;
      for (unsigned i = 0; i < 100; i++) {
        bed.read(i % 2, kBase + i * 1024, 1 + i % 16);
        bed.write(i % 2, kBase + kSize / 2 + i * 1024, 1 + i % 5, true);
      }
      bed.drain(100000);
      uint64_t took = 0;  // a hash over the times of all bursts
      for (unsigned p = 0; p < 2; p++) {
        for (const auto* list : {&bed.port(p).done_reads, &bed.port(p).done_writes})
          for (const Burst& b : *list)
            for (const uint64_t t : {b.taken, b.first, b.last})
              took = tb::Random(took ^ (t - begin)).next();
        bed.port(p).done_reads.clear();
        bed.port(p).done_writes.clear();
      }
      check.that(span == 0 || span == took, "the same traffic took other cycles in round %d",
                 round);
      span = took;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("dram", args.seed);
  const unsigned rounds = args.n ? static_cast<unsigned>(args.n) : 20;
  random_traffic<8>(1, random, check, rounds);
  random_traffic<8>(4, random, check, rounds);
  random_traffic<16>(2, random, check, rounds);
  latency(random, check);
  bandwidth(random, check);
  outstanding(random, check);
  faults(random, check);
  repeats(args.seed, check);
  return check.passed();
}
