// The kernels as a host's threads run them: the same names and arguments, block by block.
#pragma once
#include <cstring>

#include "cpu.hpp"
#include "kernels.hpp"

// Host says what a block runs on, of how many of its launch it is one, at what the kernel is watched, and, where there is
// such a word, of its context that it has ended, if it is another than zero.
struct Host {
  unsigned sm, blocks;
  const Watch *watch;
  const int *ended = nullptr;
};

typedef void (*Entry)(void **args, unsigned block, const Host *on);

// alone is a block's work on arguments of its own, as a GPU's blocks have them: no compiler need read them again and
// again, and no sanitizer follow what nobody else can touch.
[[gnu::flatten]] static void alone(const Layer l, unsigned block, const Watch *watch) { layer(l, block, watch); }

static void cpu_layer(void **args, unsigned block, const Host *on) { alone(*(const Layer *)args[0], block, on->watch); }

static void cpu_padded(void **args, unsigned block, const Host *on) {
  const Layer &l = which(*(const Roles *)args[0], block);
  alone(l, block, on->watch);
}

// A GPU has the blocks of a launch stand beside each other, here they come one after the other: all of them take as long.
static void cpu_where(void **args, unsigned block, const Host *on) {
  u64 *out = *(u64 **)args[0], spin = *(u64 *)args[1], begin = NOW(), now;
  if (spin) spin = (spin + on->blocks - 1) / on->blocks;
  do now = NOW();
  while (now - begin < spin);
  u64 *at = out + 4 * block;
  at[0] = on->sm, at[1] = 0, at[2] = begin, at[3] = now;
}

static void cpu_clock(void **args, unsigned, const Host *) {
  u64 *out = *(u64 **)args[0], ns = *(u64 *)args[1], begin = NOW(), t;
  do {
    t = NOW();
    __atomic_store_n(out, t, __ATOMIC_RELEASE);
  } while (t - begin < ns);
}

static void cpu_stream(void **args, unsigned, const Host *on) {
  u64 *words = *(u64 **)args[0], half = *(u64 *)args[1] / 2, ns = *(u64 *)args[3], begin = host_ns();
  unsigned *told = *(unsigned **)args[2];
  for (u64 i = 0; !LOAD(*told) && !(on->ended && LOAD(*on->ended)) && host_ns() - begin < ns; i++) {
    for (u64 k = 0; k < 64; k++) words[half + (64 * i + k) % half] = words[(64 * i + k) % half] + 1;
    timespec t{0, 20000}; // the host has other things to do than to draw on its own memory
    nanosleep(&t, nullptr);
  }
}

struct Kernel {
  const char *name;
  Entry run;
  unsigned args, sizes[5];
};

static const Kernel kernels[] = {
    {"sluice_layer", cpu_layer, 1, {sizeof(Layer)}},
    {"sluice_padded", cpu_padded, 1, {sizeof(Roles)}},
    {"sluice_where", cpu_where, 2, {8, 8}},
    {"sluice_clock", cpu_clock, 2, {8, 8}},
    {"sluice_stream", cpu_stream, 5, {8, 8, 8, 8, 8}},
};
