// read.hpp: the stages that read DRAM. They read rows of the input into a tile on chip (load_rows),
// from which Toeplitz rows are formed (form_rows); biases and weights (fetch_weights), which are
// cut into vectors for the PEs (feed_weights); and residuals in the order of the results
// (fetch_residual), which are cut into groups of words (cut_residual). A stage reads DRAM one run
// at a time, in a loop that does nothing else: from consecutive addresses without a condition, the
// tool makes a burst.
#ifndef SLUICE_HLS_READ_HPP
#define SLUICE_HLS_READ_HPP

#include "layer.hpp"

namespace npu {

inline u64 beat_of(u64 address) {
  return (address & ((static_cast<u64>(1) << hw::ADDR_BITS) - 1)) / AXI_BYTES;
}
inline int word_of(u64 address) { return static_cast<int>(address % AXI_BYTES) / WORD_BYTES; }
inline word_t word_at(const beat_t &beat, int i) {
  return word_t(beat.range(WORD_BITS * i + WORD_BITS - 1, WORD_BITS * i).to_int());
}
inline weight_t weight_at(const beat_t &beat, int i) {
  return weight_t(beat.range(hw::DATA_BITS * i + hw::DATA_BITS - 1, hw::DATA_BITS * i).to_int());
}

// Reads one run of input words into the tile, from element `to` on: rotated to its banks, one beat
// per cycle.
inline void load_run(const beat_t *gmem, u64 address, int elems, word_t (&half)[2][HALF_WORDS][NB], int group,
                     int to) {
#pragma HLS inline
  const int skip = word_of(address);
  const int beats = (skip + elems + WPB - 1) / WPB;
  const u64 first = beat_of(address);
beats:
  for (int b = 0; b < beats; b++) {
// a beat a cycle, as it comes from a burst
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=ABUF
    const beat_t beat = gmem[first + b];
    const int begin = to + b * WPB - skip;  // of the beat's first word; first beat: less than `to`
  banks:
    for (int bank = 0; bank < NB; bank++) {
#pragma HLS unroll
      const int word = (bank - begin) & (NB - 1);
      const int elem = begin + word;
      if (word < WPB && elem >= to && elem < to + elems) {
        const int line = elem >> LB;
        const bool upper = line >= HALF_WORDS;  // never for group 1
        half[upper ? 1 : group][upper ? line - HALF_WORDS : line][bank] = word_at(beat, word);
      }
    }
  }
}

// load_rows loads row tiles, with rows unchanged from DRAM, sample after sample; rows outside of
// the image keep their place. With two sample groups, each has half of the buffer.
inline void load_rows(const layer_t l, const beat_t *gmem, const kept_t &kept, hls::stream_of_blocks<tile_t> &tiles) {
  item_t at = {0, 0, 0, 0};
  bool more = true;
tiles:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    hls::write_lock<tile_t> tile(tiles);
    if (l.keep_in) {
    kept_lines:
      for (int i = 0; i < ABUF_WORDS; i++) {
// all banks at once
#pragma HLS pipeline II=1
      kept_banks:
        for (int b = 0; b < NB; b++) {
#pragma HLS unroll
          tile[i < HALF_WORDS ? 0 : 1][i < HALF_WORDS ? i : i - HALF_WORDS][b] = kept[i][b];
        }
      }
    } else {
      const int n_rows = (rows_of(l, at) - 1) * l.s_h + l.k_h;
      const int ih0 = at.oh0 * l.s_h - l.pad_t;
    groups:
      for (int g = 0; g < 2; g++) {
        const int n = g == 0 || l.two ? samples_of(l, at, g) : 0;
      samples:
        for (int i = 0; i < n; i++) {
#pragma HLS loop_tripcount max=MAX_BATCH
          const u64 base = slot_of(l, at.b0 + i + (g == 0 ? 0 : l.b_r));
        rows:
          for (int j = 0; j < n_rows; j++) {
#pragma HLS loop_tripcount max=ABUF
            const int ih = ih0 + j;
            if (ih < 0 || ih >= l.in_h) continue;
            const u32 off = l.in_offset + static_cast<u32>(ih) * l.in_row_bytes;
            const int to = i * l.sample + j * l.in_row;
            const int runs = l.in_whole ? 1 : l.in_w;
            const int elems = l.in_whole ? l.in_row : l.in_c;
          pixels:
            for (int x = 0; x < runs; x++) {
#pragma HLS loop_tripcount max=ABUF
              load_run(gmem, base + off + static_cast<u32>(WORD_BYTES * x) * l.in_pix, elems, tile, g, to + x * l.in_c);
            }
          }
        }
      }
    }
    // only if C tiles are outermost is the same tile loaded again for the next C tile
    more = next_tile(l, at) || (l.c_outer && next_channels(l, at));
  }
}

