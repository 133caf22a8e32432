// The kernel of sim/cosim with the netlist as its npu_top. The source is the RTL's, since ports and
// file names of the Verilated model are the same; only the state at power-on differs: registers and
// memories begin with random bits, as in hardware, so that a missing reset is noticed.
//
// SLUICE_NETLIST_SEED (1 to 2147483647) chooses the bits; without it, a new seed each time, which
// is printed on the error output.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "verilated.h"

namespace {

bool g_seeded = false;

int power_on_seed() {
  g_seeded = true;
  long seed = 0;
  if (const char* text = std::getenv("SLUICE_NETLIST_SEED")) seed = std::strtol(text, nullptr, 0);
  if (seed < 1 || seed > 0x7FFFFFFF) seed = 1 + static_cast<long>(std::random_device{}() >> 2);
  std::fprintf(stderr, "netlist: state at power-on from SLUICE_NETLIST_SEED=%ld\n", seed);
  return static_cast<int>(seed);
}

}  // namespace

#define randReset(mode) randSeed(power_on_seed()), context_.randReset(2)
#define make_rtl_kernel make_bare_kernel
#include "cosim/rtl_kernel.cpp"
#undef make_rtl_kernel
#undef randReset

namespace sluice {

std::unique_ptr<Kernel> make_rtl_kernel(const Window& window, const std::string& trace_file) {
  auto kernel = make_bare_kernel(window, trace_file);
  if (!g_seeded) throw KernelError("netlist: rtl_kernel.cpp no longer sets randReset on context_");
  return kernel;
}

}  // namespace sluice
