// SEEB-GPU's setting has four applications with early exits on an RTX 3090. A task has many images. Open contains the
// values that the publication does not state. Confidences and classes are computed, not measured, and are the same for
// all systems. The difficulty d of a sample is uniform in 0..1. A sample is classified correctly at an exit of accuracy
// a if d < a. Its confidence at this exit is
//
//	floor + (1 - floor) / (1 + exp(-steep (a - d + noise)))
//
// The accuracy grows with the share x of the network's kernels that have run:
//
//	first + (last - first) (1 - (1-x)^3)

package seeb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// Open contains the parameters that SEEB-GPU's publication does not state.
type Open map[string]float64

// DefaultOpen returns the default values. Comments state the reasons.
func DefaultOpen() Open {
	return Open{
		"images":     128,  // mean number of images in a task; exponential, at most four times the mean. Assumed from the largest batch of the ablation, because figure 6 is unreadable in our copy
		"exits":      8,    // number of exits of all networks except MobileNetV2, which has ten
		"first":      0.40, // accuracy at the first exit, fitted to figure 10: 40 % "for most tasks at the earliest exit"
		"floor":      0.25, // lowest confidence, as of a softmax over few classes
		"steep":      4,    // slope of the confidence as a function of the margin a - d
		"noise":      0.1,  // standard deviation of the margin
		"branchynet": 0.58, // BranchyNet's threshold, fitted to its accuracy in table 3
		"launch_ns":  12e3, // time in ns to launch a kernel under PyTorch, fitted to the latency of Batch relative to SEEB (table 3)
		"batch":      2,    // batch of the system Batch, "as small as possible": the smallest batch elsewhere in the paper (section 5.5, configuration 3)
		"lambda1":    10,   // lambda1 per second; lambda2 is 1
		"slack":      5e6,  // tau in ns
		"gslice":     1e9,  // time in ns between two changes of GSLICE's partitions
		"gamma":      2,    // tasks a second of the gamma loads
	}
}

// with returns a copy in which one value is multiplied by factor.
func (o Open) with(key string, factor float64) Open {
	c := maps.Clone(o)
	c[key] *= factor
	return c
}

// whole returns a value rounded to a whole number. The result must be at least 1.
func (o Open) whole(key string) (int, error) {
	n := int(math.Round(o[key]))
	if n < 1 {
		return 0, fmt.Errorf("%w: %s is %g then, one or more is expected", frame.ErrWith, key, o[key])
	}
	return n, nil
}

const (
	lastAccuracy = 0.96285 // mean accuracy of the networks at full depth (table 3)
	edgeBatch    = 128     // the largest batch
	pixels       = 3 * 224 * 224 * 4
)

// edgeNetworks returns the networks of table 2.
func edgeNetworks() []string { return []string{"resnet50", "shufflenet", "mobilenetv2", "resnet34"} }

// Edge is the GPU with the profiles of the four networks.
type Edge struct {
	file   *params.File
	open   Open
	nets   map[string]*edgeNet
	Fits   map[string]*Fit
	models map[string]sched.LatencyModel
	runs   map[string]*EdgeOutcome
	rate   float64                         // factor on every load's rate; the number of tasks stays the same; 0: 1
	wrap   func(sched.Policy) sched.Policy // wraps the policy in tests, if set
}

type edgeNet struct {
	gpu.Network
	accuracy []float64 // by exit
	alone    []int64   // by batch - 1: time in ns at full depth on all units; 0: not measured
	table    *sched.Table
}

// Thetas returns the thresholds of algorithm 2.
func Thetas() (out []float32) {
	for i := 1; i <= 9; i++ {
		out = append(out, float32(i)/10)
	}
	return out
}

