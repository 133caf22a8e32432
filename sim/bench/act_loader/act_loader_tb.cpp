// act_loader_tb: random layers, tilings, loop orders and slots, with one and with two sample
// groups, and a DRAM that answers late, unevenly and without gaps. With loop order 1 row tiles must
// come again for every C tile, unless both halves hold all of them. Every word written must be the
// right input word. A place may count as available only when all its words have been written. Runs
// must be read in order; with two groups, a sample of group 0 and then the same one of group 1.
// Nothing may be read before the previous layer is written, or beyond what the tiles need. A kept
// tensor needs no reads: all its places must count at once, in the half that the previous layer did
// not read, when that layer is written. A tensor outside its slot must end in an error. Tall layers
// fill the queues with places without data while the memory stalls.
#include "Vact_loader.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

#ifndef P_T_C
#define P_T_C 32  // the module's
#endif
constexpr unsigned kElems = P_NB * P_ABUF_WORDS, kWPB = P_AXI_BYTES / 2;
constexpr uint64_t kStride = 1 << 14;

struct Place {
  bool data;
  unsigned elem;     // where its row begins on chip
  uint64_t address;  // and in DRAM
};
struct Tile {
  unsigned half;     // which of the two in flight
  bool kept;         // left on chip by the previous layer
  std::vector<Place> places[2];
  size_t count(unsigned g) const { return !kept ? places[g].size() : g == 0 ? 0xFFFF : 0; }
};
struct Run {
  uint64_t address, beats;
  bool gap = false;  // places without data follow its row
};

class Bench {
 public:
  explicit Bench(const tb::Args& args)
      : random_(args.seed), check_("act_loader", args.seed), dram_(random_, check_, P_AXI_BYTES) {}

