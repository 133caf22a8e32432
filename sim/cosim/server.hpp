// server.hpp: serves one connection of sim/PROTOCOL.md from a kernel.
#pragma once

#include "cosim/kernel.hpp"

namespace sluice {

// Serves until the other side quits or closes. Returns false if the socket failed. In free-run mode
// the clock always advances, and interrupts are reported without a request.
bool serve(int fd, Kernel& kernel, bool free_run);

}  // namespace sluice
