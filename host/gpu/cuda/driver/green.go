// The kernels in a green context's streams run only on some SMs.

package driver

import "unsafe"

// Resource is a set of SMs in the driver's format (CUdevResource). Callers may read only the field SMs.
type Resource struct {
	kind uint32
	_    [92]byte
	SMs  uint32
	_    [44]byte
}

// resourceSM is the type of a set of SMs.
const resourceSM = 1

// SMs returns all SMs of a GPU.
func (l *Lib) SMs(d Device) (r Resource, err error) {
	err = l.do(cuDeviceGetDevResource, uintptr(d), uintptr(unsafe.Pointer(&r)), resourceSM)
	return r, err
}

// SplitAll divides a resource into as many disjoint sets as possible. Each set has the smallest size that the hardware
// allows. rest is the remainder of the resource.
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

// Merges reports whether the driver accepts several sets of one split as one partition.
func (l *Lib) Merges(sets []Resource) bool {
	var desc uintptr
	return l.do(cuDevResourceGenerateDesc, uintptr(unsafe.Pointer(&desc)), uintptr(unsafe.Pointer(unsafe.SliceData(sets))), uintptr(len(sets))) == nil
}

// Split splits a part of at least n SMs off a resource. rest is the remainder. The part cannot be split again. To split
// it, create a green context from it, and split the resource that GreenSMs returns.
func (l *Lib) Split(all Resource, n int) (part, rest Resource, err error) {
	count := uint32(1)
	err = l.do(cuDevSmResourceSplitByCount, uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&count)),
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&rest)), 0, uintptr(n))
	return part, rest, err
}

// NewGreen creates a green context from sets of SMs. The sets must be from one split.
func (l *Lib) NewGreen(d Device, of []Resource) (Green, error) {
	var desc uintptr
	if err := l.do(cuDevResourceGenerateDesc, uintptr(unsafe.Pointer(&desc)), uintptr(unsafe.Pointer(unsafe.SliceData(of))), uintptr(len(of))); err != nil {
		return 0, err
	}
	var g Green
	err := l.do(cuGreenCtxCreate, uintptr(unsafe.Pointer(&g)), desc, uintptr(d), 1)
	return g, err
}

// GreenSMs returns the SMs of a green context.
func (l *Lib) GreenSMs(g Green) (r Resource, err error) {
	err = l.do(cuGreenCtxGetDevResource, uintptr(g), uintptr(unsafe.Pointer(&r)), resourceSM)
	return r, err
}

// FreeGreen destroys a green context.
func (l *Lib) FreeGreen(g Green) error { return l.do(cuGreenCtxDestroy, uintptr(g)) }

// Context converts a green context to a Context, which can be made current and in which streams can be created.
func (l *Lib) Context(g Green) (Context, error) {
	var c Context
	err := l.do(cuCtxFromGreenCtx, uintptr(unsafe.Pointer(&c)), uintptr(g))
	return c, err
}
