package device_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
)

// alarms is a virtual device whose launches end at the time that their Expect says.
type alarms struct {
	device.Virtual
	due   map[device.WorkID]device.Time
	began func()

	asked   atomic.Int64
	endless bool // something is due, again and again
	turn    int
	given   bool
}

func (a *alarms) Info() device.Info { return device.Info{Name: "alarms"} }

func (a *alarms) Begin(_ context.Context, now device.Time, w *device.Work) (bool, error) {
	if w.Expect < 0 {
		return false, errors.New("not this one")
	}
	a.due[w.ID] = now + w.Expect
	if a.began != nil {
		a.began()
	}
	return false, nil
}

func (a *alarms) Abort(now device.Time, id device.WorkID, _ bool) { a.due[id] = now }

func (a *alarms) Next() (device.Time, bool) {
	a.asked.Add(1)
	if a.endless {
		a.turn++
		return 0, a.turn%3 > 0
	}
	first, any := device.Time(0), false
	for _, due := range a.due {
		if !any || due < first {
			first, any = due, true
		}
	}
	return first, any
}

func (a *alarms) Take(now device.Time) *device.Event {
	if a.given = a.endless && !a.given; a.given {
		return &device.Event{Kind: device.Done, Work: 7, Over: true}
	}
	for id, due := range a.due {
		if due <= now {
			delete(a.due, id)
			return &device.Event{Kind: device.Done, Work: id, Over: true}
		}
	}
	return nil
}

// TestPaceTimer: events come by themselves when they are due, also where a later Begin or an Abort makes another one the
// next; after the run nothing comes.
func TestPaceTimer(t *testing.T) {
	v := &alarms{due: map[device.WorkID]device.Time{}}
	p := device.Pace(v)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	start := time.Now()
	since := func() device.Time { return time.Since(start).Nanoseconds() }
	if _, err := p.Begin(ctx, since(), &device.Work{ID: 8, Kind: device.Reset, Expect: 1e6}); err != nil {
		t.Fatal(err)
	}
	came := make(chan device.WorkID, 8)
	var ends atomic.Value // what Attach gives
	ends.Store((<-chan struct{})(nil))
	gone := p.Attach(ctx, func(ev device.Event) {
		select {
		case <-ends.Load().(<-chan struct{}):
			t.Errorf("work %d ended after the run", ev.Work)
		default:
			if !v.endless {
				came <- ev.Work
			}
		}
	})
	begin := func(id device.WorkID, after time.Duration) {
		t.Helper()
		if _, err := p.Begin(ctx, since(), &device.Work{ID: id, Kind: device.Reset, Expect: after.Nanoseconds()}); err != nil {
			t.Fatal(err)
		}
	}
	next := func(want device.WorkID) {
		t.Helper()
		select {
		case got := <-came:
			if got != want {
				t.Fatalf("work %d ended, where %d is due", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("work %d has not ended", want)
		}
	}
	ends.Store(gone)
	next(8) // from before
	begin(1, time.Hour)
	begin(2, 50*time.Millisecond)
	begin(3, time.Millisecond) // the next one now
	next(3)
	next(2) // nothing began since
	p.Abort(since(), 1, true)
	next(1)
	if _, err := p.Begin(ctx, since(), &device.Work{ID: 4, Kind: device.Reset, Expect: -1}); err == nil {
		t.Error("its error is lost")
	}
	copied := &device.Work{ID: 9, Kind: device.Copy, Expect: 1e6, Input: func() ([]device.Tensor, error) { return nil, nil }}
	if _, err := p.Begin(ctx, since(), copied); err != nil {
		t.Fatal(err)
	}
	next(9) // it began behind Begin
	begin(10, time.Hour)
	p.Post(since() + 2*time.Hour.Nanoseconds())
	next(10)
	hang, in := make(chan struct{}), make(chan struct{})
	copied = &device.Work{ID: 11, Kind: device.Copy, Expect: -1, Input: func() ([]device.Tensor, error) { close(in); <-hang; return nil, nil }}
	if _, err := p.Begin(ctx, since(), copied); err != nil {
		t.Fatal(err)
	}
	<-in
	begin(5, 20*time.Millisecond)
	v.began = func() { // the timer goes off behind the end of the run, which waits for this
		stop()
		time.Sleep(50 * time.Millisecond)
		v.endless = true
	}
	begin(6, time.Hour)
	v.asked.Store(0)
	time.Sleep(20 * time.Millisecond)
	if n := v.asked.Load(); n > 0 {
		t.Errorf("the device is asked %d times after the run, while an input hangs", n)
	}
	close(hang)
	<-gone
	time.Sleep(20 * time.Millisecond)
}
