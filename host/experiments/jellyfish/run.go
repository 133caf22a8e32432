// A run executes one setting with one of the compared systems.

package jellyfish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/sched"
)

// ErrSetup is the error of an experiment that cannot be run.
var ErrSetup = errors.New("edge experiment")

// Camera is a client of a setting.
type Camera struct {
	jellyfish.Registered
	Start int64 // earliest time of its first frame
	Name  string
	// Trace is the client's own link, from the first second of the trace. nil: the client uses the setting's link, from
	// a random second.
	Trace *links.Trace
}

// Setting describes the clients, their links, and the workers.
type Setting struct {
	Zoo     jellyfish.Zoo
	Workers int
	Clients []Camera
	Trace   *links.Trace
	Ns      int64 // virtual time
	Seed    uint64

	// Board, if set, returns worker k with all networks loaded. Tables contains the latency tables by network.
	Board  func(k int) (device.Device, error)
	Tables []*sched.Table
}

// Assumed are the parameters that the publication does not state.
type Assumed struct {
	// a frame that is smaller than its network loses this share of the accuracy difference between both sizes
	Upscale float64 `json:"upscale"`
	Jitter  float64 `json:"jitter"`     // standard deviation of the logarithm of frames' bytes
	Spread  float64 `json:"spread"`     // standard deviation of the logarithm of a batch's time; its p99 is the value in the zoo
	LoadNs  float64 `json:"load_ns"`    // time to load a network onto a worker (publication: 150 to 200 ms)
	CostNs  float64 `json:"decides_ns"` // time of a decision
	Slower  float64 `json:"slower"`     // factor on the zoo's times for the GPUs of the large set-up
	// Memory is the correlation between the rates of a random link in successive seconds. Headroom is the share of the
	// link that a client plans to use.
	Memory   float64 `json:"memory"`
	Headroom float64 `json:"headroom"`
}

// Assume returns the default values.
func Assume() Assumed {
	return Assumed{Upscale: 0.5, Jitter: 0.05, Spread: 0.1, LoadNs: 175e6, CostNs: 10e6, Slower: 1.25, Memory: links.Memory, Headroom: jellyfish.Headroom}
}

// AssumedNames returns the names of the parameters.
func AssumedNames() []string {
	return []string{"upscale", "jitter", "spread", "load_ns", "decides_ns", "slower", "memory", "headroom"}
}

// limits contains the largest allowed values: 1 for parameters that are shares, and 0.98 for memory. With memory 0.98,
// the correlation falls to half in 34 s. With memory 1, the rate would never change.
var limits = map[string]float64{"upscale": 1, "headroom": 1, "memory": 0.98}

// Times returns a copy in which the parameter "name" is multiplied by a factor, up to its limit.
func (a Assumed) Times(name string, by float64) Assumed {
	x := []*float64{&a.Upscale, &a.Jitter, &a.Spread, &a.LoadNs, &a.CostNs, &a.Slower, &a.Memory, &a.Headroom}[slices.Index(AssumedNames(), name)]
	*x *= by
	if most := limits[name]; most > 0 {
		*x = min(most, *x)
	}
	return a
}

// Outcome is the result of a run. A frame is in time if it meets the client's SLO.
type Outcome struct {
	Frames   int
	OnTime   int
	Miss     float64 `json:"miss_rate"` // share of frames without a result in time
	Accuracy float64 `json:"accuracy"`  // mean over the frames in time
	Aligned  float64 `json:"aligned"`   // share of the frames in time with the input size of the network that answered
	Busy     float64 `json:"busy"`      // share of the time in which workers were busy
	P50, P99 int64   // time in ns from creation to result, over the frames in time
	HitRate  float64 // share of network changes for which the network was already loaded; 0: no changes
	Counts   jellyfish.Counts
	Summary  engine.Summary // the engine's summary, with latencies from the arrival of a frame
	Clients  []ClientOutcome
}

// ClientOutcome is the result of one client.
type ClientOutcome struct {
	Frames   int
	OnTime   int
	Accuracy float64 // mean over the frames in time
	P50, P99 int64   // time in ns from creation to result, over the frames in time; -1: no frame in time
	Link     float64 // bits/s: harmonic mean of the rates reported with its frames
}

// System is a way to serve the clients.
type System struct {
	Name     string
	Select   jellyfish.Selector // selects the networks, if not Fixed
	Budget   jellyfish.Budget   // nil: the budget of aligned frames, with the assumed headroom
	Sizing   Sizing
	Prefetch int
	Static   int // if Fixed: the network of every worker, under Clockwork's EDF
	Fixed    bool
	// Inside, if set, returns each worker's policy. This policy replaces Jellyfish's inner policy or Clockwork.
	Inside func() sched.Policy
}

// middle returns the index of a zoo's middle network (352 pixels in the synthetic zoo), for systems without adaptation.
func middle(networks int) int { return (networks - 1) / 2 }

// Systems returns the compared systems for the synthetic zoo.
func Systems() []System { return SystemsOf(jellyfish.Synthetic(1)) }

