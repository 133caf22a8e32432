//go:build !static

// Real GPUs. This file is excluded from builds with the tag static, because opening libcuda requires the C library.

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// cudaLibrary returns the path of the driver's library; "" selects driver.Library.
func cudaLibrary() string { return os.Getenv("SLUICE_CUDA") }

// gpuConfig returns the configuration to open an NVIDIA GPU (cuda) or an AMD GPU (hip).
func gpuConfig(name string, gpu int) (cuda.Config, error) {
	if name != driver.HIP.Name {
		masks, err := streamMasks(gpu)
		return cuda.Config{Library: cudaLibrary(), NVML: os.Getenv("SLUICE_NVML"), GPU: gpu, Masks: masks}, err
	}
	cfg := cuda.Config{API: driver.HIP, Library: os.Getenv("SLUICE_HIP"), GPU: gpu}
	file := os.Getenv("SLUICE_HIP_KERNELS")
	if file == "" {
		return cfg, errors.New("SLUICE_HIP_KERNELS is not set: the name of an object that host/gpu/cuda/kernels/amd.sh has made for the GPU is expected")
	}
	var err error
	cfg.Kernels, err = kernels.Object(file)
	return cfg, err
}

// streamMasks enables partitions by stream masks if SLUICE_MASKS is set. The value "known" selects the offsets in this
// program; any other value is the path of a file with offsets.
func streamMasks(gpu int) (*cuda.Masks, error) {
	from := os.Getenv("SLUICE_MASKS")
	if from == "" {
		return nil, nil
	}
	m := &cuda.Masks{Offsets: driver.KnownOffsets()}
	if from != "known" {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("SLUICE_MASKS: known, or a file of offsets, is expected: %w", err)
		}
		if m.Offsets, err = driver.ReadOffsets(from, string(text)); err != nil {
			return nil, err
		}
	}
	var err error
	if m.Driver, err = cuda.DriverVersion(cudaLibrary(), os.Getenv("SLUICE_NVML"), gpu); err != nil {
		return nil, fmt.Errorf("SLUICE_MASKS: the driver's exact version: %w", err)
	}
	return m, nil
}

// openGPU opens a GPU, counted from 0.
func openGPU(name string, gpu int) (device.Blocking, error) {
	if _, err := foundGPU(name, gpu); err != nil {
		return nil, err
	}
	cfg, err := gpuConfig(name, gpu)
	if err != nil {
		return nil, err
	}
	cfg.Spin = true
	return cuda.NewSync(cfg)
}

// foundGPU returns a description of the GPU. It returns an error if the GPU cannot serve.
func foundGPU(name string, gpu int) (string, error) {
	all, err := listGPUs(name)
	if err != nil {
		return "", err
	}
	if gpu < 0 || gpu >= len(all) {
		return "", fmt.Errorf("GPU %d: %d found, counted from 0 (%s)", gpu, len(all), strings.Join(all, "; "))
	}
	return all[gpu], nil
}

// listGPUs lists the GPUs that an API finds. It returns an error if the user has specified the driver's file and the
// file does not work.
func listGPUs(name string) ([]string, error) {
	api, from := driver.CUDA, "SLUICE_CUDA"
	if name == driver.HIP.Name {
		api, from = driver.HIP, "SLUICE_HIP"
	}
	file := os.Getenv(from)
	all, err := cuda.Found(api, file)
	if err != nil && file != "" {
		err = fmt.Errorf("%w (%s is %s)", err, from, file)
	}
	return all, err
}

// readyGPUs describes in one line which GPUs can serve.
func readyGPUs(name string) (string, error) {
	all, err := listGPUs(name)
	if err != nil {
		return "", err
	}
	for i := range all {
		if len(all) > 1 {
			all[i] = fmt.Sprintf("%d: %s", i, all[i])
		}
	}
	line := strings.Join(all, "; ")
	if _, err := gpuConfig(name, 0); err != nil {
		return "", fmt.Errorf("%s, but %w", line, err)
	}
	return line, nil
}
