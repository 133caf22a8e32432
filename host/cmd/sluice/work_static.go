//go:build static

package main

import (
	"errors"

	"github.com/sluice-npu/sluice/host/cli"
)

// workCmd replaces the command in static builds: it returns an error.
type workCmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"None of them."`
}

func (*workCmd) Run(*cli.Env) error {
	return cli.Coded(cli.Usage, errors.New("this sluice was built with -tags static: a NATS server is as large as a third of it"))
}
