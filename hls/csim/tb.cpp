// tb.cpp: the test bench of the vendor's C-simulation and co-simulation. Plays a file of test vectors
// (sim/VECTORS.md, base 0, at most COSIM_BEATS beats of memory) on the kernel behind the register model.
// Status 0 if all records match; otherwise the first difference is printed.
//
// Every port of the kernel has its own memory, as in the vendor's co-simulation. They are filled before a start, and
// results are read from gmem_o's after it. So a layer cannot read the results of an earlier layer of the same start:
// vectors must have one start per layer (dse vectors --apart).
#include <cstdio>
#include <vector>

#include "registers.hpp"
#include "vectors.hpp"

namespace {

class Bench : public sluice::Kernel {
 public:
  Bench() : written_(npu::COSIM_BEATS, npu::beat_t(0)), bytes_(std::size_t{npu::COSIM_BEATS} * npu::AXI_BYTES, 0) {
    window_ = {bytes_.data(), 0, bytes_.size()};
  }
  const sluice::KernelInfo &info() const override { return info_; }
  const sluice::Window &window() const override { return window_; }
  void reset() override { registers_.reset(); }
  sluice::RegisterAnswer read(uint32_t offset) override {
    sluice::RegisterAnswer a;
    a.resp = registers_.read(offset, a.value) ? sluice::kRespOkay : sluice::kRespSlverr;
    return a;
  }
  sluice::RegisterAnswer write(uint32_t offset, uint32_t value) override {
    sluice::RegisterAnswer a;
    a.resp = registers_.write(offset, value) ? sluice::kRespOkay : sluice::kRespSlverr;
    return a;
  }
  // The kernel's memories are arrays of beats, which co-simulation can pass; the vectors' are bytes.
  uint64_t run(uint64_t cycles, bool) override {
    registers_.advance(cycles);
    if (!registers_.due()) return cycles;
    several_ = several_ || registers_.layers() > 1;
    for (std::size_t i = 0; i < written_.size(); i++)
      for (int b = 0; b < npu::AXI_BYTES; b++) written_[i].range(8 * b + 7, 8 * b) = bytes_[i * npu::AXI_BYTES + b];
    activations_ = weights_ = residuals_ = written_;
    registers_.end(registers_.start(activations_.data(), weights_.data(), residuals_.data(), written_.data()));
    for (std::size_t i = 0; i < written_.size(); i++)
      for (int b = 0; b < npu::AXI_BYTES; b++)
        bytes_[i * npu::AXI_BYTES + b] = static_cast<uint8_t>(written_[i].range(8 * b + 7, 8 * b).to_uint());
    return cycles;
  }
  bool irq() const override { return registers_.irq(); }
  uint64_t cycles() const override { return registers_.cycles(); }
  void set_timing(const sluice::MemoryTiming &) override {}
  void add_fault(const sluice::Fault &) override {}
  void clear_faults() override {}
  sluice::PortStats stats(unsigned) const override { return sluice::PortStats(); }
  void trace(bool) override {}
  // Whether a start had more than one layer.
  bool several() const { return several_; }

 private:
  std::vector<npu::beat_t> activations_, weights_, residuals_, written_;
  std::vector<uint8_t> bytes_;
  sluice::Window window_;
  sluice::KernelInfo info_;
  csim::Registers registers_;
  bool several_ = false;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tb VECTORS\n");
    return 2;
  }
  Bench bench;
  try {
    const std::vector<uint8_t> file = sluice::vectors::read_file(argv[1]);
    const sluice::vectors::Tally t = sluice::vectors::play(sluice::vectors::parse(file), bench);
    std::printf("%s: %llu starts: ok\n", argv[1], static_cast<unsigned long long>(t.runs));
    return 0;
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s: %s\n", argv[1], e.what());
    if (bench.several())
      std::fprintf(stderr, "%s: starts with several layers, of which the later do not see what the earlier write here: use dse vectors --apart\n", argv[1]);
    return 1;
  }
}
