package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

const copyTakes, inputTakes = 50 * time.Millisecond, 30 * time.Millisecond

// slowCopier is a device whose copies take 50 ms.
type slowCopier struct{ *device.Simulated }

func (d slowCopier) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	if w.Kind == device.Copy {
		w.Expect = copyTakes.Nanoseconds()
	}
	return d.Simulated.Begin(ctx, now, w)
}

// coldStart is a policy whose first decision takes a while: a cold machine.
type coldStart struct {
	sched.Serial
	slept bool
}

func (p *coldStart) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if !p.slept && s.Queue.Len() > 0 {
		p.slept = true
		time.Sleep(40 * time.Millisecond)
	}
	return p.Serial.Decide(now, s, ev, buf)
}

type copySpans struct {
	engine.NopObserver
	copies []time.Duration
}

func (o *copySpans) Span(s *engine.Span) {
	if s.What == "copy" {
		o.copies = append(o.copies, time.Duration(s.End-s.Start))
	}
}

// A copy on a paced device takes the device's time, even if the first copy began long after the engine had read its clock.
func TestCopiesTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, o := &steady{takes: 1e6}, &copySpans{}
		s := steadyServer(t, dev, sched.Serial{}, func(c *engine.Config) {
			c.Devices[0], c.Policy, c.Observer = slowCopier{device.Simulate(dev)}, &coldStart{}, o
			c.Watchdog = engine.Watchdog{Fixed: 3600e9, Other: 3600e9}
			c.Inputs = func(*sched.Request) ([]device.Tensor, error) { time.Sleep(inputTakes); return nil, nil }
		})
		ctx, stop := context.WithCancel(context.Background())
		ran := make(chan struct{})
		go func() { defer close(ran); _, _ = s.Run(ctx) }()
		for range 5 {
			if _, err := s.Do(context.Background(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		stop()
		<-ran
		for i, took := range o.copies {
			if i > 0 && took != inputTakes+copyTakes {
				t.Errorf("copy %d took %v: input and copy take %v", i, took, inputTakes+copyTakes)
			}
		}
	})
}
