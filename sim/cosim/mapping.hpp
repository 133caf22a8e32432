// mapping.hpp: the DRAM file, mapped. Both sides map the same file, so data never cross the socket.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "dram.hpp"

namespace sluice {

class Mapping {
 public:
  // Maps `size` bytes (0: to the file's end) from `offset`, which must be a multiple of the page.
  Mapping(const std::string& path, uint64_t offset, uint64_t base, uint64_t size) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) fail(path, std::strerror(errno));
    struct stat st = {};
    const bool known = ::fstat(fd, &st) == 0;
    const uint64_t length = known ? static_cast<uint64_t>(st.st_size) : 0;
    std::string why;
    if (!known) {
      why = std::strerror(errno);
    } else if (offset % 4096 != 0) {
      why = "--offset must be a multiple of 4096";
    } else if (offset >= length) {
      why = "is " + std::to_string(length) + " bytes long, shorter than --offset";
    } else if (size > length - offset) {
      why = "is " + std::to_string(length) + " bytes long, too short for --offset and --size";
    }
    if (why.empty()) {
      if (size == 0) size = length - offset;
      void* at =
          ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
      if (at == MAP_FAILED)
        why = std::string("cannot be mapped: ") + std::strerror(errno);
      else
        window_ = {static_cast<uint8_t*>(at), base, size};
    }
    ::close(fd);
    if (!why.empty()) fail(path, why);
  }
  ~Mapping() { ::munmap(window_.data, window_.size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const Window& window() const { return window_; }

 private:
  [[noreturn]] static void fail(const std::string& path, const std::string& why) {
    throw std::runtime_error("DRAM file " + path + ": " + why);
  }
  Window window_;
};

}  // namespace sluice
