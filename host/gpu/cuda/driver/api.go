package driver

import (
	"fmt"
	"slices"
)

// API describes one of the two APIs: the names of its calls and the few numbers that differ. AMD's HIP has the same
// driver calls as CUDA, with the same arguments and error codes.
type API struct {
	Name       string // of its devices
	libraries  []string
	what       string // description of the library
	hides      string // variable that hides GPUs
	source     string // where to get it
	expected   string
	names      [calls]string // "": not available
	attributes map[int]int   // attributes whose numbers differ from CUDA's
	named      bool          // the call that names an error returns the name itself
	version    func(int) string
	// environment is set before the library is opened, unless the user has set it.
	environment map[string]string
	queues      string // variable with the number of hardware queues; "": none
}

// missing is ErrMissing for this API.
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

// optional calls are for partitions, which are unavailable without them.
func optional(c call) bool { return c >= cuDeviceGetDevResource || c == streamWithCUMask }

// CUDA is NVIDIA's API, with the call versions of cuda.h 12.
var CUDA = &API{
	Name: "cuda", libraries: []string{Library}, what: "CUDA driver", hides: "CUDA_VISIBLE_DEVICES", source: "NVIDIA's driver package", expected: "a driver for CUDA 12",
	// By default there are 8 hardware queues. If there were more streams than queues, some would share one, and the
	// order to leave would wait behind the very kernels that must leave. Lazy loading is off, so that the first
	// launch does not load kernels.
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
