// drain_tb: a start of random layers of every k, s and loop order, with random timing of complete
// banks, biases, residual words and output words. The output must be every word of every row in
// order, by the formula. The words of a row come four cycles after its address, and are lost four cycles after their bank
// is released. A pool must count as drained when it is written, not earlier. With POST, the table of a layer's curve may
// be overwritten as soon as the layer counts as drained. With DEPTHWISE some layers' sums are from that unit, for all
// channels of each pixel, at random times. Some starts end by a reset in the middle, which has one to three cycles.
#include "Vdrain.h"
#include "bench/post_model.hpp"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_POST
#define P_POST 0
#endif
#ifndef P_DEPTHWISE
#define P_DEPTHWISE 0
#endif

namespace {

constexpr unsigned kTC = P_T_C, kTR = P_T_R, kHalfRows = P_T_R / 2, kLanes = P_LANES, kHalf = P_C_MAX / P_LANES;
constexpr unsigned kRead = 4;  // cycles from a row's address to its words

// The half, the PE and the row that hold a channel of a C tile.
unsigned place(const unit::Layer& l, unsigned channel, unsigned group, unsigned row) {
  unsigned pe = l.half() ? channel / 2 : channel;
  if (l.two()) pe = 2 * pe + group;
  if (l.pair()) pe = 2 * pe + 1;
  const unsigned half = l.half() ? channel % 2 : row / kHalfRows;
  return (2 * pe + half) * kHalfRows + row % kHalfRows;
}

struct Group {
  std::vector<int16_t> y;
};

struct Sums {
  std::vector<int64_t> words;
  bool pixel;  // a pixel's last
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("drain", args.seed) {}

