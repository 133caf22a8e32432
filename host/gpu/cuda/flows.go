// This file begins, advances, stops and ends launches.

package cuda

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/idem"
)

// state is the state of a flow (a launch in progress).
type state uint8

const (
	running    state = iota
	collecting       // its logits are being copied
	leaving          // it waits for the end of its stream
	asking           // its Control is being copied
)

// flow is a launch in progress.
type flow struct {
	work   *device.Work
	net    *network
	lane   *lane
	reqs   []*sample
	seg    int
	next   int   // next layer to launch
	begun  int   // tiles of the layer `next` that were launched beside other kernels; 0 if the layer cannot be repeated
	oldest int   // oldest layer that has not ended
	flying int   // number of fly entries in flight that contain a part of this flow
	in     *lane // the lane of these fly entries
	state  state
	killed bool
	marked bool      // lane.signal was recorded after the write of the epoch that killed this flow
	came   time.Time // time of Begin, before any wait for the launcher
	began  time.Time // time at which its segment began or resumed
	places []int     // by request: its position in the launch

	rt       bool
	aside    bool      // put aside for a priority launch
	aborting bool      // an abort was requested
	cleaning bool      // its Control is being reset to its epoch
	patience time.Time // start of its time limit: the last progress of this flow or of a launch for which it waits
	moves    *atomic.Uint64
	ticket   uint64   // position of its newest kernel in the order of launches (see fly.ticket)
	met      *meeting // the preemption that this flow causes, if other launches were on the GPU at its arrival
	fled     *meeting // the preemption that stops it
}

// last returns the index of the segment's last kernel.
func (f *flow) last() int { return f.net.b.Network.Exits[f.seg].Last }

// begin starts a launch. The argument "came" is the time of its arrival.
func (l *launcher) begin(w *device.Work, came time.Time) error {
	q := &w.Launch
	n := l.nets[q.Network]
	segs := 0
	if n != nil {
		segs = len(n.b.Network.Exits)
	}
	switch {
	case n == nil:
		return refuse("network %q is not loaded", q.Network)
	case q.First < 0 || q.Last < q.First || q.Last >= segs:
		return refuse("there are %d segments", segs)
	case q.First != q.Last && !l.cfg.Through:
		return refuse("segments one by one are expected")
	case len(q.Requests) < 1 || len(q.Requests) > kernels.MaxBatch ||
		len(q.Theta) != len(q.Requests) && len(q.Theta) != len(q.Requests)*(q.Last-q.First+1):
		return refuse("a batch of %d with %d thresholds", len(q.Requests), len(q.Theta))
	case len(l.flows) >= l.cfg.Places:
		return refuse("all %d places are taken", l.cfg.Places)
	}
	e := &n.b.Network.Exits[q.First]
	if q.Kernel < 0 || e.First+q.Kernel > e.Last {
		return refuse("kernel %d of %d", q.Kernel, e.Last-e.First+1)
	}
	f := &flow{work: w, net: n, seg: q.First, next: e.First + q.Kernel, came: came, began: time.Now(), rt: q.Priority > 0}
	f.oldest, f.patience = f.next, f.began
	for i, id := range q.Requests {
		s := l.samples[id]
		if s == nil || s.net != n || !s.in {
			return refuse("request %d has no slot", id)
		}
		f.reqs, f.places = append(f.reqs, s), append(f.places, i)
	}
	ln, err := l.lane(laneKey{q.Units, q.Priority > 0})
	if err != nil {
		return err
	}
	f.lane, f.in = ln, ln
	// The lane's stream resets the lane's Control, and the stream for signals writes the epoch into it. These streams
	// have no common order, so an epoch that is written too early could be overwritten by the reset. With padding,
	// kernels of other launches read this Control too.
	if !ln.settled {
		if err := l.lib.Record(ln.over, ln.stream); err != nil {
			l.giveBack(ln)
			return err
		}
		f.cleaning, f.ticket = true, l.ticket()
	}
	f.moves = new(atomic.Uint64)
	l.progress.Store(w.ID, f.moves)
	l.flows = append(l.flows, f)
	if f.rt {
		l.putAside(f)
		if l.cfg.Mode.Ahead {
			// The kernel is launched at once, before the other launches receive the order to leave. In the launcher's
			// next round, the kernel would be too late, because the other launches would have left.
			err := l.push(f)
			l.dispel()
			if err != nil && slices.Contains(l.flows, f) {
				l.fail(f, err)
			}
		}
	} else if l.cfg.Mode.Hold && l.realTime() > 0 {
		f.aside = true
		l.hear(gpu.Order{Did: gpu.PutAside, Launch: q.ID})
	}
	return nil
}

