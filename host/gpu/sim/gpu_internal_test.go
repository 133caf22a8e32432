package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"pgregory.net/rapid"
)

// params has round numbers, so that times can be computed by hand.
func params() Params {
	return Params{
		SMs: 8, Unit: 2, SM: kernel.Occupancy{Threads: 1024, Blocks: 8, Regs: 65536, Shared: 65536},
		Bandwidth: 100, Up: 10, Down: 10, LinkNs: 100,
		LaunchNs: 10, TransferNs: 20, DispatchNs: 30, Queue: 4,
		ResetNs: 1000, ReclaimNs: 100, EvictNs: 500, EvictEach: 50, KillNs: 300, PadShare: 0.01,
	}
}

func one(k kernel.Kernel) *Program {
	if k.Threads == 0 {
		k.Threads = 256
	}
	if k.Issue == 0 {
		k.Issue = 0.5
	}
	p, err := Load(&kernel.Program{Name: "one", Memory: 64, Kernels: []kernel.Kernel{k}, Exits: []int{0}})
	if err != nil {
		panic(err)
	}
	return p
}

func item(p *Program, k int, m *Memory) *Item {
	return &Item{Parts: []Part{{Program: p, Kernel: k, Memory: m}}}
}

func (g *GPU) until(t Time) (events []Event) {
	for g.Now() < t && g.Next() != Never {
		events = g.Advance(t, events)
	}
	return events
}

// ended returns the time at which each item ended.
func ended(events []Event) map[*Item]Time {
	out := map[*Item]Time{}
	for _, e := range events {
		if e.Kind == Done {
			out[e.Item] = e.At
		}
	}
	return out
}

// Times of one kernel by hand: launch 10, transfer 20, dispatch 30, then its waves.
func TestWaves(t *testing.T) {
	for _, c := range []struct {
		name string
		k    kernel.Kernel
		want Time
	}{
		{"one block", kernel.Kernel{Blocks: 1, BlockNs: 1000}, 1060},
		{"one on each SM", kernel.Kernel{Blocks: 8, BlockNs: 1000}, 1060},
		{"two on each, which fill the SM", kernel.Kernel{Blocks: 16, BlockNs: 1000}, 1060},
		{"four on each, at half speed", kernel.Kernel{Blocks: 32, BlockNs: 1000}, 2060},
		{"two waves of four", kernel.Kernel{Blocks: 64, BlockNs: 1000}, 4060},
		{"bounded by registers: two at a time", kernel.Kernel{Blocks: 32, BlockNs: 1000, Regs: 128}, 2060},
		{"bounded by shared memory: one at a time", kernel.Kernel{Blocks: 32, BlockNs: 1000, Shared: 40000}, 4060},
		{"short of bandwidth: 200 bytes/ns asked, 100 there", kernel.Kernel{Blocks: 8, BlockNs: 1000, Bytes: 200_000}, 2060},
		{"bandwidth enough", kernel.Kernel{Blocks: 8, BlockNs: 1000, Bytes: 100_000}, 1060},
	} {
		g, err := New(params())
		if err != nil {
			t.Fatal(err)
		}
		p := one(c.k)
		it := item(p, 0, p.Memory(1))
		g.Launch(g.Stream(0), it)
		if got := ended(g.until(1e6))[it]; got != c.want {
			t.Errorf("%s: ended at %d, expected %d", c.name, got, c.want)
		}
	}
}

// Two kernels: on separate SMs each takes its time alone; on the same SMs they share.
func TestMasks(t *testing.T) {
	run := func(second Set) (a, b Time) {
		g, _ := New(params())
		p := one(kernel.Kernel{Blocks: 8, BlockNs: 1000})
		s1, s2 := g.Stream(0), g.Stream(0)
		g.Mask(s1, All(4))
		g.Mask(s2, second)
		x, y := item(p, 0, p.Memory(1)), item(p, 0, p.Memory(2))
		g.Launch(s1, x)
		g.Launch(s2, y)
		at := ended(g.until(1e6))
		return at[x], at[y]
	}
	if a, b := run(All(8).Without(All(4))); a != 1060 || b != 1060 {
		t.Errorf("apart: ended at %d and %d, expected 1060", a, b)
	}
	if a, b := run(All(4)); a != 2060 || b != 2060 {
		t.Errorf("on the same SMs: ended at %d and %d, expected 2060", a, b)
	}
}

