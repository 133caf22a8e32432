// weight_feed_tb: random layers, their weights packed as hw/README.md says, through a ring with
// gaps. A model of the array's shadow weights takes what is loaded; at every full_o it must hold
// the pass, and it must not change while a swap is still on its way. Streams that are too short or
// too long must end in an error.
#include "Vweight_feed.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kTP = P_T_P, kTC = P_T_C, kLoad = P_W_LOAD, kWPB = P_AXI_BYTES / 2;
constexpr unsigned kSwapLatency = 3;

struct Pass {
  unsigned nch;
  std::vector<uint16_t> w;  // nch x T_P
};
struct Beat {
  uint16_t word[kWPB];
  bool last;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("weight_feed", args.seed) {}

  void reset() {
    dut_.rst_ni = 0;
    ring_.clear();
    for (int i = 0; i < 2; i++) cycle(nullptr, 0);
    dut_.rst_ni = 1;
    now_ += 1000;  // no swap is on its way
    gap_ = static_cast<unsigned>(random_.percent(40) ? 0 : random_.below(90));
    slow_ = static_cast<unsigned>(random_.percent(40) ? 0 : random_.below(40));
  }

  enum Kind { kRight, kShort, kLong };

  void start(unsigned n, Kind kind) {
    reset();
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act);
    unit::Limits limit;
    limit.t_r = 64;
    limit.max_in_c = kTP + 5;
    limit.max_out_c = 3 * kTC;
    for (unsigned i = 0; i < n; i++) {
      const unit::Layer l = unit::random_layer(
          random_, limit, unit::random_op(random_, kind == kRight ? 80 : 100), b_act);
      layer(l, i + 1 == n ? kind : kRight);
    }
  }

  // A beat a cycle in, a group a cycle out: what is promised when nothing stalls.
  void full_speed() {
    reset();
    gap_ = slow_ = 0;
    unit::Layer l;
    l.in_c = kTP * 5;
    l.out_c = kTC;
    l.b_act = 1;
    dut_.b_act_i = 1;
    std::vector<Pass> passes = pack(l, kRight);
    offer(l);
    const unsigned groups = (kTC + kLoad - 1) / kLoad;
    const unsigned words = kLoad * kTP;
    uint64_t full_at = 0;
    for (size_t i = 0; i < passes.size(); i++) {
      while (!full()) cycle(nullptr, 0);
      const uint64_t took = now_ - full_at;
      if (i > 0) {
        // the swap must pass; then a group a cycle, or as fast as the ring can bring them
        const uint64_t slowest = kSwapLatency + kTP + groups * ((words + kWPB - 1) / kWPB) + 2;
        const uint64_t fastest = kSwapLatency + kTP - 1 + groups;
        check_.that(took >= fastest && took <= slowest,
                    "a pass loads in %" PRIu64 " cycles, not %" PRIu64 " to %" PRIu64, took,
                    fastest, slowest);
        if (words <= kWPB)
          check_.that(took <= fastest + 1, "a pass loads in %" PRIu64 " cycles, not %" PRIu64, took,
                      fastest);
      }
      match(passes[i]);
      full_at = now_;
      cycle(nullptr, 1);
    }
  }
  int finish() { return check_.passed(); }

 private:
  // The stream of every row tile into the ring; the passes of all of them.
  std::vector<Pass> pack(const unit::Layer& l, Kind kind) {
    std::vector<Pass> passes;
    std::vector<uint16_t> stream;
    for (unsigned c0 = 0; c0 < l.out_c; c0 += kTC) {
      const unsigned nch = std::min(kTC, l.out_c - c0);
      for (unsigned kh = 0; kh < l.k_h; kh++) {
        for (unsigned p0 = 0; p0 < l.kwc(); p0 += kTP) {
          Pass pass{nch, {}};
          for (unsigned c = 0; c < nch; c++) {
            for (unsigned j = 0; j < kTP; j++) {
              pass.w.push_back(p0 + j < l.kwc() ? static_cast<uint16_t>(random_.next()) : 0);
            }
          }
          stream.insert(stream.end(), pass.w.begin(), pass.w.end());
          passes.push_back(pass);
        }
      }
      while (stream.size() % 8) stream.push_back(0);
    }
    const std::vector<Pass> one = passes;
    const unsigned bad = static_cast<unsigned>(random_.below(l.row_tiles()));
    for (unsigned t = 0; t < l.row_tiles(); t++) {
      std::vector<uint16_t> s = stream;
      if (kind == kShort && t == bad)
        s.resize(s.size() - kWPB * random_.range(1, std::min<uint64_t>(4, s.size() / kWPB - 1)));
      if (kind == kLong && t == bad) s.resize(s.size() + kWPB * random_.range(1, 40), 0x1234);
      for (size_t i = 0; i < s.size(); i += kWPB) {
        Beat b{};
        for (unsigned k = 0; k < kWPB; k++) b.word[k] = s[i + k];
        b.last = i + kWPB == s.size();
        ring_.push_back(b);
      }
      if (t > 0) passes.insert(passes.end(), one.begin(), one.end());
    }
    return passes;
  }

  void offer(const unit::Layer& l) {
    for (unsigned waited = 0; !ready(); waited++) {
      check_.that(waited < 500, "the unit does not take the next layer");
      cycle(nullptr, 0);
    }
    cycle(&l, 0);
  }

  void layer(const unit::Layer& l, Kind kind) {
    std::vector<Pass> passes;
    if (l.gemm()) {
      if (kind == kShort && l.out_c * l.kwc() * l.k_h < 4 * kWPB)
        kind = kRight;  // nothing to take away
      passes = pack(l, kind);
    }
    offer(l);
    size_t next = 0;
    uint64_t waited = 0;
    while (next < passes.size()) {
      if (full() && !(slow_ && random_.percent(slow_ * 2))) {
        match(passes[next++]);
        cycle(nullptr, 1);
        waited = 0;
        continue;
      }
      cycle(nullptr, 0);
      if (kind != kRight && dut_.err_valid_o) break;
      check_.that(++waited < 3000, "pass %zu of %zu does not come", next, passes.size());
    }
    if (kind == kRight) {
      // the rest of the stream is used up, the unit free, no error
      waited = 0;
      while (!ready()) {
        cycle(nullptr, 0);
        check_.that(++waited < 3000, "the layer does not end");
      }
      check_.that(ring_.empty(), "beats left over");
      return;
    }
    waited = 0;
    while (!dut_.err_valid_o) {
      cycle(nullptr, 0);
      check_.that(++waited < 3000, "a stream that is too %s goes unnoticed",
                  kind == kShort ? "short" : "long");
    }
    for (int i = 0; i < 5; i++) cycle(nullptr, 0);
    check_.that(dut_.err_valid_o && !dut_.full_o && !dut_.load_o, "goes on after the error");
  }

  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  bool ready() {
    settle();
    return dut_.layer_ready_o;
  }
  bool full() {
    settle();
    return dut_.full_o;
  }
  void match(const Pass& pass) {
    for (unsigned c = 0; c < pass.nch; c++) {
      for (unsigned j = 0; j < kTP; j++) {
        check_.that(shadow_[c][j] == pass.w[c * kTP + j], "PE %u lane %u: %04x, not %04x", c, j,
                    shadow_[c][j], pass.w[c * kTP + j]);
      }
    }
  }

  void cycle(const unit::Layer* offered, unsigned swap) {
    unit::drive_layer(dut_, random_, offered);
    dut_.swap_i = static_cast<unsigned char>(swap);
    const bool valid = dut_.rst_ni && !ring_.empty() && (held_ || !(gap_ && random_.percent(gap_)));
    dut_.ring_valid_i = valid;
    dut_.ring_last_i = valid ? ring_.front().last : random_.percent(50);
    for (unsigned i = 0; i < kWPB; i++)
      unit::put(dut_.ring_data_i, i * 16, 16, valid ? ring_.front().word[i] : random_.next());
    settle();
    if (dut_.rst_ni && dut_.load_o) {
      check_.that(now_ >= swap_at_ + kSwapLatency + kTP - 1,
                  "loads %" PRIu64 " cycles after the swap", now_ - swap_at_);
      for (unsigned k = 0; k < kLoad; k++) {
        const unsigned pe = dut_.group_o * kLoad + k;
        for (unsigned j = 0; j < kTP && pe < kTC; j++) {
          shadow_[pe][j] = static_cast<uint16_t>(unit::get(dut_.w_o, (k * kTP + j) * 16, 16));
        }
      }
    }
    if (swap) swap_at_ = now_;
    held_ = valid && !dut_.ring_ready_o;
    if (valid && dut_.ring_ready_o) ring_.pop_front();
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  tb::Random random_;
  tb::Checks check_;
  Vweight_feed dut_;
  std::deque<Beat> ring_;
  uint16_t shadow_[kTC][kTP] = {};
  uint64_t now_ = 1000, swap_at_ = 0;
  unsigned gap_ = 0, slow_ = 0;
  bool held_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  const uint64_t n = args.n ? args.n : 30;
  bench.full_speed();
  for (uint64_t i = 0; i < n; i++) {
    bench.start(4, Bench::kRight);
    bench.start(2, Bench::kShort);
    bench.start(2, Bench::kLong);
  }
  return bench.finish();
}
