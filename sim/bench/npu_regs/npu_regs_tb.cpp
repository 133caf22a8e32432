// The register block, compared with a model that uses the generated table of registers: random
// traffic on AXI4-Lite (AW and W in any order, any delay, any strobes), and a core that starts,
// counts and ends at random; every output is compared in every cycle. Before that: a sweep of the
// whole address space, idle and busy, and counters driven past 32 bits.
#include <array>
#include <cinttypes>
#include <map>

#include "Vnpu_regs.h"
#include "Vnpu_regs___024root.h"
#include "bench/tb.hpp"
#include "sluice_abi.hpp"
#include "verilated.h"

#ifndef VARIANT
#define VARIANT 0
#endif

namespace abi = sluice_abi;

namespace {

constexpr uint32_t kOkay = 0, kSlverr = 2;
// Variant 1 is QUIET, with addresses of 32 bits.
constexpr bool kQuiet = VARIANT == 1;
constexpr uint32_t kRefused = kQuiet ? kOkay : kSlverr;
constexpr uint32_t kHighMask = VARIANT == 1 ? 0 : 0xFF;

// The bits that may be set in a register of this build.
uint32_t mask_of(const abi::Register& r) {
  const bool high = r.offset == abi::REG_DESC_BASE_HI || r.offset == abi::REG_WEIGHT_BASE_HI ||
                    r.offset == abi::REG_SLOT_BASE_HI;
  return high ? r.mask & kHighMask : r.mask;
}

// What the build registers must answer, from the flags of `args`.
const std::map<uint32_t, uint32_t> kBuild = {
    {abi::REG_ID, abi::ID},
    {abi::REG_VERSION, abi::ABI_VERSION},
    {abi::REG_ABI_HASH0, static_cast<uint32_t>(abi::ABI_HASH)},
    {abi::REG_ABI_HASH1, static_cast<uint32_t>(abi::ABI_HASH >> 32)},
#if VARIANT == 0
    {abi::REG_DESIGN_HASH0, 0},
    {abi::REG_DESIGN_HASH1, 0},
    {abi::REG_BUILD_TR, 256},
    {abi::REG_BUILD_TP, 8},
    {abi::REG_BUILD_TC, 32},
    {abi::REG_BUILD_AXI, 1 | 8 << 4 | 16 << 12 | 0 << 24 | 1 << 25 | 1 << 26},
    {abi::REG_BUILD_ABUF, 16 * 1024},
    {abi::REG_BUILD_WRING, 512},
    {abi::REG_BUILD_CMAX, 512},
#else
    {abi::REG_DESIGN_HASH0, 0x76543210},
    {abi::REG_DESIGN_HASH1, 0xfedcba98},
    {abi::REG_BUILD_TR, 1024},
    {abi::REG_BUILD_TP, 7},
    {abi::REG_BUILD_TC, 128},
    {abi::REG_BUILD_AXI, 4 | 16 << 4 | 256 << 12 | 1 << 24 | 0 << 25 | 0 << 26 | 1 << 27},
    {abi::REG_BUILD_ABUF, 16 * 14336},
    {abi::REG_BUILD_WRING, 16384},
    {abi::REG_BUILD_CMAX, 2048},
#endif
};

const abi::Register* find(uint32_t address) {
  for (const abi::Register& r : abi::REGISTERS) {
    if (address >= r.offset && address < r.offset + 4 * r.count) return &r;
  }
  return nullptr;
}

struct Inputs {
  bool reset_n = true;
  bool awvalid = false, wvalid = false, bready = false, arvalid = false, rready = false;
  uint32_t awaddr = 0, wdata = 0, wstrb = 0, araddr = 0;
  bool busy = false, done = false, error = false;
  uint32_t code = 0, layer = 0, port = 0, address = 0;
  std::array<uint16_t, abi::CNT_COUNT> inc{};
};

// State after each clock edge, as the header of npu_regs.sv describes it.
struct Model {
  bool aw_full = false, w_full = false, ar_full = false, bvalid = false, rvalid = false;
  uint32_t aw = 0, ar = 0, wdata = 0, wstrb = 0, bresp = 0, rresp = 0, rdata = 0;
  bool start = false, soft_reset = false, fbcb_we = false, pending = false;
  uint32_t fbcb_waddr = 0, fbcb_wdata = 0;
  std::map<uint32_t, uint32_t> kept;  // plain registers by address
  uint32_t status = 0, irq_status = 0, error = 0, error_addr = 0;
  std::array<uint64_t, abi::CNT_COUNT> counters{};
  std::array<uint32_t, abi::CNT_COUNT> late{};  // increments, which count one cycle later
  uint32_t high = 0;
  uint64_t time = 0;  // cycles since reset
  uint32_t time_high = 0;
  bool refused = false;
  // events that occurred, to prove that the traffic reaches them
  uint64_t starts = 0, refused_busy = 0, refused_bits = 0, refused_start = 0, races = 0,
           unmapped = 0;

