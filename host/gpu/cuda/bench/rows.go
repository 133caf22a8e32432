// Figures from runs.

package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/params"
)

// Row is a figure with its spread. A statistic is missing if there are too few runs for it.
type Row struct {
	Part     string    `json:"part"`
	Key      string    `json:"key"`
	Unit     string    `json:"unit"`
	N        int       `json:"n"`
	Median   float64   `json:"median"`
	MedianIn *Interval `json:"median_95,omitempty"` // needs 6 runs
	P95      *float64  `json:"p95,omitempty"`       // needs 200 runs
	P99      *float64  `json:"p99,omitempty"`       // needs 1000 runs
	P99In    *Interval `json:"p99_95,omitempty"`
	Least    float64   `json:"least"`
	Most     float64   `json:"most"`
	Spread   *float64  `json:"spread,omitempty"` // interquartile range, divided by the median
	Note     string    `json:"note,omitempty"`   // why the figure is missing or doubtful
}

// MarshalJSON omits the figures if there are no runs.
func (r Row) MarshalJSON() ([]byte, error) {
	type whole Row
	if r.N > 0 {
		return json.Marshal(whole(r))
	}
	return json.Marshal(struct {
		Part string `json:"part"`
		Key  string `json:"key"`
		Unit string `json:"unit"`
		N    int    `json:"n"`
		Note string `json:"note,omitempty"`
	}{r.Part, r.Key, r.Unit, r.N, r.Note})
}

// find returns the runs of the series with a part and a key.
func (r *Raw) find(part, key string) []int64 {
	for i := range r.Series {
		if r.Series[i].Part == part && r.Series[i].Key == key {
			return r.Series[i].Runs
		}
	}
	return nil
}

// Rows returns all figures that follow from the runs.
func (r *Raw) Rows() (out []Row) {
	for i := range r.Series {
		if s := &r.Series[i]; s.Part != Partitions {
			out = append(out, r.rowsOf(s)...)
		}
	}
	return slices.Concat(out, r.partitions(), r.padding(), r.moved())
}

// rowsOf returns the figures of a series.
func (r *Raw) rowsOf(s *Series) (out []Row) {
	v := make([]float64, len(s.Runs))
	for k, x := range s.Runs {
		v[k] = float64(x)
	}
	switch s.Part {
	case Copies:
		var bytes float64
		var way, how string
		if _, err := fmt.Sscanf(s.Key, "%g %s %s", &bytes, &way, &how); err != nil {
			return nil
		}
		for k := range v {
			v[k] = bytes / max(1, v[k])
		}
		out = append(out, row(s.Part, s.Key, "bytes/ns", v))
	case Slowdown:
		key, ok := strings.CutSuffix(s.Key, " took")
		if !ok {
			return nil
		}
		for _, model := range []string{"learnt", "static"} {
			guess, off := r.find(Slowdown, key+" "+model), make([]float64, 0, len(v))
			for k := range min(len(v), len(guess)) {
				off = append(off, math.Abs(float64(guess[k])/max(1, v[k])-1))
			}
			out = append(out, row(Slowdown, key+" error of "+model, "share", off))
		}
	case SEEB:
		unit := s.Unit
		if unit == "ppm" {
			unit = "share"
			for k := range v {
				v[k] /= 1e6
			}
		}
		if strings.HasSuffix(s.Key, " late") && len(v) > 0 { // the figure is the share of late tasks
			v = []float64{mean(v)}
		}
		out = append(out, row(s.Part, s.Key, unit, v))
	case DISB:
		unit := s.Unit
		if unit == "ppm" {
			unit = "of alone"
			for k := range v {
				v[k] /= 1e6
			}
		}
		out = append(out, row(s.Part, s.Key, unit, v))
		key, ok := strings.CutSuffix(s.Key, " latency")
		workload, _, _ := strings.Cut(key, " ")
		only := floats(r.find(DISB, workload+" rt-only latency"))
		if ok && len(v) > 0 && len(only) > 0 { // means, as in the publication
			out = append(out, row(s.Part, key+" rt", "of rt-only", []float64{mean(v) * 1e6 / mean(only)}))
		}
	case Kills:
		if !perLaunch(s.Key) {
			out = append(out, row(s.Part, s.Key, s.Unit, v))
		}
		out = append(out, kinds(s)...)
		for _, x := range append(r.Restores(), r.Controls()...) {
			if s.Key == x.How+" "+triedKills { // once, at the first of these series
				out = append(out, x.rows()...)
			}
		}
	case Preemption:
		if s.Unit == "preemptions" { // the figure is the sum of all rounds
			v = []float64{sum(v)}
		} else if strings.HasSuffix(s.Key, tooLong) && len(v) > 0 {
			v = []float64{slices.Max(v)}
		}
		out = append(out, row(s.Part, s.Key, s.Unit, v))
	default:
		out = append(out, row(s.Part, s.Key, s.Unit, v))
	}
	return out
}

