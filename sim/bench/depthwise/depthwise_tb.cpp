// depthwise_tb: random depthwise layers, by taps (windows of 1 to 49 taps) and by columns (three wide, strides of one
// and two), of any number of channels, with weights at both ends of their range. A tap is sent if there is room for its
// sum. Sums leave in the order of the channels, up to LANES at a time. Both have random pauses, or none; then the unit
// must not add any. The weights of the next layer are offered from the first tap of a layer on, and must not be accepted
// before its last tap. Memory and queues keep their state between layers.
#include "sluice_abi.hpp"
#include "Vdepthwise.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kNB = P_NB, kLanes = P_LANES, kWords = P_AXI_BYTES / 2, kAcc = sluice_abi::ACC_BITS;

struct Shape {
  bool cols;
  unsigned channels, k_h, k_w, s_w, out_w, rows, groups;
  std::vector<int16_t> weights;  // [group][k_h][k_w][NB]
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("depthwise", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) edge();
    dut_.rst_ni = 1;
    next_ = draw();
    offer();
  }

  void layer(bool fast) {
    while (!beats_.empty()) edge();
    dut_.eval();
    check_.that(dut_.full_o, "the weights are there, and not told");
    const Shape l = next_;
    next_ = draw();
    dut_.cols_i = l.cols;
    const unsigned valid = static_cast<unsigned>(fast || random_.percent(40) ? 100 : random_.range(20, 100));
    const unsigned ready = static_cast<unsigned>(fast || random_.percent(40) ? 100 : random_.range(10, 100));
    struct Word {
      int64_t sum;
      bool pixel;  // the last of a pixel
    };
    std::deque<Word> expect;
    unsigned row = 0, column = 0, group = 0, tap = 0, room = P_ROOM;
    const unsigned columns = l.cols ? (l.out_w - 1) * l.s_w + l.k_w : l.out_w, taps = l.cols ? l.k_h : l.k_h * l.k_w;
    bool more = true;
    uint64_t waited = 0, begin = now_, ends = 0, words = 0;
    std::vector<std::vector<int64_t>> sums(l.groups * columns, std::vector<int64_t>(kNB, 0));
    if (beats_.empty()) offer();
    while (more || !expect.empty()) {
      const bool gives = !l.cols || (column + 1 >= l.k_w && (column + 1 - l.k_w) % l.s_w == 0);
      dut_.valid_i = 0;
      if (more && (tap > 0 || room > 0 || !gives) && random_.percent(valid)) {
        const bool last = tap + 1 == taps, last_group = group + 1 == l.groups;
        dut_.valid_i = 1;
        dut_.first_i = tap == 0;
        dut_.last_i = last;
        dut_.result_i = gives;
        dut_.group_i = static_cast<unsigned char>(group);
        dut_.restart_i = last && last_group;
        dut_.release_i = last && last_group && column + 1 == columns && row + 1 == l.rows;
        if (gives && tap == 0) room--;
        if (column == 0 && group == 0 && tap == 0) sums.assign(sums.size(), std::vector<int64_t>(kNB, 0));
        for (unsigned i = 0; i < kNB; i++) {
          const int64_t x = random_.percent(20) ? (random_.percent(50) ? 32767 : -32768) : unit::sign(random_.next(), 16);
          unit::put(dut_.data_i, i * 16, 16, static_cast<uint64_t>(x));
          const auto w = [&](unsigned t) { return int64_t{l.weights[(group * l.k_h * l.k_w + t) * kNB + i]}; };
          if (!l.cols) {
            sums[group * columns + column][i] += x * w(tap);
            continue;
          }
          for (unsigned c = 0; c < 3; c++) {  // this column is the c-th of a window
            if (column >= c) sums[group * columns + column - c][i] += x * w(tap * 3 + c);
          }
        }
        if (++tap == taps) {
          tap = 0;
          if (gives) {
            const std::vector<int64_t>& sum = sums[group * columns + (l.cols ? column - 2 : column)];
            const unsigned n = last_group ? l.channels - group * kNB : kNB;
            for (unsigned i = 0; i < n; i++) expect.push_back({unit::sign(static_cast<uint64_t>(sum[i]), kAcc), last_group && i + 1 == n});
          }
          if (++group == l.groups) {
            group = 0;
            if (++column == columns) {
              column = 0;
              if (++row == l.rows) more = false, ends = now_;
            }
          }
        }
      } else {
        for (unsigned i = 0; i < kNB; i++) unit::put(dut_.data_i, i * 16, 16, random_.next());
        dut_.first_i = random_.percent(50);
        dut_.last_i = random_.percent(50);
        dut_.result_i = random_.percent(50);
        dut_.restart_i = random_.percent(50);
        dut_.release_i = random_.percent(50);
        dut_.group_i = static_cast<unsigned char>(random_.below(P_GROUPS));
      }
      // the drain knows the number of a pixel's channels, but not whether their sums are ready
      unsigned cnt = 0;
      bool pixel = false;
      while (cnt < kLanes && !pixel) pixel = ++cnt + left_ >= l.channels;
      dut_.cnt_i = static_cast<unsigned char>(cnt);
      dut_.pixel_i = pixel;
      dut_.pop_i = 0;
      dut_.clk_i = 0;
      dut_.eval();
      if (dut_.ok_o && random_.percent(ready)) {
        dut_.pop_i = 1;
        dut_.eval();
        check_.that(expect.size() >= cnt, "%u words, where %zu have come", cnt, expect.size());
        for (unsigned i = 0; i < cnt; i++) {
          const int64_t have = unit::sign(unit::get(dut_.data_o, i * kAcc, kAcc), kAcc);
          check_.that(have == expect.front().sum, "channel %u: %" PRId64 ", not %" PRId64, left_ + i, have, expect.front().sum);
          check_.that(expect.front().pixel == (pixel && i + 1 == cnt), "a pixel ends elsewhere");
          expect.pop_front();
        }
        left_ = pixel ? 0 : left_ + cnt;
        words++;
        waited = 0;
      }
      room += dut_.taken_o;
      check_.that(room <= P_ROOM, "more groups leave than came");
      if (more || dut_.valid_i) check_.that(dut_.full_o && !dut_.w_ready_o, "weights are taken before the last tap");
      check_.that(++waited < 20000, "no sum");
      edge();
    }
    check_.that(room == P_ROOM, "a group has not left");
    const uint64_t all = uint64_t{l.rows} * columns * l.groups * taps;
    // each pixel begins a new step, so either side may be the slower one; if it is the taps, the unit adds no cycles
    if (fast && taps >= (kNB + kLanes - 1) / kLanes + 1) check_.that(ends - begin < all + 8 && now_ - begin <= all + words + 12, "%" PRIu64 " cycles for %" PRIu64 " taps, %" PRIu64 " steps", ends - begin, all, words);
    dut_.valid_i = 0;
    dut_.pop_i = 0;
  }
  int finish() { return check_.passed(); }

 private:
  Shape draw() {
    Shape s;
    s.cols = random_.percent(50);
    const unsigned most = s.cols ? std::min(5, P_GROUPS) : 5;
    s.channels = static_cast<unsigned>(random_.range(1, kNB * (random_.percent(10) && s.cols ? P_GROUPS : most)));
    if (random_.percent(40)) s.channels = kNB * ((s.channels + kNB - 1) / kNB);
    s.groups = (s.channels + kNB - 1) / kNB;
    s.k_w = static_cast<unsigned>(s.cols ? 3 : random_.range(1, 7));
    s.k_h = static_cast<unsigned>(random_.percent(20) ? 1 : random_.range(1, 7));
    while (s.groups * s.k_h * s.k_w > sluice_abi::DW_WORDS) s.k_h--;
    if (random_.percent(5)) {  // the maximum
      s.groups = std::min<unsigned>(P_GROUPS, 8);
      s.channels = s.groups * kNB - static_cast<unsigned>(random_.below(kNB));
      s.k_h = sluice_abi::DW_WORDS / s.groups / s.k_w;
    }
    s.s_w = static_cast<unsigned>(random_.range(1, 2));
    s.out_w = static_cast<unsigned>(random_.range(1, s.groups > 5 ? 2 : 6));
    s.rows = static_cast<unsigned>(random_.range(1, 3));
    for (unsigned i = 0; i < s.groups * s.k_h * s.k_w * kNB; i++) {
      s.weights.push_back(static_cast<int16_t>(random_.percent(20) ? (random_.percent(50) ? 32767 : -32768) : unit::sign(random_.next(), 16)));
    }
    return s;
  }
  // offer begins the beats of the next layer's weights, padded as packed.
  void offer() {
    std::vector<int16_t> w = next_.weights;
    while (w.size() % (sluice_abi::WEIGHT_ALIGN / 2) != 0) w.push_back(static_cast<int16_t>(random_.next()));
    for (size_t i = 0; i < w.size(); i += kWords) beats_.push_back({w.begin() + static_cast<long>(i), w.begin() + static_cast<long>(i + kWords)});
  }
  void edge() {
    dut_.w_valid_i = !beats_.empty() && random_.percent(80);
    for (unsigned i = 0; i < kWords; i++) unit::put(dut_.w_data_i, i * 16, 16, dut_.w_valid_i ? static_cast<uint64_t>(beats_.front()[i]) : random_.next());
    dut_.w_last_i = dut_.w_valid_i ? beats_.size() == 1 : random_.percent(50);
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.w_valid_i && dut_.w_ready_o) beats_.pop_front();
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }
  tb::Random random_;
  tb::Checks check_;
  Vdepthwise dut_;
  Shape next_;
  std::deque<std::vector<int16_t>> beats_;
  unsigned left_ = 0;  // channels of the pixel that have left
  uint64_t now_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 150); i++) bench.layer(i % 5 == 4);
  return bench.finish();
}
