// stage.hpp: how a stage of a dataflow region is called. For synthesis it is a plain call, as the
// HLS dialect requires. The C-simulation of this repository gives every stage a thread
// (csim/threads.hpp), so that the depths of the streams matter.
#ifndef SLUICE_HLS_STAGE_HPP
#define SLUICE_HLS_STAGE_HPP

#if defined(SLUICE_THREADS) && !defined(__SYNTHESIS__)
#include "threads.hpp"
#define SLUICE_REGION csim::Region csim_region
#define SLUICE_STAGE(...) csim_region.stage(#__VA_ARGS__, [&] { __VA_ARGS__; })
#else
#define SLUICE_REGION
#define SLUICE_STAGE(...) __VA_ARGS__
#endif

#endif
