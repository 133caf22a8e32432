// A CUDA driver without a GPU: the entry points that Sluice uses, with the driver's names and argument
// lists, so that the path through purego is the real one. Device memory is host memory, a stream is a
// thread that does what it is given in order, kernels are the host's build of ours (kernels/cpu.hpp).
// Arguments are checked as strictly as the documentation allows: a handle that was never given, memory
// outside of an allocation, a call on a thread without a context are errors, not crashes.
//
// What is it not: there are as many streams at work as threads, whatever the priorities and the SMs;
// no time that it takes means anything.
//
// fake_* are for tests: inject an error, hold a stream, list the calls, count what is open.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../kernels/src/entries_cpu.hpp"

#define API extern "C" __attribute__((visibility("default"))) int

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
  INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701,
  LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, INVALID_RESOURCE_TYPE = 914, INVALID_RESOURCE_CONFIGURATION = 915
};

namespace {

const unsigned SMS = 132, SPLIT = 8;
const size_t MEMORY = (size_t)1 << 32;
const unsigned WORDS_PER_FUNCTION = 64;

struct Event {
  std::mutex mu;
  std::condition_variable cv;
  u64 asked = 0, done = 0, at = 0;
};

struct Stream {
  std::mutex mu;
  std::condition_variable cv;
  std::deque<std::function<void()>> queue;
  bool busy = false, over = false, held = false;
  int priority = 0;
  std::vector<unsigned> sms;
  std::thread thread;
};

struct Module {
  std::string text;
};

struct Green {
  std::vector<unsigned> sms;
};

std::mutex mu; // of all below
bool initialised;
int retained;
u64 generation = 1; // a context's handle; another after a reset
int sticky;         // error that only a reset takes away
size_t memory_left = MEMORY;
std::map<u64, size_t> device_memory, host_memory;
std::set<Stream *> streams;
std::set<Event *> events;
std::set<Module *> modules;
std::map<const Kernel *, Module *> functions;
std::set<Green *> greens;
std::vector<std::unique_ptr<std::vector<unsigned>>> descs;
std::vector<std::string> calls;
bool logging;

struct Injection {
  std::string call;
  long after;
  int code;
  bool late; // as what a kernel did, seen by the calls behind it
};
std::vector<Injection> injections;

thread_local u64 current; // generation; or a Green

std::vector<unsigned> all_sms() {
  std::vector<unsigned> v(SMS);
  for (unsigned i = 0; i < SMS; i++) v[i] = i;
  return v;
}

// enter logs a call and says with which error it ends before it begins.
int enter(const char *name, const std::string &args = "") {
  std::lock_guard<std::mutex> l(mu);
  if (logging) calls.push_back(std::string(name) + "(" + args + ")");
  for (size_t i = 0; i < injections.size(); i++)
    if (injections[i].call == name && injections[i].after-- == 0) {
      Injection x = injections[i];
      injections.erase(injections.begin() + (long)i);
      if (!x.late) return x.code;
      sticky = x.code;
    }
  return initialised || !strcmp(name, "cuInit") ? OK : NOT_INITIALIZED;
}

#define ENTER(...) \
  if (int code_ = enter(__func__ __VA_OPT__(, ) __VA_ARGS__)) return code_
#define NEED(cond, code) \
  if (!(cond)) return code
// A call that needs a context, and one without a sticky error.
#define CONTEXT                                        \
  {                                                    \
    std::lock_guard<std::mutex> l_(mu);                \
    NEED(current == generation || greens.count((Green *)current), INVALID_CONTEXT); \
    if (sticky) return sticky;                         \
  }

template <class T>
bool known(std::set<T *> &all, T *x) {
  std::lock_guard<std::mutex> l(mu);
  return all.count(x) != 0;
}

bool inside(const std::map<u64, size_t> &all, u64 at, size_t n) {
  std::lock_guard<std::mutex> l(mu);
  auto i = all.upper_bound(at);
  if (i == all.begin()) return false;
  --i;
  return at + n >= at && at + n <= i->first + i->second;
}

void work(Stream *s) {
  std::unique_lock<std::mutex> l(s->mu);
  for (;;) {
    s->cv.wait(l, [&] { return (s->over && s->queue.empty()) || (!s->queue.empty() && !s->held); });
    if (s->queue.empty()) return;
    std::function<void()> f = std::move(s->queue.front());
    s->queue.pop_front();
    s->busy = true;
    l.unlock();
    f();
    l.lock();
    s->busy = false;
    s->cv.notify_all();
  }
}

int give(Stream *s, std::function<void()> f) {
  NEED(known(streams, s), INVALID_HANDLE);
  std::lock_guard<std::mutex> l(s->mu);
  s->queue.push_back(std::move(f));
  s->cv.notify_all();
  return OK;
}

void end(Stream *s) {
  {
    std::lock_guard<std::mutex> l(s->mu);
    s->over = true, s->held = false;
    s->cv.notify_all();
  }
  s->thread.join();
  delete s;
}

// Which address ranges a layer may touch is the launcher's to get right: what can be checked is.
bool legal(const Layer &l) {
  if (!inside(device_memory, l.control, sizeof(Control)) || l.batch < 1 || l.batch > MAX_BATCH) return false;
  for (u32 i = 0; i < l.batch; i++)
    if (!inside(device_memory, l.slots + (u64)l.stride * l.sample[i], (size_t)l.stride)) return false;
  return true;
}

Watch watch_of_all;
std::mutex watch_mu;

} // namespace

