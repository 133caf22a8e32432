package uio

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// model is the part of the register block that the bus uses. It refuses accesses that Device memory refuses.
type model struct {
	t       testing.TB
	irq     *os.File    // the other end of the bus's line
	closing atomic.Bool // the test has ended

	mu               sync.Mutex
	reg              map[uint32]uint32
	time             uint64
	rate             uint64 // cycles that each read of TIME adds
	masked           bool   // the kernel has masked the line
	raised           bool
	mute             bool // interrupts are lost
	ignoresSoftReset bool
	refused          []uint32
}

func (m *model) check(off uint32, write bool, v uint32) {
	if off%4 != 0 || off >= regBytes {
		m.t.Errorf("access of 32 bits at %#x of Device memory", off)
	}
	if abi.Refused(off, write, v, m.reg[abi.RegStatus]&abi.RegStatusBusyMask != 0) {
		m.refused = append(m.refused, off)
	}
}

func (m *model) load(off uint32) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.check(off, false, 0)
	switch off {
	case abi.RegTimeLo:
		m.time += m.rate
		return uint32(m.time)
	case abi.RegTimeHi:
		return uint32(m.time >> 32)
	}
	return m.reg[off]
}

func (m *model) store(off, v uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.check(off, true, v)
	switch {
	case off == abi.RegIRQStatus:
		m.reg[off] &^= v
		m.line()
	case off == abi.RegCtrl && v&abi.RegCtrlStartMask != 0:
		m.reg[abi.RegStatus] = abi.RegStatusBusyMask
	case off == abi.RegCtrl && v&abi.RegCtrlSoftResetMask != 0:
		if m.reg[abi.RegStatus]&abi.RegStatusBusyMask != 0 && !m.ignoresSoftReset {
			m.reg[abi.RegStatus] = abi.RegStatusErrorMask
			m.reg[abi.RegIRQStatus] |= abi.RegIRQStatusErrorMask
			m.line()
		}
	default:
		m.reg[off] = v
	}
}

func (m *model) close() error { return nil }

// line models interrupt controller and UIO; m.mu is held.
func (m *model) line() {
	high := m.reg[abi.RegIRQStatus]&m.reg[abi.RegIRQEnable] != 0
	if high && !m.raised && !m.masked && !m.mute {
		m.masked = true
		m.edge()
	}
	m.raised = high && m.masked
}

func (m *model) edge() {
	if _, err := m.irq.Write([]byte{1, 0, 0, 0}); err != nil && !m.closing.Load() { // nobody reads then
		m.t.Error(err)
	}
}

// end ends a start.
func (m *model) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reg[abi.RegStatus] = abi.RegStatusDoneMask
	m.reg[abi.RegIRQStatus] |= abi.RegIRQStatusDoneMask
	m.line()
}

// unmask follows the bus's writes.
func (m *model) unmask() {
	var b [4]byte
	for {
		if _, err := m.irq.Read(b[:]); err != nil {
			return
		}
		m.mu.Lock()
		m.masked, m.raised = false, false
		m.line()
		m.mu.Unlock()
	}
}

func newModel(t testing.TB) (*Bus, *model) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{t: t, irq: os.NewFile(uintptr(fds[1]), "line"), rate: 1000, reg: map[uint32]uint32{
		abi.RegID: abi.ID, abi.RegIRQEnable: 3,
	}}
	b := &Bus{regs: m, irq: os.NewFile(uintptr(fds[0]), "uio"), mem: &memory{}, running: true}
	var all sync.WaitGroup
	all.Go(m.unmask)
	t.Cleanup(func() {
		defer all.Wait()
		m.closing.Store(true)
		m.mu.Lock()
		m.ignoresSoftReset = false
		m.mu.Unlock()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		m.irq.Close()
		if len(m.refused) > 0 {
			t.Errorf("accesses that the hardware refuses reached it: %#x", m.refused)
		}
	})
	return b, m
}

func start(t *testing.T, b *Bus) {
	t.Helper()
	if err := b.WriteReg(abi.RegCtrl, abi.RegCtrlStartMask); err != nil {
		t.Fatal(err)
	}
}

func TestWaitIRQ(t *testing.T) {
	b, m := newModel(t)
	for range 3 {
		start(t, b)
		go m.end()
		if _, err := b.WaitIRQ(t.Context(), 1<<40); err != nil {
			t.Fatal(err)
		}
		if err := b.WriteReg(abi.RegIRQStatus, 3); err != nil {
			t.Fatal(err)
		}
	}
	// The model notices an unmasking later than a kernel would, so an edge may come twice.
	if all, stale := b.Interrupts(); all-stale != 3 {
		t.Errorf("%d interrupts, %d stale", all, stale)
	}
}

