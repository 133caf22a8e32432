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
	// Away is from its arrival to when the host knew that no kernel of others was on the GPU any more: where they
	// were killed, when their Control had been copied and seen; where they were awaited, when their events were.
	Away time.Duration
	// Gone and Began are by the GPU's clock, from when the flag was given to the driver to the last block of
	// others gone, and to the first block of the one of priority; Timed devices that kill have them.
	Gone, Began time.Duration
	// Whole is from its arrival to its end.
	Whole time.Duration
}

// Unknown is a span that nothing was seen of.
const Unknown = time.Duration(-1)

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

// anchor is one moment on both clocks; gpu 0: there is none.
type anchor struct {
	host time.Duration // since launcher.start
	gpu  uint64
}

// anchorNs is how long the GPU's clock is looked at for one.
const anchorNs = 200_000

// anchored has the GPU write its clock to the host's memory and takes the look that was the least late. What is
// off then is the time of one write over the link.
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
	atomic.StoreUint64(word, 0)
	if err := l.lib.Launch(f, 1, kernels.Threads, l.copies, &a); err != nil {
		return best, err
	}
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
		if best.gpu == 0 || int64(t)-int64(now) > int64(best.gpu)-int64(best.host) {
			best = anchor{now, t}
		}
	}
	return best, nil
}

// spans makes of what was seen since the last time what it took, with an anchor before and one after.
func (l *launcher) spans() (err error) {
	before, after := l.anchor, anchor{}
	if l.cfg.Timed && len(l.met) > 0 {
		if after, err = l.anchored(); err != nil {
			return err
		}
		l.anchor = after
	}
	rate := 1.0 // ns of the host's a ns of the GPU's
	if d := int64(after.gpu - before.gpu); before.gpu != 0 && after.gpu != 0 && d > int64(10*time.Millisecond) {
		rate = float64(after.host-before.host) / float64(d)
	}
	for _, m := range l.met {
		p := Preemption{Unknown, Unknown, Unknown, Unknown}
		if !m.away.IsZero() {
			p.Away = m.away.Sub(m.arrived)
		}
		if !m.over.IsZero() {
			p.Whole = m.over.Sub(m.arrived)
		}
		since := func(gpu, none uint64) time.Duration {
			if before.gpu == 0 || m.flagged.IsZero() || gpu == 0 || gpu == none {
				return Unknown
			}
			at := before.host + time.Duration(rate*float64(int64(gpu-before.gpu)))
			return max(0, at-m.flagged.Sub(l.start)) // a clock's tick may be longer than the span
		}
		p.Gone, p.Began = since(m.gone, 0), since(m.began, kernels.NotBegan)
		l.counts.Preemptions = append(l.counts.Preemptions, p)
	}
	l.met = nil
	return nil
}
