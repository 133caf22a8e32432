package device_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
)

// alarms is a virtual device whose launches end at the time that their Expect says.
type alarms struct {
	device.Virtual
	due map[device.WorkID]device.Time
}

func (a *alarms) Info() device.Info { return device.Info{Name: "alarms"} }

func (a *alarms) Begin(_ context.Context, now device.Time, w *device.Work) (bool, error) {
	if w.Expect < 0 {
		return false, errors.New("not this one")
	}
	a.due[w.ID] = now + w.Expect
	return false, nil
}

func (a *alarms) Abort(now device.Time, id device.WorkID, _ bool) { a.due[id] = now }

func (a *alarms) Next() (device.Time, bool) {
	first, any := device.Time(0), false
	for _, due := range a.due {
		if !any || due < first {
			first, any = due, true
		}
	}
	return first, any
}

func (a *alarms) Take(now device.Time) *device.Event {
	for id, due := range a.due {
		if due <= now {
			delete(a.due, id)
			return &device.Event{Kind: device.Done, Work: id, Over: true}
		}
	}
	return nil
}

// TestPacePosts: due events are posted when the device is asked, and it says when that is, even if a later Begin, an
// Abort, or a copy whose input arrives changes which event is next.
func TestPacePosts(t *testing.T) {
	v := &alarms{due: map[device.WorkID]device.Time{}}
	p := device.Pace(v)
	ctx, stop := context.WithCancel(context.Background())
	came := make(chan device.WorkID, 8)
	gone := p.Attach(ctx, func(ev device.Event) { came <- ev.Work })
	begin := func(now, after device.Time, id device.WorkID) {
		t.Helper()
		if _, err := p.Begin(ctx, now, &device.Work{ID: id, Kind: device.Reset, Expect: after}); err != nil {
			t.Fatal(err)
		}
	}
	posted := func(due device.Time, id device.WorkID) {
		t.Helper()
		if at, ok := p.Next(); !ok || at != due {
			t.Fatalf("the next event is due at %d (%t): expected %d", at, ok, due)
		}
		p.Post(due - 1)
		if len(came) > 0 {
			t.Fatalf("work %d ended before it was due", <-came)
		}
		p.Post(due)
		if len(came) == 0 {
			t.Fatalf("work %d has not ended", id)
		} else if got := <-came; got != id {
			t.Fatalf("work %d ended, where %d is due", got, id)
		}
	}
	begin(0, 1e12, 1)
	begin(0, 5e8, 2)
	begin(0, 1e6, 3) // the next one now
	posted(1e6, 3)
	posted(5e8, 2)
	p.Abort(6e8, 1, true)
	posted(6e8, 1)
	if _, ok := p.Next(); ok {
		t.Error("something is due, and nothing is under way")
	}
	if _, err := p.Begin(ctx, 6e8, &device.Work{ID: 4, Kind: device.Reset, Expect: -1}); err == nil {
		t.Error("its error is lost")
	}
	begin(6e8, 1e15, 5)
	in := make(chan struct{})
	if _, err := p.Begin(ctx, 7e8, &device.Work{ID: 9, Kind: device.Copy, Expect: 1e12, Input: func() ([]device.Tensor, error) { <-in; return nil, nil }}); err != nil {
		t.Fatal(err)
	}
	if at, _ := p.Next(); at != 6e8+1e15 {
		t.Errorf("the next event is due at %d, before the copy has its input", at)
	}
	close(in)
	select {
	case id := <-came:
		if at, _ := p.Next(); id != 0 || at >= 6e8+1e15 {
			t.Errorf("an event of work %d, the next one due at %d: expected one of no work, and the copy's end", id, at)
		}
	case <-time.After(time.Minute):
		t.Error("nobody hears that the copy's end is the next event")
	}
	stop()
	<-gone
}
