// Figures from runs.

package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/params"
)

// Row is a figure with its spread.
type Row struct {
	Part   string  `json:"part"`
	Key    string  `json:"key"`
	Unit   string  `json:"unit"`
	N      int     `json:"n"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Spread float64 `json:"spread"` // of the middle half, of the median
}

func row(part, key, unit string, v []float64) Row {
	v = slices.Sorted(slices.Values(v))
	r := Row{Part: part, Key: key, Unit: unit, N: len(v)}
	if len(v) == 0 {
		return r
	}
	q := func(p float64) float64 { return v[min(len(v)-1, int(p*float64(len(v))))] }
	r.Median, r.P95, r.P99, r.Least, r.Most = q(0.5), q(0.95), q(0.99), v[0], v[len(v)-1]
	if r.Median != 0 {
		r.Spread = (q(0.75) - q(0.25)) / r.Median
	}
	return r
}

// Rows are all figures that follow from the runs.
func (r *Raw) Rows() (out []Row) {
	find := func(part, key string) []int64 {
		for i := range r.Series {
			if r.Series[i].Part == part && r.Series[i].Key == key {
				return r.Series[i].Runs
			}
		}
		return nil
	}
	seen := map[string]map[int64]int{} // by size: partitions in which an SM is
	var order []string
	unit := map[int][]int64{} // where single units run
	wrong, others, cut := 0, 0, 0
	for i := range r.Series {
		s := &r.Series[i]
		v := make([]float64, len(s.Runs))
		for k, x := range s.Runs {
			v[k] = float64(x)
		}
		switch s.Part {
		case Partitions:
			size, _, _ := strings.Cut(s.Key, " ")
			var n, first, want int
			if _, err := fmt.Sscanf(s.Key, "size=%d units=%d want=%d", &n, &first, &want); err != nil {
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
		case Copies:
			var bytes float64
			var way, how string
			if _, err := fmt.Sscanf(s.Key, "%g %s %s", &bytes, &way, &how); err != nil {
				continue
			}
			for k := range v {
				v[k] = bytes / max(1, v[k])
			}
			out = append(out, row(s.Part, s.Key, "bytes/ns", v))
		case Slowdown:
			key, ok := strings.CutSuffix(s.Key, " took")
			if !ok {
				continue
			}
			for _, model := range []string{"learnt", "static"} {
				guess, off := find(Slowdown, key+" "+model), make([]float64, 0, len(v))
				for k := range min(len(v), len(guess)) {
					off = append(off, math.Abs(float64(guess[k])/max(1, v[k])-1))
				}
				out = append(out, row(Slowdown, key+" error of "+model, "share", off))
			}
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
			only := floats(find(DISB, workload+" rt-only latency"))
			if ok && len(v) > 0 && len(only) > 0 { // as the publication has it: means
				out = append(out, row(s.Part, key+" rt", "of rt-only", []float64{mean(v) * 1e6 / mean(only)}))
			}
		default:
			out = append(out, row(s.Part, s.Key, s.Unit, v))
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
	// What padding costs the one of priority is its time beside what pads, of that beside what is put aside: either
	// comes into best-effort work. And what best effort gets for that is the launches that ended, of as many as it would
	// have done alone.
	for _, of := range [][2]string{{"reset", "alone"}, {"reef", "alone"}, {"reef", "reset"}} {
		base := row(Padding, "", "", floats(find(Padding, of[1])))
		if v := floats(find(Padding, of[0])); base.Median > 0 && len(v) > 0 {
			for k := range v {
				v[k] /= base.Median
			}
			out = append(out, row(Padding, of[0]+" of "+of[1], "share", v))
		}
	}
	for _, name := range []string{"reset", "reef"} {
		one, ended, span := find(Padding, "best effort alone"), find(Padding, name+" ended"), find(Padding, name+" span")
		if len(one) == 1 && len(ended) == 1 && len(span) == 1 && span[0] > 0 {
			out = append(out, row(Padding, name+" best effort keeps", "share", []float64{float64(ended[0]) * float64(one[0]) / float64(span[0])}))
		}
	}
	return out
}

func mean(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// unionOf are the SMs of n units from the first on, as far as there are so many.
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

// Params is a GPU's parameter file with what was measured in the place of what was assumed. Where base is another
// GPU's, what it says is assumed of this one. The simulator's unit stays base's, a TPC: what the driver gives away
// at least is several, and more in the last unit. What the fake shows is no measurement.
func (r *Raw) Params(base *params.File) (*params.File, error) {
	if r.Facts.Fake {
		return nil, fmt.Errorf("%w: these runs are of the driver without a GPU", params.ErrFile)
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
	for _, c := range []struct{ key, row, how string }{
		{"launch_ns", Costs + " launch", "a launch with its event"},
		{"kill_ns", Preemption + " reset capacity=1 gone", "from the flag to the last block gone, one kernel in the stream"},
		{"link_up_bytes_per_ns", Copies + " 16777216 up alone", "copies of 16 MiB"},
		{"link_down_bytes_per_ns", Copies + " 16777216 down alone", "copies of 16 MiB"},
	} {
		if x, ok := rows[c.row]; ok && x.N > 0 {
			set(c.key, x.Median, fmt.Sprintf("%s, n %d, spread %.2f", c.how, x.N, x.Spread))
		}
	}
	return f, nil
}
