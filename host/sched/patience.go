// Whom fluid+ serves next: by arrival, but for those that are late anyway. Serving them costs others
// their deadlines, and leaving them costs the 99th percentile; so they are of two kinds.
//
//   - Few may be let go, which means that they are served when nobody else waits: those that have
//     waited for longer than 99 of 100 would have to in the order of arrival (Traffic.Tail), so that
//     they are beyond the 99th percentile in any case. Where hardly anybody is late this ends a jam as
//     it begins; where many are, it shortens the worst.
//   - All others stand back until they have waited for that long. When they are due they go first
//     again, so in a jam that does not end everything comes in the order of arrival.
//
// What stands back adds up, and too many can be due at once. So it is counted who begins beyond the
// tail, and who would have in the order of arrival (requests being begun when they are, which hardly
// depends on their order): the more the first outnumber the others, the sooner is due who stands back.

package sched

import (
	"cmp"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

const (
	maxLetGo = 16 // requests that wait and were let go by fluid+, and with it what a decision costs
	nearHead = 16 // requests at the queue's head that are looked at one by one
)

// patience remembers who was let go.
type patience struct {
	off   []letOff // still waiting, as far as known; in the order of the queue
	total int64    // ever
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

// takes is the time that a request which is begun now is expected to take. The batch is chosen later:
// it counts as two fifths of those who wait. With the time of one alone, too many are begun that are
// late in the end and have held the others up; with that of as many as wait, those are given up that
// a smaller batch would save.
func (q *plan) takes(waiting int) Time {
	return Time(q.rest[q.cell(0, min(q.b, max(1, 2*waiting/5)))])
}

// hold takes in who began beyond the tail, and how long those who are late stand back from now on.
func (q *plan) hold(seen *Traffic) {
	q.tail = seen.Tail
	q.over += float64(seen.Beyond-q.beyond) - mul(tailKept, float64(seen.InOrder-q.inOrder))
	q.over = min(overSpan, max(0, q.over))
	q.inOrder, q.beyond = seen.InOrder, seen.Beyond
	q.back = mul(q.tail, 1-q.over/overSpan)
}

// stands tells whether a request that is late anyway lets the others pass. Without a plan nobody
// does, but under fluid+last.
func (p *Plus) stands(now Time, q *plan, r *Request) bool {
	if p.Last {
		return endures(now, r)
	}
	return q != nil && float64(now-r.Arrived) <= q.back
}

// endures tells whether a request can be let go a while longer.
func endures(now Time, r *Request) bool { return (now-r.Arrived)/endurance < r.Deadline-r.Arrived }

// next is the request to be served next; nil where nobody waits that this answer has not given away.
func (p *Plus) next(now Time, s *State) *Request {
	first, to := (*Request)(nil), 0
	for i := 0; i < s.Queue.Len(); i++ {
		if i >= to {
			if first != nil { // who stands back does so within a level
				break
			}
			to = s.Queue.Level(i)
		}
		r := s.Queue.At(i)
		if slices.Contains(p.given, r.ID) {
			continue
		}
		if !p.wait.has(r.ID) && (r.Deadline >= now || !p.stands(now, p.known(r.Network), r)) {
			return r
		}
		if first == nil {
			first = r
		}
		i = s.Queue.skip(i, to, now)
	}
	return first
}

// skip is the place behind i, beyond those near the head, in front of which all deadlines of a level that ends at a place
// are before that time, less one.
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

// pick appends to given up to limit requests for the plan's network, of that level and above, in the order in which they
// are to be served, up to the first for another network, and tells where they begin. It lets requests
// go, or gives them up (Refuse).
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

// pickLevel picks among those of a level, who wait at the places lo to hi; more: those of the next level may be picked
// behind them.
func (p *Plus) pickLevel(now Time, s *State, q *plan, lo, hi, from, limit int, begun Time, buf []Action) ([]Action, int, bool) {
	had := len(p.given) - from
	buf, from, first, more := p.patient(now, s, q, lo, hi, from, limit, begun, buf)
	for i := first; i >= 0 && i < hi && len(p.given)-from < limit; i++ { // those who stand back, behind the others
		r := s.Queue.At(i)
		if r.Deadline >= begun || r.Network != q.network || !p.stands(now, q, r) || p.wait.has(r.ID) || slices.Contains(p.given[:from], r.ID) {
			continue
		}
		p.give(r, begun)
	}
	// Who was let go: when nobody else waits, and where so many wait that only full batches keep up.
	if len(p.given)-from == had || s.Queue.Len() > guardBatches*q.b {
		for i := lo; i < hi && len(p.given)-from < limit && len(p.wait.off) > 0; i++ {
			if r := s.Queue.At(i); r.Network == q.network && p.wait.has(r.ID) && !slices.Contains(p.given, r.ID) {
				p.give(r, begun)
			}
		}
	}
	for i := lo; i < hi && more && len(p.given) == from; i++ { // somebody stands back for another network
		more = slices.Contains(p.given, s.Queue.At(i).ID)
	}
	return buf, from, more
}

// patient picks in the order of arrival but for those that it lets go, gives up, or finds standing
// back, of whom it tells the first one's place (-1: nobody stands back).
func (p *Plus) patient(now Time, s *State, q *plan, lo, hi, from, limit int, begun Time, buf []Action) ([]Action, int, int, bool) {
	first, at, i := -1, 0, lo
	if lo > 0 {
		at = p.wait.behind(s.Queue.At(lo).Priority + 1)
	}
	for ; i < hi && len(p.given)-from < limit; i++ {
		r := s.Queue.At(i)
		for at < len(p.wait.off) && p.wait.off[at].compare(r) < 0 {
			if first >= 0 {
				at++ // may be among those who were not looked at
				continue
			}
			p.wait.off = slices.Delete(p.wait.off, at, at+1) // served or gone
		}
		off := at < len(p.wait.off) && p.wait.off[at].id == r.ID
		switch missed := r.Deadline < begun; {
		case from > 0 && slices.Contains(p.given[:from], r.ID):
			continue
		case !off && r.Network != q.network:
			if r.Deadline >= now || !p.stands(now, p.known(r.Network), r) {
				return buf, from, first, false
			}
			if first < 0 { // it stands back, as next found
				first = i
			}
			i = s.Queue.skip(i, hi, now)
			continue
		case off && (r.Network != q.network || endures(now, r)):
			at++
			continue
		case off: // its patience is at an end
			p.wait.off = slices.Delete(p.wait.off, at, at+1)
		case missed && p.Refuse:
			buf = append(buf, Action{Kind: Drop, Request: r.ID})
			p.given, p.due = slices.Insert(p.given, from, r.ID), slices.Insert(p.due, from, never)
			from++
			continue
		case missed && p.stands(now, q, r):
			if first < 0 {
				first = i
			}
			i = s.Queue.skip(i, hi, begun)
			continue
		case missed && p.lets(now, q, r):
			p.wait.off = slices.Insert(p.wait.off, at, letOff{r.Priority, r.ID})
			p.wait.total++
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

// behind is how many were let go of this level and above.
func (w *patience) behind(level int) int {
	n := 0
	for n < len(w.off) && w.off[n].level >= level {
		n++
	}
	return n
}

// lets tells whether a request that is late anyway may be let go.
func (p *Plus) lets(now Time, q *plan, r *Request) bool {
	return !p.Last && float64(now-r.Arrived) > q.tail && endures(now, r) &&
		len(p.wait.off) < maxLetGo && float64(p.wait.total) < mul(letGo, float64(q.arrived))
}

func (p *Plus) give(r *Request, begun Time) {
	due := r.Deadline
	if due < begun {
		due = never // missed whatever is done: it has no say
	}
	p.given, p.due, p.soonest = append(p.given, r.ID), append(p.due, due), min(p.soonest, due)
}
