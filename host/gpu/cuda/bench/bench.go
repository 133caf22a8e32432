// Package bench measures a GPU through package cuda. It covers the SMs of partitions, the times of networks, copies and
// host calls, the cost of preemption and padding, and the error of predicted interference. Every figure (Rows) is
// computed from stored runs (Series), so it can be computed again later. With the fake driver nothing is measured, so
// figures are labelled as simulated.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/sim"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Config selects what to measure.
type Config struct {
	Library  string // driver file; "": the system's
	NVML     string // NVML file
	GPU      int
	Masks    *cuda.Masks // stream masks for partitions; nil: as in cuda.Config
	Kernels  []byte      // code of the kernels; nil: as in cuda.Config
	Program  string      // name and version of the measuring program
	Revision string      // revision of its sources
	Networks []*bundle.Bundle
	Params   *sim.Params // parameters from which padding estimates the times of kernels
	N        int         // largest number of runs of each series
	// Field "For" is the approximate time of a part; 0: each series has N runs. A part takes longer if a series does
	// not have ten runs yet. Budget is the time of all parts together; 0: no limit. The time left is shared among the
	// remaining parts. Field "Parts" lists the parts to run; nil: all. They run in the order of the function Parts.
	// Field "Later" lists parts that the caller runs afterwards. Their share of the budget is reserved.
	For     time.Duration
	Budget  time.Duration
	Parts   []string
	Later   []string
	Seed    uint64
	Batches []int // for latencies; nil: 1, 8, 32
	// Preemption is measured with these numbers of kernels in a stream (nil: Capacities()) and modes (nil:
	// Preempting()).
	Capacities []int
	Modes      []string
	// Warm is how long launches run before a measurement; 0: a second, or no time on the fake driver, which has no
	// clocks.
	Warm  time.Duration
	Clock Clock // the clock by which the times "For" and "Budget" are measured
	Tell  func(part string)
	// If Keep is set, it is called with all runs so far, after each run and each part. Runs from one device call (at
	// most ten) arrive together, and so do runs from one round of padding.
	Keep func(*Raw)
}

// Series is the list of runs of one quantity.
type Series struct {
	Part string
	Key  string
	Unit string // ns, sm, kernels
	Runs []int64
}

// Raw holds all runs.
type Raw struct {
	Facts  cuda.Facts
	Seed   uint64
	Made   Made
	Series []Series
	Torn   bool // the file of runs was truncated
}

// Made is the provenance of runs: program, sources, time.
type Made struct {
	Program  string    `json:"program"`
	Revision string    `json:"revision"` // of its sources
	Began    time.Time `json:"began"`
	N        int       `json:"n"`
	For      string    `json:"for,omitempty"` // approximate time of a part
	Batches  []int     `json:"batches"`
	Networks []Network `json:"networks"`
	Parts    []string  `json:"parts"` // completed parts
	// TookNs is the time from the opening of the GPU to the end of the last part, measured with Config.Clock.
	TookNs int64 `json:"took_ns,omitempty"`
	// If part DISB ran, Shrink is the divisor of the sides of all tensors, and DISBNs is the time of a run in ns.
	Shrink int   `json:"shrink,omitempty"`
	DISBNs int64 `json:"disb_ns,omitempty"`
}

// Network is a network that ran.
type Network struct {
	Name   string `json:"name"`
	Bundle string `json:"bundle_hash"`
}

// made returns the fields of Made that are known before the runs.
func made(cfg *Config) (m Made, err error) {
	m = Made{Program: cfg.Program, Revision: cfg.Revision, Began: time.Now().UTC().Round(0), N: cfg.N, Batches: cfg.Batches}
	if cfg.For > 0 {
		m.For = cfg.For.String()
	}
	for _, b := range cfg.Networks {
		if bad(b.Network.Name) {
			return m, fmt.Errorf("%w: network %q: a name without commas and ends of lines is expected, since runs are kept by it", device.ErrRequest, b.Network.Name)
		}
		s, err := b.Summarize()
		if err != nil {
			return m, err
		}
		m.Networks = append(m.Networks, Network{b.Network.Name, s.BundleHash})
	}
	return m, nil
}

