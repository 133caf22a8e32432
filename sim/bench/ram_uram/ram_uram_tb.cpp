// ram_uram_tb: random reads of rows and writes of any of their bytes, on a few rows of every URAM, compared with an
// array. Rows come two cycles later and stay while re_i is low; reading a row that is being written gives the old bytes.
#include <optional>

#include "Vram_uram.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("ram_uram", args.seed);
  Vram_uram dut;
  std::vector<unsigned> rows;  // indices of the used rows
  for (unsigned at = 0; at < P_ROWS; at += 4096) {
    for (unsigned r : {at, at + 1, at + 4095, P_ROWS - 1u}) rows.push_back(std::min(r, P_ROWS - 1u));
  }
  std::vector<std::optional<uint64_t>> mem(P_ROWS);
  std::optional<uint64_t> read, out;
  for (uint64_t i = 0; i < (args.n ? args.n : 30000); i++) {
    const bool filling = i < rows.size();
    const unsigned w = filling ? rows[i] : rows[random.below(rows.size())], r = random.percent(30) ? w : rows[random.below(rows.size())];
    const unsigned bytes = static_cast<unsigned>(filling ? 255 : random.percent(30) ? 0 : random.below(256));
    const uint64_t word = random.next();
    dut.we_i = static_cast<unsigned char>(bytes);
    dut.waddr_i = static_cast<unsigned short>(w);
    dut.wdata_i = word;
    dut.re_i = !filling && random.percent(60);
    dut.raddr_i = static_cast<unsigned short>(r);
    out = read;
    if (dut.re_i) read = mem[r];
    uint64_t mask = 0;
    for (unsigned b = 0; b < 8; b++) mask |= (bytes >> b & 1) ? uint64_t{255} << 8 * b : 0;
    if (bytes) mem[w] = (mem[w].value_or(0) & ~mask) | (word & mask);
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
    if (out) check.that(dut.rdata_o == *out, "cycle %" PRIu64 ": %" PRIx64 ", not %" PRIx64, i, static_cast<uint64_t>(dut.rdata_o), *out);
  }
  return check.passed();
}
