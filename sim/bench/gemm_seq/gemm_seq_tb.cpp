// gemm_seq_tb: random layers, batches, tilings and loop orders, every k and s, compared with a loop
// nest that gives for each row the element that each lane must read and the half of the buffer that
// is released. Loader, weights and drain answer at random. The bench knows their state, so it
// predicts for every cycle whether a row is issued, and if not, why. A kept tensor is in the buffer
// at once, in the half that the previous layer did not read, from element 0 on and without padding.
// Tall layers count places beyond 8 bits.
#include <map>

#include "Vgemm_seq.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kTP = P_T_P, kTC = P_T_C, kTR = P_T_R;
constexpr unsigned kLB = unit::clog2(P_NB), kEW = unit::clog2(P_NB* P_ABUF_WORDS);
constexpr unsigned kRW = unit::clog2(kTR), kElems = P_NB * P_ABUF_WORDS;

struct Row {
  unsigned half, place;           // where its input row stands
  uint64_t lanes;                 // lanes with data
  int64_t elem[2 * kTP];          // their elements
  bool other;                     // group 1 has a sample beside it
  unsigned row, bank, nch;
  bool first, begin, last;        // first pass, first row of a pass, last row of a C tile
  bool frees;                     // last row that reads its half
  unsigned tile;                  // its index among the loaded tiles
};

struct Tile {
  unsigned half, places[2];       // of each group
  bool kept;                      // not loaded: left by the previous layer
};

struct Plan {
  std::vector<Row> rows;
  std::vector<Tile> tiles;         // in the order in which they are loaded
};

