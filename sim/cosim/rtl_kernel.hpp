// rtl_kernel.hpp: the Verilated npu_top and its memory, as a Kernel.
#pragma once

#include <memory>
#include <string>

#include "cosim/kernel.hpp"

namespace sluice {

// Memory uses `window`, which must outlive the kernel. After trace(true) an FST trace is written to
// `trace_file`; empty: none.
std::unique_ptr<Kernel> make_rtl_kernel(const Window& window, const std::string& trace_file);

}  // namespace sluice
