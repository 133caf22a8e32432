package strait

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// Config selects the runs of the study.
type Config struct {
	frame.Config
	Trace *load.Trace
	Model *predict.Model // initial model of every predictor; nil: a new model
}

// lab executes the runs of one seed and one set of parameters. It executes each run once.
type lab struct {
	ctx   context.Context
	beds  map[string]*Bed
	ns    int64
	seed  uint64
	with  *frame.Change // change of a parameter (knobs), or a switch; nil: none
	trace *load.Trace
	runs  map[string]*Outcome
	begin *predict.Model
	warm  *predict.Model
}

// switches returns suspected causes that can be tried. no-cap: Strait without its cap. plain-streams: the streams of a
// pair have no priority. slow-roberta: RoBERTa needs three times as long, so that the times of RoBERTa and VGG-19 have
// the same ratio as their deadlines. two-streams: XSched uses two streams per network in place of four. unlearnt: the
// predictor is not trained. It predicts no interference, or uses the model of --begin.
func switches() []string {
	return []string{"no-cap", "plain-streams", "slow-roberta", "two-streams", "unlearnt"}
}

// work returns a load's work, multiplied by the factor of the parameter "load".
func (l *lab) work(of float64) float64 { return of * l.with.Of("load") }

func (l *lab) bed(gpu string) (*Bed, error) {
	if b := l.beds[gpu]; b != nil {
		return b, nil
	}
	f, err := params.Of(gpu)
	if err != nil {
		return nil, err
	}
	if l.with != nil && f.Has(l.with.Key) {
		f = f.With(l.with.Key, l.with.By)
	}
	b := NewBed(f)
	b.Spread, b.slow = jitter*l.with.Of("spread"), l.with.Is("slow-roberta")
	l.beds[gpu] = b
	return b, nil
}

func (l *lab) load(name string) (Load, error) {
	for _, x := range Loads(l.seed, l.trace) {
		if x.Name == name {
			x.Work = l.work(x.Work)
			return x, nil
		}
	}
	return Load{}, fmt.Errorf("no load %q", name)
}

// run returns the outcome of the run with this key. It executes the run once.
func (l *lab) run(key, gpu string, r Run) (*Outcome, error) {
	if o := l.runs[key]; o != nil {
		return o, nil
	}
	b, err := l.bed(gpu)
	if err != nil {
		return nil, err
	}
	switch {
	case l.with.Is("plain-streams") && r.System == "pairs":
		r.System = "plain-streams"
	case l.with.Is("two-streams") && r.System == "xsched-4":
		r.System = "xsched-2"
	case l.with.Is("no-cap"):
		r.Low = math.Inf(1)
	}
	r.Seed, r.Form, r.Beside = l.seed, form*l.with.Of("form"), 0.5*l.with.Of("beside")
	r.Ns, r.Model = cmp.Or(r.Ns, l.ns), cmp.Or(r.Model, l.begin)
	if l.with.Is("unlearnt") {
		r.Model, r.Frozen = cmp.Or(r.Model, predict.Null()), true
	}
	o, err := b.Run(l.ctx, r)
	if err != nil {
		return nil, err
	}
	l.runs[key] = o
	return o, nil
}

// served returns a run by load and system. The load is GPUS/LOAD, pressure/RATIO (for the comparison with XSched), or
// pair. For the load "pair", the second argument is the other network, not a system.
func (l *lab) served(of frame.Args) (*Outcome, error) {
	kind, name, _ := strings.Cut(of[0], "/")
	switch kind {
	case "pressure":
		return l.xsched(of[1], frame.Args{name}.Float(0))
	case "pair":
		return l.pair(of[1])
	}
	return l.main(frame.Args{kind}.Int(0), of[1], name)
}

