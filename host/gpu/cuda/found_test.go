package cuda_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// Every GPU is found. If there is none, the error differs from those for a driver that is missing or does not start.
func TestFound(t *testing.T) {
	for _, c := range []struct {
		api  *driver.API
		init string
		hide string
	}{{driver.CUDA, "cuInit", "CUDA_VISIBLE_DEVICES"}, {driver.HIP, "hipInit", "HIP_VISIBLE_DEVICES"}} {
		path, h := of(t, c.api)
		h.GPUs(2, 60)
		if all, err := cuda.Found(c.api, path); err != nil || len(all) != 2 || !strings.HasPrefix(all[1], "Fake GPU, driver for ") {
			t.Errorf("two GPUs: %q, %v", all, err)
		}
		h.GPUs(0, 60)
		none := func(want string) {
			t.Helper()
			all, err := cuda.Found(c.api, path)
			if !errors.Is(err, driver.ErrNone) || errors.Is(err, driver.ErrMissing) || all != nil ||
				!strings.Contains(err.Error(), c.hide) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no GPU: %q, %v", c.api.Name, all, err)
			}
		}
		none(path)
		h.GPUs(1, map[*driver.API]int{driver.CUDA: 132, driver.HIP: 60}[c.api])
		h.Inject(c.init, 0, 100, 0) // the answer of drivers that see no GPU
		none(c.init)
		h.Inject(c.init, 0, 803, 0)
		if _, err := cuda.Found(c.api, path); !errors.Is(err, driver.ErrMissing) || !strings.Contains(err.Error(), "does not start: "+c.init) {
			t.Errorf("%s: a driver that is not the kernel's: %v", c.api.Name, err)
		}
		_, err := cuda.Found(c.api, "none.so")
		if other := map[*driver.API]string{driver.CUDA: "HIP", driver.HIP: "CUDA"}[c.api]; !errors.Is(err, driver.ErrMissing) || strings.Contains(err.Error(), other) {
			t.Errorf("%s: no library: %v", c.api.Name, err)
		}
	}
}

// After a kernel's error every call on objects of its context returns that error and releases nothing, until the context
// is reset, as with real drivers.
func TestSticky(t *testing.T) {
	for _, api := range []*driver.API{driver.CUDA, driver.HIP} {
		path, h := of(t, api)
		lib, err := driver.Open(api, path)
		if err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, err := lib.Retain(0)
		must(err)
		must(lib.SetCurrent(ctx))
		stream, err := lib.NewStream(0)
		must(err)
		event, err := lib.NewEvent(false)
		must(err)
		calls := map[string]func() error{
			"stream": func() error { return lib.FreeStream(stream) },
			"event":  func() error { return lib.FreeEvent(event) },
		}
		if lib.HasGreen() {
			all, err := lib.SMs(0)
			must(err)
			sets, _, err := lib.SplitAll(all)
			must(err)
			green, err := lib.NewGreen(0, sets[:1])
			must(err)
			calls["new partition"] = func() error { _, err := lib.NewGreen(0, sets[:1]); return err }
			calls["partition's SMs"] = func() error { _, err := lib.GreenSMs(green); return err }
			calls["partition's context"] = func() error { _, err := lib.Context(green); return err }
			calls["partition"] = func() error { return lib.FreeGreen(green) }
		}
		open := h.Open()
		h.Inject(map[*driver.API]string{driver.CUDA: "cuMemHostAlloc", driver.HIP: "hipHostMalloc"}[api], 0, 719, 1)
		if _, err := lib.AllocHost(64); driver.CodeOf(err) != 719 {
			t.Fatalf("%s: a kernel's error: %v", api.Name, err)
		}
		for name, call := range calls {
			if err := call(); driver.CodeOf(err) != 719 {
				t.Errorf("%s, %s after a kernel's error: %v", api.Name, name, err)
			}
		}
		if n := h.Open(); n != open || len(h.Faults()) != 0 {
			t.Errorf("%s: %d things were open, %d are; faults %v", api.Name, open, n, h.Faults())
		}
		must(lib.Reset(0))
		must(lib.Release(0))
		if n := h.Open(); n != 0 {
			t.Errorf("%s: after a reset %d things are open", api.Name, n)
		}
		must(lib.SetCurrent(0))
	}
}
