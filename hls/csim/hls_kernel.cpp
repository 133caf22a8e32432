// hls_kernel.cpp: the HLS kernel as a Kernel of sim/cosim, so that npu_cosim serves drivers and plays vectors
// with it. Functional only: the RTL's results, without meaningful cycles, memory timing and faults. The kernel's
// pointers are indexed from address 0 of 2^ADDR_BITS bytes. This address space is reserved, and the DRAM window
// is mapped in its place. An access outside the window causes a page fault, which is answered like a bus: DECERR.
#include <signal.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "cosim/rtl_kernel.hpp"
#include "registers.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUICE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SLUICE_TSAN 1
#endif

namespace sluice {
namespace {

// The address space of the one kernel of this process, for the signal handler.
struct Space {
#if SLUICE_TSAN
  // with -fsanitize=thread a program has little more than 2^40 bytes of addresses
  static constexpr std::size_t kBytes = std::size_t{1} << 38;
#else
  // a burst of weights may begin below the last address and go beyond it
  static constexpr std::size_t kBytes = (std::size_t{1} << sluice_abi::ADDR_BITS) + (std::size_t{1} << 33);
#endif
  static constexpr std::size_t kChunk = std::size_t{1} << 21;
  static constexpr std::size_t kMaxHoles = 1 << 12;
  char *begin = nullptr;
  std::size_t low = 0, high = 0;  // the window
  std::atomic<bool> failed{false}, wrote{false};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::size_t> holes{0};
  std::size_t at[kMaxHoles];
};
Space space;

void on_fault(int, siginfo_t *info, void *context) {
  char *p = static_cast<char *>(info->si_addr);
  const std::size_t hole = space.holes.fetch_add(1);
  if (p < space.begin || p >= space.begin + Space::kBytes || hole >= Space::kMaxHoles) {
    signal(SIGSEGV, SIG_DFL);
    return;  // the repeated instruction ends the process
  }
  bool write = false;
#if defined(__x86_64__)
  write = (static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
#endif
  const auto offset = static_cast<std::size_t>(p - space.begin);
  if (!space.failed.exchange(true)) {
    space.wrote = write;
    space.address = offset;
  }
  // a chunk of zeros, without the window
  std::size_t from = offset & ~(Space::kChunk - 1), to = from + Space::kChunk;
  if (offset >= space.high && from < space.high) from = space.high;
  if (offset < space.low && to > space.low) to = space.low;
  space.at[hole] = from;
  ::mmap(space.begin + from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1, 0);
}

class HlsKernel : public Kernel {
 public:
  explicit HlsKernel(const Window &window) : window_(window) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (window.base % page != 0)
      throw std::runtime_error("--base: the HLS kernel needs a multiple of " + std::to_string(page));
    if (window.base + window.size > std::min<std::uint64_t>(Space::kBytes, std::uint64_t{1} << sluice_abi::ADDR_BITS))
      throw std::runtime_error("--base: memory ends beyond the addresses there are");
    void *all = ::mmap(nullptr, Space::kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::runtime_error(std::string("reserve address space: ") + std::strerror(errno));
    space.begin = static_cast<char *>(all);
    space.low = window.base;
    space.high = window.base + (window.size + page - 1) / page * page;
    // a length of zero maps the same shared pages a second time
    if (::mremap(window.data, 0, window.size, MREMAP_MAYMOVE | MREMAP_FIXED, space.begin + window.base) == MAP_FAILED)
      throw std::runtime_error(std::string("map DRAM: ") + std::strerror(errno));
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, nullptr);
    info_.kind = "hls";
    info_.ports = npu::N_AXI;
    info_.axi_bytes = npu::AXI_BYTES;
    info_.abi_hash = sluice_abi::ABI_HASH;
    info_.design_hash = npu::DESIGN_HASH;
  }
  ~HlsKernel() override { ::munmap(space.begin, Space::kBytes); }

  const KernelInfo &info() const override { return info_; }
  const Window &window() const override { return window_; }
  void reset() override { registers_.reset(); }

  RegisterAnswer read(uint32_t offset) override {
    check(offset);
    RegisterAnswer a;
    a.resp = registers_.read(offset, a.value) ? kRespOkay : kRespSlverr;
    finish();
    return a;
  }
  RegisterAnswer write(uint32_t offset, uint32_t value) override {
    check(offset);
    RegisterAnswer a;
    a.resp = registers_.write(offset, value) ? kRespOkay : kRespSlverr;
    finish();
    return a;
  }
  uint64_t run(uint64_t cycles, bool until_irq) override {
    uint64_t done = 0;
    while (done < cycles && !(until_irq && registers_.irq())) {
      const uint64_t n = registers_.busy() ? 1 : cycles - done;  // nothing else changes by itself
      registers_.advance(n);
      done += n;
      finish();
    }
    return done;
  }
  bool irq() const override { return registers_.irq(); }
  uint64_t cycles() const override { return registers_.cycles(); }

  void set_timing(const MemoryTiming &) override {}  // no timing is modelled
  void add_fault(const Fault &) override { throw KernelError("the HLS kernel's memory has no faults"); }
  void clear_faults() override {}
  PortStats stats(unsigned) const override { return PortStats(); }  // there are no bursts
  void trace(bool) override { throw KernelError("the HLS kernel does not trace"); }

 private:
  static void check(uint32_t offset) {
    if (offset > 0xFFC || offset % 4) throw std::invalid_argument("offset is no register's");
  }

  // Ends a start whose time has elapsed.
  void finish() {
    if (!registers_.due()) return;
    space.failed = space.wrote = false;
    space.holes = 0;
    auto *dram = reinterpret_cast<npu::beat_t *>(space.begin);
    csim::Ending e = registers_.start(dram, dram, dram, dram);
    if (space.failed) {
      e = csim::Ending();
      e.code = space.wrote ? sluice_abi::ERR_WRITE_DECERR : sluice_abi::ERR_READ_DECERR;
      e.address = static_cast<uint32_t>(space.address & ~std::uint64_t{npu::AXI_BYTES - 1});
      for (std::size_t i = 0; i < space.holes; i++) {
        const std::size_t from = space.at[i];
        std::size_t to = (from & ~(Space::kChunk - 1)) + Space::kChunk;
        if (from < space.low && to > space.low) to = space.low;
        ::mmap(space.begin + from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
      }
    }
    registers_.end(e);
  }

  Window window_;
  KernelInfo info_;
  csim::Registers registers_;
};

}  // namespace

std::unique_ptr<Kernel> make_hls_kernel(const Window &window, const std::string &trace_file) {
  if (!trace_file.empty()) throw std::runtime_error("--trace: the HLS kernel does not trace");
  return std::make_unique<HlsKernel>(window);
}

}  // namespace sluice
