// When a launch hangs: when neither it nor what is in its way has moved for as long as it may take.

package cuda

import "time"

// ticket is the next one.
func (l *launcher) ticket() uint64 {
	l.tickets++
	return l.tickets
}

// since is the ticket of the oldest that is with the driver for a flow; waits: nothing is.
func (f *flow) since() (ticket uint64, waits bool) {
	if f.oldest == f.next {
		return f.ticket, f.state == running && !f.cleaning
	}
	for i := range f.in.fly {
		for _, o := range f.in.fly[i].flows {
			if o == f {
				return f.in.fly[i].ticket, false
			}
		}
	}
	return f.ticket, false
}

// inTheWay tells whether f cannot be expected to move before g has: f waits for its turn and g is on the GPU or has
// priority, or both are there, on the same units, and g came first or has priority.
func (l *launcher) inTheWay(g, f *flow) bool {
	flies := g.oldest < g.next
	mine, waits := f.since()
	switch {
	case g == f:
		return false
	case waits:
		return flies || g.rt
	case !flies || !g.lane.key.units.Meets(f.lane.key.units):
		return false
	}
	its, _ := g.since()
	return its < mine || g.rt && !f.rt
}

// late tells whether a launch hangs. What is in its way may take as long as it may itself: that is found to hang by
// its own limit.
func (l *launcher) late(f *flow) bool {
	limit, from := f.work.Limit, f.patience
	if limit <= 0 || time.Since(from).Nanoseconds() <= limit {
		return false
	}
	for _, g := range l.flows {
		if !l.inTheWay(g, f) {
			continue
		}
		limit = max(limit, g.work.Limit)
		if g.patience.After(from) {
			from = g.patience
		}
	}
	return time.Since(from).Nanoseconds() > limit
}
