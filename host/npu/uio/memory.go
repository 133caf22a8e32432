package uio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/host/npu"
)

var nativeEndian = binary.NativeEndian

// memory is shared by the NPU and this process.
type memory struct {
	path string
	addr uint64
	// the device tree reserves the memory at a known address
	reserved bool
	bytes    []byte
	file     *os.File
	clean    func(*syncArgs) error // for cached memory: the ioctl SLUICE_DMA_SYNC
	drain    func(*syncArgs) error // for write-combined memory if there is an outer cache: the same ioctl
}

// outer means that a cache exists outside the cores: the PL310 of a Zynq-7000. Stores to write-combined memory may wait
// in the PL310's store buffer. A DSB of this process does not drain this buffer, but the kernel's barrier does.
var outer = runtime.GOARCH == "arm"

// openMemory maps the memory with the name o.Memory. It first looks for memory of this project's kernel module
// (boards/kernel/sluice_dma.c) and then, if there is no outer cache, of u-dma-buf.
func openMemory(o Opts) (*memory, error) {
	ours := filepath.Join(o.Sys, "class", "misc", o.Memory)
	if _, err := os.Stat(ours); err == nil {
		mode, err := line(filepath.Join(ours, "mode"))
		if err != nil {
			return nil, err
		}
		if mode != "cached" && mode != "write-combined" {
			return nil, fmt.Errorf("%s: expected cached or write-combined, found %q", filepath.Join(ours, "mode"), mode)
		}
		m, err := mapMemory(o, ours, mode == "cached", 0)
		if m != nil {
			m.reserved = true
		}
		return m, err
	}
	if outer {
		return nil, fmt.Errorf("%w: sluice_dma has no memory called %s: load sluice_dma.ko (behind an outer cache u-dma-buf will not do); does the device tree have its node, and reserved-memory?", ErrNoDevice, o.Memory)
	}
	theirs := filepath.Join(o.Sys, "class", "u-dma-buf", o.Memory)
	if _, err := os.Stat(theirs); err == nil {
		// 2: memory opened with O_SYNC is mapped write-combined. Only root may change this value.
		attribute := filepath.Join(theirs, "sync_mode")
		if mode, err := line(attribute); err != nil || mode != "2" {
			if err := os.WriteFile(attribute, []byte("2"), 0); err != nil {
				return nil, opening(err, "run as root, or have root write 2 to "+attribute)
			}
		}
		return mapMemory(o, theirs, false, unix.O_SYNC)
	}
	return nil, fmt.Errorf("%w: neither sluice_dma nor u-dma-buf has memory called %s: load sluice_dma.ko; does the device tree have its node, and reserved-memory?", ErrNoDevice, o.Memory)
}

func mapMemory(o Opts, class string, cached bool, flags int) (*memory, error) {
	m := &memory{path: filepath.Join(o.Dev, o.Memory)}
	switch {
	case cached:
		m.clean = m.ioctl
	case outer:
		m.drain = m.ioctl
	}
	var err error
	if m.addr, err = number(filepath.Join(class, "phys_addr")); err != nil {
		return nil, err
	}
	size, err := number(filepath.Join(class, "size"))
	if err != nil {
		return nil, err
	}
	if size == 0 || size > 1<<40 || uint64(int(size)) != size || int(size) < 0 {
		return nil, fmt.Errorf("%w: %s is %d bytes", ErrSize, class, size)
	}
	if m.file, err = os.OpenFile(m.path, os.O_RDWR|unix.O_CLOEXEC|flags, 0); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, opening(err, "add a udev rule, or run as root")
		}
		return nil, err
	}
	if m.bytes, err = unix.Mmap(int(m.file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map %d bytes of %s: %w", size, m.path, err), m.file.Close())
	}
	return m, nil
}

// syncArgs is struct sluice_dma_sync of boards/kernel/sluice_dma.h.
type syncArgs struct {
	offset, size        uint64
	direction, reserved uint32
}

// iocSync is SLUICE_DMA_SYNC: _IOW('S', 0x53, struct sluice_dma_sync), 24 bytes.
const iocSync = 1<<30 | uint(unsafe.Sizeof(syncArgs{}))<<16 | 'S'<<8 | 0x53

func (m *memory) sync(off, n int64, dir npu.Direction) error {
	a := &syncArgs{offset: uint64(off), size: uint64(n), direction: uint32(dir)}
	switch {
	case m.clean != nil:
		return m.clean(a)
	case m.drain != nil && dir == npu.ToDevice:
		return m.drain(a)
	}
	barrier(dir)
	return nil
}

func (m *memory) ioctl(a *syncArgs) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, m.file.Fd(), uintptr(iocSync), uintptr(unsafe.Pointer(a))); errno != 0 {
		return errno
	}
	return nil
}

func barrier(dir npu.Direction) {
	if dir == npu.ToDevice {
		storeBarrier()
	} else {
		loadBarrier()
	}
}

func (m *memory) close() error {
	if m.file == nil { // in tests
		return nil
	}
	return errors.Join(unix.Munmap(m.bytes), m.file.Close())
}