// Label returns a word for the origin of the figures. It is "measured" only if the figures come from a real GPU.
func (r *Raw) Label() string {
	switch {
	case r.Facts.Fake:
		return "simulated"
	case r.Facts.GPU == "":
		return "of no GPU"
	}
	return "measured"
}

// Names of parts.
const (
	Golden     = "golden"
	Costs      = "costs"
	Copies     = "copies"
	Kills      = "kills"
	Preemption = "preemption"
	Latency    = "latency"
	Layers     = "layers"
	Padding    = "padding"
	Slowdown   = "slowdown"
	Partitions = "partitions"
	DISB       = "disb" // of package disb
	SEEB       = "seeb" // of package seeb/real
)

// ErrBudget reports that no time was left for some parts.
var ErrBudget = errors.New("the budget is used up")

// Parts lists the parts of Run in their order: the most valuable results first, parts that may crash a driver last.
func Parts() []string {
	return []string{Golden, Costs, Copies, Kills, Preemption, Latency, Layers, Slowdown, Padding, Partitions}
}

// weights are the parts' shares of the budget. They are roughly proportional to the parts' times on an H100.
var weights = map[string]int{Golden: 3, Costs: 1, Copies: 1, Kills: 4, Preemption: 4, Latency: 4, Layers: 1, Slowdown: 1, Padding: 4, Partitions: 1, SEEB: 2, DISB: 8}

// A part is stopped after twice its share (overdraft), or when it has used its share and half of the time left for
// later parts. A fiftieth of a budget (spared) is for work that cannot be stopped: a running launch, closing a device.
const (
	overdraft = 2
	spared    = 50
)

// Run measures the configured parts. A failed part does not stop the others; its error is returned at the end. If the
// GPU could be opened, Run also returns the runs so far.
func Run(ctx context.Context, cfg Config) (*Raw, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Parts == nil {
		cfg.Parts = Parts()
	}
	if cfg.Batches == nil {
		cfg.Batches = []int{1, 8, 32}
	}
	if cfg.Capacities == nil {
		cfg.Capacities = Capacities()
	}
	if cfg.Modes == nil {
		cfg.Modes = Preempting()
	}
	how, err := made(&cfg)
	if err != nil {
		return nil, err
	}
	b := &bench{Config: cfg, raw: &Raw{Seed: cfg.Seed, Made: how}, rng: rand.New(rand.NewPCG(cfg.Seed, 1))}
	began := b.Clock.Now()
	if err := b.facts(); err != nil {
		return b.raw, err
	}
	do := map[string]func(context.Context) error{
		Golden: b.golden, Costs: b.costs, Copies: b.copies, Kills: b.kills, Preemption: b.preemption,
		Latency: b.latency, Layers: b.layers, Slowdown: b.slowdown, Padding: b.padding, Partitions: b.partitions,
	}
	parts := slices.DeleteFunc(Parts(), func(p string) bool { return !slices.Contains(cfg.Parts, p) })
	var failed []error
	for i, part := range parts {
		if err := ctx.Err(); err != nil {
			return b.raw, errors.Join(append(failed, fmt.Errorf("%s: %w", part, err))...)
		}
		if cfg.Tell != nil {
			cfg.Tell(part)
		}
		if err := b.part(ctx, part, do[part], Spare(cfg.Budget)-b.Clock.Since(began), slices.Concat(parts[i:], cfg.Later)); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", part, err))
		} else {
			b.raw.Made.Parts = append(b.raw.Made.Parts, part)
		}
		b.raw.Made.TookNs = b.Clock.Since(began).Nanoseconds()
		b.keep()
		if ctx.Err() != nil && len(failed) > 0 {
			break
		}
	}
	return b.raw, errors.Join(failed...)
}

