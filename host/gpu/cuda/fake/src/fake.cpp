// A CUDA driver without a GPU: the entry points that Sluice uses, with the driver's names and argument
// lists, so that the path through purego is the real one. Device memory is host memory, a stream is a
// thread that does what it is given in order, kernels are the host's build of ours (kernels/cpu.hpp).
// Arguments are checked as strictly as the documentation allows: a handle that was never given, memory
// outside of an allocation, a call on a thread without a context are errors, not crashes.
//
// What is it not: there are as many streams at work as threads, whatever the priorities and the SMs;
// no time that it takes means anything.
//
// Whoever breaks a rule gets the driver's error, and the fault is kept (fake_faults): a handle of one context
// used under another, one that has been given back, memory freed under a copy, a module under its kernel.
// A green context is of its GPU's primary context: memory and kernels of a library may be used with both, events are
// recorded on streams of their own context.
//
// fake_* are for tests: inject an error, hold a stream, list calls and faults, count what is open.
//
// Its clock is the host's. With FAKE_PACE_NS it goes by what is done alone: a kernel of layers takes so many ns,
// whatever its size, so that budgets are kept or broken the same on a loaded machine. With FAKE_DIES_NS the process is killed when that clock stands there.
//
// hip.cpp makes AMD's of it: the same functions under other names, and what differs.
#include <algorithm>
#include <chrono>
#include <csignal>
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

const Kernel *kernel_of(const char *name); // kernels.cpp

#define API extern "C" __attribute__((visibility("default"))) int

#ifndef HIP
#define ERROR_NAME(cuda, hip) "CUDA_ERROR_" cuda
enum { CLOCK = 13, MULTIPROCESSORS = 16, MEMORY_CLOCK = 36, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };
enum { VERSION = 12040, CAPABILITY = 90, UNITS = 132 };
#endif

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
  INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701,
  LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, INVALID_RESOURCE_TYPE = 914, INVALID_RESOURCE_CONFIGURATION = 915
};

