package driver

import (
	"fmt"
	"slices"
)

// API is one of the two: the names under which calls are found, and the few numbers that differ. AMD made
// HIP's driver calls those of CUDA, argument by argument, and its error codes too.
type API struct {
	Name       string // of a device that is driven by it
	libraries  []string
	what       string // the library is
	hides      string // the variable that leaves GPUs out
	source     string // where they come from
	expected   string
	names      [calls]string // "": there is none
	attributes map[int]int   // where their numbers are not CUDA's
	named      bool          // an error's name is the answer itself
	version    func(int) string
	// environment is what the library reads when it is opened, where the user has not set it.
	environment map[string]string
	queues      string // of which: how many hardware queues streams have; "": nobody says
}

// missing is ErrMissing of this API.
func (a *API) missing() error { return missing("no " + a.what) }

func (a *API) name(c call) string {
	if a.names[c] == "" {
		return CUDA.names[c]
	}
	return a.names[c]
}

// Calls are all entry points that are used, by their symbols.
func (a *API) Calls() []string {
	return slices.DeleteFunc(slices.Clone(a.names[:]), func(s string) bool { return s == "" })
}

// optional calls are of partitions: without them there are none.
func optional(c call) bool { return c >= cuDeviceGetDevResource || c == streamWithCUMask }

// CUDA is NVIDIA's, with the versions of cuda.h 12.
var CUDA = &API{
	Name: "cuda", libraries: []string{Library}, what: "CUDA driver", hides: "CUDA_VISIBLE_DEVICES", source: "NVIDIA's driver package", expected: "a driver for CUDA 12",
	// Streams beyond the number of hardware queues (8 without it) share one, where the order to leave would wait
	// behind the kernels that are to leave; and a kernel is loaded before its first launch.
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
		cuModuleLoadDataEx: "cuModuleLoadDataEx", cuModuleUnload: "cuModuleUnload", cuModuleGetFunction: "cuModuleGetFunction",
		cuFuncGetAttribute: "cuFuncGetAttribute", cuLaunchKernel: "cuLaunchKernel",
		cuDeviceGetDevResource: "cuDeviceGetDevResource", cuDevSmResourceSplitByCount: "cuDevSmResourceSplitByCount",
		cuDevResourceGenerateDesc: "cuDevResourceGenerateDesc", cuGreenCtxCreate: "cuGreenCtxCreate",
		cuGreenCtxDestroy: "cuGreenCtxDestroy", cuCtxFromGreenCtx: "cuCtxFromGreenCtx",
		cuGreenCtxGetDevResource: "cuGreenCtxGetDevResource",
	},
}
