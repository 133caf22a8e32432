// registers.hpp: the register block (hw/rtl/npu_regs.sv) for the kernel in C-simulation, built from
// the generated register table. Its times are nominal: an access takes 3 cycles as in the RTL, a
// start always kNominal.
#ifndef SLUICE_CSIM_REGISTERS_HPP
#define SLUICE_CSIM_REGISTERS_HPP

#include <array>
#include <cstdint>

#include "npu.hpp"

namespace csim {

constexpr std::uint64_t kAccess = 3;    // cycles of a register access
constexpr std::uint64_t kNominal = 64;  // cycles of a start

struct Ending {
  std::uint32_t code = 0, layer = 0, port = 0, address = 0;
};

class Registers {
 public:
  Registers() { reset(); }

  void reset() {
    values_.fill(0);
    counters_.fill(0);
    busy_ = done_ = error_ = false;
    latch_ = 0;
    cycles_ = 0;
    using namespace sluice_abi;
    set(REG_ID, ID);
    set(REG_VERSION, ABI_VERSION);
    set(REG_ABI_HASH0, static_cast<std::uint32_t>(ABI_HASH));
    set(REG_ABI_HASH1, static_cast<std::uint32_t>(ABI_HASH >> 32));
    set(REG_DESIGN_HASH0, static_cast<std::uint32_t>(npu::DESIGN_HASH));
    set(REG_DESIGN_HASH1, static_cast<std::uint32_t>(npu::DESIGN_HASH >> 32));
    set(REG_BUILD_TR, npu::T_R);
    set(REG_BUILD_TP, npu::T_P);
    set(REG_BUILD_TC, npu::T_C);
    set(REG_BUILD_AXI, npu::N_AXI << REG_BUILD_AXI_N_AXI_LSB | npu::AXI_BYTES << REG_BUILD_AXI_AXI_BYTES_LSB |
                           npu::MAX_BURST << REG_BUILD_AXI_MAX_BURST_LSB | npu::STUB << REG_BUILD_AXI_STUB_LSB |
                           npu::STACK << REG_BUILD_AXI_STACK_LSB | npu::FLUID << REG_BUILD_AXI_FLUID_LSB |
                           npu::POST << REG_BUILD_AXI_POST_LSB | npu::DEPTHWISE << REG_BUILD_AXI_DEPTHWISE_LSB |
                           npu::INT8 << REG_BUILD_AXI_INT8_LSB);
    set(REG_BUILD_ABUF, npu::ABUF);
    set(REG_BUILD_WRING, npu::WRING_BEATS);
    set(REG_BUILD_CMAX, npu::C_MAX);
  }

  // Both return false if the bus answers SLVERR; then nothing has changed.
  bool read(std::uint32_t offset, std::uint32_t &value) {
    const bool taken = look(offset, value);
    if (!taken) values_[sluice_abi::REG_ACCESS / 4] |= sluice_abi::REG_ACCESS_REFUSED_MASK;
    return taken;
  }
  bool write(std::uint32_t offset, std::uint32_t value) {
    const bool taken = put(offset, value);
    if (!taken) values_[sluice_abi::REG_ACCESS / 4] |= sluice_abi::REG_ACCESS_REFUSED_MASK;
    return taken;
  }

  // Whether the time of a start has elapsed; then the caller runs the kernel and calls end().
  bool due() const { return busy_ && cycles_ >= began_ + kNominal; }
  bool busy() const { return busy_; }
  bool irq() const { return (get(sluice_abi::REG_IRQ_STATUS) & get(sluice_abi::REG_IRQ_ENABLE)) != 0; }
  std::uint64_t cycles() const { return cycles_; }
  void advance(std::uint64_t n) { cycles_ += n; }

  // The layers that a start would run.
  std::uint32_t layers() const {
    using namespace sluice_abi;
    return 1 + field(REG_LAYERS, REG_LAYERS_LAST_MASK, REG_LAYERS_LAST_LSB) -
           field(REG_LAYERS, REG_LAYERS_FIRST_MASK, REG_LAYERS_FIRST_LSB);
  }

  // Calls the kernel with the values of the registers; a, w, r and o are the memories at its ports.
  Ending start(const npu::beat_t *a, const npu::beat_t *w, const npu::beat_t *r, npu::beat_t *o) const {
    using namespace sluice_abi;
    npu::table_t table = 0;
    for (std::uint32_t i = 0; i < REG_SLOT_TABLE_COUNT; i++)
      table.range(npu::SLOT_BITS * (i + 1) - 1, npu::SLOT_BITS * i) = get(REG_SLOT_TABLE + 4 * i);
    npu::err_code_t code = 0;
    npu::err_layer_t layer = 0;
    npu::err_addr_t address = 0;
    sluice_npu(field(REG_LAYERS, REG_LAYERS_FIRST_MASK, REG_LAYERS_FIRST_LSB),
               field(REG_LAYERS, REG_LAYERS_LAST_MASK, REG_LAYERS_LAST_LSB),
               field(REG_BATCH, REG_BATCH_B_ACT_MASK, REG_BATCH_B_ACT_LSB), pair(REG_DESC_BASE_LO, REG_DESC_BASE_HI),
               pair(REG_WEIGHT_BASE_LO, REG_WEIGHT_BASE_HI), pair(REG_SLOT_BASE_LO, REG_SLOT_BASE_HI), get(REG_SLOT_STRIDE),
               get(REG_N_SLOT), table, fbcb_.data(), a, w, r, o, code, layer, address);
    Ending e;
    e.code = code.to_uint();
    e.layer = layer.to_uint();
    e.address = address.to_uint();
    return e;
  }

