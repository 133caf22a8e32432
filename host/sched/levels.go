// Levels: a request with a higher Priority goes before all those with a lower one. Within a level each policy keeps its own
// order. The queue has the levels in this order, so policies that take from its head respect it. A batch that is not full
// also takes requests of lower levels, as Triton's does.
//
// Policies that preempt (Interrupting) also do so for levels. They halt a batch at its exit if the device has a free
// slot and a request waits whose level is higher than all that are left in the batch. The batch continues when those
// requests have ended. It is never filled up with requests of a level lower than the batch's, since the batch would
// have to wait for them. Other policies finish what they have launched.
//
// There is no aging: if one level uses the whole device, lower levels starve. The engine's admission by table counts requests
// of the same and of higher levels, so a starved request is given up when it is too late.

package sched

import "math"

// Interrupting is implemented by policies that halt launches at exits for requests of a higher level.
type Interrupting interface {
	Policy
	Interrupts()
}

// Interrupts implements Interrupting for Fluid, Plus and Lazy.
func (Fluid) Interrupts() {}
func (Lazy) Interrupts()  {}
func (*Plus) Interrupts() {}

// anyLevel is a level below all that requests have.
const anyLevel = math.MinInt

// Level is the highest priority of the requests that are left in a launch.
func (l *LaunchView) Level() int {
	level := anyLevel
	for i := range l.Requests {
		level = max(level, l.Requests[i].Priority)
	}
	return level
}

// fills reports whether top is filling up the batch below it and has reached that batch's exit. It is false if all
// requests of the lower batch were cancelled. The next launch in the list is then one that was interrupted for a higher
// level, and top continues alone.
func fills(top, below *LaunchView, most int) bool {
	return below.Network == top.Network && below.Reached == top.Reached && len(below.Requests)+len(top.Requests) <= most
}

// free is how many more samples a device can hold: a batch halted for a higher level keeps its slots.
func (d *DeviceView) free() int { return d.Slots - d.Used }

// atLeast is like Head, but does not count requests of lower levels.
func atLeast(q *Queue, network string, skip, limit, level int) int {
	n := Head(q, network, skip, limit)
	for n > 0 && q.At(skip+n-1).Priority < level {
		n--
	}
	return n
}

// interrupt launches requests through the whole network in place of a launch of the given level that is at an exit or halted.
// It takes them from the queue's head, from the skip-th on. It returns their number: 0 if no request of a higher level waits
// there, or if the device cannot take any.
func interrupt(s *State, dev int, l *LaunchView, level, skip, param int, buf []Action) ([]Action, int) {
	d := &s.Devices[dev]
	if skip >= s.Queue.Len() || s.Queue.At(skip).Priority <= level {
		return buf, 0
	}
	network := s.Queue.At(skip).Network
	t := d.Table(network)
	if t == nil {
		return buf, 0
	}
	n := atLeast(&s.Queue, network, skip, min(bMax(param, d, t), d.free()), level+1)
	if n < 1 {
		return buf, 0
	}
	if l.Phase != Halted {
		buf = preempt(buf, l.ID)
	}
	return whole(buf, dev, network, t, n), n
}
