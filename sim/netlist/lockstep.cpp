// Runs the RTL and the netlist in parallel. Both have the same inputs in every cycle, and their valid
// outputs must be equal: a payload is compared while it is valid, a byte of write data if its strobe
// is set. Both begin with random bits in all registers and memories, which differ between the two.
//
// The traffic is random from a seed: register accesses of every kind, also illegal ones and while a
// start runs; starts of one to three layers of every operator on random memory; broken descriptors,
// FBCB entries, slot tables, ranges and batches; bus errors, answers that never come, soft resets,
// the watchdog; memories of random bandwidth and latency. Results need not be meaningful, only equal.
//
// Exit codes: 0 all equal, 1 a difference, 2 usage.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vnpu_top.h"
#include "Vrtl.h"
#include "bench/tb.hpp"
#include "bits.hpp"
#include "dram.hpp"
#include "sluice_planned.hpp"
#include "verilated.h"

namespace {

namespace abi = sluice_abi;
using sluice::get_bytes;
using sluice::get_field;
using sluice::set_field;
using tb::Random;

constexpr unsigned kPorts = N_AXI;
constexpr unsigned kBytes = AXI_BYTES;
constexpr unsigned kResetCycles = 16;
constexpr uint64_t kMemory = 1 << 20;
constexpr uint64_t kBase = 0x1240000000;  // above 32 bits, to use the high halves of the bases
constexpr uint64_t kStartLimit = 400000;  // cycles after which a start is reset

struct Lite {  // inputs of the register bus
  bool awvalid = false, wvalid = false, bready = false, arvalid = false, rready = false;
  uint16_t awaddr = 0, araddr = 0;
  uint32_t wdata = 0;
  uint8_t wstrb = 0;
};

// The outputs of a cycle; invalid ones are zero.
struct Outputs {
  struct Port {
    bool arvalid, rready, awvalid, wvalid, bready, wlast;
    uint8_t arlen, arid, awlen, awid;
    uint64_t araddr, awaddr;
    uint32_t wstrb;
    std::array<uint8_t, kBytes> wdata;
  };
  bool irq, awready, wready, bvalid, arready, rvalid;
  uint8_t bresp, rresp;
  uint32_t rdata;
  std::array<Port, kPorts> port;
};

template <class Top>
void apply(Top& t, bool reset_n, const Lite& lite, const sluice::Dram<kBytes>& dram) {
  t.rst_ni = reset_n;
  t.s_axil_awvalid = lite.awvalid;
  t.s_axil_wvalid = lite.wvalid;
  t.s_axil_bready = lite.bready;
  t.s_axil_arvalid = lite.arvalid;
  t.s_axil_rready = lite.rready;
  t.s_axil_awaddr = lite.awaddr;
  t.s_axil_araddr = lite.araddr;
  t.s_axil_wdata = lite.wdata;
  t.s_axil_wstrb = lite.wstrb;
  for (unsigned p = 0; p < kPorts; p++) {
    const sluice::SlaveOut<kBytes>& s = dram.out(p);
    set_field(t.m_axi_arready, p, 1, s.arready);
    set_field(t.m_axi_awready, p, 1, s.awready);
    set_field(t.m_axi_wready, p, 1, s.wready);
    set_field(t.m_axi_rvalid, p, 1, s.rvalid);
    set_field(t.m_axi_bvalid, p, 1, s.bvalid);
    std::memcpy(reinterpret_cast<char*>(&t.m_axi_rdata) + p * kBytes, s.rdata, kBytes);
    set_field(t.m_axi_rid, p, 2, s.rid);
    set_field(t.m_axi_rresp, p, 2, s.rresp);
    set_field(t.m_axi_rlast, p, 1, s.rlast);
    set_field(t.m_axi_bid, p, 2, s.bid);
    set_field(t.m_axi_bresp, p, 2, s.bresp);
  }
}

template <class Top>
Outputs sample(const Top& t) {
  Outputs o = {};
  o.irq = t.irq_o;
  o.awready = t.s_axil_awready;
  o.wready = t.s_axil_wready;
  o.arready = t.s_axil_arready;
  o.bvalid = t.s_axil_bvalid;
  o.rvalid = t.s_axil_rvalid;
  if (o.bvalid) o.bresp = t.s_axil_bresp;
  if (o.rvalid) {
    o.rresp = t.s_axil_rresp;
    o.rdata = t.s_axil_rdata;
  }
  for (unsigned p = 0; p < kPorts; p++) {
    Outputs::Port& m = o.port[p];
    m.arvalid = get_field(t.m_axi_arvalid, p, 1);
    m.awvalid = get_field(t.m_axi_awvalid, p, 1);
    m.wvalid = get_field(t.m_axi_wvalid, p, 1);
    m.rready = get_field(t.m_axi_rready, p, 1);
    m.bready = get_field(t.m_axi_bready, p, 1);
    if (m.arvalid) {
      m.araddr = get_bytes<5>(t.m_axi_araddr, p);
      m.arlen = static_cast<uint8_t>(get_bytes<1>(t.m_axi_arlen, p));
      m.arid = static_cast<uint8_t>(get_field(t.m_axi_arid, p, 2));
    }
    if (m.awvalid) {
      m.awaddr = get_bytes<5>(t.m_axi_awaddr, p);
      m.awlen = static_cast<uint8_t>(get_bytes<1>(t.m_axi_awlen, p));
      m.awid = static_cast<uint8_t>(get_field(t.m_axi_awid, p, 2));
    }
    if (m.wvalid) {
      m.wstrb = static_cast<uint32_t>(get_bytes<kBytes / 8>(t.m_axi_wstrb, p));
      m.wlast = get_field(t.m_axi_wlast, p, 1);
      for (unsigned i = 0; i < kBytes; i++) {
        if (m.wstrb >> i & 1)
          m.wdata[i] = reinterpret_cast<const uint8_t*>(&t.m_axi_wdata)[p * kBytes + i];
      }
    }
  }
  return o;
}

// Calls f(name, value of a, value of b) for every output.
template <class F>
void each(const Outputs& a, const Outputs& b, F f) {
  f("irq_o", a.irq, b.irq);
  f("s_axil_awready", a.awready, b.awready);
  f("s_axil_wready", a.wready, b.wready);
  f("s_axil_bvalid", a.bvalid, b.bvalid);
  f("s_axil_bresp", a.bresp, b.bresp);
  f("s_axil_arready", a.arready, b.arready);
  f("s_axil_rvalid", a.rvalid, b.rvalid);
  f("s_axil_rresp", a.rresp, b.rresp);
  f("s_axil_rdata", a.rdata, b.rdata);
  for (unsigned i = 0; i < kPorts; i++) {
    const Outputs::Port &p = a.port[i], &q = b.port[i];
    f("m_axi_arvalid", p.arvalid, q.arvalid);
    f("m_axi_araddr", p.araddr, q.araddr);
    f("m_axi_arlen", p.arlen, q.arlen);
    f("m_axi_arid", p.arid, q.arid);
    f("m_axi_rready", p.rready, q.rready);
    f("m_axi_awvalid", p.awvalid, q.awvalid);
    f("m_axi_awaddr", p.awaddr, q.awaddr);
    f("m_axi_awlen", p.awlen, q.awlen);
    f("m_axi_awid", p.awid, q.awid);
    f("m_axi_wvalid", p.wvalid, q.wvalid);
    f("m_axi_wlast", p.wlast, q.wlast);
    f("m_axi_wstrb", p.wstrb, q.wstrb);
    f("m_axi_bready", p.bready, q.bready);
    for (unsigned k = 0; k < kBytes; k += 8) {
      uint64_t x, y;
      std::memcpy(&x, p.wdata.data() + k, 8);
      std::memcpy(&y, q.wdata.data() + k, 8);
      f("m_axi_wdata", x, y);
    }
  }
}

// Both models, the memory that the RTL drives, and the comparison.
class Pair {
 public:
  explicit Pair(uint64_t seed)
      : seed_(seed), memory_(kMemory), dram_(kPorts, {memory_.data(), kBase, kMemory}) {
    rtl_context_.randSeed(static_cast<int>(1 + seed % 1000000007));
    rtl_context_.randReset(2);
    rtl_ = std::make_unique<Vrtl>(&rtl_context_);
    net_context_.randSeed(static_cast<int>(2 + (seed + 12345) % 1000000007));
    net_context_.randReset(2);
    net_ = std::make_unique<Vnpu_top>(&net_context_);
    rtl_->clk_i = net_->clk_i = 0;
    reset();
    compare_ = true;
  }

