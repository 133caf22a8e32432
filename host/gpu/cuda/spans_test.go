package cuda_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// An anchor is the narrowest of several readings. A reading for which the host was late is not an anchor; its width shows
// that.
func TestAnchor(t *testing.T) {
	const us = time.Microsecond
	const ahead = time.Second // the GPU's clock
	launched := []time.Duration{100 * us, 1000 * us, 90_000 * us}
	seen := [][]time.Duration{
		{40_110 * us, ahead + 160*us}, // not running for 40 ms
		{1013 * us, ahead + 1008*us, 1015 * us, ahead + 1014*us, 1060 * us, ahead + 1058*us},       // 8 us from the launch to the first value, the next one seen 1 us late
		{90_009 * us, ahead + 90_008*us, 90_011 * us, ahead + 90_007*us, 90_012 * us, ahead + 1e9}, // the GPU's clock goes back
	}
	want := cuda.Anchor{Host: 1015 * us, Width: 9 * us, GPU: uint64(ahead + 1014*us)}
	if got := cuda.AnchorOf(launched, seen); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if got := cuda.AnchorOf(launched[:1], seen[:1]); got.Width != 40_010*us {
		t.Errorf("one that is late: %+v", got)
	}
	if got := cuda.AnchorOf(launched[2:], [][]time.Duration{seen[2]}); got != (cuda.Anchor{}) {
		t.Errorf("of a clock that goes back: %+v", got)
	}
	if got := cuda.AnchorOf(launched[:1], [][]time.Duration{nil}); got != (cuda.Anchor{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// Spans by the GPU's clock start at the flag, and are upper limits. Unobserved spans are unknown, not zero, and
// impossible ones are counted and left out.
func TestSpans(t *testing.T) {
	const ms, us = 1_000_000, 1000
	const ahead = 500 * ms
	before, after := cuda.Anchor{Host: ms, GPU: ahead + ms}, cuda.Anchor{Host: 11 * ms, GPU: ahead + 11*ms}
	moved := func(a cuda.Anchor, by int64) cuda.Anchor { a.GPU += uint64(by); return a }
	wide := func(a cuda.Anchor, w time.Duration) cuda.Anchor { a.Width = w; return a }
	for _, c := range []struct {
		name                      string
		gone, began               uint64
		before, after             cuda.Anchor
		step                      time.Duration
		wantGone, wantBegan, late time.Duration
		impossible                int
	}{
		{"seen", ahead + 4*ms, ahead + 6*ms, before, after, 0, 2 * ms, 4 * ms, 0, 0},
		{"nothing seen", 0, kernels.NotBegan, before, after, 0, cuda.Unknown, cuda.Unknown, 0, 0},
		{"no anchor", ahead + 4*ms, ahead + 6*ms, cuda.Anchor{}, after, 0, cuda.Unknown, cuda.Unknown, 0, 0},
		{"none afterwards", ahead + 4*ms, ahead + 6*ms, before, cuda.Anchor{}, 0, cuda.Unknown, cuda.Unknown, 0, 0},
		{"a coarse timer", ahead + 2*ms, ahead + 3*ms, before, after, ms, ms, 2 * ms, 2 * ms, 0},
		{"wide anchors", ahead + 4*ms, ahead + 6*ms, wide(before, 3*us), wide(after, 5*us), 10, 2*ms + 10, 4*ms + 10, 5*us + 20, 0},
		{"drift", ahead + 4*ms + 3*3*us/10, ahead + 6*ms + 5*3*us/10, before, moved(after, 3*us), 0, 2 * ms, 4 * ms, 0, 0},
		{"begun before the flag", ahead + 4*ms, ahead + 2*ms - 1, before, after, 0, 2 * ms, cuda.Impossible, 0, 1},
		{"gone before the flag", ahead + ms, ahead + 6*ms, before, after, 10, cuda.Impossible, 4*ms + 10, 20, 1},
		{"gone after the host saw it", ahead + 5*ms + 21*us, ahead + 6*ms, wide(before, 20*us), after, 0, cuda.Impossible, 4 * ms, 20 * us, 1},
		{"gone as the host saw it", ahead + 5*ms + 20*us, ahead + 6*ms, wide(before, 20*us), after, 0, 3*ms + 20*us, 4 * ms, 20 * us, 0},
		{"begun after it was over", ahead + 4*ms, ahead + 9*ms + 1, before, after, 0, 2 * ms, cuda.Impossible, 0, 2},
		{"clocks that go apart", ahead + 4*ms, ahead + 6*ms, before, moved(after, 11*us), 0, cuda.Impossible, cuda.Impossible, 0, 3},
		{"and the other way", ahead + 4*ms, ahead + 6*ms, before, moved(after, -11*us), 0, cuda.Impossible, cuda.Impossible, 0, 3},
		{"a clock that goes back", ahead + 4*ms, ahead + 6*ms, before, moved(before, -1), 0, cuda.Impossible, cuda.Impossible, 0, 3},
	} {
		p, clock := cuda.Spans(ms, 2*ms, 5*ms, 9*ms, c.gone, c.began, c.before, c.after, c.step)
		first := c.wantBegan // from the arrival, a millisecond before the flag
		if first >= 0 {
			first += ms
		} else if c.name == "begun before the flag" {
			first = ms - 1
		}
		if want := (cuda.Preemption{Away: 4 * ms, First: first, Gone: c.wantGone, Began: c.wantBegan, Whole: 8 * ms}); p != want {
			t.Errorf("%s: %+v, expected %+v", c.name, p, want)
		}
		if want := (cuda.Clock{Step: c.step, Late: c.late, Impossible: c.impossible}); clock != want {
			t.Errorf("%s: the clock is %+v, expected %+v", c.name, clock, want)
		}
	}
	// With reset-ahead the first block of priority may begin before the flag, but not before its launch arrived or after it
	// ended.
	for began, want := range map[uint64][2]time.Duration{
		ahead + 2*ms - 1: {ms - 1, 0}, ahead + 6*ms: {5 * ms, 4 * ms}, ahead + ms - 1: {cuda.Impossible, cuda.Impossible}, ahead + 9*ms + 1: {cuda.Impossible, cuda.Impossible},
	} {
		if p, _ := cuda.SpansAhead(ms, 2*ms, 5*ms, 9*ms, ahead+4*ms, began, before, after, 0); p.First != want[0] || p.Began != want[1] {
			t.Errorf("ahead, begun at %d: %+v, expected %v", began-ahead, p, want)
		}
	}
	p, _ := cuda.Spans(ms, -1, 5*ms, 9*ms, 0, ahead+6*ms, before, after, 0) // the others were awaited, not stopped
	if want := (cuda.Preemption{Away: 4 * ms, First: 5 * ms, Gone: cuda.Unknown, Began: cuda.Unknown, Whole: 8 * ms}); p != want {
		t.Errorf("without a flag: %+v, expected %+v", p, want)
	}
}

// With any step of the timer and any delay of a thread, a span is never too short, and too long at most by the clock's
// stated error.
func TestSpanBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 6))
	delay := func() time.Duration { // usually short, sometimes long
		return time.Duration(r.Int64N(int64(time.Microsecond) << r.IntN(16)))
	}
	for range 20_000 {
		step := time.Duration(1) << r.IntN(21)
		ahead := time.Hour + time.Duration(r.Int64N(int64(time.Second)))
		shown := func(at time.Duration) uint64 { return uint64((at + ahead) / step * step) }
		now := time.Duration(0)
		anchor := func() cuda.Anchor {
			var launched []time.Duration
			var seen [][]time.Duration
			for range 1 + r.IntN(4) {
				now += delay()
				launched = append(launched, now)
				var run []time.Duration
				for range 1 + r.IntN(4) {
					now += delay()
					value := shown(now)
					now += delay()
					if n := len(run); n == 0 || value > uint64(run[n-1]) {
						run = append(run, now, time.Duration(value))
					}
				}
				seen = append(seen, run)
			}
			return cuda.AnchorOf(launched, seen)
		}
		before := anchor()
		var at [6]time.Duration // arrived, flagged, gone, away, began, over
		for i := range at {
			now += delay()
			at[i] = now
		}
		p, clock := cuda.Spans(at[0], at[1], at[3], at[5], shown(at[2]), shown(at[4]), before, anchor(), step)
		for _, s := range [][2]time.Duration{{p.Gone, at[2] - at[1]}, {p.Began, at[4] - at[1]}, {p.First, at[4] - at[0]}} {
			if s[0] < s[1] || s[0] > s[1]+clock.Late {
				t.Fatalf("%v for %v, late by %v at most, with a step of %v", s[0], s[1], clock.Late, step)
			}
		}
		if clock.Impossible > 0 {
			t.Fatalf("%d impossible, with a step of %v: %+v", clock.Impossible, step, p)
		}
	}
}

