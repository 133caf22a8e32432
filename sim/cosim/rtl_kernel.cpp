// The Verilated npu_top behind the Kernel interface.
//
// Steps of a cycle: the memory's and the register bus's outputs are applied; the clock rises and the
// model is evaluated; the memory is stepped with the ports' values before that edge; the clock falls
// and the model is evaluated with the new inputs. So the model is correct even if npu_top has paths
// from its inputs to its outputs. N_AXI and AXI_BYTES come from the configuration. SLUICE_KIND
// (Info::kind) comes from sim/build.sh, for a top with another kernel; "hls" is only the C-simulation.
#include "cosim/rtl_kernel.hpp"

#include <string_view>
#include <vector>

#include "Vnpu_top.h"
#include "bits.hpp"
#include "sluice_abi.hpp"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

#ifndef SLUICE_KIND
#define SLUICE_KIND "rtl"
#endif

namespace sluice {
namespace {

constexpr std::string_view kKind = SLUICE_KIND;
static_assert(kKind == "rtl" || kKind == "shell", "SLUICE_KIND: expected rtl or shell");
constexpr unsigned kPorts = N_AXI;
constexpr unsigned kBytes = AXI_BYTES;
constexpr unsigned kResetCycles = 16;
constexpr unsigned kBusLimit = 1000;  // cycles after which a register access fails

class RtlKernel : public Kernel {
 public:
  RtlKernel(const Window& window, const std::string& trace_file)
      : window_(window), dram_(kPorts, window), trace_file_(trace_file) {
    context_.randReset(0);
#if VM_TRACE
    context_.traceEverOn(!trace_file.empty());
#endif
    top_ = std::make_unique<Vnpu_top>(&context_);
    top_->clk_i = 0;
    reset();
    info_.kind = kKind;
    info_.ports = kPorts;
    info_.axi_bytes = kBytes;
#if VM_TRACE
    info_.can_trace = !trace_file.empty();
#endif
    info_.abi_hash = read_pair(sluice_abi::REG_ABI_HASH0, sluice_abi::REG_ABI_HASH1);
    info_.design_hash = read_pair(sluice_abi::REG_DESIGN_HASH0, sluice_abi::REG_DESIGN_HASH1);
    reset();
  }
  ~RtlKernel() override {
#if VM_TRACE
    if (fst_) fst_->close();
#endif
    top_->final();
  }

  const KernelInfo& info() const override { return info_; }
  const Window& window() const override { return window_; }

  void reset() override {
    dram_.reset();
    top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_arvalid = 0;
    top_->s_axil_bready = top_->s_axil_rready = 0;
    top_->s_axil_wstrb = 0xF;
    top_->rst_ni = 0;
    drive();
    settle();
    for (unsigned i = 0; i < kResetCycles; i++) cycle();
    dram_.reset();
    drive();
    top_->rst_ni = 1;
    settle();
    cycles_ = 0;
  }

  RegisterAnswer read(uint32_t offset) override {
    check(offset);
    top_->s_axil_araddr = static_cast<uint16_t>(offset);
    top_->s_axil_arvalid = 1;
    top_->s_axil_rready = 1;
    for (unsigned i = 0; i < kBusLimit; i++) {
      settle();
      const bool taken = top_->s_axil_arvalid && top_->s_axil_arready;
      const bool answered = top_->s_axil_rvalid;
      RegisterAnswer a;
      a.value = top_->s_axil_rdata;
      a.resp = top_->s_axil_rresp;
      cycle();
      if (taken) top_->s_axil_arvalid = 0;
      if (answered) {
        top_->s_axil_rready = 0;
        return a;
      }
    }
    top_->s_axil_arvalid = top_->s_axil_rready = 0;
    throw KernelError("register read is not answered");
  }

  RegisterAnswer write(uint32_t offset, uint32_t value) override {
    check(offset);
    top_->s_axil_awaddr = static_cast<uint16_t>(offset);
    top_->s_axil_wdata = value;
    top_->s_axil_awvalid = top_->s_axil_wvalid = 1;
    top_->s_axil_bready = 1;
    for (unsigned i = 0; i < kBusLimit; i++) {
      settle();
      const bool address = top_->s_axil_awvalid && top_->s_axil_awready;
      const bool data = top_->s_axil_wvalid && top_->s_axil_wready;
      const bool answered = top_->s_axil_bvalid;
      RegisterAnswer a;
      a.resp = top_->s_axil_bresp;
      cycle();
      if (address) top_->s_axil_awvalid = 0;
      if (data) top_->s_axil_wvalid = 0;
      if (answered) {
        top_->s_axil_bready = 0;
        return a;
      }
    }
    top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_bready = 0;
    throw KernelError("register write is not answered");
  }

  uint64_t run(uint64_t cycles, bool until_irq) override {
    uint64_t done = 0;
    while (done < cycles && !(until_irq && top_->irq_o)) {
      cycle();
      done++;
    }
    return done;
  }
  bool irq() const override { return top_->irq_o; }
  uint64_t cycles() const override { return cycles_; }

