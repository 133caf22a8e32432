// stage.hpp: how a stage of a dataflow region is called. To synthesis it is a plain call, as the dialect
// wants it; C-simulation of this repository gives every stage a thread (csim/threads.hpp), so that the
// streams' depths count.
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
