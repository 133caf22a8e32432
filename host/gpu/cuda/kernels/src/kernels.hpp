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
constexpr int THREADS_N = 8, PIXELS = 4, CHANNELS = 8, DEPTH = 8, POLL = 2, WINDOW = 4;
#else
constexpr int THREADS_N = 128, PIXELS = 16, CHANNELS = 32, DEPTH = 64, POLL = 4, WINDOW = 16;
#endif
// Four threads have two pixels by eight channels of a product's tile; HALF_P of such groups are what shares those
// channels: a warp, with the layout of its tensor cores' operands. Elements are loaded WIDE at a time.
constexpr int WIDE = 8, GROUP = 4, COLUMNS = 8;
constexpr int VECS = DEPTH / WIDE, HALF_P = PIXELS / 2, TEAM = GROUP * HALF_P;
constexpr int ROWS_AT_ONCE = THREADS_N / VECS, WEIGHT_ROWS = CHANNELS / ROWS_AT_ONCE; // that all threads load at once
static_assert(TEAM * (CHANNELS / COLUMNS) == THREADS_N && PIXELS <= ROWS_AT_ONCE && WEIGHT_ROWS * ROWS_AT_ONCE == CHANNELS, "each thread has its share");
enum { CARRY_EACH = 1 << 15, MAX_DEPTH = 125 << 10 }; // of a product's sums
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
  u32 tiles_p, tiles_c, blocks, timed, from, to; // of a sample; the blocks take the tiles from ... to - 1 in turns
  i32 depth, step_y, step_x, step_c; // products of an output; a step of DEPTH in the window's rows, pixels and channels
  u32 sample[MAX_BATCH]; // slots
};

// Roles of one launch: the first one's blocks, then the next one's. Each has an epoch of its own.
struct Roles {
  Layer role[MAX_ROLES];
};

DEVICE i64 round_shift(i64 x, int n) { return n == 0 ? x : (x + ((i64)1 << (n - 1))) >> n; }

// finish rounds and clamps; lo and hi are int16, so that this saturates too.
DEVICE short finish(const Layer &l, i64 x, int shift) {
  x = round_shift(x, shift);
  x = x > l.hi ? l.hi : x;
  return (short)(x < l.lo ? l.lo : x);
}

// look is the stream's epoch, or what was seen before where it is not time. It comes from beyond the L1: a product asks for it a step before it acts on it.
// It does so without a branch, so that a step stays one.
DEVICE u32 look(const Layer &l, u32 until, u32 before BLOCK_ARGS) {
  if (!until) LOOK;
  PEEK(before, ((Control *)l.control)->epoch, until);
  return before;
}

