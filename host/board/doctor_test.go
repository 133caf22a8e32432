package board

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// registers are those of a processing system; a missing one is an error.
type registers map[uint64]uint32

func (r registers) peek(addr uint64) (uint32, error) {
	v, ok := r[addr]
	if !ok {
		return 0, errors.New("no such register")
	}
	return v, nil
}

// right is the register content of a board as its hardware platform sets it: 100 MHz for the PL.
func right(board string) registers {
	if board == "zc706" {
		return registers{
			0xF8000100: 40 << 12, 0xF8000104: 32 << 12, 0xF8000108: 30 << 12, // PLLs: 1333, 1067, 1000 MHz
			0xF8000170: 5<<8 | 2<<20, 0xF8000178: 0, // IO PLL / 5 / 2
			0xF8000240: 0xE, 0xF8000900: 0xF, // resets of FCLK1 to 3 are active: nothing there can hang
			0xF8008000: 0, 0xF8008014: 0, 0xF8009000: 0, 0xF8009014: 0,
		}
	}
	return registers{
		0xFF5E0020: 90<<8 | 1<<16, 0xFF5E0030: 64 << 8, 0xFD1A002C: 72 << 8, 0xFD1A004C: 3 << 8, // IOPLL 1500, RPLL, DPLL
		0xFF5E00C0: 15<<8 | 1<<16 | 1<<24, // IOPLL / 15 / 1, active
		0xFF0A0054: 1 << 31,
		0xFD615000: 0, 0xFF419000: 0x200, // HPM0 at 32 bit, HPM0_LPD as after reset
		0xFD380000: 0, 0xFD380014: 0, 0xFD3B0000: 0, 0xFD3B0014: 0, // HP0 and HP3 at 128 bit
	}
}

func around(t *testing.T, board string, change registers) *pl {
	t.Helper()
	b, err := boards.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	r := right(board)
	for at, v := range change {
		r[at] = v
	}
	return &pl{peeker: r, board: b}
}

