// weight_fetch_tb: a start of random layers, GEMM and pools mixed, offered as fast as they are
// taken, from a DRAM that answers late and unevenly, into a ring that is emptied unevenly. Ring
// words must be the layers' weights, again for each row tile and marked at its end; the biases of a
// layer must stand in their half of the bias memory from the moment that they count until the layer
// has drained.
#include "Vweight_fetch.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kHalf = P_C_MAX / P_DRAIN;

struct Beat {
  uint64_t address;
  bool last;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args)
      : random_(args.seed),
        check_("weight_fetch", args.seed),
        dram_(random_, check_, P_AXI_BYTES) {}

  void start(unsigned n, unsigned gemm_percent) {
    layers_.clear();
    next_ = 0;
    dut_.rst_ni = 0;
    drained_ = ready_layers_ = streamed_ = 0;
    for (int i = 0; i < 3; i++) cycle();
    dut_.rst_ni = 1;
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    dut_.b_act_i = static_cast<unsigned char>(b_act);
    base_ = 64 * random_.below(1 << 24);
    dut_.weight_base_i = base_;
    dram_.ready = static_cast<unsigned>(random_.range(20, 100));
    dram_.valid = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(20, 100));
    dram_.latency = static_cast<unsigned>(random_.percent(30) ? 1 : random_.range(1, 200));
    take_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(5, 100));
    slow_ = static_cast<unsigned>(random_.percent(50) ? 100 : random_.range(1, 20));
    unit::Limits limit;
    limit.max_out_c = P_C_MAX;
    uint64_t beats = 0;
    for (unsigned i = 0; i < n; i++) {
      unit::Layer l =
          unit::random_layer(random_, limit, unit::random_op(random_, gemm_percent), b_act);
      if (l.gemm() && random_.percent(10)) l.out_c = P_C_MAX;
      l.w_offset = 16 * random_.below(1 << 20);
      l.w_bytes = 16 * random_.range(1, random_.percent(20) ? 60 : 8);
      l.bias_offset = 16 * random_.below(1 << 20);
      if (l.gemm()) {
        beats += (4ull * l.out_c + P_AXI_BYTES - 1) / P_AXI_BYTES +
                 l.row_tiles() * l.w_bytes / P_AXI_BYTES;
      }
      layers_.push_back(l);
      std::vector<Beat> s;
      for (unsigned t = 0; l.gemm() && t < l.row_tiles(); t++) {
        for (uint64_t k = 0; k < l.w_bytes; k += P_AXI_BYTES) {
          s.push_back({base_ + l.w_offset + k, k + P_AXI_BYTES == l.w_bytes});
        }
      }
      ring_.push_back({s.begin(), s.end()});
    }
    const uint64_t asked = dram_.beats_asked;
    unsigned waited = 0;
    while (drained_ < n) {
      cycle();
      check_.that(++waited < 300000, "stands still: %u of %u layers drained, %u biases", drained_,
                  n, ready_layers_);
    }
    for (int i = 0; i < 5; i++) cycle();
    check_.that(!dut_.ring_valid_o && dram_.idle(), "beats left over");
    check_.that(dram_.beats_asked - asked == beats, "reads more than once");
    ring_.clear();
  }
  int finish() { return check_.passed(); }

 private:
  void biases(unsigned n) {
    const unit::Layer& l = layers_[n];
    for (unsigned c = 0; l.gemm() && c < l.out_c; c++) {
      const uint64_t a = base_ + l.bias_offset + 4ull * c;
      const uint32_t want = unit::word_at(a) | uint32_t{unit::word_at(a + 2)} << 16;
      const uint32_t have = memory_[(n & 1) * kHalf + c / P_DRAIN][c % P_DRAIN];
      check_.that(want == have, "layer %u: bias %u is %08x, not %08x", n, c, have, want);
    }
  }
  void cycle() {
    const bool offer = dut_.rst_ni && next_ < layers_.size();
    unit::drive_layer(dut_, random_, offer ? &layers_[next_] : nullptr);
    dut_.layers_drained_i = static_cast<unsigned short>(drained_);
    dram_.drive(dut_);
    dut_.ring_ready_i = random_.percent(take_);
    dut_.clk_i = 0;
    dut_.eval();
    dram_.take(dut_);
    if (dut_.rst_ni) {
      if (offer && dut_.layer_ready_o) next_++;
      if (dut_.ring_valid_o && dut_.ring_ready_i) {
        while (streamed_ < ring_.size() && ring_[streamed_].empty()) streamed_++;
        check_.that(streamed_ < next_, "a beat too many");
        const Beat b = ring_[streamed_].front();
        ring_[streamed_].pop_front();
        for (unsigned i = 0; i < P_AXI_BYTES / 2; i++) {
          check_.that(unit::get(dut_.ring_data_o, i * 16, 16) == unit::word_at(b.address + 2 * i),
                      "beat of %" PRIx64, b.address);
        }
        check_.that(dut_.ring_last_o == b.last, "ring_last_o is %d", dut_.ring_last_o);
      }
      const unsigned count = dut_.bias_layers_o;
      if (count != ready_layers_) {
        check_.that(count == ready_layers_ + 1 && count <= next_,
                    "biases of more than one layer at once");
        // the last one is being written in this cycle
        write_bias();
        biases(ready_layers_);
        ready_layers_ = count;
      } else {
        write_bias();
      }
      // the drain: when its biases are there and its weights have gone, in order
      if (drained_ < ready_layers_) {
        while (streamed_ < drained_ || (streamed_ == drained_ && ring_[streamed_].empty()))
          streamed_++;
        if (streamed_ > drained_ && random_.percent(slow_)) {
          biases(drained_);
          drained_++;
        }
      }
    }
    dut_.clk_i = 1;
    dut_.eval();
  }
  void write_bias() {
    if (!dut_.bias_we_o) return;
    check_.that(dut_.bias_addr_o < 2 * kHalf, "a bias outside its memory");
    memory_[dut_.bias_addr_o][dut_.bias_lane_o] = dut_.bias_data_o;
  }

  tb::Random random_;
  tb::Checks check_;
  unit::ReadPort dram_;
  Vweight_fetch dut_;
  std::vector<unit::Layer> layers_;
  std::vector<std::deque<Beat>> ring_;
  uint32_t memory_[2 * kHalf][P_DRAIN] = {};
  uint64_t base_ = 0;
  size_t next_ = 0, streamed_ = 0;
  unsigned drained_ = 0, ready_layers_ = 0, take_ = 100, slow_ = 100;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  const uint64_t n = args.n ? args.n : 40;
  for (uint64_t i = 0; i < n; i++) bench.start(12, i % 4 == 0 ? 15 : 80);
  return bench.finish();
}
