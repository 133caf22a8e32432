package gpu_test

import (
	"context"
	"flag"
	"math/rand/v2"
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
	d, err := gpu.New(gpu.Config{Name: "test", Params: params(), Mode: mode, MaxBatch: 8})
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

// killsFlag is how many kernels are stopped under each mode; nightly asks for 10,000.
var (
	killsFlag = flag.Int("kills", 600, "kernels to be stopped under each mode")
	seedFlag  = flag.Uint64("seed", 1, "of the random launches")
)

// kills runs best-effort launches under random real-time ones until so many kernels were stopped, and says
// how many launches there were, and how many ended with a memory that no undisturbed run leaves.
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
	of := map[device.LaunchID]string{}
	live := 0
	for b.d.Kills < most {
		for live < 3 {
			id++
			of[id] = names[rng.IntN(3)]
			b.launch(id, of[id], 0, 1, 0)
			live++
		}
		b.until(b.now + rng.Int64N(300_000))
		id++
		of[id] = "mobilenetv2"
		b.launch(id, of[id], 1, 1, 0)
		live++
		b.until(b.now + rng.Int64N(6_000_000))
		for _, ev := range b.log {
			if ev.Over && ev.Kind == device.Passed {
				live--
				l := b.all[ev.Work].Launch
				for _, r := range l.Requests {
					b.d.Release(r)
				}
				if l.Priority == 0 {
					launches++
				}
				q := loaded[l.Network]
				if q.Undisturbed(uint64(l.Requests[0]), len(q.Kernels)) != b.d.Sums[l.ID] {
					wrong++
				}
				delete(b.d.Sums, l.ID)
				delete(b.all, ev.Work)
			}
		}
		b.log = b.log[:0]
	}
	return launches, wrong
}

// Whatever is killed and restored, the memory is that of an undisturbed run, to the last byte.
func TestRestored(t *testing.T) {
	for _, name := range []string{"reset", "reef", "reset-plain"} {
		launches, wrong := kills(t, mode(t, name), *seedFlag, *killsFlag)
		t.Logf("%s, seed %d: %d kernels stopped in %d launches", name, *seedFlag, *killsFlag, launches)
		if wrong != 0 || launches == 0 {
			t.Errorf("%s, seed %d: %d of %d launches ended with another memory", name, *seedFlag, wrong, launches)
		}
	}
}

// Without the checker, or with a boolean for the epoch, memories differ: the test sees it.
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

// Whatever is put aside goes on, and whatever is launched ends, also where a launch ends while it is put
// aside and another gets its stream.
func TestAsideEnds(t *testing.T) {
	for _, name := range []string{"drain", "xsched"} {
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
