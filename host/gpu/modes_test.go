// The effect of each mode and each cost, with times computed by hand.

package gpu_test

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// bedWith returns a bed with other parameters.
func bedWith(t testing.TB, m gpu.Mode, p sim.Params, nets ...*gpu.Network) *bed {
	t.Helper()
	d, err := gpu.New(gpu.Config{Name: "test", Params: p, Mode: m, MaxBatch: 8})
	if err != nil {
		t.Fatal(err)
	}
	d.Sums = map[device.LaunchID]uint64{}
	b := &bed{t: t, d: d, all: map[device.WorkID]*device.Work{}}
	for _, n := range nets {
		b.begin(device.Work{Kind: device.Load, Network: n.Name, Artefact: n})
	}
	return b
}

// ended returns the duration of a launch.
func (b *bed) ended(w device.WorkID) sim.Time {
	b.t.Helper()
	i := slices.IndexFunc(b.log, func(e device.Event) bool { return e.Work == w && e.Over })
	if i < 0 {
		b.t.Fatalf("work %d has not ended", w)
	}
	return b.log[i].Report.Ns
}

// full returns a kernel that fills all 60 multiprocessors a number of times, each time for a number of us.
func full(waves int, us float64) kernel.Kernel {
	return kernel.Kernel{Name: "full", Blocks: 60 * waves, Threads: 2560, Issue: 1, BlockNs: us * 1e3}
}

// small has blocks for ten multiprocessors.
func small(us float64) kernel.Kernel {
	return kernel.Kernel{Name: "small", Blocks: 10, Threads: 64, Issue: 1, BlockNs: us * 1e3}
}

func many(n int, k kernel.Kernel) []kernel.Kernel { return slices.Repeat([]kernel.Kernel{k}, n) }

// A real-time kernel comes during the first of ten waves of a best-effort one: with stream priority it is the second
// wave, otherwise the eleventh.
func TestPriority(t *testing.T) {
	for name, between := range map[string][2]sim.Time{
		"streams": {1_000_000, 1_150_000}, "priority": {140_000, 200_000}, "xsched": {140_000, 200_000}, "orion": {140_000, 200_000},
	} {
		b := newBed(t, mode(t, name), own("be", full(10, 100)), own("rt", full(1, 100)))
		b.launch(1, "be", 0, 1, 0)
		b.until(30_000)
		w := b.launch(2, "rt", 1, 1, 0)
		b.until(sim.Never - 1)
		if ns := b.ended(w); ns < between[0] || ns > between[1] {
			t.Errorf("%s: %d ns, expected %d to %d", name, ns, between[0], between[1])
		}
	}
}

// Orion's rule: beside a compute-bound real-time kernel only a memory-bound one may run, which is shorter and smaller
// than the device. All others wait until the real-time launch has ended.
func TestOrionRule(t *testing.T) {
	moving := small(50)
	moving.Bytes = 30 << 20 // more than half of 1,024 bytes/ns
	long, wide := moving, moving
	long.BlockNs, long.Bytes = 150_000, 100<<20
	wide.Blocks, wide.Threads = 60, 2560
	third := small(50)
	third.Bytes = int64(0.3 * 1024 * 50_000) // of the bandwidth: not bound by it
	for _, c := range []struct {
		name   string
		be     kernel.Kernel
		beside bool
	}{{"as it should be", moving, true}, {"a third of the bandwidth", third, false}, {"both compute", small(50), false}, {"longer", long, false}, {"as large as the device", wide, false}} {
		b := newBed(t, mode(t, "orion"), own("be", c.be), own("rt", many(10, small(100))...))
		rt := b.launch(1, "rt", 1, 1, 0)
		b.until(50_000)
		be := b.launch(2, "be", 0, 1, 0)
		b.until(sim.Never - 1)
		order := func(w device.WorkID) int {
			return slices.IndexFunc(b.log, func(e device.Event) bool { return e.Work == w && e.Over })
		}
		if got := order(be) < order(rt); got != c.beside {
			t.Errorf("%s: beside: %v, expected %v", c.name, got, c.beside)
		}
	}
}

