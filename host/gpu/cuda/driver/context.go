package driver

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// ErrHeld is returned for a reset that would destroy the work of other users of the GPU in this process.
var ErrHeld = errors.New("held by others of this process")

// holds counts the users of a GPU. A process has only one primary context per GPU (HIP: the GPU itself), so a reset
// affects the whole process. Users in other libraries are not counted, so a program with such users must not reset the
// GPU.
type holds struct {
	mu sync.Mutex // also locked during a reset, so that no user retains the GPU at that time
	by map[hold]map[*Lib]int
}

type hold struct {
	handle uintptr
	dev    Device
}

var held = holds{by: map[hold]map[*Lib]int{}}

// add changes the number of a library's holds by n, which may be negative. The number does not become negative.
func (h *holds) add(l *Lib, d Device, n int) {
	k := hold{l.handle, d}
	if h.by[k] == nil {
		h.by[k] = map[*Lib]int{}
	}
	if h.by[k][l] += n; h.by[k][l] <= 0 {
		delete(h.by[k], l)
	}
}

// others returns the number of other libraries that hold the GPU.
func (h *holds) others(l *Lib, d Device) int {
	n := 0
	for other := range h.by[hold{l.handle, d}] {
		if other != l {
			n++
		}
	}
	return n
}

// Retain retains the GPU's primary context. Release releases this context. In an API without contexts, the handle is
// that of the GPU, and the last release resets the GPU.
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

// Release releases the primary context. The last release destroys the content of the context. Even after an error, the
// context counts as released, because the caller no longer uses it.
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

// Reset destroys the content of the primary context. It fails with ErrHeld if the process has other users of the GPU.
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
