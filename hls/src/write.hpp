// write.hpp: the stages after the accumulators: bias, residual, requantisation and clamp (finish),
// and writing to the tensor that stays on chip (keep_out) or to DRAM (pack_out, write_out).
#ifndef SLUICE_HLS_WRITE_HPP
#define SLUICE_HLS_WRITE_HPP

#include "read.hpp"

namespace npu {

inline s64 saturate(s64 y) {
#pragma HLS inline
  const s64 top = (1 << (hw::DATA_BITS - 1)) - 1, bottom = -top - 1;
  return y > top ? top : (y < bottom ? bottom : y);
}
// sat16(rnd(x, n)), rnd(x, n) = (x + 2^(n-1)) >> n.
inline s64 rescale(s64 x, int shift) {
#pragma HLS inline
  const s64 half = shift == 0 ? s64(0) : static_cast<s64>(1) << (shift - 1);
  return saturate((x + half) >> shift);
}
// The same in int8, which rounds half to even.
inline s64 round_even(s64 x, int shift) {
#pragma HLS inline
  const s64 half = shift == 0 ? s64(0) : (static_cast<s64>(1) << (shift - 1)) - 1 + ((x >> shift) & 1);
  return saturate((x + half) >> shift);
}
// A factor's word in the bias memory: mul in its low bits, and a shift.
constexpr std::int32_t FACTOR_MASK = (1 << FACTOR_BITS) - 1;
inline int shift_of(std::int32_t factor) {
#pragma HLS inline
  return (factor >> FACTOR_SHIFT) & static_cast<std::int32_t>(hw::mask(hw::DESC_F_AVG_SHIFT));
}
// The last steps of an int8 lane, in 16 bits: a sum times its channel's factor (or an average's), then the residual with
// its words A, B, shift and D.
inline s64 requantise(const layer_t &l, const acc_t &sum, std::int32_t mul, int shift, const std::int32_t (&operand)[RES_WORDS], const word_t &res) {
#pragma HLS inline
  const s64 scaled = static_cast<s64>(sum) * mul;
// in LUTs, since the array needs the DSPs
#pragma HLS bind_op variable=scaled op=mul impl=fabric latency=3
  s64 t = round_even(scaled, shift);
  if (l.residual) {
    const s64 r = static_cast<s64>(res);
    const s64 factor = l.product ? r + operand[3] : static_cast<s64>(operand[0]);
    const s64 first = t * factor;
#pragma HLS bind_op variable=first op=mul impl=fabric latency=3
    const s64 second = l.product ? first * operand[0] : r * operand[1];
#pragma HLS bind_op variable=second op=mul impl=fabric latency=3
    t = round_even(l.product ? second : first + second + operand[3], operand[2]);
  }
  return t;
}
inline word_t clamp(s64 y, const layer_t &l) {
#pragma HLS inline
  return word_t(y < l.clamp_lo ? s64(l.clamp_lo) : (y > l.clamp_hi ? s64(l.clamp_hi) : y));
}

// finish turns sums into words. It reads all biases, and a curve, first: the stage that sends them then continues
// with the weights, on which the sums depend.
inline void finish(const layer_t l, hls::stream<beat_t> &biases, hls::stream<sums_t> &sums,
                   hls::stream<out_t> &residuals, hls::stream<out_t> &outs) {
  std::int32_t bias[BIAS_LINES][BIAS_LANES];
// DRAIN adjacent biases per cycle, and those of a beat; too short for block RAM
#pragma HLS array_partition variable=bias complete dim=2
#pragma HLS bind_storage variable=bias type=ram_s2p impl=lutram
  ap_uint<ENTRY_BITS> table[hw::AVG_TABLE];
#pragma HLS bind_storage variable=table type=ram_s2p impl=lutram
  std::int32_t offsets[hw::CURVE_SEGMENTS][DRAIN];
  weight_t slopes[hw::CURVE_SEGMENTS][DRAIN];
// every lane is at a segment of its own
#pragma HLS array_partition variable=offsets complete dim=2
#pragma HLS array_partition variable=slopes complete dim=2
#pragma HLS bind_storage variable=offsets type=ram_s2p impl=lutram
#pragma HLS bind_storage variable=slopes type=ram_s2p impl=lutram
  std::int32_t operand[RES_WORDS] = {0};
#pragma HLS array_partition variable=operand complete dim=0
  beat_t beat = 0;
  if (l.table) {
  entries:
    for (int e = 0; e < l.bias_count; e++) {
// one entry per cycle: it is short
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=hw::AVG_TABLE
      if ((e & (BPB - 1)) == 0) beat = biases.read();
      const int part = e & (BPB - 1);
      table[e] = beat.range(32 * part + 31, 32 * part).to_uint();
    }
  } else {
    const int beats = l.pool ? 0 : (BIAS_WORDS * l.out_c + BPB - 1) / BPB;
    int line = 0, begin = 0;
  take:
    for (int b = 0; b < beats; b++) {
// the biases of a beat go to different lanes
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=C_MAX
      beat = biases.read();
    lanes:
      for (int i = 0; i < BIAS_LANES; i++) {
#pragma HLS unroll
        const bool next = i < begin;
        const int part = next ? i - begin + BIAS_LANES : i - begin;
        if (part < BPB) bias[next ? line + 1 : line][i] = beat.range(32 * part + 31, 32 * part).to_int();
      }
      begin += BPB;
      if (begin >= BIAS_LANES) {
        begin -= BIAS_LANES;
        line++;
      }
    }
  }
  if (INT8 && l.residual) {
  operand:
    for (int e = 0; e < RES_WORDS; e++) {
// one word per cycle: it is short
#pragma HLS pipeline II=1
      const int part = (BIAS_WORDS * l.out_c + e) & (BPB - 1);
      if (part == 0) beat = biases.read();
      operand[e] = beat.range(32 * part + 31, 32 * part).to_int();
    }
  }
  if (POST && l.curve) {
    std::int32_t offset = 0;
  segments:
    for (int e = 0; e < static_cast<int>(hw::CURVE_WORDS); e++) {
// one word per cycle: it is short
#pragma HLS pipeline II=1
      const int part = (curve_begin(l) + e) & (BPB - 1);
      if (part == 0) beat = biases.read();
      const std::int32_t x = beat.range(32 * part + 31, 32 * part).to_int();
      if ((e & 1) == 0) {
        offset = x;
      } else {
      copies:
        for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
          offsets[e >> 1][j] = offset;
          slopes[e >> 1][j] = weight_t(x);
        }
      }
    }
  }
  item_t at = {0, 0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, at);
    const int samples = samples_of(l, at, 0) + (l.two ? samples_of(l, at, 1) : 0);
    const s64 steps = static_cast<s64>(samples) * rows_of(l, at) * l.out_w * groups_of(nch);
  steps:
    for (s64 n = 0; n < steps; n++) {
// a group a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      const sums_t s = sums.read();
      out_t r;
      if (l.residual) {
        r = residuals.read();
      }
      const ap_uint<ENTRY_BITS> entry = table[s.taps];
      const ap_uint<hw::DESC_F_AVG_MUL.bits> m = l.table ? static_cast<int>(entry) : l.avg_mul;
      const int m_shift = INT8 && l.table ? shift_of(entry) : l.avg_shift;
      const int line = s.group / (BIAS_LANES / GROUP_WORDS), part = s.group % (BIAS_LANES / GROUP_WORDS);
      out_t out;
      out.count = s.count;
    words:
      for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
        const acc_t a = s.a[j];
        std::int32_t b = 0, f = 0;
      parts:
        for (int p = 0; p < BIAS_LANES / GROUP_WORDS; p++) {
#pragma HLS unroll
          const std::int32_t x = bias[line][p * GROUP_WORDS + BIAS_WORDS * j];
          const std::int32_t x_factor = bias[line][p * GROUP_WORDS + BIAS_WORDS * (j + 1) - 1];
          if (p == part) {
            b = x;
            f = x_factor;
          }
        }
        if (!l.pool) {
          const bool multiplies = !INT8 && l.product;  // behind the shift
          const bool adds = l.residual && !(POST && multiplies);
          const s64 res = adds ? static_cast<s64>(r.w[j]) * (static_cast<s64>(1) << l.res_shift) : s64(0);
          s64 y = INT8 ? requantise(l, acc_t(static_cast<s64>(a) + b), f & FACTOR_MASK, shift_of(f), operand, r.w[j])
                       : rescale(static_cast<s64>(a) + b + res, l.shift);
          if (POST) {
            const int at = (static_cast<int>(y) - l.curve_lo) >> l.curve_step;
            const int segment = at < 0 ? 0 : least(at, hw::CURVE_SEGMENTS - 1);
            const std::int32_t offset = offsets[segment][j];
            const weight_t slope = slopes[segment][j];
            const weight_t given = r.w[j];
            const weight_t factor = multiplies ? given : slope;
            const std::int32_t post = static_cast<std::int32_t>(y) * static_cast<std::int32_t>(factor);
// in LUTs, since the array needs the DSPs
#pragma HLS bind_op variable=post op=mul impl=fabric latency=3
            const s64 bent = rescale(static_cast<s64>(post) + (l.curve ? offset : 0), multiplies ? l.res_shift : l.curve_shift);
            if (multiplies || l.curve) y = bent;
          }
          out.w[j] = clamp(POST && l.curve ? y : y + l.out_zero, l);
        } else if (INT8) {
          out.w[j] = clamp(requantise(l, a, m, m_shift, operand, word_t(0)) + l.out_zero, l);
        } else {
          const ap_int<hw::ACC_BITS + hw::DESC_F_AVG_MUL.bits + 1> scaled = a * m;
// DRAIN of them would use up the DSPs that the array leaves free
#pragma HLS bind_op variable=scaled op=mul impl=fabric latency=3
          out.w[j] = clamp(l.avg ? rescale(static_cast<s64>(scaled), l.avg_shift) : static_cast<s64>(a), l);
        }
      }
      outs.write(out);
    }
    more = next_item(l, at);
  }
}

