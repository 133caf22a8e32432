package gpu_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

func params() sim.Params {
	return sim.Params{
		SMs: 60, Unit: 1, SM: kernel.Occupancy{Threads: 2560, Blocks: 40, Regs: 65536, Shared: 65536},
		Bandwidth: 1024, Up: 12, Down: 12, LinkNs: 5000,
		LaunchNs: 2000, TransferNs: 8000, DispatchNs: 2000, Queue: 256,
		ResetNs: 3000, ReclaimNs: 140, EvictNs: 20_000, EvictEach: 3_700, KillNs: 3_000, RestartNs: 5000, PadShare: 0.008,
	}
}

var machine = catalogue.Machine{MACs: 110, Bandwidth: 1024, SMs: 60}

func network(name, style string, exits int) *gpu.Network {
	return &gpu.Network{
		Name: name,
		Program: func(batch int) (*kernel.Program, error) {
			return catalogue.Program(catalogue.Spec{Network: name, Style: style, Batch: batch, Exits: exits}, machine)
		},
		Exit: func(id device.RequestID, segment int) device.ExitResult {
			return device.ExitResult{Class: int(id), Confidence: float32((uint64(id)*2654435761+uint64(segment)*40503)%1000) / 1000}
		},
	}
}

// bed drives a device by hand in virtual time.
type bed struct {
	t    testing.TB
	d    *gpu.Device
	now  sim.Time
	work device.WorkID
	all  map[device.WorkID]*device.Work
	log  []device.Event
}

func newBed(t testing.TB, mode gpu.Mode, nets ...*gpu.Network) *bed {
	t.Helper()
	return bedWith(t, mode, params(), nets...)
}

func (b *bed) begin(w device.Work) device.WorkID {
	b.t.Helper()
	b.work++
	w.ID = b.work
	b.all[w.ID] = &w
	if _, err := b.d.Begin(context.Background(), b.now, &w); err != nil {
		b.t.Fatalf("%s: %v", w.Kind, err)
	}
	return w.ID
}

func (b *bed) launch(id device.LaunchID, network string, priority, batch, last int) device.WorkID {
	b.t.Helper()
	l := device.Launch{ID: id, Network: network, Last: last, Priority: priority}
	for i := range batch {
		r := device.RequestID(int(id)*100 + i)
		b.begin(device.Work{Kind: device.Copy, Network: network, Request: r})
		l.Requests = append(l.Requests, r)
		l.Theta = append(l.Theta, 0.7)
	}
	return b.begin(device.Work{Kind: device.Run, Launch: l})
}

func (b *bed) until(t sim.Time) {
	for {
		at, ok := b.d.Next()
		if !ok || at > t {
			break
		}
		b.now = max(b.now, at)
		for ev := b.d.Take(at); ev != nil; ev = b.d.Take(at) {
			b.log = append(b.log, *ev)
		}
	}
	b.now = max(b.now, t)
}

