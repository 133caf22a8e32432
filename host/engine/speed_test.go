package engine_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// stream is a Poisson source that keeps nothing and hands out one task again and again.
type stream struct {
	rng  *rand.Rand
	gap  float64 // ns
	slo  int64
	n    int
	at   float64
	sent int
	task sched.Task
}

func newStream(perSecond float64, slo int64, n int, seed uint64) *stream {
	return &stream{rng: rand.New(rand.NewPCG(seed, 99)), gap: 1e9 / perSecond, slo: slo, n: n}
}

func (s *stream) Next() (sched.Item, bool) {
	if s.sent == s.n {
		return sched.Item{}, false
	}
	s.sent++
	s.at += float64(s.rng.ExpFloat64() * s.gap)
	at := int64(s.at)
	s.task = sched.Task{ID: uint64(s.sent), Network: enginetest.Network, Deadline: at + s.slo, Theta: 0.8, Samples: 1}
	return sched.Item{At: at, Task: &s.task}, true
}

func (*stream) Ended(int64, *sched.Task, sched.Ending) []sched.Item { return nil }

// draws serves n requests at a share of serial's capacity, exits drawn, no records kept.
func draws(t testing.TB, tab *sched.Table, p sched.Policy, rates []float64, load float64, slo int64, n int, seed uint64) engine.Config {
	t.Helper()
	d, err := drawn.New(tab, rates, seed, 0)
	if err != nil {
		t.Fatal(err)
	}
	service, stay := 0.0, 1.0
	for i, r := range rates {
		service += stay * float64(tab.At(i, i, 1))
		stay -= r
	}
	return engine.Config{
		Devices:  []device.Device{d},
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   p,
		Source:   newStream(load*1e9/service, slo, n, seed),
		Inputs:   engine.NoInputs,
		Keep:     engine.Counts,
	}
}

// The rates of ResNet-50 in Kouris et al., section IV.
var resnetRates = []float64{0.051, 0.169, 0.090, 0.690}

func policy(t testing.TB, name string) sched.Policy {
	t.Helper()
	p, err := sched.New(name, sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func BenchmarkEngine(b *testing.B) {
	tab := table(b, enginetest.Linear(4, 8, 5_000_000, 10_000_000))
	const n = 100_000
	for _, name := range sched.Names() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				cfg := draws(b, tab, policy(b, name), resnetRates, 0.8, 400_000_000, n, 1)
				if _, err := engine.Run(context.Background(), cfg); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "requests/s")
			// The speed of a processor core that nothing else uses.
			b.ReportMetric(float64(b.N)*n/(cpuTime(b)-before), "requests/cpu-s")
		})
	}
}

// cpuTime is the processor time of this process in seconds.
func cpuTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
