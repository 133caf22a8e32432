package real_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/experiments/seeb/real"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
	"github.com/sluice-npu/sluice/hw/configs"
)

// On the fake, every task ends under every system, SEEB's launches run on partitions, all resources are freed, and no
// rule of the driver is violated. The runs before an interruption are kept.
func TestRun(t *testing.T) {
	path, h := fake.Rig(t, fake.Build)
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	var nets []*bundle.Bundle
	for _, seed := range []uint64{4, 5} { // two exits each, and little to multiply
		n, err := randnet.New(seed, d, randnet.All())
		if err != nil {
			t.Fatal(err)
		}
		n.Bundle.Network.Name = fmt.Sprint("net", seed)
		nets = append(nets, n.Bundle)
	}
	cfg := real.Config{GPU: cuda.Config{Library: path}, Networks: nets, Ns: 20e6, Task: 2e6, Seed: 1}
	all, err := real.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := h.Open(); n != 0 || len(h.Faults()) != 0 {
		t.Errorf("%d things stay open, faults %v", n, h.Faults())
	}
	rows := map[string]bench.Row{}
	for _, r := range (&bench.Raw{Series: all}).Rows() {
		rows[r.Key] = r
	}
	for _, system := range real.Systems() {
		latency, failed, units := rows[system+" latency of a task"], rows[system+" failed"], rows[system+" units of a launch"]
		if latency.N == 0 || latency.Least <= 0 || failed.Median != 0 || units.N == 0 {
			t.Errorf("%s: %+v, %+v, %+v", system, latency, failed, units)
		}
		if parts := units.Most > 0; parts != (system == "seeb" || system == "gslice") {
			t.Errorf("%s: on %v units at most", system, units.Most)
		}
	}
	for _, n := range nets {
		if r := rows[n.Network.Name+" alone by batch"]; r.N != 6 || r.Least <= 0 {
			t.Errorf("%s alone: %+v", n.Network.Name, r)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	kept := 0
	cfg.Keep = func(all []bench.Series) {
		kept = len(all)
		stop()
	}
	if some, err := real.Run(ctx, cfg); !errors.Is(err, context.Canceled) || kept == 0 || len(some) != kept {
		t.Errorf("broken off: %d series, %d kept, %v", len(some), kept, err)
	}
	cfg.Keep, cfg.Systems = nil, []string{"nothing"}
	if _, err := real.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `no system "nothing"`) {
		t.Errorf("a system that there is not: %v", err)
	}
}
