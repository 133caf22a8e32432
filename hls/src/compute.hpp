// compute.hpp: the stages that compute: the array <T_R, T_P, T_C> and the lanes of pools and
// depthwise layers (multiply), and the stage that empties the accumulators (drain).
#ifndef SLUICE_HLS_COMPUTE_HPP
#define SLUICE_HLS_COMPUTE_HPP

#include "layer.hpp"

namespace npu {

typedef packed_t pes_t[CHAINS][T_P];

// One of the two 8-bit values in a weight word.
inline word_t byte_of(const weight_t &w, int i) {
#pragma HLS inline
  return word_t(w.range(WORD_BITS * i + WORD_BITS - 1, WORD_BITS * i).to_int());
}

// The operand of a multiplier. In int8 it packs the weights of two channels; a negative lower weight subtracts one from
// the upper one.
inline packed_t pack(const weight_t &w) {
#pragma HLS inline
  if (!INT8) return packed_t(w);
  return packed_t(static_cast<std::int32_t>(byte_of(w, 1)) * (1 << PACK_SHIFT) + static_cast<std::int32_t>(byte_of(w, 0)));
}

// Loads vector c of a pass into its chain: the weights of one channel, or of two in int8.
// With k = 1/2 each half of a chain has a vector, with k = 2 a vector has two chains. With s = 2 both
// chains hold the same weights, one for each group.
inline void hold(const layer_t &l, const vec_t &v, int c, pes_t &pes) {
#pragma HLS inline
chains:
  for (int chain = 0; chain < CHAINS; chain++) {
#pragma HLS unroll
    const int own = l.two || l.pair ? chain >> 1 : chain;  // index of the vector (or pair of them)
  lanes:
    for (int p = 0; p < T_P; p++) {
#pragma HLS unroll
      if (l.half) {
        if (p < FH ? c == 2 * own : (c == 2 * own + 1 && p < 2 * FH)) pes[chain][p] = pack(v.w[p < FH ? p : p - FH]);
      } else if (c == own) {
        pes[chain][p] = pack(l.pair && (chain & 1) != 0 ? v.w[T_P + p] : v.w[p]);
      }
    }
  }
}

// Computes one row: adds every PE's sum, or the sums of its halves, to accumulator row n. A PE has one
// channel. In int8 a chain is two PEs, whose products come from the same multipliers.
inline void step(const layer_t &l, const row_t &row, const pes_t &pes, int n, bool first, acc_t (&bank)[2][T_C][T_R / 2]) {
#pragma HLS inline
  acc_t sum[2][CHAINS][PAIR];  // by half, chain and channel of the pair
  acc_t low[T_C], high[T_C];
#pragma HLS array_partition variable=sum complete dim=0
#pragma HLS array_partition variable=low complete dim=0
#pragma HLS array_partition variable=high complete dim=0
trees:
  for (int chain = 0; chain < CHAINS; chain++) {
#pragma HLS unroll
    // the odd chain of a pair gets the upper lanes: the second half of a window (k = 2), or group 1's
    // window
    const int side = (l.pair || l.two) && (chain & 1) != 0 ? T_P : 0;
    s64 lo = 0, hi = 0, lo_upper = 0, hi_upper = 0;  // upper: of the pair's other channel
    s64 segment = SEGMENT_BEGIN;
  lanes:
    for (int p = 0; p < T_P; p++) {
#pragma HLS unroll
      const bool upper = p >= FH;
      // both halves of a PE get the same lanes if they work separately (k = 1/2)
      const word_t x = l.half && upper ? (p < 2 * FH ? row.x[side + p - FH] : word_t(0)) : row.x[side + p];
      const std::int32_t product = static_cast<std::int32_t>(pes[chain][p]) * static_cast<std::int32_t>(x);
// these multipliers are the array; each is one DSP with its register
#pragma HLS bind_op variable=product op=mul impl=dsp latency=2
      segment += product;
      const int place = upper ? p - FH : p;  // in the half
      if (p == FH - 1 || p == T_P - 1 || (INT8 && place % SEGMENT == SEGMENT - 1)) {
        // the lower channel's sum has its sign bit inverted, which makes the upper one's exact
        const ap_int<PACK_SHIFT> lower = segment ^ SEGMENT_BEGIN;
        const s64 one = INT8 ? static_cast<s64>(lower) : segment, other = segment >> PACK_SHIFT;
        if (upper) {
          hi += one;
          hi_upper += other;
        } else {
          lo += one;
          lo_upper += other;
        }
        segment = SEGMENT_BEGIN;
      }
    }
    sum[0][chain][0] = lo;
    sum[1][chain][0] = hi;
    sum[0][chain][PAIR - 1] = INT8 ? lo_upper : lo;
    sum[1][chain][PAIR - 1] = INT8 ? hi_upper : hi;
  }
order:
  for (int pe = 0; pe < T_C; pe++) {
#pragma HLS unroll
    // in int8 PEs have the order of int16: with k = 2 or s = 2 the same channel of two chains is adjacent; with k = 1/2 a PE
    // is one half of a chain
    const bool crossed = l.pair || l.two;
    const int outer = (pe >> 1) & 1, inner = pe & 1;
    const int chain = INT8 ? (pe >> 2) * 2 + (crossed ? inner : outer) : pe % CHAINS;
    const int rest = crossed ? outer : inner;  // half or channel
    low[pe] = INT8 && l.half ? sum[rest][chain][0] : sum[0][chain][rest % PAIR];
    high[pe] = INT8 && l.half ? sum[rest][chain][PAIR - 1] : sum[1][chain][rest % PAIR];
  }
  // a half has T_R / 2 rows: with k = 1/2 each has its own rows, else they hold the even and the
  // odd rows
  const int index = l.half ? n : n >> 1;
accumulators:
  for (int pe = 0; pe < T_C; pe++) {
#pragma HLS unroll
    const s64 both = static_cast<s64>(low[pe]) + static_cast<s64>(high[pe]);
    s64 stacked = both;
    if (l.pair && (pe & 1) == 0) stacked += static_cast<s64>(low[pe + 1]) + static_cast<s64>(high[pe + 1]);
  halves:
    for (int h = 0; h < 2; h++) {
#pragma HLS unroll
      if (l.half || (n & 1) == h) {
        const s64 sum = l.half ? (h == 0 ? s64(low[pe]) : s64(high[pe])) : stacked;
        const s64 before = first ? s64(0) : static_cast<s64>(bank[h][pe][index]);
        bank[h][pe][index] = before + sum;
      }
    }
  }
}

// One layer tap by tap: NB channels in parallel, one tap per cycle, of a pool or of a depthwise
// convolution. While a window is summed, the words of the windows before leave in groups of DRAIN
// channels of their pixel.
inline void tap_lanes(const layer_t &l, hls::stream<row_t> &rows, hls::stream<vec_t> &vecs, hls::stream<sums_t> &pooled) {
  word_t held[hw::DW_WORDS][NB];
// the weights of NB channels per cycle
#pragma HLS array_partition variable=held complete dim=2
#pragma HLS bind_storage variable=held type=ram_s2p impl=bram
  if (DEPTHWISE && l.depthwise) {
  hold:
    for (int n = 0; n < l.passes; n++) {
// a vector a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=hw::DW_WORDS
      const vec_t v = vecs.read();
    held_lanes:
      for (int i = 0; i < NB; i++) {
#pragma HLS unroll
        const int from = i / PAIR < VEC ? i / PAIR : 0;  // without the depthwise unit a vector may be shorter
        held[n][i] = INT8 ? byte_of(v.w[from], i % 2) : word_t(v.w[from]);
      }
    }
  }
  const int taps = l.k_h * l.k_w;
  const int parts = groups_of(l.in_c <= NB ? l.in_c : NB + REST);  // most groups that a window's words complete
  const int period = taps > parts ? taps : parts;
  const s64 windows = static_cast<s64>(l.b_act) * l.out_h * l.out_w * ((l.in_c + NB - 1) / NB);
  const s64 busy = windows * period;
  acc_t best[NB], given[NB + REST];
#pragma HLS array_partition variable=best complete dim=0
#pragma HLS array_partition variable=given complete dim=0
  int t = 0, word = 0, c0 = 0, inside = 0;
  int fill = 0, group = 0, of = 0;  // words in given, their group of the pixel, and its taps
  bool ends = false;                // the words are the pixel's last
steps:
  for (s64 n = 0; n < busy + parts; n++) {
// one tap per cycle, as they are formed, and DRAIN words, as for the array
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
    if (fill >= DRAIN || (ends && fill > 0)) {
      sums_t sums;
      sums.group = l.pool ? 0 : group;  // a pool has no biases
      sums.count = least(DRAIN, fill);
      sums.taps = of;
    words:
      for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
        sums.a[j] = j < fill && j < NB + REST ? given[j] : acc_t(0);
      }
      pooled.write(sums);
    shift:
      for (int i = 0; i < NB + REST; i++) {
#pragma HLS unroll
        given[i] = i + DRAIN < NB + REST ? given[i + DRAIN] : acc_t(0);
      }
      fill = fill > DRAIN ? fill - DRAIN : 0;
      group = ends && fill == 0 ? 0 : group + 1;
    }
    if (n < busy) {
      if (t < taps) {
        const row_t row = rows.read();
        inside = (t == 0 ? 0 : inside) + (row.inside != 0 ? 1 : 0);
      add:
        for (int i = 0; i < NB; i++) {
#pragma HLS unroll
          s64 x = static_cast<s64>(row.x[i]) - l.in_zero;
          if (DEPTHWISE && l.depthwise) {
            const std::int32_t weighted = static_cast<std::int32_t>(held[word][i]) * static_cast<std::int32_t>(row.x[i]);
// one DSP a lane, with its register
#pragma HLS bind_op variable=weighted op=mul impl=dsp latency=2
            x = weighted;
          }
          const s64 was = t > 0 ? static_cast<s64>(best[i]) : (l.max ? x : s64(0));
          best[i] = l.max ? (x > was ? x : was) : was + x;
        }
        word++;
      }
      if (++t == period) {
      take:
        for (int i = 0; i < NB + REST; i++) {
#pragma HLS unroll
          const int from = REST == 0 ? i : i - fill;
          if (from >= 0 && from < NB) given[i] = best[from];
        }
        t = 0;
        of = inside;
        fill += least(NB, l.in_c - c0);
        c0 = c0 + NB < l.in_c ? c0 + NB : 0;
        ends = c0 == 0;
        if (ends) word = 0;
      }
    }
  }
}

