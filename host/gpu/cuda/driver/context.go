package driver

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// ErrHeld is returned for a reset that would destroy the work of other users of the GPU in this process.
var ErrHeld = errors.New("held by others of this process")

// holds counts the users of a GPU. A process has one primary context per GPU (HIP: the GPU itself), so a reset affects
// the whole process. Only users of this package are counted. A program in which another library also uses the GPU must
// not reset.
type holds struct {
	mu sync.Mutex // locked during a reset too, so that nobody retains the GPU at that time
	by map[hold]map[*Lib]int
}

type hold struct {
	handle uintptr
	dev    Device
}

var held = holds{by: map[hold]map[*Lib]int{}}

// add changes the number of a library's holds by n, which may be negative. The number does not fall below zero.
func (h *holds) add(l *Lib, d Device, n int) {
	k := hold{l.handle, d}
	if h.by[k] == nil {
		h.by[k] = map[*Lib]int{}
	}
	if h.by[k][l] += n; h.by[k][l] <= 0 {
		delete(h.by[k], l)
	}
}

// others counts the holds of other libraries.
func (h *holds) others(l *Lib, d Device) int {
	n := 0
	for other := range h.by[hold{l.handle, d}] {
		if other != l {
			n++
		}
	}
	return n
}

// Retain retains the GPU's primary context, and Release releases it. In an API without contexts, the handle is that of
// the GPU, and the last release resets the GPU.
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

// Release releases the primary context; the last release destroys its content. Even after an error, the context counts
// as released, since the caller does not use it any more.
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

// Reset destroys the content of the primary context. It fails with ErrHeld if other users in the process hold the GPU.
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
