// The kernels as a GPU sees them.

extern "C" __global__ void __launch_bounds__(THREADS_N, 6) sluice_layer(const __grid_constant__ Layer l) {
  layer(l, blockIdx.x);
}

// Several layers in one launch: the blocks of the first, then those of the next. Each can be stopped alone. It
// has no bounds, with which the compiler takes no limit of registers: it is loaded with several.
extern "C" __global__ void sluice_padded(const __grid_constant__ Roles r) {
  unsigned block = blockIdx.x;
  const Layer &l = which(r, block);
  layer(l, block);
}

// Where each block ran, and when: four words a block: the SM, 0, and ns by the GPU's timer at begin and end.
extern "C" __global__ void __launch_bounds__(THREADS_N) sluice_where(u64 *out, u64 spin) {
  if (threadIdx.x != 0) return;
  u64 begin = NOW(), end;
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  do end = NOW();
  while (end - begin < spin);
  out[4 * blockIdx.x] = sm;
  out[4 * blockIdx.x + 1] = 0;
  out[4 * blockIdx.x + 2] = begin;
  out[4 * blockIdx.x + 3] = end;
}

// The GPU's clock, written to the host's memory over and over for so many ns.
extern "C" __global__ void __launch_bounds__(THREADS_N) sluice_clock(u64 *out, u64 ns) {
  if (threadIdx.x != 0) return;
  u64 begin = NOW(), t;
  do {
    t = NOW();
    *(volatile u64 *)out = t;
    __threadfence_system();
  } while (t - begin < ns);
}

// What draws on the memory until a word is another than zero, or for so many ns at most: the lower half of so
// many words is copied to the upper one, over and over. A run of it is what copies run beside.
extern "C" __global__ void __launch_bounds__(THREADS_N) sluice_stream(u64 *words, u64 n, unsigned *told, u64 ns, u64 blocks) {
  u64 half = n / 2, begin = NOW(), step = blocks * THREADS_N;
  u64 i = (u64)blockIdx.x * THREADS_N + threadIdx.x;
  for (u64 k = 0;; k++, i += step) {
    if (k % 64 == 0 && ANY(LOAD(*told) || NOW() - begin >= ns)) return;
    words[half + i % half] = words[i % half] + 1;
  }
}
