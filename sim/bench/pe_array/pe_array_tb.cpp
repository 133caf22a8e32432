// pe_array_tb: tiles of every k and s of the build, with passes of random rows and gaps, as close
// to each other as the header allows. Weights are loaded meanwhile as early as it allows, and the
// other bank is drained. k and s change between tiles, when no row is in the array. Lanes and
// windows that a k or s does not use have random values. Sums must equal 64-bit arithmetic modulo
// 2^36 (zero in a stub), and done_o must come when they can be read.
#include "Vpe_array.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_STUB
#define P_STUB 0
#endif
#ifndef P_STACK
#define P_STACK 1
#endif
#ifndef P_FLUID
#define P_FLUID 1
#endif

namespace {

constexpr unsigned kTR = P_T_R, kTP = P_T_P, kTC = P_T_C, kLoad = P_W_LOAD;
constexpr unsigned kFirst = kTP / 2, kGroups = (kTC + kLoad - 1) / kLoad, kHalfRows = kTR / 2;
constexpr unsigned kRead = 4;  // cycles from the drain's row address to its words

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("pe_array", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) cycle();
    dut_.rst_ni = 1;
    weights();
    while (loading_ < kGroups) cycle();
  }

  void tile() {
    unsigned k = static_cast<unsigned>(P_STACK ? random_.below(3) : 0);
    bool two = P_FLUID && k != 2 && random_.percent(50);
    if (tiles_++ % 4 == 3) k = k_, two = two_;
    if (k != k_ || two != two_) {
      while (!done_.empty()) cycle();
      k_ = k;
      two_ = two;
    }
    const unsigned chain = k == 1 ? kTP - kFirst : k == 2 ? 2 * kTP : kTP, depth = chain + 3;
    const unsigned most = k == 1 ? kHalfRows : kTR;
    const unsigned rows = static_cast<unsigned>(random_.percent(25) ? 1 : random_.percent(25) ? most : random_.range(1, most));
    const unsigned passes = static_cast<unsigned>(random_.range(1, 6));
    const unsigned gaps = static_cast<unsigned>(random_.percent(50) ? 0 : random_.range(1, 60));
    std::vector<uint64_t> used(rows, 0);
    uint64_t done_at = 0;
    while (draining_ && drain_.bank == bank_) cycle();
    acc_[bank_].assign(kTR * kTC, 0);
    for (unsigned p = 0; p < passes; p++) {
      while (loading_ < kGroups) cycle();  // weights complete
      for (unsigned r = 0; r < rows; r++) {
        while (gaps && random_.percent(gaps)) cycle();
        while (p > 0 && now_ < used[r] + depth) cycle();
        used[r] = now_;
        if (r == 0) {
          std::memcpy(weight_, shadow_, sizeof weight_);
          swap_at_ = now_;
          chain_ = chain;
          weights();
        }
        dut_.valid_i = 1;
        dut_.row_i = static_cast<unsigned char>(r);
        dut_.bank_i = static_cast<unsigned char>(bank_);
        dut_.first_i = p == 0;
        dut_.swap_i = r == 0;
        dut_.last_i = p + 1 == passes && r + 1 == rows;
        if (dut_.last_i) {
          done_at = now_ + chain + 2;
          done_.push_back(done_at);
        }
        int64_t x[2 * kTP], y[kTP];
        for (unsigned j = 0; j < 2 * kTP; j++) {
          x[j] = random_.percent(20) ? -32768 : unit::sign(random_.next(), 16);
          unit::put(dut_.x_i, j * 16, 16, static_cast<uint64_t>(x[j]));
        }
        for (unsigned j = 0; j < kTP; j++) {
          y[j] = random_.percent(20) ? -32768 : unit::sign(random_.next(), 16);
          unit::put(dut_.y_i, j * 16, 16, static_cast<uint64_t>(y[j]));
        }
        for (unsigned c = 0; c < kTC; c++) {
          const int64_t* in = two && c % 2 ? y : x;
          for (unsigned j = 0; j < kTP; j++) {
            if (k == 0) {
              acc_[bank_][at(c, r / kHalfRows, r)] += in[j] * weight_[c][j];
            } else if (k == 2) {
              acc_[bank_][at(c | 1, r / kHalfRows, r)] += x[c % 2 * kTP + j] * weight_[c][j];
            } else if (j < 2 * kFirst) {
              acc_[bank_][at(c, j / kFirst, r)] += in[j % kFirst] * weight_[c][j];
            }
          }
        }
        step();
      }
    }
    // read while the next tile computes
    while (draining_) cycle();
    drain_ = {bank_, rows, k, done_at + 1};
    draining_ = true;
    drain_row_ = 0;
    bank_ = !bank_;
  }
  int finish() {
    while (draining_) cycle();
    return check_.passed();
  }

 private:
  // An accumulator: half of a PE, and row.
  static unsigned at(unsigned pe, unsigned half, unsigned row) { return (2 * pe + half) * kHalfRows + row % kHalfRows; }

  void weights() {
    loading_ = 0;
    for (auto& pe : next_) {
      for (auto& w : pe) w = static_cast<int16_t>(random_.percent(20) ? -32768 : unit::sign(random_.next(), 16));
    }
  }
  // A cycle without a row.
  void cycle() {
    dut_.valid_i = 0;
    dut_.swap_i = random_.percent(50);
    dut_.last_i = random_.percent(50);
    dut_.first_i = random_.percent(50);
    dut_.bank_i = random_.percent(50);
    dut_.row_i = static_cast<unsigned char>(random_.below(kTR));
    step();
  }
  void step() {
    // shadow weights, from the last lane's swap on
    dut_.k_i = static_cast<unsigned char>(k_);
    dut_.two_i = two_;
    dut_.load_i = 0;
    if (dut_.rst_ni && loading_ < kGroups && now_ >= swap_at_ + chain_ - 1) {
      dut_.load_i = 1;
      dut_.group_i = static_cast<unsigned char>(loading_);
      for (unsigned k = 0; k < kLoad; k++) {
        const unsigned pe = loading_ * kLoad + k;
        for (unsigned j = 0; j < kTP; j++) {
          const int16_t w = pe < kTC ? next_[pe][j] : static_cast<int16_t>(random_.next());
          unit::put(dut_.w_i, (k * kTP + j) * 16, 16, static_cast<uint16_t>(w));
          if (pe < kTC) shadow_[pe][j] = w;
        }
      }
      loading_++;
    }
    // drain: a row at random times
    dut_.dr_en_i = 0;
    dut_.dr_bank_i = random_.percent(50);
    dut_.dr_row_i = static_cast<unsigned char>(random_.below(kHalfRows));
    const bool read = draining_ && now_ >= drain_.from && drain_row_ < drain_.rows && random_.percent(70);
    if (read) {
      dut_.dr_en_i = 1;
      dut_.dr_bank_i = static_cast<unsigned char>(drain_.bank);
      dut_.dr_row_i = static_cast<unsigned char>(drain_row_ % kHalfRows);
    }
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      const bool done = !done_.empty() && done_.front() == now_;
      check_.that(dut_.done_o == done, "done_o is %d", dut_.done_o);
      if (done) done_.pop_front();
      if (way_[kRead - 1] >= 0) shown_ = way_[kRead - 1];
      if (shown_ >= 0) match(static_cast<unsigned>(shown_));
    }
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
    for (unsigned i = kRead - 1; i > 0; i--) way_[i] = way_[i - 1];
    way_[0] = read ? static_cast<int>(drain_row_++) : -1;
    // a word stays until the next one, or until its bank computes
    if (draining_ && shown_ == static_cast<int>(drain_.rows) - 1) {
      shown_ = -1;
      draining_ = false;
    }
  }
  void match(unsigned row) {
    // k = 1/2: both halves; otherwise the half that holds the row; k = 2: of the odd PE
    for (unsigned h = 0; h < 2 * kTC; h++) {
      if (drain_.k != 1 && h % 2 != row / kHalfRows) continue;
      if (drain_.k == 2 && h / 2 % 2 == 0) continue;
      const uint64_t have = unit::get(dut_.dr_acc_o, h * 36, 36);
      const uint64_t want = P_STUB ? 0 : static_cast<uint64_t>(acc_[drain_.bank][at(h / 2, h % 2, row)]) & ((uint64_t{1} << 36) - 1);
      check_.that(have == want, "k %u, row %u, PE %u, half %u: %" PRIx64 ", not %" PRIx64, drain_.k, row, h / 2, h % 2, have, want);
    }
  }

  struct Drain {
    unsigned bank, rows, k;
    uint64_t from;
  };
  tb::Random random_;
  tb::Checks check_;
  Vpe_array dut_;
  int16_t weight_[kTC][kTP] = {}, shadow_[kTC][kTP] = {}, next_[kTC][kTP] = {};
  std::vector<int64_t> acc_[2];
  std::deque<uint64_t> done_;
  Drain drain_{0, 0, 0, 0};
  uint64_t now_ = 0, swap_at_ = 0;
  unsigned loading_ = kGroups, bank_ = 0, drain_row_ = 0;
  int way_[kRead] = {-1, -1, -1, -1}, shown_ = -1;  // rows of the drain's words in flight, and of those at the output
  unsigned k_ = 0, chain_ = kTP, tiles_ = 0;
  bool two_ = false, draining_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 150); i++) bench.tile();
  return bench.finish();
}
