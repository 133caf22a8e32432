// What the simulated GPU said before a GPU was measured.

package disb

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/hw/configs"
)

//go:embed foretold.csv
var foretold []byte

// ErrForetold is a file of predictions that is refused.
var ErrForetold = errors.New("foretold.csv")

// Conditions under which it was asked.
const foretoldSeed = 1

var foretoldGPUs = []string{"h100", "h200"}

// Networks are those of the zoo whose latencies are foretold, for the configuration that sluice bench gpu takes.
var Networks = []string{"mobilenetv2", "resnet50"}

const networkConfig = "mid"

// asked are the workloads and how long a run is for each shrink that was asked for: of the networks' own size
// those that a test can look at again in time.
var asked = []struct {
	shrink    int
	ns        int64
	workloads []string
}{{1, 10e6, []string{"A", "B", "C"}}, {32, 1e6, []string{"A", "B", "C"}}}

var columns = []string{"part", "key", "unit", "value", "gpu", "shrink", "ns", "seed", "label"}

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
	r := &recipe.Recipe{Network: name, Seed: foretoldSeed}
	g, err := r.Graph()
	if err != nil {
		return nil, err
	}
	from, err := r.Calibration(g)
	if err != nil {
		return nil, err
	}
	return r.MakeFrom(g, from, d)
}

// Latency is how long a launch takes on so many units of the simulated GPU.
func Latency(ctx context.Context, b *bundle.Bundle, f *params.File, units, batch int) (int64, error) {
	m, err := gpu.ModeOf("streams")
	if err != nil {
		return 0, err
	}
	p := f.Params()
	cfg := gpu.Config{Name: f.Name, Params: p, Mode: m, SyncNs: f.SyncNs(), MaxBatch: batch, Places: 1, Slots: batch}
	net := cuda.Simulated(b, &p, func(device.RequestID, int) device.ExitResult { return device.ExitResult{} })
	_, segments, err := gpu.Alone(ctx, cfg, net, device.UnitRange(0, units), batch)
	var ns int64
	for _, s := range segments {
		ns += s
	}
	return ns, err
}

// Told is what was foretold, and of what.
type Told struct {
	GPU    string             `json:"gpu"`
	Ns     int64              `json:"ns"` // of a run of DISB; 0: none of networks of this size
	Seed   uint64             `json:"seed"`
	Values map[string]float64 `json:"values"` // by part and key
}

// Foretold are the values of stand-ins that are shrunk so, and of what has none, where the GPU of which the driver
// tells the name is one that they were foretold of; nil: it is another.
func Foretold(name string, shrink int) (*Told, error) {
	f, err := params.Find(name)
	if err != nil || f == nil {
		return nil, err
	}
	t := &Told{GPU: f.Name, Seed: foretoldSeed}
	for _, a := range asked {
		if a.shrink == shrink {
			t.Ns = a.ns
		}
	}
	t.Values, err = read(foretold, strings.ToLower(f.Name), shrink)
	if len(t.Values) == 0 {
		return nil, err
	}
	return t, err
}

func read(text []byte, gpu string, shrink int) (map[string]float64, error) {
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForetold, err)
	}
	out := map[string]float64{}
	for i, f := range lines {
		if i == 0 {
			if fmt.Sprint(f) != fmt.Sprint(columns) {
				return nil, fmt.Errorf("%w, line 1: %v, expected %v", ErrForetold, f, columns)
			}
			continue
		}
		v, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return nil, fmt.Errorf("%w, line %d: value %q, expected a number", ErrForetold, i+1, f[3])
		}
		if f[4] == gpu && (f[5] == "0" || f[5] == strconv.Itoa(shrink)) {
			out[f[0]+" "+f[1]] = v
		}
	}
	return out, nil
}
