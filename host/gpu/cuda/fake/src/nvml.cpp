// NVML without a GPU: the calls that Sluice makes, with figures that mean nothing.
#include <cstdio>
#include <cstring>

#define API extern "C" __attribute__((visibility("default"))) int

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

static int open_, failing;
static char version_[80] = "999.0.1";
#define ENTER(n) \
  if (failing && failing % 100 == n) return failing > 100 ? NOT_SUPPORTED : 999; \
  if (!open_) return UNINITIALIZED

// fake_nvml says which version the driver is of, which of the calls fails (1 to 6, 8; 0: none; 100
// more: it is not supported), and answers how often the library is open.
API fake_nvml(const char *version, int fails) {
  snprintf(version_, sizeof version_, "%s", version);
  failing = fails;
  return open_;
}
API nvmlInit_v2() {
  if (failing == 1) return 999;
  open_++;
  return OK;
}
API nvmlShutdown() {
  if (failing == 8) return open_--, 999;
  if (!open_) return UNINITIALIZED;
  open_--;
  return OK;
}
API nvmlSystemGetDriverVersion(char *out, unsigned n) {
  ENTER(2);
  if (!out || strlen(version_) >= n) return INVALID_ARGUMENT;
  strcpy(out, version_);
  return OK;
}
API nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **dev) {
  ENTER(3);
  if (!dev || strlen(bus) != 12 || strncmp(bus, "0000:0", 6) || strcmp(bus + 7, ":00.0") || bus[6] < '0' || bus[6] > '1') return INVALID_ARGUMENT;
  *dev = &version_[bus[6] - '0'];
  return OK;
}
static bool known(const void *dev) { return dev == &version_[0] || dev == &version_[1]; }
API nvmlDeviceGetClockInfo(void *dev, int type, unsigned *mhz) {
  ENTER(4);
  if (!known(dev) || !mhz || (type != 1 && type != 2)) return INVALID_ARGUMENT; // SM, memory
  *mhz = type == 1 ? 1980 : 3201;
  return OK;
}
API nvmlDeviceGetUtilizationRates(void *dev, unsigned *use) {
  ENTER(5);
  if (!known(dev) || !use) return INVALID_ARGUMENT;
  use[0] = 40, use[1] = 15;
  return OK;
}
API nvmlDeviceGetPcieThroughput(void *dev, int counter, unsigned *kbs) {
  ENTER(6);
  if (!known(dev) || !kbs || (counter != 0 && counter != 1)) return INVALID_ARGUMENT; // sent, received
  *kbs = counter == 1 ? 1000 : 2000;
  return OK;
}
