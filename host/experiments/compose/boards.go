package compose

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/sched"
)

// parts is the number of segments, and of exits, of a network on a board.
const parts = 4

// leaving returns the share of requests that leave at each exit. The values are published for ResNet-50 (5, 17, 9, 69
// %) and assumed for every network of the zoo. staying returns the shares if all requests leave at the last exit.
func leaving() []float64 { return []float64{0.05, 0.17, 0.09, 0.69} }
func staying() []float64 { return []float64{0, 0, 0, 1} }

// npu is a board that runs one batch at a time, and can be preempted at exits. The times in the zoo are divided equally
// among the four segments of a network. Loads take no time, because all networks are in the board's memory.
type npu struct {
	nets    []*drawn.Dev
	names   []string
	running int // index of the running network; -1: none
	slots   int
}

func newNPU(zoo jellyfish.Zoo, tables []*sched.Table, rates []float64, seed uint64) (*npu, error) {
	b := &npu{running: -1, slots: 4096}
	for i, t := range tables {
		d, err := drawn.New(t, rates, seed, 0)
		if err != nil {
			return nil, err
		}
		b.nets, b.names = append(b.nets, d), append(b.names, zoo[i].Name)
	}
	return b, nil
}

// Info implements device.Device.
func (b *npu) Info() device.Info {
	i := b.nets[0].Info()
	i.Name, i.Label, i.Slots = "npu", "estimated", b.slots
	return i
}

// Begin implements device.Device.
func (b *npu) Begin(ctx context.Context, now int64, w *device.Work) (bool, error) {
	if w.Kind != device.Run && w.Kind != device.Reset {
		return true, nil
	}
	net := 0
	if w.Kind == device.Run {
		if net = slices.Index(b.names, w.Launch.Network); net < 0 {
			return false, fmt.Errorf("%w: network %q", device.ErrRequest, w.Launch.Network)
		}
	}
	done, err := b.nets[net].Begin(ctx, now, w)
	if err == nil {
		b.running = net
	}
	return done, err
}

// Next implements device.Virtual.
func (b *npu) Next() (int64, bool) {
	if b.running < 0 {
		return 0, false
	}
	return b.nets[b.running].Next()
}

// Take implements device.Virtual. The class of a result is the index of the network that answered.
func (b *npu) Take(now int64) *device.Event {
	if b.running < 0 {
		return nil
	}
	ev := b.nets[b.running].Take(now)
	if ev != nil && ev.Report != nil {
		for i := range ev.Report.Results {
			for k := range ev.Report.Results[i].Exits {
				ev.Report.Results[i].Exits[k].Class = b.running
			}
		}
	}
	if ev != nil {
		b.running = -1
	}
	return ev
}

// Abort, Release and Close implement device.Device.
func (*npu) Abort(int64, device.WorkID, bool) {}
func (*npu) Release(device.RequestID)         {}
func (*npu) Close() error                     { return nil }

// boards compares ways to use NPU boards as Jellyfish's workers: Jellyfish's own batches without and with early exits,
// fluid batching of one network, and Jellyfish with fluid batching on each board.
func boards(ns int64) ([]composition, error) {
	zoo := jellyfish.Synthetic(1)
	var tables []*sched.Table
	for _, n := range zoo {
		var e []bundle.LatencyEntry
		for first := range parts {
			for last := first; last < parts; last++ {
				for b, t := range n.P99 {
					at := t / parts * int64(last-first+1)
					e = append(e, bundle.LatencyEntry{Network: n.Name, First: first, Last: last, Batch: b + 1, P50: at, P99: at})
				}
			}
		}
		t, err := sched.NewTable(e, n.Name)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	own, err := edge.Named("jellyfish+")
	if err != nil {
		return nil, err
	}
	fluid := func() sched.Policy { return sched.Fluid{} }
	refuse := func() sched.Policy { return &sched.Plus{Refuse: true} }
	with := func(s edge.System, inside func() sched.Policy) edge.System { s.Inside = inside; return s }
	fixed := edge.System{Name: "fixed", Fixed: true, Static: middle, Sizing: edge.Sizing{Most: middle}}
	afterwards := edge.System{Name: "afterwards", Fixed: true}
	var out []composition
	for _, link := range []string{"wifi", "lte", "steps"} {
		c := composition{setting: "jellyfish+fluid/" + link}
		for _, p := range []struct {
			name  string
			sys   edge.System
			rates []float64
		}{
			{"jellyfish, no exits", own, staying()},
			{"jellyfish, exits", own, leaving()},
			{"fluid, one network", with(fixed, fluid), leaving()},
			{"fluid+refuse, one network", with(fixed, refuse), leaving()},
			{"fluid, best network afterwards", with(afterwards, fluid), leaving()},
			{"fluid+refuse, best network afterwards", with(afterwards, refuse), leaving()},
			{"jellyfish, fluid inside", with(own, fluid), leaving()},
			{"jellyfish, fluid+refuse inside", with(own, refuse), leaving()},
		} {
			run := func(ctx context.Context, sys edge.System, seed uint64) (map[string]float64, error) {
				return overLinks(ctx, &edge.Setting{
					Zoo: zoo, Tables: tables,
					Board: func(int) (device.Device, error) { return newNPU(zoo, tables, p.rates, seed) },
				}, sys, link, 10*ns, seed)
			}
			c.parts = append(c.parts, part{p.name, func(ctx context.Context, seed uint64) (map[string]float64, error) {
				if p.sys.Name != afterwards.Name {
					return run(ctx, p.sys, seed)
				}
				return bestOf(len(zoo), func(net int) (map[string]float64, error) {
					sys := p.sys
					sys.Static, sys.Sizing.Most = net, net
					return run(ctx, sys, seed)
				})
			}})
		}
		out = append(out, c)
	}
	return out, nil
}

// bestOf runs every network and returns the run with the highest on_time_times_accuracy for this seed. The result is an
// upper bound, because a policy cannot know the best network before the run.
func bestOf(nets int, run func(net int) (map[string]float64, error)) (best map[string]float64, err error) {
	for net := range nets {
		m, err := run(net)
		if err != nil {
			return nil, err
		}
		if best == nil || m["on_time_times_accuracy"] > best["on_time_times_accuracy"] {
			best = m
			best["network"] = float64(net)
		}
	}
	return best, nil
}

// overLinks runs a system with two workers and twelve clients. Each published rate occurs with each published deadline.
func overLinks(ctx context.Context, set *edge.Setting, sys edge.System, link string, ns int64, seed uint64) (map[string]float64, error) {
	trace, err := links.Named(link, seed, links.Memory)
	if err != nil {
		return nil, err
	}
	set.Workers, set.Trace, set.Ns, set.Seed = 2, trace, ns, seed
	set.Clients = edge.Cameras(12, func(i int) jellyfish.Registered {
		return jellyfish.Registered{Rate: []int{10, 15, 25}[i%3], SLO: []int64{75e6, 100e6, 150e6}[i/3%3]}
	}, ns, seed)
	o, err := edge.Run(ctx, set, sys, edge.Assume())
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"miss_rate": o.Miss, "accuracy": o.Accuracy, "on_time_times_accuracy": (1 - o.Miss) * o.Accuracy,
		"busy": o.Busy, "changes": float64(o.Counts.Changes), "p50_ns": float64(o.P50), "p99_ns": float64(o.P99),
	}, nil
}