func mode(t testing.TB, name string) gpu.Mode {
	m, err := gpu.ModeOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// killsFlag is the number of kernels to stop in each mode; 2,000 nightly, 10,000 weekly.
var (
	killsFlag = flag.Int("kills", 600, "kernels to be stopped under each mode")
	seedFlag  = flag.Uint64("seed", 1, "of the random launches")
)

// kills runs best-effort launches with random real-time ones until a number of kernels were stopped. It returns the
// number of launches, and how many ended with a memory that differs from an undisturbed run's. Sometimes a launch is
// aborted and resumed where the device says, or everything is reset. With a boolean instead of the epoch there are no
// resets, since kernels that continue after an eviction could not be counted.
func kills(t testing.TB, m gpu.Mode, seed uint64, most int) (launches, wrong int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	names := []string{"resnet34", "mobilenetv2", "vgg19"}
	var nets []*gpu.Network
	loaded := map[string]*sim.Program{}
	for i, n := range names {
		net := network(n, []string{"pytorch", "tensorrt", "pytorch"}[i], 1)
		p, err := net.Program(1)
		if err != nil {
			t.Fatal(err)
		}
		if loaded[n], err = sim.Load(p); err != nil {
			t.Fatal(err)
		}
		nets = append(nets, net)
	}
	b := newBed(t, m, nets...)
	id := device.LaunchID(0)
	live := map[device.WorkID]bool{} // true: its Abort is under way
	pick := func() device.WorkID {
		for i := device.WorkID(1); i <= b.work; i++ {
			if aborting, ok := live[i]; ok && !aborting && rng.IntN(2) == 0 {
				return i
			}
		}
		return 0
	}
	best := func() (n int) {
		for w := range live {
			if b.all[w].Launch.Priority == 0 {
				n++
			}
		}
		return n
	}
	resets := map[device.WorkID]bool{}
	over := func(w device.WorkID) device.Launch {
		l := b.all[w].Launch
		delete(live, w)
		delete(b.all, w)
		return l
	}
	end := func(l *device.Launch) {
		for _, r := range l.Requests {
			b.d.Release(r)
		}
		delete(b.d.Sums, l.ID)
	}
	hear := func() {
		log := b.log
		b.log = nil
		for _, ev := range log {
			if !ev.Over || ev.Kind == device.Done {
				delete(resets, ev.Work)
				continue
			}
			if _, ok := live[ev.Work]; !ok {
				t.Fatalf("seed %d: %v of work %d, which is over", seed, ev.Kind, ev.Work)
			}
			l := over(ev.Work)
			switch ev.Kind {
			case device.Aborted:
				l.First, l.Kernel = ev.Resume.Segment, ev.Resume.Kernel
				live[b.begin(device.Work{Kind: device.Run, Launch: l})] = false
			case device.Passed:
				if l.Priority == 0 {
					launches++
				}
				q := loaded[l.Network]
				if q.Undisturbed(uint64(l.Requests[0]), len(q.Kernels)) != b.d.Sums[l.ID] {
					wrong++
				}
				end(&l)
			default:
				t.Fatalf("seed %d: %v: %v", seed, ev.Kind, ev.Err)
			}
		}
	}
	for b.d.Kills < most {
		for best() < 3 {
			id++
			live[b.launch(id, names[rng.IntN(3)], 0, 1, 0)] = false
		}
		b.until(b.now + rng.Int64N(300_000))
		if len(live) < 12 {
			id++
			live[b.launch(id, names[1+rng.IntN(2)], 1, 1, 0)] = false
		}
		for range rng.IntN(3) {
			b.until(b.now + rng.Int64N(2_000_000))
			hear()
			if w := pick(); w != 0 && !m.Boolean {
				live[w] = true
				b.d.Abort(b.now, w, true)
			}
			hear()
		}
		if rng.IntN(40) == 0 && !m.Boolean {
			b.until(b.now)
			hear()
			resets[b.begin(device.Work{Kind: device.Reset})] = true
			for w := range live {
				l := over(w)
				end(&l)
			}
		}
		b.until(b.now + rng.Int64N(6_000_000))
		hear()
	}
	return launches, wrong
}

// After all kills and restores the memory is that of an undisturbed run, byte for byte.
func TestRestored(t *testing.T) {
	for _, name := range []string{"reset", "reset-ahead", "reef", "reef-dkp", "reset-plain"} {
		launches, wrong := kills(t, mode(t, name), *seedFlag, *killsFlag)
		t.Logf("%s, seed %d: %d kernels stopped in %d launches", name, *seedFlag, *killsFlag, launches)
		if wrong != 0 || launches == 0 {
			t.Errorf("%s, seed %d: %d of %d launches ended with another memory", name, *seedFlag, wrong, launches)
		}
	}
}

// Without the checker, or with a boolean instead of the epoch, memories differ, and the test notices it.
func TestBroken(t *testing.T) {
	for what, m := range map[string]gpu.Mode{
		"kernels run again alone": func() gpu.Mode { m := mode(t, "reset"); m.Alone = true; return m }(),
		"a boolean mark":          func() gpu.Mode { m := mode(t, "reset"); m.Boolean = true; return m }(),
	} {
		launches, wrong := kills(t, m, *seedFlag, *killsFlag)
		if wrong == 0 {
			t.Errorf("%s, seed %d: none of %d launches ended with another memory", what, *seedFlag, launches)
		} else {
			t.Logf("%s, seed %d: %d of %d launches wrong", what, *seedFlag, wrong, launches)
		}
	}
}

// Every stopped launch resumes and every launch ends, even if a launch ends while it is stopped and another gets its
// stream.
func TestAsideEnds(t *testing.T) {
	for _, name := range []string{"drain", "xsched", "orion", "reef"} {
		rng := rand.New(rand.NewPCG(3, 3))
		b := newBed(t, mode(t, name), network("mobilenetv2", "tensorrt", 1), network("resnet34", "tensorrt", 1))
		live := func(launched device.LaunchID) int {
			n := int(launched)
			for _, ev := range b.log {
				if ev.Kind == device.Passed && ev.Over {
					n--
				}
			}
			return n
		}
		for id := device.LaunchID(1); id <= 120; id++ {
			b.launch(id, []string{"mobilenetv2", "resnet34"}[rng.IntN(2)], rng.IntN(2), 1+rng.IntN(4), 0)
			b.until(b.now + rng.Int64N(1_500_000))
			for live(id) > 8 {
				at, ok := b.d.Next()
				if !ok {
					t.Fatalf("%s: %d launches have not ended, and nothing is due", name, live(id))
				}
				b.until(at)
			}
		}
		b.until(sim.Never - 1)
		if n := live(120); n != 0 {
			t.Errorf("%s: %d launches of 120 have not ended", name, n)
		}
	}
}

// own returns a network of the given kernels.
func own(name string, ks ...kernel.Kernel) *gpu.Network {
	return &gpu.Network{
		Name: name,
		Program: func(int) (*kernel.Program, error) {
			return &kernel.Program{Name: name, Memory: 1 << 20, Kernels: ks, Exits: []int{len(ks) - 1}}, nil
		},
		Exit: func(device.RequestID, int) device.ExitResult { return device.ExitResult{Confidence: 1} },
	}
}

// A program that overwrites its own input cannot be resumed, so it is never stopped inside a kernel, and never pads.
func TestNeverKilled(t *testing.T) {
	spoil := kernel.Kernel{Name: "spoil", Blocks: 10, Threads: 64, Issue: 0.25, BlockNs: 400_000, Reads: []kernel.Span{{To: 4096}}, Writes: []kernel.Span{{To: 4096}}}
	next := spoil
	next.Name, next.Writes = "next", []kernel.Span{{From: 4096, To: 8192}}
	for _, c := range []struct {
		name string
		be   *gpu.Network
		kill bool
	}{{"its input is written over", own("be", spoil, next), false}, {"its input stays", own("be", next, next), true}} {
		rt := network("mobilenetv2", "tensorrt", 1)
		for _, name := range []string{"reset", "reef"} {
			b := newBed(t, mode(t, name), c.be, rt)
			p, err := c.be.Program(1)
			if err != nil {
				t.Fatal(err)
			}
			q, err := sim.Load(p)
			if err != nil {
				t.Fatal(err)
			}
			b.launch(1, "be", 0, 1, 0)
			b.until(100_000)
			b.launch(2, rt.Name, 1, 1, 0)
			b.until(sim.Never - 1)
			if got := b.d.Kills > 0; got != c.kill {
				t.Errorf("%s, %s: killed: %v, expected %v", c.name, name, got, c.kill)
			}
			if len(b.d.Preemptions) != 1 {
				t.Fatalf("%s, %s: %d preemptions", c.name, name, len(b.d.Preemptions))
			}
			if gone := b.d.Preemptions[0]; (gone.Gone-gone.At > 200_000) == c.kill {
				t.Errorf("%s, %s: a preemption of %d ns", c.name, name, gone.Gone-gone.At)
			}
			if b.d.Sums[1] != q.Undisturbed(100, 2) {
				t.Errorf("%s, %s: another memory", c.name, name)
			}
		}
	}
}

// A kernel that no multiprocessor can hold is rejected in every mode and for every resource.
func TestTooLarge(t *testing.T) {
	fine := kernel.Kernel{Name: "k", Blocks: 1, Threads: 64, Regs: 32, Issue: 0.25, BlockNs: 1000}
	threads, regs, shared := fine, fine, fine
	threads.Threads = 4096
	regs.Threads, regs.Regs = 1024, 128
	shared.Shared = 1 << 20
	for _, name := range gpu.ModeNames() {
		d, err := gpu.New(gpu.Config{Name: "test", Params: params(), Mode: mode(t, name), MaxBatch: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range []kernel.Kernel{fine, threads, regs, shared} {
			a := own("n", fine, k)
			_, err := d.Begin(context.Background(), 0, &device.Work{ID: device.WorkID(i + 1), Kind: device.Load, Network: "n", Artefact: a})
			if i == 0 && err != nil || i > 0 && (!errors.Is(err, kernel.ErrProgram) || !strings.Contains(err.Error(), "kernel 1 (k)")) {
				t.Errorf("%s, %+v: %v", name, k, err)
			}
		}
	}
}

// Orion launches one best-effort kernel at a time, also while no real-time launch is there: a real-time
// one never waits for more than the kernel that runs.
func TestOrionOne(t *testing.T) {
	long := kernel.Kernel{Name: "long", Blocks: 60, Threads: 256, Issue: 1, BlockNs: 100_000}
	be := own("be", slices.Repeat([]kernel.Kernel{long}, 50)...)
	short := long
	short.BlockNs = 1000
	rt := own("rt", short)
	for _, c := range []struct {
		mode string
		most sim.Time
	}{{"orion", 100_000 + 50_000}, {"streams", sim.Never}} {
		b := newBed(t, mode(t, c.mode), be, rt)
		b.launch(1, "be", 0, 1, 0)
		b.until(1_050_000)
		w := b.launch(2, "rt", 1, 1, 0)
		begun := b.now
		for !slices.ContainsFunc(b.log, func(e device.Event) bool { return e.Work == w }) {
			b.until(b.now + 1000)
		}
		if took := b.now - begun; took > c.most {
			t.Errorf("%s: %d ns, %d at most", c.mode, took, c.most)
		}
		b.until(sim.Never - 1)
		if one := 50 * (100_000 + 2000 + 8000 + 2000); (b.now < sim.Never-1) || c.mode == "orion" && b.log[len(b.log)-1].Report.Ns < sim.Time(one) {
			t.Errorf("%s: the best-effort launch took %d ns, %d at least where kernels go one by one", c.mode, b.log[len(b.log)-1].Report.Ns, one)
		}
	}
}

// Also without a real-time launch, kernels of two best-effort launches are not on the device together.
func TestOrionTwo(t *testing.T) {
	one := kernel.Kernel{Name: "one", Blocks: 1, Threads: 64, Issue: 1, BlockNs: 100_000}
	be := own("be", slices.Repeat([]kernel.Kernel{one}, 5)...)
	b := newBed(t, mode(t, "orion"), be)
	b.launch(1, "be", 0, 1, 0)
	w := b.launch(2, "be", 0, 1, 0)
	b.until(sim.Never - 1)
	if ns := b.ended(w); ns < 10*100_000 {
		t.Errorf("ten kernels of 100 us ended after %d ns", ns)
	}
}

// Padding stays on the multiprocessors of the real-time launch's units, and off those of its kernel.
func TestPadConfined(t *testing.T) {
	rtKernel := kernel.Kernel{Name: "rt", Blocks: 10, Threads: 64, Issue: 1, BlockNs: 100_000}
	beKernel := kernel.Kernel{Name: "be", Blocks: 10, Threads: 64, Issue: 1, BlockNs: 50_000}
	for _, c := range []struct {
		units  int
		rt, be device.Units
		padded bool
	}{
		{60, device.Units{}, device.Units{}, true},
		{20, device.UnitRange(30, 20), device.Units{}, true},
		{10, device.UnitRange(30, 10), device.Units{}, false},          // nothing is left
		{20, device.UnitRange(30, 20), device.UnitRange(0, 10), false}, // not its units
		{20, device.UnitRange(30, 20), device.UnitRange(20, 40), true},
	} {
		b := newBed(t, mode(t, "reef"), own("rt", rtKernel), own("be", slices.Repeat([]kernel.Kernel{beKernel}, 4)...))
		launch := func(id device.LaunchID, network string, priority int, units device.Units) device.WorkID {
			b.begin(device.Work{Kind: device.Copy, Network: network, Request: device.RequestID(id)})
			return b.begin(device.Work{Kind: device.Run, Launch: device.Launch{ID: id, Network: network, Priority: priority, Units: units, Requests: []device.RequestID{device.RequestID(id)}, Theta: []float32{2}}})
		}
		launch(1, "rt", 1, c.rt)
		launch(2, "be", 0, c.be)
		b.until(1)
		first := launch(3, "rt", 1, c.rt)
		b.until(sim.Never - 1)
		if got := b.d.Padded > 0; got != c.padded {
			t.Errorf("%d units: padded %d", c.units, b.d.Padded)
		}
		for _, e := range b.log {
			// the time alone, and less than 1 % more with padding, since no unit is shared
			if e.Work == first && (e.Report.Ns < 100_000 || e.Report.Ns > 260_000) {
				t.Errorf("%d units: a real-time kernel of 100 us took %d ns", c.units, e.Report.Ns)
			}
		}
	}
}

// A launch that a reset ended has no further events, even if its kernel ends by itself first, and its place is released
// once.
func TestResetQuiet(t *testing.T) {
	p := params()
	p.KillNs = 0 // running blocks cannot be stopped
	p.Queue = 1  // so that the second kernel is dropped before the first has ended
	d, err := gpu.New(gpu.Config{Name: "test", Params: p, Mode: mode(t, "streams"), MaxBatch: 1, Places: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, d: d, all: map[device.WorkID]*device.Work{}}
	long := kernel.Kernel{Name: "long", Blocks: 60, Threads: 256, Issue: 1, BlockNs: 100_000}
	b.begin(device.Work{Kind: device.Load, Network: "n", Artefact: own("n", long, long)})
	w := b.launch(1, "n", 0, 1, 0)
	b.until(50_000)
	b.begin(device.Work{Kind: device.Reset})
	b.until(1_000_000)
	for _, e := range b.log {
		if e.Work == w {
			t.Errorf("after the reset: %v", e.Kind)
		}
	}
	b.launch(2, "n", 0, 1, 0)
	b.launch(3, "n", 0, 1, 0)
	b.begin(device.Work{Kind: device.Copy, Network: "n", Request: 4})
	_, err = d.Begin(context.Background(), b.now, &device.Work{ID: 99, Kind: device.Run, Launch: device.Launch{ID: 4, Network: "n", Requests: []device.RequestID{4}, Theta: []float32{1}}})
	if !errors.Is(err, device.ErrRequest) {
		t.Errorf("a third launch in two places: %v", err)
	}
}

// Such a kernel does not pad another either, since the reset would end both.
func TestNeverPads(t *testing.T) {
	in := []kernel.Span{{To: 4096}}
	one := kernel.Kernel{Name: "one", Blocks: 10, Threads: 64, Issue: 0.25, BlockNs: 50_000, Reads: in, Writes: []kernel.Span{{From: 4096, To: 8192}}}
	spoil := one
	spoil.Writes = in
	rt := one
	rt.BlockNs = 100_000
	for _, c := range []struct {
		k      kernel.Kernel
		padded int
	}{{one, 1}, {spoil, 0}} {
		b := newBed(t, mode(t, "reef"), own("rt", slices.Repeat([]kernel.Kernel{rt}, 20)...), own("be", c.k))
		b.launch(1, "rt", 1, 1, 0)
		b.launch(2, "be", 0, 1, 0)
		b.until(sim.Never - 1)
		if b.d.Padded != c.padded {
			t.Errorf("%d kernels padded, expected %d", b.d.Padded, c.padded)
		}
	}
}