  // Hard reset, including the memory's traffic.
  void reset() {
    lite = Lite();
    reset_n_ = false;
    dram_.reset();
    for (unsigned i = 0; i < kResetCycles; i++) cycle();
    dram_.reset();
    reset_n_ = true;
  }

  Lite lite;
  std::string what = "after reset";  // for messages

  std::vector<uint8_t>& memory() { return memory_; }
  sluice::Dram<kBytes>& dram() { return dram_; }
  const Outputs& out() const { return rtl_out_; }
  uint64_t now() const { return now_; }

  // Applies the inputs, compares the outputs, then applies the clock's edge.
  void cycle() {
    settle();
    for (unsigned p = 0; p < kPorts; p++) {
      const Outputs::Port& m = rtl_out_.port[p];
      in_[p].arvalid = m.arvalid;
      in_[p].rready = m.rready;
      in_[p].awvalid = m.awvalid;
      in_[p].wvalid = m.wvalid;
      in_[p].wlast = m.wlast;
      in_[p].bready = m.bready;
      in_[p].arlen = m.arlen;
      in_[p].arid = m.arid;
      in_[p].awlen = m.awlen;
      in_[p].awid = m.awid;
      in_[p].araddr = m.araddr;
      in_[p].awaddr = m.awaddr;
      in_[p].wstrb = m.wstrb;
      std::memcpy(in_[p].wdata, m.wdata.data(), kBytes);
    }
    edge();
    dram_.step(in_);
    now_++;
  }

