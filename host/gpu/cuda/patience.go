// Detection of hangs. A launch hangs if neither it nor any launch for which it waits has made progress within the
// longest of their time limits.

package cuda

import "time"

// ticket returns the next sequence number.
func (l *launcher) ticket() uint64 {
	l.tickets++
	return l.tickets
}

// since returns the ticket of a flow's oldest kernel in flight, or else the flow's own. waits reports whether a flow
// without such a kernel waits for its turn.
func (f *flow) since() (ticket uint64, waits bool) {
	if f.flying == 0 {
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

// inTheWay reports whether f must wait for g. If f waits for its turn, it must wait for g if g is on the GPU or has
// priority. If both are on the GPU and share units, it must wait for g if g was launched first or only g has priority.
func (l *launcher) inTheWay(g, f *flow) bool {
	flies := g.flying > 0
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

// late reports whether a launch hangs. The longest limit of this launch and of all launches for which it waits applies.
// Time starts at the last progress of any of them.
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
