// Command hwconfig prints a configuration of the NPU.
//
// Exit codes: 0 ok, 2 usage, 3 the configuration is refused.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
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

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("hwconfig", flag.ContinueOnError)
	fs.SetOutput(stderr)
	verilator := fs.Bool("verilator", false, "print the -G flags of npu_top")
	whole := fs.Bool("whole", false, "with -verilator: only where the RTL of the whole NPU elaborates")
	cpp := fs.Bool("cpp", false, "print a C++ header with the parameters")
	cosimBeats := fs.Int("cosim-beats", 1<<16, "with -cpp: beats of memory in the vendor's co-simulation")
	list := fs.Bool("list", false, "list the embedded configurations")
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *list && fs.NArg() == 0 && !*verilator && !*cpp {
		for _, n := range configs.Names() {
			fmt.Fprintln(stdout, n)
		}
		return 0
	}
	var wrong string
	switch {
	case *list:
		wrong = "-list goes alone"
	case *verilator && *cpp:
		wrong = "-verilator and -cpp do not go together"
	case *whole && !*verilator:
		wrong = "-whole needs -verilator"
	case *cosimBeats < 1:
		wrong = fmt.Sprintf("-cosim-beats: expected 1 or more, found %d", *cosimBeats)
	case fs.NArg() == 0:
		wrong = "the configuration is missing: a name or a YAML file"
	case fs.NArg() > 1:
		wrong = fmt.Sprintf("unexpected %q: one configuration is printed, and flags stand before it", fs.Arg(1))
	}
	if wrong != "" {
		fmt.Fprintln(stderr, "hwconfig:", wrong)
		fs.Usage()
		return 2
	}
	d, err := configs.Load(fs.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "hwconfig:", err)
		return 3
	}
	if strings.ContainsRune(fs.Arg(0), '/') && !strings.HasSuffix(fs.Arg(0), ".yaml") {
		fmt.Fprintf(stderr, "hwconfig: %s: expected a file that ends in .yaml\n", fs.Arg(0))
		return 3
	}
	// builds use the file's name, vectors and bundles the design's, so they must be equal
	if file := strings.TrimSuffix(filepath.Base(fs.Arg(0)), ".yaml"); file != d.Name {
		fmt.Fprintf(stderr, "hwconfig: %s: name: expected %q, as the file is called, found %q\n", fs.Arg(0), file, d.Name)
		return 3
	}
	refused := func(err error) bool {
		if err == nil {
			err = d.OwnName()
		}
		if err != nil {
			fmt.Fprintf(stderr, "hwconfig: %s: %v\n", fs.Arg(0), err)
		}
		return err != nil
	}
	if *verilator {
		if *whole && refused(errors.Join(d.Elaborates(), folded(d))) {
			return 3
		}
		fmt.Fprintln(stdout, strings.Join(d.VerilatorParams(), " "))
		return 0
	}
	if *cpp {
		if refused(d.ForHLS()) {
			return 3
		}
		stdout.Write(d.CPPHeader(*cosimBeats))
		return 0
	}
	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err = enc.Encode(struct {
		configs.Design
		NB        int    `json:"nb"`
		ABufElems int    `json:"abuf_elems"`
		Hash      string `json:"design_hash"`
	}{d, d.NB(), d.ABufElems(), fmt.Sprintf("%016x", d.Hash())})
	if err != nil {
		fmt.Fprintln(stderr, "hwconfig:", err)
		return 3
	}
	return 0
}

// folded checks the banks that the design's board folds. An unknown board is accepted.
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