  // Reads the outputs of this cycle before its edge.
  void settle() {
    apply(*rtl_, reset_n_, lite, dram_);
    apply(*net_, reset_n_, lite, dram_);
    rtl_->clk_i = net_->clk_i = 0;
    rtl_->eval();
    net_->eval();
    rtl_out_ = sample(*rtl_);
    const Outputs net_out = sample(*net_);
    if (!compare_) return;
    bool equal = true;
    each(rtl_out_, net_out, [&](const char* name, uint64_t a, uint64_t b) {
      if (a == b) return;
      std::fprintf(stderr, "%s: RTL %" PRIx64 ", netlist %" PRIx64 "\n", name, a, b);
      equal = false;
    });
    if (equal) return;
    std::fprintf(stderr, "lockstep: FAILED (seed %" PRIu64 ") in cycle %" PRIu64 ", %s\n", seed_,
                 now_, what.c_str());
    std::exit(1);
  }

 private:
  void edge() {
    rtl_->clk_i = net_->clk_i = 1;
    rtl_->eval();
    net_->eval();
  }

  uint64_t seed_;
  std::vector<uint8_t> memory_;
  sluice::Dram<kBytes> dram_;
  VerilatedContext rtl_context_, net_context_;
  std::unique_ptr<Vrtl> rtl_;
  std::unique_ptr<Vnpu_top> net_;
  Outputs rtl_out_ = {};
  sluice::MasterOut<kBytes> in_[kPorts] = {};
  bool reset_n_ = false, compare_ = false;
  uint64_t now_ = 0;
};

// The sizes of this build, read from its registers.
struct Build {
  uint32_t t_r, t_p, t_c, abuf, c_max;
  bool int8;
};

class Traffic {
 public:
  Traffic(uint64_t seed) : random_(seed), pair_(seed) {}