// ------------------------------------------------------------------ tests
extern "C" __attribute__((visibility("default"))) void fake_inject(const char *call, long after, int code, int late) {
  std::lock_guard<std::mutex> l(mu);
  injections.push_back({call, after, code, late != 0});
}
extern "C" __attribute__((visibility("default"))) void fake_log(int on) {
  std::lock_guard<std::mutex> l(mu);
  logging = on != 0;
  calls.clear();
}
// fake_calls writes the calls, a line each, and says how many bytes there are.
extern "C" __attribute__((visibility("default"))) long fake_calls(char *out, long n) {
  std::lock_guard<std::mutex> l(mu);
  std::string all;
  for (auto &c : calls) all += c + "\n";
  if (n > 0) memcpy(out, all.data(), std::min((size_t)n, all.size()));
  return (long)all.size();
}
// fake_open counts what has not been given back: streams, events, modules, allocations, pinned pages, contexts.
extern "C" __attribute__((visibility("default"))) long fake_open() {
  std::lock_guard<std::mutex> l(mu);
  return (long)(streams.size() + events.size() + modules.size() + device_memory.size() + host_memory.size() + greens.size()) + retained;
}
// fake_hold keeps every stream from beginning anything, or lets them.
extern "C" __attribute__((visibility("default"))) void fake_hold(int on) {
  std::lock_guard<std::mutex> l(mu);
  for (Stream *s : streams) {
    std::lock_guard<std::mutex> k(s->mu);
    s->held = on != 0;
    s->cv.notify_all();
  }
}
extern "C" __attribute__((visibility("default"))) void fake_forget() {
  std::lock_guard<std::mutex> l(mu);
  injections.clear();
}
extern "C" __attribute__((visibility("default"))) long fake_layer_bytes() { return (long)sizeof(Layer); }
extern "C" __attribute__((visibility("default"))) long fake_control_bytes() { return (long)sizeof(Control); }
// fake_slow makes every look of a block at its epoch take ns.
static void doze(void *of) {
  timespec t{0, (long)(size_t)of};
  nanosleep(&t, nullptr);
}
extern "C" __attribute__((visibility("default"))) void fake_slow(long ns) {
  std::lock_guard<std::mutex> l(watch_mu);
  watch_of_all = ns > 0 ? Watch{doze, (void *)(size_t)ns} : Watch{};
}

// fake_late has cuStreamWriteValue32 take up to ns before it stores.
static long late_ns;
extern "C" __attribute__((visibility("default"))) void fake_late(long ns) { __atomic_store_n(&late_ns, ns, __ATOMIC_RELAXED); }

