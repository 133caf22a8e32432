// Package reef runs REEF's benchmark DISB on GPUs, under the launching modes of package gpu. A simulated GPU runs in
// virtual time. It uses files of package params and synthetic programs of package catalogue.
package reef

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// Client sends requests for one network.
type Client struct {
	Network string
	// Share is the rate of a real-time client, divided by the network's throughput alone. If Share, Times and Every are
	// unset, the client is a closed loop, which sends a request when the previous request has ended.
	Share   float64
	Poisson bool // random (Poisson) arrivals; otherwise at equal intervals

	Name       string
	Times      []int64 // arrival times in ns, in place of Share
	Every      int64   // mean time between requests in ns, with a random variation of up to 10 %; 0: Share is used
	BestEffort bool    // best effort, although the client is not a closed loop
	Urgent     bool    // real time, although the client is a closed loop
	Deadline   int64   // deadline of a real-time request, in ns from its arrival; 0: the bed's default
}

// closed reports whether the client is a closed loop: it sends a request when the previous request has ended.
func (c *Client) closed() bool { return c.Share == 0 && c.Every == 0 && c.Times == nil }

// RealTime reports whether the client's requests have priority.
func (c *Client) RealTime() bool { return (c.Urgent || !c.closed()) && !c.BestEffort }

// Workload is a set of clients.
type Workload struct {
	Name    string
	Clients []Client
}

// five returns the names of REEF's five networks (table 1).
func five() []string { return []string{"resnet152", "vgg19", "yolov3", "bert-base", "gpt2"} }

// DISB returns the workloads of table 2.
func DISB() []Workload {
	var be []Client
	for _, n := range five() {
		be = append(be, Client{Network: n})
	}
	each := func(poisson bool) (out []Client) {
		for _, n := range five() {
			out = append(out, Client{Network: n, Share: 0.1, Poisson: poisson})
		}
		return append(out, be...)
	}
	return []Workload{
		{"A", []Client{{Network: "vgg19", Share: 0.5}, {Network: "resnet152"}}},
		{"B", []Client{{Network: "vgg19", Urgent: true}, {Network: "resnet152"}}}, // closed loop at full rate, as in DISB's own file
		{"C", append([]Client{{Network: "vgg19", Share: 0.5}}, be...)},
		{"D", each(false)},
		{"E", each(true)},
	}
}

// Drive returns a workload that replaces REEF's trace of an autonomous car (figures 15 and 16) if the user provides no
// trace. It contains five cameras and sensors, and the best-effort clients of DISB C. The cameras and sensors send at
// the mean intervals of DISB's published trace, with a variation of up to 10 %.
func Drive() Workload {
	var all []Client
	for _, c := range []struct {
		network string
		ms      int64
	}{{"resnet152", 101}, {"densenet201", 188}, {"vgg19", 68}, {"inceptionv3", 102}, {"distilbert", 220}} {
		all = append(all, Client{Network: c.network, Every: c.ms * 1e6})
	}
	for _, n := range five() {
		all = append(all, Client{Network: n})
	}
	return Workload{"drive", all}
}

// Systems returns the names of the compared systems. Each is a policy with a launching mode.
func Systems() []string {
	return []string{"rt-only", "seq", "streams", "priority", "wait", "drain", "xsched1", "orion", "reset", "reef-dkp", "reef"}
}

