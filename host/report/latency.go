// The picture of latency distributions.

package report

import (
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the SVG canvas

	"github.com/sluice-npu/sluice/host/engine"
)

// colours are told apart with every common kind of colour vision (Okabe and Ito).
var colours = [...]color.RGBA{
	{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF},
	{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF},
	{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF},
	{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF},
}

// LatencySVG draws, a line a run, the share of all its requests that had a result within a latency;
// what a policy refuses, drops or fails never does, so its line ends below 1. The SLO, in ns, is a
// dashed line; 0 leaves it out.
func LatencySVG(w io.Writer, slo int64, runs ...*engine.Result) error {
	p := plot.New()
	p.Title.Text = "Latency"
	p.X.Label.Text = "latency in ms"
	p.Y.Label.Text = "share of requests"
	p.Y.Min, p.Y.Max = 0, 1
	p.X.Min = 0
	p.Legend.Left, p.Legend.Top = false, false
	p.Add(plotter.NewGrid())
	for i, r := range runs {
		l := r.Latencies()
		slices.Sort(l)
		pts := plotter.XYs{{X: 0, Y: 0}}
		for j, v := range l {
			x := float64(v) / 1e6
			pts = append(pts, plotter.XY{X: x, Y: pts[len(pts)-1].Y}, plotter.XY{X: x, Y: float64(j+1) / float64(len(r.Records))})
		}
		line, err := plotter.NewLine(pts)
		if err != nil {
			return fmt.Errorf("draw latencies of %s: %w", r.Policy, err)
		}
		line.Width, line.Color = vg.Points(1.5), colours[i%len(colours)]
		p.Add(line)
		p.Legend.Add(r.Policy, line)
	}
	if slo > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: float64(slo) / 1e6, Y: 0}, {X: float64(slo) / 1e6, Y: 1}})
		if err != nil {
			return fmt.Errorf("draw the SLO: %w", err)
		}
		line.Dashes, line.Color = []vg.Length{vg.Points(4), vg.Points(3)}, color.Gray{Y: 0x60}
		p.Add(line)
		p.Legend.Add("SLO", line)
	}
	c, err := draw.NewFormattedCanvas(16*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		return fmt.Errorf("draw latencies: %w", err)
	}
	p.Draw(draw.New(c))
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write the picture of latencies: %w", err)
	}
	return nil
}
