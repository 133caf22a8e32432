// AMD's HIP calls are declared as in hip_runtime_api.h of ROCm 5.2. Version 6 uses the same numbers.

package driver

import (
	"errors"
	"fmt"
	"unsafe"
)

// HIP is AMD's API. Its contexts are deprecated, so the GPU itself is made current. A reset affects the whole GPU.
var HIP = &API{
	Name: "hip", libraries: hipLibraries, what: "HIP runtime", hides: "HIP_VISIBLE_DEVICES", source: "ROCm, Debian's package libamdhip64-5", expected: "ROCm 5 or later",
	attributes: map[int]int{ClockKHz: 5, Multiprocessors: 63, MemoryKHz: 60, CapabilityMajor: 23, CapabilityMinor: 61},
	named:      true,
	version:    func(v int) string { return fmt.Sprintf("HIP %d.%d", v/10_000_000, v/100_000%100) },
	names: [calls]string{
		cuInit: "hipInit", cuDriverGetVersion: "hipDriverGetVersion", cuGetErrorName: "hipGetErrorName",
		cuDeviceGetCount: "hipGetDeviceCount", cuDeviceGet: "hipDeviceGet", cuDeviceGetName: "hipDeviceGetName",
		cuDeviceTotalMem: "hipDeviceTotalMem", cuDeviceGetAttribute: "hipDeviceGetAttribute", cuDeviceGetPCIBusId: "hipDeviceGetPCIBusId",
		cuCtxGetStreamPriorityRange: "hipDeviceGetStreamPriorityRange",
		cuMemAlloc:                  "hipMalloc", cuMemFree: "hipFree", cuMemHostAlloc: "hipHostMalloc", cuMemFreeHost: "hipHostFree",
		cuMemcpyHtoDAsync: "hipMemcpyHtoDAsync", cuMemcpyDtoHAsync: "hipMemcpyDtoHAsync", cuMemsetD32Async: "hipMemsetD32Async",
		cuStreamWriteValue32: "hipStreamWriteValue32", cuStreamCreateWithPriority: "hipStreamCreateWithPriority",
		cuStreamDestroy: "hipStreamDestroy", cuStreamSynchronize: "hipStreamSynchronize",
		cuEventCreate: "hipEventCreateWithFlags", cuEventDestroy: "hipEventDestroy", cuEventRecord: "hipEventRecord",
		cuEventQuery: "hipEventQuery", cuEventElapsedTime: "hipEventElapsedTime",
		loadKernels: "hipModuleLoadDataEx", unloadKernels: "hipModuleUnload", getKernel: "hipModuleGetFunction",
		kernelAttribute: "hipFuncGetAttribute", cuLaunchKernel: "hipModuleLaunchKernel",
		streamWithCUMask: "hipExtStreamCreateWithCUMask", setDevice: "hipSetDevice", deviceReset: "hipDeviceReset",
	},
}

// ErrMask reports a CU mask with which a queue would have no CUs or would hang.
var ErrMask = errors.New("a mask that the hardware does not support")

// HasCUMasks reports whether streams can be confined to CUs.
func (l *Lib) HasCUMasks() bool { return l.fn[streamWithCUMask] != 0 }

// CUs returns three numbers: n is the number of mask bits, step is the number of neighbouring bits that must be set
// together, and alike is the number of CUs that kernels report as one CU. RDNA (GFX10 and above) requires whole pairs
// of CUs. GFX9.4 has up to eight dies, and the dies' bits are interleaved. A queue hangs if it does not have a CU on
// each die (Linux, mqd_symmetrically_map_cu_mask). With eight neighbouring bits, it has one CU on each die.
func (l *Lib) CUs(d Device) (n, step, alike int, err error) {
	var major, minor int
	for what, to := range map[int]*int{Multiprocessors: &n, CapabilityMajor: &major, CapabilityMinor: &minor} {
		if *to, err = l.Attribute(d, what); err != nil {
			return 0, 0, 0, err
		}
	}
	switch {
	case major >= 10:
		return n, 2, 2, nil
	case major == 9 && minor >= 4:
		return n, 8, 1, nil
	}
	return n, 1, 1, nil
}

// NewMaskedStream creates a stream that uses the CUs of a mask. The arguments n and step are the values that the
// function CUs returned. The stream has the middle priority, because no call sets both a mask and a priority.
// NewMaskedStream rejects a mask with which the queue would hang.
func (l *Lib) NewMaskedStream(mask []uint32, n, step int) (Stream, error) {
	if step < 1 || len(mask) != (n+31)/32 {
		return 0, fmt.Errorf("%w: %d words for %d CUs in steps of %d", ErrMask, len(mask), n, step)
	}
	has := func(i int) bool { return i < 32*len(mask) && mask[i/32]>>(i%32)&1 != 0 }
	some := false
	for i := 0; i < 32*len(mask); i++ {
		switch {
		case has(i) && i >= n:
			return 0, fmt.Errorf("%w: CU %d of %d", ErrMask, i, n)
		case has(i) != has(i-i%step) && i < n/step*step:
			return 0, fmt.Errorf("%w: CU %d without its neighbours: steps of %d are expected", ErrMask, i, step)
		}
		some = some || has(i)
	}
	if !some {
		return 0, fmt.Errorf("%w: no CU", ErrMask)
	}
	var s Stream
	err := l.do(streamWithCUMask, uintptr(unsafe.Pointer(&s)), uintptr(len(mask)), uintptr(unsafe.Pointer(unsafe.SliceData(mask))))
	return s, err
}