  int run(uint64_t starts) {
    identify();
    registers(200);
    // Entries that were never written have the initial values of each model's memory; an illegal batch or last layer reads
    // them.
    uint32_t entry = 0;
    for (const auto& f : {abi::FBCB_B_R, abi::FBCB_TILE_B, abi::FBCB_TILE_ROWS}) abi::set(&entry, f, 1);
    write(abi::REG_FBCB_ADDR, 0);
    for (unsigned i = 0; i < abi::L_MAX * abi::B_MAX; i++) write(abi::REG_FBCB_DATA, entry);
    for (uint64_t i = 0; i < starts; i++) {
      pair_.what = "start " + std::to_string(i);
      start();
      registers(10);
    }
    counters();
    std::printf("lockstep: %" PRIu64 " cycles equal; %" PRIu64 " register accesses (%" PRIu64
                " SLVERR), %" PRIu64 " starts",
                pair_.now(), accesses_, slverr_, starts);
    const char* separator = ": ";
    for (uint32_t code = 0; code < std::size(abi::ERR_NAMES); code++) {
      if (!ended_[code]) continue;
      std::printf("%s%" PRIu64 " %s", separator, ended_[code],
                  code ? abi::ERR_NAMES[code] : "done");
      separator = ", ";
    }
    if (hung_) std::printf("%s%" PRIu64 " ended by a hard reset", separator, hung_);
    std::printf("; layers of starts that were done: %" PRIu64 " GEMM, %" PRIu64 " max, %" PRIu64
                " average; %" PRIu64 " MACs, %" PRIu64 " bytes written\n",
                layers_[0], layers_[1], layers_[2], macs_, written_);
    if (starts >= 20 && !macs_) {
      std::fprintf(stderr, "lockstep: no GEMM was done in %" PRIu64 " starts: the arrays were not compared\n", starts);
      return 1;
    }
    return 0;
  }

 private:
  // ---- register bus
  struct Answer {
    uint32_t value;
    uint8_t resp;
  };

  Answer read(uint32_t offset) {
    Lite& l = pair_.lite;
    l.araddr = static_cast<uint16_t>(offset);
    l.arvalid = true;
    for (;;) {
      l.rready = random_.percent(80);
      pair_.settle();
      const Outputs o = pair_.out();
      const bool taken = l.arvalid && o.arready, answered = o.rvalid && l.rready;
      pair_.cycle();
      if (taken) l.arvalid = false;
      if (!answered) continue;
      l.rready = false;
      count(o.rresp);
      return {o.rdata, o.rresp};
    }
  }

  // Address and data begin up to two cycles apart.
  uint8_t write(uint32_t offset, uint32_t value, uint8_t strobes = 0xF) {
    Lite& l = pair_.lite;
    l.awaddr = static_cast<uint16_t>(offset);
    l.wdata = value;
    l.wstrb = strobes;
    uint64_t aw_wait = random_.percent(50) ? 0 : random_.below(3), w_wait = random_.below(3);
    bool aw_done = false, w_done = false;
    for (;;) {
      l.awvalid = !aw_done && !aw_wait;
      l.wvalid = !w_done && !w_wait;
      l.bready = random_.percent(80);
      pair_.settle();
      const Outputs o = pair_.out();
      pair_.cycle();
      if (l.awvalid && o.awready) aw_done = true;
      if (l.wvalid && o.wready) w_done = true;
      if (aw_wait) aw_wait--;
      if (w_wait) w_wait--;
      if (!(o.bvalid && l.bready)) continue;
      l.awvalid = l.wvalid = l.bready = false;
      count(o.bresp);
      return o.bresp;
    }
  }

  void count(uint8_t resp) {
    accesses_++;
    slverr_ += resp != 0;
  }

  void identify() {
    pair_.what = "build registers";
    build_ = {read(abi::REG_BUILD_TR).value, read(abi::REG_BUILD_TP).value,
              read(abi::REG_BUILD_TC).value, read(abi::REG_BUILD_ABUF).value,
              read(abi::REG_BUILD_CMAX).value,
              (read(abi::REG_BUILD_AXI).value >> abi::REG_BUILD_AXI_INT8_LSB & 1) != 0};
    const uint64_t hash = read(abi::REG_ABI_HASH0).value | uint64_t{read(abi::REG_ABI_HASH1).value}
                                                               << 32;
    if (read(abi::REG_ID).value != abi::ID || hash != abi::ABI_HASH) {
      std::fprintf(stderr, "lockstep: ID or ABI hash of the RTL is not this program's\n");
      std::exit(1);
    }
    for (uint32_t offset = 0; offset < 0x1000; offset += 4) read(offset);
  }

