package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/hw/configs"
)

// On the fake everything is measured once, and nothing of it is called measured.
func TestRun(t *testing.T) {
	path, err := fake.Build(filepath.Join("..", "..", "..", "..", "build", "fakecuda"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := fake.Attach(path)
	if err != nil {
		t.Fatal(err)
	}
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	var nets []*bundle.Bundle
	for seed := uint64(1); len(nets) < 3; seed++ {
		n, err := randnet.New(seed, design, randnet.All())
		if err != nil {
			t.Fatal(err)
		}
		n.Bundle.Network.Name = fmt.Sprint("net", seed)
		nets = append(nets, n.Bundle)
	}
	f, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	h.Forgive()
	h.Slow(1) // kernels last long enough to be stopped
	defer h.Slow(0)
	raw, err := bench.Run(t.Context(), bench.Config{Library: path, Networks: nets, Params: &p, N: 3, Seed: 1, Batches: []int{1, 4}})
	if err != nil {
		t.Fatal(err)
	}
	if n := h.Open(); n != 0 || len(h.Faults()) != 0 {
		t.Errorf("%d things stay open, faults %v", n, h.Faults())
	}
	if raw.Label() != "simulated" || !raw.Facts.Fake {
		t.Errorf("label %s", raw.Label())
	}
	if _, err := raw.Params(f); !errors.Is(err, params.ErrFile) {
		t.Errorf("a parameter file of what the fake shows: %v", err)
	}
	rows := map[string]bench.Row{}
	for _, r := range raw.Rows() {
		if r.N == 0 {
			t.Errorf("%s %s: no runs", r.Part, r.Key)
		}
		rows[r.Part+" "+r.Key] = r
	}
	seen := map[string]int{} // spans from a flag that was seen: which kill comes in time is the host's threads' to say
	for _, n := range []string{"1", "2", "4", "8", "16"} {
		for _, what := range []string{" SMs in two partitions", " SMs in none"} {
			if r, ok := rows["partitions size="+n+what]; !ok || r.Median != 0 {
				t.Errorf("size %s,%s: %v", n, what, r.Median)
			}
		}
		for _, mode := range []string{"reset", "wait"} {
			for _, span := range []string{"away", "whole", "gone", "began"} {
				r, ok := rows["preemption "+mode+" capacity="+n+" "+span]
				if span == "gone" || span == "began" {
					if mode == "wait" && ok {
						t.Errorf("a span from a flag, where none is set: %+v", r)
					}
					if ok && (r.Least <= 0 || r.Median > 1e9) {
						t.Errorf("preemption under %s at capacity %s, %s: %+v", mode, n, span, r)
					}
					seen[span] += r.N
					continue
				}
				if r.N == 0 || span == "away" && r.N != 3 || r.Median > 1e9 {
					t.Errorf("preemption under %s at capacity %s, %s: %+v", mode, n, span, r)
				}
			}
		}
		for _, net := range nets {
			for _, batch := range []int{1, 4} {
				if r := rows[fmt.Sprintf("latency %s units=%s batch=%d", net.Network.Name, n, batch)]; r.N != 3 || r.Least <= 0 {
					t.Errorf("latency of %s on %s units at batch %d: %+v", net.Network.Name, n, batch, r)
				}
				if r := rows[fmt.Sprintf("latency %s units=%s batch=%d kernels", net.Network.Name, n, batch)]; r.N != 3 || r.Least <= 0 {
					t.Errorf("kernels of %s on %s units at batch %d: %+v", net.Network.Name, n, batch, r)
				}
			}
		}
	}
	for _, key := range []string{
		"costs launch", "costs query", "costs signal", "costs switch", "costs partition", "costs decision", "copies 4096 up alone",
		"copies 16777216 down beside", "padding alone", "padding reset of alone", "padding reef of alone",
		"padding reef of reset", "padding reset best effort keeps", "padding reef best effort keeps", "preemption best effort batch", "preemption reset capacity=4 unseen",
		"slowdown together=2 error of learnt", "slowdown together=4 error of static",
	} {
		if r, ok := rows[key]; !ok || r.N == 0 {
			t.Errorf("no row %q", key)
		}
	}
	for _, how := range []string{"killed", "drained"} {
		if r := rows["kills "+how+" restored"]; r.N < 3 || r.Least != 1 {
			t.Errorf("launches that were %s: %+v", how, r)
		}
		if r := rows["kills "+how+" exits that tell the inputs apart"]; r.N != 1 || r.Least < 1 {
			t.Errorf("%s: exits that tell the inputs apart: %+v", how, r)
		}
	}
	if seen["gone"] == 0 || seen["began"] == 0 {
		t.Errorf("of what was killed nothing was seen: %v", seen)
	}
	dir := t.TempDir()
	if err := save(dir, raw); err != nil {
		t.Fatal(err)
	}
	replay(t, dir)
}

func save(dir string, raw *bench.Raw) error {
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		Rows []bench.Row `json:"rows"`
	}{raw.Rows()})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, bench.RawFile), b.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "summary.json"), text, 0o600))
}

