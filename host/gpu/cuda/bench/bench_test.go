package bench_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
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
		if r.N == 0 && r.Part != bench.Preemption {
			t.Errorf("%s %s: no runs", r.Part, r.Key)
		}
		rows[r.Part+" "+r.Key] = r
	}
	for _, n := range []string{"1", "2", "4", "8", "16"} {
		for _, what := range []string{" SMs in two partitions", " SMs in none"} {
			if r, ok := rows["partitions size="+n+what]; !ok || r.Median != 0 {
				t.Errorf("size %s,%s: %v", n, what, r.Median)
			}
		}
		for _, mode := range []string{"reset", "wait"} {
			if _, ok := rows["preemption "+mode+" capacity="+n]; !ok {
				t.Errorf("no preemption under %s at capacity %s", mode, n)
			}
		}
		for _, net := range nets {
			for _, batch := range []int{1, 4} {
				if r := rows[fmt.Sprintf("latency %s units=%s batch=%d", net.Network.Name, n, batch)]; r.N != 3 || r.Least <= 0 {
					t.Errorf("latency of %s on %s units at batch %d: %+v", net.Network.Name, n, batch, r)
				}
			}
		}
	}
	for _, key := range []string{
		"costs launch", "costs query", "costs signal", "costs switch", "costs partition", "costs decision", "copies 4096 up alone",
		"copies 16777216 down beside", "padding alone", "padding reset of alone", "padding reef of alone",
		"slowdown together=2 error of learnt", "slowdown together=4 error of static",
	} {
		if r, ok := rows[key]; !ok || r.N == 0 {
			t.Errorf("no row %q", key)
		}
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
		if raw := replay(t, filepath.Dir(name)); raw.Label() != "measured" {
			t.Errorf("%s: nothing that is %s stands among what was measured", name, raw.Label())
		}
	}
	t.Logf("%d folders are kept", len(kept))
}

// Figures are those of their runs, and what was measured takes the place of what was assumed.
func TestRows(t *testing.T) {
	raw := &bench.Raw{Facts: cuda.Facts{GPU: "H", Driver: "CUDA 12.4", SMs: 4, UnitSMs: 2, ClockKHz: 1_500_000}, Series: []bench.Series{
		{Part: bench.Partitions, Key: "size=1 units=0 want=2", Unit: "sm", Runs: []int64{0, 1}},
		{Part: bench.Partitions, Key: "size=1 units=1 want=2", Unit: "sm", Runs: []int64{1, 2}},
		{Part: bench.Costs, Key: "launch", Unit: "ns", Runs: []int64{9000, 5000, 7000}},
		{Part: bench.Copies, Key: "16777216 up alone", Unit: "ns", Runs: []int64{1 << 20}},
		{Part: bench.Padding, Key: "alone", Unit: "ns", Runs: []int64{100}},
		{Part: bench.Padding, Key: "reef", Unit: "ns", Runs: []int64{103}},
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
		"partitions size=1 SMs in two partitions": 1, "partitions size=1 SMs in none": 1, "costs launch": 7000,
		"copies 16777216 up alone": 16, "padding reef of alone": 1.03, "slowdown together=2 error of learnt": 0.25,
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
	for key, want := range map[string]float64{"launch_ns": 7000, "sms": 4, "sms_per_unit": 2, "clock_ghz": 1.5, "link_up_bytes_per_ns": 16} {
		if v := f.Values[key]; v.Value != want || v.Assumed() {
			t.Errorf("%s is %+v, expected %v", key, v, want)
		}
	}
	if v := f.Values["dispatch_ns"]; v != base.Values["dispatch_ns"] {
		t.Errorf("what was not measured has changed: %+v", v)
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
