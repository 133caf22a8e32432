package cuda

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Where is the result of probing a partition.
type Where struct {
	Units device.Units
	Want  int   // number of SMs that the partition should have; if the GPU reports only pairs of CUs: number of pairs
	SMs   []int // sorted list of the SMs on which the partition's blocks ran
}

// Probe runs many more blocks on units than there are SMs, and returns the SMs on which the blocks ran. This measures a
// partition's size without trusting the driver.
func (d *Device) Probe(u device.Units) (w Where, err error) {
	if !d.info.Legal(u) {
		return w, refuse("units %v of %d", u, d.info.Units)
	}
	err = d.ask(func(l *launcher) error {
		w, err = l.probe(u)
		return err
	})
	return w, err
}

// Costs contains how long each operation takes on the launcher's thread, per call.
type Costs struct {
	N         int
	Launch    time.Duration // launch of a kernel with its event
	Query     time.Duration // poll of an event
	Signal    time.Duration // write of an epoch
	Partition time.Duration // creation of a partition with a stream
	Switch    time.Duration // launch of a kernel after a launch on another partition
}

// Costs measures each cost over n calls.
func (d *Device) Costs(n int) (c Costs, err error) {
	err = d.ask(func(l *launcher) error {
		c, err = l.costs(n)
		return err
	})
	return c, err
}

// ask runs a function on the launcher's thread and waits until it has returned. The device must be idle.
func (d *Device) ask(f func(*launcher) error) error {
	done := make(chan error, 1)
	d.give(order{ask: func(l *launcher) {
		if len(l.flows) > 0 {
			done <- refuse("%d launches are under way", len(l.flows))
			return
		}
		if l.lost != nil {
			done <- scope(fmt.Errorf("%w: %w", device.ErrReset, l.lost))
			return
		}
		done <- l.check(f(l))
	}})
	select {
	case err := <-done:
		return err
	case <-d.stop:
		return fmt.Errorf("%w: closed", device.ErrGone)
	}
}

const (
	probeBlocks = 8 // number of blocks per SM
	probeNs     = 20_000
	whereBytes  = 32
)

// whereArgs are the arguments of the kernel that reports on which SM it runs.
type whereArgs struct{ out, spin uint64 }

// scratch allocates device memory and pinned host memory for use in a stream. The function free waits for the stream
// and frees both. If the wait fails, the memory is freed later, with the context.
func (l *launcher) scratch(bytes int, s driver.Stream) (at driver.Ptr, host []byte, free func() error, err error) {
	if at, err = l.lib.Alloc(bytes); err != nil {
		return 0, nil, nil, err
	}
	if host, err = l.lib.AllocHost(bytes); err != nil {
		_ = l.lib.Free(at)
		return 0, nil, nil, err
	}
	return at, host, func() error {
		if err := l.lib.Wait(s); err != nil {
			return err
		}
		err := l.lib.FreeHost(host)
		if e := l.lib.Free(at); err == nil {
			err = e
		}
		return err
	}, nil
}

func (l *launcher) probe(u device.Units) (w Where, err error) {
	w = Where{Units: u, Want: l.parts.sms(u) / max(1, l.parts.alike)}
	n, err := l.lane(laneKey{units: u})
	if err != nil {
		return w, err
	}
	defer l.giveBack(n)
	w.SMs, err = l.runsOn(n.stream)
	return w, err
}

// runsOn runs many more blocks in a stream than the GPU has SMs, and returns the SMs on which they ran.
func (l *launcher) runsOn(s driver.Stream) (sms []int, err error) {
	total, err := l.lib.Attribute(l.dev, driver.Multiprocessors)
	if err != nil {
		return nil, err
	}
	all, err := l.where(s, probeBlocks*total, probeNs)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		sms = append(sms, b.sm)
	}
	slices.Sort(sms)
	return slices.Compact(sms), nil
}

// ran is a block's report: its SM, and the values of the GPU's clock when the block began and ended.
type ran struct {
	sm         int
	begin, end uint64
}

