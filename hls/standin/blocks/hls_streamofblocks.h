// hls_streamofblocks.h: a stand-in for the part of the vendor's header that hls/src uses: two blocks of memory
// that one stage fills under a write_lock and another reads under a read_lock, in order.
#ifndef SLUICE_STANDIN_HLS_STREAMOFBLOCKS_H
#define SLUICE_STANDIN_HLS_STREAMOFBLOCKS_H

#ifndef __SYNTHESIS__
#include "threads.hpp"
#endif

namespace hls {

#ifdef __SYNTHESIS__

template <class T>
class stream_of_blocks {
 public:
  stream_of_blocks();
  T &take();
  void leave();
};

#else

template <class T>
class stream_of_blocks {
 public:
  stream_of_blocks() : empty_("free block", 2, true), full_("full block", 2), blocks_(new block[2]()) {
    empty_.write(0);
    empty_.write(1);
  }
  ~stream_of_blocks() { delete[] blocks_; }
  stream_of_blocks(const stream_of_blocks &) = delete;
  stream_of_blocks &operator=(const stream_of_blocks &) = delete;

 private:
  struct block {
    T data;
  };
  template <class U>
  friend class write_lock;
  template <class U>
  friend class read_lock;
  csim::Fifo<int> empty_, full_;
  block *blocks_;
};

#endif

// A block to fill. It belongs to the writer until the lock's end, then to the reader.
template <class T>
class write_lock {
 public:
#ifdef __SYNTHESIS__
  explicit write_lock(stream_of_blocks<T> &s) : of_(s), data_(s.take()) {}
  ~write_lock() { of_.leave(); }
#else
  explicit write_lock(stream_of_blocks<T> &s) : of_(s), index_(s.empty_.read()), data_(s.blocks_[index_].data) {}
  ~write_lock() { of_.full_.write(index_); }
#endif
  write_lock(const write_lock &) = delete;
  write_lock &operator=(const write_lock &) = delete;
  operator T &() { return data_; }  // an index goes through this too: the vendor has no operator[]

 private:
  stream_of_blocks<T> &of_;
#ifndef __SYNTHESIS__
  int index_;
#endif
  T &data_;
};

// A block to read. The lock waits until it is filled and returns it at its end.
template <class T>
class read_lock {
 public:
#ifdef __SYNTHESIS__
  explicit read_lock(stream_of_blocks<T> &s) : of_(s), data_(s.take()) {}
  ~read_lock() { of_.leave(); }
#else
  explicit read_lock(stream_of_blocks<T> &s) : of_(s), index_(s.full_.read()), data_(s.blocks_[index_].data) {}
  ~read_lock() { of_.empty_.write(index_); }
#endif
  read_lock(const read_lock &) = delete;
  read_lock &operator=(const read_lock &) = delete;
  operator T &() { return data_; }  // an index goes through this too: the vendor has no operator[]

 private:
  stream_of_blocks<T> &of_;
#ifndef __SYNTHESIS__
  int index_;
#endif
  T &data_;
};

}  // namespace hls

#endif
