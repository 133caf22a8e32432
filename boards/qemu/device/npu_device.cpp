// SPDX-License-Identifier: GPL-2.0-or-later
//
// npu_device.so: the co-simulated NPU as a memory-mapped device of a QEMU machine.
//
// A TCG plugin (qemu-system-* -plugin npu_device.so,socket=...,base=...,spi=...) that adds a real I/O
// region to the machine. Every access of the guest becomes one register access of npu_cosim
// (sim/PROTOCOL.md, free-running) before the guest's instruction ends. An AXI error becomes a
// bus error, and the NPU's interrupt line drives an input of the machine's GIC. QEMU is the
// distribution's, unpatched: a build with loadable modules exports the functions declared below.
// The declarations match QEMU 7.2 (include/exec/memory.h, include/hw/irq.h ...), which installs no
// headers for them; the version is checked first.
//
// Everything runs under QEMU's big lock, in the CPU that accesses or in the main loop, so there
// are no threads here. The NPU's clock runs from the first access on: earlier it would have no effect,
// and a simulated clock needs a processor while the guest boots.
// Further arguments, for the tests of faults:
//   mute=1           the interrupt line never rises
//   spurious_ns=NS   the line is high without a cause for NS ns of host time, then low for the same time
//   slverr=N         memory answers the N-th read burst of the NPU with SLVERR
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "cosim/protocol.hpp"

// ---- the used part of QEMU 7.2

extern "C" {
struct Object;
struct DeviceState;
struct IRQState;
struct MemoryRegion;
typedef IRQState* qemu_irq;
typedef uint32_t MemTxResult;
struct MemTxAttrs {
  uint32_t bits;
};
constexpr MemTxResult MEMTX_OK = 0, MEMTX_ERROR = 1, MEMTX_DECODE_ERROR = 2;
constexpr int DEVICE_LITTLE_ENDIAN = 2;

struct MemoryRegionOps {
  uint64_t (*read)(void*, uint64_t, unsigned);
  void (*write)(void*, uint64_t, uint64_t, unsigned);
  MemTxResult (*read_with_attrs)(void*, uint64_t, uint64_t*, unsigned, MemTxAttrs);
  MemTxResult (*write_with_attrs)(void*, uint64_t, uint64_t, unsigned, MemTxAttrs);
  int endianness;
  struct {
    unsigned min_access_size, max_access_size;
    bool unaligned;
    bool (*accepts)(void*, uint64_t, unsigned, bool, MemTxAttrs);
  } valid;
  struct {
    unsigned min_access_size, max_access_size;
    bool unaligned;
  } impl;
};

struct Notifier {
  void (*notify)(Notifier*, void*);
  void *next, *prev;
};

struct qemu_info_t {
  const char* target_name;
  struct {
    int min, cur;
  } version;
  bool system_emulation;
};

struct VersionTriple {
  int64_t major, minor, micro;
};
struct VersionInfo {
  VersionTriple* qemu;
  char* package;
};

void memory_region_init_io(MemoryRegion*, Object*, const MemoryRegionOps*, void*, const char*,
                           uint64_t);
void memory_region_add_subregion_overlap(MemoryRegion*, uint64_t, MemoryRegion*, int);
MemoryRegion* get_system_memory(void);
Object* object_resolve_path_type(const char*, const char*, bool*);
qemu_irq qdev_get_gpio_in(DeviceState*, int);
void qemu_set_irq(qemu_irq, int);
void qemu_add_machine_init_done_notifier(Notifier*);
void qemu_set_fd_handler(int, void (*)(void*), void (*)(void*), void*);
VersionInfo* qmp_query_version(void**);

int qemu_plugin_version = 1;  // of the plugin interface
int qemu_plugin_install(uint64_t id, const qemu_info_t* info, int argc, char** argv);
}  // extern "C"

// ---- the device
namespace {

using namespace sluice::protocol;

constexpr uint64_t kRegisters = 0x1000;

struct {
  const char* socket = nullptr;
  uint64_t base = 0, size = 0x10000, spi = 0, mute = 0, spurious_ns = 0;
  uint64_t bandwidth_q16 = 8 << 16, latency = 100, slverr = 0;