// Higher priority gets free room first; running blocks are not stopped.
func TestPriority(t *testing.T) {
	g, _ := New(params())
	low, high := g.Stream(0), g.Stream(1)
	p := one(kernel.Kernel{Blocks: 64, BlockNs: 1000})
	q := one(kernel.Kernel{Blocks: 32, BlockNs: 1000})
	a, b := item(p, 0, p.Memory(1)), item(q, 0, q.Memory(1))
	g.Launch(low, a)
	g.until(100)
	g.Launch(high, b)
	at := ended(g.until(1e6))
	if at[b] != 4060 || at[a] != 6060 {
		t.Errorf("high ended at %d, low at %d; expected 4060 (behind the first wave) and 6060", at[b], at[a])
	}
}

func TestEvict(t *testing.T) {
	for _, c := range []struct {
		name string
		how  Eviction
		want Time // Evicted
	}{
		// at 200: reset until 1200, kill until 1500, then four kernels end themselves: 500 + 3 * 50
		{"kill", Eviction{Kill: true}, 200 + 1000 + 300 + 500 + 2*50},
		// the host's queue has 8 - 1 - 3 = 4 kernels left
		{"kill and reclaim", Eviction{Kill: true, Reclaim: true}, 200 + 1000 + 4*100 + 300 + 500 + 2*50},
		{"wait", Eviction{}, 10_060 + 500 + 2*50},
	} {
		g, _ := New(params())
		s := g.Stream(0)
		p := one(kernel.Kernel{Blocks: 8, BlockNs: 10_000})
		m := p.Memory(1)
		for range 8 {
			g.Launch(s, item(p, 0, m))
		}
		events := g.until(200)
		events = g.Evict(s, c.how, events)
		events = append(events, g.until(1e6)...)
		count := map[EventKind]int{}
		for _, e := range events {
			count[e.Kind]++
			if e.Kind == Evicted && e.At != c.want {
				t.Errorf("%s: empty at %d, expected %d", c.name, e.At, c.want)
			}
		}
		if count[Evicted] != 1 || count[Done]+count[Killed]+count[Dropped] != 8 || (count[Killed] == 1) != c.how.Kill || !g.Idle(s) {
			t.Errorf("%s: %v", c.name, count)
		}
	}
}

func TestCopies(t *testing.T) {
	g, _ := New(params())
	a, b := g.Stream(0), g.Stream(0)
	up := one(kernel.Kernel{Kind: kernel.Upload, Bytes: 10_000})
	down := one(kernel.Kernel{Kind: kernel.Fetch, Bytes: 10_000})
	x, y, z := item(up, 0, up.Memory(1)), item(up, 0, up.Memory(2)), item(down, 0, down.Memory(3))
	g.Launch(a, x)
	g.Launch(b, y)
	g.Launch(a, z)
	at := ended(g.until(1e6))
	if at[x] != 60+1100 || at[y] != 60+2200 || at[z] != at[x]+30+1100 {
		t.Errorf("ended at %d, %d, %d", at[x], at[y], at[z])
	}
}

// program returns n random kernels over a few buffers, some in place.
func program(rng *rand.Rand, n int) *Program {
	p := &kernel.Program{Name: "random", Memory: 8, Exits: []int{n - 1}}
	for range n {
		from, to := rng.Int64N(8), rng.Int64N(8)
		p.Kernels = append(p.Kernels, kernel.Kernel{
			Blocks: 1 + rng.IntN(60), Threads: 64 << rng.IntN(4), Regs: rng.IntN(64), Issue: 0.1 + 0.9*rng.Float64(),
			BlockNs: float64(200 + rng.IntN(3000)), Bytes: rng.Int64N(400_000),
			Reads: []kernel.Span{{From: from, To: from + 1}}, Writes: []kernel.Span{{From: to, To: to + 1}},
		})
		if k := &p.Kernels[len(p.Kernels)-1]; rng.IntN(8) == 0 {
			*k = kernel.Kernel{Kind: kernel.Memset, Bytes: 1 + rng.Int64N(400_000), Writes: k.Writes}
		}
	}
	q, err := Load(p)
	if err != nil {
		panic(err)
	}
	return q
}

