// pool_tb: random windows, max and average, of 1 to 70 taps (some with the maximum) and any number
// of channels, compared with 64-bit arithmetic. The average's factor is the layer's, or comes from
// the table by the count of taps, while the other half of the table is being written. Results are
// stalled at random, and a window begins only if there is room. Half of the layers are by columns:
// rows of columns of 2 to 4 taps of some channel groups, with windows two or three wide at every
// stride, each compared with all taps of its columns.
#include "sluice_abi.hpp"
#include "Vpool.h"
#include "bench/post_model.hpp"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

constexpr unsigned kNB = P_NB, kOut = P_OUT;

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("pool", args.seed) {
    dut_.rst_ni = 0;
    for (int i = 0; i < 3; i++) edge();
    dut_.rst_ni = 1;
  }

  // taps: all taps of every window have the lowest value; 0: random
  void layer(unsigned windows, bool fast, unsigned lowest = 0) {
    const bool widest = lowest > 0;
    const bool avg = (random_.percent(50) && !fast) || widest;
    const unsigned mul = static_cast<unsigned>(widest ? (1 << 17) - 1 : random_.below(1 << 17)),
                   shift =
                       static_cast<unsigned>(widest ? 31 + unit::clog2(lowest)
                                             : avg ? random_.range(1, random_.percent(80) ? 20 : 47)
                                                   : random_.below(64));
    int64_t lo = -32768, hi = 32767;
    if (random_.percent(40)) {
      lo = unit::sign(random_.next(), 16);
      hi = unit::sign(random_.next(), 16);
      if (lo > hi) std::swap(lo, hi);
    }
    const bool table = avg && !widest && random_.percent(60);
    table_half_ = !table_half_;
    for (unsigned i = 0; table && i < 256; i++) write_table(table_half_ * 256 + i);
    dut_.table_i = table;
    dut_.table_half_i = table_half_;
    dut_.avg_i = avg;
    dut_.mul_i = mul;
    dut_.shift_i = static_cast<unsigned char>(shift);
    dut_.lo_i = static_cast<unsigned short>(lo);
    dut_.hi_i = static_cast<unsigned short>(hi);
    const unsigned ready =
        static_cast<unsigned>(fast || random_.percent(40) ? 100 : random_.range(10, 100));
    const unsigned valid =
        static_cast<unsigned>(fast || random_.percent(40) ? 100 : random_.range(20, 100));
    const bool cols = !fast && !widest && random_.percent(50);
    const unsigned k_w = static_cast<unsigned>(random_.range(2, 3)), s_w = static_cast<unsigned>(random_.range(1, k_w - 1)),
                   k_h = static_cast<unsigned>(random_.range(2, 4)), out_w = static_cast<unsigned>(random_.range(1, 5)),
                   groups_of = static_cast<unsigned>(random_.percent(50) ? random_.range(1, 2) : random_.range(1, random_.percent(80) ? std::min(5, P_GROUPS) : P_GROUPS));
    const unsigned last_channels = static_cast<unsigned>(random_.range(1, kNB));
    dut_.cols_i = static_cast<unsigned char>(cols ? 1 + 2 * (k_w == 3) : 0);
    unsigned column = 0, group = 0;
    std::vector<std::deque<std::vector<int64_t>>> before(groups_of);  // columns of the row, of each group
    if (cols) windows = groups_of > 5 ? 2 : std::min(windows, 6u);    // rows
    const auto gives = [&] { return !cols || (column + 1 >= k_w && (column + 1 - k_w) % s_w == 0); };
    const unsigned most_taps = random_.percent(30) ? 1 : (random_.percent(30) ? 70 : 9);
    const bool wide = random_.percent(30) ? true : lowest > 512;  // few taps: either
    dut_.wide_i = wide;
    dut_.valid_i = 0;
    edge();  // a layer's values are there a cycle before its first tap
    const unsigned out = avg ? (wide ? P_MULS / 2 : std::min<unsigned>(P_MULS, kOut)) : kOut;
    std::deque<int16_t> expect;
    std::vector<int64_t> acc(kNB);
    unsigned room = P_ROOM, taps = 0, tap = 0, channels = 0, waited = 0, rest = 0;
    std::deque<unsigned> sizes;
    const uint64_t begin = now_;
    uint64_t groups = 0;
    while (windows > 0 || tap > 0 || !expect.empty()) {
      dut_.valid_i = 0;
      other_half();
      const bool can = tap > 0 || (windows > 0 && (room > 0 || !gives()));
      for (unsigned i = 0; i < kNB; i++) unit::put(dut_.data_i, i * 16, 16, random_.next());
      if (can && random_.percent(valid)) {
        if (tap == 0) {
          taps = cols ? k_h : static_cast<unsigned>(widest ? lowest : fast ? 1 : random_.range(1, most_taps));
          channels =
              cols ? (group + 1 == groups_of ? last_channels : kNB)
                   : static_cast<unsigned>(fast || random_.percent(40) ? kNB : random_.range(1, kNB));
          if (gives()) room--;
          if (!cols) windows--;
        }
        dut_.valid_i = 1;
        dut_.first_i = tap == 0;
        dut_.last_i = tap + 1 == taps;
        dut_.result_i = gives();
        dut_.group_i = static_cast<unsigned char>(cols ? group : random_.below(P_GROUPS));
        // taps inside the image so far; only the value at the last tap counts
        const unsigned inside = static_cast<unsigned>(random_.percent(20) ? random_.below(2) * 255 : random_.below(256));
        dut_.taps_i = static_cast<unsigned char>(inside);
        dut_.channels_i = static_cast<unsigned char>(channels);
        for (unsigned i = 0; i < kNB; i++) {
          const int64_t x = widest                ? -32768
                            : random_.percent(10) ? (random_.percent(50) ? 32767 : -32768)
                                                  : unit::sign(random_.next(), 16);
          unit::put(dut_.data_i, i * 16, 16, static_cast<uint64_t>(x));
          acc[i] = tap == 0 ? x : (avg ? acc[i] + x : std::max(acc[i], x));
        }
        if (++tap == taps) {
          tap = 0;
          const bool result = gives();
          if (cols) {
            std::deque<std::vector<int64_t>>& line = before[group];
            line.push_back(acc);
            if (line.size() > k_w) line.pop_front();
            for (unsigned i = 0; i < kNB && result; i++) {
              acc[i] = line[0][i];
              for (unsigned x = 1; x < k_w; x++) acc[i] = avg ? acc[i] + line[x][i] : std::max(acc[i], line[x][i]);
            }
            if (++group == groups_of) {
              group = 0;
              if (++column == (out_w - 1) * s_w + k_w) {
                column = 0;
                windows--;
                for (auto& l : before) l.clear();
              }
            }
          }
          for (unsigned i = 0; i < channels && result; i++) {
            const int64_t v = avg ? model::rnd(acc[i] * static_cast<int64_t>(table ? table_[table_half_ * 256 + inside] : mul), shift) : acc[i];
            expect.push_back(static_cast<int16_t>(model::clamp(model::sat16(v), lo, hi)));
          }
          if (result) sizes.push_back(channels);
        }
      } else {
        dut_.first_i = random_.percent(50);
        dut_.last_i = random_.percent(50);
        dut_.result_i = random_.percent(50);
        dut_.group_i = static_cast<unsigned char>(random_.below(P_GROUPS));
      }
      dut_.ready_i = random_.percent(ready);
      dut_.clk_i = 0;
      dut_.eval();
      if (dut_.taken_o) room++;
      check_.that(room <= P_ROOM, "more results leave than came");
      if (dut_.valid_o && dut_.ready_i) {
        const unsigned cnt = dut_.cnt_o;
        if (rest == 0) {
          check_.that(!sizes.empty(), "a result too many");
          rest = sizes.front();
          sizes.pop_front();
        }
        check_.that(cnt == std::min(out, rest), "%u words of %u", cnt,
                    rest);
        rest -= cnt;
        groups++;
        for (unsigned i = 0; i < cnt; i++) {
          const int64_t have = unit::sign(unit::get(dut_.data_o, i * 16, 16), 16);
          check_.that(have == expect.front(), "%s: %" PRId64 ", not %d", avg ? "average" : "max",
                      have, expect.front());
          expect.pop_front();
        }
        waited = 0;
      }
      check_.that(++waited < 200000, "no result");
      edge();
    }
    check_.that(room == P_ROOM, "a result has not left");
    if (fast) {
      check_.that(now_ - begin <= groups + 14, "%" PRIu64 " cycles for %" PRIu64 " groups",
                  now_ - begin, groups);
    }
    for (int i = 0; i < 6; i++) {
      dut_.valid_i = 0;
      dut_.clk_i = 0;
      dut_.eval();
      check_.that(!dut_.valid_o && !dut_.taken_o, "a result too many");
      edge();
    }
  }
  int finish() { return check_.passed(); }

 private:
  void write_table(unsigned i) {
    table_[i] = static_cast<uint32_t>(random_.below(1 << 17));
    dut_.table_we_i = 1;
    dut_.table_addr_i = static_cast<unsigned short>(i);
    dut_.table_data_i = table_[i];
    edge();
    dut_.table_we_i = 0;
  }
  void other_half() {
    dut_.table_we_i = random_.percent(50);
    const unsigned i = static_cast<unsigned>(!table_half_ * 256u + random_.below(256));
    dut_.table_addr_i = static_cast<unsigned short>(i);
    dut_.table_data_i = static_cast<uint32_t>(random_.below(1 << 17));
    if (dut_.table_we_i) table_[i] = dut_.table_data_i;
  }
  void edge() {
    dut_.clk_i = 0;
    dut_.eval();
    dut_.clk_i = 1;
    dut_.eval();
    now_++;
  }
  tb::Random random_;
  tb::Checks check_;
  Vpool dut_;
  uint64_t now_ = 0;
  uint32_t table_[512] = {};
  bool table_half_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 120); i++) bench.layer(20, i % 10 == 9);
  bench.layer(1, false, sluice_abi::AVG_TAPS);
  for (int i = 0; i < 4; i++) bench.layer(1, false, 512);
  return bench.finish();
}
