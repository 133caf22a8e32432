//go:build !static

// This file draws latency distributions.

package report

import (
	"fmt"
	"io"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sluice-npu/sluice/host/engine"
)

// LatencySVG draws one curve per run: for each latency, the share of the run's requests with a result within this
// latency. Rejected, dropped and failed requests have no result, so a curve may end below 1. A dashed line shows the
// SLO in ns, unless slo is 0.
func LatencySVG(w io.Writer, slo int64, runs ...*engine.Result) error {
	most := float64(slo) / 1e6
	var all []plotter.XYs
	for _, r := range runs {
		l := r.Latencies()
		slices.Sort(l)
		pts := plotter.XYs{{X: 0, Y: 0}}
		for j, v := range l {
			x := float64(v) / 1e6
			pts = append(pts, plotter.XY{X: x, Y: pts[len(pts)-1].Y}, plotter.XY{X: x, Y: float64(j+1) / float64(len(r.Records))})
		}
		all, most = append(all, pts), max(most, pts[len(pts)-1].X)
	}
	c := newCanvas("", "latency in ms", "share of requests with a result")
	c.X.Min, c.X.Max = 0, 1.02*most
	if most == 0 {
		c.X.Max = 1
	}
	c.Y.Min, c.Y.Max = 0, 1.02 // so that a thick line at 1 stays in the frame
	if slo > 0 {
		x := float64(slo) / 1e6
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: c.Y.Max}})
		if err != nil {
			return fmt.Errorf("draw the SLO: %w", err)
		}
		line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(0.8), Dashes: dashes[1]}
		c.Add(line)
		c.X.Label.Text += fmt.Sprintf(" (vertical line: the SLO, %.3g)", x)
	}
	for i, r := range runs {
		pts := append(all[i], plotter.XY{X: c.X.Max, Y: all[i][len(all[i])-1].Y}) // horizontal to the right edge, because no results follow
		style := draw.LineStyle{Color: grey, Width: vg.Points(1)}
		name := ""
		if back := len(runs) - 1 - i; back < mostNamed { // the last runs are the most important ones
			style = draw.LineStyle{Color: hues[(len(hues)-1-back)%len(hues)], Width: vg.Points(1.6), Dashes: dashes[back%len(dashes)]}
			name = r.Policy
		}
		if err := c.curve(name, pts, style); err != nil {
			return fmt.Errorf("draw latencies of %s: %w", r.Policy, err)
		}
	}
	if err := c.write(w); err != nil {
		return fmt.Errorf("draw latencies: %w", err)
	}
	return nil
}
