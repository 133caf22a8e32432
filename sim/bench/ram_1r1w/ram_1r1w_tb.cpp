// ram_1r1w_tb: random reads and writes, compared with an array: data come one cycle later, two with
// OUT_REG, and stay while re_i is low; reading an address that is being written gives the old word.
#include <optional>

#include "Vram_1r1w.h"
#include "bench/unit.hpp"
#include "verilated.h"

#ifndef P_OUT_REG
#define P_OUT_REG 0
#endif

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("ram_1r1w", args.seed);
  Vram_1r1w dut;
  std::vector<uint64_t> mem(P_DEPTH);
  const uint64_t mask = (uint64_t{1} << P_WIDTH) - 1;
  std::optional<uint64_t> read, out;  // nothing before the first read
  for (uint64_t i = 0; i < (args.n ? args.n : 20000); i++) {
    const bool filling = i < P_DEPTH;
    const uint64_t w = filling ? i : random.below(P_DEPTH),
                   r = random.percent(30) ? w : random.below(P_DEPTH);
    const uint64_t word = random.next() & mask;
    dut.we_i = filling || random.percent(50);
    dut.waddr_i = static_cast<unsigned char>(w);
    dut.wdata_i = word;
    dut.re_i = !filling && random.percent(60);
    dut.raddr_i = static_cast<unsigned char>(r);
    if (P_OUT_REG) out = read;
    if (dut.re_i) read = mem[r];
    if (!P_OUT_REG) out = read;
    if (dut.we_i) mem[w] = word;
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
    if (out) check.that(dut.rdata_o == *out, "cycle %" PRIu64, i);
  }
  return check.passed();
}
