// unit.hpp: shared by the benches of the NPU's units: bit slices of ports, random consistent
// layers, a DRAM whose contents are a function of the address, and a port of it that answers one
// read client late and unevenly but in order.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "bench/tb.hpp"
#include "sluice_abi.hpp"

namespace unit {

// Bits lsb .. lsb+n-1 (n <= 64) of a port of any type; ports are little-endian bytes in memory.
template <class Port>
inline uint64_t get(const Port& port, unsigned lsb, unsigned n) {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&port);
  uint64_t value = 0;
  for (unsigned i = 0; i < n; i++) {
    const unsigned bit = lsb + i;
    value |= uint64_t{(bytes[bit / 8] >> (bit % 8)) & 1u} << i;
  }
  return value;
}

template <class Port>
inline void put(Port& port, unsigned lsb, unsigned n, uint64_t value) {
  unsigned char* bytes = reinterpret_cast<unsigned char*>(&port);
  for (unsigned i = 0; i < n; i++) {
    const unsigned bit = lsb + i;
    const unsigned char one = static_cast<unsigned char>(1u << (bit % 8));
    bytes[bit / 8] = static_cast<unsigned char>(((value >> i) & 1) ? bytes[bit / 8] | one
                                                                   : bytes[bit / 8] & ~one);
  }
}