  // Random accesses, mostly to registers; none starts the NPU.
  void registers(unsigned n) {
    for (unsigned i = 0; i < n; i++) access();
  }

  void access() {
    uint32_t offset = static_cast<uint32_t>(random_.below(0x400)) * 4;
    uint32_t mask = 0xFFFFFFFF;
    if (random_.percent(90)) {
      const abi::Register& r = abi::REGISTERS[random_.below(std::size(abi::REGISTERS))];
      offset = r.offset + 4 * static_cast<uint32_t>(random_.below(r.count));
      if (random_.percent(80)) mask = r.mask;
    }
    uint32_t value = static_cast<uint32_t>(random_.next()) & mask;
    if (offset == abi::REG_CTRL) value &= ~uint32_t{3};
    if (random_.percent(50))
      read(offset);
    else
      write(offset, value, random_.percent(70) ? 0xF : static_cast<uint8_t>(random_.below(16)));
  }

  void counters() {
    pair_.what = "counters";
    for (uint32_t i = 0; i < abi::CNT_COUNT; i++) {
      read(abi::CNT_BASE + 8 * i);
      read(abi::CNT_BASE + 8 * i + 4);
    }
  }
  uint64_t counter(uint32_t i) {
    const uint64_t low = read(abi::CNT_BASE + 8 * i).value;
    return low | uint64_t{read(abi::CNT_BASE + 8 * i + 4).value} << 32;
  }

  // ---- layers
  // Offsets in memory: descriptors, weights, slots; a slot holds three tensors of a layer each.
  static constexpr uint64_t kDesc = 0x1000, kWeights = 0x10000, kSlots = 0x40000;
  static constexpr uint32_t kTensor = 0x2000, kStride = 4 * kTensor;
  static constexpr unsigned kSlotCount = 16;

  struct Layer {
    uint32_t desc[abi::DESC_WORDS] = {};
    uint32_t fbcb = 0;
    uint32_t op = 0;
  };

  uint32_t pick(uint32_t lo, uint32_t hi) { return static_cast<uint32_t>(random_.range(lo, hi)); }