// Each cost adds its value once per occurrence.
func TestCosts(t *testing.T) {
	took := func(p sim.Params, name string, launches func(*bed) device.WorkID) sim.Time {
		b := bedWith(t, mode(t, name), p, own("be", many(5, small(100))...), own("rt", many(20, small(100))...), own("short", small(50)))
		w := launches(b)
		b.until(sim.Never - 1)
		return b.ended(w)
	}
	preempted := func(b *bed) device.WorkID { // once
		w := b.launch(1, "be", 0, 1, 0)
		b.until(50_000)
		b.launch(2, "short", 1, 1, 0)
		return w
	}
	alone := func(b *bed) device.WorkID { return b.launch(1, "be", 0, 1, 0) }
	padded := func(b *bed) device.WorkID { // once
		w := b.launch(1, "rt", 1, 1, 0)
		b.launch(2, "short", 0, 1, 0)
		return w
	}
	for _, c := range []struct {
		name     string
		mode     string
		change   func(*sim.Params)
		launches func(*bed) device.WorkID
		more     sim.Time
	}{
		{"taken up again", "reset", func(p *sim.Params) { p.RestartNs += 40_000 }, preempted, 40_000},
		{"a padded kernel's own code", "reef", func(p *sim.Params) { p.PadShare += 0.1 }, padded, 10_000},
		{"the thread that was asleep", "streams", func(p *sim.Params) { p.Queue = 1; p.WakeNs = 9000 }, alone, 4 * 9000},
		{"dispatch", "streams", func(p *sim.Params) { p.DispatchNs += 1000 }, alone, 5 * 1000},
	} {
		p := params()
		if c.name == "the thread that was asleep" {
			p.Queue = 1
		}
		before := took(p, c.mode, c.launches)
		c.change(&p)
		if got := took(p, c.mode, c.launches) - before; got != c.more {
			t.Errorf("%s: %d ns more, expected %d", c.name, got, c.more)
		}
	}
}

// Waiting frees the host queue's memory kernel by kernel; resetting does not.
func TestReclaim(t *testing.T) {
	p := params()
	p.ReclaimNs = 100_000
	gone := func(name string) sim.Time {
		m := mode(t, name)
		m.Queue = 4
		b := bedWith(t, m, p, own("be", many(50, small(30))...), own("rt", small(10)))
		b.launch(1, "be", 0, 1, 0)
		b.until(20_000) // the first runs, three are on the device or on their way
		b.launch(2, "rt", 1, 1, 0)
		b.until(sim.Never - 1)
		if len(b.d.Preemptions) != 1 {
			t.Fatalf("%s: %d preemptions", name, len(b.d.Preemptions))
		}
		return b.d.Preemptions[0].Gone - b.d.Preemptions[0].At
	}
	for name, reclaims := range map[string]bool{"wait": true, "reset-plain": true, "reset": false} {
		ns := gone(name)
		if got := ns > 45*p.ReclaimNs && ns < 50*p.ReclaimNs; got != reclaims || !reclaims && ns > p.ReclaimNs {
			t.Errorf("%s: gone after %d ns", name, ns)
		}
	}
}

// If a kernel has several versions, one may pad where the usual one may not.
func TestVersions(t *testing.T) {
	usual := small(150) // takes longer than the real-time kernel
	usual.Blocks = 2
	other := small(20) // does not; of more blocks, so that neither dominates the other
	other.Blocks = 40
	be := own("be", usual)
	be.Versions = func(int) ([][]kernel.Kernel, error) { return [][]kernel.Kernel{{other}}, nil }
	rt := small(100)
	for name, padded := range map[string]int{"reef": 1, "reef-dkp": 0} {
		b := newBed(t, mode(t, name), be, own("rt", many(20, rt)...))
		b.launch(1, "rt", 1, 1, 0)
		b.launch(2, "be", 0, 1, 0)
		b.until(sim.Never - 1)
		if b.d.Padded != padded {
			t.Errorf("%s: %d kernels padded, expected %d", name, b.d.Padded, padded)
		}
	}
}

