package cuda

import (
	"fmt"
	"unsafe"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Facts describe a GPU, its driver, and the kernels on it.
type Facts struct {
	GPU    string `json:"gpu"`
	Driver string `json:"driver"` // API version of the driver
	Bus    string `json:"pci"`
	Fake   bool   `json:"fake"` // no GPU: nothing was measured
	// NVML's report on the idle GPU before any measurement; null without NVML.
	NVML       *driver.Health `json:"nvml"`
	Capability string         `json:"capability"`
	SMs        int            `json:"sms"`
	Units      int            `json:"units"`     // of partitions
	UnitSMs    int            `json:"unit_sms"`  // the last unit may have more
	ClockKHz   int            `json:"clock_khz"` // most of an SM
	MemoryKHz  int            `json:"memory_khz"`
	Memory     uint64         `json:"memory_bytes"`
	Registers  map[string]int `json:"registers"` // per thread, by kernel
	Signals    string         `json:"signals"`   // how kernels are told to leave: SignalsWritten or SignalsCopied
	// WhyCopied is the driver's error if it cannot write words.
	WhyCopied string `json:"why_copied,omitempty"`
}

// Facts reads them.
func (d *Device) Facts() (f Facts, err error) {
	err = d.ask(func(l *launcher) error {
		f, err = l.facts()
		return err
	})
	return f, err
}

func (l *launcher) facts() (f Facts, err error) {
	f = Facts{Fake: l.lib.Fake(), Units: l.parts.units, UnitSMs: l.parts.each, Registers: map[string]int{}, Signals: l.signalling()}
	if l.copied != nil {
		f.WhyCopied = l.copied.Error()
	}
	if f.GPU, err = l.lib.Name(l.dev); err != nil {
		return f, err
	}
	if f.Driver, err = l.lib.Version(); err != nil {
		return f, err
	}
	if f.Bus, err = l.lib.Bus(l.dev); err != nil {
		return f, err
	}
	f.NVML = l.health(f.Bus)
	if f.Memory, err = l.lib.Memory(l.dev); err != nil {
		return f, err
	}
	var major, minor int
	for what, to := range map[int]*int{
		driver.Multiprocessors: &f.SMs, driver.ClockKHz: &f.ClockKHz, driver.MemoryKHz: &f.MemoryKHz,
		driver.CapabilityMajor: &major, driver.CapabilityMinor: &minor,
	} {
		if *to, err = l.lib.Attribute(l.dev, what); err != nil {
			return f, err
		}
	}
	f.Capability = fmt.Sprintf("%d.%d", major, minor)
	for name, fn := range map[string]driver.Function{kernels.EntryLayer: l.layer, kernels.EntryPadded: l.padded} {
		if f.Registers[name], err = l.lib.Registers(fn, l.dev); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Health is NVML's current report on the GPU; nil if not available.
func (d *Device) Health() (h *driver.Health, err error) {
	err = d.ask(func(l *launcher) error {
		bus, err := l.lib.Bus(l.dev)
		if err == nil {
			h = l.health(bus)
		}
		return err
	})
	return h, err
}

// health is NVML's report; on the fake only with the fake NVML of tests.
func (l *launcher) health(bus string) *driver.Health {
	if l.cfg.NVML == "" && l.lib.Fake() {
		return nil
	}
	h, err := driver.AskNVML(l.cfg.NVML, bus)
	if err != nil {
		return nil
	}
	return &h
}

// Timed is the time of a layer's kernel alone, between two events. With single launches (Profile) it includes the
// host's launch time; with many (Pace) it does not.
type Timed struct {
	Layer  int
	Name   string
	Blocks int
	Ns     []int64 // by run
}

// Profile runs the kernels of a loaded network one by one, n times each, for a batch on units. The inputs are the
// content of free slots.
func (d *Device) Profile(network string, batch, n int, u device.Units) (out []Timed, err error) {
	if !d.info.Legal(u) {
		return nil, refuse("units %v of %d", u, d.info.Units)
	}
	err = d.ask(func(l *launcher) error {
		out, err = l.profile(network, batch, n, u, false)
		return err
	})
	return out, err
}

// Pace is Profile for a batch of one on the whole GPU without the host's time: a run is paceLaunches launches, all
// queued before the first begins, divided by their number.
func (d *Device) Pace(network string, n int) (out []Timed, err error) {
	err = d.ask(func(l *launcher) error {
		out, err = l.profile(network, 1, n, device.Units{}, true)
		return err
	})
	return out, err
}

const (
	paceLaunches = 4       // launches of a kernel in a row
	paceNs       = 200_000 // time of a blocking kernel before them: longer than it takes to queue them
)

// profile times a network's kernels; paced selects Pace's way.
func (l *launcher) profile(network string, batch, n int, u device.Units, paced bool) (out []Timed, err error) {
	net := l.nets[network]
	switch {
	case net == nil:
		return nil, refuse("network %q is not loaded", network)
	case batch < 1 || batch > kernels.MaxBatch || batch > len(net.free):
		return nil, refuse("a batch of %d; there are %d free slots", batch, len(net.free))
	case n < 1:
		return nil, refuse("%d runs", n)
	}
	ln, err := l.lane(laneKey{units: u})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			ln.dirty = l.halt(ln) != nil
		}
		l.giveBack(ln)
	}()
	var at [2]driver.Event
	defer func() {
		for _, e := range at {
			if e == 0 {
				continue
			}
			if fails := l.lib.FreeEvent(e); err == nil {
				err = fails
			}
		}
	}()
	err = l.parts.within(u, func() (err error) {
		for i := range at {
			if at[i], err = l.lib.NewEvent(true); err != nil {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	each, stand := 1, func() error { return nil }
	if paced {
		before, fails := l.stands(ln.stream, 1, paceNs)
		if fails != nil {
			return nil, fails
		}
		defer func() {
			if fails := before.free(); err == nil {
				err = fails
			}
		}()
		stand = before.run
		if each = paceLaunches; l.lib.Fake() { // its kernels are slow, and tests can make them wait
			each = 2
		}
	}
	for i := range net.layers {
		t := Timed{Layer: i, Name: net.b.Names[i]}
		*ln.layer = net.layers[i]
		ln.layer.Control, ln.layer.Epoch = uint64(ln.control), ln.epoch
		for k := range batch {
			ln.layer.Sample[k] = uint32(net.free[k])
		}
		ln.layer.Grid(batch, 1)
		t.Blocks = int(ln.layer.Blocks)
		for range n {
			if err := stand(); err != nil {
				return nil, err
			}
			ms, err := l.between(at, ln, t.Blocks, each)
			if err != nil {
				return nil, err
			}
			t.Ns = append(t.Ns, int64(float64(ms)*1e6/float64(each)))
		}
		out = append(out, t)
	}
	return out, nil
}

// between times launches of a lane's layer between two events, in ms.
func (l *launcher) between(at [2]driver.Event, ln *lane, blocks, launches int) (ms float32, err error) {
	if err := l.lib.Record(at[0], ln.stream); err != nil {
		return 0, err
	}
	for range launches {
		if err := l.lib.Launch(l.layer, blocks, kernels.Threads, ln.stream, &ln.args); err != nil {
			return 0, err
		}
	}
	if err := l.lib.Record(at[1], ln.stream); err != nil {
		return 0, err
	}
	if err := l.lib.Wait(ln.stream); err != nil {
		return 0, err
	}
	return l.lib.Elapsed(at[0], at[1])
}

// Copied is the time of copies of some bytes, between two events.
type Copied struct {
	Bytes    int
	Up, Down []int64 // ns by run
}

// Copies times copies to the GPU and back, n times each. With beside, a kernel on all SMs uses the memory during all
// copies.
func (d *Device) Copies(bytes, n int, beside bool) (c Copied, err error) {
	err = d.ask(func(l *launcher) error {
		c, err = l.timeCopies(bytes, n, beside)
		return err
	})
	return c, err
}

func (l *launcher) timeCopies(bytes, n int, beside bool) (c Copied, err error) {
	c.Bytes = bytes
	if bytes < 1 || bytes > 1<<30 || n < 1 {
		return c, refuse("%d copies of %d bytes", n, bytes)
	}
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	to, host, free, err := l.scratch(bytes, l.copies)
	if err != nil {
		return c, err
	}
	defer func() { note(free()) }()
	var at [3]driver.Event
	defer func() {
		for _, e := range at {
			if e != 0 {
				note(l.lib.FreeEvent(e))
			}
		}
	}()
	for i := range at {
		if at[i], err = l.lib.NewEvent(true); err != nil {
			return c, err
		}
	}
	if beside {
		quiet, err := l.contend()
		if err != nil {
			return c, err
		}
		defer func() { note(quiet()) }()
	}
	for range n {
		for i := range at {
			if err := l.lib.Record(at[i], l.copies); err != nil {
				return c, err
			}
			switch i {
			case 0:
				err = l.lib.CopyIn(to, host, l.copies)
			case 1:
				err = l.lib.CopyOut(host, to, l.copies)
			}
			if err != nil {
				return c, err
			}
		}
		if err := l.lib.Wait(l.copies); err != nil {
			return c, err
		}
		for i, way := range []*[]int64{&c.Up, &c.Down} {
			ms, err := l.lib.Elapsed(at[i], at[i+1])
			if err != nil {
				return c, err
			}
			*way = append(*way, int64(float64(ms)*1e6))
		}
	}
	return c, nil
}

const (
	streamBytes = 256 << 20 // memory that contend's kernel reads: several times the L2
	streamNs    = 5e9       // after which it ends by itself
	streamSlots = 16        // its blocks per SM: a thread has one load in flight, and an SM of 2048 threads holds this many blocks
)

// contend uses the GPU's memory from all SMs until the returned function is called.
func (l *launcher) contend() (quiet func() error, err error) {
	f, err := l.lib.Function(l.module, kernels.EntryStream)
	if err != nil {
		return nil, err
	}
	ln, err := l.lane(laneKey{})
	if err != nil {
		return nil, err
	}
	bytes := uint64(streamBytes)
	if l.lib.Fake() { // its memory is the host's, and slow
		bytes = 1 << 20
	}
	at, host, free, err := l.scratch(int(bytes)+256, ln.stream)
	if err != nil {
		l.giveBack(ln)
		return nil, err
	}
	blocks := streamSlots * max(1, l.parts.total)
	w := &[5]uint64{uint64(at), bytes / 8, uint64(at) + bytes, streamNs, uint64(blocks)}
	var a driver.Args
	for i := range w {
		a.Set(i, unsafe.Pointer(&w[i]))
	}
	quiet = func() error {
		err := l.write(at+driver.Ptr(bytes), 1, host)
		if err != nil { // it must not run to its limit
			_ = l.lib.Fill(at+driver.Ptr(bytes), 1, 1, l.signals)
		}
		if e := l.lib.Wait(l.signals); err == nil {
			err = e
		}
		if e := free(); err == nil {
			err = e
		}
		a.Free()
		l.giveBack(ln)
		return err
	}
	if err = l.lib.Fill(at+driver.Ptr(bytes), 0, 1, ln.stream); err == nil {
		err = l.lib.Wait(ln.stream) // the mark must not come before
	}
	if err == nil {
		err = l.lib.Launch(f, blocks, kernels.Threads, ln.stream, &a)
	}
	if err != nil {
		_ = quiet()
		return nil, err
	}
	return quiet, nil
}