// main runs a system under a load, with twelve tasks on a number of L4 GPUs. With several GPUs, the run is
// proportionally shorter. strait:low=SHARE sets the initial cap. strait:drift=SHARE sets the error of the profile.
func (l *lab) main(gpus int, system, name string) (*Outcome, error) {
	x, err := l.load(name)
	if err != nil {
		return nil, err
	}
	r := Run{Models: Twice(Table1()), Load: x, GPUs: gpus, Ns: l.ns / int64(gpus)}
	var with string
	r.System, with, _ = strings.Cut(system, ":")
	switch key, value, _ := strings.Cut(with, "="); key {
	case "low":
		r.Low = frame.Args{value}.Float(0)
	case "drift":
		r.Drift = frame.Args{value}.Float(0)
	}
	return l.run(fmt.Sprint("main ", gpus, " ", system, " ", name), "l4", r)
}

// xsched runs one copy of each of the six models, with more requests of one priority (section 5.3). The load is lower
// than in the other comparisons, because a server without batches uses a GPU less efficiently.
func (l *lab) xsched(system string, high float64) (*Outcome, error) {
	return l.run(fmt.Sprint("xsched ", system, high), "l4", Run{System: system, Models: Table1(), Load: Load{Name: "pressure", Work: l.work(0.6), High: high}})
}

// pair runs ResNet-50 beside one other network at the same rate, with at most one batch of each network at a time
// (figure 1). The rates beside YOLOv8n, VGG-19 and RoBERTa have the ratio 3 : 2 : 1. With YOLOv8n, the load is 0.9.
func (l *lab) pair(network string) (*Outcome, error) {
	b, err := l.bed("l4")
	if err != nil {
		return nil, err
	}
	work := func(network string) (float64, error) {
		sum := 0.0
		for _, m := range pick("resnet50", network) {
			t, err := b.Table(&m)
			if err != nil {
				return 0, err
			}
			sum += float64(t.At(0, 0, MaxBatch))
		}
		return sum, nil
	}
	whole, err := work("yolov8n")
	if err != nil {
		return nil, err
	}
	part, err := work(network)
	if err != nil {
		return nil, err
	}
	ratio := map[string]float64{"yolov8n": 3, "vgg19": 2, "roberta": 1}[network]
	return l.run("pair "+network, "l4", Run{System: "pairs", Models: pick("resnet50", network), Load: Load{Name: "pair", Work: l.work(0.9) * part / whole * ratio / 3, High: 1}})
}

// warmed returns a predictor that was trained on the CNNs under a moderate load (section 5.4).
func (l *lab) warmed() (*predict.Model, error) {
	if l.warm != nil {
		return l.warm, nil
	}
	o, err := l.run("warm", "l4", Run{System: "strait", Models: cnns(), Load: Load{Name: "moderate", Work: l.work(0.6), High: 1}})
	if err != nil {
		return nil, err
	}
	l.warm = o.Model
	return l.warm, nil
}

func pick(names ...string) (out []Model) {
	for _, m := range Table1() {
		if slices.Contains(names, m.Network) {
			out = append(out, m)
		}
	}
	return out
}

func set1() []Model { return Twice(pick("resnet50", "vit-b", "convnext-b")) }

func cnns() []Model { return Twice(pick("resnet50", "convnext-b", "yolov8n")) }

func transformers() []Model { return Twice(pick("vgg19", "vit-b", "roberta")) }

// moved runs the warmed-up predictor in another setting: bursts, other networks, or another GPU.
func (l *lab) moved(where string) (*Outcome, error) {
	m, err := l.warmed()
	if err != nil {
		return nil, err
	}
	r := Run{System: "strait", Models: cnns(), Model: m, Load: Load{Name: where, Work: l.work(Intense), High: 1}}
	gpu := "l4"
	switch where {
	case "bursts":
		r.Load.Shape = Bursts(l.seed)
		r.Load.Work *= 1.2
	case "models":
		r.Models = transformers()
	case "ampere":
		gpu = "rtx3090"
	case "hopper":
		gpu, r.Ns = "h200", l.ns/4 // the same number of requests needs a quarter of the time
	}
	return l.run("moved "+where, gpu, r)
}

