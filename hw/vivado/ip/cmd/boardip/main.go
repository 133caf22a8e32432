// Command boardip writes what a block design takes of a design on a board: hw/vivado/ip's files.
//
// Exit codes: 0 ok, 1 -check was given and a file differs, 2 usage, 3 bad input.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
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
	fs := flag.NewFlagSet("boardip", flag.ContinueOnError)
	fs.SetOutput(stderr)
	board := fs.String("board", "", "board: a name or a board.yaml")
	config := fs.String("config", "", "design: a name or a YAML file (default: the board's name)")
	out := fs.String("out", "", "folder to write to")
	check := fs.Bool("check", false, "write nothing, fail where a file differs")
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
	var wrong string
	switch {
	case fs.NArg() != 0:
		wrong = fmt.Sprintf("unexpected %q", fs.Arg(0))
	case *board == "":
		wrong = "-board is missing"
	case *out == "":
		wrong = "-out is missing"
	}
	if wrong != "" {
		fmt.Fprintln(stderr, "boardip:", wrong)
		fs.Usage()
		return 2
	}
	fail := func(err error) int {
		fmt.Fprintln(stderr, "boardip:", err)
		return 3
	}
	b, err := boards.Load(*board)
	if err != nil {
		return fail(err)
	}
	if *config == "" {
		*config = b.Name
	}
	d, err := configs.Load(*config)
	if err != nil {
		return fail(err)
	}
	files, err := ip.Generate(b, d)
	if err != nil {
		return fail(err)
	}
	if err := resource.Of(b, d).Check(b); err != nil { // the files are still right, for a larger part
		fmt.Fprintf(stderr, "boardip: warning: %s on %s: %v (estimated)\n", d.Name, b.Name, err)
	}
	if *check {
		return differ(files, *out, stderr)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fail(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(*out, name)
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fail(err)
		}
		fmt.Fprintln(stdout, path)
	}
	return 0
}

// differ names each file that differs from what would be written.
func differ(files ip.Files, dir string, stderr io.Writer) int {
	status := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, files[name]) {
			fmt.Fprintf(stderr, "boardip: %s is not what hw/vivado/ip makes; without -check it is written anew\n", path)
			status = 1
		}
	}
	return status
}
