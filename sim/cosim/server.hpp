// server.hpp: serves one connection of sim/PROTOCOL.md from a kernel.
#pragma once

#include "cosim/kernel.hpp"

namespace sluice {

// Serves until the other side quits or closes; then answers true, or false where the socket
// failed. In free-run mode the clock advances all the time and interrupts are reported unasked.
bool serve(int fd, Kernel& kernel, bool free_run);

}  // namespace sluice