// Reads NB adjacent elements, from e on, of group g (s = 2) or of the whole tile. Lanes outside of
// the tile have arbitrary values; the caller masks them.
inline void gather(const word_t (&tile)[2][HALF_WORDS][NB], int e, bool two, word_t (&out)[2][NB]) {
#pragma HLS inline
  word_t read[2][NB];
#pragma HLS array_partition variable=read complete dim=0
banks:
  for (int b = 0; b < NB; b++) {
#pragma HLS unroll
    const int line = (e >> LB) + (b < (e & (NB - 1)) ? 1 : 0);
    const bool upper = line >= HALF_WORDS;
    const int index = upper ? line - HALF_WORDS : line;
    // every bank is read exactly once
    const int place = index >= 0 && index < HALF_WORDS ? index : 0;
    const word_t x0 = tile[0][place][b];
    const word_t x1 = tile[1][place][b];
    read[0][b] = two || !upper ? x0 : x1;
    read[1][b] = x1;
  }
lanes:
  for (int i = 0; i < NB; i++) {
#pragma HLS unroll
    out[0][i] = read[0][(e + i) & (NB - 1)];
    out[1][i] = read[1][(e + i) & (NB - 1)];
  }
}

// The rows of one pass: kernel row kh, elements p0.. of it.
inline void form_pass(const layer_t &l, const word_t (&tile)[2][HALF_WORDS][NB], hls::stream<row_t> &rows, int n_rows,
                      int nr, int ih_tile, int base, int kh, int p0) {
#pragma HLS inline
  int r = 0, ow = 0, sample = base + kh * l.in_row, line = sample, col = p0 - l.pad_col, ih = ih_tile + kh;
row:
  for (int n = 0; n < n_rows; n++) {
// the array takes one row per cycle; counters instead of nested loops, which would stall between
// rows
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=T_R
    word_t x[2][NB];
#pragma HLS array_partition variable=x complete dim=0
    gather(tile, line + col, l.two, x);
    const bool row_in = ih >= 0 && ih < l.in_h;
    const int lo = col < 0 ? -col : 0;
    const int right = least(l.in_row - col, l.kwc - p0);
    const int hi = row_in ? least(right, l.lanes) : 0;
    row_t row;
    row.inside = row_in ? 1 : 0;
  lanes:
    for (int i = 0; i < NB; i++) {
#pragma HLS unroll
      const int p = l.two && i >= T_P ? i - T_P : i;  // lane of the window
      const bool in = p >= lo && p < hi;
      const word_t v = l.two && i >= T_P ? x[1][p] : x[0][i];
      row.x[i] = in ? v : word_t(l.in_zero);
    }
    rows.write(row);
    col += l.step_col;
    if (++ow == l.out_w) {
      ow = 0;
      col = p0 - l.pad_col;
      line += l.step_row;
      ih += l.s_h;
      if (++r == nr) {
        r = 0;
        sample += l.sample;
        line = sample;
        ih = ih_tile + kh;
      }
    }
  }
}