// ------------------------------------------------------------------ devices and contexts
API cuInit(unsigned flags) {
  ENTER();
  NEED(flags == 0, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  initialised = true;
  return OK;
}
API cuDriverGetVersion(int *v) {
  NEED(v, INVALID_VALUE);
  *v = 12040;
  return OK;
}
API cuGetErrorName(int code, const char **name) {
  static const std::map<int, const char *> names = {
      {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {101, "CUDA_ERROR_INVALID_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {218, "CUDA_ERROR_INVALID_PTX"},
      {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
      {801, "CUDA_ERROR_NOT_SUPPORTED"}, {914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"}, {915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"}};
  auto i = names.find(code);
  NEED(name && i != names.end(), INVALID_VALUE);
  *name = i->second;
  return OK;
}
API cuDeviceGetCount(int *n) {
  ENTER();
  NEED(n, INVALID_VALUE);
  *n = 1;
  return OK;
}
API cuDeviceGet(int *dev, int i) {
  ENTER();
  NEED(dev, INVALID_VALUE);
  NEED(i == 0, INVALID_DEVICE);
  *dev = 0;
  return OK;
}
API cuDeviceGetName(char *name, int n, int dev) {
  ENTER();
  NEED(name && n > 0, INVALID_VALUE);
  NEED(dev == 0, INVALID_DEVICE);
  snprintf(name, (size_t)n, "Fake GPU");
  return OK;
}
API cuDeviceTotalMem_v2(size_t *n, int dev) {
  ENTER();
  NEED(n, INVALID_VALUE);
  NEED(dev == 0, INVALID_DEVICE);
  *n = MEMORY;
  return OK;
}
API cuDeviceGetAttribute(int *v, int what, int dev) {
  ENTER(std::to_string(what));
  NEED(v, INVALID_VALUE);
  NEED(dev == 0, INVALID_DEVICE);
  switch (what) {
  case 13: *v = 1980000; break;          // clock, kHz
  case 16: *v = (int)SMS; break;         // multiprocessors
  case 75: *v = 9; break;                // compute capability
  case 76: *v = 0; break;
  default: return INVALID_VALUE;
  }
  return OK;
}
API cuDevicePrimaryCtxRetain(u64 *ctx, int dev) {
  ENTER();
  NEED(ctx, INVALID_VALUE);
  NEED(dev == 0, INVALID_DEVICE);
  std::lock_guard<std::mutex> l(mu);
  retained++;
  *ctx = generation;
  return OK;
}
static void reset_all() {
  std::vector<Stream *> s;
  {
    std::lock_guard<std::mutex> l(mu);
    s.assign(streams.begin(), streams.end());
    streams.clear();
  }
  for (Stream *x : s) end(x);
  std::lock_guard<std::mutex> l(mu);
  for (Event *e : events) delete e;
  for (Module *m : modules) delete m;
  for (Green *g : greens) delete g;
  for (auto &m : device_memory) free((void *)m.first);
  for (auto &m : host_memory) free((void *)m.first); // pinned pages are the context's
  host_memory.clear();
  events.clear(), modules.clear(), functions.clear(), greens.clear(), device_memory.clear();
  memory_left = MEMORY, sticky = 0;
  generation += 2;
}
API cuDevicePrimaryCtxRelease_v2(int dev) {
  ENTER();
  NEED(dev == 0, INVALID_DEVICE);
  bool last;
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(retained > 0, INVALID_CONTEXT);
    last = --retained == 0;
  }
  if (last) reset_all();
  return OK;
}
API cuDevicePrimaryCtxReset_v2(int dev) {
  ENTER();
  NEED(dev == 0, INVALID_DEVICE);
  reset_all();
  return OK;
}
API cuCtxSetCurrent(u64 ctx) {
  ENTER();
  std::lock_guard<std::mutex> l(mu);
  NEED(ctx == 0 || ctx == generation || greens.count((Green *)ctx), INVALID_CONTEXT);
  current = ctx;
  return OK;
}
API cuCtxGetStreamPriorityRange(int *least_, int *greatest) {
  ENTER();
  CONTEXT;
  if (least_) *least_ = 0;
  if (greatest) *greatest = -5;
  return OK;
}

// ------------------------------------------------------------------ memory
API cuMemAlloc_v2(u64 *at, size_t n) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(at && n > 0, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  NEED(n <= memory_left, OUT_OF_MEMORY);
  void *p = aligned_alloc(256, (n + 255) / 256 * 256);
  NEED(p, OUT_OF_MEMORY);
  memset(p, 0xa5, n); // nothing is zero by itself
  *at = (u64)p;
  device_memory[*at] = n, memory_left -= n;
  return OK;
}
API cuMemFree_v2(u64 at) {
  ENTER();
  CONTEXT;
  std::lock_guard<std::mutex> l(mu);
  auto i = device_memory.find(at);
  NEED(i != device_memory.end(), INVALID_VALUE);
  memory_left += i->second;
  free((void *)at);
  device_memory.erase(i);
  return OK;
}
API cuMemHostAlloc(void **at, size_t n, unsigned flags) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(at && n > 0 && flags < 8, INVALID_VALUE);
  *at = calloc(1, n);
  NEED(*at, OUT_OF_MEMORY);
  std::lock_guard<std::mutex> l(mu);
  host_memory[(u64)*at] = n;
  return OK;
}
API cuMemFreeHost(void *at) {
  ENTER();
  CONTEXT;
  std::lock_guard<std::mutex> l(mu);
  NEED(host_memory.erase((u64)at) == 1, INVALID_VALUE);
  free(at);
  return OK;
}
API cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t n, Stream *s) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(inside(device_memory, to, n) && inside(host_memory, (u64)from, n), INVALID_VALUE);
  return give(s, [=] { memcpy((void *)to, from, n); });
}
API cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t n, Stream *s) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(inside(device_memory, from, n) && inside(host_memory, (u64)to, n), INVALID_VALUE);
  return give(s, [=] { memcpy(to, (const void *)from, n); });
}
API cuMemsetD32Async(u64 to, unsigned v, size_t n, Stream *s) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(to % 4 == 0 && inside(device_memory, to, 4 * n), INVALID_VALUE);
  return give(s, [=] {
    for (size_t i = 0; i < n; i++) __atomic_store_n((unsigned *)to + i, v, __ATOMIC_RELEASE);
  });
}
API cuStreamWriteValue32_v2(Stream *s, u64 at, unsigned v, unsigned flags) {
  ENTER(std::to_string(v));
  CONTEXT;
  NEED(flags == 0 && at % 4 == 0 && inside(device_memory, at, 4), INVALID_VALUE);
  return give(s, [=] {
    if (long ns = __atomic_load_n(&late_ns, __ATOMIC_RELAXED)) {
      static thread_local unsigned draw = 1;
      draw = draw * 1664525u + 1013904223u;
      timespec t{0, (long)(draw % (unsigned)ns)};
      nanosleep(&t, nullptr);
    }
    __atomic_store_n((unsigned *)at, v, __ATOMIC_RELEASE);
  });
}