inline int64_t sign(uint64_t value, unsigned bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

constexpr unsigned kStrideMax = 15;  // as hw/abi has it

constexpr unsigned clog2(uint64_t n) {
  unsigned bits = 0;
  while ((uint64_t{1} << bits) < n) bits++;
  return bits;
}

// ---------------------------------------------------------------------------------- layers
struct Layer {
  unsigned op = sluice_abi::OP_GEMM, residual = 0;
  unsigned in_h = 1, in_w = 1, in_c = 1, in_pix = 1;
  unsigned out_h = 1, out_w = 1, out_c = 1, out_pix = 1;
  unsigned k_h = 1, k_w = 1, s_h = 1, s_w = 1, pad_t = 0, pad_l = 0;
  unsigned res_pix = 0, res_shift = 0, shift = 0, avg_mul = 0, avg_shift = 0;
  int clamp_lo = -32768, clamp_hi = 32767;
  uint64_t in_offset = 0, out_offset = 0, res_offset = 0;
  uint64_t w_offset = 0, w_bytes = 64, w_tile = 64, bias_offset = 0;  // w_*: the values for the layer's k
  unsigned tile_b = 1, tile_rows = 1;
  unsigned b_act = 1;
  unsigned k = 0;               // as in an FBCB entry: 0: 1, 1: 1/2, 2: 2
  unsigned groups = 1;          // s
  unsigned order = 0;           // loop order: 1: C tiles outermost
  unsigned table = 0;           // entries of an average's table; 0: none
  // with POST: product with the residual, and a curve after the shift
  unsigned product = 0, curve = 0, curve_step = 0, curve_shift = 0;
  int curve_lo = 0;
  unsigned keep_in = 0;         // the input is on chip, left there by the previous layer
  unsigned keep_out = 0, on_chip = 0;  // the output stays there for the next layer; only there

  bool gemm() const { return op == sluice_abi::OP_GEMM; }
  bool weighted() const { return gemm() || op == sluice_abi::OP_DEPTHWISE; }
  unsigned in_row() const { return in_w * in_c; }
  unsigned kwc() const { return k_w * in_c; }
  unsigned n_ih(unsigned rows) const { return (rows - 1) * s_h + k_h; }
  // Distance of samples on chip, in elements: the rows of a tile, or the kept tensor without
  // padding.
  unsigned samp() const { return (keep_in ? in_h : n_ih(tile_rows)) * in_row(); }
  bool half() const { return k == 1; }
  bool pair() const { return k == 2; }
  bool two() const { return groups == 2; }
  unsigned b_r() const { return (b_act + groups - 1) / groups; }
  unsigned lanes(unsigned t_p) const { return half() ? t_p / 2 : pair() ? 2 * t_p : t_p; }
  unsigned tc(unsigned t_c) const {
    return half() ? (two() ? t_c : 2 * t_c) : (pair() || two() ? t_c / 2 : t_c);
  }
  // Samples of a row tile: of group 0, and of group g, which may have fewer.
  unsigned nb(unsigned b0) const { return std::min(tile_b, b_r() - b0); }
  unsigned nb(unsigned b0, unsigned g) const {
    const unsigned first = b0 + g * b_r();
    return g == 0 ? nb(b0) : std::min(nb(b0), first < b_act ? b_act - first : 0);
  }
  unsigned bias_words() const { return weighted() ? out_c + (curve ? sluice_abi::CURVE_WORDS : 0) : table; }
  unsigned nr(unsigned oh0) const { return std::min(tile_rows, out_h - oh0); }
  unsigned row_tiles() const {
    return ((b_r() + tile_b - 1) / tile_b) * ((out_h + tile_rows - 1) / tile_rows);
  }
  // Bytes of the weights, C tile after C tile, each padded as in DRAM.
  void pack(unsigned t_p, unsigned t_c) {
    const auto bytes = [&](unsigned channels) {
      const uint64_t b = 2ull * channels * k_h * ((kwc() + lanes(t_p) - 1) / lanes(t_p)) * lanes(t_p);
      return (b + sluice_abi::WEIGHT_ALIGN - 1) / sluice_abi::WEIGHT_ALIGN * sluice_abi::WEIGHT_ALIGN;
    };
    w_tile = bytes(tc(t_c));
    w_bytes = out_c / tc(t_c) * w_tile + (out_c % tc(t_c) ? bytes(out_c % tc(t_c)) : 0);
  }
  // The part of the weights that loop order 1 needs to keep in the ring.
  uint64_t kept() const { return std::min(w_bytes, w_tile); }
  // Are the weights read once and replayed from the ring, or once for each row tile?
  bool replay(uint64_t keep) const { return order || w_bytes <= keep; }
  uint32_t fbcb() const {
    uint32_t w = 0;
    sluice_abi::set(&w, sluice_abi::FBCB_B_R, b_r());
    sluice_abi::set(&w, sluice_abi::FBCB_K, k);
    sluice_abi::set(&w, sluice_abi::FBCB_ORDER, order);
    sluice_abi::set(&w, sluice_abi::FBCB_KEEP_IN, keep_in);
    sluice_abi::set(&w, sluice_abi::FBCB_KEEP_OUT, keep_out);
    sluice_abi::set(&w, sluice_abi::FBCB_ON_CHIP, on_chip);
    sluice_abi::set(&w, sluice_abi::FBCB_TILE_B, tile_b);
    sluice_abi::set(&w, sluice_abi::FBCB_TILE_ROWS, tile_rows);
    return w;
  }
  void words(uint32_t* w) const {
    using namespace sluice_abi;
    std::memset(w, 0, 128);
    set(w, DESC_F_OP, op);
    set(w, DESC_F_RESIDUAL, residual);
    set(w, DESC_F_CURVE, curve);
    set(w, DESC_F_PRODUCT, product);
    set(w, DESC_F_CURVE_STEP, curve_step);
    set(w, DESC_F_CURVE_SHIFT, curve_shift);
    set(w, DESC_F_CURVE_LO, curve_lo);
    set(w, DESC_F_MAGIC, 0xD5);
    set(w, DESC_F_IN_OFFSET, static_cast<int64_t>(in_offset));
    set(w, DESC_F_OUT_OFFSET, static_cast<int64_t>(out_offset));
    set(w, DESC_F_RES_OFFSET, static_cast<int64_t>(res_offset));
    set(w, DESC_F_IN_H, in_h);
    set(w, DESC_F_IN_W, in_w);
    set(w, DESC_F_IN_C, in_c);
    set(w, DESC_F_IN_PIX, in_pix);
    set(w, DESC_F_OUT_H, out_h);
    set(w, DESC_F_OUT_W, out_w);
    set(w, DESC_F_OUT_C, out_c);
    set(w, DESC_F_OUT_PIX, out_pix);
    set(w, DESC_F_RES_PIX, res_pix);
    set(w, DESC_F_RES_SHIFT, res_shift);
    set(w, DESC_F_SHIFT, shift);
    set(w, DESC_F_K_H, k_h);
    set(w, DESC_F_K_W, k_w);
    set(w, DESC_F_S_H, s_h);
    set(w, DESC_F_S_W, s_w);
    set(w, DESC_F_PAD_T, pad_t);
    set(w, DESC_F_PAD_L, pad_l);
    set(w, DESC_F_CLAMP_LO, clamp_lo);
    set(w, DESC_F_CLAMP_HI, clamp_hi);
    if (weighted()) {
      // each k has its own values; the other k get random ones
      const auto of = [&](unsigned n, uint64_t value) { return static_cast<int64_t>(n == k ? value : 64 * (77 + n)); };
      set(w, DESC_F_W_OFFSET_1, of(0, w_offset));
      set(w, DESC_F_W_OFFSET_H, of(1, w_offset));
      set(w, DESC_F_W_OFFSET_2, of(2, w_offset));
      set(w, DESC_F_W_BYTES_1, of(0, w_bytes));
      set(w, DESC_F_W_BYTES_H, of(1, w_bytes));
      set(w, DESC_F_W_BYTES_2, of(2, w_bytes));
      set(w, DESC_F_W_TILE_1, of(0, w_tile));
      set(w, DESC_F_W_TILE_H, of(1, w_tile));
      set(w, DESC_F_W_TILE_2, of(2, w_tile));
    }
    set(w, DESC_F_AVG_TABLE, table != 0);
    if (bias_words() != 0) {
      set(w, DESC_F_BIAS_OFFSET, static_cast<int64_t>(bias_offset));
      set(w, DESC_F_BIAS_COUNT, bias_words());
    }
    set(w, DESC_F_IN_ROW, in_row());
    set(w, DESC_F_IN_ROW_BYTES, int64_t{2} * in_w * in_pix);
    set(w, DESC_F_OUT_ROW_BYTES, int64_t{2} * out_w * out_pix);
    set(w, DESC_F_RES_ROW_BYTES, residual ? int64_t{2} * out_w * res_pix : 0);
    set(w, DESC_F_STEP_ROW, s_h * in_row());
    set(w, DESC_F_STEP_COL, s_w * in_c);
    set(w, DESC_F_PAD_COL, pad_l * in_c);
    set(w, DESC_F_KWC, kwc());
    set(w, DESC_F_AVG_MUL, avg_mul);
    set(w, DESC_F_AVG_SHIFT, avg_shift);
  }
};

struct Limits {
  unsigned t_r = 32;           // accumulator rows
  unsigned t_c = 0;            // PEs; 0: k and s do not matter and are 1
  bool stack = true, fluid = true;  // the build supports k, and s
  bool post = false;           // curves, products, residuals of one pixel
  unsigned abuf = 2048;        // elements of a half
  unsigned max_in_c = 10, max_out_c = 12, max_size = 7, max_k = 3;
  uint64_t stride = 1 << 16;   // bytes of a slot
  unsigned t_p = 0;            // lanes; 0: the sizes of weights do not matter
  uint64_t keep = 0;           // with t_p: bytes that the weights ring can keep
};

// Draws a layer of the operator within the limits; 1 in 4 is fully connected. before: the layer
// whose output this one finds on chip, or null. keep: its own output (of a GEMM) stays on chip.
inline Layer random_layer(tb::Random& r, const Limits& limit, unsigned op, unsigned b_act,
                          const Layer* before = nullptr, bool keep = false) {
  const bool one = before || keep;  // row tile, and sample group
  for (;;) {
    Layer l;
    l.op = op;
    l.b_act = b_act;
    l.keep_in = before != nullptr;
    l.keep_out = keep;
    const bool fc = op == sluice_abi::OP_GEMM && !before && r.percent(25);
    const bool whole = before && r.percent(25);  // a window as large as the kept tensor
    // any stride; usually such that a small map still has several windows
    const auto stride = [&] {
      return static_cast<unsigned>(r.percent(20) ? r.range(4, kStrideMax) : r.percent(25) ? 1 : r.range(1, 3));
    };
    const auto edge = [&](unsigned max) { return static_cast<unsigned>(r.percent(25) ? 1 : r.range(1, max)); };
    l.in_c = before ? before->out_c : edge(fc ? 3 * limit.max_in_c : limit.max_in_c);
    if (op == sluice_abi::OP_GEMM && limit.t_c) {
      l.k = static_cast<unsigned>(limit.stack ? r.below(3) : 0);
      l.groups = limit.fluid && b_act > 1 && !l.pair() && !one && r.percent(45) ? 2 : 1;
    }
    unsigned max_out_c = limit.max_out_c;
    if (l.two()) max_out_c = std::min(max_out_c, l.tc(limit.t_c));  // one C tile
    l.out_c = op == sluice_abi::OP_GEMM ? edge(max_out_c) : l.in_c;
    if (!fc) {
      l.in_h = before ? before->out_h : edge(limit.max_size);
      l.in_w = before ? before->out_w : edge(limit.max_size);
      l.k_h = whole ? l.in_h : edge(limit.max_k);
      l.k_w = whole ? l.in_w : edge(limit.max_k);
      l.s_h = stride();
      l.s_w = stride();
      // usually smaller than the kernel, as in real layers; sometimes whole rows of padding
      if (!whole) {
        l.pad_t = static_cast<unsigned>(r.below(r.percent(15) ? l.k_h + 3 : l.k_h));
        l.pad_l = static_cast<unsigned>(r.below(r.percent(15) ? l.k_w + 2 : l.k_w));
      }
      const unsigned pad_b = whole ? 0 : static_cast<unsigned>(r.below(l.k_h + 1));
      const unsigned pad_r = whole ? 0 : static_cast<unsigned>(r.below(l.k_w + 1));
      if (l.in_h + l.pad_t + pad_b < l.k_h || l.in_w + l.pad_l + pad_r < l.k_w) continue;
      l.out_h = (l.in_h + l.pad_t + pad_b - l.k_h) / l.s_h + 1;
      l.out_w = (l.in_w + l.pad_l + pad_r - l.k_w) / l.s_w + 1;
      if ((l.out_h - 1) * l.s_h >= l.in_h + l.pad_t || (l.out_w - 1) * l.s_w >= l.in_w + l.pad_l) continue;  // begins after the input
    }
    const auto pix = [&](unsigned c) { return r.percent(50) ? c : c + static_cast<unsigned>(r.below(6)); };
    l.in_pix = pix(l.in_c);
    l.out_pix = keep ? l.out_c : pix(l.out_c);
    l.residual = op == sluice_abi::OP_GEMM && r.percent(40);
    l.order = op == sluice_abi::OP_GEMM && r.percent(50);
    if (op == sluice_abi::OP_GEMM && limit.t_p) {
      l.pack(limit.t_p, limit.t_c);
      if (l.kept() > limit.keep) l.order = 0;
    }
    if (l.residual) l.res_pix = limit.post && r.percent(25) ? 0 : pix(l.out_c);
    if (limit.post && l.gemm()) {
      l.product = l.residual && r.percent(50);
      l.curve = !l.product && r.percent(50);
    }
    if (l.curve) {
      l.curve_step = static_cast<unsigned>(r.below(sluice_abi::CURVE_STEP_MAX + 1));
      l.curve_shift = static_cast<unsigned>(r.below(32));
      l.curve_lo = static_cast<int>(r.below(1 << 16)) - (1 << 15);
    }
    l.tile_b = static_cast<unsigned>(r.range(1, l.b_r()));
    l.tile_rows = static_cast<unsigned>(r.range(1, l.out_h));
    if (r.percent(30)) {  // about two row tiles: the maximum that stays in the buffer
      const bool rows = r.percent(50);
      l.tile_b = rows ? l.b_r() : (l.b_r() + 1) / 2;
      l.tile_rows = rows ? (l.out_h + 1) / 2 : l.out_h;
    }
    if (one) {
      l.tile_b = l.b_r();
      l.tile_rows = l.out_h;
    }
    if (keep && b_act * l.out_h * l.out_w * l.out_c > limit.abuf) continue;
    l.on_chip = keep && r.percent(50);
    if (op == sluice_abi::OP_GEMM && l.tile_b * l.tile_rows * l.out_w > (l.half() ? limit.t_r / 2 : limit.t_r)) continue;
    if (uint64_t{l.tile_b} * l.samp() > (l.two() ? limit.abuf / 2 : limit.abuf)) continue;
    const auto offset = [&](uint64_t bytes) {
      return bytes >= limit.stride ? 0 : 2 * r.below((limit.stride - bytes) / 2 + 1);
    };
    const uint64_t in_bytes = 2ull * l.in_h * l.in_w * l.in_pix;
    const uint64_t out_bytes = 2ull * l.out_h * l.out_w * l.out_pix;
    const uint64_t res_bytes = 2ull * (l.res_pix ? l.out_h * l.out_w * l.res_pix : l.out_c);
    if (std::max(std::max(in_bytes, out_bytes), res_bytes) > limit.stride) continue;
    l.in_offset = offset(in_bytes);
    l.out_offset = offset(out_bytes);
    l.res_offset = l.residual ? offset(res_bytes) : 0;
    l.res_shift = static_cast<unsigned>(l.residual ? r.below(20) : 0);
    l.shift = static_cast<unsigned>(r.below(30));
    if (r.percent(30)) {
      l.clamp_lo = 0;
      l.clamp_hi = static_cast<int>(r.range(1, 32767));
    }
    if (op == sluice_abi::OP_AVG_POOL) {
      l.avg_shift = static_cast<unsigned>(r.range(1, 20));
      l.avg_mul = static_cast<unsigned>(r.below(1 << 17));
      if (r.percent(50)) l.table = static_cast<unsigned>(r.percent(20) ? r.range(l.k_h * l.k_w + 1, 256) : l.k_h * l.k_w + 1);
    }
    return l;
  }
}

// Draws a tall and narrow layer within the limits: a row tile with the maximum number of row
// places, usually hundreds, so that all bits of the place counters are used. Half of the windows
// are taller than the loader's queues are deep: between the rows with data of two samples there are
// more rows without, or half a queue of each.
inline Layer tall_layer(tb::Random& r, const Limits& limit, unsigned op, unsigned b_act) {
  const auto draw = [&](unsigned from, unsigned to) { return static_cast<unsigned>(r.range(from, to)); };
  for (;;) {
    Layer l;
    l.op = op;
    l.b_act = b_act;
    const bool gemm = op == sluice_abi::OP_GEMM, window = r.percent(50), even = window && r.percent(50);
    if (gemm && limit.t_c) {
      l.k = limit.stack ? draw(0, 2) : 0;
      l.groups = limit.fluid && b_act > 1 && !l.pair() && r.percent(45) ? 2 : 1;
    }
    l.out_c = gemm ? draw(1, l.two() ? std::min(limit.max_out_c, l.tc(limit.t_c)) : limit.max_out_c) : 1;
    l.in_pix = draw(1, 3);
    l.out_pix = l.out_c;
    l.in_h = even ? draw(30, 70) : window ? draw(1, 70) : r.percent(80) ? draw(100, 600) : draw(2049, 4000);
    l.k_h = even ? l.in_h + draw(30, 40) : window ? draw(70, 200) : draw(1, 3);
    l.s_h = gemm || r.percent(30) ? draw(1, kStrideMax) : draw(1, 3);
    l.pad_t = draw(0, even ? l.k_h - l.in_h : l.k_h - 1);
    const unsigned pad_b = even ? l.k_h - l.in_h - l.pad_t : draw(0, l.k_h - 1);
    if (l.in_h + l.pad_t + pad_b < l.k_h) continue;
    l.out_h = (l.in_h + l.pad_t + pad_b - l.k_h) / l.s_h + 1;
    l.order = gemm && r.percent(50);
    l.tile_b = r.percent(50) ? l.b_r() : draw(1, l.b_r());
    const unsigned places = (l.two() ? limit.abuf / 2 : limit.abuf) / l.tile_b;
    if (places < l.k_h || 2 * l.in_h * l.in_pix + 128 > limit.stride) continue;
    l.tile_rows = std::min(l.out_h, (places - l.k_h) / l.s_h + 1);
    if (gemm) l.tile_rows = std::min(l.tile_rows, (l.half() ? limit.t_r / 2 : limit.t_r) / l.tile_b);
    // keep it short: rows of a GEMM, taps of a pool
    if (l.tile_rows == 0 || l.out_h * b_act * l.k_h > 8000) continue;
    l.in_offset = 2 * r.below(64);
    l.shift = draw(0, 29);
    if (op == sluice_abi::OP_AVG_POOL) {
      l.avg_shift = draw(1, 20);
      l.avg_mul = static_cast<unsigned>(r.below(1 << 17));
    }
    return l;
  }
}

// Draws a layer with few windows and a large number of one thing: input channels, columns, output
// channels, or taps of a window. So all bits of the counter for that are used, or as many as the
// limits allow. A window may be larger than its map.
inline Layer wide_layer(tb::Random& r, const Limits& limit, unsigned op, unsigned b_act) {
  const auto draw = [&](unsigned from, unsigned to) { return static_cast<unsigned>(r.range(from, std::max(from, to))); };
  for (;;) {
    Layer l;
    l.op = op;
    l.b_act = b_act;
    const bool gemm = op == sluice_abi::OP_GEMM;
    if (gemm && limit.t_c) {
      l.k = limit.stack ? draw(0, 2) : 0;
      l.groups = limit.fluid && b_act > 1 && !l.pair() && r.percent(45) ? 2 : 1;
    }
    const unsigned room = l.two() ? limit.abuf / 2 : limit.abuf, much = draw(0, 3);
    l.out_c = draw(1, limit.max_out_c);
    if (much == 0) {
      l.in_c = draw(room / 8, room / 2);
      l.in_w = draw(1, room / l.in_c);
      l.k_w = draw(1, 40);
    } else if (much == 1) {
      l.in_c = r.percent(50) ? 1 : draw(1, 40);
      const unsigned most = room / l.in_c;
      l.s_w = draw(1, kStrideMax);
      l.in_w = std::min(most, gemm ? l.s_w * draw(limit.t_r / 4, limit.t_r) : draw(most / 4, most));
      l.k_w = draw(1, 9);
    } else if (much == 2) {
      l.in_w = draw(1, 3);
      l.out_c = draw(300, r.percent(20) ? 9000 : 1500);
    } else {
      l.in_c = draw(1, 3);
      l.in_h = draw(1, 30);
      l.in_w = draw(1, 30);
      l.k_h = draw(4, r.percent(50) ? 15 : 60);
      l.k_w = draw(4, r.percent(50) ? 15 : 60);
    }
    if (much != 3) {
      l.in_h = draw(1, 4);
      l.k_h = draw(1, 2);
    }
    if (!gemm) l.out_c = l.in_c;
    if (l.two()) l.out_c = std::min(l.out_c, l.tc(limit.t_c));  // one C tile
    l.s_h = draw(1, kStrideMax);
    if (much != 1) l.s_w = draw(1, kStrideMax);
    l.pad_t = draw(0, l.k_h - 1);
    l.pad_l = draw(0, l.k_w - 1);
    const unsigned high = l.in_h + l.pad_t + draw(0, l.k_h - 1), wide = l.in_w + l.pad_l + draw(0, l.k_w - 1);
    if (high < l.k_h || wide < l.k_w) continue;
    l.out_h = (high - l.k_h) / l.s_h + 1;
    l.out_w = (wide - l.k_w) / l.s_w + 1;
    if ((l.out_h - 1) * l.s_h >= l.in_h + l.pad_t || (l.out_w - 1) * l.s_w >= l.in_w + l.pad_l) continue;  // begins after the input
    l.in_pix = l.in_c + (r.percent(50) ? draw(0, 3) : 0);
    l.out_pix = l.out_c;
    l.order = gemm && r.percent(50);
    l.tile_b = draw(1, l.b_r());
    l.tile_rows = draw(1, l.out_h);
    if (uint64_t{l.tile_b} * l.samp() > room || uint64_t{2} * l.in_h * l.in_w * l.in_pix + 128 > limit.stride) continue;
    if (gemm && l.tile_b * l.tile_rows * l.out_w > (l.half() ? limit.t_r / 2 : limit.t_r)) continue;
    // keep it short: rows of a GEMM, taps of a pool
    const uint64_t windows = uint64_t{l.out_h} * l.out_w * b_act * l.k_h;
    const uint64_t each = gemm && limit.t_c ? (l.kwc() / 3 + 1) * uint64_t{l.out_c / l.tc(limit.t_c) + 1} : l.k_w * (l.in_c / 8 + 1);
    if (windows * each > 20000) continue;
    l.in_offset = 2 * r.below(64);
    l.shift = draw(0, 29);
    if (op == sluice_abi::OP_AVG_POOL) {
      l.avg_shift = draw(1, 20);
      l.avg_mul = static_cast<unsigned>(r.below(1 << 17));
      if (l.k_h * l.k_w < 256 && r.percent(50)) l.table = l.k_h * l.k_w + 1;
    }
    return l;
  }
}

// Draws a layer of some kind, as the only one of its start.
using Draw = Layer (*)(tb::Random&, const Limits&, unsigned op, unsigned b_act);

inline unsigned random_op(tb::Random& r, unsigned gemm_percent) {
  if (r.percent(gemm_percent)) return sluice_abi::OP_GEMM;
  return r.percent(50) ? sluice_abi::OP_MAX_POOL : sluice_abi::OP_AVG_POOL;
}

// The layers of a start: keep_percent of the GEMMs keep their output on chip for the next layer.
inline std::vector<Layer> random_start(tb::Random& r, const Limits& limit, unsigned n, unsigned gemm_percent,
                                       unsigned keep_percent, unsigned b_act) {
  std::vector<Layer> layers;
  for (unsigned i = 0; i < n; i++) {
    const unsigned op = random_op(r, gemm_percent);
    const bool keep = op == sluice_abi::OP_GEMM && i + 1 < n && r.percent(keep_percent);
    layers.push_back(random_layer(r, limit, op, b_act, i && layers[i - 1].keep_out ? &layers[i - 1] : nullptr, keep));
  }
  return layers;
}

// The ports on which a layer is offered. While nothing is offered they have random values: in the
// NPU they then hold a partly received descriptor.
template <class Dut>
inline void drive_layer(Dut& dut, tb::Random& r, const Layer* l) {
  dut.layer_valid_i = l != nullptr;
  uint32_t w[32];
  if (l) {
    l->words(w);
    dut.layer_fbcb_i = l->fbcb();
  } else {
    for (auto& x : w) x = static_cast<uint32_t>(r.next());
    dut.layer_fbcb_i = static_cast<uint32_t>(r.next());
  }
  std::memcpy(&dut.layer_desc_i, w, sizeof w);
}

// ---------------------------------------------------------------------------------- DRAM
inline uint16_t word_at(uint64_t address) {
  return static_cast<uint16_t>(tb::Random(address / 2).next());
}

// One read client: requests on req_*, answered in order, at the earliest `latency` cycles later,
// beats of different requests without gaps.
class ReadPort {
 public:
  ReadPort(tb::Random& random, tb::Checks& check, unsigned axi_bytes)
      : random_(random), check_(check), bytes_(axi_bytes) {}

  unsigned ready = 100, valid = 100;  // per cent
  unsigned latency = 1;
  uint64_t beats_asked = 0, beats_given = 0;
  std::function<uint16_t(uint64_t)> word = word_at;

  // Inputs of a cycle.
  template <class Dut>
  void drive(Dut& dut) {
    dut.req_ready_i = random_.percent(ready);
    giving_ = !beats_.empty() && beats_.front().at <= now_ && random_.percent(valid);
    dut.rsp_valid_i = giving_;
    dut.rsp_last_i = giving_ ? beats_.front().last : random_.percent(50);
    const uint64_t address = giving_ ? beats_.front().address : random_.next();
    for (unsigned i = 0; i < bytes_ / 2; i++) put(dut.rsp_data_i, i * 16, 16, word(address + 2 * i));
  }
  // After the outputs are stable, before the edge.
  template <class Dut>
  void take(Dut& dut) {
    if (giving_) {
      beats_.pop_front();
      beats_given++;
    }
    if (held_ && dut.rst_ni) {
      check_.that(dut.req_valid_o, "a request is withdrawn");
      check_.that(dut.req_addr_o == held_address_ && dut.req_beats_o == held_beats_,
                  "a request changes while it waits");
    }
    held_ = dut.req_valid_o && !dut.req_ready_i;
    held_address_ = dut.req_addr_o;
    held_beats_ = dut.req_beats_o;
    if (dut.req_valid_o && dut.req_ready_i) {
      check_.that(dut.req_beats_o > 0, "a request for no beats");
      check_.that(dut.req_addr_o % bytes_ == 0, "a request that is not aligned to a beat");
      for (unsigned i = 0; i < dut.req_beats_o; i++) {
        beats_.push_back({dut.req_addr_o + uint64_t{i} * bytes_, i + 1u == dut.req_beats_o, now_ + latency});
      }
      beats_asked += dut.req_beats_o;
    }
    now_++;
  }
  bool idle() const { return beats_.empty(); }

 private:
  struct Beat {
    uint64_t address;
    bool last;
    uint64_t at;
  };
  tb::Random& random_;
  tb::Checks& check_;
  unsigned bytes_;
  uint64_t now_ = 0;
  std::deque<Beat> beats_;
  bool giving_ = false, held_ = false;
  uint64_t held_address_ = 0;
  unsigned held_beats_ = 0;
};

// An item: the C tile at c0 for the row tile at b0, oh0, in the layer's loop order. loads: its
// activations are loaded (again) for it; frees: and are not kept for the next C tile. With order 1
// row tiles stay if there are at most two, as many as the buffer has halves.
struct Visit {
  unsigned b0, oh0, c0;
  bool loads, frees, last;  // last: of its C tile
};

inline std::vector<Visit> visits(const Layer& l, unsigned tc) {
  std::vector<Visit> tiles, all;
  for (unsigned b0 = 0; b0 < l.b_r(); b0 += l.tile_b) {
    for (unsigned oh0 = 0; oh0 < l.out_h; oh0 += l.tile_rows) tiles.push_back({b0, oh0, 0, false, false, false});
  }
  const size_t c_tiles = (l.out_c + tc - 1) / tc, count = tiles.size() * c_tiles;
  const bool again = l.order && tiles.size() > 2;
  for (size_t n = 0; n < count; n++) {
    const size_t c = l.order ? n / tiles.size() : n % c_tiles, t = l.order ? n % tiles.size() : n / c_tiles;
    Visit v = tiles[t];
    v.c0 = static_cast<unsigned>(c) * tc;
    v.loads = again || c == 0;
    v.frees = again || c + 1 == c_tiles;
    v.last = t + 1 == tiles.size();
    all.push_back(v);
  }
  return all;
}

// Addresses of a layer's output (or residual) words in the order of the drain: row tiles and C tiles
// of tc channels in loop order, sample groups, samples, rows, pixels, channels.
inline std::vector<uint64_t> drain_words(const Layer& l, const std::vector<uint64_t>& slots, uint64_t base,
                                         unsigned pix, unsigned tc) {
  std::vector<uint64_t> words;
  for (const Visit& v : visits(l, tc)) {
    for (unsigned gi = 0; gi < l.groups * l.nb(v.b0); gi++) {
      const unsigned g = gi / l.nb(v.b0), i = gi % l.nb(v.b0);
      if (i >= l.nb(v.b0, g)) continue;
      const uint64_t slot = slots[g * l.b_r() + v.b0 + i];
      for (unsigned oh = v.oh0; oh < v.oh0 + l.nr(v.oh0); oh++) {
        for (unsigned ow = 0; ow < l.out_w; ow++) {
          for (unsigned c = v.c0; c < std::min(v.c0 + tc, l.out_c); c++) {
            words.push_back(slot + base + 2 * ((uint64_t{oh} * l.out_w + ow) * pix + c));
          }
        }
      }
    }
  }
  return words;
}

inline std::vector<uint64_t> random_slots(tb::Random& r, uint64_t stride) {
  std::vector<uint64_t> slots;
  const uint64_t base = 64 * r.below(1 << 20);
  while (slots.size() < 8) {
    const uint64_t a = base + stride * r.below(64);
    if (std::find(slots.begin(), slots.end(), a) == slots.end()) slots.push_back(a);
  }
  return slots;
}

}  // namespace unit
