// npu_start_tb: every combination of conditions that can end a start in the same cycle, including
// done, and starts that are reset in the middle; every output is compared in every cycle. When no
// error may have an effect, errors come at random. Each source alone must hold off the watchdog in
// its last cycle, and each side of either port the end of the flush.
#include "Vnpu_start.h"
#include "Vnpu_start___024root.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace abi = sluice_abi;

namespace {

constexpr unsigned kPorts = P_N_AXI;

// Conditions that can end a start, in the order of priority of the report.
enum { kRead, kWrite, kFetch, kAct, kOut, kRes, kFeed, kSoft, kDog, kDone, kEnds };

struct Told {
  unsigned code = 0, layer = 0, port = 0;
  uint32_t addr = 0;
};

// The age of a start: units are in reset in the cycle after start_i, and run from the next one on.
struct Model {
  unsigned age = 0;          // cycles since start_i; 0: none
  bool failed = false, done = false, error = false;
  bool known = false;        // whether the last start failed, and why, is known
  bool layer_known = true;
  Told told;
  uint64_t quiet = 0;        // cycles without progress, up to the previous one

  bool runs() const { return age >= 2 && !failed; }
  bool dog(const Vnpu_start& in) const { return in.watchdog_i && quiet >= in.watchdog_i; }

  void step(const Vnpu_start& in) {
    done = error = false;
    if (!in.rst_ni) {
      *this = Model{};
    } else if (!age) {
      if (in.start_i) {
        age = 1;
        quiet = 0;
        known = false;
      }
    } else if (failed) {
      age++;
      if (in.rd_idle_i && in.wr_idle_i) {
        error = true;
        age = 0;
        failed = false;
      }
    } else {
      const bool moves = in.rd_progress_i || in.wr_progress_i || in.computing_i;
      failed = runs() ? wrong(in) : in.soft_reset_i;
      known = failed;
      layer_known = age >= 2;
      if (failed && age == 1) told = {abi::ERR_SOFT_RESET, 0, 0, 0};
      if (age >= 2) {
        quiet = moves ? 0 : quiet + 1;
        done = !failed && finished(in);
        if (done) {
          known = true;
          layer_known = false;
          told = {abi::ERR_NONE, 0, 0, 0};
        }
      }
      age = done ? 0 : age + 1;
    }
  }

 private:
  static bool finished(const Vnpu_start& in) {
    // a range without layers is never finished: it is rejected
    return in.first_layer_i <= in.last_layer_i && in.layers_written_i == in.last_layer_i - in.first_layer_i + 1 &&
           in.rd_idle_i && in.weights_idle_i;
  }
  template <class Addr>
  static Told bus(unsigned ports, unsigned dec, const Addr& addr, unsigned slverr, unsigned decerr, unsigned layer) {
    Told t{slverr, layer, 0, 0};
    for (unsigned p = 0; p < kPorts; p++) {
      if ((ports >> p) & 1) t = {(dec >> p) & 1 ? decerr : slverr, layer, p, static_cast<uint32_t>(unit::get(addr, 32 * p, 32))};
    }
    return t;
  }
  bool wrong(const Vnpu_start& in) {
    const unsigned next = (in.first_layer_i + in.layers_written_i) & 0xFF;  // first not written
    const struct {
      bool is;
      Told told;
    } all[] = {
        {in.rd_err_i != 0, bus(in.rd_err_i, in.rd_err_dec_i, in.rd_err_addr_i, abi::ERR_READ_SLVERR, abi::ERR_READ_DECERR, next)},
        {in.wr_err_i != 0, bus(in.wr_err_i, in.wr_err_dec_i, in.wr_err_addr_i, abi::ERR_WRITE_SLVERR, abi::ERR_WRITE_DECERR, next)},
        {in.fetch_err_i != 0, {in.fetch_err_code_i, in.fetch_err_layer_i, 0, 0}},
        {in.act_err_i != 0, {abi::ERR_DESC_ADDRESS, next, 0, in.act_err_addr_i}},
        {in.out_err_i != 0, {abi::ERR_DESC_ADDRESS, next, 0, in.out_err_addr_i}},
        {in.res_err_i != 0, {abi::ERR_DESC_ADDRESS, next, 0, in.res_err_addr_i}},
        {in.feed_err_i != 0, {abi::ERR_DESC_SHAPE, (in.first_layer_i + in.feed_err_layer_i) & 0xFFu, 0, 0}},
        {in.soft_reset_i != 0, {abi::ERR_SOFT_RESET, next, 0, 0}},
        {dog(in), {abi::ERR_WATCHDOG, next, 0, 0}},
    };
    for (const auto& w : all) {
      if (!w.is) continue;
      told = w.told;
      return true;
    }
    return false;
  }
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("npu_start", args.seed) {
    dut_.rst_ni = 0;
    edge();  // before this edge the outputs are undefined
    reset();
  }

