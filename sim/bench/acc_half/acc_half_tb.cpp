// acc_half_tb: the head reads and the tail writes one bank, the drain reads the other, and the
// banks change roles at random. Data must come two cycles later; the drain's word must stay until
// its bank computes.
#include "Vacc_half.h"
#include "bench/unit.hpp"
#include "verilated.h"

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("acc_half", args.seed);
  Vacc_half dut;
  constexpr uint64_t kMask = (uint64_t{1} << P_ACC) - 1;
  uint64_t mem[2][P_DEPTH] = {};
  struct Word {
    bool known = false;
    uint64_t bits = 0;
  };
  Word head, drain, next_head, next_drain;  // what is read; of the cycle before
  const auto edge = [&] {
    dut.clk_i = 0;
    dut.eval();
    dut.clk_i = 1;
    dut.eval();
  };
  for (unsigned b = 0; b < 2; b++) {
    for (unsigned r = 0; r < P_DEPTH; r++) {
      dut.wr_en_i = 1;
      dut.wr_bank_i = static_cast<unsigned char>(b);
      dut.wr_row_i = static_cast<unsigned char>(r);
      mem[b][r] = random.next() & kMask;
      dut.wr_acc_i = static_cast<std::remove_reference_t<decltype(dut.wr_acc_i)>>(mem[b][r]);
      edge();
    }
  }
  unsigned bank = 0;
  for (uint64_t i = 0; i < (args.n ? args.n : 20000); i++) {
    const bool change = random.percent(3);  // banks change roles
    if (change) bank = !bank;
    const unsigned row = static_cast<unsigned>(random.below(P_DEPTH)),
                   drow = static_cast<unsigned>(random.below(P_DEPTH));
    const unsigned wrow = static_cast<unsigned>(random.below(P_DEPTH));
    dut.rd_en_i = random.percent(70);
    dut.rd_bank_i = static_cast<unsigned char>(bank);
    dut.rd_row_i = static_cast<unsigned char>(row);
    dut.wr_en_i = random.percent(70);
    const unsigned wbank =
        random.percent(80) ? bank : !bank;  // the tail may still use the previous bank
    dut.wr_bank_i = static_cast<unsigned char>(wbank);
    dut.wr_row_i = static_cast<unsigned char>(wrow);
    const uint64_t word = random.next() & kMask;
    dut.wr_acc_i = static_cast<std::remove_reference_t<decltype(dut.wr_acc_i)>>(word);
    dut.dr_en_i = random.percent(60);
    dut.dr_bank_i = static_cast<unsigned char>(dut.dr_en_i ? !bank : random.below(2));
    dut.dr_row_i = static_cast<unsigned char>(drow);
    head = next_head;
    if (next_drain.known) drain = next_drain;
    next_head = {dut.rd_en_i != 0, mem[bank][row]};
    next_drain = {dut.dr_en_i != 0, mem[!bank][drow]};
    if (dut.wr_en_i) mem[wbank][wrow] = word;
    edge();
    if (head.known) check.that(dut.rd_acc_o == head.bits, "head");
    if (drain.known) check.that(dut.dr_acc_o == drain.bits, "drain");
    if (change) drain.known = false;
  }
  return check.passed();
}