// TestStale: interrupt counts without a cause, before and while a start runs, are ignored.
func TestStale(t *testing.T) {
	b, m := newModel(t)
	m.edge()
	m.edge()
	start(t, b)
	go func() {
		passed := func(n uint64) {
			for _, stale := b.Interrupts(); stale < n; _, stale = b.Interrupts() {
				time.Sleep(time.Millisecond)
			}
		}
		passed(2)
		m.edge()
		passed(3)
		m.end()
	}()
	if _, err := b.WaitIRQ(t.Context(), 1<<40); err != nil {
		t.Fatal(err)
	}
	if all, stale := b.Interrupts(); all-stale != 1 || stale < 3 {
		t.Errorf("%d interrupts, %d stale", all, stale)
	}
}

func TestNoInterrupt(t *testing.T) {
	b, m := newModel(t)
	start(t, b)
	if n, err := b.WaitIRQ(t.Context(), 1500); !errors.Is(err, npu.ErrNoIRQ) || n < 1500 || strings.Contains(err.Error(), "has ended") {
		t.Errorf("a start that does not end: %d cycles, %v", n, err)
	}
	m.mu.Lock()
	m.mute = true
	m.mu.Unlock()
	m.end()
	if _, err := b.WaitIRQ(t.Context(), 1500); !errors.Is(err, npu.ErrNoIRQ) || !strings.Contains(err.Error(), "the NPU has ended") {
		t.Errorf("a line that does not arrive: %v", err)
	}
	m.mu.Lock()
	m.rate = 0
	m.mu.Unlock()
	if _, err := b.WaitIRQ(t.Context(), 1500); !errors.Is(err, npu.ErrHang) || !strings.Contains(err.Error(), "clock") {
		t.Errorf("a clock that stands still: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := b.WaitIRQ(ctx, 1<<60); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRefused: accesses that would abort the process never reach the bus (newModel's clean-up checks that).
func TestRefused(t *testing.T) {
	b, m := newModel(t)
	refused := func(err error) bool {
		e := (*npu.BusError)(nil)
		return errors.As(err, &e) && e.Resp == npu.RespSLVERR
	}
	for _, off := range []uint32{1, 2, 0x34, 0x90, 0xFFC, 0x1000, 0xFFFFFFFC} {
		if _, err := b.ReadReg(off); !refused(err) {
			t.Errorf("read %#x: %v", off, err)
		}
		if err := b.WriteReg(off, 0); !refused(err) {
			t.Errorf("write %#x: %v", off, err)
		}
	}
	for _, w := range [][2]uint32{{abi.RegID, 0}, {abi.RegBatch, 0x10}, {abi.RegTimeLo, 0}, {abi.RegStatus, 0}} {
		if err := b.WriteReg(w[0], w[1]); !refused(err) {
			t.Errorf("write %#x to %#x: %v", w[1], w[0], err)
		}
	}
	if err := b.WriteReg(abi.RegBatch, 3); err != nil {
		t.Error(err)
	}
	start(t, b)
	for _, w := range [][2]uint32{{abi.RegBatch, 3}, {abi.RegCtrl, abi.RegCtrlStartMask}, {abi.RegFBCBData, 0}} {
		if err := b.WriteReg(w[0], w[1]); !refused(err) {
			t.Errorf("busy, write %#x to %#x: %v", w[1], w[0], err)
		}
	}
	if err := b.WriteReg(abi.RegScratch0, 7); err != nil {
		t.Error(err)
	}
	m.end()
	if err := b.WriteReg(abi.RegBatch, 4); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// TestRest: a start left by an earlier process is aborted; if that is impossible, it is an error.
func TestRest(t *testing.T) {
	b, m := newModel(t)
	start(t, b)
	if err := b.rest(t.Context()); err != nil || !b.Abandoned() {
		t.Errorf("%v, abandoned: %v", err, b.Abandoned())
	}
	start(t, b)
	m.ignoresSoftReset = true
	if err := b.rest(t.Context()); !errors.Is(err, ErrStuck) {
		t.Errorf("a device that ignores soft resets: %v", err)
	}
	m.reg[abi.RegID] = 0xFFFFFFFF
	if err := b.rest(t.Context()); !errors.Is(err, npu.ErrHardware) || !strings.Contains(err.Error(), "bitstream") {
		t.Errorf("nothing there: %v", err)
	}
	m.reg[abi.RegID] = abi.ID
}

// tree is a sysfs with a device and its memory.
func tree(t *testing.T) Opts {
	t.Helper()
	o := Opts{Name: "npu", Sys: t.TempDir(), Dev: t.TempDir()}
	put(t, o.Sys, "class/uio/uio0/name", "other\n")
	put(t, o.Sys, "class/uio/uio1/name", "npu\n")
	put(t, o.Sys, "class/uio/uio1/maps/map0/addr", "0x43c00000\n")
	put(t, o.Sys, "class/uio/uio1/maps/map0/size", "0x00010000\n")
	put(t, o.Sys, "class/misc/npu-memory/mode", "write-combined\n")
	put(t, o.Sys, "class/misc/npu-memory/phys_addr", "0x30000000\n")
	put(t, o.Sys, "class/misc/npu-memory/size", "65536\n")
	var regs [regBytes]byte
	nativeEndian.PutUint32(regs[abi.RegID:], abi.ID)
	put(t, o.Dev, "uio1", string(regs[:]))
	put(t, o.Dev, "npu-memory", strings.Repeat("\x00", 65536))
	return o
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestOpen(t *testing.T) {
	defer func(was bool) { outer = was }(outer)
	outer = false // a regular file has no module behind it
	o := tree(t)
	claim, err := Hold(o)
	if err != nil {
		t.Fatal(err)
	}
	if busy, err := claim.Busy(); busy || err != nil {
		t.Errorf("busy: %v, %v", busy, err)
	}
	if b, err := Open(t.Context(), o); !errors.Is(err, ErrBusy) {
		t.Errorf("opened what is held: %v, %v", b, err)
	}
	if err := claim.Close(); err != nil {
		t.Error(err)
	}
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Open(t.Context(), o); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("opened twice: %v, %v", b, err)
	}
	if c, err := Hold(o); !errors.Is(err, ErrBusy) {
		t.Errorf("held what is open: %v, %v", c, err)
	}
	mem, base := b.DRAM()
	if len(mem) != 65536 || base != 0x30000000 {
		t.Errorf("%d bytes at %#x", len(mem), base)
	}
	if id, err := b.ReadReg(abi.RegID); id != abi.ID || err != nil {
		t.Errorf("ID %#x, %v", id, err)
	}
	copy(mem[3:], "unaligned")
	for _, c := range []struct {
		off, n int64
		ok     bool
	}{{0, 65536, true}, {65536, 0, true}, {65536, 1, false}, {-1, 1, false}, {1, 65536, false}, {0, -1, false}} {
		if err := b.Sync(c.off, c.n, npu.ToDevice); (err == nil) != c.ok {
			t.Errorf("sync %d bytes from %d: %v", c.n, c.off, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.ReadReg(0); !errors.Is(err, npu.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if b, err = Open(t.Context(), o); err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestOuter: with an outer cache, the module executes the barrier for stores to write-combined memory.
func TestOuter(t *testing.T) {
	defer func(was bool) { outer = was }(outer)
	for _, outer = range []bool{false, true} {
		b, err := Open(t.Context(), tree(t))
		if err != nil {
			t.Fatal(err)
		}
		if (b.mem.drain != nil) != outer {
			t.Errorf("outer cache %v, the module's barrier %v", outer, b.mem.drain != nil)
		}
		var asked []syncArgs
		if b.mem.drain != nil {
			b.mem.drain = func(a *syncArgs) error { asked = append(asked, *a); return nil }
		}
		if err := errors.Join(b.Sync(64, 100, npu.ToDevice), b.Sync(64, 100, npu.FromDevice)); err != nil {
			t.Error(err)
		}
		if want := []syncArgs{{offset: 64, size: 100, direction: uint32(npu.ToDevice)}}; outer && !slices.Equal(asked, want) {
			t.Errorf("asked the module for %v, expected %v", asked, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		o := tree(t)
		os.RemoveAll(filepath.Join(o.Sys, "class/misc"))
		put(t, o.Sys, "class/u-dma-buf/npu-memory/phys_addr", "0x30000000\n")
		put(t, o.Sys, "class/u-dma-buf/npu-memory/size", "65536\n")
		put(t, o.Sys, "class/u-dma-buf/npu-memory/sync_mode", "1\n")
		b, err = Open(t.Context(), o)
		if (err != nil) != outer || outer && !errors.Is(err, ErrNoDevice) {
			t.Errorf("outer cache %v, u-dma-buf: %v", outer, err)
		}
		if err == nil {
			b.Close()
		}
	}
}

// TestNamelessNeighbour: another driver's device without a name is skipped.
func TestNamelessNeighbour(t *testing.T) {
	o := tree(t)
	if err := os.Remove(filepath.Join(o.Sys, "class/uio/uio0/name")); err != nil {
		t.Fatal(err)
	}
	if d, err := Find(o); err != nil || d.Name != "npu" {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestSyncMode: only root may write u-dma-buf's mode; it is not written if it is right already.
func TestSyncMode(t *testing.T) {
	defer func(was bool) { outer = was }(outer)
	outer = false
	o := tree(t)
	os.RemoveAll(filepath.Join(o.Sys, "class/misc"))
	put(t, o.Sys, "class/u-dma-buf/npu-memory/phys_addr", "0x30000000\n")
	put(t, o.Sys, "class/u-dma-buf/npu-memory/size", "65536\n")
	put(t, o.Sys, "class/u-dma-buf/npu-memory/sync_mode", "1\n")
	attribute := filepath.Join(o.Sys, "class/u-dma-buf/npu-memory/sync_mode")
	for _, want := range []string{"2", "2\n"} { // once to write it, once to find it right
		if want == "2\n" {
			put(t, o.Sys, "class/u-dma-buf/npu-memory/sync_mode", want)
		}
		b, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(attribute); string(text) != want || b.Reserved() {
			t.Errorf("sync_mode is %q, %v, expected %q; reserved: %v", text, err, want, b.Reserved())
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoLine: a node without an interrupt gives an error that says so. Writing where nothing is mapped ends with EIO,
// as in the kernel's uio_write.
func TestNoLine(t *testing.T) {
	b, _ := newModel(t)
	start(t, b)
	was := b.irq
	defer func() { b.irq = was }()
	var err error
	if b.irq, err = os.OpenFile("/proc/self/mem", os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	defer b.irq.Close()
	if _, err := b.WaitIRQ(t.Context(), 1500); !errors.Is(err, npu.ErrNoIRQ) || !strings.Contains(err.Error(), "needs interrupts") {
		t.Errorf("%v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(o *Opts)
		is    error
		says  string
	}{
		"no UIO": {func(o *Opts) { os.RemoveAll(filepath.Join(o.Sys, "class/uio")) }, ErrNoDevice, "load uio"},
		"none": {func(o *Opts) {
			os.RemoveAll(filepath.Join(o.Sys, "class/uio/uio0"))
			os.RemoveAll(filepath.Join(o.Sys, "class/uio/uio1"))
		}, ErrNoDevice, "of_id=generic-uio"},
		"another":            {func(o *Opts) { o.Name = "dpu" }, ErrNoDevice, "uio0 (other), uio1 (npu)"},
		"no name of another": {func(o *Opts) { os.Remove(filepath.Join(o.Sys, "class/uio/uio0/name")); o.Name = "dpu" }, ErrNoDevice, "uio0 (no name), uio1 (npu)"},
		"no registers":       {func(o *Opts) { os.RemoveAll(filepath.Join(o.Sys, "class/uio/uio1/maps")) }, ErrNoDevice, "uio1 (npu) has no registers: its node in the device tree needs reg"},
		"two": {func(o *Opts) {
			put(t, o.Sys, "class/uio/uio0/name", "npu")
			put(t, o.Sys, "class/uio/uio0/maps/map0/addr", "0")
			put(t, o.Sys, "class/uio/uio0/maps/map0/size", "0")
		}, ErrNoDevice, "2 UIO devices"},
		"small registers": {func(o *Opts) { put(t, o.Sys, "class/uio/uio1/maps/map0/size", "0x800") }, ErrSize, "expected 4096"},
		"bad number":      {func(o *Opts) { put(t, o.Sys, "class/uio/uio1/maps/map0/size", "many") }, nil, `found "many"`},
		"no node":         {func(o *Opts) { os.Remove(filepath.Join(o.Dev, "uio1")) }, ErrNoDevice, "devtmpfs"},
		"no memory":       {func(o *Opts) { os.RemoveAll(filepath.Join(o.Sys, "class/misc")) }, ErrNoDevice, "sluice_dma.ko"},
		"small memory":    {func(o *Opts) { o.Bytes = 65537 }, ErrSize, "65537 are needed"},
		"odd mode":        {func(o *Opts) { put(t, o.Sys, "class/misc/npu-memory/mode", "device") }, nil, `found "device"`},
		"no NPU":          {func(o *Opts) { put(t, o.Dev, "uio1", strings.Repeat("\x00", regBytes)) }, npu.ErrHardware, "is the bitstream loaded"},
	} {
		o := tree(t)
		c.spoil(&o)
		b, err := Open(t.Context(), o)
		if err == nil {
			b.Close()
			t.Errorf("%s: opened", what)
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q", what, err, c.says)
		}
	}
	if err := opening(&fs.PathError{Op: "open", Path: "/dev/uio0", Err: unix.EACCES}, "hint"); !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), "hint") {
		t.Errorf("permission: %v", err)
	}
}
