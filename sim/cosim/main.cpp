// npu_cosim: the NPU as a separate process. See sim/PROTOCOL.md and --help.
//
// Exit codes: 0 ok, 1 a vector did not match, 2 usage, 3 bad input, 4 the socket or the kernel
// failed.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cosim/mapping.hpp"
#include "cosim/rtl_kernel.hpp"
#include "cosim/server.hpp"
#include "vectors.hpp"

namespace {

constexpr char kUsage[] =
    "npu_cosim runs the NPU, cycle for cycle, for a driver on a socket (sim/PROTOCOL.md).\n"
    "\n"
    "  npu_cosim --dram FILE (--socket PATH | --fd N | --play VECTORS) [options]\n"
    "\n"
    "  --dram FILE     file that is the DRAM; mapped, shared with the driver\n"
    "  --offset N      where in the file memory begins, a multiple of 4096 (0)\n"
    "  --base ADDR     address of its first byte as the NPU sees it (0)\n"
    "  --size N        bytes of memory (to the end of the file)\n"
    "  --socket PATH   listen on a Unix SEQPACKET socket, serve one connection\n"
    "  --fd N          serve the connected socket N\n"
    "  --play VECTORS  play test vectors (sim/VECTORS.md); status 1 where they do not match\n"
    "  --bandwidth B   bytes per cycle of the memory, a decimal number (8)\n"
    "  --latency N     cycles of the memory, reads and writes (100)\n"
    "  --trace FILE    where an FST trace goes; with --play it is on from the start\n"
    "  --free-run      the clock runs by itself; interrupts are reported unasked\n"
    "\n"
    "Example: npu_cosim --dram /tmp/dram --play out/vectors/conv.slvec\n";

struct Options {
  std::string dram, socket, play, trace;
  uint64_t offset = 0, base = 0, size = 0;
  int fd = -1;
  bool free_run = false;
  sluice::MemoryTiming timing;
};

[[noreturn]] void usage(const std::string& why) {
  std::fprintf(stderr, "npu_cosim: %s (see --help)\n", why.c_str());
  std::exit(2);
}

uint64_t number(const std::string& option, const char* text) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long v = std::strtoull(text, &end, 0);
  if (errno || end == text || *end || text[0] == '-') usage(option + ": " + text + " is no number");
  return v;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string a = argv[i];
    if (a == "--help" || a == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (a == "--free-run") {
      o.free_run = true;
      continue;
    }
    if (i + 1 >= argc) usage(a + ": unknown, or a value is missing");
    const char* v = argv[++i];
    if (a == "--dram") {
      o.dram = v;
    } else if (a == "--offset") {
      o.offset = number(a, v);
    } else if (a == "--base") {
      o.base = number(a, v);
    } else if (a == "--size") {
      o.size = number(a, v);
    } else if (a == "--socket") {
      o.socket = v;
    } else if (a == "--fd") {
      const uint64_t fd = number(a, v);
      if (fd > 65535) usage(a + ": out of range");
      o.fd = static_cast<int>(fd);
    } else if (a == "--play") {
      o.play = v;
    } else if (a == "--trace") {
      o.trace = v;
    } else if (a == "--bandwidth") {
      char* end = nullptr;
      const double b = std::strtod(v, &end);
      if (end == v || *end || !(b >= 1.0 / 65536 && b <= 4096))
        usage(a + ": expected 1/65536 to 4096 bytes per cycle");
      o.timing.bytes_per_cycle_q16 = static_cast<uint32_t>(b * 65536 + 0.5);
    } else if (a == "--latency") {
      const uint64_t n = number(a, v);
      if (n > 1000000) usage(a + ": out of range");
      o.timing.read_latency = o.timing.write_latency = static_cast<uint32_t>(n);
    } else {
      usage(a + ": unknown option");
    }
  }
  if (o.dram.empty()) usage("--dram is missing");
  if (!o.socket.empty() + !o.play.empty() + (o.fd >= 0) != 1)
    usage("exactly one of --socket, --fd and --play is needed");
  if (o.base >> 40) usage("--base: addresses have 40 bits");
  return o;
}

// Accepts one connection on a new socket, then removes the socket's path.
int accept_one(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    std::fprintf(stderr, "npu_cosim: %s: longer than a socket's path may be\n", path.c_str());
    return -1;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 ||
      ::listen(listener, 1) < 0) {
    std::fprintf(stderr, "npu_cosim: %s: %s\n", path.c_str(), std::strerror(errno));
    if (listener >= 0) ::close(listener);
    return -1;
  }
  int fd;
  do fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) std::fprintf(stderr, "npu_cosim: %s: %s\n", path.c_str(), std::strerror(errno));
  ::unlink(path.c_str());
  ::close(listener);
  return fd;
}

int play(const Options& o, sluice::Kernel& kernel) {
  std::vector<uint8_t> file;
  std::vector<sluice::vectors::Record> records;
  try {
    file = sluice::vectors::read_file(o.play);
    records = sluice::vectors::parse(file);
  } catch (const sluice::vectors::BadFile& e) {
    std::fprintf(stderr, "npu_cosim: %s: %s\n", o.play.c_str(), e.what());
    return 3;
  }
  try {
    if (!o.trace.empty()) kernel.trace(true);
    const sluice::vectors::Tally t = sluice::vectors::play(records, kernel);
    std::printf(
        "%s: %llu records, %llu register accesses, %llu bytes, %llu runs, %llu cycles: ok\n",
        o.play.c_str(), static_cast<unsigned long long>(t.records),
        static_cast<unsigned long long>(t.registers), static_cast<unsigned long long>(t.bytes),
        static_cast<unsigned long long>(t.runs), static_cast<unsigned long long>(t.cycles));
    return 0;
  } catch (const sluice::vectors::Mismatch& e) {
    std::fprintf(stderr, "npu_cosim: %s: %s\n", o.play.c_str(), e.what());
    return 1;
  } catch (const sluice::vectors::BadFile& e) {
    std::fprintf(stderr, "npu_cosim: %s: %s\n", o.play.c_str(), e.what());
    return 3;
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "npu_cosim: %s: %s\n", o.play.c_str(), e.what());
    return 3;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  try {
    const sluice::Mapping mapping(o.dram, o.offset, o.base, o.size);
    const auto kernel = sluice::make_rtl_kernel(mapping.window(), o.trace);
    kernel->set_timing(o.timing);
    if (!o.play.empty()) return play(o, *kernel);
    const int fd = o.fd >= 0 ? o.fd : accept_one(o.socket);
    if (fd < 0) return 4;
    const bool ok = sluice::serve(fd, *kernel, o.free_run);
    ::close(fd);
    return ok ? 0 : 4;
  } catch (const sluice::KernelError& e) {
    std::fprintf(stderr, "npu_cosim: %s\n", e.what());
    return 4;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "npu_cosim: %s\n", e.what());
    return 3;
  }
}
