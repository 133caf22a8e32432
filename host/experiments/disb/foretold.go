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

	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

//go:embed foretold.csv
var foretold []byte

// ErrForetold is a file of predictions that is refused.
var ErrForetold = errors.New("foretold.csv")

// Conditions under which it was asked.
const (
	foretoldGPU  = "h200"
	foretoldSeed = 1
)

// asked are the workloads and how long a run is for each shrink that was asked for: of the networks' own size
// those that a test can look at again in time.
var asked = []struct {
	shrink    int
	ns        int64
	workloads []string
}{{1, 10e6, []string{"A", "B", "C"}}, {32, 1e6, []string{"A", "B", "C"}}}

var columns = []string{"part", "key", "unit", "value", "gpu", "shrink", "ns", "seed", "label"}

// Prophecy is the file: the medians of all rows, for the H200's parameters.
func Prophecy(ctx context.Context) ([]byte, error) {
	f, err := params.Of(foretoldGPU)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	put := func(shrink int, ns int64, r *bench.Row) error {
		return w.Write([]string{r.Part, r.Key, r.Unit, fmt.Sprintf("%.6g", r.Median), foretoldGPU, strconv.Itoa(shrink), strconv.FormatInt(ns, 10), strconv.Itoa(foretoldSeed), "simulated"})
	}
	if err := w.Write(columns); err != nil {
		return nil, err
	}
	for _, a := range asked {
		all, err := Foretell(ctx, Config{Params: f, Shrink: a.shrink, Ns: a.ns, Seed: foretoldSeed, Workloads: a.workloads})
		if err != nil {
			return nil, err
		}
		rows := (&bench.Raw{Series: all}).Rows()
		for i := range rows {
			if rows[i].N > 0 {
				if err := put(a.shrink, a.ns, &rows[i]); err != nil {
					return nil, err
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
				return nil, err
			}
		}
	}
	if err := put(0, 0, &bench.Row{Part: bench.Costs, Key: "launch", Unit: "ns", Median: float64(p.LaunchNs)}); err != nil {
		return nil, err
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// Told is what was foretold, and of what.
type Told struct {
	GPU    string             `json:"gpu"`
	Ns     int64              `json:"ns"` // of a run of DISB; 0: none of networks of this size
	Seed   uint64             `json:"seed"`
	Values map[string]float64 `json:"values"` // by part and key
}

// Foretold are the values of stand-ins that are shrunk so, and of what has none, where the GPU of which the driver
// tells the name is the one that they were foretold of; nil: it is another.
func Foretold(gpu string, shrink int) (*Told, error) {
	f, err := params.Of(foretoldGPU)
	if err != nil || !f.Is(gpu) {
		return nil, err
	}
	t := &Told{GPU: f.Name, Seed: foretoldSeed}
	for _, a := range asked {
		if a.shrink == shrink {
			t.Ns = a.ns
		}
	}
	t.Values, err = read(foretold, shrink)
	return t, err
}

func read(text []byte, shrink int) (map[string]float64, error) {
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
		if f[5] == "0" || f[5] == strconv.Itoa(shrink) {
			out[f[0]+" "+f[1]] = v
		}
	}
	return out, nil
}
