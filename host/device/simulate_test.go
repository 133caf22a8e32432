package device_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// Other work than launches takes its expected time, in order, while launches run. A launch's requests leave if their
// confidence reaches their threshold, or at the last exit.
func TestSimulate(t *testing.T) {
	d := device.Simulate(&pipe{})
	begin := func(now device.Time, w *device.Work, done bool) {
		t.Helper()
		if got, err := d.Begin(context.Background(), now, w); got != done || err != nil {
			t.Fatalf("a %s: %t, %v", w.Kind, got, err)
		}
	}
	take := func(due device.Time, work device.WorkID, kind device.EventKind) *device.Event {
		t.Helper()
		next, ok := d.Next()
		if early := d.Take(due - 1); early != nil {
			t.Fatalf("before it is due: %+v", early)
		}
		ev := d.Take(due)
		if !ok || next != due || ev == nil || ev.Work != work || ev.Kind != kind || !ev.Over {
			t.Fatalf("due at %d: %+v, expected %s of work %d at %d", next, ev, kind, work, due)
		}
		return ev
	}
	begin(0, &device.Work{ID: 1, Kind: device.Copy}, true)
	begin(0, &device.Work{ID: 2, Kind: device.Reset, Expect: 12_000}, false)
	begin(0, &device.Work{ID: 3, Kind: device.Load, Expect: 3000}, false)
	begin(1000, &device.Work{ID: 4, Launch: device.Launch{Requests: []device.RequestID{7, 8}, Theta: []float32{0.5, 2}}}, false)
	begin(1000, &device.Work{ID: 5, Kind: device.Reset}, false)
	take(1001, 5, device.Done) // the time must not be zero: the engine waits for an event
	take(3000, 3, device.Done)
	ev := take(11_000, 4, device.Passed)
	if r := ev.Report.Results; len(r) != 2 || r[0].Taken != 0 || r[1].Taken != 0 || r[1].Request != 8 {
		t.Errorf("%+v", r)
	}
	take(12_000, 2, device.Done)
	if _, ok := d.Next(); ok {
		t.Error("something is due that nobody began")
	}
	if _, err := d.Begin(context.Background(), 0, &device.Work{Kind: device.Reset + 1}); !errors.Is(err, device.ErrRequest) {
		t.Error(err)
	}
	w := device.Work{ID: 6, Launch: device.Launch{First: 1, Last: 2, Requests: []device.RequestID{7, 8}, Theta: []float32{0.1, 0.5, 0.1, 0.6}}}
	r := w.Passed(false, func(device.RequestID) device.ExitResult { return device.ExitResult{Confidence: 0.5} }).Report.Results
	if r[0].Taken != 2 || r[1].Taken != -1 || r[0].Exits[0].Exit != 2 {
		t.Errorf("at the exit of segment 2: %+v", r)
	}
}

// jammed never ends its third launch, nor later launches, until it is reset.
type jammed struct {
	works []*device.Work
	due   device.Time
	n     int
	jam   bool
	units []device.Units
}

func (*jammed) Info() device.Info {
	return device.Info{Name: "jammed", MaxBatch: 1, Slots: 4, Places: 1}
}

func (j *jammed) Start(now device.Time, w *device.Work) {
	j.n++
	j.jam = j.jam || j.n == 3
	j.works, j.due = append(j.works, w), now+10_000
}

func (j *jammed) Next() (device.Time, bool) { return j.due, len(j.works) > 0 && !j.jam }

func (j *jammed) End(device.Time) *device.Event {
	w := j.works[0]
	j.works = j.works[1:]
	return w.Passed(true, func(device.RequestID) device.ExitResult { return device.ExitResult{} })
}

func (j *jammed) Reset(_ device.Time, units device.Units) {
	j.works, j.jam, j.units = nil, false, append(j.units, units)
}

// A simulator learns of resets, and has dropped the abandoned launch afterwards.
func TestSimulatorIsReset(t *testing.T) {
	table, err := sched.Uniform("net", 1, 1, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	j := &jammed{}
	res, err := engine.Run(context.Background(), engine.Config{
		Devices:  []device.Device{device.Simulate(j)},
		Networks: []engine.Network{{Name: "net", Tables: []*sched.Table{table}}},
		Policy:   sched.Serial{},
		Source: &load.Open{Times: []int64{0, 1, 2, 3, 4, 5}, Task: func(int, int64) sched.Task {
			return sched.Task{Network: "net"}
		}},
		Inputs: engine.NoInputs,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Summary(); s.OnTime != 6 || s.Hangs != 1 || s.Resets != 1 || len(j.works) > 0 || len(j.units) != 1 || !j.units[0].Empty() {
		t.Errorf("%+v, %d launches left, resets of %v", s, len(j.works), j.units)
	}
}
