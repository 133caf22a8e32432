// Package uio is the bus of an NPU on a board. It accesses registers and interrupt through Linux' UIO, and memory
// through a small kernel module (boards/kernel) or u-dma-buf. It is pure Go, without C and without /dev/mem.
//
// # Memory and order
//
// On both boards, the HP ports are not coherent with the ARM cores' caches. This package needs no coherence:
//
//   - Registers are Device memory. Accesses are 32 bits wide, aligned, in program order, and never merged. They use
//     sync/atomic, so neither compiler nor CPU reorders them.
//   - Shared memory is mapped Normal and non-cacheable (write-combined). Wide and unaligned accesses, including the
//     function copy, are legal there. On Device memory they would cause SIGBUS on arm64. A later register write may
//     overtake writes in the CPU's write buffer. So Sync(ToDevice) is a barrier that waits until all stores are
//     complete. On arm64 the barrier is DSB ST, full system. On 32-bit ARM the module executes the barrier, because
//     only the kernel can drain the store buffer in the PL310 of a Zynq-7000. Sync(FromDevice) prevents later loads
//     from overtaking the register read that showed the end of the start (DMB, full system).
//   - If the module maps the memory cached, Sync requests the kernel to clean (ToDevice) or invalidate (FromDevice) the
//     range by address, to the point of coherency, with the same barriers. Open cleans the whole memory, because a
//     dirty cache line of an earlier process could later overwrite the NPU's data.
//
// # Interrupts
//
// The line is level-triggered. UIO converts it to edges: UIO's handler counts an interrupt and masks the line, and a
// write unmasks the line. WaitIRQ does not rely on the count. After each interrupt it checks whether the NPU has raised
// a cause. Without a cause (stale or spurious), it unmasks the line and continues to wait, so a stale count is not
// reported as a hang. If the line never rises, WaitIRQ returns npu.ErrNoIRQ. The error's text reports if the NPU has
// raised a cause nevertheless.
//
// # Errors of the register bus
//
// An AXI error on a store causes an imprecise abort, which kills the process at another instruction. So accesses that
// the register map refuses are not sent to the bus. They return the *npu.BusError that corresponds to the hardware's
// answer.
package uio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Errors of Open. Open adds instructions to each error.
var (
	ErrNoDevice   = errors.New("no such device")
	ErrPermission = errors.New("not permitted")
	ErrSize       = errors.New("too small")
	ErrStuck      = errors.New("the NPU does not become idle")
	ErrBusy       = npu.ErrBusy
)

// Opts selects the NPU. Zero fields select the default.
type Opts struct {
	Name   string // name of the UIO device: the node name in the device tree (default "npu")
	Memory string // name of the memory's device (default Name + "-memory")
	Bytes  int64  // minimum size of the memory
	// Sys and Dev are the mount points of sysfs and devtmpfs (default /sys, /dev).
	Sys, Dev string
}

// Bus is an NPU behind UIO. It implements npu.Bus and npu.Syncer.
type Bus struct {
	regs   registers
	irq    *os.File
	mem    *memory
	events atomic.Uint64
	stale  atomic.Uint64

	mu      sync.Mutex // for registers
	running bool       // a start may be running, because its end has not been observed
	found   bool       // Open found a running start of an earlier process
	closed  bool
}

const regBytes = 0x1000

// registers are Device memory, which allows only aligned accesses of 32 bits. Tests use another implementation.
type registers interface {
	load(off uint32) uint32
	store(off, v uint32)
	close() error
}

// mapped contains memory-mapped registers.
type mapped []byte

func (m mapped) load(off uint32) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&m[off])))
}

func (m mapped) store(off, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&m[off])), v)
}

func (m mapped) close() error { return unix.Munmap(m) }

// Open finds an NPU and makes it idle: it aborts a start of an earlier process, because this start could write to
// memory that is now in use elsewhere.
func Open(ctx context.Context, o Opts) (*Bus, error) {
	b, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open NPU %s: %w", o.defaults().Name, err)
	}
	return b, nil
}

func (o Opts) defaults() Opts {
	o.Name = cmp.Or(o.Name, "npu")
	o.Memory = cmp.Or(o.Memory, o.Name+"-memory")
	o.Sys = cmp.Or(o.Sys, "/sys")
	o.Dev = cmp.Or(o.Dev, "/dev")
	return o
}

