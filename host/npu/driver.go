package npu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Opts configures a driver. ClockHz is required; other zero fields select the default.
type Opts struct {
	Name    string // default "npu"
	Label   string // simulated | synthesised | measured; default "simulated"
	ClockHz int64
	// Slots is the maximum number of samples of a network: at least 2 B_max (default 4 B_max), at most 64.
	Slots int
	// Watchdog is the value of the register WATCHDOG. The hardware aborts a start after this number of cycles without
	// progress on the memory ports (default 100,000).
	Watchdog uint32
	// CycleLimit is the maximum number of cycles of a start (default 2^40). Beyond it, the hardware counts as hung.
	CycleLimit uint64
}

const (
	maxSlots     = 64
	resetLimit   = 1 << 20 // maximum number of cycles of a soft reset
	defaultLimit = 1 << 40
)

// Build is the hardware's description of itself.
type Build struct {
	ABIHash, DesignHash uint64
	TR, TP, TC          int
	NAXI, AXIBytes      int
	MaxBurst            int
	Stub                bool // the build has no MACs: cycles are correct, but results are wrong
	Stack, Fluid        bool
	Post, Depthwise     bool // options of the design: functions of maps and products of two maps; depthwise layers
	Int8                bool // maps and weights are int8
	Quiet               bool // a refused access is answered with OKAY, and is only visible in ACCESS
}

// Driver is an NPU that implements device.Blocking.
type Driver struct {
	bus   Bus
	opts  Opts
	build Build
	mem   []byte
	base  uint64

	hw       sync.Mutex // for registers and interrupt; locked during a launch
	active   *network   // the hardware contains the FBCB and base addresses of this network
	counters [abi.CntCount]uint64
	behind   bool  // counters is outdated, because a launch ended between segments
	failed   error // reason why the device must be reset

	mu     sync.Mutex // for the fields below, and for mem unless hw is locked; never locked during a wait
	closed bool       // changed only with both locks
	nets   map[string]*network
	live   map[device.RequestID]*sample
	free   regions
}

// New identifies the hardware behind a bus and rejects unknown hardware. From this call on, the driver owns the bus,
// even if New fails.
func New(bus Bus, o Opts) (*Driver, error) {
	d, err := open(bus, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("npu: open: %w", err), bus.Close())
	}
	return d, nil
}

