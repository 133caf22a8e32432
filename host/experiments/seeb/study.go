// Package seeb runs SEEB-GPU's evaluation on a simulated RTX 3090: four applications with early exits, under SEEB and
// its baselines. The simulation runs in virtual time. It uses the GPU's file of package params and the synthetic
// programs of package catalogue.
package seeb

import (
	"context"
	_ "embed"
	"maps"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

//go:embed claims.yaml
var book []byte

//go:embed tried.txt
var tried []byte

// GPU is the GPU of the evaluation.
const GPU = "rtx3090"

// Config selects the runs of the evaluation.
type Config struct {
	frame.Config
	File *params.File // parameters of the GPU; nil: the project's parameters
	PAI  []int64      // arrival times of a trace, in ns, in place of random bursts; nil: none
}

// Bench is the result of the evaluation.
type Bench struct {
	frame.Result
	Fits map[string]*Fit // latency models, by network
	Open Open            // values that the publication does not state
}

// These parameters are neither in Open nor in the GPU's file. rate is a factor on the rate of every load; the number of
// tasks stays the same. most is the largest batch of DeepRT and GSLICE. The publication does not state this batch.
const rate, most = "rate", "most"

// lab executes the runs of one seed.
type lab struct {
	ctx  context.Context
	file *params.File
	edge *Edge
	ns   int64
	seed uint64
	pai  []int64
	with *frame.Change // change in every run; nil: none
}

// switches returns suspected causes that can be tried. from-release: latencies start at a task's release. at-once:
// configuration 3 of figure 10 has no collection window, and latencies also start at the release. dram-bound: a
// DRAM-bound kernel replaces the convolution of table 1.
func switches() []string { return []string{"from-release", "at-once", "dram-bound"} }

// Run checks SEEB's claims and runs every system on every load.
func Run(ctx context.Context, c Config) (*Bench, error) {
	file := c.File
	if file == nil {
		var err error
		if file, err = params.Of(GPU); err != nil {
			return nil, err
		}
	}
	b := &Bench{Open: DefaultOpen()}
	s := frame.Study[*lab]{
		Book: book, Tried: tried, Measures: measures(), Numbers: numbers(),
		Labs: func(_ string, x *frame.Change) (out []*lab, err error) {
			f, o := file, b.Open
			if x != nil && o[x.Key] != 0 {
				o = o.with(x.Key, x.By)
			} else if x != nil && f.Has(x.Key) {
				f = f.With(x.Key, x.By)
			}
			e, err := NewEdge(f, o)
			if err != nil {
				return nil, err
			}
			if e.rate = x.Of(rate); x == nil {
				b.Fits = e.Fits
			}
			for _, s := range c.Seeds {
				out = append(out, &lab{ctx: ctx, file: f, edge: e, ns: c.Ns, seed: s, pai: c.PAI, with: x})
			}
			return out, nil
		},
		Knobs: func(string) (*frame.Knobs, error) {
			open := slices.Sorted(maps.Keys(b.Open))
			return &frame.Knobs{Switches: switches(), Keys: append(append(file.Keys(), open...), rate), Whole: []string{most}, Vary: frame.Halves(append(file.Uncertain(), open...)...)}, nil
		},
	}
	r, err := s.Run(ctx, &c.Config)
	if err != nil {
		return nil, err
	}
	b.Result = *r
	return b, nil
}