// SystemsOf returns the compared systems for another zoo.
func SystemsOf(zoo jellyfish.Zoo) []System {
	all, middle := len(zoo)-1, middle(len(zoo))
	out := []System{
		{Name: "jellyfish", Select: jellyfish.Annealing{}, Sizing: Sizing{Advised: true}},
		{Name: "jellyfish+", Select: jellyfish.Search{}, Sizing: Sizing{Advised: true}},
	}
	for _, b := range []struct {
		name string
		net  int
	}{{"b-l", 0}, {"b-m", middle}, {"b-h", all}} {
		out = append(out, System{Name: b.name, Fixed: true, Static: b.net, Sizing: Sizing{Most: b.net}})
	}
	out = append(out, System{Name: "da-off", Select: jellyfish.Annealing{}, Budget: jellyfish.Fixed(middle), Sizing: Sizing{Most: middle, Fixed: true}})
	for _, share := range []float64{0.5, 0.75} {
		percent := int(100 * share)
		out = append(out,
			System{Name: fmt.Sprintf("da-bw-%d", percent), Select: jellyfish.Annealing{}, Budget: jellyfish.Share(share), Sizing: Sizing{Most: all}},
			System{Name: fmt.Sprintf("da-slo-%d", percent), Select: jellyfish.Annealing{}, Budget: jellyfish.Share(share), Sizing: Sizing{Most: all, Network: 1 - share}},
		)
	}
	return out
}

// Named returns a system by its name, on the synthetic zoo.
func Named(name string) (System, error) { return NamedOf(jellyfish.Synthetic(1), name) }