  void set_timing(const MemoryTiming& timing) override { dram_.set_timing(timing); }
  void add_fault(const Fault& fault) override { dram_.add_fault(fault); }
  void clear_faults() override { dram_.clear_faults(); }
  PortStats stats(unsigned port) const override {
    if (port >= kPorts) throw std::invalid_argument("there is no such port");
    return dram_.stats(port);
  }

  void trace(bool on) override {
#if VM_TRACE
    if (trace_file_.empty()) throw KernelError("no trace file was named (--trace FILE)");
    if (on && !fst_) {
      fst_ = std::make_unique<VerilatedFstC>();
      top_->trace(fst_.get(), 99);
      fst_->open(trace_file_.c_str());
      if (!fst_->isOpen()) {
        fst_.reset();
        throw KernelError("cannot write the trace " + trace_file_);
      }
    }
    if (!on && fst_) fst_->flush();
    tracing_ = on;
#else
    (void)on;
    throw KernelError("does not trace: sim/build.sh --trace");
#endif
  }

 private:
  static void check(uint32_t offset) {
    if (offset > 0xFFC || offset % 4) throw std::invalid_argument("offset is no register's");
  }
  uint64_t read_pair(uint32_t low, uint32_t high) {
    const uint64_t l = read(low).value;
    return l | uint64_t{read(high).value} << 32;
  }

  // Evaluates changed inputs while the clock is low.
  void settle() { top_->eval(); }

  void cycle() {
    sample();
    top_->clk_i = 1;
    top_->eval();
#if VM_TRACE
    if (tracing_) fst_->dump(context_.time());
    context_.timeInc(1);
#endif
    dram_.step(in_);
    drive();
    top_->clk_i = 0;
    top_->eval();
#if VM_TRACE
    if (tracing_) fst_->dump(context_.time());
    context_.timeInc(1);
#endif
    cycles_++;
  }

  // Reads the ports before the edge.
  void sample() {
    for (unsigned p = 0; p < kPorts; p++) {
      MasterOut<kBytes>& m = in_[p];
      m.arvalid = get_field(top_->m_axi_arvalid, p, 1);
      m.awvalid = get_field(top_->m_axi_awvalid, p, 1);
      m.wvalid = get_field(top_->m_axi_wvalid, p, 1);
      m.rready = get_field(top_->m_axi_rready, p, 1);
      m.bready = get_field(top_->m_axi_bready, p, 1);
      if (m.arvalid) {
        m.araddr = get_bytes<5>(top_->m_axi_araddr, p);
        m.arlen = static_cast<uint8_t>(get_bytes<1>(top_->m_axi_arlen, p));
        m.arid = static_cast<uint8_t>(get_field(top_->m_axi_arid, p, 2));
      }
      if (m.awvalid) {
        m.awaddr = get_bytes<5>(top_->m_axi_awaddr, p);
        m.awlen = static_cast<uint8_t>(get_bytes<1>(top_->m_axi_awlen, p));
        m.awid = static_cast<uint8_t>(get_field(top_->m_axi_awid, p, 2));
      }
      if (m.wvalid) {
        std::memcpy(m.wdata, reinterpret_cast<const char*>(&top_->m_axi_wdata) + p * kBytes,
                    kBytes);
        m.wstrb = static_cast<uint32_t>(get_bytes<kBytes / 8>(top_->m_axi_wstrb, p));
        m.wlast = get_field(top_->m_axi_wlast, p, 1);
      }
    }
  }

  // Applies the memory's answers to the ports.
  void drive() {
    for (unsigned p = 0; p < kPorts; p++) {
      const SlaveOut<kBytes>& s = dram_.out(p);
      set_field(top_->m_axi_arready, p, 1, s.arready);
      set_field(top_->m_axi_awready, p, 1, s.awready);
      set_field(top_->m_axi_wready, p, 1, s.wready);
      set_field(top_->m_axi_rvalid, p, 1, s.rvalid);
      set_field(top_->m_axi_bvalid, p, 1, s.bvalid);
      if (s.rvalid) {
        std::memcpy(reinterpret_cast<char*>(&top_->m_axi_rdata) + p * kBytes, s.rdata, kBytes);
        set_field(top_->m_axi_rid, p, 2, s.rid);
        set_field(top_->m_axi_rresp, p, 2, s.rresp);
        set_field(top_->m_axi_rlast, p, 1, s.rlast);
      }
      if (s.bvalid) {
        set_field(top_->m_axi_bid, p, 2, s.bid);
        set_field(top_->m_axi_bresp, p, 2, s.bresp);
      }
    }
  }

  VerilatedContext context_;
  Window window_;
  Dram<kBytes> dram_;
  std::string trace_file_;
  KernelInfo info_;
  std::unique_ptr<Vnpu_top> top_;
  MasterOut<kBytes> in_[kPorts] = {};
  uint64_t cycles_ = 0;
#if VM_TRACE
  std::unique_ptr<VerilatedFstC> fst_;
  bool tracing_ = false;
#endif
};

}  // namespace

std::unique_ptr<Kernel> make_rtl_kernel(const Window& window, const std::string& trace_file) {
  return std::make_unique<RtlKernel>(window, trace_file);
}

}  // namespace sluice