  int fd = -1, timer = -1;
  uint32_t tag = 0;
  bool line = false;  // as the NPU drives it
  bool pulse = false; // a spurious interrupt (spurious_ns)
  qemu_irq irq = nullptr;
  // QEMU sets the size of a region (272 bytes in 7.2) when it initialises one.
  alignas(64) unsigned char region[8192] = {};
} npu;

[[noreturn]] void die(const char* what, const char* why = nullptr) {
  std::fprintf(stderr, "npu_device: %s: %s\n", what, why ? why : std::strerror(errno));
  std::exit(4);
}

void set_line(bool level) {
  npu.line = level;
  if (npu.irq && !npu.mute) qemu_set_irq(npu.irq, level);
}

// Receives one packet; false if none is pending and `wait` is false.
bool receive(Answer& a, bool wait) {
  for (;;) {
    const ssize_t n = ::recv(npu.fd, &a, sizeof a, wait ? 0 : MSG_DONTWAIT);
    if (n == ssize_t{sizeof a}) return true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && !wait) return false;
    die("co-simulation", n < 0 ? nullptr : "it has ended");
  }
}

Answer call(Request& r) {
  r.tag = ++npu.tag;
  if (::send(npu.fd, &r, sizeof r, MSG_NOSIGNAL) != ssize_t{sizeof r}) die("co-simulation");
  Answer a = {};
  do {
    receive(a, true);
    set_line(a.irq != 0);
  } while (a.op == kEvent);
  if (a.op != r.op || a.tag != r.tag) die("co-simulation", "an answer to another request");
  return a;
}

void on_event(void*) {
  Answer a = {};
  while (receive(a, false)) set_line(a.irq != 0);
}

void on_pulse(void*) {
  uint64_t n = 0;
  if (::read(npu.timer, &n, sizeof n) != ssize_t{sizeof n}) return;
  // The GIC input is level-sensitive: a pulse that ends before a processor reads it has no effect. So the
  // line stays high from one tick to the next.
  npu.pulse = !npu.pulse;
  if (!npu.line) qemu_set_irq(npu.irq, npu.pulse);
}

MemTxResult finish(const Answer& a, uint64_t offset) {
  if (a.status != kOk) {
    std::fprintf(stderr, "npu_device: register %#x: %.40s\n", static_cast<unsigned>(offset), a.text);
    return MEMTX_ERROR;
  }
  switch (a.reg.resp) {
    case 2:
      return MEMTX_ERROR;
    case 3:
      return MEMTX_DECODE_ERROR;
  }
  return MEMTX_OK;
}

void connect() {
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  if (std::strlen(npu.socket) >= sizeof to.sun_path) die(npu.socket, "longer than a path may be");
  std::strcpy(to.sun_path, npu.socket);
  npu.fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (npu.fd < 0 || ::connect(npu.fd, reinterpret_cast<sockaddr*>(&to), sizeof to) < 0)
    die(npu.socket);
  Request hello = {};
  hello.op = kHello;
  hello.hello = {kMagic, kVersion};
  if (call(hello).status != kOk) die("hello", "it speaks another version");
  Request memory = {};
  memory.op = kSetMemory;
  const auto latency = static_cast<uint32_t>(npu.latency);
  memory.set_memory = {static_cast<uint32_t>(npu.bandwidth_q16), latency, latency, 16, 16};
  if (call(memory).status != kOk) die("set memory", "refused");
  if (npu.slverr != 0) {
    Request fault = {};
    fault.op = kAddFault;
    fault.add_fault = {255, 1, 1, 0, static_cast<uint32_t>(npu.slverr), 1, 0, 0, UINT64_MAX};
    if (call(fault).status != kOk) die("add fault", "refused");
  }
  qemu_set_fd_handler(npu.fd, on_event, nullptr, nullptr);
}

// One register access; the first connects.
Answer access(Request& r) {
  if (npu.fd < 0) connect();
  return call(r);
}

