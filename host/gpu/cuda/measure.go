package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/sched"
)

// Facts describes a GPU, its driver, and the kernels on the GPU.
type Facts struct {
	GPU    string `json:"gpu"`
	Driver string `json:"driver"` // API version of the driver
	Bus    string `json:"pci"`
	Fake   bool   `json:"fake"` // the driver is the fake driver, so nothing was measured
	// NVML is the report of NVML on the idle GPU before any measurement. null: no NVML.
	NVML       *driver.Health `json:"nvml"`
	Capability string         `json:"capability"`
	SMs        int            `json:"sms"`
	Units      int            `json:"units"`     // number of units
	UnitSMs    int            `json:"unit_sms"`  // SMs of a unit; the last unit may have more
	ClockKHz   int            `json:"clock_khz"` // maximum SM clock
	MemoryKHz  int            `json:"memory_khz"`
	Memory     uint64         `json:"memory_bytes"`
	Registers  map[string]int `json:"registers"` // registers per thread, by kernel
	Signals    string         `json:"signals"`   // order to leave: SignalsWritten or SignalsCopied
	// WhyCopied is the driver's error, if the driver cannot write words in stream order.
	WhyCopied string `json:"why_copied,omitempty"`
}

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

// Health returns the current report of NVML on the GPU. nil: not available.
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

// health returns the report of NVML. With the fake driver, it calls only the fake NVML of tests.
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

// Timed contains times of a layer's kernel that runs alone, between two events. In Profile, each time is measured on
// one launch and includes the host's time. In Pace, each time is the mean of several launches without the host's time.
type Timed struct {
	Layer  int
	Name   string
	Blocks int
	Ns     []int64 // by run
}

// Profile runs the kernels of a loaded network one by one, n times each, with one batch size and on the given units.
// The inputs are the present content of the free slots.
func (d *Device) Profile(network string, batch, n int, u device.Units) (out []Timed, err error) {
	if !d.info.Legal(u) {
		return nil, refuse("units %v of %d", u, d.info.Units)
	}
	err = d.ask(func(l *launcher) error {
		return l.timed(network, batch, u, false, timing(&out, n))
	})
	return out, err
}

// Pace is like Profile for a batch of one on the whole GPU, but excludes the host's time. A time is the mean of
// paceLaunches launches. All of them are queued before the first launch begins.
func (d *Device) Pace(network string, n int) (out []Timed, err error) {
	err = d.ask(func(l *launcher) error {
		return l.timed(network, 1, device.Units{}, true, timing(&out, n))
	})
	return out, err
}

// timing returns a timer that measures each kernel n times and appends the times to out.
func timing(out *[]Timed, n int) timer {
	return func(i int, name string, k *kernels.Layer, run func() (int64, error)) error {
		if n < 1 {
			return refuse("%d runs", n)
		}
		ns, err := times(n, run)
		*out = append(*out, Timed{Layer: i, Name: name, Blocks: int(k.To), Ns: ns})
		return err
	}
}

// Learn times the kernels of a loaded network for padding, each kernel alone and at one batch size. It times a launch
// without work, a launch with a tile on each SM, and a launch of the whole kernel. The device stores the times for the
// bundle. Without them, and on the fake driver, padding uses estimates.
func (d *Device) Learn(network string, batch int) error {
	return d.ask(func(l *launcher) error {
		net := l.nets[network]
		switch {
		case net == nil:
			return refuse("network %q is not loaded", network)
		case !l.cfg.Mode.Pad:
			return nil
		}
		if l.counts.Learnt++; l.lib.Fake() {
			return nil
		}
		key := profiled{net.b, batch, *l.cfg.Params, true}
		known.Lock()
		learnt := known.of[key]
		known.Unlock()
		if learnt == nil {
			estimates, err := net.profile(batch, l.cfg.Params)
			if err != nil {
				return err
			}
			if learnt, err = l.learn(network, batch, estimates); err != nil {
				return err
			}
			keep(key, learnt)
		}
		if net.profiles == nil {
			net.profiles = map[int][]sched.Version{}
		}
		net.profiles[batch] = learnt
		return nil
	})
}

