// The order of service in fluid+: by arrival, except for requests that will be late anyway. To serve these costs
// other requests their deadlines; to leave them costs the 99th percentile. So there are two kinds of them.
//
//   - A few may be let go: they are served when no other request waits. They have waited longer than
//     99 of 100 requests would in the order of arrival (Traffic.Tail), so they are beyond the 99th
//     percentile in any case. If few requests are late, this resolves a jam as it begins; if many
//     are, it shortens the worst jams.
//   - All others stand back until they have waited that long. Then they go first again, so in a jam
//     that does not end, requests are served in the order of arrival.
//
// Requests that stand back add up, and too many can be due at once. So two numbers are compared: how many requests
// begin beyond the tail, and how many would in the order of arrival. (The times at which some request begins are
// taken as given; they hardly depend on the order.) The more the first number exceeds the second, the sooner a
// request that stands back is due.

package sched

import (
	"cmp"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

const (
	maxLetGo = 16 // limit for waiting requests that were let go, which limits the cost of a decision
	nearHead = 16 // requests at the queue's head that are examined one by one
)

// patience records which requests were let go.
type patience struct {
	off []letOff // still waiting, as far as known; in the queue's order
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

// takes is the time that a request which begins now is expected to take. The batch is chosen later, so its size is
// assumed to be two fifths of the waiting requests. If the time of one request alone were assumed, too many requests
// would begin that are late in the end and delay others. If a batch of all waiting requests were assumed, requests
// would be given up that a smaller batch could still serve in time.
func (q *plan) takes(waiting int) Time {
	return Time(q.rest[q.cell(0, min(q.b, max(1, 2*waiting/5)))])
}

// hold updates the number of requests that began beyond the tail, and how long late requests stand back from now on.
func (q *plan) hold(seen *Traffic) {
	q.tail = seen.Tail
	q.over += float64(seen.Beyond-q.beyond) - mul(tailKept, float64(seen.InOrder-q.inOrder))
	q.over = min(overLimit, max(0, q.over))
	q.inOrder, q.beyond = seen.InOrder, seen.Beyond
	q.back = mul(q.tail, 1-q.over/overLimit)
}

// standsBack reports whether a request that will be late lets others pass. Without a plan it does not, except under
// fluid+last.
func (p *Plus) standsBack(now Time, q *plan, r *Request) bool {
	if p.Last {
		return canWait(now, r)
	}
	return q != nil && float64(now-r.Arrived) <= q.back
}

// canWait reports whether a request that was let go can wait longer.
func canWait(now Time, r *Request) bool { return (now-r.Arrived)/endurance < r.Deadline-r.Arrived }

// next returns the request to serve next; nil if this answer has already used all that wait.
func (p *Plus) next(now Time, s *State) *Request {
	first, to := (*Request)(nil), 0
	for i := 0; i < s.Queue.Len(); i++ {
		if i >= to {
			if first != nil { // a request stands back only within its level
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

// skip returns the last place of those after i whose deadlines are all before the given time; end is the end of i's
// level. Requests near the head are examined one by one: there it returns i.
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

// pick appends to given up to limit requests for the plan's network, of the given level and above, in the order of
// service. It stops at the first one for another network and returns the index of the first appended one. It may let
// requests go, or give them up (Refuse).
func (p *Plus) pick(now Time, s *State, q *plan, limit, least int, buf []Action) ([]Action, int) {
	n, from, more := s.Queue.Len(), len(p.given), true
	p.soonest = never
	begun := now + q.takes(n)
	for lo, hi := 0, 0; lo < n && more && len(p.given)-from < limit && s.Queue.At(lo).Priority >= least; lo = hi {
		hi = s.Queue.Level(lo)
		buf, from, more = p.pickLevel(now, s, q, lo, hi, from, limit, begun, buf)
	}
	return buf, from
}

// pickLevel picks from one level, whose requests are at the places lo to hi. more reports whether the next level may
// follow.
func (p *Plus) pickLevel(now Time, s *State, q *plan, lo, hi, from, limit int, begun Time, buf []Action) ([]Action, int, bool) {
	had := len(p.given) - from
	buf, from, first, more := p.patient(now, s, q, lo, hi, from, limit, begun, buf)
	for i := first; i >= 0 && i < hi && len(p.given)-from < limit; i++ { // then those that stand back
		r := s.Queue.At(i)
		if r.Deadline >= begun || r.Network != q.network || !p.standsBack(now, q, r) || p.wait.has(r.ID) || slices.Contains(p.given[:from], r.ID) {
			continue
		}
		p.give(r, begun)
	}
	// Requests that were let go are taken if no other request waits, or if so many wait that only full batches keep
	// up.
	if len(p.given)-from == had || s.Queue.Len() > guardBatches*q.b {
		for i := lo; i < hi && len(p.given)-from < limit && len(p.wait.off) > 0; i++ {
			if r := s.Queue.At(i); r.Network == q.network && p.wait.has(r.ID) && !slices.Contains(p.given, r.ID) {
				p.give(r, begun)
			}
		}
	}
	for i := lo; i < hi && more && len(p.given) == from; i++ { // a request of another network stands back here
		more = slices.Contains(p.given, s.Queue.At(i).ID)
	}
	return buf, from, more
}

// patient picks in the order of arrival, except for requests that it lets go, gives up, or finds standing back. It
// returns the place of the first one that stands back (-1: none).
func (p *Plus) patient(now Time, s *State, q *plan, lo, hi, from, limit int, begun Time, buf []Action) ([]Action, int, int, bool) {
	first, at, i := -1, 0, lo
	if lo > 0 {
		at = p.wait.behind(s.Queue.At(lo).Priority + 1)
	}
	for ; i < hi && len(p.given)-from < limit; i++ {
		r := s.Queue.At(i)
		for at < len(p.wait.off) && p.wait.off[at].compare(r) < 0 {
			if first >= 0 {
				at++ // it may be one of the requests that were skipped
				continue
			}
			p.wait.off = slices.Delete(p.wait.off, at, at+1) // served or gone
		}
		off := at < len(p.wait.off) && p.wait.off[at].id == r.ID
		switch missed := r.Deadline < begun; {
		case from > 0 && slices.Contains(p.given[:from], r.ID):
			continue
		case !off && r.Network != q.network:
			if r.Deadline >= now || !p.standsBack(now, p.known(r.Network), r) {
				return buf, from, first, false
			}
			if first < 0 { // it stands back, as in next
				first = i
			}
			i = s.Queue.skip(i, hi, now)
			continue
		case off && (r.Network != q.network || canWait(now, r)):
			at++
			continue
		case off: // its patience has ended
			p.wait.off = slices.Delete(p.wait.off, at, at+1)
		case missed && p.Refuse:
			buf = append(buf, Action{Kind: Drop, Request: r.ID})
			p.given, p.due = slices.Insert(p.given, from, r.ID), slices.Insert(p.due, from, never)
			from++
			continue
		case missed && p.standsBack(now, q, r):
			if first < 0 {
				first = i
			}
			i = s.Queue.skip(i, hi, begun)
			continue
		case missed && p.mayLetGo(now, q, r):
			p.wait.off = slices.Insert(p.wait.off, at, letOff{r.Priority, r.ID})
			q.letGo++
			at++
			continue
		}
		p.give(r, begun)
	}
	if i == hi && first < 0 {
		end := len(p.wait.off)
		if hi < s.Queue.Len() {
			end = max(at, p.wait.behind(s.Queue.At(lo).Priority))
		}
		p.wait.off = slices.Delete(p.wait.off, at, end)
	}
	return buf, from, first, true
}

// behind is the number of requests of the given level and above that were let go.
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
		len(p.wait.off) < maxLetGo && float64(p.letGone()) < mul(letGo, float64(q.arrived))
}

// letGone is the number of requests ever let go, of the networks that are still there.
func (p *Plus) letGone() (n int64) {
	for _, q := range p.plans {
		n += q.letGo
	}
	return n
}

func (p *Plus) give(r *Request, begun Time) {
	due := r.Deadline
	if due < begun {
		due = never // missed in any case, so it does not matter
	}
	p.given, p.due, p.soonest = append(p.given, r.ID), append(p.due, due), min(p.soonest, due)
}