// check rejects a configuration with which nothing can be measured.
func (c *Config) check() error {
	if c.N < 1 || len(c.Networks) == 0 || c.Params == nil || c.Budget < 0 {
		return fmt.Errorf("%w: networks, parameters, a number of runs and no budget below 0 are expected", device.ErrRequest)
	}
	if c.Parts != nil && len(c.Parts) == 0 {
		return fmt.Errorf("%w: no part is asked for; there are %s", device.ErrRequest, strings.Join(Parts(), ", "))
	}
	for _, part := range c.Parts {
		if !slices.Contains(Parts(), part) {
			return fmt.Errorf("%w: no part %q; there are %s", device.ErrRequest, part, strings.Join(Parts(), ", "))
		}
	}
	return nil
}

// Spare returns the time in the budget after which nothing new is started.
func Spare(budget time.Duration) time.Duration { return budget - budget/spared }

// Share returns the first part's share of the time that is left for all parts, and the part's time limit.
func Share(left time.Duration, parts []string) (share, most time.Duration) {
	all := 0
	for _, p := range parts {
		all += weights[p]
	}
	share = left * time.Duration(weights[parts[0]]) / time.Duration(all)
	return share, min(overdraft*share, (left+share+1)/2)
}

// part runs the part "name", the first element of parts. With a budget, the part gets its share of the time left.
func (b *bench) part(ctx context.Context, name string, do func(context.Context) error, left time.Duration, parts []string) error {
	if b.Budget > 0 {
		if left <= 0 {
			return ErrBudget
		}
		asked := b.For
		defer func() { b.For = asked }()
		share, most := Share(left, parts)
		if b.For == 0 || share < b.For {
			b.For = share
		}
		var end context.CancelFunc
		ctx, end = b.Clock.Until(ctx, b.Clock.Now().Add(most))
		defer end()
	}
	b.now = name
	err := do(ctx)
	b.addPaces(name)
	if err != nil && errors.Is(context.Cause(ctx), ErrBudget) {
		return fmt.Errorf("%w: %w", ErrBudget, err)
	}
	return err
}

// Clock measures budgets. nil: the host's clock.
type Clock func() time.Time

// Now returns the time.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return c()
}

// Since returns the time that has passed since the time `then`.
func (c Clock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// Until returns a context that is cancelled with the cause ErrBudget at the time `end`. With the host's clock, a timer
// cancels the context. Any other clock is read whenever the context's Err is called.
func (c Clock) Until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if c == nil {
		return context.WithDeadlineCause(ctx, end, ErrBudget)
	}
	inner, cancel := context.WithCancelCause(ctx)
	return &until{inner, func() bool { return !c().Before(end) }, cancel}, func() { cancel(context.Canceled) }
}

type until struct {
	context.Context
	over   func() bool
	cancel context.CancelCauseFunc
}

func (u *until) Err() error {
	if u.over() {
		u.cancel(ErrBudget)
	}
	return u.Context.Err()
}

type bench struct {
	Config
	raw   *Raw
	rng   *rand.Rand
	now   string    // the current part
	paces paces     // readings of the GPU's clock during the current part
	busy  time.Time // time of the GPU's last work
}

// add appends runs to a series. A later call of keep reports them, so that related runs are reported together.
func (b *bench) add(part, key, unit string, runs ...int64) {
	for i := range b.raw.Series {
		if s := &b.raw.Series[i]; s.Part == part && s.Key == key {
			s.Runs = append(s.Runs, runs...)
			return
		}
	}
	b.raw.Series = append(b.raw.Series, Series{part, key, unit, runs})
}

// keep calls Config.Keep with all runs so far and with the current part's readings of the clock.
func (b *bench) keep() {
	if b.Keep == nil {
		return
	}
	all := *b.raw
	all.Series = slices.Clip(all.Series)
	(&bench{raw: &all}).addReadings(b.now, &b.paces)
	b.Keep(&all)
}

// few is the smallest useful number of runs. After its time, a part continues until each series has this number of
// runs.
const few = 10

// enough returns a function that reports whether a series has enough runs. N runs are always enough. After the series'
// share of the part's time, ten runs (few) are enough. The argument "things" is the number of equal shares. The time
// starts at the call.
func (b *bench) enough(things int) func(runs int) bool { return b.after(few, things) }