// ------------------------------------------------------------------ streams and events
API cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
  ENTER(std::to_string(priority));
  CONTEXT;
  NEED(out && flags == 1, INVALID_VALUE); // non-blocking: nothing here uses the null stream
  auto s = new Stream;
  s->priority = std::max(-5, std::min(0, priority));
  {
    std::lock_guard<std::mutex> l(mu);
    s->sms = current == generation ? all_sms() : ((Green *)current)->sms;
    streams.insert(s);
  }
  s->thread = std::thread(work, s);
  *out = s;
  return OK;
}
API cuStreamDestroy_v2(Stream *s) {
  ENTER();
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(streams.erase(s) == 1, INVALID_HANDLE);
  }
  end(s);
  return OK;
}
API cuStreamQuery(Stream *s) {
  ENTER();
  CONTEXT;
  NEED(known(streams, s), INVALID_HANDLE);
  std::lock_guard<std::mutex> l(s->mu);
  return s->queue.empty() && !s->busy ? OK : NOT_READY;
}
API cuStreamSynchronize(Stream *s) {
  ENTER();
  CONTEXT;
  NEED(known(streams, s), INVALID_HANDLE);
  {
    std::unique_lock<std::mutex> l(s->mu);
    s->cv.wait(l, [&] { return s->queue.empty() && !s->busy; });
  }
  CONTEXT;
  return OK;
}
API cuEventCreate(Event **e, unsigned flags) {
  ENTER();
  CONTEXT;
  NEED(e && flags < 8, INVALID_VALUE);
  *e = new Event;
  std::lock_guard<std::mutex> l(mu);
  events.insert(*e);
  return OK;
}
API cuEventDestroy_v2(Event *e) {
  ENTER();
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(events.erase(e) == 1, INVALID_HANDLE);
  }
  {
    std::unique_lock<std::mutex> l(e->mu);
    e->cv.wait(l, [&] { return e->done == e->asked; });
  }
  delete e;
  return OK;
}
API cuEventRecord(Event *e, Stream *s) {
  ENTER();
  CONTEXT;
  NEED(known(events, e), INVALID_HANDLE);
  u64 n;
  {
    std::lock_guard<std::mutex> l(e->mu);
    n = ++e->asked;
  }
  return give(s, [=] {
    std::lock_guard<std::mutex> l(e->mu);
    e->done = n, e->at = host_ns();
    e->cv.notify_all();
  });
}
API cuEventQuery(Event *e) {
  ENTER();
  CONTEXT;
  NEED(known(events, e), INVALID_HANDLE);
  std::lock_guard<std::mutex> l(e->mu);
  return e->done == e->asked ? OK : NOT_READY;
}
API cuEventElapsedTime(float *ms, Event *a, Event *b) {
  ENTER();
  CONTEXT;
  NEED(ms, INVALID_VALUE);
  NEED(known(events, a) && known(events, b), INVALID_HANDLE);
  std::scoped_lock l(a->mu, b->mu);
  NEED(a->asked && b->asked, INVALID_HANDLE);
  NEED(a->done == a->asked && b->done == b->asked, NOT_READY);
  *ms = (float)((double)(i64)(b->at - a->at) / 1e6);
  return OK;
}