// leave says whether the block has to, by the epoch that it saw; then it has been noted.
DEVICE bool leave(const Layer &l, u32 seen) {
  Control *c = (Control *)l.control;
  if (!ANY(seen != l.epoch)) return false;
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

DEVICE short *out_at(const Layer &l, char *slot, int y, int x, int c) {
  return (short *)(slot + l.out_offset + (i64)y * l.out_row + 2 * ((i64)x * l.out_pix + c));
}

#ifdef TENSOR
// Exact products of int16 by a GPU's tensor cores, which multiply bytes and add 32 bits: a b is
// 65536 ah bh + 256 (ah bl + al bh) + al bl, where ah is the upper byte, with its sign, and al the lower one, without.
// Each of the three has a sum of its own. carry leaves a byte in the lower two before they overflow.
struct Sum {
  i32 hi, mid, lo;
};
static_assert((i64)CARRY_EACH * 255 * 255 + 255 < (i64)1 << 31, "lo fits");
static_assert((i64)CARRY_EACH * (2 * 128 * 255 + 255) + 512 < (i64)1 << 31, "mid fits, with what lo carries");
static_assert((i64)MAX_DEPTH * (128 * 128 + 255 + 2) < (i64)1 << 31, "hi fits, with what mid carries");

DEVICE void carry(Sum &s) {
#ifdef NO_CARRY // a test's break
  (void)s;
#else
  s.mid += s.lo >> 8, s.lo &= 255;
  s.hi += s.mid >> 8, s.mid &= 255;
#endif
}

DEVICE i64 total(const Sum &s) { return (i64)s.hi * 65536 + (i64)s.mid * 256 + s.lo; }

// Vec is eight int16 of a row. split has their lower bytes in the first half, their upper ones in the second.
struct alignas(16) Vec {
  u32 q[4];
};

DEVICE Vec split(const Vec &v) {
  return Vec{{BYTES(v.q[0], v.q[1], 0x6420), BYTES(v.q[2], v.q[3], 0x6420), BYTES(v.q[0], v.q[1], 0x7531), BYTES(v.q[2], v.q[3], 0x7531)}};
}

#define PUT(v, k, x) (v).q[(k) / 2] |= (u32)(x) << (k) % 2 * 16
#define GET(v, k) ((i32)(v).q[(k) / 2] << (1 - (k) % 2) * 16 >> 16)

// Where element v of a row stands: threads that read two rows at the same time find them in different banks.
DEVICE int at_bank(int row, int v) { return v ^ row % 2 * (VECS / 2); }

// product adds a thread's four sums of what is in the shared memory: pixels g and g + HALF_P, channels 2 j and 2 j + 1 of
// its team's, as mma.m8n8k16 deals them out.
DEVICE void product(const Vec (*in)[VECS], const Vec (*w)[VECS], int t, Sum *sum) {
  const int team = t / TEAM * COLUMNS, lane = t % TEAM;
  UNROLL for (int s = 0; s < VECS; s += GROUP) {
    const auto b = [&](int k) { return w[team + k / GROUP][at_bank(k / GROUP, s + k % GROUP)]; };
    UNROLL for (int i = 0; i < 2; i++) {
      const auto a = [&](int k) { return in[k / GROUP + i * HALF_P][at_bank(k / GROUP, s + k % GROUP)]; };
      OPERAND(x, a, lane);
      OPERAND(y, b, lane);
      Sum &c = sum[2 * i], &d = sum[2 * i + 1];
      UNROLL for (int h = 0; h < 2; h++) {
        MMA(c.lo, d.lo, x, h, "u8", y, h, "u8");
        MMA(c.mid, d.mid, x, h, "u8", y, 2 + h, "s8");
        MMA(c.mid, d.mid, x, 2 + h, "s8", y, h, "u8");
        MMA(c.hi, d.hi, x, 2 + h, "s8", y, 2 + h, "s8");
      }
    }
  }
}
#else
typedef i64 Sum;
DEVICE void carry(Sum &) {}
DEVICE i64 total(Sum s) { return s; }

struct alignas(16) Vec {
  short e[WIDE];
};
DEVICE Vec split(const Vec &v) { return v; }
#define PUT(v, k, x) (v).e[k] = (short)(x)
#define GET(v, k) ((i32)(v).e[k])
DEVICE int at_bank(int, int v) { return v; }

OWN DEVICE void product(const Vec (*in)[VECS], const Vec (*w)[VECS], int t, Sum *sum) {
  const int team = t / TEAM * COLUMNS, lane = t % TEAM;
  for (int i = 0; i < 4; i++) {
    const short *a = in[lane / GROUP + i / 2 * HALF_P]->e, *b = w[team + lane % GROUP * 2 + i % 2]->e;
    i32 hi = 0, lo = 0;
    for (int d = 0; d < DEPTH; d++) hi += a[d] * (short)(b[d] >> 8), lo += a[d] * (short)(b[d] & 255);
    sum[i] += (i64)hi * 256 + lo;
  }
}
#endif

// Cursor is where a thread reads next: element c of the input's pixel y, x, which is kx from the left in the window, and
// element d of a row of weights.
struct Cursor {
  int y, x, kx, c, d;
};

// Tile is what the threads of a block have in common.
struct Tile {
  char *slot;
  int p0, c0;
};

DEVICE Tile tile_of(const Layer &l, unsigned block) {
  const u32 columns = FRESH(l.tiles_c), tiles = l.tiles_p * columns, sample = block < tiles ? 0 : block / tiles, tile = block - sample * tiles, row = tile / columns;
  return Tile{(char *)l.slots + l.stride * l.sample[sample], (int)row * PIXELS, (int)(tile - row * columns) * CHANNELS};
}

// wide says whether WIDE elements are neighbours, and aligned as one.
DEVICE bool wide(const Layer &l) {
  return l.in_c % WIDE == 0 && (((l.slots + l.in_offset) | (u64)l.stride | l.in_row | (u64)l.in_pix * 2 | l.weights) & 15) == 0;
}

// in_at is where the input's element of a cursor is, or 0 where that is beyond the image.
DEVICE const char *in_at(const Layer &l, const char *slot, const Cursor &at) {
  if ((u32)at.y >= (u32)l.in_h || (u32)at.x >= (u32)l.in_w) return 0;
  return slot + l.in_offset + (u64)(u32)at.y * l.in_row + 2 * (u64)(u32)(at.x * l.in_pix + at.c);
}

DEVICE void wrap(const Layer &l, Cursor &at) {
  if (at.c >= l.in_c) at.c -= l.in_c, at.kx++, at.x++;
  if (at.kx >= l.k_w) at.kx -= l.k_w, at.x -= l.k_w, at.y++;
}

DEVICE void step(const Layer &l, Cursor &at) {
  at.c += l.step_c, at.kx += l.step_x, at.x += l.step_x, at.y += l.step_y, at.d += DEPTH;
  wrap(l, at);
}

// fetch loads a thread's share of the next step's operands: WIDE elements of a pixel, and of WEIGHT_ROWS channels.
DEVICE void fetch(const Layer &l, const Tile &g, int t, Cursor &at, Vec &in, Vec *w) {
  const int c = g.c0 + t / VECS;
  const short *row = (const short *)l.weights + ((i64)c * l.depth + at.d);
  in = Vec{};
  UNROLL for (int i = 0; i < WEIGHT_ROWS; i++) w[i] = Vec{};
  if (at.d < l.depth) {
    if (const char *from = in_at(l, g.slot, at)) WORDS(in, from);
    UNROLL for (int i = 0; i < WEIGHT_ROWS; i++)
      if (c + i * ROWS_AT_ONCE < l.out_c) WORDS(w[i], row + (i64)i * ROWS_AT_ONCE * l.depth);
  }
  step(l, at);
}

// gather is fetch one by one, for elements that are no neighbours, straight to where they are multiplied. They are loaded
// in any case, from the beginning where they are not there, so that WIDE loads are under way at the same time.
DEVICE void gather(const Layer &l, const Tile &g, int t, Cursor &at, Vec &in, Vec *w) {
  const int c = g.c0 + t / VECS;
  const char *first = g.slot + l.in_offset;
  Cursor e = at;
  Vec v = {};
  if (e.d < l.depth) UNROLL for (int k = 0; k < WIDE; k++, e.c++, e.d++, wrap(l, e)) {
      const char *from = e.d < l.depth ? in_at(l, g.slot, e) : 0;
      const unsigned short x = *(const unsigned short *)(from ? from : first);
      PUT(v, k, from ? x : 0);
    }
  in = split(v);
  for (int i = 0; i < WEIGHT_ROWS; i++) {
    const int left = c + i * ROWS_AT_ONCE < l.out_c ? l.depth - at.d : 0;
    const unsigned short *row = (const unsigned short *)l.weights + ((i64)(c + i * ROWS_AT_ONCE) * l.depth + at.d);
    v = Vec{};
    if (left > 0) UNROLL for (int k = 0; k < WIDE; k++) {
        const unsigned short x = row[k < left ? k : 0];
        PUT(v, k, k < left ? x : 0);
      }
    w[i * ROWS_AT_ONCE * VECS] = split(v);
  }
  step(l, at);
}

// gemm is a convolution or a product: PIXELS x CHANNELS outputs of one sample. It says whether the block went
// to the end. The next step's operands are on their way while this one's are multiplied.
DEVICE bool gemm(const Layer &l, unsigned block BLOCK_ARGS) {
  SHARED Vec in[ROWS_AT_ONCE][VECS], w[CHANNELS][VECS];
  PRIVATE(Sum, sum, 4);
  PRIVATE(Cursor, at, 1);
  PRIVATE(Vec, next, 1 + WEIGHT_ROWS);
  const Tile g = tile_of(l, block);
  const int pixels = l.out_h * l.out_w;
  const bool vectors = wide(l);
  u32 seen = look(l, 0, l.epoch BLOCK_PASS); // not before the block begins: what comes behind a stopped kernel has to leave
  THREADS(t) {
    UNROLL for (int i = 0; i < 4; i++) MINE(sum, t, i) = Sum{};
    Cursor &c = MINE(at, t, 0);
    const int p = g.p0 + t / VECS, d = t % VECS * WIDE, out_w = FRESH(l.out_w), in_c = FRESH(l.in_c), row = l.k_w * in_c, y = p / out_w, ky = d / row, r = d - ky * row;
    c.d = d, c.kx = r < in_c ? 0 : r / in_c, c.c = r - c.kx * in_c;
    c.y = p < pixels && t / VECS < PIXELS ? y * l.s_h - l.pad_t + ky : -(1 << 30), c.x = (p - y * out_w) * l.s_w - l.pad_l + c.kx;
    if (vectors) fetch(l, g, t, c, MINE(next, t, 0), &MINE(next, t, 1));
  }
  for (int d0 = 0; d0 < l.depth;) {
    if (leave(l, seen)) return false;
    if (d0 % CARRY_EACH == 0) THREADS(t) UNROLL for (int i = 0; i < 4; i++) carry(MINE(sum, t, i));
    for (int n = 0; n < POLL && d0 < l.depth; n++, d0 += DEPTH) {
      THREADS(t) {
        const int row = t / VECS, v = at_bank(row, t % VECS);
        if (!vectors) {
          gather(l, g, t, MINE(at, t, 0), in[row][v], &w[row][v]);
        } else {
          in[row][v] = split(MINE(next, t, 0));
          UNROLL for (int i = 0; i < WEIGHT_ROWS; i++) w[row + i * ROWS_AT_ONCE][v] = split(MINE(next, t, 1 + i));
          if (d0 + DEPTH < l.depth) fetch(l, g, t, MINE(at, t, 0), MINE(next, t, 0), &MINE(next, t, 1));
        }
      }
      SYNC;
      seen = look(l, (u32)(n ^ (POLL - 1)) | (u32)(d0 + DEPTH >= l.depth), seen BLOCK_PASS);
      THREADS(t) product(in, w, t, &MINE(sum, t, 0));
      SYNC;
    }
  }
  THREADS(t) {
    const int out_w = FRESH(l.out_w), c = g.c0 + t / TEAM * COLUMNS + t % GROUP * 2;
    int p = g.p0 + t % TEAM / GROUP, y = p / out_w, x = p - y * out_w;
    i32 bias[2];
    UNROLL for (int k = 0; k < 2; k++) bias[k] = c + k < l.out_c ? ((const i32 *)l.bias)[c + k] : 0;
    UNROLL for (int i = 0; i < 2; i++) {
      if (p < pixels) {
        short *out = out_at(l, g.slot, y, x, c);
        UNROLL for (int k = 0; k < 2; k++) {
          if (c + k >= l.out_c) continue;
          i64 s = total(MINE(sum, t, 2 * i + k)) + bias[k];
          if (l.residual) s += (i64)((const short *)(g.slot + l.res_offset + (i64)y * l.res_row + 2 * ((i64)x * l.res_pix + c)))[k] * ((i64)1 << l.res_shift);
          out[k] = finish(l, s, l.shift);
        }
      }
      for (p += HALF_P, x += HALF_P; x >= out_w; y++) x -= out_w;
    }
  }
  return true;
}

// at_once is how many pixels of a pool a block has at the same time: a power of two, at most PIXELS.
DEVICE int at_once(const Layer &l) {
  int n = 1;
  while (n < PIXELS && n < l.out_h * l.out_w) n *= 2;
  return n;
}

DEVICE int taps(int out, int stride, int pad, int kernel, int in) {
  int first = out * stride - pad, last = first + kernel;
  first = first < 0 ? 0 : first;
  last = last > in ? in : last;
  return last > first ? last - first : 0;
}

// pool is a maximum or an average of as many outputs. A thread has WIDE channels of a pixel, and a part of its window: the
// fewer pixels a layer has, the more threads share a window. A window has at most 255 x 255 elements, whose sum fits 32
// bits.
DEVICE bool pool(const Layer &l, unsigned block BLOCK_ARGS) {
  constexpr int LANES = CHANNELS / WIDE, SLOTS = THREADS_N / LANES, TAPS = 4;
  SHARED i32 found[SLOTS][CHANNELS];
  PRIVATE(i32, acc, WIDE);
  PRIVATE(Cursor, at, 1);
  const Tile g = tile_of(l, block);
  const bool most = l.op == OP_MAXPOOL, vectors = wide(l);
  const int none = most ? -32768 : 0, pixels = l.out_h * l.out_w, window = l.k_h * l.k_w, parts = SLOTS / at_once(l);
  THREADS(t) {
    UNROLL for (int k = 0; k < WIDE; k++) MINE(acc, t, k) = none;
    Cursor &c = MINE(at, t, 0);
    const int out_w = FRESH(l.out_w), k_w = FRESH(l.k_w), p = g.p0 + t / LANES / parts, y = p / out_w, ky = t / LANES % parts / k_w;
    c.d = p < pixels && g.c0 + t % LANES * WIDE < l.in_c ? t / LANES % parts : window, c.kx = t / LANES % parts - ky * k_w, c.c = g.c0 + t % LANES * WIDE;
    c.y = y * l.s_h - l.pad_t + ky, c.x = (p - y * out_w) * l.s_w - l.pad_l + c.kx;
  }
  const int step_y = parts / l.k_w, step_x = parts - step_y * l.k_w;
  for (int n = 0; n < window; n += WINDOW * parts) {
    if (leave(l, look(l, 0, l.epoch BLOCK_PASS))) return false;
    THREADS(t) {
      Cursor &c = MINE(at, t, 0);
      for (int k = 0; k < WINDOW && c.d < window; k += TAPS) {
        Vec v[TAPS];
        bool there[TAPS];
        UNROLL for (int i = 0; i < TAPS; i++) {
          // Loaded in any case, from the first pixel where it is not there, so that loads are under way together.
          const char *from = c.d < window ? in_at(l, g.slot, c) : 0;
          there[i] = from != 0;
          if (!from) from = g.slot + l.in_offset + 2 * (u64)(u32)c.c;
          v[i] = Vec{};
          if (vectors) WORDS(v[i], from);
          else UNROLL for (int e = 0; e < WIDE; e++) PUT(v[i], e, ((const unsigned short *)from)[c.c + e < l.in_c ? e : 0]);
          c.d += parts, c.kx += step_x, c.x += step_x, c.y += step_y;
          if (c.kx >= l.k_w) c.kx -= l.k_w, c.x -= l.k_w, c.y++;
        }
        UNROLL for (int i = 0; i < TAPS; i++) UNROLL for (int e = 0; e < WIDE; e++) {
          const i32 x = there[i] ? GET(v[i], e) : none, was = MINE(acc, t, e);
          MINE(acc, t, e) = most ? (x > was ? x : was) : was + x;
        }
      }
    }
  }
  THREADS(t) UNROLL for (int e = 0; e < WIDE; e++) found[t / LANES][t % LANES * WIDE + e] = MINE(acc, t, e);
  SYNC;
  THREADS(t) for (int o = t; o < PIXELS * CHANNELS; o += THREADS_N) {
    const int p = g.p0 + o / CHANNELS, c = g.c0 + o % CHANNELS, y = p / l.out_w, x = p - y * l.out_w;
    if (p >= pixels || c >= l.in_c) continue;
    i64 s = none;
    for (int k = 0; k < parts; k++) {
      const i32 v = found[o / CHANNELS * parts + k][o % CHANNELS];
      s = most ? (v > s ? v : s) : s + v;
    }
    if (!most) s *= l.avg_table ? ((const i32 *)l.bias)[taps(y, l.s_h, l.pad_t, l.k_h, l.in_h) * taps(x, l.s_w, l.pad_l, l.k_w, l.in_w)] : l.avg_mul;
    *out_at(l, g.slot, y, x, c) = finish(l, s, most ? 0 : l.avg_shift);
  }
  SYNC;
  return true;
}

DEVICE void layer(const Layer &l, unsigned block BLOCK_ARGS) {
  if (l.timed) ONCE EARLIEST(((Control *)l.control)->began, NOW());
  for (u32 i = l.from + block; i < l.to; i += l.blocks)
    if (!(l.op == OP_GEMM ? gemm(l, i BLOCK_PASS) : pool(l, i BLOCK_PASS))) return;
  ended(l);
}

// which is the role that a block of a launch plays; block becomes that of the role.
DEVICE const Layer &which(const Roles &r, unsigned &block) {
  int i = 0;
  while (block >= r.role[i].blocks) block -= r.role[i++].blocks;
  return r.role[i];
}
