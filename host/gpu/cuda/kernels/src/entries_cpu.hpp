// The kernels as a host's threads run them: the same names and arguments, block by block.
#pragma once
#include <cstring>
#include <ctime>

#include "cpu.hpp"
#include "kernels.hpp"

// Host says what a block runs on, and at what the kernel is watched.
struct Host {
  unsigned sm;
  const Watch *watch;
};

typedef void (*Entry)(void **args, unsigned block, const Host *on);

static void cpu_layer(void **args, unsigned block, const Host *on) { layer(*(const Layer *)args[0], block, on->watch); }

static void cpu_padded(void **args, unsigned block, const Host *on) {
  const Layer &a = *(const Layer *)args[0], &b = *(const Layer *)args[1];
  if (block < a.blocks)
    layer(a, block, on->watch);
  else
    layer(b, block - a.blocks, on->watch);
}

static u64 host_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

static void cpu_where(void **args, unsigned block, const Host *on) {
  u64 *out = *(u64 **)args[0], spin = *(u64 *)args[1], begin = host_ns(), now;
  do now = host_ns();
  while (now - begin < spin);
  u64 *at = out + 4 * block;
  at[0] = on->sm, at[1] = 0, at[2] = begin, at[3] = now;
}

struct Kernel {
  const char *name;
  Entry run;
  unsigned args, sizes[2];
};

static const Kernel kernels[] = {
    {"sluice_layer", cpu_layer, 1, {sizeof(Layer), 0}},
    {"sluice_padded", cpu_padded, 2, {sizeof(Layer), sizeof(Layer)}},
    {"sluice_where", cpu_where, 2, {8, 8}},
};