func open(ctx context.Context, o Opts) (b *Bus, err error) {
	o = o.defaults()
	d, err := Find(o)
	if err != nil {
		return nil, err
	}
	if d.Bytes < regBytes {
		return nil, fmt.Errorf("%w: the registers of %s are %d bytes, expected %d: correct reg in the device tree", ErrSize, d.Path, d.Bytes, regBytes)
	}
	b = &Bus{running: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
			b = nil
		}
	}()
	if b.irq, err = os.OpenFile(d.Path, os.O_RDWR|unix.O_SYNC|unix.O_CLOEXEC, 0); err != nil {
		return b, opening(err, "add a udev rule, or run as root")
	}
	if err = own(b.irq); err != nil {
		return b, err
	}
	conn, err := b.irq.SyscallConn()
	if err != nil {
		return b, err
	}
	var mapErr error
	if err = conn.Control(func(fd uintptr) {
		var m []byte
		if m, mapErr = unix.Mmap(int(fd), 0, regBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); mapErr == nil {
			b.regs = mapped(m)
		}
	}); err == nil {
		err = mapErr
	}
	if err != nil {
		return b, fmt.Errorf("map the registers of %s: %w", d.Path, err)
	}
	if b.mem, err = openMemory(o); err != nil {
		return b, err
	}
	if int64(len(b.mem.bytes)) < o.Bytes {
		return b, fmt.Errorf("%w: %d bytes of memory at %s, %d are needed: enlarge reserved-memory in the device tree",
			ErrSize, len(b.mem.bytes), b.mem.path, o.Bytes)
	}
	return b, b.begin(ctx)
}

// begin makes the NPU idle and cleans the caches.
func (b *Bus) begin(ctx context.Context) error {
	if err := b.rest(ctx); err != nil || b.mem.clean == nil {
		return err
	}
	return b.Sync(0, int64(len(b.mem.bytes)), npu.ToDevice)
}

// own locks the device for this process until the file is closed, because two processes on one NPU would reset each
// other's starts and overwrite each other's data.
func own(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lock error
	if err := conn.Control(func(fd uintptr) { lock = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return err
	}
	switch {
	case errors.Is(lock, unix.EWOULDBLOCK):
		return fmt.Errorf("%s: %w", f.Name(), ErrBusy)
	case lock != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), lock)
	}
	return nil
}

// Claim is an NPU that this process has locked without using its registers, in order to replace the PL's contents.
type Claim struct {
	file  *os.File
	bytes int64
}

// Hold locks an NPU until Close. It returns ErrBusy if another process uses the NPU.
func Hold(o Opts) (*Claim, error) {
	d, err := Find(o)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.Path, os.O_RDWR|unix.O_SYNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, opening(err, "add a udev rule, or run as root")
	}
	if err := own(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Claim{f, d.Bytes}, nil
}

// Close unlocks the NPU.
func (c *Claim) Close() error { return c.file.Close() }

// Busy reports whether a start is running. It reads no other state. The PL must be configured.
func (c *Claim) Busy() (bool, error) {
	if c.bytes < regBytes {
		return false, fmt.Errorf("%w: the registers of %s are %d bytes, expected %d", ErrSize, c.file.Name(), c.bytes, regBytes)
	}
	m, err := unix.Mmap(int(c.file.Fd()), 0, regBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return false, fmt.Errorf("map the registers of %s: %w", c.file.Name(), err)
	}
	r := mapped(m)
	defer r.close()
	if id := r.load(abi.RegID); id != abi.ID {
		return false, fmt.Errorf("%w: ID is %#08x, expected %#08x", npu.ErrHardware, id, uint32(abi.ID))
	}
	return r.load(abi.RegStatus)&abi.RegStatusBusyMask != 0, nil
}

// opening adds the reason and a hint to the error of a failed open.
func opening(err error, hint string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w: %s", ErrPermission, err, hint)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w: is devtmpfs mounted?", ErrNoDevice, err)
	}
	return err
}

// Device is the description of a UIO device in sysfs.
type Device struct {
	Path  string // /dev/uio0
	Name  string
	Addr  uint64 // address of the registers
	Bytes int64
}

