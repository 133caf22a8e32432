// The queue has the waiting requests. Requests of a higher level (Priority) come first, and within a level the oldest
// request comes first. The queue is a list of small ring buffers. Removal from the head or the end costs the same for
// any length. Removal in the middle moves only requests of one ring.

package sched

import (
	"cmp"
	"slices"
	"sort"

	"github.com/sluice-npu/sluice/host/device"
)

// ringSize is the capacity of a ring; a power of two.
const ringSize = 32

// ring holds consecutive requests of the queue, from place first on: the request at place p is at(p - first).
type ring struct {
	r     *[ringSize]Request
	head  int
	n     int
	first int
}

func (g *ring) at(i int) *Request { return &g.r[(g.head+i)&(ringSize-1)] }

// Queue is the list of waiting requests. The zero value is an empty queue. Only the engine changes it.
type Queue struct {
	rings []ring // no ring is empty, unless the queue is empty
	spare []*[ringSize]Request
	base  int // place of the first request; grows with removals
	n     int
	hint  int // index of the last used ring, which the next access often uses too
	turn  int // number of pairs of neighbours in one level of which the older request has the later deadline
}

// Len returns N_Q, the number of waiting requests.
func (q *Queue) Len() int { return q.n }

// At returns the i-th request, 0 <= i < Len.
func (q *Queue) At(i int) *Request {
	if g := &q.rings[0]; i < g.n {
		return g.at(i)
	}
	if q.hint < len(q.rings) {
		if g := &q.rings[q.hint]; uint(i+q.base-g.first) < uint(g.n) {
			return g.at(i + q.base - g.first)
		}
	}
	k, i := q.find(i)
	q.hint = k
	return q.rings[k].at(i)
}

// find returns the index k of the ring that has the i-th request, and the request's index in this ring.
func (q *Queue) find(i int) (k, at int) {
	i += q.base
	k = sort.Search(len(q.rings)-1, func(k int) bool { return q.rings[k+1].first > i })
	return k, i - q.rings[k].first
}

// Ordered reports whether, within every level, no request has an earlier deadline than the request before it.
func (q *Queue) Ordered() bool { return q.turn == 0 }

// turns returns 1 if requests i and i+1 have the same level and request i has the later deadline, otherwise 0.
func (q *Queue) turns(i int) int {
	if i < 0 || i+1 >= q.n || !inverted(q.At(i), q.At(i+1)) {
		return 0
	}
	return 1
}

func inverted(a, b *Request) bool { return a.Deadline > b.Deadline && a.Priority == b.Priority }

// Level returns the index after the last request that has the same level as the i-th request.
func (q *Queue) Level(i int) int { return q.below(q.At(i).Priority) }

// below returns the index of the first request whose priority is below the argument.
func (q *Queue) below(priority int) int {
	last := len(q.rings) - 1
	if q.n == 0 || q.rings[last].at(q.rings[last].n-1).Priority >= priority { // usually there is only one level
		return q.n
	}
	k := sort.Search(last, func(k int) bool { return q.rings[k].at(q.rings[k].n-1).Priority < priority })
	g := &q.rings[k]
	return g.first - q.base + sort.Search(g.n, func(i int) bool { return g.at(i).Priority < priority })
}

// Push inserts a request after all other requests of its level.
func (q *Queue) Push(r *Request) {
	if i := q.below(r.Priority); i < q.n {
		q.insert(i, r)
		return
	}
	if len(q.rings) == 0 || q.rings[len(q.rings)-1].n == ringSize {
		q.add(len(q.rings), q.base+q.n)
	}
	g := &q.rings[len(q.rings)-1]
	*g.at(g.n) = *r
	g.n++
	q.n++
	q.turn += q.turns(q.n - 2)
}

// add inserts an empty ring at index k of the list.
func (q *Queue) add(k, first int) {
	r := (*[ringSize]Request)(nil)
	if last := len(q.spare) - 1; last >= 0 {
		r, q.spare = q.spare[last], q.spare[:last]
	} else {
		r = new([ringSize]Request)
	}
	q.rings = slices.Insert(q.rings, k, ring{r: r, first: first})
}