  // A legal layer of an operator for the batch, or false where the sizes drawn do not fit.
  bool draw(uint32_t op, unsigned index, unsigned batch, Layer& out) {
    Layer l;
    l.op = op;
    const bool gemm = l.op == abi::OP_GEMM;
    const uint32_t kh = pick(1, 3), kw = random_.percent(20) ? pick(1, 7) : pick(1, 3);
    const uint32_t sh = pick(1, 2), sw = pick(1, 2), pt = pick(0, kh - 1), pl = pick(0, kw - 1);
    const uint32_t in_h = pick(1, 10), in_w = pick(1, 10), in_c = pick(1, 20);
    if (in_h + 2 * pt < kh || in_w + 2 * pl < kw) return false;
    const uint32_t out_h = (in_h + 2 * pt - kh) / sh + 1, out_w = (in_w + 2 * pl - kw) / sw + 1;
    const uint32_t out_c = gemm ? pick(1, std::min(build_.c_max, 3 * build_.t_c)) : in_c;
    const bool residual = gemm && random_.percent(30);
    const uint32_t in_pix = in_c + pick(0, 3), out_pix = out_c + pick(0, 3);
    const uint32_t res_pix = out_c + pick(0, 3);
    const uint32_t in_row = in_w * in_c;
    const bool int8 = build_.int8;
    const uint32_t elem = int8 ? 1 : 2;  // bytes
    if (elem * in_h * in_w * in_pix > kTensor || elem * out_h * out_w * out_pix > kTensor ||
        elem * out_h * out_w * res_pix > kTensor)
      return false;

    const uint32_t tile_b = pick(1, batch), tile_rows = pick(1, out_h);
    const uint32_t n_ih = (tile_rows - 1) * sh + kh;
    if (tile_b * n_ih * in_row > build_.abuf) return false;
    if (gemm && tile_b * tile_rows * out_w > build_.t_r) return false;

    uint32_t* d = l.desc;
    const auto put = [d](const abi::Field& f, int64_t v) { abi::set(d, f, v); };
    put(abi::DESC_F_OP, l.op);
    put(abi::DESC_F_MAGIC, abi::DESC_MAGIC);
    put(abi::DESC_F_RESIDUAL, residual);
    const uint32_t slack = kTensor / 4;  // where a tensor begins inside its part of the slot
    put(abi::DESC_F_IN_OFFSET, (index % 3) * kTensor + elem * pick(0, slack / 2));
    put(abi::DESC_F_OUT_OFFSET, ((index + 1) % 3) * kTensor + elem * pick(0, slack / 2));
    put(abi::DESC_F_RES_OFFSET,
        residual ? ((index + 2) % 3) * kTensor + elem * pick(0, slack / 2) : 0);
    put(abi::DESC_F_IN_H, in_h);
    put(abi::DESC_F_IN_W, in_w);
    put(abi::DESC_F_IN_C, in_c);
    put(abi::DESC_F_IN_PIX, in_pix);
    put(abi::DESC_F_OUT_H, out_h);
    put(abi::DESC_F_OUT_W, out_w);
    put(abi::DESC_F_OUT_C, out_c);
    put(abi::DESC_F_OUT_PIX, out_pix);
    put(abi::DESC_F_K_H, kh);
    put(abi::DESC_F_K_W, kw);
    put(abi::DESC_F_S_H, sh);
    put(abi::DESC_F_S_W, sw);
    put(abi::DESC_F_PAD_T, pt);
    put(abi::DESC_F_PAD_L, pl);
    const bool relu = random_.percent(50);
    put(abi::DESC_F_CLAMP_LO, relu ? 0 : int8 ? -128 : -32768);
    const uint32_t most = int8 ? 127 : 32767;
    put(abi::DESC_F_CLAMP_HI, random_.percent(30) ? pick(1, most * 5 / 8) : most);
    put(abi::DESC_F_IN_8, int8);
    put(abi::DESC_F_OUT_8, int8);
    put(abi::DESC_F_RES_8, int8 && residual);
    put(abi::DESC_F_IN_ZERO, int8 ? int64_t{pick(0, 255)} - 128 : 0);
    put(abi::DESC_F_OUT_ZERO, int8 ? int64_t{pick(0, 255)} - 128 : 0);
    put(abi::DESC_F_IN_ROW, in_row);
    put(abi::DESC_F_IN_ROW_BYTES, elem * in_pix * in_w);
    put(abi::DESC_F_OUT_ROW_BYTES, elem * out_pix * out_w);
    put(abi::DESC_F_STEP_ROW, sh * in_row);
    put(abi::DESC_F_STEP_COL, sw * in_c);
    put(abi::DESC_F_PAD_COL, pl * in_c);
    put(abi::DESC_F_KWC, kw * in_c);
    if (gemm) {
      constexpr uint32_t kAlign = abi::WEIGHT_ALIGN;
      // in int8 the shifts are in memory with the biases
      if (!int8) put(abi::DESC_F_SHIFT, random_.percent(90) ? pick(14, 24) : pick(0, 47));
      if (residual) {
        put(abi::DESC_F_RES_PIX, res_pix);
        if (!int8) put(abi::DESC_F_RES_SHIFT, pick(0, 16));
        put(abi::DESC_F_RES_ROW_BYTES, elem * res_pix * out_w);
      }
      const uint32_t vectors = kh * ((kw * in_c + build_.t_p - 1) / build_.t_p);
      const auto bytes = [&](uint32_t channels) {
        const uint32_t words = int8 ? (channels + 1) / 2 : channels;
        return (vectors * words * build_.t_p * 2 + kAlign - 1) / kAlign * kAlign;
      };
      const uint32_t full = out_c / build_.t_c, rest = out_c % build_.t_c;
      const uint32_t total = full * bytes(build_.t_c) + (rest ? bytes(rest) : 0);
      if (total > kSlots - kWeights - 0x2000) return false;
      put(abi::DESC_F_W_OFFSET_1, kAlign * pick(0, 16));
      put(abi::DESC_F_W_BYTES_1, total);
      put(abi::DESC_F_W_TILE_1, bytes(build_.t_c));
      put(abi::DESC_F_BIAS_OFFSET, kAlign * pick(0, 16));
      put(abi::DESC_F_BIAS_COUNT, int8 ? 2 * out_c + (residual ? 4 : 0) : out_c);
    }
    if (l.op == abi::OP_AVG_POOL || (int8 && !gemm)) {
      const uint32_t shift = pick(10, 20);
      put(abi::DESC_F_AVG_SHIFT, shift);
      put(abi::DESC_F_AVG_MUL, ((int64_t{1} << shift) + kh * kw / 2) / (kh * kw) & 0x1FFFF);
    }
    abi::set(&l.fbcb, abi::FBCB_B_R, batch);
    abi::set(&l.fbcb, abi::FBCB_TILE_B, tile_b);
    abi::set(&l.fbcb, abi::FBCB_TILE_ROWS, tile_rows);
    out = l;
    return true;
  }

