// hls_stream.h: a stand-in for the part of the vendor's header that hls/src uses: hls::stream<T, DEPTH> with
// blocking read() and write(). In C-simulation with a thread per stage (csim/threads.hpp) it holds only DEPTH
// elements, unlike the vendor's, so that a stream that is too short is noticed. For analysis (__SYNTHESIS__)
// it is only declared.
#ifndef SLUICE_STANDIN_HLS_STREAM_H
#define SLUICE_STANDIN_HLS_STREAM_H

#ifndef __SYNTHESIS__
#include "threads.hpp"
#endif

namespace hls {

template <class T, int DEPTH = 0>
class stream;

// The type of functions' parameters: a stream of any depth.
template <class T>
class stream<T, 0> {
 public:
  stream(const stream &) = delete;
  stream &operator=(const stream &) = delete;
#ifdef __SYNTHESIS__
  explicit stream(const char *name);
  T read();
  void write(const T &v);
#else
  T read() { return fifo_.read(); }
  void write(const T &v) { fifo_.write(v); }

 protected:
  stream(const char *name, int depth) : fifo_(name, depth) {}

 private:
  csim::Fifo<T> fifo_;
#endif
};

template <class T, int DEPTH>
class stream : public stream<T, 0> {
 public:
#ifdef __SYNTHESIS__
  explicit stream(const char *name) : stream<T, 0>(name) {}
#else
  explicit stream(const char *name) : stream<T, 0>(name, DEPTH) {}
#endif
};

}  // namespace hls

#endif