// after is the function `enough` with `fewest` runs in place of ten.
func (b *bench) after(fewest, things int) func(runs int) bool {
	began, share := b.Clock.Now(), b.For/time.Duration(things)
	return func(runs int) bool {
		return runs >= b.N || b.For > 0 && runs >= min(fewest, b.N) && b.Clock.Since(began) > share
	}
}

// rig is a device with loaded networks. Its slots contain noise as inputs.
type rig struct {
	*bench
	d    *cuda.Device
	end  context.CancelFunc
	gone <-chan struct{}
	ids  map[string][]device.RequestID // by network: the requests in its slots

	mu    sync.Mutex
	last  device.WorkID
	waits map[device.WorkID]*waiting
}

// waiting is work in progress. Its outcome is stored here when the work ends.
type waiting struct {
	over  chan struct{}
	ev    device.Event
	ns    int64           // time on the launcher's thread, without the time to wake other threads
	shown map[int][]int16 // outputs of the first request, by exit
}

// open opens a device.
func (b *bench) open(cfg cuda.Config, samples int) (*cuda.Device, error) {
	// The fake driver needs the processor, so its launcher must not spin.
	cfg.Library, cfg.GPU, cfg.Params, cfg.Through, cfg.Spin = b.Library, b.GPU, b.Params, true, !b.raw.Facts.Fake
	cfg.Slots, cfg.Places, cfg.NVML, cfg.Masks, cfg.Kernels = 2*samples, 8, b.NVML, b.Masks, b.Kernels
	return cuda.New(cfg)
}

// facts identifies the GPU before anything runs on it, so that all stored runs contain its name.
func (b *bench) facts() error {
	d, err := b.open(cuda.Config{}, 1)
	if err != nil {
		return err
	}
	b.raw.Facts, err = d.Facts()
	if err == nil && b.raw.Facts.GPU == "" {
		err = fmt.Errorf("%w: the driver has no name for GPU %d, so the runs could not be attributed to a GPU", device.ErrRequest, b.GPU)
	}
	return errors.Join(err, d.Close())
}

// attached opens a device for one part.
func (b *bench) attached(ctx context.Context, cfg cuda.Config, samples int, do func(*rig) error) (err error) {
	d, err := b.open(cfg, samples)
	if err != nil {
		return err
	}
	inner, end := context.WithCancel(context.WithoutCancel(ctx)) // a running launch must end before the device closes
	r := &rig{bench: b, d: d, end: end, ids: map[string][]device.RequestID{}, waits: map[device.WorkID]*waiting{}}
	r.gone = d.Attach(inner, r.post)
	defer func() {
		end()
		<-r.gone
		if e := d.Close(); err == nil {
			err = e
		}
	}()
	return do(r)
}

// with does the same as attached, but also loads the networks, and reads the clock before and after it calls the
// function "do".
func (b *bench) with(ctx context.Context, cfg cuda.Config, samples int, do func(*rig) error) error {
	return b.attached(ctx, cfg, samples, func(r *rig) error {
		next := device.RequestID(0)
		for _, n := range b.Networks {
			if _, err := r.do(ctx, &device.Work{Kind: device.Load, Artefact: n}, nil); err != nil {
				return err
			}
			for range samples {
				next++
				if err := r.admit(ctx, n, next, b.noise(n)); err != nil {
					return err
				}
				r.ids[n.Network.Name] = append(r.ids[n.Network.Name], next)
			}
		}
		return r.around(ctx, do)
	})
}

// noise returns an input for a network.
func (b *bench) noise(n *bundle.Bundle) []int16 {
	in := make([]int16, n.Network.InH*n.Network.InW*n.Network.InC)
	for i := range in {
		in[i] = int16(b.rng.IntN(2001) - 1000)
	}
	return in
}

// admit copies a request's input to the GPU.
func (r *rig) admit(ctx context.Context, n *bundle.Bundle, id device.RequestID, in []int16) error {
	_, err := r.do(ctx, &device.Work{Kind: device.Copy, Network: n.Network.Name, Request: id, Input: func() ([]device.Tensor, error) {
		return []device.Tensor{device.Words("input", in, len(in))}, nil
	}}, nil)
	return err
}

