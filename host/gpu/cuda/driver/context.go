package driver

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// ErrHeld says that a reset would affect other users of the GPU in this process.
var ErrHeld = errors.New("held by others of this process")

// holds counts the holders of a GPU. A process has one primary context per GPU (HIP: the GPU itself), and a reset
// affects the whole process. A library that does not use this package is not counted: a program with one must not
// reset.
type holds struct {
	mu sync.Mutex // also held during a reset, so that nobody takes the GPU
	by map[hold]map[*Lib]int
}

type hold struct {
	handle uintptr
	dev    Device
}

var held = holds{by: map[hold]map[*Lib]int{}}

// add adds n holds of a library, not below zero.
func (h *holds) add(l *Lib, d Device, n int) {
	k := hold{l.handle, d}
	if h.by[k] == nil {
		h.by[k] = map[*Lib]int{}
	}
	if h.by[k][l] += n; h.by[k][l] <= 0 {
		delete(h.by[k], l)
	}
}

// others counts holders other than this library.
func (h *holds) others(l *Lib, d Device) int {
	n := 0
	for other := range h.by[hold{l.handle, d}] {
		if other != l {
			n++
		}
	}
	return n
}

// Retain takes the GPU's primary context; Release returns it. For an API without contexts the handle is the GPU,
// which is reset at the last release.
func (l *Lib) Retain(d Device) (Context, error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	c := Context(d) + 1
	if l.api.names[cuDevicePrimaryCtxRetain] != "" {
		if err := l.do(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c)), uintptr(d)); err != nil {
			return 0, err
		}
	}
	held.add(l, d, 1)
	return c, nil
}

// Release returns the primary context; the last release destroys its content. It counts as returned even after an
// error, since nobody uses it any more.
func (l *Lib) Release(d Device) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.add(l, d, -1)
	switch {
	case l.api.names[cuDevicePrimaryCtxRelease] != "":
		return l.do(cuDevicePrimaryCtxRelease, uintptr(d))
	case len(held.by[hold{l.handle, d}]) > 0:
		return nil
	}
	return l.reset(d)
}

// Reset destroys the content of the primary context. It fails with ErrHeld if others in the process hold it.
func (l *Lib) Reset(d Device) error {
	held.mu.Lock()
	defer held.mu.Unlock()
	if n := held.others(l, d); n > 0 {
		return fmt.Errorf("%w: %d beside this one hold GPU %d, and a reset takes it from all: close them first", ErrHeld, n, d)
	}
	return l.reset(d)
}

func (l *Lib) reset(d Device) error {
	if l.api.names[deviceReset] == "" {
		return l.do(cuDevicePrimaryCtxReset, uintptr(d))
	}
	if err := l.do(setDevice, uintptr(d)); err != nil {
		return err
	}
	return l.do(deviceReset)
}