  // A start that ends with all of these conditions in one cycle; without any it is reset.
  void start(unsigned ends) {
    const bool done = (ends >> kDone) & 1, dog = (ends >> kDog) & 1;
    choose_layers(done);
    const bool tight = random_.percent(50);
    dog_ = dog || tight ? static_cast<uint32_t>(random_.percent(3) ? random_.range(250, 600) : random_.range(1, 12)) : 0;
    run(ends, (dog ? dog_ : 0) + random_.below(25));
  }
  // More cycles than 16 bits count.
  void long_dog() {
    choose_layers(false);
    dog_ = static_cast<uint32_t>((1 << 16) + random_.range(1, 300));
    run(1u << kDog, dog_);
  }
  // Around each power of two up to 32 bits; the cycles before it are skipped.
  void longest_dog(unsigned bit) {
    choose_layers(false);
    const auto more = static_cast<uint32_t>(random_.range(1, 20));
    dog_ = (1u << bit) + more;
    begin();
    const auto asleep = [this](uint32_t cycles) {
      for (uint32_t i = 0; i < cycles; i++) {
        cycle([this] {
          quieten();
          dut_.layers_written_i = 0;
        });
      }
    };
    const auto skip = [this](uint32_t quiet) { model_.quiet = dut_.rootp->npu_start__DOT__quiet_q = quiet; };
    asleep(2);
    skip(more);  // all but the highest bit
    asleep(5);
    skip((1u << bit) - 3);
    asleep(3 + more);
    check_.that(!model_.failed && dut_.busy_o, "given up before %u cycles", dog_);
    asleep(1);
    check_.that(model_.failed, "not given up after %u cycles", dog_);
    flush();
  }
  // FIRST after LAST, and nothing to wait for: the start continues until layer_fetch rejects it.
  void refused() {
    first_ = static_cast<unsigned>(random_.range(1, 255));
    last_ = static_cast<unsigned>(random_.percent(50) ? first_ - 1 : random_.below(first_));
    total_ = 0;
    dog_ = 0;
    run(1u << kFetch, random_.below(25));
  }
  // Aborted before the units run. npu_regs cannot abort it that early, so the layer is not
  // compared.
  void at_once() {
    choose_layers(false);
    dog_ = 0;
    begin();
    cycle([this] { dut_.soft_reset_i = 1; });
    flush();
  }
  int finish() {
    check_.that(wholes_ > 0, "no start of 256 layers");
    return check_.passed();
  }

 private:
  void choose_layers(bool done) {
    const bool all = random_.percent(15);
    first_ = all ? 0 : static_cast<unsigned>(random_.below(256));
    const uint64_t most = random_.percent(50) ? std::min(255u, first_ + 3) : 255;
    last_ = all ? 255 : static_cast<unsigned>(random_.range(first_, most));
    total_ = last_ - first_ + 1;
    if (total_ == 256 && done) wholes_++;
  }

  void begin() {
    for (uint64_t i = random_.below(4); i > 0; i--) cycle([] {});
    cycle([this] {
      dut_.start_i = 1;
      dut_.first_layer_i = static_cast<unsigned char>(first_);
      dut_.last_layer_i = static_cast<unsigned char>(last_);
      dut_.watchdog_i = dog_;
    });
  }