  uint32_t reg(uint32_t address) const {
    const auto it = kept.find(address);
    return it == kept.end() ? 0 : it->second;
  }

  void step(const Inputs& in) {
    if (!in.reset_n) {
      *this = Model{};
      return;
    }
    const bool do_write = aw_full && w_full && !bvalid;
    const bool do_read = ar_full && !rvalid && !do_write;
    const bool busy = in.busy || pending;
    const bool took_aw = in.awvalid && !aw_full, took_w = in.wvalid && !w_full;
    const bool took_ar = in.arvalid && !ar_full;

    bool refuse = false;

    // reading, from the state before this edge
    if (do_read) {
      rresp = kOkay;
      rdata = 0;
      if (ar >= abi::CNT_BASE && ar < abi::CNT_BASE + 8 * abi::CNT_COUNT) {
        const uint64_t value = counters[(ar - abi::CNT_BASE) / 8];
        if (ar % 8 == 0) {
          rdata = static_cast<uint32_t>(value);
          high = static_cast<uint32_t>(value >> 32);
        } else {
          rdata = high;
        }
      } else if (const abi::Register* r = find(ar)) {
        if (kBuild.count(ar))
          rdata = kBuild.at(ar);
        else if (ar == abi::REG_STATUS)
          rdata = status | (busy ? abi::REG_STATUS_BUSY_MASK : 0);
        else if (ar == abi::REG_IRQ_STATUS)
          rdata = irq_status;
        else if (ar == abi::REG_ERROR)
          rdata = error;
        else if (ar == abi::REG_ERROR_ADDR)
          rdata = error_addr;
        else if (ar == abi::REG_TIME_LO)
          rdata = static_cast<uint32_t>(time), time_high = static_cast<uint32_t>(time >> 32);
        else if (ar == abi::REG_TIME_HI)
          rdata = time_high;
        else if (ar == abi::REG_ACCESS)
          rdata = refused;
        else if (r->readable)
          rdata = reg(ar);
      } else {
        rresp = kRefused;
        refuse = true;
        unmapped++;
      }
    }

    time++;

    // counters: the increments registered before count now
    for (uint32_t i = 0; i < abi::CNT_COUNT; i++) counters[i] += late[i];
    for (uint32_t i = 0; i < abi::CNT_COUNT; i++) late[i] = in.busy ? in.inc[i] : 0;
    late[abi::CNT_STARTS] = 0;
    late[abi::CNT_INTERRUPTS] = in.done || in.error;

    start = soft_reset = fbcb_we = false;
    bool clears_irq = false;
    if (do_write) {
      const uint32_t strobes = (wstrb & 1 ? 0xFFu : 0) | (wstrb & 2 ? 0xFF00u : 0) |
                               (wstrb & 4 ? 0xFF0000u : 0) | (wstrb & 8 ? 0xFF000000u : 0);
      const uint32_t set = wdata & strobes;
      const abi::Register* r = find(aw);
      bool ok = r && r->writable;
      if (!ok) unmapped++;
      if (ok && busy && !r->busy_ok) ok = false, refused_busy++;
      uint32_t mask = r ? mask_of(*r) : 0;
      if (aw == abi::REG_FBCB_DATA) mask = ~abi::FBCB_RSVD_MASK;
      if (ok && (set & ~mask)) ok = false, refused_bits++;
      if (ok && aw == abi::REG_FBCB_DATA && wstrb != 0xF) ok = false;
      if (ok && aw == abi::REG_CTRL) {
        if ((set & abi::REG_CTRL_START_MASK) && (busy || set != abi::REG_CTRL_START_MASK)) {
          ok = false;
          refused_start++;
        }
        if ((set & abi::REG_CTRL_CLEAR_COUNTERS_MASK) && busy) ok = false;
      }
      bresp = ok ? kOkay : kRefused;
      refuse = !ok;
      if (ok) {
        if (aw == abi::REG_CTRL) {
          start = set & abi::REG_CTRL_START_MASK;
          soft_reset = set & abi::REG_CTRL_SOFT_RESET_MASK;
          if (set & abi::REG_CTRL_CLEAR_COUNTERS_MASK) counters.fill(0);
          if (start) {
            starts++;
            late[abi::CNT_STARTS] = 1;
            status = error = error_addr = 0;
          }
        } else if (aw == abi::REG_IRQ_STATUS) {
          irq_status &= ~set;
          clears_irq = set != 0;
        } else if (aw == abi::REG_ACCESS) {
          if (set & abi::REG_ACCESS_REFUSED_MASK) refused = false;
        } else if (aw == abi::REG_FBCB_DATA) {
          fbcb_we = true;
          fbcb_waddr = reg(abi::REG_FBCB_ADDR);
          fbcb_wdata = set;
          kept[abi::REG_FBCB_ADDR] = (fbcb_waddr + 1) & abi::REG_FBCB_ADDR_MASK;
        } else {
          kept[aw] = (reg(aw) & ~strobes) | set;
        }
      }
    }

    if (refuse) refused = true;

    if (in.done || in.error) {
      if (clears_irq) races++;
      irq_status |= in.error ? abi::REG_IRQ_STATUS_ERROR_MASK : 0;
      irq_status |= in.done && !in.error ? abi::REG_IRQ_STATUS_DONE_MASK : 0;
      status = in.error ? abi::REG_STATUS_ERROR_MASK : abi::REG_STATUS_DONE_MASK;
      error = in.error ? in.code | in.layer << abi::REG_ERROR_LAYER_LSB |
                             in.port << abi::REG_ERROR_PORT_LSB
                       : 0;
      error_addr = in.error ? in.address : 0;
    }
    if (start)
      pending = true;
    else if (in.busy || in.done || in.error)
      pending = false;

    if (do_write)
      bvalid = true;
    else if (in.bready)
      bvalid = false;
    if (do_read)
      rvalid = true;
    else if (in.rready)
      rvalid = false;
    if (do_write) aw_full = w_full = false;
    if (do_read) ar_full = false;
    if (took_aw) aw_full = true, aw = in.awaddr & ~3u;
    if (took_w) w_full = true, wdata = in.wdata, wstrb = in.wstrb;
    if (took_ar) ar_full = true, ar = in.araddr & ~3u;
  }
};

class Bench {
 public:
  explicit Bench(const tb::Args& args) : random_(args.seed), check_("npu_regs", args.seed) {}

