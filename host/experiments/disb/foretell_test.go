// The code that writes foretold.csv.

package disb

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/hw/configs"
)

// File holds the predictions.
var File = foretold

var foretoldGPUs = []string{"h100", "h200"}

// Networks are the zoo's networks whose latencies are predicted, for the configuration that sluice bench gpu uses.
var Networks = []string{"mobilenetv2", "resnet50"}

const networkConfig = "mid"

// Foretell is Run on the simulated GPU.
func Foretell(ctx context.Context, cfg Config) ([]bench.Series, error) {
	nets, err := cfg.networks()
	if err != nil {
		return nil, err
	}
	p := cfg.Params.Params()
	var all []*gpu.Network
	for _, b := range nets {
		all = append(all, cuda.Simulated(b, &p, func(device.RequestID, int) device.ExitResult { return device.ExitResult{Confidence: 1} }))
	}
	return cfg.series(ctx, reef.On(cfg.Params, all, nil), nets, "preempted")
}

// Quick are the workloads that a test predicts again at full size. The nightly run predicts all, which takes ten times
// as long.
var Quick = []string{"A"}

// Prophecy computes the file: the medians of all rows, for the parameters of each GPU, with the latencies of some
// networks. At full size it has only the given workloads; nil: all.
func Prophecy(ctx context.Context, networks, full []string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(columns); err != nil {
		return nil, err
	}
	var nets []*bundle.Bundle
	for _, name := range networks {
		n, err := compiled(name)
		if err != nil {
			return nil, err
		}
		nets = append(nets, n)
	}
	for _, gpu := range foretoldGPUs {
		if err := prophecy(ctx, w, gpu, nets, full); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func prophecy(ctx context.Context, w *csv.Writer, gpu string, nets []*bundle.Bundle, full []string) error {
	f, err := params.Of(gpu)
	if err != nil {
		return err
	}
	put := func(shrink int, ns int64, r *bench.Row) error {
		return w.Write([]string{r.Part, r.Key, r.Unit, fmt.Sprintf("%.6g", r.Median), gpu, strconv.Itoa(shrink), strconv.FormatInt(ns, 10), strconv.Itoa(foretoldSeed), "simulated"})
	}
	for _, a := range asked {
		workloads := a.workloads
		if a.shrink == 1 && full != nil {
			workloads = full
		}
		all, err := Foretell(ctx, Config{Params: f, Shrink: a.shrink, Ns: a.ns, Seed: foretoldSeed, Workloads: workloads})
		if err != nil {
			return err
		}
		rows := (&bench.Raw{Series: all}).Rows()
		for i := range rows {
			if rows[i].N > 0 {
				if err := put(a.shrink, a.ns, &rows[i]); err != nil {
					return err
				}
			}
		}
	}
	p := f.Params()
	for _, n := range []int{1 << 12, 1 << 16, 1 << 20, 1 << 24} {
		for _, way := range []struct {
			name string
			rate float64
		}{{"up", p.Up}, {"down", p.Down}} {
			r := bench.Row{Part: bench.Copies, Key: fmt.Sprintf("%d %s alone", n, way.name), Unit: "bytes/ns", Median: float64(n) / (float64(p.LinkNs) + float64(n)/way.rate)}
			if err := put(0, 0, &r); err != nil {
				return err
			}
			if n == 1<<24 { // copies in one direction run one after the other, and kernels do not use the link
				r.Key = fmt.Sprintf("%d %s two beside", n, way.name)
				if err := put(0, 0, &r); err != nil {
					return err
				}
			}
		}
	}
	if err := put(0, 0, &bench.Row{Part: bench.Costs, Key: "launch", Unit: "ns", Median: float64(p.LaunchNs)}); err != nil {
		return err
	}
	if len(nets) > 1 {
		if err := preemptions(ctx, f, nets[1], nets[0], func(r *bench.Row) error { return put(0, 0, r) }); err != nil {
			return err
		}
	}
	for _, n := range nets {
		// The driver's units of eight SMs are several of the simulated GPU's; the last is the whole GPU.
		for _, units := range []int{1, 2, 4, 8, 16} {
			sms := 8 * units
			if units == 16 {
				sms = p.SMs
			}
			for _, batch := range []int{1, 8, 32} {
				ns, err := Latency(ctx, n, f, sms/p.Unit, batch)
				if err != nil {
					return err
				}
				r := bench.Row{Part: bench.Latency, Key: fmt.Sprintf("%s units=%d batch=%d", n.Network.Name, units, batch), Unit: "ns", Median: float64(ns)}
				if err := put(0, 0, &r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compiled is a network of the zoo with drawn weights.
func compiled(name string) (*bundle.Bundle, error) {
	d, err := configs.Load(networkConfig)
	if err != nil {
		return nil, err
	}
	return (&recipe.Recipe{Network: name, Seed: foretoldSeed}).Make(d)
}

// Latency returns the time of a launch on a number of units of the simulated GPU.
func Latency(ctx context.Context, b *bundle.Bundle, f *params.File, units, batch int) (ns int64, err error) {
	p := f.Params()
	cfg := gpu.Config{Name: f.Name, Params: p, SyncNs: f.SyncNs(), MaxBatch: batch, Places: 1, Slots: batch}
	net := cuda.Simulated(b, &p, func(device.RequestID, int) device.ExitResult { return device.ExitResult{} })
	_, segments, err := gpu.Alone(ctx, cfg, net, device.UnitRange(0, units), batch)
	for _, s := range segments {
		ns += s
	}
	return ns, err
}

// met is the number of preemptions of each kind that are simulated.
const met = 200

// preemptions simulates priority launches that arrive at random during best-effort ones, as in part preemption of
// sluice bench gpu. In the simulation, the order to leave costs no call, and nothing is polled.
func preemptions(ctx context.Context, f *params.File, be, rt *bundle.Bundle, put func(*bench.Row) error) error {
	for _, capacity := range bench.Capacities() {
		for _, mode := range bench.Preempting() {
			first, gone, err := preempted(ctx, f, be, rt, mode, capacity)
			if err != nil {
				return err
			}
			key := fmt.Sprintf("%s capacity=%d ", mode, capacity)
			for _, x := range []struct {
				what string
				all  []int64
			}{{"first", first}, {"seen gone", gone}} {
				if x.what == "seen gone" && mode == "wait" { // no order is given
					continue
				}
				slices.Sort(x.all)
				if err := put(&bench.Row{Part: bench.Preemption, Key: key + x.what, Unit: "ns", Median: float64(x.all[len(x.all)/2])}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// began listens for when each launch's first kernel began to run.
type began struct {
	gpu.Probe
	first map[device.WorkID]int64
}

func (b *began) Ended(e gpu.KernelEnd) {
	if _, ok := b.first[e.Launch]; !ok {
		b.first[e.Launch] = e.First
	}
}
func (*began) Advancing(int64)                 {}
func (*began) Killed(device.WorkID, int64)     {}
func (*began) Resumed(device.WorkID, int, int) {}

// preempted returns how long after the priority launches their first block ran, and the last block of other launches
// left.
func preempted(ctx context.Context, f *params.File, be, rt *bundle.Bundle, mode string, capacity int) (first, gone []int64, err error) {
	const batch = 8 // as the bench fills the GPU with resnet50
	p := f.Params()
	m, err := gpu.ModeOf(mode)
	if err != nil {
		return nil, nil, err
	}
	m.Queue = capacity
	d, err := gpu.New(gpu.Config{Name: f.Name, Params: p, Mode: m, SyncNs: f.SyncNs(), MaxBatch: batch})
	if err != nil {
		return nil, nil, err
	}
	probe := &began{first: map[device.WorkID]int64{}}
	d.Probe = probe
	work, now := device.WorkID(0), int64(0)
	begin := func(w device.Work) device.WorkID {
		work++
		w.ID = work
		if _, e := d.Begin(ctx, now, &w); err == nil {
			err = e
		}
		return w.ID
	}
	launch := func(n *bundle.Bundle, from, batch, priority int) device.WorkID {
		l := device.Launch{ID: device.LaunchID(work + 1), Network: n.Network.Name, Last: len(n.Network.Exits) - 1, Priority: priority}
		for i := range batch {
			l.Requests, l.Theta = append(l.Requests, device.RequestID(from+i)), append(l.Theta, 2)
		}
		return begin(device.Work{Kind: device.Run, Launch: l})
	}
	for i, n := range []*bundle.Bundle{be, rt} {
		net := cuda.Simulated(n, &p, func(device.RequestID, int) device.ExitResult { return device.ExitResult{} })
		begin(device.Work{Kind: device.Load, Network: net.Name, Artefact: net})
		for k := range batch {
			begin(device.Work{Kind: device.Copy, Network: net.Name, Request: device.RequestID(1 + batch*i + k)})
		}
	}
	var running, prior device.WorkID // best effort, priority
	until := func(t int64, over func() bool) {
		for err == nil && !over() {
			at, ok := d.Next()
			if !ok || at > t {
				now = max(now, t)
				return
			}
			now = max(now, at)
			for ev := d.Take(now); ev != nil; ev = d.Take(now) {
				switch {
				case ev.Kind == device.Failed:
					err = ev.Err
				case ev.Over && ev.Work == running:
					running = launch(be, 1, batch, 0)
				case ev.Over && ev.Work == prior:
					prior = 0
				}
			}
		}
	}
	never := func() bool { return false }
	until(1e9, never) // the inputs are there
	running = launch(be, 1, batch, 0)
	rng := rand.New(rand.NewPCG(foretoldSeed, uint64(capacity)))
	for len(first) < met && err == nil {
		until(now+rng.Int64N(4e6), never)
		seen, came := len(d.Preemptions), now
		prior = launch(rt, 1+batch, 1, 1)
		id := prior
		until(now+1e9, func() bool { return prior == 0 })
		if len(d.Preemptions) > seen {
			first, gone = append(first, probe.first[id]-came), append(gone, d.Preemptions[seen].Gone-came)
		}
	}
	return first, gone, err
}
