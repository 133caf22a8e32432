// Lanes: streams, with the memory and the events that a launch needs beside one.

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

// lane is a stream with what a launch needs beside it. One launch uses it at a time.
type lane struct {
	key     laneKey
	stream  driver.Stream
	control driver.Ptr
	dirty   bool // control could not be cleaned
	settled bool // control is known to be clean: epochs may be written, and other streams' kernels may look at it
	epoch   uint32
	used    uint64 // ticket of when it was given back
	ring    []driver.Event
	given   int   // launches so far; the one of ring[i] is given-1 or so many before it as there are in fly
	fly     []fly // launches under way, in order
	args    driver.Args
	layer   *kernels.Layer // what args point to
	padded  driver.Args
	roles   *kernels.Roles // what padded point to
	host    []byte         // pinned: a Control, the epoch on its way where it is copied, then logits
	over    driver.Event   // of what has been copied into host
	signal  driver.Event   // of the epoch on its way to control
}

// fly is a launch under way: the kernel of one flow, with those of others.
type fly struct {
	event  driver.Event
	ticket uint64                  // of launches, in the order in which they were given to the driver
	flows  [kernels.MaxRoles]*flow // all but the first pad
	at     [kernels.MaxRoles]int   // its kernel
}

// giveBack makes a lane free again.
func (l *launcher) giveBack(n *lane) {
	n.used = l.ticket()
	l.lanes[n.key] = append(l.lanes[n.key], n)
}

// lane is a free one on units.
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
		err = l.clean(n)
	}
	if err != nil {
		_ = l.freeLane(n)
		return nil, err
	}
	return n, nil
}

// newLane is one without a stream.
func (l *launcher) newLane() (*lane, error) {
	n := &lane{layer: new(kernels.Layer), roles: new(kernels.Roles), epoch: 1}
	l.made++
	n.args.Set(0, unsafe.Pointer(n.layer))
	n.padded.Set(0, unsafe.Pointer(n.roles))
	var err error
	for range l.cfg.Capacity {
		e, fails := l.lib.NewEvent(false)
		if fails != nil {
			err = fails
			break
		}
		n.ring = append(n.ring, e)
	}
	if err == nil {
		n.over, err = l.lib.NewEvent(false)
	}
	if err == nil {
		n.signal, err = l.lib.NewEvent(false)
	}
	if err == nil {
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

// clean makes a lane's Control that of its epoch, in its stream's order.
func (l *launcher) clean(n *lane) error {
	n.settled = false
	if err := l.lib.Fill(n.control, n.epoch, 1, n.stream); err != nil {
		return err
	}
	if err := l.lib.Fill(n.control+4, kernels.NotStopped, 3, n.stream); err != nil { // NotBegan too
		return err
	}
	return l.lib.Fill(n.control+16, 0, 2, n.stream)
}

// loseStream destroys a lane's stream, with nothing in it; all else of the lane stays. Where it cannot be known that
// nothing is in it, that else is left to the context, which it goes with.
func (l *launcher) loseStream(n *lane) (first error) {
	if n.stream == 0 {
		return nil
	}
	first = l.lib.Wait(n.stream) // nobody promises that destroying it does
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
	if l.lost != nil { // all of it goes with the context; copies may still be under way
		if n.stream != 0 {
			l.stuck = l.lib.FreeStream(n.stream) != nil || l.stuck // before its partition
		}
		return nil
	}
	note(l.loseStream(n))
	if n.host != nil {
		note(l.lib.FreeHost(n.host))
	}
	for _, e := range n.ring {
		note(l.lib.FreeEvent(e))
	}
	for _, e := range []driver.Event{n.over, n.signal} {
		if e != 0 {
			note(l.lib.FreeEvent(e))
		}
	}
	if n.control != 0 {
		note(l.lib.Free(n.control))
	}
	return first
}

// halt has all of a lane's blocks leave, and waits for the streams that they are in: its own, and that of the launch that it
// pads.
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