// partitions returns the figures about the SMs of partitions.
func (r *Raw) partitions() (out []Row) {
	seen := map[string]map[int64]int{} // by size and SM: number of partitions that contain the SM
	var order []string
	unit := map[int][]int64{} // SMs of each unit
	wrong, others, cut := 0, 0, 0
	for i := range r.Series {
		s := &r.Series[i]
		size, _, _ := strings.Cut(s.Key, " ")
		var n, first, want int
		if _, err := fmt.Sscanf(s.Key, "size=%d units=%d want=%d", &n, &first, &want); s.Part != Partitions || err != nil {
			continue
		}
		if len(s.Runs) != want {
			wrong++
		}
		if n == 1 {
			unit[first] = s.Runs
		} else if cut++; !slices.Equal(s.Runs, unionOf(unit, first, n)) {
			others++
		}
		if seen[size] == nil {
			seen[size] = map[int64]int{}
			order = append(order, size)
		}
		for _, sm := range s.Runs {
			seen[size][sm]++
		}
	}
	if len(order) > 0 {
		out = append(out, row(Partitions, "of another size than asked for", "partitions", []float64{float64(wrong)}))
	}
	if cut > 0 {
		out = append(out, row(Partitions, "of several units on other SMs than those", "partitions", []float64{float64(others)}))
	}
	for _, size := range order {
		twice := 0
		for _, n := range seen[size] {
			if n > 1 {
				twice++
			}
		}
		out = append(out, row(Partitions, size+" SMs in two partitions", "sm", []float64{float64(twice)}),
			row(Partitions, size+" SMs in none", "sm", []float64{float64(r.Facts.SMs - len(seen[size]))}))
	}
	return out
}

// sure describes the confidence interval of a median in words.
func (r *Row) sure() (s string) {
	if r.MedianIn != nil {
		s += fmt.Sprintf(", 95 %% in %.4g to %.4g", r.MedianIn[0], r.MedianIn[1])
	}
	if r.Spread != nil {
		s += fmt.Sprintf(", spread %.2f", *r.Spread)
	}
	return s
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func mean(v []float64) float64 { return sum(v) / float64(len(v)) }

// unionOf returns the SMs of at most n units. The argument first is the index of the first unit.
func unionOf(unit map[int][]int64, first, n int) (out []int64) {
	for i := first; i < first+n; i++ {
		out = append(out, unit[i]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func floats(v []int64) (out []float64) {
	for _, x := range v {
		out = append(out, float64(x))
	}
	return out
}

// Params returns a GPU's parameter file. A measured value with ten runs replaces the assumed value. The source of a
// value has a note if the GPU's clock changed during the value's part. If base is the file of another GPU, base's
// values are marked as assumed. The simulator's unit remains a TPC, as in base, because the driver's smallest partition
// has several TPCs and the last unit is larger. Runs on the fake driver are not used.
func (r *Raw) Params(base *params.File) (*params.File, error) {
	if r.Facts.Fake {
		return nil, fmt.Errorf("%w: these runs are of the driver without a GPU", params.ErrFile)
	}
	if r.Facts.GPU == "" {
		return nil, fmt.Errorf("%w: these runs name no GPU", params.ErrFile)
	}
	rows := map[string]Row{}
	for _, x := range r.Rows() {
		rows[x.Part+" "+x.Key] = x
	}
	f := &params.File{Name: r.Facts.GPU, Values: map[string]params.Value{}, Rule: base.Rule}
	for k, v := range base.Values {
		if !base.Is(r.Facts.GPU) && !v.Assumed() {
			v.Source = fmt.Sprintf("assumed; as %s (%s)", base.Name, v.Source)
		}
		f.Values[k] = v
	}
	by := fmt.Sprintf("on %s, driver for %s", r.Facts.GPU, r.Facts.Driver)
	set := func(key string, v float64, how string) {
		f.Values[key] = params.Value{Value: v, Source: "measured " + by + ": " + how}
	}
	f.Values["sms"] = params.Value{Value: float64(r.Facts.SMs), Source: "the driver, " + by}
	f.Values["clock_ghz"] = params.Value{Value: float64(r.Facts.ClockKHz) / 1e6, Source: "the driver, the most, " + by}
	moved := r.Moved()
	for _, c := range []struct{ key, part, row, how string }{
		{"launch_ns", Costs, "launch", "a launch with its event"},
		{"kill_ns", Preemption, "reset capacity=1 seen gone", "from the flag to the last block gone, one kernel in the stream"},
		{"link_up_bytes_per_ns", Copies, "16777216 up alone", "copies of 16 MiB"},
		{"link_down_bytes_per_ns", Copies, "16777216 down alone", "copies of 16 MiB"},
	} {
		if x, ok := rows[c.part+" "+c.row]; ok && x.N >= few {
			how := fmt.Sprintf("%s, n %d%s", c.how, x.N, x.sure())
			if slices.Contains(moved, c.part) {
				how += ", the clock moved"
			}
			set(c.key, x.Median, how)
		}
	}
	return f, nil
}