// A real-time network with few kernels that sends without pause is padded too: launches stopped before it began do not
// have to be resumed.
func TestPadsShort(t *testing.T) {
	rt := small(1000)
	be := small(100)
	be.Blocks = 40
	b := newBed(t, mode(t, "reef"), own("be", many(40, be)...), own("rt", rt))
	b.launch(1, "rt", 1, 1, 0)
	b.launch(2, "be", 0, 1, 0)
	for i := range device.LaunchID(20) { // the next one as the last ends
		n := len(b.log)
		for len(b.log) == n {
			at, _ := b.d.Next()
			b.until(at)
		}
		b.launch(10+i, "rt", 1, 1, 0)
	}
	if b.d.Padded < 19 {
		t.Errorf("%d kernels padded beside 21 real-time ones", b.d.Padded)
	}
}

// A copy of a best-effort launch uses no multiprocessor and runs beside all others, in every mode and for every list of
// kernels.
func TestKinds(t *testing.T) {
	list := []kernel.Kernel{
		{Name: "in", Kind: kernel.Upload, Bytes: 4096, Writes: []kernel.Span{{From: 0, To: 4096}}},
		{Name: "clear", Kind: kernel.Memset, Bytes: 4096, Writes: []kernel.Span{{From: 4096, To: 8192}}},
		small(50),
		{Name: "out", Kind: kernel.Fetch, Bytes: 64, Reads: []kernel.Span{{From: 4096, To: 4160}}},
	}
	for _, name := range gpu.ModeNames() {
		b := newBed(t, mode(t, name), own("be", list...), own("rt", list...))
		rt := b.launch(1, "rt", 1, 1, 0)
		be := b.launch(2, "be", 0, 1, 0)
		again := b.launch(3, "be", 0, 1, 0)
		b.until(sim.Never - 1)
		for _, w := range []device.WorkID{rt, be, again} {
			if ns := b.ended(w); ns < 50_000 {
				t.Errorf("%s: launch %d took %d ns", name, w, ns)
			}
		}
	}
}

// The progress of a launch is measured by the time of its kernels alone, not by their number.
func TestProgress(t *testing.T) {
	b := newBed(t, mode(t, "streams"), own("n", append(many(9, small(10)), full(1, 910))...))
	b.launch(1, "n", 0, 1, 0)
	b.until(500_000) // in the last kernel
	if got := b.d.Progress(); len(got) != 1 || got[0].Share < 0.05 || got[0].Share > 0.15 || got[0].Network != "n" || got[0].RealTime {
		t.Errorf("nine kernels of ten, a tenth of the time: %+v", got)
	}
	if u := b.d.Usage(); u <= 0 || u > 1 {
		t.Errorf("%v of the multiprocessors in use", u)
	}
}

// A profile has a block's time for a block alone on its multiprocessor, and for as many as fit.
func TestProfile(t *testing.T) {
	p := params()
	k := kernel.Kernel{Name: "k", Blocks: 120, Threads: 640, Issue: 0.5, BlockNs: 10_000} // four fit
	if v := gpu.Profile(&k, &p); v.Occupancy != 4 || v.BlockNs != 10_000 || v.FullNs != 20_000 || v.KernelNs != 10_000 {
		t.Errorf("%+v, expected 4 blocks, 10 us alone, 20 us with four, 10 us for two on each of 60", v)
	}
}

