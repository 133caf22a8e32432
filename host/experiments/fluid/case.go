// This file defines one run of a bench (a setting, a policy and a seed) and the run's metrics.

package fluid

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/sched"

	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// drawnTheta is a threshold between the two confidences of drawn exits.
const drawnTheta = 0.5

// Bounds of a case.
const (
	maxRequests = 2_000_000
	maxClients  = 10_000
)

// Setting is a network on a board with a rate and an SLO. In a published setting, all fields after SLO are zero.
type Setting struct {
	Network string
	Board   string
	Rate    float64 // requests per second
	SLO     int64   // ns

	Bandwidth float64 // DRAM bandwidth in GB/s; 0: ServingBandwidth of the board
	Arrivals  string  // load.ParseProcess, closed:N (clients without think time), trace:NAME; empty: poisson
	Exits     string  // a name of exitRates; empty: the published rates
	BMax      int     // largest batch; 0: the hardware's largest batch
}

// String returns the setting's name in rows, such as inceptionv3/zcu104/40/200ms, followed by the differences from the
// publication.
func (s Setting) String() string {
	out := fmt.Sprintf("%s/%s/%s/%s", s.Network, s.Board, strconv.FormatFloat(s.Rate, 'g', -1, 64), time.Duration(s.SLO))
	if s.Bandwidth != 0 {
		out += fmt.Sprintf("/%gGBps", s.Bandwidth)
	}
	if s.Arrivals != "" {
		out += "/" + s.Arrivals
	}
	if s.Exits != "" {
		out += "/exits=" + s.Exits
	}
	if s.BMax != 0 {
		out += fmt.Sprintf("/bmax=%d", s.BMax)
	}
	return out
}

// Bandwidths are effective DRAM bandwidths in GB/s, by purpose and board. The publication does not state them.
func Bandwidths() map[string]map[string]float64 {
	return map[string]map[string]float64{
		"serving":    {"zc706": 2.2, "zcu104": 5.2},
		"nominal":    {"zc706": 2.3, "zcu104": 6.0},
		"throughput": {"zc706": 4.2, "zcu104": 6.0},
	}
}

// ServingBandwidth returns a board's fitted bandwidth. It was fitted to fluid's two published averages (table II), with
// an earlier version of the cycle formulas. So our values for these averages are a fit, and all others are predictions.
func ServingBandwidth(board string) float64 { return Bandwidths()["serving"][board] }

// NominalBandwidth returns the bandwidth of the hardware configurations.
func NominalBandwidth(board string) float64 { return Bandwidths()["nominal"][board] }

// ThroughputBandwidth returns a bandwidth for throughput benches. The value for the ZC706 was fitted to the shape of
// its published throughput (figures 1b, 10).
func ThroughputBandwidth(board string) float64 { return Bandwidths()["throughput"][board] }

// rates are the shares of requests that leave at each exit.
var (
	publishedRates = map[string][]float64{
		"resnet50":    {0.051, 0.169, 0.090, 0.690},
		"inceptionv3": {0.145, 0.186, 0.222, 0.447},
	}
	exitRates = map[string][]float64{
		"none":    {0, 0, 0, 1},
		"late":    {0.02, 0.08, 0.10, 0.80},
		"uniform": {0.25, 0.25, 0.25, 0.25},
		"early":   {0.50, 0.25, 0.15, 0.10},
	}
)

// ExitRates returns a setting's exit rates for a model, or nil if images determine the exits.
func (s Setting) ExitRates(m *Model) ([]float64, error) {
	if len(m.Images) > 0 && s.Exits == "" {
		return nil, nil
	}
	rates, ok := exitRates[s.Exits]
	if s.Exits == "" {
		if rates, ok = publishedRates[s.Network], true; rates == nil {
			rates = make([]float64, m.exits())
			rates[len(rates)-1] = 1
		}
	}
	if !ok {
		return nil, fmt.Errorf("%w: there are none with the name %q", sched.ErrRates, s.Exits)
	}
	return rates, drawn.CheckRates(rates, m.exits())
}

// Case is one run.
type Case struct {
	Setting Setting
	Policy  string
	Mapping string // mapping of batches; empty: the mapping with which the policy is published
	Seed    uint64
	N       int // number of requests
}

