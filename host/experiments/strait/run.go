package strait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// Load describes the arrivals.
type Load struct {
	Name string
	// Work is the load of each GPU: requests per second, multiplied by the time per request of a full batch that runs
	// alone on the GPU.
	Work float64
	// High is the request rate of a high-priority model, divided by the rate of a low-priority model.
	High float64
	// Even means periodic arrivals instead of a Poisson process.
	Even bool
	// Shape returns a factor on a task's rate, with a mean of 1. The time "at" is a share of the run. nil: the rate is
	// constant.
	Shape func(task int, at float64) float64
}

// Run configures one run.
type Run struct {
	System string
	Models []Model
	Load   Load
	GPUs   int // 0: 1
	Ns     int64
	Seed   uint64
	// Model is Strait's initial model; nil: a new model. Frozen stops the model's training.
	Model  *predict.Model
	Frozen bool
	Low    float64 // initial value of Strait's cap; 0: as published
	Theta  float32 // exit threshold; 0: no early exits
	Form   float64 // longest wait of a request for a full batch, as a share of its deadline; 0: the default
	// Beside is a share of the work on the device at a batch's launch. The predictor expects that this share will run
	// beside the batch; 0: half.
	Beside float64
	// Drift is the largest random relative error of the profiled resource use.
	Drift float64
	// Finished is called for each of Strait's batches, if set.
	Finished func(now int64, f *sched.Finished)
}

// Class counts the results of the requests of one priority.
type Class struct {
	Requests, OnTime, Late, Dropped int
	latencies                       []int64
}

// ended counts a request.
func (c *Class) ended(took int64, how engine.Ending) {
	c.Requests++
	switch how {
	case engine.OnTime:
		c.OnTime++
	case engine.Late:
		c.Late++
	default:
		c.Dropped++
		return
	}
	c.latencies = append(c.latencies, took)
}

// Violations returns the share of requests that were not on time.
func (c *Class) Violations() float64 {
	if c.Requests == 0 {
		return math.NaN()
	}
	return float64(c.Requests-c.OnTime) / float64(c.Requests)
}

// Latency returns a quantile of the latencies of requests with a result, in ns.
func (c *Class) Latency(q float64) float64 {
	if len(c.latencies) == 0 {
		return math.NaN()
	}
	slices.Sort(c.latencies)
	return float64(c.latencies[min(len(c.latencies)-1, int(q*float64(len(c.latencies))))])
}

// Outcome is the result of a run.
type Outcome struct {
	Class    [2]Class         // by priority
	Finished []sched.Finished // Strait's batches
	Model    *predict.Model   // Strait's final model
	Exits    []int64          // number of requests by exit
	// Slow contains, by model, each batch's time divided by its time alone. It omits models with several segments.
	Slow map[string][]float64
}

// form is the default of Run.Form. In section 5.1 the wait is proportional to the deadline, but the factor is not
// stated. So this factor is assumed.
const form = 0.1

