// layer_fetch_tb: starts of random layers, with every k and s of the build and both loop orders,
// which units take at random times. Each unit must see every layer once, in order, with its
// descriptor, FBCB entry and sample size, and slot addresses must follow the table. Then every way
// in which a start, a descriptor or an FBCB entry can be illegal: code and layer must be the
// promised ones, and nothing of that layer may be offered. Some layers keep their output on chip
// for the next one; every rule for that is broken too.
#include "Vlayer_fetch.h"
#include "bench/unit.hpp"
#include "verilated.h"

namespace {

using namespace sluice_abi;
constexpr unsigned kUnits = P_UNITS, kElems = P_NB * P_ABUF_WORDS;
#ifndef P_STACK
#define P_STACK 1
#endif
#ifndef P_FLUID
#define P_FLUID 1
#endif
#ifndef P_POST
#define P_POST 0
#endif
#ifndef P_DEPTHWISE
#define P_DEPTHWISE 0
#endif
#ifndef P_KEEP
#define P_KEEP 256
#endif

const Field& w_bytes_field(unsigned k) {
  return k == 1 ? DESC_F_W_BYTES_H : k == 2 ? DESC_F_W_BYTES_2 : DESC_F_W_BYTES_1;
}
const Field& w_offset_field(unsigned k) {
  return k == 1 ? DESC_F_W_OFFSET_H : k == 2 ? DESC_F_W_OFFSET_2 : DESC_F_W_OFFSET_1;
}

const Field& w_tile_field(unsigned k) {
  return k == 1 ? DESC_F_W_TILE_H : k == 2 ? DESC_F_W_TILE_2 : DESC_F_W_TILE_1;
}

// One channel, strides of one: only the size changed afterwards is large.
void narrow(unit::Layer& l) {
  l.in_c = l.in_pix = l.out_c = l.out_pix = l.res_pix = 1;
  l.s_h = l.s_w = 1;
  l.in_w = l.out_w = 1;
}

// An input of 30 rows and columns after two of padding, windows four apart: the ninth begins after
// the input.
void behind(unit::Layer& l, unsigned out_h, unsigned out_w) {
  narrow(l);
  l.in_h = l.in_w = 30;
  l.pad_t = l.pad_l = 2;
  l.s_h = l.s_w = 4;
  l.out_h = out_h;
  l.out_w = out_w;
}

// A tile with the given output rows and samples of an image one pixel wide.
void places(unit::Layer& l, unsigned tile_rows, unsigned s_h, unsigned k_h, unsigned tile_b) {
  narrow(l);
  l.k_w = 1;
  l.pad_t = l.pad_l = 0;
  l.in_h = 65535;
  l.out_h = l.tile_rows = tile_rows;
  l.s_h = s_h;
  l.k_h = k_h;
  l.tile_b = tile_b;
}

class Bench {
 public:
  explicit Bench(const tb::Args& args)
      : random_(args.seed), check_("layer_fetch", args.seed), dram_(random_, check_, P_AXI_BYTES) {
    dram_.word = [this](uint64_t a) -> uint16_t {
      const uint64_t k = (a - desc_base_) / 2;
      return a >= desc_base_ && k < 64 * 256 ? reinterpret_cast<const uint16_t*>(desc_)[k] : 0xDEAD;
    };
  }

  void setup(unsigned n, unsigned keep_percent = 0) {
    n_ = n;
    first_ = static_cast<unsigned>(random_.below(256 - n + 1));
    b_act_ = static_cast<unsigned>(random_.range(1, 8));
    n_slot_ = static_cast<unsigned>(random_.range(8, 64));
    stride_ = 64 * random_.range(1, 1 << 20);
    slot_base_ = 64 * random_.below(1 << 28);
    desc_base_ = 64 * random_.below(1 << 28);
    slots_.clear();
    while (slots_.size() < 8) {
      const unsigned s = static_cast<unsigned>(random_.below(n_slot_));
      if (std::find(slots_.begin(), slots_.end(), s) == slots_.end()) slots_.push_back(s);
    }
    for (unsigned i = b_act_; i < 8; i++) {
      if (random_.percent(50))
        slots_[i] = static_cast<unsigned>(random_.below(64));  // not checked
    }
    for (auto& w : desc_) {
      for (auto& x : w) x = static_cast<uint32_t>(random_.next());
    }
    for (auto& f : fbcb_) f = static_cast<uint32_t>(random_.next());
    layers_.clear();
    unit::Limits limit;
    limit.t_r = P_T_R;
    limit.abuf = kElems;
    limit.max_out_c = P_C_MAX;
    limit.t_c = P_T_C;
    limit.stack = P_STACK;
    limit.fluid = P_FLUID;
    limit.post = P_POST;
    const std::vector<unit::Layer> layers = unit::random_start(random_, limit, n, 60, keep_percent, b_act_);
    for (unsigned i = 0; i < n; i++) {
      unit::Layer l = layers[i];
      if (l.gemm()) {
        l.w_offset = WEIGHT_ALIGN * random_.below(1 << 25);
        l.w_bytes = WEIGHT_ALIGN * random_.range(1, random_.percent(50) ? 1 << 20 : P_KEEP / WEIGHT_ALIGN + 1);
        l.w_tile = WEIGHT_ALIGN * random_.range(1, random_.percent(50) ? 1 << 20 : P_KEEP / WEIGHT_ALIGN + 1);
        if (l.kept() > P_KEEP) l.order = 0;
      }
      l.bias_offset = WEIGHT_ALIGN * random_.below(1 << 25);
      put(i, l);
    }
  }
  void put(unsigned i, const unit::Layer& l) {
    if (layers_.size() <= i) layers_.resize(i + 1);
    layers_[i] = l;
    l.words(desc_[first_ + i]);
    fbcb_[8 * (first_ + i) + b_act_ - 1] = l.fbcb();
  }

