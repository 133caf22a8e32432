package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// panicking is a driver that panics once in Run and once in Reset, and whenever the class of a sample is 13 in Admit.
type panicking struct {
	enginetest.Fake
	runs, resets atomic.Int64
}

func (d *panicking) Admit(ctx context.Context, network string, id device.RequestID, in []device.Tensor) error {
	if words, err := device.WordInput(in); err == nil && words[1] == 13 {
		panic("unlucky")
	}
	return d.Fake.Admit(ctx, network, id, in)
}

func (d *panicking) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	if d.runs.Add(1) == 1 {
		panic("the first launch")
	}
	return d.Fake.Run(ctx, l)
}

func (d *panicking) Reset(ctx context.Context) error {
	if d.resets.Add(1) == 1 {
		panic("the first reset")
	}
	return d.Fake.Reset(ctx)
}

// planPanics asks for a plan that panics, and then receives no result.
type planPanics struct {
	sched.Serial
	asked, told bool
}

func (p *planPanics) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	p.told = p.told || ev.Kind == sched.Planned && s.Found == nil
	if !p.asked {
		p.asked = true
		buf = append(buf, sched.Action{Kind: sched.MakePlan, Plan: nap{func(context.Context) any { panic("no plan") }}})
	}
	return p.Serial.Decide(now, s, ev, buf)
}

// A panic of an input, a driver or a plan ends only the request for which it was called, in virtual and real time. Its
// stack is logged, and all else is served.
func TestPanicsAreErrors(t *testing.T) {
	for how, serve := range map[string]func(context.Context, engine.Config) (*engine.Result, error){"run": engine.Run, "serve": engine.Serve} {
		tab := table(t, enginetest.Linear(2, 8, 1000, 1000))
		dev := &panicking{Fake: enginetest.Fake{T: tab}}
		p := &planPanics{}
		cfg := config(tab, p, []int64{0, 1000, 2000, 3000, 4000}, 60e9, func(int) int { return 1 })
		cfg.Devices, cfg.Watchdog.Least = []device.Device{device.Adapt(dev)}, 60e9
		inputs := cfg.Inputs
		cfg.Inputs = func(r *sched.Request) ([]device.Tensor, error) {
			switch r.ID {
			case 2:
				panic("the second input")
			case 4:
				return []device.Tensor{device.Words("input", []int16{0, 13}, 2)}, nil
			}
			return inputs(r)
		}
		var text bytes.Buffer
		cfg.Log = slog.New(slog.NewTextHandler(&text, nil))
		res, err := serve(t.Context(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		for i := range res.Records {
			r := &res.Records[i]
			want := engine.OnTime
			if r.ID == 2 || r.ID == 4 {
				want = engine.Errored
			}
			if r.Ending != want || want == engine.Errored && !strings.Contains(r.Why, "panic: ") {
				t.Errorf("%s: request %d ended %s: %s", how, r.ID, r.Ending, r.Why)
			}
		}
		if !p.told {
			t.Errorf("%s: the policy has not heard of its plan", how)
		}
		for _, want := range []string{"the second input", "unlucky", "the first launch", "no plan", "panic_test.go"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: the log lacks %q: %s", how, want, text.String())
			}
		}
	}
}
