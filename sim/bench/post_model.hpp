// post_model.hpp: the NPU's arithmetic in 64 bits, as the design defines it.
#pragma once

#include <cstdint>

namespace model {

inline int64_t rnd(int64_t x, unsigned n) {
  return n == 0 ? x : (x + (int64_t{1} << (n - 1))) >> n;
}

inline int64_t sat16(int64_t x) { return x > 32767 ? 32767 : (x < -32768 ? -32768 : x); }

inline int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : (x > hi ? hi : x); }

// y = clamp(sat16(rnd(acc + bias + (res << rs), sh)))
inline int16_t post(int64_t acc, int64_t bias, int64_t res, unsigned rs, unsigned sh, int64_t lo,
                    int64_t hi) {
  return static_cast<int16_t>(clamp(sat16(rnd(acc + bias + res * (int64_t{1} << rs), sh)), lo, hi));
}

}  // namespace model
