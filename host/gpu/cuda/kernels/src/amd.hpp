// What kernels.hpp is written in, for clang's AMDGPU target: builtins alone, no header and no library of ROCm's.

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
typedef int i32;

#define DEVICE static __attribute__((device, always_inline)) inline
#define SHARED static __attribute__((shared))
#define THREADS(t) for (int t = (int)__builtin_amdgcn_workitem_id_x(), once_ = (t >= 0); once_; once_ = 0)
#define PRIVATE(type, name, n) type name[n]
#define MINE(name, t, i) name[i]
#define SYNC amd_sync()
#define BLOCK_ARGS
#define BLOCK_PASS
#define LOOK (void)0
#define PEEK(v, x, until) if (!(until) && __builtin_amdgcn_workitem_id_x() == 0) v = LOAD(x)
#define ANY(c) amd_any(__builtin_amdgcn_workitem_id_x() == 0 && (c))
#define ONCE if (__builtin_amdgcn_workitem_id_x() == 0)
// The word is another queue's to write, while the kernel runs: past the caches of the CU.
#define LOAD(x) __hip_atomic_load(&(x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)
#define LEAST(x, v) __hip_atomic_fetch_min(&(x), (v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define EARLIEST(x, v) LEAST(x, v)
#define LATEST(x, v) __hip_atomic_fetch_max(&(x), (v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define NOW() amd_ns()
#define FRESH(x) (x)
#define OWN
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n)
#define WORDS(v, at) __builtin_memcpy(&(v), (at), sizeof(v))

// The counter that all CUs share: 100 MHz but on small ones.
DEVICE u64 amd_ns() { return __builtin_amdgcn_s_memrealtime() * 10; }

DEVICE void amd_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// One thread looks, all leave or none. The barrier before keeps the word until everybody has read the last one.
DEVICE bool amd_any(bool c) {
  static __attribute__((shared)) int word;
  amd_sync();
  if (__builtin_amdgcn_workitem_id_x() == 0) word = c;
  amd_sync();
  return word != 0;
}

// Where a wave runs, as a number that no two CUs share: the register's bits for CU (or pair of them), array and
// engine. GFX9 has them in HW_ID (4), later ones in HW_ID1 (23).
DEVICE u32 amd_cu() {
#if defined(__GFX9__)
  return __builtin_amdgcn_s_getreg(4 | 8 << 6 | (8 - 1) << 11);
#else
  u32 id = __builtin_amdgcn_s_getreg(23 | 0 << 6 | (32 - 1) << 11);
  return (id >> 10 & 15) | (id >> 16 & 1) << 4 | (id >> 18 & 7) << 5;
#endif
}