// standing is a prepared launch of the reporting kernel. Its blocks spin for some ns of the GPU's clock.
type standing struct {
	run  func() error // may be called repeatedly
	at   driver.Ptr   // device memory with the blocks' reports
	host []byte       // host memory for a copy of the reports
	free func() error
}

// stands prepares a launch of blocks that spin for ns nanoseconds each.
func (l *launcher) stands(s driver.Stream, blocks int, ns uint64) (*standing, error) {
	f, err := l.lib.Function(l.module, kernels.EntryWhere)
	if err != nil {
		return nil, err
	}
	at, host, back, err := l.scratch(blocks*whereBytes, s)
	if err != nil {
		return nil, err
	}
	args := &whereArgs{uint64(at), ns}
	var a driver.Args
	a.Set(0, unsafe.Pointer(&args.out))
	a.Set(1, unsafe.Pointer(&args.spin))
	return &standing{
		run: func() error { return l.lib.Launch(f, blocks, kernels.Threads, s, &a) }, at: at, host: host,
		free: func() error {
			err := back()
			a.Free()
			return err
		},
	}, nil
}

// where runs blocks in a stream and returns their reports. Each block spins for `spin` ns of the GPU's clock.
func (l *launcher) where(s driver.Stream, blocks, spin int) (all []ran, err error) {
	w, err := l.stands(s, blocks, uint64(spin))
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := w.free(); err == nil {
			err = e
		}
	}()
	if err := w.run(); err != nil {
		return nil, err
	}
	if err := l.lib.CopyOut(w.host, w.at, s); err != nil {
		return nil, err
	}
	if err := l.lib.Wait(s); err != nil {
		return nil, err
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(w.host[8*i:]) }
	for b := range blocks {
		all = append(all, ran{int(word(4 * b)), word(4*b + 2), word(4*b + 3)})
	}
	return all, nil
}

// costs launches layers that compute nothing. A launch needs at least one block. This block ends at once because its
// epoch differs from the epoch in Control.
func (l *launcher) costs(n int) (c Costs, err error) {
	c.N = n
	whole, err := l.lane(laneKey{})
	if err != nil {
		return c, err
	}
	back := func(n *lane) {
		if err != nil { // kernels that were launched with another epoch may still be running
			n.dirty = l.halt(n) != nil
		}
		l.giveBack(n)
	}
	defer func() { back(whole) }()
	part := whole
	if l.parts.units > 1 {
		began := time.Now()
		if part, err = l.lane(laneKey{units: device.UnitRange(l.parts.units-1, 1)}); err != nil {
			return c, err
		}
		c.Partition = time.Since(began)
		defer func() { back(part) }()
	}
	for _, p := range []*lane{whole, part} {
		*p.layer = kernels.Layer{Control: uint64(p.control), Epoch: p.epoch + 1, OutW: 1, KW: 1, TilesP: 1, TilesC: 1, Blocks: 1, To: 1, Op: kernels.MaxPool}
		p.layer.Slots = uint64(p.control)
	}
	each := func(d *time.Duration, f func(i int) error) {
		if err != nil {
			return
		}
		began := time.Now()
		for i := range n {
			if err = f(i); err != nil {
				return
			}
		}
		*d = time.Since(began) / time.Duration(n)
	}
	give := func(p *lane, i int) error {
		if err := l.lib.Launch(l.layer, 1, kernels.Threads, p.stream, &p.args); err != nil {
			return err
		}
		return l.lib.Record(p.ring[i%len(p.ring)], p.stream)
	}
	each(&c.Launch, func(i int) error { return give(whole, i) })
	each(&c.Query, func(i int) error { _, err := l.lib.Happened(whole.ring[0]); return err })
	each(&c.Switch, func(i int) error {
		if i%2 == 0 {
			return give(part, i)
		}
		return give(whole, i)
	})
	each(&c.Signal, func(int) error { return l.signal(whole) })
	for _, s := range []driver.Stream{whole.stream, part.stream, l.signals} {
		if err == nil {
			err = l.lib.Wait(s)
		}
	}
	for _, p := range []*lane{whole, part} {
		if err == nil {
			err = l.clean(p)
		}
	}
	return c, err
}
