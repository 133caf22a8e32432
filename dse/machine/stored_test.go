package machine_test

import (
	"flag"
	"os"
	"testing"

	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/machine"
)

var full = flag.Bool("full", false, "all stored starts, not only those below 60,000 cycles")

func open(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open("../counted/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func step(t testing.TB, l *counted.Layer) machine.Result {
	t.Helper()
	r, err := l.Step(t.Context())
	if err != nil {
		t.Fatalf("%s %s: %v", l.Config, l.Layer, err)
	}
	return r
}

// The RTL's cycles and what its array waited for, of layers alone and of short chains. Those that read a row whose pitch in DRAM
// no geometry tells (views that leave columns out) may be a few cycles off.
func TestHeld(t *testing.T) {
	for _, file := range []struct {
		name  string
		other int   // layers not to the cycle
		most  int64 // cycles by which these are off
	}{
		{"held.json", 6, 2},
		{"held-int8.json", 4, 3},
	} {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			held(t, file.name, file.other, file.most)
		})
	}
}

func held(t *testing.T, name string, other int, most int64) {
	file, err := counted.Read(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	exact := 0
	for i := range file.Layers {
		l := &file.Layers[i]
		r := step(t, l)
		d := r.Cycles - l.Cycles
		if d == 0 {
			exact++
			same(t, l, &r)
		}
		if max(d, -d) > most {
			t.Errorf("%s/%g %s B = %d, %s: %d cycles, counted %d", l.Config, l.Bandwidth, l.Layer, l.Batch, l.Entry, r.Cycles, l.Cycles)
		}
	}
	if n := len(file.Layers); exact < n-other {
		t.Errorf("%d of %d layers to the cycle, at least %d were", exact, n, n-other)
	}
}

// same compares what was waited for.
func same(t *testing.T, l *counted.Layer, r *machine.Result) {
	t.Helper()
	if !l.Waits(r.Stalls) {
		t.Errorf("%s/%g %s B = %d, %s: stalls %+v, counted %+v", l.Config, l.Bandwidth, l.Layer, l.Batch, l.Entry, r.Stalls, l.Stalls)
	}
}

// The RTL's cycles and all its stall counters of segments of random networks, with the operators of the depthwise unit and
// the post stage, views, and two latencies; and the layers of each add up to it.
func TestRandom(t *testing.T) {
	_, all, err := counted.ReadStarts(open(t, "random.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		l := &all[i]
		r := step(t, l)
		if r.Cycles != l.Cycles {
			t.Errorf("%s on %s, latency %d, B = %d: %d cycles, counted %d", l.Network, l.Config, l.Latency, l.Batch, r.Cycles, l.Cycles)
		}
		same(t, l, &r)
		sum := machine.Spent{Cycles: 1} // done_o
		for _, x := range r.Layers {
			sum.Cycles += x.Cycles
			sum.Stalls.Add(x.Stalls)
		}
		if len(r.Layers) != len(l.Chain) || sum != (machine.Spent{Cycles: r.Cycles, Stalls: r.Stalls}) {
			t.Errorf("%s on %s: %d layers with %+v, the start %+v", l.Network, l.Config, len(r.Layers), sum, r)
		}
	}
}

// The RTL's cycles of whole segments; and of each network what the law is meant to reach and does not.
func TestStarts(t *testing.T) {
	for _, file := range []struct {
		name  string
		other int // starts not to the cycle, of those below 60,000 cycles
	}{
		{"networks.json", 0},
		{"networks-int8.json", 0},
	} {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			starts(t, file.name, file.other)
		})
	}
}

func starts(t *testing.T, name string, other int) {
	_, all, err := counted.ReadStarts(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	n, exact, worst, by := 0, 0, int64(0), map[string][]counted.Layer{}
	for i := range all {
		l := &all[i]
		if !*full && l.Cycles > 60_000 {
			continue
		}
		l.Law = step(t, l).Cycles
		by[l.Network] = append(by[l.Network], *l)
		d := l.Law - l.Cycles
		if n++; d == 0 {
			exact++
		}
		worst = max(worst, d, -d)
		if max(d, -d) > max(most, l.Cycles/10_000) {
			t.Errorf("%s on %s/%g, %s, B = %d: %+d of %d", l.Network, l.Config, l.Bandwidth, l.Layer, l.Batch, d, l.Cycles)
		}
	}
	for network, some := range by {
		if s := counted.Summarise(some); s.Mean > counted.MeanShare || s.Beyond > 0 {
			t.Errorf("%s: mean %.2f %%, worst %.2f %%, expected at most %g and %g %% or %d cycles", network, 100*s.Mean, 100*s.Worst, 100*counted.MeanShare, 100*counted.WorstShare, counted.WorstCycles)
		}
	}
	t.Logf("%d of %d starts to the cycle, the others at most %d off", exact, n, worst)
	if !*full && exact < n-other {
		t.Errorf("%d of %d starts to the cycle, at least %d were", exact, n, n-other)
	}
}

// most is by how many cycles a short start is off, or a long one by 0.01 %, whose rows have a pitch in DRAM that no geometry tells.
const most = 8

// A cycle of the machine, of a layer on the ZC706.
func BenchmarkCycle(b *testing.B) {
	file, err := counted.Read(open(b, "held.json"))
	if err != nil {
		b.Fatal(err)
	}
	var l *counted.Layer
	for i := range file.Layers {
		if x := &file.Layers[i]; x.Config == "zc706" && x.Cycles > 30_000 {
			l = x
			break
		}
	}
	b.ResetTimer()
	for n := int64(0); n < int64(b.N); {
		r, err := l.Step(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		n += r.Cycles
	}
}
