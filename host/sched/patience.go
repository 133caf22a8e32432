// This file defines the order of service in fluid+. Requests are served in the order of arrival, except for requests
// that will be late in any case. If late requests are served first, other requests miss their deadlines. If they are
// served last, the 99th percentile increases. So a late request is handled in one of two ways.
//
//   - A few late requests may be let go: they are served when no other request waits. These requests have
//     waited longer than 99 of 100 requests would wait in the order of arrival (Traffic.Tail), so they are
//     beyond the 99th percentile in any case. If few requests are late, this ends a jam at its beginning.
//     If many requests are late, this shortens the worst jams.
//   - All other late requests stand back: other requests go before them until they have waited for
//     Traffic.Tail. After that they go first again. So in a jam that does not end, requests are served in
//     the order of arrival.
//
// Many requests that stand back can reach Traffic.Tail at the same time. So the policy counts the requests that begin
// after a longer wait than Traffic.Tail, and the requests that would do so in the order of arrival. (The begin times
// are assumed to be equal in both orders, since they hardly depend on the order.) The more the first count exceeds the
// second, the shorter is the time for which requests stand back.

package sched

import (
	"cmp"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

const (
	maxLetGo = 16 // limit for the waiting requests that were let go; it limits the cost of a decision
	nearHead = 16 // number of requests at the queue's head that are examined one by one
)

// patience records which requests were let go.
type patience struct {
	off []letOff // requests that may still wait, in the order of the queue
}

// letOff is a request that was let go.
type letOff struct {
	level int
	id    device.RequestID
}

func (o letOff) compare(r *Request) int {
	return cmp.Or(cmp.Compare(r.Priority, o.level), cmp.Compare(o.id, r.ID))
}

func (w *patience) has(id device.RequestID) bool {
	return slices.ContainsFunc(w.off, func(o letOff) bool { return o.id == id })
}

// takes returns the expected time, in ns, of a request that begins now. The batch is selected later, so its size is
// assumed to be two fifths of the number of waiting requests. If the time of one request alone were used, too many
// requests would begin that end late and delay others. If the time of a batch of all waiting requests were used, some
// requests would be given up that a smaller batch could serve in time.
func (q *plan) takes(waiting int) Time {
	return Time(q.rest[q.cell(0, min(q.b, max(1, 2*waiting/5)))])
}

// hold updates the number of requests that began beyond the tail, and the time for which late requests stand back.
func (q *plan) hold(seen *Traffic) {
	q.tail = seen.Tail
	q.over += float64(seen.Beyond-q.beyond) - mul(tailKept, float64(seen.InOrder-q.inOrder))
	q.over = min(overLimit, max(0, q.over))
	q.inOrder, q.beyond = seen.InOrder, seen.Beyond
	q.back = mul(q.tail, 1-q.over/overLimit)
}

// standsBack reports whether other requests go before a request that will be late. The result is false if there is no
// plan, except under fluid+last.
func (p *Plus) standsBack(now Time, q *plan, r *Request) bool {
	if p.Last {
		return canWait(now, r)
	}
	return q != nil && float64(now-r.Arrived) <= q.back
}

// canWait reports whether a late request may wait longer. It may wait endurance times the time from its arrival to its
// deadline.
func canWait(now Time, r *Request) bool { return (now-r.Arrived)/endurance < r.Deadline-r.Arrived }

// next returns the request to serve next. It returns nil if this answer has already used all waiting requests.
func (p *Plus) next(now Time, s *State) *Request {
	first, to := (*Request)(nil), 0
	for i := 0; i < s.Queue.Len(); i++ {
		if i >= to {
			if first != nil { // a request stands back only behind requests of its level
				break
			}
			to = s.Queue.Level(i)
		}
		r := s.Queue.At(i)
		if slices.Contains(p.given, r.ID) {
			continue
		}
		if !p.wait.has(r.ID) && (r.Deadline >= now || !p.standsBack(now, p.known(r.Network), r)) {
			return r
		}
		if first == nil {
			first = r
		}
		i = s.Queue.skip(i, to, now)
	}
	return first
}

// skip returns the last place of a run from i on in which all deadlines are before the given time. "end" is the end of
// i's level. Near the head, and in a queue that is not ordered, requests are examined one by one, so skip returns i.
func (q *Queue) skip(i, end int, before Time) int {
	if i+1 < nearHead || !q.Ordered() {
		return i
	}
	lo, hi := i+1, end
	for lo < hi {
		if mid := (lo + hi) / 2; q.At(mid).Deadline < before {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// pick appends requests for the plan's network to p.given, in the order of service: at most "limit" requests, of level
// "least" or higher. It stops at the first request for another network. It returns the index of the first appended
// request. It may also let requests go, or give them up (Refuse).
func (p *Plus) pick(now Time, s *State, q *plan, limit, least int, buf []Action) ([]Action, int) {
	n := s.Queue.Len()
	p.soonest = never
	x := picking{Plus: p, now: now, begun: now + q.takes(n), s: s, q: q, limit: limit, from: len(p.given), buf: buf}
	for lo, hi, more := 0, 0, true; lo < n && more && !x.full() && s.Queue.At(lo).Priority >= least; lo = hi {
		hi = s.Queue.Level(lo)
		more = x.level(lo, hi)
	}
	return x.buf, x.from
}

// picking is the state of one call of pick.
type picking struct {
	*Plus
	now, begun Time // the current time, and the expected end of requests that begin now
	s          *State
	q          *plan
	limit      int
	from       int // index of the first request of this pick in p.given
	buf        []Action

	// For the current level: "first" is the place of the first request that stands back (-1: none). "at" is the index of
	// the first entry of wait.off that the search has not reached yet.
	first, at int
}

// full reports whether the pick has reached its limit.
func (x *picking) full() bool { return len(x.given)-x.from >= x.limit }

// taken reports whether this answer has already used or given up a request.
func (x *picking) taken(r *Request) bool {
	return x.from > 0 && slices.Contains(x.given[:x.from], r.ID)
}

// level picks requests from one level, which has the places lo to hi-1. "more" reports whether the search may continue
// with the next level.
func (x *picking) level(lo, hi int) (more bool) {
	had := len(x.given) - x.from
	more = x.inOrder(lo, hi)
	if x.first >= 0 {
		x.thoseBack(x.first, hi)
	}
	// Requests that were let go are used in two cases: no other request was picked, or so many requests wait that only
	// full batches are fast enough.
	if len(x.given)-x.from == had || x.s.Queue.Len() > guardBatches*x.q.b {
		x.thoseLetGo(lo, hi)
	}
	for i := lo; i < hi && more && len(x.given) == x.from; i++ { // the next level waits until all of this level is used
		more = slices.Contains(x.given, x.s.Queue.At(i).ID)
	}
	return more
}

// thoseBack picks requests among those that stand back.
func (x *picking) thoseBack(lo, hi int) {
	for i := lo; i < hi && !x.full(); i++ {
		r := x.s.Queue.At(i)
		if r.Deadline >= x.begun || r.Network != x.q.network || !x.standsBack(x.now, x.q, r) || x.wait.has(r.ID) || x.taken(r) {
			continue
		}
		x.give(r, x.begun)
	}
}

// thoseLetGo picks requests among those that were let go.
func (x *picking) thoseLetGo(lo, hi int) {
	for i := lo; i < hi && !x.full() && len(x.wait.off) > 0; i++ {
		if r := x.s.Queue.At(i); r.Network == x.q.network && x.wait.has(r.ID) && !slices.Contains(x.given, r.ID) {
			x.give(r, x.begun)
		}
	}
}

// inOrder picks requests in the order of arrival. It skips requests that are let go, given up, or stand back. "more"
// is false if the search stopped at a request for another network.
func (x *picking) inOrder(lo, hi int) (more bool) {
	x.first, x.at = -1, 0
	if lo > 0 {
		x.at = x.wait.behind(x.s.Queue.At(lo).Priority + 1)
	}
	i := lo
	for ; i < hi && !x.full(); i++ {
		r := x.s.Queue.At(i)
		off := x.meet(r)
		switch {
		case x.taken(r):
		case off:
			x.again(r)
		case r.Network != x.q.network:
			if r.Deadline >= x.now || !x.standsBack(x.now, x.known(r.Network), r) {
				return false
			}
			i = x.back(i, hi, x.now) // the same as in next
		case r.Deadline < x.begun:
			i = x.missed(r, i, hi)
		default:
			x.give(r, x.begun)
		}
	}
	if i == hi && x.first < 0 {
		end := len(x.wait.off)
		if hi < x.s.Queue.Len() {
			end = max(x.at, x.wait.behind(x.s.Queue.At(lo).Priority))
		}
		x.wait.off = slices.Delete(x.wait.off, x.at, end)
	}
	return true
}

// meet reports whether the request was let go. It also removes entries of earlier requests that no longer wait.
func (x *picking) meet(r *Request) bool {
	for x.at < len(x.wait.off) && x.wait.off[x.at].compare(r) < 0 {
		if x.first >= 0 {
			x.at++ // the search has skipped this request
			continue
		}
		x.wait.off = slices.Delete(x.wait.off, x.at, x.at+1) // the request was served or has ended
	}
	return x.at < len(x.wait.off) && x.wait.off[x.at].id == r.ID
}

// again picks a request that was let go, if the request cannot wait longer.
func (x *picking) again(r *Request) {
	if r.Network != x.q.network || canWait(x.now, r) {
		x.at++
		return
	}
	x.wait.off = slices.Delete(x.wait.off, x.at, x.at+1)
	x.give(r, x.begun)
}

// missed handles the request at place i, which will be late. missed returns the place after which the search continues.
func (x *picking) missed(r *Request, i, hi int) int {
	switch {
	case x.Refuse:
		x.buf = append(x.buf, Action{Kind: Drop, Request: r.ID})
		x.given, x.due = slices.Insert(x.given, x.from, r.ID), slices.Insert(x.due, x.from, never)
		x.from++
	case x.standsBack(x.now, x.q, r):
		return x.back(i, hi, x.begun)
	case x.mayLetGo(x.now, x.q, r):
		x.wait.off = slices.Insert(x.wait.off, x.at, letOff{r.Priority, r.ID})
		x.q.letGo++
		x.at++
	default:
		x.give(r, x.begun)
	}
	return i
}

// back records that the request at place i stands back. The requests after it stand back too, as long as their
// deadlines are before the given time. back returns the place of the last of these requests.
func (x *picking) back(i, hi int, before Time) int {
	if x.first < 0 {
		x.first = i
	}
	return x.s.Queue.skip(i, hi, before)
}

// behind returns the number of requests of the given or a higher level that were let go.
func (w *patience) behind(level int) int {
	n := 0
	for n < len(w.off) && w.off[n].level >= level {
		n++
	}
	return n
}

// mayLetGo reports whether a request that will be late may be let go.
func (p *Plus) mayLetGo(now Time, q *plan, r *Request) bool {
	return !p.Last && float64(now-r.Arrived) > q.tail && canWait(now, r) &&
		len(p.wait.off) < maxLetGo && float64(p.letGone(r.Network)) < mul(letGo, float64(q.arrived))
}

// letGone returns the number of a network's requests that have been let go so far, on all devices.
func (p *Plus) letGone(network string) (n int64) {
	for _, q := range p.plans {
		if q.network == network {
			n += q.letGo
		}
	}
	return n
}

func (p *Plus) give(r *Request, begun Time) {
	due := r.Deadline
	if due < begun {
		due = never // the deadline is missed in any case, so it does not affect later requests
	}
	p.given, p.due, p.soonest = append(p.given, r.ID), append(p.due, due), min(p.soonest, due)
}
