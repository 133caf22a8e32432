// The kernels of both fake drivers, apart from what is around them: these take time to run, all else takes time to compile.
#include "../../kernels/src/entries_cpu.hpp"

// kernel_of is the kernel of that name; null: there is none.
const Kernel *kernel_of(const char *name) {
  for (const Kernel &k : kernels)
    if (!strcmp(k.name, name)) return &k;
  return nullptr;
}

// fake_clock has the clock that blocks read tick in steps of so many ns (1), and stand so many ns ahead of the host's (0).
extern "C" __attribute__((visibility("default"))) void fake_clock(long tick, long ahead) {
  __atomic_store_n(&clock_tick, tick > 1 ? (u64)tick : 1, __ATOMIC_RELAXED);
  __atomic_store_n(&clock_ahead, ahead, __ATOMIC_RELAXED);
}
