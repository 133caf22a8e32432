// The kernels as an AMD GPU sees them: amd.sh compiles amd.hpp, kernels.hpp and this, one after the other.

// Of what the object was made.
extern "C" __attribute__((device, used, visibility("default"))) const char sluice_sources[65] = SOURCES;

#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS_N, THREADS_N), visibility("protected"))) void

KERNEL sluice_layer(const Layer l) { layer(l, __builtin_amdgcn_workgroup_id_x()); }

// Two layers in one launch: the blocks of the first, then those of the second. Either can be stopped alone.
KERNEL sluice_padded(const Layer a, const Layer b) {
  u32 block = __builtin_amdgcn_workgroup_id_x();
  if (block < a.blocks)
    layer(a, block);
  else
    layer(b, block - a.blocks);
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
