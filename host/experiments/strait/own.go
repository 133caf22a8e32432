// Own runs a user's workload and kernels under Strait and its baselines.

package strait

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// ErrOwn is the error of a workload that cannot be served.
var ErrOwn = errors.New("workload")

// Own contains the clients of a workload file. Each client is a task with its own network, as in the publication.
type Own struct {
	bed     *Bed
	ns      int64
	models  []Model
	streams []load.Stream
}

// NewOwn reads clients from a DISB workload. catalogue.Meant selects their networks. A client has low priority if its
// priority number is above zero. A closed-loop client also has low priority if its ID does not end in _rt. The deadline
// of a request is its client's deadline_ms. If deadline_ms is not set, slo computes it from the time alone on the GPU.
// A program NAME contains the kernels for one sample. NAME@2, NAME@3, ... contain the kernels for these batch sizes,
// without gaps. The uploads before the first kernel are the input of a sample.
func NewOwn(f *params.File, style string, kernels []*kernel.Program, trace *load.Trace, slo func(alone int64) int64) (*Own, error) {
	if _, err := catalogue.StyleOf(style); err != nil {
		return nil, err
	}
	o := &Own{bed: NewBed(f), ns: trace.Duration}
	o.bed.style = style
	inputs := map[string]int64{}
	var names []string
	if len(kernels) > 0 {
		var err error
		if o.bed.own, inputs, err = batches(kernels); err != nil {
			return nil, err
		}
		for n := range o.bed.own {
			names = append(names, n)
		}
		slices.Sort(names)
	}
	for i := range trace.Streams {
		s := trace.Streams[i]
		network, err := catalogue.Meant(s.Network, names)
		if err == nil && s.Batch > 1 {
			err = fmt.Errorf("sends batches of %d: here the server makes the batches", s.Batch)
		}
		if err == nil && slices.ContainsFunc(o.models, func(m Model) bool { return m.Name == s.Name }) {
			err = errors.New("duplicate id")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: client %s: %w", ErrOwn, s.Name, err)
		}
		m := Model{Name: s.Name, Network: network, Priority: 1, DeadlineNs: s.Deadline, Input: input(network)}
		if o.bed.own[network] != nil {
			m.Input = inputs[network]
		}
		if s.Priority > 0 || s.Closed && !strings.HasSuffix(s.Name, "_rt") {
			m.Priority = 0
		}
		alone, err := o.alone(&m)
		if err != nil {
			return nil, fmt.Errorf("%w: client %s: %w", ErrOwn, s.Name, err)
		}
		if m.DeadlineNs == 0 {
			m.DeadlineNs = slo(alone)
		}
		if m.DeadlineNs < alone {
			return nil, fmt.Errorf("%w: client %s: a deadline of %d ns, and one request of %s alone takes %d ns", ErrOwn, s.Name, m.DeadlineNs, network, alone)
		}
		o.models, o.streams = append(o.models, m), append(o.streams, s)
	}
	return o, nil
}

// input returns the size of a network's input in bytes: the size in table 1, or else the size of a float32 image.
func input(network string) int64 {
	for _, m := range Table1() {
		if m.Network == network {
			return m.Input
		}
	}
	return image
}

// batches sorts programs by network and batch, and returns the size of each network's input.
func batches(all []*kernel.Program) (map[string][]*kernel.Program, map[string]int64, error) {
	own, inputs := map[string][]*kernel.Program{}, map[string]int64{}
	for _, p := range all {
		name, text, is := strings.Cut(p.Name, "@")
		batch := 1
		if is {
			var err error
			if batch, err = strconv.Atoi(text); err != nil || batch < 2 || batch > MaxBatch || name == "" {
				return nil, nil, fmt.Errorf("%w: kernels of %q: NAME, or NAME@2 to NAME@%d for a batch, is expected", ErrOwn, p.Name, MaxBatch)
			}
		}
		for len(own[name]) < batch {
			own[name] = append(own[name], nil)
		}
		cut, bytes, err := withoutUploads(p)
		if err != nil {
			return nil, nil, err
		}
		own[name][batch-1] = cut
		if batch == 1 {
			inputs[name] = bytes
		}
	}
	for name, v := range own {
		for i, p := range v {
			switch {
			case p == nil && i == 0:
				return nil, nil, fmt.Errorf("%w: kernels of %s for one sample are missing", ErrOwn, name)
			case p == nil:
				return nil, nil, fmt.Errorf("%w: kernels of %s@%d are missing, those of %s@%d are there", ErrOwn, name, i+1, name, len(v))
			case len(p.Kernels) != len(v[0].Kernels) || !slices.Equal(p.Exits, v[0].Exits):
				return nil, nil, fmt.Errorf("%w: %s@%d has %d kernels with exits %v, expected those of %s: %d with %v",
					ErrOwn, name, i+1, len(p.Kernels), p.Exits, name, len(v[0].Kernels), v[0].Exits)
			}
		}
	}
	return own, inputs, nil
}

