// A level contains all requests with the same Priority. Higher levels go before all lower levels. Within a level each
// policy has its own order. The queue is sorted by level, so policies that serve from its head respect the levels. A
// batch that is not full also includes requests of lower levels, as in Triton.
//
// Preempting policies (Interrupting) also preempt for a higher level. They halt a batch at its exit if the device has a
// free slot and a request of a higher level waits. (The level of a batch is the highest level of its remaining
// requests.) The halted batch continues when the requests of the higher level have ended. At exits, a batch is never
// filled up from a lower level, since it would have to wait. Other policies do not halt their launches.
//
// There is no aging: if one level uses the whole device, lower levels starve. The engine's admission by table counts
// requests of the same and of higher levels, so a starved request is given up when it can no longer meet its deadline.

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

// anyLevel is lower than the levels of all requests.
const anyLevel = math.MinInt

// Level is the highest priority of the remaining requests of a launch.
func (l *LaunchView) Level() int {
	level := anyLevel
	for i := range l.Requests {
		level = max(level, l.Requests[i].Priority)
	}
	return level
}

// fills reports whether top fills up the batch below it and has reached the exit of that batch. It returns false if all
// requests of the lower batch were cancelled. The next launch in the list is then a launch that was interrupted for a
// higher level, and top continues alone.
func fills(top, below *LaunchView, most int) bool {
	return below.Network == top.Network && below.Reached == top.Reached && len(below.Requests)+len(top.Requests) <= most
}

// free returns the number of free slots of a device. A batch that was halted for a higher level keeps its slots.
func (d *DeviceView) free() int { return d.Slots - d.Used }

// atLeast is like Head, but excludes requests below the given level.
func atLeast(q *Queue, network string, skip, limit, level int) int {
	n := Head(q, network, skip, limit)
	for n > 0 && q.At(skip+n-1).Priority < level {
		n--
	}
	return n
}

// interrupt halts a launch of the given level at its exit, and launches requests of a higher level through the whole
// network. It uses requests of the queue from index `skip` on, and returns their number. It returns 0 if the request
// there has no higher level, or the device cannot accept any.
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