  // ---- one start
  void start() {
    sluice::MemoryTiming timing;
    timing.bytes_per_cycle_q16 = pick(kBytes << 14, 2 * kBytes << 16);
    timing.read_latency = random_.percent(50) ? pick(1, 10) : pick(10, 150);
    timing.write_latency = pick(1, 60);
    timing.max_reads = pick(1, 16);
    timing.max_writes = pick(1, 16);
    pair_.dram().set_timing(timing);
    pair_.dram().clear_faults();
    std::vector<uint8_t>& memory = pair_.memory();
    for (size_t i = 0; i < memory.size(); i += 8) {
      const uint64_t word = random_.next();
      std::memcpy(&memory[i], &word, 8);
    }

    const unsigned batch = pick(1, abi::B_MAX), count = pick(1, 3);
    const unsigned first = pick(0, abi::L_MAX - count);
    std::vector<Layer> layers(count);
    for (unsigned i = 0; i < count; i++) {
      const uint32_t op =
          random_.percent(60) ? abi::OP_GEMM : pick(abi::OP_MAX_POOL, abi::OP_AVG_POOL);
      while (!draw(op, i, batch, layers[i])) {
      }
    }
    const bool illegal = random_.percent(20);
    if (illegal && random_.percent(60)) {
      Layer& l = layers[random_.below(count)];
      l.desc[random_.below(abi::DESC_WORDS)] ^= 1u << random_.below(32);
    } else if (illegal && random_.percent(50)) {
      layers[random_.below(count)].fbcb ^= 1u << random_.below(28);
    }
    for (unsigned i = 0; i < count; i++) {
      std::memcpy(&memory[kDesc + (first + i) * abi::DESC_BYTES], layers[i].desc, abi::DESC_BYTES);
      write(abi::REG_FBCB_ADDR, (first + i) << abi::REG_FBCB_ADDR_LAYER_LSB | (batch - 1));
      write(abi::REG_FBCB_DATA, layers[i].fbcb);
    }
    static_assert(kDesc + abi::L_MAX * abi::DESC_BYTES <= kWeights, "descriptors fit");

    unsigned slots[kSlotCount];
    for (unsigned i = 0; i < kSlotCount; i++) slots[i] = i;
    for (unsigned i = 0; i < abi::B_MAX; i++) {
      std::swap(slots[i], slots[random_.range(i, kSlotCount - 1)]);
      write(abi::REG_SLOT_TABLE + 4 * i, illegal && random_.percent(5) ? pick(0, 63) : slots[i]);
    }
    const auto base = [&](uint32_t low, uint64_t offset) {
      write(low, static_cast<uint32_t>(kBase + offset));
      write(low + 4, static_cast<uint32_t>((kBase + offset) >> 32));
    };
    base(abi::REG_DESC_BASE_LO, kDesc);
    base(abi::REG_WEIGHT_BASE_LO, kWeights);
    base(abi::REG_SLOT_BASE_LO, kSlots);
    write(abi::REG_SLOT_STRIDE, kStride);
    write(abi::REG_N_SLOT, kSlotCount);
    const unsigned last = illegal && random_.percent(5) ? pick(0, 255) : first + count - 1;
    write(abi::REG_LAYERS, first << abi::REG_LAYERS_FIRST_LSB | last << abi::REG_LAYERS_LAST_LSB);
    write(abi::REG_BATCH, illegal && random_.percent(5) ? pick(0, 15) : batch);
    write(abi::REG_IRQ_ENABLE, 3);

    bool lost = false;
    if (random_.percent(15)) {
      sluice::Fault f;
      f.kind = static_cast<sluice::FaultKind>(pick(1, 4));
      f.direction = static_cast<sluice::FaultDirection>(pick(0, 2));
      f.first = pick(1, 30);
      f.count = pick(1, 2);
      f.beat = static_cast<uint8_t>(pick(0, 3));
      f.delay = pick(1, 500);
      pair_.dram().add_fault(f);
      lost = f.kind == sluice::FaultKind::kNever;
    }
    // a watchdog for every start that may hang; sometimes so short that it expires with a slow memory
    write(abi::REG_WATCHDOG, random_.percent(5) ? pick(20, 200) : 3000);
    write(abi::REG_IRQ_STATUS, 3);
    if (random_.percent(20)) write(abi::REG_CTRL, abi::REG_CTRL_CLEAR_COUNTERS_MASK);
    const uint64_t macs = counter(abi::CNT_MACS), written = counter(abi::CNT_BYTES_WRITTEN);

    write(abi::REG_CTRL, abi::REG_CTRL_START_MASK);
    const uint64_t begin = pair_.now();
    const uint64_t reset_at = random_.percent(6) ? begin + pick(1, 4000) : begin + kStartLimit;
    const bool nosy = random_.percent(30);
    bool reset = false;
    while (read(abi::REG_STATUS).value & abi::REG_STATUS_BUSY_MASK) {
      if (!reset && pair_.now() >= reset_at) {
        write(abi::REG_CTRL, abi::REG_CTRL_SOFT_RESET_MASK);
        reset = true;
      }
      if (reset && pair_.now() >= reset_at + 10000) {
        // enough answers were lost to block every AXI ID
        hung_++;
        pair_.reset();
        return;
      }
      if (nosy && random_.percent(30)) {
        access();
      } else {
        const uint64_t quiet = random_.below(200);
        for (uint64_t i = 0; i < quiet && !pair_.out().irq; i++) pair_.cycle();
      }
    }
    const uint32_t error = read(abi::REG_ERROR).value & abi::REG_ERROR_CODE_MASK;
    read(abi::REG_ERROR_ADDR);
    read(abi::REG_IRQ_STATUS);
    counters();
    ended_[std::min<size_t>(error, std::size(ended_) - 1)]++;
    if (error == 0) {
      for (const Layer& l : layers) layers_[std::min<uint32_t>(l.op, 2)]++;
      macs_ += counter(abi::CNT_MACS) - macs;
      written_ += counter(abi::CNT_BYTES_WRITTEN) - written;
    }
    write(abi::REG_IRQ_STATUS, 3);
    // an answer that never comes blocks an AXI ID until a hard reset
    if (lost || random_.percent(5)) pair_.reset();
  }

  Random random_;
  Pair pair_;
  Build build_ = {};
  uint64_t accesses_ = 0, slverr_ = 0, hung_ = 0, macs_ = 0, written_ = 0;
  uint64_t ended_[std::size(abi::ERR_NAMES)] = {}, layers_[3] = {};
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  return Traffic(args.seed).run(args.n ? args.n : 20);
}
