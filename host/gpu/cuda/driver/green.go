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

// SplitAll divides a resource into as many sets as there are, of the least size that the hardware has, and says
// what is left. They share no SM.
func (l *Lib) SplitAll(all Resource) (sets []Resource, rest Resource, err error) {
	var count uint32
	if err = l.do(cuDevSmResourceSplitByCount, 0, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&all)), 0, 0, 1); err != nil {
		return nil, rest, err
	}
	sets = make([]Resource, max(count, 1))
	err = l.do(cuDevSmResourceSplitByCount, uintptr(unsafe.Pointer(unsafe.SliceData(sets))), uintptr(unsafe.Pointer(&count)),
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&rest)), 0, 1)
	return sets[:min(int(count), len(sets))], rest, err
}

// Merges tells whether the driver makes one partition of several sets of one split.
func (l *Lib) Merges(sets []Resource) bool {
	var desc uintptr
	return l.do(cuDevResourceGenerateDesc, uintptr(unsafe.Pointer(&desc)), uintptr(unsafe.Pointer(unsafe.SliceData(sets))), uintptr(len(sets))) == nil
}

// Split takes at least n SMs of a resource, and says what is left. What it gives cannot be split again,
// but what GreenSMs says of a green context made of it can.
func (l *Lib) Split(all Resource, n int) (part, rest Resource, err error) {
	count := uint32(1)
	err = l.do(cuDevSmResourceSplitByCount, uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&count)),
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&rest)), 0, uintptr(n))
	return part, rest, err
}

// NewGreen is a green context over sets of SMs of one split.
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
