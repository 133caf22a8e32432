// Whom fluid+ serves next: by arrival, but the hopeless last, as far as they may be let go.

package sched

import (
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

const (
	maxLetGo = 64 // requests that wait and were let go by fluid+, and with it what a decision costs
	nearHead = 16 // requests at the queue's head that are looked at one by one
)

// patience remembers who was let go.
type patience struct {
	off   []device.RequestID // still waiting, as far as known; in the order of the queue
	total int64              // ever
}

// takes is the time that a request which is begun now is expected to take. The batch is chosen later:
// it counts as two fifths of those who wait. With the time of one alone, too many are begun that are
// late in the end and have held the others up; with that of as many as wait, those are given up that
// a smaller batch would save.
func (q *plan) takes(waiting int) Time {
	return Time(q.rest[q.cell(0, min(q.b, max(1, 2*waiting/5)))])
}

// next is the network of the request to be served next; false where nobody waits that this answer
// has not given away.
func (p *Plus) next(now Time, s *State) (string, bool) {
	network, found := "", false
	for i := 0; i < s.Queue.Len(); i++ {
		r := s.Queue.At(i)
		if slices.Contains(p.given, r.ID) {
			continue
		}
		back := slices.Contains(p.wait.off, r.ID)
		if p.Last {
			back = r.Deadline < now && endures(now, r)
		}
		if !back {
			return r.Network, true
		}
		if !found {
			network, found = r.Network, true
		}
		if p.Last {
			i = s.Queue.skip(i, now)
		}
	}
	return network, found
}

// skip is the place behind i, beyond those near the head, in front of which all deadlines are before
// that time, less one.
func (q *Queue) skip(i int, before Time) int {
	if i+1 < nearHead || !q.Ordered() {
		return i
	}
	lo, hi := i+1, q.n
	for lo < hi {
		if mid := (lo + hi) / 2; q.At(mid).Deadline < before {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// pick appends to given up to limit requests for the plan's network, in the order in which they are
// to be served, up to the first for another network, and tells where they begin. It lets requests
// go, or gives them up (Refuse).
func (p *Plus) pick(now Time, s *State, q *plan, limit int, buf []Action) ([]Action, int) {
	from, n := len(p.given), s.Queue.Len()
	p.soonest = never
	begun := now + q.takes(n)
	if p.Last {
		p.savable(now, s, q, from+limit, begun)
	} else if buf, from = p.patient(now, s, q, limit, begun, buf); len(p.given) > from {
		return buf, from
	}
	// Who was let go: when nobody else waits, and where so many wait that only full batches keep up.
	if len(p.given) > from && n <= guardBatches*q.b {
		return buf, from
	}
	for i := 0; i < n && len(p.given)-from < limit; i++ {
		if r := s.Queue.At(i); r.Network == q.network && (p.Last || slices.Contains(p.wait.off, r.ID)) && !slices.Contains(p.given, r.ID) {
			p.give(r, begun)
		}
	}
	return buf, from
}

// savable picks those that can meet their deadline, and those that have waited too long for others.
func (p *Plus) savable(now Time, s *State, q *plan, limit int, begun Time) {
	taken := p.given // by other devices
	for i := 0; i < s.Queue.Len() && len(p.given) < limit; i++ {
		r := s.Queue.At(i)
		switch {
		case r.Deadline < begun && endures(now, r):
			i = s.Queue.skip(i, begun)
		case slices.Contains(taken, r.ID):
		case r.Network != q.network:
			return
		default:
			p.give(r, begun)
		}
	}
}

// patient picks in the order of arrival but for those it lets go, or gives up.
func (p *Plus) patient(now Time, s *State, q *plan, limit int, begun Time, buf []Action) ([]Action, int) {
	from, at, i, n := len(p.given), 0, 0, s.Queue.Len()
	for ; i < n && len(p.given)-from < limit; i++ {
		r := s.Queue.At(i)
		for at < len(p.wait.off) && p.wait.off[at] < r.ID { // served or gone
			p.wait.off = slices.Delete(p.wait.off, at, at+1)
		}
		off := at < len(p.wait.off) && p.wait.off[at] == r.ID
		switch missed := r.Deadline < begun; {
		case from > 0 && slices.Contains(p.given[:from], r.ID):
			continue
		case !off && r.Network != q.network:
			return buf, from
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
		case missed && endures(now, r) && len(p.wait.off) < maxLetGo && float64(p.wait.total) < mul(q.letGo, float64(q.arrived)):
			p.wait.off = slices.Insert(p.wait.off, at, r.ID)
			p.wait.total++
			at++
			continue
		}
		p.give(r, begun)
	}
	if i == n {
		p.wait.off = p.wait.off[:at]
	}
	return buf, from
}

func (p *Plus) give(r *Request, begun Time) {
	due := r.Deadline
	if due < begun {
		due = never // missed whatever is done: it has no say
	}
	p.given, p.due, p.soonest = append(p.given, r.ID), append(p.due, due), min(p.soonest, due)
}

// endures tells whether a request can be let go a while longer.
func endures(now Time, r *Request) bool { return (now-r.Arrived)/endurance < r.Deadline-r.Arrived }