// leave stops a launch. The launch stops at once if its kernels may be killed or if it has no kernel on the GPU.
func (l *launcher) leave(f *flow, kill bool) {
	if f.state == running && f.flying == 0 && f.aborting {
		if err := l.away(f, f.next); err != nil {
			l.fail(f, err)
		}
		return
	}
	if f.state == asking || f.killed || f.state == collecting && (!kill || f.flying == 0) {
		return // the launch ends equally soon without a kill
	}
	if !kill {
		f.state = leaving
		return
	}
	for i := f.oldest; i < f.next; i++ {
		if f.net.entries[i] == idem.Never {
			if f.state == running {
				f.state = leaving // this kernel cannot be repeated, so the launch waits for its end
			}
			return
		}
	}
	f.state, f.killed, f.marked, f.ticket = leaving, true, false, l.ticket()
	f.lane.epoch++
	if f.aside && l.meet != nil {
		if f.fled = l.meet; f.fled.flagged.IsZero() {
			f.fled.flagged = time.Now()
		}
	}
	if err := l.signal(f.lane); err != nil {
		l.fail(f, err)
		return
	}
	if !l.cfg.Mode.Ahead { // with Ahead, the remaining kernels of the priority launch are launched first
		if err := l.mark(f); err != nil {
			l.fail(f, err)
			return
		}
	}
	if l.cfg.Boolean {
		// The running kernel must see the changed epoch before the next kernel starts. The required wait depends on the
		// GPU. If 64 attempts had no effect, as on a busy machine, the wait is longer and yields the processor.
		for up, began := 10*nap<<min(l.marks/64, 8)>>(l.marks%8), time.Now(); time.Since(began) < up; {
			if l.marks >= 64 {
				time.Sleep(nap)
			}
		}
		l.marks++
		f.lane.epoch--
		if err := l.signal(f.lane); err != nil {
			l.fail(f, err)
		}
	}
}

// mark records an event after the write of a stopped launch's epoch. Control must not be reset before this event,
// because the write and the reset are on different streams without a common order.
func (l *launcher) mark(f *flow) error {
	f.marked = true
	return l.lib.Record(f.lane.signal, l.signals)
}

// dismiss stops all kernels that still read their epoch. So a reset destroys only kernels that hang.
func (l *launcher) dismiss() {
	for _, f := range l.flows {
		f.lane.epoch++
		if l.signal(f.lane) != nil {
			return
		}
	}
	time.Sleep(time.Millisecond)
}

// fail ends a launch because of a driver error.
func (l *launcher) fail(f *flow, err error) {
	err = fmt.Errorf("launch %d, segment %d: %w", f.work.Launch.ID, f.seg, err)
	if driver.Lost(err) {
		_ = l.check(err)
		return
	}
	l.end(f, device.Event{Kind: device.Failed, Err: scope(err)})
}

