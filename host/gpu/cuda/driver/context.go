package driver

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// ErrHeld is wrapped where a reset would take from others of the process what they hold of a GPU.
var ErrHeld = errors.New("held by others of this process")

// holds counts who holds a GPU. A process has one primary context of it (HIP: none but the GPU), and a reset takes
// that from all of the process, so the process counts. What a library holds that does not come through here is not
// counted: a program that has such a one is not to reset.
type holds struct {
	mu sync.Mutex // held through a reset too: nobody takes the GPU meanwhile
	by map[hold]map[*Lib]int
}

type hold struct {
	handle uintptr
	dev    Device
}

var held = holds{by: map[hold]map[*Lib]int{}}

// add counts n more of a library's holds; one that has none loses none.
func (h *holds) add(l *Lib, d Device, n int) {
	k := hold{l.handle, d}
	if h.by[k] == nil {
		h.by[k] = map[*Lib]int{}
	}
	if h.by[k][l] += n; h.by[k][l] <= 0 {
		delete(h.by[k], l)
	}
}

// others counts those that hold it beside a library.
func (h *holds) others(l *Lib, d Device) int {
	n := 0
	for other := range h.by[hold{l.handle, d}] {
		if other != l {
			n++
		}
	}
	return n
}

// Retain is the GPU's primary context, which Release gives back. Where an API has none, the GPU itself
// stands for it, and is reset with the last release of the process.
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

// Release gives the primary context back; with the last one all that is in it goes. It counts as given back
// whatever the driver answers: nobody uses it any more.
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

// Reset destroys all that is in the primary context, or answers ErrHeld where others of the process hold it too.
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
