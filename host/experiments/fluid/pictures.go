// Each picture of a suite shows a metric along a bench's axis, with one line per policy.

package fluid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/report"
)

// NamedPicture is a picture with its file name, without extension.
type NamedPicture struct {
	Name string
	report.Picture
}

// units are the scales and labels of metrics in pictures.
var units = map[string]struct {
	label string
	scale float64
	log   bool
}{
	"avg_ns":         {"average latency in ms", 1e-6, true},
	"p99_ns":         {"p99 latency in ms", 1e-6, true},
	"violation_rate": {"violations in %", 100, false},
	"busy":           {"device busy in %", 100, false},
	"mac_util":       {"MAC utilisation while busy in %", 100, false},
	"rate":           {"results per second", 1, false},
	"goodput":        {"results in time per second", 1, false},
}

// inPictures contains the policies with named and coloured curves, most important first. Other curves are grey.
var inPictures = []struct {
	policy string
	hue    int
	bold   bool
}{
	{"fluid+", 6, true},
	{"fluid", 5, true},
	{"fluid+refuse", 2, false},
	{Baseline, 3, false},
	{"clockwork", 4, false},
	{"r-adaptb-m", 1, false},
	{"fc-adaptb-m", 2, false},
	{"serial", 0, false},
	{"edf", 1, false},
	{"lazy", 2, false},
}

// named is the largest number of coloured, named curves in a picture.
const named = 6

// styles sets the colour, dashes and width of each curve.
func styles(series []report.Series) {
	left, room := named, len(series) <= named
	for rank, p := range inPictures {
		for i := range series {
			if s := &series[i]; s.Name == p.policy && left > 0 {
				left--
				s.Hue, s.Dash, s.Bold, s.Faint = p.hue, rank%4, p.bold, false
			}
		}
	}
	for i := range series {
		if s := &series[i]; s.Faint && room {
			s.Hue, s.Dash, s.Faint = i%named+1, i/2%4, false
		}
	}
}

// Pictures returns the pictures of a bench, one per metric. Settings that differ only in the value on the axis are in
// the same picture.
func (s *Suite) Pictures(b *Bench) []NamedPicture {
	type group struct {
		key      Setting
		settings []Setting
	}
	var groups []group
	for _, set := range b.Settings {
		k := set
		switch b.Axis {
		case AxisRate:
			k.Rate = 0
		case AxisSLO:
			k.SLO = 0
		default:
			return nil
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.key == k })
		if i < 0 {
			groups, i = append(groups, group{key: k}), len(groups)
		}
		groups[i].settings = append(groups[i].settings, set)
	}
	var out []NamedPicture
	for _, g := range groups {
		for _, metric := range b.Pictures {
			u := units[metric]
			at := slices.IndexFunc(numbers, func(n frame.Metric[*Metrics]) bool { return n.Name == metric })
			if at < 0 {
				continue
			}
			p := NamedPicture{
				Name: fmt.Sprintf("%s-%s-%s-%s", b.Name, g.key.Network, g.key.Board, strings.TrimSuffix(metric, "_ns")),
				Picture: report.Picture{
					Title: fmt.Sprintf("%s on %s, %s, estimated", g.key.Network, strings.ToUpper(g.key.Board), b.Axis.fixed(g.key)), X: string(b.Axis), Y: u.label, Log: u.log,
				},
			}
			for _, v := range b.Variants {
				line := report.Series{Name: v.String(), Faint: true}
				for _, set := range g.settings {
					mean, half, ok := s.Mean(set, v, numbers[at].Of)
					if !ok {
						continue
					}
					ci := 0.0
					if half != nil {
						ci = *half * u.scale
					}
					line.X, line.Y, line.CI = append(line.X, b.Axis.At(set)), append(line.Y, mean*u.scale), append(line.CI, ci)
				}
				if len(line.X) > 0 {
					p.Series = append(p.Series, line)
				}
			}
			styles(p.Series)
			out = append(out, p)
		}
	}
	return out
}