// Metrics is the result of a run. Times are in ns. Shares are in 0..1.
type Metrics struct {
	Requests    int     `json:"requests"`
	Avg         float64 `json:"avg_ns"`
	P50         float64 `json:"p50_ns"`
	P99         float64 `json:"p99_ns"`
	Violations  float64 `json:"violation_rate"`
	Goodput     float64 `json:"goodput"`    // results in time per second
	Rate        float64 `json:"rate"`       // results per second, including late results
	Busy        float64 `json:"busy"`       // share of the time in which the device ran a segment
	MACUtil     float64 `json:"mac_util"`   // executed MACs, divided by the array's peak MACs in the busy time
	Throughput  float64 `json:"peak_share"` // executed MACs, divided by the array's peak MACs in the whole time: busy * mac_util
	Calls       float64 `json:"calls"`      // policy calls per request
	MeanBatch   float64 `json:"mean_batch"`
	Preemptions float64 `json:"preemptions"` // per request
	Dropped     float64 `json:"dropped_rate"`
	Refused     float64 `json:"refused_rate"`
	Exits       []int   `json:"exits"`

	Accuracy *float64 `json:"accuracy,omitempty"` // nil if exits are drawn

	LoadGen report.LoadGen `json:"loadgen"` // MLPerf's verdict on this run
}

// numbers contains all metrics, in the order of rows.
var numbers = append(frame.Fields[Metrics](), frame.Metric[*Metrics]{Name: "loadgen_valid", Of: func(m *Metrics) float64 { return frame.Truth(m.LoadGen.Valid) }})

// key identifies the model of the case.
func (c *Case) key() (ModelKey, error) {
	k := ModelKey{Network: c.Setting.Network, Board: c.Setting.Board, Mapping: c.Mapping, Bandwidth: c.Setting.Bandwidth, Layerwise: PolicyLayerwise(c.Policy)}
	if k.Bandwidth == 0 {
		k.Bandwidth = ServingBandwidth(k.Board)
	}
	if k.Mapping == "" {
		if _, err := sched.New(c.Policy, sched.Options{}); err != nil {
			return k, err
		}
		k.Mapping = sched.MappingOf(c.Policy)
	}
	return k, nil
}

// source returns the case's load. A trace is scaled to the setting's rate and cut after N arrivals.
func (c *Case) source(network string, theta float32, traces map[string][]int64) (sched.Source, error) {
	task := func(at int64) sched.Task {
		return sched.Task{Network: network, Created: at, Deadline: at + c.Setting.SLO, Theta: theta, Samples: 1}
	}
	if clients, ok := strings.CutPrefix(c.Setting.Arrivals, "closed:"); ok {
		n, err := strconv.Atoi(clients)
		if err != nil || n < 1 || n > maxClients {
			return nil, fmt.Errorf("%w: %q: expected closed: and 1..%d clients", load.ErrLoad, c.Setting.Arrivals, maxClients)
		}
		return &load.Closed{Clients: n, Tasks: c.N, Task: func(_, _ int, at int64) sched.Task { return task(at) }}, nil
	}
	times, err := c.times(traces)
	if err != nil {
		return nil, err
	}
	return &load.Open{Times: times, Task: func(_ int, at int64) sched.Task { return task(at) }}, nil
}

// times returns the arrival times of an open load, in ns.
func (c *Case) times(traces map[string][]int64) ([]int64, error) {
	if name, ok := strings.CutPrefix(c.Setting.Arrivals, "trace:"); ok {
		t, ok := traces[name]
		if !ok {
			return nil, fmt.Errorf("%w: there is no trace %q", load.ErrLoad, name)
		}
		return load.Rescale(t[:min(len(t), c.N)], c.Setting.Rate)
	}
	p := load.Process{Kind: load.KindPoisson}
	if c.Setting.Arrivals != "" {
		var err error
		if p, err = load.ParseProcess(c.Setting.Arrivals); err != nil {
			return nil, err
		}
	}
	return p.Times(c.Setting.Rate, c.N, c.Seed)
}

