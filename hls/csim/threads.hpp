// threads.hpp: C-simulation of a dataflow region with one thread per stage and FIFOs of their
// declared depth. If all stages that have not ended wait for a FIFO, the region is deadlocked, as
// it would be in hardware. Then the waiting stages and their FIFOs are printed and the process ends
// with status kDeadlock. Only one region runs at a time.
#ifndef SLUICE_CSIM_THREADS_HPP
#define SLUICE_CSIM_THREADS_HPP

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace csim {

constexpr int kDeadlock = 6;

// The running and waiting stages. The lock protects all of this.
struct Monitor {
  std::mutex lock;
  int running = 0, waiting = 0;
  struct Wait {
    const char *stage, *what, *fifo;
  };
  std::vector<Wait> waits;

  void check() {
    if (running == 0 || waiting < running) return;
    std::fprintf(stderr, "deadlock: every stage of the region waits\n");
    for (const Wait &w : waits) std::fprintf(stderr, "  %s waits until %s is %s\n", w.stage, w.fifo, w.what);
    std::fflush(stderr);
    std::_Exit(kDeadlock);
  }
};
inline Monitor &monitor() {
  static Monitor m;
  return m;
}
inline const char *&stage_name() {
  static thread_local const char *name = "the region itself";
  return name;
}

// A queue between two threads. Without waiting it costs two atomic accesses. A thread that has to
// wait registers under the monitor's lock; the thread that wakes it removes it from the count
// first.
template <class T>
class Fifo {
 public:
  // rests: elements may be left at the end.
  Fifo(const char *name, int depth, bool rests = false)
      : name_(name), rests_(rests), slots_(static_cast<std::size_t>(depth)) {}
  // Prints the number of elements, for the test of hls/estimate; elements that are left are an
  // error in the kernel's counts.
  ~Fifo() {
    if (head_.load() != tail_.load() && !rests_) {
      std::fprintf(stderr, "stream %s: %zu elements are left\n", name_, tail_.load() - head_.load());
      std::_Exit(kDeadlock);
    }
    if (std::getenv("SLUICE_HLS_COUNTS") != nullptr) std::fprintf(stderr, "count %s %zu\n", name_, tail_.load());
  }
  Fifo(const Fifo &) = delete;
  Fifo &operator=(const Fifo &) = delete;

  T read() {
    if (head_.load() == tail_.load()) wait(reader_, "not empty", [this] { return head_.load() != tail_.load(); });
    T v = slots_[head_.load() % slots_.size()];
    head_.store(head_.load() + 1);
    wake(writer_);
    return v;
  }
  void write(const T &v) {
    if (tail_.load() - head_.load() == slots_.size())
      wait(writer_, "not full", [this] { return tail_.load() - head_.load() < slots_.size(); });
    slots_[tail_.load() % slots_.size()] = v;
    tail_.store(tail_.load() + 1);
    wake(reader_);
  }

 private:
  struct Side {
    std::atomic<bool> waits{false};
    std::condition_variable go;
  };

  template <class Ready>
  void wait(Side &side, const char *what, Ready ready) {
    for (int i = 0; i < kSpins; i++) {
      if (ready()) return;
      std::this_thread::yield();
    }
    Monitor &m = monitor();
    std::unique_lock<std::mutex> hold(m.lock);
    // Test again after a wake: it may belong to a step that was already seen.
    for (;;) {
      side.waits = true;
      if (ready()) {
        side.waits = false;
        return;
      }
      m.waiting++;
      m.waits.push_back({stage_name(), what, name_});
      m.check();
      side.go.wait(hold, [&side] { return !side.waits.load(); });
    }
  }
  void wake(Side &side) {
    if (!side.waits.load()) return;
    Monitor &m = monitor();
    std::lock_guard<std::mutex> hold(m.lock);
    if (!side.waits.load()) return;
    side.waits = false;
    m.waiting--;
    const char *what = &side == &reader_ ? "not empty" : "not full";
    for (std::size_t i = 0; i < m.waits.size(); i++)
      if (m.waits[i].fifo == name_ && std::string(m.waits[i].what) == what) {
        m.waits.erase(m.waits.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    side.go.notify_one();
  }

  static constexpr int kSpins = 4;
  const char *name_;
  bool rests_;
  std::vector<T> slots_;
  std::atomic<std::size_t> head_{0}, tail_{0};
  Side reader_, writer_;
};

// The stages of one region; ends when all have ended. All are counted before the first one begins.
class Region {
 public:
  template <class F>
  void stage(const char *name, F &&body) {
    bodies_.push_back({name, std::thread()});
    Stage &s = bodies_.back();
    {
      std::lock_guard<std::mutex> hold(monitor().lock);
      monitor().running++;
    }
    s.thread = std::thread([name, body] {
      stage_name() = name;
      body();
      std::lock_guard<std::mutex> hold(monitor().lock);
      monitor().running--;
      monitor().check();
    });
  }
  // While stages are being added, the region itself counts as running, so the count is never too
  // low.
  Region() {
    bodies_.reserve(16);
    std::lock_guard<std::mutex> hold(monitor().lock);
    monitor().running++;
  }
  ~Region() {
    {
      std::lock_guard<std::mutex> hold(monitor().lock);
      monitor().running--;
      monitor().check();
    }
    for (Stage &s : bodies_) s.thread.join();
  }
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

 private:
  struct Stage {
    const char *name;
    std::thread thread;
  };
  std::vector<Stage> bodies_;
};

}  // namespace csim

#endif
