// This file picks requests from the queue in the order of levels and deadlines.

package sched

import (
	"cmp"

	"github.com/sluice-npu/sluice/host/device"
)

// place is a request's position in the order of (level, deadline, place in the queue).
type place struct {
	level    int
	deadline Time
	at       int
	taken    bool // this answer has used the request
}

// picks sorts the queue's requests in this order, but only as many as an answer needs. It marks the requests that the
// answer uses. The buffers are reused in later answers.
type picks struct {
	q      *Queue
	sorted []place
	heap   []place // the other requests, if the queue is not in this order; built at the first call of next
	ids    []device.RequestID
}

func (p *picks) reset(q *Queue) {
	p.q, p.sorted, p.heap, p.ids = q, p.sorted[:0], p.heap[:0], p.ids[:0]
}

// next returns the first unused request in this order, from index i on; false if there is none.
func (p *picks) next(i int) (int, *Request, bool) {
	for ; i < p.q.Len(); i++ {
		if i == len(p.sorted) {
			p.sorted = append(p.sorted, p.least())
		}
		if c := &p.sorted[i]; !c.taken {
			return i, p.q.At(c.at), true
		}
	}
	return i, nil, false
}

func (p *picks) take(i int) {
	c := &p.sorted[i]
	c.taken = true
	p.ids = append(p.ids, p.q.At(c.at).ID)
}

// least returns the request that follows the sorted requests.
func (p *picks) least() place {
	i := len(p.sorted)
	if p.q.Ordered() {
		return place{deadline: p.q.At(i).Deadline, at: i}
	}
	if i == 0 {
		for k := range p.q.rings {
			g := &p.q.rings[k]
			for j := range g.n {
				r := g.at(j)
				p.heap = append(p.heap, place{level: r.Priority, deadline: r.Deadline, at: g.first - p.q.base + j})
			}
		}
		for j := len(p.heap)/2 - 1; j >= 0; j-- {
			p.sink(j)
		}
	}
	first, last := p.heap[0], len(p.heap)-1
	p.heap[0], p.heap = p.heap[last], p.heap[:last]
	p.sink(0)
	return first
}

// sink moves the i-th element of the heap down until all elements below it come later in this order.
func (p *picks) sink(i int) {
	for {
		down := 2*i + 1
		if down >= len(p.heap) {
			return
		}
		if down+1 < len(p.heap) && p.heap[down+1].before(p.heap[down]) {
			down++
		}
		if !p.heap[down].before(p.heap[i]) {
			return
		}
		p.heap[i], p.heap[down] = p.heap[down], p.heap[i]
		i = down
	}
}

func (c place) before(o place) bool {
	return cmp.Or(cmp.Compare(o.level, c.level), cmp.Compare(c.deadline, o.deadline), cmp.Compare(c.at, o.at)) < 0
}

// chosen launches the given requests up to an exit.
func chosen(buf []Action, dev int, network string, last int, ids []device.RequestID) []Action {
	buf, a := fill(buf)
	a.Kind, a.Device, a.Network, a.Last, a.Requests = Launch, dev, network, last, ids
	return buf
}
