// The kernels as an AMD GPU sees them: amd.sh compiles amd.hpp, kernels.hpp and this, one after the other.

// Of what the object was made.
extern "C" __attribute__((device, used, visibility("default"))) const char sluice_sources[65] = SOURCES;

#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS_N, THREADS_N), visibility("protected"))) void

KERNEL sluice_layer(const Layer l) { layer(l, __builtin_amdgcn_workgroup_id_x()); }

// Several layers in one launch: the blocks of the first, then those of the next. Each can be stopped alone.
KERNEL sluice_padded(const Roles r) {
  u32 block = __builtin_amdgcn_workgroup_id_x();
  const Layer &l = which(r, block);
  layer(l, block);
}

// Where each block ran, and when: four words a block: the CU, 0, and ns by the shared counter at begin and end.
KERNEL sluice_where(u64 *out, u64 spin) {
  if (__builtin_amdgcn_workitem_id_x() != 0) return;
  u64 begin = amd_ns(), now;
  do now = amd_ns();
  while (now - begin < spin);
  u64 *at = out + 4 * __builtin_amdgcn_workgroup_id_x();
  at[0] = amd_cu(), at[1] = 0, at[2] = begin, at[3] = now;
}

// The GPU's clock, written to the host's memory over and over for so many ns.
KERNEL sluice_clock(u64 *out, u64 ns) {
  if (__builtin_amdgcn_workitem_id_x() != 0) return;
  u64 begin = amd_ns(), t;
  do {
    t = amd_ns();
    __hip_atomic_store(out, t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  } while (t - begin < ns);
}

// What draws on the memory until a word is another than zero, or for so many ns at most.
KERNEL sluice_stream(u64 *words, u64 n, unsigned *told, u64 ns, u64 blocks) {
  u64 half = n / 2, begin = amd_ns(), step = blocks * THREADS_N;
  u64 i = (u64)__builtin_amdgcn_workgroup_id_x() * THREADS_N + __builtin_amdgcn_workitem_id_x();
  for (u64 k = 0;; k++, i += step) {
    if (k % 64 == 0 && amd_any(__builtin_amdgcn_workitem_id_x() == 0 && (LOAD(*told) || amd_ns() - begin >= ns))) return;
    words[half + i % half] = words[i % half] + 1;
  }
}
