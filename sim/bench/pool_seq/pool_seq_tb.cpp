// pool_seq_tb: random layers, batches and tilings, compared with a loop nest for each walk (by
// windows, by columns) that gives for each tap the elements to read. Loader and pool unit answer at
// random; the bench predicts for every cycle whether a tap is issued. A tap has the number of taps
// of its window inside the image so far (by columns, the last tap has that of the whole window). A
// layer with a table must wait for it. The parameters for the pool unit must stay until the layer
// is written. A kept tensor is available at once, in the half that the previous layer did not read,
// without padding. Tall layers count places beyond 8 bits. If the unit walks depthwise layers, half of the layers that
// are not GEMMs are depthwise: they wait for their weights, and tags mark where the weights begin again and where the
// layer ends.
#include "Vpool_seq.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kNB = P_NB, kRoom = 4;
constexpr unsigned kGroups = P_GROUPS;
constexpr unsigned kLB = unit::clog2(kNB), kElems = kNB * P_ABUF_WORDS, kEW = unit::clog2(kElems);

struct Tap {
  unsigned half, place, channels, tile, inside, group, macs, restart, release;
  int64_t elem;
  bool in, first, last, frees, result;
};
struct Tile {
  unsigned half, places;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("pool_seq", args.seed) {}

  void start(unsigned n) {
    dut_.rst_ni = 0;
    taps_.clear();
    tiles_.clear();
    results_.clear();
    pending_ = false;
    for (int i = 0; i < 3; i++) cycle(nullptr, nullptr);
    dut_.rst_ni = 1;
    written_ = 0;
    start_ = 0;
    room_ = kRoom;
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act);
    unit::Limits limit;
    limit.abuf = kElems;
    limit.max_in_c = limit.max_out_c = random_.percent(60) ? 2 * kNB + 3 : 5 * kNB;
    limit.max_k = 5;
    limit.max_size = 9;
    act_speed_ = static_cast<unsigned>(random_.percent(30) ? 100 : random_.range(5, 100));
    pool_slow_ = static_cast<unsigned>(random_.percent(40) ? 0 : random_.below(40));
    for (unit::Layer& l : unit::random_start(random_, limit, n, 35, 70, b_act)) {
      if (P_DEPTHWISE && !l.gemm() && random_.percent(50)) l.op = sluice_abi::OP_DEPTHWISE, l.table = 0;
      layer(l);
    }
  }
  // A start with one layer of a kind (unit.hpp); the loader is usually slower than the sequencer.
  void alone(unit::Draw draw) {
    start(0);
    act_speed_ = static_cast<unsigned>(random_.range(5, 40));
    unit::Limits limit;
    limit.abuf = kElems;
    layer(draw(random_, limit, unit::random_op(random_, 0), dut_.b_act_i));
  }
  int finish() { return check_.passed(); }

 private:
  static bool depthwise(const unit::Layer& l) { return l.op == sluice_abi::OP_DEPTHWISE; }
  static bool by_columns(const unit::Layer& l) {
    if (depthwise(l)) return l.k_w == 3 && l.s_w < 3 && l.in_c <= kGroups * kNB;
    return l.k_w >= 2 && l.k_w <= 3 && l.s_w < l.k_w && l.k_h >= 2 && l.k_h <= 4 && l.in_c <= kGroups * kNB;
  }
  // A tap of row r of sample i, of channels from c0 on.
  Tap tap(const unit::Layer& l, unsigned half, unsigned i, unsigned oh0, unsigned r, unsigned nr, unsigned kh,
          int64_t iw, unsigned c0) {
    const int64_t ih = int64_t{oh0 + r} * l.s_h - l.pad_t + kh;
    Tap t{};
    t.half = half;
    t.tile = static_cast<unsigned>(tiles_.size());
    t.place = i * l.n_ih(nr) + r * l.s_h + kh;
    t.channels = std::min(kNB, l.in_c - c0);
    t.group = c0 / kNB % kGroups;
    t.in = ih >= 0 && ih < l.in_h && iw >= 0 && iw < l.in_w;
    t.elem = int64_t{i} * l.samp() + (l.keep_in ? ih : int64_t{r * l.s_h + kh}) * l.in_row() + iw * l.in_c + c0;
    return t;
  }
  void windows(const unit::Layer& l, unsigned half, unsigned i, unsigned oh0, unsigned r, unsigned nr) {
    for (unsigned ow = 0; ow < l.out_w; ow++)
      for (unsigned c0 = 0, inside = 0; c0 < l.in_c; c0 += kNB, inside = 0)
        for (unsigned kh = 0; kh < l.k_h; kh++)
          for (unsigned kw = 0; kw < l.k_w; kw++) {
            Tap t = tap(l, half, i, oh0, r, nr, kh, int64_t{ow} * l.s_w - l.pad_l + kw, c0);
            t.first = kh == 0 && kw == 0;
            t.inside = inside += t.in;
            t.last = kh + 1 == l.k_h && kw + 1 == l.k_w;
            t.result = true;
            t.macs = t.channels;
            t.restart = t.last && c0 + kNB >= l.in_c;
            taps_.push_back(t);
          }
  }
  void columns(const unit::Layer& l, unsigned half, unsigned i, unsigned oh0, unsigned r, unsigned nr) {
    for (unsigned column = 0; column < (l.out_w - 1) * l.s_w + l.k_w; column++)
      for (unsigned c0 = 0; c0 < l.in_c; c0 += kNB)
        for (unsigned kh = 0; kh < l.k_h; kh++) {
          Tap t = tap(l, half, i, oh0, r, nr, kh, int64_t{column} - l.pad_l, c0);
          t.first = kh == 0;
          t.last = kh + 1 == l.k_h;
          t.result = column + 1 >= l.k_w && (column + 1 - l.k_w) % l.s_w == 0;
          for (unsigned y = 0; y < l.k_h; y++)
            for (unsigned x = 0; x < l.k_w && t.result; x++)
              t.inside += tap(l, half, i, oh0, r, nr, y, int64_t{column} - l.pad_l - x, c0).in;
          t.macs = t.result ? 3 * t.channels : 0;
          t.restart = t.last && c0 + kNB >= l.in_c;
          taps_.push_back(t);
        }
  }
  void plan(const unit::Layer& l) {
    taps_.clear();
    tiles_.clear();
    if (l.gemm()) return;
    unsigned half = start_;
    for (unsigned b0 = 0; b0 < l.b_act; b0 += l.tile_b) {
      for (unsigned oh0 = 0; oh0 < l.out_h; oh0 += l.tile_rows) {
        const unsigned nb = l.nb(b0), nr = l.nr(oh0);
        for (unsigned i = 0; i < nb; i++)
          for (unsigned r = 0; r < nr; r++)
            by_columns(l) ? columns(l, half, i, oh0, r, nr) : windows(l, half, i, oh0, r, nr);
        taps_.back().frees = true;
        tiles_.push_back({half, l.keep_in ? 0xFFFF : nb * l.n_ih(nr)});
        half = !half;
      }
    }
    taps_.back().release = 1;
  }

  void layer(const unit::Layer& l) {
    unsigned waited = 0;
    for (;; waited++) {
      settle();
      if (dut_.layer_ready_o) break;
      check_.that(waited < 5, "the unit does not take the next layer");
      cycle(nullptr, nullptr);
    }
    start_ = l.keep_in && !start_;
    plan(l);
    layer_ = l;
    loading_ = 0;
    table_at_ = now_ + (random_.percent(50) ? 0 : random_.below(100));
    ahead_ = static_cast<unsigned>(random_.below(2));
    owner_[0] = owner_[1] = kNobody;
    avail_[0] = avail_[1] = 0;
    if (random_.percent(50)) {  // the data in the buffer belong to the previous layer
      const unsigned goal = written_;
      written_ = goal ? goal - 1 : 511;
      loading_ = tiles_.size();
      cycle(&l, nullptr);
      avail_[start_] = 9;
      for (int i = 0; i < 8; i++) cycle(nullptr, nullptr);
      avail_[start_] = 0;
      loading_ = 0;
      written_ = goal;
    } else {
      cycle(&l, nullptr);
    }
    size_t next = 0;
    waited = 0;
    unsigned idle = 0;
    while (next < taps_.size()) {
      const bool go = cycle(nullptr, &taps_[next]);
      idle = go || expected_wait_ ? 0 : idle + 1;
      check_.that(idle <= (next ? 1u : 4u + (l.keep_in ? l.pad_t : 0)), "a cycle of nothing");
      waited = go ? 0 : waited + 1;
      if (go) next++;
      check_.that(waited < 5000, "no tap for 5000 cycles");
    }
    for (int i = 0; i < 4; i++) cycle(nullptr, nullptr);
    while (!results_.empty()) {
      cycle(nullptr, nullptr);
      if (!l.gemm()) parameters();
    }
    for (int i = 0; i < 4; i++) {
      cycle(nullptr, nullptr);
      if (!l.gemm()) parameters();
    }
    written_++;
  }

  void parameters() {
    unsigned sides = 0;
    while (1u << sides < layer_.k_h) sides++;
    for (unsigned i = 0; 1u << i < layer_.k_w; i++) sides++;
    check_.that(dut_.wide_o == (sides > 9), "wide");
    check_.that(dut_.cols_o == (by_columns(layer_) ? 1 + 2 * (layer_.k_w == 3) : 0), "by columns");
    check_.that(dut_.dw_o == depthwise(layer_), "dw_o");
    check_.that(dut_.avg_o == (layer_.op == sluice_abi::OP_AVG_POOL), "avg_o");
    check_.that(dut_.table_o == (layer_.table != 0) && dut_.table_half_o == (written_ & 1), "table");
    check_.that(dut_.avg_mul_o == layer_.avg_mul && dut_.avg_shift_o == layer_.avg_shift, "factor");
    check_.that(dut_.clamp_lo_o == static_cast<uint16_t>(layer_.clamp_lo) &&
                    dut_.clamp_hi_o == static_cast<uint16_t>(layer_.clamp_hi),
                "bounds");
  }

  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  bool cycle(const unit::Layer* offered, const Tap* tap) {
    unit::drive_layer(dut_, random_, offered);
    dut_.layer_samp_i = offered ? offered->samp() : static_cast<unsigned>(random_.below(1 << 24));
    dut_.layers_written_i = static_cast<unsigned short>(written_);
    // the table of this layer, and perhaps the biases of the next
    const bool table = now_ >= table_at_;
    dut_.bias_layers_i = static_cast<unsigned short>((written_ + (table ? 1 + ahead_ : 0)) & 511);
    // two taps of the depthwise unit may leave at a time
    unsigned taken = 0;
    while (taken < (depthwise(layer_) ? 2 : 1) && taken < results_.size() && results_[taken] <= now_) taken++;
    dut_.result_taken_i = taken && !depthwise(layer_);
    dut_.dw_taken_i = static_cast<unsigned char>(depthwise(layer_) ? taken : 0);
    dut_.dw_full_i = depthwise(layer_) ? table : random_.percent(50);
    if (loading_ < tiles_.size() && random_.percent(act_speed_)) {
      const Tile& t = tiles_[loading_];
      if (owner_[t.half] == kNobody || owner_[t.half] == loading_) {
        owner_[t.half] = loading_;
        avail_[t.half] = layer_.keep_in ? t.places : static_cast<unsigned>(
            std::min<uint64_t>(t.places, avail_[t.half] + random_.range(1, 3)));
        if (avail_[t.half] == t.places) loading_++;
      }
    }
    dut_.avail_i = avail_[0] | (avail_[1] << 16);
    settle();
    check_.that(!pending_ || dut_.rd_valid_o, "a tap went without a read");
    bool go = false;
    if (pending_) {
      const Tap& t = last_;
      check_.that(dut_.rd_hi_o == (t.in ? t.channels : 0), "lanes");
      if (t.in) {
        check_.that(dut_.rd_elem_o == static_cast<uint64_t>(t.elem) % (1u << kEW),
                    "reads %u, not %" PRId64, dut_.rd_elem_o, t.elem);
        check_.that(dut_.rd_half_o == t.half, "half");
      }
      check_.that(dut_.rd_max_o == (layer_.op == sluice_abi::OP_MAX_POOL), "rd_max_o");
      // by columns, the count of taps belongs to the window that ends
      const bool dw = depthwise(layer_);
      const unsigned counts = !dw && by_columns(layer_) && !(t.last && t.result) ? 0 : 255u << (kLB + 3);
      const unsigned count = dw ? t.release << 1 | t.restart : t.inside;
      check_.that(dut_.dw_macs_o == (dw ? t.macs : 0), "%u MACs", dut_.dw_macs_o);
      const unsigned tag = (t.group << (kLB + 12)) | (t.result << (kLB + 11)) | ((count << (kLB + 3)) & counts) |
                           (t.first << (kLB + 2)) | (t.last << (kLB + 1)) | t.channels;
      const unsigned have = dut_.rd_tag_o & (counts | ~(255u << (kLB + 3)));
      check_.that(have == tag, "tag %x, not %x", have, tag);
      parameters();
    } else if (dut_.rst_ni) {
      check_.that(!dut_.rd_valid_o && dut_.dw_macs_o == 0, "a read without a tap");
    }
    pending_ = false;
    expected_wait_ = false;
    if (tap) {
      const bool act = owner_[tap->half] == tap->tile && tap->place < avail_[tap->half];
      const bool room = !(tap->first && tap->result) || room_ > 0;
      const bool ready = table || (layer_.table == 0 && !depthwise(layer_));
      expected_wait_ = !act || !room || !ready;
      // a tap is issued exactly when it may be; that is visible by its read one cycle later
      if (dut_.stall_acts_o) check_.that(!act, "stall_acts_o");
      go = act && room && ready;
    } else {
      check_.that(!dut_.stall_acts_o || !dut_.rst_ni, "waits without a layer");
    }
    const unsigned free = dut_.free_o;
    check_.that(free == 0 || tap, "free without a tap");
    for (; taken; taken--) {
      results_.pop_front();
      room_++;
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
    // the issued tap is in the read register
    if (go) {
      go = dut_.rd_valid_o;
      if (go) {
        pending_ = true;
        last_ = *tap;
        check_.that(free == (tap->frees ? 1u << tap->half : 0u), "free at the last tap of a tile");
        if (tap->first && tap->result) room_--;
        if (tap->last && tap->result) {
          const uint64_t at = now_ + 3 + (pool_slow_ ? random_.below(pool_slow_) : 0);
          results_.push_back(results_.empty() ? at : std::max(at, results_.back() + 1));
        }
        if (tap->frees) {
          avail_[tap->half] = 0;
          owner_[tap->half] = kNobody;
        }
      }
    } else {
      check_.that(!dut_.rd_valid_o || !dut_.rst_ni, "a tap goes that must wait");
    }
    return go;
  }

  static constexpr size_t kNobody = ~size_t{0};
  tb::Random random_;
  tb::Checks check_;
  Vpool_seq dut_;
  unit::Layer layer_;
  std::vector<Tap> taps_;
  std::vector<Tile> tiles_;
  std::deque<uint64_t> results_;
  Tap last_{};
  uint64_t now_ = 0, table_at_ = 0;
  size_t loading_ = 0, owner_[2] = {kNobody, kNobody};
  unsigned avail_[2] = {0, 0}, written_ = 0, start_ = 0, ahead_ = 0, room_ = kRoom, act_speed_ = 100, pool_slow_ = 0;
  bool pending_ = false, expected_wait_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 60); i++) {
    bench.start(5);
    if (i % 4 == 0) bench.alone(unit::tall_layer);
    if (i % 4 != 0) bench.alone(unit::wide_layer);
  }
  return bench.finish();
}
