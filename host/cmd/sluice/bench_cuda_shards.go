//go:build !static

// Shards of sluice bench gpu. Each part is a unit. The unit's result is the file of the part's runs.

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/shard"
)

// sharded measures the parts of this process. With merge, it reads the runs of all parts, and writes each part to its
// own folder in --out.
func (c *benchCUDACmd) sharded(e *cli.Env, shards *shard.Run) error {
	parts := c.Parts
	if parts == nil {
		parts = bench.Parts()
	}
	var all [][]byte
	for runs, err := range shard.Units(shards, "parts", len(parts), func(i int) ([]byte, error) { return c.part(e, shards, parts[i]) }) {
		if err != nil {
			return err
		}
		all = append(all, runs)
	}
	if over, err := shards.Finish(); err != nil || over {
		return err
	}
	if err := c.room(); err != nil {
		return cli.Coded(cli.Usage, err)
	}
	for i, runs := range all {
		dir := filepath.Join(c.dir(), parts[i])
		if err := errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, bench.RawFile), runs, 0o666)); err != nil {
			return err
		}
		c.Read = append(c.Read, dir)
	}
	return c.read(e)
}

// part measures one part and returns the file of its runs. The file includes wrong results; merge reports them.
func (c *benchCUDACmd) part(e *cli.Env, shards *shard.Run, part string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "sluice-gpu-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	one, in := *c, *e
	one.Parts, one.Out, in.Stdout = []string{part}, dir, io.Discard
	if err := one.measure(&in); err != nil && cli.CodeOf(err) != cli.Check {
		return nil, err
	}
	runs, err := os.ReadFile(filepath.Join(dir, bench.RawFile))
	if err != nil {
		return nil, err
	}
	raw, err := bench.Read(bench.RawFile, bytes.NewReader(runs))
	if err != nil {
		return nil, err
	}
	shards.Made("GPU", func() string { return raw.Facts.GPU })
	return runs, nil
}
