package reef

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
)

//go:embed claims.yaml
var book []byte

//go:embed tried.txt
var tried []byte

// Config selects the runs of the study.
type Config struct {
	frame.Config
	Files map[string]*params.File // by GPU: parameters that replace the project's parameters
	Real  *load.Trace             // trace that replaces the workload Drive; nil: none
}

// GPUs are the GPUs of the evaluation.
func GPUs() []string { return []string{"mi50", "gv100"} }

// lab executes runs. It executes each run once and stores its outcome.
type lab struct {
	ctx  context.Context
	file *params.File
	ns   int64
	seed uint64
	beds map[string]*Bed
	runs map[string]*Outcome
	real []Client // clients of Config.Real, in place of the clients of Drive; nil: none
	with string   // one of switches; "": none

	twice *lab // a lab with runs of twice the length
}

// switches returns suspected causes that can be tried. resnet50-for-vgg19: a ResNet-50 replaces vgg19, because the
// public kernel list of vgg19 contains the kernels of a ResNet-50. public-kernels: the networks in the public lists run
// with the kernels of the lists. The lists' times were measured on an MI50. images-64: images have 64 x 64 pixels, as
// in the lists. split-kernels: layers are split into as many kernels as in the public list of DistilBERT. No kernel is
// shorter than the shortest kernel of the lists. pauses: real-time closed loops pause for a tenth of their time.
// drain-8: wait-based preemption does not clear its device queue, which has eight places.
func switches() []string {
	return []string{"resnet50-for-vgg19", "public-kernels", "images-64", "split-kernels", "pauses", "drain-8"}
}

// longer returns a lab with runs of twice the length.
func (l *lab) longer() *lab {
	if l.twice == nil {
		l.twice = newLab(l.ctx, l.file, 2*l.ns, l.seed)
		l.twice.with = l.with
	}
	return l.twice
}

func newLab(ctx context.Context, f *params.File, ns int64, seed uint64) *lab {
	return &lab{ctx: ctx, file: f, ns: ns, seed: seed, beds: map[string]*Bed{}, runs: map[string]*Outcome{}}
}

func (l *lab) bed(style string) *Bed {
	b := l.beds[style]
	if b == nil {
		b = NewBed(l.file, style)
		b.with = l.with
		l.beds[style] = b
	}
	return b
}

// run serves a workload with a system, and with the kernels of a style (framework).
func (l *lab) run(of frame.Args) (*Outcome, error) {
	style, system, workload, key := of[0], of[1], of[2], strings.Join(of, " ")
	if o := l.runs[key]; o != nil {
		return o, nil
	}
	w, err := workloadOf(workload)
	if err != nil {
		return nil, err
	}
	switch {
	case l.real != nil && workload == "drive":
		w.Clients = l.real
	case l.with == "pauses":
		for i := range w.Clients {
			if c := &w.Clients[i]; c.Urgent {
				c.Urgent, c.Share = false, 0.9
			}
		}
	case l.with == "drain-8" && system == "wait":
		system = "xsched1"
	}
	o, err := l.bed(style).Run(l.ctx, system, w, l.ns, l.seed)
	if err != nil {
		return nil, fmt.Errorf("DISB %s under %s on %s: %w", workload, system, l.file.Name, err)
	}
	l.runs[key] = o
	return o, nil
}

// workloadOf returns a workload by name: a DISB workload, drive, NETWORK+n, or RT/BE. NETWORK+n has one real-time
// client and n best-effort clients of NETWORK. The real-time client sends requests for mobilenetv2, a short network, at
// a tenth of its throughput. RT/BE has two closed loops: a real-time client of RT and a best-effort client of BE.
func workloadOf(name string) (Workload, error) {
	for _, w := range append(DISB(), Drive()) {
		if w.Name == name {
			return w, nil
		}
	}
	if rt, be, ok := strings.Cut(name, "/"); ok {
		return Workload{name, []Client{{Network: rt, Urgent: true}, {Network: be}}}, nil
	}
	var n int
	net, count, ok := strings.Cut(name, "+")
	if _, err := fmt.Sscan(count, &n); !ok || err != nil {
		return Workload{}, fmt.Errorf("no workload %q", name)
	}
	w := Workload{name, []Client{{Network: "mobilenetv2", Share: 0.1, Poisson: true}}}
	for range n {
		w.Clients = append(w.Clients, Client{Network: net})
	}
	return w, nil
}

// study returns the study of REEF's claims under a configuration.
func (c *Config) study(ctx context.Context) frame.Study[*lab] {
	return frame.Study[*lab]{
		Book: book, Tried: tried, Measures: measures(), Numbers: numbers(), Apart: true,
		Labs: func(on string, x *frame.Change) ([]*lab, error) {
			f, err := c.file(on)
			if err != nil {
				return nil, err
			}
			with := ""
			if x != nil && f.Has(x.Key) {
				f = f.With(x.Key, x.By)
			} else if x != nil {
				with = x.Key
			}
			return c.labs(ctx, f, with)
		},
		Knobs: func(on string) (*frame.Knobs, error) {
			f, err := c.file(on)
			if err != nil {
				return nil, err
			}
			return &frame.Knobs{Switches: switches(), Keys: f.Keys(), Vary: frame.Halves(f.Uncertain()...)}, nil
		},
	}
}

func (c *Config) labs(ctx context.Context, f *params.File, with string) (out []*lab, err error) {
	var clients []Client
	if c.Real != nil {
		own, err := NewOwn(f, "tvm", nil, c.Real, nil)
		if err != nil {
			return nil, err
		}
		clients = own.w.Clients
	}
	for _, s := range c.Seeds {
		l := newLab(ctx, f, c.Ns, s)
		l.real, l.with = clients, with
		out = append(out, l)
	}
	return out, nil
}

// file returns the parameters of a GPU.
func (c *Config) file(gpu string) (*params.File, error) {
	if f := c.Files[gpu]; f != nil {
		return f, nil
	}
	return params.Of(gpu)
}

// Run checks REEF's claims and runs every system on every workload of DISB.
func Run(ctx context.Context, c Config) (*frame.Result, error) {
	s := c.study(ctx)
	return s.Run(ctx, &c.Config)
}