// NewEdge returns an Edge with profiled networks.
func NewEdge(f *params.File, o Open) (*Edge, error) {
	if _, ok := f.Values["launch_ns"]; ok {
		f = f.With("launch_ns", o["launch_ns"]/f.Values["launch_ns"].Value)
	}
	e := &Edge{file: f, open: o, nets: map[string]*edgeNet{}, Fits: map[string]*Fit{}, models: map[string]sched.LatencyModel{}, runs: map[string]*EdgeOutcome{}}
	for _, name := range edgeNetworks() {
		n, err := e.network(name)
		if err != nil {
			return nil, err
		}
		e.nets[name] = n
	}
	d, err := e.device()
	if err != nil {
		return nil, err
	}
	p := &profiler{d: d}
	for _, name := range edgeNetworks() {
		n := e.nets[name]
		for b := 1; b <= edgeBatch; b *= 2 {
			ns, err := p.run(name, b, 2, device.Units{})
			if err != nil {
				return nil, err
			}
			n.alone[b-1] = ns
		}
		if n.table, err = sched.Uniform(name, len(n.accuracy), edgeBatch, max(1, n.alone[0]/int64(len(n.accuracy)))); err != nil {
			return nil, err
		}
		fit, err := p.fit(name)
		if err != nil {
			return nil, err
		}
		e.Fits[name], e.models[name] = fit, fit.Model
	}
	return e, nil
}

// network returns a network with exits. Its program begins with the copy of the images.
func (e *Edge) network(name string) (*edgeNet, error) {
	exits, err := e.open.whole("exits")
	if err != nil {
		return nil, err
	}
	if name == "mobilenetv2" {
		exits = 10 // section 4
	}
	programs := map[int]*kernel.Program{}
	program := func(batch int) (*kernel.Program, error) {
		if p := programs[batch]; p != nil {
			return p, nil
		}
		p, err := catalogue.Program(catalogue.Spec{Network: name, Style: "pytorch", Batch: batch, Exits: exits}, e.file.Machine())
		if err != nil {
			return nil, err
		}
		q := &kernel.Program{Name: p.Name, Memory: p.Memory, Kernels: append([]kernel.Kernel{{Name: "images", Kind: kernel.Upload, Bytes: int64(batch) * pixels}}, p.Kernels...)}
		for _, x := range p.Exits {
			q.Exits = append(q.Exits, x+1)
		}
		programs[batch] = q
		return q, nil
	}
	one, err := program(1)
	if err != nil {
		return nil, err
	}
	n := &edgeNet{alone: make([]int64, edgeBatch)}
	for _, x := range one.Exits {
		share := float64(x) / float64(len(one.Kernels)-1)
		n.accuracy = append(n.accuracy, e.open["first"]+(lastAccuracy-e.open["first"])*(1-math.Pow(1-share, 3)))
	}
	n.Network = gpu.Network{
		Name: name, Program: program,
		Exit: func(id device.RequestID, segment int) device.ExitResult {
			d := uniform(uint64(id), 0)
			x := device.ExitResult{}
			if d < n.accuracy[segment] {
				x.Class = 1
			}
			// the sum of four uniform numbers is nearly normally distributed, and equal on every machine
			z := -2.0
			for i := range uint64(4) {
				z += uniform(uint64(id), 8*uint64(segment)+i+1)
			}
			margin := n.accuracy[segment] - d + e.open["noise"]*z*math.Sqrt(3)
			x.Confidence = float32(e.open["floor"] + (1-e.open["floor"])/(1+math.Exp(-e.open["steep"]*margin)))
			return x
		},
	}
	return n, nil
}