  // With abort, a reset comes after that many cycles, in the middle of the layers.
  void start(unsigned n, unsigned abort = 0) {
    layers_.clear();
    bias_.clear();
    curves_.clear();
    banks_.clear();
    expect_.clear();
    sums_.clear();
    there_ = false;
    residual_.clear();
    next_ = written_ = drained_ = 0;
    completed_ = freed_ = 0;
    bias_layers_ = bias_pos_ = 0;
    res_fill_ = 0;
    for (Read& r : way_) r = {};
    way_[kRead - 1].fresh = true;
    dut_.rst_ni = 0;
    for (uint64_t i = random_.range(1, 3); i > 0; i--) cycle();
    dut_.rst_ni = 1;
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act);
    ready_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(10, 100));
    speed_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(1, 30));
    res_speed_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(5, 100));
    unit::Limits limit;
    limit.t_r = kTR;
    limit.max_out_c = P_C_MAX;
    limit.t_c = kTC;
    limit.post = P_POST;
    for (unsigned i = 0; i < n; i++) {
      unit::Layer l = unit::random_layer(random_, limit, unit::random_op(random_, 80), b_act);
      if (l.gemm() && !l.two() && random_.percent(10)) l.out_c = P_C_MAX;
      if (P_DEPTHWISE && l.gemm() && l.k == 0 && !l.two() && !l.order && random_.percent(50)) l.op = sluice_abi::OP_DEPTHWISE;
      add(l);
    }
    unsigned waited = 0;
    while (!expect_.empty() || dut_.layers_drained_o != n) {
      cycle();
      if (++waited == abort) return;
      check_.that(waited < 200000, "stands still, %zu groups to go", expect_.size());
    }
    for (int i = 0; i < 5; i++) cycle();
    check_.that(freed_ == banks_.size(), "%zu banks given back, not %zu", freed_, banks_.size());
    check_.that(!dut_.valid_o && residual_.empty() && sums_.empty(), "words left over");
  }

  // One group per cycle if nothing stalls.
  void full_speed(unsigned k, unsigned s) {
    start(0);
    ready_ = speed_ = res_speed_ = 100;
    unit::Layer l;
    l.k = k;
    l.groups = l.b_act = s;
    dut_.b_act_i = static_cast<unsigned char>(s);
    l.out_c = std::min<unsigned>(l.tc(kTC), P_C_MAX);
    l.out_w = l.half() ? kTR / 2 : kTR;
    l.shift = 4;
    add(l);
    while (expect_.size() > 1) cycle();
    const uint64_t last = now_;
    const uint64_t groups = uint64_t{l.out_w} * s * ((l.out_c + step(l) - 1) / step(l));
    check_.that(last - first_out_ <= groups, "%" PRIu64 " cycles for %" PRIu64 " groups", last - first_out_, groups);
    while (!expect_.empty()) cycle();
    first_out_ = 0;
  }
  int finish() { return check_.passed(); }

 private:
  // Channels of a step: with k = 2, and with s = 2 but for k = 1/2, every second PE's.
  static unsigned step(const unit::Layer& l) { return l.pair() || (l.two() && !l.half()) ? kLanes / 2 : kLanes; }

  void add(const unit::Layer& l) {
    const size_t n = layers_.size();
    layers_.push_back(l);
    bias_.resize(n + 1);
    bias_[n].resize(P_C_MAX + sluice_abi::CURVE_WORDS);
    for (auto& b : bias_[n]) b = static_cast<int32_t>(random_.next()) >> random_.below(24);
    curves_.resize(n + 1);
    for (unsigned i = 0; l.curve && i < sluice_abi::CURVE_WORDS; i++) {
      const int32_t word = static_cast<int32_t>(random_.next()) >> random_.below(31);
      curves_[n].push_back(static_cast<uint32_t>(i % 2 ? static_cast<int16_t>(word) : word));
    }
    if (!l.weighted()) return;
    model::Behind behind;
    behind.product = l.product;
    behind.curve = l.curve;
    behind.lo = l.curve_lo;
    behind.step = l.curve_step;
    behind.shift = l.curve_shift;
    behind.words = curves_[n].data();
    const unsigned tc = l.gemm() ? l.tc(kTC) : l.out_c;
    for (const unit::Visit& v : unit::visits(l, tc)) {
      const unsigned rows0 = l.nb(v.b0) * l.nr(v.oh0) * l.out_w;
      const unsigned rows1 = l.two() ? l.nb(v.b0, 1) * l.nr(v.oh0) * l.out_w : 0;
      std::vector<int64_t> bank(kTR * kTC);
      for (auto& a : bank) a = unit::sign(random_.next(), 36) >> random_.below(30);
      for (unsigned row = 0; row < rows0 + rows1; row++) {
        const unsigned gi = row >= rows0, r = gi ? row - rows0 : row;
        for (unsigned c = v.c0; c < std::min(v.c0 + tc, l.out_c); c += step(l)) {
          Group g;
          Sums sums{{}, c + step(l) >= l.out_c};
          for (unsigned k = c; k < std::min({c + step(l), v.c0 + tc, l.out_c}); k++) {
            int64_t res = 0;
            if (l.residual) {
              res = unit::sign(random_.next(), 16);
              residual_.push_back(static_cast<uint16_t>(res));
            }
            if (!l.gemm()) sums.words.push_back(unit::sign(random_.next(), 36) >> random_.below(30));
            const int64_t sum = l.gemm() ? bank[place(l, k - v.c0, gi, r)] : sums.words.back();
            g.y.push_back(behind.post(sum, bias_[n][k], res, l.res_shift, l.shift, l.clamp_lo, l.clamp_hi));
          }
          expect_.push_back(g);
          if (!l.gemm()) sums_.push_back(sums);
        }
      }
      if (l.gemm()) banks_.push_back(bank);
    }
  }

  void cycle() {
    const bool offer = dut_.rst_ni && next_ < layers_.size();
    unit::drive_layer(dut_, random_, offer ? &layers_[next_] : nullptr);
    // banks are completed, at most two ahead
    const bool done = dut_.rst_ni && completed_ < banks_.size() && completed_ < freed_ + 2 && random_.percent(speed_);
    dut_.done_i = done;
    // biases of at most two layers, a word a cycle
    dut_.bias_we_i = dut_.curve_we_i = 0;
    dut_.curve_addr_i = static_cast<unsigned char>(random_.below(2 * sluice_abi::CURVE_WORDS));
    dut_.bias_addr_i = static_cast<unsigned>(random_.below(2 * kHalf));
    const unsigned counted = bias_layers_;
    if (dut_.rst_ni && bias_layers_ < layers_.size() && bias_layers_ < dut_.layers_drained_o + 2u) {
      const unit::Layer& l = layers_[bias_layers_];
      const unsigned words = l.weighted() ? l.bias_words() : 0;
      if (l.weighted() && bias_pos_ >= l.out_c && bias_pos_ < words) {
        const unsigned at = bias_pos_ - l.out_c;
        dut_.curve_we_i = 1;
        dut_.curve_addr_i = static_cast<unsigned char>((bias_layers_ & 1) * sluice_abi::CURVE_WORDS + at);
        dut_.curve_sh_i = static_cast<unsigned char>(l.curve_shift);
        dut_.bias_data_i = curves_[bias_layers_][at];
        bias_pos_++;
      } else if (bias_pos_ < words) {
        dut_.bias_we_i = 1;
        dut_.bias_lane_i = static_cast<unsigned char>(bias_pos_ % kLanes);
        dut_.bias_addr_i = static_cast<unsigned char>((bias_layers_ & 1) * kHalf + bias_pos_ / kLanes);
        dut_.bias_data_i = static_cast<uint32_t>(bias_[bias_layers_][bias_pos_]);
        bias_pos_++;
      }
      if (bias_pos_ >= words) {
        bias_layers_++;
        bias_pos_ = 0;
      }
    }
    dut_.bias_layers_i = static_cast<unsigned short>(counted);
    // residual: the words in the gearbox
    if (res_fill_ < std::min<size_t>(residual_.size(), kLanes + 8) && random_.percent(res_speed_)) {
      res_fill_ = static_cast<unsigned>(std::min<size_t>({residual_.size(), kLanes + 8, res_fill_ + static_cast<size_t>(random_.range(1, kLanes))}));
    }
    dut_.res_fill_i = static_cast<unsigned char>(res_fill_);
    for (unsigned i = 0; i < kLanes; i++) {
      unit::put(dut_.res_data_i, i * 16, 16, i < res_fill_ ? residual_[i] : random_.next());
    }
    dut_.ready_i = random_.percent(ready_);
    // sums of the depthwise unit stay until they are accepted
    there_ = there_ || (!sums_.empty() && random_.percent(speed_));
    dut_.dw_ok_i = there_;
    for (unsigned i = 0; i < kLanes; i++) {
      const bool is = there_ && i < sums_.front().words.size();
      unit::put(dut_.dw_data_i, i * 36, 36, is ? static_cast<uint64_t>(sums_.front().words[i]) : random_.next());
    }
    // the accumulators' read port: the value stays until the bank is released
    const Read& shown = way_[kRead - 1];
    for (unsigned c = 0; shown.fresh && c < 2 * kTC; c++) {
      unit::put(dut_.dr_acc_i, c * 36, 36, shown.valid ? static_cast<uint64_t>(banks_[shown.bank][c * kHalfRows + shown.row]) : random_.next());
    }
    for (unsigned i = kRead - 1; i > 0; i--) way_[i] = way_[i - 1];
    way_[0] = {};
    dut_.layers_written_i = static_cast<unsigned short>(written_);
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      if (offer && dut_.layer_ready_o) next_++;
      if (dut_.dw_pop_o) {
        check_.that(there_ && dut_.dw_cnt_o == sums_.front().words.size(), "pops %u sums", dut_.dw_cnt_o);
        check_.that(dut_.dw_pixel_o == sums_.front().pixel, "a pixel ends elsewhere");
        sums_.pop_front();
        there_ = false;
      }
      if (dut_.res_pop_o) {
        check_.that(dut_.res_cnt_o <= res_fill_ && dut_.res_cnt_o > 0, "pops %u of %u residual words", dut_.res_cnt_o, res_fill_);
        residual_.erase(residual_.begin(), residual_.begin() + dut_.res_cnt_o);
        res_fill_ -= dut_.res_cnt_o;
      }
      if (held_) check_.that(dut_.valid_o && std::memcmp(&held_data_, &dut_.data_o, sizeof held_data_) == 0, "words change while they wait");
      held_ = dut_.valid_o && !dut_.ready_i;
      held_data_ = dut_.data_o;
      if (dut_.valid_o && dut_.ready_i) {
        check_.that(!expect_.empty(), "a group too many");
        const Group& g = expect_.front();
        check_.that(dut_.cnt_o == g.y.size(), "%u words, not %zu", dut_.cnt_o, g.y.size());
        for (unsigned i = 0; i < g.y.size(); i++) {
          const int64_t have = unit::sign(unit::get(dut_.data_o, i * 16, 16), 16);
          check_.that(have == g.y[i], "word %u is %" PRId64 ", not %d", i, have, g.y[i]);
        }
        expect_.pop_front();
        if (first_out_ == 0) first_out_ = now_;
      } else if (expect_.empty()) {
        first_out_ = 0;
      }
      if (dut_.dr_en_o) {
        check_.that(freed_ < completed_, "reads a bank that is not complete");
        check_.that(dut_.dr_bank_o == (freed_ & 1), "the older bank first");
        check_.that(dut_.dr_row_o < kHalfRows, "reads row %u", dut_.dr_row_o);
        way_[0] = {true, true, freed_, dut_.dr_row_o};
      }
      if (dut_.bank_free_o) {
        check_.that(freed_ < completed_, "gives back a bank that is not complete");
        freed_++;
        way_[0].fresh = true;
      }
      if (done) completed_++;
      if (dut_.layers_drained_o != drained_) {
        check_.that(dut_.layers_drained_o == drained_ + 1 && drained_ < next_, "layers_drained_o is %u after %u", dut_.layers_drained_o, drained_);
        check_.that(layers_[drained_].weighted() || written_ > drained_, "a pool counts as drained before it is written");
        drained_++;
      }
      // a layer is written some time after it was drained, or after it was taken
      if (written_ < next_ && (!layers_[written_].weighted() || drained_ > written_) && random_.percent(5)) written_++;
    } else {
      held_ = false;
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  // The accumulators' output from a cycle on: a row or, after its bank is released, arbitrary values.
  struct Read {
    bool fresh = false, valid = false;
    size_t bank = 0;
    unsigned row = 0;
  };

  tb::Random random_;
  tb::Checks check_;
  Vdrain dut_;
  Read way_[kRead];
  std::vector<unit::Layer> layers_;
  std::vector<std::vector<int32_t>> bias_;
  std::vector<std::vector<uint32_t>> curves_;  // words of their segments
  std::vector<std::vector<int64_t>> banks_;
  std::deque<Group> expect_;
  std::deque<Sums> sums_;  // of the depthwise unit
  std::deque<uint16_t> residual_;
  size_t next_ = 0, completed_ = 0, freed_ = 0;
  unsigned written_ = 0, drained_ = 0;
  unsigned bias_layers_ = 0, bias_pos_ = 0, res_fill_ = 0;
  unsigned ready_ = 100, speed_ = 100, res_speed_ = 100;
  uint64_t now_ = 0, first_out_ = 0;
  bool held_ = false, there_ = false;
  std::remove_reference_t<decltype(Vdrain::data_o)> held_data_{};
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (unsigned k = 0; k < 3; k++) bench.full_speed(k, 1);
  for (unsigned k = 0; k < 2; k++) bench.full_speed(k, 2);
  for (uint64_t i = 0; i < (args.n ? args.n : 40); i++) {
    bench.start(8, i % 4 == 1 ? 50 + static_cast<unsigned>(i) * 37 % 400 : 0);
  }
  return bench.finish();
}
