package driver

import (
	"fmt"
	"slices"
)

// API describes one of the two APIs: the names of its calls, and the few numbers that differ between the APIs. AMD's
// HIP has the same driver calls as CUDA, with the same arguments and error codes.
type API struct {
	Name       string // name of its devices
	libraries  []string
	what       string // description of the library, for errors
	hides      string // environment variable that hides GPUs
	source     string // where to get the library
	expected   string
	names      [calls]string // "": not available
	attributes map[int]int   // by CUDA's number of an attribute: this API's number, if different
	named      bool          // the call for an error's name returns this name, not an error code
	version    func(int) string
	// environment contains variables that are set before the library is opened, unless the user has set them.
	environment map[string]string
	queues      string // environment variable with the number of hardware queues; "": none
}

// missing returns ErrMissing for this API.
func (a *API) missing() error { return missing("no " + a.what) }

func (a *API) name(c call) string {
	if a.names[c] == "" {
		return CUDA.names[c]
	}
	return a.names[c]
}

// Calls lists the symbols of all entry points in use.
func (a *API) Calls() []string {
	return slices.DeleteFunc(slices.Clone(a.names[:]), func(s string) bool { return s == "" })
}

// optional reports whether a call is needed only for partitions. Without such a call, the GPU cannot be divided.
func optional(c call) bool { return c >= cuDeviceGetDevResource || c == streamWithCUMask }

// CUDA is NVIDIA's API, with the call versions that cuda.h 12 declares.
var CUDA = &API{
	Name: "cuda", libraries: []string{Library}, what: "CUDA driver", hides: "CUDA_VISIBLE_DEVICES", source: "NVIDIA's driver package", expected: "a driver for CUDA 12",
	// NVIDIA's default is 8 hardware queues. With more streams than queues, some streams would share a queue. Then an
	// order to leave could wait behind the kernels that must leave. Lazy loading is off, so that the first launch need
	// not load kernels.
	environment: map[string]string{"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_MODULE_LOADING": "EAGER"},
	queues:      "CUDA_DEVICE_MAX_CONNECTIONS",
	version:     func(v int) string { return fmt.Sprintf("CUDA %d.%d", v/1000, v%1000/10) },
	names: [calls]string{
		cuInit: "cuInit", cuDriverGetVersion: "cuDriverGetVersion", cuGetErrorName: "cuGetErrorName",
		cuDeviceGetCount: "cuDeviceGetCount", cuDeviceGet: "cuDeviceGet", cuDeviceGetName: "cuDeviceGetName",
		cuDeviceTotalMem: "cuDeviceTotalMem_v2", cuDeviceGetAttribute: "cuDeviceGetAttribute", cuDeviceGetPCIBusId: "cuDeviceGetPCIBusId",
		cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
		cuDevicePrimaryCtxReset: "cuDevicePrimaryCtxReset_v2", cuCtxSetCurrent: "cuCtxSetCurrent",
		cuCtxGetStreamPriorityRange: "cuCtxGetStreamPriorityRange",
		cuMemAlloc:                  "cuMemAlloc_v2", cuMemFree: "cuMemFree_v2", cuMemHostAlloc: "cuMemHostAlloc", cuMemFreeHost: "cuMemFreeHost",
		cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2", cuMemsetD32Async: "cuMemsetD32Async",
		cuStreamWriteValue32: "cuStreamWriteValue32_v2", cuStreamCreateWithPriority: "cuStreamCreateWithPriority",
		cuStreamDestroy: "cuStreamDestroy_v2", cuStreamSynchronize: "cuStreamSynchronize",
		cuEventCreate: "cuEventCreate", cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord",
		cuEventQuery: "cuEventQuery", cuEventElapsedTime: "cuEventElapsedTime",
		loadKernels: "cuLibraryLoadData", unloadKernels: "cuLibraryUnload", getKernel: "cuLibraryGetKernel",
		kernelAttribute: "cuKernelGetAttribute", cuLaunchKernel: "cuLaunchKernel",
		cuDeviceGetDevResource: "cuDeviceGetDevResource", cuDevSmResourceSplitByCount: "cuDevSmResourceSplitByCount",
		cuDevResourceGenerateDesc: "cuDevResourceGenerateDesc", cuGreenCtxCreate: "cuGreenCtxCreate",
		cuGreenCtxDestroy: "cuGreenCtxDestroy", cuCtxFromGreenCtx: "cuCtxFromGreenCtx",
		cuGreenCtxGetDevResource: "cuGreenCtxGetDevResource",
	},
}
