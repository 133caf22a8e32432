package board

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
	"github.com/sluice-npu/sluice/hw/abi"
)

type doctorCmd struct {
	UIO      string  `name:"uio" default:"sluice-npu" help:"Name of the UIO device."`
	Kit      string  `default:"/kit" help:"Folder of the kit that is to be served."`
	Label    string  `default:"measured" enum:"simulated,measured" help:"simulated: the NPU is a co-simulation's, so what surrounds the PL is read, and not judged."`
	Board    string  `help:"Board, a name or a board.yaml: what surrounds the PL is held to it. Without it that is not looked at."`
	ClockMHz float64 `name:"clock-mhz" help:"The NPU's clock; its TIME is held to it."`
	JSON     bool    `name:"json" help:"Print JSON."`
}

func (*doctorCmd) Help() string {
	return `Looks at everything between power-on and the first served request, in order, and stops where the next
look would hang the processor or say nothing. Every line says what was found, or what to do.

Example:
  sluice board doctor --board zc706 --clock-mhz 150`
}

// line is the result of one check.
type line struct {
	Name  string `json:"name"`
	State string `json:"state"` // ok, WRONG, or - if unknown
	Text  string `json:"text"`
}

// doctor runs the checks and collects their results.
type doctor struct {
	doctorCmd
	sys, proc, dev string // mount points
	mem            peeker
	lines          []line
}

const (
	stateOK    = "ok"
	stateWrong = "WRONG"
	stateOpen  = "-"
)

func (d *doctor) say(name string, err error, found string) bool {
	l := line{name, stateOK, found}
	if err != nil {
		l.State, l.Text = stateWrong, err.Error()
	}
	d.lines = append(d.lines, l)
	return err == nil
}

func (d *doctor) open(name, format string, a ...any) {
	d.lines = append(d.lines, line{name, stateOpen, fmt.Sprintf(format, a...)})
}

func (c *doctorCmd) Run(e *env) error {
	d := &doctor{doctorCmd: *c, sys: "/sys", proc: "/proc", dev: "/dev", mem: devMem("/dev/mem")}
	if err := d.look(e.ctx); err != nil {
		return err
	}
	wrong := 0
	for _, l := range d.lines {
		if l.State == stateWrong {
			wrong++
		}
	}
	if c.JSON {
		text, err := json.Marshal(struct {
			cli.Header
			Lines []line `json:"lines"`
		}{cli.NewHeader("sluice-board-doctor/1", 0, c.Label), d.lines})
		if err != nil {
			return err
		}
		fmt.Fprintf(e.out, "%s\n", text)
	} else {
		for _, l := range d.lines {
			fmt.Fprintf(e.out, "%-7s %-12s %s\n", l.State, l.Name, l.Text)
		}
	}
	if wrong > 0 {
		return cli.Errorf(cli.Device, "%d of the checks failed", wrong)
	}
	return nil
}

// look runs the checks. It returns an error only for invalid flags.
func (d *doctor) look(ctx context.Context) error {
	around := pl{peeker: d.mem}
	if d.Board != "" {
		var err error
		if around.board, err = boards.Load(d.Board); err != nil {
			return cli.Coded(cli.Input, err)
		}
	}
	if !d.machine(&around.board) || !d.configured() {
		return nil
	}
	if !d.surroundings(&around) {
		return nil
	}
	k, err := kit.Read(d.Kit)
	found := ""
	if err == nil {
		found = fmt.Sprintf("%s: %s for %s, design hash %016x, needs %.1f MiB", d.Kit, k.Bundle.Network.Name, k.Bundle.Design.Name, k.Bundle.Design.Hash(), float64(needs(k.Bundle))/(1<<20))
	}
	d.say("kit", err, found)
	bus := d.bus(ctx, &around.board)
	if bus == nil {
		return nil
	}
	d.memory(bus, k, &around.board)
	was, err := refused(bus)
	found = "no access was refused"
	if was {
		found = "an access was refused before, by whatever used the NPU then; cleared"
	}
	d.say("access", err, found)
	d.npu(bus, k, &around)
	return nil
}

