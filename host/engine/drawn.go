// A device without a network: exits are drawn from rates, times come from the table.

package engine

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Drawn is a device whose requests leave at exits drawn from rates. Where a request leaves depends
// on the seed and its id alone, so every policy sees the same requests. Inputs are not looked at,
// nor are thresholds (the rates say what they do) but for one above 1, with which nobody leaves
// before the last exit.
type Drawn struct {
	table *sched.Table
	info  device.Info
	upTo  []uint64 // by exit: a request whose draw is below it has left by then
	seed  uint64
	rep   device.Report
	exits []device.ExitResult // by exit

	work *device.Work // under way
	due  Time
	ev   device.Event
}

// NewDrawn makes a device of the table's B_max (or bMax, where that is positive and smaller). The
// rates are the shares of requests that leave at each exit; they must add up to one
// (sched.ErrRates).
func NewDrawn(table *sched.Table, rates []float64, seed uint64, bMax int) (*Drawn, error) {
	if err := sched.CheckRates(rates); err != nil {
		return nil, fmt.Errorf("device of drawn exits: %w", err)
	}
	if len(rates) != table.Segments() {
		return nil, fmt.Errorf("device of drawn exits: %w: %d of them for %d segments", sched.ErrRates, len(rates), table.Segments())
	}
	b := table.MaxBatch()
	if bMax > 0 {
		b = min(b, bMax)
	}
	d := &Drawn{
		table: table, seed: seed,
		info: device.Info{
			Name: "drawn", Label: "estimated", MaxBatch: b, Slots: 4 * b, Places: 1,
			Preempt: device.PreemptExit, ClockHz: 1e9,
		},
		upTo: make([]uint64, len(rates)), exits: make([]device.ExitResult, len(rates)),
		rep: device.Report{Results: make([]device.Result, b)},
	}
	sum := 0.0
	for i, r := range rates {
		sum += r
		d.upTo[i] = uint64(min(sum, 1) * (1 << 53))
		d.exits[i] = device.ExitResult{Exit: i, Confidence: 1}
	}
	d.upTo[len(rates)-1] = 1 << 53
	return d, nil
}

// Exit is where a request leaves.
func (d *Drawn) Exit(id device.RequestID) int {
	u := d.draw(id)
	for i, t := range d.upTo {
		if u < t {
			return i
		}
	}
	return len(d.upTo) - 1
}

// draw is a number below 2^53: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) at seed and id.
func (d *Drawn) draw(id device.RequestID) uint64 {
	z := d.seed*0xd1342543de82ef95 + uint64(id)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) >> 11
}

// Info implements device.Device.
func (d *Drawn) Info() device.Info { return d.info }

// Begin implements device.Device: copies and loads take no time.
func (d *Drawn) Begin(_ context.Context, now Time, w *device.Work) (bool, error) {
	switch {
	case w.Kind == device.Copy || w.Kind == device.Load || w.Kind == device.Unload:
		return true, nil
	case d.work != nil:
		return false, fmt.Errorf("%w: drawn: work %d begins while work %d is under way", device.ErrRequest, w.ID, d.work.ID)
	case w.Kind == device.Reset:
		d.ev.Kind, d.ev.Report, d.due = device.Done, nil, now+max(1, w.Expect)
	default:
		took, err := d.run(&w.Launch)
		if err != nil {
			return false, err
		}
		if w.Fixed {
			took = w.Expect
		}
		d.ev.Kind, d.ev.Segment, d.ev.Report, d.due = device.Passed, w.Launch.Last, &d.rep, now+took
	}
	d.work, d.ev.Work, d.ev.Over = w, w.ID, true
	return false, nil
}

// Next implements device.Virtual.
func (d *Drawn) Next() (Time, bool) { return d.due, d.work != nil }

// Take implements device.Virtual.
func (d *Drawn) Take(now Time) *device.Event {
	if d.work == nil || d.due > now {
		return nil
	}
	d.work = nil
	return &d.ev
}

// run computes a launch.
func (d *Drawn) run(l *device.Launch) (Time, error) {
	if l.First < 0 || l.Last < l.First || l.Last >= len(d.upTo) || len(l.Requests) < 1 || len(l.Requests) > d.info.MaxBatch ||
		len(l.Theta) != len(l.Requests) && len(l.Theta) != len(l.Requests)*(l.Last-l.First+1) {
		return 0, fmt.Errorf("%w: drawn: segments %d..%d for a batch of %d with %d thresholds", device.ErrRequest, l.First, l.Last, len(l.Requests), len(l.Theta))
	}
	d.rep.Results = d.rep.Results[:len(l.Requests)]
	last := len(d.upTo) - 1
	for i, id := range l.Requests {
		taken := -1
		u := d.draw(id)
		for s := l.First; s <= l.Last && taken < 0; s++ {
			if s == last || u < d.upTo[s] && l.ThetaAt(i, s) <= 1 {
				taken = s
			}
		}
		end := taken
		if taken < 0 {
			end = l.Last
		}
		r := &d.rep.Results[i] // field by field: a literal would be put together elsewhere and copied
		r.Request, r.Exits, r.Taken = id, d.exits[l.First:end+1], taken
	}
	d.rep.Ns = d.table.At(l.First, l.Last, len(l.Requests))
	d.rep.Cycles = uint64(d.rep.Ns)
	return d.rep.Ns, nil
}

// Abort implements device.Device: it lets go at exits alone.
func (*Drawn) Abort(Time, device.WorkID, bool) {}

// Release implements device.Device.
func (*Drawn) Release(device.RequestID) {}

// Close implements device.Device.
func (*Drawn) Close() error { return nil }
