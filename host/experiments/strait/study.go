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

// Config says what is run.
type Config struct {
	frame.Config
	Trace *load.Trace
	Model *predict.Model // every predictor's model at the start; nil: a new one
}

// lab makes the runs of one seed with one set of parameters, each once.
type lab struct {
	ctx    context.Context
	beds   map[string]*Bed
	ns     int64
	seed   uint64
	form   float64
	work   float64 // times the load
	spread float64
	beside float64 // Run.Beside
	vary   string  // parameter of every GPU that is another
	by     float64
	with   string // one of switches; "": none
	trace  *load.Trace
	runs   map[string]*Outcome
	begin  *predict.Model
	warm   *predict.Model
}

// switches put in what a cause suspects: Strait without its cap; no priority among a pair's streams; a RoBERTa that takes
// three times as long, so that it is to VGG-19 as their deadlines are; XSched with two streams a network in place of four.
func switches() []string { return []string{"no-cap", "plain-streams", "slow-roberta", "two-streams"} }

func newLab(ctx context.Context, c *Config, seed uint64) *lab {
	return &lab{ctx: ctx, beds: map[string]*Bed{}, ns: c.Ns, seed: seed, trace: c.Trace, begin: c.Model, work: 1, spread: jitter, runs: map[string]*Outcome{}}
}

func (l *lab) bed(gpu string) (*Bed, error) {
	if b := l.beds[gpu]; b != nil {
		return b, nil
	}
	f, err := params.Of(gpu)
	if err != nil {
		return nil, err
	}
	if l.vary != "" {
		f = f.With(l.vary, l.by)
	}
	b := NewBed(f)
	b.Spread, b.with = l.spread, l.with
	l.beds[gpu] = b
	return b, nil
}

func (l *lab) load(name string) (Load, error) {
	for _, x := range Loads(l.seed, l.trace) {
		if x.Name == name {
			x.Work *= l.work
			return x, nil
		}
	}
	return Load{}, fmt.Errorf("no load %q", name)
}

// run returns the run with a key; it is made once.
func (l *lab) run(key, gpu string, r Run) (*Outcome, error) {
	if o := l.runs[key]; o != nil {
		return o, nil
	}
	b, err := l.bed(gpu)
	if err != nil {
		return nil, err
	}
	switch {
	case l.with == "plain-streams" && r.System == "pairs":
		r.System = l.with
	case l.with == "two-streams" && r.System == "xsched-4":
		r.System = "xsched-2"
	case l.with == "no-cap":
		r.Low = math.Inf(1)
	}
	r.Seed, r.Form, r.Beside = l.seed, cmp.Or(r.Form, l.form), l.beside
	r.Ns, r.Model = cmp.Or(r.Ns, l.ns), cmp.Or(r.Model, l.begin)
	o, err := b.Run(l.ctx, r)
	if err != nil {
		return nil, err
	}
	l.runs[key] = o
	return o, nil
}

// served is a load and a system: pressure/RATIO (xsched), pair and the other network in place of a system, or GPUS/LOAD.
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

// main is a system under a load: the twelve tasks on one L4, or on several in proportionally less time. Behind strait may be
// a first cap (:low=SHARE) or the profile's error (:drift=SHARE).
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

// xsched are the six models without copies under the pressure of one priority (section 5.3), at less load
// than elsewhere, since a server without batches gets less out of a GPU.
func (l *lab) xsched(system string, high float64) (*Outcome, error) {
	return l.run(fmt.Sprint("xsched ", system, high), "l4", Run{System: system, Models: Table1(), Load: Load{Name: "pressure", Work: 0.6 * l.work, High: high}})
}

// pair is ResNet-50 beside one other network, as many requests of each, at most two batches at a time and
// of different networks (figure 1). Rates are as 3 : 2 : 1 beside YOLOv8n, VGG-19 and RoBERTa; the first
// makes 0.9 of a GPU's work.
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
	return l.run("pair "+network, "l4", Run{System: "pairs", Models: pick("resnet50", network), Load: Load{Name: "pair", Work: 0.9 * l.work * part / whole * ratio / 3, High: 1}})
}

// warmed is a predictor that has seen the CNNs under a moderate load (section 5.4).
func (l *lab) warmed() (*predict.Model, error) {
	if l.warm != nil {
		return l.warm, nil
	}
	o, err := l.run("warm", "l4", Run{System: "strait", Models: cnns(), Load: Load{Name: "moderate", Work: 0.6 * l.work, High: 1}})
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

// moved runs the warmed predictor under bursts, on other networks, or on another GPU.
func (l *lab) moved(where string) (*Outcome, error) {
	m, err := l.warmed()
	if err != nil {
		return nil, err
	}
	r := Run{System: "strait", Models: cnns(), Model: m, Load: Load{Name: where, Work: Intense * l.work, High: 1}}
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
		gpu, r.Ns = "h200", l.ns/4 // as many requests
	}
	return l.run("moved "+where, gpu, r)
}