// TestSurroundings: clock, reset and ports of both boards when correct, and with each possible error.
func TestSurroundings(t *testing.T) {
	clock := func(p *pl) (string, error) { return p.checkClock() }
	reset := func(p *pl) (string, error) { return p.checkReset() }
	master := func(port string) func(*pl) (string, error) {
		return func(p *pl) (string, error) { p.board.Registers.Port = port; return p.checkMaster() }
	}
	ports := func(n, bits int) func(*pl) (string, error) {
		return func(p *pl) (string, error) { return p.checkAFI(n, bits) }
	}
	for _, c := range []struct {
		what, board string
		change      registers
		check       func(*pl) (string, error)
		found, says string // says: text of the error
	}{
		{"right", "zc706", nil, clock, "FCLK0 100.000 MHz", ""},
		{"right", "zcu104", nil, clock, "PL0 99.999 MHz", ""},
		{"from the ARM PLL", "zc706", registers{0xF8000170: 2<<4 | 40<<8 | 1<<20}, clock, "FCLK0 33.333 MHz", "asks for 100"},
		{"from the DDR PLL", "zc706", registers{0xF8000170: 3<<4 | 32<<8 | 1<<20}, clock, "FCLK0 33.333 MHz", "asks for 100"},
		{"150 MHz that it cannot make", "zc706", registers{0xF8000170: 7<<8 | 1<<20}, clock, "FCLK0 142.857 MHz", "is 142.857 MHz, zc706 asks for 100"},
		{"stopped by Linux", "zc706", registers{0xF8000178: 1}, clock, "FCLK0 0.000 MHz", "clk_ignore_unused"},
		{"never set", "zc706", registers{0xF8000170: 0}, clock, "FCLK0 0.000 MHz", "stands still"},
		{"from RPLL", "zcu104", registers{0xFF5E00C0: 2 | 15<<8 | 1<<16 | 1<<24}, clock, "PL0 142.221 MHz", "asks for 100"},
		{"from DPLL", "zcu104", registers{0xFF5E00C0: 3 | 8<<8 | 1<<16 | 1<<24}, clock, "PL0 99.999 MHz", ""},
		{"stopped", "zcu104", registers{0xFF5E00C0: 15<<8 | 1<<16}, clock, "PL0 0.000 MHz", "stands still"},
		{"right", "zc706", nil, reset, "FPGA_RST_CTRL 0xe, LVL_SHFTR_EN 0xf", ""},
		{"held", "zc706", registers{0xF8000240: 1}, reset, "", "held in reset"},
		{"no level shifters", "zc706", registers{0xF8000900: 0xA}, reset, "", "level shifters are off"},
		{"right", "zcu104", nil, reset, "pl_resetn0 1", ""},
		{"held", "zcu104", registers{0xFF0A0054: 0x7FFFFFFF}, reset, "", "held in reset"},
		{"always 32", "zc706", nil, master("GP1"), "GP1 32 bit", ""},
		{"right", "zcu104", nil, master("HPM0"), "HPM0 32 bit", ""},
		{"as it comes out of reset", "zcu104", registers{0xFD615000: 0xA00}, master("HPM0"), "HPM0 128 bit", "register port HPM0 has 128 bits"},
		{"the other's", "zcu104", registers{0xFD615000: 0x800}, master("HPM0"), "HPM0 32 bit", ""},
		{"64", "zcu104", registers{0xFD615000: 0x400}, master("HPM1"), "HPM1 64 bit", "HPM1 has 64 bits"},
		{"that of the low-power domain", "zcu104", nil, master("HPM0_LPD"), "HPM0_LPD 128 bit", "HPM0_LPD has 128 bits"},
		{"right", "zc706", nil, ports(2, 64), "HP0 64/64 bit, HP1 64/64 bit", ""},
		{"one is narrow", "zc706", registers{0xF8009014: 1}, ports(2, 64), "", "HP1 reads 64 and writes 32 bits, the design has 64"},
		{"more than there are", "zc706", nil, ports(5, 64), "", "the design has 5 memory ports, zc706 4"},
		{"right", "zcu104", nil, ports(2, 128), "HP0 128/128 bit, HP3 128/128 bit", ""},
		{"of another design", "zcu104", nil, ports(1, 64), "", "HP0 reads 128 and writes 128 bits, the design has 64"},
		{"64", "zcu104", registers{0xFD380000: 1, 0xFD380014: 1}, ports(1, 64), "HP0 64/64 bit", ""},
	} {
		found, err := c.check(around(t, c.board, c.change))
		if c.found != "" && found != c.found {
			t.Errorf("%s, %s: %q, expected %q", c.board, c.what, found, c.found)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v, expected %q", c.board, c.what, err, c.says)
		}
	}
	// An unreadable register is not a value.
	for board := range map[string]bool{"zc706": true, "zcu104": true} {
		for addr := range right(board) {
			p := around(t, board, nil)
			delete(p.peeker.(registers), addr)
			_, err1 := p.checkClock()
			_, err2 := p.checkReset()
			_, err3 := p.checkAFI(2, 64)
			_, err4 := p.checkMaster()
			err3 = errors.Join(err3, err4)
			used := map[uint64]bool{0xF8000100: true, 0xF8000104: true, 0xFF5E0030: true, 0xFD1A002C: true, 0xFD1A004C: true, 0xFF419000: true} // other PLLs and ports
			if err1 == nil && err2 == nil && !used[addr] && (err3 == nil || !strings.Contains(err3.Error(), "no such register")) {
				t.Errorf("%s without %#x: %v, %v, %v", board, addr, err1, err2, err3)
			}
		}
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

var tiny = sync.OnceValues(func() (*bundle.Bundle, error) {
	design, err := configs.Load("tiny")
	if err != nil {
		return nil, err
	}
	return (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
})

// machine is a zc706 as seen through the kernel; the NPU's registers are a file, so registers that should count stand
// still.
func machine(t *testing.T, regs map[uint32]uint32) *doctor {
	t.Helper()
	b, err := tiny()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	if err := kit.Write(at("kit"), oneImage(b)); err != nil {
		t.Fatal(err)
	}
	put(t, at("proc/device-tree/model"), []byte("Xilinx ZC706 board\x00"))
	put(t, at("proc/device-tree/compatible"), []byte("xlnx,zynq-zc706\x00xlnx,zynq-7000\x00"))
	put(t, at("proc/interrupts"), []byte("           CPU0\n 26:  0  GIC-0  61 Level  other-npu\n 27:  0  GIC-0  62 Level     npu\n"))
	put(t, at("sys/class/fpga_manager/fpga0/state"), []byte("operating\n"))
	put(t, at("sys/class/fpga_manager/fpga0/name"), []byte("Xilinx Zynq FPGA Manager\n"))
	for name, text := range map[string]string{
		"uio/uio0/name": "npu", "uio/uio0/maps/map0/addr": "0x43c00000", "uio/uio0/maps/map0/size": "0x10000",
		"misc/npu-memory/mode": "write-combined", "misc/npu-memory/phys_addr": "0x30000000", "misc/npu-memory/size": "268435456",
	} {
		put(t, at("sys/class/"+name), []byte(text+"\n"))
	}
	put(t, at("dev/npu-memory"), nil)
	if err := os.Truncate(at("dev/npu-memory"), 256<<20); err != nil {
		t.Fatal(err)
	}
	file := make([]byte, 0x1000)
	hash := b.Design.Hash()
	for off, v := range map[uint32]uint32{
		abi.RegID: abi.ID, abi.RegVersion: abi.SchemaVersion, abi.RegABIHash0: uint32(abi.Hash & 0xFFFFFFFF), abi.RegABIHash1: uint32(abi.Hash >> 32),
		abi.RegDesignHash0: uint32(hash), abi.RegDesignHash1: uint32(hash >> 32), abi.RegBuildTR: 32, abi.RegBuildTP: 3, abi.RegBuildTC: 4,
		abi.RegBuildAXI: 1<<abi.RegBuildAXINAXILSB | 8<<abi.RegBuildAXIAXIBytesLSB,
	} {
		binary.LittleEndian.PutUint32(file[off:], v)
	}
	for off, v := range regs {
		binary.LittleEndian.PutUint32(file[off:], v)
	}
	put(t, at("dev/uio0"), file)
	d := &doctor{sys: at("sys"), proc: at("proc"), dev: at("dev"), mem: right("zc706")}
	d.UIO, d.Kit, d.Label, d.Board, d.ClockMHz = "npu", at("kit"), "measured", "zc706", 150
	return d
}

// untouched are the addresses of a machine of another kind.
type untouched struct{}

func (untouched) peek(addr uint64) (uint32, error) { panic(fmt.Sprintf("read of %#x", addr)) }

// TestInUse: an NPU that another process uses is neither read nor reset.
func TestInUse(t *testing.T) {
	d := machine(t, map[uint32]uint32{abi.RegStatus: abi.RegStatusBusyMask})
	claim, err := uio.Hold(uio.Opts{Name: d.UIO, Sys: d.sys, Dev: d.dev})
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	got := look(t, d)
	if l := d.lines[len(d.lines)-1]; l.Name != "npu" || !strings.Contains(got, "WRONG npu in use: ") {
		t.Errorf("looked on to %s\n%s", l.Name, got)
	}
	regs, err := os.ReadFile(filepath.Join(d.dev, "uio0"))
	if err != nil || binary.LittleEndian.Uint32(regs[abi.RegCtrl:]) != 0 {
		t.Errorf("CTRL was written: %v", err)
	}
}

// TestStart: by default the image serves only if doctor found no error; explicit commands always run.
func TestStart(t *testing.T) {
	const line = "console=ttyPS0,115200 sluice.board=zc706 sluice.label=measured sluice.clock_mhz=150"
	for _, c := range []struct {
		line string
		code int // exit code of doctor
		want string
	}{
		{line, cli.OK, "doctor --label measured --clock-mhz 150 --board zc706; serve --label measured --clock-mhz 150"},
		{line, cli.Device, "doctor --label measured --clock-mhz 150 --board zc706"},
		{"sluice.board=zc706", cli.OK, "doctor --board zc706"},
		{line + " sluice.run=doctor sluice.run=serve,-n,3", cli.Device, "doctor --label measured --clock-mhz 150 --board zc706; serve -n 3 --label measured --clock-mhz 150"},
	} {
		var ran []string
		var out strings.Builder
		o, err := parse(c.line)
		if err != nil {
			t.Fatal(err)
		}
		err = o.all(&out, func(args []string) int {
			ran = append(ran, strings.Join(args, " "))
			if args[0] == "doctor" {
				return c.code
			}
			return cli.OK
		})
		if got := strings.Join(ran, "; "); got != c.want || (err == nil) != (c.code == cli.OK) || !strings.Contains(out.String(), markDone) {
			t.Errorf("%s, doctor %d: ran %q, expected %q: %v\n%s", c.line, c.code, got, c.want, err, out.String())
		}
	}
}

// TestCommandLine: errors on the kernel's command line are reported as such, and reset runs only if the command line
// is right.
func TestCommandLine(t *testing.T) {
	for line, says := range map[string]string{
		"sluice.clock_mhz=abc":                   "sluice.clock_mhz=abc: expected the NPU's clock in MHz",
		"sluice.clock_mhz=0":                     "sluice.clock_mhz=0",
		"sluice.clock_mhz=":                      "sluice.clock_mhz=",
		"sluice.label=fast sluice.reset":         "sluice.label=fast: expected simulated or measured",
		"sluice.reset=maybe":                     "sluice.reset=maybe: expected nothing, 1 or 0",
		"sluice.clock_mhz=150 sluice.reset=0 rw": "",
	} {
		if _, err := parse(line); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", line, err, says)
		}
	}
	for line, want := range map[string]bool{"": false, "sluice.reset": true, "sluice.reset=1": true, "sluice.reset=0": false, "sluice.reset sluice.reset=0": false} {
		if o, err := parse(line); err != nil || o.reset != want {
			t.Errorf("%q: reset %v, %v", line, o.reset, err)
		}
	}
}

// TestLatency: without results there is no latency.
func TestLatency(t *testing.T) {
	doc := &serveDoc{}
	doc.Latency.Avg = -1
	if got := latency(doc); got != "-" {
		t.Errorf("no results: %s", got)
	}
	doc.Results, doc.Latency.Avg = 3, 1500
	if got := latency(doc); got != "1.5µs" {
		t.Errorf("three results: %s", got)
	}
}

// TestTargetEmpty: no access to an empty PL; the PL of a simulated NPU stays empty.
func TestTargetEmpty(t *testing.T) {
	b, err := tiny()
	if err != nil {
		t.Fatal(err)
	}
	d := machine(t, map[uint32]uint32{abi.RegID: 0})
	write(filepath.Join(d.sys, "class/fpga_manager/fpga0/state"), []byte("unknown\n"))
	for label, says := range map[string]string{"measured": `is "unknown", expected "operating"`, "simulated": "ID is 0x00000000"} {
		target := Target{UIO: d.UIO, Label: label, ClockMHz: 150, sys: d.sys, dev: d.dev}
		if _, _, err := target.Open(t.Context(), b, npu.Opts{}); err == nil || cli.CodeOf(err) != cli.Device || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", label, err, says)
		}
	}
	// Nor to one whose clock is stopped.
	write(filepath.Join(d.sys, "class/fpga_manager/fpga0/state"), []byte("operating\n"))
	d.mem.(registers)[0xF8000178] = 1
	for label, says := range map[string]string{"measured": "stands still", "simulated": "ID is 0x00000000"} {
		target := Target{UIO: d.UIO, Label: label, ClockMHz: 150, sys: d.sys, dev: d.dev, pl: func() error { return awake(d.proc, d.mem) }}
		if _, _, err := target.Open(t.Context(), b, npu.Opts{}); err == nil || cli.CodeOf(err) != cli.Device || !strings.Contains(err.Error(), says) {
			t.Errorf("no clock, %s: %v, expected %q", label, err, says)
		}
	}
}

// TestAwake: for both families, clock and reset tell whether the PL answers. What cannot be read is not an error. A
// loaded bitstream is compared with its board's clock.
func TestAwake(t *testing.T) {
	for _, c := range []struct {
		board, compatible string
		change            registers
		awake, around     string // their messages
	}{
		{"zc706", "xlnx,zynq-zc706\x00xlnx,zynq-7000\x00", nil, "", ""},
		{"zc706", "xlnx,zynq-7000\x00", registers{0xF8000178: 1}, "FCLK0 stands still", "FCLK0 stands still"},
		{"zc706", "xlnx,zynq-7000\x00", registers{0xF8000240: 1}, "held in reset", "held in reset"},
		{"zc706", "xlnx,zynq-7000\x00", registers{0xF8000900: 0}, "level shifters are off", "level shifters are off"},
		{"zc706", "xlnx,zynq-7000\x00", registers{0xF8000170: 7<<8 | 1<<20}, "", "is 142.857 MHz, zc706 asks for 100"},
		{"zcu104", "xlnx,zynqmp-zcu104\x00xlnx,zynqmp\x00", nil, "", ""},
		{"zcu104", "xlnx,zynqmp\x00", registers{0xFF5E00C0: 15<<8 | 1<<16}, "PL0 stands still", "PL0 stands still"},
		{"zcu104", "xlnx,zynqmp\x00", registers{0xFD615000: 0xA00}, "", "HPM0 has 128 bits"},
		{"zcu104", "xlnx,zynqmp\x00", registers{0xFF0A0054: 0}, "held in reset", "held in reset"},
	} {
		p := around(t, c.board, c.change)
		proc := t.TempDir()
		put(t, filepath.Join(proc, "device-tree/compatible"), []byte(c.compatible))
		err := awake(proc, p.peeker)
		_, err2 := surroundings(p.board, p.peeker)
		for says, err := range map[*string]error{&c.awake: err, &c.around: err2} {
			if (err == nil) != (*says == "") || err != nil && !strings.Contains(err.Error(), *says) {
				t.Errorf("%s, %v: %v, expected %q", c.board, c.change, err, *says)
			}
		}
		blind := devMem(filepath.Join(proc, "mem"))
		if err := awake(proc, blind); err != nil {
			t.Errorf("no /dev/mem: %v", err)
		}
		if found, err := surroundings(p.board, blind); err != nil || len(found) != 3 || !strings.Contains(found[0], "not looked at") {
			t.Errorf("no /dev/mem: %q, %v", found, err)
		}
		put(t, filepath.Join(proc, "device-tree/compatible"), []byte("brcm,bcm2711\x00"))
		if err := awake(proc, untouched{}); err != nil {
			t.Errorf("another machine: %v", err)
		}
	}
	if err := awake(t.TempDir(), untouched{}); err != nil {
		t.Errorf("no device tree: %v", err)
	}
}

// oneImage is a kit of zeros.
func oneImage(b *bundle.Bundle) *kit.Kit {
	n := &b.Network
	k := &kit.Kit{Bundle: b, Inputs: [][]int16{make([]int16, n.InH*n.InW*n.InC)}, Labels: []int{-1}}
	var exits []device.ExitResult
	for i := range n.Exits {
		exits = append(exits, device.ExitResult{Exit: i, Raw: make([]int16, n.Exits[i].Classes)})
	}
	k.Exits = append(k.Exits, exits)
	return k
}

// wrong are machines with one error each.
var wrong = map[string]struct {
	regs     map[uint32]uint32
	change   func(*doctor)
	says     string
	lastLine string // the last line, where the check ends
}{
	"empty PL": {nil, func(d *doctor) { write(filepath.Join(d.sys, "class/fpga_manager/fpga0/state"), []byte("unknown\n")) }, `is "unknown", expected "operating"`, "fpga"},
	"another machine": {nil, func(d *doctor) {
		write(filepath.Join(d.proc, "device-tree/compatible"), []byte("raspberrypi,4-model-b\x00brcm,bcm2711\x00"))
		d.mem = untouched{}
	}, "raspberrypi,4-model-b, brcm,bcm2711, expected xlnx,zynq-7000, as zc706", "machine"},
	"another family":  {nil, func(d *doctor) { d.Board, d.mem = "zcu104", untouched{} }, "expected xlnx,zynqmp, as zcu104", "machine"},
	"no board":        {nil, func(d *doctor) { os.RemoveAll(filepath.Join(d.proc, "device-tree")); d.mem = untouched{} }, "is this a board?", "machine"},
	"no clock":        {nil, func(d *doctor) { d.mem.(registers)[0xF8000178] = 1 }, "stands still: a read", "pl-port"},
	"reset":           {nil, func(d *doctor) { d.mem.(registers)[0xF8000240] = 0xF }, "held in reset", "pl-port"},
	"no kit":          {nil, func(d *doctor) { d.Kit += "x" }, "WRONG kit read kit", ""},
	"another address": {nil, func(d *doctor) { sysfs(d, "uio/uio0/maps/map0/addr", "0x43c10000") }, "65536 bytes of registers at 0x43c10000, zc706 has 65536 at 0x43c00000", "uio"},
	"another size":    {nil, func(d *doctor) { sysfs(d, "uio/uio0/maps/map0/size", "0x1000") }, "zc706 has 65536 at 0x43c00000: the device tree is of another block design", "uio"},
	"other memory":    {nil, func(d *doctor) { sysfs(d, "misc/npu-memory/phys_addr", "0x38000000") }, "WRONG memory 256 MiB at 0x38000000, write-combined, zc706 has 256 MiB at 0x30000000", ""},
	"less memory":     {nil, func(d *doctor) { sysfs(d, "misc/npu-memory/size", "134217728") }, "128 MiB at 0x30000000, write-combined, zc706 has 256 MiB", ""},
	"little memory":   {nil, func(d *doctor) { sysfs(d, "misc/npu-memory/size", "4096") }, "the kit needs ", ""},
	"no UIO":          {nil, func(d *doctor) { d.UIO = "other" }, "WRONG uio", "uio"},
	"nothing":         {map[uint32]uint32{abi.RegID: 0}, nil, "ID is 0x00000000, expected 0x534c5549", "npu"},
	"another map":     {map[uint32]uint32{abi.RegABIHash0: 7}, nil, "WRONG registers", "registers"},
	"another NPU":     {map[uint32]uint32{abi.RegDesignHash0: 7}, nil, "load its bitstream, or make a kit", ""},
	"wide ports":      {map[uint32]uint32{abi.RegBuildAXI: 1<<abi.RegBuildAXINAXILSB | 4<<abi.RegBuildAXIAXIBytesLSB}, nil, "the design has 32", ""},
	"refused":         {map[uint32]uint32{abi.RegAccess: 1}, nil, "an access was refused before", ""},
	"no interrupt":    {nil, func(d *doctor) { write(filepath.Join(d.proc, "interrupts"), []byte("\n")) }, "has none for npu", ""},
}

func sysfs(d *doctor, name, text string) {
	write(filepath.Join(d.sys, "class", name), []byte(text+"\n"))
}

func write(path string, data []byte) { os.WriteFile(path, data, 0o644) }

// look returns the lines as text.
func look(t *testing.T, d *doctor) string {
	t.Helper()
	if err := d.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, l := range d.lines {
		text.WriteString(l.State + " " + l.Name + " " + l.Text + "\n")
	}
	return text.String()
}

// TestDoctor: the lines in order, and the message of each if its cause is wrong.
func TestDoctor(t *testing.T) {
	got := look(t, machine(t, nil))
	at := 0
	for _, want := range []string{
		"ok machine Xilinx ZC706 board (its family is that of zc706; ", "ok fpga Xilinx Zynq FPGA Manager: operating\n", "ok pl-clock FCLK0 100.000 MHz\n", "ok pl-reset FPGA_RST_CTRL", "ok pl-port GP0 32 bit\n",
		"ok kit ", "ok uio ", "ok npu ", "ok memory 256 MiB at 0x30000000, write-combined\n", "ok access no access was refused\n", "ok registers ", "ok design <32, 3, 4>",
		"ok ports HP0 64/64 bit\n", "WRONG clock", "TIME stands still", "ok interrupt 27: 0 GIC-0 62 Level npu\n",
	} {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("expected %q in what is left of\n%s", want, got)
		}
		at += i
	}
	for what, c := range wrong {
		d := machine(t, c.regs)
		if c.change != nil {
			c.change(d)
		}
		got := look(t, d)
		if !strings.Contains(got, c.says) {
			t.Errorf("%s: expected %q\n%s", what, c.says, got)
		}
		if last := d.lines[len(d.lines)-1].Name; c.lastLine != "" && last != c.lastLine {
			t.Errorf("%s: looked on to %s\n%s", what, last, got)
		}
	}
	// A kernel without /dev/mem hides only the surroundings.
	blind := machine(t, nil)
	blind.mem = devMem(filepath.Join(blind.dev, "mem"))
	if got := look(t, blind); strings.Contains(got, "WRONG p") || strings.Count(got, "cannot be looked at") != 4 || !strings.Contains(got, "ok design") {
		t.Errorf("no /dev/mem:\n%s", got)
	}
	// For a simulated NPU nothing around the PL is checked.
	d := machine(t, nil)
	d.Label = "simulated"
	d.mem.(registers)[0xF8000240] = 0xF
	if got := look(t, d); strings.Contains(got, "WRONG pl") || !strings.Contains(got, "- pl-reset") || !strings.Contains(got, "- ports HP0 64/64 bit; not judged") || !strings.Contains(got, "not judged") {
		t.Errorf("simulated:\n%s", got)
	}
}