// Run serves the case on a model, in virtual time. traces contains the arrival times of each trace, by name.
func (c *Case) Run(ctx context.Context, m *Model, traces map[string][]int64) (*Metrics, error) {
	fail := func(err error) (*Metrics, error) {
		return nil, fmt.Errorf("%s of %s, seed %d: %w", c.Policy, c.Setting, c.Seed, err)
	}
	if err := m.check(); err != nil {
		return fail(err)
	}
	if err := load.CheckSLO(c.Setting.SLO); err != nil {
		return fail(err)
	}
	if c.N < 1 || c.N > maxRequests {
		return fail(fmt.Errorf("%w: %d requests, expected 1..%d", experiments.ErrSetup, c.N, maxRequests))
	}
	if b := m.Table.MaxBatch(); c.Setting.BMax > b { // otherwise the row's name would contain a batch that did not run
		return fail(fmt.Errorf("%w: a largest batch of %d, the latency table ends at %d", experiments.ErrSetup, c.Setting.BMax, b))
	}
	rates, err := c.Setting.ExitRates(m)
	if err != nil {
		return fail(err)
	}
	var exits []uint8
	theta := m.Theta
	if rates != nil {
		exits = drawn.Exits(rates, c.N, c.Seed)
		theta = drawnTheta
	}
	options := sched.Options{BMax: c.Setting.BMax}
	if changesTheta(c.Policy) && exits == nil {
		options.Levels, options.Loss = Levels(m.Calibration, theta), thetaLoss
	}
	policy, err := sched.New(c.Policy, options)
	if err != nil {
		return fail(err)
	}
	network := m.Key.Network
	source, err := c.source(network, theta, traces)
	if err != nil {
		return fail(err)
	}
	dev := drawn.NewKnown(m.Table, drawn.Known{
		Requests: c.N, Show: m.shows(exits), MACs: m.MACs, Slots: 64 * m.Table.MaxBatch(),
	})
	res, err := engine.Run(ctx, engine.Config{
		Devices:  []device.Device{dev},
		Networks: []engine.Network{{Name: network, Tables: []*sched.Table{m.Table}}},
		Policy:   policy,
		Source:   source,
		Inputs:   engine.NoInputs,
		Clock:    engine.Table,
		Keep:     engine.Records,
	})
	if err != nil {
		return fail(err)
	}
	if err := res.Check(); err != nil {
		return fail(fmt.Errorf("the books are wrong: %w", err))
	}
	out := measure(res, m, c.Setting.SLO)
	if exits == nil {
		out.Accuracy = accuracy(res, m)
	}
	return out, nil
}

// measure computes the metrics of a result.
func measure(res *engine.Result, m *Model, slo int64) *Metrics {
	s := res.Summary()
	n := float64(max(1, s.Requests))
	out := &Metrics{
		Requests: int(s.Requests), Avg: float64(s.Latency.Avg), P50: float64(s.Latency.P50), P99: float64(s.Latency.P99),
		Violations: float64(s.Violations) / n, Goodput: s.Goodput, Busy: s.Busy, Calls: float64(s.Calls) / n,
		MeanBatch: s.MeanBatch, Preemptions: float64(s.Preemptions) / n,
		Dropped: float64(s.Dropped) / n, Refused: float64(s.Refused) / n, Exits: make([]int, m.exits()),
	}
	for seg, left := range s.Exits {
		if e := m.exit(seg); e >= 0 {
			out.Exits[e] += int(left)
		}
	}
	if res.End > 0 {
		out.Rate = float64(s.OnTime+s.Late) / (float64(res.End) / 1e9)
	}
	var busy int64
	for _, b := range res.Busy {
		busy += b
	}
	if busy > 0 {
		out.MACUtil = float64(res.Stats.MACs) / (m.PeakMACs * float64(busy) / 1e9)
	}
	out.Throughput = out.Busy * out.MACUtil
	out.LoadGen = report.Server(report.ServerRules{Target: slo}, res.Latencies(), int(s.Requests), res.End)
	return out
}

// accuracy returns the share of correct classes among the requests with a result.
func accuracy(res *engine.Result, m *Model) *float64 {
	right, n := 0, 0
	for i := range res.Records {
		if r := &res.Records[i]; r.Exit >= 0 {
			n++
			if m.Images[int(r.ID-1)%len(m.Images)].Right[m.exit(r.Exit)] {
				right++
			}
		}
	}
	share := float64(right) / float64(max(1, n))
	return &share
}

// known reports whether the registry has a policy with this name.
func known(policy string) bool {
	_, err := sched.New(policy, sched.Options{})
	return !errors.Is(err, sched.ErrUnknownPolicy)
}
