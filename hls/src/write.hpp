// write.hpp: the stages behind the accumulators: bias, residual, requantisation and clamp (finish), and the
// way to DRAM or to the tensor that stays on chip (write_out).
#ifndef SLUICE_HLS_WRITE_HPP
#define SLUICE_HLS_WRITE_HPP

#include "read.hpp"

namespace npu {

// y = clamp(sat16(rnd(x, n))), rnd(x, n) = (x + 2^(n-1)) >> n.
inline word_t requantise(s64 x, int shift, const layer_t &l) {
#pragma HLS inline
  const s64 half = shift == 0 ? s64(0) : static_cast<s64>(1) << (shift - 1);
  const s64 y = (x + half) >> shift;
  const s64 top = (1 << (hw::DATA_BITS - 1)) - 1, bottom = -top - 1;
  const s64 sat = y > top ? top : (y < bottom ? bottom : y);
  return word_t(sat < l.clamp_lo ? s64(l.clamp_lo) : (sat > l.clamp_hi ? s64(l.clamp_hi) : sat));
}

// finish turns sums into words. The biases come first, all of them: who gives them goes on to weights, on
// which the sums wait.
inline void finish(const layer_t &l, hls::stream<beat_t> &biases, hls::stream<sums_t> &sums,
                   hls::stream<out_t> &residuals, hls::stream<out_t> &outs) {
  std::int32_t bias[BIAS_MEM + DRAIN];
// DRAIN neighbouring biases in a cycle
#pragma HLS array_partition variable=bias cyclic factor=DRAIN
  const int beats = (l.bias_count + BPB - 1) / BPB;
take:
  for (int b = 0; b < beats; b++) {
// a beat's biases go to different banks
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=BIAS_MEM
    const beat_t beat = biases.read();
  parts:
    for (int i = 0; i < BPB; i++) {
#pragma HLS unroll
      if (b * BPB + i < BIAS_MEM) bias[b * BPB + i] = beat.range(32 * i + 31, 32 * i).to_int();
    }
  }
  item_t at = {0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, at);
    // a pool's words are grouped by its lanes
    const int groups = l.gemm ? (nch + DRAIN - 1) / DRAIN
                              : (nch / NB) * ((NB + DRAIN - 1) / DRAIN) + (nch % NB + DRAIN - 1) / DRAIN;
    const int samples = samples_of(l, at, 0) + (l.two ? samples_of(l, at, 1) : 0);
    const s64 steps = static_cast<s64>(samples) * rows_of(l, at) * l.out_w * groups;
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
      const s64 m = l.table ? static_cast<s64>(bias[s.taps]) & 0x1FFFF : static_cast<s64>(l.avg_mul);
      out_t out;
      out.count = s.count;
    words:
      for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
        const s64 a = s.a[j];
        if (l.gemm) {
          const s64 res = l.residual ? static_cast<s64>(r.w[j]) * (static_cast<s64>(1) << l.res_shift) : s64(0);
          out.w[j] = requantise(a + bias[static_cast<int>(s.channel) + j] + res, l.shift, l);
        } else {
          out.w[j] = l.avg ? requantise(a * m, l.avg_shift, l) : requantise(a, 0, l);
        }
      }
      outs.write(out);
    }
    more = next_item(l, at);
  }
}

// One run of words to DRAM. m_axi has no strobes in C: where a run does not fill its first or last beat, the
// rest is read and written back, which no one else does meanwhile (slots are whole beats).
inline void write_run(beat_t *gmem, u64 address, int elems, int steps, hls::stream<out_t> &outs) {
#pragma HLS inline
  const u64 first = beat_of(address);
  const int skip = word_of(address);
  const int beats = (skip + elems + WPB - 1) / WPB;
  const int over = beats * WPB - skip - elems;  // words of the last beat that are not the run's
  const beat_t head = skip != 0 ? gmem[first] : beat_t(0);
  const beat_t tail = over != 0 ? gmem[first + beats - 1] : beat_t(0);
  word_t words[WPB + DRAIN];
#pragma HLS array_partition variable=words complete dim=0
prefill:
  for (int i = 0; i < WPB + DRAIN; i++) {
#pragma HLS unroll
    words[i] = i < skip ? word_at(head, i < WPB ? i : 0) : word_t(0);
  }
  int fill = skip, left = steps, b = 0;
run:
  for (int n = 0; n < steps + beats; n++) {
// a step takes a group or gives a beat
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
    if (fill >= WPB || left == 0) {
      beat_t beat = 0;
    pack:
      for (int i = 0; i < WPB; i++) {
#pragma HLS unroll
        const word_t w = i < fill ? words[i] : word_at(tail, i);
        beat.range(hw::DATA_BITS * i + hw::DATA_BITS - 1, hw::DATA_BITS * i) = w;
      }
      gmem[first + b] = beat;
      b++;
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
}

// One run into the kept tensor, from element `to` on: rotated to its banks.
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

// Where the results of an item go, in the order in which they come: for every run its address, its words and
// its groups. keep_out takes what stays on chip from the stream and passes on what goes to DRAM as well.
inline void keep_out(const layer_t &l, kept_t &kept, hls::stream<out_t> &outs, hls::stream<out_t> &local) {
  item_t at = {0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, at), nr = rows_of(l, at);
    const int groups = l.gemm ? (nch + DRAIN - 1) / DRAIN
                              : (nch / NB) * ((NB + DRAIN - 1) / DRAIN) + (nch % NB + DRAIN - 1) / DRAIN;
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

// write_out writes the results to DRAM.
inline void write_out(const layer_t &l, beat_t *gmem, hls::stream<out_t> &outs) {
  if (l.on_chip) return;
  item_t at = {0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, at), nr = rows_of(l, at);
    const int groups = l.gemm ? (nch + DRAIN - 1) / DRAIN
                              : (nch / NB) * ((NB + DRAIN - 1) / DRAIN) + (nch % NB + DRAIN - 1) / DRAIN;
    const int runs = l.out_whole ? 1 : l.out_w;
    const int pixels = l.out_whole ? l.out_w : 1;  // of a run
  sample_groups:
    for (int g = 0; g < 2; g++) {
      const int n = g == 0 || l.two ? samples_of(l, at, g) : 0;
    samples:
      for (int i = 0; i < n; i++) {
#pragma HLS loop_tripcount max=8
        const u64 base = slot_of(l, at.b0 + i + (g == 0 ? 0 : l.b_r));
      rows:
        for (int r = 0; r < nr; r++) {
#pragma HLS loop_tripcount max=MAX_TRIPS
          const u32 off = l.out_offset + static_cast<u32>(at.oh0 + r) * l.out_row_bytes;
        runs:
          for (int x = 0; x < runs; x++) {
#pragma HLS loop_tripcount max=MAX_TRIPS
            const u64 address = base + off + static_cast<u32>(WORD_BYTES) * (static_cast<u32>(x) * l.out_pix + at.c0);
            write_run(gmem, address, pixels * nch, pixels * groups, outs);
          }
        }
      }
    }
    more = next_item(l, at);
  }
}

}  // namespace npu

#endif