// A kernel with more blocks than there is room for pads several real-time ones, part by part. The rest runs alone after
// them, and its memory is that of an undisturbed run.
func TestPadsParts(t *testing.T) {
	be := small(50)
	be.Blocks, be.Reads, be.Writes = 1000, []kernel.Span{{To: 4096}}, []kernel.Span{{From: 4096, To: 8192}}
	rt := small(100)
	for _, c := range []struct{ kernels, padded int }{{8, 0}, {40, 1}} {
		b := newBed(t, mode(t, "reef"), own("be", be), own("rt", many(c.kernels, rt)...))
		parts := 0
		b.d.Sums = map[device.LaunchID]uint64{}
		b.d.Heard = func(o gpu.Order) { parts += len(o.Beside) }
		b.launch(1, "rt", 1, 1, 0)
		b.launch(2, "be", 0, 1, 0)
		b.until(sim.Never - 1)
		prog, err := sim.Load(&kernel.Program{Memory: 1 << 20, Kernels: []kernel.Kernel{be}, Exits: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		if parts < 1 || b.d.Padded != c.padded || c.padded == 1 && parts < 2 {
			t.Errorf("beside %d kernels: %d parts, %d kernels padded to their end, expected %d", c.kernels, parts, b.d.Padded, c.padded)
		}
		if got, want := b.d.Sums[2], prog.Undisturbed(200, 1); got != want {
			t.Errorf("beside %d kernels: memory %x, undisturbed %x", c.kernels, got, want)
		}
	}
}

// With reset-ahead a launch of priority does not wait until the others are known to have left: it is delayed by KillNs for
// the leaving kernel, but not by ResetNs. The others resume when it has ended.
func TestAhead(t *testing.T) {
	took := map[string]sim.Time{}
	for _, name := range []string{"reset", "reset-ahead"} {
		p := params()
		p.ResetNs = 50_000
		b := bedWith(t, mode(t, name), p, own("be", full(10, 100)), own("rt", full(1, 10)))
		be := b.launch(1, "be", 0, 1, 0)
		b.until(30_000)
		rt := b.launch(2, "rt", 1, 1, 0)
		b.until(sim.Never - 1)
		took[name] = b.ended(rt)
		if ns := b.ended(be); ns < 1_000_000 || b.d.Kills != 1 || len(b.d.Preemptions) != 1 {
			t.Errorf("%s: the other took %d ns, %d kills, %d preemptions", name, ns, b.d.Kills, len(b.d.Preemptions))
		}
	}
	if gain := took["reset"] - took["reset-ahead"]; gain < 1 {
		t.Errorf("%v", took)
	} else {
		t.Logf("%v", took)
	}
}

// It overtakes leaving blocks by its stream's priority.
func TestAheadHasPriority(t *testing.T) {
	for _, name := range gpu.ModeNames() {
		if m := mode(t, name); m.Ahead && (!m.Priority || !m.Kill || !m.Evict || !m.Hold || m.Pad || m.Together) {
			t.Errorf("%+v", m)
		}
	}
}

// If a launch of priority ends before the others have left, they resume after they have left, from the stopped kernel.
func TestAheadOver(t *testing.T) {
	p := params()
	p.KillNs = 500_000
	b := bedWith(t, mode(t, "reset-ahead"), p, own("be", many(3, small(1000))...), own("rt", small(10)))
	var up []gpu.Order
	b.d.Heard = func(o gpu.Order) {
		if o.Did == gpu.TakenUp {
			up = append(up, o)
		}
	}
	b.launch(1, "be", 0, 1, 0)
	b.until(100_000)
	rt := b.launch(2, "rt", 1, 1, 0)
	b.until(sim.Never - 1)
	if ns := b.ended(rt); ns >= p.KillNs || len(b.d.Preemptions) != 1 || b.d.Preemptions[0].Gone-b.d.Preemptions[0].At < p.KillNs {
		t.Errorf("%d ns, %+v", ns, b.d.Preemptions)
	}
	if len(up) != 1 || up[0].Kernel != 0 {
		t.Errorf("taken up: %+v, expected at kernel 0", up)
	}
}
