package board

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/boards"
)

// peeker reads 32-bit registers of the processing system.
type peeker interface {
	peek(addr uint64) (uint32, error)
}

// devMem reads registers through /dev/mem. An application has no other access to the configuration of the PL's ports.
type devMem string

func (path devMem) peek(addr uint64) (uint32, error) {
	f, err := os.OpenFile(string(path), os.O_RDONLY|unix.O_SYNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := uint64(os.Getpagesize())
	m, err := unix.Mmap(int(f.Fd()), int64(addr/page*page), int(page), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("map %#x of %s: %w", addr, path, err)
	}
	defer unix.Munmap(m)
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&m[addr%page]))), nil
}

// errPL is wrapped by errors about the PL's surroundings.
var errPL = errors.New("the PL")

// Registers of the processing systems: UG585, appendix B (Zynq-7000); UG1087 (UltraScale+).
const (
	zynqPLL      = 0xF8000100 // ARM, DDR and IO PLL, at distances of 4 bytes
	zynqFCLK0    = 0xF8000170 // FPGA0_CLK_CTRL
	zynqThrottle = 0xF8000178 // FPGA0_THR_CNT: 1 stops the clock
	zynqReset    = 0xF8000240 // FPGA_RST_CTRL
	zynqShifters = 0xF8000900 // LVL_SHFTR_EN
	zynqAFI      = 0xF8008000 // AFI0; the registers of further ports follow at distances of 0x1000

	mpIOPLL  = 0xFF5E0020
	mpRPLL   = 0xFF5E0030
	mpDPLL   = 0xFD1A002C
	mpDPLLTo = 0xFD1A004C // DPLL_TO_LPD_CTRL
	mpPL0    = 0xFF5E00C0 // PL0_REF_CTRL
	mpEMIO5  = 0xFF0A0054 // GPIO DATA_5: bit 31 is pl_resetn0
	mpFPD    = 0xFD615000 // FPD_SLCR.afi_fs: widths of HPM0 (bits 9:8) and HPM1 (11:10)
	mpLPD    = 0xFF419000 // LPD_SLCR.afi_fs: width of HPM0_LPD (9:8)
	mpAFI    = 0xFD380000 // AFIFM2, which belongs to HP0; the registers of further ports follow at distances of 0x10000
	afiWrite = 0x14       // offset from the read channel's register to the write channel's register
)

// pl reads the surroundings of a board's PL. After the first failed read, it reads no more registers.
type pl struct {
	peeker
	board boards.Board
	err   error
}

func (p *pl) read(addr uint64) uint32 {
	if p.err != nil {
		return 0
	}
	v, err := p.peek(addr)
	if err != nil {
		p.err = fmt.Errorf("read %#x: %w", addr, err)
	}
	return v
}

func (p *pl) zynq() bool { return p.board.Family == boards.Series7 }

// clock returns the PL clock's frequency in MHz, or 0 if the clock is stopped.
func (p *pl) clock() (mhz float64, err error) {
	ratio := func(mul, div0, div1 uint32) float64 {
		if div0 == 0 || div1 == 0 {
			return 0
		}
		return p.board.Clocks.PSRefMHz * float64(mul) / float64(div0) / float64(div1)
	}
	if p.zynq() {
		v := p.read(zynqFCLK0)
		pll := uint64(8) // IO
		if v>>5&1 == 1 {
			pll = uint64(v>>4&1) * 4 // ARM or DDR
		}
		mhz = ratio(p.read(zynqPLL+pll)>>12&0x7F, v>>8&0x3F, v>>20&0x3F)
		if p.read(zynqThrottle)&1 == 1 {
			mhz = 0
		}
		return mhz, p.err
	}
	v := p.read(mpPL0)
	at, div := uint64(mpIOPLL), uint32(1)
	switch v & 7 {
	case 2:
		at = mpRPLL
	case 3:
		at, div = mpDPLL, p.read(mpDPLLTo)>>8&0x3F
	}
	c := p.read(at)
	if c>>16&1 == 1 {
		div *= 2
	}
	mhz = ratio(c>>8&0x7F, v>>8&0x3F, v>>16&0x3F)
	if div == 0 || v>>24&1 == 0 {
		return 0, p.err
	}
	return mhz / float64(div), p.err
}

// clockStopped returns the error for a PL with a stopped clock. A read from such a PL would never complete.
func (p *pl) clockStopped(name string) error {
	return fmt.Errorf("%w's clock %s stands still: a read from the NPU would hang the processor; give the kernel clk_ignore_unused", errPL, name)
}

func (p *pl) clockName() string {
	if p.zynq() {
		return "FCLK0"
	}
	return "PL0"
}

// awake returns an error if the PL cannot answer accesses, because its clock is stopped or its reset is active.
func (p *pl) awake() error {
	mhz, err := p.clock()
	if err == nil && mhz == 0 {
		err = p.clockStopped(p.clockName())
	}
	if err != nil {
		return err
	}
	_, err = p.checkReset()
	return err
}

// hidden reports whether the only reason for an error is that a register cannot be read.
func hidden(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
}

// Awake returns an error if an access to this machine's PL would hang the processor. It also returns nil if it cannot
// check this: without DEVMEM in the kernel, without root, or on another machine.
func Awake() error { return awake("/proc", devMem("/dev/mem")) }

