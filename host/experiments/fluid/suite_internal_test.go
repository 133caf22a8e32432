package fluid

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/shard"
)

// fakes are models without a network: four exits, a segment of 1 + 0.4 * batch units.
type fakes struct {
	unit  int64 // ns
	asked atomic.Int64
	fail  error
}

func (f *fakes) Model(_ context.Context, k ModelKey) (*Model, error) {
	f.asked.Add(1)
	if f.fail != nil {
		return nil, f.fail
	}
	unit := f.unit
	if unit == 0 {
		unit = 6 * ms
	}
	switch k.Mapping { // as a rule, the less is batched the slower
	case MappingFC:
		unit += unit / 5
	case MappingR, MappingP:
		unit += unit / 10
	}
	per := 1 // segments between exits
	if k.Layerwise {
		per = 3
	}
	m := &Model{Key: k, PeakMACs: 1e11, ClockHz: 1e8, TR: 1, TP: 7, TC: 128, Double: 16 * unit}
	var entries []bundle.LatencyEntry
	for s := range 4 * per {
		exit := -1
		if s%per == per-1 {
			exit = s / per
		}
		m.MACs, m.Layers, m.Exit = append(m.MACs, 1e9/int64(per)), append(m.Layers, 15/per), append(m.Exit, exit)
		for last := s; last < 4*per; last++ {
			for b := 1; b <= 8; b++ {
				ns := int64(last-s+1) * unit * int64(10+4*b) / 14 / int64(per)
				entries = append(entries, bundle.LatencyEntry{Network: k.Network, First: s, Last: last, Batch: b, P50: ns, P99: ns})
			}
		}
	}
	var err error
	m.Table, err = sched.NewTable(entries, k.Network)
	return m, err
}