// bus opens the NPU's registers. It returns nil if this fails or if a read could hang the processor.
func (d *doctor) bus(ctx context.Context, b *boards.Board) *uio.Bus {
	o := uio.Opts{Name: d.UIO, Sys: d.sys, Dev: d.dev}
	u, err := uio.Find(o)
	if err == nil && d.Board != "" && (u.Addr != b.Registers.Base || u.Bytes != int64(b.Registers.Bytes)) {
		err = fmt.Errorf("%s: %d bytes of registers at %#x, %s has %d at %#x: the device tree is of another block design; stopping here, since a read where no design is hangs the processor",
			u.Path, u.Bytes, u.Addr, b.Name, b.Registers.Bytes, b.Registers.Base)
	}
	if !d.say("uio", err, fmt.Sprintf("%s: %d bytes of registers at %#x", u.Path, u.Bytes, u.Addr)) {
		return nil
	}
	bus, err := uio.Open(ctx, o)
	if errors.Is(err, uio.ErrBusy) {
		err = fmt.Errorf("in use: %w: end it, then look again", err)
	}
	if !d.say("npu", err, "answers its ID, and is at rest") {
		return nil
	}
	if bus.Abandoned() {
		d.lines[len(d.lines)-1].Text += "; a start that an earlier process had left was given up"
	}
	return bus
}

// memory checks the size and address of the reserved memory.
func (d *doctor) memory(bus *uio.Bus, k *kit.Kit, board *boards.Board) {
	mem, base := bus.DRAM()
	found := fmt.Sprintf("%d MiB at %#x, %s", len(mem)>>20, base, bus.Mapping())
	var err error
	if k != nil && needs(k.Bundle) > int64(len(mem)) {
		err = fmt.Errorf("%s, the kit needs %.1f MiB: enlarge reserved-memory in the device tree", found, float64(needs(k.Bundle))/(1<<20))
	}
	if d.Board != "" && bus.Reserved() {
		if b, n := board.Memory(bus.Mapping() == "cached"); base != b || uint64(len(mem)) != n {
			err = errors.Join(err, fmt.Errorf("%s, %s has %d MiB at %#x: the device tree is of another board.yaml", found, board.Name, n>>20, b))
		}
	}
	d.say("memory", err, found)
}

// npu checks the design in the PL: registers, ports, clock and interrupt.
func (d *doctor) npu(bus *uio.Bus, k *kit.Kit, around *pl) {
	drv, err := npu.New(bus, npu.Opts{Name: d.UIO, ClockHz: 1})
	if !d.say("registers", err, "ABI hash as this program's") {
		return
	}
	defer drv.Close()
	b := drv.Build()
	if k != nil {
		if b.DesignHash != k.Bundle.Design.Hash() {
			err = fmt.Errorf("%w: design hash %016x, the kit's bundle is for %016x: load its bitstream, or make a kit for this one", npu.ErrMismatch, b.DesignHash, k.Bundle.Design.Hash())
		}
		d.say("design", err, fmt.Sprintf("<%d, %d, %d>, %d memory ports of %d bytes, hash %016x as the kit's", b.TR, b.TP, b.TC, b.NAXI, b.AXIBytes, b.DesignHash))
	}
	if d.Board == "" {
		d.open("ports", "without --board the width of the memory ports is not looked at")
	} else {
		found, err := around.checkAFI(b.NAXI, 8*b.AXIBytes)
		d.judge("ports", err, found)
	}
	d.time(bus)
	if was, err := refused(bus); err != nil || was {
		d.say("access", errors.Join(err, fmt.Errorf("%w: it refused accesses of this program: its register map is another", npu.ErrHardware)), "")
	}
	text, err := interrupt(filepath.Join(d.proc, "interrupts"), d.UIO)
	d.say("interrupt", err, text)
}

