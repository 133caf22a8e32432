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

// Quick are the workloads that a test foretells again at full size; nightly all are, which takes ten times as long.
var Quick = []string{"A"}

// Prophecy is the file: the medians of all rows, for the parameters of each GPU, with the latencies of some networks. At
// full size it has those workloads alone that are given; nil: all.
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
			if n == 1<<24 { // copies of one way come one after the other, kernels do not touch the link
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
