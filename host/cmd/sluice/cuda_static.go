//go:build static

package main

import (
	"errors"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/serve"
)

var errStatic = errors.New("this sluice was built with -tags static: it has no GPUs, neither real (their driver needs the C library) nor simulated")

func openGPU(string, int) (device.Blocking, error) { return nil, errStatic }

// benchCUDACmd replaces the command in static builds. It returns an error.
type benchCUDACmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"None of them."`
}

func (*benchCUDACmd) Run(*cli.Env) error { return cli.Coded(cli.Device, errStatic) }

func readyGPUs(string) (string, error) { return "", errStatic }

func simulatedGPU(string) (serve.Opener, serve.Latency, error) { return nil, nil, errStatic }
