// This file limits the number of streams to the number of hardware queues. If two streams shared a queue, a signal that
// stops kernels could wait behind these kernels.

package cuda

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// ownStreams is the number of streams that belong to no lane: one for copies and one for signals.
const ownStreams = 2

// enoughQueues returns an error if a device's launches would need more streams than there are queues.
func enoughQueues(lib *driver.Lib, places int) error {
	queues, name, err := lib.Queues()
	if err != nil {
		return fmt.Errorf("%w: %w", device.ErrRequest, err)
	}
	if most := queues - ownStreams; queues > 0 && places > most {
		return fmt.Errorf("%w: %d launches at the same time: %d are the most, since streams have %d hardware queues (%s), two of them for copies and signals", device.ErrRequest, places, max(0, most), queues, name)
	}
	return nil
}

// room ensures that one more stream can be created. It returns nil if a queue is free. Otherwise it takes the stream
// from the least recently used free lane, and returns this lane. The lane reserved for priority launches is the last
// choice. The returned lane keeps its memory for reuse, because allocating or freeing memory blocks all streams.
func (l *launcher) room() (*lane, error) {
	queues, _, err := l.lib.Queues()
	if err != nil || queues == 0 {
		return nil, err
	}
	streams := ownStreams + l.made
	if streams < queues {
		return nil, nil
	}
	var oldest *lane
	before := func(a, b *lane) bool {
		if ready := (laneKey{high: true}); (a.key == ready) != (b.key == ready) {
			return b.key == ready
		}
		return a.used < b.used
	}
	for _, free := range l.lanes {
		for _, n := range free {
			if oldest == nil || before(n, oldest) {
				oldest = n
			}
		}
	}
	if oldest == nil {
		return nil, refuse("%d streams are in use, as many as there are hardware queues", streams)
	}
	l.lanes[oldest.key] = slices.DeleteFunc(l.lanes[oldest.key], func(n *lane) bool { return n == oldest })
	if err := l.loseStream(oldest); err != nil {
		_ = l.freeLane(oldest)
		return nil, err
	}
	return oldest, nil
}