func model(t *testing.T, k ModelKey) *Model {
	t.Helper()
	m, err := (&fakes{}).Model(context.Background(), k)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var base = Setting{Network: "resnet50", Board: "zc706", Rate: 15, SLO: 200 * ms}

func TestSettingNames(t *testing.T) {
	for want, s := range map[string]Setting{
		"inceptionv3/zcu104/40/200ms": {Network: "inceptionv3", Board: "zcu104", Rate: 40, SLO: 200 * ms},
		"resnet50/zc706/7.5/1.5s/4.2GBps/gamma:cv=2/exits=none/bmax=4": {
			Network: "resnet50", Board: "zc706", Rate: 7.5, SLO: 1500 * ms, Bandwidth: 4.2, Arrivals: "gamma:cv=2", Exits: "none", BMax: 4,
		},
	} {
		if s.String() != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
	seen := map[string]Setting{}
	for _, b := range Benches() {
		for _, s := range b.Settings {
			if o, ok := seen[s.String()]; ok && o != s {
				t.Errorf("%s names two settings", s)
			}
			seen[s.String()] = s
		}
	}
}

// Every published value belongs to a setting, a policy and a metric of table2.
func TestPublishedValuesAreShown(t *testing.T) {
	benches, err := Select([]string{"table2"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range benches[0].Settings {
		for _, p := range []string{"fluid", "lazy"} {
			for _, m := range numbers {
				if v := Published(s, p, m.Name); v != nil && s.Bandwidth == 0 {
					n++
				}
			}
		}
	}
	if n != 16 {
		t.Errorf("%d published values are shown, table II has 16", n)
	}
	held := HeldOut
	if held(stringent[0], "fluid") || held(stringent[1], "lazy") || !held(stringent[2], "fluid") || !held(along(stringent[0], 20)[0], "fluid") {
		t.Error("the bandwidth was fitted on the two published rows, and on nothing else")
	}
	if held(stringent[2], "fluid+") || held(withBandwidth(stringent, NominalBandwidth)[2], "fluid+") || !held(along(fig7Base, 12)[0], "fluid+") {
		t.Error("what fluid+ was developed on is held out for it, or what it was not is not")
	}
	for _, s := range unseen() {
		if !held(s, "fluid+") || !held(s, "fluid") {
			t.Errorf("%s was put aside, and is not held out", s)
		}
	}
}

func TestSelect(t *testing.T) {
	all, err := Select([]string{"all", "fig7"})
	if err != nil || len(all) != len(Benches()) {
		t.Errorf("%d benches, %v", len(all), err)
	}
	for _, names := range [][]string{{"fig2"}, nil} {
		if _, err := Select(names); !errors.Is(err, experiments.ErrSetup) || !strings.Contains(err.Error(), "table2") {
			t.Errorf("%v: %v", names, err)
		}
	}
}

func TestBadCases(t *testing.T) {
	m := model(t, ModelKey{Network: "resnet50"})
	with := func(f func(*Setting)) Setting { s := base; f(&s); return s }
	for _, c := range []struct {
		name string
		s    Setting
		n    int
		m    *Model
		want error
	}{
		{"zero SLO", with(func(s *Setting) { s.SLO = 0 }), 10, m, load.ErrSLO},
		{"negative SLO", with(func(s *Setting) { s.SLO = -1 }), 10, m, load.ErrSLO},
		{"1e9 arrivals a second", with(func(s *Setting) { s.Rate = 1e9 }), 10, m, load.ErrRate},
		{"no rate", with(func(s *Setting) { s.Rate = 0 }), 10, m, load.ErrRate},
		{"unknown exits", with(func(s *Setting) { s.Exits = "x" }), 10, m, sched.ErrRates},
		{"unknown arrivals", with(func(s *Setting) { s.Arrivals = "x" }), 10, m, load.ErrLoad},
		{"no clients", with(func(s *Setting) { s.Arrivals = "closed:0" }), 10, m, load.ErrLoad},
		{"unknown trace", with(func(s *Setting) { s.Arrivals = "trace:x" }), 10, m, load.ErrLoad},
		{"a batch beyond the table", with(func(s *Setting) { s.BMax = 16 }), 10, m, experiments.ErrSetup},
		{"no requests", base, 0, m, experiments.ErrSetup},
		{"no model", base, 10, nil, experiments.ErrSetup},
		{"no table", base, 10, &Model{MACs: []int64{1}, PeakMACs: 1}, experiments.ErrSetup},
		{"no MACs", base, 10, &Model{Table: m.Table, PeakMACs: 1}, experiments.ErrSetup},
		{"no peak", base, 10, &Model{Table: m.Table, MACs: m.MACs}, experiments.ErrSetup},
		{"an image lacks an exit", base, 10, &Model{Table: m.Table, MACs: m.MACs, PeakMACs: 1, Images: []Image{{}}}, experiments.ErrSetup},
	} {
		k := Case{Setting: c.s, Policy: "serial", Seed: 1, N: c.n}
		if r, err := k.Run(context.Background(), c.m, nil); r != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", c.name, r, err)
		}
	}
	k := Case{Setting: base, Policy: "none", Seed: 1, N: 1}
	if _, err := k.Run(context.Background(), m, nil); !errors.Is(err, sched.ErrUnknownPolicy) {
		t.Error(err)
	}
	// An error about a missing cell names the cell.
	var entries []bundle.LatencyEntry
	for b := 1; b <= 2; b++ {
		entries = append(entries, bundle.LatencyEntry{Network: "x", First: 0, Last: 1, Batch: b, P50: 1})
	}
	if _, err := sched.NewTable(entries, "x"); !errors.Is(err, sched.ErrTable) {
		t.Error(err)
	}
}

// One request: every number follows by hand.
func TestMetricsOfOneRequest(t *testing.T) {
	m := model(t, ModelKey{Network: "resnet50"})
	s := base
	s.Exits = "none"
	k := Case{Setting: s, Policy: "serial", Seed: 1, N: 1}
	r, err := k.Run(context.Background(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	alone := float64(m.Table.Alone())
	if r.Avg != alone || r.P50 != alone || r.P99 != alone || r.Violations != 0 || !slices.Equal(r.Exits, []int{0, 0, 0, 1}) {
		t.Errorf("%+v", r)
	}
	if want := 4e9 / (1e11 * alone / 1e9); math.Abs(r.MACUtil-want) > 1e-12 || math.Abs(r.Throughput-r.Busy*want) > 1e-12 {
		t.Errorf("MAC utilisation %g, expected %g; over all the time %g", r.MACUtil, want, r.Throughput)
	}
	at, err := load.Poisson(s.Rate, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	end := float64(at[0]) + alone
	if math.Abs(r.Busy-alone/end) > 1e-12 || math.Abs(r.Rate-1e9/end) > 1e-9 || r.Goodput != r.Rate {
		t.Errorf("busy %g, rate %g, goodput %g", r.Busy, r.Rate, r.Goodput)
	}
}

// The work of the same requests does not depend on who batches them.
func TestWorkIsConserved(t *testing.T) {
	m := model(t, ModelKey{Network: "resnet50"})
	var per []float64
	for _, policy := range []string{"serial", "fluid"} {
		s := base
		s.Rate = 90
		k := Case{Setting: s, Policy: policy, Seed: 1, N: 2000}
		r, err := k.Run(context.Background(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if policy == "fluid" && r.MeanBatch < 1.5 {
			t.Errorf("nothing is batched: %+v", r)
		}
		per = append(per, r.Throughput/r.Rate) // MACs a request over the peak
	}
	if math.Abs(per[0]/per[1]-1) > 1e-9 {
		t.Errorf("serial does %g of the peak a request, fluid %g", per[0], per[1])
	}
}

// Boundaries between layers are not exits: neither the requests that leave nor the work done depend on them.
func TestLayerwise(t *testing.T) {
	var all []*Metrics
	for _, layerwise := range []bool{false, true} {
		m := model(t, ModelKey{Network: "resnet50", Layerwise: layerwise})
		k := Case{Setting: base, Policy: "serial", Seed: 1, N: 3000}
		r, err := k.Run(context.Background(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if d := cmp.Diff(all[0].Exits, all[1].Exits); d != "" {
		t.Error(d)
	}
	// A third of a segment in ns is rounded down: a few ns of 24 ms.
	if a, b := all[0], all[1]; math.Abs(a.Avg/b.Avg-1) > 1e-5 || math.Abs(a.MACUtil/b.MACUtil-1) > 1e-5 || b.Calls < 2*a.Calls {
		t.Errorf("by exits %+v\nby layers %+v", a, b)
	}
	for _, p := range lazies {
		k := Case{Setting: base, Policy: p, Seed: 1, N: 10}
		if key, err := k.key(); err == nil && (!key.Layerwise || key.Mapping != MappingR || key.Bandwidth != ServingBandwidth("zc706")) {
			t.Errorf("%s is asked at every layer: %+v", p, key)
		}
	}
}

func TestImagesDecide(t *testing.T) {
	m := model(t, ModelKey{Network: "x"})
	m.Theta = 0.8
	m.Images = []Image{
		{Confidence: []float32{0.9, 0.9, 0.9, 0.9}, Right: []bool{true, true, true, true}},
		{Confidence: []float32{0.1, 0.2, 0.8, 0.9}, Right: []bool{true, true, false, true}},
		{Confidence: []float32{0.1, 0.2, 0.3, 0.4}, Right: []bool{true, false, false, true}},
	}
	s := base
	s.Network = "x"
	k := Case{Setting: s, Policy: "fluid", Seed: 1, N: 300}
	r, err := k.Run(context.Background(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int{100, 0, 100, 100}, r.Exits); d != "" || r.Accuracy == nil || math.Abs(*r.Accuracy-2.0/3) > 1e-12 {
		t.Errorf("%s, accuracy %v", d, r.Accuracy)
	}
}

func TestClosedLoopAndTrace(t *testing.T) {
	m := model(t, ModelKey{Network: "resnet50"})
	s := base
	s.Arrivals = "closed:1"
	k := Case{Setting: s, Policy: "serial", Seed: 1, N: 500}
	r, err := k.Run(context.Background(), m, nil)
	if err != nil || math.Abs(r.Busy-1) > 1e-9 || r.P99 > float64(m.Table.Alone()) {
		t.Errorf("one client keeps the device busy and never waits: %+v, %v", r, err)
	}
	s.Arrivals = "trace:t"
	k = Case{Setting: s, Policy: "serial", Seed: 1, N: 500}
	r, err = k.Run(context.Background(), m, map[string][]int64{"t": {5, 6, 9}})
	if err != nil || r.Requests != 3 || math.Abs(r.Rate-3/(2/s.Rate+0.024)) > 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// small is a short suite of a few benches.
func small(t *testing.T, models Models, store *Store, workers int) SuiteConfig {
	t.Helper()
	benches, err := Select([]string{"table2", "fig9", "table1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range benches {
		benches[i].Variants = variants("serial", "lazy", "fluid")
	}
	return SuiteConfig{Benches: benches, Seeds: []uint64{1, 2}, N: 60, Workers: workers, Models: models, Store: store}
}

func document(t *testing.T, s *Suite) []byte {
	t.Helper()
	st, err := s.Statements(context.Background(), frame.Config{Only: "table1"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(struct{ R, S, P any }{s.Rows, st, s.Pictures(&s.Benches[0])})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Runs that several processes do are one process's suite.
func TestShards(t *testing.T) {
	q := shard.NewQuestion("test", "1")
	q.Args, q.Shards = []string{"bench"}, 3
	dir, ctx := t.TempDir(), context.Background()
	suite := func(models *fakes, r *shard.Run) *Suite {
		c := small(t, models, nil, 1)
		c.Shards = r
		s, err := RunSuite(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := 1; i <= q.Shards; i++ {
		r, _, err := shard.Begin(dir, q, shard.Range{First: i, Last: i, N: q.Shards})
		if err != nil {
			t.Fatal(err)
		}
		if s := suite(&fakes{}, r); s != nil {
			t.Fatal("a shard goes on as merge does")
		}
	}
	r, err := shard.Merge(dir, q)
	if err != nil {
		t.Fatal(err)
	}
	if got := document(t, suite(&fakes{}, r)); !bytes.Equal(got, document(t, suite(&fakes{}, nil))) {
		t.Errorf("of one process another result than %s", got)
	}
}

func TestSuiteDoesNotDependOnWorkersOrInterruptions(t *testing.T) {
	ctx := context.Background()
	run := func(ctx context.Context, c SuiteConfig) (*Suite, error) { return RunSuite(ctx, c) }
	first, err := run(ctx, small(t, &fakes{}, nil, 1))
	if err != nil {
		t.Fatal(err)
	}
	want := document(t, first)
	for _, workers := range []int{1, 3, 8} {
		s, err := run(ctx, small(t, &fakes{}, nil, workers))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, document(t, s)) {
			t.Errorf("%d workers give another result", workers)
		}
	}
	// Interrupted after 20 runs, and again after 20 more.
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	var kept int
	for range 2 {
		store, err := OpenStore(path, "p")
		if err != nil {
			t.Fatal(err)
		}
		if store.Loaded() < kept {
			t.Errorf("%d runs kept, then %d", kept, store.Loaded())
		}
		kept = store.Loaded()
		stop, cancel := context.WithCancel(ctx)
		c := small(t, &fakes{}, store, 2)
		c.Progress = func(done, _ int) {
			if done == kept+20 {
				cancel()
			}
		}
		if s, err := run(stop, c); s != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted suite gives %v, %v", s, err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	store, err := OpenStore(path, "p")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if store.Loaded() < 40 {
		t.Errorf("%d runs were kept", store.Loaded())
	}
	s, err := run(ctx, small(t, &fakes{}, store, 2))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, document(t, s)) {
		t.Error("an interrupted suite that went on gives another result")
	}
}

// A line that is incomplete, or from another program or table, is not used as a result.
func TestStoreTakesNothingPartial(t *testing.T) {
	m := model(t, ModelKey{Network: "resnet50"})
	k := Case{Setting: base, Policy: "serial", Seed: 1, N: 50}
	r, err := k.Run(context.Background(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sub", "runs.jsonl")
	open := func(program string) *Store {
		s, err := OpenStore(path, program)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open("p")
	if err := s.put(&k, m, r); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, open("p").get(&k, m)); d != "" {
		t.Errorf("a kept result differs: %s", d)
	}
	other := k
	other.Seed = 2
	slow, err := (&fakes{unit: 7 * ms}).Model(context.Background(), m.Key)
	if err != nil {
		t.Fatal(err)
	}
	if open("q").get(&k, m) != nil || open("p").get(&other, m) != nil || open("p").get(&k, slow) != nil {
		t.Error("a result of another program, case or table is taken")
	}
	for cut := range len(whole) {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := open("p")
		if s.Loaded() != 0 {
			t.Fatalf("%d of %d bytes are taken for a result", cut, len(whole))
		}
		if cut%40 == 0 { // it continues after the truncated line
			if err := s.put(&k, m, r); err != nil {
				t.Fatal(err)
			}
			if open("p").Loaded() != 1 {
				t.Fatalf("after %d bytes of rest the next result is lost", cut)
			}
		}
	}
	for _, old := range []string{"avg_ns\":", "\"requests\":5"} {
		spoiled := bytes.Replace(whole, []byte(old), []byte(old+"1"), 1)
		if err := os.WriteFile(path, spoiled, 0o600); err != nil {
			t.Fatal(err)
		}
		if open("p").Loaded() != 0 {
			t.Errorf("a spoiled result is taken (%s)", old)
		}
	}
	if _, err := OpenStore(filepath.Join(path, "x"), "p"); err == nil {
		t.Error("a file is taken for a folder")
	}
}

func TestSuiteFails(t *testing.T) {
	boom := errors.New("boom")
	if _, err := RunSuite(context.Background(), small(t, &fakes{fail: boom}, nil, 3)); !errors.Is(err, boom) {
		t.Error(err)
	}
	for _, c := range []SuiteConfig{{}, {Benches: Benches(), Seeds: []uint64{1}, N: 0, Models: &fakes{}}, {Benches: Benches(), Seeds: []uint64{1}, N: 1e9, Models: &fakes{}}} {
		if _, err := RunSuite(context.Background(), c); !errors.Is(err, experiments.ErrSetup) {
			t.Error(err)
		}
	}
}

// Every bench runs with every policy of the registry, and every row is a number.
func TestAllBenches(t *testing.T) {
	benches := append(Benches(), TraceBench([]string{"t"}))
	images := &withImages{}
	s, err := RunSuite(context.Background(), SuiteConfig{
		Benches: benches, Seeds: []uint64{1}, N: 40, Workers: 2, Models: images, Traces: map[string][]int64{"t": {0, 1, 5, 6, 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	per := map[string]int{}
	for _, r := range s.Rows {
		per[r.Bench]++
		if math.IsNaN(r.Ours) || math.IsInf(r.Ours, 0) || r.Setting == "" || r.Policy == "" || r.Metric == "" || r.CI95 != nil {
			t.Fatalf("%+v", r)
		}
	}
	for _, b := range benches {
		if per[b.Name] == 0 {
			t.Errorf("bench %s has no row", b.Name)
		}
		for _, p := range s.Pictures(&b) {
			if len(p.Series) == 0 {
				t.Errorf("%s shows nothing", p.Name)
			}
		}
	}
	st, err := s.Statements(context.Background(), frame.Config{})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := frame.Book(book)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range st {
		if x.Verdict != frame.OneSeed && x.Verdict != frame.NotTried && !claims[i].Exact && x.ID != "abstract/violations" { // nobody is late in 40 requests
			t.Errorf("%+v", x)
		}
	}
	if len(st) != len(claims) {
		t.Errorf("%d statements of %d claims", len(st), len(claims))
	}
}

// withImages adds images to the trained network.
type withImages struct{ fakes }

func (w *withImages) Model(ctx context.Context, k ModelKey) (*Model, error) {
	m, err := w.fakes.Model(ctx, k)
	if err == nil && k.Network == RealNetwork {
		m.Theta = 0.8
		m.Images = []Image{{Confidence: []float32{0.1, 0.9, 0.9, 0.9}, Right: []bool{true, true, true, true}}}
	}
	return m, err
}

// The bounds of table II's claims are tested on known numbers: the published values hold.
func TestTable2Claims(t *testing.T) {
	verdicts := func(factor float64) map[string]string {
		s := &Suite{SuiteConfig: SuiteConfig{Seeds: []uint64{1, 2, 3, 4, 5, 6}, N: 1, Models: &fakes{unit: 277 * ms / 16}}, results: map[Case]*Metrics{}}
		for _, set := range stringent {
			for _, p := range []string{"fluid", "lazy", "lazy-idle"} {
				m := &Metrics{Avg: *Published(set, p, "avg_ns"), Violations: *Published(set, p, "violation_rate")}
				if p == "fluid" {
					m.Avg *= factor
				}
				for _, seed := range s.Seeds {
					s.results[Case{Setting: set, Policy: p, Seed: seed, N: 1}] = m
					s.results[Case{Setting: set, Policy: p, Mapping: MappingFluid, Seed: seed, N: 1}] = m
					s.results[Case{Setting: set, Policy: p, Mapping: MappingROwn, Seed: seed, N: 1}] = m
				}
			}
		}
		out := map[string]string{}
		for _, only := range []string{"table2/res", "table2/inc", "batch16"} {
			st, err := s.Statements(context.Background(), frame.Config{Only: only})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range st {
				out[x.ID] = x.Verdict
			}
		}
		return out
	}
	exact := verdicts(1)
	if len(exact) != 66 {
		t.Errorf("%d statements", len(exact))
	}
	for id, v := range exact {
		if v != frame.Holds {
			t.Errorf("%s %s for the published numbers", id, v)
		}
	}
	for factor, want := range map[float64]string{1.14: frame.Holds, 0.86: frame.Holds, 1.16: frame.Fails, 0.84: frame.Fails} {
		v := verdicts(factor)
		for _, set := range stringent {
			if id := fmt.Sprintf("table2/%s/fluid/avg_ms", set); v[id] != want {
				t.Errorf("%s at %g of the published average: %s", id, factor, v[id])
			}
		}
	}
	v := verdicts(3)
	for _, p := range lazies {
		if v["table2/resnet50/zc706/15/200ms/order/"+p] != frame.Fails || v["table2/resnet50/zc706/15/200ms/ratio/"+p] != frame.Fails {
			t.Errorf("fluid above %s is taken for the published order", p)
		}
	}
}

// Claims make the runs that they are about and no bench has, each once, as the benches would.
func TestClaimsRun(t *testing.T) {
	suite := func(names ...string) *Suite {
		c := SuiteConfig{Seeds: []uint64{1, 2}, N: 20, Workers: 2, Models: &fakes{}}
		if len(names) > 0 {
			all, err := Select(names)
			if err == nil {
				c.Benches, err = Only(all, append(lazies, "fluid"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s, err := RunSuite(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	whole, bare := suite("table2", "own", "ablation"), suite()
	before := len(whole.results)
	var all [2][]frame.Statement
	for i, s := range []*Suite{whole, bare} {
		var err error
		if all[i], err = s.Statements(context.Background(), frame.Config{Only: "table2", Workers: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(all[0], all[1]); d != "" || len(whole.results) != before || len(bare.results) != 2*4*6 {
		t.Errorf("%s; %d runs became %d, and of claims alone there are %d", d, before, len(whole.results), len(bare.results))
	}
}

// --with changes the bandwidth of one board's settings only.
func TestWith(t *testing.T) {
	s := &Suite{SuiteConfig: SuiteConfig{Seeds: []uint64{1}, N: 20, Models: &fakes{}}, results: map[Case]*Metrics{}}
	if _, err := s.Statements(context.Background(), frame.Config{Only: "table2/resnet50", Workers: 1, With: &frame.Change{Key: "zc706", By: 0.5}}); err != nil {
		t.Fatal(err)
	}
	other := map[string]int{}
	for c := range s.results {
		if want := map[string]float64{"zc706": 1.1}[c.Setting.Board]; c.Setting.Bandwidth != want {
			t.Errorf("%v: %g GB/s are expected", c.Setting, want)
		}
		other[c.Setting.Board]++
	}
	if other["zc706"] == 0 || other["zcu104"] == 0 {
		t.Errorf("runs by board: %v", other)
	}
	if _, err := s.Statements(context.Background(), frame.Config{Only: "table2/resnet50", With: &frame.Change{Key: "dram", By: 1}}); !errors.Is(err, frame.ErrWith) {
		t.Errorf("an unknown parameter: %v", err)
	}
}

// Only keeps the named policies, under every mapping, and leaves no bench empty.
func TestOnly(t *testing.T) {
	benches, err := Select([]string{"ablation", "table1", "table2"})
	if err != nil {
		t.Fatal(err)
	}
	before := len(benches[0].Variants)
	few, err := Only(benches, []string{"fluid", Baseline})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range few {
		want := map[string]int{"table2": 2, "table1": 0, "ablation": 10}[b.Name] // ablation: five mappings each
		if len(b.Variants) != want {
			t.Errorf("%s has %d variants, want %d: %v", b.Name, len(b.Variants), want, b.Variants)
		}
	}
	if len(benches[0].Variants) != before {
		t.Error("the benches that were given have changed")
	}
	for _, bad := range [][]string{{"fluid", "nonsense"}, {"edf"}} { // ablation has no edf
		if _, err := Only(benches, bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// A paired difference that is larger than its interval counts, one that is not does not.
func TestPlus(t *testing.T) {
	rows := func(diff ...float64) map[string]float64 {
		s := &Suite{SuiteConfig: SuiteConfig{Benches: []Bench{{Name: "x", Settings: stringent[:1]}}, N: 1}, results: map[Case]*Metrics{}}
		for i, d := range diff {
			seed := uint64(i + 1)
			s.Seeds = append(s.Seeds, seed)
			s.results[Case{Setting: stringent[0], Policy: "fluid", Seed: seed, N: 1}] = &Metrics{Avg: 100 * float64(i+1), P99: 200, Violations: 0.10}
			s.results[Case{Setting: stringent[0], Policy: "fluid+", Seed: seed, N: 1}] = &Metrics{Avg: 100*float64(i+1) + d, P99: 190, Violations: 0.05}
		}
		out := map[string]float64{}
		for _, r := range s.plus("fluid+") {
			out[r.Setting+" "+r.Metric] = r.Ours
		}
		return out
	}
	for _, c := range []struct {
		diff  []float64
		worse float64
	}{{[]float64{5, 5.1, 4.9}, 1}, {[]float64{5, -4, 6}, 0}, {[]float64{-60, -60, -60}, 0}, {[]float64{1}, 1}} {
		if r := rows(c.diff...); r["developed worse"] != c.worse || r["developed settings"] != 1 || math.Abs(r["developed violations_change"]+0.5) > 1e-9 || math.Abs(r["developed p99_change"]+0.05) > 1e-9 {
			t.Errorf("%v: %v", c.diff, r)
		}
	}
}

func TestModelNumbers(t *testing.T) {
	m := model(t, ModelKey{Network: "resnet50", Layerwise: true})
	rates := publishedRates["resnet50"]
	m.Pools = make([]int64, 12)
	for s := range m.Pools {
		m.Pools[s] = m.Table.At(s, s, 8) / 2
	}
	got, twice := m.full(rates)
	if want := 8e9 / (3.419 * float64(m.Table.At(0, 2, 8))); math.Abs(got/want-1) > 1e-5 || math.Abs(twice/got-2) > 1e-5 {
		t.Errorf("%g a second at full batches, %g if half of it took no time, expected %g", got, twice, want)
	}
	a := m.digest()
	m.MACs[0]++
	if a == m.digest() {
		t.Error("the digest does not see the MACs")
	}
}

// full returns the rate, in requests a second, of a device that runs only full batches, and the rate if pools took no
// time.
func (m *Model) full(rates []float64) (all, noPools float64) {
	sum, pools, b := 0.0, 0.0, m.Table.MaxBatch()
	for s := range m.Table.Segments() {
		sum += m.share(rates, s) * float64(m.Table.At(s, s, b)) / float64(b)
		if s < len(m.Pools) {
			pools += m.share(rates, s) * float64(m.Pools[s]) / float64(b)
		}
	}
	return 1e9 / sum, 1e9 / (sum - pools)
}
