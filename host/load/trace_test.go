package load_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/load"
)

func trace(t *testing.T, format, file string) *load.Trace {
	t.Helper()
	tr, err := load.TraceFile(format, filepath.Join("testdata", file), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Streams {
		if err := load.Check(tr.Streams[i].Times); err != nil {
			t.Errorf("%s, stream %d: %v", file, i, err)
		}
	}
	return tr
}

func TestDISB(t *testing.T) {
	tr := trace(t, "disb", "disb.json")
	if tr.Duration != 2.1e9 || len(tr.Streams) != 4 {
		t.Fatalf("%d streams over %d ns", len(tr.Streams), tr.Duration)
	}
	front, side, replay, closed := tr.Streams[0], tr.Streams[1], tr.Streams[2], tr.Streams[3]
	var tenth []load.Time
	for i := range load.Time(20) {
		tenth = append(tenth, i*100e6)
	}
	if !slices.Equal(front.Times, tenth) || front.Priority != 1 || front.Network != "vgg19" || front.Rate != 10 {
		t.Errorf("periodic: %+v", front)
	}
	if n := len(side.Times); n < 15 || n > 70 || side.Times[n-1] >= 2e9 {
		t.Errorf("poisson: %+v", side)
	}
	if d := cmp.Diff([]load.Time{0, 150e6, 258.5e6, 2100e6}, replay.Times); d != "" || replay.Batch != 2 {
		t.Errorf("trace: %s", d)
	}
	if !closed.Closed || closed.Times != nil || closed.Name != "task3" || closed.Priority != 3 || closed.Deadline != 7.5e6 {
		t.Errorf("continuous: %+v", closed)
	}
	if all := tr.Times(); len(all) != len(front.Times)+len(side.Times)+len(replay.Times) || all[0] != 0 || all[1] != 0 || !slices.IsSorted(all) {
		t.Errorf("times %v", all[:3])
	}
}

func TestAzure(t *testing.T) {
	if d := cmp.Diff([]load.Time{0, 531960000, 1531960000, 1531960000}, trace(t, "azure-llm", "azure-llm.csv").Times()); d != "" {
		t.Error(d)
	}
	f := trace(t, "azure-functions", "azure-functions.csv")
	if f.Skipped != 1 || len(f.Streams) != 3 {
		t.Errorf("%+v", f)
	}
	for i, want := range [][]load.Time{{1e9}, {25e7, 5e8}, {25e8}} { // f2 of a1 and f2 of a2 are different functions
		if d := cmp.Diff(want, f.Streams[i].Times); d != "" {
			t.Errorf("stream %d: %s", i, d)
		}
	}
	m := trace(t, "azure-minutes", "azure-minutes.csv")
	minutes := [][]int{}
	for _, s := range m.Streams {
		count := make([]int, 3)
		for _, at := range s.Times {
			count[at/60e9]++
		}
		minutes = append(minutes, count)
	}
	if d := cmp.Diff([][]int{{2, 0, 1}, {0, 3, 0}}, minutes); d != "" || m.Duration != 180e9 {
		t.Errorf("%d ns: %s", m.Duration, d)
	}
}

// Of PAI's tasks, those are kept that ended without failure, had a GPU, and took at most 20 s.
func TestPAI(t *testing.T) {
	row := func(status, start, end, gpu string) string {
		return "j,worker,1.0," + status + "," + start + "," + end + ",600.0,29.3," + gpu + ",V100\n"
	}
	table := row("Terminated", "100.0", "120.0", "50.0") + row("Terminated", "90", "110.1", "50.0") + row("Failed", "100", "101", "50.0") +
		row("Terminated", "100", "101", "") + row("Terminated", "100", "101", "0.0") + row("Running", "100", "", "50.0") + row("Waiting", "", "", "50.0") +
		row("Terminated", "95", "99", "100.0")
	tr, err := load.PAI("t", strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]load.Time{0, 5e9}, tr.Times()); d != "" || tr.Skipped != 6 {
		t.Errorf("%d lines skipped: %s", tr.Skipped, d)
	}
	for _, bad := range []string{row("Terminated", "1", "x", "50"), row("Terminated", "1", "2", "much"), "j,i,u,s,1,5\n"} {
		if tr, err := load.PAI("t", strings.NewReader(bad)); !errors.Is(err, load.ErrLoad) {
			t.Errorf("%q: %v, %v", bad, tr, err)
		}
	}
}