// ------------------------------------------------------------------ modules and launches
API cuModuleLoadDataEx(Module **m, const char *image, unsigned n, const int *, void **) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(m && image, INVALID_VALUE);
  std::string text(image);
  NEED(text.find(".version") != std::string::npos && text.find(".target") != std::string::npos, INVALID_PTX);
  *m = new Module{text};
  std::lock_guard<std::mutex> l(mu);
  modules.insert(*m);
  return OK;
}
API cuModuleUnload(Module *m) {
  ENTER();
  CONTEXT;
  std::lock_guard<std::mutex> l(mu);
  NEED(modules.erase(m) == 1, INVALID_HANDLE);
  delete m;
  return OK;
}
API cuModuleGetFunction(const Kernel **f, Module *m, const char *name) {
  ENTER(name ? name : "");
  CONTEXT;
  NEED(f && name, INVALID_VALUE);
  NEED(known(modules, m), INVALID_HANDLE);
  // It must be in the PTX and in the host's build.
  NEED(m->text.find(std::string(".entry ") + name + "(") != std::string::npos, NOT_FOUND);
  for (const Kernel &k : kernels)
    if (!strcmp(k.name, name)) {
      std::lock_guard<std::mutex> l(mu);
      functions[&k] = m;
      *f = &k;
      return OK;
    }
  return NOT_FOUND;
}
API cuFuncGetAttribute(int *v, int what, const Kernel *f) {
  ENTER(std::to_string(what));
  CONTEXT;
  NEED(v && what >= 0 && what < 10, INVALID_VALUE);
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(functions.count(f), INVALID_HANDLE);
  }
  *v = what == 0 ? 1024 : what == 4 ? (int)WORDS_PER_FUNCTION : 0; // threads a block, registers a thread
  return OK;
}
API cuLaunchKernel(const Kernel *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   Stream *s, void **params, void **extra) {
  ENTER(std::to_string(gx) + " x " + std::to_string(bx));
  CONTEXT;
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(functions.count(f), INVALID_HANDLE);
  }
  NEED(gx > 0 && gy == 1 && gz == 1 && bx == THREADS_N && by == 1 && bz == 1 && params && !extra, INVALID_VALUE);
  NEED(shared <= 48 << 10, INVALID_VALUE);
  // The driver copies the arguments before it returns.
  auto args = std::make_shared<std::vector<std::vector<u64>>>();
  for (unsigned i = 0; i < f->args; i++) {
    std::vector<u64> a((f->sizes[i] + 7) / 8);
    memcpy(a.data(), params[i], f->sizes[i]);
    args->push_back(std::move(a));
  }
  return give(s, [=] {
    std::vector<void *> p;
    for (auto &a : *args) p.push_back(a.data());
    bool good = strcmp(f->name, "sluice_where") || inside(device_memory, *(u64 *)p[0], (size_t)gx * 32);
    for (unsigned i = 0; good && i < f->args && f->sizes[i] == sizeof(Layer); i++) good = legal(*(const Layer *)p[i]);
    if (!good) {
      std::lock_guard<std::mutex> l(mu);
      sticky = ILLEGAL_ADDRESS;
      return;
    }
    Watch w;
    {
      std::lock_guard<std::mutex> l(watch_mu);
      w = watch_of_all;
    }
    for (unsigned b = 0; b < gx; b++) {
      Host on{s->sms[b % s->sms.size()], w.look ? &w : nullptr};
      f->run(p.data(), b, &on);
    }
  });
}