// multiply is the array: for each item, pass after pass, one row per cycle. Of two banks, drain
// empties one while the other is filled.
inline void multiply(const layer_t l, hls::stream<row_t> &rows, hls::stream<vec_t> &vecs,
                     hls::stream_of_blocks<bank_t> &banks, hls::stream<sums_t> &pooled) {
  if (!l.gemm) {
    tap_lanes(l, rows, vecs, pooled);
    return;
  }
  pes_t pes;
#pragma HLS array_partition variable=pes complete dim=0
clear:
  for (int chain = 0; chain < CHAINS; chain++) {
#pragma HLS unroll
  clear_lanes:
    for (int p = 0; p < T_P; p++) {
#pragma HLS unroll
      pes[chain][p] = 0;
    }
  }
  item_t at = {0, 0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    hls::write_lock<bank_t> bank(banks);
    const int n_rows = samples_of(l, at, 0) * rows_of(l, at) * l.out_w;
    const int vectors = vectors_of(channels_of(l, at));
  passes:
    for (int pass = 0; pass < l.passes; pass++) {
#pragma HLS loop_tripcount max=ABUF
    hold:
      for (int c = 0; c < vectors; c++) {
// one vector per cycle; the registers are written by enable
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=C_MAX
        const vec_t v = vecs.read();
        hold(l, v, c, pes);
      }
    rows:
      for (int n = 0; n < n_rows; n++) {
// one row per cycle is what the array is built for
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=T_R
// a pass uses every accumulator row once, and the next pass begins when this one has left the
// pipeline
#pragma HLS dependence variable=bank type=inter false
        step(l, rows.read(), pes, n, pass == 0, bank);
      }
    }
    more = next_item(l, at);
  }
}