namespace {

const unsigned SPLIT = 8;
const int GPUS = 2;
const size_t MEMORY = (size_t)1 << 32;
const int BOUNDED = 80, UNBOUNDED = 84; // registers of a thread as ptxas 12.9 gives them on sm_90: of kernels with bounds, of that without

struct Event {
  std::mutex mu;
  std::condition_variable cv;
  u64 asked = 0, done = 0, at = 0;
  u64 of = 0, made = 0; // generation; the context that was current, which may be a green one
  bool timed = true;
};

// What the driver keeps of a stream for itself, to which its handle points: a mask of TPCs somewhere in it, whose
// bits count one (HOLE) that is not there; a set bit disables.
enum { INNER = 1024, MASK = 0x1c4, HOLE = 3 };
struct Inner {
  u32 words[INNER / 4];
  Inner() {
    for (u32 &w : words) w = 0xa5a5a5a5;
    memset(words, 0, 64); // not a mask, but zero
    memset((char *)words + MASK, 0, 20);
  }
  bool disables(unsigned sm) const {
    const u32 *m = words + MASK / 4;
    unsigned bit = sm / 2 + (sm / 2 >= HOLE);
    return m[0] == 1 && m[1 + bit / 32] >> (bit % 32) & 1;
  }
};

struct Stream {
  std::unique_ptr<Inner> inner{new Inner}; // first, where a handle points to
  std::mutex mu;
  std::condition_variable cv;
  std::deque<std::function<void()>> queue;
  bool busy = false, over = false, held = false;
  int priority = 0;
  bool hung = false; // what it is given never begins
  std::vector<unsigned> sms;
  std::thread thread;
  u64 of = 0, made = 0; // as an event's
  struct Green *green = nullptr;
};

// Function is a kernel of a module: another handle in each.
struct Function {
  const Kernel *kernel;
  struct Module *module;
};

struct Module {
  std::string text;
  u64 of;
  int busy; // kernels given to streams
  int limit; // registers of a thread, at most; 0: none
  Function functions[sizeof kernels / sizeof *kernels]; // which were asked for
};

struct Green {
  std::vector<unsigned> sms;
  u64 of, ctx; // ctx: what it is converted into
  const void *at = nullptr; // whose thread's current it is
};

// Block is an allocation; busy: copies and kernels given to streams that touch it.
struct Block {
  size_t n;
  u64 of;
  int busy;
};
typedef std::map<u64, Block> Blocks;

// Primary is a GPU's primary context.
struct Primary {
  u64 generation; // its handle; another after a reset
  int retained, sticky; // sticky: error that only a reset takes away
  size_t left;
};

std::mutex mu; // of all below
bool initialised;
Primary primaries[GPUS] = {{1, 0, 0, MEMORY}, {3, 0, 0, MEMORY}};
u64 last_generation = 3;
int gpus = 1;
unsigned sms = UNITS;
int capability = CAPABILITY; // major and minor digit
Blocks device_memory, host_memory;
std::set<Stream *> streams;
std::set<Event *> events;
std::set<Module *> modules;
std::set<Green *> greens;
std::vector<std::pair<int, std::unique_ptr<std::vector<unsigned>>>> descs; // of which GPU
std::vector<std::string> calls;
bool logging;

struct Injection {
  std::string call;
  long after;
  int code;
  bool late; // as what a kernel did, seen by the calls behind it
  long every; // and from then on every so many calls; 0: once
};
std::vector<Injection> injections;

// Current is a thread's context: a generation, or a green one's ctx.
struct Current {
  u64 ctx = 0;
  void set(u64 to); // under mu
  ~Current() {
    if (!ctx) return;
    std::lock_guard<std::mutex> l(mu);
    set(0);
  }
};
thread_local Current current;

// What is given back is kept, but for what it holds: no later handle is equal to a stale one.
void gone(Event *) {}
void gone(Green *g) { std::vector<unsigned>().swap(g->sms); }
void gone(Module *m) { std::string().swap(m->text); }
void gone(Stream *s) { s->inner.reset(); }

std::mutex faults_mu;
std::vector<std::string> faults;
// fault keeps what a caller did wrong; what may happen to anybody is none.
int fault(const char *call, const char *broken, int code) {
  if (code == OUT_OF_MEMORY || code == NOT_READY || code == NOT_FOUND) return code;
  std::lock_guard<std::mutex> l(faults_mu);
  faults.push_back(std::string(call) + ": " + broken);
  return code;
}

// green_of is the green context that was converted into ctx; null: none was. Under mu.
Green *green_of(u64 ctx) {
  auto g = std::find_if(greens.begin(), greens.end(), [&](Green *x) { return x->ctx == ctx; });
  return g == greens.end() ? nullptr : *g;
}
void Current::set(u64 to) {
  if (Green *g = green_of(ctx)) g->at = nullptr;
  if (Green *g = green_of(to)) g->at = this;
  ctx = to;
}
// primary_of is the context with a generation, or of a green context; null: there is none any more. Under mu.
Primary *primary_of(u64 ctx) {
  Green *g = green_of(ctx);
  u64 generation = g ? g->of : ctx;
  for (int i = 0; i < gpus; i++)
    if (primaries[i].generation == generation && primaries[i].retained > 0) return &primaries[i];
  return nullptr;
}
// family is the generation of the thread's context; 0: it has none. Under mu.
u64 family() {
  Primary *p = primary_of(current.ctx);
  return p ? p->generation : 0;
}

std::vector<unsigned> all_sms() {
  std::vector<unsigned> v(sms);
  for (unsigned i = 0; i < sms; i++) v[i] = i;
  return v;
}

// enter logs a call and says with which error it ends before it begins.
int enter(const char *name, const std::string &args = "") {
  std::lock_guard<std::mutex> l(mu);
  if (logging) calls.push_back(std::string(name) + "(" + args + ")");
  for (size_t i = 0; i < injections.size(); i++)
    if (injections[i].call == name && injections[i].after-- == 0) {
      Injection x = injections[i];
      if (x.every > 0)
        injections[i].after = x.every - 1;
      else
        injections.erase(injections.begin() + (long)i);
      if (!x.late) return x.code;
      if (Primary *p = primary_of(current.ctx)) __atomic_store_n(&p->sticky, x.code, __ATOMIC_RELAXED);
    }
  auto is = [&](const char *a, const char *b) { return !strcmp(name, a) || !strcmp(name, b); };
  bool early = is("cuInit", "hipInit") || is("cuGetErrorName", "hipGetErrorName") || is("cuDriverGetVersion", "hipDriverGetVersion");
  return initialised || early ? OK : fault(name, "before it is initialised", NOT_INITIALIZED);
}

#define ENTER(...) \
  if (int code_ = enter(__func__ __VA_OPT__(, ) __VA_ARGS__)) return code_
#define NEED(cond, code) \
  if (!(cond)) return fault(__func__, #cond, code)
// A call on what is a context's: an error of a kernel's before is its answer too, and nothing is done.
#define ALIVE(of)                                      \
  if (Primary *p_ = primary_of(of); p_ && p_->sticky) return p_->sticky
// A call that needs a context, and one without a sticky error.
#define CONTEXT                                        \
  {                                                    \
    std::lock_guard<std::mutex> l_(mu);                \
    Primary *p_ = primary_of(current.ctx);                 \
    NEED(p_, INVALID_CONTEXT);                         \
    if (p_->sticky) return p_->sticky;                 \
  }

template <class T>
bool known(std::set<T *> &all, T *x) {
  std::lock_guard<std::mutex> l(mu);
  return all.count(x) != 0;
}
// ours: known, and of the thread's context.
template <class T>
bool ours(std::set<T *> &all, T *x) {
  std::lock_guard<std::mutex> l(mu);
  return all.count(x) != 0 && x->of == family();
}

// find is the block of a context's that holds n bytes at at. Under mu.
Blocks::iterator find(Blocks &all, u64 at, size_t n, u64 of) {
  auto i = all.upper_bound(at);
  if (i == all.begin()) return all.end();
  --i;
  return i->second.of == of && at + n >= at && at + n <= i->first + i->second.n ? i : all.end();
}
bool inside(Blocks &all, u64 at, size_t n, u64 of) {
  std::lock_guard<std::mutex> l(mu);
  return find(all, at, n, of) != all.end();
}
u64 my_family() {
  std::lock_guard<std::mutex> l(mu);
  return family();
}
// busy counts a copy that touches the bytes, or that has.
void busy(Blocks &all, u64 at, size_t n, u64 of, int by) {
  std::lock_guard<std::mutex> l(mu);
  auto i = find(all, at, n, of);
  if (i != all.end()) i->second.busy += by;
}

void work(Stream *s) {
  std::unique_lock<std::mutex> l(s->mu);
  for (;;) {
    s->cv.wait(l, [&] { return (s->over && s->queue.empty()) || (!s->queue.empty() && !s->held && !s->hung); });
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
  NEED(ours(streams, s), INVALID_HANDLE);
  std::lock_guard<std::mutex> l(s->mu);
  s->queue.push_back(std::move(f));
  s->cv.notify_all();
  return OK;
}

// end destroys a stream: it does what it has been given, on its own. all_ended waits for those.
std::mutex ending_mu;
std::condition_variable ending_cv;
int ending;
void end(Stream *s) {
  {
    std::lock_guard<std::mutex> l(ending_mu);
    ending++;
  }
  std::thread t = std::move(s->thread);
  t.detach();
  std::lock_guard<std::mutex> l(s->mu);
  if (s->hung) s->queue.clear();
  s->over = true, s->held = false;
  s->cv.notify_all();
}
void all_ended() {
  std::unique_lock<std::mutex> l(ending_mu);
  ending_cv.wait(l, [] { return ending == 0; });
}
void run(Stream *s) {
  work(s);
  std::lock_guard<std::mutex> l(ending_mu);
  gone(s);
  ending--;
  ending_cv.notify_all();
}

static u64 setting(const char *name) {
  const char *v = getenv(name);
  return v ? strtoull(v, nullptr, 10) : 0;
}
static u64 pace_ns = setting("FAKE_PACE_NS");
static const u64 dies_ns = setting("FAKE_DIES_NS");
static u64 spent_ns = 1;
static bool events_too; // by that clock
const u64 OPEN_NS = 1300000000, DIVIDE_NS = 1675000, COPY_NS = 1400000, BYTE_NS = 4; // opening: 0.3 s, and a second until clocks are steady, which the bench spares a fake; copies 200 times an H200's
// spend has the clock go on, where it goes by what is done.
static void spend(u64 ns) {
  if (!__atomic_load_n(&pace_ns, __ATOMIC_RELAXED)) return;
  u64 now = __atomic_add_fetch(&spent_ns, ns, __ATOMIC_RELAXED);
  // Whoever watches this clock has to get a turn before much more of it is spent, on a loaded machine too.
  if (ns >= 10000000) std::this_thread::sleep_for(std::chrono::microseconds(500));
  if (dies_ns && now >= dies_ns) raise(SIGKILL);
}

extern "C" long fake_copy_ns(long bytes);
// copying gives a stream a copy, under which neither side may be freed.
int copying(Stream *s, Blocks &a, u64 at, Blocks *b, u64 bt, size_t n, std::function<void()> f) {
  u64 of = my_family();
  busy(a, at, n, of, 1);
  if (b) busy(*b, bt, n, of, 1);
  auto over = [=, &a] {
    busy(a, at, n, of, -1);
    if (b) busy(*b, bt, n, of, -1);
  };
  int code = give(s, [=] { spend((u64)fake_copy_ns((long)n)), f(), over(); });
  if (code) over();
  return code;
}

// Which address ranges a layer may touch is the launcher's to get right: what can be checked is.
bool legal(const Layer &l, u64 of) {
  const u32 tiles = l.tiles_p * l.tiles_c;
  if (!inside(device_memory, l.control, sizeof(Control), of) || l.from >= l.to || l.to > MAX_BATCH * tiles) return false;
  for (u32 i = l.from / tiles; i <= (l.to - 1) / tiles; i++)
    if (!inside(device_memory, l.slots + (u64)l.stride * l.sample[i], (size_t)l.stride, of)) return false;
  return true;
}

Watch watch_of_all;
std::mutex watch_mu;

} // namespace

// ------------------------------------------------------------------ tests
// fake_pace has the clock, and the times of events, go by what is done, a kernel of layers taking so many ns; 0: neither.
extern "C" __attribute__((visibility("default"))) void fake_pace(long ns) {
  __atomic_store_n(&events_too, ns > 0, __ATOMIC_RELAXED);
  __atomic_store_n(&pace_ns, (u64)ns, __ATOMIC_RELAXED);
}
// fake_copy_ns is what a copy takes by that clock.
extern "C" __attribute__((visibility("default"))) long fake_copy_ns(long bytes) { return (long)(COPY_NS + (u64)bytes * BYTE_NS); }
// fake_now is that clock; 0: it is the host's.
extern "C" __attribute__((visibility("default"))) u64 fake_now() { return __atomic_load_n(&pace_ns, __ATOMIC_RELAXED) ? __atomic_load_n(&spent_ns, __ATOMIC_RELAXED) : 0; }
extern "C" __attribute__((visibility("default"))) void fake_inject(const char *call, long after, int code, int late) {
  std::lock_guard<std::mutex> l(mu);
  injections.push_back({call, after, code, late != 0, 0});
}
// fake_inject_every has every so many calls of a name fail.
extern "C" __attribute__((visibility("default"))) void fake_inject_every(const char *call, long every, int code) {
  std::lock_guard<std::mutex> l(mu);
  injections.push_back({call, every - 1, code, false, every});
}
// fake_waiting counts errors that have been injected and not been seen.
extern "C" __attribute__((visibility("default"))) long fake_waiting() {
  std::lock_guard<std::mutex> l(mu);
  return (long)injections.size();
}
// fake_gpus has so many GPUs, of so many SMs.
extern "C" __attribute__((visibility("default"))) void fake_gpus(long n, long each) {
  std::lock_guard<std::mutex> l(mu);
  gpus = (int)std::max(0L, std::min((long)GPUS, n)), sms = (unsigned)each;
}
// fake_version sets which version the driver is of: 12040 is CUDA 12.4.
static int version = VERSION;
extern "C" __attribute__((visibility("default"))) void fake_version(long v) {
  std::lock_guard<std::mutex> l(mu);
  version = (int)v;
}
// fake_env is what the library sees of the environment.
extern "C" __attribute__((visibility("default"))) const char *fake_env(const char *name) {
  const char *v = getenv(name);
  return v ? v : "";
}
// fake_capability sets what they can do: 90 is 9.0.
extern "C" __attribute__((visibility("default"))) void fake_capability(long c) {
  std::lock_guard<std::mutex> l(mu);
  capability = (int)c;
}
static long lines(const std::vector<std::string> &of, char *out, long n) {
  std::string all;
  for (auto &c : of) all += c + "\n";
  if (n > 0) memcpy(out, all.data(), std::min((size_t)n, all.size()));
  return (long)all.size();
}
// fake_faults writes what was done wrong, a line each, and says how many bytes there are.
extern "C" __attribute__((visibility("default"))) long fake_faults(char *out, long n) {
  std::lock_guard<std::mutex> l(faults_mu);
  return lines(faults, out, n);
}
extern "C" __attribute__((visibility("default"))) void fake_forgive() {
  std::lock_guard<std::mutex> l(faults_mu);
  faults.clear();
}
extern "C" __attribute__((visibility("default"))) void fake_log(int on) {
  std::lock_guard<std::mutex> l(mu);
  logging = on != 0;
  calls.clear();
}
// fake_calls writes the calls, a line each, and says how many bytes there are.
extern "C" __attribute__((visibility("default"))) long fake_calls(char *out, long n) {
  std::lock_guard<std::mutex> l(mu);
  return lines(calls, out, n);
}
// fake_open counts what has not been given back: streams, events, modules, allocations, pinned pages, contexts.
extern "C" __attribute__((visibility("default"))) long fake_open() {
  all_ended();
  std::lock_guard<std::mutex> l(mu);
  long n = (long)(streams.size() + events.size() + modules.size() + device_memory.size() + host_memory.size() + greens.size());
#ifndef HIP // there a GPU is its own context, and nobody gives it back
  n += primaries[0].retained + primaries[1].retained;
#endif
  return n;
}
// fake_hold keeps every stream from beginning anything, those too that are made meanwhile, or lets them.
static bool holding;
extern "C" __attribute__((visibility("default"))) void fake_hold(int on) {
  std::lock_guard<std::mutex> l(mu);
  holding = on != 0;
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

// fake_hold_fills keeps what sets words of the device's memory from happening, and what is behind it, or lets it.
static std::mutex fills_mu;
static std::condition_variable fills_cv;
static bool fills_held;
extern "C" __attribute__((visibility("default"))) void fake_hold_fills(int on) {
  std::lock_guard<std::mutex> l(fills_mu);
  fills_held = on != 0;
  fills_cv.notify_all();
}
// fake_loses has cuStreamWriteValue32 say that all is well, and write nothing.
static int loses;
extern "C" __attribute__((visibility("default"))) void fake_loses(int on) { __atomic_store_n(&loses, on, __ATOMIC_RELAXED); }

// fake_spoil has the kernel find its input spoiled that is the first one after a kill, every so many kills that a block
// saw (0: never): a restore that does not restore.
static std::mutex spoil_mu;
static long spoil_every, spoil_seen;
static std::set<u64> spoil_next; // Controls of streams whose next kernel it is
extern "C" __attribute__((visibility("default"))) void fake_spoil(long every) {
  std::lock_guard<std::mutex> l(spoil_mu);
  spoil_every = every, spoil_seen = 0;
  spoil_next.clear();
}
// spoil is called before a layer's kernel, and says whether a block had left until then.
static bool spoil(const Layer &l) {
  const Control *c = (const Control *)l.control;
  std::lock_guard<std::mutex> lock(spoil_mu);
  if (LOAD(c->epoch) == l.epoch && spoil_next.erase(l.control))
    for (int y = 0; y < l.in_h; y++) {
      short *row = (short *)(l.slots + (u64)l.stride * l.sample[0] + l.in_offset + (size_t)y * l.in_row);
      for (int i = 0; i < l.in_w * l.in_c; i++) row[i / l.in_c * l.in_pix + i % l.in_c] = 0x0a5a; // twice is no cure
    }
  return LOAD(c->stopped) != ~0u;
}
// spoiled is called after it: the first block of a stream that left is a kill's.
static void spoiled(const Layer &l, bool left) {
  std::lock_guard<std::mutex> lock(spoil_mu);
  if (spoil_every && !left && LOAD(((const Control *)l.control)->stopped) != ~0u && ++spoil_seen % spoil_every == 0) spoil_next.insert(l.control);
}

// ------------------------------------------------------------------ devices and contexts
API cuInit(unsigned flags) {
  ENTER();
  NEED(flags == 0, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  initialised = true;
  return OK;
}
API cuDriverGetVersion(int *v) {
  ENTER();
  NEED(v, INVALID_VALUE);
  *v = version;
  return OK;
}
static const char *name_of(int code) {
  static const struct {
    int code;
    const char *name;
  } names[] = {
      {1, ERROR_NAME("INVALID_VALUE", "InvalidValue")}, {2, ERROR_NAME("OUT_OF_MEMORY", "OutOfMemory")},
      {3, ERROR_NAME("NOT_INITIALIZED", "NotInitialized")}, {101, ERROR_NAME("INVALID_DEVICE", "InvalidDevice")},
      {201, ERROR_NAME("INVALID_CONTEXT", "InvalidContext")}, {218, ERROR_NAME("INVALID_PTX", "InvalidKernelFile")},
      {222, ERROR_NAME("UNSUPPORTED_PTX_VERSION", "")},
      {400, ERROR_NAME("INVALID_HANDLE", "InvalidHandle")}, {500, ERROR_NAME("NOT_FOUND", "NotFound")},
      {600, ERROR_NAME("NOT_READY", "NotReady")}, {700, ERROR_NAME("ILLEGAL_ADDRESS", "IllegalAddress")},
      {701, ERROR_NAME("LAUNCH_OUT_OF_RESOURCES", "LaunchOutOfResources")}, {719, ERROR_NAME("LAUNCH_FAILED", "LaunchFailure")},
      {801, ERROR_NAME("NOT_SUPPORTED", "NotSupported")}, {914, ERROR_NAME("INVALID_RESOURCE_TYPE", "")},
      {915, ERROR_NAME("INVALID_RESOURCE_CONFIGURATION", "")}};
  for (auto &n : names)
    if (n.code == code) return n.name;
  return nullptr;
}
#ifndef HIP
API cuGetErrorName(int code, const char **name) {
  ENTER(std::to_string(code));
  NEED(name, INVALID_VALUE);
  const char *s = code == OK ? "CUDA_SUCCESS" : name_of(code);
  if (!s) return INVALID_VALUE; // not the caller's fault
  *name = s;
  return OK;
}
#endif
API cuDeviceGetCount(int *n) {
  ENTER();
  NEED(n, INVALID_VALUE);
  *n = gpus;
  return OK;
}
API cuDeviceGet(int *dev, int i) {
  ENTER();
  NEED(dev, INVALID_VALUE);
  NEED(i >= 0 && i < gpus, INVALID_DEVICE);
  *dev = i;
  return OK;
}
API cuDeviceGetName(char *name, int n, int dev) {
  ENTER();
  NEED(name && n > 0, INVALID_VALUE);
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  snprintf(name, (size_t)n, "Fake GPU");
  return OK;
}
API cuDeviceGetPCIBusId(char *bus, int n, int dev) {
  ENTER();
  NEED(bus && n > 12, INVALID_VALUE);
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  snprintf(bus, (size_t)n, "0000:0%d:00.0", dev);
  return OK;
}
API cuDeviceTotalMem_v2(size_t *n, int dev) {
  ENTER();
  NEED(n, INVALID_VALUE);
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  *n = MEMORY;
  return OK;
}
API cuDeviceGetAttribute(int *v, int what, int dev) {
  ENTER(std::to_string(what));
  NEED(v, INVALID_VALUE);
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  switch (what) {
  case CLOCK: *v = 1980000; break; // kHz
  case MULTIPROCESSORS: *v = (int)sms; break;
  case MEMORY_CLOCK: *v = 3201000; break;
  case CAPABILITY_MAJOR: *v = capability / 10; break;
  case CAPABILITY_MINOR: *v = capability % 10; break;
  default: return INVALID_VALUE;
  }
  return OK;
}
#ifndef HIP
API cuDevicePrimaryCtxRetain(u64 *ctx, int dev) {
  ENTER();
  NEED(ctx, INVALID_VALUE);
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  std::lock_guard<std::mutex> l(mu);
  primaries[dev].retained++;
  spend(OPEN_NS);
  *ctx = primaries[dev].generation;
  return OK;
}
#endif
// reset_all destroys all that is in a GPU's primary context, and the context.
static void reset_all(int dev) {
  Primary &p = primaries[dev];
  std::vector<Stream *> all;
  u64 of;
  {
    std::lock_guard<std::mutex> l(mu);
    of = p.generation;
    for (Stream *x : streams)
      if (x->of == of) all.push_back(x);
    for (Stream *x : all) streams.erase(x);
  }
  for (Stream *x : all) end(x);
  all_ended();
  std::lock_guard<std::mutex> l(mu);
  auto drop = [&](auto &set) {
    for (auto i = set.begin(); i != set.end();)
      if ((*i)->of == of)
        gone(*i), i = set.erase(i);
      else
        ++i;
  };
  for (Green *g : greens) p.retained -= g->of == of;
  drop(events), drop(modules), drop(greens);
  for (Blocks *m : {&device_memory, &host_memory}) // pinned pages are the context's too
    for (auto i = m->begin(); i != m->end();)
      if (i->second.of == of)
        free((void *)i->first), i = m->erase(i);
      else
        ++i;
  p.left = MEMORY;
  __atomic_store_n(&p.sticky, 0, __ATOMIC_RELAXED);
  p.generation = last_generation += 2;
}
#ifndef HIP
// let_go takes one hold off a context; with the last one it goes.
static int let_go(int dev) {
  bool last;
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(primaries[dev].retained > 0, INVALID_CONTEXT);
    last = --primaries[dev].retained == 0;
  }
  if (last) reset_all(dev);
  return OK;
}
API cuDevicePrimaryCtxRelease_v2(int dev) {
  ENTER();
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  {
    std::lock_guard<std::mutex> l(mu);
    int own = primaries[dev].retained; // a green context releases its hold itself
    for (Green *g : greens) own -= g->of == primaries[dev].generation;
    NEED(own > 0, INVALID_CONTEXT); // "has not been previously retained", cuda.h 12.9, line 5991
  }
  return let_go(dev);
}
API cuDevicePrimaryCtxReset_v2(int dev) {
  ENTER();
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  reset_all(dev);
  return OK;
}
API cuCtxSetCurrent(u64 ctx) {
  ENTER();
  std::lock_guard<std::mutex> l(mu);
  NEED(ctx == 0 || primary_of(ctx), INVALID_CONTEXT);
  Green *g = green_of(ctx);
  NEED(!g || !g->at || g->at == &current, INVALID_CONTEXT); // it "can be current to only one thread at a time", cuda.h 12.9, line 25363
  current.set(ctx);
  return OK;
}
#endif
API cuCtxGetStreamPriorityRange(int *least_, int *greatest) {
  ENTER();
  CONTEXT;
  if (least_) *least_ = 0;
  if (greatest) *greatest = -5;
  return OK;
}

static void unload(Module *m);
// fake_clear takes back all that was given and not given back.
extern "C" __attribute__((visibility("default"))) void fake_clear() {
  for (int i = 0; i < GPUS; i++) {
    reset_all(i);
    std::lock_guard<std::mutex> l(mu);
    primaries[i].retained = 0;
  }
  std::lock_guard<std::mutex> l(mu);
  while (!modules.empty()) unload(*modules.begin());
}

// ------------------------------------------------------------------ memory
API cuMemAlloc_v2(u64 *at, size_t n) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(at && n > 0, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  Primary *own = primary_of(current.ctx);
  NEED(n <= own->left, OUT_OF_MEMORY);
  void *p = aligned_alloc(256, (n + 255) / 256 * 256);
  NEED(p, OUT_OF_MEMORY);
  memset(p, 0xa5, n); // nothing is zero by itself
  *at = (u64)p;
  device_memory[*at] = {n, own->generation, 0}, own->left -= n;
  return OK;
}
API cuMemFree_v2(u64 at) {
  ENTER();
  CONTEXT;
  std::unique_lock<std::mutex> l(mu);
  auto i = device_memory.find(at);
  if (i != device_memory.end() && i->second.busy) // as a driver, it waits for streams that were destroyed
    l.unlock(), all_ended(), l.lock(), i = device_memory.find(at);
  NEED(i != device_memory.end(), INVALID_VALUE);
  NEED(i->second.of == family(), INVALID_CONTEXT);
  NEED(i->second.busy == 0, INVALID_VALUE); // a copy or a kernel is under way on a stream that lives
  primary_of(current.ctx)->left += i->second.n;
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
  host_memory[(u64)*at] = {n, family(), 0};
  return OK;
}
API cuMemFreeHost(void *at) {
  ENTER();
  CONTEXT;
  std::lock_guard<std::mutex> l(mu);
  auto i = host_memory.find((u64)at);
  NEED(i != host_memory.end(), INVALID_VALUE);
  NEED(i->second.of == family(), INVALID_CONTEXT);
  NEED(i->second.busy == 0, INVALID_VALUE); // a copy or a kernel is under way
  host_memory.erase(i);
  free(at);
  return OK;
}
API cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t n, Stream *s) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(inside(device_memory, to, n, my_family()) && inside(host_memory, (u64)from, n, my_family()), INVALID_VALUE);
  return copying(s, device_memory, to, &host_memory, (u64)from, n, [=] { memcpy((void *)to, from, n); });
}
API cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t n, Stream *s) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(inside(device_memory, from, n, my_family()) && inside(host_memory, (u64)to, n, my_family()), INVALID_VALUE);
  return copying(s, device_memory, from, &host_memory, (u64)to, n, [=] { memcpy(to, (const void *)from, n); });
}
API cuMemsetD32Async(u64 to, unsigned v, size_t n, Stream *s) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(to % 4 == 0 && inside(device_memory, to, 4 * n, my_family()), INVALID_VALUE);
  return copying(s, device_memory, to, nullptr, 0, 4 * n, [=] {
    {
      std::unique_lock<std::mutex> l(fills_mu);
      fills_cv.wait(l, [] { return !fills_held; });
    }
    for (size_t i = 0; i < n; i++) __atomic_store_n((unsigned *)to + i, v, __ATOMIC_RELEASE);
  });
}
API cuStreamWriteValue32_v2(Stream *s, u64 at, unsigned v, unsigned flags) {
  ENTER(std::to_string(v));
  CONTEXT;
  NEED(flags == 0 && at % 4 == 0 && inside(device_memory, at, 4, my_family()), INVALID_VALUE);
  return copying(s, device_memory, at, nullptr, 0, 4, [=] {
    if (long ns = __atomic_load_n(&late_ns, __ATOMIC_RELAXED)) {
      static thread_local unsigned draw = 1;
      draw = draw * 1664525u + 1013904223u;
      timespec t{0, (long)(draw % (unsigned)ns)};
      nanosleep(&t, nullptr);
    }
    if (!__atomic_load_n(&loses, __ATOMIC_RELAXED)) __atomic_store_n((unsigned *)at, v, __ATOMIC_RELEASE);
  });
}

