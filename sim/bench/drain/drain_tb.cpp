// drain_tb: a start of random layers; banks are completed, biases written, residual words brought
// and output words taken at random. What leaves must be every word of every row in order, by the
// formula; a bank that has been given back holds something else from the next cycle on.
#include "Vdrain.h"
#include "bench/post_model.hpp"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kTC = P_T_C, kTR = P_T_R, kLanes = P_LANES, kHalf = P_C_MAX / P_LANES;

struct Group {
  std::vector<int16_t> y;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("drain", args.seed) {}

  void start(unsigned n) {
    layers_.clear();
    bias_.clear();
    banks_.clear();
    expect_.clear();
    residual_.clear();
    next_ = 0;
    completed_ = freed_ = 0;
    bias_layers_ = bias_pos_ = 0;
    res_fill_ = 0;
    read_valid_ = false;
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) cycle();
    dut_.rst_ni = 1;
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act);
    ready_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(10, 100));
    speed_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(1, 30));
    res_speed_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(5, 100));
    unit::Limits limit;
    limit.t_r = kTR;
    limit.max_out_c = P_C_MAX;
    for (unsigned i = 0; i < n; i++) {
      unit::Layer l = unit::random_layer(random_, limit, unit::random_op(random_, 80), b_act);
      if (l.gemm() && random_.percent(10)) l.out_c = P_C_MAX;
      add(l);
    }
    unsigned waited = 0;
    while (!expect_.empty() || dut_.layers_drained_o != n) {
      cycle();
      check_.that(++waited < 200000, "stands still, %zu groups to go", expect_.size());
    }
    for (int i = 0; i < 5; i++) cycle();
    check_.that(freed_ == banks_.size(), "%zu banks given back, not %zu", freed_, banks_.size());
    check_.that(!dut_.valid_o && residual_.empty(), "words left over");
  }

  // A group a cycle when nothing holds it up.
  void full_speed() {
    start(0);
    ready_ = speed_ = res_speed_ = 100;
    unit::Layer l;
    l.b_act = 1;
    dut_.b_act_i = 1;
    l.out_c = kTC;
    l.out_w = kTR;
    l.shift = 4;
    add(l);
    while (expect_.size() > 1) cycle();
    const uint64_t last = now_;
    const uint64_t groups = uint64_t{kTR} * (kTC / kLanes);
    check_.that(last - first_out_ <= groups, "%" PRIu64 " cycles for %" PRIu64 " groups",
                last - first_out_, groups);
    while (!expect_.empty()) cycle();
  }
  int finish() { return check_.passed(); }

 private:
  void add(const unit::Layer& l) {
    const size_t n = layers_.size();
    layers_.push_back(l);
    bias_.resize(n + 1);
    bias_[n].resize(P_C_MAX);
    for (auto& b : bias_[n]) b = static_cast<int32_t>(random_.next()) >> random_.below(24);
    if (!l.gemm()) return;
    for (unsigned b0 = 0; b0 < l.b_act; b0 += l.tile_b) {
      for (unsigned oh0 = 0; oh0 < l.out_h; oh0 += l.tile_rows) {
        for (unsigned c0 = 0; c0 < l.out_c; c0 += kTC) {
          const unsigned rows = l.nb(b0) * l.nr(oh0) * l.out_w;
          std::vector<int64_t> bank(kTR * kTC);
          for (auto& a : bank) a = unit::sign(random_.next(), 36) >> random_.below(30);
          for (unsigned r = 0; r < rows; r++) {
            for (unsigned c = c0; c < std::min(c0 + kTC, l.out_c); c += kLanes) {
              Group g;
              for (unsigned k = c; k < std::min({c + kLanes, c0 + kTC, l.out_c}); k++) {
                int64_t res = 0;
                if (l.residual) {
                  res = unit::sign(random_.next(), 16);
                  residual_.push_back(static_cast<uint16_t>(res));
                }
                g.y.push_back(model::post(bank[r * kTC + k - c0], bias_[n][k], res, l.res_shift,
                                          l.shift, l.clamp_lo, l.clamp_hi));
              }
              expect_.push_back(g);
            }
          }
          banks_.push_back(bank);
        }
      }
    }
  }

  void cycle() {
    const bool offer = dut_.rst_ni && next_ < layers_.size();
    unit::drive_layer(dut_, random_, offer ? &layers_[next_] : nullptr);
    // banks are completed, at most two ahead
    const bool done = dut_.rst_ni && completed_ < banks_.size() && completed_ < freed_ + 2 &&
                      random_.percent(speed_);
    dut_.done_i = done;
    // biases of at most two layers, a word a cycle
    dut_.bias_we_i = 0;
    dut_.bias_addr_i = static_cast<unsigned>(random_.below(2 * kHalf));
    const unsigned counted = bias_layers_;
    if (dut_.rst_ni && bias_layers_ < layers_.size() && bias_layers_ < dut_.layers_drained_o + 2u) {
      const unit::Layer& l = layers_[bias_layers_];
      const unsigned words = l.gemm() ? l.out_c : 0;
      if (bias_pos_ < words) {
        dut_.bias_we_i = 1;
        dut_.bias_lane_i = static_cast<unsigned char>(bias_pos_ % kLanes);
        dut_.bias_addr_i =
            static_cast<unsigned char>((bias_layers_ & 1) * kHalf + bias_pos_ / kLanes);
        dut_.bias_data_i = static_cast<uint32_t>(bias_[bias_layers_][bias_pos_]);
        bias_pos_++;
      }
      if (bias_pos_ >= words) {
        bias_layers_++;
        bias_pos_ = 0;
      }
    }
    dut_.bias_layers_i = static_cast<unsigned short>(counted);
    // residual: what the gearbox holds
    if (res_fill_ < std::min<size_t>(residual_.size(), kLanes + 8) && random_.percent(res_speed_)) {
      res_fill_ = static_cast<unsigned>(
          std::min<size_t>({residual_.size(), kLanes + 8,
                            res_fill_ + static_cast<size_t>(random_.range(1, kLanes))}));
    }
    dut_.res_fill_i = static_cast<unsigned char>(res_fill_);
    for (unsigned i = 0; i < kLanes; i++) {
      unit::put(dut_.res_data_i, i * 16, 16, i < res_fill_ ? residual_[i] : random_.next());
    }
    dut_.ready_i = random_.percent(ready_);
    // the accumulators' read port: what was read holds, until the bank is given back
    for (unsigned c = 0; c < kTC; c++) {
      unit::put(dut_.dr_acc_i, c * 36, 36,
                read_valid_ ? static_cast<uint64_t>(banks_[read_bank_][read_row_ * kTC + c])
                            : random_.next());
    }
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      if (offer && dut_.layer_ready_o) next_++;
      if (dut_.res_pop_o) {
        check_.that(dut_.res_cnt_o <= res_fill_ && dut_.res_cnt_o > 0,
                    "pops %u of %u residual words", dut_.res_cnt_o, res_fill_);
        residual_.erase(residual_.begin(), residual_.begin() + dut_.res_cnt_o);
        res_fill_ -= dut_.res_cnt_o;
      }
      if (held_)
        check_.that(dut_.valid_o && std::memcmp(&held_data_, &dut_.data_o, sizeof held_data_) == 0,
                    "words change while they wait");
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
        read_valid_ = true;
        read_bank_ = freed_;
        read_row_ = dut_.dr_row_o;
      }
      if (dut_.bank_free_o) {
        check_.that(freed_ < completed_, "gives back a bank that is not complete");
        freed_++;
        read_valid_ = false;
      }
      if (done) completed_++;
    } else {
      held_ = false;
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  tb::Random random_;
  tb::Checks check_;
  Vdrain dut_;
  std::vector<unit::Layer> layers_;
  std::vector<std::vector<int32_t>> bias_;
  std::vector<std::vector<int64_t>> banks_;
  std::deque<Group> expect_;
  std::deque<uint16_t> residual_;
  size_t next_ = 0, completed_ = 0, freed_ = 0, read_bank_ = 0;
  unsigned read_row_ = 0, bias_layers_ = 0, bias_pos_ = 0, res_fill_ = 0;
  unsigned ready_ = 100, speed_ = 100, res_speed_ = 100;
  uint64_t now_ = 0, first_out_ = 0;
  bool read_valid_ = false, held_ = false;
  std::remove_reference_t<decltype(Vdrain::data_o)> held_data_{};
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  bench.full_speed();
  for (uint64_t i = 0; i < (args.n ? args.n : 40); i++) bench.start(8);
  return bench.finish();
}
