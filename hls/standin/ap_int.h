// ap_int.h: a stand-in for the part of the vendor's header that hls/src uses: ap_int<W> and ap_uint<W> up to
// 128 bits, which wrap at their width, convert to and from C's integers, and read and write bits by range().
// Arithmetic is C's on the converted values; the result is cut to W when it is stored. The vendor's wider
// results are the same if intermediate values fit 64 bits. All names are in the vendor's header too, except
// internal ones (standin_).
#ifndef SLUICE_STANDIN_AP_INT_H
#define SLUICE_STANDIN_AP_INT_H

#include <cstdint>
#include <type_traits>

namespace standin_ap {

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

template <int W, bool S>
struct store {
  typedef typename std::conditional<
      W <= 8, std::int8_t,
      typename std::conditional<
          W <= 16, std::int16_t,
          typename std::conditional<W <= 32, std::int32_t,
                                    typename std::conditional<W <= 64, std::int64_t, wide>::type>::type>::type>::type type;
};
template <int W>
struct store<W, false> {
  typedef typename std::conditional<
      W <= 8, std::uint8_t,
      typename std::conditional<
          W <= 16, std::uint16_t,
          typename std::conditional<W <= 32, std::uint32_t,
                                    typename std::conditional<W <= 64, std::uint64_t, uwide>::type>::type>::type>::type type;
};

}  // namespace standin_ap

template <int W, bool S>
struct ap_int_base;

// The result of range(): bits of a number, to read or to assign.
template <int W, bool S>
struct ap_range_ref {
  ap_range_ref(ap_int_base<W, S> &number, int high, int low) : of(number), hi(high), lo(low) {}
  operator unsigned long long() const { return bits(); }
  int to_int() const { return static_cast<int>(bits()); }
  unsigned to_uint() const { return static_cast<unsigned>(bits()); }
  long long to_int64() const { return static_cast<long long>(bits()); }
  unsigned long long to_uint64() const { return bits(); }
  template <int W2, bool S2>
  ap_range_ref &operator=(const ap_int_base<W2, S2> &v) {
    of.put(hi, lo, static_cast<unsigned long long>(v.v));
    return *this;
  }
  ap_range_ref &operator=(unsigned long long v) {
    of.put(hi, lo, v);
    return *this;
  }

 private:
  unsigned long long bits() const { return of.cut(hi, lo); }
  ap_int_base<W, S> &of;
  int hi, lo;
};

template <int W, bool S>
struct ap_int_base {
  static_assert(W >= 1 && W <= 128, "the stand-in holds numbers of 1 to 128 bits");
  typedef typename standin_ap::store<W, S>::type value_t;
  enum { width = W };

  ap_int_base() = default;
  template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  ap_int_base(T x) : v(wrap(static_cast<standin_ap::wide>(x))) {}
  template <int W2, bool S2>
  ap_int_base(const ap_int_base<W2, S2> &o) : v(wrap(static_cast<standin_ap::wide>(o.v))) {}
  template <int W2, bool S2>
  ap_int_base(const ap_range_ref<W2, S2> &o) : v(wrap(static_cast<standin_ap::wide>(o.to_uint64()))) {}

  operator value_t() const { return v; }
  int to_int() const { return static_cast<int>(v); }
  unsigned to_uint() const { return static_cast<unsigned>(v); }
  long long to_int64() const { return static_cast<long long>(v); }
  unsigned long long to_uint64() const { return static_cast<unsigned long long>(v); }

  ap_range_ref<W, S> range(int hi, int lo) { return ap_range_ref<W, S>(*this, hi, lo); }
  ap_range_ref<W, S> range(int hi, int lo) const { return ap_range_ref<W, S>(const_cast<ap_int_base &>(*this), hi, lo); }

  unsigned long long cut(int hi, int lo) const {
    const standin_ap::uwide u = static_cast<standin_ap::uwide>(v) >> lo;
    return static_cast<unsigned long long>(u & ones(hi - lo + 1));
  }
  void put(int hi, int lo, unsigned long long x) {
    const standin_ap::uwide mask = ones(hi - lo + 1) << lo;
    const standin_ap::uwide u = (static_cast<standin_ap::uwide>(v) & ~mask) | ((static_cast<standin_ap::uwide>(x) << lo) & mask);
    v = wrap(static_cast<standin_ap::wide>(u));
  }

  value_t v;

 private:
  static standin_ap::uwide ones(int n) {
    return n >= 128 ? ~standin_ap::uwide(0) : (standin_ap::uwide(1) << n) - 1;
  }
  static value_t wrap(standin_ap::wide x) {
    if (W == 8 || W == 16 || W == 32 || W == 64 || W == 128) return static_cast<value_t>(x);
    const standin_ap::uwide low = static_cast<standin_ap::uwide>(x) & ones(W);
    if (S && ((low >> (W - 1)) & 1) != 0) return static_cast<value_t>(low | ~ones(W));
    return static_cast<value_t>(low);
  }
};

template <int W>
struct ap_int : ap_int_base<W, true> {
  using ap_int_base<W, true>::ap_int_base;
  ap_int() = default;
  template <int W2, bool S2>
  ap_int(const ap_int_base<W2, S2> &o) : ap_int_base<W, true>(o) {}
};

template <int W>
struct ap_uint : ap_int_base<W, false> {
  using ap_int_base<W, false>::ap_int_base;
  ap_uint() = default;
  template <int W2, bool S2>
  ap_uint(const ap_int_base<W2, S2> &o) : ap_int_base<W, false>(o) {}
};

#endif
