// The kernels of a bundle's layers on a GPU, bit for bit golden's numbers (dse/golden), one source for
// two compilers: NVRTC, with cuda.hpp before it, and the host's, with cpu.hpp, which runs the threads of
// a block one after the other, barrier by barrier.
//
// A kernel can be stopped. It carries the epoch it was launched in, and its blocks leave when the
// stream's is another: at their beginning, and every POLL tiles of a product's inner loop or WINDOW
// elements of a pool's. They leave as a whole, and the least index of a kernel that a block left stands in
// Control. An epoch, not a flag: a kernel queued behind a stopped one must leave too, however late it
// begins. When the last block was gone, and when the first one of a kernel that is timed began, stands in
// Control too, by the GPU's own clock.
//
// What it is written in: THREADS(t) { } is a phase, which every thread of the block runs; between two
// phases stands SYNC. PRIVATE is a thread's own array that lives through phases, MINE is one's part of it.

#ifdef SMALL_TILES // for kills by the hundred thousand
enum { THREADS_N = 8, PIXELS = 4, CHANNELS = 8, DEPTH = 8, POLL = 2, WINDOW = 4 };
#else
enum { THREADS_N = 128, PIXELS = 16, CHANNELS = 32, DEPTH = 32, POLL = 4, WINDOW = 16 };
#endif
enum { MAX_BATCH = 32, MAX_ROLES = 8 };
enum { OP_GEMM = 0, OP_MAXPOOL = 1, OP_AVGPOOL = 2 };

// Control of a stream of kernels, in device memory.
struct Control {
  unsigned epoch;   // kernels of another leave
  unsigned stopped; // least index of a kernel that a block has left; ~0: none
  u64 began;        // ns: when the first block of a kernel that is timed began; ~0: none has
  u64 gone;         // ns: when the last block ended, or left, that another epoch found running
};

// Layer is one layer for a batch: what a kernel is launched with (layer.go packs it).
struct Layer {
  u64 slots, weights, bias, control; // addresses
  i64 stride;                        // bytes from slot to slot
  u32 in_offset, out_offset, res_offset, in_row, out_row, res_row; // bytes
  i32 in_h, in_w, in_c, in_pix, out_h, out_w, out_c, out_pix, res_pix;
  i32 k_h, k_w, s_h, s_w, pad_t, pad_l;
  i32 op, residual, res_shift, shift, avg_table, avg_mul, avg_shift, lo, hi;
  u32 epoch, index; // of the stream; of the kernel in its program
  u32 batch, tiles_p, tiles_c, blocks, timed, each; // each: tiles of a block, one after the other
  u32 sample[MAX_BATCH]; // slots
};

// Roles of one launch: the first one's blocks, then the next one's. Each has an epoch of its own.
struct Roles {
  Layer role[MAX_ROLES];
};

DEVICE i64 round_shift(i64 x, int n) { return n == 0 ? x : (x + ((i64)1 << (n - 1))) >> n; }

DEVICE short finish(const Layer &l, i64 x, int shift) {
  x = round_shift(x, shift);
  x = x > 32767 ? 32767 : x < -32768 ? -32768 : x;
  x = x > l.hi ? l.hi : x;
  return (short)(x < l.lo ? l.lo : x);
}

// leave says whether the block has to; then it has been noted.
DEVICE bool leave(const Layer &l BLOCK_ARGS) {
  Control *c = (Control *)l.control;
  LOOK;
  if (!ANY(LOAD(c->epoch) != l.epoch)) return false;
  ONCE {
    if (LOAD(c->stopped) > l.index) LEAST(c->stopped, l.index); // it only falls: most blocks find it there
    LATEST(c->gone, NOW());
  }
  return true;
}

// ended is a block's last word: whoever stopped its kernel when it was past its looks is told when it was gone.
DEVICE void ended(const Layer &l) {
  Control *c = (Control *)l.control;
  ONCE if (LOAD(c->epoch) != l.epoch) LATEST(c->gone, NOW());
}

// in_at is the element of channel c of an input pixel, or fill where the pixel lies beyond the image.
DEVICE i64 in_at(const Layer &l, const char *slot, int y, int x, int c, i64 fill) {
  if (y < 0 || y >= l.in_h || x < 0 || x >= l.in_w) return fill;
  return *(const short *)(slot + l.in_offset + (i64)y * l.in_row + 2 * ((i64)x * l.in_pix + c));
}

DEVICE short *out_at(const Layer &l, char *slot, int p, int c) {
  int y = p / l.out_w, x = p % l.out_w;
  return (short *)(slot + l.out_offset + (i64)y * l.out_row + 2 * ((i64)x * l.out_pix + c));
}