// end ends a launch after its stream has finished. Before this, the stream may still use the launch's slots.
func (l *launcher) end(f *flow, ev device.Event) {
	if f.in != f.lane && f.flying > 0 { // another launch contains a part of this one
		if err := l.lib.Wait(f.in.stream); err != nil {
			ev = device.Event{Kind: device.Failed, Err: scope(err)}
			l.lost = err
			defer l.failAll(scope(err))
		} else {
			l.land(f.in)
		}
	}
	switch {
	case ev.Kind == device.Failed:
		if err := l.halt(f.lane); err != nil {
			ev.Err = &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: %w; its stream cannot be stopped: %w", device.ErrReset, ev.Err, err)}
			l.lost = ev.Err
			defer l.failAll(ev.Err) // the other launches fail too
		}
	case f.killed:
		f.lane.dirty = l.clean(f.lane) != nil // after an error, the next launch on the lane resets the Control
	}
	l.land(f.lane) // its kernels have ended, or will leave without further action
	i := slices.Index(l.flows, f)
	l.flows = slices.Delete(l.flows, i, i+1)
	l.giveBack(f.lane)
	l.progress.Delete(f.work.ID)
	ev.Work, ev.Over, ev.Took = f.work.ID, true, time.Since(f.began).Nanoseconds()
	if f.met != nil && ev.Kind == device.Passed {
		f.met.over = time.Now()
	}
	l.tell(ev)
}

// advance advances one launch as far as possible.
func (l *launcher) advance(f *flow) (moved bool, err error) {
	n := f.lane
	late := l.late(f) // read before the poll of the events, which may change the result
	defer func() {
		if late && !moved && err == nil && slices.Contains(l.flows, f) {
			l.dismiss()
			l.lost = fmt.Errorf("%w: launch %d, %v", device.ErrHang, f.work.Launch.ID, time.Duration(f.work.Limit))
			l.failAll(&device.Failure{Scope: device.LoseDevice, Err: l.lost})
			moved = true
		}
	}()
	if moved, err = l.look(n); err != nil {
		return moved, err
	}
	if f.cleaning {
		ok, err := l.lib.Happened(n.over)
		if err != nil {
			return moved, err
		}
		if ok {
			f.cleaning, n.settled, moved = false, true, true
		}
	}
	return l.next(f, moved)
}

// next performs the next step of a launch. The step depends on the launch's state.
func (l *launcher) next(f *flow, moved bool) (bool, error) {
	n := f.lane
	switch f.state {
	case running:
		before := f.next
		if err := l.push(f); err != nil {
			return true, err
		}
		moved = moved || f.next != before
		if f.next > f.last() && !f.cleaning && (f.flying == 0 || f.in == n) {
			return true, l.collect(f)
		}
	case collecting:
		if ok, err := l.lib.Happened(n.over); err != nil || !ok {
			return moved, err
		}
		return true, l.pass(f)
	case leaving:
		if f.killed && !f.marked {
			return true, l.mark(f)
		}
		if f.flying > 0 {
			return moved, nil
		}
		if !f.killed {
			return true, l.away(f, f.next)
		}
		if ok, err := l.lib.Happened(n.signal); err != nil || !ok {
			return moved, err
		}
		f.state, f.ticket = asking, l.ticket()
		if err := l.lib.CopyOut(n.host[:controlBytes], n.control, n.stream); err != nil {
			return true, err
		}
		return true, l.lib.Record(n.over, n.stream)
	case asking:
		if ok, err := l.lib.Happened(n.over); err != nil || !ok {
			return moved, err
		}
		at, err := l.resume(f)
		if err != nil {
			return true, err
		}
		return true, l.away(f, at)
	}
	return moved, nil
}

