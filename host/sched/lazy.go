// LazyBatching: Choi, Kim and Rhu, "Lazy Batching: An SLA-aware Batching System for Cloud Machine
// Learning Inference", HPCA 2021, section IV, as Kouris et al., "Fluid Batching", IV ("Comparison to
// LazyBatching") describe it.
//
//   - It is asked at every boundary that the table has: a table of layers makes it layer-wise, as
//     published; a table of segments between exits makes it coarser.
//   - The sub-batches form a stack. New requests preempt the top at its boundary, run from the start,
//     and merge with the sub-batch below when they have caught up with it; they can be preempted on
//     their way by still newer ones (the difference to Fluid Batching's filling).
//   - They preempt only if every member, the new ones included, keeps a slack >= 0 when all members'
//     remaining times are taken as if each ran alone, one after the other: a batch takes batch times
//     the single-sample time. As many preempt as keep this true, oldest first.
//   - The publication leaves open what an idle device takes. There are two readings. lazy: as many as
//     the same slack allows, one at the least; once requests are late that is one at a time, and the
//     backlog grows. lazy-idle: the whole queue up to B_max, since nobody is there whose slack it could
//     cost; slack only guards preemption. It is the stronger one, and the baseline of what is claimed.
//   - It does not know of exits: places count as taken until their sub-batch is through, so a batch
//     that was full once is never preempted again and freed places stay empty; and the remaining time
//     is that of the whole network for all that began.

package sched

// Lazy has the parameter B_max; the SLO reaches it as each request's deadline.
type Lazy struct {
	BMax int  // largest batch; 0: whatever the device and its table allow
	Idle bool // an idle device takes the whole queue up to B_max
}

// Name is the policy's name on the command line.
func (l Lazy) Name() string {
	if l.Idle {
		return "lazy-idle"
	}
	return "lazy"
}

// Mapping is R: what the published comparison's design search found for it.
func (Lazy) Mapping() string { return MappingR }

// Decide looks at every device; it costs O(stack + B_max) each.
func (l Lazy) Decide(now Time, s *State, _ *Event, buf []Action) []Action {
	taken := 0
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Down || len(d.Launches) > 0 && d.Launches[len(d.Launches)-1].Phase == Running {
			continue
		}
		if len(d.Launches) > 0 {
			buf, taken = l.boundary(now, s, i, taken, buf)
			continue
		}
		if taken == s.Queue.Len() {
			continue
		}
		network := s.Queue.At(taken).Network
		t := d.Table(network)
		if t == nil {
			continue
		}
		room := bMax(l.BMax, d, t)
		n := Head(&s.Queue, network, taken, room)
		if !l.Idle { // someone must start, whatever its slack
			n = max(1, l.newcomers(now, s, t, network, never, 0, room, taken, anyLevel))
		}
		buf = whole(buf, i, network, t, n)
		taken += n
	}
	return buf
}

// never is a deadline that nothing misses.
const never = Time(1<<63 - 1)

// boundary handles a device whose top sub-batch stands at a boundary.
func (l Lazy) boundary(now Time, s *State, dev, taken int, buf []Action) ([]Action, int) {
	d := &s.Devices[dev]
	k := len(d.Launches) - 1 // where the sub-batch is that goes on
	top := d.Launches[k]
	t := d.Table(top.Network)
	if t == nil {
		return buf, taken
	}
	// Merge with whoever stands at the same boundary; with several, all the way down.
	rem := len(top.Requests)
	for k > 0 && d.Launches[k-1].Reached == top.Reached && d.Launches[k-1].Network == top.Network {
		if rem += len(d.Launches[k-1].Requests); rem > bMax(l.BMax, d, t) { // one of them was interrupted
			break
		}
		buf = merge(buf, d.Launches[k].ID, d.Launches[k-1].ID)
		k--
	}
	base := d.Launches[k]
	last := t.Segments() - 1
	places, deadline, rest, level := 0, never, Time(0), anyLevel
	for _, v := range d.Launches {
		places += v.Began
		level = max(level, v.Level())
		for i := range v.Requests {
			deadline = min(deadline, v.Requests[i].Deadline)
		}
		if its := d.Table(v.Network); its != nil && v.Reached < its.Segments()-1 {
			rest += Time(v.Began) * its.At(v.Reached+1, its.Segments()-1, 1)
		}
	}
	n := 0
	if base.Reached >= 0 && base.Reached < last {
		n = l.newcomers(now, s, t, base.Network, deadline, rest, min(bMax(l.BMax, d, t)-places, d.free()), taken, level)
	}
	stop := last // or where the next sub-batch below waits
	if k > 0 && d.Launches[k-1].Network == base.Network && d.Launches[k-1].Reached > base.Reached {
		stop = d.Launches[k-1].Reached
	}
	if n > 0 {
		if base.Phase != Halted {
			buf = preempt(buf, base.ID)
		}
		return upTo(buf, dev, base.Network, base.Reached, n), taken + n
	}
	buf, n = interrupt(s, dev, base, level, taken, l.BMax, buf)
	if n == 0 && (base.Phase == Halted || base.Reached == base.Last) {
		buf = resume(buf, base.ID, stop)
	}
	return buf, taken + n
}

// newcomers is how many waiting requests may start beside members whose earliest deadline and
// remaining times, one after the other, are given.
func (Lazy) newcomers(now Time, s *State, t *Table, network string, deadline, rest Time, room, taken, level int) int {
	n := 0
	for m := atLeast(&s.Queue, network, taken, room, level); n < m; n++ {
		deadline = min(deadline, s.Queue.At(taken+n).Deadline)
		rest += t.Alone()
		if deadline-now-rest < 0 {
			break
		}
	}
	return n
}
