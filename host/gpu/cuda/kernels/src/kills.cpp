// Kills at every place and restores, on the host's build of the kernels: kills FILE SEED KILLS MODE
//
// FILE holds programs (kills_test.go writes it): layers, weights, a slot before, and for each layer from
// which one on the program is taken up when that was stopped. A trial runs a program with up to DEPTH
// kernels queued, stops it wherever a block looks at its epoch, chosen at random, goes on as the table
// says, up to four times, and compares the whole slot with that of an undisturbed run, whose
// kernels are of one tile a block. Each kernel is launched in two parts, as where a part of it has padded.
//
// It says first what undisturbed runs leave, as a hash.
//
// MODE: epoch; boolean: the mark is taken back before the queue has emptied; short: it goes on one kernel
// later than it should; threads: a kernel's blocks run on two threads, of which one stops both. A kill is
// one that a block has left by.
//
// It is compiled five times in a test run, so it does without the library's larger headers.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "entries_cpu.hpp"

enum { DEPTH_OF_QUEUE = 4 };

struct Program {
  std::vector<Layer> layers;
  std::vector<int32_t> entries;
  std::vector<char> before;
  std::vector<u64> blob; // 8-byte aligned
};

static std::vector<Program> load(const char *name) {
  FILE *f = fopen(name, "rb");
  if (!f) perror(name), exit(2);
  auto get = [&](void *to, size_t n) {
    if (n && fread(to, n, 1, f) != 1) fprintf(stderr, "%s is too short\n", name), exit(2);
  };
  u32 n;
  get(&n, 4);
  std::vector<Program> out(n);
  for (Program &p : out) {
    u32 layers, slot, blob;
    get(&layers, 4), get(&slot, 4), get(&blob, 4);
    p.layers.resize(layers), p.entries.resize(layers), p.before.resize(slot), p.blob.resize((blob + 7) / 8);
    get(p.layers.data(), layers * sizeof(Layer));
    get(p.entries.data(), layers * 4);
    get(p.before.data(), slot);
    get(p.blob.data(), blob);
  }
  fclose(f);
  return out;
}

struct Run {
  const Program &p;
  Control control{1, ~0u, ~0ull, 0};
  std::vector<char> slot;
  long looks = 0, stop_at = -1; // of one thread
  size_t now = 0;               // the kernel that runs
  explicit Run(const Program &q) : p(q), slot(q.before) {}

  static void look(void *of) {
    Run *r = (Run *)of;
    const bool due = r->looks++ >= r->stop_at && r->stop_at >= 0;
    if (!due || r->p.entries[r->now] < 0) return; // as the launcher, which awaits a kernel that nothing leads back to
    r->stop_at = -1;
    __atomic_store_n(&r->control.epoch, r->control.epoch + 1, __ATOMIC_RELEASE);
  }

  // ready is a kernel's first part of two, or its second one; each is how many tiles a block has.
  Layer ready(size_t i, u32 epoch, bool rest, u32 each = 0) {
    Layer l = p.layers[i];
    if (!each) each = l.blocks;
    l.slots = (u64)slot.data(), l.control = (u64)&control;
    l.weights += (u64)p.blob.data(), l.bias += (u64)p.blob.data();
    l.epoch = epoch, l.index = (u32)i;
    l.tiles_p = (u32)(l.out_h * l.out_w + PIXELS - 1) / PIXELS, l.tiles_c = (u32)(l.out_c + CHANNELS - 1) / CHANNELS;
    const u32 tiles = l.tiles_p * l.tiles_c, cut = (u32)((i + epoch) * 7 % (tiles + 1)); // another one when it is run again
    l.from = rest ? cut : 0, l.to = rest ? tiles : cut;
    l.blocks = (l.to - l.from + each - 1) / each;
    const i32 row = l.k_w * l.in_c;
    l.depth = l.k_h * row, l.step_y = DEPTH / row, l.step_x = DEPTH % row / l.in_c, l.step_c = DEPTH % row % l.in_c;
    return l;
  }

  void kernel(size_t i, u32 epoch, u32 each = 0) {
    now = i;
    Watch w{look, this};
    for (bool rest : {false, true}) {
      const Layer l = ready(i, epoch, rest, each);
      for (u32 b = 0; b < l.blocks; b++) alone(l, b, &w);
    }
  }
};

// Two threads take the blocks of a program's kernels, kernel by kernel; whichever comes to the look that is drawn stops
// both. What is counted for that orders nothing between them, so that a sanitizer sees the kernels' own order alone.
struct Pair {
  pthread_barrier_t both, ends; // which sleep at once: atomics' wait gives the processor away again and again first
  long looks = 0, stop_at = -1; // by relaxed atomics alone
  std::vector<Layer> todo;
  const std::vector<int32_t> *entries = nullptr;
  unsigned *epoch = nullptr;
  pthread_t threads[2];

  Pair() {
    pthread_barrier_init(&both, nullptr, 2), pthread_barrier_init(&ends, nullptr, 3);
    const auto begin = [](pthread_t *t, void *(*f)(void *), void *of) {
      if (pthread_create(t, nullptr, f, of)) fprintf(stderr, "no thread\n"), exit(2);
    };
    begin(&threads[0], [](void *p) -> void * { return ((Pair *)p)->serve(0), nullptr; }, this);
    begin(&threads[1], [](void *p) -> void * { return ((Pair *)p)->serve(1), nullptr; }, this);
  }