// The taps of a pool or depthwise layer: output pixels, for each of these groups of NB channels, for each of these the
// window.
inline void form_taps(const layer_t &l, const word_t (&tile)[2][HALF_WORDS][NB], hls::stream<row_t> &rows, int samples,
                      int nr, int ih_tile, int base) {
#pragma HLS inline
  const int groups = (l.in_c + NB - 1) / NB;
  const s64 taps = static_cast<s64>(samples) * nr * l.out_w * groups * (l.k_h * l.k_w);
  int kw = 0, kh = 0, c0 = 0, ow = 0, r = 0, sample = base;
  int row_line = base, line = base, col = -l.pad_col, tap = col, ih_row = ih_tile, ih = ih_tile;
tap:
  for (s64 n = 0; n < taps; n++) {
// the lanes take one tap per cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
    word_t x[2][NB];
#pragma HLS array_partition variable=x complete dim=0
    gather(tile, line + tap + c0, false, x);
    const bool in = ih >= 0 && ih < l.in_h && tap >= 0 && tap < l.in_row;
    row_t row;
    row.inside = in ? 1 : 0;
  lanes:
    for (int i = 0; i < NB; i++) {
#pragma HLS unroll
      row.x[i] = in && c0 + i < l.in_c ? x[0][i] : word_t(l.max ? LOWEST : l.in_zero);
    }
    rows.write(row);
    tap += l.in_c;
    if (++kw == l.k_w) {
      kw = 0;
      tap = col;
      line += l.in_row;
      ih++;
      if (++kh == l.k_h) {
        kh = 0;
        line = row_line;
        ih = ih_row;
        c0 += NB;
        if (c0 >= l.in_c) {
          c0 = 0;
          col += l.step_col;
          if (++ow == l.out_w) {
            ow = 0;
            col = -l.pad_col;
            row_line += l.step_row;
            ih_row += l.s_h;
            if (++r == nr) {
              r = 0;
              sample += l.sample;
              row_line = sample;
              ih_row = ih_tile;
            }
            line = row_line;
            ih = ih_row;
          }
          tap = col;
        }
      }
    }
  }
}

// form_rows forms the Toeplitz matrix of every tile, pass after pass; no element is stored twice.
inline void form_rows(const layer_t l, hls::stream_of_blocks<tile_t> &tiles, hls::stream<row_t> &rows) {
  item_t at = {0, 0, 0, 0};
  bool more = true;
tiles:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    hls::read_lock<tile_t> tile(tiles);
    const int nr = rows_of(l, at);
    const int samples = samples_of(l, at, 0);
    const int n_rows = samples * nr * l.out_w;
    const int ih_tile = at.oh0 * l.s_h - l.pad_t;
    const int base = l.keep_in ? -l.pad_t * l.in_row : 0;  // kept: stored without padding
    if (l.gemm) {
      bool again = true;
    channels:
      while (again) {
#pragma HLS loop_tripcount max=C_MAX
      kernel_rows:
        for (int kh = 0; kh < l.k_h; kh++) {
#pragma HLS loop_tripcount max=MAX_KERNEL
        chunks:
          for (int p0 = 0; p0 < l.kwc; p0 += l.lanes) {
#pragma HLS loop_tripcount max=ABUF
            form_pass(l, tile, rows, n_rows, nr, ih_tile, base, kh, p0);
          }
        }
        again = !l.c_outer && next_channels(l, at);
      }
    } else {
      form_taps(l, tile, rows, samples, nr, ih_tile, base);
    }
    more = next_tile(l, at) || (l.c_outer && next_channels(l, at));
  }
}

