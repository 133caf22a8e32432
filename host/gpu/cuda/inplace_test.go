package cuda_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// On a network with in-place kernels a killed launch has the results of an undisturbed one. Two breaks are noticed: a
// boolean instead of the epoch, and a group that is one kernel short.
func TestInPlace(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  cuda.Config
	}{{"whole", cuda.Config{}}, {"boolean", cuda.Config{Boolean: true}}, {"short", cuda.Config{Short: true}}} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.cfg)
			rng := rand.New(rand.NewPCG(*seed, 31))
			d := cuda.InPlace(*seed, 8)
			b := d.Bundle
			r.must(device.Work{Kind: device.Load, Network: b.Network.Name, Artefact: d})
			in := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
			for i := range in {
				in[i] = int16(rng.IntN(2001) - 1000)
			}
			r.h.Slow(1)
			// run launches the network, kills it a number of times within a time, and returns its results and duration.
			next := device.RequestID(0)
			run := func(kills int, within time.Duration) (raw []int16, took time.Duration) {
				t.Helper()
				next++
				if e := r.copy(b, next, in); e.Kind != device.Done {
					t.Fatal(e.Err)
				}
				defer r.d.Release(next)
				began := time.Now()
				for from := 0; ; kills-- {
					w := launch(b, 0, 0, 2, next)
					w.Launch.Kernel = from
					id := r.begin(w)
					if kills > 0 {
						time.Sleep(time.Duration(rng.Int64N(int64(within))))
						r.d.Abort(0, id, true)
					}
					e := r.event()
					if e.Kind == device.Failed || e.Work != id || !e.Over {
						t.Fatalf("%+v (%v)", e, e.Err)
					}
					if from = e.Resume.Kernel; e.Kind == device.Passed {
						return e.Report.Results[0].Exits[0].Raw, time.Since(began)
					}
				}
			}
			want, took := run(0, 0)
			if n := slices.Max(want); n == slices.Min(want) || n == 1<<15-1 {
				t.Fatalf("it shows %v", want)
			}
			broken := c.cfg.Boolean || c.cfg.Short
			differ := 0
			var counts cuda.Counts
			for k := 0; k < 20**kills && (differ == 0 || !broken) && (broken || k < *kills/3 || counts.Kills < 20 || counts.Again < 2*counts.Kills); k++ {
				if got, _ := run(3, took); !slices.Equal(got, want) {
					differ++
				}
				var err error
				if counts, err = r.d.Counts(); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("seed %d: %d kills inside a kernel, %d kernels run again: %d differ", *seed, counts.Kills, counts.Again, differ)
			if broken != (differ > 0) || counts.Kills == 0 {
				t.Errorf("%d differ after %d kills", differ, counts.Kills)
			}
		})
	}
}
