// Command hlscheck holds the HLS kernel of configurations to what an HLS tool can make hardware of.
//
// Exit codes: 0 ok, 1 the kernel is refused, 2 usage, 3 bad input, 5 a tool is missing.
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

	"github.com/sluice-npu/sluice/hls/check"
	"github.com/sluice-npu/sluice/hw/configs"
)

const usage = `hlscheck checks the HLS kernel of configurations on LLVM's intermediate code (packages clang-14, llvm-14).

  hlscheck [-root DIR] [-src DIR] [-dependences] CONFIG...

Example: go run ./hls/cmd/hlscheck -dependences tiny

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("hlscheck", flag.ContinueOnError)
	fs.SetOutput(stderr)
	root := fs.String("root", ".", "the repository's root")
	src := fs.String("src", "", "the kernel's folder (default: hls/src below the root)")
	deps := fs.Bool("dependences", false, "hold every II to the dependences too (seconds for small arrays, minutes for large ones)")
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
	if fs.NArg() == 0 {
		fs.Usage()
		return 2
	}
	if *src == "" {
		*src = filepath.Join(*root, "hls", "src")
	}
	code := 0
	for _, name := range fs.Args() {
		r, err := one(*root, *src, name, *deps)
		switch {
		case errors.Is(err, check.ErrTool):
			fmt.Fprintln(stderr, "hlscheck:", err)
			return 5
		case err != nil:
			fmt.Fprintln(stderr, "hlscheck:", err)
			return 3
		}
		fmt.Fprintf(stdout, "%s: %d functions; %d loops, %d bounded by ScalarEvolution, %d by a stated trip count, %d pipelined", name, r.Functions, r.Loops, r.ByLLVM, r.Stated, r.Pipelined)
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

func one(root, src, name string, deps bool) (*check.Report, error) {
	d, err := configs.Load(name)
	if err != nil {
		return nil, err
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
			dir, filepath.Join(root, "sim", "include"), filepath.Join(root, "hls", "standin"),
			filepath.Join(root, "hls", "standin", "blocks"),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSuffix(name, ".yaml"), err)
	}
	return r, nil
}
