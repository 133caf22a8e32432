// Workloads and systems also run on a real GPU, in real time.

package reef

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/sched"
)

// Real is a function that opens a GPU in a launching mode and loads networks.
type Real func(ctx context.Context, m gpu.Mode, networks []string) (*Opened, error)

// Opened is an open GPU.
type Opened struct {
	Device device.Real
	Inputs func(*sched.Request) ([]device.Tensor, error)
	Report func() (*Report, error) // after the run
	Close  func() error
}

// Report contains what was counted and measured on one GPU.
type Report struct {
	Gone               []float64 // by preemption: time in us until no other work was on the GPU
	Ran, Padded, Again int       // numbers of kernels: all, padded, and run again
	Pauses             []int64   // times in ns: longest pause of the launcher, and CPU time of its thread in this pause
}

// On returns a bed with a user's networks. It uses a real GPU if real is not nil, and the simulated GPU otherwise.
func On(f *params.File, networks []*gpu.Network, real Real) *Bed {
	b := NewBed(f, "")
	b.real = real
	for _, n := range networks {
		b.nets[n.Name] = n
	}
	return b
}

// RealSystems returns the systems that a real GPU supports. "drain" is omitted, because it equals "wait" on a real GPU.
// "reset-ahead" is like "reset", but real-time work can start before the killed work has left. REEF has no
// "reset-ahead".
func RealSystems() []string {
	all := slices.DeleteFunc(Systems(), func(s string) bool { return s == "orion" || s == "drain" })
	return slices.Insert(all, slices.Index(all, "reset")+1, "reset-ahead")
}

// Workloads returns DISB's workloads and Drive. Drive replaces REEF's trace.
func Workloads() []Workload { return append(DISB(), Drive()) }

// Published returns the values of REEF's figures 15 and 16 for a GPU, by workload, system and metric. The metric rt is
// the latency of real-time requests relative to a run without best-effort requests. The metric throughput is the sum
// over all clients.
func Published(gpu string) map[[3]string]float64 {
	out := map[[3]string]float64{}
	claims, _ := frame.Book(book) // no error: the file is embedded, and every test reads it
	for _, c := range claims {
		f := strings.Split(c.ID, "/")
		if len(f) != 4 || f[0] != "fig15-16" && f[0] != "fig15" || f[1] != gpu || c.Published == nil {
			continue
		}
		if f[2] == "trace" {
			f[2] = "drive"
		}
		if i := strings.LastIndexByte(f[3], '-'); i > 0 {
			out[[3]string{f[2], f[3][:i], f[3][i+1:]}] = *c.Published
		}
	}
	return out
}

// served opens the GPU, serves the requests and closes the GPU.
func (b *Bed) served(ctx context.Context, m gpu.Mode, names []string, cfg engine.Config) (_ *Report, _ *engine.Result, err error) {
	o, err := b.real(ctx, m, names)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if e := o.Close(); err == nil {
			err = e
		}
	}()
	cfg.Devices, cfg.Inputs = []device.Device{o.Device}, o.Inputs
	res, err := engine.Serve(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	s, err := o.Report()
	return s, res, err
}

func (b *Bed) serveReal(ctx context.Context, m gpu.Mode, names []string, cfg engine.Config) (*Outcome, *engine.Result, error) {
	s, res, err := b.served(ctx, m, names, cfg)
	if err != nil {
		return nil, nil, err
	}
	o := &Outcome{Preemptions: len(s.Gone), Gone: s.Gone, Pauses: s.Pauses}
	o.Preempt, o.PreemptP99 = meanP99(slices.Clone(s.Gone))
	if s.Ran > 0 {
		o.Padded, o.Again = float64(s.Padded)/float64(s.Ran), float64(s.Again)/float64(s.Ran)
	}
	return o, res, nil
}
