// bits.hpp: slices of verilated ports. A port is a CData..QData or a VlWide. On the little-endian
// hosts of this project all of them are little-endian bytes in memory, so a slice that begins and
// ends on a byte is a copy, for every type of port.
#pragma once

#include <cstdint>
#include <cstring>

namespace sluice {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "port slices assume a little-endian host");

// Copies the slice-th group of kBytes bytes of a port.
template <unsigned kBytes, class Port>
inline uint64_t get_bytes(const Port& port, unsigned slice) {
  static_assert(kBytes <= 8, "at most 64 bits");
  uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&port) + slice * kBytes, kBytes);
  return value;
}

template <unsigned kBytes, class Port>
inline void set_bytes(Port& port, unsigned slice, uint64_t value) {
  static_assert(kBytes <= 8, "at most 64 bits");
  std::memcpy(reinterpret_cast<char*>(&port) + slice * kBytes, &value, kBytes);
}

// Fields of fewer than 8 bits in a port of at most 64.
template <class Port>
inline unsigned get_field(const Port& port, unsigned slice, unsigned bits) {
  return static_cast<unsigned>(port >> (slice * bits)) & ((1u << bits) - 1);
}

template <class Port>
inline void set_field(Port& port, unsigned slice, unsigned bits, unsigned value) {
  const uint64_t mask = ((uint64_t{1} << bits) - 1) << (slice * bits);
  port = static_cast<Port>((port & ~mask) | ((uint64_t{value} << (slice * bits)) & mask));
}

}  // namespace sluice
