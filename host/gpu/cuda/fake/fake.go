// Package fake builds fake drivers for CUDA and HIP that need no GPU, and lets tests control them.
package fake

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"

	"github.com/sluice-npu/sluice/host/gpu/cuda/built"
)

// Build builds libfakecuda.so in dir and returns its absolute path. An existing build of the same sources is reused.
func Build(dir string) (string, error) {
	return build(dir, "libfakecuda", "src/fake.cpp")
}

// BuildHIP builds libfakehip.so.
func BuildHIP(dir string) (string, error) {
	return build(dir, "libfakehip", "src/hip.cpp", "src/fake.cpp")
}

// BuildNVML builds libfakenvml.so. Its function fake_nvml(version, fails) returns how often the library is open now.
func BuildNVML(dir string) (string, error) {
	return build(dir, "libfakenvml", "src/nvml.cpp")
}

// Kernels builds an object of the kernels for an AMD GPU, as amd.sh does, and returns the object's path. level is the
// optimisation level. The fake drivers never run the object, so -O0 is sufficient and takes a third of the time.
func Kernels(dir, arch, level string) (string, error) {
	sources := in("../kernels/amd.sh", "../kernels/src/amd.hpp", "../kernels/src/kernels.hpp", "../kernels/src/entries.hip")
	return built.Of(dir, "kernels-"+arch, ".co", sources, "sh", sources[0], arch, level)
}

// build builds a library from its sources and from an object with the kernels, which is the same for both drivers. Only
// the kernels are optimised, because their run time is important. For all other sources, the compile time is more
// important. clang compiles them in half of g++'s time.
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

// Dir is the folder in which tests build the drivers. All packages of a process share one library and its state.
func Dir() string { return in("../../../../build/fakecuda")[0] }

// Test is the part of testing.T that Rig needs.
type Test interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// Rig loads the library that the function "build" builds, and returns the library's handles. It clears the list of
// faults. At the end of the test, it removes injected errors and delays.
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

// in resolves paths relative to this package's folder. Tests run in the folders of their own packages, so this function
// searches for the repository's root first.
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
	// Inject lets `after` calls of a name succeed, and makes the next call fail with the error `code`. If late is not 0,
	// this call succeeds too, but all later calls fail until the context is reset, as after a crashed kernel.
	Inject func(call string, after int, code int, late int)
	// InjectEvery makes every n-th call of a name fail with the error `code`. The argument `every` is n.
	InjectEvery func(call string, every int, code int)
	// Waiting returns the number of injected errors that have not happened yet.
	Waiting func() int
	// GPUs sets the number of GPUs and the number of SMs of each GPU (default 1 and 132; AMD: 60 CUs). Capability sets
	// the compute capability: 90 means 9.0.
	GPUs       func(n, sms int)
	Capability func(c int)
	// Version sets the CUDA version (default 12040). Env reads a variable of the library's environment.
	Version func(v int)
	Env     func(name string) string
	// Splits sets how the driver divides the GPU. If merges = 1 (the default), it merges several sets of one split. If
	// coarse = 1, it rounds sizes up to twice the smallest size. If coarse = 2, it splits off larger sets from the
	// other end of the GPU. If undivided = 1, it cannot divide the GPU.
	Splits func(merges, coarse, undivided int)
	// Forget removes injected errors.
	Forget func()
	// Log starts or ends a log of calls.
	Log   func(on int)
	calls func(p *byte, n int) int
	// faults lists misuse of the driver that a real driver might not tolerate. Examples are a handle that is freed
	// twice or used in another context, and memory that is freed during a copy. Forgive clears the list.
	faults  func(p *byte, n int) int
	Forgive func()
	// Open returns the number of objects that have not been freed.
	Open func() int
	// Clear frees everything.
	Clear func()
	// Hold(1) stops all streams, including new ones. Hold(0) lets them continue.
	Hold func(on int)
	// HoldFills(1) delays writes of words to device memory. HoldFills(0) ends this delay.
	HoldFills func(on int)
	// After Loses(1), stream-ordered writes of words report success but write nothing.
	Loses func(on int)
	// Slow makes blocks wait for the given time in ns whenever they read their epoch.
	Slow func(ns int)
	// Spoil corrupts the input of a stream's next kernel after every n-th kill. The argument `every` is n; 0: never.
	Spoil func(every int)
	// Late delays writes of words by at most the given time in ns, if the memory belongs to another stream.
	Late func(ns int)
	// Clock sets the clock of blocks: its step in ns (default 1), and its lead over the host's clock in ns (default 0).
	Clock func(tick, ahead int)
	// Pace measures the times of events with a clock that counts work, not with the host's clock. On this clock, a
	// kernel takes the given time in ns, and a copy takes CopyNs(bytes). Pace(0) restores the host's clock.
	Pace   func(ns int)
	CopyNs func(bytes int) int
	// LayerBytes and ControlBytes return the compiled sizes of Layer and Control.
	LayerBytes, ControlBytes func() int
}

// Attach returns the handles of the library at path.
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

// Calls returns all calls since Log(1) with their arguments.
func (h *Handles) Calls() []string {
	return strings.Fields(strings.ReplaceAll(lines(h.calls), " ", ""))
}

// Faults returns the list of misuse since the last Forgive.
func (h *Handles) Faults() []string {
	all := strings.Split(lines(h.faults), "\n")
	return all[:len(all)-1]
}

func lines(of func(p *byte, n int) int) string {
	buf := make([]byte, of(nil, 0)+1<<16)
	return string(buf[:min(of(&buf[0], len(buf)), len(buf))])
}
