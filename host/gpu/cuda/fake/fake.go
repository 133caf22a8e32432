// Package fake builds the CUDA driver that needs no GPU, and AMD's, and holds the handles that tests have on
// them.
package fake

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"

	"github.com/sluice-npu/sluice/host/gpu/cuda/built"
)

// Build makes libfakecuda.so in dir, and says where it is, whole. What has been built of the same sources is
// kept.
func Build(dir string) (string, error) {
	return build(dir, "libfakecuda", "src/fake.cpp")
}

// BuildHIP makes libfakehip.so.
func BuildHIP(dir string) (string, error) {
	return build(dir, "libfakehip", "src/hip.cpp", "src/fake.cpp")
}

// BuildNVML makes libfakenvml.so; it has fake_nvml(version, fails), which answers how often it is open.
func BuildNVML(dir string) (string, error) {
	return build(dir, "libfakenvml", "src/nvml.cpp")
}

// Kernels makes an object of the kernels for an AMD GPU, as amd.sh does, and says where it is.
func Kernels(dir, arch string) (string, error) {
	sources := in("../kernels/amd.sh", "../kernels/src/amd.hpp", "../kernels/src/kernels.hpp", "../kernels/src/entries.hip")
	return built.Of(dir, "kernels-"+arch, ".co", sources, "sh", sources[0], arch)
}

func build(dir, name string, sources ...string) (string, error) {
	all := in(append(sources, "../kernels/src/entries_cpu.hpp", "../kernels/src/kernels.hpp", "../kernels/src/cpu.hpp")...)
	return built.Of(dir, name, ".so", all, "g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-O2", "-shared", "-fPIC",
		"-fvisibility=hidden", "-pthread", all[0], "-o")
}

// Dir is where tests have these made: their libraries are one, and have one state, for all packages of a process.
func Dir() string { return in("../../../../build/fakecuda")[0] }

// Test is what Rig is told of a test.
type Test interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// Rig is the library that build makes, and handles on it; whatever was done wrong before is forgiven, and what a test injects
// or slows is as it was when it is over.
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
	t.Cleanup(func() { h.Forget(); h.Slow(0); h.Spoil(0) })
	return path, h
}

// in are files by their paths from this package on. A test runs in its own package's folder, below the
// repository's root; where there is none above, the files are not found.
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

// Handles of a library that is open.
type Handles struct {
	// Inject has the call that comes after so many of its name answer code; late: that one succeeds, and
	// all behind it fail until the context is reset, as after a kernel that crashed.
	Inject func(call string, after int, code int, late int)
	// InjectEvery has every so many calls of a name answer code.
	InjectEvery func(call string, every int, code int)
	// Waiting counts what was injected and has not been seen.
	Waiting func() int
	// GPUs sets how many there are and how many SMs each has (1, 132; of AMD's 60 CUs), Capability what they
	// can do (90 is 9.0).
	GPUs       func(n, sms int)
	Capability func(c int)
	// Version sets which CUDA the driver serves (12040). Env is what the library sees of the environment.
	Version func(v int)
	Env     func(name string) string
	// Splits says how the driver divides: whether it merges sets of a split (it does), rounds sizes up to twice the
	// least (1) or takes larger ones from the other end (2; it does not), or divides nothing.
	Splits func(merges, coarse, undivided int)
	// Forget takes back what was injected.
	Forget func()
	// Log begins a list of calls, or ends it.
	Log   func(on int)
	calls func(p *byte, n int) int
	// Faults lists what callers did that no driver promises to bear: a handle given back twice, of another
	// context, memory freed under a copy. Forgive empties the list.
	faults  func(p *byte, n int) int
	Forgive func()
	// Open counts what has not been given back.
	Open func() int
	// Clear takes back all that was given.
	Clear func()
	// Hold keeps every stream from going on, those too that are made meanwhile, or lets them.
	Hold func(on int)
	// HoldFills keeps what sets words of the device's memory from happening, or lets it.
	HoldFills func(on int)
	// Loses has the writes of words in a stream's order say that all is well, and write nothing.
	Loses func(on int)
	// Slow has a block wait wherever it looks at its epoch.
	Slow func(ns int)
	// Spoil has every so many kills be followed by a kernel whose input is spoiled: 0, none.
	Spoil func(every int)
	// Late has the writes of words to other streams' memory come late, by up to ns.
	Late func(ns int)
	// Clock has the clock that blocks read tick in steps of so many ns (1), and stand so many ns ahead of the host's (0).
	Clock func(tick, ahead int)
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
		"fake_hold": &h.Hold, "fake_hold_fills": &h.HoldFills, "fake_loses": &h.Loses, "fake_slow": &h.Slow, "fake_spoil": &h.Spoil, "fake_late": &h.Late, "fake_clock": &h.Clock, "fake_layer_bytes": &h.LayerBytes, "fake_control_bytes": &h.ControlBytes,
	} {
		purego.RegisterLibFunc(f, lib, name)
	}
	if _, err := purego.Dlsym(lib, "fake_splits"); err == nil {
		purego.RegisterLibFunc(&h.Splits, lib, "fake_splits")
	}
	return h, nil
}

// Calls are those since Log(1), with their arguments.
func (h *Handles) Calls() []string {
	return strings.Fields(strings.ReplaceAll(lines(h.calls), " ", ""))
}

// Faults are those since Forgive.
func (h *Handles) Faults() []string {
	all := strings.Split(lines(h.faults), "\n")
	return all[:len(all)-1]
}

func lines(of func(p *byte, n int) int) string {
	buf := make([]byte, of(nil, 0)+1<<16)
	return string(buf[:min(of(&buf[0], len(buf)), len(buf))])
}