// machine returns false if this machine is not of board b's family, since its physical addresses are then different.
func (d *doctor) machine(b *boards.Board) bool {
	at := filepath.Join(d.proc, "device-tree")
	model, err := os.ReadFile(filepath.Join(at, "model"))
	if d.Board == "" {
		d.say("machine", err, strings.TrimRight(string(model), "\x00"))
		return true
	}
	want := compatible[b.Family]
	text, missing := os.ReadFile(filepath.Join(at, "compatible"))
	is := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	switch {
	case missing != nil:
		err = fmt.Errorf("%w: is this a board? %s is compatible with %s; stopping here", missing, b.Name, want)
	case !slices.Contains(is, want):
		err = fmt.Errorf("%s is compatible with %s, expected %s, as %s: stopping here, since this machine's addresses are others",
			strings.TrimRight(string(model), "\x00"), strings.Join(is, ", "), want, b.Name)
	}
	return d.say("machine", err, fmt.Sprintf("%s (its family is that of %s; which board it is, it does not say to a program)", strings.TrimRight(string(model), "\x00"), b.Name))
}

// judge records the result of a check of the PL's surroundings. For a simulated NPU it only records the readings.
func (d *doctor) judge(name string, err error, found string) bool {
	if hidden(err) {
		d.open(name, "cannot be looked at: %v (a kernel with DEVMEM, and root)", err)
		return true
	}
	if d.Label == "simulated" {
		if found == "" && err != nil {
			found = err.Error()
		}
		d.open(name, "%s; not judged, the NPU is simulated", found)
		return true
	}
	return d.say(name, err, found)
}

// configured returns false if the PL is certainly empty, because a read from an empty PL would hang the processor.
func (d *doctor) configured() bool {
	found, err := configured(d.sys)
	switch {
	case d.Label == "simulated":
		d.open("fpga", "the NPU is simulated: it does not need the PL")
	case errors.Is(err, os.ErrNotExist):
		d.open("fpga", "no FPGA manager: whether the PL is configured cannot be seen from here")
	default:
		return d.say("fpga", err, found)
	}
	return true
}

// surroundings checks the PL's clock and reset. It returns false if the PL would never answer an access.
func (d *doctor) surroundings(p *pl) bool {
	if d.Board == "" {
		d.open("pl-clock", "without --board clock, reset and register port of the PL are not looked at")
		return true
	}
	found, err := p.checkClock()
	clock := d.judge("pl-clock", err, found)
	found, err = p.checkReset()
	reset := d.judge("pl-reset", err, found)
	found, err = p.checkMaster()
	return d.judge("pl-port", err, found) && reset && clock
}

// refused reads and clears ACCESS. It reports whether the NPU has refused an access since the last clear.
func refused(bus *uio.Bus) (bool, error) {
	v, err := bus.ReadReg(abi.RegAccess)
	if err != nil || v&abi.RegAccessRefusedMask == 0 {
		return false, err
	}
	return true, bus.WriteReg(abi.RegAccess, abi.RegAccessRefusedMask)
}

// rate returns the frequency in Hz of the NPU's counter TIME by this machine's clock. `stretch` must be so long that
// the duration of the reads is negligible.
func rate(bus *uio.Bus, stretch time.Duration) (hz float64, err error) {
	c0, err := bus.Time()
	if err != nil {
		return 0, err
	}
	t0 := time.Now()
	time.Sleep(stretch)
	c1, err := bus.Time()
	if err != nil {
		return 0, err
	}
	return float64(c1-c0) / time.Since(t0).Seconds(), nil
}

// time compares the rate of TIME with the clock's frequency.
func (d *doctor) time(bus *uio.Bus) {
	hz, err := rate(bus, 200*time.Millisecond)
	found := fmt.Sprintf("TIME counts %.3f MHz", hz/1e6)
	switch {
	case err != nil:
	case hz == 0:
		err = fmt.Errorf("%w: TIME stands still", npu.ErrHang)
	case d.Label == "simulated":
		d.open("clock", "TIME goes on; how fast says nothing, the NPU is simulated")
		return
	case d.ClockMHz == 0:
		d.open("clock", "%s; without --clock-mhz that is not judged", found)
		return
	case math.Abs(hz/1e6/d.ClockMHz-1) > 0.001:
		err = fmt.Errorf("%s, expected %g: is the bitstream of this clock, and the MMCM's input what the design was built for?", found, d.ClockMHz)
	}
	d.say("clock", err, found)
}

// interrupt returns the line of /proc/interrupts for a device.
func interrupt(path, name string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 0 && fields[len(fields)-1] == name {
			return strings.Join(fields, " "), nil
		}
	}
	return "", fmt.Errorf("%s has none for %s: correct interrupts in the device tree", path, name)
}