// Addresses after the registers answer an error, as an address without a register does.
MemTxResult on_read(void*, uint64_t offset, uint64_t* data, unsigned, MemTxAttrs) {
  *data = 0;
  if (offset >= kRegisters) return MEMTX_DECODE_ERROR;
  Request r = {};
  r.op = kReadReg;
  r.read_reg.offset = static_cast<uint32_t>(offset);
  const Answer a = access(r);
  *data = a.reg.value;
  return finish(a, offset);
}

MemTxResult on_write(void*, uint64_t offset, uint64_t data, unsigned, MemTxAttrs) {
  if (offset >= kRegisters) return MEMTX_DECODE_ERROR;
  Request r = {};
  r.op = kWriteReg;
  r.write_reg = {static_cast<uint32_t>(offset), static_cast<uint32_t>(data)};
  return finish(access(r), offset);
}

// Only aligned 32-bit accesses; others are a bus error, since the driver must never do them.
const MemoryRegionOps kOps = {
    nullptr, nullptr, on_read, on_write, DEVICE_LITTLE_ENDIAN, {4, 4, false, nullptr}, {4, 4, false},
};

void on_machine_done(Notifier*, void*) {
  bool ambiguous = false;
  Object* gic = object_resolve_path_type("", "arm_gic", &ambiguous);
  if (!gic) die("arm_gic", ambiguous ? "the machine has more than one" : "the machine has none");
  npu.irq = qdev_get_gpio_in(reinterpret_cast<DeviceState*>(gic), static_cast<int>(npu.spi));
  auto* region = reinterpret_cast<MemoryRegion*>(npu.region);
  memory_region_init_io(region, nullptr, &kOps, nullptr, "sluice-npu", npu.size);
  memory_region_add_subregion_overlap(get_system_memory(), npu.base, region, 1);
  if (npu.spurious_ns != 0) {
    npu.timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    const timespec t = {static_cast<time_t>(npu.spurious_ns / 1000000000),
                        static_cast<long>(npu.spurious_ns % 1000000000)};
    const itimerspec every = {t, t};
    if (npu.timer < 0 || ::timerfd_settime(npu.timer, 0, &every, nullptr) < 0) die("timer");
    qemu_set_fd_handler(npu.timer, on_pulse, nullptr, nullptr);
  }
}

Notifier machine_done = {on_machine_done, nullptr, nullptr};

bool number(const char* text, uint64_t& to) {
  char* end = nullptr;
  errno = 0;
  to = std::strtoull(text, &end, 0);
  return errno == 0 && end != text && *end == 0 && *text != '-';
}

bool argument(const char* text) {
  const char* eq = std::strchr(text, '=');
  if (!eq) return false;
  const std::string name(text, eq);
  if (name == "socket") {
    npu.socket = ::strdup(eq + 1);
    return true;
  }
  for (const auto& [key, to] : std::initializer_list<std::pair<const char*, uint64_t*>>{
           {"base", &npu.base},         {"size", &npu.size},
           {"spi", &npu.spi},           {"mute", &npu.mute},
           {"spurious_ns", &npu.spurious_ns}, {"bandwidth_q16", &npu.bandwidth_q16},
           {"latency", &npu.latency},   {"slverr", &npu.slverr}}) {
    if (name == key) return number(eq + 1, *to);
  }
  return false;
}

}  // namespace

int qemu_plugin_install(uint64_t, const qemu_info_t* info, int argc, char** argv) {
  const VersionTriple* v = qmp_query_version(nullptr)->qemu;
  if (!info->system_emulation || v->major != 7 || v->minor != 2) {
    std::fprintf(stderr, "npu_device: written for system emulation of QEMU 7.2, this is %d.%d\n",
                 static_cast<int>(v->major), static_cast<int>(v->minor));
    return -1;
  }
  for (int i = 0; i < argc; i++) {
    if (argument(argv[i])) continue;
    std::fprintf(stderr,
                 "npu_device: argument %s: expected socket=PATH, or one of base, size, spi, mute, "
                 "spurious_ns, bandwidth_q16, latency, slverr =NUMBER\n",
                 argv[i]);
    return -1;
  }
  if (!npu.socket || npu.base == 0) {
    std::fprintf(stderr, "npu_device: socket= and base= are needed\n");
    return -1;
  }
  qemu_add_machine_init_done_notifier(&machine_done);
  return 0;
}