  void run(unsigned ends, uint64_t length) {
    begin();
    cycle([this] { dut_.soft_reset_i = 0; });
    const bool done = (ends >> kDone) & 1, dog = (ends >> kDog) & 1;
    const unsigned moving = static_cast<unsigned>(random_.percent(50) ? 0 : random_.range(1, 60));
    const unsigned missing = static_cast<unsigned>(random_.below(3));
    unsigned written = 0;
    for (uint64_t i = 0; i <= length; i++) {
      const bool end = i == length;
      if (written < total_ && random_.percent(30)) {
        written += static_cast<unsigned>(random_.percent(70) ? 1 : random_.range(1, total_ - written));
      }
      if (end && done) written = total_;
      cycle([&] {
        quieten();
        // everything is written, read and loaded, except one thing at least
        dut_.layers_written_i = static_cast<unsigned short>(written);
        dut_.rd_idle_i = random_.percent(60);
        dut_.weights_idle_i = random_.percent(60);
        if (end && done) {
          dut_.rd_idle_i = dut_.weights_idle_i = 1;
        } else if (total_ && written == total_) {
          if (missing == 0) dut_.rd_idle_i = 0, dut_.weights_idle_i = 1;
          if (missing == 1) dut_.rd_idle_i = 1, dut_.weights_idle_i = 0;
          if (missing == 2) dut_.layers_written_i = static_cast<unsigned short>(--written), dut_.rd_idle_i = dut_.weights_idle_i = 1;
        }
        // dog_ cycles without progress; then the start is ended, whether there is progress or not
        const bool asleep = dog && i + dog_ >= length && !end;
        // but not earlier, if one thing progresses
        const bool last = !end && dog_ && model_.quiet + 1 >= dog_;
        if (!asleep && (last || (dog && i + dog_ + 1 == length) || random_.percent(moving))) move();
        if (end) fire(ends);
      });
      if (end && !ends) reset();
    }
    if (ends & ((1u << kDone) - 1)) flush();
  }

  // Until the memory ports have nothing outstanding: one side alone is late, or both are. Events in
  // the meantime do not change the report.
  void flush() {
    const unsigned late = static_cast<unsigned>(random_.below(4));  // none, reads, writes, both
    const uint64_t length = late ? random_.range(1, 8) : 0;
    for (uint64_t i = 0; i <= length; i++) {
      if (i && random_.percent(2)) return reset();
      cycle([&] {
        dut_.rd_idle_i = i == length || !(late & 1);
        dut_.wr_idle_i = i == length || !(late & 2);
        if (late == 3 && i < length) (random_.percent(50) ? dut_.rd_idle_i : dut_.wr_idle_i) = random_.percent(50);
      });
    }
  }

  void reset() {
    for (uint64_t i = random_.range(1, 3); i > 0; i--) cycle([this] { dut_.rst_ni = 0; });
  }

  // No error, and no progress.
  void quieten() {
    dut_.rd_err_i = dut_.wr_err_i = 0;
    dut_.fetch_err_i = dut_.act_err_i = dut_.out_err_i = dut_.res_err_i = dut_.feed_err_i = dut_.soft_reset_i = 0;
    dut_.rd_progress_i = dut_.wr_progress_i = 0;
    dut_.computing_i = 0;
  }
  void fire(unsigned ends) {
    const auto is = [&](unsigned what) { return (ends >> what) & 1; };
    if (is(kRead)) dut_.rd_err_i = some_ports();
    if (is(kWrite)) dut_.wr_err_i = some_ports();
    dut_.fetch_err_i = is(kFetch);
    dut_.act_err_i = is(kAct);
    dut_.out_err_i = is(kOut);
    dut_.res_err_i = is(kRes);
    dut_.feed_err_i = is(kFeed);
    dut_.soft_reset_i = is(kSoft);
  }
  void move() {
    switch (random_.below(3)) {
      case 0: dut_.rd_progress_i = some_ports(); break;
      case 1: dut_.wr_progress_i = some_ports(); break;
      default: dut_.computing_i = 1;
    }
  }
  unsigned char some_ports() {
    const uint64_t all = (1u << kPorts) - 1;
    return static_cast<unsigned char>(random_.percent(50) ? uint64_t{1} << random_.below(kPorts) : random_.range(1, all));
  }

