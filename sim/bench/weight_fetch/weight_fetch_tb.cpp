// weight_fetch_tb: a start of random layers, GEMM and pools mixed, offered as fast as they are
// taken, from a DRAM that answers late and unevenly, into a ring that is emptied unevenly. Beats
// must be requested in order and each once: the biases of a layer, then its weights for its k,
// again for each row tile unless the ring keeps them (loop order 1, or all of them fit). The reader
// reads the kept weights once for each row tile and commits in the last one; before that, no more
// than the ring holds may be requested. The biases of a layer, or an average's factors, must be in
// their half of the memory from the moment that they count until the layer has drained. The same holds
// for a curve's words after the biases, with POST.
#include "Vweight_fetch.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_POST
#define P_POST 0
#endif

namespace {

constexpr unsigned kHalf = P_C_MAX / P_DRAIN;

constexpr uint64_t kRing = uint64_t{P_WRING_BEATS} * P_AXI_BYTES, kKeep = kRing - sluice_abi::RING_SPARE;

struct Beat {
  uint64_t address;
  bool bias;
};
// Consecutive beats of the layer's stream that the reader takes.
struct Visit {
  uint64_t address, beats;
  bool last;    // the last time
};

class Bench {
 public:
  explicit Bench(const tb::Args& args)
      : random_(args.seed), check_("weight_fetch", args.seed), dram_(random_, check_, P_AXI_BYTES) {}

