// Command hwconfig prints a configuration of the NPU.
//
// Exit codes: 0 ok, 2 wrong usage, 3 the configuration is rejected.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

const usage = `hwconfig prints a configuration of the NPU as JSON.

  hwconfig NAME             JSON; NAME is embedded (see -list) or the path of a YAML file
  hwconfig -verilator NAME  the -G flags of npu_top, on one line
  hwconfig -verilator -whole NAME  the same, refused where npu_top would stop, on its board too (parts of it may do with others)
  hwconfig -cpp NAME        a C++ header with its parameters, for hls
  hwconfig -list            the embedded names

Example: verilator --cc $(go run ./hw/configs/cmd/hwconfig -verilator run) ...

`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	verilator, whole, cpp, list bool
	cosimBeats                  int
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	t := cli.NewFlagTool("hwconfig", usage, stderr)
	t.BoolVar(&o.verilator, "verilator", false, "print the -G flags of npu_top")
	t.BoolVar(&o.whole, "whole", false, "with -verilator: only where the RTL of the whole NPU elaborates")
	t.BoolVar(&o.cpp, "cpp", false, "print a C++ header with the parameters")
	t.IntVar(&o.cosimBeats, "cosim-beats", 1<<16, "with -cpp: beats of memory in the vendor's co-simulation")
	t.BoolVar(&o.list, "list", false, "list the embedded configurations")
	return t.Main(args, func() error {
		if err := o.check(t.Args()); err != nil {
			return err
		}
		if o.list {
			_, err := fmt.Fprintln(stdout, strings.Join(configs.Names(), "\n"))
			return err
		}
		text, err := o.print(t.Arg(0))
		if err == nil {
			_, err = stdout.Write(text)
		}
		return err
	})
}

func (o *options) check(args []string) error {
	switch {
	case o.list && (o.verilator || o.cpp || len(args) > 0):
		return cli.Errorf(cli.Usage, "-list goes alone")
	case o.verilator && o.cpp:
		return cli.Errorf(cli.Usage, "-verilator and -cpp do not go together")
	case o.whole && !o.verilator:
		return cli.Errorf(cli.Usage, "-whole needs -verilator")
	case o.cosimBeats < 1:
		return cli.Errorf(cli.Usage, "-cosim-beats: expected 1 or more, found %d", o.cosimBeats)
	case o.list:
		return nil
	case len(args) == 0:
		return cli.Errorf(cli.Usage, "the configuration is missing: a name or a YAML file")
	case len(args) > 1:
		return cli.Errorf(cli.Usage, "unexpected %q: one configuration is printed, and flags come before it", args[1])
	}
	return nil
}

// print returns a configuration in the selected form.
func (o *options) print(path string) ([]byte, error) {
	d, err := configs.Load(path)
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(path, '/') && !strings.HasSuffix(path, ".yaml") {
		return nil, fmt.Errorf("%s: expected a file that ends in .yaml", path)
	}
	// Builds use the name of the file, but vectors and bundles use the name of the design. Both names must be equal.
	if file := strings.TrimSuffix(filepath.Base(path), ".yaml"); file != d.Name {
		return nil, fmt.Errorf("%s: name: expected %q, as the file is called, found %q", path, file, d.Name)
	}
	switch {
	case o.whole:
		err = errors.Join(d.Elaborates(), folded(d))
	case o.cpp:
		err = d.ForHLS()
	}
	if err == nil && (o.whole || o.cpp) {
		err = d.OwnName()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case o.verilator:
		return []byte(strings.Join(d.VerilatorParams(), " ") + "\n"), nil
	case o.cpp:
		return d.CPPHeader(o.cosimBeats), nil
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err = enc.Encode(struct {
		configs.Design
		NB        int    `json:"nb"`
		ABufElems int    `json:"abuf_elems"`
		Hash      string `json:"design_hash"`
	}{d, d.NB(), d.ABufElems(), fmt.Sprintf("%016x", d.Hash())})
	return text.Bytes(), err
}

// folded checks the design's banks if its board folds them. Unknown boards are accepted.
func folded(d configs.Design) error {
	if !slices.Contains(boards.Names(), d.Board) {
		return nil
	}
	b, err := boards.Load(d.Board)
	if err != nil || !b.Folds(d.ABufWords) {
		return err
	}
	return d.Folded()
}