// Modelling SMs in classes gives the same events as modelling each SM; and every item ends once.
func TestClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		play := func(apart bool) (log []string) {
			rng := rand.New(rand.NewPCG(seed, 1))
			hw := params()
			hw.Hardware = rng.IntN(4)
			g, _ := New(hw)
			if g.apart = apart; apart {
				g.classes = nil
				for i := range g.p.SMs {
					g.classes = append(g.classes, &class{sms: All(i + 1).Without(All(i)), n: 1})
				}
			}
			launched, finished := 0, 0
			var streams []int
			for range 3 {
				s := g.Stream(rng.IntN(2))
				if rng.IntN(2) == 0 {
					g.Mask(s, All(1+rng.IntN(8)).Without(All(rng.IntN(4))).or(All(1)))
				}
				streams = append(streams, s)
			}
			var events []Event
			for range 12 {
				s := streams[rng.IntN(3)]
				if rng.IntN(4) == 0 {
					events = g.Evict(s, Eviction{Kill: rng.IntN(2) == 0, Reclaim: rng.IntN(2) == 0}, events)
				} else {
					p := program(rng, 1+rng.IntN(5))
					m := p.Memory(rng.Uint64())
					for k := range p.Kernels {
						it := item(p, k, m)
						it.Tag = uint64(launched)
						launched++
						g.Launch(s, it)
					}
				}
				to := g.now + rng.Int64N(20_000)
				for g.Now() < to && g.Next() <= to {
					events = g.Advance(to, events)
				}
				g.pass(to)
			}
			events = append(events, g.until(math.MaxInt64-1)...)
			for _, e := range events {
				if e.Item != nil {
					finished++
					log = append(log, fmt.Sprint(e.At, e.Kind, e.Stream, e.Item.Tag))
				} else {
					log = append(log, fmt.Sprint(e.At, e.Kind, e.Stream))
				}
			}
			if launched != finished {
				t.Fatalf("%d items launched, %d ended", launched, finished)
			}
			if sms, threads := g.Busy(); sms != 0 || threads != 0 {
				t.Fatalf("with all ended, %v of the SMs and %v of the threads are taken", sms, threads)
			}
			return log
		}
		a, b := play(false), play(true)
		if !slices.Equal(a, b) {
			for i := range a {
				if i >= len(b) || a[i] != b[i] {
					t.Fatalf("event %d: as classes %s, one by one %v", i, a[i], b[min(i, len(b)-1)])
				}
			}
			t.Fatalf("as classes %d events, one by one %d", len(a), len(b))
		}
	})
}

// A device queue never holds more kernels than its limit, including the running one, with any launches, evictions and
// pauses. If more kernels come, it fills up.
func TestQueue(t *testing.T) {
	full := 0
	rapid.Check(t, func(t *rapid.T) {
		p := params()
		p.Queue = rapid.IntRange(1, 6).Draw(t, "queue")
		p.Hardware = rapid.IntRange(0, 2).Draw(t, "hardware queues")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		streams := []int{g.Stream(0), g.Stream(1)}
		var events []Event
		for range 10 {
			s := streams[rng.IntN(2)]
			switch rng.IntN(6) {
			case 0:
				events = g.Evict(s, Eviction{Kill: rng.IntN(2) == 0, Reclaim: rng.IntN(2) == 0}, events[:0])
			case 1:
				g.Pause(s, rng.IntN(2) == 0)
			default:
				q := program(rng, 1+rng.IntN(12))
				m := q.Memory(rng.Uint64())
				for k := range q.Kernels {
					g.Launch(s, item(q, k, m))
				}
			}
			for to := g.now + rng.Int64N(20_000); g.Next() <= to; {
				events = g.Advance(g.Next(), events[:0])
				for s := range g.streams {
					st := &g.streams[s]
					n := st.device.len()
					if st.state == running {
						n++
					}
					if n > p.Queue {
						t.Fatalf("stream %d holds %d kernels, at most %d", s, n, p.Queue)
					}
					if n == p.Queue {
						full++
					}
				}
			}
		}
	})
	if full == 0 {
		t.Error("no device queue was ever full: nothing was looked at")
	}
}

func BenchmarkKernel(b *testing.B) {
	g, _ := New(params())
	rng := rand.New(rand.NewPCG(1, 1))
	p := program(rng, 64)
	var memories []*Memory
	var streams []int
	for range 2 {
		streams = append(streams, g.Stream(0))
		memories = append(memories, p.Memory(1))
	}
	items := make([]*Item, 2)
	for i := range items {
		items[i] = item(p, 0, memories[i])
		g.Launch(streams[i], items[i])
	}
	var events []Event
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		events = g.Advance(Never-1, events[:0])
		for _, e := range events {
			e.Item.Parts[0].Kernel = (e.Item.Parts[0].Kernel + 1) % 64
			g.Launch(e.Stream, e.Item)
			n++
		}
	}
}