// Writes one run into the kept tensor, from element `to` on: rotated to its banks.
inline void keep_run(kept_t &kept, int to, int steps, hls::stream<out_t> &outs, hls::stream<out_t> &local, bool pass_on) {
#pragma HLS inline
keep:
  for (int n = 0; n < steps; n++) {
// a group a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
    const out_t out = outs.read();
  banks:
    for (int bank = 0; bank < NB; bank++) {
#pragma HLS unroll
      const int word = (bank - to) & (NB - 1);
      if (word < static_cast<int>(out.count)) kept[(to + word) >> LB][bank] = out.w[word < DRAIN ? word : 0];
    }
    if (pass_on) local.write(out);
    to += static_cast<int>(out.count);
  }
}

// Writes the results that stay on chip, in the order in which they come: for every run its address,
// words and groups. keep_out removes these from the stream and passes on those that also go to
// DRAM.
inline void keep_out(const layer_t l, kept_t &kept, hls::stream<out_t> &outs, hls::stream<out_t> &local) {
  item_t at = {0, 0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, at), nr = rows_of(l, at);
    const int groups = groups_of(nch);
    if (!l.keep_out) {
      const int samples = samples_of(l, at, 0) + (l.two ? samples_of(l, at, 1) : 0);
      const s64 steps = static_cast<s64>(samples) * nr * l.out_w * groups;
    pass_on:
      for (s64 n = 0; n < steps; n++) {
// a group a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
        local.write(outs.read());
      }
    } else {
      // one row tile, one sample group: samples follow each other without a gap
      const int pixels = samples_of(l, at, 0) * nr * l.out_w;
      int to = at.c0;
    pixels:
      for (int p = 0; p < pixels; p++) {
#pragma HLS loop_tripcount max=T_R
        keep_run(kept, to, groups, outs, local, !l.on_chip);
        to += l.out_c;
      }
    }
    more = next_item(l, at);
  }
}