// ------------------------------------------------------------------ streams and events
// begin has a stream of the thread's context begin; on: the SMs that it is confined to, none: those of the context.
static Stream *begin(int priority, const std::vector<unsigned> &on) {
  auto s = new Stream;
  s->priority = std::max(-5, std::min(0, priority));
  {
    std::lock_guard<std::mutex> l(mu);
    s->of = family(), s->made = current.ctx, s->held = holding, s->green = green_of(current.ctx);
    s->sms = !on.empty() ? on : s->green ? s->green->sms : all_sms();
    streams.insert(s);
  }
  {
    std::lock_guard<std::mutex> l(s->mu); // not before its thread is its own
    s->thread = std::thread(run, s);
  }
  return s;
}
API cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
  ENTER(std::to_string(priority));
  CONTEXT;
  NEED(out && flags == 1, INVALID_VALUE); // non-blocking: nothing here uses the null stream
  *out = begin(priority, {});
  return OK;
}
API cuStreamDestroy_v2(Stream *s) {
  ENTER();
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(streams.count(s), INVALID_HANDLE);
    ALIVE(s->of);
    streams.erase(s);
  }
  end(s);
  return OK;
}
API cuStreamSynchronize(Stream *s) {
  ENTER();
  CONTEXT;
  NEED(ours(streams, s), INVALID_HANDLE);
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
  (*e)->of = family(), (*e)->made = current.ctx, (*e)->timed = !(flags & 2);
  events.insert(*e);
  return OK;
}
API cuEventDestroy_v2(Event *e) { // what is recorded still is awaited
  ENTER();
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(events.count(e), INVALID_HANDLE);
    ALIVE(e->of);
    events.erase(e);
  }
  {
    std::unique_lock<std::mutex> l(e->mu);
    e->cv.wait(l, [&] { return e->done == e->asked; });
  }
  gone(e);
  return OK;
}
API cuEventRecord(Event *e, Stream *s) {
  ENTER();
  CONTEXT;
  NEED(ours(events, e) && ours(streams, s), INVALID_HANDLE);
  NEED(e->made == s->made, INVALID_HANDLE); // "must be from the same context", cuda.h 12.9, line 16317: CUDA_ERROR_INVALID_HANDLE
  u64 n;
  {
    std::lock_guard<std::mutex> l(e->mu);
    n = ++e->asked;
  }
  return give(s, [=] {
    std::lock_guard<std::mutex> l(e->mu);
    e->done = n, e->at = __atomic_load_n(&events_too, __ATOMIC_RELAXED) ? fake_now() : host_ns();
    e->cv.notify_all();
  });
}
API cuEventQuery(Event *e) {
  ENTER();
  CONTEXT;
  NEED(ours(events, e), INVALID_HANDLE);
  // Who asks over and over has a processor of its own where there is a GPU; here the kernels need it.
  std::unique_lock<std::mutex> l(e->mu);
  return e->cv.wait_for(l, std::chrono::microseconds(20), [&] { return e->done == e->asked; }) ? OK : NOT_READY;
}
API cuEventElapsedTime(float *ms, Event *a, Event *b) {
  ENTER();
  CONTEXT;
  NEED(ms, INVALID_VALUE);
  NEED(a != b && ours(events, a) && ours(events, b), INVALID_HANDLE);
  std::scoped_lock l(a->mu, b->mu);
  NEED(a->asked && b->asked && a->timed && b->timed, INVALID_HANDLE); // cuda.h 12.9, lines 16512 and 16517
  NEED(a->done == a->asked && b->done == b->asked, NOT_READY);
  *ms = (float)((double)(i64)(b->at - a->at) / 1e6);
  return OK;
}