// drain reads finished banks: sample groups, in each the rows, in each row groups of DRAIN
// channels.
inline void drain(const layer_t l, hls::stream_of_blocks<bank_t> &banks, hls::stream<sums_t> &pooled,
                  hls::stream<sums_t> &sums) {
  if (!l.gemm) {
    const s64 all = static_cast<s64>(l.b_act) * l.out_h * l.out_w * groups_of(l.in_c);
  pass_on:
    for (s64 n = 0; n < all; n++) {
// a group a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      sums.write(pooled.read());
    }
    return;
  }
  item_t at = {0, 0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    hls::read_lock<bank_t> bank(banks);
    const int nch = channels_of(l, at);
    const int groups = groups_of(nch);
  sample_groups:
    for (int g = 0; g < 2; g++) {
      const int n_rows = g == 0 || l.two ? samples_of(l, at, g) * rows_of(l, at) * l.out_w : 0;
      const int steps = n_rows * groups;
      int row = 0, group = 0;
    steps:
      for (int s = 0; s < steps; s++) {
// a group a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
        // one address for all memories, each read once; the words are selected afterwards
        const int index = l.half ? row : row >> 1;
        acc_t line[2][T_C];
#pragma HLS array_partition variable=line complete dim=0
      halves:
        for (int h = 0; h < 2; h++) {
#pragma HLS unroll
        pes:
          for (int pe = 0; pe < T_C; pe++) {
#pragma HLS unroll
            line[h][pe] = bank[h][pe][index];
          }
        }
        sums_t out;
        out.group = at.group + group;
        out.count = least(DRAIN, nch - group * DRAIN);
        out.taps = 0;
      words:
        for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
          acc_t sum = 0;
        choose:
          for (int n = 0; n < 2 * T_C / DRAIN; n++) {
#pragma HLS unroll
            const int c = n * DRAIN + j;  // in the C tile
            // k = 1/2: a PE has two channels, one per half; k = 2 and s = 2: a pair of PEs has one
            // channel, or two
            const int own = least(c, T_C - 1), half_own = c >> 1;
            const int pair = least(2 * c, T_C - 2), half_pair = least(2 * half_own, T_C - 2);
            const acc_t alone = l.half ? line[c & 1][half_own] : line[row & 1][own];
            const acc_t even = l.half ? line[c & 1][half_pair] : line[row & 1][pair];
            const acc_t odd = l.half ? line[c & 1][half_pair + 1] : line[row & 1][pair + 1];
            if (n == group) sum = !l.two && !l.pair ? alone : (g == 0 ? even : odd);
          }
          out.a[j] = j < out.count ? sum : acc_t(0);
        }
        sums.write(out);
        if (++group == groups) {
          group = 0;
          row++;
        }
      }
    }
    more = next_item(l, at);
  }
}

}  // namespace npu

#endif