// Outcome is the result of one run. Latencies are multiples of the network's time alone. A client's throughput is its
// requests per second, multiplied by this time. The throughputs are sums over clients. A request in flight at the end
// counts as its finished share. Otherwise short runs would favour short requests.
type Outcome struct {
	RT                       float64 `json:"rt_latency"`
	RTP99                    float64 `json:"rt_p99"`
	Throughput               float64 `json:"throughput"`
	RTThroughput, PreemptP99 float64
	Preempt                  float64 `json:"preempt_us"` // mean time in us until best-effort work has left the device; 0: no preemption
	Host                     float64 // mean time in us: the part of Preempt until the host queues are empty
	BestEffort               float64 `json:"best_effort"` // throughput of best-effort clients
	Usage                    float64 `json:"usage"`       // mean share of SMs that run a block
	Preemptions              int
	Padded                   float64 // share of all kernels that ran beside a real-time kernel
	Again                    float64 // share of all kernels that were run again after a kill
	Redone                   float64 // mean time in us of repeated work after a kill; 0: no kill
	NotSlowed                float64 `json:"not_slowed"` // share of real-time kernels no slower than alone; 0: the mode does not pad
	Below9us                 float64 `json:"below_9us"`  // share of real-time kernels less than 9 us slower than alone
	Clients                  []ClientOutcome
	Served                   []Client  // clients in the order of Clients
	Seen                     []float64 // latencies of real-time requests as multiples of the time alone, ascending
	Gone                     []float64 // by preemption: its time in us
	Pauses                   []int64   // pauses of a real GPU's launcher (Report.Pauses)
}

// ClientOutcome is one client's part of an Outcome.
type ClientOutcome struct {
	Requests, Ended int     // number of sent requests; number of requests that were answered before the workload's end
	Throughput      float64 // share of the client's throughput alone
	Latency         engine.Latencies
}

// ErrWorkload is the error for a workload that cannot be served.
var ErrWorkload = errors.New("workload")

// Bed is a GPU. It stores the time of each network alone on it.
type Bed struct {
	file  *params.File
	style string
	alone map[string]int64
	nets  map[string]*gpu.Network
	own   map[string]*kernel.Program // kernels of a user's list, by network
	with  string                     // one of switches
	keep  engine.Keep
	slo   func(alone int64) int64 // deadline of real-time requests, in ns; nil: none
	real  Real                    // opens a real GPU; nil: the GPU is simulated
}

// NewBed returns a Bed. style is the framework of its kernels (catalogue.StyleOf).
func NewBed(f *params.File, style string) *Bed {
	return &Bed{file: f, style: style, alone: map[string]int64{}, nets: map[string]*gpu.Network{}, keep: engine.Counts}
}

// network returns a network with its kernels on the bed's GPU. Each network is built once.
func (b *Bed) network(name string) *gpu.Network {
	if n := b.nets[name]; n != nil {
		return n
	}
	spec := b.spec(name)
	n := &gpu.Network{
		Name: name, Program: catalogue.ByBatch(spec, b.file.Machine()),
		Versions: func(batch int) ([][]kernel.Kernel, error) {
			spec := spec
			spec.Batch = batch
			return catalogue.Versions(spec, b.file.Machine())
		},
		Exit: func(device.RequestID, int) device.ExitResult { return device.ExitResult{Confidence: 1} },
	}
	own := b.own[name]
	switch {
	case own != nil:
	case b.with == "public-kernels":
		own = public()[name]
	case b.with == "split-kernels":
		whole := n.Program
		n.Program, n.Versions = func(batch int) (*kernel.Program, error) {
			p, err := whole(batch)
			if err != nil {
				return nil, err
			}
			return split(p), nil
		}, nil
	}
	if own != nil {
		n.Program, n.Versions = func(int) (*kernel.Program, error) { return own, nil }, nil
	}
	b.nets[name] = n
	return n
}

// spec returns the catalogue's network with this name.
func (b *Bed) spec(name string) catalogue.Spec {
	s := catalogue.Spec{Network: name, Style: b.style}
	switch {
	case name == "vgg19" && b.with == "resnet50-for-vgg19":
		s.Network = "resnet50"
	case (name == "vgg19" || name == "resnet152") && b.with == "images-64":
		s.Side = 64
	}
	return s
}

// patient returns a watchdog that never fires, because a simulated GPU cannot hang.
func patient() engine.Watchdog { return engine.Watchdog{Fixed: 1 << 50} }

