// This file measures a preemption's time spans with the host's clock and, if Config.Timed is set, also the GPU's clock.

package cuda

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Preemption is a priority launch that found other launches on the GPU.
type Preemption struct {
	// Arrival is the call of Begin. Spans from arrival include the wait for the launcher's thread.

	// Away is the time from arrival until the host knew that no other launch was on the GPU. For killed launches, the
	// host knows this after it has copied and read their Control. For awaited launches, it knows this from their
	// events.
	Away time.Duration
	// First is the time from arrival until the priority launch's first block began, by the GPU's clock. It is measured for
	// killed and awaited launches, only on Timed devices.
	First time.Duration
	// Gone and Began start at the driver call that writes the flag. Gone ends when the last block of the other launches
	// ends. Began ends when the first block of the priority launch begins. Both ends are times of the GPU's clock. Gone
	// and Began are measured only on Timed devices that kill launches. They are never too short, and too long by at most
	// Clock.Late. Began is 0 if the first priority block began before the flag was written.
	Gone, Began time.Duration
	// Whole is the time from arrival to completion.
	Whole time.Duration
}

// Special values of a span.
const (
	Unknown    = time.Duration(-1) // the span was not observed
	Impossible = time.Duration(-2) // the observed times contradict each other
)

// Clock is the accuracy of spans that are measured with the GPU's clock.
type Clock struct {
	Step time.Duration // smallest observed step of the GPU's timer
	// Late is the largest error of a span: the width of the widest anchor plus two steps. Spans can only be too long. The
	// timer rounds down twice, in the anchor and in the block, so two steps are added.
	Late time.Duration
	// Impossible counts impossible spans: the block began or left before the flag or the launch, or after the host had
	// seen this event, or the clocks drifted too far apart.
	Impossible int
}

// meeting contains the observed times of a preemption.
type meeting struct {
	arrived, flagged, away, over time.Time
	gone, began                  uint64 // GPU clock in ns
	kernel                       int    // index of the timed priority kernel
	timed                        bool
	ahead                        bool // the priority launch precedes the flag, so its first block may begin before the flag
}

// timed reports whether a flow's segment contains the timed kernel.
func (f *flow) timed() bool {
	return f.met != nil && f.met.timed && f.net.b.Network.Exits[f.seg].First <= f.met.kernel && f.met.kernel <= f.last()
}

// anchor relates the two clocks. The GPU's clock showed the value in field `gpu` shortly before the host's clock showed
// the value in field `host`. The time between these moments is at most width plus one step of the timer. width is
// negative if the timer stepped while the clock kernel ran. If gpu is 0, there is no anchor.
type anchor struct {
	host, width time.Duration // host: time since launcher.start
	gpu         uint64
}

// sighting is a value of the GPU's clock and the time at which the host saw this value.
type sighting struct {
	host time.Duration
	gpu  uint64
}

// anchorOf derives an anchor from the clock values of one run of the clock kernel. The GPU wrote each value after the
// launch and before the host saw the value. If there is no value, or the clock did not advance, the result is anchor{}.
func anchorOf(launched time.Duration, seen []sighting) (a anchor) {
	for i, s := range seen {
		if i > 0 && s.gpu <= seen[i-1].gpu {
			return anchor{}
		}
		if i == 0 || s.host-time.Duration(s.gpu-a.gpu) < a.host {
			a.host, a.gpu = s.host, s.gpu
		}
	}
	if len(seen) > 0 {
		a.width = a.host - time.Duration(a.gpu-seen[0].gpu) - launched
	}
	return a
}

// narrower returns the narrower of two anchors.
func narrower(a, b anchor) anchor {
	if a.gpu == 0 || b.gpu != 0 && b.width < a.width {
		return b
	}
	return a
}

const (
	anchorTries = 8      // runs per anchor; the host's thread should not be interrupted in at least one of them
	anchorNs    = 50_000 // ns: length of each run
	stepBlocks  = 8      // number of blocks that measure the timer's step
)

// anchored returns the narrowest anchor of several runs of a kernel that writes the GPU's clock to host memory.
func (l *launcher) anchored() (best anchor, err error) {
	f, err := l.lib.Function(l.module, kernels.EntryClock)
	if err != nil {
		return best, err
	}
	_, host, free, err := l.scratch(8, l.copies)
	if err != nil {
		return best, err
	}
	var a driver.Args
	clock := &struct{ at, ns uint64 }{uint64(uintptr(unsafe.Pointer(unsafe.SliceData(host)))), anchorNs}
	a.Set(0, unsafe.Pointer(&clock.at))
	a.Set(1, unsafe.Pointer(&clock.ns))
	defer func() {
		if e := free(); err == nil {
			err = e
		}
		a.Free()
	}()
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(host)))
	for range anchorTries {
		atomic.StoreUint64(word, 0)
		launched := time.Since(l.start)
		if err := l.lib.Launch(f, 1, kernels.Threads, l.copies, &a); err != nil {
			return best, err
		}
		best = narrower(best, anchorOf(launched, l.sightings(word)))
		if err := l.lib.Wait(l.copies); err != nil { // a late write could look like a value of the next run
			return best, err
		}
	}
	return best, nil
}