  // Runs the start; code: the error expected, at layer first + bad.
  void run(unsigned code = ERR_NONE, unsigned bad = 0) {
    dut_.rst_ni = 0;
    dut_.start_i = 0;
    taken_.assign(kUnits, 0);
    dram_.ready = static_cast<unsigned>(random_.range(20, 100));
    dram_.valid = static_cast<unsigned>(random_.range(20, 100));
    dram_.latency = static_cast<unsigned>(random_.range(1, 40));
    // the table counts as it is in the cycle of the start, whatever it was before
    const std::vector<unsigned> slots = slots_;
    if (random_.percent(50)) {
      const unsigned step = static_cast<unsigned>(random_.below(2));
      for (unsigned i = 0; i < 8; i++) slots_[i] = step * i;
    }
    for (int i = 0; i < 3; i++) cycle();
    slots_ = slots;
    dut_.rst_ni = 1;
    dut_.start_i = 1;
    take_ = static_cast<unsigned>(random_.percent(30) ? 100 : random_.range(2, 100));
    expect_ = code == ERR_NONE ? n_ : bad;
    cycle();
    dut_.start_i = 0;
    unsigned waited = 0;
    const auto all = [&] {
      for (const unsigned t : taken_) {
        if (t < expect_) return false;
      }
      return true;
    };
    const uint64_t asked = dram_.beats_asked;
    while (code == ERR_NONE ? !all() : !dut_.err_valid_o) {
      if (code == ERR_NONE)
        check_.that(!dut_.err_valid_o, "error %u in layer %u of a good start", dut_.err_code_o,
                    dut_.err_layer_o);
      cycle();
      check_.that(++waited < 50000, "stands still (error %u expected)", code);
    }
    for (int i = 0; i < 5; i++) cycle();
    if (code != ERR_NONE) {
      check_.that(dut_.err_valid_o && dut_.err_code_o == code, "error %s, not %s",
                  ERR_NAMES[dut_.err_code_o], ERR_NAMES[code]);
      if (code != ERR_LAYER_RANGE)
        check_.that(dut_.err_layer_o == first_ + bad, "layer of the error: %u", dut_.err_layer_o);
      check_.that(all(), "an error before the layers ahead of it are taken");
      if (code < ERR_DESC_MAGIC)
        check_.that(dram_.beats_asked == asked, "reads although the start is illegal");
    } else {
      check_.that(dut_.layer_valid_o == 0 && !dut_.req_valid_o, "goes on after the last layer");
      for (unsigned i = 0; i < b_act_; i++) {
        const uint64_t want = (slot_base_ + stride_ * slots_[i]) & ((uint64_t{1} << 40) - 1);
        check_.that(unit::get(dut_.slot_addr_o, 40 * i, 40) == want, "address of slot %u", i);
      }
    }
  }

