//go:build !linux

package npu

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// errLinux is returned because the simulator needs Linux's memfd and SOCK_SEQPACKET.
var errLinux = errors.New("the co-simulation runs on Linux only")

func sharedMemory(int64) (*os.File, []byte, error) { return nil, nil, errLinux }

func apart() *syscall.SysProcAttr { return nil }

func unmap([]byte) error { return nil }

func socketpair() (net.Conn, *os.File, error) { return nil, nil, errLinux }

func processTime(int) (time.Duration, error) { return 0, errLinux }
