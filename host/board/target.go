package board

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Target selects an NPU of this machine. The label describes the NPU's figures.
type Target struct {
	UIO      string // name of the UIO device
	Label    string // simulated or measured
	ClockMHz float64

	over func(*uio.Bus) npu.Bus // tests set it to wrap the bus
	sys  string                 // mount point of sysfs; "": /sys
	dev  string                 // mount point of devtmpfs; "": /dev
	pl   func() error           // returns an error if the PL cannot answer; nil: Awake
}

// Open finds the NPU, checks it against the bundle and loads the bundle.
func (t *Target) Open(ctx context.Context, b *bundle.Bundle, o npu.Opts) (*npu.Driver, *uio.Bus, error) {
	d, bus, err := t.Find(ctx, needs(b), o)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Load(ctx, b); err != nil {
		return nil, nil, cli.Coded(cli.Device, errors.Join(err, d.Close()))
	}
	return d, bus, nil
}

// Find finds the NPU, with at least the given number of bytes of memory.
func (t *Target) Find(ctx context.Context, bytes int64, o npu.Opts) (*npu.Driver, *uio.Bus, error) {
	switch {
	case !(t.ClockMHz > 0 && t.ClockMHz < 10_000):
		return nil, nil, cli.Errorf(cli.Usage, "--clock-mhz %v: expected the NPU's clock, more than 0", t.ClockMHz)
	case t.Label != "simulated" && t.Label != "measured":
		return nil, nil, cli.Errorf(cli.Usage, "--label %q: expected measured (a board) or simulated (QEMU)", t.Label)
	}
	o.Name, o.Label, o.ClockHz = t.UIO, t.Label, int64(t.ClockMHz*1e6)
	// A simulated NPU needs no PL, and some kernels have no FPGA manager.
	if t.Label == "measured" {
		if _, err := configured(t.sys); err != nil && !errors.Is(err, bitstreams.ErrManager) {
			return nil, nil, cli.Coded(cli.Device, err)
		}
		pl := t.pl
		if pl == nil {
			pl = Awake
		}
		if err := pl(); err != nil {
			return nil, nil, cli.Coded(cli.Device, err)
		}
	}
	bus, err := uio.Open(ctx, uio.Opts{Name: t.UIO, Bytes: bytes, Sys: t.sys, Dev: t.dev})
	if err != nil {
		return nil, nil, cli.Coded(cli.Device, err)
	}
	over := npu.Bus(bus)
	if t.over != nil {
		over = t.over(bus)
	}
	d, err := npu.New(over, o)
	if err != nil {
		return nil, nil, cli.Coded(cli.Device, err)
	}
	return d, bus, nil
}

// configured returns the FPGA manager's name and the PL's state. Without a manager, it returns ErrManager. If the PL is
// not configured, the error contains instructions, because a read from an empty PL would hang the processor.
func configured(sys string) (found string, err error) {
	m := bitstreams.Manager{Sys: sys}
	state, err := m.State()
	if err != nil {
		return "", err
	}
	name := m.Attribute("name")
	if state != "operating" {
		return "", fmt.Errorf("%s is %q, expected \"operating\": load the bitstream (boards/BRINGUP.md); stopping here, since a read from an empty PL hangs the processor", name, state)
	}
	return name + ": " + state, nil
}

// Clock returns an engine's clock that reads the NPU's TIME. If the NPU does not answer, the clock returns 0, and the
// engine's watchdog reports this.
func (t *Target) Clock(bus *uio.Bus) func() engine.Time {
	return func() engine.Time {
		cycles, err := bus.Time()
		if err != nil {
			return 0
		}
		return int64(float64(cycles) * 1e3 / t.ClockMHz)
	}
}

// needs returns the memory in bytes that a bundle needs with the driver's default number of slots.
func needs(b *bundle.Bundle) int64 {
	const page = 4096
	up := func(n int64) int64 { return (n + page - 1) / page * page }
	return up(int64(len(b.Layers))*abi.DescBytes) + up(int64(len(b.Weights))) + up(4*abi.BMax*b.Slot.Stride)
}
