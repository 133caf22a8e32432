// The spans of a preemption: what the host saw, and, where the device is Timed, what the GPU's own clock says.

package cuda

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Preemption is a launch of priority that found others on the GPU.
type Preemption struct {
	// Its arrival is when Begin was called: what it waits for the launcher's thread is in all that counts from there.

	// Away is from its arrival to when the host knew that no kernel of others was on the GPU any more: where they
	// were killed, when their Control had been copied and seen; where they were awaited, when their events were.
	Away time.Duration
	// First is by the GPU's clock, from its arrival to its first block, whether others were killed or awaited; Timed
	// devices have it.
	First time.Duration
	// Gone and Began are by the GPU's clock, from when the flag was given to the driver to the last block of
	// others gone, and to the first block of the one of priority; Timed devices that kill have them. Neither is
	// shorter than it was; Clock says by how much they may be too long.
	Gone, Began time.Duration
	// Whole is from its arrival to its end.
	Whole time.Duration
}

// What stands in the place of a span.
const (
	Unknown    = time.Duration(-1) // nothing was seen of it
	Impossible = time.Duration(-2) // both clocks together say what cannot have been
)

// Clock is what spans by the GPU's clock are worth.
type Clock struct {
	Step time.Duration // the least step that was seen of the GPU's timer
	// Late is by how much a span may be too long: the widest of the anchors, and a step.
	Late time.Duration
	// Impossible counts the spans that are: of a block that began or was gone before the flag was given or the launch came, or later than
	// the host saw it, or while the clocks went apart as no two clocks drift.
	Impossible int
}

// meeting is a preemption as it was seen.
type meeting struct {
	arrived, flagged, away, over time.Time
	gone, began                  uint64 // ns of the GPU's clock
	kernel                       int    // of the one of priority, that is timed
	timed                        bool
}

// timed is whether a flow's segment has the kernel whose begin is asked for.
func (f *flow) timed() bool {
	return f.met != nil && f.met.timed && f.net.b.Network.Exits[f.seg].First <= f.met.kernel && f.met.kernel <= f.last()
}

// anchor ties both clocks: the GPU's showed a value no later than host, and no earlier than width (and a step of its
// own) before that. gpu 0: there is none.
type anchor struct {
	host, width time.Duration // host: since launcher.start
	gpu         uint64
}

// sighting is a value of the GPU's clock, and when the host saw it.
type sighting struct {
	host time.Duration
	gpu  uint64
}

// anchorOf is what a run of the clock's kernel says: none of its values was taken before its launch, and none after
// it was seen. A run whose values go back, or of which nothing was seen, says nothing.
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

// narrower is the better one of two anchors.
func narrower(a, b anchor) anchor {
	if a.gpu == 0 || b.gpu != 0 && b.width < a.width {
		return b
	}
	return a
}

const (
	anchorTries = 8      // runs of the clock's kernel for an anchor: who was off the processor in one is not in all
	anchorNs    = 50_000 // of each
	stepBlocks  = 8      // that look at the timer's step
)

// anchored has the GPU write its clock to the host's memory, several times over, and takes the narrowest look.
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
		if err := l.lib.Wait(l.copies); err != nil { // what it writes late is no value of the next run's
			return best, err
		}
	}
	return best, nil
}

// sightings are the values that the clock's kernel writes to a word, until it writes no more.
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

// timerStep is the least step of the GPU's timer that blocks see who wait for it to move.
func (l *launcher) timerStep() (least time.Duration, err error) {
	all, err := l.where(l.copies, stepBlocks, 1)
	for i, b := range all {
		if step := time.Duration(b.end - b.begin); i == 0 || step < least {
			least = step
		}
	}
	return least, err
}

// clocks are both between two anchors.
type clocks struct {
	start         time.Time
	before, after anchor
	step          time.Duration
}

// late is by how much a moment may be too late.
func (c *clocks) late() time.Duration { return max(c.before.width, c.after.width) + c.step }

// apart is how far the clocks may go from each other in a time: no two drift by more than a thousandth.
func apart(d time.Duration) time.Duration { return d / 1000 }

// steady is whether both clocks went on alike, as far as the anchors say.
func (c *clocks) steady() bool {
	if c.after.gpu < c.before.gpu {
		return false
	}
	host := c.after.host - c.before.host
	return (host - time.Duration(c.after.gpu-c.before.gpu)).Abs() <= c.before.width+c.after.width+2*c.step+apart(host)
}

// moment is the latest at which the GPU's clock can have shown a value. The drift between the anchors is taken to be even.
func (c *clocks) moment(gpu uint64) time.Time {
	rate := 1.0 // ns of the host's a ns of the GPU's
	if d := c.after.gpu - c.before.gpu; d > 0 {
		rate = float64(c.after.host-c.before.host) / float64(d)
	}
	return c.start.Add(c.before.host + time.Duration(rate*float64(int64(gpu-c.before.gpu))) + c.step)
}

// span is from a moment of the host's to a value of the GPU's clock, which the host knew of by some time.
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

// of is what a preemption took.
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
	}
	return p
}

// spans makes of what was seen since the last time what it took, between an anchor of then and one of now.
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

// reckon adds what was seen between two anchors.
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
