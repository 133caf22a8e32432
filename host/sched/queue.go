// The queue: requests that wait, oldest first. Taking from the head costs nothing that depends on
// the length; removing or inserting elsewhere moves at most the requests in front of the place.

package sched

import "github.com/sluice-npu/sluice/host/device"

// Queue is a ring of waiting requests. The zero value is empty. The engine alone changes it.
type Queue struct {
	ring []Request // its length is a power of two
	head int
	n    int
	turn int // neighbours of which the older one has the later deadline
}

// Len is N_Q.
func (q *Queue) Len() int { return q.n }

// At is the i-th oldest request, 0 <= i < Len.
func (q *Queue) At(i int) *Request { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// Ordered tells whether the order of arrival is the order of deadlines.
func (q *Queue) Ordered() bool { return q.turn == 0 }

// turns is 1 where requests i and i+1 both wait and their deadlines stand against their order.
func (q *Queue) turns(i int) int {
	if i < 0 || i+1 >= q.n || q.At(i).Deadline <= q.At(i+1).Deadline {
		return 0
	}
	return 1
}

// Push appends a request.
func (q *Queue) Push(r *Request) {
	q.grow()
	q.n++
	*q.At(q.n - 1) = *r
	q.turn += q.turns(q.n - 2)
}

// Insert puts a request that comes back (a retry) where its arrival belongs: behind every waiting
// request that arrived earlier, or at the same time with a smaller id.
func (q *Queue) Insert(r *Request) {
	q.grow()
	q.head = (q.head + len(q.ring) - 1) & (len(q.ring) - 1)
	q.n++
	i := 0
	for ; i+1 < q.n; i++ {
		next := q.At(i + 1)
		if next.Arrived > r.Arrived || next.Arrived == r.Arrived && next.ID > r.ID {
			break
		}
		*q.At(i) = *next
	}
	// Those in front have moved, but not against each other.
	if i > 0 && i+1 < q.n && q.At(i-1).Deadline > q.At(i+1).Deadline {
		q.turn--
	}
	*q.At(i) = *r
	q.turn += q.turns(i-1) + q.turns(i)
}

// Pop takes the oldest request.
func (q *Queue) Pop() (Request, bool) {
	if q.n == 0 {
		return Request{}, false
	}
	r := q.ring[q.head]
	q.Skip()
	return r, true
}

// Skip takes the oldest request of a queue that is not empty, for those who know it: a request is
// large, and to hand it over takes as long as all else here.
func (q *Queue) Skip() {
	q.turn -= q.turns(0)
	q.ring[q.head].Thetas = nil // all else is overwritten by the next to stand there
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
}

// Remove takes the request with this id.
func (q *Queue) Remove(id device.RequestID) (Request, bool) {
	for i := 0; i < q.n; i++ {
		if q.At(i).ID != id {
			continue
		}
		r := *q.At(i)
		q.turn -= q.turns(i-1) + q.turns(i)
		if i > 0 && i+1 < q.n && q.At(i-1).Deadline > q.At(i+1).Deadline {
			q.turn++
		}
		for ; i > 0; i-- {
			*q.At(i) = *q.At(i - 1)
		}
		q.ring[q.head] = Request{}
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.n--
		return r, true
	}
	return Request{}, false
}

func (q *Queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]Request, max(16, 2*len(q.ring)))
	for i := 0; i < q.n; i++ {
		ring[i] = *q.At(i)
	}
	q.ring, q.head = ring, 0
}
