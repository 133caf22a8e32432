// Package fake builds the fake drivers for CUDA and HIP, which need no GPU, and gives tests control of them.
package fake

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"

	"github.com/sluice-npu/sluice/host/gpu/cuda/built"
)

// Build builds libfakecuda.so in dir and returns its absolute path. A build of the same sources is reused.
func Build(dir string) (string, error) {
	return build(dir, "libfakecuda", "src/fake.cpp")
}

// BuildHIP makes libfakehip.so.
func BuildHIP(dir string) (string, error) {
	return build(dir, "libfakehip", "src/hip.cpp", "src/fake.cpp")
}

// BuildNVML builds libfakenvml.so, which exports fake_nvml(version, fails); that returns how often it is open.
func BuildNVML(dir string) (string, error) {
	return build(dir, "libfakenvml", "src/nvml.cpp")
}

// Kernels builds an object of the kernels for an AMD GPU, as amd.sh does at a level of optimisation, and returns its path.
// The fakes run none of it: -O0 takes a third of the time.
func Kernels(dir, arch, level string) (string, error) {
	sources := in("../kernels/amd.sh", "../kernels/src/amd.hpp", "../kernels/src/kernels.hpp", "../kernels/src/entries.hip")
	return built.Of(dir, "kernels-"+arch, ".co", sources, "sh", sources[0], arch, level)
}

// build makes a library of a source, with the kernels as an object that both drivers share: those are optimised, since
// they take time to run, and the rest is not, since it takes time to compile (clang takes half of g++'s).
func build(dir, name string, sources ...string) (string, error) {
	flags := []string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fPIC", "-fvisibility=hidden"}
	of := in("src/kernels.cpp", "../kernels/src/entries_cpu.hpp", "../kernels/src/kernels.hpp", "../kernels/src/cpu.hpp")
	object, err := built.Of(dir, "libfakekernels", ".o", of, append(append([]string{"g++"}, flags...), "-O3", "-c", of[0], "-o")...)
	if err != nil {
		return "", err
	}
	all := append(in(sources...), append(of[1:], object)...)
	return built.Of(dir, name, ".so", all, append(append([]string{"clang++-14"}, flags...), "-O0", "-shared", "-pthread", all[0], object, "-o")...)
}

// Dir is where tests build these. All packages of a process share one library and its state.
func Dir() string { return in("../../../../build/fakecuda")[0] }

// Test is what Rig needs of testing.T.
type Test interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// Rig loads the library that build builds and returns handles on it. It clears earlier faults, and removes injected
// errors and delays at the end of the test.
func Rig(t Test, build func(dir string) (string, error)) (path string, h *Handles) {
	t.Helper()
	path, err := build(Dir())
	if err != nil {
		t.Fatal(err)
	}
	if h, err = Attach(path); err != nil {
		t.Fatal(err)
	}
	h.Forgive()
	t.Cleanup(func() { h.Forget(); h.Slow(0); h.Spoil(0); h.Pace(0) })
	return path, h
}

// in resolves paths relative to this package. A test runs in its package's folder, from which the repository's root
// is found.
func in(paths ...string) []string {
	root, _ := filepath.Abs(".")
	for root != filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Dir(root)
	}
	for i := range paths {
		paths[i] = filepath.Join(root, "host/gpu/cuda/fake", paths[i])
	}
	return paths
}

// Handles control an open library.
type Handles struct {
	// Inject makes a call fail with code after a number of calls of its name. late: that call succeeds and all later
	// ones fail until the context is reset, as after a crashed kernel.
	Inject func(call string, after int, code int, late int)
	// InjectEvery makes every n-th call of a name fail with code.
	InjectEvery func(call string, every int, code int)
	// Waiting counts injected errors that have not occurred yet.
	Waiting func() int
	// GPUs sets the number of GPUs and their SMs (1, 132; AMD: 60 CUs), Capability the compute capability (90 is
	// 9.0).
	GPUs       func(n, sms int)
	Capability func(c int)
	// Version sets the CUDA version (12040). Env is the environment that the library sees.
	Version func(v int)
	Env     func(name string) string
	// Splits says how the driver divides: whether it merges sets of a split (it does), rounds sizes up to twice the
	// least (1) or takes larger sets from the other end (2; it does neither), or cannot divide.
	Splits func(merges, coarse, undivided int)
	// Forget removes injected errors.
	Forget func()
	// Log starts or ends a log of calls.
	Log   func(on int)
	calls func(p *byte, n int) int
	// Faults lists misuse by callers that a real driver need not tolerate: a handle freed twice or of another
	// context, memory freed during a copy. Forgive empties the list.
	faults  func(p *byte, n int) int
	Forgive func()
	// Open counts what has not been freed.
	Open func() int
	// Clear frees everything.
	Clear func()
	// Hold stops all streams, also new ones, or lets them continue.
	Hold func(on int)
	// HoldFills delays writes of words to device memory, or lets them happen.
	HoldFills func(on int)
	// Loses makes stream-ordered writes of words succeed without effect.
	Loses func(on int)
	// Slow makes a block wait at every look at its epoch.
	Slow func(ns int)
	// Spoil corrupts the input of the next kernel after every n-th kill; 0: never.
	Spoil func(every int)
	// Late delays writes of words to other streams' memory by up to ns.
	Late func(ns int)
	// Clock sets the step of the block clock in ns (1) and its lead over the host's (0).
	Clock func(tick, ahead int)
	// Pace has events go by a clock of what is done, not by the host's: a kernel of layers takes ns, a copy CopyNs of
	// its bytes. 0: by the host's.
	Pace   func(ns int)
	CopyNs func(bytes int) int
	// Sizes that the kernels were built with.
	LayerBytes, ControlBytes func() int
}

// Attach finds the handles of the library at path.
func Attach(path string) (*Handles, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		return nil, err
	}
	h := &Handles{}
	for name, f := range map[string]any{
		"fake_inject": &h.Inject, "fake_inject_every": &h.InjectEvery, "fake_waiting": &h.Waiting, "fake_version": &h.Version, "fake_env": &h.Env, "fake_gpus": &h.GPUs, "fake_capability": &h.Capability,
		"fake_faults": &h.faults, "fake_clear": &h.Clear, "fake_forgive": &h.Forgive, "fake_forget": &h.Forget, "fake_log": &h.Log, "fake_calls": &h.calls, "fake_open": &h.Open,
		"fake_hold": &h.Hold, "fake_hold_fills": &h.HoldFills, "fake_loses": &h.Loses, "fake_slow": &h.Slow, "fake_spoil": &h.Spoil, "fake_late": &h.Late, "fake_clock": &h.Clock, "fake_pace": &h.Pace, "fake_copy_ns": &h.CopyNs, "fake_layer_bytes": &h.LayerBytes, "fake_control_bytes": &h.ControlBytes,
	} {
		purego.RegisterLibFunc(f, lib, name)
	}
	if _, err := purego.Dlsym(lib, "fake_splits"); err == nil {
		purego.RegisterLibFunc(&h.Splits, lib, "fake_splits")
	}
	return h, nil
}

// Calls returns the calls since Log(1), with arguments.
func (h *Handles) Calls() []string {
	return strings.Fields(strings.ReplaceAll(lines(h.calls), " ", ""))
}

// Faults returns the misuse since Forgive.
func (h *Handles) Faults() []string {
	all := strings.Split(lines(h.faults), "\n")
	return all[:len(all)-1]
}

func lines(of func(p *byte, n int) int) string {
	buf := make([]byte, of(nil, 0)+1<<16)
	return string(buf[:min(of(&buf[0], len(buf)), len(buf))])
}