// ------------------------------------------------------------------ green contexts
struct Resource { // CUdevResource of 12.4 to 12.9: a type, padding, the number of SMs
  unsigned type;
  unsigned char padding[92];
  unsigned sms, first, split; // first: which they are, in what the driver keeps to itself
  unsigned char rest[36];
};
static_assert(sizeof(Resource) == 144, "CUdevResource");

API cuDeviceGetDevResource(int dev, Resource *r, int type) {
  ENTER();
  NEED(dev == 0, INVALID_DEVICE);
  NEED(r, INVALID_VALUE);
  NEED(type == 1, INVALID_RESOURCE_TYPE);
  memset(r, 0, sizeof *r);
  r->type = 1, r->sms = SMS, r->first = 0;
  return OK;
}
API cuDevSmResourceSplitByCount(Resource *out, unsigned *groups, const Resource *in, Resource *rest, unsigned flags, unsigned least_) {
  ENTER(std::to_string(least_));
  NEED(groups && in && flags == 0, INVALID_VALUE);
  NEED(in->type == 1, INVALID_RESOURCE_TYPE);
  NEED(!in->split, INVALID_RESOURCE_CONFIGURATION); // a part cannot be split again
  unsigned each = std::max(SPLIT, (least_ + SPLIT - 1) / SPLIT * SPLIT), most = in->sms / each;
  NEED(most > 0, INVALID_RESOURCE_CONFIGURATION);
  if (!out) {
    *groups = most;
    return OK;
  }
  *groups = std::min(*groups, most);
  for (unsigned i = 0; i < *groups; i++) {
    out[i] = *in;
    out[i].sms = each, out[i].first = in->first + i * each, out[i].split = 1;
  }
  if (rest) {
    *rest = *in;
    rest->split = 1, rest->first = in->first + *groups * each, rest->sms = in->sms - *groups * each;
    if (!rest->sms) rest->type = 0;
  }
  return OK;
}
API cuDevResourceGenerateDesc(u64 *desc, Resource *rs, unsigned n) {
  ENTER(std::to_string(n));
  NEED(desc && rs && n == 1, INVALID_VALUE); // 12.4 merges none
  auto v = std::make_unique<std::vector<unsigned>>();
  for (unsigned i = 0; i < n; i++) {
    NEED(rs[i].type == 1, INVALID_RESOURCE_TYPE);
    for (unsigned k = 0; k < rs[i].sms; k++) v->push_back(rs[i].first + k);
  }
  std::sort(v->begin(), v->end());
  NEED(std::unique(v->begin(), v->end()) == v->end(), INVALID_RESOURCE_CONFIGURATION);
  std::lock_guard<std::mutex> l(mu);
  descs.push_back(std::move(v));
  *desc = descs.size();
  return OK;
}
API cuGreenCtxCreate(Green **g, u64 desc, int dev, unsigned flags) {
  ENTER();
  NEED(dev == 0, INVALID_DEVICE);
  NEED(g && flags == 1, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  NEED(desc >= 1 && desc <= descs.size(), INVALID_VALUE);
  *g = new Green{*descs[desc - 1]};
  greens.insert(*g);
  return OK;
}
API cuGreenCtxDestroy(Green *g) {
  ENTER();
  std::lock_guard<std::mutex> l(mu);
  NEED(greens.erase(g) == 1, INVALID_CONTEXT);
  delete g;
  return OK;
}
API cuGreenCtxGetDevResource(Green *g, Resource *r, int type) {
  ENTER();
  NEED(known(greens, g), INVALID_CONTEXT);
  NEED(r, INVALID_VALUE);
  NEED(type == 1, INVALID_RESOURCE_TYPE);
  memset(r, 0, sizeof *r);
  r->type = 1, r->sms = (unsigned)g->sms.size(), r->first = g->sms[0];
  return OK;
}
API cuCtxFromGreenCtx(u64 *ctx, Green *g) {
  ENTER();
  NEED(ctx, INVALID_VALUE);
  NEED(known(greens, g), INVALID_CONTEXT);
  *ctx = (u64)g;
  return OK;
}
