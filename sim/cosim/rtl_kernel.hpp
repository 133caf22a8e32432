// rtl_kernel.hpp: the Verilated npu_top and its memory, as a Kernel.
#pragma once

#include <memory>
#include <string>

#include "cosim/kernel.hpp"

namespace sluice {

// Memory answers through `window`, which must outlive the kernel. `trace_file` is where an FST
// trace goes once trace(true) is called; empty for none.
std::unique_ptr<Kernel> make_rtl_kernel(const Window& window, const std::string& trace_file);

}  // namespace sluice