// On a GPU whose timer ticks in milliseconds, spans report that. If its clock is set back, spans are counted and left
// out.
func TestClock(t *testing.T) {
	const tick = time.Millisecond
	_, h := library(t)
	h.Clock(int(tick), 0)
	defer h.Clock(1, 0)
	r := start(t, cuda.Config{Mode: mode(t, "reset"), Timed: true})
	h.Slow(300_000)
	b, _ := long(t)
	r.load(b)
	in := randnet.Input(rand.New(rand.NewPCG(*seed, 5)), b)
	for id := range device.RequestID(2) {
		if e := r.copy(b, id+1, in); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
	}
	counts := func() cuda.Counts {
		t.Helper()
		c, err := r.d.Counts()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// round preempts until a block has seen the flag, and returns the result.
	round := func(between func()) (cuda.Preemption, cuda.Clock) {
		t.Helper()
		for range 100 {
			n := len(counts().Preemptions)
			r.begin(launch(b, 0, 0, 2, 1))
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			w := launch(b, 0, 0, 2, 2)
			w.Launch.Priority = 1
			r.begin(w)
			for range 2 {
				if e := r.event(); e.Kind != device.Passed || !e.Over {
					t.Fatalf("%+v (%v)", e, e.Err)
				}
			}
			between()
			c := counts()
			for _, p := range c.Preemptions[n:] {
				if p.Gone != cuda.Unknown && p.Began != cuda.Unknown {
					return p, c.Clock
				}
			}
		}
		t.Fatal("no block has seen a flag")
		return cuda.Preemption{}, cuda.Clock{}
	}
	p, clock := round(func() {})
	if clock.Step < tick || clock.Step%tick != 0 || clock.Late < clock.Step || clock.Impossible != 0 {
		t.Errorf("a timer of %v: %+v", tick, clock)
	}
	if p.Gone < 0 || p.Began < p.Gone || p.Gone > p.Away+clock.Late || p.Began > p.Whole+clock.Late {
		t.Errorf("spans %+v, late by %v at most", p, clock.Late)
	}
	ahead := 0
	p, clock = round(func() { ahead -= 2 * int(time.Second); h.Clock(int(tick), ahead) })
	if p.Gone != cuda.Impossible || p.Began != cuda.Impossible || clock.Impossible < 2 {
		t.Errorf("a clock that was put back: %+v, %+v", p, clock)
	}
	seen := clock.Impossible
	if p, clock = round(func() {}); p.Gone < 0 || p.Began < 0 || clock.Impossible != seen {
		t.Errorf("and then goes on: %+v, %+v", p, clock)
	}
}

// A launch of priority arrives with Begin. If the launcher is then busy, that time is part of all spans from the arrival.
func TestArrival(t *testing.T) {
	var busy, aside chan struct{} // a launcher that launches waits for the one, and closes the other
	began := make(chan struct{})
	var once sync.Once
	r := start(t, cuda.Config{Mode: mode(t, "reset"), Timed: true, Heard: func(o gpu.Order) {
		switch {
		case busy == nil:
		case o.Did == gpu.PutAside:
			close(aside)
		default: // the first kernel of the first launch; all later orders find both closed
			once.Do(func() { close(began) })
			<-busy
		}
	}})
	b, _ := r.admitted(1, 6)
	if e := r.copy(b, 2, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	both := [2]device.Work{launch(b, 0, 0, 2, 1), launch(b, 0, 0, 2, 2)}
	for i := range both {
		both[i].Launch.ID, both[i].Launch.Priority = device.LaunchID(i+1), i
		r.must(both[i]) // creates and clears their streams
	}
	n, err := r.d.Counts()
	if err != nil || len(n.Preemptions) > 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	busy, aside = make(chan struct{}), make(chan struct{})
	r.h.Hold(1)
	r.begin(both[0])
	<-began
	r.begin(both[1])
	came := time.Now()
	time.Sleep(30 * time.Millisecond)
	waited := time.Since(came)
	close(busy)
	<-aside
	r.h.Hold(0)
	for range both {
		if e := r.event(); e.Kind != device.Passed || !e.Over {
			t.Fatalf("%+v (%v)", e, e.Err)
		}
	}
	if n, err = r.d.Counts(); err != nil || len(n.Preemptions) != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	if p := n.Preemptions[0]; p.Away < waited || p.First < waited || p.Whole < waited {
		t.Errorf("%+v of a launch that waited for the launcher for %v", p, waited)
	}
}
