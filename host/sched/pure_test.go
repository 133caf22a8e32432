package sched_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// The answer of a policy depends only on its arguments and on what it has learned.
func TestAnswersFollowFromTheState(t *testing.T) {
	tab := tables(t)["resnet50/zc706"]
	s := setting{table: "resnet50/zc706", rate: 19, slo: 400}
	for _, name := range sched.Names() {
		cfg := configure(t, tab, s, name, 7, 3000)
		p := &enginetest.Twice{Policy: cfg.Policy, T: t}
		cfg.Policy = p
		if _, err := engine.Run(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
		if p.Asked < 3000 {
			t.Errorf("%s was asked %d times", name, p.Asked)
		}
	}
}

// Devices with the same table and different B_max have separate plans.
func TestDevicesOfDifferentBMax(t *testing.T) {
	tab := tables(t)["resnet50/zc706"]
	s := setting{table: "resnet50/zc706", rate: 40, slo: 400}
	for _, name := range sched.Names() {
		p, err := sched.New(name, sched.Options{})
		if err != nil {
			t.Fatal(err)
		}
		limits := []int{8, 3, 5}
		cfg := engine.Config{
			Networks: []engine.Network{{Name: "n"}}, Policy: p, Inputs: engine.NoInputs,
			Source: &arrivals{setting: s, rng: rand.New(rand.NewPCG(3, 5)), n: 2000},
		}
		for _, b := range limits {
			d, err := drawn.New(tab, s.exits(), 3, b)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Devices = append(cfg.Devices, d)
			cfg.Networks[0].Tables = append(cfg.Networks[0].Tables, tab)
		}
		res, err := engine.Run(context.Background(), cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, span := range res.Spans {
			if len(span.Requests) > limits[span.Device] {
				t.Fatalf("%s: a batch of %d on a device of %d", name, len(span.Requests), limits[span.Device])
			}
		}
	}
}