  // One clock cycle with the inputs in `in`; every output is compared before the edge.
  void cycle() {
    top_.rst_ni = in.reset_n;
    top_.awvalid_i = in.awvalid;
    top_.awaddr_i = static_cast<uint16_t>(in.awaddr);
    top_.wvalid_i = in.wvalid;
    top_.wdata_i = in.wdata;
    top_.wstrb_i = static_cast<uint8_t>(in.wstrb);
    top_.bready_i = in.bready;
    top_.arvalid_i = in.arvalid;
    top_.araddr_i = static_cast<uint16_t>(in.araddr);
    top_.rready_i = in.rready;
    top_.busy_i = in.busy;
    top_.done_i = in.done;
    top_.error_i = in.error;
    top_.err_code_i = static_cast<uint8_t>(in.code);
    top_.err_layer_i = static_cast<uint8_t>(in.layer);
    top_.err_port_i = static_cast<uint8_t>(in.port);
    top_.err_addr_i = in.address;
    for (uint32_t i = 0; i < (abi::CNT_COUNT + 1) / 2; i++) top_.cnt_inc_i[i] = 0;
    for (uint32_t i = 0; i < abi::CNT_COUNT; i++) {
      top_.cnt_inc_i[i / 2] |= static_cast<uint32_t>(in.inc[i]) << (16 * (i % 2));
    }
    top_.clk_i = 0;
    top_.eval();
    if (compare_) compare();
    model.step(in);
    top_.clk_i = 1;
    top_.eval();
    time_++;
  }