// fetch_weights streams the biases (or the table of an average's M) and the weights of a layer, in
// the order of its items. Weights that loop order 1 or a small layer needs again are replayed from
// the ring.
inline void fetch_weights(const layer_t l, const beat_t *gmem, hls::stream<beat_t> &biases,
                          hls::stream<beat_t> &weights) {
  beat_t ring[WRING_BEATS];
// one beat enters or leaves per step
#pragma HLS bind_storage variable=ring type=ram_s2p impl=bram
  const int bias_beats = (l.bias_count + BPB - 1) / BPB;
  const u64 bias_first = beat_of(l.bias_address);
biases:
  for (int b = 0; b < bias_beats; b++) {
// a beat a cycle, as it comes from a burst
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=C_MAX
    const beat_t beat = gmem[bias_first + b];
    biases.write(beat);
  }
  if (l.pool) return;
  u64 first = beat_of(l.w_address);
  u32 rest = l.w_bytes;
  bool more = true;
channels:  // once, or for every C tile if these are outermost
  while (more) {
#pragma HLS loop_tripcount max=C_MAX
    const u32 bytes = l.c_outer && l.w_tile < rest ? l.w_tile : rest;
    const int beats = static_cast<int>(bytes / AXI_BYTES);
    item_t at = {0, 0, 0, 0};
    bool replay = false, again = true;
  tiles:
    while (again) {
#pragma HLS loop_tripcount max=MAX_TRIPS
      if (replay) {
      replayed:
        for (int b = 0; b < beats; b++) {
// a beat a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=WRING_BEATS
          weights.write(ring[b & (WRING_BEATS - 1)]);
        }
      } else {
      beats:
        for (int b = 0; b < beats; b++) {
// a beat a cycle, as it comes from a burst
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
          const beat_t beat = gmem[first + b];
          ring[b & (WRING_BEATS - 1)] = beat;
          weights.write(beat);
        }
      }
      replay = l.replay;
      again = l.gemm && next_tile(l, at);  // depthwise: held for the layer
    }
    first += beats;
    rest -= bytes;
    more = rest != 0;
  }
}

// feed_weights cuts the stream of weights into the vectors of the PEs, or of the lanes of a
// depthwise layer, once.
inline void feed_weights(const layer_t l, hls::stream<beat_t> &weights, hls::stream<vec_t> &vecs) {
  if (l.pool) return;
  item_t at = {0, 0, 0, 0};
  bool more = true;
items:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    int left = l.passes * (l.gemm ? vectors_of(channels_of(l, at)) : 1);
    const u64 bytes = align_weights(static_cast<u64>(WEIGHT_BYTES) * left * l.lanes);
    const int beats = static_cast<int>(bytes / AXI_BYTES);
    const int steps = beats + left;
    int fill = 0;
    weight_t words[VEC + VPB];
#pragma HLS array_partition variable=words complete dim=0
    for (int i = 0; i < VEC + VPB; i++) {
#pragma HLS unroll
      words[i] = 0;
    }
  steps:
    for (int n = 0; n < steps; n++) {
// a step reads a beat or writes a vector
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      if (left > 0 && fill >= l.lanes) {
        vec_t v;
      give:
        for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
          v.w[i] = i < l.lanes ? words[i] : weight_t(0);
        }
        vecs.write(v);
        left--;
        fill -= l.lanes;
      shift:
        for (int i = 0; i < VEC + VPB; i++) {
#pragma HLS unroll
          words[i] = i + l.lanes < VEC + VPB ? words[i + l.lanes] : weight_t(0);
        }
      } else {
        const beat_t beat = weights.read();
      take:
        for (int i = 0; i < VEC + VPB; i++) {
#pragma HLS unroll
          if (i >= fill && i < fill + VPB) words[i] = weight_at(beat, i - fill);
        }
        fill = left > 0 ? fill + VPB : 0;  // after the last vector there is only padding
      }
    }
    more = l.gemm && next_item(l, at);
  }
}

