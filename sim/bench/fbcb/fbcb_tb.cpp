// Random writes and reads of the FBCB, compared with an array: one cycle of latency, the old entry
// if a cycle both reads and writes it, and every entry at the end.
#include <vector>

#include "Vfbcb.h"
#include "bench/tb.hpp"
#include "sluice_abi.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  const uint64_t cycles = args.n ? args.n : 50000;
  constexpr uint32_t kEntries = sluice_abi::L_MAX * sluice_abi::B_MAX;
  tb::Random random(args.seed);
  tb::Checks check("fbcb", args.seed);
  Vfbcb top;
  std::vector<uint32_t> memory(kEntries);

  uint32_t expected = 0;
  bool known = false;
  auto cycle = [&](bool we, uint32_t waddr, uint32_t wdata, uint32_t raddr) {
    top.we_i = we;
    top.waddr_i = static_cast<uint16_t>(waddr);
    top.wdata_i = wdata;
    top.layer_i = static_cast<uint8_t>(raddr / sluice_abi::B_MAX);
    top.batch_minus_1_i = static_cast<uint8_t>(raddr % sluice_abi::B_MAX);
    top.clk_i = 0;
    top.eval();
    if (known)
      check.that(top.rdata_o == expected, "read %08x, expected %08x", top.rdata_o, expected);
    expected = memory[raddr];
    if (we) memory[waddr] = wdata;
    top.clk_i = 1;
    top.eval();
  };

  for (uint32_t i = 0; i < kEntries; i++) cycle(true, i, static_cast<uint32_t>(random.next()), i);
  cycle(false, 0, 0, 0);
  known = true;
  // Few addresses for a while, so that reads meet writes; then all.
  for (uint64_t i = 0; i < cycles; i++) {
    const uint32_t span = i % 1000 < 500 ? 4 : kEntries;
    cycle(random.percent(50), static_cast<uint32_t>(random.below(span)),
          static_cast<uint32_t>(random.next()), static_cast<uint32_t>(random.below(span)));
  }
  for (uint32_t i = 0; i < kEntries; i++) cycle(false, 0, 0, i);
  cycle(false, 0, 0, 0);
  top.final();
  return check.passed();
}