func (r *rig) post(ev device.Event) {
	r.mu.Lock()
	w := r.waits[ev.Work]
	if w != nil && ev.Report != nil {
		w.ns += ev.Report.Ns
		for _, x := range ev.Report.Results[0].Exits {
			w.shown[x.Exit] = x.Raw
		}
	}
	if ev.Over {
		delete(r.waits, ev.Work)
	}
	r.mu.Unlock()
	if w != nil && ev.Over {
		w.ev = ev
		close(w.over)
	}
}

// do runs some work and returns its time. It calls "begun" when the device has accepted the work.
func (r *rig) do(ctx context.Context, w *device.Work, begun func()) (took time.Duration, err error) {
	began := time.Now()
	_, err = r.run(ctx, w, begun)
	return time.Since(began), err
}

// run runs some work and returns its outcome.
func (r *rig) run(ctx context.Context, w *device.Work, begun func()) (*waiting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &waiting{over: make(chan struct{}), shown: map[int][]int16{}}
	r.mu.Lock()
	r.last++
	w.ID = r.last
	r.waits[w.ID] = c
	r.mu.Unlock()
	if _, err := r.d.Begin(ctx, 0, w); err != nil {
		return nil, err
	}
	if begun != nil {
		begun()
	}
	select {
	case <-c.over:
		return c, c.ev.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// took runs work and returns its time on the launcher's thread, in ns. If the work fails, it returns an error.
func (r *rig) took(ctx context.Context, w *device.Work) (int64, error) {
	c, err := r.run(ctx, w, nil)
	if err != nil {
		return 0, err
	}
	return c.ns, nil
}

// work returns a launch of a network up to its last exit. The argument batch is the number of samples.
func (r *rig) work(n *bundle.Bundle, from, batch, priority int, u device.Units) *device.Work {
	l := device.Launch{Network: n.Network.Name, Last: len(n.Network.Exits) - 1, Requests: r.ids[n.Network.Name][from:][:batch], Priority: priority, Units: u}
	for range batch {
		l.Theta = append(l.Theta, 2)
	}
	return &device.Work{Kind: device.Run, Launch: l}
}

// sizes are the measured partition sizes, in units.
func sizes(units int) (out []int) {
	for n := 1; n < units; n *= 2 {
		out = append(out, n)
	}
	return append(out, units)
}

// partitions divides the GPU into partitions of each size and measures on which SMs each partition runs.
func (b *bench) partitions(ctx context.Context) error {
	return b.with(ctx, cuda.Config{}, 1, func(r *rig) error {
		units := r.d.Info().Units
		for _, n := range sizes(units) {
			if units == 0 {
				break // the driver cannot divide the GPU
			}
			for first := 0; first < units; first += n {
				w, err := r.d.Probe(device.UnitRange(first, min(n, units-first)))
				if err != nil {
					return err
				}
				var sms []int64
				for _, sm := range w.SMs {
					sms = append(sms, int64(sm))
				}
				b.add(Partitions, fmt.Sprintf("size=%d units=%d want=%d", n, first, w.Want), "sm", sms...)
				b.keep()
			}
		}
		return nil
	})
}

// latency runs networks on partitions of each size, in batches of increasing size. It estimates the time of a batch
// from a smaller batch. A batch without enough time for a few runs is left out, and a note is stored.
func (b *bench) latency(ctx context.Context) error {
	batches := slices.Sorted(slices.Values(b.Batches))
	began := b.Clock.Now()
	return b.with(ctx, cuda.Config{}, batches[len(batches)-1], func(r *rig) error {
		all := sizes(r.d.Info().Units)
		slices.Reverse(all) // the whole GPU first
		things := 2 * len(b.Networks) * len(all) * len(batches)
		each := map[string]float64{} // by network and units: ns per sample
		for _, batch := range batches {
			for _, n := range all {
				for _, net := range b.Networks {
					on := fmt.Sprintf("%s units=%d", net.Network.Name, n)
					if ns := each[on] * float64(batch); ns > 0 && b.For > 0 && b.Clock.Since(began)+time.Duration(2*least*ns) > b.For {
						b.add(Latency, fmt.Sprintf("%s batch=%d left out", on, batch), "launches", 1)
						continue
					}
					took, err := r.latency(ctx, net, n, batch, things)
					if err != nil {
						return err
					}
					each[on] = took / float64(batch)
				}
			}
		}
		return nil
	})
}

// least is the smallest number of runs of a long measurement.
const least = 3

// latency measures a network on n units at one batch size: first whole launches, then each kernel alone. It returns the
// mean time of a launch in ns.
func (r *rig) latency(ctx context.Context, net *bundle.Bundle, n, batch, things int) (float64, error) {
	u := device.UnitRange(0, n)
	key := fmt.Sprintf("%s units=%d batch=%d", net.Network.Name, n, batch)
	began := r.Clock.Now()
	if _, err := r.took(ctx, r.work(net, 0, batch, 0, u)); err != nil { // the first launch creates the partition
		return 0, err
	}
	fewest := few
	if r.For > 0 && few*r.Clock.Since(began) > r.For/time.Duration(things) {
		fewest = least
	}
	runs := 0
	for enough := r.after(fewest, things); !enough(runs); runs++ {
		took, err := r.took(ctx, r.work(net, 0, batch, 0, u))
		if err != nil {
			return 0, err
		}
		r.add(Latency, key, "ns", took)
		r.keep()
	}
	each := float64(r.Clock.Since(began)) / float64(runs+1)
	// Each kernel runs alone, between two events. The times include the host's time for the launch.
	for i, enough := 0, r.after(fewest, things); !enough(i); i += fewest {
		layers, err := r.d.Profile(net.Network.Name, batch, min(fewest, r.N-i), u)
		if err != nil {
			return 0, err
		}
		for k := range layers[0].Ns {
			sum := int64(0)
			for _, l := range layers {
				sum += l.Ns[k]
			}
			r.add(Latency, key+" kernels", "ns", sum)
		}
		r.keep()
	}
	return each, nil
}

// layers measures each kernel of the networks alone. Several launches run one after another, so that the times exclude
// the host's time. The keys contain the layers' shapes, so that other libraries can be measured on the same shapes.
func (b *bench) layers(ctx context.Context) error {
	return b.with(ctx, cuda.Config{}, 1, func(r *rig) error {
		for _, net := range b.Networks {
			if err := ctx.Err(); err != nil {
				return err
			}
			all, err := r.d.Pace(net.Network.Name, min(few, b.N))
			if err != nil {
				return err
			}
			for i := range all {
				d, op := &net.Layers[i], "pool"
				if d.Op == abi.OpGEMM {
					op = "gemm"
				}
				b.add(Layers, fmt.Sprintf("%s %d %s in=%dx%dx%d k=%dx%d s=%dx%d out=%dx%dx%d blocks=%d", net.Network.Name, i, op,
					d.InH, d.InW, d.InC, d.KH, d.KW, d.SH, d.SW, d.OutH, d.OutW, d.OutC, all[i].Blocks), "ns", all[i].Ns...)
			}
			b.keep()
		}
		return nil
	})
}

// costs measures the times of the host's calls, and the time to select kernels for padding.
func (b *bench) costs(ctx context.Context) error {
	const calls = 100
	err := b.with(ctx, cuda.Config{}, 1, func(r *rig) error {
		for i, enough := 0, b.enough(2); !enough(i); i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			c, err := r.d.Costs(calls)
			if err != nil {
				return err
			}
			b.add(Costs, "launch", "ns", c.Launch.Nanoseconds())
			b.add(Costs, "query", "ns", c.Query.Nanoseconds())
			b.add(Costs, "signal", "ns", c.Signal.Nanoseconds())
			b.add(Costs, "switch", "ns", c.Switch.Nanoseconds())
			if i == 0 { // in later runs the partition exists already
				b.add(Costs, "partition", "ns", c.Partition.Nanoseconds())
			}
			b.keep()
		}
		return nil
	})
	if err != nil {
		return err
	}
	var heads [][]sched.Version
	for _, net := range b.Networks {
		p, err := cuda.Program(net, 1, b.Params)
		if err != nil {
			return err
		}
		for i := range min(4, len(p.Kernels)) {
			heads = append(heads, []sched.Version{gpu.Profile(&p.Kernels[i], b.Params)})
		}
	}
	var pads []sched.Padding
	for i, enough := 0, b.enough(2); !enough(i); i++ {
		began := time.Now()
		for i := range calls {
			pads = sched.Pad(&heads[i%len(heads)][0], b.Params.SMs, heads, pads[:0])
		}
		b.add(Costs, "decision", "ns", time.Since(began).Nanoseconds()/calls)
		b.keep()
	}
	return nil
}

// copies measures copies of several sizes, alone and beside kernels on all SMs. Large copies also run on two streams at
// the same time, beside these kernels.
func (b *bench) copies(ctx context.Context) error {
	return b.with(ctx, cuda.Config{}, 1, func(r *rig) error {
		sizes := []int{1 << 12, 1 << 16, 1 << 20, 1 << 24}
		take := func(bytes int, how string, copies func(n int) (cuda.Copied, error)) error {
			for runs, enough := 0, b.enough(2*len(sizes)+1); !enough(runs); {
				if err := ctx.Err(); err != nil {
					return err
				}
				c, err := copies(min(few, b.N-runs))
				runs += len(c.Up)
				b.add(Copies, fmt.Sprintf("%d up %s", bytes, how), "ns", c.Up...)
				b.add(Copies, fmt.Sprintf("%d down %s", bytes, how), "ns", c.Down...)
				b.keep()
				if err != nil {
					return err
				}
			}
			return nil
		}
		for _, bytes := range sizes {
			for _, how := range []string{"alone", "beside"} {
				if err := take(bytes, how, func(n int) (cuda.Copied, error) { return r.d.Copies(bytes, n, how == "beside") }); err != nil {
					return err
				}
			}
		}
		const large = 1 << 24
		return take(large, "two beside", func(n int) (cuda.Copied, error) { return r.d.TwoCopies(large, n) })
	})
}

// pair returns a best-effort network, which runs all the time, and a priority network.
func (b *bench) pair() (be, rt *bundle.Bundle) { return b.Networks[0], b.Networks[len(b.Networks)-1] }

// long is the minimum time of a best-effort launch that runs alone. With such launches, a launch that arrives at a
// random time nearly always finds a kernel on the GPU. The kernels have blocks for all SMs.
const long = 2 * time.Millisecond

// fill returns the smallest batch at which a launch of a best-effort network takes at least 2 ms (long). The batch is a
// power of two and at most 32.
func (b *bench) fill(ctx context.Context, be *bundle.Bundle) (batch int, err error) {
	err = b.with(ctx, cuda.Config{}, cuda.MaxBatch, func(r *rig) error {
		for batch = 1; ; batch *= 2 {
			var took int64
			for range 3 { // the first launches create the stream and raise the clocks
				if took, err = r.took(ctx, r.work(be, 0, batch, 0, device.Units{})); err != nil {
					return err
				}
			}
			if took >= long.Nanoseconds() || batch == cuda.MaxBatch {
				return nil
			}
		}
	})
	return batch, err
}

// alone returns the times of a few launches of a network on the idle GPU, in ns.
func (r *rig) alone(ctx context.Context, net *bundle.Bundle, batch int) (all []int64, err error) {
	for i := range min(few, r.N) + 1 {
		took, err := r.took(ctx, r.work(net, 0, batch, 0, device.Units{}))
		if err != nil {
			return all, err
		}
		if i > 0 { // the first launch creates the stream
			all = append(all, took)
		}
	}
	return all, nil
}

// behind runs launches of a best-effort network in a loop while f runs, and returns their end times.
func (r *rig) behind(ctx context.Context, net *bundle.Bundle, batch int, f func() error) (ended []time.Time, err error) {
	ctx, stop := context.WithCancel(ctx)
	over, began := make(chan error, 1), make(chan struct{})
	var once sync.Once
	go func() {
		for {
			if _, err := r.do(context.WithoutCancel(ctx), r.work(net, 0, batch, 0, device.Units{}), func() { once.Do(func() { close(began) }) }); err != nil {
				once.Do(func() { close(began) })
				over <- err
				return
			}
			ended = append(ended, time.Now())
			if ctx.Err() != nil {
				over <- nil
				return
			}
		}
	}()
	<-began
	err = f()
	stop()
	if e := <-over; err == nil {
		err = e
	}
	return ended, err
}

// fruitless is the number of consecutive attempts without a result after which a loop ends. An attempt has no result if
// an arriving launch finds no other launch, or if a kill is too late.
const fruitless = 200

// slowdown runs two networks together, then four, and predicts the time of each launch with two models. Strait's model
// learns from every launch that ends. The static model always predicts the time that the launch takes alone.
func (b *bench) slowdown(ctx context.Context) error {
	return b.with(ctx, cuda.Config{}, 4, func(r *rig) error {
		alone, use := map[string]int64{}, map[string]predict.Use{}
		for _, net := range b.Networks {
			name := net.Network.Name
			var runs []float64
			for i, enough := 0, b.enough(2+len(b.Networks)); !enough(len(runs)); i++ {
				took, err := r.took(ctx, r.work(net, 0, 1, 0, device.Units{}))
				if err != nil {
					return err
				}
				if i > 0 { // the first launch creates the stream
					runs = append(runs, float64(took))
				}
			}
			alone[name] = int64(row("", "", "", runs).Median)
			u, err := uses(net, b.Params)
			if err != nil {
				return err
			}
			use[name] = u
		}
		for _, together := range []int{2, 4} {
			model := predict.NewModel()
			for k, enough := 0, b.enough(2+len(b.Networks)); !enough(k); k++ {
				type one struct {
					net  *bundle.Bundle
					took int64
					err  error
				}
				all := make([]one, together)
				var others predict.Use
				for i := range all {
					all[i].net = b.Networks[b.rng.IntN(len(b.Networks))]
					others = others.Plus(use[all[i].net.Network.Name])
				}
				var wait sync.WaitGroup
				for i := range all {
					wait.Go(func() {
						w := r.work(all[i].net, i, 1, 0, device.Units{}) // each launch has its own slot
						all[i].took, all[i].err = r.took(ctx, w)
					})
				}
				wait.Wait()
				for i := range all {
					if all[i].err != nil {
						return all[i].err
					}
					name := all[i].net.Network.Name
					beside, took := others.Minus(use[name]), all[i].took
					expected := float64(alone[name]) * model.Interference(beside, use[name], 0)
					model.Update(beside, use[name], 0, float64(took)/float64(alone[name]))
					b.run(fmt.Sprintf("together=%d", together), took, int64(expected), alone[name])
				}
			}
		}
		return nil
	})
}

// run stores the times of one of several concurrent launches: measured, predicted by Strait's model, and alone.
func (b *bench) run(key string, took, learnt, alone int64) {
	b.add(Slowdown, key+" took", "ns", took)
	b.add(Slowdown, key+" learnt", "ns", learnt)
	b.add(Slowdown, key+" static", "ns", alone)
	b.keep()
}

// uses returns a network's use of the GPU's resources, estimated from its kernels.
func uses(net *bundle.Bundle, p *sim.Params) (u predict.Use, err error) {
	prog, err := cuda.Program(net, 1, p)
	if err != nil {
		return u, err
	}
	total := 0.0
	for i := range prog.Kernels {
		k := &prog.Kernels[i]
		ns := float64(gpu.Profile(k, p).KernelNs)
		total += ns
		u[predict.DRAM] += float64(k.Bytes) / p.Bandwidth
		u[predict.FMA] += k.BlockNs * float64(k.Blocks) / float64(p.SMs)
		u[predict.Threads] += float64(k.Blocks*k.Threads) * k.BlockNs / float64(p.SMs*p.SM.Threads)
	}
	for i := range u {
		u[i] = min(1, u[i]/max(1, total))
	}
	return u, nil
}
