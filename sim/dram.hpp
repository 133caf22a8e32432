// dram.hpp: a model of DRAM behind N AXI4 ports.
//
// What it promises. All ports together move at most `bytes_per_cycle` bytes (reads and writes share
// one token bucket, in 1/65536 bytes; a beat costs its whole width whatever its strobes). The first
// beat of a read can be taken `read_latency` clock edges after its address was, no earlier; the
// answer to a write `write_latency` edges after its last beat reached memory (zero counts as one).
// Each port holds up to `max_reads` and `max_writes` bursts; past that it does not take addresses.
// Answers are in order per port and ID. Every output is registered: it depends on what the ports
// showed in earlier cycles only, so a caller may apply the outputs together with the next clock
// edge.
//
// Arbitration is round robin over the ports' reads and writes, a beat each; the pointer and the
// bucket return to the same state whenever the memory is idle, so that equal traffic after an idle
// phase takes equal cycles. There is no randomness.
//
// Addresses outside of the window are answered DECERR. Faults are injected by rules (Fault).
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice {

// The part of the address space that is memory: bytes at `data` answer addresses from `base`.
struct Window {
  uint8_t* data = nullptr;
  uint64_t base = 0;
  uint64_t size = 0;

  // Whether [addr, addr + bytes) is memory; written so that nothing can overflow.
  bool holds(uint64_t addr, uint64_t bytes) const {
    return addr >= base && bytes <= size && addr - base <= size - bytes;
  }
};

struct MemoryTiming {
  uint32_t bytes_per_cycle_q16 = 8u << 16;  // 1/65536 bytes
  uint32_t read_latency = 100;
  uint32_t write_latency = 100;
  uint32_t max_reads = 16;   // bursts a port
  uint32_t max_writes = 16;  // bursts a port
};

// What a rule does to the bursts it matches.
enum class FaultKind : uint8_t {
  kSlverr = 1,  // answered SLVERR; a read from beat `beat` on, a write is not carried out
  kDecerr = 2,  // the same with DECERR
  kNever = 3,   // a read stops before beat `beat`, a write is never answered; later bursts of the
                // same port, direction and ID wait behind it for ever
  kDelay = 4,   // `delay` cycles are added to the latency
};

enum class FaultDirection : uint8_t { kBoth = 0, kRead = 1, kWrite = 2 };

struct Fault {
  static constexpr uint8_t kAnyPort = 0xFF;
  uint8_t port = kAnyPort;
  FaultDirection direction = FaultDirection::kBoth;
  FaultKind kind = FaultKind::kSlverr;
  uint8_t beat = 0;
  uint32_t first = 1;  // the first matching burst it acts on, counted from one
  uint32_t count = 1;  // how many it acts on; 0: all from then on
  uint32_t delay = 0;  // cycles (kDelay)
  uint64_t low = 0;    // matches bursts that touch low..high
  uint64_t high = ~uint64_t{0};
  uint64_t seen = 0;  // the model's own count of matching bursts
};

struct PortStats {
  uint64_t read_bursts = 0, read_beats = 0;
  uint64_t write_bursts = 0, write_beats = 0, write_bytes = 0;  // bytes: strobes set
};

// One AXI4 port as the master drives it ...
template <unsigned kBytes>
struct MasterOut {
  bool arvalid, rready, awvalid, wvalid, wlast, bready;
  uint8_t arlen, arid, awlen, awid;
  uint64_t araddr, awaddr;
  uint32_t wstrb;
  uint8_t wdata[kBytes];
};

// ... and as the memory answers.
template <unsigned kBytes>
struct SlaveOut {
  bool arready = false, rvalid = false, rlast = false, awready = false, wready = false,
       bvalid = false;
  uint8_t rid = 0, rresp = 0, bid = 0, bresp = 0;
  uint8_t rdata[kBytes] = {};
};

template <unsigned kBytes>
class Dram {
 public:
  Dram(unsigned ports, Window window) : window_(window), ports_(ports) {
    if (ports < 1 || ports > 16) throw std::invalid_argument("dram: 1..16 ports");
    reset();
  }

  // Forgets everything in flight; keeps timing, faults' rules (their counts begin anew), memory.
  void reset() {
    for (auto& p : ports_) p = Port();
    for (auto& f : faults_) f.seen = 0;
    now_ = 0;
    turn_ = 0;
    tokens_ = cap();
    idle_ = false;
  }

  // What these refuse travels as 39 characters at most (sim/PROTOCOL.md).
  void set_timing(const MemoryTiming& t) {
    if (t.bytes_per_cycle_q16 == 0) throw std::invalid_argument("dram: the bandwidth is 0");
    if (t.max_reads == 0 || t.max_writes == 0 || t.max_reads > 256 || t.max_writes > 256)
      throw std::invalid_argument("dram: outstanding bursts: 1..256");
    timing_ = t;
    tokens_ = cap();
    idle_ = false;
  }
  const MemoryTiming& timing() const { return timing_; }

  void add_fault(const Fault& f) {
    if (f.kind < FaultKind::kSlverr || f.kind > FaultKind::kDelay)
      throw std::invalid_argument("dram: unknown kind of fault");
    if (f.direction > FaultDirection::kWrite)
      throw std::invalid_argument("dram: unknown direction of fault");
    if (f.first == 0) throw std::invalid_argument("dram: a fault's bursts count from one");
    if (f.low > f.high) throw std::invalid_argument("dram: a fault's range is empty");
    if (f.port != Fault::kAnyPort && f.port >= ports_.size())
      throw std::invalid_argument("dram: a fault's port is not there");
    if (faults_.size() >= 64) throw std::invalid_argument("dram: at most 64 faults");
    faults_.push_back(f);
    faults_.back().seen = 0;
  }
  // Removes the rules; what a kNever has already swallowed stays lost until reset().
  void clear_faults() { faults_.clear(); }

  const PortStats& stats(unsigned port) const { return ports_.at(port).stats; }
  unsigned ports() const { return static_cast<unsigned>(ports_.size()); }
  const SlaveOut<kBytes>& out(unsigned port) const { return ports_[port].out; }

  // One clock edge: `in` is what the masters show while out() is what they see.
  void step(const MasterOut<kBytes>* in) {
    now_++;
    bool quiet = idle_;
    for (unsigned p = 0; quiet && p < ports_.size(); p++)
      quiet = !in[p].arvalid && !in[p].awvalid && !in[p].wvalid;
    if (quiet) return;  // every output, the bucket and the turn are at rest already

    for (unsigned p = 0; p < ports_.size(); p++) take(p, in[p]);
    tokens_ += timing_.bytes_per_cycle_q16;
    if (tokens_ > cap()) tokens_ = cap();
    serve();
    bool rest = tokens_ == cap();
    for (unsigned p = 0; p < ports_.size(); p++) rest = answer(p) && rest;
    idle_ = rest;
    if (rest) turn_ = 0;
  }

 private:
  static constexpr unsigned kWriteBuffer = 16;  // beats a port takes ahead of memory

  struct Read {
    uint64_t addr, due;
    unsigned beats, done = 0, from_beat = 0;
    uint8_t id, resp = 0;
    bool never = false;
  };
  struct Write {
    uint64_t addr, due = 0;
    unsigned beats, done = 0;
    uint32_t delay = 0;
    uint8_t id, resp = 0;
    bool never = false;
  };
  struct Beat {
    uint32_t strb;
    uint8_t data[kBytes];
  };
  struct Port {
    std::deque<Read> reads;
    std::deque<Write> writes;                   // announced, data not all in memory
    std::deque<Beat> buffer;                    // data taken, not yet in memory
    std::deque<Write> answers;                  // in memory, not yet answered
    unsigned reads_lost = 0, answers_lost = 0;  // bursts at rest behind a kNever
    bool read_stuck[4] = {}, write_stuck[4] = {};
    int ready = -1;  // the read whose beat may go out in this cycle
    SlaveOut<kBytes> out;
    PortStats stats;
  };

  // What the bucket holds: what a cycle brings and a beat, so that under load nothing is lost to
  // the brim, and an idle memory saves up no more than that.
  uint64_t cap() const { return timing_.bytes_per_cycle_q16 + kCost; }
  static uint64_t at_least_one(uint32_t n) { return n ? n : 1; }
  static constexpr uint64_t kCost = uint64_t{kBytes} << 16;

  // The handshakes of the cycle that ends.
  void take(unsigned index, const MasterOut<kBytes>& in) {
    Port& p = ports_[index];
    SlaveOut<kBytes>& out = p.out;
    if (out.rvalid && in.rready) out.rvalid = false;
    if (out.bvalid && in.bready) out.bvalid = false;
    if (in.arvalid && out.arready) {
      Read r;
      r.addr = in.araddr;
      r.beats = in.arlen + 1u;
      r.id = in.arid & 3;
      r.due = now_ + at_least_one(timing_.read_latency) - 1;
      p.stats.read_bursts++;
      Effect e = match(index, FaultDirection::kRead, r.addr, r.beats);
      r.due += e.delay;
      r.never = e.never;
      r.resp = e.resp;
      r.from_beat = e.beat;
      if (!window_.holds(r.addr, uint64_t{r.beats} * kBytes) && !r.resp) r.resp = 3;
      p.reads.push_back(r);
    }
    if (in.awvalid && out.awready) {
      Write w;
      w.addr = in.awaddr;
      w.beats = in.awlen + 1u;
      w.id = in.awid & 3;
      p.stats.write_bursts++;
      Effect e = match(index, FaultDirection::kWrite, w.addr, w.beats);
      w.delay = e.delay;
      w.never = e.never;
      w.resp = e.resp;
      if (!window_.holds(w.addr, uint64_t{w.beats} * kBytes) && !w.resp) w.resp = 3;
      p.writes.push_back(w);
    }
    if (in.wvalid && out.wready) {
      Beat b;
      b.strb = in.wstrb;
      std::memcpy(b.data, in.wdata, kBytes);
      p.buffer.push_back(b);
      p.stats.write_beats++;
      p.stats.write_bytes += static_cast<unsigned>(__builtin_popcount(b.strb));
    }
  }

  // Spends tokens: the ports' reads and writes take turns, a beat each, at most one of each kind a
  // port and cycle.
  void serve() {
    const unsigned n = 2 * static_cast<unsigned>(ports_.size());
    unsigned next = turn_;
    for (unsigned i = 0; i < n; i++) {
      const unsigned who = turn_ + i < n ? turn_ + i : turn_ + i - n;
      Port& p = ports_[who >> 1];
      if (who & 1) {
        if (p.buffer.empty() || p.writes.empty()) continue;
      } else {
        p.ready = -1;
        if (p.out.rvalid || !find_read(p)) continue;
      }
      if (tokens_ < kCost) {
        p.ready = who & 1 ? p.ready : -1;
        continue;
      }
      tokens_ -= kCost;
      next = who + 1 < n ? who + 1 : 0;
      if (who & 1)
        store(p);
      else
        fetch(p);
    }
    turn_ = next;
  }

  // The oldest read that is due and does not wait behind a lost one of its ID.
  bool find_read(Port& p) {
    for (size_t i = 0; i < p.reads.size(); i++) {
      Read& r = p.reads[i];
      if (p.read_stuck[r.id]) continue;
      if (r.never && r.done >= r.from_beat) {
        p.read_stuck[r.id] = true;
        continue;
      }
      if (r.due > now_) return false;  // later ones are not due either, or wait their turn
      p.ready = static_cast<int>(i);
      return true;
    }
    return false;
  }

  void fetch(Port& p) {
    Read& r = p.reads[static_cast<size_t>(p.ready)];
    const uint64_t addr = r.addr + uint64_t{r.done} * kBytes;
    SlaveOut<kBytes>& out = p.out;
    out.rvalid = true;
    out.rid = r.id;
    out.rresp = r.done >= r.from_beat ? r.resp : 0;
    out.rlast = r.done + 1 == r.beats;
    if (window_.holds(addr, kBytes))
      std::memcpy(out.rdata, window_.data + (addr - window_.base), kBytes);
    else
      std::memset(out.rdata, 0xEE, kBytes);
    p.stats.read_beats++;
    r.done++;
    if (r.done == r.beats) p.reads.erase(p.reads.begin() + p.ready);
    p.ready = -1;
  }

  void store(Port& p) {
    Write& w = p.writes.front();
    const Beat& b = p.buffer.front();
    const uint64_t addr = w.addr + uint64_t{w.done} * kBytes;
    if (w.resp == 0 && window_.holds(addr, kBytes)) {
      uint8_t* to = window_.data + (addr - window_.base);
      if (b.strb == (kBytes == 32 ? ~0u : (1u << kBytes) - 1)) {
        std::memcpy(to, b.data, kBytes);
      } else {
        for (unsigned i = 0; i < kBytes; i++)
          if (b.strb >> i & 1) to[i] = b.data[i];
      }
    }
    p.buffer.pop_front();
    if (++w.done < w.beats) return;
    w.due = now_ + at_least_one(timing_.write_latency) - 1 + w.delay;
    p.answers.push_back(w);
    p.writes.pop_front();
  }

  // The answer to a write, and whether the port takes more; true where the port is at rest.
  bool answer(unsigned index) {
    Port& p = ports_[index];
    SlaveOut<kBytes>& out = p.out;
    if (!out.bvalid) {
      for (size_t i = 0; i < p.answers.size(); i++) {
        const Write& w = p.answers[i];
        if (p.write_stuck[w.id]) continue;
        if (w.never) {
          p.write_stuck[w.id] = true;
          continue;
        }
        if (w.due > now_) break;
        out.bvalid = true;
        out.bid = w.id;
        out.bresp = w.resp;
        p.answers.erase(p.answers.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    }
    out.arready = p.reads.size() - lost(p.reads, p.read_stuck) < timing_.max_reads;
    out.awready =
        p.writes.size() + p.answers.size() - lost(p.answers, p.write_stuck) < timing_.max_writes;
    out.wready = p.buffer.size() < kWriteBuffer;
    return p.reads.empty() && p.writes.empty() && p.buffer.empty() && p.answers.empty() &&
           !out.rvalid && !out.bvalid;
  }

  // Bursts that will never be answered take no place, or a port would fill up with them.
  template <class Bursts>
  static size_t lost(const Bursts& bursts, const bool* stuck) {
    if (!stuck[0] && !stuck[1] && !stuck[2] && !stuck[3]) return 0;
    size_t n = 0;
    for (const auto& b : bursts) n += stuck[b.id];
    return n;
  }

  struct Effect {
    uint32_t delay = 0;
    unsigned beat = 0;
    uint8_t resp = 0;
    bool never = false;
  };
  Effect match(unsigned port, FaultDirection direction, uint64_t addr, unsigned beats) {
    Effect e;
    for (auto& f : faults_) {
      if (f.port != Fault::kAnyPort && f.port != port) continue;
      if (f.direction != FaultDirection::kBoth && f.direction != direction) continue;
      if (addr > f.high || addr + uint64_t{beats} * kBytes - 1 < f.low) continue;
      f.seen++;
      if (f.seen < f.first || (f.count != 0 && f.seen - f.first >= f.count)) continue;
      switch (f.kind) {
        case FaultKind::kSlverr:
        case FaultKind::kDecerr:
          e.resp = f.kind == FaultKind::kSlverr ? 2 : 3;
          e.beat = f.beat;
          break;
        case FaultKind::kNever:
          e.never = true;
          e.beat = f.beat;
          break;
        case FaultKind::kDelay:
          e.delay += f.delay;
          break;
      }
    }
    return e;
  }

  Window window_;
  MemoryTiming timing_;
  std::vector<Port> ports_;
  std::vector<Fault> faults_;
  uint64_t now_ = 0;
  uint64_t tokens_ = 0;
  unsigned turn_ = 0;
  bool idle_ = false;
};

}  // namespace sluice