// gemm is a convolution or a product: PIXELS x CHANNELS outputs of one sample. It says whether the block went
// to the end.
DEVICE bool gemm(const Layer &l, unsigned block BLOCK_ARGS) {
  const int each = PIXELS * CHANNELS / THREADS_N;
  SHARED short in[DEPTH][PIXELS], w[DEPTH][CHANNELS];
  PRIVATE(i64, acc, each);
  unsigned tile = block % (l.tiles_p * l.tiles_c);
  char *slot = (char *)l.slots + l.stride * l.sample[block / (l.tiles_p * l.tiles_c)];
  const int p0 = (int)(tile / l.tiles_c) * PIXELS, c0 = (int)(tile % l.tiles_c) * CHANNELS;
  const int pixels = l.out_h * l.out_w, row = l.k_w * l.in_c, depth = l.k_h * row;
  THREADS(t) for (int i = 0; i < each; i++) MINE(acc, t, i) = 0;
  for (int d0 = 0, n = 0; d0 < depth; d0 += DEPTH, n++) {
    if (n % POLL == 0 && leave(l BLOCK_PASS)) return false;
    THREADS(t) {
      for (int i = t; i < DEPTH * PIXELS; i += THREADS_N) {
        int p = p0 + i / DEPTH, d = d0 + i % DEPTH;
        i64 v = 0;
        if (p < pixels && d < depth) {
          int ky = d / row, r = d % row;
          v = in_at(l, slot, p / l.out_w * l.s_h + ky - l.pad_t, p % l.out_w * l.s_w + r / l.in_c - l.pad_l, r % l.in_c, 0);
        }
        in[i % DEPTH][i / DEPTH] = (short)v;
      }
      for (int i = t; i < DEPTH * CHANNELS; i += THREADS_N) {
        int c = c0 + i / DEPTH, d = d0 + i % DEPTH;
        w[i % DEPTH][i / DEPTH] = c < l.out_c && d < depth ? ((const short *)l.weights)[(i64)c * depth + d] : (short)0;
      }
    }
    SYNC;
    THREADS(t) for (int i = 0; i < each; i++) {
      int o = t + i * THREADS_N;
      i64 sum = 0;
      for (int d = 0; d < DEPTH; d++) sum += (i32)in[d][o / CHANNELS] * (i32)w[d][o % CHANNELS];
      MINE(acc, t, i) += sum;
    }
    SYNC;
  }
  THREADS(t) for (int i = 0; i < each; i++) {
    int p = p0 + (t + i * THREADS_N) / CHANNELS, c = c0 + (t + i * THREADS_N) % CHANNELS;
    if (p >= pixels || c >= l.out_c) continue;
    i64 x = MINE(acc, t, i) + ((const i32 *)l.bias)[c];
    if (l.residual) {
      const char *r = slot + l.res_offset + (i64)(p / l.out_w) * l.res_row + 2 * ((i64)(p % l.out_w) * l.res_pix + c);
      x += (i64) * (const short *)r * ((i64)1 << l.res_shift);
    }
    *out_at(l, slot, p, c) = finish(l, x, l.shift);
  }
  return true;
}

DEVICE int taps(int out, int stride, int pad, int kernel, int in) {
  int first = out * stride - pad, last = first + kernel;
  first = first < 0 ? 0 : first;
  last = last > in ? in : last;
  return last > first ? last - first : 0;
}

// pool is a maximum or an average: as many outputs, a thread four of them at the same time along their windows.
DEVICE bool pool(const Layer &l, unsigned block BLOCK_ARGS) {
  const int each = PIXELS * CHANNELS / THREADS_N;
  PRIVATE(i64, acc, each);
  unsigned tile = block % (l.tiles_p * l.tiles_c);
  char *slot = (char *)l.slots + l.stride * l.sample[block / (l.tiles_p * l.tiles_c)];
  const int p0 = (int)(tile / l.tiles_c) * PIXELS, c0 = (int)(tile % l.tiles_c) * CHANNELS;
  const bool most = l.op == OP_MAXPOOL;
  const i64 none = most ? -32768 : 0;
  THREADS(t) for (int i = 0; i < each; i++) MINE(acc, t, i) = none;
  for (int ky = 0, n = 0; ky < l.k_h; ky++)
    for (int kx = 0; kx < l.k_w; kx++, n++) {
      if (n % WINDOW == 0 && leave(l BLOCK_PASS)) return false;
      THREADS(t) for (int i = 0; i < each; i++) {
        int p = p0 + (t + i * THREADS_N) / CHANNELS, c = c0 + (t + i * THREADS_N) % CHANNELS;
        if (p >= l.out_h * l.out_w || c >= l.in_c) continue;
        i64 v = in_at(l, slot, p / l.out_w * l.s_h - l.pad_t + ky, p % l.out_w * l.s_w - l.pad_l + kx, c, none);
        MINE(acc, t, i) = most ? (v > MINE(acc, t, i) ? v : MINE(acc, t, i)) : MINE(acc, t, i) + v;
      }
    }
  THREADS(t) for (int i = 0; i < each; i++) {
    int p = p0 + (t + i * THREADS_N) / CHANNELS, c = c0 + (t + i * THREADS_N) % CHANNELS;
    if (p >= l.out_h * l.out_w || c >= l.in_c) continue;
    i64 x = MINE(acc, t, i);
    if (!most) {
      i64 m = l.avg_mul;
      if (l.avg_table)
        m = ((const i32 *)l.bias)[taps(p / l.out_w, l.s_h, l.pad_t, l.k_h, l.in_h) * taps(p % l.out_w, l.s_w, l.pad_l, l.k_w, l.in_w)];
      x *= m;
    }
    *out_at(l, slot, p, c) = finish(l, x, most ? 0 : l.avg_shift);
  }
  return true;
}

DEVICE void layer(const Layer &l, unsigned block BLOCK_ARGS) {
  if (l.timed) ONCE EARLIEST(((Control *)l.control)->began, NOW());
  const u32 tiles = l.tiles_p * l.tiles_c * l.batch;
  for (u32 i = block * l.each; i < (block + 1) * l.each && i < tiles; i++)
    if (!(l.op == OP_GEMM ? gemm(l, i BLOCK_PASS) : pool(l, i BLOCK_PASS))) return;
  ended(l);
}

// which is the role that a block of a launch plays; block becomes that of the role.
DEVICE const Layer &which(const Roles &r, unsigned &block) {
  int i = 0;
  while (block >= r.role[i].blocks) block -= r.role[i++].blocks;
  return r.role[i];
}
