//go:build !static

// A GPU: everywhere but in builds with the tag static, since what opens libcuda needs the C library.

package main

import (
	"errors"
	"os"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// cudaLibrary is the driver's file where it is not driver.Library.
func cudaLibrary() string { return os.Getenv("SLUICE_CUDA") }

// gpuConfig is how a GPU of NVIDIA's (cuda) or of AMD's (hip) is opened.
func gpuConfig(name string) (cuda.Config, error) {
	if name != driver.HIP.Name {
		return cuda.Config{Library: cudaLibrary()}, nil
	}
	cfg := cuda.Config{API: driver.HIP, Library: os.Getenv("SLUICE_HIP")}
	file := os.Getenv("SLUICE_HIP_KERNELS")
	if file == "" {
		return cfg, errors.New("SLUICE_HIP_KERNELS is not set: the name of an object that host/gpu/cuda/kernels/amd.sh has made for the GPU is expected")
	}
	var err error
	cfg.Kernels, err = kernels.Object(file)
	return cfg, err
}

// openGPU opens the first GPU.
func openGPU(name string) (device.Blocking, error) {
	cfg, err := gpuConfig(name)
	if err != nil {
		return nil, err
	}
	cfg.Spin = true
	return cuda.NewSync(cfg)
}

// foundGPU says which GPU there is.
func foundGPU(name string) (string, error) {
	if name == driver.HIP.Name {
		return cuda.Found(driver.HIP, os.Getenv("SLUICE_HIP"))
	}
	return cuda.Found(driver.CUDA, cudaLibrary())
}
