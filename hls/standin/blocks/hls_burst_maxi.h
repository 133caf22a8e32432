// hls_burst_maxi.h: a stand-in for the part of the vendor's header that hls/src uses: writes of an m_axi port in bursts
// that the code requests. Unlike the vendor's, data reach memory only when their answer has been read, so that a missing
// read is noticed. A write without a request, an answer without its data, or an end with pending bursts ends the
// process. For analysis (__SYNTHESIS__) it is only declared.
#ifndef SLUICE_STANDIN_HLS_BURST_MAXI_H
#define SLUICE_STANDIN_HLS_BURST_MAXI_H

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "ap_int.h"

namespace hls {

#ifdef __SYNTHESIS__

template <class T>
class burst_maxi {
 public:
  burst_maxi(T *p) : p_(p) {}
  void write_request(std::size_t offset, std::size_t len);
  void write(const T &v, ap_int<sizeof(T)> byteenable_mask = -1);
  void write_response();

 private:
  T *p_;
};

#else

template <class T>
class burst_maxi {
 public:
  burst_maxi(T *p) : p_(p) {}
  // Copies the pointer, but not the pending bursts.
  burst_maxi(const burst_maxi &other) : p_(other.p_) {}
  burst_maxi &operator=(const burst_maxi &) = delete;
  ~burst_maxi() {
    if (!open_.empty()) wrong("requests are open at the end");
  }

  void write_request(std::size_t offset, std::size_t len) {
    if (len == 0) wrong("a request of no beats");
    open_.push_back({offset, len, {}});
  }
  void write(const T &v, ap_int<sizeof(T)> byteenable_mask = -1) {
    if (filling_ == open_.size()) wrong("data that no request asked for");
    burst &b = open_[filling_];
    b.data.push_back({v, byteenable_mask});
    if (b.data.size() == b.len) filling_++;
  }
  void write_response() {
    if (filling_ == 0) wrong("an answer to what has not been written");
    const burst &b = open_.front();
    for (std::size_t i = 0; i < b.len; i++) {
      // only enabled bytes change, as on a bus
      char *to = reinterpret_cast<char *>(p_ + b.offset + i);
      const char *from = reinterpret_cast<const char *>(&b.data[i].value);
      for (std::size_t n = 0; n < sizeof(T); n++)
        if (b.data[i].mask.range(static_cast<int>(n), static_cast<int>(n)).to_uint() != 0) to[n] = from[n];
    }
    open_.pop_front();
    filling_--;
  }

 private:
  struct beat {
    T value;
    ap_int<sizeof(T)> mask;
  };
  struct burst {
    std::size_t offset, len;
    std::vector<beat> data;
  };
  [[noreturn]] static void wrong(const char *what) {
    std::fprintf(stderr, "burst_maxi: %s\n", what);
    std::_Exit(6);
  }
  T *p_;
  std::deque<burst> open_;
  std::size_t filling_ = 0;  // index in open_: earlier bursts have all their data
};

#endif

}  // namespace hls

#endif
