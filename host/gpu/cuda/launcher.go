package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/sched"
)

// launcher is the state of the thread that uses the context.
type launcher struct {
	*Device
	dev    driver.Device
	main   driver.Context
	module driver.Module
	layer  driver.Function
	padded driver.Function
	// proxies are variants of the kernel that runs several roles, in the order of descending register limits. resident
	// is the number of blocks of the single-layer kernel that fit on an SM.
	proxies  []proxy
	limited  []driver.Module
	resident int
	least    int // lowest priority of streams
	most     int
	parts    *partitions

	copies  driver.Stream // stream for inputs and weights
	signals driver.Stream // stream of highest priority, for the epochs of stopped launches
	copied  error         // why epochs are copied; nil: the driver writes words in stream order
	staged  []staged      // copies in progress
	lanes   map[laneKey][]*lane
	made    int // number of lanes, including those in use
	flows   []*flow
	nets    map[string]*network
	samples map[device.RequestID]*sample
	lost    error // the context is unusable until a reset
	stuck   bool  // a stream could not be destroyed, so partitions are freed with the context
	counts  Counts
	watch   watch
	since   time.Time // start of the preemption in progress; zero: none
	meet    *meeting  // the preemption in progress
	inWay   []*flow   // launches that must leave for this preemption and have not received the order yet (Mode.Ahead)
	met     []*meeting
	tickets uint64
	marks   int       // number of epochs that were restored (Config.Boolean)
	start   time.Time // zero point of the times in anchors
	anchor  anchor
	heads   [][]sched.Version
	rest    []sched.Version // memory of the elements in heads
	owners  []*flow
	pads    []sched.Padding
	beds    []pad
}

// launcher opens the GPU and sends the result to opened. Then it handles orders until the device is closed.
func (d *Device) launcher(opened chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &launcher{Device: d, nets: map[string]*network{}, samples: map[device.RequestID]*sample{}}
	err := l.open()
	if err == nil {
		err = l.furnish()
	}
	if err != nil {
		_ = l.close()
		opened <- err
		return
	}
	l.info.Units, l.info.Neighbours = l.parts.units, l.parts.neighbours // written before the first read
	if l.copied != nil {
		l.name += fmt.Sprintf(", where epochs are copied (%v)", l.copied)
	}
	opened <- nil
	ending := false
	idle := 0
	for {
		select {
		case <-d.stop:
			l.failAll(fmt.Errorf("%w: closed", device.ErrGone))
			err := l.close()
			if !ending {
				close(d.gone)
			}
			d.closed <- err
			return
		default:
		}
		d.mu.Lock()
		orders := d.orders
		d.orders = nil
		d.mu.Unlock()
		for i := range orders {
			o := &orders[i]
			switch {
			case o.ask != nil:
				o.ask(l)
			case o.work == nil && o.abort == 0 && o.release == 0: // Attach's context has ended
				l.quiet()
				if !ending {
					ending = true
					close(d.gone)
				}
			default:
				l.obey(o)
			}
		}
		moved := l.step()
		l.watch.round(&l.counts.Pauses, len(l.flows) > 0)
		if moved || len(orders) > 0 {
			idle = 0
			continue
		}
		if len(l.flows)+len(l.staged) == 0 {
			select {
			case <-d.wake:
			case <-d.stop:
			}
			continue
		}
		if idle++; idle > 100 && !d.cfg.Spin {
			time.Sleep(nap)
		}
	}
}

// quiet stops all work in progress and waits for its end. It reports no results.
func (l *launcher) quiet() {
	for _, f := range l.flows {
		if l.lost == nil {
			f.lane.dirty = l.halt(f.lane, f.in.stream) != nil
		}
		f.lane.fly = f.lane.fly[:0]
		l.giveBack(f.lane)
		l.progress.Delete(f.work.ID)
	}
	l.flows, l.since, l.meet = nil, time.Time{}, nil
	for _, s := range l.staged {
		l.giveUp(&s)
		l.drop(&s)
	}
	l.staged = nil
}

// failAll stops all work in progress and reports an error for it.
func (l *launcher) failAll(err error) {
	flows, staged := l.flows, l.staged
	l.quiet()
	for _, f := range flows {
		l.answer(f.work, err)
	}
	for _, s := range staged {
		if s.work != nil { // nil: a repeated copy after a reset
			l.answer(s.work, err)
		}
	}
}

func (l *launcher) tell(ev device.Event) {
	if l.post != nil && l.ctx.Err() == nil {
		l.post(ev)
	}
}

// answer reports the end of work that has no results.
func (l *launcher) answer(w *device.Work, err error) {
	ev := device.Event{Kind: device.Done, Work: w.ID, Over: true}
	if err != nil {
		ev.Kind, ev.Err = device.Failed, err
	}
	l.tell(ev)
}

func (l *launcher) obey(o *order) {
	switch {
	case o.release != 0:
		l.free(o.release)
		return
	case o.abort != 0:
		if i := slices.IndexFunc(l.flows, func(f *flow) bool { return f.work.ID == o.abort }); i >= 0 {
			f := l.flows[i]
			f.aborting = true
			l.leave(f, o.kill)
		}
		return
	}
	w := o.work
	if l.lost != nil && w.Kind != device.Reset {
		l.answer(w, &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: %w", device.ErrReset, l.lost)})
		return
	}
	var err error
	switch w.Kind {
	case device.Load:
		if err = o.err; err == nil {
			err = l.load(device.As(w.Network, w.Artefact).NetworkName(), o.net)
		}
		l.answer(w, l.check(err))
	case device.Unload:
		l.answer(w, l.check(l.unload(w.Network)))
	case device.Reset:
		l.answer(w, l.reset())
	case device.Copy:
		if err = o.err; err == nil {
			err = l.admit(w, o.input)
		}
		if err != nil {
			l.answer(w, l.check(fmt.Errorf("admit request %d: %w", w.Request, err)))
		}
	case device.Run:
		if err = l.begin(w, o.came); err != nil {
			l.answer(w, l.check(fmt.Errorf("launch %d, segments %d..%d: %w", w.Launch.ID, w.Launch.First, w.Launch.Last, err)))
		}
	}
}

// check adds the scope to a driver error. If the context is unusable after the error, all other work ends too.
func (l *launcher) check(err error) error {
	if (driver.Lost(err) || errors.Is(err, errAway)) && l.lost == nil {
		l.lost = err
		l.failAll(scope(err))
	}
	return scope(err)
}

// step polls all work in progress once and reports whether any work has advanced.
func (l *launcher) step() (moved bool) {
	l.settle()
	for i := 0; i < len(l.staged); i++ {
		c := &l.staged[i]
		ok, err := l.lib.Happened(c.event)
		if err == nil && !ok {
			break // copies end in their order
		}
		one := *c
		l.staged = slices.Delete(l.staged, i, i+1)
		i--
		moved = true
		if err == nil {
			l.unstage(&one)
		} else {
			l.giveUp(&one)
			l.drop(&one)
		}
		one.sample.in = err == nil
		err = l.check(err)
		if one.work != nil {
			l.answer(one.work, err)
		} else if err != nil && l.lost == nil { // an input is missing, because its copy after the reset failed
			l.lost = err
		}
		if l.lost != nil {
			return true
		}
	}
	for i := 0; i < len(l.flows); i++ {
		f := l.flows[i]
		did, err := l.advance(f)
		if err != nil {
			l.fail(f, err)
			return true
		}
		moved = moved || did
		if i < len(l.flows) && l.flows[i] != f {
			i--
		}
	}
	return moved
}
