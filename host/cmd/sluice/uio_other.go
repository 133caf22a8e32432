//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
)

var errLinux = errors.New("boards run Linux, and this sluice was built for another system")

func (f *uioFlags) open(context.Context, *prepared) (*npu.Driver, error) {
	return nil, cli.Coded(cli.Device, errLinux)
}

func (f *uioFlags) find(context.Context, int) (*npu.Driver, error) {
	return nil, cli.Coded(cli.Device, errLinux)
}

func foundBoard() error { return errLinux }

func (c *boardCmd) Run(*cli.Env) error { return cli.Coded(cli.Device, errLinux) }

func configure(*cli.Env, boards.Board, *bitstreams.Manifest, *bitstreams.Bit, bool) error {
	return cli.Coded(cli.Device, errLinux)
}
