// Package driver calls NVIDIA's driver API and AMD's driver API without cgo. AMD's API has the same calls under other
// names (type API). The package opens libcuda or libamdhip64 at run time (purego), so that one binary works on machines
// with and without a GPU. The binary is linked to the C library, because purego finds dlopen in this library. The
// package contains only the calls that Sluice uses, under CUDA's names, and makes no decisions. A call adds 0.3 to 0.6
// us to the driver's time. C code never calls Go code.
//
// Contexts belong to threads. A caller that needs a context must lock its goroutine to a thread (runtime.LockOSThread)
// and make the context current.
package driver

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ErrMissing reports that no driver of either API exists, or that the driver lacks a required call.
var ErrMissing = errors.New("no GPU driver")

// missing is an error that matches ErrMissing. Its text names what is missing.
type missing string

func (m missing) Error() string { return string(m) }

// Is matches ErrMissing.
func (m missing) Is(target error) bool { return target == ErrMissing }

// These are the driver's handles.
type (
	Device   int32
	Context  uintptr
	Green    uintptr
	Stream   uintptr
	Event    uintptr
	Module   uintptr // loaded kernels: a CUlibrary, which belongs to no context, or a hipModule_t
	Function uintptr // CUkernel, or hipFunction_t
	Ptr      uint64  // an address on the GPU
)

// Error is the error code of a call.
type Error struct {
	Call string
	Code int
	Name string
}

// Error returns the call, and the error code's name and number.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Undivided reports whether an error means that the GPU cannot be divided: it is too old, or it is itself a partition.
func Undivided(err error) bool {
	switch CodeOf(err) {
	case NotSupported, 914, 915:
		return true
	}
	return false
}

// The package handles these error codes.
const (
	OutOfMemory    = 2
	noDevice       = 100
	UnsupportedPTX = 222
	NotReady       = 600
	IllegalAddress = 700
	NotSupported   = 801
)

// Lost reports whether the context is unusable until the primary context is reset. This is so after error 999
// (unknown), and after errors for which the documentation guarantees nothing. For most of these errors (700, 702, 710,
// 714 to 719), the documentation requires a restart of the process, so a reset may not help.
func Lost(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999:
		return true
	}
	return false
}

// CodeOf returns the driver's code of an error, or 0 if the error is not the driver's.
func CodeOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// call is an entry point.
type call int

const (
	cuInit call = iota
	cuDriverGetVersion
	cuGetErrorName
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceTotalMem
	cuDeviceGetAttribute
	cuDeviceGetPCIBusId
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuDevicePrimaryCtxReset
	cuCtxSetCurrent
	cuCtxGetStreamPriorityRange
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemsetD32Async
	cuStreamWriteValue32
	cuStreamCreateWithPriority
	cuStreamDestroy
	cuStreamSynchronize
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventElapsedTime
	loadKernels
	unloadKernels
	getKernel
	kernelAttribute
	cuLaunchKernel
	// HIP only: streams with CU masks, and calls that replace CUDA's calls for contexts
	streamWithCUMask
	setDevice
	deviceReset
	// green contexts, which exist since driver 12.4
	cuDeviceGetDevResource
	cuDevSmResourceSplitByCount
	cuDevResourceGenerateDesc
	cuGreenCtxCreate
	cuGreenCtxDestroy
	cuCtxFromGreenCtx
	cuGreenCtxGetDevResource
	calls
)

// Lib is an opened driver. Its methods may be called from any thread.
type Lib struct {
	api    *API
	path   string
	handle uintptr // common to all users of the same file
	fake   bool
	now    uintptr // the fake driver's clock; 0: none
	fn     [calls]uintptr
}

