// Command boardip writes the files of hw/vivado/ip for a design on a board: the packaged IP that a block design uses.
//
// Exit codes: 0 ok, 1 a file differs (-check), 2 wrong usage, 3 bad input.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/ip"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `boardip writes a design's top, packaging Tcl and constraints for a board.

Example: go run ./hw/vivado/ip/cmd/boardip -board zc706 -config small -out build/ip/zc706-small

`

func run(args []string, stdout, stderr io.Writer) int {
	t := cli.NewFlagTool("boardip", usage, stderr)
	board := t.String("board", "", "board: a name or a board.yaml")
	config := t.String("config", "", "design: a name or a YAML file (default: the board's name)")
	out := t.String("out", "", "folder to write to")
	check := t.Bool("check", false, "write nothing, fail where a file differs")
	return t.Main(args, func() error {
		switch {
		case t.NArg() != 0:
			return cli.Errorf(cli.Usage, "unexpected %q", t.Arg(0))
		case *board == "":
			return cli.Errorf(cli.Usage, "-board is missing")
		case *out == "":
			return cli.Errorf(cli.Usage, "-out is missing")
		}
		b, err := boards.Load(*board)
		if err != nil {
			return err
		}
		d, err := configs.Load(cmp.Or(*config, b.Name))
		if err != nil {
			return err
		}
		files, err := ip.Generate(b, d)
		if err != nil {
			return err
		}
		if err := resource.Of(b, d).Check(b); err != nil { // the files are still correct for a larger part
			fmt.Fprintf(stderr, "boardip: warning: %s on %s: %v (estimated)\n", d.Name, b.Name, err)
		}
		if *check {
			return compare(files, *out)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			path := filepath.Join(*out, name)
			if err := errors.Join(os.MkdirAll(*out, 0o755), os.WriteFile(path, files[name], 0o644)); err != nil {
				return err
			}
			fmt.Fprintln(stdout, path)
		}
		return nil
	})
}

// compare returns an error that names each file in the folder dir that differs from the argument files.
func compare(files ip.Files, dir string) error {
	var stale []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, files[name]) {
			stale = append(stale, path)
		}
	}
	if stale == nil {
		return nil
	}
	return cli.Errorf(cli.Check, "%s: not what hw/vivado/ip makes; without -check it is written anew", strings.Join(stale, ", "))
}