// Alone returns the time of a network alone on the GPU, from launch to result, in ns.
func (b *Bed) Alone(name string) (ns int64, err error) {
	if ns := b.alone[name]; ns > 0 {
		return ns, nil
	}
	b.alone[name] = 1 // placeholder until the time is measured
	defer func() {
		if ns == 0 {
			delete(b.alone, name)
		}
	}()
	tables, err := b.tables([]string{name})
	if err != nil {
		return 0, err
	}
	m, _ := gpu.ModeOf("streams")
	cfg := engine.Config{
		Networks: tables, Policy: &sched.Dispatch{}, Inputs: engine.NoInputs, Source: once(name, 1),
		Clock: engine.Measured, Keep: engine.Records, Watchdog: patient(),
	}
	var res *engine.Result
	if b.real == nil {
		_, _, res, err = b.simulate(context.Background(), m, []string{name}, 0, cfg)
	} else {
		cfg.Source = once(name, 6)
		_, res, err = b.served(context.Background(), m, []string{name}, cfg)
	}
	if err != nil {
		return 0, fmt.Errorf("%s alone: %w", name, err)
	}
	var all []int64
	for i := range res.Records {
		r := &res.Records[i]
		if r.Ending != engine.OnTime && r.Ending != engine.Late {
			return 0, fmt.Errorf("%w: %s alone came to no result: %s %s", ErrWorkload, name, r.Ending, r.Why)
		}
		if i == 0 && b.real != nil {
			continue // the first request on a real GPU is slower than later requests
		}
		all = append(all, r.Latency())
	}
	slices.Sort(all)
	b.alone[name] = engine.Quantile(all, 0.5)
	return b.alone[name], nil
}

func (b *Bed) device(mode string, networks []string) (*gpu.Device, error) {
	return gpu.Loaded(gpu.Config{
		Name: "gpu-sim:" + b.file.Name, Params: b.file.Params(), SyncNs: b.file.SyncNs(), MaxBatch: 1, Places: 64, Slots: 4096,
	}, mode, networks, func(i int) *gpu.Network { return b.network(networks[i]) })
}

// tables returns the networks with latency tables. The time of a segment is the network's time alone, multiplied by the
// segment's share of the kernels. The engine requires tables, but the compared policies do not use them, because all
// times come from the device.
func (b *Bed) tables(networks []string) (out []engine.Network, err error) {
	for _, n := range networks {
		p, err := b.network(n).Program(1)
		if err != nil {
			return nil, err
		}
		var cells []bundle.LatencyEntry
		for first := range p.Exits {
			from := -1
			if first > 0 {
				from = p.Exits[first-1]
			}
			for last := first; last < len(p.Exits); last++ {
				share := float64(p.Exits[last]-from) / float64(len(p.Kernels))
				cells = append(cells, bundle.LatencyEntry{Network: n, First: first, Last: last, Batch: 1, P50: max(1, int64(share*float64(b.alone[n])))})
			}
		}
		t, err := sched.NewTable(cells, n)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrWorkload, err)
		}
		out = append(out, engine.Network{Name: n, Tables: []*sched.Table{t}})
	}
	return out, nil
}

// Run serves a workload for the virtual time ns.
func (b *Bed) Run(ctx context.Context, system string, w Workload, ns int64, seed uint64) (*Outcome, error) {
	o, _, err := b.serve(ctx, system, w, ns, seed)
	return o, err
}

// setting resolves a system's name: its launching mode, its policy, and the clients that it serves.
func setting(system string, all []Client) (gpu.Mode, sched.Policy, []Client, error) {
	mode, policy := system, &sched.Dispatch{}
	switch system {
	case "rt-only":
		mode, policy.One = "streams", true
		all = slices.DeleteFunc(slices.Clone(all), func(c Client) bool { return !c.RealTime() })
	case "seq":
		mode, policy.One = "streams", true
	}
	m, err := gpu.ModeOf(mode)
	return m, policy, all, err
}

