// shell.cpp: the kernel's C++ for the ports of hls/shell/sluice_npu.sv. SLUICE_STANDIN_BASE is the address of its memory
// (default 0). With SLUICE_STANDIN_HANGS set it never writes results.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "npu.hpp"

namespace {

using Memory = std::vector<npu::beat_t>;
Memory before(npu::COSIM_BEATS + 64, npu::beat_t(0)), memory = before;  // a run may ask beyond
std::vector<npu::entry_t> entries(sluice_abi::L_MAX *sluice_abi::B_MAX, npu::entry_t(0));

std::uint64_t base() {
  const char *text = std::getenv("SLUICE_STANDIN_BASE");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
}

}  // namespace

extern "C" {

unsigned long long standin_base() { return base(); }
unsigned standin_hangs() { return std::getenv("SLUICE_STANDIN_HANGS") != nullptr ? 1 : 0; }
void standin_fbcb(unsigned index, unsigned entry) { entries.at(index) = entry; }
void standin_put(unsigned beat, const unsigned *data) {
  npu::beat_t b = 0;
  for (int i = 0; i < npu::AXI_BYTES / 4; i++) b.range(32 * i + 31, 32 * i) = data[i];
  memory.at(beat) = before.at(beat) = b;
}
void standin_run(unsigned char first, unsigned char last, unsigned char b_act, unsigned long long desc_base,
                 unsigned long long weight_base, unsigned long long slot_base, unsigned slot_stride, unsigned char n_slot,
                 unsigned long long slot_table, unsigned char *code, unsigned char *layer, unsigned *address) {
  npu::err_code_t c = 0;
  npu::err_layer_t l = 0;
  npu::err_addr_t a = 0;
  npu::beat_t *at = memory.data();
  const std::uint64_t off = base();
  sluice_npu(first, last, b_act, desc_base - off, weight_base - off, slot_base - off, slot_stride, n_slot, slot_table,
             entries.data(), at, at, at, at, c, l, a);
  *code = static_cast<unsigned char>(c.to_uint());
  *layer = static_cast<unsigned char>(l.to_uint());
  *address = a.to_uint();
}
// The first changed beat of the next burst; COSIM_BEATS if there is none.
unsigned standin_next(unsigned from, unsigned burst) {
  for (unsigned b = from; b < static_cast<unsigned>(npu::COSIM_BEATS); b += burst)
    for (unsigned i = 0; i < burst; i++)
      if (memory.at(b + i) != before.at(b + i)) return b;
  return npu::COSIM_BEATS;
}
void standin_get(unsigned beat, unsigned *data) {
  for (int i = 0; i < npu::AXI_BYTES / 4; i++) data[i] = memory.at(beat).range(32 * i + 31, 32 * i).to_uint();
}

}  // extern "C"