// ordered applies the function "of" to each batch and returns the results in ascending order.
func ordered(f []sched.Finished, of func(*sched.Finished) float64) (out []float64) {
	for i := range f {
		out = append(out, of(&f[i]))
	}
	slices.Sort(out)
	return out
}

// relativeErrors returns the relative errors of predicted slowdowns, in per cent. The function "of" returns a
// batch's prediction: the recorded prediction, or the prediction of another model.
func relativeErrors(f []sched.Finished, of func(*sched.Finished) float64) []float64 {
	return ordered(f, func(f *sched.Finished) float64 { return 100 * math.Abs(of(f)-f.Actual) / f.Actual })
}

// signed returns the relative error with its sign, in per cent.
func signed(f *sched.Finished) float64 { return 100 * (f.Predicted/f.Actual - 1) }

func adaptive(f *sched.Finished) float64 { return f.Predicted }

func still(m *predict.Model) func(*sched.Finished) float64 {
	return func(f *sched.Finished) float64 { return m.Interference(f.Others, f.Own, f.Priority) }
}

func linear(m *predict.Linear) func(*sched.Finished) float64 {
	return func(f *sched.Finished) float64 { return m.Interference(f.AtLaunch, f.Own) }
}

func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// settled returns the second half of a run's batches. In this half, the model has adapted.
func settled(o *Outcome) []sched.Finished { return o.Finished[len(o.Finished)/2:] }

// all returns the settled batches under the three loads of section 5.2.
func (l *lab) all() (out []sched.Finished, err error) {
	for _, name := range []string{"high", "low", "uniform"} {
		o, err := l.main(1, "strait", name)
		if err != nil {
			return nil, err
		}
		out = append(out, settled(o)...)
	}
	return out, nil
}

// halves returns a function that fits a model to the first half of each run; lab.all returns the second halves. Two
// models are fitted. The first is the static linear model, with the adaptive model's inputs: averages over time, of all
// models. The second is the adaptive model's equation, without further training. This separates the equation's error
// from the error of training batch by batch.
func halves[M any](fit func([]predict.Sample) (M, error)) func(*lab) (M, error) {
	return func(l *lab) (m M, err error) {
		s, err := l.firstHalves()
		if err != nil {
			return m, err
		}
		return fit(s)
	}
}

func (l *lab) firstHalves() (s []predict.Sample, err error) {
	for _, name := range []string{"high", "low", "uniform"} {
		o, err := l.main(1, "strait", name)
		if err != nil {
			return nil, err
		}
		for _, f := range o.Finished[:len(o.Finished)/2] {
			s = append(s, predict.Sample{Others: f.Others, Own: f.Own, Priority: f.Priority, Actual: f.Actual})
		}
	}
	return s, nil
}

func weighted(m *predict.Linear) func(*sched.Finished) float64 {
	return func(f *sched.Finished) float64 { return m.Interference(f.Others, f.Own) }
}

// fit returns the static linear model as we understand the publication. It is trained on the first 80 % of the batches
// from a set of three models; validation contains the rest. Its input is the device's load at the launch.
func (l *lab) fit() (m *predict.Linear, validation []sched.Finished, err error) {
	o, err := l.run("set 1", "l4", Run{System: "strait", Models: set1(), Load: Load{Name: "set 1", Work: l.work(Intense), High: 1}})
	if err != nil {
		return nil, nil, err
	}
	n := len(o.Finished) * 8 / 10
	var s []predict.Sample
	for _, f := range o.Finished[:n] {
		s = append(s, predict.Sample{Others: f.AtLaunch, Own: f.Own, Actual: f.Actual})
	}
	m, err = predict.Fit(s)
	return m, o.Finished[n:], err
}

//go:embed claims.yaml
var book []byte

//go:embed tried.txt
var tried []byte

// Bench is the result of the study.
type Bench struct {
	frame.Result
	Traced []string // IDs of the statements about the load of Config.Trace
	// Model is the predictor's final model under the evolving load with the first seed.
	Model *predict.Model
}