// uniform returns a pseudorandom number in [0, 1) from a sample's ID and the number's index (place).
func uniform(id, place uint64) float64 {
	h := (id + 0x9e3779b97f4a7c15*(place+1)) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

func (e *Edge) device() (*gpu.Device, error) {
	return gpu.Loaded(gpu.Config{
		Name: "gpu-sim:" + e.file.Name, Params: e.file.Params(), SyncNs: e.file.SyncNs(), MaxBatch: edgeBatch, Places: 16, Slots: 1 << 14,
	}, "streams", edgeNetworks(), func(i int) *gpu.Network { return &e.nets[edgeNetworks()[i]].Network })
}

// profiler runs launches on an otherwise idle device.
type profiler struct {
	d    *gpu.Device
	now  int64
	work device.WorkID
	id   device.RequestID
}

// run returns the time in ns of a batch that runs alone.
func (p *profiler) run(network string, batch int, theta float32, units device.Units) (int64, error) {
	ns, err := p.together(network, batch, theta, units)
	return int64(ns), err
}

// pair starts two launches of one image at the same time, and returns their mean time.
func (p *profiler) pair(network string, a, b device.Units) (float64, error) {
	return p.together(network, 1, 2, a, b)
}

// together starts one launch per set of units at the same time, and returns the mean time of the launches in ns.
func (p *profiler) together(network string, batch int, theta float32, sets ...device.Units) (float64, error) {
	segments, err := p.d.Segments(network)
	if err != nil {
		return 0, err
	}
	began, sum := p.now, 0.0
	first := p.id + 1
	under := map[device.WorkID]bool{}
	var works []*device.Work
	for _, units := range sets {
		l := device.Launch{ID: device.LaunchID(p.work + 1), Network: network, Units: units, Last: segments - 1}
		for range batch {
			p.id++
			p.work++
			if _, err := p.d.Begin(context.Background(), p.now, &device.Work{ID: p.work, Kind: device.Copy, Network: network, Request: p.id}); err != nil {
				return 0, err
			}
			l.Requests = append(l.Requests, p.id)
		}
		for range batch * segments {
			l.Theta = append(l.Theta, theta)
		}
		p.work++
		works, under[p.work] = append(works, &device.Work{ID: p.work, Kind: device.Run, Launch: l}), true
	}
	for _, w := range works {
		if _, err := p.d.Begin(context.Background(), p.now, w); err != nil {
			return 0, err
		}
	}
	for len(under) > 0 {
		at, ok := p.d.Next()
		if !ok {
			return 0, fmt.Errorf("a batch of %d of %s does not end", batch, network)
		}
		p.now = max(p.now, at)
		for ev := p.d.Take(at); ev != nil; ev = p.d.Take(at) {
			if ev.Kind == device.Failed {
				return 0, fmt.Errorf("profile of %s: %w", network, ev.Err)
			}
			if ev.Over && under[ev.Work] {
				delete(under, ev.Work)
				sum += float64(p.now - began)
			}
		}
	}
	for id := first; id <= p.id; id++ {
		p.d.Release(id)
	}
	return sum / float64(len(sets)), nil
}

// alone returns the time in ns that images need at full depth on an otherwise idle GPU.
func (e *Edge) alone(network string, images int) int64 {
	return Whole(images, edgeBatch, func(batch int) int64 { return e.nets[network].alone[batch-1] })
}

// Whole returns the time in ns of images in batches, whose sizes are powers of two up to `most`. of(b) is the time of
// batch size b.
func Whole(images, most int, of func(batch int) int64) (ns int64) {
	for b := most; images > 0; images -= b {
		for b > images {
			b /= 2
		}
		ns += of(b)
	}
	return ns
}

// EdgeSystems returns the compared systems; seeb is the first.
func EdgeSystems() []string {
	return []string{"seeb", "seeb-literal", "batch", "triton", "deeprt", "gslice", "branchynet"}
}

// atOnce is the system of configuration 3 in figure 10, but without a collection window.
const atOnce = "seeb:3 at once"

// Window is the duration in ns for which every system collects requests.
const Window int64 = 100e6

// System returns a system by name, with the networks' latency models. seeb:1 to seeb:6 are the ablations.
// seeb:LAMBDA1:LAMBDA2 sets other weights. NAME:8 sets the batch of a baseline NAME to 8. For a baseline that batches
// all waiting requests, 8 is the largest batch.
func System(system string, models map[string]sched.LatencyModel, open Open) (sched.Policy, error) {
	name, size, sized := strings.Cut(system, ":")
	c := &sched.Collect{Label: system, Window: Window}
	var err error
	switch {
	case sized && name != "seeb":
		if c.Batch, err = strconv.Atoi(size); err != nil || c.Batch < 1 {
			return nil, fmt.Errorf("system %q: a whole batch of one or more is expected behind the colon", system)
		}
	case name == "batch" || name == "branchynet":
		if c.Batch, err = open.whole("batch"); err != nil {
			return nil, err
		}
	}
	seeb := &sched.SEEB{Models: models, Thetas: Thetas(), Slack: int64(open["slack"]), Lambda1: open["lambda1"], Lambda2: 1, Period: Window}
	switch name {
	case "batch":
		return c, nil
	case "triton":
		c.Window = 0
		return c, nil
	case "deeprt":
		c.One = true
		return c, nil
	case "gslice":
		c.Share, c.Resize = true, int64(open["gslice"])
		return c, nil
	case "branchynet":
		c.Theta = float32(open["branchynet"])
		return c, nil
	}
	switch system {
	case "seeb", "seeb:6":
	case "seeb-literal":
		seeb.Literal = true
	case "seeb:1":
		seeb.FixedTheta, seeb.NoUnits = Thetas()[2], true
	case "seeb:2":
		seeb.FixedTheta, seeb.NoUnits = Thetas()[8], true
	case "seeb:3":
		seeb.FixedBatch, seeb.NoUnits = 2, true
	case atOnce:
		seeb.FixedBatch, seeb.NoUnits, seeb.Period = 2, true, 1e6
	case "seeb:4":
		seeb.FixedBatch, seeb.NoUnits = 128, true
	case "seeb:5":
		seeb.NoUnits = true
	default:
		if n, err := fmt.Sscanf(system, "seeb:%g:%g", &seeb.Lambda1, &seeb.Lambda2); n != 2 || err != nil {
			return nil, fmt.Errorf("no system %q; there are %v", system, EdgeSystems())
		}
	}
	return seeb, nil
}

// EdgeOutcome is the result of one run; times are means over tasks, in seconds.
type EdgeOutcome struct {
	Latency    float64 `json:"latency_s"`           // from the dispatch of a task's first image to the end of its last image
	Waiting    float64 `json:"waiting_s"`           // from a task's release to the dispatch of its first image
	Throughput float64 `json:"throughput"`          // tasks/s
	Accuracy   float64 `json:"accuracy"`            // share of correctly classified images
	Efficacy   float64 `json:"efficacy"`            // throughput / latency x accuracy
	Violations float64 `json:"violations"`          // share of tasks that ended after their deadline
	Dispatched float64 `json:"violations_dispatch"` // share of tasks with a latency above 1.2 times the task's time alone
	Tasks      int
}

// added is the suffix of a load with later deadlines: they include the 100 ms in which every system collects requests.
// The publication's "120 % of the expected time" does not state whether these 100 ms are included.
const added = "+window"

// deadline returns a task's deadline in ns after its release.
func (e *Edge) deadline(network string, images int, load string) int64 {
	d := int64(1.2 * float64(e.alone(network, images)))
	if strings.HasSuffix(load, added) {
		d += Window
	}
	return d
}

// EdgeLoads returns the names of loads: pai, poisson:RATE and gamma:CV. Each can also have the suffix +window.
func EdgeLoads() []string {
	return []string{"pai", "poisson:10", "poisson:15", "poisson:20", "poisson:25", "gamma:0.5", "gamma:1", "gamma:2"}
}

// paiRate is the throughput of the load pai in table 3, in tasks per second. It is nearly the same for all systems.
const paiRate = 1.097

// tasks returns random tasks of a load. For the load "pai", the argument pai contains a trace's arrival times. If pai
// is nil, a Markov chain with two rates generates bursts.
func (e *Edge) tasks(full string, ns int64, seed uint64, pai []int64) ([]Task, error) {
	name := strings.TrimSuffix(full, added)
	var p load.Process
	var rate, x float64
	switch n, _ := fmt.Sscanf(name, "poisson:%g", &rate); {
	case n == 1:
		p.Kind = load.KindPoisson
	case name == "pai":
		p, rate = load.Process{Kind: load.KindMarkov, High: 4, Share: 0.1, Dwell: 2}, paiRate
	default:
		if n, _ := fmt.Sscanf(name, "gamma:%g", &x); n != 1 {
			return nil, fmt.Errorf("no load %q; there are %v", name, EdgeLoads())
		}
		p, rate = load.Process{Kind: load.KindGamma, CV: x}, e.open["gamma"]
	}
	n := max(1, int(rate*float64(ns)/1e9))
	rate *= cmp.Or(e.rate, 1)
	var times []int64
	var err error
	if name == "pai" && pai != nil {
		// each seed uses a different part of the trace
		if len(pai) < 2 {
			return nil, fmt.Errorf("%w: %d arrivals, at least two are expected", load.ErrLoad, len(pai))
		}
		n = min(n, len(pai))
		from := int(seed*7919) % (len(pai) - n + 1)
		times, err = load.Rescale(pai[from:from+n], rate)
	} else {
		times, err = p.Times(rate, n, seed)
	}
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 31))
	var out []Task
	for _, at := range times {
		mean := e.open["images"]
		images := 1 + int(min(4*mean, rng.ExpFloat64()*mean))
		network := edgeNetworks()[rng.IntN(4)]
		out = append(out, Task{At: at, Deadline: e.deadline(network, images, full), Network: network, Images: images})
	}
	return out, nil
}

