// This file reads published traces and workload files in their own formats. The reader of a format returns a file's
// arrival times, by stream of requests. A replay may scale the times to another mean rate (Rescale).
//
//	disb             SJTU-IPADS/disb and reef: JSON, tasks with a load (periodic, poisson,
//	                 continuous, trace in ms) and a client, which may have a deadline_ms (ours)
//	azure-llm        AzurePublicDataset, LLM inference 2023: TIMESTAMP,ContextTokens,GeneratedTokens
//	azure-functions  AzurePublicDataset, Functions 2021: app,func,end_timestamp,duration (s)
//	azure-minutes    AzurePublicDataset, Functions 2019: HashOwner,HashApp,HashFunction,Trigger and
//	                 one column per minute with the number of invocations
//	alibaba          clusterdata: PAI job and task tables of gpu-v2020 (no header, 6 and 10 columns,
//	                 start times in s), and the pod list of openb (with a header)
//	pai              the tasks of PAI's task table that SEEB-GPU selects (section 4): not failed, with
//	                 a GPU, of at most 20 s

package load

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/names"
)

// Stream is one client of a trace.
type Stream struct {
	Name     string
	Network  string // requested model; empty if unknown
	Priority int
	Batch    int     // number of samples per request; 0: unknown
	Closed   bool    // closed loop: the stream has no times
	Deadline Time    // relative to the arrival; 0: unknown
	Rate     float64 // requests per second, for a stream with random or periodic arrivals (DISB's periodic and poisson)
	Times    []Time  // in ascending order
}

// Trace is the content of a file. Times are relative to the start of the trace.
type Trace struct {
	Format   string
	Duration Time // as given in the file, or the time until the last arrival
	Streams  []Stream
	Skipped  int // number of ignored lines: without a usable time, or excluded by the format
}

// Times returns the arrivals of all streams with times, sorted.
func (t *Trace) Times() []Time {
	var out []Time
	for i := range t.Streams {
		out = append(out, t.Streams[i].Times...)
	}
	slices.Sort(out)
	return out
}

// Rescale multiplies the distances between times by a factor, so that they have a mean rate, in arrivals per second.
// The first time becomes 0. The relative length of bursts and quiet periods does not change.
func Rescale(times []Time, rate float64) ([]Time, error) {
	if err := CheckRate(rate); err != nil {
		return nil, err
	}
	if err := order(times); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLoad, err)
	}
	if len(times) < 2 || times[len(times)-1] == times[0] {
		return nil, fmt.Errorf("%w: %d arrivals at one time have no rate to change", ErrLoad, len(times))
	}
	first, span := times[0], float64(times[len(times)-1]-times[0])
	want := float64(len(times)-1) / rate * 1e9
	if want > float64(MaxTime) {
		return nil, fmt.Errorf("%w: %d arrivals at %g per second lie beyond %d ns", ErrLoad, len(times), rate, MaxTime)
	}
	out := make([]Time, len(times))
	for i, t := range times {
		out[i] = Time(float64(float64(t-first) / span * want))
	}
	return out, nil
}

// formats has the readers by name.
var formats = map[string]func(name string, r io.Reader, seed uint64) (*Trace, error){
	"disb":            DISB,
	"azure-llm":       func(name string, r io.Reader, _ uint64) (*Trace, error) { return AzureLLM(name, r) },
	"azure-functions": func(name string, r io.Reader, _ uint64) (*Trace, error) { return AzureFunctions(name, r) },
	"azure-minutes":   AzureMinutes,
	"alibaba":         func(name string, r io.Reader, _ uint64) (*Trace, error) { return Alibaba(name, r) },
	"pai":             func(name string, r io.Reader, _ uint64) (*Trace, error) { return PAI(name, r) },
}