// ErrUntraced is the error if a trace is given but no selected statement uses it.
var ErrUntraced = errors.New("no statement is about the load of the trace")

// traced returns the IDs of the claims about the load of a trace.
func traced() []string { return []string{"trace/high", "fig7c/median"} }

// RunBench checks Strait's claims and runs every system under every load.
func RunBench(ctx context.Context, c Config) (*Bench, error) {
	b := &Bench{}
	if c.Trace != nil {
		if err := checkTrace(c.Trace); err != nil {
			return nil, err
		}
		b.Traced = slices.DeleteFunc(traced(), func(id string) bool { return !strings.HasPrefix(id, c.Only) })
		if len(b.Traced) == 0 {
			return nil, fmt.Errorf("%w: of the statements that begin with %q", ErrUntraced, c.Only)
		}
	}
	var first *lab
	s := frame.Study[*lab]{
		Book: book, Tried: tried, Measures: measures(), Numbers: numbers(), Apart: true,
		Labs: func(_ string, x *frame.Change) (out []*lab, err error) {
			for _, seed := range c.Seeds {
				out = append(out, &lab{ctx: ctx, beds: map[string]*Bed{}, ns: c.Ns, seed: seed, with: x, trace: c.Trace, begin: c.Model, runs: map[string]*Outcome{}})
			}
			if first == nil {
				first = out[0]
			}
			return out, nil
		},
		Knobs: knobs,
	}
	r, err := s.Run(ctx, &c.Config)
	if err != nil {
		return nil, err
	}
	b.Result = *r
	o, err := first.main(1, "strait", "evolving")
	if err != nil {
		return nil, err
	}
	b.Model = o.Model
	return b, nil
}

// by returns a function that computes a fitted model's relative errors for the batches of all().
func by[M any](fit func(*lab) (M, error), of func(M) func(*sched.Finished) float64) func(*lab) ([]float64, error) {
	return func(l *lab) ([]float64, error) {
		m, err := fit(l)
		if err != nil {
			return nil, err
		}
		f, err := l.all()
		return relativeErrors(f, of(m)), err
	}
}

// published returns the static linear model as we understand the publication.
func published(l *lab) (*predict.Linear, error) {
	m, _, err := l.fit()
	return m, err
}

// latency returns a function that computes relative errors of predicted batch latencies, in per cent.
func latency(of func(*sched.Finished) int64) func(*lab) ([]float64, error) {
	return overAll(func(f *sched.Finished) float64 { return 100 * math.Abs(float64(of(f)-f.Latency)) / float64(f.Latency) })
}

// overAll returns a function that computes one number per batch of all(), in ascending order.
func overAll(of func(*sched.Finished) float64) func(*lab) ([]float64, error) {
	return func(l *lab) ([]float64, error) { f, err := l.all(); return ordered(f, of), err }
}

// unread returns the assumed parameters of evictions, kills and padding. These actions do not occur here.
func unread() []string {
	return []string{"reset_host_ns", "reclaim_ns", "evict_ns", "evict_each_ns", "kill_ns", "restart_ns", "pad_share"}
}

// knobs returns the parameters of the GPU, and those of a run: the waiting time for a full batch (form), the spread,
// the load, and the expected overlap (beside). Vary halves and doubles the assumed parameters, and scales the load.
func knobs(string) (*frame.Knobs, error) {
	f, err := params.Of("l4")
	if err != nil {
		return nil, err
	}
	own := []string{"form", "spread", "load", "beside"}
	k := &frame.Knobs{Switches: switches(), Keys: append(f.Keys(), own...)}
	assumed := slices.DeleteFunc(f.Assumed(), func(k string) bool { return slices.Contains(unread(), k) })
	// at half of the load no request is late, and twice the load exceeds the capacity
	k.Vary = append(frame.Halves(append(assumed, own[:2]...)...), frame.Change{Key: "load", By: 0.85}, frame.Change{Key: "load", By: 1.2})
	return k, nil
}
