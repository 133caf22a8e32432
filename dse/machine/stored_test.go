package machine_test

import (
	"cmp"
	"flag"
	"os"
	"testing"

	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/machine"
)

var full = flag.Bool("full", false, "all stored starts, not only those below 60,000 cycles and the shortest of each network")

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

// Cycles and array stalls equal the RTL's, for single layers and short chains.
func TestHeld(t *testing.T) {
	for _, name := range []string{"held.json", "held-int8.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held(t, name)
		})
	}
}

func held(t *testing.T, name string) {
	file, err := counted.Read(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Layers {
		l := &file.Layers[i]
		r := step(t, l)
		same(t, l, &r)
		if r.Cycles != l.Cycles {
			t.Errorf("%s/%g %s B = %d, %s: %d cycles, counted %d", l.Config, l.Bandwidth, l.Layer, l.Batch, l.Entry, r.Cycles, l.Cycles)
		}
	}
}

// same compares stalls.
func same(t *testing.T, l *counted.Layer, r *machine.Result) {
	t.Helper()
	if !l.Waits(r.Stalls) {
		t.Errorf("%s/%g %s B = %d, %s: stalls %+v, counted %+v", l.Config, l.Bandwidth, l.Layer, l.Batch, l.Entry, r.Stalls, l.Stalls)
	}
}

// Cycles and all stall counters equal the RTL's for segments of random networks, with operators of the depthwise unit
// and the post stage, views, and two latencies. The times of each segment's layers add up to its time.
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

// Cycles and stall counters equal the RTL's for whole segments.
func TestStarts(t *testing.T) {
	for _, name := range []string{"networks.json", "networks-int8.json", "torchvision.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starts(t, name)
		})
	}
}

func starts(t *testing.T, name string) {
	_, all, err := counted.ReadStarts(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	shortest := map[string]int64{}
	for _, l := range all {
		shortest[l.Network] = min(cmp.Or(shortest[l.Network], l.Cycles), l.Cycles)
	}
	for i := range all {
		l := &all[i]
		if !*full && l.Cycles > max(60_000, shortest[l.Network]) {
			continue
		}
		r := step(t, l)
		same(t, l, &r)
		if r.Cycles != l.Cycles {
			t.Errorf("%s on %s/%g, %s, B = %d: %d cycles, counted %d", l.Network, l.Config, l.Bandwidth, l.Layer, l.Batch, r.Cycles, l.Cycles)
		}
	}
}

// A cycle of the machine, for a layer on the ZC706.
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
