// npu_output_tb: random layers of random runs, with words and writers ready at random times. Each
// run must go to its writers only, words must go from the run's source to its writers, and a layer
// must count exactly once, when everything of it has been answered, whichever part is late. Until
// then no run and no error of the next layer may be passed on.
#include "Vnpu_output.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kWidth = P_WIDTH;

// The expected values, from what has been taken.
struct Model {
  unsigned written = 0;
  bool closing = false;      // a layer's last run has been taken, and it is not written
  bool has_run = false;      // since the reset; before the first run the source of words has no meaning
  bool pool = false, local = false;
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("npu_output", args.seed) {}

  void start(unsigned layers) {
    dut_.rst_ni = 0;
    drive(false);
    edge();
    dut_.rst_ni = 1;
    model_ = Model{};
    for (unsigned i = 0; i < layers; i++) {
      layer(static_cast<unsigned>(layers > 100 ? 1 : random_.range(1, 6)));
      // its last runs are answered, or the start is aborted
      if (layers < 100 && random_.percent(5)) return;
      close();
      check_.that(dut_.layers_written_o == i + 1, "%u layers, not %u", dut_.layers_written_o, i + 1);
    }
  }
  int finish() {
    check_.that(errors_ > 0 && held_ > 0 && kept_ > 0, "%u errors told, %u held back, %u runs for both writers",
                errors_, held_, kept_);
    return check_.passed();
  }

