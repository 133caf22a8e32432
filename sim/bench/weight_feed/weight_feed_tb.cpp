// weight_feed_tb: random layers of every k, s and loop order, their weights packed as in
// hw/README.md, through a ring with gaps that can go back: weights that are replayed come once, all
// others once for each row tile. A model of the array's shadow weights takes the loads; when a
// swap reaches it, it must hold the pass, and it must not change while the swap is in progress. A ring that has
// wrapped keeps at most KEEP bytes and a request. Descriptors with too many or too few bytes must
// end in an error of their layer. A depthwise layer's beats go only to that unit, each once.
#include "Vweight_feed.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kTP = P_T_P, kTC = P_T_C, kLoad = P_W_LOAD, kWPB = P_AXI_BYTES / 2;
constexpr unsigned kSwapLatency = 5;
#ifndef P_KEEP
#define P_KEEP 256
#endif
constexpr size_t kAlign = sluice_abi::WEIGHT_ALIGN / 2, kRing = (P_KEEP + sluice_abi::RING_SPARE) / P_AXI_BYTES;

struct Pass {
  unsigned nch, k, groups;
  std::vector<uint16_t> w;  // nch x lanes
};
struct Beat {
  uint16_t word[kWPB];
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("weight_feed", args.seed) {}

  void reset() {
    while (!swaps_.empty()) cycle(nullptr, 0);
    dut_.rst_ni = 0;
    ring_.clear();
    taken_beats_ = kept_ = 0;
    layers_ = 0;
    for (int i = 0; i < 2; i++) cycle(nullptr, 0);
    dut_.rst_ni = 1;
    passed_at_ = now_;
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
    limit.max_out_c = 5 * kTC;
    limit.t_c = kTC;
    limit.t_p = kTP;
    limit.keep = P_KEEP;
    for (unsigned i = 0; i < n; i++) {
      const unit::Layer l = unit::random_layer(random_, limit, unit::random_op(random_, kind == kRight ? 80 : 100), b_act);
      layer(l, i + 1 == n ? kind : kRight);
    }
  }

  // Without stalls: one beat in and one group out per cycle.
  void full_speed(unsigned k, unsigned s) {
    reset();
    gap_ = slow_ = 0;
    unit::Layer l;
    l.k = k;
    l.groups = s;
    l.in_c = kTP * 10;
    l.out_c = l.tc(kTC);
    l.b_act = s;
    dut_.b_act_i = static_cast<unsigned char>(s);
    l.pack(kTP, kTC);
    const std::vector<Pass> passes = pack(l);
    offer(l);
    const unsigned groups = (kTC + kLoad - 1) / kLoad, chain = depth(l);
    const unsigned words = kLoad / s * (l.half() ? kTP / 2 * 2 : kTP);
    uint64_t full_at = 0;
    for (size_t i = 0; i < passes.size(); i++) {
      while (!full()) cycle(nullptr, 0);
      const uint64_t took = now_ - full_at;
      if (i > 0) {
        // the swap must pass; then a group per cycle, or as fast as the ring delivers them
        const uint64_t slowest = chain + groups * ((words + kWPB - 1) / kWPB) + 5;
        const uint64_t fastest = chain + 1 + groups;
        check_.that(took >= fastest && took <= slowest, "a pass loads in %" PRIu64 " cycles, not %" PRIu64 " to %" PRIu64, took, fastest, slowest);
        if (words <= kWPB) check_.that(took <= fastest + 1, "a pass loads in %" PRIu64 " cycles, not %" PRIu64, took, fastest);
      }
      full_at = now_;
      swap(passes[i]);
    }
  }
  int finish(bool all) {
    // each way of reading weights must have occurred, if it differs
    for (unsigned i = 0; all && i < 3; i++) check_.that(seen_[i] > 0, "no layer of kind %u", i);
    return check_.passed();
  }

 private:
  // Lanes of the longest chain: a swap takes a cycle for each.
  static unsigned depth(const unit::Layer& l) { return l.half() ? kTP - kTP / 2 : l.lanes(kTP); }

