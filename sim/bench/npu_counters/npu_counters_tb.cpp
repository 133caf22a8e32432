// npu_counters_tb: the increment of each counter, for random events of every unit and port: none,
// some or all of them at once. A counter must count its own events and no others.
#include <array>

#include "Vnpu_counters.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace abi = sluice_abi;

namespace {

constexpr unsigned kPorts = P_N_AXI, kBytes = P_AXI_BYTES;
constexpr unsigned kBytesBits = unit::clog2(kBytes + 1);

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  tb::Random random(args.seed);
  tb::Checks check("npu_counters", args.seed);
  Vnpu_counters dut;
  for (uint64_t n = 0; n < (args.n ? args.n : 20000); n++) {
    const auto often = [&] { return static_cast<unsigned>(random.percent(20) ? 0 : random.percent(25) ? 100 : 50); };
    const unsigned units = often(), ports = often(), full = often();
    std::array<uint64_t, abi::CNT_COUNT> expected{};  // STARTS and INTERRUPTS are npu_regs' own
    const auto event = [&](unsigned percent, unsigned counter, unsigned by = 1) {
      const bool is = random.percent(percent);
      if (is) expected[counter] += by;
      return is;
    };
    expected[abi::CNT_CYCLES_BUSY] = 1;
    dut.mac_cycle_i = event(units, abi::CNT_MAC_CYCLES);
    // all of an array, or any number of its MACs
    dut.macs_i = static_cast<unsigned short>(random.percent(10) ? 0xFFFF : random.percent(20) ? 0 : random.next());
    dut.dw_macs_i = 0;
    if (random.percent(30)) std::swap(dut.macs_i, dut.dw_macs_i);  // one sequencer at a time
    expected[abi::CNT_MACS] = dut.macs_i + dut.dw_macs_i;
    dut.stall_weights_i = event(units, abi::CNT_STALL_WEIGHTS);
    dut.stall_drain_i = event(units, abi::CNT_STALL_DRAIN);
    dut.stall_depth_i = event(units, abi::CNT_STALL_DEPTH);
    // a cycle in which both waited counts once
    dut.stall_acts_i = random.percent(units);
    dut.stall_pool_i = random.percent(units);
    expected[abi::CNT_STALL_ACTIVATIONS] = dut.stall_acts_i || dut.stall_pool_i;
    unsigned rd_stall = 0, rd_beat = 0, wr_stall = 0;
    for (unsigned p = 0; p < kPorts; p++) {
      rd_stall |= unsigned{event(ports, abi::CNT_STALL_READ)} << p;
      rd_beat |= unsigned{event(ports, abi::CNT_BYTES_READ, kBytes)} << p;
      wr_stall |= unsigned{event(ports, abi::CNT_STALL_WRITE)} << p;
      const unsigned bytes = static_cast<unsigned>(random.percent(full) ? kBytes : random.below(kBytes + 1));
      unit::put(dut.wr_bytes_i, p * kBytesBits, kBytesBits, bytes);
      expected[abi::CNT_BYTES_WRITTEN] += bytes;
    }
    dut.rd_stall_i = static_cast<unsigned char>(rd_stall);
    dut.rd_beat_i = static_cast<unsigned char>(rd_beat);
    dut.wr_stall_i = static_cast<unsigned char>(wr_stall);
    dut.eval();
    for (unsigned c = 0; c < abi::CNT_COUNT; c++) {
      const uint64_t by = unit::get(dut.cnt_inc_o, 16 * c, 16);
      check.that(by == expected[c], "%s grows by %" PRIu64 ", not %" PRIu64, abi::CNT_NAMES[c], by, expected[c]);
    }
  }
  return check.passed();
}
