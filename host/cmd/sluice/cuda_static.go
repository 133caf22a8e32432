//go:build static

package main

import (
	"errors"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
)

var errStatic = errors.New("this sluice was built without the C library (-tags static), which opening a GPU's driver needs")

func openGPU(string, int) (device.Blocking, error) { return nil, errStatic }

// benchCUDACmd replaces the command in static builds: it returns an error.
type benchCUDACmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"None of them."`
}

// Run implements the command.
func (*benchCUDACmd) Run(*cli.Env) error { return cli.Coded(cli.Device, errStatic) }

func readyGPUs(string) (string, error) { return "", errStatic }
