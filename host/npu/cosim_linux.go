// Linux parts of the co-simulation: shared memory, a shared socket, and a process's clock.

package npu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sharedMemory creates and maps memory that can be passed to a process.
func sharedMemory(n int64) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate("sluice-dram", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("create DRAM: %w", err)
	}
	f := os.NewFile(uintptr(fd), "sluice-dram")
	if err := f.Truncate(n); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("create DRAM of %d bytes: %w", n, err), f.Close())
	}
	mem, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("map DRAM of %d bytes: %w", n, err), f.Close())
	}
	return f, mem, nil
}

// apart starts the simulator in its own process group, so that Ctrl-C reaches only the host program. The host program
// finishes before it ends the simulator.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func unmap(mem []byte) error { return unix.Munmap(mem) }

func socketpair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "cosim"), os.NewFile(uintptr(fds[1]), "cosim")
	defer ours.Close() // FileConn duplicates the descriptor
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("socket pair: %w", err), theirs.Close())
	}
	return conn, theirs, nil
}

// processTime returns the processor time that a process has used.
func processTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil { // clock ID of a process, as in clock_getcpuclockid(3)
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
