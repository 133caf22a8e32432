package jellyfish

import (
	"context"
	"flag"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/bandwidth"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/sched"
)

var seed = flag.Uint64("seed", 1, "of what is random")

func same(rate int, slo int64) func(int) jellyfish.Registered {
	return func(int) jellyfish.Registered { return jellyfish.Registered{Rate: rate, SLO: slo} }
}

func setting(t testing.TB, trace string, clients, rate int, slo, ns int64) *Setting {
	tr, err := links.Named(trace, *seed, links.Memory)
	if err != nil {
		t.Fatal(err)
	}
	return &Setting{
		Zoo: jellyfish.Synthetic(1), Workers: 2, Trace: tr, Ns: ns, Seed: *seed,
		Clients: Cameras(clients, same(rate, slo), ns, *seed),
	}
}

func run(t testing.TB, set *Setting, system string) *Outcome {
	t.Helper()
	sys, err := Named(system)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Run(context.Background(), set, sys, Assume())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Statements in the publication's text about large differences: systems that adapt network and size miss little, the
// smallest network misses nothing and is the least accurate, the largest one is too late.
func TestSystems(t *testing.T) {
	t.Logf("--seed %d", *seed)
	set := setting(t, "steps", 2, 15, 75e6, 40e9)
	got := map[string]*Outcome{}
	for _, s := range Systems() {
		o := run(t, set, s.Name)
		got[s.Name] = o
		t.Logf("%-10s %+v", s.Name, *o)
		if !reflect.DeepEqual(o, run(t, set, s.Name)) {
			t.Errorf("%s: two runs differ", s.Name)
		}
		if frames := got["jellyfish"].Frames; o.Frames != frames || o.Frames < 1000 {
			t.Errorf("%s: %d frames, under jellyfish %d", s.Name, o.Frames, frames)
		}
		if o.P99 > 75_100_000 {
			t.Errorf("%s: a result after %d ns is in time", s.Name, o.P99)
		}
	}
	for _, name := range []string{"jellyfish", "jellyfish+"} {
		if o := got[name]; o.Miss > 0.02 || o.Accuracy < got["b-l"].Accuracy+0.05 || o.Counts.Changes == 0 || o.Counts.Decisions < 50 || o.Aligned < 0.8 {
			t.Errorf("%s: %+v", name, *o)
		}
	}
	if o := got["b-l"]; o.Miss > 0.001 || math.Abs(o.Accuracy-set.Zoo[0].Accuracy) > 1e-9 {
		t.Errorf("b-l: %+v", *o)
	}
	if got["b-h"].Miss < 0.5 || got["b-m"].Miss < 0.05 || got["da-off"].Miss < 0.2 || got["da-bw-50"].Miss != 1 || got["da-slo-50"].Miss != 1 {
		t.Error("those that do not adapt, or have no budget, miss little")
	}
}

// Over a link with any trace a client sends frames of at most the advised size, at its rate, and they arrive in order.
func TestCameras(t *testing.T) {
	trace := links.LTE().Draw("lte", 100, *seed, links.Memory)
	zoo := jellyfish.Synthetic(1)
	c := newCameras(zoo, Sizing{Advised: true}, 0.05, jellyfish.Headroom, Cameras(5, same(25, 100e6), 20e9, *seed), trace, 20e9, *seed)
	last, told, sizes := int64(0), 0, map[int32]bool{}
	per := make([]int, 5)
	for {
		it, ok := c.Next()
		if !ok {
			break
		}
		if it.At < last || it.Task.Arrived != it.At || it.Task.Created > it.At || it.Task.Deadline <= it.At {
			t.Fatalf("%+v after %d", *it.Task, last)
		}
		last = it.At
		per[it.Task.Client]++
		f := c.frames[it.Task.ID-1]
		sizes[f.size] = true
		if int(f.size) > told && told > 0 {
			t.Fatalf("a frame of size %d, told was %d", f.size, told)
		}
		if rate := it.Task.Link; rate < 2.8e6 || rate > 26.4e6 {
			t.Fatalf("a link of %g bits/s", rate)
		}
		if last > 10e9 && told == 0 {
			told = 9
			for i := range 5 {
				c.Advised(last, &sched.Advice{Client: i, Network: zoo[told].Name})
			}
		}
	}
	if len(sizes) < 4 {
		t.Errorf("sizes %v", sizes)
	}
	for i, n := range per {
		if want := int((20e9 - float64(c.all[i].created%40_000_000)) / 40e6); n > want+1 || n < want-130 { // starts are up to 5 s late
			t.Errorf("client %d: %d frames", i, n)
		}
	}
}

// A worker's times have the zoo's p99 at their 99th percentile.
func TestWorkerTimes(t *testing.T) {
	w := NewWorker("w", jellyfish.Synthetic(1), 0.03, *seed)
	var v []int64
	for i := range uint64(20_000) {
		v = append(v, w.time(4, 3, i))
	}
	slices.Sort(v)
	p99, want := float64(v[len(v)*99/100]), float64(w.zoo[4].P99[2])
	if math.Abs(p99/want-1) > 0.01 || float64(v[len(v)/2]) > 0.95*want {
		t.Errorf("p50 %d, p99 %.0f ns, expected %.0f", v[len(v)/2], p99, want)
	}
	if got := NewWorker("w", w.zoo, 0, 1).time(4, 3, 1); got != w.zoo[4].P99[2] {
		t.Errorf("without a spread: %d", got)
	}
}

// Only answers in time count.
func TestSeen(t *testing.T) {
	s := &seen{zoo: jellyfish.Synthetic(1), upscale: 0.5, src: &cameras{all: make([]camera, 1), frames: []sentFrame{{size: 2}, {size: 5}, {size: 9}}}, clients: make([]clientSeen, 1)}
	for i, how := range []engine.Ending{engine.OnTime, engine.OnTime, engine.Late, engine.Dropped, engine.Refused} {
		s.Ended(&engine.Record{Task: uint64(min(i, 2)) + 1, Class: 5, Ending: how}, nil)
	}
	o := s.outcome(&engine.Result{}, nil)
	want := (s.zoo[2].Accuracy+s.zoo[5].Accuracy)/2/2 + s.zoo[5].Accuracy/2
	if o.Frames != 5 || o.OnTime != 2 || math.Abs(o.Miss-0.6) > 1e-12 || math.Abs(o.Accuracy-want) > 1e-12 || o.Aligned != 0.5 {
		t.Errorf("%+v, expected an accuracy of %g", *o, want)
	}
	// A network with the frame's side does not upscale, at any place in the zoo.
	s = &seen{zoo: slices.Clone(s.zoo), upscale: 0.5, src: s.src, clients: make([]clientSeen, 1)}
	s.zoo[5].Side = s.zoo[2].Side
	s.Ended(&engine.Record{Task: 1, Class: 5, Ending: engine.OnTime}, nil)
	if o := s.outcome(&engine.Result{}, nil); o.Accuracy != s.zoo[5].Accuracy || o.Aligned != 1 {
		t.Errorf("of one side: %+v, expected an accuracy of %g", *o, s.zoo[5].Accuracy)
	}
}

// config returns a run of Jellyfish with parts that a test may change.
func config(t *testing.T, set *Setting) (engine.Config, *sched.Nested, *cameras) {
	o := jellyfish.Options{Zoo: set.Zoo, Advise: true}
	for _, c := range set.Clients {
		o.Clients = append(o.Clients, c.Registered)
	}
	nested, _, err := jellyfish.New(o, set.Workers)
	if err != nil {
		t.Fatal(err)
	}
	src := newCameras(set.Zoo, Sizing{Advised: true}, 0.05, jellyfish.Headroom, set.Clients, set.Trace, set.Ns, set.Seed)
	cfg := engine.Config{Source: src, Inputs: engine.NoInputs, Clock: engine.Measured, Policy: nested}
	for k := range set.Workers {
		cfg.Devices = append(cfg.Devices, NewWorker("w", set.Zoo, 0.03, uint64(k)))
	}
	if cfg.Networks, err = networks(set, 0, false, 1_000_000); err != nil {
		t.Fatal(err)
	}
	return cfg, nested, src
}

// The policy's answers depend only on its arguments and its state.
func TestAnswersFollowFromTheState(t *testing.T) {
	set := setting(t, "lte", 4, 15, 100e6, 10e9)
	cfg, nested, _ := config(t, set)
	twice := &enginetest.Twice{Policy: nested.Outer, T: t, Clean: func(a *sched.Action) {
		if a.Plan != nil {
			a.Thetas, a.Plan = []float32{float32(reflect.ValueOf(a.Plan.Find(context.Background())).Elem().NumField())}, nil
		}
	}}
	nested.Outer = twice
	if _, err := engine.Run(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	if twice.Asked < 1000 {
		t.Errorf("asked %d times", twice.Asked)
	}
}

// breaking is a worker with one failing batch, which needs a reset.
type breaking struct {
	*Worker
	at     int
	begins int
}

func (b *breaking) Begin(ctx context.Context, now int64, w *device.Work) (bool, error) {
	if w.Kind == device.Run {
		if b.begins++; b.begins == b.at {
			return false, &device.Failure{Scope: device.LoseDevice, Err: device.ErrHang}
		}
	}
	return b.Worker.Begin(ctx, now, w)
}

// Every request ends, batches never exceed the decided size, networks are loaded and unloaded while a worker serves, and
// a failed worker works again after its reset.
func TestPolicyOnTheEngine(t *testing.T) {
	set := setting(t, "lte", 8, 25, 150e6, 20e9)
	cfg, _, src := config(t, set)
	cfg.Devices[1] = &breaking{Worker: cfg.Devices[1].(*Worker), at: 40}
	cfg.ResetCost = 300e6
	res, err := engine.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Records) != len(src.frames) || res.Faults == 0 || res.Resets == 0 {
		t.Fatalf("%d records of %d frames, %d faults, %d resets", len(res.Records), len(src.frames), res.Faults, res.Resets)
	}
	for i := range res.Records {
		if res.Records[i].Ending == engine.Pending {
			t.Fatalf("%+v", res.Records[i])
		}
	}
	kinds, after := map[string]int{}, 0
	for i := range res.Steps {
		s := &res.Steps[i]
		kinds[s.Kind]++
		if s.Kind == "launch" && s.Device == 1 && s.At > 10e9 {
			after++
		}
		if len(s.Requests) > jellyfish.SyntheticBatch {
			t.Errorf("%+v", *s)
		}
	}
	if kinds["load"] < 10 || kinds["unload"] < 3 || kinds["assign"] < 1000 || after < 50 {
		t.Errorf("%v, %d batches on the worker that had failed", kinds, after)
	}
	share := 0
	for i := range res.Records {
		if res.Records[i].Ending == engine.OnTime {
			share++
		}
	}
	if 10*share < 8*len(res.Records) {
		t.Errorf("%d of %d on time", share, len(res.Records))
	}
}

// A client knows only ended transfers of its link: later changes of the link do not change the size of a frame. By hand:
// a transfer takes 2 s at 1 Mbit/s, and a quarter second by the estimate of 8 Mbit/s. 50 ms later a fifth is left by the
// estimate; when it has ended, its rate is known.
func TestClientsKnowNoFuture(t *testing.T) {
	m := camera{Registered: jellyfish.Registered{Rate: 10, SLO: 100e6}}
	m.est.Add(0, 8e6)
	m.onWay = []transfer{{0, 2e9, 250_000}, {2e9, 2.5e9, 100_000}}
	m.update(50e6)
	if got := m.backlog(50e6, m.est.Rate(50e6)); math.Abs(got-(200e6+100e6)) > 1 {
		t.Errorf("a backlog of %g ns, expected 300 ms by the estimate", got)
	}
	m.update(2e9 - 1)
	if got := m.est.Rate(2e9 - 1); got != 8e6 || len(m.onWay) != 2 {
		t.Errorf("before its end: %g bits/s, %d on their way", got, len(m.onWay))
	}
	m.update(2e9)
	if got := m.est.Rate(2e9); math.Abs(got-1e6) > 1 || len(m.onWay) != 1 {
		t.Errorf("at its end: %g bits/s, %d on their way", got, len(m.onWay))
	}
	// Two links differ from second 10 on: all frames created earlier have the same sizes, even if they arrive later.
	sizes := func(later int64, seed uint64) (out []int32) {
		tr := &links.Trace{Name: "step"}
		for s := range 20 {
			rate := int64(12e6)
			if s >= 10 {
				rate = later
			}
			tr.Bits = append(tr.Bits, rate)
		}
		c := newCameras(jellyfish.Synthetic(1), Sizing{Most: 15}, 0.5, jellyfish.Headroom, Cameras(1, same(25, 100e6), 20e9, seed), tr, 20e9, seed)
		c.all[0].offset, c.all[0].est = 0, bandwidth.Estimator{}
		c.all[0].est.Add(0, 12e6)
		for {
			it, ok := c.Next()
			if !ok || it.Task.Created >= 10e9 {
				return out
			}
			out = append(out, c.frames[it.Task.ID-1].size)
		}
	}
	for k := range uint64(40) {
		if a, b := sizes(3e6, *seed+k), sizes(60e6, *seed+k); len(a) < 200 || !slices.Equal(a, b) {
			t.Errorf("seed %d: %d and %d frames before the links differ, and of other sizes", *seed+k, len(a), len(b))
		}
	}
}

// A part of the bench gives the same results as the whole, with any number of parallel runs. Every claim has its runs, no
// selection is better than the best, and the search is not worse than the annealing.
func TestBench(t *testing.T) {
	c := Config{Config: frame.Config{Seeds: []uint64{*seed}, Ns: 1e9, Workers: 1}, Instances: 1, Assumed: Assume()}
	b, err := RunBench(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Workers, c.Only = 3, "fig11/lte"
	again, err := RunBench(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	part := slices.DeleteFunc(slices.Clone(b.Statements), func(s frame.Statement) bool { return !strings.HasPrefix(s.ID, c.Only) })
	if d := cmp.Diff(part, again.Statements) + cmp.Diff(b.Ratios, again.Ratios); d != "" {
		t.Error(d)
	}
	ids := map[string]bool{}
	for _, s := range b.Statements {
		if ids[s.ID] || s.Verdict == "" || s.Text == "" || s.Least == nil && s.Most == nil || s.Least != nil && s.Most != nil && *s.Least > *s.Most {
			t.Errorf("%+v", s)
		}
		ids[s.ID] = true
	}
	ours, annealing, proved := 0.0, 0.0, 0
	for _, r := range b.Ratios {
		if r.Draws < r.Instances || r.Proved > r.Instances || r.Workers == 2 && r.Proved != r.Instances || r.Clients == 16 && r.Proved != r.Instances {
			t.Errorf("%+v", r)
		}
		proved += r.Proved
		for _, n := range r.Of {
			if !(n.Mean > 0.5 && n.Mean <= 1+1e-9 && n.Least <= n.Mean+1e-9) {
				t.Errorf("%d workers, %d clients: %+v", r.Workers, r.Clients, n)
			}
		}
		annealing += r.Of[0].Mean
		ours += r.Of[1].Mean
	}
	if !slices.ContainsFunc(b.Ratios, func(r Ratio) bool { return r.Of[0].Bound != nil }) {
		t.Error("all are said to be proved, of 40 clients on 4 workers too")
	}
	if ours < annealing-1e-9 || proved < 5 {
		t.Errorf("annealing %g, search %g in all; %d proved", annealing, ours, proved)
	}
	if _, err := RunBench(context.Background(), Config{Config: frame.Config{Seeds: []uint64{1}, Ns: 1e9, Workers: 1}, Instances: 1, Traces: []string{"nowhere"}}); err == nil {
		t.Error("a trace that is not there is accepted")
	}
}

// Halving or doubling an assumed parameter changes only that parameter.
func TestAssumed(t *testing.T) {
	a := Assume()
	for _, name := range AssumedNames() {
		b, n := a.Times(name, 0.5), 0
		va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
		for i := range va.NumField() {
			if !va.Field(i).Equal(vb.Field(i)) {
				n++
				if tag := va.Type().Field(i).Tag.Get("json"); tag != name {
					t.Errorf("%s changes %s", name, tag)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s changes %d parameters", name, n)
		}
	}
	if len(AssumedNames()) != reflect.TypeFor[Assumed]().NumField() {
		t.Error("a parameter is not varied")
	}
}

// The links' memory and the clients' headroom affect a run: the drawn links, the sizes that clients choose, and the
// scheduler's expectation of these sizes. Doubled values stay in their legal range.
func TestAssumedOfLinks(t *testing.T) {
	a := Assume()
	half, twice := a.Times("memory", 0.5), a.Times("memory", 2)
	if half.Memory != links.Memory/2 || !(twice.Memory > a.Memory && twice.Memory < 1) || a.Times("headroom", 2).Headroom != 1 {
		t.Errorf("%+v, %+v, %+v", half, twice, a.Times("headroom", 2))
	}
	next := func(a Assumed) float64 { // mean change from one second to the next, Mbit/s
		set, err := Point{Trace: "lte", Workers: 2, Clients: 2, Rate: 15, SLO: 100e6}.setting(&Config{Config: frame.Config{Ns: 1e9}, Assumed: a}, *seed)
		if err != nil {
			t.Fatal(err)
		}
		sum, bits := 0.0, set.Trace.Bits
		for i := range bits[1:] {
			sum += math.Abs(float64(bits[i+1]-bits[i])) / 1e6 / float64(len(bits)-1)
		}
		return sum
	}
	if h, was, tw := next(half), next(a), next(twice); h < 1.3*was || tw > 0.7*was {
		t.Errorf("from a second to the next a link changes by %.2f Mbit/s, by %.2f with half its memory, by %.2f with twice that", was, h, tw)
	}
	narrow := &links.Trace{Name: "10", Bits: []int64{10e6}}
	// Without a scheduler clients choose smaller frames. If they send the advised size without regard to their links, the
	// scheduler expects smaller frames and has more time left.
	for _, sizing := range []Sizing{{Most: 15}, {Advised: true, Fixed: true}} {
		seen := func(a Assumed) (aligned, accuracy float64) {
			set := &Setting{Zoo: jellyfish.Synthetic(1), Workers: 2, Trace: narrow, Ns: 5e9, Seed: *seed, Clients: Cameras(2, same(15, 100e6), 5e9, *seed)}
			o, err := Run(context.Background(), set, System{Name: "own", Select: jellyfish.Search{}, Sizing: sizing, Fixed: !sizing.Advised, Static: 7}, a)
			if err != nil {
				t.Fatal(err)
			}
			return o.Aligned, o.Accuracy
		}
		align, acc := seen(a)
		alignHalf, accHalf := seen(a.Times("headroom", 0.5))
		if align == alignHalf && acc == accHalf {
			t.Errorf("%+v: half the headroom changes nothing: %.3f aligned, an accuracy of %.3f", sizing, align, acc)
		}
	}
}
