package cuda_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

func mode(t testing.TB, name string) gpu.Mode {
	t.Helper()
	m, err := gpu.ModeOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func h200(t testing.TB) *sim.Params {
	t.Helper()
	f, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	return &p
}

// small makes the fake a GPU with few SMs until the test ends, so that many kernels do not fit completely beside others.
func small(t testing.TB) *sim.Params {
	t.Helper()
	_, h := library(t)
	h.GPUs(1, 4)
	t.Cleanup(func() { h.GPUs(1, 132) })
	p := h200(t)
	p.SMs = 4
	return p
}

// expected returns an input and its logits at each exit.
func expected(t testing.TB, b *bundle.Bundle, p *golden.Program, rng *rand.Rand) (in []int16, want [][]int16) {
	t.Helper()
	in = randnet.Input(rng, b)
	want, err := p.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	return in, want
}

// In every mode, with launches of priority at random times during best-effort ones, every result is golden's, bit for
// bit: killed launches were restored, and padding changed nothing.
func TestModes(t *testing.T) {
	for _, name := range []string{"streams", "priority", "wait", "drain", "xsched1", "xsched", "reset", "reset-ahead", "reset-plain", "reef-dkp", "reef", "streams/hip", "priority/hip", "reset/hip"} {
		t.Run(name, func(t *testing.T) {
			name, onHIP := strings.CutSuffix(name, "/hip")
			m, p, cfg := mode(t, name), h200(t), cuda.Config{}
			if onHIP {
				cfg = hip(t)
			}
			if m.Pad {
				p = small(t) // kernels do not fit completely beside others
			}
			cfg.Mode, cfg.Params, cfg.Through = m, p, true
			r := start(t, cfg)
			r.h.Forgive() // expected: the driver rejects the division of so few SMs
			r.h.Slow(1)
			rng := rand.New(rand.NewPCG(*seed, 11))
			be, bp := long(t)
			rt, rp := network(t, *seed+500, 2)
			other := *rt // the same as another network
			other.Network.Name += "-too"
			bundles := []*bundle.Bundle{be, &other, rt}
			programs := []*golden.Program{bp, rp, rp}
			for _, b := range bundles {
				r.load(b)
			}
			next := device.RequestID(0)
			type running struct {
				b    *bundle.Bundle
				id   device.RequestID
				want [][]int16
				seg  int
				work device.Work
			}
			live := map[device.WorkID]*running{}
			var kept []device.Event
			aborted := 0
			begin := func(i, priority int) {
				b := bundles[i]
				in, want := expected(t, b, programs[i], rng)
				next++
				w := device.Work{Kind: device.Copy, Network: b.Network.Name, Request: next, Input: func() ([]device.Tensor, error) {
					return []device.Tensor{device.Words("input", in, len(in))}, nil
				}}
				copied := r.begin(w)
				for {
					e := r.event()
					if e.Work == copied {
						if e.Kind != device.Done {
							t.Fatal(e.Err)
						}
						break
					}
					kept = append(kept, e)
				}
				l := launch(b, 0, len(b.Network.Exits)-1, 2, next)
				l.Launch.Priority, l.Launch.ID = priority, device.LaunchID(next)
				live[r.begin(l)] = &running{b, next, want, 0, l}
			}
			take := func() {
				var e device.Event
				if len(kept) > 0 {
					e, kept = kept[0], kept[1:]
				} else {
					e = r.event()
				}
				x := live[e.Work]
				if x != nil && e.Kind == device.Aborted && e.Resume.Segment == x.seg {
					delete(live, e.Work)
					x.work.Launch.First, x.work.Launch.Kernel = x.seg, e.Resume.Kernel
					live[r.begin(x.work)] = x
					aborted++
					return
				}
				if x == nil || e.Kind != device.Passed || e.Segment != x.seg || len(e.Report.Results) != 1 {
					t.Fatalf("event %+v (%v)", e, e.Err)
				}
				if got := e.Report.Results[0].Exits[0].Raw; !slices.Equal(got, x.want[x.seg]) {
					t.Fatalf("%s, request %d, segment %d: %v, golden says %v", x.b.Network.Name, x.id, x.seg, got, x.want[x.seg])
				}
				if x.seg++; e.Over != (x.seg == len(x.want)) {
					t.Fatalf("segment %d of %d: over %v", x.seg, len(x.want), e.Over)
				}
				if e.Over {
					r.d.Release(x.id)
					delete(live, e.Work)
				}
			}
			var c cuda.Counts
			kills := func() bool { // an abort may kill, too
				return m.Kill && c.Kills == 0 || !m.Kill && c.Kills > aborted
			}
			for round := 0; round < 5 || round < 100 && (kills() || (c.Padded > 0) != m.Pad || (len(c.Preemptions) > 0) != m.Hold || (c.Parts > 0) != m.Pad || m.Pad && aborted == 0); round++ {
				begin(0, 0)
				begin(1, 0)
				for range 3 {
					time.Sleep(time.Duration(rng.Int64N(3_000_000)))
					begin(2, 1)
					begin(2*rng.IntN(2), 1)
				}
				for id, x := range live { // a launch that may be padding
					if x.work.Launch.Priority == 0 && rng.IntN(2) == 0 {
						r.d.Abort(0, id, rng.IntN(2) == 0)
						break
					}
				}
				for len(live) > 0 {
					take()
				}
				var err error
				if c, err = r.d.Counts(); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("seed %d: %d kernels, %d padded, %d parts, %d kills, %d run again, %d preemptions, %d aborted", *seed, c.Ran, c.Padded, c.Parts, c.Kills, c.Again, len(c.Preemptions), aborted)
			if (c.Parts > 0) != m.Pad || m.Pad && aborted == 0 || kills() || (c.Padded > 0) != m.Pad || (len(c.Preemptions) > 0) != m.Hold {
				t.Errorf("%+v of a mode %+v", c, m)
			}
		})
	}
}

// A mode that the device does not support is rejected.
func TestModeRefused(t *testing.T) {
	path, _ := library(t)
	for _, cfg := range []cuda.Config{{Mode: mode(t, "orion")}, {Mode: mode(t, "reef")}} {
		cfg.Library = path
		if _, err := cuda.New(cfg); !errors.Is(err, device.ErrRequest) {
			t.Errorf("%s: %v", cfg.Mode.Name, err)
		}
	}
}

// The launching threads of the simulated GPU and of the device give the same orders: launched kernels, best-effort
// kernels that pad kernels of priority, and the kernels at which stopped launches resume.
func TestSameOrders(t *testing.T) {
	rt, _ := long(t)
	padded, several := 0, 0
	for k, name := range []string{"reef-dkp", "reset", "wait", "streams", "xsched1", "reef-dkp", "reef", "reef", "reef-dkp", "reset-ahead"} {
		t.Run(name, func(t *testing.T) {
			m, p := mode(t, name), h200(t)
			if m.Pad && k > 6 {
				p = small(t)
			}
			be, _ := network(t, *seed+500+uint64(k), 2)
			another, _ := network(t, *seed+700+uint64(k), 2)
			other := *another
			other.Network.Name += "-too"
			work := func(i int) (b *bundle.Bundle, w device.Work) {
				b = []*bundle.Bundle{rt, be, &other, rt}[i]
				last := len(b.Network.Exits) - 1
				if b != rt { // when the host has seen an exit is a matter of time
					last = 0
				}
				w = launch(b, 0, last, 2, device.RequestID(i+1))
				w.Launch.ID, w.Launch.Priority = device.LaunchID(i+1), 0
				if b == rt {
					w.Launch.Priority = 1
				}
				return b, w
			}
			// A launch of priority, two best-effort ones, then another of priority: nothing depends on timing until the first has
			// ended.
			simulated := func() (orders []gpu.Order) {
				d, err := gpu.New(gpu.Config{Name: "sim", Params: *p, Mode: m, MaxBatch: 1})
				if err != nil {
					t.Fatal(err)
				}
				d.Heard = func(o gpu.Order) { orders = append(orders, o) }
				id := device.WorkID(0)
				begin := func(w device.Work) {
					id++
					w.ID = id
					if _, err := d.Begin(t.Context(), 0, &w); err != nil {
						t.Fatal(err)
					}
				}
				exit := func(device.RequestID, int) device.ExitResult { return device.ExitResult{} }
				for _, b := range []*bundle.Bundle{rt, be, &other} {
					n := cuda.Simulated(b, p, exit)
					n.Input = 0
					begin(device.Work{Kind: device.Load, Network: n.Name, Artefact: n})
				}
				var all []device.Work
				for i := range 4 {
					b, w := work(i)
					begin(device.Work{Kind: device.Copy, Network: b.Network.Name, Request: device.RequestID(i + 1)})
					all = append(all, w)
				}
				for _, w := range all {
					begin(w)
				}
				for at, ok := d.Next(); ok; at, ok = d.Next() {
					for d.Take(at) != nil {
					}
				}
				return orders
			}()
			var real []gpu.Order
			r := start(t, cuda.Config{Mode: m, Params: p, Through: true, Heard: func(o gpu.Order) { real = append(real, o) }})
			r.h.Forgive()
			r.load(rt)
			r.load(be)
			r.load(&other)
			for i := range 4 {
				b, _ := work(i)
				in := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
				if e := r.copy(b, device.RequestID(i+1), in); e.Kind != device.Done {
					t.Fatal(e.Err)
				}
			}
			// Creates and clears their streams. If the mode holds launches, the first one runs until all have streams. Otherwise the
			// third would use the second's stream here and get a new one below, which might not be cleared in time.
			r.h.Hold(1)
			for i := range 3 {
				_, w := work(i)
				w.Launch.Last = 0
				r.begin(w)
			}
			r.h.Hold(0)
			for range 3 {
				if e := r.event(); e.Kind != device.Passed || !e.Over {
					t.Fatalf("event %+v (%v)", e, e.Err)
				}
			}
			real = nil
			r.h.Hold(1)
			for i := range 4 {
				_, w := work(i)
				r.begin(w)
				for range 2 { // after the second answer, the launcher has launched all that it may
					if _, err := r.d.Counts(); !errors.Is(err, device.ErrRequest) {
						t.Fatalf("launches are under way: %v", err)
					}
				}
			}
			r.h.Hold(0)
			for over := 0; over < 4; {
				e := r.event()
				if e.Err != nil {
					t.Fatal(e.Err)
				}
				if e.Over {
					over++
				}
			}
			c, err := r.d.Counts() // its answer shows that no order is pending
			if err != nil {
				t.Fatal(err)
			}
			// Concurrent streams are independent: the order of events is compared per stream or, for a mode that holds launches, as
			// a whole.
			split := func(all []gpu.Order) map[device.LaunchID][]string {
				out := map[device.LaunchID][]string{}
				for _, o := range all {
					out[o.Launch] = append(out[o.Launch], fmt.Sprintf("%+v", o))
				}
				return out
			}
			a, b := split(simulated), split(real)
			for id := range device.LaunchID(4) {
				if !slices.Equal(a[id+1], b[id+1]) {
					t.Errorf("launch %d: the simulated GPU\n%v\nthe device\n%v", id+1, a[id+1], b[id+1])
				}
			}
			for _, o := range simulated {
				padded += len(o.Beside)
				if len(o.Beside) > 1 {
					several++
				}
			}
			t.Logf("%d orders, %d kernels have padded so far, in %d launches several, proxies %v", len(simulated), padded, several, c.Proxies)
		})
	}
	if padded == 0 || several == 0 {
		t.Errorf("%d kernels have padded, in %d launches several: the orders show nothing of it", padded, several)
	}
}