 private:
  void layer(unsigned runs) {
    ready_ = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(10, 90));
    const unsigned offers = static_cast<unsigned>(random_.percent(40) ? 100 : random_.range(10, 90));
    pool_ = random_.percent(30);
    keep_ = random_.percent(50);
    local_ = keep_ && random_.percent(50);
    for (unsigned taken = 0, waited = 0; taken < runs; waited++) {
      check_.that(waited < 1000, "a run is not taken");
      if (cycle(random_.percent(offers), taken + 1 == runs)) taken++, waited = 0;
    }
    check_.that(model_.closing, "a layer ends without its last run");
  }

  // Until the layer is written: one of the three conditions for that is late, or each of them at
  // times. A run of the next layer waits.
  void close() {
    const unsigned late = static_cast<unsigned>(random_.below(4));
    const uint64_t length = random_.percent(20) ? 0 : random_.range(1, 10);
    for (uint64_t i = 0; i <= length; i++) {
      const bool end = i == length;
      out_idle_ = end || (late == 3 ? random_.percent(50) : late != 0);
      wr_idle_ = end || (late == 3 ? random_.percent(50) : late != 1);
      keep_busy_ = !end && (late == 3 ? random_.percent(50) : late == 2);
      if (!end && out_idle_ && wr_idle_ && !keep_busy_) wr_idle_ = false;
      if (random_.percent(50)) {  // the next layer is of another kind
        pool_ = random_.percent(50);
        keep_ = random_.percent(50);
        local_ = keep_ && random_.percent(50);
      }
      waits_ = true;
      check_.that(!cycle(random_.percent(70), false), "a run while a layer is not written");
      waits_ = false;
    }
    drive(false);
    settle();
    look(false);
  }

  // Inputs of a cycle: random, except for the layer's run and the conditions it waits for.
  void drive(bool run) {
    const auto r = [this] { return random_.percent(50); };
    dut_.run_valid_i = run;
    dut_.run_pool_i = run ? pool_ : r();
    dut_.run_keep_i = run ? keep_ : r();
    dut_.run_local_i = run ? local_ : r();
    dut_.run_done_i = 0;
    dut_.run_err_i = random_.percent(20);
    dut_.out_run_ready_i = random_.percent(ready_);
    dut_.keep_free_i = random_.percent(ready_);
    dut_.out_idle_i = waits_ ? out_idle_ : r();
    dut_.wr_idle_i = waits_ ? wr_idle_ : r();
    dut_.keep_busy_i = waits_ ? keep_busy_ : r();
    dut_.drain_valid_i = r();
    dut_.pool_valid_i = r();
    dut_.ready_i = r();
    dut_.words_valid_i = r();
    dut_.out_ready_i = r();
    for (unsigned i = 0; i < kWidth; i += 32) {
      const unsigned n = std::min(32u, kWidth - i);
      unit::put(dut_.drain_data_i, i, n, random_.next());
      unit::put(dut_.pool_data_i, i, n, random_.next());
    }
  }

  // One cycle, in which a run is offered or not; returns whether it was taken.
  bool cycle(bool run, bool last) {
    drive(run);
    settle();
    const bool take = run && !model_.closing && (local_ ? dut_.keep_free_i : dut_.out_run_ready_i);
    if (take && last) {
      dut_.run_done_i = 1;  // run_gen's, together with the run
      settle();
    }
    look(run);
    if (model_.closing && dut_.out_idle_i && dut_.wr_idle_i && !dut_.keep_busy_i) {
      model_.closing = false;
      model_.written = (model_.written + 1) & 0x1FF;
    }
    if (take) {
      model_.has_run = true;
      model_.pool = pool_;
      model_.local = local_;
      model_.closing = last;
    }
    edge();
    return take;
  }

  void look(bool run) {
    const Model& m = model_;
    check_.that(dut_.layers_written_o == m.written, "layers_written_o %u, not %u", dut_.layers_written_o, m.written);
    const bool told = dut_.run_err_i && !m.closing;
    (told ? errors_ : held_) += dut_.run_err_i;
    check_.that(dut_.err_valid_o == told, "err_valid_o");
    const bool to_keep = run && keep_, to_out = run && !local_;
    if (run) {
      const bool ready = !m.closing && (local_ ? dut_.keep_free_i : dut_.out_run_ready_i);
      check_.that(dut_.run_ready_o == ready, "run_ready_o");
      check_.that(dut_.keep_run_o == (to_keep && ready), "keep_run_o");
      kept_ += ready && keep_ && !local_;
    } else {
      check_.that(!dut_.keep_run_o, "keep_run_o without a run");
    }
    check_.that(dut_.out_run_valid_o == (to_out && !m.closing), "out_run_valid_o");
    if (!m.has_run) return;
    check_.that(dut_.valid_o == (m.pool ? dut_.pool_valid_i : dut_.drain_valid_i), "valid_o");
    check_.that(dut_.drain_ready_o == (!m.pool && dut_.ready_i), "drain_ready_o");
    check_.that(dut_.pool_ready_o == (m.pool && dut_.ready_i), "pool_ready_o");
    for (unsigned i = 0; dut_.valid_o && i < kWidth; i += 32) {
      const unsigned n = std::min(32u, kWidth - i);
      check_.that(unit::get(dut_.data_o, i, n) == unit::get(m.pool ? dut_.pool_data_i : dut_.drain_data_i, i, n), "data_o");
    }
    // a word after the register leaves when its writer takes it; keep_writer also sees the words of
    // other runs
    const bool goes = m.local ? dut_.keep_busy_i : dut_.out_ready_i;
    check_.that(dut_.words_ready_o == goes, "words_ready_o");
    check_.that(dut_.out_valid_o == (!m.local && dut_.words_valid_i), "out_valid_o");
    check_.that(dut_.keep_word_o == (goes && dut_.words_valid_i), "keep_word_o");
  }

  void settle() {
    dut_.clk_i = 0;
    dut_.eval();
  }
  void edge() {
    settle();
    dut_.clk_i = 1;
    dut_.eval();
  }

  tb::Random random_;
  tb::Checks check_;
  Vnpu_output dut_;
  Model model_;
  unsigned ready_ = 100;
  bool pool_ = false, keep_ = false, local_ = false;
  bool waits_ = false, out_idle_ = false, wr_idle_ = false, keep_busy_ = false;
  unsigned errors_ = 0, held_ = 0, kept_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 200); i++) bench.start(10);
  bench.start(256);  // the maximum number of layers of a start
  return bench.finish();
}
