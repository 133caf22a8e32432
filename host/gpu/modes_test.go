// What each mode and each cost is worth, in times worked out by hand.

package gpu_test

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// bedWith is a bed of other parameters.
func bedWith(t testing.TB, m gpu.Mode, p sim.Params, nets ...*gpu.Network) *bed {
	t.Helper()
	d, err := gpu.New(gpu.Config{Name: "test", Params: p, Mode: m, MaxBatch: 8})
	if err != nil {
		t.Fatal(err)
	}
	d.Sums = map[device.LaunchID]uint64{}
	b := &bed{t: t, d: d, all: map[device.WorkID]*device.Work{}}
	for _, n := range nets {
		b.begin(device.Work{Kind: device.Load, Artefact: device.Artefact{Network: n.Name, Kind: gpu.ArtefactModule, Data: n}})
	}
	return b
}

// ended is how long a launch took.
func (b *bed) ended(w device.WorkID) sim.Time {
	b.t.Helper()
	i := slices.IndexFunc(b.log, func(e device.Event) bool { return e.Work == w && e.Over })
	if i < 0 {
		b.t.Fatalf("work %d has not ended", w)
	}
	return b.log[i].Report.Ns
}

// full is a kernel that fills every multiprocessor of the 60 so many times over, each time for so many us.
func full(waves int, us float64) kernel.Kernel {
	return kernel.Kernel{Name: "full", Blocks: 60 * waves, Threads: 2560, Issue: 1, BlockNs: us * 1e3}
}

// small has blocks for ten multiprocessors.
func small(us float64) kernel.Kernel {
	return kernel.Kernel{Name: "small", Blocks: 10, Threads: 64, Issue: 1, BlockNs: us * 1e3}
}

func many(n int, k kernel.Kernel) []kernel.Kernel { return slices.Repeat([]kernel.Kernel{k}, n) }

// A real-time kernel beside a best-effort one of ten waves, of which the first is on: under a stream's
// priority it gets the second wave, else the eleventh.
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

// Orion's rule: beside a real-time kernel bound by computing goes one that is bound by the memory, shorter
// and smaller than the device; nothing else before the real-time launch has ended.
func TestOrionRule(t *testing.T) {
	moving := small(50)
	moving.Bytes = 30 << 20 // more than half of 1,024 bytes/ns
	long, wide := moving, moving
	long.BlockNs, long.Bytes = 150_000, 100<<20
	wide.Blocks, wide.Threads = 60, 2560
	for _, c := range []struct {
		name   string
		be     kernel.Kernel
		beside bool
	}{{"as it should be", moving, true}, {"both compute", small(50), false}, {"longer", long, false}, {"as large as the device", wide, false}} {
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

// What each cost adds is what it says, once for each time that it is paid.
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

// Waiting gives the host queue's memory back kernel by kernel, resetting does not.
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

// With versions to choose from, one pads where the usual one may not.
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