// ordered is a number of each batch, ascending.
func ordered(f []sched.Finished, of func(*sched.Finished) float64) (out []float64) {
	for i := range f {
		out = append(out, of(&f[i]))
	}
	slices.Sort(out)
	return out
}

// relativeErrors returns the relative errors of predicted slowdowns, in per cent, of the model as it learnt or of another on the
// same batches.
func relativeErrors(f []sched.Finished, of func(*sched.Finished) float64) []float64 {
	return ordered(f, func(f *sched.Finished) float64 { return 100 * math.Abs(of(f)-f.Actual) / f.Actual })
}

// signed is the relative error with its sign.
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

// settled is the second half of a run's batches, after the model has adapted.
func settled(o *Outcome) []sched.Finished { return o.Finished[len(o.Finished)/2:] }

// all is the settled batches of the three loads of section 5.2.
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

// halves fit a model to the first halves of the runs of all(), which it leaves out: the static linear model with what the
// adaptive one has, time-weighted averages of all models' batches; or the adaptive model's equation, frozen, which separates its
// error from that of learning one batch at a time.
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

// fit is the static linear model as we read the publication: trained on 80 % of the batches of one set of three models,
// in order, with the load of the device at the launch as input.
func (l *lab) fit() (m *predict.Linear, validation []sched.Finished, err error) {
	o, err := l.run("set 1", "l4", Run{System: "strait", Models: set1(), Load: Load{Name: "set 1", Work: Intense * l.work, High: 1}})
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

// Bench is the result.
type Bench struct {
	frame.Result
	Traced []string // the statements that a given trace decides
	// Model is the predictor's model after the evolving load with the first seed.
	Model *predict.Model
}

// ErrUntraced is the error of a trace that no selected claim uses.
var ErrUntraced = errors.New("no statement is about the load of the trace")

// traced are the claims about the load of a trace.
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
				l := newLab(ctx, &c, seed)
				switch {
				case x == nil:
				case x.Key == "form":
					l.form = form * x.By
				case x.Key == "spread":
					l.spread = jitter * x.By
				case x.Key == "load":
					l.work = x.By
				case x.Key == "beside":
					l.beside = x.By / 2
				case slices.Contains(switches(), x.Key):
					l.with = x.Key
				default:
					l.vary, l.by = x.Key, x.By
				}
				out = append(out, l)
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

// by are the errors of a fitted model on all().
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

// published is the static linear model as we read the publication.
func published(l *lab) (*predict.Linear, error) {
	m, _, err := l.fit()
	return m, err
}

// latency is relative errors of whole latencies, in per cent.
func latency(of func(*sched.Finished) int64) func(*lab) ([]float64, error) {
	return overAll(func(f *sched.Finished) float64 { return 100 * math.Abs(float64(of(f)-f.Latency)) / float64(f.Latency) })
}

// overAll is a number of each batch of all(), ascending.
func overAll(of func(*sched.Finished) float64) func(*lab) ([]float64, error) {
	return func(l *lab) ([]float64, error) { f, err := l.all(); return ordered(f, of), err }
}

// unread are the assumed parameters of evictions, kills and padding, which do not occur here.
func unread() []string {
	return []string{"reset_host_ns", "reclaim_ns", "evict_ns", "evict_each_ns", "kill_ns", "restart_ns", "pad_share"}
}

// knobs are the parameters of the GPUs, the share of its deadline that a request waits for its batch to fill, the spread and
// the load, and of those that are assumed half and twice.
func knobs(string) (*frame.Knobs, error) {
	f, err := params.Of("l4")
	if err != nil {
		return nil, err
	}
	own := []string{"form", "spread", "load", "beside"}
	k := &frame.Knobs{Switches: switches(), Keys: append(f.Keys(), own...)}
	assumed := slices.DeleteFunc(f.Assumed(), func(k string) bool { return slices.Contains(unread(), k) })
	// half of the load leaves nothing to compare, twice the load exceeds capacity
	k.Vary = append(frame.Halves(append(assumed, own[:2]...)...), frame.Change{Key: "load", By: 0.85}, frame.Change{Key: "load", By: 1.2})
	return k, nil
}
