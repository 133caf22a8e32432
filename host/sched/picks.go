// Picking requests from the queue in the order of their deadlines.

package sched

import (
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// place is a request's place in the order of (deadline, place in the queue).
type place struct {
	deadline Time
	at       int
}

// none stands before every request.
var none = place{-1 << 63, -1}

// picks are the requests that one answer gives away. The buffer is kept between answers.
type picks struct{ ids []device.RequestID }

func (p *picks) reset() { p.ids = p.ids[:0] }

// next is the first request behind prev, in the order of deadlines, that has not been given away.
func (p *picks) next(q *Queue, prev place) (place, bool) {
	for {
		c, ok := q.after(prev)
		if !ok || len(p.ids) == 0 || !slices.Contains(p.ids, q.At(c.at).ID) {
			return c, ok
		}
		prev = c
	}
}

func (p *picks) take(q *Queue, c place) { p.ids = append(p.ids, q.At(c.at).ID) }

// after is the request behind prev in the order of (deadline, place).
func (q *Queue) after(prev place) (place, bool) {
	if q.Ordered() {
		i := prev.at + 1
		if i >= q.n {
			return none, false
		}
		return place{q.At(i).Deadline, i}, true
	}
	best, found := none, false
	for k := range q.rings {
		g := &q.rings[k]
		for i := range g.n {
			c := place{g.at(i).Deadline, g.first - q.base + i}
			if c.behind(prev) && (!found || best.behind(c)) {
				best, found = c, true
			}
		}
	}
	return best, found
}

func (c place) behind(o place) bool {
	return c.deadline > o.deadline || c.deadline == o.deadline && c.at > o.at
}

// chosen launches these requests up to an exit.
func chosen(buf []Action, dev int, network string, last int, ids []device.RequestID) []Action {
	buf, a := fill(buf)
	a.Kind, a.Device, a.Network, a.Last, a.Requests = Launch, dev, network, last, ids
	return buf
}