  void reset() {
    in = Inputs{};
    in.reset_n = false;
    compare_ = false;
    cycle();
    cycle();
    compare_ = true;
    cycle();
    in.reset_n = true;
    cycle();
  }

  uint32_t write(uint32_t address, uint32_t data, uint32_t strobes = 0xF) {
    in.awvalid = in.wvalid = true;
    in.awaddr = address;
    in.wdata = data;
    in.wstrb = strobes;
    in.bready = true;
    cycle();
    in.awvalid = in.wvalid = false;
    cycle();
    check_.that(model.bvalid, "write to %03x: no answer after 2 cycles", address);
    const uint32_t response = top_.bresp_o;
    cycle();
    return response;
  }

  uint32_t read(uint32_t address, uint32_t* data) {
    in.arvalid = true;
    in.araddr = address;
    in.rready = true;
    cycle();
    in.arvalid = false;
    cycle();
    check_.that(model.rvalid, "read of %03x: no answer after 2 cycles", address);
    *data = top_.rdata_o;
    const uint32_t response = top_.rresp_o;
    cycle();
    return response;
  }

  // Whether the access just answered was refused, by its answer and by ACCESS, which this clears.
  bool refused(uint32_t response) {
    uint32_t data = 0;
    read(abi::REG_ACCESS, &data);
    check_.that(response == (data ? kRefused : kOkay), "an answer of %u, ACCESS %u", response, data);
    if (data) write(abi::REG_ACCESS, abi::REG_ACCESS_REFUSED_MASK);
    return data != 0;
  }

  // Every word of the address space, compared with the content of abi.yaml.
  void sweep(bool busy) {
    in.busy = busy;
    for (uint32_t address = 0; address < 0x1000; address += 4) {
      uint32_t data = 0;
      const abi::Register* r = find(address);
      const bool counter = address >= abi::CNT_BASE && address < abi::CNT_BASE + 8 * abi::CNT_COUNT;
      const uint32_t got = read(address, &data);
      if (address == abi::REG_ACCESS) continue;
      check_.that(refused(got) == !(r || counter), "read of %03x answers %u", address, got);
      if (r && !r->readable) check_.that(data == 0, "%s reads %08x", r->name, data);
      const bool writable = r && r->writable && (!busy || r->busy_ok);
      const uint32_t answer = write(address, 0);
      check_.that(refused(answer) == !writable, "write to %03x answers %u", address, answer);
      if (!r || !r->writable || r->one_to_clear || !r->readable) continue;
      const uint32_t mask = mask_of(*r);
      const uint32_t all = write(address, mask);
      check_.that(refused(all) == !writable, "%s: all bits: %u", r->name, all);
      const uint32_t before = data;
      read(address, &data);
      check_.that(data == (writable ? mask : before), "%s reads back %08x", r->name, data);
      for (uint32_t bit = 0; bit < 32; bit++) {
        if (mask >> bit & 1) continue;
        check_.that(refused(write(address, 1u << bit)), "%s takes bit %u", r->name, bit);
      }
      refused(write(address, 0));
    }
    in.busy = false;
    cycle();
  }