// Find finds a device by name. It returns an error if no device or several devices have this name.
func Find(o Opts) (Device, error) {
	o = o.defaults()
	class := filepath.Join(o.Sys, "class", "uio")
	entries, err := os.ReadDir(class)
	if err != nil {
		return Device{}, fmt.Errorf("%w: %w: load uio and uio_pdrv_genirq (of_id=generic-uio)", ErrNoDevice, err)
	}
	var found []Device
	var others []string
	for _, e := range entries {
		name, err := line(filepath.Join(class, e.Name(), "name"))
		if err != nil { // the device belongs to another driver and has no name, or is being removed
			others = append(others, e.Name()+" (no name)")
			continue
		}
		if name != o.Name {
			others = append(others, fmt.Sprintf("%s (%s)", e.Name(), name))
			continue
		}
		d := Device{Path: filepath.Join(o.Dev, e.Name()), Name: name}
		if d.Addr, err = number(filepath.Join(class, e.Name(), "maps", "map0", "addr")); errors.Is(err, fs.ErrNotExist) {
			return Device{}, fmt.Errorf("%w: UIO device %s (%s) has no registers: its node in the device tree needs reg", ErrNoDevice, e.Name(), name)
		} else if err != nil {
			return Device{}, err
		}
		size, err := number(filepath.Join(class, e.Name(), "maps", "map0", "size"))
		if err != nil {
			return Device{}, err
		}
		d.Bytes = int64(min(size, 1<<62))
		found = append(found, d)
	}
	slices.Sort(others)
	switch {
	case len(found) > 1:
		return Device{}, fmt.Errorf("%w: %d UIO devices are called %s", ErrNoDevice, len(found), o.Name)
	case len(found) == 0 && len(others) == 0:
		return Device{}, fmt.Errorf("%w: there is no UIO device: is the device tree's node there (status okay), and uio_pdrv_genirq given of_id=generic-uio?", ErrNoDevice)
	case len(found) == 0:
		return Device{}, fmt.Errorf("%w: no UIO device is called %s; there are %s", ErrNoDevice, o.Name, strings.Join(others, ", "))
	}
	return found[0], nil
}

func line(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// number reads a file with a decimal number or a hexadecimal number (0x).
func number(path string) (uint64, error) {
	text, err := line(path)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: expected a number, found %q", path, text)
	}
	return v, nil
}

// ReadReg implements npu.Bus.
func (b *Bus) ReadReg(off uint32) (uint32, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, npu.ErrClosed
	}
	if abi.Refused(off, false, 0, false) {
		return 0, &npu.BusError{Off: off, Resp: npu.RespSLVERR}
	}
	return b.read(off), nil
}

func (b *Bus) read(off uint32) uint32 {
	v := b.regs.load(off)
	if off == abi.RegStatus {
		b.running = v&abi.RegStatusBusyMask != 0
	}
	return v
}

// WriteReg implements npu.Bus.
func (b *Bus) WriteReg(off, v uint32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return npu.ErrClosed
	}
	// Some accesses are refused only while a start is running. If the end of the start has not been observed, STATUS
	// shows whether the start is still running.
	busy := b.running && abi.Refused(off, true, v, true) && b.read(abi.RegStatus)&abi.RegStatusBusyMask != 0
	if abi.Refused(off, true, v, busy) {
		return &npu.BusError{Write: true, Off: off, Val: v, Resp: npu.RespSLVERR}
	}
	b.regs.store(off, v)
	if off == abi.RegCtrl && v&abi.RegCtrlStartMask != 0 {
		b.running = true
	}
	return nil
}

// DRAM implements npu.Bus.
func (b *Bus) DRAM() (window []byte, base uint64) { return b.mem.bytes, b.mem.addr }

// Mapping returns the name of the memory's mapping.
func (b *Bus) Mapping() string {
	if b.mem.clean != nil {
		return "cached"
	}
	return "write-combined"
}

// Sync implements npu.Syncer.
func (b *Bus) Sync(off, n int64, dir npu.Direction) error {
	if off < 0 || n < 0 || n > int64(len(b.mem.bytes)) || off > int64(len(b.mem.bytes))-n {
		return fmt.Errorf("sync: %d bytes from %d, of %d: %w", n, off, len(b.mem.bytes), npu.ErrRequest)
	}
	if err := b.mem.sync(off, n, dir); err != nil {
		return fmt.Errorf("sync %d bytes from %d: %w", n, off, err)
	}
	return nil
}

// Interrupts returns how many interrupts the kernel counted, and how many of them had no raised cause.
func (b *Bus) Interrupts() (all, stale uint64) { return b.events.Load(), b.stale.Load() }

// Reserved reports whether the device tree reserves the memory at a fixed address. u-dma-buf chooses any address.
func (b *Bus) Reserved() bool { return b.mem.reserved }

// Abandoned reports whether Open found a running start of an earlier process.
func (b *Bus) Abandoned() bool { return b.found }