// replay holds a folder's figures to its runs.
func replay(t *testing.T, dir string) *bench.Raw {
	t.Helper()
	name := filepath.Join(dir, bench.RawFile)
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	raw, err := bench.Read(name, in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Rows []bench.Row `json:"rows"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if rows := raw.Rows(); len(rows) == 0 || !reflect.DeepEqual(rows, doc.Rows) {
		t.Errorf("%s: the figures are not those of the runs", dir)
	}
	return raw
}

// What was measured and is kept under host/gpu/traces says what its runs say; so does what the fake once showed,
// which is measured by nobody and stands elsewhere.
func TestReplay(t *testing.T) {
	if raw := replay(t, filepath.Join("testdata", "simulated")); !raw.Facts.Fake || raw.Label() != "simulated" {
		t.Errorf("the fake's runs are %s", raw.Label())
	}
	kept, err := filepath.Glob(filepath.Join("..", "..", "traces", "*", bench.RawFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kept {
		raw := replay(t, filepath.Dir(name))
		if raw.Label() != "measured" {
			t.Errorf("%s: nothing that is %s stands among what was measured", name, raw.Label())
		}
		if m := raw.Made; m.Revision == "" || len(m.Networks) == 0 || m.Began.IsZero() {
			t.Errorf("%s: nobody can tell what ran: %+v", name, m)
		}
	}
	t.Logf("%d folders are kept", len(kept))
}

// Figures are those of their runs, and what was measured takes the place of what was assumed.
func TestRows(t *testing.T) {
	raw := &bench.Raw{Facts: cuda.Facts{GPU: "NVIDIA H200", Driver: "CUDA 12.4", SMs: 4, UnitSMs: 2, ClockKHz: 1_500_000}, Series: []bench.Series{
		{Part: bench.Partitions, Key: "size=1 units=0 want=2", Unit: "sm", Runs: []int64{0, 1}},
		{Part: bench.Partitions, Key: "size=1 units=1 want=2", Unit: "sm", Runs: []int64{1, 2}},
		{Part: bench.Partitions, Key: "size=1 units=2 want=2", Unit: "sm", Runs: []int64{3}},
		{Part: bench.Partitions, Key: "size=2 units=0 want=4", Unit: "sm", Runs: []int64{0, 1, 2, 3}},
		{Part: bench.Partitions, Key: "size=2 units=2 want=1", Unit: "sm", Runs: []int64{3}},
		{Part: bench.Preemption, Key: "reset capacity=1 gone", Unit: "ns", Runs: []int64{12_000, 11_000, 40_000}},
		{Part: bench.Costs, Key: "launch", Unit: "ns", Runs: []int64{9000, 5000, 7000}},
		{Part: bench.Copies, Key: "16777216 up alone", Unit: "ns", Runs: []int64{1 << 20}},
		{Part: bench.Padding, Key: "alone", Unit: "ns", Runs: []int64{100}},
		{Part: bench.Padding, Key: "reset", Unit: "ns", Runs: []int64{200}},
		{Part: bench.Padding, Key: "reef", Unit: "ns", Runs: []int64{103}},
		{Part: bench.Padding, Key: "best effort alone", Unit: "ns", Runs: []int64{50}},
		{Part: bench.Padding, Key: "reef ended", Unit: "launches", Runs: []int64{3}},
		{Part: bench.Padding, Key: "reef span", Unit: "ns", Runs: []int64{600}},
		{Part: bench.Slowdown, Key: "together=2 took", Unit: "ns", Runs: []int64{200, 100}},
		{Part: bench.Slowdown, Key: "together=2 learnt", Unit: "ns", Runs: []int64{150, 100}},
	}}
	got := map[string]float64{}
	for _, r := range raw.Rows() {
		got[r.Part+" "+r.Key] = r.Median
		if r.Key == "launch" && (r.N != 3 || r.Least != 5000 || r.Most != 9000 || r.P99 != 9000) {
			t.Errorf("%+v", r)
		}
	}
	for key, want := range map[string]float64{
		"partitions size=1 SMs in two partitions": 1, "partitions size=1 SMs in none": 0, "costs launch": 7000,
		"partitions size=2 SMs in two partitions": 1, "partitions of another size than asked for": 1, "partitions of several units on other SMs than those": 1,
		"copies 16777216 up alone": 16, "padding reef of alone": 1.03, "padding reef of reset": 0.515, "padding reef best effort keeps": 0.25, "slowdown together=2 error of learnt": 0.25,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v, expected %v", key, v, want)
		}
	}
	base, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	f, err := raw.Params(base)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	if f, err = params.Read("measured.yaml", b.Bytes()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"launch_ns": 7000, "sms": 4, "clock_ghz": 1.5, "kill_ns": 12_000, "link_up_bytes_per_ns": 16} {
		if v := f.Values[key]; v.Value != want || v.Assumed() {
			t.Errorf("%s is %+v, expected %v", key, v, want)
		}
	}
	if f.Name != raw.Facts.GPU {
		t.Errorf("it is called %s", f.Name)
	}
	for _, key := range []string{"lanes_per_sm", "sms_per_unit", "evict_ns", "dispatch_ns"} {
		if v := f.Values[key]; v != base.Values[key] {
			t.Errorf("%s was not measured, and is %+v", key, v)
		}
	}
	raw.Facts.GPU = "NVIDIA A100-SXM4-40GB" // the base is another's
	other, err := raw.Params(base)
	if err != nil {
		t.Fatal(err)
	}
	if v := other.Values["lanes_per_sm"]; other.Name != raw.Facts.GPU || !v.Assumed() || !strings.Contains(v.Source, "as H200") {
		t.Errorf("%s has %+v of another GPU", other.Name, v)
	}
	if v := other.Values["launch_ns"]; v.Value != 7000 || v.Assumed() {
		t.Errorf("what was measured is %+v", v)
	}
	if v := f.Values["dispatch_ns"]; v != base.Values["dispatch_ns"] {
		t.Errorf("what was not measured has changed: %+v", v)
	}
}

// What is measured before an error breaks it off is kept, and names that no file of runs bears are refused before
// anything is measured.
func TestEarlyEnd(t *testing.T) {
	path, err := fake.Build(filepath.Join("..", "..", "..", "..", "build", "fakecuda"))
	if err != nil {
		t.Fatal(err)
	}
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	n, err := randnet.New(1, design, randnet.All())
	if err != nil {
		t.Fatal(err)
	}
	f, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	ctx, stop := context.WithCancel(t.Context())
	cfg := bench.Config{
		Library: path, Networks: []*bundle.Bundle{n.Bundle}, Params: &p, N: 1, Seed: 1, Batches: []int{1}, Program: "p", Revision: "r",
		Tell: func(part string) {
			if part == bench.Latency {
				stop()
			}
		},
	}
	raw, err := bench.Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "latency: ") {
		t.Errorf("it ends with %v", err)
	}
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := bench.Read("early", &b)
	if err != nil || !reflect.DeepEqual(again, raw) || len(again.Rows()) == 0 {
		t.Fatalf("what was kept is %+v, %v", again, err)
	}
	s, err := n.Bundle.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	if m := again.Made; m.Program != "p" || m.Revision != "r" || m.N != 1 || m.Began.IsZero() || !slices.Equal(m.Parts, []string{bench.Partitions}) ||
		!slices.Equal(m.Networks, []bench.Network{{Name: n.Bundle.Network.Name, Bundle: s.BundleHash}}) {
		t.Errorf("it was made of %+v", m)
	}
	cfg.Masks, cfg.Tell = &cuda.Masks{Driver: "999.0.1"}, nil
	if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, driver.ErrOffset) || raw == nil || len(raw.Series) != 0 {
		t.Errorf("masks of a driver that is not known: %v", err)
	}
	cfg.Masks = nil
	for _, name := range []string{"a,b", "a\nb", "a\rb"} {
		n.Bundle.Network.Name = name
		if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, device.ErrRequest) || raw != nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("network %q: %v", name, err)
		}
		if err := (&bench.Raw{Series: []bench.Series{{Part: "p", Key: name, Unit: "ns"}}}).Write(&b); !errors.Is(err, bench.ErrRaw) {
			t.Errorf("runs of %q are written: %v", name, err)
		}
	}
}

// A part ends by itself once it has a few runs of each thing, and no other is measured than those that are asked for.
func TestParts(t *testing.T) {
	path, err := fake.Build(filepath.Join("..", "..", "..", "..", "build", "fakecuda"))
	if err != nil {
		t.Fatal(err)
	}
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	n, err := randnet.New(1, design, randnet.All())
	if err != nil {
		t.Fatal(err)
	}
	f, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	cfg := bench.Config{Library: path, Networks: []*bundle.Bundle{n.Bundle}, Params: &p, N: 25, Seed: 1, Batches: []int{1}, For: 1, Parts: []string{bench.Copies, bench.Costs, bench.Latency}}
	raw, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(raw.Made.Parts, []string{bench.Latency, bench.Costs, bench.Copies}) || raw.Made.For != "1ns" {
		t.Errorf("it was made of %+v", raw.Made)
	}
	for _, s := range raw.Series {
		if want := 10; len(s.Runs) != want && s.Key != "partition" || !slices.Contains(cfg.Parts, s.Part) {
			t.Errorf("%s %s: %d runs, expected %d", s.Part, s.Key, len(s.Runs), want)
		}
	}
	cfg.Parts, cfg.For = []string{bench.Costs}, 0
	if raw, err = bench.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, s := range raw.Series {
		if len(s.Runs) != cfg.N && s.Key != "partition" {
			t.Errorf("%s %s: %d runs, expected all %d", s.Part, s.Key, len(s.Runs), cfg.N)
		}
	}
	cfg.Parts = []string{"parts"}
	if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, device.ErrRequest) || raw != nil || !strings.Contains(err.Error(), "slowdown") {
		t.Errorf("a part that there is not: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	raw := &bench.Raw{Facts: cuda.Facts{SMs: 4}, Series: []bench.Series{{Part: "costs", Key: "launch", Unit: "ns", Runs: []int64{1, 2}}}}
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:len(b.Bytes())-9])
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := bench.Read("fuzz", bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, bench.ErrRaw) || !strings.Contains(err.Error(), "fuzz, line ") {
				t.Errorf("%v names no file and line", err)
			}
			return
		}
		r.Rows()
		var out bytes.Buffer
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := bench.Read("again", &out)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("written and read again it is another: %v", err)
		}
	})
}