  // The stream into the ring, with repetitions; the passes of the whole layer.
  std::vector<Pass> pack(const unit::Layer& l) {
    std::vector<std::vector<Pass>> tiles;
    std::vector<uint16_t> stream;
    const unsigned tc = l.tc(kTC), lanes = l.lanes(kTP);
    for (unsigned c0 = 0; c0 < l.out_c; c0 += tc) {
      const unsigned nch = std::min(tc, l.out_c - c0);
      tiles.push_back({});
      for (unsigned kh = 0; kh < l.k_h; kh++) {
        for (unsigned p0 = 0; p0 < l.kwc(); p0 += lanes) {
          Pass pass{nch, l.k, l.groups, {}};
          for (unsigned c = 0; c < nch; c++) {
            for (unsigned j = 0; j < lanes; j++) {
              pass.w.push_back(p0 + j < l.kwc() ? static_cast<uint16_t>(random_.next()) : 0);
            }
          }
          stream.insert(stream.end(), pass.w.begin(), pass.w.end());
          tiles.back().push_back(pass);
        }
      }
      while (stream.size() % kAlign) stream.push_back(0);
    }
    check_.that(stream.size() * 2 == l.w_bytes || broken_, "the bench packs %zu bytes, not %" PRIu64, stream.size() * 2, l.w_bytes);
    stream.resize(l.w_bytes / 2, 0x1234);
    for (unsigned t = 0; t < (l.replay(P_KEEP) ? 1 : l.row_tiles()); t++) {
      for (size_t i = 0; i < stream.size(); i += kWPB) {
        Beat b{};
        for (unsigned k = 0; k < kWPB; k++) b.word[k] = stream[i + k];
        ring_.push_back(b);
      }
    }
    std::vector<Pass> passes;
    for (const unit::Visit& v : unit::visits(l, tc)) {
      const std::vector<Pass>& tile = tiles[v.c0 / tc];
      passes.insert(passes.end(), tile.begin(), tile.end());
    }
    return passes;
  }

  // Gives the descriptor too few or too many bytes; false: this layer has none to remove.
  bool spoil(unit::Layer& l, Kind kind) {
    // a few lines; sometimes as many words as an 8-bit counter wraps at
    const uint64_t by = sluice_abi::WEIGHT_ALIGN * (kind == kLong && random_.percent(40) ? 8 : random_.range(1, 3));
    const bool several = l.w_bytes > l.w_tile;
    const unsigned what = static_cast<unsigned>(random_.below(3));
    if (kind == kShort) {
      uint64_t& bytes = several && what ? l.w_tile : l.w_bytes;
      if (bytes <= by) return false;
      bytes -= by;
    } else {
      // one C tile: after it, or inside it; several: after them, or inside each
      if (several ? what != 0 : what == 1) l.w_tile += by;
      if (several ? what != 1 : true) l.w_bytes += by;
    }
    return l.kept() <= P_KEEP || !l.order;
  }

  void offer(const unit::Layer& l) {
    taken_ = depth(l);
    for (unsigned waited = 0; !ready(); waited++) {
      check_.that(waited < 500, "the unit does not take the next layer");
      cycle(nullptr, 0);
    }
    cycle(&l, 0);
    layers_++;
  }

