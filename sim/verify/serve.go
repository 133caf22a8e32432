// A device and its reference serve under a random schedule.

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// randomStream separates the random schedule of a seed from the arrivals of the same seed.
const randomStream = 0x736c756963650002

// random is a policy that halts, fills and merges at random, to exercise devices.
type random struct{ rng *rand.Rand }

func (*random) Name() string { return "random" }

func (r *random) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	d := &s.Devices[0]
	queued := s.Queue.Len()
	launch := func(last, limit int) {
		buf = append(buf, sched.Action{
			Kind: sched.Launch, Network: s.Queue.At(0).Network, Last: last, Count: 1 + r.rng.IntN(min(limit, queued)),
		})
	}
	if d.Down {
		return buf
	}
	if len(d.Launches) == 0 {
		if queued > 0 {
			launch(d.Table(s.Queue.At(0).Network).Segments()-1, d.MaxBatch)
		}
		return buf
	}
	top := d.Launches[len(d.Launches)-1]
	if top.Phase == sched.Running {
		return buf
	}
	base, rem := top, len(top.Requests)
	if len(d.Launches) > 1 {
		if top.Reached < top.Last {
			return buf
		}
		base = d.Launches[len(d.Launches)-2]
		rem += len(base.Requests)
		buf = append(buf, sched.Action{Kind: sched.Merge, Launch: top.ID, Into: base.ID})
	}
	last := d.Table(base.Network).Segments() - 1
	halted := base.Phase == sched.Halted
	if room := d.MaxBatch - rem; room > 0 && queued > 0 && base.Reached < last && r.rng.IntN(5) < 3 {
		if !halted {
			buf = append(buf, sched.Action{Kind: sched.Preempt, Launch: base.ID})
		}
		launch(base.Reached, room)
		return buf
	}
	if !halted && base.Reached < base.Last && r.rng.IntN(4) == 0 { // halt and resume immediately, which has no effect
		buf = append(buf, sched.Action{Kind: sched.Preempt, Launch: base.ID})
		halted = true
	}
	if halted || base.Reached == base.Last {
		buf = append(buf, sched.Action{Kind: sched.Resume, Launch: base.ID, Last: last})
	}
	return buf
}

// strict stops a run at the first failure, because a comparison must not retry.
type strict struct {
	device.Blocking
	fail context.CancelCauseFunc
}

func (s *strict) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	rep, err := s.Blocking.Run(ctx, l)
	if err != nil {
		s.fail(err)
	}
	return rep, err
}

func (s *strict) Admit(ctx context.Context, network string, id device.RequestID, input []device.Tensor) error {
	err := s.Blocking.Admit(ctx, network, id, input)
	if err != nil {
		s.fail(err)
	}
	return err
}

// Serve serves every image of a setup on a device under a random schedule: batches of 1..B_max, halting, filling,
// merging, and a random threshold for every request. If the device is a Shadow, it compares results during the run.
func Serve(ctx context.Context, s *experiments.Setup, dev device.Blocking, seed uint64, progress func(int)) (*engine.Result, error) {
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	rng := rand.New(rand.NewPCG(seed, randomStream))
	name := s.Bundle.Network.Name
	thetas := []float32{0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, experiments.Never}
	res, err := engine.Run(run, engine.Config{
		Devices:  []device.Device{device.Adapt(&strict{dev, fail})},
		Networks: []engine.Network{{Name: name, Tables: []*sched.Table{s.Table}}},
		Policy:   &random{rng},
		Source: &load.Open{Times: make([]int64, len(s.Inputs)), Task: func(int, int64) sched.Task {
			return sched.Task{Network: name, Deadline: 1 << 62, Theta: thetas[rng.IntN(len(thetas))]}
		}},
		Inputs:   engine.WordInputs(func(r *sched.Request) ([]int16, error) { return s.Inputs[s.Image(r.ID)], nil }),
		Clock:    engine.Measured,
		Observer: engine.Tell(progress),
	})
	if cause := context.Cause(run); cause != nil {
		err = cause
	}
	if err != nil {
		return nil, fmt.Errorf("random schedule of seed %d: %w", seed, err)
	}
	return res, nil
}
