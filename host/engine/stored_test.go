// Stored schedules and results: every policy over stored latency tables and seeds, as hashes, and a few in full. A
// change of the engine must not change them.

package engine_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

var updateStored = flag.Bool("update.stored", false, "write testdata/stored anew")

// storedTables are the tables of the stored file, and a long linear one (with a boundary after every layer).
func storedTables(t testing.TB) map[string]*sched.Table {
	t.Helper()
	f, err := os.Open("testdata/stored/tables.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string][]bundle.LatencyEntry{}
	for _, row := range rows[1:] {
		var v [4]int64
		for i := range v {
			if v[i], err = strconv.ParseInt(row[2+i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		name := row[0] + "/" + row[1]
		cells[name] = append(cells[name], bundle.LatencyEntry{
			Network: enginetest.Network, First: int(v[0]), Last: int(v[1]), Batch: int(v[2]), P50: v[3], P99: v[3],
		})
	}
	out := map[string]*sched.Table{"layers": table(t, enginetest.Linear(20, 8, 900_000, 350_000))}
	for name, e := range cells {
		out[name] = table(t, e)
	}
	return out
}

// hangText matches the text of a hang, in its stored and in its present form.
var hangText = regexp.MustCompile(`^(run \d+): (context deadline exceeded|the device hangs)$`)

// storedText returns a run as text: every record, step and span, then the counts.
func storedText(t testing.TB, res *engine.Result) string {
	t.Helper()
	var b strings.Builder
	for i := range res.Records {
		r := &res.Records[i]
		why := hangText.ReplaceAllString(r.Why, "$1")
		fmt.Fprintf(&b, "request %d task %d.%d arrived %d deadline %d started %d ended %d %s exit %d class %d confidence %g logits %.16s retried %t why %q\n",
			r.ID, r.Task, r.Sample, r.Arrived, r.Deadline, r.Started, r.Ended, r.Ending, r.Exit, r.Class, r.Confidence, r.Logits, r.Retried, why)
	}
	for i := range res.Steps {
		s := &res.Steps[i]
		fmt.Fprintf(&b, "step %d %s device %d launch %d into %d segments %d..%d %v\n", s.At, s.Kind, s.Device, s.Launch, s.Into, s.First, s.Last, s.Requests)
	}
	// By their beginning: the time of a report is not part of a schedule.
	spans := slices.Clone(res.Spans)
	slices.SortStableFunc(spans, func(a, b engine.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Device, b.Device))
	})
	for i := range spans {
		s := &spans[i]
		fmt.Fprintf(&b, "span %d..%d device %d launch %d segment %d failed %t %v\n", s.Start, s.End, s.Device, s.Launch, s.Segment, s.Failed, s.Requests)
	}
	text, err := json.Marshal(res.Summary())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "busy %v samples %v\n%s\n", res.Busy, res.Samples, text)
	return b.String()
}

// storedRun is one run; make gives its configuration, new at every call.
type storedRun struct {
	name string
	make func() engine.Config
}

func storedRuns(t testing.TB) []storedRun {
	t.Helper()
	tabs := storedTables(t)
	var runs []storedRun
	inception := []float64{0.145, 0.186, 0.222, 0.447}
	layers := make([]float64, 20)
	layers[4], layers[9], layers[14], layers[19] = 0.1, 0.2, 0.2, 0.5
	for _, name := range sched.Names() {
		for _, s := range []struct {
			table string
			rate  float64
			slo   int64
			rates []float64
			seed  uint64
		}{
			{"resnet50/zc706", 15, 400, resnetRates, 1},
			{"resnet50/zc706", 25, 400, resnetRates, 2},
			{"resnet50/zcu104", 40, 100, resnetRates, 3},
			{"inceptionv3/zcu104", 55, 200, inception, 4},
			{"inceptionv3/zc706", 15, 400, inception, 5},
			{"layers", 45, 150, layers, 6},
		} {
			runs = append(runs, storedRun{
				fmt.Sprintf("%s %s %g/s %dms seed %d", name, s.table, s.rate, s.slo, s.seed),
				func() engine.Config {
					tab := tabs[s.table]
					d, err := drawn.New(tab, s.rates, s.seed, 0)
					if err != nil {
						t.Fatal(err)
					}
					times, err := load.Poisson(s.rate, 700, s.seed)
					if err != nil {
						t.Fatal(err)
					}
					return engine.Config{
						Devices:  []device.Device{d},
						Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
						Policy:   policy(t, name),
						Source: &load.Open{Times: times, Task: func(_ int, at int64) sched.Task {
							return sched.Task{Network: enginetest.Network, Deadline: at + s.slo*1e6, Theta: 0.8}
						}},
						Inputs: engine.NoInputs,
					}
				},
			})
		}
		runs = append(runs,
			storedRun{name + " closed loop", func() engine.Config { return storedClosed(t, tabs, name) }},
			storedRun{name + " faults, cancels, two networks, two devices", func() engine.Config { return storedTrouble(t, tabs, name, 2) }},
			storedRun{name + " faults, cancels, two networks, one device", func() engine.Config { return storedTrouble(t, tabs, name, 1) }},
		)
	}
	return runs
}

func storedClosed(t testing.TB, tabs map[string]*sched.Table, name string) engine.Config {
	tab := tabs["inceptionv3/zcu104"]
	cfg := config(tab, policy(t, name), nil, 1_000_000_000, func(i int) int { return int(uint64(i) * 2654435761 % 4) })
	cfg.Source = &load.Closed{Clients: 11, Tasks: 400, Think: 3_000_000, Task: func(_, n int, at int64) sched.Task {
		return sched.Task{Network: enginetest.Network, Deadline: at + 120_000_000, Theta: 0.8, Samples: 1 + n%2}
	}}
	cfg.Clock = engine.Measured
	return cfg
}

// storedTrouble: tasks of several samples for two networks, cancels, refusals, segments that fail,
// one that hangs, inputs that cannot be read.
func storedTrouble(t testing.TB, tabs map[string]*sched.Table, name string, devices int) engine.Config {
	tab := tabs["resnet50/zcu104"]
	times, err := load.Poisson(30, 500, 11)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(tab, policy(t, name), times, 150_000_000, func(i int) int { return int(uint64(i) * 2654435761 % 4) })
	inputs := cfg.Inputs
	cfg.Inputs = func(r *sched.Request) ([]device.Tensor, error) {
		if r.ID%91 == 5 {
			return nil, fmt.Errorf("input %d cannot be read", r.ID)
		}
		return inputs(r)
	}
	cfg.Devices, cfg.Networks[0].Tables = nil, nil
	rng := rand.New(rand.NewPCG(11, 7))
	for i := range devices {
		cfg.Devices = append(cfg.Devices, device.Adapt(&enginetest.Faulty{
			Blocking: &enginetest.Fake{T: tab},
			Fail:     func(int) bool { return rng.Float64() < 0.02 },
			Hang:     func(run int) bool { return run == 60+i },
		}))
		cfg.Networks[0].Tables = append(cfg.Networks[0].Tables, tab)
	}
	cfg.Networks = append(cfg.Networks, engine.Network{Name: "other", Tables: cfg.Networks[0].Tables})
	cancels := map[int]int64{}
	for i := range times {
		if rng.IntN(8) == 0 {
			cancels[i] = times[i] + rng.Int64N(300_000_000)
		}
	}
	cfg.Source = &load.Open{Times: times, Cancel: cancels, Task: func(i int, at int64) sched.Task {
		n := enginetest.Network
		if i%5 == 3 {
			n = "other"
		}
		return sched.Task{Network: n, Deadline: at + 60_000_000*int64(1+i%4), Theta: 0.8, Samples: 1 + i%3}
	}}
	cfg.Admission = func(_ int64, s *sched.State, _ *sched.Task) bool { return s.Queue.Len() < 40 }
	cfg.Watchdog.Fixed, cfg.ResetCost = 250_000_000, 5_000_000
	return cfg
}

// storedWhole lists the runs whose whole text is stored, to find where a difference begins.
func storedWhole(name string) string {
	for _, p := range []string{"serial", "fluid", "fluid+", "lazy"} {
		if name == p+" faults, cancels, two networks, one device" {
			return p + ".txt.gz"
		}
	}
	return ""
}

// Every schedule and result is, byte for byte, the stored one.
func TestSchedulesAreTheStoredOnes(t *testing.T) {
	const file = "testdata/stored/digests.json"
	want := map[string]string{}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
	} else if !*updateStored {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range storedRuns(t) {
		res, err := engine.Run(context.Background(), r.make())
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		if err := res.Check(); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		text := storedText(t, res)
		sum := sha256.Sum256([]byte(text))
		got[r.name] = hex.EncodeToString(sum[:])
		if whole := storedWhole(r.name); whole != "" {
			path := filepath.Join("testdata/stored", whole)
			if *updateStored {
				pack(t, path, text)
			}
			if line, a, b := firstDifference(unpack(t, path), text); line > 0 {
				t.Errorf("%s, line %d:\nstored %s\nnow    %s", path, line, a, b)
			}
		}
		if !*updateStored && got[r.name] != want[r.name] {
			if want[r.name] == "" {
				t.Errorf("%s: nothing is stored of it; if its policy is new, go test ./host/engine -run Stored -update.stored", r.name)
				continue
			}
			t.Errorf("%s: another schedule or other results than the stored ones", r.name)
		}
	}
	if *updateStored {
		text, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if len(got) != len(want) {
		t.Errorf("%d runs, %d are stored", len(got), len(want))
	}
}

func pack(t *testing.T, path, text string) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return string(text)
}

// firstDifference is the number, from 1, and the text of the first line that differs; 0: none.
func firstDifference(a, b string) (int, string, string) {
	if a == b {
		return 0, "", ""
	}
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1, x[i], y[i]
		}
	}
	return min(len(x), len(y)) + 1, "", ""
}
