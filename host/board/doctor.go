package board

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
)

type doctorCmd struct {
	UIO   string `name:"uio" default:"sluice-npu" help:"Name of the UIO device."`
	Kit   string `default:"/kit" help:"Folder of the kit that is to be served."`
	Label string `default:"measured" enum:"simulated,measured" help:"simulated: the NPU is a co-simulation's, so the PL's state says nothing."`
}

func (*doctorCmd) Help() string {
	return `Looks at everything between power-on and the first served request, in order, and stops where the next
look would hang the processor or say nothing. Every line says what was found, or what to do.

Example:
  sluice board doctor`
}

// Run implements the command.
func (c *doctorCmd) Run(e *env) error {
	bad := 0
	say := func(name string, err error, found string) bool {
		if err != nil {
			bad++
			fmt.Fprintf(e.out, "WRONG   %-12s %v\n", name, err)
			return false
		}
		fmt.Fprintf(e.out, "ok      %-12s %s\n", name, found)
		return true
	}
	end := func() error {
		if bad > 0 {
			return &coded{codeDevice, fmt.Errorf("%d of the checks failed", bad)}
		}
		return nil
	}
	model, err := os.ReadFile("/proc/device-tree/model")
	say("machine", err, strings.TrimRight(string(model), "\x00"))
	state, name, err := fpga()
	if c.Label == "simulated" {
		fmt.Fprintf(e.out, "-       %-12s the NPU is simulated: it does not need the PL\n", "fpga")
	} else if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(e.out, "-       %-12s no FPGA manager: whether the PL is configured cannot be seen from here\n", "fpga")
	} else if err == nil && state != "operating" {
		say("fpga", fmt.Errorf("%s is %q, expected \"operating\": load the bitstream (boards/README.md); not looking further, since a read from an empty PL hangs the processor", name, state), "")
		return end()
	} else {
		say("fpga", err, name+": "+state)
	}
	k, err := kit.Read(c.Kit)
	found := ""
	if err == nil {
		found = fmt.Sprintf("%s: %s for %s, design hash %016x, needs %d MiB", c.Kit, k.Bundle.Network.Name, k.Bundle.Design.Name, k.Bundle.Design.Hash(), needs(k.Bundle)>>20)
	}
	say("kit", err, found)
	d, err := uio.Find(uio.Opts{Name: c.UIO})
	if !say("uio", err, fmt.Sprintf("%s: %d bytes of registers at %#x", d.Path, d.Bytes, d.Addr)) {
		return end()
	}
	o := uio.Opts{Name: c.UIO}
	if k != nil {
		o.Bytes = needs(k.Bundle)
	}
	bus, err := uio.Open(e.ctx, o)
	if !say("npu", err, "answers its ID, and is at rest") {
		return end()
	}
	mem, base := bus.DRAM()
	say("memory", nil, fmt.Sprintf("%d MiB at %#x", len(mem)>>20, base))
	drv, err := npu.New(bus, npu.Opts{Name: c.UIO, ClockHz: 1})
	if !say("registers", err, "ABI hash as this program's") {
		return end()
	}
	defer drv.Close()
	b := drv.Build()
	if k != nil {
		if b.DesignHash != k.Bundle.Design.Hash() {
			err = fmt.Errorf("%w: design hash %016x, the kit's bundle is for %016x: load its bitstream, or make a kit for this one", npu.ErrMismatch, b.DesignHash, k.Bundle.Design.Hash())
		}
		say("design", err, fmt.Sprintf("<%d, %d, %d>, %d memory ports of %d bytes, hash %016x as the kit's", b.TR, b.TP, b.TC, b.NAXI, b.AXIBytes, b.DesignHash))
	}
	line, err := interrupt(c.UIO)
	say("interrupt", err, line)
	return end()
}

// fpga is the state of the first FPGA manager.
func fpga() (state, name string, err error) {
	const at = "/sys/class/fpga_manager/fpga0/"
	s, err := os.ReadFile(at + "state")
	if err != nil {
		return "", "", err
	}
	n, err := os.ReadFile(at + "name")
	return strings.TrimSpace(string(s)), strings.TrimSpace(string(n)), err
}

// interrupt is the line of /proc/interrupts.
func interrupt(name string) (string, error) {
	f, err := os.Open("/proc/interrupts")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasSuffix(strings.TrimSpace(s.Text()), name) {
			return strings.Join(strings.Fields(s.Text()), " "), nil
		}
	}
	return "", fmt.Errorf("/proc/interrupts has none for %s: correct interrupts in the device tree", name)
}
