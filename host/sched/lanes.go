// Lanes divide the queue by network and priority, for policies of servers that have a queue per model.

package sched

import (
	"cmp"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// lane has the requests that wait for one network at one priority, oldest first.
type lane struct {
	network  string
	priority int
	ids      []device.RequestID
	came     []Time
	deadline []Time // deadline[i] is the earliest deadline of the first i+1 requests
}

// skip removes the first n requests.
func (l *lane) skip(n int) {
	l.ids, l.came, l.deadline = l.ids[n:], l.came[n:], l.deadline[n:]
}

// full reports whether a lane must be served: it has a whole batch, or its oldest request has waited for the given
// share of the time from its arrival to its deadline. full also returns the time at which this wait ends.
func (l *lane) full(now Time, most int, share float64) (bool, Time) {
	if len(l.ids) == 0 {
		return false, 0
	}
	until := l.came[0] + Time(share*float64(max(0, l.deadline[0]-l.came[0])))
	return len(l.ids) >= most || now >= until, until
}

// lanes has the lanes of the queue. The lanes are built again at every event, in the same memory.
type lanes struct {
	all   []lane
	n     int
	order []*lane
	ids   []device.RequestID // ids of the requests of all lanes
	came  []Time
	until []Time
	count []int
	of    []int // index of each request's lane, by place in the queue; -1: no lane
}

// sort fills the lanes with the requests for which keep returns true, and returns the lanes in the order of service.
// Lanes of higher priority go first. Within a priority, lanes with older requests go first. If fcfs is true, the
// priority has no effect.
func (l *lanes) sort(q *Queue, fcfs bool, keep func(*Request) bool) []*lane {
	n := q.Len()
	l.n, l.of, l.count = 0, l.of[:0], l.count[:0]
	for i := range n {
		r := q.At(i)
		if !keep(r) {
			l.of = append(l.of, -1)
			continue
		}
		at := 0
		for at < l.n && (l.all[at].network != r.Network || l.all[at].priority != r.Priority) {
			at++
		}
		if at == l.n {
			if l.n++; l.n > len(l.all) {
				l.all = append(l.all, lane{})
			}
			l.all[at] = lane{network: r.Network, priority: r.Priority}
			l.count = append(l.count, 0)
		}
		l.of = append(l.of, at)
		l.count[at]++
	}
	l.ids = slices.Grow(l.ids[:0], n)[:n]
	l.came = slices.Grow(l.came[:0], n)[:n]
	l.until = slices.Grow(l.until[:0], n)[:n]
	from := 0
	l.order = l.order[:0]
	for i := range l.n {
		a := &l.all[i]
		to := from + l.count[i]
		a.ids, a.came, a.deadline = l.ids[from:from:to], l.came[from:from:to], l.until[from:from:to]
		from = to
		l.order = append(l.order, a)
	}
	for i := range n {
		if l.of[i] < 0 {
			continue
		}
		a, r := &l.all[l.of[i]], q.At(i)
		d := r.Deadline
		if k := len(a.deadline); k > 0 {
			d = min(d, a.deadline[k-1])
		}
		a.ids, a.came, a.deadline = append(a.ids, r.ID), append(a.came, r.Arrived), append(a.deadline, d)
	}
	slices.SortStableFunc(l.order, func(a, b *lane) int {
		if !fcfs && a.priority != b.priority {
			return b.priority - a.priority
		}
		return cmp.Or(cmp.Compare(a.came[0], b.came[0]), cmp.Compare(a.ids[0], b.ids[0]))
	})
	return l.order
}
