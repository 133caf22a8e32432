package bench_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

var update = flag.Bool("bench.update", false, "keep what the fake shows today")

// On the fake every part runs once, and no result is labelled measured.
func TestRun(t *testing.T) {
	path, h := fake.Rig(t, fake.Build)
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
	const few = 2
	h.Slow(1) // kernels last long enough to be stopped
	cfg := bench.Config{Library: path, Networks: nets, Params: &p, N: few, Seed: 1, Batches: []int{1, 2}}
	over := journalled(t, &cfg)
	raw, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	over(raw)
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
		if r.N == 0 && r.Part != bench.Preemption && r.Part != bench.Clocks && r.Note == "" {
			t.Errorf("%s %s: no runs", r.Part, r.Key)
		}
		rows[r.Part+" "+r.Key] = r
	}
	if r := rows["golden random networks exits that differ"]; r.N == 0 || r.Most != 0 {
		t.Errorf("exits unlike golden's: %+v", r)
	}
	known, seen := 0, 0                        // spans with awaited launches, and spans from a flag that was seen
	const anHour = float64(3600 * time.Second) // no span can take so long, even on a loaded machine
	for _, n := range []string{"1", "2", "4", "8", "16"} {
		for _, what := range []string{" SMs in two partitions", " SMs in none"} {
			if r, ok := rows["partitions size="+n+what]; !ok || r.Median != 0 {
				t.Errorf("size %s,%s: %v", n, what, r.Median)
			}
		}
		for _, mode := range bench.Preempting() {
			of := func(what string) bench.Row { return rows["preemption "+mode+" capacity="+n+" "+what] }
			if of("met").Median == 0 || of("impossible").N == 0 || of("impossible").Most != 0 { // the fake has only one clock
				t.Errorf("preemption under %s at capacity %s: %+v, %+v", mode, n, of("met"), of("impossible"))
			}
			for _, span := range []string{"away", "first", "completion"} {
				if r := of(span); float64(r.N) != of("met").Median-of("unknown").Median || r.Median > anHour {
					t.Errorf("preemption under %s at capacity %s, %s: %+v", mode, n, span, r)
				}
			}
			if mode == "wait" {
				known += of("first").N
			}
			for _, span := range []string{"gone", "began", "completion"} {
				r, ok := rows["preemption "+mode+" capacity="+n+" seen "+span]
				if ok != (mode != "wait") {
					t.Errorf("a span from a flag, under %s: %+v", mode, r)
				}
				if ok && (float64(r.N) != float64(of("away").N)-of("unseen").Median || r.Median > 1e9) {
					t.Errorf("preemption under %s at capacity %s, seen %s: %+v", mode, n, span, r)
				}
				seen += r.N
			}
		}
		for _, net := range nets {
			for _, batch := range []int{1, 2} {
				if r := rows[fmt.Sprintf("latency %s units=%s batch=%d", net.Network.Name, n, batch)]; r.N != few || r.Least <= 0 {
					t.Errorf("latency of %s on %s units at batch %d: %+v", net.Network.Name, n, batch, r)
				}
				if r := rows[fmt.Sprintf("latency %s units=%s batch=%d kernels", net.Network.Name, n, batch)]; r.N != few || r.Least <= 0 {
					t.Errorf("kernels of %s on %s units at batch %d: %+v", net.Network.Name, n, batch, r)
				}
			}
		}
	}
	for _, key := range []string{
		"costs launch", "costs query", "costs signal", "costs switch", "costs partition", "costs decision", "copies 4096 up alone",
		"copies 16777216 down beside", "padding alone", "padding reset of alone", "padding reef of alone",
		"padding reef of reset", "padding reset best effort keeps", "padding reef best effort keeps", "preemption best effort batch", "preemption reset capacity=4 unseen",
		"preemption reset capacity=4 timer step", "preemption reset capacity=4 too long by at most",
		"slowdown together=2 error of learnt", "slowdown together=4 error of static",
	} {
		if r, ok := rows[key]; !ok || r.N == 0 && r.Note == "" {
			t.Errorf("no row %q", key)
		}
	}
	const rounds = min(few, bench.Rounds)
	for key, want := range map[string]int{"padding best effort alone": 2 * 3 * few * rounds, "preemption best effort alone": 3 * 5 * few} { // around each of the others
		if r := rows[key]; r.N != want || r.Least <= 0 {
			t.Errorf("%s: %+v", key, r)
		}
	}
	for _, name := range []string{"alone", "reset", "reef"} { // a pace before and after each round
		if r, of := rows["padding "+name+" looks"], rows["padding "+name]; r.N != 2*rounds || of.N != few || rows["padding "+name+" span"].N != rounds {
			t.Errorf("padding, %s: %+v, looks %+v", name, of, r)
		}
	}
	for _, how := range []string{"killed", "drained", "reset-ahead"} {
		if r := rows["kills "+how+" restored bit for bit"]; r.Median < few || rows["kills "+how+" hit"].Median != r.Median || rows["kills "+how+" wrong launches"].Median != 0 {
			t.Errorf("launches that were %s: %+v", how, r)
		}
		if r := rows["kills "+how+" exits that tell the inputs apart"]; r.N != 1 || r.Least < 1 {
			t.Errorf("%s: exits that tell the inputs apart: %+v", how, r)
		}
	}
	cfg.Parts = []string{bench.Preemption}
	for range 10 { // which kills come in time depends on the host's threads
		if known > 0 && seen > 0 {
			break
		}
		again, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range again.Rows() {
			if strings.HasPrefix(r.Key, "wait ") && strings.HasSuffix(r.Key, " first") {
				known += r.N
			} else if strings.HasSuffix(r.Key, " seen gone") {
				seen += r.N
			}
		}
	}
	if known == 0 || seen == 0 {
		t.Errorf("of preemptions nothing was seen: %d and %d spans", known, seen)
	}
	dir := t.TempDir()
	if err := save(dir, raw); err != nil {
		t.Fatal(err)
	}
	replay(t, dir)
	if *update {
		if err := save(kept, raw); err != nil {
			t.Fatal(err)
		}
	}
	alike(t, replay(t, kept), raw)
}

// kept is the folder with an earlier output of TestRun, to test reading and counting.
var kept = filepath.Join("testdata", "simulated")

// alike compares the stored output with the present one: series, facts, and settings.
func alike(t *testing.T, was, is *bench.Raw) {
	t.Helper()
	keys := func(r *bench.Raw) (out []string) {
		for _, s := range r.Series {
			out = append(out, s.Part+","+s.Key+","+s.Unit)
		}
		slices.Sort(out) // the order of the parts may change
		return out
	}
	made := is.Made
	made.Began, made.TookNs, made.Parts = was.Made.Began, was.Made.TookNs, slices.Sorted(slices.Values(made.Parts))
	was.Made.Parts = slices.Sorted(slices.Values(was.Made.Parts))
	if a, b := keys(was), keys(is); !slices.Equal(a, b) || !reflect.DeepEqual(was.Facts, is.Facts) || !reflect.DeepEqual(was.Made, made) {
		t.Errorf("%s is not of today (go test -run TestRun -args -bench.update): series %q are gone, %q are new; facts %+v, today %+v; made %+v, today %+v",
			kept, without(a, b), without(b, a), was.Facts, is.Facts, was.Made, made)
	}
}

// without returns the elements of all that are not in others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(x string) bool { return slices.Contains(others, x) })
}

func save(dir string, raw *bench.Raw) error {
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		return err
	}
	text, err := json.MarshalIndent(struct {
		Rows []bench.Row `json:"rows"`
	}{raw.Rows()}, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, bench.RawFile), b.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "summary.json"), text, 0o600))
}

// replay compares a folder's figures with its runs.
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
	text := figuresOf(t, dir)
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

