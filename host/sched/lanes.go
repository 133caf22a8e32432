// Lanes: the queue sorted by network and priority, as servers with a queue a model see it.

package sched

import (
	"cmp"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// lane is the requests that wait for one network at one priority, oldest first.
type lane struct {
	network  string
	priority int
	ids      []device.RequestID
	came     []Time
	deadline []Time // the earliest of the first so many
}

// skip takes the first n away.
func (l *lane) skip(n int) {
	l.ids, l.came, l.deadline = l.ids[n:], l.came[n:], l.deadline[n:]
}

// full is whether a lane is to be served: a whole batch waits, or the oldest has waited for its share of
// the time it was given. Else when that will be.
func (l *lane) full(now Time, most int, share float64) (bool, Time) {
	if len(l.ids) == 0 {
		return false, 0
	}
	until := l.came[0] + Time(share*float64(max(0, l.deadline[0]-l.came[0])))
	return len(l.ids) >= most || now >= until, until
}

// lanes are made anew at every event, in memory that stays.
type lanes struct {
	all   []lane
	n     int
	order []*lane
	ids   []device.RequestID // of all lanes
	came  []Time
	until []Time
	count []int
	of    []int // by place in the queue: its lane, or -1
}

// sort fills the lanes with the requests for which keep is true; those of higher priority first, each
// priority by the oldest request (FCFS), or FCFS throughout.
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