  // Counters past 32 bits, the latch of HI, and no counting outside a start.
  void wide() {
    for (auto& inc : in.inc) inc = 0xFFFF;
    for (uint32_t i = 0; i < 10; i++) cycle();
    uint32_t lo = 0, hi = 0, later = 0;
    const uint32_t mac = abi::CNT_BASE + 8 * abi::CNT_MACS;
    read(mac, &lo);
    check_.that(lo == 0, "a counter ran outside a start: %u", lo);
    in.busy = true;
    constexpr uint64_t kCycles = 70000;
    for (uint64_t i = 0; i < kCycles; i++) cycle();
    read(mac, &lo);
    for (uint32_t i = 0; i < 70000; i++) cycle();
    read(abi::REG_CTRL, &later);  // no other register changes the latched value
    read(mac + 4, &hi);
    const uint64_t value = static_cast<uint64_t>(hi) << 32 | lo;
    check_.that(hi == 1 && value >= kCycles * 0xFFFF && value < (kCycles + 4) * 0xFFFF,
                "MACS reads %" PRIu64 " after %" PRIu64 " cycles", value, kCycles);
    in.busy = false;
    cycle();
    cycle();
    read(mac, &lo);
    cycle();
    read(mac, &later);
    check_.that(lo == later, "a counter ran on after a start");
    check_.that(write(abi::REG_CTRL, abi::REG_CTRL_CLEAR_COUNTERS_MASK) == kOkay, "clear refused");
    read(mac, &lo);
    read(mac + 4, &hi);
    check_.that(lo == 0 && hi == 0, "clear leaves %08x%08x", hi, lo);
    in.inc.fill(0);
  }

  // TIME continues during starts, soft resets and cleared counters. Its high word matches the low
  // one, and reading a counter between the two does not change it.
  void time() {
    // near the end of 32 bits: traffic that long would take minutes
    model.time = top_.rootp->npu_regs__DOT__time_q = 0xFFFFFFF0;
    uint32_t lo = 0, hi = 0, count = 0;
    const auto now = [&] {
      read(abi::REG_TIME_LO, &lo);
      read(abi::CNT_BASE, &count);
      for (int i = 0; i < 32; i++) cycle();
      read(abi::REG_TIME_HI, &hi);
      return static_cast<uint64_t>(hi) << 32 | lo;
    };
    const uint64_t first = now();
    check_.that(first == 0xFFFFFFF1, "TIME reads %" PRIx64 " a cycle behind fffffff0", first);
    const uint64_t begin = time_;
    const uint64_t second = now();
    write(abi::REG_CTRL, abi::REG_CTRL_START_MASK);
    in.busy = true;
    cycle();
    write(abi::REG_CTRL, abi::REG_CTRL_SOFT_RESET_MASK);
    in.busy = false;
    in.error = true;
    cycle();
    in.error = false;
    cycle();
    write(abi::REG_CTRL, abi::REG_CTRL_CLEAR_COUNTERS_MASK);
    const uint64_t middle = time_;
    const uint64_t third = now();
    check_.that(second >> 32 == 1 && third - second == middle - begin,
                "TIME went from %" PRIx64 " to %" PRIx64 " in %" PRIu64 " cycles", second, third,
                middle - begin);
  }

