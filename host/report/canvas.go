//go:build !static

// This file has what all pictures share: colours, line styles, ticks, and names at the ends of curves.

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Draws is true because this build can draw.
const Draws = true

// hues are the colours of Okabe and Ito, which are suitable for all common kinds of colour vision.
var hues = [...]color.RGBA{
	{A: 0xFF},                            // black
	{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}, // orange
	{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF}, // sky blue
	{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF}, // purple
	{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF}, // green
	{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}, // blue
	{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF}, // vermilion
}

var (
	paper = color.RGBA{R: 0xFE, G: 0xFE, B: 0xFE, A: 0xFF}
	ink   = color.RGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xFF}
	grey  = color.RGBA{R: 0xC4, G: 0xC4, B: 0xC4, A: 0xFF} // the colour of curves without a name
	faint = color.RGBA{R: 0xE6, G: 0xE6, B: 0xE6, A: 0xFF} // the grid
)

// night maps the colours of a picture to the colours on a dark page.
var night = map[color.RGBA]string{paper: "#14181D", ink: "#E7EAEE", grey: "#4A535D", faint: "#2B333C", hues[0]: "#FFFFFF", hues[5]: "#3C9BE0", hues[4]: "#2FC79B"}

// dashes are the line styles, which distinguish curves without colour.
var dashes = [...][]vg.Length{nil, {vg.Points(7), vg.Points(3)}, {vg.Points(2), vg.Points(3)}, {vg.Points(7), vg.Points(3), vg.Points(2), vg.Points(3)}}

// mostNamed is the maximum number of curves with a colour and a name. A reader cannot distinguish more curves.
const mostNamed = 6

// Sizes of a picture. Names of curves are to the right of the plot.
const (
	pictureWidth  = 18 * vg.Centimeter
	pictureHeight = 10 * vg.Centimeter
	namesWidth    = 4 * vg.Centimeter
	nameHeight    = 12 // points
)

// name is the label at the end of a curve.
type name struct {
	text string
	end  plotter.XY // end of the name's curve
	line draw.LineStyle
}

type canvas struct {
	*plot.Plot
	names []name
}

func newCanvas(title, x, y string) *canvas {
	c := &canvas{Plot: plot.New()}
	c.BackgroundColor = paper
	c.Title.Text, c.X.Label.Text, c.Y.Label.Text = title, x, y
	c.Title.Padding = vg.Points(6)
	for _, a := range []*plot.Axis{&c.X, &c.Y} {
		a.Color, a.Tick.Color, a.Tick.Marker = ink, ink, ticks{}
		a.Padding = 0
	}
	for _, s := range []*text.Style{&c.Title.TextStyle, &c.X.Label.TextStyle, &c.Y.Label.TextStyle, &c.X.Tick.Label, &c.Y.Tick.Label} {
		s.Color, s.Font.Variant = ink, "Sans"
	}
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = faint, faint
	c.Add(g)
	return c
}

// curve draws a line. If text is empty, the line has no name.
func (c *canvas) curve(text string, pts plotter.XYs, style draw.LineStyle) error {
	line, err := plotter.NewLine(pts)
	if err != nil {
		return err
	}
	line.LineStyle = style
	c.Add(line)
	if text != "" {
		c.names = append(c.names, name{text, pts[len(pts)-1], style})
	}
	return nil
}

// write draws the curves. Each name is at the end of its curve, or as close to it as the other names allow.
func (c *canvas) write(w io.Writer) error {
	svg := vgsvg.NewWith(vgsvg.UseWH(pictureWidth, pictureHeight))
	all := draw.New(svg)
	all.SetColor(paper)
	all.Fill(all.Rectangle.Path())
	left := draw.Crop(all, vg.Points(4), -namesWidth, vg.Points(4), -vg.Points(4))
	c.Draw(left)
	frame := c.DataCanvas(left)
	toX, toY := c.Transforms(&frame)
	end := func(n name) vg.Length { return max(frame.Min.Y, min(frame.Max.Y, toY(n.end.Y))) }
	slices.SortStableFunc(c.names, func(a, b name) int { return cmp.Compare(end(b), end(a)) })
	at := spread(c.names, end, frame.Min.Y, frame.Max.Y)
	style := c.X.Tick.Label
	style.Font.Size, style.XAlign, style.YAlign = vg.Points(9), text.XLeft, text.YCenter
	x := frame.Max.X
	for i, n := range c.names {
		all.StrokeLine2(draw.LineStyle{Color: grey, Width: vg.Points(0.5)}, max(toX(n.end.X), x-vg.Points(40))+vg.Points(2), end(n), x+vg.Points(12), at[i])
		all.StrokeLine2(n.line, x+vg.Points(13), at[i], x+vg.Points(37), at[i])
		all.FillText(style, vg.Point{X: x + vg.Points(41), Y: at[i]}, n.text)
	}
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(darkToo(b.Bytes()))
	return err
}

// spread returns the heights of the names. The names must be sorted from the top. A name is at the height of its
// curve's end. Names that are too close are moved apart, so that their distance is one line of text.
func spread(names []name, end func(name) vg.Length, low, high vg.Length) []vg.Length {
	at := make([]vg.Length, len(names))
	roof := high
	for i, n := range names {
		at[i] = min(end(n), roof)
		roof = at[i] - nameHeight
	}
	floor := low
	for i := range slices.Backward(names) {
		at[i] = max(at[i], floor)
		floor = at[i] + nameHeight
	}
	return at
}

// darkToo adds colours for a dark page to an SVG.
func darkToo(svg []byte) []byte {
	var style bytes.Buffer
	style.WriteString("<style>@media (prefers-color-scheme: dark) {")
	for _, day := range slices.SortedFunc(maps.Keys(night), func(a, b color.RGBA) int { return cmp.Compare(hex(a), hex(b)) }) {
		for _, what := range []string{"fill", "stroke"} {
			fmt.Fprintf(&style, " [style*=\"%s:%s\"] { %s: %s !important }", what, hex(day), what, night[day])
		}
	}
	style.WriteString(" }</style>\n")
	i := bytes.Index(svg, []byte("<svg"))
	if i < 0 {
		return svg
	}
	i += bytes.IndexByte(svg[i:], '>') + 1
	return slices.Concat(svg[:i], []byte("\n"), style.Bytes(), svg[i:])
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// ticks places numbered ticks at steps of 1, 2 or 5 times a power of ten.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) (out []plot.Tick) {
	const most = 8
	if !(high > low) {
		return []plot.Tick{{Value: low, Label: strconv.FormatFloat(low, 'g', 6, 64)}}
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= most {
			step *= f
			break
		}
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		v := i * step
		if v == 0 {
			v = 0 // not -0
		}
		out = append(out, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
	}
	return out
}
