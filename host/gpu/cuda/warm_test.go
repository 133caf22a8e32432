package cuda_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Before the device is ready, every kernel has run once, with every limit of registers.
func TestWarm(t *testing.T) {
	path, h := library(t)
	h.Log(1)
	d, err := cuda.New(cuda.Config{Library: path, Mode: mode(t, "reef"), Params: h200(t)})
	calls := h.Calls()
	h.Log(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	found, run := map[string]int{}, 0
	for _, c := range calls {
		if name, ok := strings.CutPrefix(c, "cuLibraryGetKernel("); ok {
			found[strings.TrimSuffix(name, ")")]++
		}
		if strings.HasPrefix(c, "cuLaunchKernel(") {
			run++
		}
	}
	// Four kernels, and the padded one without a limit and with limits of 80 and 64; with 64 an SM holds more blocks.
	if n := found[kernels.EntryPadded]; n != 3 || found[kernels.EntryLayer] != 1 || run != 4+2 {
		t.Errorf("found %v, %d launches", found, run)
	}
}

// A launch of several roles runs with the largest register limit at which all of its blocks, or as many as one layer's
// launch would have, are resident at the same time.
func TestProxy(t *testing.T) {
	held := [][2]int{{119, 4}, {96, 5}, {80, 6}, {64, 8}, {48, 10}, {40, 12}, {32, 16}}
	for _, c := range []struct{ blocks, sms, want int }{
		{1, 132, 119},
		{4 * 132, 132, 119},
		{4*132 + 1, 132, 96},
		{8 * 132, 132, 64},
		{10 * 132, 132, 48},
		{1000 * 132, 132, 48}, // one layer's kernel bears ten
		{9, 1, 48},
		{1, 0, 119},
	} {
		if got := cuda.Proxy(10, c.blocks, c.sms, held); got != c.want {
			t.Errorf("%d blocks on %d SMs run with %d registers, expected %d", c.blocks, c.sms, got, c.want)
		}
	}
	if got := cuda.Proxy(20, 1<<20, 1, held); got != 32 {
		t.Errorf("where none suffices: %d registers", got)
	}
}

// Requests allocate and release nothing in the driver: inputs, launches, kills and preemptions use objects that were
// created with the device, the network and the first launch.
func TestTakesNothing(t *testing.T) {
	taking := regexp.MustCompile("Alloc|Malloc|Free|Create|Destroy|ModuleLoad|LibraryLoad|Unload")
	each(t, func(t *testing.T, cfg cuda.Config) {
		s := newStory(t, cfg)
		r, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(r.load())
		must(r.copy(1))
		must(r.run(1, device.Units{}, false))
		s.h.Log(1)
		must(r.preempted())
		for id := device.RequestID(10); id < 30; id++ { // more than there are slots
			must(r.copy(id))
			must(r.run(id, device.Units{}, true))
			r.d.Release(id)
		}
		calls := s.h.Calls()
		s.h.Log(0)
		must(r.close())
		if len(calls) < 100 {
			t.Errorf("%d calls: nothing ran", len(calls))
		}
		for _, c := range calls {
			if taking.MatchString(c) {
				t.Errorf("%s under requests", c)
			}
		}
	})
}
