// Package experiments runs the measurements that compare policies. The caller provides bundles, tables and devices.
package experiments

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// ErrSetup is the error of a setup or point that cannot be run.
var ErrSetup = errors.New("experiment")

// Setup contains the network and the images of an experiment. All points of the experiment use the same Setup.
type Setup struct {
	Bundle *bundle.Bundle
	Table  *sched.Table          // latency table of Bundle
	Inputs [][]int16             // quantised images; request i (from 0) uses image i modulo the number of images
	Exits  [][]device.ExitResult // by image, the result of every exit, from the golden executor
}

// NewSetup returns a Setup with the latency table of the bundle.
func NewSetup(b *bundle.Bundle, inputs [][]int16, exits [][]device.ExitResult) (*Setup, error) {
	t, err := sched.NewTable(b.Latency, b.Network.Name)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 || len(exits) != len(inputs) {
		return nil, fmt.Errorf("%w: %d images, exits of %d", ErrSetup, len(inputs), len(exits))
	}
	return &Setup{Bundle: b, Table: t, Inputs: inputs, Exits: exits}, nil
}

// Image returns the index of a request's image.
func (s *Setup) Image(id device.RequestID) int { return int((uint64(id) - 1) % uint64(len(s.Inputs))) }

// Theta contains exit thresholds: one value for all exits, or one value per exit.
type Theta []float32

// At returns the threshold at an exit.
func (t Theta) At(exit int) float32 {
	switch {
	case exit < len(t):
		return t[exit]
	case len(t) > 0:
		return t[len(t)-1]
	}
	return 0
}

// Taken returns the exit at which an image leaves with the thresholds theta. It is the first exit at which the
// confidence reaches the threshold, or the last exit.
func Taken(exits []device.ExitResult, theta Theta) int {
	for i := range exits {
		if exits[i].Confidence >= theta.At(i) {
			return i
		}
	}
	return len(exits) - 1
}

// Service returns the images' mean service time in ns under the policy serial, from the latency table. The capacity of
// serial is one request per this time.
func (s *Setup) Service(theta Theta) float64 {
	var sum float64
	for _, e := range s.Exits {
		for seg := range Taken(e, theta) + 1 {
			sum += float64(s.Table.At(seg, seg, 1))
		}
	}
	return sum / float64(len(s.Exits))
}

// Point is one run.
type Point struct {
	Policy string
	BMax   int           // largest batch of the policy; 0: the device's largest batch
	Levels []sched.Level // levels of fluid+theta; without levels, fluid+theta behaves like fluid+
	Loss   float64       // allowed loss of accuracy by lower thresholds
	Rate   float64       // requests per second; not used if Times is set
	SLO    int64         // ns
	Theta  Theta
	Seed   uint64
	N      int     // number of requests
	Times  []int64 // arrival times in ns, in place of Rate, Seed and N
	Clock  engine.Clock
	Keep   engine.Keep
	// ByTable: requests are admitted by the latency table (engine.Config.ByTable).
	ByTable bool
	// Now, if set, is the clock of a run in real time (engine.Config.Now). Otherwise time is virtual.
	Now      func() engine.Time
	Watchdog engine.Watchdog
}

// Run serves one point on a device that has the bundle loaded.
func (s *Setup) Run(ctx context.Context, dev device.Blocking, p Point, progress func(ended int)) (*engine.Result, error) {
	policy, err := sched.New(p.Policy, sched.Options{BMax: p.BMax, Levels: p.Levels, Loss: p.Loss})
	if err != nil {
		return nil, err
	}
	times := p.Times
	if times == nil {
		if err := load.CheckRate(p.Rate); err != nil {
			return nil, err
		}
		if times, err = load.Poisson(p.Rate, p.N, p.Seed); err != nil {
			return nil, err
		}
	}
	name := s.Bundle.Network.Name
	run := engine.Run
	if p.Now != nil {
		run = engine.Serve
	}
	res, err := run(ctx, engine.Config{
		Devices:  []device.Device{device.Adapt(dev)},
		Networks: []engine.Network{{Name: name, Tables: []*sched.Table{s.Table}}},
		Policy:   policy,
		Source: &load.Open{Times: times, Task: func(_ int, at int64) sched.Task {
			t := sched.Task{Network: name, Created: at, Deadline: at + p.SLO, Theta: p.Theta.At(0), Samples: 1}
			if len(p.Theta) > 1 {
				t.Thetas = p.Theta
			}
			return t
		}},
		Inputs:   engine.WordInputs(func(r *sched.Request) ([]int16, error) { return s.Inputs[s.Image(r.ID)], nil }),
		Clock:    p.Clock,
		SLO:      p.SLO,
		ByTable:  p.ByTable,
		Observer: engine.Tell(progress),
		Keep:     p.Keep,
		Now:      p.Now,
		Watchdog: p.Watchdog,
	})
	if err != nil {
		return nil, fmt.Errorf("%s at %.3g requests per second, seed %d: %w", p.Policy, p.Rate, p.Seed, err)
	}
	if err := res.Check(); err != nil {
		return nil, fmt.Errorf("the books of %s, seed %d, are wrong: %w", p.Policy, p.Seed, err)
	}
	return res, nil
}

// FirstWhy returns the first error text in a run's records.
func FirstWhy(r *engine.Result) string {
	for i := range r.Records {
		if r.Records[i].Why != "" {
			return r.Records[i].Why
		}
	}
	return "all were retried"
}