  void end(const Ending &e) {
    using namespace sluice_abi;
    busy_ = false;
    done_ = e.code == ERR_NONE;
    error_ = !done_;
    set(REG_ERROR, e.code << REG_ERROR_CODE_LSB | e.layer << REG_ERROR_LAYER_LSB | e.port << REG_ERROR_PORT_LSB);
    set(REG_ERROR_ADDR, e.address);
    values_[REG_IRQ_STATUS / 4] |= done_ ? REG_IRQ_STATUS_DONE_MASK : REG_IRQ_STATUS_ERROR_MASK;
    counters_[CNT_INTERRUPTS]++;
  }

 private:
  bool look(std::uint32_t offset, std::uint32_t &value) {
    using namespace sluice_abi;
    advance(kAccess);
    value = 0;
    if (offset >= CNT_BASE && offset < CNT_BASE + 8 * CNT_COUNT) {
      const std::uint64_t c = counters_[(offset - CNT_BASE) / 8];
      value = offset % 8 == 0 ? static_cast<std::uint32_t>(c) : latch_;
      if (offset % 8 == 0) latch_ = static_cast<std::uint32_t>(c >> 32);
      return true;
    }
    const Register *r = find(offset);
    if (r == nullptr) return false;
    if (!r->readable) return true;
    if (offset == REG_TIME_LO) {
      set(REG_TIME_LO, static_cast<std::uint32_t>(cycles_));
      set(REG_TIME_HI, static_cast<std::uint32_t>(cycles_ >> 32));
    }
    value = values_[offset / 4];
    if (offset == REG_STATUS)
      value = (busy_ ? REG_STATUS_BUSY_MASK : 0) | (done_ ? REG_STATUS_DONE_MASK : 0) | (error_ ? REG_STATUS_ERROR_MASK : 0);
    return true;
  }

  bool put(std::uint32_t offset, std::uint32_t value) {
    using namespace sluice_abi;
    advance(kAccess);
    const Register *r = find(offset);
    if (r == nullptr || !r->writable || (busy_ && !r->busy_ok) || (value & ~r->mask) != 0) return false;
    switch (offset) {
      case REG_CTRL: {
        const bool start = (value & REG_CTRL_START_MASK) != 0;
        if (start && (busy_ || value != REG_CTRL_START_MASK)) return false;
        if ((value & REG_CTRL_CLEAR_COUNTERS_MASK) != 0) {
          if (busy_) return false;
          counters_.fill(0);
        }
        if ((value & REG_CTRL_SOFT_RESET_MASK) != 0 && busy_) {
          Ending e;
          e.code = ERR_SOFT_RESET;
          e.layer = field(REG_LAYERS, REG_LAYERS_FIRST_MASK, REG_LAYERS_FIRST_LSB);
          end(e);
        }
        if (start) {
          busy_ = true;
          done_ = error_ = false;
          set(REG_ERROR, 0);
          set(REG_ERROR_ADDR, 0);
          began_ = cycles_;
          counters_[CNT_STARTS]++;
        }
        return true;
      }
      case REG_FBCB_DATA:
        if ((value & FBCB_RSVD_MASK) != 0) return false;
        fbcb_[get(REG_FBCB_ADDR)] = value;
        set(REG_FBCB_ADDR, (get(REG_FBCB_ADDR) + 1) & REG_FBCB_ADDR_MASK);
        return true;
      default:
        if (r->one_to_clear) {
          values_[offset / 4] &= ~value;
        } else {
          values_[offset / 4] = value;
        }
        return true;
    }
  }

  static const sluice_abi::Register *find(std::uint32_t offset) {
    for (const sluice_abi::Register &r : sluice_abi::REGISTERS)
      if (offset >= r.offset && offset < r.offset + 4 * r.count && offset % 4 == 0) return &r;
    return nullptr;
  }
  std::uint32_t get(std::uint32_t offset) const { return values_[offset / 4]; }
  void set(std::uint32_t offset, std::uint32_t value) { values_[offset / 4] = value; }
  std::uint32_t field(std::uint32_t offset, std::uint32_t mask, std::uint32_t lsb) const {
    return (get(offset) & mask) >> lsb;
  }
  std::uint64_t pair(std::uint32_t low, std::uint32_t high) const {
    return get(low) | static_cast<std::uint64_t>(get(high)) << 32;
  }

  std::array<std::uint32_t, 1024> values_;
  std::array<std::uint64_t, sluice_abi::CNT_COUNT> counters_;
  std::array<npu::entry_t, sluice_abi::L_MAX * sluice_abi::B_MAX> fbcb_{};  // survives a reset
  bool busy_, done_, error_;
  std::uint32_t latch_;
  std::uint64_t cycles_, began_ = 0;
};

}  // namespace csim

#endif
