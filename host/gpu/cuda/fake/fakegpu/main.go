// fakegpu builds the fake drivers for NVIDIA and AMD, which need no GPU. It prints the settings for the use of these
// drivers by sluice:
//
//	go run ./host/gpu/cuda/fake/fakegpu build/fakegpu
//
// Everything that runs on them is labelled simulated.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
)

// arch is the AMD GPU for which the kernels are built.
const arch = "gfx906"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fakegpu:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("one folder is expected, that the libraries and the file env are put into; got %q", args)
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	var env strings.Builder
	for _, one := range []struct {
		name, what string
		build      func(string) (string, error)
	}{
		{"SLUICE_CUDA", "NVIDIA's driver: --device cuda, sluice bench gpu", fake.Build},
		{"SLUICE_NVML", "its library for monitoring", fake.BuildNVML},
		{"SLUICE_HIP", "AMD's runtime: --device hip", fake.BuildHIP},
		{"SLUICE_HIP_KERNELS", "the kernels for it", func(dir string) (string, error) { return fake.Kernels(dir, arch, "-O0") }},
	} {
		path, err := one.build(dir)
		if one.name == "SLUICE_HIP_KERNELS" && err != nil { // AMD's compiler may be missing
			fmt.Fprintf(os.Stderr, "fakegpu: no %s (%s): %v\n", one.name, one.what, err)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&env, "export %s=%s # %s\n", one.name, quoted(path), one.what)
	}
	file := filepath.Join(dir, "env")
	if err := os.WriteFile(file, []byte(env.String()), 0o666); err != nil {
		return err
	}
	fmt.Printf("%swrote %s: source it, and sluice finds a GPU that is none\n", env.String(), file)
	return nil
}

// quoted quotes a word for the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