// ------------------------------------------------------------------ modules and launches
#ifndef HIP
static bool translatable(const char *image, std::string &text) {
  text = image;
  return text.find(".version") != std::string::npos && text.find(".target") != std::string::npos;
}
// PTX of 8.n is of CUDA 12.n.
static bool new_enough(const std::string &text) {
  int major = 0, minor = 0;
  if (sscanf(text.c_str() + text.find(".version"), ".version %d.%d", &major, &minor) != 2) return false;
  return (major + 4) * 1000 + minor * 10 <= version;
}
static std::string entry(const std::string &name) { return ".entry " + name + "("; }
#endif
// load keeps kernels; of: the generation of their context, 0: of none.
static int load(const char *call, Module **m, const char *image, int limit, u64 of) {
  std::string text;
  if (!translatable(image, text)) return fault(call, "translatable(image)", INVALID_PTX);
  if (!new_enough(text)) return UNSUPPORTED_PTX_VERSION; // not the caller's fault
  std::lock_guard<std::mutex> l(mu);
  *m = new Module{text, of, 0, limit, {}};
  modules.insert(*m);
  return OK;
}
// unload forgets them. Under mu.
static void unload(Module *m) {
  modules.erase(m);
  gone(m);
}
// get finds a kernel: it must be in the PTX, or the object, and in the host's build.
static int get(Function **f, Module *m, const char *name) {
  std::lock_guard<std::mutex> l(mu);
  if (m->text.find(entry(name)) == std::string::npos) return NOT_FOUND;
  const Kernel *k = kernel_of(name);
  if (!k) return NOT_FOUND;
  for (Function &x : m->functions)
    if (!x.kernel || x.kernel == k) {
      if (!x.kernel) x = {k, m}; // a launch reads it
      *f = &x;
      return OK;
    }
  return NOT_FOUND;
}
#ifdef HIP
API cuModuleLoadDataEx(Module **m, const char *image, unsigned n, const int *options, void **values) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(m && image && n <= 1 && (n == 0 || (options[0] == 0 && (size_t)values[0] >= 16)), INVALID_VALUE);
  return load(__func__, m, image, 0, my_family());
}
API cuModuleUnload(Module *m) {
  ENTER();
  CONTEXT;
  std::lock_guard<std::mutex> l(mu);
  NEED(modules.count(m) && m->of == family(), INVALID_HANDLE);
  NEED(m->busy == 0, INVALID_VALUE); // a kernel of it is under way
  unload(m);
  return OK;
}
API cuModuleGetFunction(Function **f, Module *m, const char *name) {
  ENTER(name ? name : "");
  CONTEXT;
  NEED(f && name, INVALID_VALUE);
  NEED(ours(modules, m), INVALID_HANDLE);
  return get(f, m, name);
}
#else
// A library is of no context: it is "loaded eagerly into all contexts" (cuda.h 12.9, line 8178), or into each that needs it.
API cuLibraryLoadData(Module **m, const char *image, const int *options, void **values, unsigned n, const int *own, void **own_values, unsigned own_n) {
  ENTER(std::to_string(n));
  CONTEXT;
  NEED(m && image && n <= 1 && (n == 0 || (options[0] == 0 && (size_t)values[0] >= 16)) && !own && !own_values && !own_n, INVALID_VALUE);
  return load(__func__, m, image, n ? (int)(size_t)values[0] : 0, 0);
}
API cuLibraryUnload(Module *m) {
  ENTER();
  std::lock_guard<std::mutex> l(mu);
  NEED(modules.count(m), INVALID_VALUE);
  NEED(m->busy == 0, INVALID_VALUE); // a kernel of it is under way
  unload(m);
  return OK;
}
API cuLibraryGetKernel(Function **f, Module *m, const char *name) {
  ENTER(name ? name : "");
  NEED(f && name, INVALID_VALUE);
  NEED(known(modules, m), INVALID_HANDLE);
  return get(f, m, name);
}
#endif
#ifndef HIP
static unsigned seen(unsigned sm) { return sm; }
#endif
// function says whether a handle is one that a stream's context can run. Under mu.
static bool function(const Function *f) {
  for (Module *m : modules)
    for (const Function &x : m->functions)
      if (&x == f && x.kernel) return !m->of || m->of == family();
  return false;
}
static int attribute(int *v, int what, const Function *f) {
  int limit = f->module->limit ? f->module->limit : 255;
  int words = !strcmp(f->kernel->name, "sluice_padded") ? std::min(limit, UNBOUNDED) : BOUNDED; // bounds go before a limit
  *v = what == 0 ? 1024 : what == 4 ? words : 0; // threads a block, registers a thread
  return OK;
}
#ifdef HIP
API cuFuncGetAttribute(int *v, int what, const Function *f) {
  ENTER(std::to_string(what));
  CONTEXT;
  NEED(v && what >= 0 && what < 10, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  NEED(function(f), INVALID_HANDLE);
  return attribute(v, what, f);
}
#else
API cuKernelGetAttribute(int *v, int what, const Function *f, int dev) {
  ENTER(std::to_string(what));
  NEED(v && what >= 0 && what < 10, INVALID_VALUE);
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  std::lock_guard<std::mutex> l(mu);
  NEED(function(f), INVALID_HANDLE);
  return attribute(v, what, f);
}
#endif
// touches is where a kernel's memory is, an address in each allocation.
static std::vector<u64> touches(const Kernel *f, void **params) {
  std::vector<u64> all;
  auto layer = [&](const Layer &l) {
    if (l.blocks) all.insert(all.end(), {l.slots + (u64)l.stride * l.sample[0], l.control, l.weights, l.bias});
  };
  if (f->sizes[0] == sizeof(Layer))
    layer(*(const Layer *)params[0]);
  else if (f->sizes[0] == sizeof(Roles))
    for (const Layer &l : ((const Roles *)params[0])->role) layer(l);
  else
    for (unsigned i = 0; i < f->args; i += 2) all.push_back(*(u64 *)params[i]); // a number is in no allocation
  return all;
}
API cuLaunchKernel(const Function *h, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   Stream *s, void **params, void **extra) {
  ENTER(std::to_string(gx) + " x " + std::to_string(bx));
  CONTEXT;
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(function(h), INVALID_HANDLE);
  }
  const Kernel *f = h->kernel;
  Module *m = h->module;
  NEED(ours(streams, s), INVALID_HANDLE);
  u64 of = s->of;
  NEED(gx > 0 && gy == 1 && gz == 1 && bx == THREADS_N && by == 1 && bz == 1 && params && !extra, INVALID_VALUE);
  NEED(shared <= 48 << 10, INVALID_VALUE);
  // The driver copies the arguments before it returns.
  auto args = std::make_shared<std::vector<std::vector<u64>>>();
  for (unsigned i = 0; i < f->args; i++) {
    std::vector<u64> a((f->sizes[i] + 7) / 8);
    memcpy(a.data(), params[i], f->sizes[i]);
    args->push_back(std::move(a));
  }
  const std::vector<u64> touched = touches(f, params);
  auto in_use = [=](int by) {
    std::lock_guard<std::mutex> l(mu);
    if (modules.count(m)) m->busy += by;
    for (Blocks *all : {&device_memory, &host_memory})
      for (u64 at : touched)
        if (auto i = find(*all, at, 1, of); i != all->end()) i->second.busy += by;
  };
  in_use(1);
  auto over = [=] { in_use(-1); };
  int code = give(s, [=] {
    std::vector<void *> p;
    for (auto &a : *args) p.push_back(a.data());
    bool good = true;
    if (f->sizes[0] == sizeof(Layer)) {
      good = legal(*(const Layer *)p[0], of) && gx == ((const Layer *)p[0])->blocks;
    } else if (f->sizes[0] == sizeof(Roles)) {
      unsigned blocks = 0;
      for (const Layer &l : ((const Roles *)p[0])->role) blocks += l.blocks, good = good && (!l.blocks || legal(l, of));
      good = good && blocks == gx;
    } else if (!strcmp(f->name, "sluice_clock")) {
      good = inside(host_memory, *(u64 *)p[0], 8, of);
    } else if (!strcmp(f->name, "sluice_stream")) {
      good = inside(device_memory, *(u64 *)p[0], 8 * *(u64 *)p[1], of) && inside(device_memory, *(u64 *)p[2], 4, of) && *(u64 *)p[4] == gx;
    } else {
      good = inside(device_memory, *(u64 *)p[0], (size_t)gx * 32, of);
    }
    if (!good) {
      over();
      std::lock_guard<std::mutex> l(mu);
      if (Primary *own = primary_of(of)) __atomic_store_n(&own->sticky, ILLEGAL_ADDRESS, __ATOMIC_RELAXED);
      return;
    }
    Watch w;
    {
      std::lock_guard<std::mutex> l(watch_mu);
      w = watch_of_all;
    }
    std::vector<unsigned> on_sms;
    for (unsigned sm : s->sms)
      if (!s->inner->disables(sm)) on_sms.push_back(sm);
    if (on_sms.empty()) { // it would hang
      fault("cuLaunchKernel", "a mask without a TPC", LAUNCH_FAILED);
      on_sms = s->sms;
    }
    const int *sticky = nullptr; // an error of a kernel's ends all of its context
    {
      std::lock_guard<std::mutex> l(mu);
      if (Primary *own = primary_of(of)) sticky = &own->sticky;
    }
    const Layer *one = f->sizes[0] == sizeof(Layer) ? (const Layer *)p[0] : nullptr;
    if (one || f->sizes[0] == sizeof(Roles)) spend(pace_ns);
    bool left = one && spoil(*one);
    for (unsigned b = 0; b < gx && !(sticky && LOAD(*sticky)); b++) {
      Host on{seen(on_sms[b % on_sms.size()]), gx, w.look ? &w : nullptr, sticky};
      f->run(p.data(), b, &on);
    }
    if (one) spoiled(*one, left);
    over();
  });
  if (code) over();
  return code;
}