// TestBringup: the guide shows doctor's lines in their order, and its quotations are their exact text.
func TestBringup(t *testing.T) {
	text, err := os.ReadFile("../../boards/BRINGUP.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(text)
	var shown, come []string
	for line := range strings.Lines(guide) {
		if rest, ok := strings.CutPrefix(line, "    ok      "); ok {
			shown = append(shown, strings.Fields(rest)[0])
		}
	}
	d := machine(t, nil)
	said := look(t, d)
	for _, l := range d.lines {
		come = append(come, l.Name)
	}
	if !slices.Equal(shown, come) {
		t.Errorf("the guide shows %q, doctor %q", shown, come)
	}
	for _, c := range wrong {
		d := machine(t, c.regs)
		if c.change != nil {
			c.change(d)
		}
		said += look(t, d)
	}
	for _, r := range []registers{{0xF8000170: 7<<8 | 1<<20}, {0xF8000900: 0}, {0xF8008014: 1}} {
		d := machine(t, nil)
		for at, v := range r {
			d.mem.(registers)[at] = v
		}
		said += look(t, d)
	}
	used := machine(t, nil)
	claim, err := uio.Hold(uio.Opts{Name: used.UIO, Sys: used.sys, Dev: used.dev})
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	said += look(t, used)
	said = strings.ReplaceAll(said, "TIME stands still", "TIME counts 142.857 MHz, expected 150") // the TIME of a file does not advance
	at := strings.Index(guide, "What its lines mean")
	end := strings.Index(guide, "- **interrupt**")
	if at < 0 || end < at {
		t.Fatal("the guide has no list of what the lines mean")
	}
	quoted := regexp.MustCompile(`"(?:[^"]|"unknown"|"operating")+"`).FindAllString(strings.Join(strings.Fields(guide[at:end]), " "), -1)
	if len(quoted) < 8 {
		t.Fatalf("quoted: %q", quoted)
	}
	for _, q := range quoted {
		if q = q[1 : len(q)-1]; !strings.Contains(said, q) {
			t.Errorf("the guide quotes %q, which doctor does not say", q)
		}
	}
}
