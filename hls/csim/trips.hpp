// trips.hpp: called by loops that count their trips (hls/check's Counted). A trip beyond the number
// in loop_tripcount ends the process, since synthesis relies on that number.
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