#ifndef HIP
// ------------------------------------------------------------------ green contexts
struct Resource { // CUdevResource of 12.4 to 12.9: a type, padding, the number of SMs
  unsigned type;
  unsigned char padding[92];
  unsigned sms, first, split; // first: which they are, in what the driver keeps to itself; split: of which split
  int dev;
  unsigned char rest[32];
};
static_assert(sizeof(Resource) == 144, "CUdevResource");

static unsigned splits; // so far
static bool merges = true, coarse, elsewhere, undivided;
// fake_splits says how the driver divides: whether it merges sets of a split, whether it rounds sizes up to twice
// the least one (1) or takes those that are larger from the other end (2), whether it can at all.
extern "C" __attribute__((visibility("default"))) void fake_splits(int merges_, int coarse_, int undivided_) {
  std::lock_guard<std::mutex> l(mu);
  merges = merges_ != 0, coarse = coarse_ == 1, elsewhere = coarse_ == 2, undivided = undivided_ != 0;
}

API cuDeviceGetDevResource(int dev, Resource *r, int type) {
  ENTER();
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  NEED(r, INVALID_VALUE);
  NEED(type == 1, INVALID_RESOURCE_TYPE);
  if (undivided) return NOT_SUPPORTED;
  memset(r, 0, sizeof *r);
  r->type = 1, r->sms = sms, r->first = 0, r->dev = dev;
  return OK;
}
API cuDevSmResourceSplitByCount(Resource *out, unsigned *groups, const Resource *in, Resource *rest, unsigned flags, unsigned least_) {
  ENTER(std::to_string(least_));
  NEED(groups && in && flags == 0, INVALID_VALUE);
  NEED(in->type == 1, INVALID_RESOURCE_TYPE);
  NEED(!in->split, INVALID_RESOURCE_CONFIGURATION); // "output results cannot be split again", cuda.h 12.9, line 25527
  unsigned step = coarse && least_ > SPLIT ? 2 * SPLIT : SPLIT;
  unsigned each = std::max(step, (least_ + step - 1) / step * step), most = in->sms / each;
  if (each == SPLIT && most > 1 && in->sms % each) most--; // what is left is as large as a set, as 12 of 132 on an H100
  std::lock_guard<std::mutex> l(mu);
  NEED(most > 0, INVALID_RESOURCE_CONFIGURATION);
  if (!out) {
    *groups = most;
    return OK;
  }
  *groups = std::min(*groups, most);
  for (unsigned i = 0; i < *groups; i++) {
    out[i] = *in;
    out[i].sms = each, out[i].first = in->first + (elsewhere && each > SPLIT ? in->sms - (i + 1) * each : i * each), out[i].split = splits + 1;
  }
  if (rest) {
    *rest = *in;
    rest->split = splits + 1, rest->first = in->first + *groups * each, rest->sms = in->sms - *groups * each;
    if (!rest->sms) rest->type = 0;
  }
  splits++;
  return OK;
}
API cuDevResourceGenerateDesc(u64 *desc, Resource *rs, unsigned n) {
  ENTER(std::to_string(n));
  NEED(desc && rs && n > 0, INVALID_VALUE);
  if (n > 1 && !merges) return INVALID_RESOURCE_CONFIGURATION; // which may be asked
  for (unsigned i = 1; i < n; i++) {
    NEED(rs[i].dev == rs[0].dev, INVALID_RESOURCE_CONFIGURATION); // "the device they came from must be the same", cuda.h 12.9, line 25588
    NEED(rs[i].split && rs[i].split == rs[0].split, INVALID_RESOURCE_CONFIGURATION); // "from the same split", line 25591
  }
  auto v = std::make_unique<std::vector<unsigned>>();
  for (unsigned i = 0; i < n; i++) {
    NEED(rs[i].type == 1, INVALID_RESOURCE_TYPE);
    for (unsigned k = 0; k < rs[i].sms; k++) v->push_back(rs[i].first + k);
  }
  std::sort(v->begin(), v->end());
  NEED(std::unique(v->begin(), v->end()) == v->end(), INVALID_RESOURCE_CONFIGURATION);
  std::lock_guard<std::mutex> l(mu);
  descs.emplace_back(rs[0].dev, std::move(v));
  *desc = descs.size();
  return OK;
}
API cuGreenCtxCreate(Green **g, u64 desc, int dev, unsigned flags) {
  ENTER();
  NEED(dev >= 0 && dev < gpus, INVALID_DEVICE);
  NEED(g && flags == 1, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  NEED(desc >= 1 && desc <= descs.size() && descs[desc - 1].first == dev, INVALID_VALUE);
  NEED(primaries[dev].retained > 0, INVALID_CONTEXT); // it would make the primary context, and with the last green one lose it
  ALIVE(primaries[dev].generation);
  primaries[dev].retained++;
  spend(DIVIDE_NS);
  *g = new Green{*descs[desc - 1].second, primaries[dev].generation, last_generation += 2};
  greens.insert(*g);
  return OK;
}
API cuGreenCtxDestroy(Green *g) {
  ENTER();
  int dev = 0;
  {
    std::lock_guard<std::mutex> l(mu);
    NEED(greens.count(g), INVALID_CONTEXT);
    ALIVE(g->of);
    for (Stream *s : streams) NEED(s->green != g, INVALID_CONTEXT);
    while (primaries[dev].generation != g->of) dev++;
    greens.erase(g);
    gone(g);
  }
  return let_go(dev);
}
API cuGreenCtxGetDevResource(Green *g, Resource *r, int type) {
  ENTER();
  std::lock_guard<std::mutex> l(mu);
  NEED(greens.count(g), INVALID_CONTEXT);
  ALIVE(g->of);
  NEED(r, INVALID_VALUE);
  NEED(type == 1, INVALID_RESOURCE_TYPE);
  memset(r, 0, sizeof *r);
  r->type = 1, r->sms = (unsigned)g->sms.size(), r->first = g->sms[0];
  while (primaries[r->dev].generation != g->of) r->dev++;
  return OK;
}
API cuCtxFromGreenCtx(u64 *ctx, Green *g) {
  ENTER();
  NEED(ctx, INVALID_VALUE);
  std::lock_guard<std::mutex> l(mu);
  NEED(greens.count(g), INVALID_CONTEXT);
  ALIVE(g->of);
  *ctx = g->ctx;
  return OK;
}
#endif
