// run_gen_tb: random layers and slots. The runs must cover, in the drain's order, exactly the words
// of a loop nest over row tiles and C tiles (in either order), sample groups, samples, rows, pixels
// and channels, for every k and s. A kept tensor is stored sample after sample without a gap, in
// the half that its layer does not read. Also: one run per cycle, done with the last one, and an
// error before a run outside its slot.
#include "Vrun_gen.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kTC = P_T_C;
constexpr bool kRes = P_RESIDUAL != 0;
constexpr uint64_t kStride = 1 << 14;

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("run_gen", args.seed) {}

  void start(unsigned n, bool leaves) {
    dut_.rst_ni = 0;
    dut_.run_ready_i = 0;
    for (int i = 0; i < 2; i++) cycle(nullptr);
    dut_.rst_ni = 1;
    b_act_ = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act_);
    start_ = 0;
    slots_ = unit::random_slots(random_, kStride);
    for (unsigned i = 0; i < 8; i++) unit::put(dut_.slot_addr_i, i * 40, 40, slots_[i]);
    stride_ = kStride;
    dut_.slot_stride_i = kStride;
    unit::Limits limit;
    limit.max_out_c = 5 * kTC;
    limit.t_c = kTC;
    limit.stride = kStride;
    limit.post = true;  // residuals of one pixel
    const std::vector<unit::Layer> layers = unit::random_start(random_, limit, n, 75, 40, b_act_);
    for (unsigned i = 0; i < n; i++) {
      unit::Layer l = layers[i];
      const bool last = leaves && i + 1 == n;
      if (last && kRes && !l.residual) return;
      if (last) {  // the tensor ends one word after the slot
        const uint64_t pix = kRes ? l.res_pix : l.out_pix;
        const uint64_t end = 2 * (uint64_t{l.out_h} * l.out_w * pix - pix + l.out_c);
        (kRes ? l.res_offset : l.out_offset) = kStride - end + 2;
        // or, in a slot of nearly 4 GiB, its second run begins at an offset of 33 bits
        if (pix > l.out_c && l.out_w > 1) {
          stride_ = 0xFFFFFFFE;
          dut_.slot_stride_i = static_cast<uint32_t>(stride_);
          (kRes ? l.res_offset : l.out_offset) = (uint64_t{1} << 32) - 2 * pix;
        }
      }
      layer(l, last);
    }
  }
  int finish() { return check_.passed(); }

 private:
  // The places on chip of the words of a layer's output, in the order of the drain.
  static std::vector<unsigned> kept_elems(const unit::Layer& l, unsigned tc) {
    std::vector<unsigned> elems;
    for (unsigned c0 = 0; c0 < l.out_c; c0 += tc) {
      for (unsigned pixel = 0; pixel < l.b_act * l.out_h * l.out_w; pixel++) {
        for (unsigned c = c0; c < std::min(c0 + tc, l.out_c); c++) elems.push_back(pixel * l.out_c + c);
      }
    }
    return elems;
  }

  void layer(const unit::Layer& l, bool leaves) {
    std::vector<uint64_t> words;
    const unsigned pix = kRes ? l.res_pix : l.out_pix;
    const uint64_t base = kRes ? l.res_offset : l.out_offset;
    const unsigned tc = l.gemm() ? l.tc(kTC) : l.out_c;
    std::vector<unsigned> elems;
    if (!kRes && l.keep_out) elems = kept_elems(l, tc);
    start_ = l.keep_in && !start_;
    uint64_t runs = 0;
    if (!kRes || l.residual) {
      words = unit::drain_words(l, slots_, base, pix, tc);
      runs = uint64_t{l.b_act} * l.out_h * l.out_w * ((l.out_c + tc - 1) / tc);
      if (l.out_c <= tc && pix == l.out_c) runs /= l.out_w;  // whole rows
    }
    offer(l);
    const unsigned ready = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(10, 100));
    size_t next = 0;
    uint64_t taken = 0, busy = 0;
    unsigned waited = 0;
    while (next < words.size()) {
      dut_.run_ready_i = random_.percent(ready);
      unit::drive_layer(dut_, random_, nullptr);
      settle();
      if (dut_.err_valid_o) {
        check_.that(leaves, "an error");
        return;
      }
      check_.that(++waited < 20000, "runs do not come");
      if (dut_.run_valid_o) {
        busy++;
        check_.that(dut_.pool_o == !l.gemm(), "pool_o");
        check_.that(dut_.keep_o == l.keep_out && dut_.local_o == l.on_chip, "keep_o, local_o");
        check_.that(!l.keep_out || dut_.keep_half_o == !start_, "keep_half_o");
      }
      if (dut_.run_valid_o && dut_.run_ready_i) {
        waited = 0;
        taken++;
        check_.that(dut_.run_elems_o > 0, "an empty run");
        for (unsigned k = 0; k < dut_.run_elems_o; k++, next++) {
          check_.that(next < words.size(), "more words than the layer has");
          check_.that(dut_.run_addr_o + 2 * k == words[next], "word %zu at %" PRIx64 ", not %" PRIx64, next,
                      static_cast<uint64_t>(dut_.run_addr_o + 2 * k), words[next]);
          check_.that(elems.empty() || dut_.run_elem_o + k == elems[next], "word %zu is element %u on chip, not %u",
                      next, dut_.run_elem_o + k, elems.empty() ? 0 : elems[next]);
          bool slot = false;
          for (const uint64_t s : slots_) slot = slot || (words[next] >= s && words[next] + 2 <= s + stride_);
          check_.that(slot, "a word outside its slot");
        }
        check_.that(dut_.done_o == (next == words.size()), "done_o");
      } else {
        check_.that(!dut_.done_o, "done_o without a run");
      }
      edge();
    }
    check_.that(!leaves, "a run that leaves its slot");
    check_.that(taken == runs, "%" PRIu64 " runs, not %" PRIu64, taken, runs);
    if (ready == 100) check_.that(busy == taken, "a run waits");
    for (unsigned i = 0; i < 4; i++) {
      unit::drive_layer(dut_, random_, nullptr);
      settle();
      check_.that(!dut_.run_valid_o, "a run too many");
      if (words.empty() && dut_.done_o) dones_++;
      edge();
    }
    if (words.empty()) check_.that(dones_ == 1, "a layer without runs is done once, not %u times", dones_);
    dones_ = 0;
  }

  void offer(const unit::Layer& l) {
    for (unsigned waited = 0;; waited++) {
      settle();
      if (dut_.layer_ready_o) break;
      check_.that(waited < 5, "the unit does not take the next layer");
      cycle(nullptr);
    }
    cycle(&l);
    dut_.clk_i = 0;
    dut_.eval();
  }
  void cycle(const unit::Layer* offered) {
    unit::drive_layer(dut_, random_, offered);
    settle();
    edge();
  }
  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  void edge() {
    dut_.clk_i = 1;
    dut_.eval();
  }

  tb::Random random_;
  tb::Checks check_;
  Vrun_gen dut_;
  std::vector<uint64_t> slots_;
  unsigned b_act_ = 1, start_ = 0, dones_ = 0;
  uint64_t stride_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  const uint64_t n = args.n ? args.n : 60;
  for (uint64_t i = 0; i < n; i++) bench.start(5, i % 3 == 0);
  return bench.finish();
}
