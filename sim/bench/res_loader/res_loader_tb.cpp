// res_loader_tb: random layers, with and without residual, from a DRAM that answers late and
// unevenly; words are taken in random counts. The words must be the residual's in the drain's
// order; none may be read before the previous layer is written, none twice. Without stalls a whole
// row must come at one beat per cycle.
#include "Vres_loader.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr uint64_t kStride = 1 << 14;
constexpr unsigned kLanes = P_LANES;

class Bench {
 public:
  explicit Bench(const tb::Args& args)
      : random_(args.seed), check_("res_loader", args.seed), dram_(random_, check_, P_AXI_BYTES) {}

  void start(unsigned n) {
    reset();
    unit::Limits limit;
    limit.max_out_c = 3 * P_T_C;
    limit.t_c = P_T_C;
    limit.stride = kStride;
    limit.post = true;  // residuals of one pixel
    limit.t_r = 64;
    // rows of several chunks, from any word on
    unit::Layer l;
    l.b_act = b_act_;
    l.out_c = l.out_pix = l.res_pix = static_cast<unsigned>(random_.range(1, P_T_C));
    l.residual = 1;
    l.out_h = 2;
    l.out_w = static_cast<unsigned>(random_.range(30, 100));
    l.res_offset = 2 * random_.below(1000);
    layer(l);
    for (unsigned i = 0; i < n; i++) layer(unit::random_layer(random_, limit, unit::random_op(random_, 85), b_act_));
  }

  void full_speed() {
    reset();
    dram_.ready = dram_.valid = 100;
    dram_.latency = 1;
    eager_ = 100;
    unit::Layer l;
    l.b_act = b_act_ = 1;
    dut_.b_act_i = 1;
    l.out_c = l.out_pix = l.res_pix = P_T_C;
    l.residual = 1;
    l.out_w = 512 / P_T_C;
    const uint64_t begin = now_;
    layer(l);
    const uint64_t words = uint64_t{l.out_w} * l.out_c;
    const uint64_t ideal = words / std::min(kLanes, P_AXI_BYTES / 2u);
    // a queue of only one chunk cannot hide the DRAM's latency
    if (P_BEATS >= 32) check_.that(now_ - begin < ideal + ideal / 8 + 40, "%" PRIu64 " cycles, ideally %" PRIu64, now_ - begin, ideal);
  }
  int finish() { return check_.passed(); }

 private:
  void reset() {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) cycle(nullptr);
    dut_.rst_ni = 1;
    b_act_ = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act_);
    slots_ = unit::random_slots(random_, kStride);
    for (unsigned i = 0; i < 8; i++) unit::put(dut_.slot_addr_i, i * 40, 40, slots_[i]);
    dut_.slot_stride_i = kStride;
    written_ = 0;
    dram_.ready = static_cast<unsigned>(random_.range(20, 100));
    dram_.valid = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(20, 100));
    dram_.latency = static_cast<unsigned>(random_.percent(30) ? 1 : random_.range(1, 120));
    eager_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(8, 100));
  }
  void layer(const unit::Layer& l) {
    std::deque<uint64_t> words;
    if (l.residual) {
      const auto w = unit::drain_words(l, slots_, l.res_offset, l.res_pix, l.tc(P_T_C));
      words.assign(w.begin(), w.end());
    }
    const uint64_t asked = dram_.beats_asked;
    const unsigned goal = written_;
    if (random_.percent(50) && eager_ != 100) {
      written_ = goal ? goal - 1 : 511;
      offer(l);
      for (int i = 0; i < 10; i++) cycle(nullptr);
      check_.that(dram_.beats_asked == asked, "reads before the layer before is written");
      written_ = goal;
    } else {
      offer(l);
    }
    words_ = &words;
    unsigned waited = 0;
    while (!words.empty()) {
      cycle(nullptr);
      check_.that(++waited < 200000, "words do not come");
    }
    words_ = nullptr;
    for (int i = 0; i < 3; i++) cycle(nullptr);
    check_.that(dut_.fill_o == 0 && dram_.idle(), "words left over");
    asked_.clear();
    written_++;
  }
  void offer(const unit::Layer& l) {
    for (unsigned waited = 0;; waited++) {
      settle();
      if (dut_.layer_ready_o) break;
      check_.that(waited < 5, "the unit does not take the next layer");
      cycle(nullptr);
    }
    cycle(&l);
  }
  // Requested beats, without consecutive duplicates.
  size_t different() const {
    size_t n = 0;
    for (size_t i = 0; i < asked_.size(); i++) n += i == 0 || asked_[i] != asked_[i - 1];
    return n;
  }
  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  void cycle(const unit::Layer* offered) {
    unit::drive_layer(dut_, random_, offered);
    dut_.layers_written_i = static_cast<unsigned short>(written_);
    dram_.drive(dut_);
    dut_.pop_i = 0;
    dut_.pop_cnt_i = 0;
    settle();
    if (dut_.rst_ni) check_.that(!dut_.err_valid_o, "an error");
    const size_t in_gearbox = dut_.fill_o;
    if (words_ && dut_.fill_o > 0 && random_.percent(eager_)) {
      const unsigned most = std::min<unsigned>(dut_.fill_o, kLanes);
      const unsigned count = eager_ == 100 ? most : static_cast<unsigned>(random_.range(1, most));
      if (eager_ < 100 || most == kLanes || words_->size() < kLanes) {
        check_.that(count <= words_->size(), "more words than the residual has");
        for (unsigned i = 0; i < count; i++) {
          const unsigned value = static_cast<unsigned>(unit::get(dut_.data_o, i * 16, 16));
          check_.that(value == unit::word_at(words_->front()), "word at %" PRIx64 ": %04x", words_->front(), value);
          while (asked_.front() != (words_->front() & ~uint64_t{P_AXI_BYTES - 1})) asked_.pop_front();
          words_->pop_front();
        }
        dut_.pop_i = 1;
        dut_.pop_cnt_i = static_cast<unsigned char>(count);
        settle();
      }
    } else if (!words_ && dut_.rst_ni && dut_.fill_o > 0) {
      check_.that(false, "words without a layer");
    }
    // Words in the gearbox have left the queue, at most one beat each. If several runs requested
    // the same beat, it is not known which copy was used up.
    if (dut_.rst_ni) {
      const size_t most = asked_.size(), least = different();
      if (most < P_BEATS / 2) check_.that(dut_.low_o, "%zu beats asked for and not used up are not low", most);
      if (least >= P_BEATS / 2 + in_gearbox + 1) check_.that(!dut_.low_o, "%zu beats asked for and not used up are low", least);
      if (dut_.req_valid_o && dut_.req_ready_i)
        for (unsigned i = 0; i < dut_.req_beats_o; i++) asked_.push_back(dut_.req_addr_o + uint64_t{i} * P_AXI_BYTES);
    } else {
      asked_.clear();
    }
    dram_.take(dut_);
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }

  tb::Random random_;
  tb::Checks check_;
  unit::ReadPort dram_;
  Vres_loader dut_;
  std::vector<uint64_t> slots_;
  std::deque<uint64_t>* words_ = nullptr;
  std::deque<uint64_t> asked_;  // beats, except those whose words have all been taken
  uint64_t now_ = 0;
  unsigned b_act_ = 1, written_ = 0, eager_ = 100;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  bench.full_speed();
  for (uint64_t i = 0; i < (args.n ? args.n : 60); i++) bench.start(5);
  return bench.finish();
}
