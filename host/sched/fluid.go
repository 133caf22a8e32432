// Fluid: the exit-aware preemptive scheduler of Kouris et al., "Fluid Batching: Exit-Aware
// Preemptive Serving of Early-Exit Neural Networks on Edge NPUs", section III-B, Algorithm 1.
//
// The lines of the listing and the functions that implement them:
//
//	2      B_act = min(N_Q, B_max), as soon as the queue is not empty     dispatch
//	6-8    the engine runs segment i; exited requests have left: B_rem     (before Decide)
//	9-11   while B_rem < B_max: B_incr = min(N_Q, B_max - B_rem)           incr
//	12     T_overhead < T_slack (eq. 4)                                    incr
//	13-14  halt the batch, run the new requests from the start to exit i   Preempt, Launch
//	15-17  B_merged = B_rem + B_incr - B_exit                              Merge
//	9      "look again" with the merged batch                              same call
//	19     break                                                           Resume
//
// The listing leaves two points open. First, it does not say what happens if the queue or the batch is empty: here the
// filling stops. Second, equation 4 is only tested while segments remain, since after the last exit there is no batch
// for a merge. The new requests may leave at exits before exit i. They are not preempted themselves (no nesting).
// T_slack is the earliest deadline in the batch minus the current time. If all requests have the same SLO, T_slack is
// T_SLO - (T_wait + T_exec so far) of the oldest request.

package sched

// Fluid implements Algorithm 1 of the Fluid Batching paper; the comment at the top of its file maps the lines. Its
// parameters are <B_max, T_SLO>; T_SLO is contained in each request's deadline.
type Fluid struct {
	BMax int // largest batch; 0: the limit of the device and its table
}

func (Fluid) Name() string { return "fluid" }

func (f Fluid) Largest() int { return f.BMax }

// Decide examines every device. Its cost is O(devices * B_max).
func (f Fluid) Decide(now Time, s *State, _ *Event, buf []Action) []Action {
	taken := 0 // number of requests at the queue's head that this answer has already launched
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Down {
			continue
		}
		if len(d.Launches) == 0 {
			buf, taken = f.dispatch(s, i, taken, buf)
			continue
		}
		buf, taken = f.atExit(now, s, i, taken, buf)
	}
	return buf
}

func (f Fluid) dispatch(s *State, dev, taken int, buf []Action) ([]Action, int) {
	if taken == s.Queue.Len() {
		return buf, taken
	}
	d := &s.Devices[dev]
	network := s.Queue.At(taken).Network
	t := d.Table(network)
	if t == nil {
		return buf, taken
	}
	n := Head(&s.Queue, network, taken, bMax(f.BMax, d, t))
	return whole(buf, dev, network, t, n), taken + n
}

func (f Fluid) atExit(now Time, s *State, dev, taken int, buf []Action) ([]Action, int) {
	d := &s.Devices[dev]
	top := d.Launches[len(d.Launches)-1]
	t := d.Table(top.Network)
	if top.Phase == Running || t == nil {
		return buf, taken
	}
	last := t.Segments() - 1
	base, rem, slack, level := top, len(top.Requests), top.Slack(now), top.Level()
	n := 0
	if len(d.Launches) > 1 && top.Last < last { // top has new requests for the batch below
		if top.Reached < top.Last { // no nested preemption, except for a higher level
			buf, n = interrupt(s, dev, top, level, taken, f.BMax, buf)
			if n == 0 && top.Phase == Halted {
				buf = resume(buf, top.ID, top.Last)
			}
			return buf, taken + n
		}
		if below := d.Launches[len(d.Launches)-2]; fills(top, below, bMax(f.BMax, d, t)) {
			base = below
			rem += len(base.Requests)
			slack, level = min(slack, base.Slack(now)), max(level, base.Level())
			buf = merge(buf, top.ID, base.ID)
		}
	}
	if n = f.incr(s, d, t, base, rem, slack, taken, level); n > 0 {
		if base.Phase != Halted {
			buf = preempt(buf, base.ID)
		}
		return upTo(buf, dev, base.Network, base.Reached, n), taken + n
	}
	buf, n = interrupt(s, dev, base, level, taken, f.BMax, buf)
	if n == 0 && (base.Phase == Halted || base.Reached == base.Last) {
		buf = resume(buf, base.ID, last)
	}
	return buf, taken + n
}

// incr returns B_incr, the number of new requests for the batch. It returns 0 if the batch should continue unchanged.
func (f Fluid) incr(s *State, d *DeviceView, t *Table, base *LaunchView, rem int, slack Time, taken, level int) int {
	i, last, limit := base.Reached, t.Segments()-1, bMax(f.BMax, d, t)
	if rem == 0 || rem >= limit || i < 0 || i >= last {
		return 0
	}
	n := atLeast(&s.Queue, base.Network, taken, min(limit-rem, d.free()), level)
	if n == 0 {
		return 0
	}
	overhead := t.At(0, i, n) + t.At(i+1, last, rem+n) // equation 4
	if overhead >= slack {
		return 0
	}
	return n
}
