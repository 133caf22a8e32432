//go:build !static

// A GPU: everywhere but in builds with the tag static, since what opens libcuda needs the C library.

package main

import (
	"os"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// cudaLibrary is the driver's file where it is not driver.Library.
func cudaLibrary() string { return os.Getenv("SLUICE_CUDA") }

// openCUDA opens the first GPU.
func openCUDA() (device.Blocking, error) {
	return cuda.NewSync(cuda.Config{Library: cudaLibrary(), Spin: true})
}

// foundCUDA says which GPU there is.
func foundCUDA() (string, error) {
	d, err := cuda.New(cuda.Config{Library: cudaLibrary()})
	if err != nil {
		return driver.Library, err
	}
	return d.Name(), d.Close()
}
