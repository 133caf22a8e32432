// Streams and the hardware's queues behind them: where streams share one, an order to leave waits behind the kernels
// that are to leave. So there are never more streams than queues.

package cuda

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// ownStreams are those beside the lanes': copies and signals.
const ownStreams = 2

// enoughQueues refuses a device that would have more launches under way than there are queues for their streams.
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

// room makes room for one more stream: where all queues are taken, the lane that nobody has used for the longest time
// loses its own, the one that is kept ready for launches of priority last. That lane is given back, to have another:
// what else it has stays, since to take or to give back memory of either side stands in the way of all streams.
// nil: there is room.
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
