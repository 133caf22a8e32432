// AMD's runtime without a GPU: fake.cpp under HIP's names, with what differs: errors that are named by the
// answer, a GPU that is its own context, objects instead of PTX, streams with a mask of CUs.
//
// A mask that the hardware does not bear is taken, as hipExtStreamCreateWithCUMask takes it: the stream hangs,
// and the fault is kept.
#define HIP

#define cuInit hipInit
#define cuDriverGetVersion hipDriverGetVersion
#define cuDeviceGetCount hipGetDeviceCount
#define cuDeviceGet hipDeviceGet
#define cuDeviceGetName hipDeviceGetName
#define cuDeviceTotalMem_v2 hipDeviceTotalMem
#define cuDeviceGetAttribute hipDeviceGetAttribute
#define cuDeviceGetPCIBusId hipDeviceGetPCIBusId
#define cuCtxGetStreamPriorityRange hipDeviceGetStreamPriorityRange
#define cuMemAlloc_v2 hipMalloc
#define cuMemFree_v2 hipFree
#define cuMemHostAlloc hipHostMalloc
#define cuMemFreeHost hipHostFree
#define cuMemcpyHtoDAsync_v2 hipMemcpyHtoDAsync
#define cuMemcpyDtoHAsync_v2 hipMemcpyDtoHAsync
#define cuMemsetD32Async hipMemsetD32Async
#define cuStreamWriteValue32_v2 hipStreamWriteValue32
#define cuStreamCreateWithPriority hipStreamCreateWithPriority
#define cuStreamDestroy_v2 hipStreamDestroy
#define cuStreamSynchronize hipStreamSynchronize
#define cuEventCreate hipEventCreateWithFlags
#define cuEventDestroy_v2 hipEventDestroy
#define cuEventRecord hipEventRecord
#define cuEventQuery hipEventQuery
#define cuEventElapsedTime hipEventElapsedTime
#define cuModuleLoadDataEx hipModuleLoadDataEx
#define cuModuleUnload hipModuleUnload
#define cuModuleGetFunction hipModuleGetFunction
#define cuFuncGetAttribute hipFuncGetAttribute
#define cuLaunchKernel hipModuleLaunchKernel

#define ERROR_NAME(cuda, hip) "hipError" hip
enum { CLOCK = 5, MULTIPROCESSORS = 63, MEMORY_CLOCK = 60, CAPABILITY_MAJOR = 23, CAPABILITY_MINOR = 61 };
enum { VERSION = 50221153, CAPABILITY = 90, UNITS = 60 };

#include <elf.h>
#include <string>

static bool translatable(const char *image, std::string &text);
static std::string entry(const std::string &name);
static bool new_enough(const std::string &text);
static unsigned seen(unsigned sm);

#include "fake.cpp"

extern "C" __attribute__((visibility("default"))) const char *hipGetErrorName(int code) {
  if (enter(__func__, std::to_string(code))) return nullptr;
  return code == OK ? "hipSuccess" : name_of(code) ? name_of(code) : "hipErrorUnknown";
}

API hipSetDevice(int dev) {
  ENTER(std::to_string(dev));
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  std::lock_guard<std::mutex> l(mu);
  primaries[dev].retained = 1;
  current.set(primaries[dev].generation);
  return OK;
}

API hipDeviceReset() {
  ENTER();
  int dev = 0;
  {
    std::lock_guard<std::mutex> l(mu);
    Primary *p = primary_of(current.ctx);
    NEED(p, INVALID_CONTEXT);
    dev = (int)(p - primaries);
  }
  reset_all(dev);
  std::lock_guard<std::mutex> l(mu);
  current.set(primaries[dev].generation); // the thread keeps its GPU
  return OK;
}

static bool translatable(const char *image, std::string &text) {
  Elf64_Ehdr h;
  memcpy(&h, image, sizeof h);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_machine != 224) return false; // EM_AMDGPU
  text.assign(image, h.e_shoff + (size_t)h.e_shnum * h.e_shentsize);
  return true;
}
static bool new_enough(const std::string &) { return true; }
// A kernel's descriptor is a symbol.
static std::string entry(const std::string &name) { return std::string(1, '\0') + name + ".kd" + std::string(1, '\0'); }

// Where a wave runs is told by pairs of CUs from RDNA on.
static unsigned seen(unsigned sm) { return capability >= 100 ? sm / 2 : sm; }

API hipExtStreamCreateWithCUMask(Stream **out, unsigned words, const unsigned *mask) {
  ENTER(std::to_string(words));
  CONTEXT;
  NEED(out && words > 0 && mask, INVALID_VALUE);
  std::vector<unsigned> on;
  unsigned step = capability >= 100 ? 2 : 1;
  bool bears = true;
  for (unsigned i = 0; i < 32 * words; i++) {
    bool has = mask[i / 32] >> (i % 32) & 1, first = mask[(i - i % step) / 32] >> ((i - i % step) % 32) & 1;
    if (has && i < sms) on.push_back(i);
    if (has != first && i < sms / step * step) bears = false;
  }
  *out = begin(0, on);
  if (on.empty() || !bears) {
    fault(__func__, "a mask that hangs", INVALID_VALUE);
    std::lock_guard<std::mutex> l((*out)->mu);
    (*out)->hung = true;
  }
  return OK;
}