// Time returns the NPU's free-running count of cycles.
func (b *Bus) Time() (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, npu.ErrClosed
	}
	return b.time(), nil
}

func (b *Bus) time() uint64 {
	lo := b.regs.load(abi.RegTimeLo) // reading it latches the upper half
	return uint64(b.regs.load(abi.RegTimeHi))<<32 | uint64(lo)
}

const (
	look     = 100 * time.Millisecond // interval at which the NPU's clock is read during the wait for an interrupt
	standing = 2 * time.Second        // time after which a clock that has not changed counts as stopped
)

// WaitIRQ implements npu.Bus. The limit is in ticks of TIME. If the clock has stopped, the error is npu.ErrHang.
func (b *Bus) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	began, err := b.Time()
	if err != nil {
		return 0, err
	}
	last, moved := began, time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return last - began, fmt.Errorf("wait for the interrupt: %w", err)
		}
		came, err := b.event(ctx, look)
		if err != nil {
			return last - began, fmt.Errorf("wait for the interrupt: %w", err)
		}
		now, raised, err := b.state()
		if err != nil {
			return last - began, err
		}
		if now != last {
			last, moved = now, time.Now()
		}
		switch {
		case came && raised:
			return now - began, nil
		case came:
			b.stale.Add(1)
		}
		switch {
		case now-began >= limit && raised:
			return now - began, fmt.Errorf("%w: the NPU has ended, and its interrupt does not arrive: compare the device tree's interrupt with the block design's", npu.ErrNoIRQ)
		case now-began >= limit:
			return now - began, npu.ErrNoIRQ
		case time.Since(moved) > standing:
			return now - began, fmt.Errorf("%w: its clock stands still", npu.ErrHang)
		}
	}
}

// state returns TIME, and whether an enabled cause is raised.
func (b *Bus) state() (now uint64, raised bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, false, npu.ErrClosed
	}
	return b.time(), b.regs.load(abi.RegIRQStatus)&b.regs.load(abi.RegIRQEnable) != 0, nil
}

// event unmasks the line and waits for an interrupt. "came" is false if no interrupt occurred within the limit.
func (b *Bus) event(ctx context.Context, limit time.Duration) (came bool, err error) {
	one := [4]byte{}
	nativeEndian.PutUint32(one[:], 1)
	if _, err := b.irq.Write(one[:]); err != nil {
		if errors.Is(err, unix.EIO) { // uio_write returns EIO only if the device has no interrupt
			return false, fmt.Errorf("%w: %s has no interrupt: its node in the device tree needs interrupts (and interrupt-parent): %w", npu.ErrNoIRQ, b.irq.Name(), err)
		}
		return false, fmt.Errorf("unmask: %w", closedErr(err))
	}
	if err := b.irq.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return false, closedErr(err)
	}
	stop := context.AfterFunc(ctx, func() { b.irq.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	var count [4]byte
	switch _, err := b.irq.Read(count[:]); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	case err != nil:
		return false, closedErr(err)
	}
	b.events.Add(1)
	return true, nil
}

func closedErr(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return npu.ErrClosed
	}
	return err
}

// rest makes the NPU idle: it aborts a running start.
func (b *Bus) rest(ctx context.Context) error {
	if id := b.regs.load(abi.RegID); id != abi.ID {
		b.running = false // the running start is not from this process
		return fmt.Errorf("%w: ID is %#08x, expected %#08x: is the bitstream loaded, and the PL clock on?", npu.ErrHardware, id, uint32(abi.ID))
	}
	if b.read(abi.RegStatus)&abi.RegStatusBusyMask == 0 {
		return nil
	}
	b.found = true
	b.regs.store(abi.RegCtrl, abi.RegCtrlSoftResetMask)
	began := time.Now()
	for b.read(abi.RegStatus)&abi.RegStatusBusyMask != 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(began) > standing {
			return fmt.Errorf("%w: an earlier start still runs %v after a soft reset: reset the PL", ErrStuck, standing)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Close implements npu.Bus. It first aborts a running start, because the memory will be freed.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	var errs []error
	if b.regs != nil && b.mem != nil && b.running {
		errs = append(errs, b.rest(context.Background()))
	}
	b.closed = true
	if b.irq != nil {
		errs = append(errs, b.irq.Close())
	}
	if b.regs != nil {
		errs = append(errs, b.regs.close())
	}
	if b.mem != nil {
		errs = append(errs, b.mem.close())
	}
	return errors.Join(errs...)
}