func open(bus Bus, o Opts) (*Driver, error) {
	o.Name = cmp.Or(o.Name, "npu")
	o.Label = cmp.Or(o.Label, "simulated")
	o.Slots = cmp.Or(o.Slots, 4*abi.BMax)
	o.Watchdog = cmp.Or(o.Watchdog, 100_000)
	o.CycleLimit = cmp.Or(o.CycleLimit, defaultLimit)
	if o.Slots < 2*abi.BMax || o.Slots > maxSlots {
		return nil, fmt.Errorf("%w: %d slots, expected %d..%d", ErrRequest, o.Slots, 2*abi.BMax, maxSlots)
	}
	if o.ClockHz <= 0 {
		return nil, fmt.Errorf("%w: a clock of %d Hz", ErrRequest, o.ClockHz)
	}
	d := &Driver{bus: bus, opts: o, nets: map[string]*network{}, live: map[device.RequestID]*sample{}}
	d.mem, d.base = bus.DRAM()
	d.free.size = int64(len(d.mem))
	if d.base%regionAlign != 0 || d.base+uint64(len(d.mem)) > 1<<abi.AddrBits {
		return nil, fmt.Errorf("%w: %d bytes of memory at %#x; expected a multiple of %d within %d bits of address",
			ErrRequest, len(d.mem), d.base, regionAlign, abi.AddrBits)
	}
	if err := d.identify(); err != nil {
		return nil, err
	}
	if err := d.program(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Driver) identify() error {
	var v [9]uint32
	for i, off := range []uint32{
		abi.RegID, abi.RegVersion, abi.RegABIHash0, abi.RegABIHash1, abi.RegDesignHash0, abi.RegDesignHash1,
		abi.RegBuildTR, abi.RegBuildTP, abi.RegBuildTC,
	} {
		var err error
		if v[i], err = d.bus.ReadReg(off); err != nil {
			return err
		}
	}
	if v[0] != abi.ID {
		return fmt.Errorf("%w: ID is %#08x, expected %#08x", ErrHardware, v[0], uint32(abi.ID))
	}
	if v[1] != abi.SchemaVersion {
		return fmt.Errorf("%w: register map version %d, expected %d", ErrHardware, v[1], abi.SchemaVersion)
	}
	axi, err := d.bus.ReadReg(abi.RegBuildAXI)
	if err != nil {
		return err
	}
	field := func(mask uint32, lsb int) int { return int(axi & mask >> lsb) }
	d.build = Build{
		ABIHash:    uint64(v[3])<<32 | uint64(v[2]),
		DesignHash: uint64(v[5])<<32 | uint64(v[4]),
		TR:         int(v[6]), TP: int(v[7]), TC: int(v[8]),
		NAXI:     field(abi.RegBuildAXINAXIMask, abi.RegBuildAXINAXILSB),
		AXIBytes: field(abi.RegBuildAXIAXIBytesMask, abi.RegBuildAXIAXIBytesLSB),
		MaxBurst: field(abi.RegBuildAXIMaxBurstMask, abi.RegBuildAXIMaxBurstLSB),
		Stub:     axi&abi.RegBuildAXIStubMask != 0,
		Stack:    axi&abi.RegBuildAXIStackMask != 0,
		Fluid:    axi&abi.RegBuildAXIFluidMask != 0,
		Quiet:    axi&abi.RegBuildAXIQuietMask != 0,
		Post:     axi&abi.RegBuildAXIPostMask != 0, Depthwise: axi&abi.RegBuildAXIDepthwiseMask != 0,
		Int8: axi&abi.RegBuildAXIInt8Mask != 0,
	}
	if d.build.ABIHash != abi.Hash {
		return fmt.Errorf("%w: its ABI hash is %016x, this program's %016x", ErrHardware, d.build.ABIHash, uint64(abi.Hash))
	}
	return nil
}

// Build returns the hardware's description of itself.
func (d *Driver) Build() Build { return d.build }

// Info implements device.Blocking.
func (d *Driver) Info() device.Info {
	return device.Info{
		Name: d.opts.Name, Label: d.opts.Label, MaxBatch: abi.BMax, Slots: d.opts.Slots, Places: 1,
		Preempt: device.PreemptExit, ClockHz: d.opts.ClockHz,
	}
}

// until ends blocking register accesses when ctx ends.
func (d *Driver) until(ctx context.Context) (done func()) {
	if w, ok := d.bus.(Waiter); ok {
		return w.Until(ctx)
	}
	return func() {}
}

func (d *Driver) regs(pairs ...[2]uint32) error {
	for _, p := range pairs {
		if err := d.bus.WriteReg(p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

// program writes the registers that do not depend on the network, and reads the counters. The hardware must be idle.
func (d *Driver) program() error {
	err := d.group("interrupts, watchdog and slots",
		[2]uint32{abi.RegIRQEnable, abi.RegIRQEnableDoneMask | abi.RegIRQEnableErrorMask},
		[2]uint32{abi.RegIRQStatus, abi.RegIRQStatusDoneMask | abi.RegIRQStatusErrorMask},
		[2]uint32{abi.RegWatchdog, d.opts.Watchdog},
		[2]uint32{abi.RegNSlot, uint32(d.opts.Slots)},
	)
	if err != nil {
		return err
	}
	d.counters, err = d.readCounters()
	return err
}

func (d *Driver) usable() error {
	if d.closed {
		return ErrClosed
	}
	if d.failed != nil {
		return fmt.Errorf("%w, since %w", ErrReset, d.failed)
	}
	return nil
}

// Close implements device.Blocking. It waits for a running launch.
func (d *Driver) Close() error {
	d.hw.Lock()
	defer d.hw.Unlock()
	d.mu.Lock()
	was := d.closed
	d.closed = true // from now on the memory is not used
	d.mu.Unlock()
	if was {
		return nil
	}
	if err := d.bus.Close(); err != nil {
		return fmt.Errorf("close %s: %w", d.opts.Name, err)
	}
	return nil
}