// Formats returns the names of the formats.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// TraceFile reads a file in a format. The seed determines the random parts: arrivals within a minute, and DISB's random
// loads.
func TraceFile(format, path string, seed uint64) (*Trace, error) {
	read := formats[format]
	if read == nil {
		return nil, fmt.Errorf("%w: format %q: expected %s", ErrLoad, format, strings.Join(Formats(), ", "))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	return read(path, f, seed)
}

// disbTask is a client of a DISB workload.
type disbTask struct {
	ID   string `json:"id"`
	Load *struct {
		Type      string    `json:"type"`
		Priority  int       `json:"priority"`
		Frequency *float64  `json:"frequency"`
		Trace     []float64 `json:"trace"` // times in ms
	} `json:"load"`
	Client struct {
		ModelName string   `json:"model_name"`
		BatchSize int      `json:"batch_size"`
		Priority  int      `json:"priority"`
		Deadline  *float64 `json:"deadline_ms"`
	} `json:"client"`
}

// DISB reads a workload file of DISB or REEF. Periodic and poisson loads have arrivals until the workload ends.
// Continuous loads are closed loops.
func DISB(name string, r io.Reader, seed uint64) (*Trace, error) {
	text, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	fail := func(format string, a ...any) (*Trace, error) {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, name, fmt.Errorf(format, a...))
	}
	var doc struct {
		Time  *float64   `json:"time"`
		Tasks []disbTask `json:"tasks"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fail("%w", place(text, err))
	}
	if doc.Time == nil || !(*doc.Time > 0) || *doc.Time*1e9 > float64(MaxTime) {
		return fail("time: expected seconds, more than 0 and at most %g", float64(MaxTime)/1e9)
	}
	if len(doc.Tasks) == 0 || len(doc.Tasks) > 10_000 {
		return fail("tasks: expected 1..10000, found %d", len(doc.Tasks))
	}
	t := &Trace{Format: "disb", Duration: Time(*doc.Time * 1e9)}
	total := 0
	for i := range doc.Tasks {
		s, err := doc.Tasks[i].stream(i, t.Duration, seed+uint64(i), MaxArrivals-total)
		if err != nil {
			return fail("task %d: %w", i, err)
		}
		if total += len(s.Times); total > MaxArrivals {
			return fail("more than %d arrivals", MaxArrivals)
		}
		if n := len(s.Times); n > 0 {
			t.Duration = max(t.Duration, s.Times[n-1])
		}
		t.Streams = append(t.Streams, *s)
	}
	return t, nil
}

// stream creates the stream of task i, with the arrivals before "end". "most" is the limit for drawn arrivals.
func (t *disbTask) stream(i int, end Time, seed uint64, most int) (*Stream, error) {
	l := t.Load
	if l == nil {
		return nil, errors.New("no load")
	}
	s := &Stream{
		Name: cmp.Or(t.ID, fmt.Sprintf("task%d", i)), Network: t.Client.ModelName, Batch: t.Client.BatchSize,
		Priority: max(l.Priority, t.Client.Priority),
	}
	for _, of := range [][2]string{{"id", s.Name}, {"model_name", s.Network}} {
		if !names.Printable(of[1]) {
			return nil, fmt.Errorf("%s: %.80q, expected characters that can be printed", of[0], of[1])
		}
	}
	if s.Batch < 0 {
		return nil, fmt.Errorf("a batch_size of %d", s.Batch)
	}
	if d := t.Client.Deadline; d != nil {
		if !(*d >= 0.001 && *d*1e6 <= float64(MaxTime)) {
			return nil, fmt.Errorf("a deadline_ms of %g, expected 0.001 to %g", *d, float64(MaxTime)/1e6)
		}
		s.Deadline = Time(math.Round(*d * 1e6))
	}
	var err error
	switch l.Type {
	case "continuous":
		s.Closed = true
	case "periodic", "poisson":
		if l.Frequency == nil {
			return nil, fmt.Errorf("a %s load without a frequency", l.Type)
		}
		s.Rate = *l.Frequency
		if err = CheckRate(s.Rate); err == nil {
			s.Times, err = until(Process{Kind: Kind(l.Type)}, s.Rate, end, seed, most)
		}
	case "trace":
		if len(l.Trace) == 0 {
			return nil, errors.New("a trace without a time")
		}
		for j, at := range l.Trace {
			if !(at*1e6 <= float64(MaxTime)) {
				return nil, fmt.Errorf("time %d is %g ms, expected 0..%g", j, at, float64(MaxTime)/1e6)
			}
			s.Times = append(s.Times, Time(math.Round(at*1e6)))
		}
		err = order(s.Times)
	default:
		err = fmt.Errorf("load type %q, expected periodic, poisson, continuous or trace", l.Type)
	}
	return s, err
}

// until draws the arrivals of a process before "end".
func until(p Process, rate float64, end Time, seed uint64, most int) ([]Time, error) {
	n := rate * float64(end) / 1e9
	if n > float64(most) {
		return nil, fmt.Errorf("%w: %w: about %.0f arrivals at %g per second, at most %d", ErrLoad, ErrRate, n, rate, most)
	}
	// Ten standard deviations above the mean number are drawn. Arrivals from "end" on are removed.
	times, err := p.Times(rate, min(int(n+10*math.Sqrt(n))+10, MaxArrivals), seed)
	if err != nil {
		return nil, err
	}
	i, _ := slices.BinarySearch(times, end)
	return times[:i], nil
}

// AzureLLM reads a trace of LLM requests of 2023. It ignores tokens, since requests have a fixed size here.
func AzureLLM(name string, r io.Reader) (*Trace, error) {
	var first time.Time
	t := &Trace{Format: "azure-llm", Streams: []Stream{{Name: "llm"}}}
	s := &t.Streams[0]
	err := table(name, r, []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, func(row []string) error {
		at, err := time.Parse("2006-01-02 15:04:05", row[0]) // seconds may have a fraction
		if err != nil {
			return fmt.Errorf("TIMESTAMP: expected 2006-01-02 15:04:05.0000000, found %q", row[0])
		}
		for i, column := range []string{"ContextTokens", "GeneratedTokens"} {
			if n, err := strconv.ParseInt(row[1+i], 10, 64); err != nil || n < 0 {
				return fmt.Errorf("%s: expected a whole number, found %q", column, row[1+i])
			}
		}
		if len(s.Times) == 0 {
			first = at
		}
		return s.add(at.Sub(first).Nanoseconds())
	})
	return finish(t, name, err)
}

// AzureFunctions reads a trace of function invocations of 2021, with one stream for each function. The arrival of a
// request is its end minus its duration. A request that began before the trace is skipped.
func AzureFunctions(name string, r io.Reader) (*Trace, error) {
	t := &Trace{Format: "azure-functions"}
	type function struct{ app, name string } // a name is unique only within its app
	streams := map[function]int{}
	var apps []string
	n := 0
	err := table(name, r, []string{"app", "func", "end_timestamp", "duration"}, func(row []string) error {
		end, err1 := strconv.ParseFloat(row[2], 64)
		took, err2 := strconv.ParseFloat(row[3], 64)
		if err1 != nil || err2 != nil || !(took >= 0) || math.IsInf(took, 0) || math.IsNaN(end) || math.IsInf(end, 0) {
			return fmt.Errorf("expected an end and a duration in seconds, found %q, %q", row[2], row[3])
		}
		if (end-took)*1e9 > float64(MaxTime) {
			return fmt.Errorf("an arrival at %g s, at most %g", end-took, float64(MaxTime)/1e9)
		}
		if end < took {
			t.Skipped++
			return nil
		}
		f := function{strings.Clone(row[0]), strings.Clone(row[1])}
		i, ok := streams[f]
		if !ok {
			i = len(t.Streams)
			streams[f] = i
			t.Streams, apps = append(t.Streams, Stream{Name: f.name}), append(apps, f.app)
		}
		if n++; n > MaxArrivals {
			return fmt.Errorf("more than %d arrivals", MaxArrivals)
		}
		t.Streams[i].Times = append(t.Streams[i].Times, Time(math.Round((end-took)*1e9)))
		return nil
	})
	t.scope(apps)
	// The lines of the file are in the order of ends, so the arrivals must be sorted.
	for i := range t.Streams {
		slices.Sort(t.Streams[i].Times)
	}
	return finish(t, name, err)
}

// AzureMinutes reads invocations per minute of 2019, with one stream for each function. Arrivals within a minute are
// random, since the file has only counts.
func AzureMinutes(name string, r io.Reader, seed uint64) (*Trace, error) {
	t := &Trace{Format: "azure-minutes"}
	rng := rand.New(rand.NewPCG(seed, stream))
	n, columns := 0, 0
	var apps []string
	fixed := []string{"HashOwner", "HashApp", "HashFunction", "Trigger"}
	err := rows(name, r, func(line int, row []string) error {
		if line == 0 {
			if len(row) <= len(fixed) || len(row) > len(fixed)+1440 || !slices.Equal(row[:len(fixed)], fixed) {
				return fmt.Errorf("expected the header %s and one column a minute, found %d columns", strings.Join(fixed, ","), len(row))
			}
			for i, c := range row[len(fixed):] {
				if c != strconv.Itoa(i+1) {
					return fmt.Errorf("column %d: expected minute %d, found %q", len(fixed)+i, i+1, c)
				}
			}
			columns = len(row)
			return nil
		}
		if len(row) != columns {
			return fmt.Errorf("expected %d columns, found %d", columns, len(row))
		}
		s := Stream{Name: row[2]}
		for minute, text := range row[len(fixed):] {
			count, err := strconv.Atoi(text)
			if err != nil || count < 0 {
				return fmt.Errorf("minute %d: expected a number of invocations, found %q", minute+1, text)
			}
			if n += count; n > MaxArrivals || count > MaxArrivals {
				return fmt.Errorf("%w: more than %d arrivals, up to minute %d", ErrRate, MaxArrivals, minute+1)
			}
			for range count {
				s.Times = append(s.Times, Time(minute)*60e9+rng.Int64N(60e9))
			}
		}
		slices.Sort(s.Times)
		t.Streams, apps = append(t.Streams, s), append(apps, row[0]+"/"+row[1])
		return nil
	})
	t.scope(apps)
	t.Duration = Time(max(0, columns-len(fixed))) * 60e9
	return finish(t, name, err)
}

// scope adds the app as a prefix to a stream's name, if another app has a function with the same name.
func (t *Trace) scope(apps []string) {
	first, shared := map[string]int{}, map[string]bool{}
	for i := range t.Streams {
		name := t.Streams[i].Name
		if k, ok := first[name]; ok && apps[k] != apps[i] {
			shared[name] = true
		} else if !ok {
			first[name] = i
		}
	}
	for i := range t.Streams {
		if s := &t.Streams[i]; shared[s.Name] {
			s.Name = apps[i] + "/" + s.Name
		}
	}
}

// Alibaba reads a PAI job or task table of the GPU trace of 2020, or the pod list of openb. Jobs and tasks arrive at
// their start, and pods at their creation. The tables are not sorted by time. The first arrival is time 0.
func Alibaba(name string, r io.Reader) (*Trace, error) {
	return alibaba("alibaba", name, r, nil)
}

// PAI reads PAI's task table, and selects the same tasks as section 4 of SEEB-GPU. These tasks have ended and not
// failed, use a GPU, and took at most 20 s. Longer tasks are mostly training. The table has no column for GPU memory.
func PAI(name string, r io.Reader) (*Trace, error) {
	return alibaba("pai", name, r, func(row []string) (bool, error) {
		if len(row) != 10 {
			return false, fmt.Errorf("expected a task table (10 columns), found %d", len(row))
		}
		if row[3] != "Terminated" || row[5] == "" || row[8] == "" {
			return false, nil
		}
		var v [3]float64 // start, end, GPU
		for i, c := range []int{4, 5, 8} {
			x, err := strconv.ParseFloat(row[c], 64)
			if err != nil || math.IsNaN(x) {
				return false, fmt.Errorf("expected a number in column %d, found %q", c+1, row[c])
			}
			v[i] = x
		}
		return v[2] > 0 && v[1]-v[0] <= 20, nil
	})
}

func alibaba(format, name string, r io.Reader, keep func(row []string) (bool, error)) (*Trace, error) {
	t := &Trace{Format: format, Streams: []Stream{{Name: "cluster"}}}
	s := &t.Streams[0]
	column, columns := -1, 0
	err := rows(name, r, func(line int, row []string) error {
		if line == 0 {
			columns = len(row)
			if column = slices.Index(row, "creation_time"); column < 0 {
				column = slices.Index(row, "start_time")
			}
			if column >= 0 {
				return nil
			}
			switch len(row) { // the published files have no header
			case 6: // job_name,inst_id,user,status,start_time,end_time
			case 10: // job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type
			default:
				return fmt.Errorf("expected a job table (6 columns), a task table (10) or a header with creation_time, found %d columns", len(row))
			}
			column = 4
		}
		if len(row) != columns {
			return fmt.Errorf("expected %d columns, found %d", columns, len(row))
		}
		if row[column] == "" { // the task has never started
			t.Skipped++
			return nil
		}
		if keep != nil {
			kept, err := keep(row)
			if err != nil {
				return err
			}
			if !kept {
				t.Skipped++
				return nil
			}
		}
		at, err := strconv.ParseFloat(row[column], 64)
		if err != nil || math.IsNaN(at) {
			return fmt.Errorf("expected a time in seconds, found %q", row[column])
		}
		if at < 0 {
			return fmt.Errorf("%q s: %w", row[column], ErrNegative)
		}
		if at*1e9 > float64(MaxTime) {
			return fmt.Errorf("%q s is out of range, 0..%g", row[column], float64(MaxTime)/1e9)
		}
		if len(s.Times) == MaxArrivals {
			return fmt.Errorf("more than %d arrivals", MaxArrivals)
		}
		s.Times = append(s.Times, Time(math.Round(at*1e9)))
		return nil
	})
	if err == nil && len(s.Times) > 0 {
		slices.Sort(s.Times)
		first := s.Times[0]
		for i := range s.Times {
			s.Times[i] -= first
		}
	}
	return finish(t, name, err)
}

// add appends a time. Times must be in order.
func (s *Stream) add(at Time) error {
	last := Time(0)
	if n := len(s.Times); n > 0 {
		if at < 0 { // times are relative to the first time
			return fmt.Errorf("%d ns before the first arrival: %w", -at, ErrUnsorted)
		}
		last = s.Times[n-1]
	}
	if err := next(last, at); err != nil {
		return err
	}
	if len(s.Times) == MaxArrivals {
		return fmt.Errorf("more than %d arrivals", MaxArrivals)
	}
	s.Times = append(s.Times, at)
	return nil
}

// finish sets the duration of a trace. It returns an error if the trace has no arrivals.
func finish(t *Trace, name string, err error) (*Trace, error) {
	if err != nil {
		return nil, err
	}
	n := 0
	for i := range t.Streams {
		s := &t.Streams[i]
		if n += len(s.Times); len(s.Times) > 0 {
			t.Duration = max(t.Duration, s.Times[len(s.Times)-1])
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: %s: there is no arrival", ErrLoad, name)
	}
	return t, nil
}

// rows calls f for every line of a CSV file, from line 0. It adds the line number to errors.
func rows(name string, r io.Reader, f func(line int, row []string) error) error {
	c := csv.NewReader(plaintext.NewReader(&bounded{r: r, left: maxFile}))
	c.ReuseRecord, c.FieldsPerRecord = true, -1
	for i := 0; ; i++ {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrLoad, name, err)
		}
		if err := f(i, row); err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("%w: %s:%d: %w", ErrLoad, name, line, err)
		}
	}
}

// table calls f for every line after the header.
func table(name string, r io.Reader, header []string, f func(row []string) error) error {
	return rows(name, r, func(line int, row []string) error {
		if line == 0 {
			if !slices.Equal(row, header) {
				return fmt.Errorf("expected the header %s, found %q", strings.Join(header, ","), strings.Join(row[:min(len(row), 8)], ","))
			}
			return nil
		}
		if len(row) != len(header) {
			return fmt.Errorf("expected %d columns, found %d", len(header), len(row))
		}
		return f(row)
	})
}

// bounded is a reader that returns an error beyond a number of bytes.
type bounded struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the file is longer than %d bytes", maxFile)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// readAll reads a JSON text.
func readAll(name string, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(&bounded{r: r, left: maxFile})
	if err == nil {
		text, err = plaintext.JSON(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, name, err)
	}
	return text, nil
}

// place adds the line number to a JSON error. For a wrong type it also adds the expected JSON type.
func place(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	at := int64(-1)
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at = kind.Offset
		field := ""
		if kind.Field != "" {
			field = kind.Field + ": "
		}
		err = fmt.Errorf("%sexpected %s, found %s", field, meant(kind.Type.Kind()), kind.Value)
	}
	if at < 0 || at > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:at], []byte("\n")), err)
}

// meant returns the JSON name of a value's type.
func meant(k reflect.Kind) string {
	switch k {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Int:
		return "a whole number"
	}
	return "a number"
}