const learnRuns = 3 // number of launches; the shortest time is used

// learn returns measured profiles for Learn. It assumes that blocks on the same SM share the SM's time equally.
func (l *launcher) learn(network string, batch int, estimates []sched.Version) (out []sched.Version, err error) {
	out = slices.Clone(estimates)
	return out, l.timed(network, batch, device.Units{}, true, func(i int, _ string, k *kernels.Layer, run func() (int64, error)) error {
		tiles, sms := k.To, max(1, l.parts.sms(device.Units{}))
		var least [3]int64
		for j, to := range []uint32{1, min(tiles, uint32(sms)), tiles} {
			if k.To, k.Blocks = to, min(to, uint32(l.full(sms))); j == 0 {
				k.From = 1 // no tile remains
			}
			ns, err := times(learnRuns, run)
			if err != nil {
				return err
			}
			k.From, least[j] = 0, slices.Min(ns)
		}
		v := &out[i]
		v.BlockNs = max(1, least[1]-least[0])
		v.KernelNs, v.FullNs = max(v.BlockNs, least[2]-least[0]), v.BlockNs*int64(v.Occupancy)
		return nil
	})
}

// times returns the times of n runs.
func times(n int, run func() (int64, error)) (all []int64, err error) {
	for range n {
		ns, err := run()
		if err != nil {
			return all, err
		}
		all = append(all, ns)
	}
	return all, nil
}

const (
	paceLaunches = 4       // number of successive launches of a kernel
	paceNs       = 200_000 // ns: duration of the kernel that runs during queueing; queueing takes less time
)

// timer measures a kernel, or a part of a kernel. It calls run for each measurement.
type timer func(i int, name string, k *kernels.Layer, run func() (ns int64, err error)) error

// timed calls a timer for each kernel of a network. The timer may reduce the kernel to some of its tiles. If paced is
// set, timed uses the method of Pace.
func (l *launcher) timed(network string, batch int, u device.Units, paced bool, do timer) (err error) {
	net := l.nets[network]
	switch {
	case net == nil:
		return refuse("network %q is not loaded", network)
	case batch < 1 || batch > kernels.MaxBatch || batch > len(net.free):
		return refuse("a batch of %d; there are %d free slots", batch, len(net.free))
	}
	ln, err := l.lane(laneKey{units: u})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ln.dirty = l.halt(ln) != nil
		}
		l.giveBack(ln)
	}()
	var at [2]driver.Event
	defer func() {
		if fails := l.freeTimers(at[:]); err == nil {
			err = fails
		}
	}()
	if err = l.parts.within(u, func() error { return l.makeTimers(at[:]) }); err != nil {
		return err
	}
	each, stand := 1, func() error { return nil }
	if paced {
		before, fails := l.stands(ln.stream, 1, paceNs)
		if fails != nil {
			return fails
		}
		defer func() {
			if fails := before.free(); err == nil {
				err = fails
			}
		}()
		stand = before.run
		if each = paceLaunches; l.lib.Fake() { // the fake's kernels are slow, and tests can delay them more
			each = 2
		}
	}
	run := func() (ns int64, err error) {
		if err := stand(); err != nil {
			return 0, err
		}
		ms, err := l.between(at, ln, int(ln.layer.Blocks), each)
		return int64(float64(ms) * 1e6 / float64(each)), err
	}
	for i := range net.layers {
		*ln.layer = net.layers[i]
		ln.layer.Control, ln.layer.Epoch = uint64(ln.control), ln.epoch
		for k := range batch {
			ln.layer.Sample[k] = uint32(net.free[k])
		}
		ln.layer.Grid(batch)
		ln.layer.Blocks = min(ln.layer.Blocks, uint32(l.full(l.parts.sms(u))))
		if err := do(i, net.b.Names[i], ln.layer, run); err != nil {
			return err
		}
	}
	return nil
}

// between launches a lane's layer several times and returns the total time in ms. Two events measure it.
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

