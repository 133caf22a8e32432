// vectors.hpp: plays a file of test vectors (sim/VECTORS.md) on a kernel.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cosim/kernel.hpp"
#include "sluice_abi.hpp"

namespace sluice::vectors {

constexpr char kMagic[9] = "SLVEC001";
constexpr uint64_t kMaxFile = uint64_t{1} << 32;

enum Kind : uint32_t {
  kMemWrite = 1,
  kRegWrite = 2,
  kRegExpect = 3,
  kRun = 4,
  kMemExpect = 5,
  kMeta = 6,
  kEnd = 7,
  kRegRefused = 8,
};

// The file does not conform to VECTORS.md. Nothing has been played.
class BadFile : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The kernel's behaviour differs from a record's expectation.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Record {
  uint32_t kind;
  uint64_t offset;  // of the record, in the file
  const uint8_t* payload;
  uint32_t length;
};

struct Tally {
  uint64_t records = 0, registers = 0, bytes = 0, runs = 0, cycles = 0;
};

inline uint32_t load32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline uint64_t load64(const uint8_t* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// CRC-32 (IEEE 802.3, reflected).
inline uint32_t crc32(const uint8_t* data, uint64_t length) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (uint64_t i = 0; i < length; i++) crc = table[(crc ^ data[i]) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

template <class... Args>
std::string text(const char* format, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, args...);
  return buffer;
}

// Splits a file into records and checks it; throws BadFile. The records point into `file`.
inline std::vector<Record> parse(const std::vector<uint8_t>& file) {
  if (file.size() < 8 || std::memcmp(file.data(), kMagic, 8) != 0)
    throw BadFile("does not begin with SLVEC001");
  std::vector<Record> records;
  uint64_t at = 8;
  for (;;) {
    if (file.size() - at < 8)
      throw BadFile(text("offset %llu: the file ends without an END record",
                         static_cast<unsigned long long>(at)));
    Record r;
    r.offset = at;
    r.kind = load32(&file[at]);
    r.length = load32(&file[at + 4]);
    at += 8;
    if (r.length > file.size() - at)
      throw BadFile(text("offset %llu: a record of %u bytes is cut short",
                         static_cast<unsigned long long>(r.offset), r.length));
    r.payload = file.data() + at;
    at += r.length;
    bool ok = true;
    switch (r.kind) {
      case kMemWrite:
      case kMemExpect:
        ok = r.length > 8;
        break;
      case kRegWrite:
      case kRegRefused:
        ok = r.length == 8;
        break;
      case kRegExpect:
        ok = r.length == 12;
        break;
      case kRun:
        ok = r.length == 16 && load32(r.payload + 8) <= 1 && load32(r.payload + 12) == 0;
        break;
      case kMeta:
        break;
      case kEnd:
        ok = r.length == 4;
        break;
      default:
        throw BadFile(text("offset %llu: unknown kind %u",
                           static_cast<unsigned long long>(r.offset), r.kind));
    }
    if (!ok)
      throw BadFile(text("offset %llu: a record of kind %u is malformed",
                         static_cast<unsigned long long>(r.offset), r.kind));
    if (r.kind == kEnd) {
      const uint32_t crc = crc32(file.data(), r.offset);
      if (load32(r.payload) != crc)
        throw BadFile(text("checksum is %08x, the END record says %08x", crc, load32(r.payload)));
      if (at != file.size())
        throw BadFile(text("%llu bytes after the END record",
                           static_cast<unsigned long long>(file.size() - at)));
      return records;
    }
    records.push_back(r);
  }
}

// If META's JSON has "base" in its outermost object, memory must begin there; throws BadFile.
inline void check_base(const Record& meta, uint64_t base) {
  const std::string json(reinterpret_cast<const char*>(meta.payload), meta.length);
  const auto skip = [&json](size_t i) {
    return std::min(json.find_first_not_of(" \t\r\n", i), json.size());
  };
  int depth = 0;
  for (size_t i = 0; i < json.size(); i++) {
    if (json[i] == '{' || json[i] == '[') depth++;
    if (json[i] == '}' || json[i] == ']') depth--;
    if (json[i] != '"') continue;
    const size_t begin = i + 1;
    for (i++; i < json.size() && json[i] != '"'; i++) i += json[i] == '\\';
    const size_t colon = skip(i + 1);
    if (depth != 1 || json.compare(begin, i - begin, "base") != 0 || json[colon] != ':')
      continue;
    const char* digits = json.c_str() + skip(colon + 1);
    char* end = nullptr;
    errno = 0;
    const unsigned long long said = std::strtoull(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || errno || *end == '.' || *end == 'e' || *end == 'E')
      throw BadFile("META's base is no whole number of 64 bits");
    if (said != base)
      throw BadFile(
          text("expects memory to begin at 0x%llx (META's base), not at 0x%llx: see --base", said,
               static_cast<unsigned long long>(base)));
  }
}

// The reason for a mismatch of a register that identifies the NPU; "" for other registers.
inline const char* other(uint32_t offset) {
  switch (offset) {
    case sluice_abi::REG_ID:
    case sluice_abi::REG_VERSION:
    case sluice_abi::REG_ABI_HASH0:
    case sluice_abi::REG_ABI_HASH1:
      return ": the file is of other registers (hw/abi)";
    case sluice_abi::REG_DESIGN_HASH0:
    case sluice_abi::REG_DESIGN_HASH1:
      return ": the file is of another design";
  }
  return "";
}

// Plays records in order. Throws Mismatch at the first that fails, KernelError if the bus hangs, and
// BadFile, before playing, if memory does not begin where the file expects it.
inline Tally play(const std::vector<Record>& records, Kernel& kernel) {
  Tally tally;
  const Window& window = kernel.window();
  for (const Record& r : records)
    if (r.kind == kMeta) check_base(r, window.base);
  for (const Record& r : records) {
    const auto where = static_cast<unsigned long long>(r.offset);
    tally.records++;
    switch (r.kind) {
      case kMemWrite:
      case kMemExpect: {
        const uint64_t addr = load64(r.payload);
        const uint64_t bytes = r.length - 8;
        if (!window.holds(addr, bytes))
          throw Mismatch(text("record at %llu: %llu bytes at 0x%llx are outside of memory, "
                              "%llu bytes from 0x%llx on",
                              where, static_cast<unsigned long long>(bytes),
                              static_cast<unsigned long long>(addr),
                              static_cast<unsigned long long>(window.size),
                              static_cast<unsigned long long>(window.base)));
        uint8_t* memory = window.data + (addr - window.base);
        tally.bytes += bytes;
        if (r.kind == kMemWrite) {
          std::memcpy(memory, r.payload + 8, bytes);
          break;
        }
        for (uint64_t i = 0; i < bytes; i++)
          if (memory[i] != r.payload[8 + i])
            throw Mismatch(text("record at %llu: memory at 0x%llx is 0x%02x, expected 0x%02x",
                                where, static_cast<unsigned long long>(addr + i), memory[i],
                                r.payload[8 + i]));
        break;
      }
      case kRegWrite:
      case kRegRefused: {
        const uint32_t offset = load32(r.payload);
        const uint8_t resp = kernel.write(offset, load32(r.payload + 4)).resp;
        const bool refused = resp != kRespOkay;
        tally.registers++;
        if (refused != (r.kind == kRegRefused))
          throw Mismatch(text("record at %llu: write of 0x%08x to register 0x%03x was answered %u",
                              where, load32(r.payload + 4), offset, unsigned{resp}));
        break;
      }
      case kRegExpect: {
        const uint32_t offset = load32(r.payload), mask = load32(r.payload + 4),
                       want = load32(r.payload + 8);
        const RegisterAnswer a = kernel.read(offset);
        tally.registers++;
        if (a.resp != kRespOkay)
          throw Mismatch(text("record at %llu: read of register 0x%03x was answered %u", where,
                              offset, unsigned{a.resp}));
        if ((a.value & mask) != (want & mask))
          throw Mismatch(
              text("record at %llu: register 0x%03x is 0x%08x, expected 0x%08x under "
                   "0x%08x%s",
                   where, offset, a.value, want, mask, other(offset)));
        break;
      }
      case kRun: {
        const uint64_t limit = load64(r.payload);
        const uint64_t n = kernel.run(limit, true);
        tally.runs++;
        tally.cycles += n;
        if (kernel.irq() != (load32(r.payload + 8) != 0))
          throw Mismatch(text("record at %llu: interrupt is %d after %llu cycles", where,
                              int{kernel.irq()}, static_cast<unsigned long long>(n)));
        break;
      }
      default:
        break;
    }
  }
  return tally;
}

inline std::vector<uint8_t> read_file(const std::string& path) {
  struct stat st = {};
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) throw BadFile("is no regular file");
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw BadFile("cannot be opened");
  const auto size = static_cast<uint64_t>(in.tellg());
  if (size > kMaxFile) throw BadFile("is longer than 4 GiB");
  std::vector<uint8_t> file(size);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(size));
  if (!in) throw BadFile("cannot be read");
  return file;
}

}  // namespace sluice::vectors