// MEASURED.md's table agrees with the stored runs.
func TestMeasured(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "MEASURED.md"))
	if err != nil {
		t.Fatal(err)
	}
	human := func(v float64, unit string) string {
		switch {
		case unit != "ns":
			return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, map[string]string{"bytes/ns": "bytes/ns", "share": "share"}[unit]))
		case v < 1e3:
			return fmt.Sprintf("%.4g ns", v)
		case v < 1e6:
			return fmt.Sprintf("%.4g us", v/1e3)
		}
		return fmt.Sprintf("%.4g ms", v/1e6)
	}
	rows, seen := map[string]bench.Row{}, 0
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|]*) \\| `([^`:]+): ([^`]+)` \\| ([^|]*) \\| [^|]*\\| (\\d+) \\|").FindAllStringSubmatch(string(text), -1) {
		if _, ok := rows[m[2]]; !ok {
			rows[m[2]] = bench.Row{}
			for _, r := range replay(t, filepath.Join("..", "..", "traces", m[2])).Rows() {
				rows[m[2]+": "+r.Part+" "+r.Key] = r
			}
		}
		r, ok := rows[m[2]+": "+m[3]]
		if want := human(r.Median, r.Unit); !ok || m[4] != want || m[5] != fmt.Sprint(r.N) {
			t.Errorf("MEASURED.md says %s of %d runs, %s, %s: %s of %d", m[4], len(m[5]), m[2], m[3], want, r.N)
		}
		if note, _, _ := strings.Cut(r.Note, ","); !strings.Contains(m[1], note) {
			t.Errorf("MEASURED.md does not say of %s, %s: %s", m[2], m[3], r.Note)
		}
		seen++
	}
	// Where others were killed or awaited, and where priority went ahead, each from two folders: of four kernels queued there
	// are a thousand.
	runs := map[string][]int64{}
	for mode, folders := range map[string][2]string{"reset": {"h200-2-preemption", "h200-2-preemption-4"}, "wait": {"h200-2-preemption", "h200-2-preemption-4"}, "reset-ahead": {"h200-3-ahead", "h200-3-ahead-4"}} {
		for _, folder := range folders {
			for _, s := range replay(t, filepath.Join("..", "..", "traces", folder)).Series {
				if strings.HasPrefix(s.Key, mode+" ") {
					runs[s.Key] = slices.Sorted(slices.Values(s.Runs))
				}
			}
		}
	}
	for _, queued := range []string{"1", "2", "4", "8", "16"} {
		line := "| " + queued + " |"
		for _, key := range []string{"reset capacity=%s first", "wait capacity=%s first", "reset-ahead capacity=%s first", "reset-ahead capacity=%s seen began", "reset capacity=%s seen gone"} {
			v := runs[fmt.Sprintf(key, queued)]
			line += fmt.Sprintf(" %.1f, %.1f", float64(v[(len(v)-1)/2]+v[len(v)/2])/2e3, float64(v[9*len(v)/10])/1e3)
			if len(v) >= 1000 {
				line += fmt.Sprintf(", %.1f", float64(v[99*len(v)/100])/1e3)
			}
			line += fmt.Sprintf(" (%d) |", len(v))
		}
		if !strings.Contains(string(text), line) {
			t.Errorf("MEASURED.md does not show %q", line)
		}
	}
	if seen < 25 {
		t.Errorf("MEASURED.md has %d rows of what was measured", seen)
	}
	for _, line := range slices.Concat(lookLines(t), restoredLines(t), disbLines(t), seebLines(t), servedLines(t)) {
		if !strings.Contains(string(text), line) {
			t.Errorf("MEASURED.md does not show %q", line)
		}
	}
}

func traced(folder string) string { return filepath.Join("..", "..", "traces", folder) }

// lookLines returns MEASURED.md's lines about looks: kernels with and without them, now and before.
func lookLines(t *testing.T) (lines []string) {
	kernels := map[string]map[string]float64{} // medians by folder and key
	most := 0
	for _, folder := range []string{"h200-layers", "h200-layers-before", "h200-layers-nolooks"} {
		kernels[folder] = map[string]float64{}
		for _, r := range replay(t, traced(folder)).Rows() {
			if strings.Contains(r.Key, " gemm ") || r.Key == "layers before" {
				kernels[folder][r.Key], most = r.Median, max(most, r.N)
			}
		}
	}
	none := kernels["h200-layers-nolooks"]
	cost := func(net, folder string) (median, together float64, above, n int) {
		var all []float64
		var with, without float64
		for key, v := range kernels[folder] {
			if strings.HasPrefix(key, net+" ") {
				all, with, without = append(all, 100*(v/none[key]-1)), with+v, without+none[key]
				if v > 1.02*none[key] {
					above++
				}
			}
		}
		slices.Sort(all)
		n = len(all)
		return (all[(n-1)/2] + all[n/2]) / 2, 100 * (with/without - 1), above, n
	}
	for _, net := range []string{"resnet50", "mobilenetv2"} {
		median, together, above, n := cost(net, "h200-layers")
		before, of, _, _ := cost(net, "h200-layers-before")
		lines = append(lines, fmt.Sprintf("%s's products %.2f %% in the median, %.2f %% together (before: %.2f, %.2f), above 2 %% in %d of %d", net, median, together, before, of, above, n))
	}
	return append(lines, fmt.Sprintf("all kernels of resnet50, one after another, %.2f %% (`h200-layers`, `-before`, `-nolooks`, n %d each", 100*(kernels["h200-layers"]["layers before"]/none["layers before"]-1), most))
}

// restoredLines returns MEASURED.md's lines about stopped launches.
func restoredLines(t *testing.T) (lines []string) {
	t.Helper()
	raw := replay(t, traced("h200-2-kills"))
	for _, r := range raw.Restores() {
		lines = append(lines, fmt.Sprintf("| %d | %d | %d | %d |\n", r.Tried, r.Hit, r.Restored, r.Spoilt))
	}
	for _, c := range raw.Controls() {
		lines = append(lines, fmt.Sprintf("hits until then: %d", c.Hit))
	}
	return lines
}

// disbLines returns its lines about DISB.
func disbLines(t *testing.T) (lines []string) {
	t.Helper()
	rows := map[string]float64{}
	for _, r := range replay(t, traced("h200-3-disb")).Rows() {
		rows[r.Key] = r.Median
	}
	for _, workload := range []string{"A", "B", "C", "D", "E"} {
		line := "| " + workload + " |"
		for _, system := range []string{"seq", "streams", "priority", "wait", "xsched1", "reset", "reset-ahead", "reef-dkp", "reef"} {
			key := workload + " " + system
			line += fmt.Sprintf(" %.2f, %.2f |", rows[key+" rt"], rows[key+" throughput"])
		}
		lines = append(lines, line)
	}
	return lines
}

// seebLines returns its lines about SEEB.
func seebLines(t *testing.T) (lines []string) {
	t.Helper()
	rows := map[string]float64{}
	for _, r := range replay(t, traced("h200-3-seeb")).Rows() {
		rows[r.Key] = r.Median
	}
	for _, system := range []string{"seeb", "batch", "deeprt", "gslice", "branchynet"} {
		lines = append(lines, fmt.Sprintf("| %s | %.4g ms | %.3g |", system, rows[system+" latency of a task"]/1e6, rows[system+" late"]))
	}
	return lines
}

