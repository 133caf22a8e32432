// layer.hpp: a layer in the form that the stages use. decode() makes it from the descriptor and the
// FBCB entry, and checks both against this build in the order of hw/rtl/layer_fetch.sv. Also the
// walk: the order in which all stages process the layer's items (one row tile for one C tile).
#ifndef SLUICE_HLS_LAYER_HPP
#define SLUICE_HLS_LAYER_HPP

#include "params.hpp"

namespace npu {

typedef std::uint32_t u32;
typedef std::uint64_t u64;
typedef std::int64_t s64;

struct layer_t {
  bool gemm, depthwise, pool, max, avg, table, residual;
  bool curve, product;            // after the shift; a product's factor is the residual
  bool half, pair, two, c_outer;  // k = 1/2, k = 2, s = 2; C tiles outermost
  bool keep_in, keep_out, on_chip, replay;
  bool in_whole, out_whole, res_whole;  // a row is one run in DRAM
  bool res_once;                        // a pixel is the residual of all positions
  int lanes, tc, tc_groups;             // T_P', of a depthwise layer a vector's weights; channels of a C tile, and their groups of DRAIN
  int chunks, passes;                   // of a kernel row; of an item (depthwise: words of NB weights)
  int in_h, in_w, in_c, in_pix, out_h, out_w, out_c, out_pix, res_pix;
  int k_h, k_w, s_h, s_w, pad_t;
  int in_row, step_row, step_col, pad_col, kwc;
  int res_shift, shift, clamp_lo, clamp_hi, avg_mul, avg_shift, curve_lo, curve_step, curve_shift;
  int in_zero, out_zero;  // zero points (int8)
  u32 in_offset, out_offset, res_offset, in_row_bytes, out_row_bytes, res_row_bytes;
  u32 w_bytes, w_tile;
  u64 w_address, bias_address;
  int bias_count;
  int b_act, b_r, tile_b, tile_rows;
  int sample;  // elements of one sample of a row tile on chip
  // scalars instead of an array of addresses: in a dataflow region only one process may read an
  // array
  u64 slot_base;
  u32 slot_stride;
  table_t slots;  // of the batch positions
};

// The tensor that the previous layer of this start leaves on chip.
struct kept_state_t {
  bool there;
  int h, w, c;
};

struct fault_t {
  u32 code, address;
};

// An item: first sample, first output row, first channel and its group.
struct item_t {
  int b0, oh0, c0, group;
};

inline int least(int a, int b) { return a < b ? a : b; }

inline u32 slot_at(const table_t &slots, int position) {
#pragma HLS inline
  return slots.range(SLOT_BITS * position + SLOT_BITS - 1, SLOT_BITS * position).to_uint();
}
// Address of a batch position's slot.
inline u64 slot_of(const layer_t &l, int position) {
#pragma HLS inline
  const u64 offset = static_cast<u64>(l.slot_stride) * slot_at(l.slots, position & (MAX_BATCH - 1));
// computed once per sample; the DSPs are needed for the array
#pragma HLS bind_op variable=offset op=mul impl=fabric
  return l.slot_base + offset;
}

inline int samples_of(const layer_t &l, const item_t &at, int group) {
  const int n = least(l.tile_b, l.b_r - at.b0);
  if (group == 0) return n;
  const int rest = l.b_act - l.b_r - at.b0;  // group 1 may have fewer, or none
  return rest < 0 ? 0 : least(n, rest);
}
inline int rows_of(const layer_t &l, const item_t &at) { return least(l.tile_rows, l.out_h - at.oh0); }
inline int channels_of(const layer_t &l, const item_t &at) { return l.gemm ? least(l.tc, l.out_c - at.c0) : l.out_c; }

// Number of weight vectors in a pass for a number of channels.
inline int vectors_of(int channels) { return (channels + PAIR - 1) / PAIR; }

// Goes to the next row tile; after the last one it returns false and is at the first again.
inline bool next_tile(const layer_t &l, item_t &at) {
  at.oh0 += l.tile_rows;
  if (at.oh0 < l.out_h) return true;
  at.oh0 = 0;
  at.b0 += l.tile_b;
  if (at.b0 < l.b_r) return true;
  at.b0 = 0;
  return false;
}
// Goes to the next C tile; after the last one it returns false and is at the first again.
inline bool next_channels(const layer_t &l, item_t &at) {
  at.c0 += l.tc;
  at.group += l.tc_groups;
  if (l.gemm && at.c0 < l.out_c) return true;
  at.c0 = 0;
  at.group = 0;
  return false;
}
// Goes to the next item in the layer's loop order; returns false after the last one.
inline bool next_item(const layer_t &l, item_t &at) {
  if (l.c_outer) return next_tile(l, at) || next_channels(l, at);
  return next_channels(l, at) || next_tile(l, at);
}

// A run of consecutive words in DRAM, for results or residuals: an output row of a sample in an
// item's sample group, or one pixel of it if a row is not one run (whole), or one pixel for the
// sample (once).
struct run_t {
  item_t at;
  int g, i, r, x;
};
// Goes to the next run; returns false after the last one of the layer.
inline bool next_run(const layer_t &l, bool whole, bool once, run_t &run) {
  if (!(POST && once)) {
    if (++run.x < (whole ? 1 : l.out_w)) return true;
    run.x = 0;
    if (++run.r < rows_of(l, run.at)) return true;
    run.r = 0;
  }
  if (++run.i < samples_of(l, run.at, run.g)) return true;
  run.i = 0;
  if (run.g == 0 && l.two && samples_of(l, run.at, 1) > 0) {
    run.g = 1;
    return true;
  }
  run.g = 0;
  return next_item(l, run.at);
}
// Address of its first byte, relative to the slot.
inline u64 address_of(const layer_t &l, const run_t &run, u32 offset, u32 row_bytes, int pix) {
  const u64 base = slot_of(l, run.at.b0 + run.i + (run.g == 0 ? 0 : l.b_r));
  const u32 row = offset + static_cast<u32>(run.at.oh0 + run.r) * row_bytes;
  return base + row + static_cast<u32>(WORD_BYTES) * (static_cast<u32>(run.x) * pix + run.at.c0);
}
// Number of groups of DRAIN words in which the channels of one pixel are written.
inline int groups_of(int channels) { return (channels + DRAIN - 1) / DRAIN; }

// Maximum number of trips of the loops over items, tiles and runs, for any bundle. Loops without a
// bound of their own state one of these to synthesis.
constexpr int MAX_TRIPS = 1 << 20;

inline u64 align_weights(u64 bytes) {
  return (bytes + (hw::WEIGHT_ALIGN - 1)) & ~static_cast<u64>(hw::WEIGHT_ALIGN - 1);
}

// Checks that a tensor's rows are inside the slot. A row that begins beyond 4 GiB is outside every
// slot; its offset is reported with 32 bits, as in hw/rtl/run_gen.sv.
inline bool rows_leave(u32 offset, u32 row_bytes, int first, int end, bool whole, u32 whole_bytes, int width,
                       int pix, int channels, u32 stride, u32 &address) {
  const u64 bytes = whole ? static_cast<u64>(whole_bytes)
                          : static_cast<u64>(WORD_BYTES) * (static_cast<u64>(width - 1) * pix + channels);
  u64 off = offset + static_cast<u64>(first) * row_bytes;
rows:
  for (int r = first; r < end; r++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_ROWS
    if (off + bytes > stride) {
      address = static_cast<u32>(off);
      return true;
    }
    off += row_bytes;
  }
  return false;
}

// Sizes that exceed the RTL's counters. The counters here are larger, but RTL and kernel must
// reject the same descriptors.
inline bool too_large(const layer_t &l) {
  const u32 run_bytes = static_cast<u32>(hw::RUN_BEATS_MAX) * WIDE_BYTES;
  const u32 row_bytes = hw::ROW_BYTES_MAX;
  return l.out_h > hw::OUT_H_MAX ||
         l.in_row_bytes > row_bytes || l.out_row_bytes > row_bytes || (l.residual && l.res_row_bytes > row_bytes) ||
         (l.out_pix == l.out_c && l.out_row_bytes > run_bytes) ||
         (l.in_pix == l.in_c && static_cast<u32>(WORD_BYTES * l.in_row) > run_bytes);
}

// Number of words before a curve's: those of the channels and, in int8, of a residual.
inline int curve_begin(const layer_t &l) { return BIAS_WORDS * l.out_c + (INT8 && l.residual ? RES_WORDS : 0); }

inline u32 check_static(const u32 *d, u32 entry, const layer_t &l, const kept_state_t &kept, bool last) {
  using hw::get;
  u32 reserved = static_cast<u32>(get(d, hw::DESC_F_MAGIC)) ^ hw::DESC_MAGIC;
reserved_words:
  for (u32 i = 0; i < hw::DESC_WORDS; i++) {
#pragma HLS unroll
    reserved |= d[i] & (INT8 ? hw::DESC_RSVD_MASK_INT8[i] : hw::DESC_RSVD_MASK[i]);
  }
  if (reserved != 0) return hw::ERR_DESC_MAGIC;
  if (!l.gemm && !l.depthwise && !l.avg && !l.max) return hw::ERR_DESC_OP;
  // all maps of a design have the same type
  if (INT8 && (get(d, hw::DESC_F_IN_8) == 0 || get(d, hw::DESC_F_OUT_8) == 0 || (get(d, hw::DESC_F_RES_8) != 0) != l.residual)) return hw::ERR_DESC_OP;
  if (!POST && (l.curve || l.product)) return hw::ERR_DESC_OP;
  const bool sizes = l.in_h && l.in_w && l.in_c && l.out_h && l.out_w && l.out_c && l.k_h && l.k_w && l.s_h && l.s_w;
  if (!sizes || l.in_pix < l.in_c || l.out_pix < l.out_c || (l.residual && (l.pool || (!l.res_once && l.res_pix < l.out_c))) ||
      l.s_h > hw::STRIDE_MAX || l.s_w > hw::STRIDE_MAX || too_large(l) || (l.out_h - 1) * l.s_h >= l.in_h + l.pad_t ||
      (l.out_w - 1) * l.s_w >= l.in_w + static_cast<int>(get(d, hw::DESC_F_PAD_L)) ||
      (!l.pool && (l.out_c > C_MAX || l.bias_count != curve_begin(l) + (l.curve ? static_cast<int>(hw::CURVE_WORDS) : 0) ||
                   l.w_bytes == 0 || l.w_tile == 0)) ||
      (l.depthwise && l.w_tile != l.w_bytes) || (!l.gemm && l.out_c != l.in_c) || (l.pool && l.curve) ||
      (l.product && (!l.residual || l.curve)))
    return hw::ERR_DESC_SHAPE;
  if (l.table ? (!l.avg || l.bias_count > static_cast<int>(hw::AVG_TABLE)) : (l.pool && l.bias_count != 0))
    return hw::ERR_DESC_SHAPE;
  if (l.shift > (INT8 ? 0 : hw::SHIFT_MAX) || (INT8 && l.res_shift != 0) || (l.curve && static_cast<u32>(l.curve_step) > hw::CURVE_STEP_MAX) ||
      ((INT8 ? l.pool : l.avg) && ((!INT8 && l.avg_shift == 0) || l.avg_shift > hw::SHIFT_MAX)))
    return hw::ERR_DESC_SHIFT;
  const int k = static_cast<int>(get(&entry, hw::FBCB_K));
  const u32 w_offset = static_cast<u32>(
      l.half ? get(d, hw::DESC_F_W_OFFSET_H)
             : (l.pair ? get(d, hw::DESC_F_W_OFFSET_2) : get(d, hw::DESC_F_W_OFFSET_1)));
  if (((l.in_offset | l.out_offset | l.res_offset) & (WORD_BYTES - 1)) != 0 ||
      ((w_offset | l.w_bytes | l.w_tile | static_cast<u32>(get(d, hw::DESC_F_BIAS_OFFSET))) & (hw::WEIGHT_ALIGN - 1)) != 0)
    return hw::ERR_DESC_ADDRESS;
  const bool order = get(&entry, hw::FBCB_ORDER) != 0;
  const u32 again = l.w_tile < l.w_bytes ? l.w_tile : l.w_bytes;  // bytes that loop order 1 replays
  const bool one_tile = !l.two && l.tile_b == l.b_act && l.tile_rows == l.out_h;
  if ((entry & hw::FBCB_RSVD_MASK) != 0 || (k != hw::K_ONE && k != hw::K_HALF && k != hw::K_TWO) || (k != hw::K_ONE && (!STACK || !l.gemm)) ||
      (l.two && (!FLUID || !l.gemm || l.pair || l.b_act == 1 || l.b_r != (l.b_act + 1) / 2 ||
                 l.out_c > (l.half ? T_C : T_C / 2))) ||
      (order && (!l.gemm || again > static_cast<u32>(RING_KEEP))) || l.tile_b == 0 || l.tile_b > l.b_r ||
      l.tile_rows == 0 || l.tile_rows > l.out_h)
    return hw::ERR_FBCB_RANGE;
  if (l.keep_in != kept.there || (l.on_chip && !l.keep_out) ||
      (l.keep_in && (!one_tile || l.in_h != kept.h || l.in_w != kept.w || l.in_c != kept.c)) ||
      (l.keep_out && (!one_tile || !(l.gemm || (l.depthwise && l.keep_in)) || last || l.out_pix != l.out_c)))
    return hw::ERR_FBCB_RANGE;
  return hw::ERR_NONE;
}

// Products in the descriptor, and the size of a tile. Sets sample, chunks and passes.
inline u32 check_products(const u32 *d, layer_t &l) {
  using hw::get;
  const u64 c = static_cast<u64>(l.in_c), row = static_cast<u64>(l.in_row);
  if (c * l.in_w != row || c * l.k_w != static_cast<u64>(l.kwc) || row * l.s_h != static_cast<u64>(l.step_row) ||
      c * l.s_w != static_cast<u64>(l.step_col) || c * static_cast<u64>(get(d, hw::DESC_F_PAD_L)) != static_cast<u64>(l.pad_col) ||
      static_cast<u64>(WORD_BYTES) * l.in_pix * l.in_w > l.in_row_bytes ||
      static_cast<u64>(WORD_BYTES) * l.out_pix * l.out_w != l.out_row_bytes ||
      (l.residual && static_cast<u64>(WORD_BYTES) * l.res_pix * l.out_w != l.res_row_bytes))
    return hw::ERR_DESC_SHAPE;
  const u64 room = l.two ? ABUF / 2 : ABUF;
  const u64 steps = static_cast<u64>(l.tile_rows - 1) * l.s_h;
  if (steps > static_cast<u64>(hw::TILE_REACH_MAX)) return hw::ERR_TILE_RANGE;
  const u64 rows = l.keep_in ? static_cast<u64>(l.in_h) : steps + l.k_h;
  const u64 sample = row * rows;
  if (sample > room || sample * l.tile_b > room) return hw::ERR_TILE_RANGE;
  if ((steps + l.k_h) * l.tile_b > static_cast<u64>(hw::PLACES_MAX)) return hw::ERR_TILE_RANGE;
  l.sample = static_cast<int>(sample);
  const u64 tile = static_cast<u64>(l.out_w) * l.tile_rows * l.tile_b;
  if (l.gemm && tile > static_cast<u64>(l.half ? T_R / 2 : T_R)) return hw::ERR_TILE_RANGE;
  const u64 taps = static_cast<u64>(l.k_h) * l.k_w;
  if (l.avg && (taps > hw::AVG_TAPS || (l.table && taps >= static_cast<u64>(l.bias_count)))) return hw::ERR_DESC_SHAPE;
  l.chunks = l.half ? (l.kwc + FH - 1) / FH : (l.pair ? (l.kwc + LANES - 1) / LANES : (l.kwc + T_P - 1) / T_P);
  l.passes = l.k_h * (l.gemm ? l.chunks : l.k_w * ((l.in_c + NB - 1) / NB));
  if (l.depthwise && (l.passes > static_cast<int>(hw::DW_WORDS) ||
                      l.w_bytes != align_weights(static_cast<u64>(WEIGHT_BYTES) * l.passes * l.lanes)))
    return hw::ERR_DESC_SHAPE;
  return hw::ERR_NONE;
}

// The stream of weights has the length that the layer needs.
inline bool weights_fit(const layer_t &l) {
  const u64 vector = static_cast<u64>(WEIGHT_BYTES) * l.passes * l.lanes;
  const u64 full = align_weights(vector * vectors_of(l.tc));
  u64 rest = l.w_bytes;
  int left = l.out_c;
tiles:
  for (; left > l.tc; left -= l.tc) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=C_MAX
    if (l.w_tile != full || rest < full) return false;
    rest -= full;
  }
  return rest == align_weights(vector * vectors_of(left)) && rest <= l.w_tile;
}