  void traffic(uint64_t cycles) {
    // the core: waits for start, runs, ends
    uint64_t begin = 0, end = 0;
    bool waiting = false;
    for (uint64_t i = 0; i < cycles; i++) {
      if (random_.percent(1)) mood_ = static_cast<unsigned>(random_.below(3));
      bus();
      in.done = in.error = false;
      in.code = static_cast<uint32_t>(random_.below(256));
      in.layer = static_cast<uint32_t>(random_.below(256));
      in.port = static_cast<uint32_t>(random_.below(16));
      in.address = static_cast<uint32_t>(random_.next());
      for (auto& inc : in.inc) {
        inc = static_cast<uint16_t>(random_.percent(50) ? random_.next() : random_.below(2));
      }
      if (model.start) {
        waiting = true;
        begin = i + random_.below(4);
        end = begin + random_.below(60);
      }
      if (waiting && i >= begin) {
        in.busy = true;
        if (i >= end || (model.soft_reset && random_.percent(70))) {
          in.error = random_.percent(50);
          in.done = !in.error;
          in.busy = random_.percent(50);  // busy may fall with the end or after it
          waiting = false;
        }
      } else if (!waiting) {
        in.busy = false;
      }
      cycle();
    }
    if (cycles < 100000) return;
    check_.that(model.starts > 100 && model.refused_busy > 100 && model.refused_bits > 100 &&
                    model.refused_start > 20 && model.races > 0 && model.unmapped > 100,
                "traffic misses a case: starts %" PRIu64 ", busy %" PRIu64 ", bits %" PRIu64
                ", start %" PRIu64 ", races %" PRIu64 ", unmapped %" PRIu64,
                model.starts, model.refused_busy, model.refused_bits, model.refused_start,
                model.races, model.unmapped);
  }

  int finish() {
    top_.final();
    return check_.passed();
  }

  Inputs in;
  Model model;

 private:
  uint32_t pick() {
    const uint64_t n = sizeof(abi::REGISTERS) / sizeof(abi::REGISTERS[0]);
    switch (random_.below(10)) {
      case 0:
        return static_cast<uint32_t>(random_.below(0x1000));
      case 1:
        return abi::REG_CTRL;
      case 2:
        return abi::REG_IRQ_STATUS;
      case 3:
        return random_.percent(50) ? abi::REG_FBCB_DATA : abi::REG_FBCB_ADDR;
      case 4:
        return abi::CNT_BASE + 4 * static_cast<uint32_t>(random_.below(2 * abi::CNT_COUNT));
      default: {
        const abi::Register& r = abi::REGISTERS[random_.below(n)];
        return r.offset + 4 * static_cast<uint32_t>(random_.below(r.count)) +
               (random_.percent(5) ? static_cast<uint32_t>(random_.below(4)) : 0);
      }
    }
  }

  // AXI4-Lite: a valid stays until it is taken, with its payload.
  void bus() {
    const unsigned rate = mood_ == 0 ? 100 : mood_ == 1 ? 30 : 5;
    if (!in.awvalid || !model_aw_was_full_) {
      in.awvalid = random_.percent(rate);
      if (in.awvalid) in.awaddr = next_write_ = pick();
    }
    if (!in.wvalid || !model_w_was_full_) {
      in.wvalid = random_.percent(rate);
      if (in.wvalid) {
        const abi::Register* r = find(next_write_ & ~3u);
        in.wdata = static_cast<uint32_t>(random_.next());
        if (r && random_.percent(85)) in.wdata &= r->mask;
        if (r && r->offset == abi::REG_CTRL && random_.percent(70))
          in.wdata = 1u << random_.below(3);
        if (r && r->offset == abi::REG_FBCB_DATA && random_.percent(80))
          in.wdata &= ~abi::FBCB_RSVD_MASK;
        if (random_.percent(3)) in.wdata = 1u << random_.below(32);
        in.wstrb = random_.percent(80) ? 0xF : static_cast<uint32_t>(random_.below(16));
      }
    }
    if (!in.arvalid || !model_ar_was_full_) {
      in.arvalid = random_.percent(rate);
      if (in.arvalid) in.araddr = pick();
    }
    in.bready = random_.percent(mood_ == 1 ? 30 : 90);
    in.rready = random_.percent(mood_ == 1 ? 30 : 90);
    model_aw_was_full_ = model.aw_full;
    model_w_was_full_ = model.w_full;
    model_ar_was_full_ = model.ar_full;
  }