// system returns the system's policy and the GPU's launching mode.
func (r *Run) system() (policy sched.Policy, mode string, err error) {
	form := cmp.Or(r.Form, form)
	share := &sched.Sharing{Label: r.System, BMax: MaxBatch, Form: form}
	strait := &sched.Strait{BMax: MaxBatch, Places: 4, Form: form, Low: r.Low, Beside: r.Beside, Exits: r.Theta > 0, Frozen: r.Frozen}
	if r.Model != nil {
		m := *r.Model
		strait.Model = &m
	}
	policy, mode = strait, "priority"
	switch r.System {
	case "temporal":
		policy, share.Limit = share, 1
	case "static":
		policy, share.Limit = share, 3
	case "pairs": // the system of figure 1
		policy, share.Limit, share.Instances = share, 2, 1
	case "plain-streams": // like pairs, without stream priority
		policy, share.Limit, share.Instances, mode = share, 2, 1, "streams"
	case "one-low": // static sharing with a constant cap in place of Strait's
		policy, share.Limit, share.Lows = share, 3, 1
	case "reactive":
		policy, share.Limit, share.Reactive = share, 4, true
	case "xsched": // no batches and no dropped requests: kernels go directly to XSched, which intercepts them
		return &sched.Sharing{Label: "xsched", BMax: 1, Instances: 1, Keep: true}, "xsched", nil
	case "xsched-2", "xsched-4": // like xsched, with two or four streams per network; the publication does not state their number
		return &sched.Sharing{Label: "xsched", BMax: 1, Instances: int(r.System[len(r.System)-1] - '0'), Keep: true}, "xsched", nil
	case "strait":
	case "strait-null": // Strait with an untrained predictor that predicts no interference
		strait.Model, strait.Frozen = predict.Null(), true
	case "no-cap": // low-priority batches can use the whole GPU
		strait.Low = math.Inf(1)
	case "strait-now": // for the comparison with XSched: requests do not wait for a full batch
		strait.Form = 0
	case "no-priority":
		strait.NoPriority = true
	case "no-stream":
		strait.NoPriority, strait.NoStream, mode = true, true, "streams"
	case "no-meet":
		strait.NoPriority, strait.NoStream, strait.NoMeet, mode = true, true, true, "streams"
	case "no-violate":
		strait.NoPriority, strait.NoStream, strait.NoMeet, strait.NoViolate, mode = true, true, true, true, "streams"
	case "strait-deep": // with early exits, but the predictor does not consider them
		strait.Exits = false
	default:
		return nil, "", fmt.Errorf("no system %q; there are %v", r.System, Systems())
	}
	return policy, mode, nil
}

// Systems returns the names of the compared systems.
func Systems() []string {
	return []string{"temporal", "static", "reactive", "strait", "strait-null", "one-low", "no-cap", "xsched", "xsched-4", "strait-now", "no-priority", "no-stream", "no-meet", "no-violate", "pairs", "strait-deep"}
}

// Run executes the run.
func (b *Bed) Run(ctx context.Context, r Run) (*Outcome, error) {
	if len(r.Models) == 0 || r.Ns < 1 || !(r.Load.Work > 0) {
		return nil, errors.New("a run needs models, a length and a load")
	}
	src, err := b.arrivals(&r, max(1, r.GPUs))
	if err != nil {
		return nil, err
	}
	cfg, strait, err := b.engine(&r)
	if err != nil {
		return nil, err
	}
	cfg.Source = src
	o := &Outcome{Slow: map[string][]float64{}}
	seen := &endings{o: o, models: r.Models, due: src.Due, bed: b}
	cfg.Observer = seen
	if strait != nil {
		strait.Ended = func(f *sched.Finished) {
			if r.Finished != nil {
				r.Finished(seen.now, f)
				return
			}
			o.Finished = append(o.Finished, *f)
		}
	}
	res, err := engine.Run(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s under %s on %s: %w", r.Load.Name, r.System, b.File.Name, err)
	}
	o.Exits = slices.Clone(res.Stream.Exits)
	if strait != nil {
		o.Model = strait.Model
	}
	return o, nil
}

// engine returns the run's policy, networks and devices; strait is nil for policies other than Strait.
func (b *Bed) engine(r *Run) (cfg engine.Config, strait *sched.Strait, err error) {
	policy, mode, err := r.system()
	if err != nil {
		return cfg, nil, err
	}
	cfg = engine.Config{
		Policy: policy, Inputs: engine.NoInputs, Clock: engine.Measured, Keep: engine.Counts,
		Watchdog: engine.Watchdog{Fixed: 1 << 50, Other: 1 << 50},
	}
	rng := rand.New(rand.NewPCG(r.Seed, 77))
	for i := range r.Models {
		t, err := b.Table(&r.Models[i])
		if err != nil {
			return cfg, nil, err
		}
		if r.Drift > 0 {
			t = drifted(t, r.Drift, rng)
		}
		n := engine.Network{Name: r.Models[i].Name}
		for range max(1, r.GPUs) {
			n.Tables = append(n.Tables, t)
		}
		cfg.Networks = append(cfg.Networks, n)
	}
	var slow func(device.RequestID) float64
	if b.seed = r.Seed; b.Spread > 0 {
		slow = b.drawn
	}
	for range max(1, r.GPUs) {
		d, err := b.device(mode, r.Models, slow)
		if err != nil {
			return cfg, nil, err
		}
		cfg.Devices = append(cfg.Devices, d)
	}
	strait, _ = policy.(*sched.Strait)
	return cfg, strait, nil
}

