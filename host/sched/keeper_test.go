package sched_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
)

// twice asks a policy everything twice, from the same state including what it has learned.
type twice struct {
	sched.Policy
	t     *testing.T
	asked *int
}

func (p twice) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	keeper, keeps := p.Policy.(sched.Keeper)
	var snapshot any
	if keeps {
		snapshot = keeper.Snapshot()
	}
	first := slices.Clone(p.Policy.Decide(now, s, ev, nil))
	for i := range first {
		first[i].Requests = slices.Clone(first[i].Requests)
	}
	if keeps {
		keeper.Restore(snapshot)
	}
	buf = p.Policy.Decide(now, s, ev, buf)
	*p.asked++
	if d := cmp.Diff(first, buf, cmpopts.EquateEmpty()); d != "" && *p.asked > 0 {
		p.t.Errorf("%s, asked twice at %d ns: %s", p.Name(), now, d)
		*p.asked = -1 << 30
	}
	return buf
}

// The answer of a policy depends only on its arguments and on what it has learned; a Keeper's Snapshot contains all
// of that.
func TestAnswersFollowFromTheState(t *testing.T) {
	tab := tables(t)["resnet50/zc706"]
	s := setting{table: "resnet50/zc706", rate: 19, slo: 400}
	for _, name := range sched.Names() {
		asked := 0
		cfg := configure(t, tab, s, name, 7, 3000)
		cfg.Policy = twice{cfg.Policy, t, &asked}
		if _, err := engine.Run(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
		if asked < 3000 && asked >= 0 {
			t.Errorf("%s was asked %d times", name, asked)
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
