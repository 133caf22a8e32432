// protocol.hpp: the messages of sim/PROTOCOL.md as structs. Everything is little-endian and 64
// bytes long; a request and its answer are one SEQPACKET packet each.
#pragma once

#include <cstdint>

namespace sluice::protocol {

constexpr uint32_t kMagic = 0x43504E53;  // "SNPC"
constexpr uint32_t kVersion = 1;
constexpr unsigned kMessageBytes = 64;

enum Op : uint32_t {
  kHello = 1,
  kReadReg = 2,
  kWriteReg = 3,
  kRun = 4,
  kReset = 5,
  kAddFault = 6,
  kClearFaults = 7,
  kSetMemory = 8,
  kStats = 9,
  kTrace = 10,
  kQuit = 11,
  kEvent = 12,  // from the process, without a request: the interrupt line has changed (--free-run)
};

enum Status : uint32_t {
  kOk = 0,
  kBadLength = 1,    // a packet that is not 64 bytes long
  kBadOp = 2,        // unknown operation
  kBadArgument = 3,  // an argument out of range
  kNoHello = 4,      // a request before a successful hello
  kBadVersion = 5,   // hello with another magic or version; the answer has this side's
  kNoAnswer = 6,     // the register bus did not answer
  kUnsupported = 7,  // this kernel or build does not support it
};

struct Hello {
  uint32_t magic, version;
};
struct ReadReg {
  uint32_t offset;
};
struct WriteReg {
  uint32_t offset, value;
};
struct Run {
  uint64_t cycles;
  uint32_t ignore_irq;
};
struct AddFault {
  uint8_t port, direction, kind, beat;
  uint32_t first, count, delay;
  uint64_t low, high;
};
struct SetMemory {
  uint32_t bytes_per_cycle_q16, read_latency, write_latency, max_reads, max_writes;
};
struct Stats {
  uint32_t port;
};
struct Trace {
  uint32_t on;
};

struct Request {
  uint32_t op, tag;
  union {
    Hello hello;
    ReadReg read_reg;
    WriteReg write_reg;
    Run run;
    AddFault add_fault;
    SetMemory set_memory;
    Stats stats;
    Trace trace;
    uint8_t bytes[56];
  };
};
static_assert(sizeof(Request) == kMessageBytes, "a request is 64 bytes");

struct HelloAnswer {
  uint32_t magic, version;
  uint64_t abi_hash, design_hash;
  char kind[8];
  uint16_t ports, axi_bytes;
  uint32_t can_trace;
};
struct RegAnswer {
  uint32_t value, resp;
};
struct RunAnswer {
  uint64_t advanced;
};
struct StatsAnswer {
  uint64_t read_bursts, read_beats, write_bursts, write_beats, write_bytes;
};

struct Answer {
  uint32_t op, tag;  // of the request
  uint32_t status;
  uint32_t irq;     // the interrupt line after the request
  uint64_t cycles;  // since the last hard reset, after the request
  union {
    HelloAnswer hello;
    RegAnswer reg;
    RunAnswer run;
    StatsAnswer stats;
    char text[40];  // the reason if status is not zero; NUL-terminated
  };
};
static_assert(sizeof(Answer) == kMessageBytes, "an answer is 64 bytes");

}  // namespace sluice::protocol