// pack_out packs the groups of words into beats; each run begins at its place in a beat. Words of
// its first and last beat that are not part of the run have arbitrary values.
inline void pack_out(const layer_t l, hls::stream<out_t> &outs, hls::stream<beat_t> &packed) {
  if (l.on_chip) return;
  run_t run = {{0, 0, 0, 0}, 0, 0, 0, 0};
  bool more = true;
runs:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, run.at);
    const int pixels = l.out_whole ? l.out_w : 1;
    const int skip = word_of(address_of(l, run, l.out_offset, l.out_row_bytes, l.out_pix));
    const int beats = (skip + pixels * nch + WPB - 1) / WPB;
    int fill = skip, left = pixels * groups_of(nch);
    const int steps = left + beats;
    word_t words[WPB + DRAIN];
#pragma HLS array_partition variable=words complete dim=0
    for (int i = 0; i < WPB + DRAIN; i++) {
#pragma HLS unroll
      words[i] = 0;
    }
  steps:
    for (int n = 0; n < steps; n++) {
// a step reads a group or writes a beat
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      if (fill >= WPB || left == 0) {
        beat_t beat = 0;
      pack:
        for (int i = 0; i < WPB; i++) {
#pragma HLS unroll
          beat.range(WORD_BITS * i + WORD_BITS - 1, WORD_BITS * i) = words[i];
        }
        packed.write(beat);
        fill = fill > WPB ? fill - WPB : 0;
      shift:
        for (int i = 0; i < WPB + DRAIN; i++) {
#pragma HLS unroll
          words[i] = i + WPB < WPB + DRAIN ? words[i + WPB] : word_t(0);
        }
      } else {
        const out_t out = outs.read();
      take:
        for (int i = 0; i < WPB + DRAIN; i++) {
#pragma HLS unroll
          if (i >= fill && i - fill < DRAIN) words[i] = out.w[i - fill];
        }
        fill += static_cast<int>(out.count);
        left--;
      }
    }
    more = next_run(l, l.out_whole, false, run);
  }
}