// Copied contains copy times, measured with events before and after each copy.
type Copied struct {
	Bytes    int
	Up, Down []int64 // by run: ns
}

// Copies measures n copies to the GPU and n copies back. If beside is true, a kernel on all SMs uses the memory
// meanwhile.
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
	defer func() { note(l.freeTimers(at[:])) }()
	if err = l.makeTimers(at[:]); err != nil {
		return c, err
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

// makeTimers creates timing events. freeTimers frees the created events.
func (l *launcher) makeTimers(at []driver.Event) (err error) {
	for i := range at {
		if at[i], err = l.lib.NewEvent(true); err != nil {
			return err
		}
	}
	return nil
}

func (l *launcher) freeTimers(at []driver.Event) (err error) {
	for _, e := range at {
		if e == 0 {
			continue
		}
		if fails := l.lib.FreeEvent(e); err == nil {
			err = fails
		}
	}
	return err
}

// eachStream is the number of copies that TwoCopies queues per stream and direction. With 2, both copy most of the
// time.
const eachStream = 2

// TwoCopies is like Copies, but two streams copy at the same time, while a kernel runs. Both streams copy to the GPU
// first, then back. A run's time lasts until both streams have finished, and is divided by the number of copies.
func (d *Device) TwoCopies(bytes, n int) (c Copied, err error) {
	err = d.ask(func(l *launcher) error {
		c, err = l.timeTwo(bytes, n)
		return err
	})
	return c, err
}

func (l *launcher) timeTwo(bytes, n int) (c Copied, err error) {
	c.Bytes = bytes
	if bytes < 1 || bytes > 1<<30 || n < 1 {
		return c, refuse("%d copies of %d bytes", n, bytes)
	}
	other, err := l.lane(laneKey{})
	if err != nil {
		return c, err
	}
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	defer func() { l.giveBack(other) }()
	streams := [2]driver.Stream{l.copies, other.stream}
	var to [2]driver.Ptr
	var host [2][]byte
	var at [3]driver.Event // the common start, and the end of each stream
	defer func() { note(l.freeTimers(at[:])) }()
	if err = l.makeTimers(at[:]); err != nil {
		return c, err
	}
	for i, s := range streams {
		var free func() error
		if to[i], host[i], free, err = l.scratch(bytes, s); err != nil {
			return c, err
		}
		defer func() { note(free()) }()
	}
	quiet, err := l.contend()
	if err != nil {
		return c, err
	}
	defer func() { note(quiet()) }()
	for range n {
		for way, runs := range []*[]int64{&c.Up, &c.Down} {
			if err := l.lib.Record(at[0], streams[0]); err != nil {
				return c, err
			}
			for range eachStream {
				for i, s := range streams {
					if way == 0 {
						err = l.lib.CopyIn(to[i], host[i], s)
					} else {
						err = l.lib.CopyOut(host[i], to[i], s)
					}
					if err != nil {
						return c, err
					}
				}
			}
			for i, s := range streams {
				if err := l.lib.Record(at[1+i], s); err != nil {
					return c, err
				}
			}
			longest := float32(0)
			for i, s := range streams {
				if err := l.lib.Wait(s); err != nil {
					return c, err
				}
				ms, err := l.lib.Elapsed(at[0], at[1+i])
				if err != nil {
					return c, err
				}
				longest = max(longest, ms)
			}
			*runs = append(*runs, int64(float64(longest)*1e6/float64(eachStream*len(streams))))
		}
	}
	return c, nil
}

const (
	streamBytes = 256 << 20 // bytes of memory that contend's kernel reads; several times the size of the L2
	streamNs    = 5e9       // ns: time limit of this kernel
	streamSlots = 16        // blocks per SM: each thread has one load in flight, and an SM with 2048 threads runs 16 blocks
)

// contend runs a kernel on all SMs until the returned function is called. The kernel uses the GPU's memory.
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
	if l.lib.Fake() { // the fake's memory is the host's memory, which is slow
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
		if err != nil { // otherwise the kernel would run until its time limit
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
		err = l.lib.Wait(ln.stream) // otherwise this Fill could overwrite the later mark
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
