// ram_deep_tb: the behaviour of ram_1r1w for a memory in parts: random reads and writes, compared
// with an array, many of them at the border of two parts. Data come one cycle later, two with OUT_REG, and
// stay while re_i is low; reading an address that is being written gives the old word. A write beyond the last
// part changes no word.
#include <optional>

#include "Vram_deep.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_OUT_REG
#define P_OUT_REG 0
#endif
#ifndef P_LEAST
#define P_LEAST 1024
#endif

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("ram_deep", args.seed);
  Vram_deep dut;
  constexpr unsigned kSpan = (P_DEPTH + P_LEAST - 1) / P_LEAST * P_LEAST, kRoom = 1u << unit::clog2(P_DEPTH);
  std::vector<uint64_t> mem(P_DEPTH);
  std::vector<unsigned> edges;  // first words of parts, and the last of all
  for (unsigned part = 1u << 31, begin = 0; part >= P_LEAST; part /= 2) {
    if (!(kSpan & part)) continue;
    edges.push_back(begin);
    begin += part;
  }
  edges.push_back(P_DEPTH - 1);
  const auto address = [&] {
    const unsigned a = random.percent(50) ? static_cast<unsigned>(random.below(P_DEPTH))
                                          : edges[random.below(edges.size())] + static_cast<unsigned>(random.below(3)) - 1;
    return a < P_DEPTH ? a : 0;
  };
  const uint64_t mask = (uint64_t{1} << P_WIDTH) - 1;
  std::optional<uint64_t> read, out;  // nothing before the first read
  for (uint64_t i = 0; i < P_DEPTH + (args.n ? args.n : 20000); i++) {
    const bool filling = i < P_DEPTH;
    unsigned w = filling ? static_cast<unsigned>(i) : address();
    if (!filling && kSpan < kRoom && random.percent(10)) w = kSpan + static_cast<unsigned>(random.below(kRoom - kSpan));
    const unsigned r = w < P_DEPTH && random.percent(30) ? w : address();
    const uint64_t word = random.next() & mask;
    dut.we_i = filling || random.percent(50);
    dut.waddr_i = static_cast<unsigned short>(w);
    dut.wdata_i = word;
    dut.re_i = !filling && random.percent(60);
    dut.raddr_i = static_cast<unsigned short>(r);
    if (P_OUT_REG) out = read;
    if (dut.re_i) read = mem[r];
    if (!P_OUT_REG) out = read;
    if (dut.we_i && w < P_DEPTH) mem[w] = word;
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
    if (out) check.that(dut.rdata_o == *out, "cycle %" PRIu64, i);
  }
  return check.passed();
}