func (b *Bed) serve(ctx context.Context, system string, w Workload, ns int64, seed uint64) (*Outcome, *engine.Result, error) {
	m, policy, all, err := setting(system, w.Clients)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, c := range all {
		if !slices.Contains(names, c.Network) {
			names = append(names, c.Network)
		}
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%w: %s has no real-time client", ErrWorkload, w.Name)
	}
	src, err := b.requests(all, ns, seed)
	if err != nil {
		return nil, nil, err
	}
	seen := &latencies{bed: b, clients: all, end: ns, rt: make([][]float64, len(all)), done: make([]int, len(all)), sent: make([]int, len(all)), all: make([][]int64, len(all)), part: make([]float64, len(all))}
	tables, err := b.tables(names)
	if err != nil {
		return nil, nil, err
	}
	cfg := engine.Config{
		Networks: tables, Policy: policy, Inputs: engine.NoInputs, Source: src,
		Clock: engine.Measured, Keep: b.keep, Observer: seen, Watchdog: patient(),
	}
	var (
		o    *Outcome
		res  *engine.Result
		part = func(i int) float64 { return seen.part[i] }
	)
	if b.real != nil {
		o, res, err = b.serveReal(ctx, m, names, cfg)
	} else {
		var l *listener
		o, l, res, err = b.simulate(ctx, m, names, ns, cfg)
		part = func(i int) float64 { return l.part(all, &all[i]) }
	}
	if err != nil {
		return nil, nil, err
	}
	o.Served = all
	b.sum(o, seen, part)
	return o, res, nil
}

// once returns a client that sends requests for one network, one after another.
func once(network string, requests int) *load.Clients {
	return &load.Clients{
		Due: []load.Due{{}}, End: 1 << 60, Most: requests, Closed: func(int) bool { return true },
		Task: func(int, int64) sched.Task { return sched.Task{Network: network, Theta: 2} },
	}
}

