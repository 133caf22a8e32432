// What kernels.hpp is written in, for the host's compiler: a block's threads run one after the other
// through each phase, so a barrier needs nothing; blocks of several streams run on several threads.
#pragma once
#include <cstdint>
#include <cstring>
#include <ctime>

typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef int32_t i32;

// Look is asked at every place where a block looks at its epoch, before it does: a test stops there.
typedef void (*Look)(void *);
struct Watch {
  Look look;
  void *of;
};

#define DEVICE static inline
#define SHARED
#define THREADS(t) for (int t = 0; t < THREADS_N; t++)
#define PRIVATE(type, name, n) type name[THREADS_N][n]
#define MINE(name, t, i) name[t][i]
#define SYNC
#define BLOCK_ARGS , const Watch *watch
#define BLOCK_PASS , watch
#define LOOK watch ? watch->look(watch->of) : (void)0
#define PEEK(v, x, until) if (!(until)) v = LOAD(x)
#define ANY(x) (x)
#define ONCE
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)

template <class T, class U, class Less>
static inline void first_of(T *at, U v, Less less) {
  for (T was = __atomic_load_n(at, __ATOMIC_RELAXED); less((T)v, was);)
    if (__atomic_compare_exchange_n(at, &was, (T)v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
}
#define LEAST(x, v) first_of(&(x), (v), [](auto a, auto b) { return a < b; })
#define EARLIEST(x, v) LEAST(x, v)
#define LATEST(x, v) first_of(&(x), (v), [](auto a, auto b) { return a > b; })
#define NOW() block_ns()
#define FRESH(x) (x)
#define OWN [[gnu::no_sanitize_thread]] // its memory is the block's alone
#define UNROLL
#define UNROLL_BY(n)
#define WORDS(v, at) __builtin_memcpy(&(v), (at), sizeof(v))

#ifdef TENSOR // as a warp's tensor cores multiply: PTX ISA, mma.m8n8k16 with bytes
#define OPERAND(x, of, lane) /* of the lanes of a row, and of two columns */ \
  Vec x[32];                                                                 \
  for (int k_ = 0; k_ < 4; k_++) x[lane / 4 * 4 + k_] = of(lane / 4 * 4 + k_); \
  for (int k_ = 0; k_ < 8; k_++) x[lane % 4 * 8 + k_] = of(lane % 4 * 8 + k_)
#define MMA(c0, c1, a, i, at, b, j, bt) /* what is added at once, sixteen products, cannot overflow */                \
  {                                                                                                                \
    u32 c0_ = 0, c1_ = 0;                                                                                          \
    for (int k_ = 0; k_ < 16; k_++) {                                                                              \
      const u32 a_ = byte_of(a[lane / 4 * 4 + k_ / 4].q[i], k_ % 4, at);                                           \
      c0_ += a_ * byte_of(b[lane % 4 * 8 + k_ / 4].q[j], k_ % 4, bt), c1_ += a_ * byte_of(b[lane % 4 * 8 + 4 + k_ / 4].q[j], k_ % 4, bt); \
    }                                                                                                              \
    c0 += (i32)c0_, c1 += (i32)c1_;                                                                                \
  }
static inline u32 byte_of(u32 word, int k, const char *type) { return *type == 's' ? (u32)(int8_t)(word >> 8 * k) : (u32)(uint8_t)(word >> 8 * k); }

static inline u32 BYTES(u32 a, u32 b, u32 which) { // prmt
  u32 out = 0;
  for (int k = 0; k < 4; k++) out |= (u32)(((u64)b << 32 | a) >> (which >> 4 * k & 7) * 8 & 255) << 8 * k;
  return out;
}
#endif

static inline u64 host_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

// The clock that blocks read is the host's; a test has it tick in steps of so many ns, or stand elsewhere.
static u64 clock_tick = 1;
static i64 clock_ahead = 0;
static inline u64 block_ns() {
  u64 t = host_ns() + (u64)__atomic_load_n(&clock_ahead, __ATOMIC_RELAXED), tick = __atomic_load_n(&clock_tick, __ATOMIC_RELAXED);
  return t - t % tick;
}
