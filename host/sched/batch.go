// What the batching policies share: how large a batch may be, and how many requests at the queue's
// head could form one.

package sched

import "github.com/sluice-npu/sluice/host/device"

// bMax is the largest batch that a policy's parameter (0: none), the device and its table allow.
func bMax(param int, d *DeviceView, t *Table) int {
	b := min(d.MaxBatch, t.MaxBatch())
	if param > 0 {
		b = min(b, param)
	}
	return b
}

// Head is how many requests of one network stand together in a queue, from the skip-th oldest on, limit at
// most: what a launch may take from there, since a queue mixes networks and a launch serves one.
func Head(q *Queue, network string, skip, limit int) int {
	n := 0
	for n < limit && skip+n < q.Len() && q.At(skip+n).Network == network {
		n++
	}
	return n
}

// idle tells whether a device could start a batch.
func (d *DeviceView) idle() bool { return !d.Down && len(d.Launches) == 0 }

// What the batching policies do. An action is large, and a literal would be put together elsewhere and
// copied, so each is filled in where it stands.

// fill appends an action and says where it stands.
func fill(buf []Action) ([]Action, *Action) {
	buf = append(buf, Action{})
	return buf, &buf[len(buf)-1]
}

// whole launches n requests from the head for the whole network.
func whole(buf []Action, dev int, network string, t *Table, n int) []Action {
	return upTo(buf, dev, network, t.Segments()-1, n)
}

// upTo launches n requests from the head up to an exit.
func upTo(buf []Action, dev int, network string, last, n int) []Action {
	buf, a := fill(buf)
	a.Kind, a.Device, a.Network, a.Last, a.Count = Launch, dev, network, last, n
	return buf
}

func preempt(buf []Action, l device.LaunchID) []Action {
	buf, a := fill(buf)
	a.Kind, a.Launch = Preempt, l
	return buf
}

func resume(buf []Action, l device.LaunchID, last int) []Action {
	buf, a := fill(buf)
	a.Kind, a.Launch, a.Last = Resume, l, last
	return buf
}

func merge(buf []Action, l, into device.LaunchID) []Action {
	buf, a := fill(buf)
	a.Kind, a.Launch, a.Into = Merge, l, into
	return buf
}