// Open opens the driver at path. If path is empty, it opens the first of the API's libraries that exists. A library is
// never closed.
func Open(api *API, path string) (*Lib, error) {
	paths := api.libraries
	if path != "" {
		paths = []string{path}
	}
	var h uintptr
	var err error
	for name, value := range api.environment {
		if err := setenv(name, value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	for _, path = range paths {
		if h, err = open(path); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w (it comes with %s)", api.missing(), err, api.source)
	}
	l := &Lib{api: api, path: path, handle: h}
	for i, name := range api.names {
		if name == "" {
			continue
		}
		if l.fn[i], err = symbol(h, name); err != nil && !optional(call(i)) {
			return nil, fmt.Errorf("%w: %s has no %s: %s is expected", api.missing(), path, name, api.expected)
		}
	}
	if at, err := symbol(h, "fake_open"); err == nil && at != 0 {
		l.fake = true
		l.now, _ = symbol(h, "fake_now")
	}
	switch err := l.do(cuInit, 0); {
	case CodeOf(err) == noDevice:
		return nil, fmt.Errorf("%w (%w)", l.None(), err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", missing("the "+api.what+" "+path+" does not start"), err)
	}
	return l, nil
}

// ErrNone reports that the driver finds no GPU.
var ErrNone = errors.New("no GPU")

// None returns ErrNone with this driver's name.
func (l *Lib) None() error {
	return fmt.Errorf("%w: %s finds none (a container gets one from its runtime, and %s can hide it)", ErrNone, l.path, l.api.hides)
}

// API returns the driver's API.
func (l *Lib) API() *API { return l.api }

// Path returns the library's file.
func (l *Lib) Path() string { return l.path }

// maxQueues is the largest number of hardware queues of a context in CUDA.
const maxQueues = 32

// Queues returns the number of hardware queues for streams, and the environment variable that sets it. The number is 0
// if there is no such variable.
func (l *Lib) Queues() (n int, name string, err error) {
	if name = l.api.queues; name == "" {
		return 0, "", nil
	}
	v, ok := os.LookupEnv(name)
	if !ok {
		v = l.api.environment[name]
	}
	if n, err = strconv.Atoi(v); err != nil || n < 1 || n > maxQueues {
		return 0, name, fmt.Errorf("%s is %q: a number from 1 to %d is expected", name, v, maxQueues)
	}
	return n, name, nil
}

// Fake reports whether this is the fake driver. The fake driver's times are not measurements.
func (l *Lib) Fake() bool { return l.fake }

// Clock returns the fake driver's own clock, if it has one. nil: the host's clock applies.
func (l *Lib) Clock() func() time.Time {
	now := func() time.Time {
		ns, _, _ := purego.SyscallN(l.now)
		return time.Unix(0, int64(ns))
	}
	if l.now == 0 || now().UnixNano() == 0 {
		return nil
	}
	return now
}

// HasGreen reports whether the driver has green contexts.
func (l *Lib) HasGreen() bool {
	for i := cuDeviceGetDevResource; i < calls; i++ {
		if l.fn[i] == 0 {
			return false
		}
	}
	return true
}

// do calls the driver, and returns its error code as an error. Pointers that are converted to uintptr in the call's
// arguments stay valid during the call.
//
//go:uintptrescapes
func (l *Lib) do(c call, args ...uintptr) error {
	if l.fn[c] == 0 {
		return fmt.Errorf("%w: %s has no %s", l.api.missing(), l.path, l.api.name(c))
	}
	code, _, _ := purego.SyscallN(l.fn[c], args...)
	if int32(code) == 0 {
		return nil
	}
	return l.failed(c, int(int32(code)))
}

func (l *Lib) failed(c call, code int) error {
	e := &Error{Call: l.api.name(c), Code: code, Name: "an error without a name"}
	var p *byte
	r, _, _ := purego.SyscallN(l.fn[cuGetErrorName], uintptr(code), uintptr(unsafe.Pointer(&p)))
	if l.api.named {
		p = *(**byte)(unsafe.Pointer(&r))
	}
	if p != nil {
		e.Name = text(p)
	}
	return e
}

// text converts a C string to a Go string.
func text(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// Version returns the driver's API version, such as "CUDA 12.4".
func (l *Lib) Version() (string, error) {
	var v int32
	err := l.do(cuDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return l.api.version(int(v)), err
}

// Count returns the number of GPUs.
func (l *Lib) Count() (int, error) {
	var n int32
	err := l.do(cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

// Device returns the i-th GPU.
func (l *Lib) Device(i int) (Device, error) {
	var d Device
	err := l.do(cuDeviceGet, uintptr(unsafe.Pointer(&d)), uintptr(i))
	return d, err
}

// Name returns a GPU's name.
func (l *Lib) Name(d Device) (string, error) {
	var b [256]byte
	if err := l.do(cuDeviceGetName, uintptr(unsafe.Pointer(&b)), uintptr(len(b)-1), uintptr(d)); err != nil {
		return "", err
	}
	return text(&b[0]), nil
}

// Bus returns a GPU's PCI address. Other libraries need this address because they number GPUs differently.
func (l *Lib) Bus(d Device) (string, error) {
	var b [32]byte
	if err := l.do(cuDeviceGetPCIBusId, uintptr(unsafe.Pointer(&b)), uintptr(len(b)-1), uintptr(d)); err != nil {
		return "", err
	}
	return text(&b[0]), nil
}

// Memory returns a GPU's memory in bytes.
func (l *Lib) Memory(d Device) (uint64, error) {
	var n uint64
	err := l.do(cuDeviceTotalMem, uintptr(unsafe.Pointer(&n)), uintptr(d))
	return n, err
}

// These attributes of a GPU have CUDA's numbers.
const (
	ClockKHz        = 13
	Multiprocessors = 16
	MemoryKHz       = 36
	CapabilityMajor = 75
	CapabilityMinor = 76
)

// Attribute returns an attribute of a GPU.
func (l *Lib) Attribute(d Device, what int) (int, error) {
	var v int32
	if number, ok := l.api.attributes[what]; ok {
		what = number
	}
	err := l.do(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(what), uintptr(d))
	return int(v), err
}

// SetCurrent makes a context current on this thread. 0: no context is current.
func (l *Lib) SetCurrent(c Context) error {
	if l.api.names[setDevice] == "" {
		return l.do(cuCtxSetCurrent, uintptr(c))
	}
	if c == 0 {
		return nil
	}
	return l.do(setDevice, uintptr(c-1))
}

// Priorities returns the least and greatest stream priority. The greatest priority has the smallest number.
func (l *Lib) Priorities() (least, greatest int, err error) {
	var a, b int32
	err = l.do(cuCtxGetStreamPriorityRange, uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&b)))
	return int(a), int(b), err
}

// Alloc allocates GPU memory with undefined content.
func (l *Lib) Alloc(n int) (Ptr, error) {
	var p Ptr
	err := l.do(cuMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

// Free frees GPU memory.
func (l *Lib) Free(p Ptr) error { return l.do(cuMemFree, uintptr(p)) }

// AllocHost allocates pinned memory, for asynchronous copies.
func (l *Lib) AllocHost(n int) ([]byte, error) {
	var p *byte
	if err := l.do(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), 0); err != nil {
		return nil, err
	}
	return unsafe.Slice(p, n), nil
}

// FreeHost frees pinned memory.
func (l *Lib) FreeHost(b []byte) error {
	return l.do(cuMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// CopyIn copies pinned memory to the GPU, in the stream's order.
func (l *Lib) CopyIn(to Ptr, from []byte, s Stream) error {
	return l.do(cuMemcpyHtoDAsync, uintptr(to), uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from)), uintptr(s))
}

// CopyOut copies to pinned memory, in the stream's order.
func (l *Lib) CopyOut(to []byte, from Ptr, s Stream) error {
	return l.do(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(from), uintptr(len(to)), uintptr(s))
}

// Fill sets n words of GPU memory to v, in the stream's order.
func (l *Lib) Fill(to Ptr, v uint32, n int, s Stream) error {
	return l.do(cuMemsetD32Async, uintptr(to), uintptr(v), uintptr(n), uintptr(s))
}

// WriteWord writes a word in the stream's order. Running kernels of other streams can read the new value.
func (l *Lib) WriteWord(to Ptr, v uint32, s Stream) error {
	return l.do(cuStreamWriteValue32, uintptr(s), uintptr(to), uintptr(v), 0)
}

// NewStream creates a stream in the current context. The stream does not synchronise with other streams.
func (l *Lib) NewStream(priority int) (Stream, error) {
	var s Stream
	err := l.do(cuStreamCreateWithPriority, uintptr(unsafe.Pointer(&s)), 1, uintptr(uint32(int32(priority))))
	return s, err
}

// FreeStream destroys a stream after its work has finished.
func (l *Lib) FreeStream(s Stream) error { return l.do(cuStreamDestroy, uintptr(s)) }

// Wait waits for all work of a stream.
func (l *Lib) Wait(s Stream) error { return l.do(cuStreamSynchronize, uintptr(s)) }

// NewEvent creates an event. Elapsed accepts only events that were created with timed = true.
func (l *Lib) NewEvent(timed bool) (Event, error) {
	var e Event
	flags := uintptr(2)
	if timed {
		flags = 0
	}
	err := l.do(cuEventCreate, uintptr(unsafe.Pointer(&e)), flags)
	return e, err
}

// FreeEvent destroys an event.
func (l *Lib) FreeEvent(e Event) error { return l.do(cuEventDestroy, uintptr(e)) }

// Record queues the event in the stream. The event is signalled when the stream's earlier work has finished.
func (l *Lib) Record(e Event, s Stream) error { return l.do(cuEventRecord, uintptr(e), uintptr(s)) }

// Happened reports whether the event has been signalled.
func (l *Lib) Happened(e Event) (bool, error) {
	code, _, _ := purego.SyscallN(l.fn[cuEventQuery], uintptr(e))
	switch int32(code) {
	case 0:
		return true, nil
	case NotReady:
		return false, nil
	}
	return false, l.failed(cuEventQuery, int(int32(code)))
}

// Elapsed returns the time in ms between two events.
func (l *Lib) Elapsed(a, b Event) (float32, error) {
	var ms float32
	err := l.do(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(a), uintptr(b))
	return ms, err
}

// maxRegisters is the number of the JIT option that limits registers per thread.
const maxRegisters = 0

// Load compiles PTX for the GPU, or loads a compiled object. registers is the limit of registers per thread; 0: no
// limit. The limit has no effect on an object. CUDA's kernels belong to no context and run in the context of their
// stream. AMD's kernels belong to the current context.
func (l *Lib) Load(kernels []byte, registers int) (Module, error) {
	var m Module
	image := append(slices.Clone(kernels), 0)
	option, value, n := int32(maxRegisters), uintptr(registers), uintptr(0)
	if registers > 0 {
		n = 1
	}
	var err error
	if l.Contextless() {
		err = l.do(loadKernels, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(unsafe.SliceData(image))),
			uintptr(unsafe.Pointer(&option)), uintptr(unsafe.Pointer(&value)), n, 0, 0, 0)
	} else {
		err = l.do(loadKernels, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(unsafe.SliceData(image))), n,
			uintptr(unsafe.Pointer(&option)), uintptr(unsafe.Pointer(&value)))
	}
	return m, err
}

// Contextless reports whether kernels remain loaded after the end of their context, so that only Unload frees them.
// Such kernels can also be loaded with a register limit.
func (l *Lib) Contextless() bool { return l.api == CUDA }

// Unload unloads kernels.
func (l *Lib) Unload(m Module) error { return l.do(unloadKernels, uintptr(m)) }

// Function returns a kernel by name.
func (l *Lib) Function(m Module, name string) (Function, error) {
	var f Function
	s := append([]byte(name), 0)
	err := l.do(getKernel, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(unsafe.SliceData(s))))
	return f, err
}

// Registers returns how many registers per thread a kernel uses on a GPU.
func (l *Lib) Registers(f Function, d Device) (int, error) {
	var v int32
	err := l.do(kernelAttribute, uintptr(unsafe.Pointer(&v)), 4, uintptr(f), uintptr(d)) // HIP's call has no last argument
	return int(v), err
}

// Args are the arguments of a launch. They can be reused after Launch has returned.
type Args struct {
	ptrs [5]unsafe.Pointer
	pin  runtime.Pinner
}

// Set sets the i-th argument to p and pins p, so that the memory does not move.
func (a *Args) Set(i int, p unsafe.Pointer) {
	a.pin.Pin(p)
	a.ptrs[i] = p
}

// Free unpins the arguments.
func (a *Args) Free() { a.pin.Unpin() }

// Launch queues a kernel with the given number of blocks, and of threads per block.
func (l *Lib) Launch(f Function, blocks, threads int, s Stream, a *Args) error {
	return l.do(cuLaunchKernel, uintptr(f), uintptr(blocks), 1, 1, uintptr(threads), 1, 1, 0, uintptr(s), uintptr(unsafe.Pointer(&a.ptrs)), 0)
}