// resume reads the Control of a killed launch and returns the kernel at which the launch resumes. It also counts a kill
// that stopped a kernel.
func (l *launcher) resume(f *flow) (kernel int, err error) {
	control := f.lane.host
	if f.fled != nil { // nil: the launch was stopped because of an earlier flag
		f.fled.gone, f.fled = max(f.fled.gone, binary.LittleEndian.Uint64(control[16:])), nil
	}
	word := binary.LittleEndian.Uint32(control[4:])
	if word == kernels.NotStopped {
		return f.next, nil
	}
	stopped, first := int(word), f.net.b.Network.Exits[f.seg].First
	l.counts.Kills++
	l.counts.Stopped = stopped
	if stopped < first || stopped >= f.next && f.begun == 0 || stopped > f.next {
		return 0, &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: kernel %d is said to have been stopped, of %d to %d", device.ErrReset, stopped, first, f.next-1)}
	}
	kernel = f.net.entries[stopped]
	if l.cfg.Short && kernel < stopped {
		kernel++
	}
	f.begun = 0
	l.counts.Ran -= f.next - stopped // the kernels after the stopped kernel did not run
	l.counts.Again += f.next - kernel
	return kernel, nil
}

// collect starts the copy of the logits at the segment's exit.
func (l *launcher) collect(f *flow) error {
	e, n := &f.net.b.Network.Exits[f.seg], f.lane
	each := 2 * e.Classes
	if need := logitsAt + each*len(f.reqs); need > len(n.host) {
		host, err := l.lib.AllocHost(need)
		if err != nil {
			return err
		}
		if err := l.lib.FreeHost(n.host); err != nil {
			return err
		}
		n.host = host
	}
	for i, s := range f.reqs {
		from := f.net.slots + driver.Ptr(int64(s.slot)*f.net.b.Slot.Stride+int64(e.Offset))
		if err := l.lib.CopyOut(n.host[logitsAt+i*each:][:each], from, n.stream); err != nil {
			return err
		}
	}
	if f.timed() {
		if err := l.lib.CopyOut(n.host[:controlBytes], n.control, n.stream); err != nil {
			return err
		}
	}
	f.state, f.ticket = collecting, l.ticket()
	return l.lib.Record(n.over, n.stream)
}

// pass removes confident requests at an exit, and continues the launch with the other requests.
func (l *launcher) pass(f *flow) error {
	e, q := &f.net.b.Network.Exits[f.seg], &f.work.Launch
	final := len(f.net.b.Network.Exits) - 1
	rep := &device.Report{Ns: time.Since(f.began).Nanoseconds()}
	rep.Stats.Starts++
	keep := 0
	for i, s := range f.reqs {
		raw := make([]int16, e.Classes)
		for c := range raw {
			raw[c] = int16(binary.LittleEndian.Uint16(f.lane.host[logitsAt+2*(i*e.Classes+c):]))
		}
		class, conf := bundle.ConfidenceAt(e, raw)
		r := device.Result{Request: q.Requests[f.places[i]], Taken: -1}
		r.Exits = append(r.Exits, device.ExitResult{Exit: f.seg, Class: class, Confidence: conf, Logits: e.Logits(raw), Raw: raw})
		if conf >= q.ThetaAt(f.places[i], f.seg) || f.seg == final {
			r.Taken = f.seg
		} else {
			f.reqs[keep], f.places[keep] = s, f.places[i]
			keep++
		}
		rep.Results = append(rep.Results, r)
	}
	l.land(f.lane) // its kernels have ended, because the copy was queued after them in the stream
	f.lane.settled = true
	if f.timed() {
		f.met.began = binary.LittleEndian.Uint64(f.lane.host[8:])
		f.lane.dirty = l.lib.Fill(f.lane.control+8, kernels.NotStopped, 2, f.lane.stream) != nil // for the next launch
	}
	ev := device.Event{Kind: device.Passed, Segment: f.seg, Report: rep}
	if f.seg == q.Last || keep == 0 {
		l.end(f, ev)
		return nil
	}
	ev.Work = f.work.ID
	l.tell(ev)
	f.reqs, f.places = f.reqs[:keep], f.places[:keep]
	f.seg++
	f.state, f.began = running, time.Now()
	f.patience = f.began
	if f.aborting { // the exit was passed before the abort took effect
		return l.away(f, f.next)
	}
	return nil
}