// requests returns the source of the clients' requests before time ns.
func (b *Bed) requests(all []Client, ns int64, seed uint64) (*load.Clients, error) {
	src := &load.Clients{End: ns, Closed: func(client int) bool { return all[client].closed() }}
	for i, c := range all {
		alone, err := b.Alone(c.Network)
		if err != nil {
			return nil, err
		}
		for _, at := range c.Times {
			if at < ns {
				src.Due = append(src.Due, load.Due{At: at, Client: i})
			}
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		if c.closed() {
			at := int64(0)
			if seed > 0 && !c.RealTime() { // otherwise all clients would begin at the same time
				at = int64(rng.Float64() * float64(alone))
			}
			src.Due = append(src.Due, load.Due{At: at, Client: i})
		}
		if c.Share == 0 && c.Every == 0 {
			continue
		}
		gap := float64(alone) / c.Share
		if c.Every > 0 {
			gap = float64(c.Every)
		}
		for at := rng.Float64() * gap; at < float64(ns); {
			src.Due = append(src.Due, load.Due{At: int64(at), Client: i})
			switch {
			case c.Poisson:
				at += rng.ExpFloat64() * gap
			case c.Every > 0:
				at += (0.9 + 0.2*rng.Float64()) * gap
			default:
				at += gap
			}
		}
	}
	open := func(d load.Due) int { // closed-loop clients come first
		if all[d.Client].closed() {
			return 0
		}
		return 1
	}
	slices.SortFunc(src.Due, func(a, b load.Due) int {
		return cmp.Or(cmp.Compare(a.At, b.At), open(a)-open(b), a.Client-b.Client)
	})
	src.Task = func(client int, at int64) sched.Task {
		c := &all[client]
		t := sched.Task{Network: c.Network, Theta: 2}
		if !c.RealTime() {
			return t
		}
		slo := c.Deadline
		if slo == 0 && b.slo != nil {
			slo = b.slo(b.alone[c.Network])
		}
		if t.Priority = 1; slo > 0 {
			t.Deadline = at + slo
		}
		return t
	}
	return src, nil
}

// simulate serves the clients on the simulated GPU.
func (b *Bed) simulate(ctx context.Context, m gpu.Mode, names []string, ns int64, cfg engine.Config) (*Outcome, *listener, *engine.Result, error) {
	d, err := b.device(m.Name, names)
	if err != nil {
		return nil, nil, nil, err
	}
	l := newListener(d, m, ns)
	d.Probe = l
	cfg.Devices = []device.Device{d}
	res, err := engine.Run(ctx, cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	o := &Outcome{Preemptions: len(d.Preemptions)}
	l.report(o)
	var host []float64
	for _, p := range d.Preemptions {
		o.Gone = append(o.Gone, float64(p.Gone-p.At)/1e3)
		host = append(host, float64(p.Host)/1e3)
	}
	o.Host, _ = meanP99(host)
	o.Preempt, o.PreemptP99 = meanP99(o.Gone)
	if d.Ran > 0 {
		o.Padded = float64(d.Padded) / float64(d.Ran)
		o.Again = float64(d.Again) / float64(d.Ran)
	}
	return o, l, res, nil
}

// sum adds the clients' results to the outcome. part returns the finished share of a client's requests that were in
// flight at the end.
func (b *Bed) sum(o *Outcome, seen *latencies, part func(client int) float64) {
	for i, c := range o.Served {
		share := (float64(seen.done[i]) + part(i)) * float64(b.alone[c.Network]) / float64(seen.end)
		o.Throughput += share
		o.Clients = append(o.Clients, ClientOutcome{Requests: seen.sent[i], Ended: seen.done[i], Throughput: share, Latency: quantiles(seen.all[i])})
		if c.RealTime() {
			o.RTThroughput += share
			o.Seen = append(o.Seen, seen.rt[i]...)
		}
	}
	o.RT, o.RTP99 = meanP99(o.Seen)
	o.BestEffort = o.Throughput - o.RTThroughput
}

// quantiles sorts latencies and returns their mean and quantiles. Without latencies, these are -1.
func quantiles(v []int64) engine.Latencies {
	if len(v) == 0 {
		return engine.Latencies{Avg: -1, P50: -1, P99: -1}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += float64(x)
	}
	return engine.Latencies{Avg: int64(math.Round(sum / float64(len(v)))), P50: engine.Quantile(v, 0.5), P99: engine.Quantile(v, 0.99)}
}

func meanP99(v []float64) (mean, p99 float64) {
	if len(v) == 0 {
		return 0, 0
	}
	slices.Sort(v)
	for _, x := range v {
		mean += x
	}
	return mean / float64(len(v)), engine.Quantile(v, 0.99)
}

// latencies records the latencies of requests.
type latencies struct {
	engine.NopObserver
	bed     *Bed
	clients []Client
	end     int64
	rt      [][]float64
	done    []int // number of requests answered before the end
	sent    []int
	all     [][]int64 // by client: latencies in ns
	part    []float64 // by client: for requests answered after the end, sum of the shares of their time before the end
}

func (l *latencies) TaskEnded(now int64, t *sched.Task, how engine.Ending) {
	l.sent[t.Client]++
	if how != engine.OnTime && how != engine.Late {
		return
	}
	l.all[t.Client] = append(l.all[t.Client], now-t.Arrived)
	c := &l.clients[t.Client]
	if now <= l.end {
		l.done[t.Client]++
	} else if t.Arrived < l.end {
		l.part[t.Client] += float64(l.end-t.Arrived) / float64(now-t.Arrived)
	}
	if c.RealTime() {
		l.rt[t.Client] = append(l.rt[t.Client], float64(now-t.Arrived)/float64(l.bed.alone[c.Network]))
	}
}
