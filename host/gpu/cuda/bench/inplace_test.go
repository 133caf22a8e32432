package bench_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

// inPlaceHits compares the hits of the in-place network with the stopped kernels, also in the rows by kind.
func inPlaceHits(t *testing.T, raw *bench.Raw, hits int) {
	t.Helper()
	const key = "killed-in-place stopped in"
	for _, s := range raw.Series {
		if s.Key != key {
			continue
		}
		n := slices.DeleteFunc(slices.Clone(s.Runs), func(k int64) bool { return k >= 24 || k%3 == 0 })
		if len(n) != hits {
			t.Errorf("%d hits, stopped in %v", hits, s.Runs)
		}
		all, in := 0.0, 0.0
		for _, x := range raw.Rows() {
			if kind, ok := strings.CutPrefix(x.Key, key+" "); ok {
				if all += x.Median; kind == cuda.InPlaceAdd || kind == cuda.InPlaceScale {
					in += x.Median
				}
			}
		}
		if int(all) != len(s.Runs) || int(in) != hits {
			t.Errorf("%v by kind, %v of them in place, stopped in %v", all, in, s.Runs)
		}
	}
}

// On a GPU a kill of the in-place network at a random time hits an in-place kernel in more than a third of the cases, and
// rarely the exit. These kernels have several times as many blocks as an H200 holds.
func TestInPlaceFills(t *testing.T) {
	f, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	prog, err := cuda.Program(cuda.InPlace(1, bench.Side).Bundle, 1, &p)
	if err != nil {
		t.Fatal(err)
	}
	ns, whole := map[string]float64{}, 0.0
	for i := range prog.Kernels {
		k := &prog.Kernels[i]
		kind, in := cuda.InPlaceKind(i)
		if !strings.HasPrefix(k.Name, kind) {
			t.Errorf("kernel %d is %s, and said to be of %s", i, k.Name, kind)
		}
		holds := p.SM.Of(k) * p.SMs
		if in && k.Blocks < 3*holds {
			t.Errorf("%s has %d blocks, and the GPU holds %d at the same time", k.Name, k.Blocks, holds)
		}
		took := math.Ceil(float64(k.Blocks)/float64(holds)) * k.BlockNs
		whole += took
		ns[kind] += took
	}
	if in := (ns[cuda.InPlaceAdd] + ns[cuda.InPlaceScale]) / whole; in < 1./3 || ns[cuda.InPlaceExit] > whole/10 {
		t.Errorf("%.2f of its time in place, by kind %v", in, ns)
	}
}
