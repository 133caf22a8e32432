// The kernels as a GPU sees them.

extern "C" __global__ void __launch_bounds__(THREADS_N) sluice_layer(const __grid_constant__ Layer l) {
  layer(l, blockIdx.x);
}

// Two layers in one launch: the blocks of the first, then those of the second. Either can be stopped alone.
extern "C" __global__ void __launch_bounds__(THREADS_N)
    sluice_padded(const __grid_constant__ Layer a, const __grid_constant__ Layer b) {
  if (blockIdx.x < a.blocks)
    layer(a, blockIdx.x);
  else
    layer(b, blockIdx.x - a.blocks);
}

// Where each block ran, and when: four words a block: the SM, 0, and ns by the GPU's timer at begin and end.
extern "C" __global__ void __launch_bounds__(THREADS_N) sluice_where(u64 *out, u64 spin) {
  if (threadIdx.x != 0) return;
  u64 begin, now;
  u32 sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < spin);
  out[4 * blockIdx.x] = sm;
  out[4 * blockIdx.x + 1] = 0;
  out[4 * blockIdx.x + 2] = begin;
  out[4 * blockIdx.x + 3] = now;
}