  struct At {
    Pair *pair;
    const Layer *l;
  };
  static void look(void *of) {
    const auto [pair, l] = *(At *)of;
    const long n = __atomic_fetch_add(&pair->looks, 1, __ATOMIC_RELAXED);
    long at = __atomic_load_n(&pair->stop_at, __ATOMIC_RELAXED);
    if (at < 0 || n < at || (*pair->entries)[l->index] < 0) return;
    if (__atomic_compare_exchange_n(&pair->stop_at, &at, -1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) __atomic_store_n(pair->epoch, l->epoch + 1, __ATOMIC_RELEASE);
  }

  void serve(u32 me) {
    for (;; pthread_barrier_wait(&ends)) {
      pthread_barrier_wait(&ends);
      if (todo.empty()) return;
      for (const Layer &l : todo) {
        At at{this, &l};
        Watch w{look, &at};
        for (u32 k = me; k < l.blocks; k += 2) alone(l, k, &w);
        pthread_barrier_wait(&both);
      }
    }
  }
  // run does what it is given, and stops it at a look, where it is to.
  void run(std::vector<Layer> all, long stop, const std::vector<int32_t> &back, unsigned *at) {
    todo = std::move(all), entries = &back, epoch = at, looks = 0, stop_at = stop;
    pthread_barrier_wait(&ends), pthread_barrier_wait(&ends);
  }
  ~Pair() {
    todo.clear(), pthread_barrier_wait(&ends);
    for (pthread_t t : threads) pthread_join(t, nullptr);
  }
};

// draw is splitmix64's next number.
static u64 draw(u64 &state) {
  u64 z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u, z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int main(int argc, char **argv) {
  if (argc != 5) fprintf(stderr, "usage: kills FILE SEED KILLS MODE\n"), exit(2);
  std::vector<Program> all = load(argv[1]);
  u64 rng = strtoull(argv[2], nullptr, 10);
  const long want = atol(argv[3]);
  const auto mode = [&](const char *name) { return !strcmp(argv[4], name); };
  long kills = 0, unseen = 0, trials = 0, differ = 0, back = 0, looks = 0, lost = 0;
  std::vector<std::vector<char>> good;
  std::vector<long> total;
  Pair *pair = mode("threads") ? new Pair : nullptr;
  for (const Program &p : all) {
    Run r(p);
    for (size_t i = 0; i < p.layers.size(); i++) r.kernel(i, 1, 1);
    good.push_back(r.slot), total.push_back(r.looks), looks += r.looks;
  }
  while (kills < want && trials < 10 * want) { // without a kill it ends too
    size_t which = draw(rng) % all.size();
    const Program &p = all[which];
    Run r(p);
    trials++;
    size_t at = 0, n = p.layers.size();
    long here = 0;      // kills of this run, which count once its memory has been compared
    bool lost_it = false;
    for (int left = (int)(1 + draw(rng) % 4); at < n;) {
      u32 epoch = r.control.epoch;
      r.control.stopped = ~0u;
      r.looks = 0, r.stop_at = left-- > 0 ? (long)(draw(rng) % (u64)total[which]) : -1;
      size_t i = at, queued = 0;
      if (pair) {
        std::vector<Layer> rest;
        for (; i < n; i++)
          for (bool second : {false, true}) rest.push_back(r.ready(i, epoch, second));
        pair->run(rest, r.stop_at, p.entries, &r.control.epoch);
      }
      for (; i < n && (r.control.epoch == epoch || queued < DEPTH_OF_QUEUE); i++) {
        queued = r.control.epoch == epoch ? 0 : queued + 1;
        r.kernel(i, epoch);
        if (mode("boolean") && r.control.epoch != epoch) {
          // taken back: those behind it run
          __atomic_store_n(&r.control.epoch, epoch, __ATOMIC_RELEASE);
          r.stop_at = -1;
          for (queued = 1; queued < DEPTH_OF_QUEUE && i + 1 < n; queued++) r.kernel(++i, epoch);
          r.control.epoch = epoch + 1;
          i++;
          break;
        }
      }
      at = i;
      if (r.control.epoch == epoch) continue;
      if (r.control.stopped == ~0u) { // no block has seen it: what was queued has run
        unseen++;
        continue;
      }
      here++;
      u32 s = r.control.stopped;
      if (p.entries[s] < 0) { // the one before had ended when it was stopped, and nothing leads back from this one
        lost_it = true;
        break;
      }
      at = (size_t)p.entries[s];
      if (at < s) back++;
      if (mode("short") && at < s) at++;
    }
    if (lost_it) {
      lost += here;
      continue;
    }
    kills += here;
    if (r.slot != good[which]) differ++;
  }
  u64 sum = 14695981039346656037u; // FNV, of what undisturbed runs leave
  for (const std::vector<char> &slot : good)
    for (char c : slot) sum = (sum ^ (unsigned char)c) * 1099511628211u;
  printf("%016lx ", (unsigned long)sum);
  printf("%ld kills in %ld runs of %zu programs of %ld looks, %ld that no block saw, %ld went back over whole kernels, %ld not counted: %ld differ\n", kills, trials,
         all.size(), looks, unseen, back, lost, differ);
  delete pair;
  return 0;
}
