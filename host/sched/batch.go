// This file has functions for all batching policies: the limit of a batch, and the number of requests at the queue's
// head that can form a batch.

package sched

import "github.com/sluice-npu/sluice/host/device"

// bMax returns the largest batch that the policy's parameter (0: no limit), the device and its table all allow.
func bMax(param int, d *DeviceView, t *Table) int {
	b := min(d.MaxBatch, t.MaxBatch())
	if param > 0 {
		b = min(b, param)
	}
	return b
}

// Head returns the number of consecutive requests of a queue that are for the given network, at most "limit". It counts
// from the request with index "skip". A launch runs one network, so it can contain all of these requests.
func Head(q *Queue, network string, skip, limit int) int {
	n := 0
	for n < limit && skip+n < q.Len() && q.At(skip+n).Network == network {
		n++
	}
	return n
}

// idle reports whether a device can start a batch.
func (d *DeviceView) idle() bool { return !d.Down && len(d.Launches) == 0 }

// Actions of the batching policies. An Action is large, so these functions fill it in place instead of copying it.

// fill appends an empty action and returns its address.
func fill(buf []Action) ([]Action, *Action) {
	buf = append(buf, Action{})
	return buf, &buf[len(buf)-1]
}

// whole launches n requests from the head through the whole network.
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