// Run serves a load with a system.
func (e *Edge) Run(ctx context.Context, system, name string, ns int64, seed uint64, pai []int64) (*EdgeOutcome, error) {
	key := fmt.Sprint(system, " ", name, " ", ns, " ", seed)
	if o := e.runs[key]; o != nil {
		return o, nil
	}
	tasks, err := e.tasks(name, ns, seed, pai)
	if err != nil {
		return nil, err
	}
	policy, err := System(system, e.models, e.open)
	if err != nil {
		return nil, err
	}
	if e.wrap != nil {
		policy = e.wrap(policy)
	}
	d, err := e.device()
	if err != nil {
		return nil, err
	}
	var nets []engine.Network
	for _, n := range edgeNetworks() {
		nets = append(nets, engine.Network{Name: n, Tables: []*sched.Table{e.nets[n].table}})
	}
	seen := &Spans{Tasks: make([]Span, len(tasks))}
	if _, err := engine.Run(ctx, engine.Config{
		Devices: []device.Device{d}, Networks: nets, Policy: policy, Inputs: engine.NoInputs, Source: Source(tasks),
		Clock: engine.Measured, Keep: engine.Counts, Observer: seen, Watchdog: engine.Watchdog{Fixed: 1 << 50},
	}); err != nil {
		return nil, fmt.Errorf("%s under %s: %w", name, system, err)
	}
	o := &EdgeOutcome{Tasks: len(tasks)}
	var end int64
	for i := range tasks {
		t, s := &tasks[i], seen.Tasks[i]
		if s.Failed {
			return nil, fmt.Errorf("%s under %s: task %d did not end well", name, system, i)
		}
		took := float64(s.To - s.From)
		o.Latency += took / 1e9
		o.Waiting += float64(s.From-t.At) / 1e9
		if s.To-t.At > t.Deadline {
			o.Violations++
		}
		if took > 1.2*float64(e.alone(t.Network, t.Images)) {
			o.Dispatched++
		}
		end = max(end, s.To)
	}
	k := float64(len(tasks))
	o.Latency, o.Waiting, o.Violations, o.Dispatched = o.Latency/k, o.Waiting/k, o.Violations/k, o.Dispatched/k
	o.Throughput = k / (float64(max(end, ns)) / 1e9)
	o.Accuracy = float64(seen.Right) / float64(seen.Images)
	o.Efficacy = o.Throughput / o.Latency * o.Accuracy
	e.runs[key] = o
	return o, nil
}