// NamedOf returns a system by its name, on a zoo.
func NamedOf(zoo jellyfish.Zoo, name string) (System, error) {
	var names []string
	for _, s := range SystemsOf(zoo) {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return System{}, fmt.Errorf("%w: there is no system %q; there are %s", ErrSetup, name, strings.Join(names, ", "))
}

// Cameras returns n clients; the function r returns their rates and SLOs. They start one after another, at random
// intervals of 1 to 10 s. In short runs, all clients start within the first quarter.
func Cameras(n int, r func(i int) jellyfish.Registered, ns int64, seed uint64) []Camera {
	rng := rand.New(rand.NewPCG(seed, 0x7374617274))
	at, out := 0.0, []Camera(nil)
	for i := range n {
		out = append(out, Camera{Registered: r(i)})
		if i > 0 {
			at += 1 + 9*rng.Float64()
		}
		out[i].Start = int64(at * 1e9)
	}
	if limit := float64(ns) / 4; at*1e9 > limit {
		for i := range out {
			out[i].Start = int64(float64(out[i].Start) * limit / (at * 1e9))
		}
	}
	return out
}

// Run serves a setting's clients with a system.
func Run(ctx context.Context, set *Setting, sys System, a Assumed) (*Outcome, error) {
	unlinked := set.Trace == nil && slices.ContainsFunc(set.Clients, func(c Camera) bool { return c.Trace == nil })
	if len(set.Clients) == 0 || set.Workers < 1 || set.Ns < 1 || unlinked || sys.Static >= len(set.Zoo) {
		return nil, fmt.Errorf("%w: %d clients, %d workers, %d ns, network %d of %d", ErrSetup, len(set.Clients), set.Workers, set.Ns, sys.Static, len(set.Zoo))
	}
	sizing := sys.Sizing
	sizing.Most = min(sizing.Most, len(set.Zoo)-1)
	src := newCameras(set.Zoo, sizing, a.Jitter, a.Headroom, set.Clients, set.Trace, set.Ns, set.Seed)
	seen := &seen{src: src, zoo: set.Zoo, upscale: a.Upscale, clients: make([]clientSeen, len(set.Clients))}
	cfg, policy, err := configure(set, sys, sizing.Advised, a)
	if err != nil {
		return nil, err
	}
	cfg.Source, cfg.Observer = src, seen
	res, err := engine.Run(ctx, cfg)
	if err != nil {
		over := "links of their own"
		if set.Trace != nil {
			over = set.Trace.Name
		}
		return nil, fmt.Errorf("%d clients over %s under %s: %w", len(set.Clients), over, sys.Name, err)
	}
	return seen.outcome(res, policy), nil
}

// configure creates the workers, the networks and the policy. The returned policy is nil for fixed systems.
func configure(set *Setting, sys System, advised bool, a Assumed) (cfg engine.Config, policy *jellyfish.Policy, err error) {
	cfg = engine.Config{Inputs: engine.NoInputs, Clock: engine.Measured, Keep: engine.Counts, Watchdog: engine.Watchdog{Fixed: 1 << 50}}
	for k := range set.Workers {
		var d device.Device = NewWorker(fmt.Sprintf("worker%d", k), set.Zoo, a.Spread, set.Seed<<8+uint64(k))
		if set.Board != nil {
			if d, err = set.Board(k); err != nil {
				return cfg, nil, err
			}
		}
		cfg.Devices = append(cfg.Devices, d)
	}
	if cfg.Networks, err = networks(set, sys.Static, sys.Fixed, int64(a.LoadNs)); err != nil {
		return cfg, nil, err
	}
	if sys.Fixed {
		cfg.Policy = &sched.Clockwork{}
		if sys.Inside != nil {
			cfg.Policy = sys.Inside()
		}
	} else {
		o := jellyfish.Options{
			Zoo: set.Zoo, Select: sys.Select, Budget: sys.Budget, Advise: advised, Prefetch: sys.Prefetch, Cost: int64(a.CostNs), Seed: set.Seed,
		}
		if o.Budget == nil {
			o.Budget = jellyfish.Planned(a.Headroom)
		}
		for _, c := range set.Clients {
			o.Clients = append(o.Clients, c.Registered)
		}
		nested, p, err := jellyfish.New(o, set.Workers)
		if err != nil {
			return cfg, nil, err
		}
		for k := range nested.Inner {
			if sys.Inside != nil {
				nested.Inner[k] = sys.Inside()
			}
		}
		cfg.Policy, policy = nested, p
	}
	return cfg, policy, nil
}

// networks returns the zoo's networks for the engine. The smallest network is loaded at the start. If fixed is set,
// networks returns a single network: the argument "only" is its index. This network is loaded at the start.
func networks(set *Setting, only int, fixed bool, load int64) (out []engine.Network, err error) {
	for j := range set.Zoo {
		if fixed && j != only {
			continue
		}
		t, err := table(&set.Zoo[j])
		if err != nil {
			return nil, err
		}
		if set.Tables != nil {
			t = set.Tables[j]
		}
		n := engine.Network{Name: set.Zoo[j].Name, Family: family, Cold: !fixed && j > 0}
		for range set.Workers {
			n.Tables, n.Load = append(n.Tables, t), append(n.Load, load)
		}
		out = append(out, n)
	}
	return out, nil
}

// seen counts the results of frames.
type seen struct {
	engine.NopObserver
	src     *cameras
	zoo     jellyfish.Zoo
	upscale float64
	n, good int
	aligned int
	sum     float64
	hist    engine.Histogram
	clients []clientSeen
}

// clientSeen counts the results of one client's frames.
type clientSeen struct {
	n, good, timed int
	sum, inverse   float64 // sum of accuracies; sum of 1 / rate over the timed transfers
	hist           engine.Histogram
}

// Ended implements engine.Observer.
func (s *seen) Ended(r *engine.Record, _ *device.ExitResult) {
	s.n++
	f := &s.src.frames[r.Task-1]
	by := &s.clients[f.client]
	by.n++
	if r.Ending != engine.OnTime {
		return
	}
	s.good++
	by.good++
	acc := s.zoo[r.Class].Accuracy
	// compares sides, not indices, because several networks can have the same side
	switch sent, takes := s.zoo[f.size].Side, s.zoo[r.Class].Side; {
	case sent == takes:
		s.aligned++
	case sent < takes: // the frame was upscaled
		acc -= s.upscale * (acc - s.zoo[f.size].Accuracy)
	}
	s.sum += acc
	by.sum += acc
	took := r.Ended - (r.Deadline - s.src.all[f.client].SLO)
	s.hist.Add(took)
	by.hist.Add(took)
}

// TaskEnded implements engine.Observer.
func (s *seen) TaskEnded(_ int64, t *sched.Task, _ engine.Ending) {
	if t.Link > 0 {
		by := &s.clients[t.Client]
		by.timed++
		by.inverse += 1 / t.Link
	}
}

func (s *seen) outcome(res *engine.Result, p *jellyfish.Policy) *Outcome {
	o := &Outcome{Frames: s.n, OnTime: s.good, P50: s.hist.Quantile(0.5), P99: s.hist.Quantile(0.99), Summary: res.Summary()}
	for i := range s.clients {
		c := &s.clients[i]
		by := ClientOutcome{Frames: c.n, OnTime: c.good, P50: c.hist.Quantile(0.5), P99: c.hist.Quantile(0.99)}
		if c.good > 0 {
			by.Accuracy = c.sum / float64(c.good)
		}
		if c.timed > 0 {
			by.Link = float64(c.timed) / c.inverse
		}
		o.Clients = append(o.Clients, by)
	}
	if s.n > 0 {
		o.Miss = 1 - float64(s.good)/float64(s.n)
	}
	if s.good > 0 {
		o.Accuracy, o.Aligned = s.sum/float64(s.good), float64(s.aligned)/float64(s.good)
	}
	busy := int64(0)
	for _, b := range res.Busy {
		busy += b
	}
	if res.End > 0 {
		o.Busy = float64(busy) / float64(res.End) / float64(len(res.Busy))
	}
	if p != nil {
		o.Counts = p.Counts()
		if o.Counts.Changes > 0 {
			o.HitRate = float64(o.Counts.Hits) / float64(o.Counts.Changes)
		}
	}
	return o
}