  // All inputs are random except those of interest; the outputs are those of the previous edge.
  template <class Set>
  void cycle(Set set) {
    const auto r = [this] { return random_.percent(50); };
    dut_.rst_ni = 1;
    // a start during a start has no effect
    dut_.start_i = model_.age && r();
    dut_.soft_reset_i = random_.percent(20);
    dut_.layers_written_i = static_cast<unsigned short>(random_.below(257));
    dut_.computing_i = r();
    dut_.weights_idle_i = r();
    dut_.fetch_err_i = r();
    dut_.fetch_err_code_i = static_cast<unsigned char>(random_.range(1, 255));
    dut_.fetch_err_layer_i = static_cast<unsigned char>(random_.next());
    dut_.act_err_i = r();
    dut_.act_err_addr_i = static_cast<uint32_t>(random_.next());
    dut_.out_err_i = r();
    dut_.out_err_addr_i = static_cast<uint32_t>(random_.next());
    dut_.res_err_i = r();
    dut_.res_err_addr_i = static_cast<uint32_t>(random_.next());
    dut_.feed_err_i = r();
    dut_.feed_err_layer_i = static_cast<unsigned char>(random_.next());
    dut_.rd_idle_i = r();
    dut_.wr_idle_i = r();
    const auto ports = [this] { return static_cast<unsigned char>(random_.below(1u << kPorts)); };
    dut_.rd_progress_i = ports();
    dut_.rd_err_i = ports();
    dut_.rd_err_dec_i = ports();
    dut_.wr_progress_i = ports();
    dut_.wr_err_i = ports();
    dut_.wr_err_dec_i = ports();
    for (unsigned p = 0; p < kPorts; p++) {
      unit::put(dut_.rd_err_addr_i, 32 * p, 32, random_.next());
      unit::put(dut_.wr_err_addr_i, 32 * p, 32, random_.next());
    }
    set();
    dut_.clk_i = 0;
    dut_.eval();
    compare();
    model_.step(dut_);
    edge();
  }
  void edge() {
    dut_.clk_i = 0;
    dut_.eval();
    dut_.clk_i = 1;
    dut_.eval();
  }

  void compare() {
    const Model& m = model_;
    check_.that(dut_.busy_o == (m.age > 0), "busy_o %u, age %u", dut_.busy_o, m.age);
    check_.that(dut_.done_o == m.done, "done_o %u, age %u", dut_.done_o, m.age);
    check_.that(dut_.error_o == m.error, "error_o %u, age %u", dut_.error_o, m.age);
    check_.that(dut_.flush_o == m.failed, "flush_o %u, age %u", dut_.flush_o, m.age);
    check_.that(dut_.unit_rst_no == m.runs(), "unit_rst_no %u, age %u", dut_.unit_rst_no, m.age);
    if (m.runs()) check_.that(dut_.go_o == (m.age == 2), "go_o %u, age %u", dut_.go_o, m.age);
    if (!m.known) return;
    check_.that(dut_.err_code_o == m.told.code, "code %u, not %u", dut_.err_code_o, m.told.code);
    if (m.layer_known) check_.that(dut_.err_layer_o == m.told.layer, "code %u: layer %u, not %u", m.told.code, dut_.err_layer_o, m.told.layer);
    check_.that(dut_.err_port_o == m.told.port, "code %u: port %u, not %u", m.told.code, dut_.err_port_o, m.told.port);
    check_.that(dut_.err_addr_o == m.told.addr, "code %u: address %08x, not %08x", m.told.code, dut_.err_addr_o, m.told.addr);
  }

  tb::Random random_;
  tb::Checks check_;
  Vnpu_start dut_;
  Model model_;
  unsigned first_ = 0, last_ = 0, total_ = 0;
  uint32_t dog_ = 0;
  uint64_t wholes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 3); i++) {
    // in another order each time, so that each follows different ones
    for (unsigned ends = 0; ends < 1u << kEnds; ends++) {
      bench.start(ends * 389 % (1u << kEnds));
      if (ends % 16 == 0) bench.refused();
      if (ends % 16 == 8) bench.at_once();
    }
  }
  bench.long_dog();
  for (unsigned bit = 16; bit < 32; bit++) bench.longest_dog(bit);
  return bench.finish();
}
