// What writes foretold.csv.

package disb

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
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

// File is what was foretold.
var File = foretold

var foretoldGPUs = []string{"h100", "h200"}

// Networks are those of the zoo whose latencies are foretold, for the configuration that sluice bench gpu takes.
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

// Prophecy is the file: the medians of all rows, for the parameters of each GPU, with the latencies of some networks.
func Prophecy(ctx context.Context, networks []string) ([]byte, error) {
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
		if err := prophecy(ctx, w, gpu, nets); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func prophecy(ctx context.Context, w *csv.Writer, gpu string, nets []*bundle.Bundle) error {
	f, err := params.Of(gpu)
	if err != nil {
		return err
	}
	put := func(shrink int, ns int64, r *bench.Row) error {
		return w.Write([]string{r.Part, r.Key, r.Unit, fmt.Sprintf("%.6g", r.Median), gpu, strconv.Itoa(shrink), strconv.FormatInt(ns, 10), strconv.Itoa(foretoldSeed), "simulated"})
	}
	for _, a := range asked {
		all, err := Foretell(ctx, Config{Params: f, Shrink: a.shrink, Ns: a.ns, Seed: foretoldSeed, Workloads: a.workloads})
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
		}
	}
	if err := put(0, 0, &bench.Row{Part: bench.Costs, Key: "launch", Unit: "ns", Median: float64(p.LaunchNs)}); err != nil {
		return err
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

// Latency is how long a launch takes on so many units of the simulated GPU.
func Latency(ctx context.Context, b *bundle.Bundle, f *params.File, units, batch int) (int64, error) {
	m, err := gpu.ModeOf("streams")
	if err != nil {
		return 0, err
	}
	p := f.Params()
	d, err := gpu.New(gpu.Config{Name: f.Name, Params: p, Mode: m, SyncNs: f.SyncNs(), MaxBatch: batch, Places: 1, Slots: batch})
	if err != nil {
		return 0, err
	}
	net := cuda.Simulated(b, &p, func(device.RequestID, int) device.ExitResult { return device.ExitResult{} })
	work := device.WorkID(0)
	begin := func(now int64, w device.Work) error {
		work++
		w.ID = work
		_, err := d.Begin(ctx, now, &w)
		return err
	}
	if err := begin(0, device.Work{Kind: device.Load, Network: net.Name, Artefact: net}); err != nil {
		return 0, err
	}
	exits := len(b.Network.Exits)
	l := device.Launch{ID: 1, Network: net.Name, Last: exits - 1, Units: device.UnitRange(0, units)}
	for i := range batch {
		id := device.RequestID(i + 1)
		if err := begin(0, device.Work{Kind: device.Copy, Network: net.Name, Request: id}); err != nil {
			return 0, err
		}
		l.Requests = append(l.Requests, id)
	}
	for range batch * exits {
		l.Theta = append(l.Theta, 2)
	}
	now, began, run := int64(0), int64(-1), device.WorkID(0)
	for {
		at, ok := d.Next()
		if !ok && began < 0 { // the copies are over
			began = now
			if err := begin(began, device.Work{Kind: device.Run, Launch: l}); err != nil {
				return 0, err
			}
			run = work
			continue
		}
		if !ok {
			return 0, fmt.Errorf("%s on the simulated %s does not end", net.Name, f.Name)
		}
		now = max(now, at)
		for ev := d.Take(at); ev != nil; ev = d.Take(at) {
			if ev.Kind == device.Failed {
				return 0, fmt.Errorf("%s on the simulated %s: %w", net.Name, f.Name, ev.Err)
			}
			if ev.Over && ev.Work == run {
				return now - began, nil
			}
		}
	}
}