// withoutUploads returns a copy of a program without the uploads at its start, and the bytes of these uploads.
func withoutUploads(p *kernel.Program) (*kernel.Program, int64, error) {
	n, bytes := 0, int64(0)
	for ; n < len(p.Kernels) && p.Kernels[n].Kind == kernel.Upload; n++ {
		bytes += p.Kernels[n].Bytes
	}
	if n == len(p.Kernels) || n > p.Exits[0] {
		return nil, 0, fmt.Errorf("%w: the first segment of %s is nothing but uploads", ErrOwn, p.Name)
	}
	cut := *p
	cut.Kernels, cut.Exits = p.Kernels[n:], slices.Clone(p.Exits)
	for i := range cut.Exits {
		cut.Exits[i] -= n
	}
	return &cut, bytes, nil
}

// alone returns the time of one request on an idle GPU, in ns, including the transfer.
func (o *Own) alone(m *Model) (int64, error) {
	t, err := o.bed.Table(m)
	if err != nil {
		return 0, err
	}
	return t.Copies[0] + t.At(0, t.Segments()-1, 1), nil
}

// ClientOutcome is the result of one client.
type ClientOutcome struct {
	Model
	Alone int64
	Class
}

// OwnOutcome is the result of a run.
type OwnOutcome struct {
	Summary engine.Summary
	Class   [2]Class // by priority
	Clients []ClientOutcome
	Errors  []float64      // errors of Strait's predicted slowdowns, in per cent, ascending
	Model   *predict.Model // Strait's final model; nil for other systems
}

// Run serves the workload under a system on a number of GPUs. begin is Strait's initial model; nil: a new model.
func (o *Own) Run(ctx context.Context, system string, gpus int, begin *predict.Model) (*OwnOutcome, error) {
	cfg, strait, err := o.bed.engine(&Run{System: system, Models: o.models, GPUs: gpus, Model: begin})
	if err != nil {
		return nil, err
	}
	out := &OwnOutcome{}
	for i := range o.models {
		alone, err := o.alone(&o.models[i])
		if err != nil {
			return nil, err
		}
		out.Clients = append(out.Clients, ClientOutcome{Model: o.models[i], Alone: alone})
	}
	var ended []sched.Finished
	if strait != nil {
		strait.Ended = func(f *sched.Finished) { ended = append(ended, *f) }
	}
	cfg.Source, cfg.Observer = o.source(), &ownEndings{out: out}
	res, err := engine.Run(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s on %d GPUs: %w", system, gpus, err)
	}
	out.Summary = res.Summary()
	if strait != nil {
		out.Errors = relativeErrors(ended, adaptive)
		if !strait.Frozen {
			out.Model = strait.Model
		}
	}
	return out, nil
}

// source returns a source of the requests that are due before the workload's end.
func (o *Own) source() *load.Clients {
	s := source(o.models, 2)
	s.End, s.Closed = o.ns, func(client int) bool { return o.streams[client].Closed }
	for i := range o.streams {
		if o.streams[i].Closed {
			s.Due = append(s.Due, load.Due{Client: i})
		}
		for _, at := range o.streams[i].Times {
			if at < o.ns {
				s.Due = append(s.Due, load.Due{At: at, Client: i})
			}
		}
	}
	sortDue(s.Due)
	return s
}

// ownEndings counts the results of requests, by priority and client.
type ownEndings struct {
	engine.NopObserver
	out *OwnOutcome
}

// TaskEnded implements engine.Observer.
func (e *ownEndings) TaskEnded(now int64, t *sched.Task, how engine.Ending) {
	for _, c := range []*Class{&e.out.Class[t.Priority], &e.out.Clients[t.Client].Class} {
		c.ended(now-t.Arrived, how)
	}
}