// write_out writes the results to DRAM, one run as one burst, which it requests itself. The strobes
// of the first and last beat mark the words of the run. Answers are awaited OPEN_WRITES runs later,
// and all of them before the layer ends, since the next layer reads what this one has written.
inline void write_out(const layer_t l, hls::burst_maxi<beat_t> gmem, hls::stream<beat_t> &packed) {
  if (l.on_chip) return;
  run_t run = {{0, 0, 0, 0}, 0, 0, 0, 0};
  bool more = true;
  int open = 0;
runs:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const u64 address = address_of(l, run, l.out_offset, l.out_row_bytes, l.out_pix);
    const u64 first = beat_of(address);
    const int skip = word_of(address);
    const int words = (l.out_whole ? l.out_w : 1) * channels_of(l, run.at);
    const int beats = (skip + words + WPB - 1) / WPB;
    gmem.write_request(first, beats);
  beats:
    for (int b = 0; b < beats; b++) {
// one beat per cycle, as many as requested
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      const beat_t beat = packed.read();
      const int word = b * WPB - skip;  // index in the run of the beat's first word
      strobe_t strobe = 0;
    words:
      for (int i = 0; i < WPB; i++) {
#pragma HLS unroll
        if (word + i >= 0 && word + i < words) strobe.range(WORD_BYTES * i + WORD_BYTES - 1, WORD_BYTES * i) = -1;
      }
      gmem.write(beat, strobe);
    }
    if (open == OPEN_WRITES) {
      gmem.write_response();
    } else {
      open++;
    }
    more = next_run(l, l.out_whole, false, run);
  }
answers:
  for (int i = 0; i < open; i++) {
#pragma HLS loop_tripcount max=OPEN_WRITES
    gmem.write_response();
  }
}

}  // namespace npu

#endif