  // Beats of a depthwise layer.
  void depthwise(unit::Layer l) {
    l.op = sluice_abi::OP_DEPTHWISE;
    l.w_bytes = l.w_tile = sluice_abi::WEIGHT_ALIGN * random_.range(1, 5);
    for (uint64_t i = 0; i < l.w_bytes / 2 / kWPB; i++) {
      ring_.push_back({});
      for (uint16_t& w : ring_.back().word) w = static_cast<uint16_t>(random_.next());
    }
    offer(l);
    for (unsigned waited = 0; taken_beats_ < ring_.size(); waited++) {
      const size_t at = taken_beats_;
      dut_.dw_ready_i = random_.percent(60);
      cycle(nullptr, 0);
      check_.that(unit_ == (taken_beats_ > at), "a beat goes elsewhere");
      if (unit_) check_.that(last_ == (taken_beats_ == ring_.size()), "the last beat");
      check_.that(waited < 3000, "beat %zu of %zu is not taken", at, ring_.size());
    }
    cycle(nullptr, 0);  // the last beat is given up in the cycle after it
    check_.that(kept_ == ring_.size(), "a beat is kept");
    ring_.clear();
    taken_beats_ = kept_ = 0;
    dut_.dw_ready_i = 1;
    for (int i = 0; i < 3; i++) {
      cycle(nullptr, 0);
      check_.that(!unit_ && !dut_.full_o && ready(), "goes on");
    }
  }