  void start(unsigned n) {
    dut_.rst_ni = 0;
    dut_.free_i = 0;
    dut_.layer_valid_i = 0;
    for (int i = 0; i < 3; i++) cycle(nullptr);
    dut_.rst_ni = 1;
    b_act_ = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act_);
    slots_ = unit::random_slots(random_, kStride);
    for (unsigned i = 0; i < 8; i++) unit::put(dut_.slot_addr_i, i * 40, 40, slots_[i]);
    dut_.slot_stride_i = kStride;
    written_ = 0;
    start_ = 0;
    dram_.ready = static_cast<unsigned>(random_.range(20, 100));
    dram_.valid = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(20, 100));
    dram_.latency = static_cast<unsigned>(random_.percent(30) ? 1 : random_.range(1, 200));
    hold_ = static_cast<unsigned>(random_.percent(50) ? 0 : random_.range(1, 100));
    unit::Limits limit;
    limit.abuf = kElems;
    limit.stride = kStride;
    limit.t_c = P_T_C;
    limit.max_out_c = random_.percent(50) ? 12 : 4 * P_T_C;
    for (const unit::Layer& l : unit::random_start(random_, limit, n, 70, 40, b_act_)) layer(l);
  }

  // Tall layers. The memory stalls before a row that is followed by places without data, for longer
  // than the loader's queues last; these places fill their queue behind the missing row. Then it
  // answers without a gap, and further rows come while the places are counted.
  void tall(unsigned n) {
    start(0);
    dram_.ready = 100;
    dram_.latency = static_cast<unsigned>(random_.percent(50) ? random_.range(1, 10) : random_.range(1, 400));
    dram_.valid = 100;
    pauses_ = true;
    unit::Limits limit;
    limit.abuf = kElems;
    limit.stride = kStride;
    limit.t_c = P_T_C;
    for (unsigned i = 0; i < n; i++) layer(unit::tall_layer(random_, limit, unit::random_op(random_, 30), b_act_));
    pauses_ = false;
  }
  void wide() {
    start(0);
    unit::Limits limit;
    limit.abuf = kElems;
    limit.stride = kStride;
    limit.t_c = P_T_C;
    layer(unit::wide_layer(random_, limit, unit::random_op(random_, 50), b_act_));
  }

  void out_of_slot() {
    start(1);
    unit::Limits limit;
    limit.abuf = kElems;
    limit.stride = kStride;
    unit::Layer l = random_.percent(50) ? unit::wide_layer(random_, limit, sluice_abi::OP_GEMM, b_act_)
                                        : unit::random_layer(random_, limit, sluice_abi::OP_GEMM, b_act_);
    l.in_pix = l.in_c;
    l.tile_rows = l.out_h;
    l.pad_t = l.pad_l = 0;
    // the last needed row ends one word after the slot
    const unsigned rows = std::min(l.in_h, l.n_ih(l.out_h));
    if (uint64_t{l.samp()} * l.tile_b > kElems) return;
    l.in_offset = kStride - 2ull * rows * l.in_row() + 2;
    if (l.in_w > 1 && random_.percent(50)) {  // or its second run begins at an offset of 33 bits
      l.in_pix = l.in_c + 1;
      l.in_offset = (uint64_t{1} << 32) - 2 * l.in_pix;
      dut_.slot_stride_i = 0xFFFFFFFE;
    } else if (rows > 1 && random_.percent(50)) {  // or its second row
      l.in_pix = l.in_c + 1;
      l.in_offset = (uint64_t{1} << 32) - 2 * l.in_w * l.in_pix;
      dut_.slot_stride_i = 0xFFFFFFFE;
    }
    prepare(l);
    offer(l);
    unsigned waited = 0;
    bool error = false;
    expect_error_ = true;
    while (!error && waited++ < 20000) {
      cycle(nullptr);
      error = dut_.err_valid_o;
    }
    check_.that(error, "a tensor that leaves its slot goes unnoticed");
    const uint64_t asked = dram_.beats_asked;
    for (int i = 0; i < 20; i++) cycle(nullptr);
    check_.that(dut_.err_valid_o && dram_.beats_asked == asked, "reads after the error");
    while (!dram_.idle()) cycle(nullptr);
    dut_.rst_ni = 0;
    cycle(nullptr);
    expect_error_ = false;
  }
  int finish() { return check_.passed(); }

 private:
  void prepare(const unit::Layer& l) {
    tiles_.clear();
    runs_.clear();
    beats_ = 0;
    start_ = l.keep_in && !start_;
    bool data = false;  // the previous place has data
    for (const unit::Visit& v : unit::visits(l, l.gemm() ? l.tc(P_T_C) : l.out_c)) {
      if (!v.loads) continue;
      const unsigned half = (start_ + tiles_.size()) % 2;
      Tile t{half, l.keep_in != 0, {}};
      for (unsigned n = 0; !t.kept && n < l.nb(v.b0) * l.groups; n++) {
        const unsigned g = n % l.groups, i = n / l.groups, sample = g * l.b_r() + v.b0 + i;
        if (i >= l.nb(v.b0, g)) continue;
        for (unsigned j = 0; j < l.n_ih(l.nr(v.oh0)); j++) {
          const int64_t ih = int64_t{v.oh0} * l.s_h - l.pad_t + j;
          Place p{ih >= 0 && ih < l.in_h, (l.two() && half ? kElems / 2 : 0) + i * l.samp() + j * l.in_row(), 0};
          if (!p.data && data) runs_.back().gap = true;
          data = p.data;
          if (p.data) {
            p.address = slots_[sample] + l.in_offset + 2ull * static_cast<uint64_t>(ih) * l.in_w * l.in_pix;
            for (unsigned x = 0; x < l.in_w; x++) {
              const bool one = l.in_pix == l.in_c;  // a row is one run
              const uint64_t begin = p.address + 2ull * x * l.in_pix;
              const uint64_t end = begin + 2ull * (one ? l.in_row() : l.in_c);
              const uint64_t beats = (end + P_AXI_BYTES - 1) / P_AXI_BYTES - begin / P_AXI_BYTES;
              runs_.push_back({begin / P_AXI_BYTES * P_AXI_BYTES, beats, false});
              beats_ += beats;
              if (one) break;
            }
          }
          t.places[g].push_back(p);
        }
      }
      tiles_.push_back(t);
    }
    layer_ = l;
    freed_ = 0;
    for (unsigned h = 0; h < 2; h++) begin_tile(h, h ^ start_);
  }
  // Tile k is the next one for h: every second tile of the layer. With two groups it has that part
  // of both halves of the buffer, otherwise half h.
  void begin_tile(unsigned h, size_t k) {
    tile_[h] = k;
    for (unsigned g = 0; g < 2; g++) {
      seen_[g][h] = 0;
      const unsigned from = layer_.two() && h ? kElems / 2 : 0, to = layer_.two() && !h ? kElems / 2 : kElems;
      if (!layer_.two() && g != h) continue;
      want_[g].resize(kElems);
      have_[g].resize(kElems);
      std::fill(want_[g].begin() + from, want_[g].begin() + to, -1);
      std::fill(have_[g].begin() + from, have_[g].begin() + to, false);
    }
    if (k >= tiles_.size()) return;
    for (unsigned g = 0; g < 2; g++) {
      for (const Place& p : tiles_[k].places[g]) {
        if (!p.data) continue;
        for (unsigned x = 0; x < layer_.in_w; x++) {
          for (unsigned c = 0; c < layer_.in_c; c++) {
            want_[layer_.two() ? g : h][p.elem + x * layer_.in_c + c] = unit::word_at(p.address + 2ull * x * layer_.in_pix + 2ull * c);
          }
        }
      }
    }
  }

  void offer(const unit::Layer& l) {
    for (unsigned waited = 0;; waited++) {
      dut_.clk_i = 0;
      dut_.eval();
      if (dut_.layer_ready_o) break;
      check_.that(waited < 100, "the unit does not take the next layer");
      cycle(nullptr);
    }
    cycle(&l);
  }

  void layer(const unit::Layer& l) {
    prepare(l);
    const uint64_t asked = dram_.beats_asked;
    const unsigned goal = written_;
    if (random_.percent(50)) {  // the previous layer is not written yet
      written_ = goal ? goal - 1 : 511;
      offer(l);
      for (unsigned i = 0; i < 10 + l.pad_t; i++) cycle(nullptr);
      check_.that(dram_.beats_asked == asked && dut_.avail_o == 0, "reads before the layer before is written");
      written_ = goal;
    } else {
      offer(l);
    }
    unsigned waited = 0;
    while (freed_ < tiles_.size()) {
      cycle(nullptr);
      check_.that(!l.keep_in || freed_ || seen_[0][start_] || waited < l.pad_t + 5, "what is kept does not count");
      check_.that(waited++ < 200000, "tile %zu of %zu does not come", freed_, tiles_.size());
    }
    for (int i = 0; i < 5; i++) cycle(nullptr);
    check_.that(dut_.avail_o == 0, "places left over");
    check_.that(dram_.idle() && runs_.empty(), "answers left over");
    check_.that(dram_.beats_asked - asked == beats_, "%" PRIu64 " beats read, not %" PRIu64, dram_.beats_asked - asked, beats_);
    written_++;
  }

  void cycle(const unit::Layer* offered) {
    unit::drive_layer(dut_, random_, offered);
    dut_.layer_samp_i = offered ? offered->samp() : static_cast<unsigned>(random_.below(1 << 24));
    dut_.layers_written_i = static_cast<unsigned short>(written_);
    if (pause_ && --pause_ == 0) dram_.valid = 100;
    dram_.drive(dut_);
    // tiles are used up in order
    unsigned frees = 0;
    if (dut_.rst_ni && freed_ < tiles_.size()) {
      const unsigned h = tiles_[freed_].half;
      if (tile_[h] == freed_ && seen_[0][h] == tiles_[freed_].count(0) && seen_[1][h] == tiles_[freed_].count(1) && random_.percent(hold_ ? 100 / hold_ + 1 : 100)) frees = 1u << h;
    }
    dut_.free_i = static_cast<unsigned char>(frees);
    dut_.clk_i = 0;
    dut_.eval();
    dram_.take(dut_);
    if (dut_.rst_ni) {
      check_.that(!dut_.err_valid_o || expect_error_, "an error");
      if (!expect_error_) look();
      if (!expect_error_ && dut_.req_valid_o && dut_.req_ready_i) {
        check_.that(!runs_.empty(), "a run too many");
        check_.that(dut_.req_addr_o == runs_.front().address && dut_.req_beats_o == runs_.front().beats, "reads %" PRIx64 ", not %" PRIx64,
                    static_cast<uint64_t>(dut_.req_addr_o), runs_.front().address);
        if (pauses_ && runs_.front().gap && !pause_) {
          dram_.valid = 0;
          pause_ = static_cast<unsigned>(random_.range(150, 400));
        }
        runs_.pop_front();
      }
    }
    if (frees) {
      const unsigned h = frees >> 1;
      begin_tile(h, tile_[h] + 2);
      freed_++;
    }
    dut_.clk_i = 1;
    dut_.eval();
  }

  void look() {
    for (unsigned n = 0; n < 4; n++) {
      const unsigned h = n % 2, g = n / 2;
      const unsigned avail = (dut_.avail_o >> (16 * n)) & 0xFFFF;
      unsigned& seen = seen_[g][h];
      check_.that(avail >= seen, "places are taken back");
      if (avail > seen) {
        check_.that(tile_[h] < tiles_.size() && avail <= tiles_[tile_[h]].count(g), "more places than the tile has");
      }
      if (tile_[h] < tiles_.size() && tiles_[tile_[h]].kept) {
        check_.that(avail == 0 || avail == tiles_[tile_[h]].count(g), "%u places of what is kept", avail);
        seen = avail;
      }
      for (; seen < avail; seen++) {
        const Place& p = tiles_[tile_[h]].places[g][seen];
        for (unsigned x = 0; p.data && x < layer_.in_row(); x++) {
          check_.that(have_[layer_.two() ? g : h][p.elem + x], "place %u counts without word %u", seen, x);
        }
      }
    }
    for (unsigned i = 0; i < kWPB; i++) {
      if (!((dut_.wr_mask_o >> i) & 1)) continue;
      const unsigned h = dut_.wr_half_o;
      const unsigned elem = (dut_.wr_elem_o + i) % (1u << unit::clog2(kElems));
      const uint16_t data = static_cast<uint16_t>(unit::get(dut_.wr_data_o, i * 16, 16));
      check_.that(elem < kElems && want_[h][elem] >= 0, "element %u written, nothing belongs there", elem);
      check_.that(want_[h][elem] == data, "element %u is %04x, not %04x", elem, data, static_cast<unsigned>(want_[h][elem]));
      check_.that(!have_[h][elem], "element %u written twice", elem);
      have_[h][elem] = true;
    }
  }

  tb::Random random_;
  tb::Checks check_;
  unit::ReadPort dram_;
  Vact_loader dut_;
  std::vector<uint64_t> slots_;
  std::vector<Tile> tiles_;
  std::vector<int> want_[2];
  std::vector<bool> have_[2];
  unit::Layer layer_;
  std::deque<Run> runs_;
  size_t tile_[2] = {0, 0}, freed_ = 0;
  unsigned seen_[2][2] = {};
  uint64_t beats_ = 0;
  unsigned written_ = 0, start_ = 0, b_act_ = 1, hold_ = 0;
  unsigned pause_ = 0;     // cycles until a stalled memory continues
  bool expect_error_ = false, pauses_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  const uint64_t n = args.n ? args.n : 60;
  for (uint64_t i = 0; i < n; i++) {
    bench.start(5);
    if (i % 4 == 0) bench.tall(2);
    if (i % 4 != 0) bench.wide();
  }
  for (uint64_t i = 0; i < n / 6 + 1; i++) bench.out_of_slot();
  return bench.finish();
}
