package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the SVG canvas

	"github.com/sluice-npu/sluice/hw/abi"
)

// colours are told apart with every common kind of colour vision (Okabe and Ito).
var colours = []color.RGBA{
	{0x00, 0x72, 0xB2, 0xFF},
	{0xD5, 0x5E, 0x00, 0xFF},
	{0x00, 0x9E, 0x73, 0xFF},
	{0xCC, 0x79, 0xA7, 0xFF},
	{0xE6, 0x9F, 0x00, 0xFF},
	{0x56, 0xB4, 0xE9, 0xFF},
	{0x8C, 0x6B, 0xB1, 0xFF},
	{0x7F, 0x7F, 0x7F, 0xFF},
}

// SVGs are the pictures by file name.
func SVGs(d *Data) (map[string]func(io.Writer) error, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return map[string]func(io.Writer) error{
		"pareto.svg":   d.paretoSVG,
		"roofline.svg": d.rooflineSVG,
		"layers.svg":   d.layersSVG,
		"fbcb.svg":     d.heatSVG,
		"ablation.svg": d.ablationSVG,
	}, nil
}

func save(p *plot.Plot, w io.Writer, width, height vg.Length) error {
	c, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	_, err = c.WriteTo(w)
	return err
}

func dots(points plotter.XYs, c color.Color, r vg.Length) (*plotter.Scatter, error) {
	s, err := plotter.NewScatter(points)
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: r, Shape: draw.CircleGlyph{}}
	return s, nil
}

func (d *Data) paretoSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s on %s (%s)", d.Network, d.Board, d.Label)
	p.X.Label.Text, p.Y.Label.Text = "DSPs", "GOP/s, weighted over batch sizes"
	p.X.Min, p.Y.Min = 0, 0
	p.Add(plotter.NewGrid())
	var rest, front plotter.XYs
	for _, x := range d.Points {
		if xy := (plotter.XY{X: float64(x.DSP), Y: x.GOPS}); x.Front {
			front = append(front, xy)
		} else {
			rest = append(rest, xy)
		}
	}
	p.Legend.Left, p.Legend.Top = true, true
	for _, s := range []struct {
		name   string
		points plotter.XYs
		c      color.Color
		r      vg.Length
	}{
		{"evaluated", rest, color.RGBA{0xB8, 0xC0, 0xC8, 0xFF}, vg.Points(1.2)},
		{"Pareto front", front, colours[0], vg.Points(2.5)},
		{"best", plotter.XYs{{X: float64(d.Best.DSP), Y: d.Best.GOPS}}, colours[1], vg.Points(4)},
	} {
		if len(s.points) == 0 {
			continue
		}
		x, err := dots(s.points, s.c, s.r)
		if err != nil {
			return err
		}
		p.Add(x)
		p.Legend.Add(s.name, x)
	}
	return save(p, w, 18*vg.Centimeter, 12*vg.Centimeter)
}

func (d *Data) rooflineSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Roofline, %s on <%d, %d, %d> (%s)", d.Network, d.Design.TR, d.Design.TP, d.Design.TC, d.Label)
	p.X.Label.Text, p.Y.Label.Text = "operations a byte of DRAM traffic", "GOP/s"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{}, plot.LogTicks{}
	p.Add(plotter.NewGrid())
	most := 10.0
	for i, batch := range []int{1, abi.BMax} {
		var pts plotter.XYs
		for _, l := range d.Layers {
			t := l.At[batch-1].Time
			if t.MACs == 0 || t.Total == 0 {
				continue
			}
			x := 2 * float64(t.MACs) / float64(t.BytesRead+t.BytesWritten)
			pts = append(pts, plotter.XY{X: x, Y: 2 * float64(t.MACs) * d.Design.ClockMHz / (float64(t.Total) * 1000)})
			most = max(most, x)
		}
		if len(pts) == 0 {
			continue
		}
		s, err := dots(pts, colours[i], vg.Points(2.2))
		if err != nil {
			return err
		}
		p.Add(s)
		p.Legend.Add(fmt.Sprintf("B = %d", batch), s)
	}
	roof := plotter.XYs{{X: 1, Y: min(d.Bandwidth, d.Peak)}, {X: d.Peak / d.Bandwidth, Y: d.Peak}, {X: max(most, 2*d.Peak/d.Bandwidth), Y: d.Peak}}
	line, err := plotter.NewLine(roof)
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	line.Width = vg.Points(1.5)
	p.Add(line)
	p.Legend.Add(fmt.Sprintf("peak %.0f GOP/s, DRAM %.1f GB/s ", d.Peak, d.Bandwidth), line)
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = false, false, -9*vg.Millimeter
	return save(p, w, 18*vg.Centimeter, 12*vg.Centimeter)
}

