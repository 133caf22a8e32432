// kernel.hpp: the interface of an NPU that the protocol's server drives. Implementations are the
// Verilated RTL (rtl_kernel.hpp) and others with the same register map (HLS C-simulation).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "dram.hpp"

namespace sluice {

// Codes of AXI responses.
constexpr uint8_t kRespOkay = 0, kRespSlverr = 2, kRespDecerr = 3;

struct KernelInfo {
  std::string kind;  // "rtl"; "shell": the RTL around the HLS kernel; "hls": its C-simulation. At most 8 characters
  uint64_t abi_hash = 0;
  uint64_t design_hash = 0;
  uint16_t ports = 0;
  uint16_t axi_bytes = 0;
  bool can_trace = false;
};

struct RegisterAnswer {
  uint32_t value = 0;
  uint8_t resp = kRespOkay;
};

// The register bus did not answer, or the kernel does not support an operation.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Methods marked so throw KernelError; arguments out of range throw std::invalid_argument.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const KernelInfo& info() const = 0;
  virtual const Window& window() const = 0;

  // Hard reset: registers, everything in flight and the clock count go back to power-on.
  virtual void reset() = 0;
  // One bus transaction; takes clock cycles (sim/PROTOCOL.md says how many). Throws.
  virtual RegisterAnswer read(uint32_t offset) = 0;
  virtual RegisterAnswer write(uint32_t offset, uint32_t value) = 0;
  // Advances the clock by at most `cycles`. With `until_irq` it stops as soon as the interrupt line
  // is high, even before the first cycle. Returns the number of cycles advanced.
  virtual uint64_t run(uint64_t cycles, bool until_irq) = 0;
  virtual bool irq() const = 0;
  virtual uint64_t cycles() const = 0;  // since the last hard reset

  // The kernel's memory. These methods throw if the kernel does not model it.
  virtual void set_timing(const MemoryTiming& timing) = 0;
  virtual void add_fault(const Fault& fault) = 0;
  virtual void clear_faults() = 0;
  virtual PortStats stats(unsigned port) const = 0;

  virtual void trace(bool on) = 0;  // throws if this build cannot write traces
};

}  // namespace sluice
