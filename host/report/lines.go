// Pictures of a metric along a parameter, a line a policy.

package report

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Series is a line: Y at X, with half of its interval where CI is not nil.
type Series struct {
	Name string
	X, Y []float64
	CI   []float64
	Hue  int  // colour: lines of a family share one
	Dash int  // solid, dashed, dotted: tells a family's lines apart
	Bold bool // what the picture is about
}

// Picture is what is drawn.
type Picture struct {
	Title, X, Y string
	Log         bool // Y on a logarithmic scale, for values that explode beyond capacity
	Series      []Series
}

// hues are Okabe and Ito's colours, which stay apart with every common kind of colour vision.
var hues = [...]color.RGBA{
	{A: 0xFF},                            // black
	{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}, // orange
	{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF}, // sky blue
	{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF}, // purple
	{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF}, // green
	{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}, // blue
	{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF}, // vermilion
}

var dashes = [...][]vg.Length{nil, {vg.Points(4), vg.Points(2)}, {vg.Points(1), vg.Points(2)}}

// LinesSVG writes the picture. Points that are not finite, or not positive on a logarithmic scale,
// are left out.
func LinesSVG(w io.Writer, p Picture) error {
	c, legend, err := lines(p)
	if err != nil {
		return fmt.Errorf("draw %s: %w", p.Title, err)
	}
	canvas, err := draw.NewFormattedCanvas(pictureWidth, pictureHeight, "svg")
	if err != nil {
		return fmt.Errorf("draw %s: %w", p.Title, err)
	}
	compose(draw.New(canvas), c, legend)
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write the picture %s: %w", p.Title, err)
	}
	return nil
}

// Sizes of a picture; the legend stands to the right of the lines.
const (
	pictureWidth  = 17 * vg.Centimeter
	pictureHeight = 9 * vg.Centimeter
	legendWidth   = 3 * vg.Centimeter
)

func compose(c draw.Canvas, p *plot.Plot, legend *plot.Legend) {
	p.Draw(draw.Crop(c, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(c, pictureWidth-legendWidth+vg.Points(6), 0, 0, -vg.Points(20)))
}

// lines is the picture, not yet drawn, and its legend.
func lines(p Picture) (*plot.Plot, *plot.Legend, error) {
	c := plot.New()
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font.Size = vg.Points(9)
	legend.Padding = vg.Points(2)
	c.Title.Text, c.X.Label.Text, c.Y.Label.Text = p.Title, p.X, p.Y
	if p.Log {
		c.Y.Scale, c.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	c.Add(plotter.NewGrid())
	drawn := 0
	for _, s := range p.Series {
		if len(s.X) != len(s.Y) || s.CI != nil && len(s.CI) != len(s.Y) {
			return nil, nil, fmt.Errorf("%s has %d places, %d values, %d intervals", s.Name, len(s.X), len(s.Y), len(s.CI))
		}
		var pts plotter.XYs
		var errs plotter.YErrors
		for j := range s.X {
			if y := s.Y[j]; math.IsNaN(y) || math.IsInf(y, 0) || p.Log && y <= 0 {
				continue
			}
			pts = append(pts, plotter.XY{X: s.X[j], Y: s.Y[j]})
			half := 0.0
			if s.CI != nil {
				half = s.CI[j]
			}
			if p.Log { // a bar must not reach zero
				half = min(half, s.Y[j]*0.99)
			}
			errs = append(errs, struct{ Low, High float64 }{half, half})
		}
		if len(pts) == 0 {
			continue
		}
		drawn++
		line, err := plotter.NewLine(pts)
		if err != nil {
			return nil, nil, err
		}
		line.Color, line.Width, line.Dashes = hues[max(0, s.Hue)%len(hues)], vg.Points(1.1), dashes[max(0, s.Dash)%len(dashes)]
		if s.Bold {
			line.Width = vg.Points(2.2)
		}
		c.Add(line)
		if s.CI != nil {
			bars, err := plotter.NewYErrorBars(struct {
				plotter.XYer
				plotter.YErrorer
			}{pts, errs})
			if err != nil {
				return nil, nil, err
			}
			bars.Color, bars.Width = line.Color, vg.Points(0.6)
			c.Add(bars)
		}
		legend.Add(s.Name, line)
	}
	if drawn == 0 {
		c.Y.Min, c.Y.Max, c.X.Min, c.X.Max = 1, 10, 0, 1 // nothing to draw: axes alone
	}
	return c, &legend, nil
}
