//go:build !static

// This file draws a metric over a parameter, with one curve per policy.

package report

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// LinesSVG writes the picture. At most six curves have a colour and a name. All other curves are grey. Points that are
// not finite, or not positive on a logarithmic scale, are omitted.
func LinesSVG(w io.Writer, p Picture) error {
	c, err := lines(p)
	if err == nil {
		err = c.write(w)
	}
	if err != nil {
		return fmt.Errorf("draw %s: %w", p.Title, err)
	}
	return nil
}

// lines prepares the picture without drawing it.
func lines(p Picture) (*canvas, error) {
	c := newCanvas(p.Title, p.X, p.Y)
	if p.Log {
		c.Y.Scale, c.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		c.Y.Min = 0
	}
	named, drawn := 0, 0
	for _, faintly := range []bool{true, false} { // named curves are drawn over grey ones
		for _, s := range p.Series {
			if len(s.X) != len(s.Y) || s.CI != nil && len(s.CI) != len(s.Y) {
				return nil, fmt.Errorf("%s has %d places, %d values, %d intervals", s.Name, len(s.X), len(s.Y), len(s.CI))
			}
			if s.Faint != faintly {
				continue
			}
			pts, bars := p.points(s)
			if len(pts) == 0 {
				continue
			}
			drawn++
			style := draw.LineStyle{Color: hues[max(0, s.Hue)%len(hues)], Width: vg.Points(1.4), Dashes: dashes[max(0, s.Dash)%len(dashes)]}
			if s.Bold {
				style.Width = vg.Points(2.4)
			}
			text := s.Name
			if s.Faint {
				style, text = draw.LineStyle{Color: grey, Width: vg.Points(1)}, ""
				if drawn == 1 {
					text = "others"
				}
			} else if named++; named > mostNamed {
				return nil, fmt.Errorf("more than %d curves with a name: make the others faint", mostNamed)
			}
			if err := c.curve(text, pts, style); err != nil {
				return nil, err
			}
			if s.CI == nil || s.Faint {
				continue
			}
			e, err := plotter.NewYErrorBars(struct {
				plotter.XYer
				plotter.YErrorer
			}{pts, bars})
			if err != nil {
				return nil, err
			}
			e.Color, e.Width = style.Color, vg.Points(0.6)
			c.Add(e)
		}
	}
	if drawn == 0 {
		c.Y.Min, c.Y.Max, c.X.Min, c.X.Max = 1, 10, 0, 1 // without points, only the axes are drawn
	}
	return c, nil
}

// points returns the drawable points of a curve, and their confidence intervals.
func (p *Picture) points(s Series) (pts plotter.XYs, bars plotter.YErrors) {
	for j, y := range s.Y {
		if math.IsNaN(y) || math.IsInf(y, 0) || p.Log && y <= 0 {
			continue
		}
		half := 0.0
		if s.CI != nil {
			half = s.CI[j]
		}
		low := half
		if p.Log { // a bar must not reach zero
			low = min(half, y*0.99)
		} else if y >= 0 { // a bar of positive values must stay within the frame
			low = min(half, y)
		}
		pts = append(pts, plotter.XY{X: s.X[j], Y: y})
		bars = append(bars, struct{ Low, High float64 }{low, half})
	}
	return pts, bars
}
