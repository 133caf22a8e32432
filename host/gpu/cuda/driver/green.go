// Green contexts: streams whose kernels stay on some of the SMs.

package driver

import "unsafe"

// Resource is a set of SMs as the driver hands it about (CUdevResource); only SMs is ours to read.
type Resource struct {
	kind uint32
	_    [92]byte
	SMs  uint32
	_    [44]byte
}

// resourceSM is the type of a resource of SMs.
const resourceSM = 1

// SMs are all of a GPU's.
func (l *Lib) SMs(d Device) (r Resource, err error) {
	err = l.do(cuDeviceGetDevResource, uintptr(d), uintptr(unsafe.Pointer(&r)), resourceSM)
	return r, err
}

// Groups is how many sets of at least n SMs there are in a resource, and how many SMs each has: the
// hardware rounds n up.
func (l *Lib) Groups(all Resource, n int) (count, sms int, err error) {
	var c uint32
	if err = l.do(cuDevSmResourceSplitByCount, 0, uintptr(unsafe.Pointer(&c)), uintptr(unsafe.Pointer(&all)), 0, 0, uintptr(n)); err != nil {
		return 0, 0, err
	}
	first, _, err := l.Split(all, n)
	return int(c), int(first.SMs), err
}

// Split takes at least n SMs of a resource, and says what is left. What it gives cannot be split again,
// but what GreenSMs says of a green context made of it can.
func (l *Lib) Split(all Resource, n int) (part, rest Resource, err error) {
	count := uint32(1)
	err = l.do(cuDevSmResourceSplitByCount, uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&count)),
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&rest)), 0, uintptr(n))
	return part, rest, err
}

// NewGreen is a green context over sets of SMs; drivers up to 12.4 at least take one set alone.
func (l *Lib) NewGreen(d Device, of []Resource) (Green, error) {
	var desc uintptr
	if err := l.do(cuDevResourceGenerateDesc, uintptr(unsafe.Pointer(&desc)), uintptr(unsafe.Pointer(unsafe.SliceData(of))), uintptr(len(of))); err != nil {
		return 0, err
	}
	var g Green
	err := l.do(cuGreenCtxCreate, uintptr(unsafe.Pointer(&g)), desc, uintptr(d), 1)
	return g, err
}

// GreenSMs are the SMs of a green context.
func (l *Lib) GreenSMs(g Green) (r Resource, err error) {
	err = l.do(cuGreenCtxGetDevResource, uintptr(g), uintptr(unsafe.Pointer(&r)), resourceSM)
	return r, err
}

// FreeGreen destroys a green context.
func (l *Lib) FreeGreen(g Green) error { return l.do(cuGreenCtxDestroy, uintptr(g)) }

// Context is the green context as one that can be current, while streams are made in it.
func (l *Lib) Context(g Green) (Context, error) {
	var c Context
	err := l.do(cuCtxFromGreenCtx, uintptr(unsafe.Pointer(&c)), uintptr(g))
	return c, err
}
