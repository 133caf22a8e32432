// What kernels.hpp is written in, for NVRTC.

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
typedef int i32;

#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define THREADS(t) for (int t = (int)(threadIdx.x % THREADS_N), once_ = (t >= 0); once_; once_ = 0)
#define PRIVATE(type, name, n) type name[n]
#define MINE(name, t, i) name[i]
#define SYNC __syncthreads()
#define BLOCK_ARGS
#define BLOCK_PASS
#define LOOK (void)0
// One thread looks, all leave or none.
#define PEEK(v, word, until)                                                                                            \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %2, 0;\n\t@p ld.volatile.global.u32 %0, [%1];\n\t}" : "+r"(v) \
               : "l"(&(word)), "r"((until) | threadIdx.x))
#define ANY(c) __syncthreads_or(threadIdx.x == 0 && (c))
#define ONCE if (threadIdx.x == 0)
#define LOAD(x) (*(volatile unsigned *)&(x))
#define LEAST(x, v) atomicMin(&(x), (v))
#define EARLIEST(x, v) atomicMin(&(x), (v))
#define LATEST(x, v) atomicMax(&(x), (v))
#define NOW() now()
// What is computed of x is computed where it stands: out of a loop it would take a register all along.
#define FRESH(x) fresh(x)
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) _Pragma(UNROLL_TEXT(unroll n))
#define UNROLL_TEXT(x) #x
#define WORDS(v, at) (*(uint4 *)&(v) = *(const uint4 *)(at))

#define TENSOR
#define BYTES(a, b, which) __byte_perm(a, b, which)
#define OPERAND(x, of, lane) const Vec x = of(lane)
// c += a b, of eight pixels and eight channels of a warp, by sixteen bytes.
#define MMA(c0, c1, a, i, at, b, j, bt)                                                                                  \
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." at "." bt ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+r"(c0), "+r"(c1) \
               : "r"(a.q[i]), "r"(b.q[j]))

static __device__ __forceinline__ int fresh(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

static __device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
