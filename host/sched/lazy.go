// LazyBatching: Choi, Kim and Rhu, "Lazy Batching: An SLA-aware Batching System for Cloud Machine Learning
// Inference", HPCA 2021, section IV, as described in Kouris et al., "Fluid Batching", IV ("Comparison to
// LazyBatching").
//
//   - The policy decides at every boundary of the table. With a table of layers it decides at every layer,
//     as published. With a table of segments between exits it decides only at exits.
//   - The sub-batches form a stack. New requests preempt the top sub-batch at its boundary, run from the
//     start, and merge with the sub-batch below when they have reached the same boundary. Before that, still
//     newer requests can preempt them, unlike in Fluid Batching.
//   - Preemption requires that every member, including new ones, has a slack >= 0. The slack is computed as if the
//     members ran one after the other, each as a batch of one. So the remaining time of a batch is its size times the
//     single-sample time. The oldest requests that satisfy this condition preempt.
//   - The publication does not define how many requests an idle device launches. The policy "lazy" launches as many as
//     keep every slack >= 0, at least one. When requests are late, the device serves one request at a time, and the
//     backlog grows. The policy "lazy-idle" launches the whole queue up to B_max, since no batch runs that could lose
//     slack. The slack then limits only preemption. lazy-idle is better than lazy, and is the baseline of the project's
//     claims.
//   - The policy ignores exits. A place is in use until its sub-batch ends. So places of requests that have left stay
//     empty, and a batch that was full once is never preempted again. The remaining time is the time to the end of the
//     network for all requests that began.

package sched

// Lazy is LazyBatching (Choi et al.). Its parameter is B_max; the SLO is contained in each request's deadline.
type Lazy struct {
	BMax int  // largest batch; 0: the limit of the device and its table
	Idle bool // an idle device serves the whole queue up to B_max
}

func (l Lazy) Name() string {
	if l.Idle {
		return "lazy-idle"
	}
	return "lazy"
}

func (l Lazy) Largest() int { return l.BMax }

// Decide examines every device. Its cost per device is O(stack + B_max).
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
		if !l.Idle { // at least one request must start, even without slack
			n = max(1, l.newcomers(now, s, t, network, never, 0, room, taken, anyLevel))
		}
		buf = whole(buf, i, network, t, n)
		taken += n
	}
	return buf
}

// never is a deadline that is always met.
const never = Time(1<<63 - 1)

// boundary decides the actions for a device if its top sub-batch is at a boundary.
func (l Lazy) boundary(now Time, s *State, dev, taken int, buf []Action) ([]Action, int) {
	d := &s.Devices[dev]
	k := len(d.Launches) - 1 // index of the sub-batch that continues
	top := d.Launches[k]
	t := d.Table(top.Network)
	if t == nil {
		return buf, taken
	}
	buf, k = l.merged(d, k, bMax(l.BMax, d, t), buf)
	base := d.Launches[k]
	last := t.Segments() - 1
	places, deadline, rest, level := stacked(d)
	n := 0
	if base.Reached >= 0 && base.Reached < last {
		n = l.newcomers(now, s, t, base.Network, deadline, rest, min(bMax(l.BMax, d, t)-places, d.free()), taken, level)
	}
	stop := last // or the boundary at which the next sub-batch below waits
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

// merged merges the sub-batch at the top (index k) with the sub-batches below if these are at the same boundary. It
// returns the index of the sub-batch that continues.
func (Lazy) merged(d *DeviceView, k, most int, buf []Action) ([]Action, int) {
	top := d.Launches[k]
	rem := len(top.Requests)
	for k > 0 && d.Launches[k-1].Reached == top.Reached && d.Launches[k-1].Network == top.Network {
		if rem += len(d.Launches[k-1].Requests); rem > most { // too large: a higher level has interrupted one of the two
			break
		}
		buf = merge(buf, d.Launches[k].ID, d.Launches[k-1].ID)
		k--
	}
	return buf, k
}

// stacked returns values for all sub-batches of a device: the number of places, the earliest deadline, the sum of the
// remaining times, and the highest level.
func stacked(d *DeviceView) (places int, deadline, rest Time, level int) {
	deadline, level = never, anyLevel
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
	return places, deadline, rest, level
}

// newcomers returns the number of waiting requests that may start in addition to the members of the stack. deadline is
// the earliest deadline of the members, and rest is the sum of their remaining times.
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