  // Every kind of illegal; change breaks a good layer (or cannot: false).
  void illegal() {
    struct Case {
      const char* name;
      unsigned code;
      std::function<bool(unit::Layer&, uint32_t*, uint32_t&)> change;
    };
    const auto field = [](const Field& f, int64_t v) {
      return [f, v](unit::Layer&, uint32_t* w, uint32_t&) { return set(w, f, v), true; };
    };
    const auto plus = [](const Field& f) {  // one more than required
      return [f](unit::Layer&, uint32_t* w, uint32_t&) { return set(w, f, get(w, f) + 1), true; };
    };
    const auto entry = [](const Field& f, int64_t v) {
      return [f, v](unit::Layer&, uint32_t*, uint32_t& e) { return set(&e, f, v), true; };
    };
    const auto gemm = [](const Field& f, int64_t v) {
      return [f, v](unit::Layer& l, uint32_t* w, uint32_t&) { return set(w, f, v), l.gemm(); };
    };
    std::vector<Case> cases = {
        {"magic", ERR_DESC_MAGIC, field(DESC_F_MAGIC, 0xD4)},
        {"reserved bit", ERR_DESC_MAGIC,
         [&](unit::Layer&, uint32_t* w, uint32_t&) {
           for (;;) {
             const unsigned bit = static_cast<unsigned>(random_.below(1024));
             if (!((DESC_RSVD_MASK[bit / 32] >> (bit % 32)) & 1)) continue;
             w[bit / 32] |= 1u << (bit % 32);
             return true;
           }
         }},
        {"an operator that is not built", ERR_DESC_OP, field(DESC_F_OP, P_DEPTHWISE ? 4 : OP_DEPTHWISE)},
        {"op 15", ERR_DESC_OP, field(DESC_F_OP, 15)},
        {"in_h", ERR_DESC_SHAPE, field(DESC_F_IN_H, 0)},
        {"in_w", ERR_DESC_SHAPE, field(DESC_F_IN_W, 0)},
        {"in_c", ERR_DESC_SHAPE, field(DESC_F_IN_C, 0)},
        {"out_h", ERR_DESC_SHAPE, field(DESC_F_OUT_H, 0)},
        {"out_w", ERR_DESC_SHAPE, field(DESC_F_OUT_W, 0)},
        {"out_c", ERR_DESC_SHAPE, field(DESC_F_OUT_C, 0)},
        {"k_h", ERR_DESC_SHAPE, field(DESC_F_K_H, 0)},
        {"k_w", ERR_DESC_SHAPE, field(DESC_F_K_W, 0)},
        {"s_h", ERR_DESC_SHAPE, field(DESC_F_S_H, 0)},
        {"s_w", ERR_DESC_SHAPE, field(DESC_F_S_W, 0)},
        {"s_h 16", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return l.s_h = 16, l.words(w), l.tile_rows == 1;
         }},
        {"s_w 16", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) { return l.s_w = 16, l.words(w), true; }},
        {"in_pix", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_IN_PIX, l.in_c - 1), true;
         }},
        // with matching bytes of rows, so that nothing else is wrong
        {"out_pix", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return l.out_pix = l.out_c - 1, l.words(w), true;
         }},
        {"res_pix", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return l.res_pix = l.out_c - 1, l.words(w), l.residual != 0;
         }},
        {"residual of a pool", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           set(w, DESC_F_RESIDUAL, 1);
           set(w, DESC_F_RES_PIX, l.out_c);
           set(w, DESC_F_RES_ROW_BYTES, int64_t{2} * l.out_c * l.out_w);
           return !l.gemm();
         }},
        {"bias_count", ERR_DESC_SHAPE, 
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_BIAS_COUNT, get(w, DESC_F_BIAS_COUNT) + 1), l.table == 0;
         }},
        {"w_bytes", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_bytes_field(l.k), 0), l.gemm();
         }},
        {"w_tile", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_tile_field(l.k), 0), l.gemm();
         }},
        {"avg_table", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_AVG_TABLE, 1), l.table == 0;
         }},
        {"a table without the last count", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_BIAS_COUNT, l.k_h * l.k_w), l.table != 0;
         }},
        {"a table of 257", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_BIAS_COUNT, 257), l.table != 0;
         }},
        {"taps of an average", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           l.k_h = l.k_w = 91;  // 8,281 of at most AVG_TAPS
           l.in_w = l.in_c = l.in_pix = l.out_c = l.out_pix = 1;
           l.s_h = l.s_w = l.tile_b = l.tile_rows = 1;
           l.table = 0;
           l.words(w);
           e = l.fbcb();
           return l.op == OP_AVG_POOL;
         }},
        {"out_c beyond the build", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           l.out_c = P_C_MAX + 1;
           l.out_pix = l.res_pix = P_C_MAX + 1;
           l.words(w);
           return l.gemm();
         }},
        {"out_c of a pool", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           l.out_c++;
           l.out_pix = l.out_c;
           l.words(w);
           return !l.gemm();
         }},
        {"in_row", ERR_DESC_SHAPE, plus(DESC_F_IN_ROW)},
        {"kwc", ERR_DESC_SHAPE, plus(DESC_F_KWC)},
        {"step_row", ERR_DESC_SHAPE, plus(DESC_F_STEP_ROW)},
        {"step_col", ERR_DESC_SHAPE, plus(DESC_F_STEP_COL)},
        {"pad_col", ERR_DESC_SHAPE, plus(DESC_F_PAD_COL)},
        {"in_row_bytes", ERR_DESC_SHAPE,
         [](unit::Layer&, uint32_t* w, uint32_t&) {  // may be more, but not less
           return set(w, DESC_F_IN_ROW_BYTES, get(w, DESC_F_IN_ROW_BYTES) - 1), true;
         }},
        {"out_row_bytes", ERR_DESC_SHAPE, plus(DESC_F_OUT_ROW_BYTES)},
        {"res_row_bytes", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_RES_ROW_BYTES, get(w, DESC_F_RES_ROW_BYTES) + 2), l.residual != 0;
         }},
        // sizes that the counters would truncate
        {"a window behind the last column", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) { return behind(l, 8, 9), l.words(w), true; }},
        {"a window below the last row", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) { return behind(l, 9, 8), l.words(w), true; }},
        {"windows far behind the last column", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return narrow(l), l.s_w = 15, l.out_w = 65535, l.words(w), true;
         }},
        {"rows of an output", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return narrow(l), l.in_h = 65535, l.out_h = 0xF000, l.words(w), true;
         }},
        {"in_row_bytes of 2^25", ERR_DESC_SHAPE, field(DESC_F_IN_ROW_BYTES, 1 << 25)},
        {"out_row_bytes of 2^25", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           narrow(l);
           l.in_w = l.out_w = 1 << 12;
           l.out_pix = 1 << 12;
           return l.words(w), true;
         }},
        {"res_row_bytes of 2^25", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           narrow(l);
           l.in_w = l.out_w = 1 << 12;
           l.res_pix = 1 << 12;
           return l.words(w), l.residual != 0;
         }},
        {"beats of an output row", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           narrow(l);
           l.in_c = l.out_c = l.out_pix = P_AXI_BYTES / 2;
           l.in_pix = l.in_c + 1;  // so that its rows are not single runs
           l.in_w = l.out_w = 65535;
           return l.words(w), !l.gemm();
         }},
        {"beats of an input row", ERR_DESC_SHAPE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           narrow(l);
           l.in_c = l.in_pix = l.out_c = l.out_pix = P_AXI_BYTES / 2;
           l.in_w = 65535;
           return l.words(w), true;
         }},
        {"shift", ERR_DESC_SHIFT, field(DESC_F_SHIFT, 48)},
        {"avg_shift 0", ERR_DESC_SHIFT,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_AVG_SHIFT, 0), l.op == OP_AVG_POOL;
         }},
        {"avg_shift 48", ERR_DESC_SHIFT,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, DESC_F_AVG_SHIFT, 48), l.op == OP_AVG_POOL;
         }},
        {"in_offset", ERR_DESC_ADDRESS, plus(DESC_F_IN_OFFSET)},
        {"out_offset", ERR_DESC_ADDRESS, plus(DESC_F_OUT_OFFSET)},
        {"res_offset", ERR_DESC_ADDRESS, plus(DESC_F_RES_OFFSET)},
        {"w_offset", ERR_DESC_ADDRESS, 
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_offset_field(l.k), WEIGHT_ALIGN / 2), l.gemm();
         }},
        {"w_bytes 24", ERR_DESC_ADDRESS, 
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_bytes_field(l.k), 24), l.gemm();
         }},
        {"w_bytes, half of what it is aligned to", ERR_DESC_ADDRESS,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_bytes_field(l.k), static_cast<int64_t>(l.w_bytes + WEIGHT_ALIGN / 2)), l.gemm();
         }},
        {"w_tile 24", ERR_DESC_ADDRESS,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_tile_field(l.k), 24), l.gemm();
         }},
        {"w_tile, half of what it is aligned to", ERR_DESC_ADDRESS,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           return set(w, w_tile_field(l.k), static_cast<int64_t>(l.w_tile + WEIGHT_ALIGN / 2)), l.gemm();
         }},
        {"bias_offset", ERR_DESC_ADDRESS, gemm(DESC_F_BIAS_OFFSET, WEIGHT_ALIGN / 2)},
        {"b_r", ERR_FBCB_RANGE,
         [&](unit::Layer& l, uint32_t*, uint32_t& e) {
           const unsigned b_r = static_cast<unsigned>(random_.below(16));
           return set(&e, FBCB_B_R, b_r), b_r != l.b_act && b_r != (l.b_act + 1) / 2;
         }},
        {"s = 2 with k = 2", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) {
           set(&e, FBCB_B_R, (l.b_act + 1) / 2);
           set(&e, FBCB_TILE_B, 1);
           set(&e, FBCB_K, 2);
           return l.gemm() && l.b_act > 1;
         }},
        {"s = 2 of a pool", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) {
           set(&e, FBCB_TILE_B, 1);
           return set(&e, FBCB_B_R, (l.b_act + 1) / 2), !l.gemm() && l.b_act > 1;
         }},
        {"s = 2 of more than a C tile", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           l.out_c = l.out_pix = l.res_pix = (l.half() ? P_T_C : P_T_C / 2) + 1;
           l.words(w);
           set(&e, FBCB_TILE_B, 1);
           set(&e, FBCB_B_R, (l.b_act + 1) / 2);
           return l.gemm() && l.b_act > 1 && !l.pair();
         }},
        {"k = 1/2 of a pool", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) { return set(&e, FBCB_K, 1), !l.gemm(); }},
        {"k = 2 of a pool", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) { return set(&e, FBCB_K, 2), !l.gemm(); }},
        {"k 3", ERR_FBCB_RANGE, entry(FBCB_K, 3)},
        {"order of a pool", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) { return set(&e, FBCB_ORDER, 1), !l.gemm(); }},
        {"order, the C tile one line too large for the ring", ERR_FBCB_RANGE,
         [&](unit::Layer& l, uint32_t* w, uint32_t& e) {
           l.w_tile = P_KEEP / WEIGHT_ALIGN * WEIGHT_ALIGN + WEIGHT_ALIGN;
           l.w_bytes = l.w_tile + WEIGHT_ALIGN * random_.below(100);
           l.words(w);
           return set(&e, FBCB_ORDER, 1), l.gemm();
         }},
        {"order, all weights one line too large for the ring", ERR_FBCB_RANGE,
         [&](unit::Layer& l, uint32_t* w, uint32_t& e) {
           l.w_bytes = P_KEEP / WEIGHT_ALIGN * WEIGHT_ALIGN + WEIGHT_ALIGN;
           l.w_tile = l.w_bytes + WEIGHT_ALIGN * random_.below(100);
           l.words(w);
           return set(&e, FBCB_ORDER, 1), l.gemm();
         }},
        {"keep_in", ERR_FBCB_RANGE, entry(FBCB_KEEP_IN, 1)},
        {"on_chip", ERR_FBCB_RANGE, entry(FBCB_ON_CHIP, 1)},
        {"tile_b 0", ERR_FBCB_RANGE, entry(FBCB_TILE_B, 0)},
        {"tile_b", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) {
           return set(&e, FBCB_TILE_B, l.b_r() + 1), true;
         }},
        {"tile_rows 0", ERR_FBCB_RANGE, entry(FBCB_TILE_ROWS, 0)},
        {"tile_rows", ERR_FBCB_RANGE,
         [](unit::Layer& l, uint32_t*, uint32_t& e) {
           return set(&e, FBCB_TILE_ROWS, l.out_h + 1), true;
         }},
        {"reserved bit of the entry", ERR_FBCB_RANGE,
         [&](unit::Layer&, uint32_t*, uint32_t& e) {
           return e |= 1u << (random_.percent(50) ? 10 : 31), true;
         }},
        {"rows of a tile", ERR_TILE_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           l.out_w = (l.half() ? P_T_R / 2 : P_T_R) / (l.tile_b * l.tile_rows) + 1;
           l.in_c = l.in_pix = l.s_w = 1;
           l.in_w = l.out_w;
           l.words(w);
           e = l.fbcb();
           return l.gemm();
         }},
        {"elements of a tile", ERR_TILE_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           l.in_w = (l.two() ? kElems / 2 : kElems) / (l.in_c * l.n_ih(l.tile_rows) * l.tile_b) + 1;
           l.words(w);
           e = l.fbcb();
           return l.in_w < 1 << 15 && (l.in_pix != l.in_c || 2 * l.in_row() <= 65534 * P_AXI_BYTES);
         }},
        {"input rows of a tile", ERR_TILE_RANGE,  // one too many; there is room for it if kElems is large
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           places(l, 4095, 8, 16, 2);
           l.words(w);
           e = l.fbcb();
           return l.op != OP_GEMM && l.b_act >= 2;
         }},
        {"input rows of a tile of four", ERR_TILE_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           places(l, 2047, 8, 16, 4);
           l.words(w);
           e = l.fbcb();
           return l.op != OP_GEMM && l.b_act >= 4;
         }},
        {"input rows of a tile of eight", ERR_TILE_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           places(l, 1023, 8, 16, 8);
           l.words(w);
           e = l.fbcb();
           return l.op != OP_GEMM && l.b_act == 8;
         }},
        {"elements of a sample, by far", ERR_TILE_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t&) {
           l.in_c = 250;
           l.in_pix = 251;  // so that a row is not one run, which would be rejected for its beats
           l.in_w = 65535;
           l.k_w = l.s_w = l.s_h = 1;
           l.pad_l = 0;
           l.k_h = 255;
           if (!l.gemm()) return false;
           l.words(w);
           return true;
         }},
        {"elements of a sample, 2^32", ERR_TILE_RANGE,
         [](unit::Layer& l, uint32_t* w, uint32_t& e) {
           if (l.gemm()) return false;
           l.in_c = l.out_c = l.out_pix = 256;
           l.in_pix = 257;
           l.in_w = 1 << 15;
           l.k_w = l.s_w = l.s_h = l.out_w = 1;
           l.pad_l = 0;
           l.k_h = 255;
           l.in_h = l.out_h = l.tile_rows = 258;
           l.words(w);
           e = l.fbcb();
           return true;
         }},
    };
    if (P_POST) {
      cases.push_back({"a product without a residual", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return set(w, DESC_F_PRODUCT, 1), l.gemm() && !l.residual && !l.curve;
                       }});
      cases.push_back({"a product with a curve", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return set(w, DESC_F_PRODUCT, 1), l.curve && l.residual;
                       }});
      cases.push_back({"a curve without its words", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return set(w, DESC_F_CURVE, 1), l.gemm() && !l.curve && !l.product;
                       }});
      cases.push_back({"the words of a curve without it", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return set(w, DESC_F_CURVE, 0), l.curve != 0;
                       }});
      cases.push_back({"a curve of a pool", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return set(w, DESC_F_CURVE, 1), !l.gemm();
                       }});
      for (const unsigned step : {12, 15}) {
        cases.push_back({"curve_step", ERR_DESC_SHIFT, [step](unit::Layer& l, uint32_t* w, uint32_t&) {
                           return set(w, DESC_F_CURVE_STEP, step), l.curve != 0;
                         }});
      }
      cases.push_back({"res_row_bytes of one pixel", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return set(w, DESC_F_RES_ROW_BYTES, 2 * l.out_c * l.out_w), l.residual && l.res_pix == 0;
                       }});
    }
    // features that this build does not have
    if (!P_POST) {
      for (const Field& f : {DESC_F_CURVE, DESC_F_PRODUCT}) {
        cases.push_back({"a curve or a product", ERR_DESC_OP, [f](unit::Layer& l, uint32_t* w, uint32_t&) {
                           return set(w, f, 1), l.gemm();
                         }});
      }
      cases.push_back({"a residual of one pixel", ERR_DESC_SHAPE, [](unit::Layer& l, uint32_t* w, uint32_t&) {
                         return l.res_pix = 0, l.words(w), l.residual != 0;
                       }});
    }
    if (!P_STACK) {
      for (const int k : {1, 2}) {
        cases.push_back({"k", ERR_FBCB_RANGE, [k](unit::Layer& l, uint32_t*, uint32_t& e) {
                           return set(&e, FBCB_K, k), l.gemm();
                         }});
      }
    }
    if (!P_FLUID) {
      cases.push_back({"s", ERR_FBCB_RANGE, [](unit::Layer& l, uint32_t*, uint32_t& e) {
                         set(&e, FBCB_TILE_B, 1);
                         set(&e, FBCB_B_R, (l.b_act + 1) / 2);
                         return l.gemm() && l.b_act > 1 && l.out_c <= P_T_C / 2;
                       }});
    }
    for (const Case& c : cases) {
      for (int found = 0, tries = 0; found < 2; tries++) {
        setup(3);
        const unsigned bad = static_cast<unsigned>(random_.below(3));
        unit::Layer l = layers_[bad];
        if (!c.change(l, desc_[first_ + bad], fbcb_[8 * (first_ + bad) + b_act_ - 1])) {
          check_.that(tries < 500, "no layer for %s", c.name);
          continue;
        }
        name_ = c.name;
        found++;
        run(c.code, bad);
      }
    }
    setup(1);
    n_ = 0;
    first_ = 9;  // last = 8
    run(ERR_LAYER_RANGE);
    setup(1);
    b_act_ = 0;
    run(ERR_BATCH_RANGE);
    b_act_ = 9;
    run(ERR_BATCH_RANGE);
    do setup(1);
    while (b_act_ < 2);
    slots_[b_act_ - 1] = slots_[0];
    run(ERR_SLOT_RANGE);
    do setup(1);
    while (n_slot_ == 64);
    slots_[b_act_ - 1] = n_slot_;
    run(ERR_SLOT_RANGE);
  }

  // The bytes of a depthwise layer's weights.
  static void packed(unit::Layer& l) {
    const uint64_t bytes = uint64_t{(l.in_c + P_NB - 1) / P_NB} * l.k_h * l.k_w * P_NB * 2;
    l.w_bytes = l.w_tile = (bytes + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN;
  }
  // Depthwise layers, right and wrong.
  void depthwise() {
    using L = unit::Layer;
    struct Case {
      const char* name;
      unsigned code;
      std::function<bool(L&, uint32_t*, uint32_t&)> change;
    };
    const auto field = [](const Field& f, int64_t v) { return [f, v](L&, uint32_t* w, uint32_t&) { return set(w, f, v), true; }; };
    const auto entry = [](const Field& f, int64_t v) { return [f, v](L&, uint32_t*, uint32_t& e) { return set(&e, f, v), true; }; };
    const auto bytes = [](int lines, bool tile) {
      return [lines, tile](L& l, uint32_t* w, uint32_t&) {
        l.w_bytes += static_cast<uint64_t>(lines * static_cast<int>(WEIGHT_ALIGN));
        if (tile) l.w_tile = l.w_bytes;
        return l.words(w), l.w_bytes > 0;
      };
    };
    const Case cases[] = {
        {"right", ERR_NONE, [](L&, uint32_t*, uint32_t&) { return true; }},
        {"a residual", ERR_NONE, [](L& l, uint32_t* w, uint32_t&) { return l.residual = 1, l.res_pix = l.out_c, l.words(w), true; }},
        {"as many weights as there may be", ERR_NONE,
         [](L& l, uint32_t* w, uint32_t& e) {
           narrow(l);
           l.in_c = l.in_pix = l.out_c = l.out_pix = P_NB;
           l.in_h = l.out_h = l.tile_rows = l.tile_b = 1;
           l.k_h = 8, l.k_w = DW_WORDS / 8, l.pad_l = l.pad_t = 0;
           return packed(l), l.words(w), e = l.fbcb(), true;
         }},
        {"weights beyond the unit", ERR_DESC_SHAPE,
         [](L& l, uint32_t* w, uint32_t& e) {
           narrow(l);
           l.in_c = l.in_pix = l.out_c = l.out_pix = P_NB + 1;
           l.in_h = l.out_h = l.tile_rows = l.tile_b = 1;
           l.k_h = 3, l.k_w = DW_WORDS / 6 + 1, l.pad_l = l.pad_t = 0;
           return packed(l), l.words(w), e = l.fbcb(), P_NB < P_C_MAX;
         }},
        {"w_bytes, a line more", ERR_DESC_SHAPE, bytes(1, true)},
        {"w_bytes, a line less", ERR_DESC_SHAPE, bytes(-1, true)},
        {"several tiles", ERR_DESC_SHAPE, bytes(1, false)},
        {"bias_count", ERR_DESC_SHAPE, field(DESC_F_BIAS_COUNT, 0)},
        {"avg_table", ERR_DESC_SHAPE, field(DESC_F_AVG_TABLE, 1)},
        {"out_c", ERR_DESC_SHAPE, [](L& l, uint32_t* w, uint32_t&) { return l.out_c = ++l.out_pix, l.words(w), l.out_c <= P_C_MAX; }},
        {"res_pix", ERR_DESC_SHAPE, [](L& l, uint32_t* w, uint32_t&) { return l.residual = 1, l.res_pix = l.out_c - 1, l.words(w), !P_POST || l.out_c > 1; }},
        {"w_offset", ERR_DESC_ADDRESS, field(DESC_F_W_OFFSET_1, WEIGHT_ALIGN / 2)},
        {"k = 1/2", ERR_FBCB_RANGE, entry(FBCB_K, 1)},
        {"k = 2", ERR_FBCB_RANGE, entry(FBCB_K, 2)},
        {"order", ERR_FBCB_RANGE, entry(FBCB_ORDER, 1)},
        {"keep_out", ERR_FBCB_RANGE, entry(FBCB_KEEP_OUT, 1)},
        {"s = 2", ERR_FBCB_RANGE,
         [](L& l, uint32_t*, uint32_t& e) {
           set(&e, FBCB_TILE_B, 1);
           return set(&e, FBCB_B_R, (l.b_act + 1) / 2), l.b_act > 1;
         }},
    };
    for (const Case& c : cases) {
      for (int found = 0, tries = 0; found < 3; tries++) {
        check_.that(tries < 500, "no layer for %s", c.name);
        setup(3);
        const unsigned bad = static_cast<unsigned>(random_.below(3));
        L l = layers_[bad];
        if (l.gemm() || l.out_c > P_C_MAX) continue;
        l.op = OP_DEPTHWISE;
        l.table = 0;
        packed(l);
        put(bad, l);
        if (!c.change(l, desc_[first_ + bad], fbcb_[8 * (first_ + bad) + b_act_ - 1])) continue;
        if (c.code == ERR_NONE) layers_[bad] = l;
        name_ = c.name;
        found++;
        run(c.code, bad);
      }
    }
  }

  // Every rule for kept tensors, broken at the layer that keeps the tensor (0) or at the one that
  // reads it (1).
  void kept() {
    using L = unit::Layer;
    struct Case {
      const char* name;
      unsigned at;
      std::function<bool(L&, L&)> change;
    };
    const auto tile_rows = [](L& l) { return --l.tile_rows > 0; };
    const auto tile_b = [](L& l) { return --l.tile_b > 0; };
    const auto groups = [](L& l) {
      l.groups = 2;
      l.tile_b = l.b_r();
      return P_FLUID && l.gemm() && l.b_act > 1 && !l.pair() && l.out_c <= l.tc(P_T_C);
    };
    const auto channels = [](L& l, unsigned n) {  // and still a layer
      l.in_c = l.in_pix = n;
      if (!l.gemm()) l.out_c = l.out_pix = n;
      return n > 0;
    };
    const Case cases[] = {
        {"kept, and not read", 1, [](L&, L& c) { return c.keep_in = 0, true; }},
        {"read, and not kept", 1, [](L& p, L&) { return p.keep_out = p.on_chip = 0, true; }},
        {"another in_h", 1, [](L&, L& c) { return c.in_h++, true; }},
        {"another in_w", 1, [](L&, L& c) { return c.in_w++, true; }},
        {"another in_c", 1, [&](L&, L& c) { return channels(c, c.in_c + 1); }},
        {"less in_h", 1, [](L&, L& c) { return --c.in_h > 0 && (c.out_h - 1) * c.s_h < c.in_h + c.pad_t; }},
        {"less in_w", 1, [](L&, L& c) { return --c.in_w > 0 && (c.out_w - 1) * c.s_w < c.in_w + c.pad_l; }},
        {"less in_c", 1, [&](L&, L& c) { return channels(c, c.in_c - 1); }},
        {"read in tiles of rows", 1, [&](L&, L& c) { return tile_rows(c); }},
        {"read in tiles of samples", 1, [&](L&, L& c) { return tile_b(c); }},
        {"on chip only, and not kept", 1, [](L&, L& c) { return c.on_chip = 1, true; }},
        {"kept in tiles of rows", 0, [&](L& p, L&) { return tile_rows(p); }},
        {"kept in tiles of samples", 0, [&](L& p, L&) { return tile_b(p); }},
        {"kept with a gap", 0, [](L& p, L&) { return p.out_pix++, true; }},
        {"a pool that keeps", 0,
         [](L& p, L&) {
           p.op = OP_MAX_POOL;
           p.in_c = p.in_pix = p.out_c;
           p.residual = p.product = p.curve = p.res_pix = p.order = p.k = 0;
           return true;
         }},
        {"read with s = 2", 1, [&](L&, L& c) { return groups(c); }},
        {"kept with s = 2", 0, [&](L& p, L&) { return groups(p); }},
    };
    for (const Case& c : cases) {
      for (int found = 0, tries = 0; found < 3; tries++) {
        check_.that(tries < 1000, "no layers for %s", c.name);
        const unsigned at = pair();
        L p = layers_[at], q = layers_[at + 1];
        // the kept tensor concerns only the rejected layer
        if ((c.at ? q.keep_out : p.keep_in) || !c.change(p, q)) {
          if (!P_FLUID && std::strstr(c.name, "s = 2")) break;
          continue;
        }
        put(at, p);
        put(at + 1, q);
        name_ = c.name;
        found++;
        run(ERR_FBCB_RANGE, at + c.at);
      }
    }
    for (int i = 0; i < 6; i++) {
      unsigned at = pair();
      name_ = "kept by the last layer";
      n_ = at + 1;
      run(ERR_FBCB_RANGE, at);
      at = pair();
      name_ = "kept before the start";
      first_ += at + 1;
      n_ -= at + 1;
      run(ERR_FBCB_RANGE, 0);
    }
  }
  // A start in which a layer keeps its output for the next one; returns which layer.
  unsigned pair() {
    for (;;) {
      setup(5, 60);
      const unsigned at = static_cast<unsigned>(random_.below(4));
      if (layers_[at].keep_out) return at;
    }
  }
  // A kept tensor that fills the buffer is legal, as its padding is not stored; a larger one is
  // not.
  void kept_largest() {
    for (int i = 0; i < 10; i++) {
      for (const unsigned more : {0u, 1u}) {
        do setup(2);
        while (P_T_R % b_act_ != 0);
        unit::Layer p, c;
        p.b_act = p.tile_b = c.b_act = c.tile_b = b_act_;
        p.in_h = p.out_h = p.tile_rows = c.in_h = c.out_h = c.tile_rows = P_T_R / b_act_;
        p.out_c = p.out_pix = c.in_c = c.in_pix = kElems / P_T_R + more;
        c.k_h = 3;
        c.pad_t = 1;
        p.keep_out = c.keep_in = 1;
        p.on_chip = random_.percent(50);
        if (p.out_c > P_C_MAX) continue;
        put(0, p);
        put(1, c);
        name_ = "a kept tensor too large";
        run(more ? ERR_TILE_RANGE : ERR_NONE, 1);
      }
    }
  }

  // A depthwise layer that reads a kept tensor may keep its output, for the same rules as a GEMM.
  void kept_depthwise() {
    for (int i = 0; i < 12; i++) {
      setup(3);
      unit::Layer a, b, c;
      a.b_act = b.b_act = c.b_act = a.tile_b = b.tile_b = c.tile_b = b_act_;
      a.out_c = a.out_pix = b.in_c = b.in_pix = b.out_c = b.out_pix = c.in_c = c.in_pix =
          static_cast<unsigned>(random_.range(1, std::min<unsigned>(P_C_MAX, kElems / b_act_)));
      a.keep_out = b.keep_in = b.keep_out = c.keep_in = 1;
      b.on_chip = random_.percent(50);
      b.op = OP_DEPTHWISE;
      packed(b);
      if (i % 3 == 1) b.out_pix++;
      if (i % 3 == 2) a.keep_out = b.keep_in = 0;
      put(0, a);
      put(1, b);
      put(2, c);
      name_ = "kept by a depthwise layer";
      run(i % 3 ? ERR_FBCB_RANGE : ERR_NONE, 1);
    }
  }

  // The largest that fit: limits are inclusive.
  void largest() {
    for (int i = 0; i < 20; i++) {
      setup(1);
      unit::Layer l = layers_[0];
      l.op = OP_GEMM;
      l.table = 0;
      l.k = P_STACK ? static_cast<unsigned>(i % 3) : 0;
      l.groups = P_FLUID && l.k != 2 && l.b_act > 1 && random_.percent(50) ? 2 : 1;
      l.residual = l.product = 0;
      l.shift = 47;
      l.k_h = l.k_w = 1;
      l.pad_t = l.pad_l = 0;
      l.s_h = l.s_w = 15;
      l.tile_b = 1;
      l.tile_rows = l.out_h = 1;
      l.out_w = l.half() ? P_T_R / 2 : P_T_R;
      l.in_c = l.in_pix = 1;
      l.in_w = std::min(l.two() ? kElems / 2 : kElems, 65535u);
      l.out_c = l.out_pix = l.two() ? l.tc(P_T_C) : P_C_MAX;
      // the most that loop order 1 can keep, of a C tile or of all of them
      l.order = 1;
      l.w_bytes = l.w_tile = P_KEEP / WEIGHT_ALIGN * WEIGHT_ALIGN;
      (i % 2 ? l.w_bytes : l.w_tile) += WEIGHT_ALIGN * random_.below(1 << 20);
      put(0, l);
      run();
      l = unit::Layer();  // taps of a table, of an average
      l.op = OP_AVG_POOL;
      l.b_act = b_act_;
      l.avg_shift = 47;
      l.k_h = 15;
      l.k_w = 17;
      l.table = 256;
      put(0, l);
      run();
      l.k_h = 64;  // AVG_TAPS of them
      l.k_w = 128;
      l.table = 0;
      put(0, l);
      run();
      l = unit::Layer();  // most beats of a command in an output row, windows with most reach
      l.op = OP_MAX_POOL;
      l.b_act = b_act_;
      if (kElems >= 65534 * P_AXI_BYTES / 2) {
        narrow(l);
        l.in_c = l.in_pix = l.out_c = l.out_pix = P_AXI_BYTES / 2;
        l.in_w = l.out_w = 65534;
        put(0, l);
        run();
      }
      behind(l, 8, 8);
      put(0, l);
      run();
      narrow(l);
      l.in_h = 65535;
      l.s_h = 15;
      l.out_h = 4369;
      put(0, l);
      run();
      l.s_h = 1;
      l.out_h = 0xEFFF;
      put(0, l);
      run();
      if (b_act_ >= 3 && kElems > 65535) {  // with the maximum count of input rows of a tile
        places(l, 1457, 15, 5, 3);
        put(0, l);
        run();
      }
    }
  }
  int finish() { return check_.passed(); }

 private:
  void cycle() {
    dut_.first_layer_i = static_cast<unsigned char>(first_);
    dut_.last_layer_i = static_cast<unsigned char>(first_ + n_ - 1);
    dut_.b_act_i = static_cast<unsigned char>(b_act_);
    dut_.desc_base_i = desc_base_;
    dut_.slot_base_i = slot_base_;
    dut_.slot_stride_i = static_cast<uint32_t>(stride_);
    dut_.n_slot_i = static_cast<unsigned char>(n_slot_);
    for (unsigned i = 0; i < 8; i++) unit::put(dut_.slot_table_i, 6 * i, 6, slots_[i]);
    dut_.fbcb_rdata_i = fbcb_data_;
    dram_.drive(dut_);
    unsigned ready = 0;
    for (unsigned u = 0; u < kUnits; u++) ready |= random_.percent(take_) ? 1u << u : 0;
    dut_.layer_ready_i = static_cast<unsigned char>(ready);
    dut_.clk_i = 0;
    dut_.eval();
    dram_.take(dut_);
    if (dut_.req_valid_o && dut_.rst_ni) {
      check_.that(dut_.req_beats_o == 128 / P_AXI_BYTES, "%u beats", dut_.req_beats_o);
    }
    for (unsigned u = 0; dut_.rst_ni && u < kUnits; u++) {
      if (!((dut_.layer_valid_o >> u) & 1)) continue;
      check_.that(taken_[u] < expect_, "%s: unit %u is offered layer %u", name_, u, taken_[u]);
      const unsigned i = taken_[u];
      check_.that(std::memcmp(&dut_.layer_desc_o, desc_[first_ + i], 128) == 0,
                  "descriptor of layer %u", i);
      check_.that(dut_.layer_fbcb_o == fbcb_[8 * (first_ + i) + b_act_ - 1],
                  "FBCB entry of layer %u", i);
      check_.that(dut_.layer_samp_o == layers_[i].samp(), "sample of %u elements, not %u",
                  dut_.layer_samp_o, layers_[i].samp());
      check_.that(dut_.layer_index_o == first_ + i && dut_.layer_last_o == (i + 1 == n_), "index");
      if ((ready >> u) & 1) taken_[u]++;
    }
    const unsigned address = dut_.fbcb_raddr_o;
    dut_.clk_i = 1;
    dut_.eval();
    fbcb_data_ = fbcb_[address];
  }

  tb::Random random_;
  tb::Checks check_;
  unit::ReadPort dram_;
  Vlayer_fetch dut_;
  uint32_t desc_[256][32] = {};
  uint32_t fbcb_[2048] = {};
  uint32_t fbcb_data_ = 0;
  std::vector<unit::Layer> layers_;
  std::vector<unsigned> slots_, taken_;
  unsigned n_ = 1, first_ = 0, b_act_ = 1, n_slot_ = 64, take_ = 100, expect_ = 0;
  uint64_t stride_ = 64, slot_base_ = 0, desc_base_ = 0;
  const char* name_ = "";
};

}  // namespace

int main(int argc, char** argv) {
  const tb::Args args = tb::parse(argc, argv);
  Bench bench(args);
  for (uint64_t i = 0; i < (args.n ? args.n : 40); i++) {
    bench.setup(6, 50);
    bench.run();
  }
  bench.largest();
  bench.illegal();
  if (P_DEPTHWISE) {
    bench.depthwise();
    bench.kept_depthwise();
  }
  bench.kept();
  bench.kept_largest();
  return bench.finish();
}
