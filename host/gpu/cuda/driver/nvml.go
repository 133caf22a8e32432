// NVML is NVIDIA's monitoring library, which is optional.

package driver

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Health is NVML's report on a GPU. The value -1 means not available: a partition does not report its utilisation, and
// a virtual GPU has no link.
type Health struct {
	Driver    string `json:"driver"`     // exact version of the driver
	SMMHz     int    `json:"sm_mhz"`     // current SM clock
	MemoryMHz int    `json:"memory_mhz"` //
	GPUUse    int    `json:"gpu_use"`    // share of the last sampling period in which a kernel ran, in per cent
	MemoryUse int    `json:"memory_use"` // share of that period in which memory was accessed, in per cent
	RxKBs     int    `json:"rx_kb_s"`    // kB/s over PCIe to the GPU
	TxKBs     int    `json:"tx_kb_s"`
}

// AskNVML requests a report on the GPU at a bus address from the library at path ("": the system's). It opens and
// closes the library in each call, because calls are rare.
func AskNVML(path, bus string) (h Health, err error) {
	if path == "" {
		path = nvmlLibrary
	}
	lib, err := open(path)
	if err != nil {
		return h, fmt.Errorf("%w: NVML: %w", ErrMissing, err)
	}
	n := &nvml{path: path, lib: lib}
	if n.call("nvmlInit_v2"); n.err != nil {
		return h, n.err
	}
	var version [96]byte
	var device uintptr
	var clocks, use, pcie [2]int32
	n.call("nvmlSystemGetDriverVersion", uintptr(unsafe.Pointer(&version)), uintptr(len(version)-1))
	where := append([]byte(bus), 0)
	n.call("nvmlDeviceGetHandleByPciBusId_v2", uintptr(unsafe.Pointer(unsafe.SliceData(where))), uintptr(unsafe.Pointer(&device)))
	for i := range clocks {
		clocks[i], use[i], pcie[i] = -1, -1, -1
	}
	n.may("nvmlDeviceGetClockInfo", device, 1, uintptr(unsafe.Pointer(&clocks[0])))
	n.may("nvmlDeviceGetClockInfo", device, 2, uintptr(unsafe.Pointer(&clocks[1])))
	n.may("nvmlDeviceGetUtilizationRates", device, uintptr(unsafe.Pointer(&use)))
	n.may("nvmlDeviceGetPcieThroughput", device, 1, uintptr(unsafe.Pointer(&pcie[0])))
	n.may("nvmlDeviceGetPcieThroughput", device, 0, uintptr(unsafe.Pointer(&pcie[1])))
	failed := n.err
	n.err = nil
	if n.call("nvmlShutdown"); failed != nil {
		n.err = failed
	}
	return Health{text(&version[0]), int(clocks[0]), int(clocks[1]), int(use[0]), int(use[1]), int(pcie[0]), int(pcie[1])}, n.err
}

// nvml is an open library. After the first error, it makes no further calls.
type nvml struct {
	path string
	lib  uintptr
	err  error
}

//go:uintptrescapes
func (n *nvml) call(name string, args ...uintptr) {
	if n.err != nil {
		return
	}
	at, err := symbol(n.lib, name)
	if err != nil {
		n.err = fmt.Errorf("%w: %s has no %s", ErrMissing, n.path, name)
		return
	}
	if code, _, _ := purego.SyscallN(at, args...); int32(code) != 0 {
		n.err = &nvmlError{name, int(int32(code))}
	}
}

// may works like the method `call`, but ignores errors that mean only that a GPU does not provide a value (not
// supported, no permission).
//
//go:uintptrescapes
func (n *nvml) may(name string, args ...uintptr) {
	before := n.err
	n.call(name, args...)
	if e, ok := errors.AsType[*nvmlError](n.err); ok && before == nil && (e.code == 3 || e.code == 4) {
		n.err = nil
	}
}

// nvmlError is the error code of a call.
type nvmlError struct {
	call string
	code int
}

func (e *nvmlError) Error() string { return fmt.Sprintf("%s answers %d", e.call, e.code) }
