// Whom fluid+ serves next: by arrival, but those last that were let go.

package sched

import (
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// maxLetGo bounds how many requests wait that were let go, and with it what a decision costs.
const maxLetGo = 64

// patience remembers who was let go.
type patience struct {
	off   []device.RequestID // still waiting, as far as known; in the order of the queue
	total int64              // ever
}

// next is the network of the request to be served next; false where nobody waits that this answer
// has not given away.
func (p *Plus) next(s *State) (string, bool) {
	network, found := "", false
	for i := range s.Queue.Len() {
		r := s.Queue.At(i)
		if slices.Contains(p.given, r.ID) {
			continue
		}
		if !slices.Contains(p.wait.off, r.ID) {
			return r.Network, true
		}
		if !found {
			network, found = r.Network, true
		}
	}
	return network, found
}

// pick appends to given up to limit requests for the plan's network, in the order in which they are
// to be served, up to the first for another network, and tells where they begin. It lets requests
// go, or gives them up (Refuse).
func (p *Plus) pick(now Time, s *State, q *plan, limit int, buf []Action) ([]Action, int) {
	from, at, n := len(p.given), 0, s.Queue.Len()
	p.soonest = never
	alone := Time(q.rest[q.cell(0, 1)])
	i := 0
	for ; i < n && len(p.given)-from < limit; i++ {
		r := s.Queue.At(i)
		for at < len(p.wait.off) && p.wait.off[at] < r.ID { // served or gone
			p.wait.off = slices.Delete(p.wait.off, at, at+1)
		}
		off := at < len(p.wait.off) && p.wait.off[at] == r.ID
		switch missed := r.Deadline < now+alone; {
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
		p.give(r, now+alone)
	}
	if i == n {
		p.wait.off = p.wait.off[:at]
	}
	if len(p.given) > from {
		return buf, from
	}
	for i := 0; i < n && len(p.given)-from < limit; i++ { // nobody else waits
		if r := s.Queue.At(i); r.Network == q.network && slices.Contains(p.wait.off, r.ID) && !slices.Contains(p.given, r.ID) {
			p.give(r, now+alone)
		}
	}
	return buf, from
}

func (p *Plus) give(r *Request, earliest Time) {
	due := r.Deadline
	if due < earliest {
		due = never // missed whatever is done: it has no say
	}
	p.given, p.due, p.soonest = append(p.given, r.ID), append(p.due, due), min(p.soonest, due)
}

// endures tells whether a request can be let go a while longer.
func endures(now Time, r *Request) bool { return (now-r.Arrived)/endurance < r.Deadline-r.Arrived }