func (d *Data) layersSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Cycles by layer at B = 1, %s (%s)", d.Network, d.Label)
	p.Y.Label.Text, p.X.Label.Text = "cycles", "layer"
	bounds := d.bounds()
	for i, b := range bounds {
		v := make(plotter.Values, len(d.Layers))
		for j, l := range d.Layers {
			if string(l.At[0].Time.Bound) == b {
				v[j] = float64(l.At[0].Time.Total)
			}
		}
		bar, err := plotter.NewBarChart(v, vg.Points(4))
		if err != nil {
			return fmt.Errorf("draw: %w", err)
		}
		bar.Color, bar.LineStyle.Width = colours[i%len(colours)], 0
		p.Add(bar)
		p.Legend.Add(b, bar)
	}
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, 4*vg.Millimeter
	return save(p, w, max(18*vg.Centimeter, vg.Length(len(d.Layers))*vg.Points(7)), 11*vg.Centimeter)
}

// bounds are what binds any layer at any batch size.
func (d *Data) bounds() []string {
	seen := map[string]bool{}
	for _, l := range d.Layers {
		for _, c := range l.At {
			seen[string(c.Time.Bound)] = true
		}
	}
	var out []string
	for b := range seen {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

// grid of utilisation, batch size across, layers down.
type utilGrid struct{ d *Data }

func (g utilGrid) Dims() (c, r int) { return abi.BMax, len(g.d.Layers) }
func (g utilGrid) Z(c, r int) float64 {
	return g.d.Layers[len(g.d.Layers)-1-r].At[c].Util
}
func (utilGrid) X(c int) float64 { return float64(c + 1) }
func (utilGrid) Y(r int) float64 { return float64(r) }

// ramp is a palette from yellow to blue.
type ramp struct{}

func (ramp) Colors() []color.Color {
	out := make([]color.Color, 64)
	for i := range out {
		f := float64(i) / 63
		mix := func(a, b float64) uint8 { return uint8(math.Round(a + (b-a)*f)) }
		out[i] = color.RGBA{mix(0xF0, 0x00), mix(0xE4, 0x72), mix(0x42, 0xB2), 0xFF}
	}
	return out
}

func (d *Data) heatSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Utilisation by layer and batch size (%s)", d.Label)
	p.X.Label.Text, p.Y.Label.Text = "batch size", "layer, the first on top"
	h := plotter.NewHeatMap(utilGrid{d}, ramp{})
	h.Min, h.Max = 0, 1
	p.Add(h)
	return save(p, w, 14*vg.Centimeter, max(10*vg.Centimeter, vg.Length(len(d.Layers))*vg.Points(6)))
}

func (d *Data) ablationSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Ablation, %s on %s (%s)", d.Network, d.Board, d.Label)
	p.X.Label.Text, p.Y.Label.Text = "batch size", "GOP/s"
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	// beside the lines' beginnings, which are high
	p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = true, 4*vg.Millimeter, 4*vg.Millimeter
	n := map[string]int{}
	for _, r := range d.Ablation {
		pts := make(plotter.XYs, abi.BMax)
		for b, v := range r.GOPS {
			pts[b] = plotter.XY{X: float64(b + 1), Y: v}
		}
		line, err := plotter.NewLine(pts)
		if err != nil {
			return fmt.Errorf("draw: %w", err)
		}
		line.Color, line.Width = colours[n[r.Law]%len(colours)], vg.Points(1.4)
		n[r.Law]++
		if r.Law == "paper" {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("%s (%s law)", r.Scheme, r.Law), line)
	}
	return save(p, w, 20*vg.Centimeter, 14*vg.Centimeter)
}