// servedLines returns its lines about requests to the server.
func servedLines(t *testing.T) (lines []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(traced("h200-3-serve"), "loads.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Loads []struct {
			Load                           string
			Rate, Goodput                  float64
			Late, Dropped, Refused, Errors int
			OnTime                         int `json:"on_time"`
			Latency                        struct {
				P50 int64 `json:"p50_ns"`
				P99 int64 `json:"p99_ns"`
			}
		}
	}
	if err := json.NewDecoder(z).Decode(&doc); err != nil || len(doc.Loads) == 0 {
		t.Fatalf("%d loads, %v", len(doc.Loads), err)
	}
	for _, l := range doc.Loads {
		lines = append(lines, fmt.Sprintf("| %s | %.0f | %.0f | %d | %d | %d | %d | %.1f | %.1f |", l.Load, l.Rate, l.Goodput, l.OnTime, l.Late, l.Dropped, l.Refused, float64(l.Latency.P50)/1e6, float64(l.Latency.P99)/1e6))
	}
	return lines
}

// figuresOf returns the text of a folder's figures, which may be compressed.
func figuresOf(t *testing.T, dir string) []byte {
	t.Helper()
	name := filepath.Join(dir, "summary.json")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = os.ReadFile(name + ".gz"); err == nil {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
				text, err = io.ReadAll(z)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The stored figures of measurements under host/gpu/traces agree with their runs. So do the stored figures of the fake,
// which are not measurements and are in another folder.
func TestReplay(t *testing.T) {
	if raw := replay(t, kept); !raw.Facts.Fake || raw.Label() != "simulated" {
		t.Errorf("the fake's runs are %s", raw.Label())
	}
	folders, err := filepath.Glob(filepath.Join("..", "..", "traces", "*", bench.RawFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range folders {
		raw := replay(t, filepath.Dir(name))
		if raw.Label() != "measured" {
			t.Errorf("%s: nothing that is %s stands among what was measured", name, raw.Label())
		}
		if m := raw.Made; m.Revision == "" || len(m.Networks) == 0 || m.Began.IsZero() {
			t.Errorf("%s: nobody can tell what ran: %+v", name, m)
		}
	}
	if len(folders) < 6 {
		t.Errorf("%d folders are kept", len(folders))
	}
}

// Figures agree with their runs, and measured values replace assumed ones.
func TestRows(t *testing.T) {
	raw := &bench.Raw{Facts: cuda.Facts{GPU: "NVIDIA H200", Driver: "CUDA 12.4", SMs: 4, UnitSMs: 2, ClockKHz: 1_500_000}, Series: []bench.Series{
		{Part: bench.Partitions, Key: "size=1 units=0 want=2", Unit: "sm", Runs: []int64{0, 1}},
		{Part: bench.Partitions, Key: "size=1 units=1 want=2", Unit: "sm", Runs: []int64{1, 2}},
		{Part: bench.Partitions, Key: "size=1 units=2 want=2", Unit: "sm", Runs: []int64{3}},
		{Part: bench.Partitions, Key: "size=2 units=0 want=4", Unit: "sm", Runs: []int64{0, 1, 2, 3}},
		{Part: bench.Partitions, Key: "size=2 units=2 want=1", Unit: "sm", Runs: []int64{3}},
		{Part: bench.Preemption, Key: "reset capacity=1 seen gone", Unit: "ns", Runs: slices.Repeat([]int64{12_000, 11_000, 40_000}, 5)},
		{Part: bench.Preemption, Key: "reset capacity=1 met", Unit: "preemptions", Runs: []int64{0, 4, 3}},              // of rounds
		{Part: bench.Preemption, Key: "reset capacity=1 too long by at most", Unit: "ns", Runs: []int64{500, 900, 700}}, // of rounds
		{Part: bench.Costs, Key: "launch", Unit: "ns", Runs: slices.Repeat([]int64{9000, 5000, 7000}, 4)},
		{Part: bench.Copies, Key: "16777216 up alone", Unit: "ns", Runs: slices.Repeat([]int64{1 << 20}, 10)},
		{Part: bench.Copies, Key: "16777216 down alone", Unit: "ns", Runs: slices.Repeat([]int64{1 << 20}, 9)}, // too few
		{Part: bench.Clocks, Key: "copies before", Unit: "ns", Runs: []int64{1000}},
		{Part: bench.Clocks, Key: "copies after", Unit: "ns", Runs: []int64{1100}},
		{Part: bench.Padding, Key: "alone", Unit: "ns", Runs: []int64{100}},
		{Part: bench.Padding, Key: "reset", Unit: "ns", Runs: []int64{200}},
		{Part: bench.Padding, Key: "reef", Unit: "ns", Runs: []int64{103}},
		{Part: bench.Padding, Key: "best effort alone", Unit: "ns", Runs: []int64{40, 90, 50}},
		{Part: bench.Padding, Key: "reef beside others", Unit: "kernels", Runs: []int64{10}},
		{Part: bench.Padding, Key: "reef of priority", Unit: "kernels", Runs: []int64{100}},
		{Part: bench.Padding, Key: "reef ended", Unit: "launches", Runs: []int64{30}},
		{Part: bench.Padding, Key: "reef span", Unit: "ns", Runs: []int64{6000}},
		{Part: bench.Slowdown, Key: "together=2 took", Unit: "ns", Runs: []int64{200, 100}},
		{Part: bench.Slowdown, Key: "together=2 learnt", Unit: "ns", Runs: []int64{150, 100}},
	}}
	got := map[string]float64{}
	for _, r := range raw.Rows() {
		got[r.Part+" "+r.Key] = r.Median
		if r.Key == "launch" && (r.N != 12 || r.Least != 5000 || r.Most != 9000 || r.P99 != nil) {
			t.Errorf("%+v", r)
		}
	}
	for key, want := range map[string]float64{
		"partitions size=1 SMs in two partitions": 1, "partitions size=1 SMs in none": 0, "costs launch": 7000,
		"partitions size=2 SMs in two partitions": 1, "partitions of another size than asked for": 1, "partitions of several units on other SMs than those": 1,
		"preemption reset capacity=1 met": 7, "preemption reset capacity=1 too long by at most": 900,
		"copies 16777216 up alone": 16, "padding reef of alone": 1.03, "padding reef of reset": 0.515, "padding reef best effort keeps": 0.25, "slowdown together=2 error of learnt": 0.125,
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
	for _, key := range []string{"lanes_per_sm", "sms_per_unit", "evict_ns", "dispatch_ns", "link_down_bytes_per_ns"} {
		if v := f.Values[key]; v != base.Values[key] {
			t.Errorf("%s was not measured, and is %+v", key, v)
		}
	}
	for key, v := range f.Values {
		if says := strings.HasSuffix(v.Source, ", the clock moved"); says != (key == "link_up_bytes_per_ns") {
			t.Errorf("%s: of several clocks or not: %q", key, v.Source)
		}
	}
	raw.Facts.GPU = "NVIDIA A100-SXM4-40GB" // the base is another GPU's
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

// A part is marked if the time of the same kernels changes within it.
func TestMoved(t *testing.T) {
	s := func(key string, runs ...int64) bench.Series {
		return bench.Series{Part: bench.Clocks, Key: key, Unit: "ns", Runs: runs}
	}
	raw := &bench.Raw{Series: []bench.Series{
		s("latency before", 1000, 1020), s("latency after", 1050, 1010), // 5 % are allowed
		s("costs before", 1000), s("costs after", 1051),
		s("copies before", 1000, 940), s("copies after", 990, 950), // between two devices
		s("kills before", 1000), s("kills after"), // an error came between
		s("padding before"), s("padding after"),
		s("slowdown before", 0), s("slowdown after", 0),
	}}
	if moved := raw.Moved(); !slices.Equal(moved, []string{"costs", "copies"}) {
		t.Errorf("of several clocks are %q", moved)
	}
	n := 0
	for _, r := range raw.Rows() {
		if strings.HasSuffix(r.Key, " moved by") {
			n++
			if want := map[string]float64{"latency": 0.05, "costs": 0.051, "copies": 1000./940 - 1, "kills": 0}[strings.TrimSuffix(r.Key, " moved by")]; math.Abs(r.Median-want) > 1e-9 {
				t.Errorf("%s %v, expected %v", r.Key, r.Median, want)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d parts are looked at", n)
	}
}

// Every part measures the GPU's pace before and after, by its kernels and, with NVML, by its clocks.
func TestPaces(t *testing.T) {
	cfg, _ := small(t)
	nvml, err := fake.BuildNVML(filepath.Dir(cfg.Library))
	if err != nil {
		t.Fatal(err)
	}
	cfg.NVML, cfg.N, cfg.Parts = nvml, 1, []string{bench.Costs, bench.Padding}
	raw, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int64{}
	for _, s := range raw.Series {
		if s.Part == bench.Clocks {
			got[s.Key] = s.Runs
		}
	}
	for part, devices := range map[string]int{bench.Costs: 1, bench.Padding: 4} {
		for _, when := range []string{" before", " after"} {
			if v := got[part+when]; len(v) != devices || slices.Min(v) < 1 {
				t.Errorf("%s%s: %v", part, when, v)
			}
		}
		if v := got[part+" sm clock"]; !slices.Equal(v, slices.Repeat([]int64{1980}, 2*devices)) {
			t.Errorf("%s: clocks %v", part, v)
		}
		if n := len(got[part+" launches until steady"]) + int(got[part+" never steady"][0]); n != devices {
			t.Errorf("%s: %d devices were warmed up, of %d", part, n, devices)
		}
	}
}

// If almost nothing was padded, no cost of padding is shown.
func TestPaddedShare(t *testing.T) {
	for beside, shown := range map[int64]bool{0: false, 9: false, 10: true, 100: true} {
		s := func(key string, runs ...int64) bench.Series {
			return bench.Series{Part: bench.Padding, Key: key, Unit: "n", Runs: runs}
		}
		raw := &bench.Raw{Series: []bench.Series{
			s("alone", 100), s("reset", 200), s("reef", 300), s("best effort alone", 50), s("reset ended", 30), s("reset span", 6000),
			s("alone looks", 1000, 1000), s("reset looks", 1000, 1000), s("reef looks", 1000, 1000), s("reef ended", 30), s("reef span", 6000), s("reef beside others", beside), s("reef of priority", 100),
		}}
		rows := map[string]bench.Row{}
		for _, r := range raw.Rows() {
			rows[r.Key] = r
		}
		if r := rows["reef beside others of priority's"]; r.Median != float64(beside)/100 {
			t.Errorf("share of %d %%: %+v", beside, r)
		}
		for key, padded := range map[string]bool{"reef of alone": true, "reef of reset": true, "reef best effort keeps": true, "reset of alone": false, "reset best effort keeps": false} {
			r, ok := rows[key]
			if !ok || (r.N > 0) != (shown || !padded) || (r.Note == "") != (r.N > 0) || r.N == 0 && !strings.Contains(r.Note, fmt.Sprintf("not shown: %d.0 %% of", beside)) {
				t.Errorf("%s, where %d %% are padded: %+v", key, beside, r)
			}
		}
	}
}

// The cost of padding is shown for one pace, with an interval, and with a note if it may come from the clock. The share
// that best effort keeps is counted within the span, and not shown for few launches.
func TestPaddingCost(t *testing.T) {
	const apart = 5 // ns between the runs of one way: it alone makes the interval wide
	rows := func(reset, reef [2]int64, ended int64) map[string]bench.Row {
		s := func(key string, runs ...int64) bench.Series {
			return bench.Series{Part: bench.Padding, Key: key, Unit: "n", Runs: runs}
		}
		around := func(mid, apart int64) (all []int64) {
			for i := range int64(101) {
				all = append(all, mid+(i-50)*apart)
			}
			return all
		}
		raw := &bench.Raw{Series: []bench.Series{
			s("reset", around(10_000, apart)...), s("reset looks", reset[:]...), s("reef", around(10_290, 1)...), s("reef looks", reef[:]...),
			s("reef beside others", 100), s("reef of priority", 100), s("best effort alone", 100), s("reef ended", ended), s("reef span", 2000),
		}}
		rows := map[string]bench.Row{}
		for _, r := range raw.Rows() {
			rows[r.Key] = r
		}
		return rows
	}
	for _, c := range []struct {
		reset, reef [2]int64
		cost        float64
		note        bool
	}{
		{[2]int64{1000, 1000}, [2]int64{1000, 1000}, 1.029, false},
		{[2]int64{1000, 1005}, [2]int64{1005, 1000}, 1.029, false},
		{[2]int64{1048, 1048}, [2]int64{1000, 1000}, 1.029 * 1.048, true},
		{[2]int64{1000, 1020}, [2]int64{1020, 1000}, 1.029, true},
	} {
		r := rows(c.reset, c.reef, 10)["reef of reset"]
		if math.Abs(r.Median-c.cost) > 1e-9 || (r.Note != "") != c.note {
			t.Errorf("looks %v and %v: %.4f, %q; expected %.4f", c.reset, c.reef, r.Median, r.Note, c.cost)
		}
		// Either median is within about ten runs: 0.1 % of the one, 0.5 % of the other.
		if in := r.MedianIn; in == nil || in[0] >= c.cost-0.003 || in[1] <= c.cost+0.003 || in[0] < c.cost-0.02 || in[1] > c.cost+0.02 {
			t.Errorf("looks %v and %v: %.4f in %v", c.reset, c.reef, r.Median, in)
		}
	}
	for ended, shown := range map[int64]bool{9: false, 10: true} { // of one round
		r := rows([2]int64{1, 1}, [2]int64{1, 1}, ended)["reef best effort keeps"]
		if (r.N == 1) != shown || (r.Note == "") != shown || shown && r.Median != 0.5 {
			t.Errorf("of %d launches: %+v", ended, r)
		}
	}
	for last, shown := range map[int64]bool{9: false, 10: true} { // of two rounds
		s := func(key string, runs ...int64) bench.Series {
			return bench.Series{Part: bench.Padding, Key: key, Unit: "n", Runs: runs}
		}
		raw := &bench.Raw{Series: []bench.Series{
			s("reef beside others", 0, 20), s("reef of priority", 100, 100), s("best effort alone", 100), s("reef ended", 10, last), s("reef span", 3000, 1000),
		}}
		for _, r := range raw.Rows() {
			if want := map[string]float64{"reef best effort keeps": 0.5, "reef beside others of priority's": 0.1}[r.Key]; want > 0 && (r.N == 1) != (shown || want == 0.1) || r.N == 1 && want > 0 && r.Median != want {
				t.Errorf("of %d launches in the second round: %+v", last, r)
			}
		}
	}
	at := func(ns int) time.Time { return time.Unix(1, 0).Add(time.Duration(ns)) }
	if n := bench.Within([]time.Time{at(5), at(10), at(11), at(20), at(21)}, at(10), at(20)); n != 2 {
		t.Errorf("%d ended within the span, expected 2", n)
	}
}

// A drifting clock affects all ways equally: each runs equally often, with the same mean time.
func TestInTurn(t *testing.T) {
	const n = 3
	if bench.Rounds%2 != 0 {
		t.Errorf("%d rounds: a drift favours the first of them", bench.Rounds)
	}
	var times, sum [n]int
	for at, i := range bench.InTurn(bench.Rounds, n) {
		times[i]++
		sum[i] += at
	}
	for i := range n {
		if times[i] != bench.Rounds || sum[i] != sum[0] {
			t.Errorf("%v times each, at %v on the whole", times, sum)
		}
	}
}

// Quantiles are shown only with enough runs, with their intervals. The ranks are from tables.
func TestQuantiles(t *testing.T) {
	of := func(n int) *bench.Row { // the row of runs 1 to n
		t.Helper()
		s := bench.Series{Part: bench.Costs, Key: "k", Unit: "ns"}
		for i := range n {
			s.Runs = append(s.Runs, int64(n-i))
		}
		return &(&bench.Raw{Series: []bench.Series{s}}).Rows()[0]
	}
	for _, c := range []struct {
		n        int
		median   float64
		in       *bench.Interval
		p95, p99 float64 // 0: none
		p99In    *bench.Interval
		spread   bool
	}{
		{1, 1, nil, 0, 0, nil, false},
		{2, 1.5, nil, 0, 0, nil, false},
		{3, 2, nil, 0, 0, nil, false},
		{5, 3, nil, 0, 0, nil, true},
		{6, 3.5, &bench.Interval{1, 6}, 0, 0, nil, true},
		{10, 5.5, &bench.Interval{2, 9}, 0, 0, nil, true},
		{20, 10.5, &bench.Interval{6, 15}, 0, 0, nil, true},
		{100, 50.5, &bench.Interval{40, 61}, 0, 0, nil, true},
		{199, 100, &bench.Interval{86, 114}, 0, 0, nil, true},
		{200, 100.5, &bench.Interval{86, 115}, 191, 0, nil, true},
		{999, 500, &bench.Interval{469, 531}, 950, 0, nil, true},
		{1000, 500.5, &bench.Interval{469, 532}, 951, 991, &bench.Interval{983, 997}, true},
		{100_000, 50_000.5, &bench.Interval{49_690, 50_311}, 95_001, 99_001, &bench.Interval{98_938, 99_062}, true},
	} {
		r := of(c.n)
		is := func(v *float64) float64 {
			if v == nil {
				return 0
			}
			return *v
		}
		if r.N != c.n || r.Median != c.median || !reflect.DeepEqual(r.MedianIn, c.in) || is(r.P95) != c.p95 || is(r.P99) != c.p99 || !reflect.DeepEqual(r.P99In, c.p99In) || (r.Spread != nil) != c.spread {
			t.Errorf("of %d runs: %+v, median in %v, p95 %v, p99 %v in %v; expected %+v", c.n, r, r.MedianIn, is(r.P95), is(r.P99), r.P99In, c)
		}
	}
}

// small returns the settings of a bench with one random network on the fake.
func small(t *testing.T) (bench.Config, *fake.Handles) {
	t.Helper()
	path, h := fake.Rig(t, fake.Build)
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
	return bench.Config{Library: path, Networks: []*bundle.Bundle{n.Bundle}, Params: &p, Seed: 1, Batches: []int{1}}, h
}

// Results before an error are kept. Names that cannot be in a file of runs are rejected before the first measurement.
func TestEarlyEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cfg, _ := small(t)
	cfg.N, cfg.Program, cfg.Revision = 1, "p", "r"
	cfg.Tell = func(part string) {
		if part == bench.Copies {
			stop()
		}
	}
	raw, err := bench.Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "copies: ") {
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
	s, err := cfg.Networks[0].Summarize()
	if err != nil {
		t.Fatal(err)
	}
	if m := again.Made; m.Program != "p" || m.Revision != "r" || m.N != 1 || m.Began.IsZero() || !slices.Equal(m.Parts, []string{bench.Golden, bench.Costs}) ||
		!slices.Equal(m.Networks, []bench.Network{{Name: cfg.Networks[0].Network.Name, Bundle: s.BundleHash}}) {
		t.Errorf("it was made of %+v", m)
	}
	cfg.Masks, cfg.Tell = &cuda.Masks{Driver: "999.0.1"}, nil
	if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, driver.ErrOffset) || raw == nil || len(raw.Series) != 0 {
		t.Errorf("masks of a driver that is not known: %v", err)
	}
	cfg.Masks = nil
	for _, name := range []string{"a,b", "a\nb", "a\rb"} {
		cfg.Networks[0].Network.Name = name
		if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, device.ErrRequest) || raw != nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("network %q: %v", name, err)
		}
		if err := (&bench.Raw{Series: []bench.Series{{Part: "p", Key: name, Unit: "ns"}}}).Write(&b); !errors.Is(err, bench.ErrRaw) {
			t.Errorf("runs of %q are written: %v", name, err)
		}
	}
}

// Each preemption is counted once, for any number of rounds.
func TestRounds(t *testing.T) {
	cfg, h := small(t)
	h.Slow(1)                                         // kernels last long enough to be met
	cfg.N, cfg.Parts = 11, []string{bench.Preemption} // a round has ten arrivals at most
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg.Keep = func(raw *bench.Raw) {
		if slices.ContainsFunc(raw.Series, func(s bench.Series) bool { return strings.HasPrefix(s.Key, "wait capacity=1 ") }) {
			stop() // one way is enough
		}
	}
	raw, err := bench.Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	rounds, met := 0, int64(0)
	for _, s := range raw.Series {
		if s.Key == "reset capacity=1 met" {
			for _, n := range s.Runs[1:] { // nothing is before the first
				rounds, met = rounds+1, met+n
			}
		}
	}
	if rounds < 2 || met == 0 || met > int64(cfg.N) {
		t.Errorf("%d preemptions in %d rounds, expected up to %d in several", met, rounds, cfg.N)
	}
}

// Quantiles of different spans use the same preemptions; preemptions without these spans are counted.
func TestSpans(t *testing.T) {
	const u, no = cuda.Unknown, cuda.Impossible
	all := []cuda.Preemption{
		{Away: 9, First: 10, Gone: 3, Began: 5, Whole: 20},
		{Away: 8, First: 11, Gone: u, Began: 6, Whole: 21}, // no block saw the flag
		{Away: 7, First: u, Gone: 2, Began: u, Whole: 22},  // nobody saw it begin
		{Away: 5, First: 12, Gone: no, Began: 7, Whole: 24},
		{Away: 6, First: 13, Gone: 4, Began: 7, Whole: 23},
		{Away: 4, First: no, Gone: u, Began: u, Whole: 25},
	}
	want := map[string][]int64{
		"met": {6}, "impossible": {2}, "unknown": {1}, "away": {9, 8, 6}, "first": {10, 11, 13}, "completion": {20, 21, 23},
		"unseen": {1}, "seen gone": {3, 4}, "seen began": {5, 7}, "seen completion": {20, 23},
	}
	for _, kill := range []bool{true, false} {
		got := map[string][]int64{}
		for _, s := range bench.Spans("", kill, all) {
			got[s.Key] = s.Runs
		}
		if !kill {
			maps.DeleteFunc(want, func(key string, _ []int64) bool { return strings.Contains(key, "seen") })
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("killed %v: %v, expected %v", kill, got, want)
		}
	}
}

// Kills are counted, and so are wrong restores, with the first of them.
func TestRestores(t *testing.T) {
	cfg, h := small(t)
	h.Slow(1)
	cfg.N, cfg.Parts = 4, []string{bench.Kills}
	net := cfg.Networks[0]
	for _, every := range []int{0, 1} {
		h.Spoil(every)
		raw, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		all := raw.Restores()
		if len(all) != 4 || len(raw.Controls()) != 2 {
			t.Fatalf("%+v, %+v", all, raw.Controls())
		}
		for _, c := range raw.Controls() {
			if c.Network != cuda.InPlaceName || c.Hit == 0 || c.Unseen() {
				t.Errorf("a break is not seen: %+v", c)
			}
		}
		for i, r := range all {
			net := net
			if i == 3 {
				net = cuda.InPlace(1, 8).Bundle
			}
			if r.Network != net.Network.Name || r.Hit < cfg.N || r.Tried < r.Hit || r.Restored+r.InWrong != r.Hit || r.Launches == 0 {
				t.Errorf("%+v", r)
			}
			if i == 3 {
				inPlaceHits(t, raw, r.Hit)
			}
			wrong := every > 0 && r.How != "drained"
			if f := r.First; wrong != (r.Spoilt > 0) || wrong != (f != nil) || wrong && (f.Exit < 0 || f.Exit >= len(net.Network.Exits) || f.Output < 0 || f.Kernel < 0 || f.Kernel >= len(net.Layers)) {
				t.Errorf("every %d kills spoiled: %+v, %+v", every, r, f)
			}
			if text := r.String(); wrong != strings.Contains(text, "the first at exit ") || !strings.Contains(text, fmt.Sprint(r.Hit, " ")) {
				t.Error(text)
			}
		}
	}
	one := func(how string, hit, exit, output, kernel []int64) bench.Restores {
		s := func(what string, v []int64) bench.Series {
			return bench.Series{Part: bench.Kills, Key: how + " " + what, Unit: "n", Runs: v}
		}
		raw := bench.Raw{Series: []bench.Series{s("tried", []int64{3, 3, 3}), s("hit", hit), s("first wrong exit", exit), s("first wrong output", output), s("last stopped in", kernel)}}
		return raw.Restores()[0]
	}
	for says, got := range map[string]bench.Restores{
		"n killed: 9 tried, 6 made blocks of a kernel leave, 3 restored bit for bit, 1 launches wrong (with 3 of these stops; the first at exit 0, output 4, stopped in kernel 6)": one("killed", []int64{1, 3, 2}, []int64{0, 1, 0}, []int64{0, 5, 0}, []int64{2, 7, 3}),
		"n drained: 9 tried, 0 stopped it between kernels, 0 restored bit for bit, 0 launches wrong: nothing is shown":                                                             one("drained", []int64{0, 0, 0}, []int64{0, 0, 0}, []int64{0, 0, 0}, []int64{0, 0, 0}),
		"n killed: 9 tried, 2 made blocks of a kernel leave, 2 restored bit for bit, 1 launches wrong (with 0 of these stops; the first at exit 1, output 0, where no kill hit)":   one("killed", []int64{0, 0, 2}, []int64{2, 0, 0}, []int64{1, 0, 0}, []int64{0, 0, 3}),
	} {
		got.Network = "n"
		if got.String() != says {
			t.Errorf("%s, expected %s", &got, says)
		}
	}
}

// A control experiment ends with its first wrong launch, after a thousand launches, or when its time has passed and ten
// kills have hit.
func TestUntilWrong(t *testing.T) {
	late, early := bench.UntilWrong(time.Now().Add(-time.Hour), time.Minute), bench.UntilWrong(time.Now(), 1000*time.Hour)
	endless := bench.UntilWrong(time.Now().Add(-time.Hour), 0)
	before, behind := bench.UntilWrong(time.Now().Add(-90*time.Minute), 12*time.Hour), bench.UntilWrong(time.Now().Add(-150*time.Minute), 12*time.Hour) // a sixth
	for _, c := range []struct {
		over           func(launches, hits, wrong int) bool
		launches, hits int
		wrong          int
		want           bool
	}{
		{late, 20, 9, 0, false},
		{late, 20, 10, 0, true},
		{early, 20, 10, 0, false},
		{before, 20, 10, 0, false},
		{behind, 20, 10, 0, true},
		{endless, 999, 500, 0, false},
		{early, 1, 0, 1, true},
		{early, 1000, 0, 0, true},
		{endless, 1000, 0, 0, true},
	} {
		if got := c.over(c.launches, c.hits, c.wrong); got != c.want {
			t.Errorf("%d launches, %d hits, %d wrong: over %v", c.launches, c.hits, c.wrong, got)
		}
	}
}

// The results of an aborted part are kept, and its error is reported. The test aborts it by the number of orders to
// leave, which equals the number of kills on any machine.
func TestBrokenOff(t *testing.T) {
	const signal = "cuStreamWriteValue32_v2"
	cfg, h := small(t)
	h.Slow(1)
	cfg.N = 1_000_000
	broken := func(part string, after int) (*bench.Raw, error) {
		t.Helper()
		cfg.Parts, cfg.Tell = []string{part}, func(string) { h.Inject(signal, after, 700, 1) }
		raw, err := bench.Run(t.Context(), cfg)
		if err == nil || raw == nil {
			t.Fatalf("%s ends with %v", part, err)
		}
		if len(raw.Made.Parts) != 0 {
			t.Errorf("parts came to their end: %v", raw.Made.Parts)
		}
		return raw, err
	}
	h.Spoil(1)
	for after := 20; ; after *= 4 { // which kills come in time depends on the host's threads
		raw, err := broken(bench.Kills, after)
		all := raw.Restores()
		if len(all) == 1 && all[0].How == "killed" && all[0].Launches > 0 && all[0].Hit > 0 && all[0].Spoilt > 0 {
			break
		}
		if after > 1000 {
			t.Fatalf("of kills until %v there is %+v", err, all)
		}
	}
	h.Spoil(0)
	// Devices that were opened, each for one try, and kills. An aborted round with few arrivals has no results; all earlier
	// rounds have theirs.
	const opened, round, kept = 2, 10, 3
	raw, err := broken(bench.Preemption, opened+round+kept-1)
	met := int64(0)
	for _, s := range raw.Series {
		for _, n := range s.Runs {
			if s.Key == "reset capacity=1 met" {
				met += n
			}
		}
	}
	if met < kept {
		t.Errorf("of preemptions until %v there are %d", err, met)
	}
}

// A part that fails does not end the others.
func TestPartsAlone(t *testing.T) {
	cfg, h := small(t)
	cfg.N, cfg.Parts = 2, []string{bench.Costs, bench.Copies, bench.Latency}
	cfg.Tell = func(part string) {
		if part == bench.Copies {
			h.Inject("cuLaunchKernel", 0, 700, 1)
		}
	}
	raw, err := bench.Run(t.Context(), cfg)
	if err == nil || !strings.HasPrefix(err.Error(), "copies: ") || !slices.Equal(raw.Made.Parts, []string{bench.Costs, bench.Latency}) {
		t.Errorf("of %+v came %v", raw.Made.Parts, err)
	}
}

// cut is a disk that is full after a number of bytes, and later has room again.
type cut struct {
	bytes.Buffer
	room int
}

func (c *cut) Write(p []byte) (int, error) {
	if n := c.room; n < len(p) {
		c.room = 1 << 20
		_, _ = c.Buffer.Write(p[:n])
		return n, io.ErrShortWrite
	}
	c.room -= len(p)
	return c.Buffer.Write(p)
}

// A journal whose disk was full for some time keeps its content, and counts nothing twice.
func TestJournalCutOff(t *testing.T) {
	series := func(n int) []bench.Series {
		return []bench.Series{{Part: bench.Costs, Key: "launch", Unit: "ns", Runs: []int64{1000, 1001, 1002}[:n]}}
	}
	raw := &bench.Raw{Facts: cuda.Facts{SMs: 8}}
	var whole bytes.Buffer
	raw.Series = series(1)
	if err := (&bench.Journal{W: &whole}).Add(raw); err != nil {
		t.Fatal(err)
	}
	for room := range 40 {
		file := cut{room: whole.Len() + room}
		j := bench.Journal{W: &file}
		var failed error
		for n := 1; n <= 3; n++ {
			raw.Series = series(n)
			failed = errors.Join(failed, j.Add(raw))
		}
		got, err := bench.ReadJournal("journal", &file)
		if err != nil || len(got.Series) != 1 || !slices.Equal(got.Series[0].Runs, []int64{1000, 1001, 1002}[:len(got.Series[0].Runs)]) || failed == nil && len(got.Series[0].Runs) < 3 {
			t.Fatalf("room for %d bytes: %v, %+v", room, err, got)
		}
	}
}

// journalled writes the runs of a configuration into a journal and checks that each run is there before the next one
// ends: between two reads no series grows by more than the result of one call. The returned function checks that at the
// end all runs are in the journal, without an incomplete last line.
func journalled(t *testing.T, cfg *bench.Config) (over func(*bench.Raw)) {
	var file bytes.Buffer
	journal := bench.Journal{W: &file}
	seen, looks := map[string]int{}, map[string]int{}
	cfg.Keep = func(raw *bench.Raw) {
		if err := journal.Add(raw); err != nil {
			t.Fatal(err)
		}
		for i := range raw.Series {
			s := &raw.Series[i]
			most := 1 // one run
			switch {
			case s.Part == bench.Copies, s.Part == bench.Preemption, s.Part == bench.Layers, strings.HasSuffix(s.Key, " kernels"):
				most = 10 // the device is asked for as many
			case s.Part == bench.Partitions, s.Part == bench.Padding, s.Part == bench.Clocks, strings.HasSuffix(s.Key, "stopped in"), strings.HasSuffix(s.Key, "taken up at"):
				most = 1 << 10 // a partition's SMs, a round, kills of a launch
			case s.Part == bench.Golden:
				most = 2 // whole, and on a partition
			}
			n := len(s.Runs) - seen[s.Part+s.Key]
			if n > most {
				t.Errorf("%s %s grows by %d, at most %d are expected", s.Part, s.Key, n, most)
			}
			if seen[s.Part+s.Key] = len(s.Runs); n > 0 {
				looks[s.Part]++
			}
		}
	}
	return func(raw *bench.Raw) {
		t.Helper()
		series := func(raw *bench.Raw) map[string][]int64 { // in any order
			all := map[string][]int64{}
			for _, s := range raw.Series {
				all[s.Part+" "+s.Key+" "+s.Unit] = append([]int64{}, s.Runs...)
			}
			return all
		}
		made := raw.Made
		check := func(what string) {
			t.Helper()
			all, err := bench.ReadJournal("journal", bytes.NewReader(file.Bytes()))
			if err != nil || !reflect.DeepEqual(series(all), series(raw)) || !reflect.DeepEqual(all.Made, made) {
				t.Errorf("%s: the journal has not the runs of the end: %v", what, err)
			}
		}
		check("at the end")
		for _, part := range bench.Parts() {
			if looks[part] < 2 {
				t.Errorf("runs of %s come %d times", part, looks[part])
			}
		}
		whole := file.Len()
		file.WriteString("costs,launch,ns,12")
		made.Parts = nil // the complete parts are unknown then
		check("with half a line")
		file.Truncate(whole)
		file.WriteString("costs,launch,ns,x\n")
		if _, err := bench.ReadJournal("journal", &file); !errors.Is(err, bench.ErrRaw) || !strings.Contains(err.Error(), `is "x"`) {
			t.Errorf("a line of something else: %v", err)
		}
	}
}

// If the budget is used up, no part begins, and a running part ends with its present results.
func TestBudget(t *testing.T) {
	cfg, _ := small(t)
	cfg.N, cfg.Budget, cfg.Parts = 1_000_000, time.Second, []string{bench.Costs, bench.Copies}
	raw, err := bench.Run(t.Context(), cfg)
	if errors.Is(err, context.Canceled) || len(raw.Series) == 0 {
		t.Errorf("%d series, %v", len(raw.Series), err)
	}
	// At any end of the budget, concurrent launches still end.
	cfg.Parts = []string{bench.Preemption}
	for _, budget := range []time.Duration{30, 60, 100, 150, 200, 300} {
		cfg.Budget = budget * time.Millisecond
		if raw, err := bench.Run(t.Context(), cfg); raw == nil || err != nil && !errors.Is(err, bench.ErrBudget) {
			t.Errorf("with a budget of %v: %v", cfg.Budget, err)
		}
	}
	cfg.Parts = []string{bench.Costs, bench.Copies}
	cfg.Budget = 1
	if raw, err = bench.Run(t.Context(), cfg); !errors.Is(err, bench.ErrBudget) || len(raw.Series) != 0 || !strings.Contains(err.Error(), "copies: ") {
		t.Errorf("without a budget: %d series, %v", len(raw.Series), err)
	}
}

// Parts after the bench's own have a share of the budget too: earlier parts do not use it up.
func TestLater(t *testing.T) {
	cfg, _ := small(t)
	var now time.Time
	cfg.Clock = func() time.Time { now = now.Add(10 * time.Millisecond); return now } // each look at it
	cfg.N, cfg.Budget, cfg.Parts, cfg.Later = 1_000_000, 3*time.Second, []string{bench.Costs}, []string{bench.SEEB, bench.DISB}
	raw, err := bench.Run(t.Context(), cfg)
	if took := time.Duration(raw.Made.TookNs); err != nil || took > cfg.Budget/3 {
		t.Errorf("costs take %v of %v, %v", took, cfg.Budget, err)
	}
	share, most := bench.Share(10*time.Second, cfg.Later)
	if share != 2*time.Second || most != 4*time.Second {
		t.Errorf("SEEB has %v of 10 s, and is stopped after %v", share, most)
	}
	if share, most = bench.Share(10*time.Second, []string{bench.DISB, bench.SEEB}); share != 8*time.Second || most != 9*time.Second { // not half of what is left to others
		t.Errorf("DISB has %v of 10 s, and is stopped after %v", share, most)
	}
	if share, most = bench.Share(6*time.Second, cfg.Later[1:]); share != 6*time.Second || most != 6*time.Second {
		t.Errorf("what comes last has %v of 6 s, and is stopped after %v", share, most)
	}
}

// A part ends by itself when it has a few runs of each kind, and only the requested parts are measured.
func TestParts(t *testing.T) {
	cfg, _ := small(t)
	runs := func(raw *bench.Raw) []bench.Series { // without those that stand beside every part
		return slices.DeleteFunc(raw.Series, func(s bench.Series) bool { return s.Part == bench.Clocks })
	}
	cfg.N, cfg.For, cfg.Parts = 25, 1, []string{bench.Copies, bench.Costs, bench.Latency}
	raw, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(raw.Made.Parts, []string{bench.Costs, bench.Copies, bench.Latency}) || raw.Made.For != "1ns" {
		t.Errorf("it was made of %+v", raw.Made)
	}
	for _, s := range runs(raw) {
		want := 10
		if s.Part == bench.Latency { // a launch takes longer than its share
			want = 3
		}
		if len(s.Runs) != want && s.Key != "partition" || !slices.Contains(cfg.Parts, s.Part) {
			t.Errorf("%s %s: %d runs, expected %d", s.Part, s.Key, len(s.Runs), want)
		}
	}
	cfg.Parts, cfg.For = []string{bench.Costs}, 0
	if raw, err = bench.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, s := range runs(raw) {
		if len(s.Runs) != cfg.N && s.Key != "partition" {
			t.Errorf("%s %s: %d runs, expected all %d", s.Part, s.Key, len(s.Runs), cfg.N)
		}
	}
	cfg.Parts = []string{}
	if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, device.ErrRequest) || raw != nil || !strings.Contains(err.Error(), "no part is asked for") {
		t.Errorf("no part: %v", err)
	}
	cfg.Parts = []string{"parts"}
	if raw, err := bench.Run(t.Context(), cfg); !errors.Is(err, device.ErrRequest) || raw != nil || !strings.Contains(err.Error(), "slowdown") {
		t.Errorf("a part that there is not: %v", err)
	}
}

// A pause ends after its time, or earlier with the budget.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer end()
		for _, c := range [][2]time.Duration{{0, 0}, {3500, 3500}, {60_000_000, 6500}, {60_000_000, 0}} { // us: asked for, expected
			began := time.Now()
			if bench.Pause(ctx, c[0]*time.Microsecond); time.Since(began) < c[1]*time.Microsecond || time.Since(began) > (c[1]+1000)*time.Microsecond {
				t.Errorf("a pause of %d us took %v, expected %d us", c[0], time.Since(began), c[1])
			}
		}
	})
}

