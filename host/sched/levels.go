// Levels: a request of higher Priority goes before all those of lower ones, and each policy's own order holds within a
// level. The queue has the levels in this order, so whoever takes from its head keeps to it; a batch that is not full
// takes those of lower levels along, as Triton's does.
//
// Policies that preempt (Interrupting) do so for levels too: at its exit a batch is halted for whoever waits of a higher
// level than all that are left in it, if the device has a slot, and goes on when those have ended. It is filled up by
// nobody of a lower level than its own, since it would wait for them. The others finish what they have launched.
//
// Nothing ages: a level that fills the device lets the lower ones starve. Admission by the table (engine) counts those of
// the same and of higher levels, so what is starved by those that come later is given up when it is too late.

package sched

import "math"

// Interrupting is a policy that halts a launch at its exits for requests of a higher level.
type Interrupting interface {
	Policy
	Interrupts()
}

// Interrupts implements Interrupting.
func (Fluid) Interrupts() {}

// Interrupts implements Interrupting.
func (Lazy) Interrupts() {}

// Interrupts implements Interrupting.
func (*Plus) Interrupts() {}

// anyLevel is below every level.
const anyLevel = math.MinInt

// Level is the highest priority of the requests that are left in a launch.
func (l *LaunchView) Level() int {
	level := anyLevel
	for i := range l.Requests {
		level = max(level, l.Requests[i].Priority)
	}
	return level
}

// fills tells whether top has filled up the batch below it, whose exit it has reached. Where all of that batch have been
// cancelled meanwhile, what lies below is a batch that a higher level has interrupted, and top goes on alone.
func fills(top, below *LaunchView, most int) bool {
	return below.Network == top.Network && below.Reached == top.Reached && len(below.Requests)+len(top.Requests) <= most
}

// free is how many more samples a device can hold: a batch that was halted for a higher level keeps its slots.
func (d *DeviceView) free() int { return d.Slots - d.Used }

// atLeast is Head without those of lower levels.
func atLeast(q *Queue, network string, skip, limit, level int) int {
	n := Head(q, network, skip, limit)
	for n > 0 && q.At(skip+n-1).Priority < level {
		n--
	}
	return n
}

// interrupt launches requests from the skip-th of the queue's head on, through the whole network, in place of a launch of
// a level that stands at an exit or is halted. It tells how many: 0 where nobody of a higher level waits there, or the
// device cannot take them.
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