  void start(unsigned n, unsigned gemm_percent) {
    layers_.clear();
    next_ = 0;
    dut_.rst_ni = 0;
    drained_ = ready_layers_ = streamed_ = 0;
    held_ = uncommitted_ = done_ = pause_ = 0;
    expect_.clear();
    visits_.clear();
    for (int i = 0; i < 3; i++) cycle();
    dut_.rst_ni = 1;
    const unsigned b_act = static_cast<unsigned>(random_.range(1, 8));
    base_ = 64 * random_.below(1 << 24);
    dut_.weight_base_i = base_;
    dram_.ready = static_cast<unsigned>(random_.range(20, 100));
    dram_.valid = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(20, 100));
    dram_.latency = static_cast<unsigned>(random_.percent(30) ? 1 : random_.range(1, 200));
    take_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(5, 100));
    slow_ = static_cast<unsigned>(random_.percent(50) ? 100 : random_.range(1, 20));
    unit::Limits limit;
    limit.max_out_c = P_C_MAX;
    limit.t_c = 8;
    limit.post = P_POST;
    for (unsigned i = 0; i < n; i++) {
      unit::Layer l = unit::random_layer(random_, limit, unit::random_op(random_, gemm_percent), b_act);
      if (l.gemm() && !l.two() && random_.percent(10)) l.out_c = P_C_MAX;
      l.w_offset = 64 * random_.below(1 << 18);
      // few, about as many as the ring can keep, or more than it holds
      l.w_bytes = 64 * random_.range(1, random_.percent(20) ? 3 * kRing / 64 : (random_.percent(30) ? kKeep / 64 + 1 : 8));
      l.w_tile = 64 * random_.range(1, l.w_bytes / 64 + 1);
      if (random_.percent(20)) (random_.percent(50) ? l.w_bytes : l.w_tile) = kKeep ? kKeep : 64;
      if (l.order && l.kept() > kKeep) l.w_tile = kKeep;
      if (!kKeep) l.order = 0;
      l.bias_offset = 64 * random_.below(1 << 18);
      layers_.push_back(l);
      for (uint64_t k = 0; k < 4ull * l.bias_words(); k += P_AXI_BYTES) expect_.push_back({base_ + l.bias_offset + k, true});
      visits_.push_back({});
      if (!l.gemm()) continue;
      const bool replay = l.replay(kKeep);
      for (unsigned t = 0; t < (replay ? 1 : l.row_tiles()); t++) {
        for (uint64_t k = 0; k < l.w_bytes; k += P_AXI_BYTES) expect_.push_back({base_ + l.w_offset + k, false});
      }
      const uint64_t part = l.order ? l.kept() : l.w_bytes;
      for (uint64_t at = 0; at < l.w_bytes; at += part) {
        for (unsigned t = 0; t < l.row_tiles(); t++) {
          visits_[i].push_back({base_ + l.w_offset + at, std::min(part, l.w_bytes - at) / P_AXI_BYTES, !replay || t + 1 == l.row_tiles()});
        }
      }
    }
    unsigned waited = 0;
    while (drained_ < n) {
      cycle();
      check_.that(++waited < 300000, "stands still: %u of %u layers drained, %u biases", drained_, n, ready_layers_);
    }
    for (int i = 0; i < 5; i++) cycle();
    check_.that(!dut_.ring_valid_o && dram_.idle(), "beats left over");
    check_.that(expect_.empty(), "beats never asked for");
    check_.that(held_ == 0 && uncommitted_ == 0, "the bench did not commit everything");
  }
  int finish() { return check_.passed(); }

 private:
  void biases(unsigned n) {
    const unit::Layer& l = layers_[n];
    for (unsigned c = 0; c < l.bias_words(); c++) {
      const uint64_t a = base_ + l.bias_offset + 4ull * c;
      const uint32_t want = unit::word_at(a) | uint32_t{unit::word_at(a + 2)} << 16;
      const uint32_t have = !l.gemm() ? table_[(n & 1) * 256 + c]
                            : c < l.out_c ? memory_[(n & 1) * kHalf + c / P_DRAIN][c % P_DRAIN]
                                          : curve_[(n & 1) * sluice_abi::CURVE_WORDS + c - l.out_c];
      check_.that(want == have, "layer %u: bias %u is %08x, not %08x", n, c, have, want);
    }
  }
  void cycle() {
    const bool offer = dut_.rst_ni && next_ < layers_.size();
    unit::drive_layer(dut_, random_, offer ? &layers_[next_] : nullptr);
    dut_.layers_drained_i = static_cast<unsigned short>(drained_);
    dram_.drive(dut_);
    // The reader: it pauses at least one cycle after each group of beats. It commits during all of
    // the last one (a beat taken in a cycle counts in the next), or from time to time and at its
    // end, and at random if there is nothing to commit.
    while (streamed_ < visits_.size() && visits_[streamed_].empty()) streamed_++;
    Visit* visit = streamed_ < next_ ? &visits_[streamed_].front() : nullptr;
    const bool pause = pause_ > 0, rewind = pause_ == 1 && visit && !visit->last;
    dut_.ring_ready_i = visit && !pause && random_.percent(take_);
    dut_.ring_rewind_i = dut_.rst_ni && rewind;
    if (visit && visit->last) dut_.ring_commit_i = pause_ == 1 || random_.percent(visit->beats * P_AXI_BYTES > kKeep ? std::max(commit_, 20u) : commit_);
    else dut_.ring_commit_i = uncommitted_ == 0 && !rewind && random_.percent(50);
    dut_.clk_i = 0;
    dut_.eval();
    dram_.take(dut_);
    if (dut_.rst_ni) {
      if (offer && dut_.layer_ready_o) next_++;
      if (dut_.req_valid_o && dut_.req_ready_i) {
        for (unsigned i = 0; i < dut_.req_beats_o; i++) {
          check_.that(!expect_.empty(), "a beat too many is asked for");
          const Beat b = expect_.front();
          expect_.pop_front();
          check_.that(dut_.req_addr_o + uint64_t{i} * P_AXI_BYTES == b.address, "asks for %" PRIx64 ", not %" PRIx64,
                      static_cast<uint64_t>(dut_.req_addr_o + i * P_AXI_BYTES), b.address);
          held_ += !b.bias;
        }
        check_.that(held_ <= P_WRING_BEATS, "%" PRIu64 " beats for a ring of %u", held_, P_WRING_BEATS);
      }
      if (dut_.ring_commit_i) {
        held_ -= uncommitted_;
        uncommitted_ = 0;
      }
      if (rewind) uncommitted_ = 0;
      if (dut_.ring_valid_o && dut_.ring_ready_i) {
        const uint64_t a = visit->address + done_ * P_AXI_BYTES;
        for (unsigned i = 0; i < P_AXI_BYTES / 2; i++) {
          check_.that(unit::get(dut_.ring_data_o, i * 16, 16) == unit::word_at(a + 2 * i), "beat of %" PRIx64, a);
        }
        uncommitted_++;
        if (++done_ == visit->beats) pause_ = 1 + static_cast<unsigned>(random_.percent(70) ? 1 : random_.range(1, 5));
      }
      if (pause_ > 0 && pause) {
        if (--pause_ == 0) {
          visits_[streamed_].pop_front();
          done_ = 0;
          commit_ = random_.percent(50) ? 100 : static_cast<unsigned>(random_.percent(50) ? 0 : random_.range(0, 50));
        }
      }
      const unsigned count = dut_.bias_layers_o;
      if (count != ready_layers_) {
        check_.that(count == ready_layers_ + 1 && count <= next_, "biases of more than one layer at once");
        // the last one is being written in this cycle
        write_bias();
        biases(ready_layers_);
        ready_layers_ = count;
      } else {
        write_bias();
      }
      // the drain: when its biases are there and its weights have been used, in order
      if (drained_ < ready_layers_) {
        while (streamed_ <= drained_ && visits_[streamed_].empty()) streamed_++;
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
    check_.that(!(dut_.bias_we_o && dut_.table_we_o), "a bias and a factor in one");
    if (dut_.table_we_o) table_[dut_.bias_index_o] = dut_.bias_data_o;
    check_.that(!dut_.curve_we_o || (!dut_.bias_we_o && !dut_.table_we_o), "a curve's word and another in one");
    if (dut_.curve_we_o) {
      // of the layer that is being written, which may have been counted in this cycle
      const unsigned n = dut_.bias_layers_o == ready_layers_ ? ready_layers_ : dut_.bias_layers_o - 1u;
      check_.that(dut_.curve_sh_o == layers_[n].curve_shift, "CURVE_SHIFT of layer %u is %u", n, dut_.curve_sh_o);
      curve_[dut_.curve_addr_o] = dut_.bias_data_o;
    }
    if (!dut_.bias_we_o) return;
    check_.that(dut_.bias_addr_o < 2 * kHalf, "a bias outside its memory");
    memory_[dut_.bias_addr_o][dut_.bias_lane_o] = dut_.bias_data_o;
  }

  tb::Random random_;
  tb::Checks check_;
  unit::ReadPort dram_;
  Vweight_fetch dut_;
  std::vector<unit::Layer> layers_;
  std::deque<Beat> expect_;                // to be requested
  std::vector<std::deque<Visit>> visits_;  // of each layer
  uint32_t memory_[2 * kHalf][P_DRAIN] = {}, table_[512] = {}, curve_[2 * sluice_abi::CURVE_WORDS] = {};
  // beats requested and not committed; taken and not committed; taken in this visit
  uint64_t base_ = 0, held_ = 0, uncommitted_ = 0, done_ = 0;
  size_t next_ = 0, streamed_ = 0;
  unsigned drained_ = 0, ready_layers_ = 0, take_ = 100, slow_ = 100, commit_ = 100, pause_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  const uint64_t n = args.n ? args.n : 40;
  for (uint64_t i = 0; i < n; i++) bench.start(12, i % 4 == 0 ? 15 : 80);
  return bench.finish();
}