  void layer(unit::Layer l, Kind kind) {
    if (P_DEPTHWISE && !l.gemm()) return depthwise(l);
    std::vector<Pass> passes;
    if (l.gemm()) {
      const unit::Layer right = l;
      if (kind != kRight && !spoil(l, kind)) l = right, kind = kRight;
      broken_ = kind != kRight;
      // once for each of several row tiles; replayed as a whole; replayed C tile by C tile
      if (!broken_ && l.row_tiles() > 1) seen_[l.order ? (l.out_c > l.tc(kTC) ? 2 : 1) : l.replay(P_KEEP)]++;
      passes = pack(l);
    }
    offer(l);
    size_t next = 0;
    uint64_t waited = 0;
    while (next < passes.size()) {
      if (full() && !(slow_ && random_.percent(slow_ * 2))) {
        swap(passes[next++]);
        waited = 0;
        continue;
      }
      cycle(nullptr, 0);
      if (kind != kRight && dut_.err_valid_o) break;
      check_.that(++waited < 3000, "pass %zu of %zu does not come", next, passes.size());
    }
    if (kind == kRight) {
      // the rest of the stream is consumed, the unit is free, no error
      waited = 0;
      while (!ready()) {
        cycle(nullptr, 0);
        check_.that(++waited < 3000, "the layer does not end");
      }
      check_.that(taken_beats_ == ring_.size(), "beats left over");
      cycle(nullptr, 0);  // the last words taken may be committed now
      check_.that(kept_ == ring_.size(), "%zu beats are not given back", ring_.size() - kept_);
      ring_.clear();
      taken_beats_ = kept_ = 0;
      return;
    }
    waited = 0;
    while (!dut_.err_valid_o) {
      cycle(nullptr, 0);
      check_.that(++waited < 3000, "a stream that is too %s goes unnoticed", kind == kShort ? "short" : "long");
    }
    for (int i = 0; i < 5; i++) cycle(nullptr, 0);
    check_.that(dut_.err_valid_o && !dut_.full_o && !dut_.load_o, "goes on after the error");
    check_.that(dut_.err_layer_o == layers_ - 1, "an error of layer %u, not %u", dut_.err_layer_o, layers_ - 1);
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
  void swap(const Pass& pass) {
    swaps_.push_back({pass, now_ + kSwapLatency, taken_});
    cycle(nullptr, 1);
  }
  // The places of the weights of channel c: with k = 1/2 in a half of a PE, with k = 2 in a pair,
  // with s = 2 in the even PE of a pair and in the odd one.
  void match(const Pass& pass) {
    constexpr unsigned kFirst = kTP / 2;
    const unsigned lanes = static_cast<unsigned>(pass.w.size() / pass.nch);
    for (unsigned c = 0; c < pass.nch; c++) {
      for (unsigned g = 0; g < pass.groups; g++) {
        for (unsigned j = 0; j < lanes; j++) {
          unsigned pe = pass.k == 1 ? c / 2 : c, lane = pass.k == 1 ? c % 2 * kFirst + j : j;
          if (pass.k == 2) pe = 2 * c + j / kTP, lane = j % kTP;
          if (pass.groups == 2) pe = 2 * pe + g;
          const uint16_t want = pass.w[c * lanes + j];
          check_.that(shadow_[pe][lane] == want, "PE %u lane %u: %04x, not %04x", pe, lane, shadow_[pe][lane], want);
        }
      }
    }
  }

  void cycle(const unit::Layer* offered, unsigned swap) {
    unit::drive_layer(dut_, random_, offered);
    dut_.swap_i = static_cast<unsigned char>(swap);
    // the ring holds no more than its size, including what is kept
    const bool there = taken_beats_ < ring_.size() && taken_beats_ - kept_ < kRing;
    const bool valid = dut_.rst_ni && there && (held_ || !(gap_ && random_.percent(gap_)));
    dut_.ring_valid_i = valid;
    for (unsigned i = 0; i < kWPB; i++) unit::put(dut_.ring_data_i, i * 16, 16, valid ? ring_[taken_beats_].word[i] : random_.next());
    settle();
    if (dut_.rst_ni && !swaps_.empty() && now_ == swaps_.front().at) {
      match(swaps_.front().pass);
      passed_at_ = now_ + swaps_.front().chain - 1;
      swaps_.pop_front();
    }
    if (dut_.rst_ni && dut_.load_o) {
      check_.that(now_ >= passed_at_, "loads %" PRIu64 " cycles before the swap has passed", passed_at_ - now_);
      for (unsigned k = 0; k < kLoad; k++) {
        const unsigned pe = dut_.group_o * kLoad + k;
        for (unsigned j = 0; j < kTP && pe < kTC; j++) {
          shadow_[pe][j] = static_cast<uint16_t>(unit::get(dut_.w_o, (k * kTP + j) * 16, 16));
        }
      }
    }
    held_ = valid && !dut_.ring_ready_o;
    if (dut_.rst_ni) {
      check_.that(!(dut_.ring_commit_o && dut_.ring_rewind_o), "a commit and a way back in one");
      check_.that(!(dut_.ring_ready_o && dut_.ring_rewind_o), "takes a beat on the way back");
      if (dut_.ring_commit_o) kept_ = taken_beats_;
      if (dut_.ring_rewind_o) taken_beats_ = kept_;
    }
    unit_ = dut_.rst_ni && dut_.dw_valid_o && dut_.dw_ready_i, last_ = dut_.dw_last_o;
    check_.that(!(dut_.rst_ni && dut_.load_o && dut_.dw_valid_o), "loads the array meanwhile");
    if (valid && dut_.ring_ready_o) taken_beats_++;
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  tb::Random random_;
  tb::Checks check_;
  Vweight_feed dut_;
  std::vector<Beat> ring_;          // all of a layer's
  size_t taken_beats_ = 0, kept_ = 0;  // beats taken; beats not needed again
  unsigned seen_[3] = {};
  unsigned layers_ = 0;             // since the reset
  bool broken_ = false;             // the layer contradicts itself
  uint16_t shadow_[kTC][kTP] = {};
  struct Swap {
    Pass pass;
    uint64_t at;     // the array
    unsigned chain;
  };
  std::deque<Swap> swaps_;
  uint64_t now_ = 0, passed_at_ = 0;  // when the last swap in the array has passed
  unsigned gap_ = 0, slow_ = 0, taken_ = kTP;  // taken: the layer's chain
  bool held_ = false, unit_ = false, last_ = false;  // a beat went to the depthwise unit, its last
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  const uint64_t n = args.n ? args.n : (P_DEPTHWISE ? 60 : 30);  // some layers are the depthwise unit's
  for (unsigned k = 0; k < 3; k++) bench.full_speed(k, 1);
  for (unsigned k = 0; k < 2; k++) bench.full_speed(k, 2);
  for (uint64_t i = 0; i < n; i++) {
    bench.start(4, Bench::kRight);
    bench.start(2, Bench::kShort);
    bench.start(2, Bench::kLong);
  }
  return bench.finish(n >= 30);
}