Plan plan(const unit::Layer& l, unsigned start, unsigned& bank) {
  Plan p;
  const unsigned lanes = l.lanes(kTP), tc = l.tc(kTC);
  size_t visited = 0;  // row tiles that stay on chip are visited in turn
  for (const unit::Visit& v : unit::visits(l, tc)) {
    const unsigned nb = l.nb(v.b0), nr = l.nr(v.oh0);
    size_t tile = visited++ % l.row_tiles();
    if (v.loads) {
      tile = p.tiles.size();
      p.tiles.push_back({static_cast<unsigned>((start + tile) % 2),
                         {l.keep_in ? 0xFFFF : nb * l.n_ih(nr), l.two() ? l.nb(v.b0, 1) * l.n_ih(nr) : 0}, l.keep_in != 0});
    } else if (!l.order) {
      tile = p.tiles.size() - 1;
    }
    const unsigned half = p.tiles[tile].half;
    for (unsigned kh = 0; kh < l.k_h; kh++) {
      for (unsigned p0 = 0; p0 < l.kwc(); p0 += lanes) {
        unsigned row = 0;
        for (unsigned i = 0; i < nb; i++) {
          for (unsigned r = 0; r < nr; r++) {
            for (unsigned ow = 0; ow < l.out_w; ow++) {
              Row x{};
              x.half = half;
              x.place = i * l.n_ih(nr) + r * l.s_h + kh;
              const int64_t ih = int64_t{v.oh0 + r} * l.s_h - l.pad_t + kh;
              const int64_t in_tile = l.keep_in ? ih : int64_t{r} * l.s_h + kh;
              for (unsigned j = 0; j < lanes && p0 + j < l.kwc(); j++) {
                const int64_t iw = int64_t{ow} * l.s_w - l.pad_l + (p0 + j) / l.in_c;
                if (ih < 0 || ih >= l.in_h || iw < 0 || iw >= l.in_w) continue;
                x.lanes |= uint64_t{1} << j;
                x.elem[j] = (l.two() && half ? kElems / 2 : 0) + int64_t{i} * l.samp() + in_tile * l.in_row() + iw * l.in_c + (p0 + j) % l.in_c;
              }
              x.other = l.two() && i < l.nb(v.b0, 1);
              x.row = row++;
              x.bank = bank;
              x.nch = std::min(tc, l.out_c - v.c0);
              x.first = kh == 0 && p0 == 0;
              x.begin = x.row == 0;
              x.tile = static_cast<unsigned>(tile);
              p.rows.push_back(x);
            }
          }
        }
      }
    }
    p.rows.back().last = true;
    p.rows.back().frees = v.frees;
    bank = !bank;
  }
  return p;
}

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("gemm_seq", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) edge();
    dut_.rst_ni = 1;
  }

  // Runs layers of one start.
  void start(unsigned n) {
    dut_.rst_ni = 0;
    edge();
    edge();
    dut_.rst_ni = 1;
    written_ = 0;
    before_.k = 3;
    bank_ = 0;
    start_ = 0;
    in_use_ = 0;
    full_ = false;
    last_use_.clear();
    frees_.clear();
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act);
    pass_delay_ = static_cast<unsigned>(random_.below(3));
    act_speed_ = static_cast<unsigned>(random_.range(5, 100));
    drain_slow_ = static_cast<unsigned>(random_.below(2) ? random_.below(60) : random_.below(4));
    for (const unit::Layer& l : unit::random_start(random_, limits(), n, 75, 40, b_act)) layer(l);
  }
  // A start with one layer of a kind (unit.hpp); the loader is usually slower than the sequencer.
  void alone(unit::Draw draw) {
    start(0);
    act_speed_ = static_cast<unsigned>(random_.range(5, 40));
    layer(draw(random_, limits(), sluice_abi::OP_GEMM, dut_.b_act_i));
  }
  // A start with one layer whose output rows have more pixels than 7 bits can count, if the
  // accumulators hold one.
  void broad() {
    if (kTR <= 128) return;
    start(0);
    for (;;) {
      const unit::Layer l = unit::wide_layer(random_, limits(), sluice_abi::OP_GEMM, dut_.b_act_i);
      if (l.out_w > 129) return layer(l);
    }
  }
  // If a pool has a kept tensor, its rows of padding do not matter here: the next layer is taken at
  // once.
  void kept_pool() {
    start(0);
    unit::Layer l = unit::wide_layer(random_, limits(), sluice_abi::OP_MAX_POOL, dut_.b_act_i);
    l.keep_in = true;
    l.pad_t = 40;
    layer(l);
    layer(unit::wide_layer(random_, limits(), sluice_abi::OP_GEMM, dut_.b_act_i));
  }
  int finish() { return check_.passed(); }

 private:
  static unit::Limits limits() {
    unit::Limits limit;
    limit.t_r = kTR;
    limit.abuf = kElems;
    limit.t_c = kTC;
    limit.max_in_c = kTP + 3;
    limit.max_out_c = 5 * kTC;
    return limit;
  }
  void edge() {
    dut_.clk_i = 0;
    dut_.eval();
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  // Inputs that change independently.
  void drive(const unit::Layer* offered) {
    unit::drive_layer(dut_, random_, offered);
    dut_.layer_samp_i = offered ? offered->samp() : static_cast<unsigned>(random_.below(1 << 24));
    dut_.layers_written_i = static_cast<unsigned short>(written_);
    // weights: full some cycles after the last swap
    if (!full_ && now_ >= full_at_) full_ = true;
    dut_.full_i = full_;
    // the drain releases banks in order
    const bool free = !frees_.empty() && frees_.front() <= now_;
    dut_.bank_free_i = free;
    // the loader
    if (loading_ < plan_.tiles.size() && random_.percent(act_speed_)) {
      const Tile& t = plan_.tiles[loading_];
      if (owner_[t.half] == kNobody || owner_[t.half] == loading_) {
        owner_[t.half] = loading_;
        bool all = true;
        for (unsigned g = 0; g < 2; g++) {
          unsigned& avail = avail_[g][t.half];
          avail = t.kept ? t.places[g] : static_cast<unsigned>(std::min<uint64_t>(t.places[g], avail + random_.below(4)));
          all = all && avail == t.places[g];
        }
        if (all) loading_++;
      }
    }
    dut_.avail_i = 0;
    for (unsigned n = 0; n < 4; n++) dut_.avail_i |= uint64_t{avail_[n / 2][n % 2]} << (16 * n);
  }

  // One cycle; row: the row to be issued next, or null.
  bool cycle(const unit::Layer* offered, const Row* row) {
    drive(offered);
    dut_.clk_i = 0;
    dut_.eval();
    const unsigned stalls = dut_.stall_acts_o + dut_.stall_weights_o + dut_.stall_drain_o + dut_.stall_depth_o;
    const bool go = dut_.mac_cycle_o;
    check_.that(stalls + go <= 1, "more than one cause in a cycle");
    check_.that(dut_.rd_valid_o == (pending_ != nullptr), "a read address without its row");
    check_.that(dut_.macs_o == sum_, "%u MACs, not %u", static_cast<unsigned>(dut_.macs_o), sum_);
    sum_ = parts_;
    parts_ = macs_;
    macs_ = 0;
    if (pending_) look(*pending_);
    pending_ = nullptr;
    gap_ = (stalls + go) ? 0 : gap_ + 1;
    if (!go) {
      check_.that(!dut_.swap_o, "swap without a row");
      check_.that(dut_.free_o == 0, "free without a row");
    }
    if (stalls || go) {
      check_.that(row != nullptr, "the layer has no more rows");
      const bool act = row->place < avail_[0][row->half] && (!row->other || row->place < avail_[1][row->half]) && owner_[row->half] == row->tile;
      const bool weights = !row->begin || full_;
      const bool bank = !(row->begin && row->first) || in_use_ < 2;
      const bool depth = !row->begin || row->first || deep_enough(*row);
      check_.that(go == (act && weights && bank && depth), "row goes %d: act %d weights %d bank %d depth %d", go, act,
                  weights, bank, depth);
      check_.that(dut_.stall_acts_o == !act, "stall_acts");
      check_.that(dut_.stall_weights_o == (act && !weights), "stall_weights");
      check_.that(dut_.stall_drain_o == (act && weights && !bank), "stall_drain");
      check_.that(dut_.stall_depth_o == (act && weights && bank && !depth), "stall_depth");
    }
    if (dut_.bank_free_i) {
      frees_.pop_front();
      in_use_--;
    }
    if (go) {
      check_.that(dut_.swap_o == row->begin, "swap at the first row of a pass");
      check_.that(dut_.free_o == (row->frees ? 1u << row->half : 0u), "free at the last row of a tile");
      // no accumulator is used before its last sum has been written back
      const auto use = last_use_.find(row->bank * kTR + row->row);
      if (use != last_use_.end()) check_.that(now_ - use->second >= depth_, "accumulator used after %" PRIu64, now_ - use->second);
      last_use_[row->bank * kTR + row->row] = now_;
      if (row->begin) {
        full_ = false;
        full_at_ = now_ + 1 + (pass_delay_ ? random_.below(pass_delay_ * 20) : 0);
        if (row->first) in_use_++;
      }
      if (row->last) {
        const uint64_t done = now_ + depth_ + 5 + (drain_slow_ ? random_.below(drain_slow_) : 0);
        frees_.push_back(frees_.empty() ? done : std::max(done, frees_.back() + 1));
      }
      if (row->frees) {
        avail_[0][row->half] = avail_[1][row->half] = 0;
        owner_[row->half] = kNobody;
      }
      pending_ = row;
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
    return go;
  }

  // May this pass begin? Its rows follow without gaps, so the sum of each must already be written
  // back.
  bool deep_enough(const Row& begin) const {
    for (unsigned i = 0;; i++) {
      const auto use = last_use_.find(begin.bank * kTR + i);
      if (i >= rows_of_pass_) return true;
      if (use != last_use_.end() && now_ + i - use->second < depth_) return false;
    }
  }

  void look(const Row& x) {
    uint64_t lanes = 0;
    for (unsigned j = dut_.rd_lo_o; j < dut_.rd_hi_o; j++) lanes |= uint64_t{1} << j;
    check_.that(lanes == x.lanes, "lanes %" PRIx64 ", not %" PRIx64, lanes, x.lanes);
    check_.that(dut_.k_o == layer_.k && dut_.rd_two_o == layer_.two(), "k and s");
    for (unsigned j = 0; j < 2 * kTP; j++) {
      if (!((x.lanes >> j) & 1)) continue;
      const uint64_t elem = (dut_.rd_elem_o + j) & ((1u << kEW) - 1);
      check_.that(elem == static_cast<uint64_t>(x.elem[j]), "lane %u reads %" PRIu64 ", not %" PRId64, j, elem, x.elem[j]);
    }
    if (x.lanes && !layer_.two()) check_.that(dut_.rd_half_o == x.half, "half");
    const unsigned tag = dut_.rd_tag_o;
    check_.that((tag >> 4) == (x.row & ((1u << kRW) - 1)), "row %u, not %u", tag >> 4, x.row);
    check_.that(((tag >> 3) & 1) == x.bank, "bank");
    check_.that(((tag >> 2) & 1) == x.first, "first");
    check_.that(((tag >> 1) & 1) == x.begin, "swap in the tag");
    check_.that((tag & 1) == x.last, "last");
    macs_ = static_cast<unsigned>(__builtin_popcountll(x.lanes)) * x.nch * (x.other ? 2 : 1);
  }

  void layer(const unit::Layer& l) {
    start_ = l.keep_in && !start_;
    plan_ = l.gemm() ? plan(l, start_, bank_) : Plan{};
    layer_ = l;
    last_use_.clear();  // all banks have drained
    depth_ = (l.half() ? kTP - kTP / 2 : l.lanes(kTP)) + 3;
    rows_of_pass_ = 0;
    loading_ = 0;
    owner_[0] = owner_[1] = kNobody;
    for (auto& group : avail_) group[0] = group[1] = 0;
    // data that another unit's layer left in the buffer must not be used
    const bool early = random_.percent(50);
    for (unsigned i = 0; i < 3 && random_.percent(50); i++) cycle(nullptr, nullptr);
    unsigned waited = 0;
    while (!ready()) {
      cycle(nullptr, nullptr);
      check_.that(++waited < 10, "the unit does not take the next layer");
    }
    if (early) {
      const unsigned now_written = written_;
      written_ = now_written ? now_written - 1 : 511;
      const size_t keep = loading_;
      loading_ = plan_.tiles.size();  // the loader waits too
      cycle(&l, nullptr);
      const unsigned group_0 = avail_[0][start_], group_1 = avail_[1][start_];
      avail_[0][start_] = avail_[1][start_] = 7;  // of the previous layer
      for (unsigned i = 0; i < kEarly; i++) {
        cycle(nullptr, nullptr);
        check_.that(before_.k > 2 || (dut_.k_o == before_.k && dut_.rd_two_o == before_.two()), "k and s before the barrier");
      }
      avail_[0][start_] = group_0;
      avail_[1][start_] = group_1;
      loading_ = keep;
      written_ = now_written;
    } else {
      cycle(&l, nullptr);
    }
    // rows of padding above a kept tensor are counted while the previous layer is written
    const unsigned above = l.keep_in ? l.pad_t : 0, hidden = early ? kEarly : 0;
    const unsigned begins = 3 + (above > hidden ? above - hidden : 0);
    size_t next = 0;
    uint64_t idle = 0;
    gap_ = 0;
    while (next < plan_.rows.size()) {
      if (plan_.rows[next].begin) {
        rows_of_pass_ = 0;
        size_t k = next;
        do rows_of_pass_++, k++;
        while (k < plan_.rows.size() && !plan_.rows[k].begin);
      }
      const bool inside = next > 0;  // one cycle between tiles, a few before the first
      if (cycle(nullptr, &plan_.rows[next])) {
        next++;
        idle = 0;
      } else {
        check_.that(++idle < 5000, "no row for 5000 cycles: row %zu of %zu, acts %d weights %d drain %d depth %d", next, plan_.rows.size(), dut_.stall_acts_o, dut_.stall_weights_o, dut_.stall_drain_o, dut_.stall_depth_o);
      }
      check_.that(gap_ <= (inside ? 1u : begins), "more than a cycle of nothing between tiles");
    }
    // the last address comes out, and no more; a pool may be written at once
    for (int i = 0; i < (l.gemm() ? 3 : 1); i++) cycle(nullptr, nullptr);
    // its banks drain, its words are written
    while (in_use_ > 0) cycle(nullptr, nullptr);
    check_.that(!l.gemm() || (dut_.k_o == l.k && dut_.rd_two_o == l.two()), "k and s change under the last rows");
    for (int i = 0; i < 2; i++) cycle(nullptr, nullptr);
    if (l.gemm()) before_ = l;
    written_++;
  }
  bool ready() {
    dut_.clk_i = 0;
    dut_.eval();
    return dut_.layer_ready_o;
  }

  static constexpr size_t kNobody = ~size_t{0};
  static constexpr unsigned kEarly = 8;  // cycles
  tb::Random random_;
  tb::Checks check_;
  Vgemm_seq dut_;
  uint64_t now_ = 0, full_at_ = 0;
  Plan plan_;
  unsigned bank_ = 0, start_ = 0, in_use_ = 0, written_ = 0, rows_of_pass_ = 0;
  unsigned pass_delay_ = 0, act_speed_ = 100, drain_slow_ = 0;
  size_t loading_ = 0, owner_[2] = {kNobody, kNobody};
  unsigned avail_[2][2] = {}, depth_ = kTP + 3;  // places by group
  unit::Layer layer_, before_;     // the GEMM layer before; k = 3: none since the reset
  bool full_ = false;
  std::deque<uint64_t> frees_;
  std::map<unsigned, uint64_t> last_use_;
  const Row* pending_ = nullptr;
  unsigned macs_ = 0, parts_ = 0, sum_ = 0;  // of the rows issued in the previous cycles
  uint64_t gap_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 40); i++) {
    bench.start(6);
    if (i % 4 == 0) bench.alone(unit::tall_layer);
    if (i % 4 != 0) bench.alone(unit::wide_layer);
  }
  for (int i = 0; i < 4; i++) {
    bench.broad();
    bench.kept_pool();
  }
  return bench.finish();
}