// drifted returns a copy of t in which the resource use has random relative errors and is limited to 0..1 (appendix
// A.2).
func drifted(t *sched.Table, by float64, rng *rand.Rand) *sched.Table {
	c := *t
	c.Use = nil
	for _, s := range t.Use {
		s = slices.Clone(s)
		for i := range s {
			for k := range s[i] {
				s[i][k] = min(1, max(0, s[i][k]*(1+by*(2*rng.Float64()-1))))
			}
		}
		c.Use = append(c.Use, s)
	}
	return &c
}

// Rates returns the requests per second of each model.
func (b *Bed) Rates(models []Model, l *Load, gpus int) ([]float64, error) {
	rates := make([]float64, len(models))
	work := 0.0
	for i := range models {
		t, err := b.Table(&models[i])
		if err != nil {
			return nil, err
		}
		rates[i] = 1
		if models[i].Priority > 0 {
			rates[i] = l.High
		}
		work += rates[i] * float64(t.At(0, t.Segments()-1, MaxBatch)) / MaxBatch / 1e9
	}
	for i := range rates {
		rates[i] *= l.Work * float64(gpus) / work
	}
	return rates, nil
}

// arrivals returns random arrival times. Each model has its own random numbers, so with the same seed, all systems
// receive the same requests.
func (b *Bed) arrivals(r *Run, gpus int) (*load.Clients, error) {
	rates, err := b.Rates(r.Models, &r.Load, gpus)
	if err != nil {
		return nil, err
	}
	src := source(r.Models, cmp.Or(r.Theta, 2))
	for i, rate := range rates {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		peak := 1.0
		if r.Load.Shape != nil {
			for at := range 1000 {
				peak = max(peak, r.Load.Shape(i, float64(at)/1000))
			}
		}
		gap := 1e9 / rate / peak
		for at := rng.Float64() * gap; at < float64(r.Ns); {
			if r.Load.Shape == nil || rng.Float64()*peak < r.Load.Shape(i, at/float64(r.Ns)) {
				src.Due = append(src.Due, load.Due{At: int64(at), Client: i})
			}
			if r.Load.Even {
				at += gap
			} else {
				at += rng.ExpFloat64() * gap
			}
		}
	}
	sortDue(src.Due)
	return src, nil
}

// source returns a source of requests. theta is the exit threshold. With theta = 2, requests run at full depth.
func source(models []Model, theta float32) *load.Clients {
	return &load.Clients{Task: func(client int, at int64) sched.Task {
		m := &models[client]
		return sched.Task{Network: m.Name, Deadline: at + m.DeadlineNs, Priority: m.Priority, Theta: theta}
	}}
}

func sortDue(all []load.Due) {
	slices.SortStableFunc(all, func(a, b load.Due) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Client, b.Client)) })
}

// endings counts the results of requests, by priority.
type endings struct {
	engine.NopObserver
	o      *Outcome
	models []Model
	due    []load.Due
	bed    *Bed
	now    int64
}

// Span implements engine.Observer.
func (e *endings) Span(s *engine.Span) {
	if s.Segment != 0 || len(s.Requests) == 0 || s.Failed {
		return
	}
	// each task has one request, so request IDs are in the order of tasks
	m := &e.models[e.due[s.Requests[0]-1].Client]
	t, err := e.bed.Table(m)
	if err != nil || t.Segments() > 1 {
		return
	}
	e.o.Slow[m.Name] = append(e.o.Slow[m.Name], float64(s.End-s.Start)/float64(t.At(0, 0, len(s.Requests))))
}

// TaskEnded implements engine.Observer.
func (e *endings) TaskEnded(now int64, t *sched.Task, how engine.Ending) {
	e.now = now
	e.o.Class[t.Priority].ended(now-t.Arrived, how)
}
