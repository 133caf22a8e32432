// Lanes are streams with the memory and events that a launch needs.

package cuda

import (
	"unsafe"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

type laneKey struct {
	units device.Units
	high  bool
}

// lane is a stream with its memory and events. Only one launch at a time uses a lane.
type lane struct {
	key     laneKey
	stream  driver.Stream
	control driver.Ptr
	dirty   bool // Control could not be reset
	settled bool // Control is reset, so an epoch may be written, and kernels of other streams may read Control
	epoch   uint32
	used    uint64 // ticket at the time of giveBack
	ring    []driver.Event
	given   int   // number of launches so far; their events are taken from ring in turn
	fly     []fly // launches in flight, in order
	args    driver.Args
	layer   *kernels.Layer // pinned: the argument block points to it
	padded  driver.Args
	roles   *kernels.Roles // pinned: the argument block of padded points to it
	host    []byte         // pinned: a Control, the epoch (if epochs are copied), logits
	over    driver.Event   // event of the last copy to the host, or of the reset of Control
	signal  driver.Event   // event after the write of the epoch
}

// fly is a kernel launch in flight: a kernel of one flow and, in further roles, parts of other flows' kernels.
type fly struct {
	event  driver.Event
	ticket uint64                  // position in the order of launches
	flows  [kernels.MaxRoles]*flow // by role: first the flow that owns the launch, then the flows that pad it
	upTo   [kernels.MaxRoles]int   // by role: number of the flow's kernels that have ended when this launch ends
	begun  [kernels.MaxRoles]int   // by role: number of tiles of the flow's next kernel that have ended then
}

// giveBack returns a lane to the free lanes.
func (l *launcher) giveBack(n *lane) {
	n.used = l.ticket()
	l.lanes[n.key] = append(l.lanes[n.key], n)
}

// lane returns a free lane whose stream is confined to the key's units.
func (l *launcher) lane(key laneKey) (*lane, error) {
	if free := l.lanes[key]; len(free) > 0 {
		n := free[len(free)-1]
		if n.dirty {
			if err := l.halt(n); err != nil {
				return nil, err
			}
			n.dirty = false
		}
		l.lanes[key] = free[:len(free)-1]
		return n, nil
	}
	n, err := l.room()
	if err == nil && n == nil {
		n, err = l.newLane()
	}
	if err != nil {
		return nil, err
	}
	n.key, n.dirty = key, false
	priority := l.least
	if key.high && l.cfg.Mode.Priority {
		priority = l.most
	}
	if n.stream, err = l.parts.stream(key.units, priority); err == nil {
		err = l.parts.within(key.units, func() error { return l.newEvents(n) })
	}
	if err == nil {
		err = l.clean(n)
	}
	if err != nil {
		_ = l.freeLane(n)
		return nil, err
	}
	return n, nil
}

// newEvents creates, in the current context, the events that are recorded on a lane's stream.
func (l *launcher) newEvents(n *lane) error {
	for range l.cfg.Capacity {
		e, err := l.lib.NewEvent(false)
		if err != nil {
			return err
		}
		n.ring = append(n.ring, e)
	}
	var err error
	n.over, err = l.lib.NewEvent(false)
	return err
}

// newLane creates a lane without a stream and without the events of a stream.
func (l *launcher) newLane() (*lane, error) {
	n := &lane{layer: new(kernels.Layer), roles: new(kernels.Roles), epoch: 1}
	l.made++
	n.args.Set(0, unsafe.Pointer(n.layer))
	n.padded.Set(0, unsafe.Pointer(n.roles))
	var err error
	if n.signal, err = l.lib.NewEvent(false); err == nil { // independent of the lane's stream
		n.control, err = l.lib.Alloc(controlBytes)
	}
	if err == nil {
		n.host, err = l.lib.AllocHost(laneBytes)
	}
	if err != nil {
		_ = l.freeLane(n)
		return nil, err
	}
	return n, nil
}

// clean queues a reset of the lane's Control to the lane's epoch, on the lane's stream.
func (l *launcher) clean(n *lane) error {
	n.settled = false
	if err := l.lib.Fill(n.control, n.epoch, 1, n.stream); err != nil {
		return err
	}
	if err := l.lib.Fill(n.control+4, kernels.NotStopped, 3, n.stream); err != nil { // this range includes NotBegan
		return err
	}
	return l.lib.Fill(n.control+16, 0, 2, n.stream)
}

// loseStream destroys the stream of an idle lane and the stream's events. The lane's memory remains allocated. If the
// stream may still be busy, this memory is freed later, with the context.
func (l *launcher) loseStream(n *lane) (first error) {
	if n.stream == 0 {
		return nil
	}
	first = l.lib.Wait(n.stream) // the destruction of a stream does not wait for its work
	if err := l.lib.Wait(l.signals); first == nil {
		first = err
	}
	if first != nil {
		n.host, n.ring, n.over, n.signal, n.control = nil, nil, 0, 0, 0
	}
	if err := l.lib.FreeStream(n.stream); err != nil {
		l.stuck = true
		if first == nil {
			first = err
		}
	}
	n.stream = 0
	for _, e := range append(n.ring, n.over) {
		if e == 0 {
			continue
		}
		if err := l.lib.FreeEvent(e); first == nil {
			first = err
		}
	}
	n.ring, n.over = n.ring[:0], 0
	return first
}

func (l *launcher) freeLane(n *lane) (first error) {
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	l.made--
	n.args.Free()
	n.padded.Free()
	if l.lost != nil { // the memory is freed with the context, because copies may still be in progress
		if n.stream != 0 {
			l.stuck = l.lib.FreeStream(n.stream) != nil || l.stuck // a stream must be destroyed before its partition
		}
		return nil
	}
	note(l.loseStream(n))
	if n.host != nil {
		note(l.lib.FreeHost(n.host))
	}
	if n.signal != 0 {
		note(l.lib.FreeEvent(n.signal))
	}
	if n.control != 0 {
		note(l.lib.Free(n.control))
	}
	return first
}

// halt stops all blocks of a lane. It then waits for the lane's stream and for the other given streams.
func (l *launcher) halt(n *lane, in ...driver.Stream) error {
	n.epoch++
	if err := l.signal(n); err != nil {
		return err
	}
	for _, s := range append([]driver.Stream{l.signals, n.stream}, in...) {
		if err := l.lib.Wait(s); err != nil {
			return err
		}
	}
	return l.clean(n)
}