  void compare() {
    const Model& m = model;
    auto same = [&](const char* name, uint64_t got, uint64_t want) {
      check_.that(got == want, "cycle %" PRIu64 ": %s is %" PRIx64 ", expected %" PRIx64, time_,
                  name, got, want);
    };
    same("awready_o", top_.awready_o, !m.aw_full);
    same("wready_o", top_.wready_o, !m.w_full);
    same("arready_o", top_.arready_o, !m.ar_full);
    same("bvalid_o", top_.bvalid_o, m.bvalid);
    if (m.bvalid) same("bresp_o", top_.bresp_o, m.bresp);
    same("rvalid_o", top_.rvalid_o, m.rvalid);
    if (m.rvalid) {
      same("rresp_o", top_.rresp_o, m.rresp);
      same("rdata_o", top_.rdata_o, m.rdata);
    }
    same("irq_o", top_.irq_o, (m.irq_status & m.reg(abi::REG_IRQ_ENABLE)) != 0);
    same("start_o", top_.start_o, m.start);
    same("soft_reset_o", top_.soft_reset_o, m.soft_reset);
    same("fbcb_we_o", top_.fbcb_we_o, m.fbcb_we);
    if (m.fbcb_we) {
      same("fbcb_waddr_o", top_.fbcb_waddr_o, m.fbcb_waddr);
      same("fbcb_wdata_o", top_.fbcb_wdata_o, m.fbcb_wdata);
    }
    same("first_layer_o", top_.first_layer_o, m.reg(abi::REG_LAYERS) & 0xFF);
    same("last_layer_o", top_.last_layer_o, m.reg(abi::REG_LAYERS) >> 8);
    same("b_act_o", top_.b_act_o, m.reg(abi::REG_BATCH));
    auto wide = [&](uint32_t lo, uint32_t hi) {
      return static_cast<uint64_t>(m.reg(hi)) << 32 | m.reg(lo);
    };
    same("desc_base_o", top_.desc_base_o, wide(abi::REG_DESC_BASE_LO, abi::REG_DESC_BASE_HI));
    same("weight_base_o", top_.weight_base_o,
         wide(abi::REG_WEIGHT_BASE_LO, abi::REG_WEIGHT_BASE_HI));
    same("slot_base_o", top_.slot_base_o, wide(abi::REG_SLOT_BASE_LO, abi::REG_SLOT_BASE_HI));
    same("slot_stride_o", top_.slot_stride_o, m.reg(abi::REG_SLOT_STRIDE));
    same("n_slot_o", top_.n_slot_o, m.reg(abi::REG_N_SLOT));
    same("watchdog_o", top_.watchdog_o, m.reg(abi::REG_WATCHDOG));
    uint64_t table = 0;
    for (uint32_t i = 0; i < abi::REG_SLOT_TABLE_COUNT; i++) {
      table |= static_cast<uint64_t>(m.reg(abi::REG_SLOT_TABLE + 4 * i)) << (6 * i);
    }
    same("slot_table_o", top_.slot_table_o, table);
  }

  tb::Random random_;
  tb::Checks check_;
  Vnpu_regs top_;
  bool compare_ = false;
  uint64_t time_ = 0;
  unsigned mood_ = 0;
  uint32_t next_write_ = 0;
  bool model_aw_was_full_ = false, model_w_was_full_ = false, model_ar_was_full_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  bench.reset();
  bench.sweep(false);
  bench.sweep(true);
  bench.wide();
  bench.time();
  bench.reset();
  bench.traffic(args.n ? args.n : 300000);
  return bench.finish();
}