// The GPU is recorded before any part begins; without its name, no result is labelled measured.
func TestFacts(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cfg, _ := small(t)
	cfg.N = 1
	cfg.Tell = func(string) { stop() }
	raw, err := bench.Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || raw == nil || raw.Facts.GPU == "" || raw.Facts.SMs < 1 || !raw.Facts.Fake || raw.Label() != "simulated" {
		t.Errorf("ended before its first part: %+v, %v", raw, err)
	}
	nobody := &bench.Raw{Facts: cuda.Facts{SMs: 132}}
	base, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Params(base); nobody.Label() == "measured" || !errors.Is(err, params.ErrFile) {
		t.Errorf("of a GPU without a name: %s, %v", nobody.Label(), err)
	}
}

// Runs of a part, or in a unit, that nobody here writes are refused.
func TestUnknownRuns(t *testing.T) {
	for want, s := range map[string]bench.Series{
		"":                                {Part: bench.DISB, Key: "A reef latency", Unit: "ppm", Runs: []int64{1}},
		`line 2: part "cost", expected`:   {Part: "cost", Key: "launch", Unit: "ns", Runs: []int64{1}},
		`line 2: part "", expected`:       {Key: "launch", Unit: "ns", Runs: []int64{1}},
		`line 2: costs launch in "us", `:  {Part: bench.Costs, Key: "launch", Unit: "us", Runs: []int64{1}},
		`line 2: costs launch in "", exp`: {Part: bench.Costs, Key: "launch", Runs: []int64{1}},
	} {
		var b bytes.Buffer
		if err := (&bench.Raw{Facts: cuda.Facts{SMs: 4}, Series: []bench.Series{s}}).Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := bench.Read("runs", &b); (err == nil) != (want == "") || err != nil && (!errors.Is(err, bench.ErrRaw) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// Of a file that was cut off, the lines that are whole are read, and no part counts as ended.
func TestTorn(t *testing.T) {
	raw := &bench.Raw{Facts: cuda.Facts{SMs: 4}, Made: bench.Made{Parts: []string{bench.Costs}}}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		s := bench.Series{Part: bench.Costs, Key: fmt.Sprint(i), Unit: "ns"}
		for range 100 {
			s.Runs = append(s.Runs, rng.Int64N(1<<40))
		}
		raw.Series = append(raw.Series, s)
	}
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{b.Len() - 1, b.Len() / 2} {
		got, err := bench.Read("runs", bytes.NewReader(b.Bytes()[:left]))
		if err != nil {
			t.Fatalf("of %d of %d bytes: %v", left, b.Len(), err)
		}
		n := len(got.Series)
		if !got.Torn || got.Made.Parts != nil || n < 50 || n == len(raw.Series) != (left == b.Len()-1) || !reflect.DeepEqual(got.Series, raw.Series[:n]) {
			t.Errorf("of %d of %d bytes: %d series, parts %v, torn %v", left, b.Len(), n, got.Made.Parts, got.Torn)
		}
		if got.Holds(raw) || !raw.Holds(got) {
			t.Error("it is read in place of the whole file, or beside it")
		}
	}
	spoilt := slices.Clone(b.Bytes())
	spoilt[b.Len()-6] ^= 1 // of the sum
	if _, err := bench.Read("runs", bytes.NewReader(spoilt)); !errors.Is(err, bench.ErrRaw) {
		t.Errorf("another sum: %v", err)
	}
}

// An incomplete last line is ignored in every format, since its last number may be cut.
func TestTornText(t *testing.T) {
	raw := &bench.Raw{Facts: cuda.Facts{SMs: 4}, Made: bench.Made{Parts: []string{bench.Costs}}, Series: []bench.Series{
		{Part: bench.Costs, Key: "launch", Unit: "ns", Runs: []int64{1, 2}}, {Part: bench.Costs, Key: "event", Unit: "ns", Runs: []int64{1980}},
	}}
	var text bytes.Buffer
	if err := (&bench.Journal{W: &text}).Add(raw); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{1, 2, len("event,ns,1980\n")} {
		cut := text.Bytes()[:text.Len()-left]
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(cut); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		for form, read := range map[string]func() (*bench.Raw, error){
			"journal": func() (*bench.Raw, error) { return bench.ReadJournal("runs", bytes.NewReader(cut)) },
			"file":    func() (*bench.Raw, error) { return bench.Read("runs", bytes.NewReader(packed.Bytes())) },
		} {
			if got, err := read(); err != nil || !got.Torn || got.Made.Parts != nil || !reflect.DeepEqual(got.Series, raw.Series[:1]) {
				t.Errorf("%s without its last %d bytes: %+v, %v", form, left, got, err)
			}
		}
	}
}

// Of two files of one call, one replaces the other only if it has all of the other's runs.
func TestHolds(t *testing.T) {
	runs := func(key string, n int) bench.Series {
		return bench.Series{Part: bench.Costs, Key: key, Unit: "ns", Runs: []int64{1, 2, 3, 4}[:n]}
	}
	of := func(change func(*bench.Raw), series ...bench.Series) *bench.Raw {
		r := &bench.Raw{
			Facts: cuda.Facts{GPU: "g", SMs: 4}, Seed: 1, Series: series,
			Made: bench.Made{Program: "p", Revision: "r", Began: time.Unix(1, 0), Parts: []string{bench.Costs}},
		}
		if change != nil {
			change(r)
		}
		return r
	}
	all := of(nil, runs("launch", 3), runs("event", 2))
	for _, c := range []struct {
		what        string
		other       *bench.Raw
		holds, held bool // all holds other, other holds all
	}{
		{"itself", of(nil, runs("event", 2), runs("launch", 3)), true, true},
		{"fewer runs", of(nil, runs("launch", 2), runs("event", 2)), true, false},
		{"fewer series", of(nil, runs("event", 2)), true, false},
		{"facts alone", of(nil), true, false},
		{"more runs, no part ended", of(func(r *bench.Raw) { r.Made.Parts = nil }, runs("launch", 4), runs("event", 2)), false, true},
		{"the same, no part ended", of(func(r *bench.Raw) { r.Made.Parts = nil }, all.Series...), true, false},
		{"the same, cut off", of(func(r *bench.Raw) { r.Torn = true }, all.Series...), true, false},
		{"more of one, less of another", of(nil, runs("launch", 4), runs("event", 1)), false, false},
		{"another series", of(nil, runs("signal", 1)), false, false},
		{"another run", of(nil, runs("launch", 3), bench.Series{Part: bench.Costs, Key: "event", Runs: []int64{1, 3}}), false, false},
		{"another seed", of(func(r *bench.Raw) { r.Seed++ }, all.Series...), false, false},
		{"another GPU", of(func(r *bench.Raw) { r.Facts.GPU = "h" }, all.Series...), false, false},
		{"another program", of(func(r *bench.Raw) { r.Made.Program = "q" }, all.Series...), false, false},
		{"other sources", of(func(r *bench.Raw) { r.Made.Revision = "s" }, all.Series...), false, false},
		{"a nanosecond later", of(func(r *bench.Raw) { r.Made.Began = time.Unix(1, 1) }, all.Series...), false, false},
	} {
		if h, too := all.Holds(c.other), c.other.Holds(all); h != c.holds || too != c.held {
			t.Errorf("%s: holds %v, is held %v", c.what, h, too)
		}
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
		r.Torn = false // the written file is complete
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("written and read again it is another: %v", err)
		}
	})
}
