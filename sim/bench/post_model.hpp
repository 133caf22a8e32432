// post_model.hpp: the NPU's arithmetic in 64 bits, as the design defines it.
#pragma once

#include <algorithm>
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

// The steps after the shift in a build with POST.
struct Behind {
  bool product = false, curve = false;
  int64_t lo = 0;
  unsigned step = 0, shift = 0;
  const uint32_t* words = nullptr;  // OFFSET and SLOPE of 32 segments

  int16_t post(int64_t acc, int64_t bias, int64_t res, unsigned rs, unsigned sh, int64_t min, int64_t max) const {
    const int64_t t = model::post(acc, bias, product ? 0 : res, rs, sh, -32768, 32767);
    if (product) return static_cast<int16_t>(clamp(sat16(rnd(t * res, rs)), min, max));
    if (!curve) return static_cast<int16_t>(clamp(t, min, max));
    const int64_t i = std::min<int64_t>(std::max<int64_t>((t - lo) >> step, 0), 31);
    const int64_t offset = static_cast<int32_t>(words[2 * i]), slope = static_cast<int32_t>(words[2 * i + 1]);
    return static_cast<int16_t>(clamp(sat16(rnd(slope * t + offset, shift)), min, max));
  }
};

}  // namespace model