func awake(proc string, mem peeker) error {
	text, err := os.ReadFile(filepath.Join(proc, "device-tree", "compatible"))
	if err != nil {
		return nil
	}
	family := ""
	for _, is := range strings.Split(string(text), "\x00") {
		for f, name := range compatible {
			if is == name {
				family = f
			}
		}
	}
	if family == "" {
		return nil
	}
	// The crystal's frequency is unknown, but it does not change whether the clock runs.
	p := pl{peeker: mem, board: boards.Board{Family: family, Clocks: boards.Clocks{PSRefMHz: 1}}}
	if err := p.awake(); err != nil && !hidden(err) {
		return err
	}
	return nil
}

// Surroundings compares clock and reset of this machine's PL with a board file. found describes the readings. A
// register that cannot be read is not an error.
func Surroundings(b boards.Board) (found []string, err error) {
	return surroundings(b, devMem("/dev/mem"))
}

func surroundings(b boards.Board, mem peeker) (found []string, err error) {
	for _, check := range []func(*pl) (string, error){(*pl).checkClock, (*pl).checkReset, (*pl).checkMaster} {
		text, bad := check(&pl{peeker: mem, board: b})
		if hidden(bad) {
			text, bad = fmt.Sprintf("not looked at: %v", bad), nil
		}
		found = append(found, text)
		err = errors.Join(err, bad)
	}
	return found, err
}

// compatible contains the name of each family's machines in device trees.
var compatible = map[string]string{boards.Series7: "xlnx,zynq-7000", boards.UltraScalePlus: "xlnx,zynqmp"}

// checkClock compares the clock with the board file.
func (p *pl) checkClock() (found string, err error) {
	mhz, err := p.clock()
	want := p.board.Clocks.PLMHz
	name := p.clockName()
	found = fmt.Sprintf("%s %.3f MHz", name, mhz)
	switch {
	case err != nil:
	case mhz == 0:
		err = p.clockStopped(name)
	case math.Abs(mhz/want-1) > 0.001:
		err = fmt.Errorf("%w's clock %s is %.3f MHz, %s asks for %g, from which the design's MMCM makes its own: load the first-stage loader of this design's hardware platform",
			errPL, name, mhz, p.board.Name, want)
	}
	return found, err
}

// checkReset checks that reset is off and the level shifters are on.
func (p *pl) checkReset() (found string, err error) {
	if p.zynq() {
		reset, shifters := p.read(zynqReset), p.read(zynqShifters)
		found, err = fmt.Sprintf("FPGA_RST_CTRL %#x, LVL_SHFTR_EN %#x", reset, shifters), p.err
		switch {
		case err != nil:
		case reset&1 != 0:
			err = fmt.Errorf("%w is held in reset (%s): a read from the NPU would hang the processor", errPL, found)
		case shifters&0xF != 0xF:
			err = fmt.Errorf("%w's level shifters are off (%s): what loaded the bitstream has to turn them on", errPL, found)
		}
		return found, err
	}
	data := p.read(mpEMIO5)
	found, err = fmt.Sprintf("pl_resetn0 %d", data>>31), p.err
	if err == nil && data>>31 == 0 {
		err = fmt.Errorf("%w is held in reset (GPIO DATA_5 is %#x, bit 31 is pl_resetn0): a read from the NPU would hang the processor", errPL, data)
	}
	return found, err
}

// checkMaster checks that the port to the registers is 32 bits wide. A Zynq-7000 supports no other width.
func (p *pl) checkMaster() (found string, err error) {
	name, bits := p.board.Registers.Port, 32
	if !p.zynq() {
		at, shift := uint64(mpFPD), 8
		switch name {
		case "HPM1":
			shift = 10
		case "HPM0_LPD":
			at = mpLPD
		}
		bits = 32 << (p.read(at) >> shift & 3)
		if p.err == nil && bits != 32 {
			err = fmt.Errorf("%w's register port %s has %d bits, the design 32 (afi_fs at %#x): load the first-stage loader of this design's hardware platform", errPL, name, bits, at)
		}
	}
	return fmt.Sprintf("%s %d bit", name, bits), errors.Join(p.err, err)
}

func (p *pl) width(code uint32) int {
	if p.zynq() {
		return 64 >> (code & 1)
	}
	return 128 >> (code & 3)
}

// checkAFI checks that the first n memory ports have the design's width in bits.
func (p *pl) checkAFI(n, bits int) (found string, err error) {
	if n > len(p.board.Ports.Names) {
		return "", fmt.Errorf("the design has %d memory ports, %s %d", n, p.board.Name, len(p.board.Ports.Names))
	}
	for _, name := range p.board.Ports.Names[:n] {
		var hp uint64
		if _, err := fmt.Sscanf(name, "HP%d", &hp); err != nil {
			return "", fmt.Errorf("port %q of %s: expected HP0 to HP3", name, p.board.Name)
		}
		at := mpAFI + hp*0x10000
		if p.zynq() {
			at = zynqAFI + hp*0x1000
		}
		read, write := p.width(p.read(at)), p.width(p.read(at+afiWrite))
		if p.err != nil {
			return "", p.err
		}
		if found != "" {
			found += ", "
		}
		found += fmt.Sprintf("%s %d/%d bit", name, read, write)
		if read != bits || write != bits {
			err = errors.Join(err, fmt.Errorf("%s reads %d and writes %d bits, the design has %d: %#x and %#x keep the width of another design; the first-stage loader of its own hardware platform sets them",
				name, read, write, bits, at, at+afiWrite))
		}
	}
	return found, err
}