// Insert puts a request back into the queue for a retry. The request goes after every waiting request of its level that
// arrived earlier, or at the same time with a smaller id.
func (q *Queue) Insert(r *Request) {
	for i := range q.n {
		next := q.At(i)
		if cmp.Or(cmp.Compare(r.Priority, next.Priority), cmp.Compare(next.Arrived, r.Arrived), cmp.Compare(next.ID, r.ID)) > 0 {
			q.insert(i, r)
			return
		}
	}
	q.Push(r)
}

// insert puts a request before the i-th request.
func (q *Queue) insert(i int, r *Request) {
	q.turn -= q.turns(i - 1)
	k, at := q.find(i)
	if q.rings[k].n == ringSize { // the ring is full, so the second half of the ring moves to a new ring
		q.add(k+1, q.rings[k].first+ringSize/2)
		g, next := &q.rings[k], &q.rings[k+1]
		for j := range ringSize / 2 {
			*next.at(j) = *g.at(ringSize/2 + j)
		}
		g.n, next.n = ringSize/2, ringSize/2
		if at >= ringSize/2 {
			k, at = k+1, at-ringSize/2
		}
	}
	g := &q.rings[k]
	for j := g.n; j > at; j-- {
		*g.at(j) = *g.at(j - 1)
	}
	*g.at(at) = *r
	g.n++
	q.n++
	for j := k + 1; j < len(q.rings); j++ {
		q.rings[j].first++
	}
	q.turn += q.turns(i-1) + q.turns(i)
}

// Pop removes and returns the oldest request.
func (q *Queue) Pop() (Request, bool) {
	if q.n == 0 {
		return Request{}, false
	}
	r := *q.At(0)
	q.Skip()
	return r, true
}

// Skip removes the oldest request of a queue that is not empty. It does not return the request: a copy would double the
// time of Skip.
func (q *Queue) Skip() {
	q.turn -= q.turns(0)
	g := &q.rings[0]
	g.at(0).Thetas = nil // the next request in this place overwrites all other fields
	g.head = (g.head + 1) & (ringSize - 1)
	g.first++
	q.shrink(0)
	q.base++
}

// shrink records that a request of ring k was removed.
func (q *Queue) shrink(k int) {
	g := &q.rings[k]
	g.n--
	q.n--
	if g.n == 0 && len(q.rings) > 1 {
		q.spare = append(q.spare, g.r)
		q.rings = slices.Delete(q.rings, k, k+1)
	}
}

// Remove removes the request with this id.
func (q *Queue) Remove(id device.RequestID) (Request, bool) {
	i := q.place(id)
	if i < 0 {
		return Request{}, false
	}
	q.turn -= q.turns(i-1) + q.turns(i)
	if i > 0 && i+1 < q.n && inverted(q.At(i-1), q.At(i+1)) {
		q.turn++
	}
	k, at := q.find(i)
	g := &q.rings[k]
	r := *g.at(at)
	for ; at+1 < g.n; at++ {
		*g.at(at) = *g.at(at + 1)
	}
	*g.at(at) = Request{}
	if k < len(q.rings)/2 { // move the rings before this ring or the rings after it, whichever are fewer
		for j := range k + 1 {
			q.rings[j].first++
		}
		q.base++
	} else {
		for j := k + 1; j < len(q.rings); j++ {
			q.rings[j].first--
		}
	}
	q.shrink(k)
	return r, true
}

// place returns the index of the request with this id; -1 if the request is not in the queue. Within a level, ids
// ascend, except that requests that were put back into the queue can be out of order.
func (q *Queue) place(id device.RequestID) int {
	for from := 0; from < q.n; from = q.Level(from) {
		level := q.At(from).Priority
		behind := func(r *Request) bool { return r.Priority < level || r.Priority == level && r.ID > id }
		k := sort.Search(len(q.rings)-1, func(k int) bool { return behind(q.rings[k+1].at(0)) })
		g := &q.rings[k]
		if i := sort.Search(g.n, func(i int) bool { return behind(g.at(i)) }) - 1; i >= 0 && g.at(i).ID == id {
			return g.first - q.base + i
		}
	}
	for i := range q.n {
		if q.At(i).ID == id {
			return i
		}
	}
	return -1
}
