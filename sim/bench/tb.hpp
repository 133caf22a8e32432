// tb.hpp: shared by all benches: arguments (--seed, --n), random numbers that are the same on every
// platform, and checks that are counted and end the bench with a message.
#pragma once

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tb {

// splitmix64: small and fast. The library's distributions differ between platforms.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }
  uint64_t range(uint64_t lo, uint64_t hi) { return lo + below(hi - lo + 1); }
  bool percent(unsigned p) { return below(100) < p; }

 private:
  uint64_t state_;
};

struct Args {
  uint64_t seed = 1;
  uint64_t n = 0;  // 0: the bench's own default
};

constexpr uint64_t kMaxN = uint64_t{1} << 31;  // benches also count in unsigned

inline Args parse(int argc, char** argv) {
  Args args;
  const auto number = [argv](const char* flag, const char* text) {
    char* end = nullptr;
    errno = 0;
    const uint64_t value = std::strtoull(text, &end, 0);
    if (*text < '0' || *text > '9' || *end || errno) {
      std::fprintf(stderr, "%s: %s %s: expected a number, 0 or more\n", argv[0], flag, text);
      std::exit(2);
    }
    return value;
  };
  for (int i = 1; i < argc; i++) {
    if (i + 1 < argc && !std::strcmp(argv[i], "--seed")) {
      args.seed = number("--seed", argv[++i]);
    } else if (i + 1 < argc && !std::strcmp(argv[i], "--n")) {
      args.n = number("--n", argv[++i]);
      if (args.n > kMaxN) {
        std::fprintf(stderr, "%s: --n %s: expected at most 2147483648\n", argv[0], argv[i]);
        std::exit(2);
      }
    } else {
      std::fprintf(stderr, "usage: %s [--seed N] [--n N]   (--n 0: the default)\n", argv[0]);
      std::exit(2);
    }
  }
  return args;
}

// Counts checks; the first one that fails ends the bench with status 1.
class Checks {
 public:
  Checks(const char* module, uint64_t seed) : module_(module), seed_(seed) {}
  __attribute__((format(printf, 3, 4))) void that(bool ok, const char* format, ...) {
    count_++;
    if (ok) return;
    std::va_list list;
    va_start(list, format);
    std::fprintf(stderr, "%s: FAILED (seed %llu, check %llu): ", module_,
                 static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(count_));
    std::vfprintf(stderr, format, list);
    std::fprintf(stderr, "\n");
    va_end(list);
    std::exit(1);
  }
  // The bench's status; a bench that has checked nothing has not passed.
  int passed() const {
    if (count_ == 0) {
      std::fprintf(stderr, "%s: FAILED (seed %llu): nothing was checked\n", module_,
                   static_cast<unsigned long long>(seed_));
      return 1;
    }
    std::printf("%s: %llu checks passed\n", module_, static_cast<unsigned long long>(count_));
    return 0;
  }

 private:
  const char* module_;
  uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace tb
