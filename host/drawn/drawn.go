// Package drawn is a device that runs no network. The exits of requests are known beforehand: they are drawn at random
// from exit rates, or computed from known confidences of images. Times come from the latency table. The device runs in
// virtual time, one launch at a time. Copies and loads take no time.
package drawn

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Dev is the device. Its reports share memory, so a report is valid only until the next launch.
type Dev struct {
	table *sched.Table
	info  device.Info
	macs  []int64 // MACs of one sample, by segment
	rep   device.Report

	// upTo, if exits are drawn from rates, contains a limit for each exit. A request whose random number is below the
	// limit leaves at this exit or an earlier exit.
	upTo  []uint64
	seed  uint64
	exits []device.ExitResult // by exit

	// show, if confidences are known, returns the confidence of a request at the end of a segment.
	show     func(id device.RequestID, segment int) float32
	requests int
	shown    []device.ExitResult // by position in the batch and segment

	work *device.Work // in progress
	due  device.Time
	ev   device.Event
}

// CheckRates returns an error if rates are not a distribution over the exits (sched.ErrRates).
func CheckRates(rates []float64, exits int) error {
	if len(rates) != exits {
		return fmt.Errorf("%w: %d of them for %d exits", sched.ErrRates, len(rates), exits)
	}
	return sched.CheckRates(rates)
}

// New returns a device with random exits. rates contains the share of requests that leave at each exit; the sum must be
// 1 (sched.ErrRates). B_max is the table's value, or bMax if bMax is positive and smaller. A request's exit depends
// only on seed and the request's ID, so the exit is the same under every policy. A threshold above 1 disables its exit,
// except the last exit. Other thresholds have no effect.
func New(table *sched.Table, rates []float64, seed uint64, bMax int) (*Dev, error) {
	if err := CheckRates(rates, table.Segments()); err != nil {
		return nil, fmt.Errorf("device of drawn exits: %w", err)
	}
	d := &Dev{seed: seed, upTo: make([]uint64, len(rates)), exits: make([]device.ExitResult, len(rates))}
	d.init(table, bMax)
	sum := 0.0
	for i, r := range rates {
		sum += r
		d.upTo[i] = uint64(min(sum, 1) * (1 << 53))
		d.exits[i] = device.ExitResult{Exit: i, Confidence: 1}
	}
	d.upTo[len(rates)-1] = 1 << 53
	return d, nil
}

// Known describes requests 1..Requests.
type Known struct {
	Requests int
	// Show returns a request's confidence at the end of a segment, or a negative number if the segment has no exit.
	Show  func(id device.RequestID, segment int) float32
	MACs  []int64 // MACs of one sample by segment, for reports; nil if unknown
	Slots int     // number of samples that the device can store; 0: four times B_max
}

// NewKnown returns a device with known confidences. A request leaves at the first exit at which its confidence reaches
// the threshold, or else at the last segment.
func NewKnown(table *sched.Table, k Known) *Dev {
	d := &Dev{show: k.Show, requests: k.Requests, macs: k.MACs}
	d.init(table, 0)
	if k.Slots > 0 {
		d.info.Slots = k.Slots
	}
	n := table.Segments()
	d.shown = make([]device.ExitResult, d.info.MaxBatch*n)
	for i := range d.shown {
		d.shown[i].Exit = i % n
	}
	return d
}

func (d *Dev) init(table *sched.Table, bMax int) {
	b := table.MaxBatch()
	if bMax > 0 {
		b = min(b, bMax)
	}
	d.table, d.rep.Results = table, make([]device.Result, b)
	d.info = device.Info{
		Name: "drawn", Label: "estimated", MaxBatch: b, Slots: 4 * b, Places: 1,
		Preempt: device.PreemptExit, ClockHz: 1e9,
	}
}

// Exit returns the exit at which a request leaves.
func (d *Dev) Exit(id device.RequestID) int {
	u := d.draw(id)
	for i, t := range d.upTo {
		if u < t {
			return i
		}
	}
	return len(d.upTo) - 1
}

// draw returns a number below 2^53 for seed and id, by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func (d *Dev) draw(id device.RequestID) uint64 {
	z := d.seed*0xd1342543de82ef95 + uint64(id)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) >> 11
}

