// Command hlscheck checks, for each given configuration, that an HLS tool can synthesise the kernel.
//
// Exit codes: 0 ok, 1 the kernel is rejected, 2 wrong usage, 3 bad input, 5 a tool is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hls/check"
	"github.com/sluice-npu/sluice/hls/estimate"
	"github.com/sluice-npu/sluice/hw/configs"
)

const usage = `hlscheck checks the HLS kernel of configurations on LLVM's intermediate code (packages clang-14, llvm-14).

  hlscheck [-root DIR] [-src DIR] [-dependences] CONFIG...
  hlscheck -resources [-board NAME|FILE.yaml] CONFIG...
  hlscheck -trips OUT [-src DIR]

Example: bin/hlscheck -dependences tiny

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("hlscheck", flag.ContinueOnError)
	fs.SetOutput(stderr)
	root := fs.String("root", "", "the repository's root (default: the nearest folder above with a go.mod)")
	src := fs.String("src", "", "the kernel's folder (default: hls/src below the root)")
	deps := fs.Bool("dependences", false, "hold every II to the dependences too (seconds for small arrays, minutes for large ones)")
	needs := fs.Bool("resources", false, "print what the kernel's memories and its array take, instead, and of how much its board has; exit 1 where it is more than there is")
	board := fs.String("board", "", "with -resources: the board, by name or as a file (default: the configuration's; without one the family counts as zynq-7000)")
	trips := fs.String("trips", "", "copy the kernel to this folder, every loop counting its trips against what is stated of it, for C-simulation")
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
	if (fs.NArg() == 0) != (*trips != "") || *board != "" && !*needs {
		fs.Usage()
		return 2
	}
	if *root == "" {
		dir, err := above()
		if err != nil {
			fmt.Fprintln(stderr, "hlscheck:", err)
			return 2
		}
		*root = dir
	}
	if *src == "" {
		*src = filepath.Join(*root, "hls", "src")
	}
	if *trips != "" {
		if err := check.Counted(*src, *trips); err != nil {
			fmt.Fprintln(stderr, "hlscheck:", err)
			return 3
		}
		return 0
	}
	code := 0
	for _, name := range fs.Args() {
		if *needs {
			fits, err := resources(stdout, name, *board)
			if err != nil {
				fmt.Fprintln(stderr, "hlscheck:", err)
				return 3
			}
			if !fits {
				code = 1
			}
			continue
		}
		r, err := one(*root, *src, name, *deps)
		switch {
		case errors.Is(err, check.ErrTool):
			fmt.Fprintln(stderr, "hlscheck:", err)
			return 5
		case err != nil:
			fmt.Fprintln(stderr, "hlscheck:", err)
			return 3
		}
		fmt.Fprintf(stdout, "%s: %d functions; %d loops, %d bounded by ScalarEvolution, %d by a stated trip count, %d pipelined; %d bursts, %d single beats; %d memory ports", name, r.Functions, r.Loops, r.ByLLVM, r.Stated, r.Pipelined, r.Bursts, r.Single, r.Ports)
		if *deps {
			fmt.Fprintf(stdout, "; %d dependences carried through memory, %d of them declared false", r.Carried, r.Declared)
		}
		fmt.Fprintln(stdout)
		for _, p := range r.Problems {
			fmt.Fprintf(stdout, "  %s\n", p)
			code = 1
		}
	}
	return code
}

// above returns the nearest folder with a go.mod, from the working folder upwards.
func above() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working folder; give -root")
		}
		dir = up
	}
}

// resources prints the resources that a configuration's kernel needs, and reports whether the board has them. If board
// is empty, the configuration's board is used.
func resources(w io.Writer, name, board string) (fits bool, err error) {
	d, err := configs.Load(name)
	if err != nil {
		return false, err
	}
	if err := d.ForHLS(); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	if board == "" {
		board = d.Board
	}
	var b boards.Board
	family := boards.Series7
	on, of := family+" without a board", func(int) string { return "" }
	if board != "" {
		if b, err = boards.Load(board); err != nil {
			return false, fmt.Errorf("%s: %w", d.Name, err)
		}
		family, on, of = b.Family, b.Name, func(n int) string { return fmt.Sprintf(" of %d", n) }
	}
	r := estimate.Needs(d, family)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s on %s, estimated\tin\tmemories\twords\tbits\tBRAM36\tLUTs\n", d.Name, on)
	for _, m := range r.Memories {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%g\t%d\n", m.Name, m.Storage, m.Count, m.Words, m.Bits, float64(m.BRAM18)/2, m.LUTs)
	}
	fmt.Fprintf(t, "all\t\t\t\t\t%g%s\t%d%s, logic not counted\n", float64(r.BRAM18)/2, of(b.BRAM36), r.LUTs, of(b.LUT))
	fmt.Fprintf(t, "DSPs\t%d%s\n", r.DSP, of(b.DSP))
	return board == "" || r.Fits(b), t.Flush()
}

func one(root, src, name string, deps bool) (*check.Report, error) {
	d, err := configs.Load(name)
	if err != nil {
		return nil, err
	}
	// the same check as in the build (hwconfig -cpp)
	if err := d.ForHLS(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if file := strings.TrimSuffix(filepath.Base(name), ".yaml"); file != d.Name {
		return nil, fmt.Errorf("%s: name: expected %q, as the file is called, found %q", name, file, d.Name)
	}
	dir, err := os.MkdirTemp("", "hlscheck")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "sluice_design.hpp"), d.CPPHeader(1), 0o644); err != nil {
		return nil, err
	}
	r, err := check.Run(context.Background(), check.Options{
		Source: src, Dependences: deps,
		Include: []string{
			dir, filepath.Join(root, "sim", "include"), filepath.Join(root, "hls", "include"), filepath.Join(root, "hls", "standin"),
			filepath.Join(root, "hls", "standin", "blocks"),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSuffix(name, ".yaml"), err)
	}
	return r, nil
}