// decode makes a layer from a descriptor and an FBCB entry; if they are rejected, it returns the
// reason.
inline fault_t decode(const u32 *d, u32 entry, int b_act, u64 weight_base, u32 slot_stride, const kept_state_t &kept,
                      bool last, layer_t &l) {
  using hw::get;
  fault_t fault = {hw::ERR_NONE, 0};
  const u32 op = static_cast<u32>(get(d, hw::DESC_F_OP));
  const int k = static_cast<int>(get(&entry, hw::FBCB_K));
  l.gemm = op == hw::OP_GEMM;
  l.depthwise = DEPTHWISE && op == hw::OP_DEPTHWISE;
  l.max = op == hw::OP_MAX_POOL;
  l.avg = op == hw::OP_AVG_POOL;
  l.pool = l.max || l.avg;
  l.curve = get(d, hw::DESC_F_CURVE) != 0;
  l.product = get(d, hw::DESC_F_PRODUCT) != 0;
  l.curve_lo = static_cast<int>(get(d, hw::DESC_F_CURVE_LO));
  l.curve_step = static_cast<int>(get(d, hw::DESC_F_CURVE_STEP));
  l.curve_shift = static_cast<int>(get(d, hw::DESC_F_CURVE_SHIFT));
  l.in_zero = INT8 ? static_cast<int>(get(d, hw::DESC_F_IN_ZERO)) : 0;
  l.out_zero = INT8 ? static_cast<int>(get(d, hw::DESC_F_OUT_ZERO)) : 0;
  l.table = get(d, hw::DESC_F_AVG_TABLE) != 0;
  l.residual = get(d, hw::DESC_F_RESIDUAL) != 0;
  l.b_act = b_act;
  l.b_r = static_cast<int>(get(&entry, hw::FBCB_B_R));
  l.tile_b = static_cast<int>(get(&entry, hw::FBCB_TILE_B));
  l.tile_rows = static_cast<int>(get(&entry, hw::FBCB_TILE_ROWS));
  l.keep_in = get(&entry, hw::FBCB_KEEP_IN) != 0;
  l.keep_out = get(&entry, hw::FBCB_KEEP_OUT) != 0;
  l.on_chip = get(&entry, hw::FBCB_ON_CHIP) != 0;
  l.half = k == hw::K_HALF && !l.depthwise;
  l.pair = k == hw::K_TWO && !l.depthwise;
  l.two = l.b_r != b_act;
  l.in_h = static_cast<int>(get(d, hw::DESC_F_IN_H));
  l.in_w = static_cast<int>(get(d, hw::DESC_F_IN_W));
  l.in_c = static_cast<int>(get(d, hw::DESC_F_IN_C));
  l.in_pix = static_cast<int>(get(d, hw::DESC_F_IN_PIX));
  l.out_h = static_cast<int>(get(d, hw::DESC_F_OUT_H));
  l.out_w = static_cast<int>(get(d, hw::DESC_F_OUT_W));
  l.out_c = static_cast<int>(get(d, hw::DESC_F_OUT_C));
  l.out_pix = static_cast<int>(get(d, hw::DESC_F_OUT_PIX));
  l.res_pix = static_cast<int>(get(d, hw::DESC_F_RES_PIX));
  l.res_shift = static_cast<int>(get(d, hw::DESC_F_RES_SHIFT));
  l.shift = static_cast<int>(get(d, hw::DESC_F_SHIFT));
  l.k_h = static_cast<int>(get(d, hw::DESC_F_K_H));
  l.k_w = static_cast<int>(get(d, hw::DESC_F_K_W));
  l.s_h = static_cast<int>(get(d, hw::DESC_F_S_H));
  l.s_w = static_cast<int>(get(d, hw::DESC_F_S_W));
  l.pad_t = static_cast<int>(get(d, hw::DESC_F_PAD_T));
  l.clamp_lo = static_cast<int>(get(d, hw::DESC_F_CLAMP_LO));
  l.clamp_hi = static_cast<int>(get(d, hw::DESC_F_CLAMP_HI));
  l.bias_count = static_cast<int>(get(d, hw::DESC_F_BIAS_COUNT));
  l.in_row = static_cast<int>(get(d, hw::DESC_F_IN_ROW));
  l.in_row_bytes = static_cast<u32>(get(d, hw::DESC_F_IN_ROW_BYTES));
  l.out_row_bytes = static_cast<u32>(get(d, hw::DESC_F_OUT_ROW_BYTES));
  l.res_row_bytes = static_cast<u32>(get(d, hw::DESC_F_RES_ROW_BYTES));
  l.res_once = POST && l.residual && l.res_pix == 0;
  l.step_row = static_cast<int>(get(d, hw::DESC_F_STEP_ROW));
  l.step_col = static_cast<int>(get(d, hw::DESC_F_STEP_COL));
  l.pad_col = static_cast<int>(get(d, hw::DESC_F_PAD_COL));
  l.kwc = static_cast<int>(get(d, hw::DESC_F_KWC));
  l.avg_mul = static_cast<int>(get(d, hw::DESC_F_AVG_MUL));
  l.avg_shift = static_cast<int>(get(d, hw::DESC_F_AVG_SHIFT));
  l.in_offset = static_cast<u32>(get(d, hw::DESC_F_IN_OFFSET));
  l.out_offset = static_cast<u32>(get(d, hw::DESC_F_OUT_OFFSET));
  l.res_offset = static_cast<u32>(get(d, hw::DESC_F_RES_OFFSET));
  u32 w_offset = static_cast<u32>(get(d, hw::DESC_F_W_OFFSET_1));
  l.w_bytes = static_cast<u32>(get(d, hw::DESC_F_W_BYTES_1));
  l.w_tile = static_cast<u32>(get(d, hw::DESC_F_W_TILE_1));
  l.lanes = T_P;
  l.tc = T_C;
  l.tc_groups = T_C / DRAIN;
  if (l.half) {
    w_offset = static_cast<u32>(get(d, hw::DESC_F_W_OFFSET_H));
    l.w_bytes = static_cast<u32>(get(d, hw::DESC_F_W_BYTES_H));
    l.w_tile = static_cast<u32>(get(d, hw::DESC_F_W_TILE_H));
    l.lanes = FH;
    l.tc = 2 * T_C;
    l.tc_groups = 2 * T_C / DRAIN;
  } else if (l.pair) {
    w_offset = static_cast<u32>(get(d, hw::DESC_F_W_OFFSET_2));
    l.w_bytes = static_cast<u32>(get(d, hw::DESC_F_W_BYTES_2));
    l.w_tile = static_cast<u32>(get(d, hw::DESC_F_W_TILE_2));
    l.lanes = LANES;
    l.tc = T_C / 2;
    l.tc_groups = T_C / 2 / DRAIN;
  }
  if (l.two) {
    l.tc /= 2;
    l.tc_groups /= 2;
  }
  if (l.depthwise) l.lanes = DW_WEIGHTS;
  l.w_address = weight_base + w_offset;
  l.bias_address = weight_base + static_cast<u32>(get(d, hw::DESC_F_BIAS_OFFSET));
  l.replay = get(&entry, hw::FBCB_ORDER) != 0 || l.w_bytes <= static_cast<u32>(RING_KEEP);

  fault.code = check_static(d, entry, l, kept, last);
  if (fault.code != hw::ERR_NONE) return fault;
  fault.code = check_products(d, l);
  if (fault.code != hw::ERR_NONE) return fault;

  // with one row tile both orders are the same, and its rows need not be loaded again
  l.c_outer = get(&entry, hw::FBCB_ORDER) != 0 && !(l.tile_b >= l.b_r && l.tile_rows >= l.out_h);
  l.in_whole = l.in_pix == l.in_c;
  const bool one_c = !l.gemm || l.out_c <= l.tc;
  l.out_whole = one_c && l.out_pix == l.out_c;
  l.res_whole = one_c && l.res_pix == l.out_c;

  const s64 bottom = static_cast<s64>(l.out_h - 1) * l.s_h + l.k_h - l.pad_t;  // end of the rows read
  const int in_end = bottom < l.in_h ? static_cast<int>(bottom) : l.in_h;
  const bool leaves =
      (!l.keep_in && rows_leave(l.in_offset, l.in_row_bytes, 0, in_end, l.in_whole, static_cast<u32>(WORD_BYTES * l.in_row),
                                l.in_w, l.in_pix, l.in_c, slot_stride, fault.address)) ||
      rows_leave(l.out_offset, l.out_row_bytes, 0, l.out_h, l.out_whole, l.out_row_bytes, l.out_w, l.out_pix, l.out_c,
                 slot_stride, fault.address) ||
      (l.residual && rows_leave(l.res_offset, l.res_row_bytes, 0, l.out_h, l.res_whole, l.res_row_bytes, l.out_w,
                                l.res_pix, l.out_c, slot_stride, fault.address));
  if (leaves) {
    fault.code = hw::ERR_DESC_ADDRESS;
    return fault;
  }
  if (l.gemm && !weights_fit(l)) fault.code = hw::ERR_DESC_SHAPE;
  return fault;
}

}  // namespace npu

#endif
