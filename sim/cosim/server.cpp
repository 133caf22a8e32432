#include "cosim/server.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cosim/protocol.hpp"

namespace sluice {
namespace {

using namespace protocol;

constexpr uint64_t kSlice = 1 << 16;  // cycles between two checks of the socket in a long run
constexpr uint64_t kFreeSlice = 1 << 11;

class Connection {
 public:
  Connection(int fd, Kernel& kernel, bool free_run)
      : fd_(fd), kernel_(kernel), free_run_(free_run), irq_(kernel.irq()) {}

  bool serve() {
    for (;;) {
      if (free_run_ && greeted_ && !waiting()) {
        if (!advance()) return false;
        continue;
      }
      Request request = {};
      const ssize_t n = receive(request);
      if (n < 0) return false;
      if (n == 0) return true;
      Answer answer = {};
      bool quit = false;
      if (n != static_cast<ssize_t>(kMessageBytes)) {
        fail(answer, kBadLength, "a message is 64 bytes long");
      } else {
        answer.op = request.op;
        answer.tag = request.tag;
        quit = handle(request, answer);
      }
      if (gone_) return true;
      answer.irq = kernel_.irq();
      answer.cycles = kernel_.cycles();
      irq_ = kernel_.irq();  // the answer has reported it
      if (!send(answer)) return errno == EPIPE || errno == ECONNRESET;
      if (quit) return true;
    }
  }

 private:
  // Whether a packet is pending, or the other side has closed.
  bool waiting() const {
    pollfd p = {fd_, POLLIN, 0};
    return ::poll(&p, 1, 0) != 0;
  }
  bool closed() const {
    pollfd p = {fd_, 0, 0};
    return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
  }

  // Runs a free-running slice and reports a change of the interrupt line.
  bool advance() {
    kernel_.run(kFreeSlice, !irq_);
    if (kernel_.irq() == irq_) return true;
    irq_ = kernel_.irq();
    Answer event = {};
    event.op = kEvent;
    event.irq = irq_;
    event.cycles = kernel_.cycles();
    return send(event) || errno == EPIPE || errno == ECONNRESET;
  }

  // Returns the length of the packet; more than a message if it was too long, 0 if the socket is closed.
  ssize_t receive(Request& request) const {
    for (;;) {
      iovec part = {&request, sizeof request};
      msghdr message = {};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      const ssize_t n = ::recvmsg(fd_, &message, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == ECONNRESET) return 0;
      if (n < 0) std::perror("npu_cosim: receive");
      if (n > 0 && (message.msg_flags & MSG_TRUNC)) return n + 1;
      return n;
    }
  }
  bool send(const Answer& answer) const {
    for (;;) {
      const ssize_t n = ::send(fd_, &answer, sizeof answer, MSG_NOSIGNAL);
      if (n >= 0) return true;
      if (errno == EINTR) continue;
      if (errno != EPIPE && errno != ECONNRESET) std::perror("npu_cosim: send");
      return false;
    }
  }

  static void fail(Answer& answer, Status status, const char* text) {
    answer.status = status;
    std::memset(answer.text, 0, sizeof answer.text);
    std::strncpy(answer.text, text, sizeof answer.text - 1);
  }

  // Handles a request; returns true if it was the last one.
  bool handle(const Request& r, Answer& a) {
    if (!greeted_ && r.op != kHello && r.op != kQuit) {
      fail(a, kNoHello, "say hello first");
      return false;
    }
    try {
      return carry_out(r, a);
    } catch (const KernelError& e) {
      const bool bus = r.op == kReadReg || r.op == kWriteReg;
      fail(a, bus ? kNoAnswer : kUnsupported, e.what());
    } catch (const std::invalid_argument& e) {
      fail(a, kBadArgument, e.what());
    }
    return false;
  }

  bool carry_out(const Request& r, Answer& a) {
    switch (r.op) {
      case kHello: {
        const KernelInfo& info = kernel_.info();
        a.hello.magic = kMagic;
        a.hello.version = kVersion;
        a.hello.abi_hash = info.abi_hash;
        a.hello.design_hash = info.design_hash;
        std::memcpy(a.hello.kind, info.kind.data(),
                    std::min(info.kind.size(), sizeof a.hello.kind));
        a.hello.ports = info.ports;
        a.hello.axi_bytes = info.axi_bytes;
        a.hello.can_trace = info.can_trace;
        greeted_ = r.hello.magic == kMagic && r.hello.version == kVersion;
        if (!greeted_) a.status = kBadVersion;
        return false;
      }
      case kReadReg: {
        const RegisterAnswer v = kernel_.read(r.read_reg.offset);
        a.reg.value = v.value;
        a.reg.resp = v.resp;
        return false;
      }
      case kWriteReg:
        a.reg.resp = kernel_.write(r.write_reg.offset, r.write_reg.value).resp;
        return false;
      case kRun:
        a.run.advanced = run(r.run.cycles, !r.run.ignore_irq);
        return false;
      case kReset:
        kernel_.reset();
        return false;
      case kAddFault: {
        Fault f;
        f.port = r.add_fault.port;
        f.direction = static_cast<FaultDirection>(r.add_fault.direction);
        f.kind = static_cast<FaultKind>(r.add_fault.kind);
        f.beat = r.add_fault.beat;
        f.first = r.add_fault.first;
        f.count = r.add_fault.count;
        f.delay = r.add_fault.delay;
        f.low = r.add_fault.low;
        f.high = r.add_fault.high;
        kernel_.add_fault(f);
        return false;
      }
      case kClearFaults:
        kernel_.clear_faults();
        return false;
      case kSetMemory: {
        MemoryTiming t;
        t.bytes_per_cycle_q16 = r.set_memory.bytes_per_cycle_q16;
        t.read_latency = r.set_memory.read_latency;
        t.write_latency = r.set_memory.write_latency;
        t.max_reads = r.set_memory.max_reads;
        t.max_writes = r.set_memory.max_writes;
        kernel_.set_timing(t);
        return false;
      }
      case kStats: {
        const PortStats s = kernel_.stats(r.stats.port);
        a.stats = {s.read_bursts, s.read_beats, s.write_bursts, s.write_beats, s.write_bytes};
        return false;
      }
      case kTrace:
        kernel_.trace(r.trace.on != 0);
        return false;
      case kQuit:
        return true;
      default:
        fail(a, kBadOp, "unknown operation");
        return false;
    }
  }

  // Runs in slices, so that a closed socket is noticed in a long run.
  uint64_t run(uint64_t cycles, bool until_irq) {
    uint64_t done = 0;
    while (done < cycles) {
      const uint64_t slice = std::min(cycles - done, kSlice);
      const uint64_t n = kernel_.run(slice, until_irq);
      done += n;
      if (n < slice || (until_irq && kernel_.irq())) break;
      gone_ = closed();
      if (gone_) break;
    }
    return done;
  }

  const int fd_;
  Kernel& kernel_;
  const bool free_run_;
  bool irq_;
  bool greeted_ = false;
  bool gone_ = false;
};

}  // namespace

bool serve(int fd, Kernel& kernel, bool free_run) {
  return Connection(fd, kernel, free_run).serve();
}

}  // namespace sluice
