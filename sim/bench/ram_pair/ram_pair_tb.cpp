// ram_pair_tb: the behaviour of ram_1r1w for pairs of bytes, which are written alone, together or not at all: random
// reads and writes, many of them at the border of two parts or rows, compared with an array. Data come one cycle later,
// two with OUT_REG, and stay while re_i is low; reading an address that is being written gives the old bytes. A write
// beyond the last part changes no byte.
#include <optional>

#include "Vram_pair.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_OUT_REG
#define P_OUT_REG 0
#endif
#ifndef P_LEAST
#define P_LEAST 1024
#endif
#ifndef P_FOLD
#define P_FOLD 0
#endif

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("ram_pair", args.seed);
  Vram_pair dut;
  constexpr unsigned kRoom = 1u << unit::clog2(P_DEPTH < 2 ? 2 : P_DEPTH);
  constexpr unsigned kSpan = P_DEPTH > P_LEAST ? (P_DEPTH + P_LEAST - 1) / P_LEAST * P_LEAST : kRoom;
  constexpr bool kBeyond = P_FOLD == 0 && kSpan < kRoom;
  std::vector<unsigned> mem(P_DEPTH), edges;  // edges: first words of parts and rows, and the last of all
  for (unsigned part = 1u << 31, begin = 0; part != 0; part /= 2) {
    if (!(kSpan & part)) continue;
    edges.push_back(begin);
    begin += part;
  }
  edges.push_back(P_DEPTH / 2 / 4 * 4);
  edges.push_back(P_DEPTH - 1);
  const auto address = [&] {
    const unsigned a = random.percent(50) ? static_cast<unsigned>(random.below(P_DEPTH))
                                          : edges[random.below(edges.size())] + static_cast<unsigned>(random.below(3)) - 1;
    return a < P_DEPTH ? a : 0;
  };
  std::optional<unsigned> read, out;  // nothing before the first read
  for (uint64_t i = 0; i < P_DEPTH + (args.n ? args.n : 20000); i++) {
    const bool filling = i < P_DEPTH;
    unsigned w = filling ? static_cast<unsigned>(i) : address();
    if (!filling && kBeyond && random.percent(10)) w = kSpan + static_cast<unsigned>(random.below(kRoom - kSpan));
    const unsigned r = w < P_DEPTH && random.percent(30) ? w : address();
    const unsigned byte = static_cast<unsigned>(random.below(256));
    const unsigned halves = filling ? 3 : static_cast<unsigned>(random.below(4));
    dut.we_i = static_cast<unsigned char>(halves);
    dut.waddr_i = static_cast<unsigned short>(w);
    dut.wdata_i = static_cast<unsigned char>(byte);
    dut.re_i = !filling && random.percent(60);
    dut.raddr_i = static_cast<unsigned short>(r);
    if (P_OUT_REG) out = read;
    if (dut.re_i) read = mem[r];
    if (!P_OUT_REG) out = read;
    if (w < P_DEPTH) {
      if (halves & 1) mem[w] = (mem[w] & 0xFF00) | byte;
      if (halves & 2) mem[w] = (mem[w] & 0x00FF) | byte << 8;
    }
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
    if (out) check.that(dut.rdata_o == *out, "cycle %" PRIu64 ": %04x, not %04x", i, dut.rdata_o, *out);
  }
  return check.passed();
}
