package cuda_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// Two devices of a process share the GPU's context. If one fails to open or close, the other keeps its networks and
// inputs, has golden's results, and later releases everything.
func TestShared(t *testing.T) { each(t, shared) }

func shared(t *testing.T, cfg cuda.Config) {
	r := start(t, cfg)
	b, want := r.admitted(1, 6)
	works := func(what string) {
		t.Helper()
		w := launch(b, 0, 0, 2, 1)
		e := r.do(w)
		if e.Err != nil || e.Kind != device.Passed {
			t.Fatalf("%s: the other device: %+v (%v)", what, e, e.Err)
		}
		if got := e.Report.Results[0].Exits[0].Raw; !slices.Equal(got, want[0]) {
			t.Fatalf("%s: the other device: %v, golden says %v", what, got, want[0])
		}
	}
	cfg.Library, _ = of(t, cfg.API)
	r.h.Log(1)
	d, err := cuda.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	works("both are open")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, c := range r.h.Calls() {
		name, _, _ := strings.Cut(c, "(")
		count[name]++
	}
	r.h.Log(0)
	works("one is closed")
	tried, failed := 0, 0
	for _, name := range cfg.API.Calls() {
		for _, after := range slices.Compact([]int{0, count[name] / 2, count[name] - 1}) {
			if after < 0 || after >= count[name] {
				continue
			}
			for _, code := range []int{1, 700} { // 700: the context is lost
				what := fmt.Sprintf("%s answers %d after %d", name, code, after)
				r.h.Inject(name, after, code, 0)
				d, err := cuda.New(cfg)
				if err == nil {
					err = d.Close()
				}
				r.h.Forget()
				if tried++; err != nil {
					failed++
				}
				if name == "cuDevicePrimaryCtxRelease_v2" { // objects that the driver did not release remain
					lib, err := driver.Open(cfg.API, cfg.Library)
					if err != nil {
						t.Fatal(err)
					}
					if err := lib.Release(0); err != nil {
						t.Fatal(err)
					}
				}
				works(what)
			}
		}
	}
	t.Logf("%d tried, %d of them failed", tried, failed)
	if failed < tried/2 {
		t.Errorf("%d of %d failed: what is injected is not seen", failed, tried)
	}
	// A reset affects all devices: while another device holds the GPU, it is rejected with the reason.
	lost := start(t, cfg)
	e := lost.do(device.Work{Kind: device.Reset})
	if e.Kind != device.Failed || device.ScopeOf(e.Err) != device.LoseDevice || !errors.Is(e.Err, driver.ErrHeld) {
		t.Errorf("a reset of what another holds: %+v (%v)", e, e.Err)
	}
	works("the other one asked for a reset")
	if err := r.d.Close(); err != nil {
		t.Error(err)
	}
	lost.must(device.Work{Kind: device.Reset})
	lost.load(b)
}