// Info implements device.Device.
func (d *Dev) Info() device.Info { return d.info }

// Begin implements device.Device. Copies and loads take no time.
func (d *Dev) Begin(_ context.Context, now device.Time, w *device.Work) (bool, error) {
	if w.Kind != device.Run && w.Kind != device.Reset {
		if w.Kind == device.Copy && d.show != nil && (w.Request == 0 || uint64(w.Request) > uint64(d.requests)) {
			return false, fmt.Errorf("%w: drawn: request %d, %d are known", device.ErrRequest, w.Request, d.requests)
		}
		return true, nil
	}
	if d.work != nil {
		return false, fmt.Errorf("%w: drawn: work %d begins while work %d is in progress", device.ErrRequest, w.ID, d.work.ID)
	}
	if w.Kind == device.Reset {
		d.ev.Kind, d.ev.Report, d.due = device.Done, nil, now+max(1, w.Expect)
	} else {
		l := &w.Launch
		n := len(l.Requests)
		if l.First < 0 || l.Last < l.First || l.Last >= d.table.Segments() || n < 1 || n > d.info.MaxBatch ||
			len(l.Theta) != n && len(l.Theta) != n*(l.Last-l.First+1) {
			return false, fmt.Errorf("%w: drawn: segments %d..%d for a batch of %d with %d thresholds", device.ErrRequest, l.First, l.Last, n, len(l.Theta))
		}
		d.rep.Results = d.rep.Results[:n]
		if d.show == nil {
			d.byRates(l)
		} else {
			d.asKnown(l)
		}
		took := d.table.At(l.First, l.Last, n)
		d.rep.Ns, d.rep.Cycles, d.rep.Stats.Starts = took, uint64(took), 1
		d.ev.Kind, d.ev.Segment, d.ev.Report = device.Passed, l.Last, &d.rep
		if w.Fixed {
			took = w.Expect
		}
		d.due = now + took
	}
	d.work, d.ev.Work, d.ev.Over = w, w.ID, true
	return false, nil
}

// Next implements device.Virtual.
func (d *Dev) Next() (device.Time, bool) { return d.due, d.work != nil }

// Take implements device.Virtual.
func (d *Dev) Take(now device.Time) *device.Event {
	if d.work == nil || d.due > now {
		return nil
	}
	d.work = nil
	return &d.ev
}

// byRates computes the results of a launch if exits are drawn from rates.
func (d *Dev) byRates(l *device.Launch) {
	last, results, exits := len(d.upTo)-1, d.rep.Results, d.exits[l.First:]
	for i, id := range l.Requests {
		u, s := d.draw(id), l.First
		for s < l.Last && !(u < d.upTo[s] && l.ThetaAt(i, s) <= 1) {
			s++
		}
		r := &results[i] // set by field, because a literal would be built elsewhere and copied
		r.Request, r.Exits, r.Taken = id, exits[:s+1-l.First], s
		if s < last && !(u < d.upTo[s] && l.ThetaAt(i, s) <= 1) {
			r.Taken = -1
		}
	}
}

// asKnown computes the results of a launch from known confidences.
func (d *Dev) asKnown(l *device.Launch) {
	n := d.table.Segments()
	d.rep.Stats.MACs = 0
	for i, id := range l.Requests {
		exits := d.shown[i*n : (i+1)*n]
		r := &d.rep.Results[i]
		r.Request, r.Taken = id, -1
		s := l.First
		for ; s <= l.Last && r.Taken < 0; s++ {
			if exits[s].Confidence = d.show(id, s); s == n-1 || exits[s].Confidence >= l.ThetaAt(i, s) {
				r.Taken = s
			}
			if d.macs != nil {
				d.rep.Stats.MACs += uint64(d.macs[s])
			}
		}
		r.Exits = exits[l.First:s]
	}
}

// Abort implements device.Device. It does nothing, because the device cannot stop a launch before an exit.
func (*Dev) Abort(device.Time, device.WorkID, bool) {}

// Release and Close implement device.Device.
func (*Dev) Release(device.RequestID) {}
func (*Dev) Close() error             { return nil }