// fetch_residual reads the residual's runs in the order of the results.
inline void fetch_residual(const layer_t l, const beat_t *gmem, hls::stream<beat_t> &fetched) {
  if (!l.residual) return;
  run_t run = {{0, 0, 0, 0}, 0, 0, 0, 0};
  bool more = true;
runs:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const u64 address = address_of(l, run, l.res_offset, l.res_row_bytes, l.res_pix);
    const u64 first = beat_of(address);
    const int words = (l.res_whole ? l.out_w : 1) * channels_of(l, run.at);
    const int beats = (word_of(address) + words + WPB - 1) / WPB;
  beats:
    for (int b = 0; b < beats; b++) {
// a beat a cycle, as it comes from a burst
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      const beat_t beat = gmem[first + b];
      fetched.write(beat);
    }
    more = next_run(l, l.res_whole, l.res_once, run);
  }
}

// cut_residual cuts the residual into groups of words, like the results. One pixel for all
// positions is read once for an item's sample, and given again for each of them.
inline void cut_residual(const layer_t l, hls::stream<beat_t> &fetched, hls::stream<out_t> &residuals) {
  if (!l.residual) return;
  word_t pixel[C_MAX / DRAIN][DRAIN];
// DRAIN adjacent channels per cycle; too short for block RAM
#pragma HLS array_partition variable=pixel complete dim=2
#pragma HLS bind_storage variable=pixel type=ram_s2p impl=lutram
  run_t run = {{0, 0, 0, 0}, 0, 0, 0, 0};
  bool more = true;
runs:
  while (more) {
#pragma HLS loop_tripcount max=MAX_TRIPS
    const int nch = channels_of(l, run.at);
    const int pixels = l.res_whole ? l.out_w : 1;
    int skip = word_of(address_of(l, run, l.res_offset, l.res_row_bytes, l.res_pix)), fill = 0, ch = 0, line = 0;
    const int steps = (skip + pixels * nch + WPB - 1) / WPB + pixels * groups_of(nch);
    word_t words[DRAIN + WPB];
#pragma HLS array_partition variable=words complete dim=0
    for (int j = 0; j < DRAIN + WPB; j++) {
#pragma HLS unroll
      words[j] = 0;
    }
  steps:
    for (int s = 0; s < steps; s++) {
// a step reads a beat or writes a group
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
      const int need = least(DRAIN, nch - ch);
      if (fill >= need) {
        out_t out;
        out.count = need;
      give:
        for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
          out.w[j] = words[j];
          if (POST && l.res_once) pixel[line][j] = words[j];
        }
        residuals.write(out);
        fill -= need;
        line++;  // once: there is one pixel
        ch = ch + need == nch ? 0 : ch + need;
      shift:
        for (int j = 0; j < DRAIN + WPB; j++) {
#pragma HLS unroll
          words[j] = j + need < DRAIN + WPB ? words[j + need] : word_t(0);
        }
      } else {
        const beat_t beat = fetched.read();
      take:
        for (int j = 0; j < DRAIN + WPB; j++) {
#pragma HLS unroll
          if (j >= fill && j - fill + skip < WPB) words[j] = word_at(beat, j - fill + skip);
        }
        fill += WPB - skip;
        skip = 0;
      }
    }
    if (POST && l.res_once) {
      const s64 others = static_cast<s64>(rows_of(l, run.at)) * l.out_w - 1;
      const s64 rest = others * groups_of(nch);
      ch = line = 0;
    others:
      for (s64 n = 0; n < rest; n++) {
// a group a cycle
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=MAX_TRIPS
        out_t out;
        out.count = least(DRAIN, nch - ch);
      same:
        for (int j = 0; j < DRAIN; j++) {
#pragma HLS unroll
          out.w[j] = pixel[line][j];
        }
        residuals.write(out);
        ch = ch + DRAIN < nch ? ch + DRAIN : 0;
        line = ch == 0 ? 0 : line + 1;
      }
    }
    more = next_run(l, l.res_whole, l.res_once, run);
  }
}

}  // namespace npu

#endif
