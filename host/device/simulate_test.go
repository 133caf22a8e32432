package device_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
)

// What is no launch takes what is expected of it, in order, beside what runs; a launch's requests leave
// where their confidence reaches their threshold, or at the last exit.
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
	take(1001, 5, device.Done) // not in no time: the engine counts on an event
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
