// What kernels.hpp is written in, for NVRTC.

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
typedef int i32;

#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define THREADS(t) for (int t = threadIdx.x, once_ = (t >= 0); once_; once_ = 0)
#define PRIVATE(type, name, n) type name[n]
#define MINE(name, t, i) name[i]
#define SYNC __syncthreads()
#define BLOCK_ARGS
#define BLOCK_PASS
#define LOOK
// One thread looks, all leave or none.
#define ANY(c) __syncthreads_or(threadIdx.x == 0 && (c))
#define ONCE if (threadIdx.x == 0)
#define LOAD(x) (*(volatile unsigned *)&(x))
#define LEAST(x, v) atomicMin(&(x), (v))
#define EARLIEST(x, v) atomicMin(&(x), (v))
#define LATEST(x, v) atomicMax(&(x), (v))
#define NOW() now()

static __device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
