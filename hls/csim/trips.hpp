// trips.hpp: what loops call that count their trips (hls/check's Counted): a trip beyond what a loop_tripcount states ends
// the process, as synthesis believes the statement.
#ifndef SLUICE_HLS_TRIPS_HPP
#define SLUICE_HLS_TRIPS_HPP

#include <cstdio>
#include <cstdlib>

namespace sluice {

inline void trip(long long trips, long long stated, const char *loop) {
  if (trips <= stated) return;
  std::fprintf(stderr, "trips: %s: loop_tripcount states %lld, this is trip %lld\n", loop, stated, trips);
  std::_Exit(6);
}

}  // namespace sluice

#endif