func TestAlibaba(t *testing.T) {
	for file, want := range map[string][]load.Time{
		"alibaba-pods.csv":  {0, 327e9, 327e9},
		"alibaba-tasks.csv": {0, 999.5e9},
		"alibaba-jobs.csv":  {0, 500e9},
	} {
		tr := trace(t, "alibaba", file)
		if d := cmp.Diff(want, tr.Times()); d != "" {
			t.Errorf("%s: %s", file, d)
		}
		if want := map[string]int{"alibaba-tasks.csv": 1}[file]; tr.Skipped != want {
			t.Errorf("%s: %d lines skipped, expected %d", file, tr.Skipped, want)
		}
	}
}

func TestRescale(t *testing.T) {
	got, err := load.Rescale([]load.Time{10, 20, 50}, 4)
	if d := cmp.Diff([]load.Time{0, 125e6, 500e6}, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	for _, c := range []struct {
		times []load.Time
		rate  float64
		want  error
	}{
		{[]load.Time{1}, 1, load.ErrLoad},
		{[]load.Time{5, 5}, 1, load.ErrLoad},
		{[]load.Time{5, 4}, 1, load.ErrUnsorted},
		{[]load.Time{5, 6}, 0, load.ErrRate},
		{[]load.Time{5, 6}, 1e-12, load.ErrLoad},
	} {
		if _, err := load.Rescale(c.times, c.rate); !errors.Is(err, c.want) || !errors.Is(err, load.ErrLoad) {
			t.Errorf("%v at %g: %v", c.times, c.rate, err)
		}
	}
}

// reader calls the reader of a format on a text.
func reader(format string) func(string) (*load.Trace, error) {
	return func(text string) (*load.Trace, error) {
		r := strings.NewReader(text)
		switch format {
		case "disb":
			return load.DISB("input", r, 1)
		case "azure-llm":
			return load.AzureLLM("input", r)
		case "azure-functions":
			return load.AzureFunctions("input", r)
		case "azure-minutes":
			return load.AzureMinutes("input", r, 1)
		}
		return load.Alibaba("input", r)
	}
}

func TestBadTraces(t *testing.T) {
	const llm, fun, min = "TIMESTAMP,ContextTokens,GeneratedTokens\n", "app,func,end_timestamp,duration\n", "HashOwner,HashApp,HashFunction,Trigger,1\n"
	task := func(load string) string { return `{"time": 1, "tasks": [{"load": ` + load + `}]}` }
	for _, c := range []struct {
		format, text, err string
		is                error
	}{
		{"disb", "", "unexpected end", load.ErrLoad},
		{"disb", "{\n\"time\": \"x\"}", "line 2: time: expected a number, found string", load.ErrLoad},
		{"disb", "[]", "input: line 1: expected an object, found array", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": {}}`, "tasks: expected an array, found object", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{"id": 4}]}`, "id: expected a string, found number", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{"load": {"priority": 0.5}}]}`, "priority: expected a whole number, found number 0.5", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{"id": "a\u001b[2J", "load": {"type": "continuous"}}]}`, `task 0: id: "a\x1b[2J", expected characters that can be printed`, load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{"load": {"type": "continuous"}, "client": {"model_name": "vgg\nall is well"}}]}`, `task 0: model_name: "vgg\nall`, load.ErrLoad},
		{"disb", `{"tasks": [{"load": {"type": "continuous"}}]}`, "time: expected seconds", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": []}`, "tasks: expected", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{}]}`, "task 0: no load", load.ErrLoad},
		{"disb", task(`{"type": "random"}`), "load type \"random\"", load.ErrLoad},
		{"disb", task(`{"type": "periodic"}`), "without a frequency", load.ErrLoad},
		{"disb", task(`{"type": "poisson", "frequency": 1e9}`), "1e+09 arrivals", load.ErrRate},
		{"disb", task(`{"type": "poisson", "frequency": 9e7}`), "at most 10000000", load.ErrRate},
		{"disb", task(`{"type": "trace", "trace": []}`), "without a time", load.ErrLoad},
		{"disb", task(`{"type": "trace", "trace": [2, 1]}`), "arrival 1", load.ErrUnsorted},
		{"disb", task(`{"type": "trace", "trace": [-1]}`), "arrival 0", load.ErrNegative},
		{"disb", task(`{"type": "trace", "trace": [1e300]}`), "1e+300 ms", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{"load": {"type": "continuous"}, "client": {"deadline_ms": 0}}]}`, "task 0: a deadline_ms of 0, expected 0.001", load.ErrLoad},
		{"disb", `{"time": 1, "tasks": [{"load": {"type": "continuous"}, "client": {"deadline_ms": 1e300}}]}`, "a deadline_ms of 1e+300", load.ErrLoad},
		{"azure-llm", "", "no arrival", load.ErrLoad},
		{"azure-llm", "a,b\n", "input:1: expected the header", load.ErrLoad},
		{"azure-llm", llm, "no arrival", load.ErrLoad},
		{"azure-llm", llm + "yesterday,1,1\n", "input:2: TIMESTAMP", load.ErrLoad},
		{"azure-llm", llm + "2023-11-16 18:17:03,1\n", "input:2: expected 3 columns", load.ErrLoad},
		{"azure-llm", llm + "2023-11-16 18:17:03,-1,1\n", "ContextTokens", load.ErrLoad},
		{"azure-llm", llm + "2023-11-16 18:17:03,1,1\n2023-11-16 18:17:02,1,1\n", "input:3:", load.ErrUnsorted},
		{"azure-llm", llm + "2023-11-16 18:17:03,1,1\n2063-11-16 18:17:02,1,1\n", "out of range", load.ErrLoad},
		{"azure-functions", fun + "a,f,1,-1\n", "input:2: expected an end", load.ErrLoad},
		{"azure-functions", fun + "a,f,NaN,1\n", "input:2: expected an end", load.ErrLoad},
		{"azure-functions", fun + "a,f,1e300,1\n", "an arrival at 1e+300 s", load.ErrLoad},
		{"azure-functions", fun + "a,f,1,2\n", "no arrival", load.ErrLoad},
		{"azure-minutes", "HashOwner,HashApp,HashFunction,Trigger\n", "expected the header", load.ErrLoad},
		{"azure-minutes", "HashOwner,HashApp,HashFunction,Trigger,2\n", "expected minute 1", load.ErrLoad},
		{"azure-minutes", min + "o,a,f,t,-1\n", "minute 1", load.ErrLoad},
		{"azure-minutes", min + "o,a,f,t,999999999\n", "up to minute 1", load.ErrRate},
		{"azure-minutes", min + "o,a,f,t,1,1\n", "expected 5 columns", load.ErrLoad},
		{"alibaba", "a,b,c\n", "expected a job table", load.ErrLoad},
		{"alibaba", "j,i,u,s,-4,5\n", "input:1:", load.ErrNegative},
		{"alibaba", "j,i,u,s,x,5\n", "expected a time in seconds", load.ErrLoad},
		{"alibaba", "j,i,u,s,1e30,5\n", "out of range", load.ErrLoad},
		{"alibaba", "j,i,u,s,1,5\nj,i\n", "input:2: expected 6 columns", load.ErrLoad},
		{"alibaba", "j,i,u,s,\"1,5\n", "input: ", load.ErrLoad},
	} {
		tr, err := reader(c.format)(c.text)
		if tr != nil || !errors.Is(err, c.is) || !errors.Is(err, load.ErrLoad) || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "input") {
			t.Errorf("%s %q: %v, want %q (%v)", c.format, c.text, err, c.err, c.is)
		}
	}
	if _, err := load.TraceFile("pcap", "x", 1); !errors.Is(err, load.ErrLoad) || !strings.Contains(err.Error(), "azure-llm") {
		t.Errorf("an unknown format: %v", err)
	}
	if _, err := load.TraceFile("disb", filepath.Join(t.TempDir(), "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// endless is a reader without an end and without a line end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestTraceIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 256 MiB")
	}
	if _, err := load.Alibaba("input", io.MultiReader(strings.NewReader("j,i,u,s,1,5\n"), endless{})); !errors.Is(err, load.ErrLoad) || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

func fuzzTrace(f *testing.F, format string, files ...string) {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := reader(format)(text)
		if err != nil {
			if tr != nil || !errors.Is(err, load.ErrLoad) || !strings.Contains(err.Error(), "input") {
				t.Fatalf("%v, %v", tr, err)
			}
			return
		}
		for i := range tr.Streams {
			s := &tr.Streams[i]
			if !slices.IsSorted(s.Times) || len(s.Times) > 0 && (s.Times[0] < 0 || s.Times[len(s.Times)-1] > load.MaxTime || s.Times[len(s.Times)-1] > tr.Duration) {
				t.Fatalf("stream %d: %v over %d ns", i, s.Times, tr.Duration)
			}
		}
	})
}

func FuzzDISB(f *testing.F)           { fuzzTrace(f, "disb", "disb.json") }
func FuzzAzureLLM(f *testing.F)       { fuzzTrace(f, "azure-llm", "azure-llm.csv") }
func FuzzAzureFunctions(f *testing.F) { fuzzTrace(f, "azure-functions", "azure-functions.csv") }
func FuzzAzureMinutes(f *testing.F)   { fuzzTrace(f, "azure-minutes", "azure-minutes.csv") }
func FuzzAlibaba(f *testing.F) {
	fuzzTrace(f, "alibaba", "alibaba-pods.csv", "alibaba-tasks.csv", "alibaba-jobs.csv")
}
