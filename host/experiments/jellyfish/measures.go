// These measures compute the publication's claims (claims.yaml) and rows. The publication's curves cannot be read, so
// values that only appear in curves are not claims.

package jellyfish

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// over returns the mean of `of` over the points where `of` is not NaN, or NaN if there are none.
func over(points []Point, of func(Point) (float64, error)) (float64, error) {
	sum, n := 0.0, 0.0
	for _, p := range points {
		x, err := of(p)
		if err != nil {
			return 0, err
		}
		if !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / n, nil
}

// compared returns a measure. Its value is the share of a trace's eighteen settings in which a statement about
// Jellyfish and the three baselines is true. Settings with NaN do not count.
func compared(holds func(j, low, mid, high *Outcome) float64) func(*lab, frame.Args) (float64, error) {
	return func(l *lab, of frame.Args) (float64, error) {
		return over(eighteen(of[0]), func(p Point) (_ float64, err error) {
			var o [4]*Outcome
			for i, system := range []string{"jellyfish", "b-l", "b-m", "b-h"} {
				if o[i], err = l.of(p, system); err != nil {
					return 0, err
				}
			}
			return holds(o[0], o[1], o[2], o[3]), nil
		})
	}
}

// metrics of a run, for rows and claims
var metrics = append(frame.Fields[Outcome](), []frame.Metric[*Outcome]{
	{Name: "p50_ns", Of: func(o *Outcome) float64 { return float64(o.P50) }},
	{Name: "p99_ns", Of: func(o *Outcome) float64 { return float64(o.P99) }},
	{Name: "changes", Of: func(o *Outcome) float64 { return float64(o.Counts.Changes) }},
	{Name: "hits", Of: func(o *Outcome) float64 { return float64(o.Counts.Hits) }},
}...)

// measures returns the measures of the claims and rows, except the measures of random instances.
func (c *Config) measures() frame.Measures[*lab] {
	points := map[string]Point{}
	for _, k := range c.runs() {
		points[k.point.String()] = k.point
	}
	served := func(l *lab, of frame.Args) (*Outcome, error) {
		p, is := points[of[0]]
		if !is {
			return nil, fmt.Errorf("%w: there is no setting %q", ErrSetup, of[0])
		}
		return l.of(p, of[1])
	}
	out := frame.Measures[*lab]{
		"p99_of_slo POINT SYSTEM": func(l *lab, of frame.Args) (float64, error) {
			o, err := served(l, of)
			if err != nil {
				return 0, err
			}
			return float64(o.P99) / float64(points[of[0]].SLO), nil
		},
		// Mean share of missed deadlines over the settings with this SLO in ms; ErrQuiet if no deadline was missed.
		"missed slo": func(l *lab, of frame.Args) (float64, error) {
			x, err := over(slices.DeleteFunc(eighteen("steps"), func(p Point) bool { return p.SLO != int64(of.Int(0))*ms }), func(p Point) (float64, error) {
				o, err := l.of(p, "jellyfish")
				if err != nil {
					return 0, err
				}
				return o.Miss, nil
			})
			if err == nil && x == 0 {
				err = frame.ErrQuiet
			}
			return x, err
		},
		"least_accurate TRACE": compared(func(j, low, mid, high *Outcome) float64 {
			a := low.Accuracy
			return frame.Truth(a <= j.Accuracy && (a <= mid.Accuracy || mid.OnTime == 0) && (a <= high.Accuracy || high.OnTime == 0))
		}),
		"most_missing TRACE": compared(func(j, low, mid, high *Outcome) float64 {
			most := max(mid.Miss, low.Miss, j.Miss)
			if high.Miss == 0 && most == 0 {
				return math.NaN()
			}
			return frame.Truth(high.Miss >= most)
		}),
		"consistent TRACE": compared(func(j, _, mid, high *Outcome) float64 {
			return frame.Truth(j.Miss <= mid.Miss+0.001 && j.Miss <= high.Miss+0.001)
		}),
	}
	frame.AddMetrics(out, "POINT SYSTEM", served, metrics)
	return out
}

// numbers returns rows of the metrics of every run.
func (c *Config) numbers() (out []frame.Number) {
	for _, k := range c.runs() {
		var names []string
		for _, m := range metrics {
			names = append(names, m.Name)
		}
		if strings.HasPrefix(k.system, "b-") { // the baselines never change networks
			names = names[:6]
		}
		out = append(out, frame.Numbers("", frame.Row{Bench: "jellyfish", Setting: k.point.String(), Policy: k.system}, k.point.String()+", "+k.system, names...)...)
	}
	return out
}
