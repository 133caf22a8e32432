// hls_stream.h: a stand-in for the vendor's header of that name, as far as hls/src uses it:
// hls::stream<T, DEPTH> with blocking read() and write(). Unlike the vendor's it holds DEPTH elements and
// no more in C-simulation with a thread a stage (csim/threads.hpp), so that a stream that is too short
// shows. For analysis (__SYNTHESIS__) it is declared only.
#ifndef SLUICE_STANDIN_HLS_STREAM_H
#define SLUICE_STANDIN_HLS_STREAM_H

#ifndef __SYNTHESIS__
#include "threads.hpp"
#endif

namespace hls {

template <class T, int DEPTH = 0>
class stream;

// What functions take: a stream of any depth.
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