// sightings reads a word until the clock kernel ends. The kernel writes the values of the GPU's clock to this word.
func (l *launcher) sightings(word *uint64) (all []sighting) {
	last := uint64(0)
	for began := time.Now(); time.Since(began) < time.Second; {
		t := atomic.LoadUint64(word)
		now := time.Since(l.start)
		if t == last {
			if last != 0 && time.Since(began) > 2*anchorNs {
				break
			}
			continue
		}
		if last == 0 {
			began = time.Now()
		}
		last = t
		all = append(all, sighting{now, t})
	}
	return all
}

// timerStep measures the smallest step of the GPU's timer. Each thread block waits until the timer changes.
func (l *launcher) timerStep() (least time.Duration, err error) {
	all, err := l.where(l.copies, stepBlocks, 1)
	for i, b := range all {
		if step := time.Duration(b.end - b.begin); i == 0 || step < least {
			least = step
		}
	}
	return least, err
}

// clocks converts GPU times between two anchors to host times.
type clocks struct {
	start         time.Time
	before, after anchor
	step          time.Duration
}

// late returns by how much the result of moment can be too late; it is never too early. One step is the rounding of the
// anchor's value. The second is added by moment, because a block's value is rounded down too.
func (c *clocks) late() time.Duration { return max(c.before.width, c.after.width) + 2*c.step }

// apart returns the largest plausible drift of the clocks within d: a thousandth of d.
func apart(d time.Duration) time.Duration { return d / 1000 }

// steady reports whether the drift between the anchors is plausible.
func (c *clocks) steady() bool {
	if c.after.gpu < c.before.gpu {
		return false
	}
	host := c.after.host - c.before.host
	return (host - time.Duration(c.after.gpu-c.before.gpu)).Abs() <= c.before.width+c.after.width+2*c.step+apart(host)
}

// moment returns the latest host time at which the GPU's clock can have shown a value. It assumes a constant drift.
func (c *clocks) moment(gpu uint64) time.Time {
	rate := 1.0 // host ns per GPU ns
	if d := c.after.gpu - c.before.gpu; d > 0 {
		rate = float64(c.after.host-c.before.host) / float64(d)
	}
	return c.start.Add(c.before.host + time.Duration(rate*float64(int64(gpu-c.before.gpu))) + c.step)
}

// span returns the time from the host time `from` to a value of the GPU's clock. At `known` the host had seen its
// event.
func (c *clocks) span(from time.Time, gpu uint64, known time.Time) time.Duration {
	if c.before.gpu == 0 || c.after.gpu == 0 || from.IsZero() {
		return Unknown
	}
	at := c.moment(gpu)
	if !c.steady() || at.Before(from) || !known.IsZero() && at.Add(-c.late()).After(known) {
		return Impossible
	}
	return at.Sub(from)
}

// of returns a preemption's spans.
func (c *clocks) of(m *meeting) Preemption {
	p := Preemption{Unknown, Unknown, Unknown, Unknown, Unknown}
	if !m.away.IsZero() {
		p.Away = m.away.Sub(m.arrived)
	}
	if !m.over.IsZero() {
		p.Whole = m.over.Sub(m.arrived)
	}
	if m.timed && m.gone != 0 {
		p.Gone = c.span(m.flagged, m.gone, m.away)
	}
	if m.timed && m.began != 0 && m.began != kernels.NotBegan {
		p.First, p.Began = c.span(m.arrived, m.began, m.over), c.span(m.flagged, m.began, m.over)
		if m.ahead && p.First >= 0 && p.Began == Impossible {
			p.Began = 0
		}
	}
	return p
}

// spans computes the spans of all preemptions since its last call, with the anchor of that call and a new anchor.
func (l *launcher) spans() (err error) {
	c := clocks{start: l.start, before: l.anchor, step: l.counts.Clock.Step}
	if l.cfg.Timed {
		if c.after, err = l.anchored(); err != nil {
			return err
		}
		l.anchor = c.after
	}
	l.counts.reckon(&c, l.met)
	l.met = nil
	return nil
}

// reckon adds to Counts the spans of preemptions between two anchors.
func (n *Counts) reckon(c *clocks, met []*meeting) {
	if len(met) > 0 && c.before.gpu != 0 && c.after.gpu != 0 {
		n.Clock.Late = max(n.Clock.Late, c.late())
	}
	for _, m := range met {
		p := c.of(m)
		for _, s := range []time.Duration{p.First, p.Gone, p.Began} {
			if s == Impossible {
				n.Clock.Impossible++
			}
		}
		n.Preemptions = append(n.Preemptions, p)
	}
}
