package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/hw/abi"
)

// theme contains the colours of a picture.
type theme struct {
	suffix                  string // suffix of file names
	paper, ink, soft, faint color.Color
	lines                   []color.Color // colours of categories
	low, high               color.RGBA    // ends of colour scales
}

// These colours can be distinguished with all common kinds of colour vision (Okabe and Ito). On dark pages, black and
// the darkest blue are replaced by lighter colours.
var (
	light = theme{
		"", color.White,
		color.RGBA{0x1B, 0x1F, 0x24, 0xFF},
		color.RGBA{0xB8, 0xC0, 0xC8, 0xFF},
		color.RGBA{0xE3, 0xE7, 0xEB, 0xFF},
		colours("0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9", "8C6BB1", "7F7F7F"),
		color.RGBA{0xF0, 0xE4, 0x42, 0xFF},
		color.RGBA{0x00, 0x4C, 0x7F, 0xFF},
	}
	dark = theme{
		"-dark",
		color.RGBA{0x14, 0x18, 0x1D, 0xFF},
		color.RGBA{0xE7, 0xEA, 0xEE, 0xFF},
		color.RGBA{0x5F, 0x6A, 0x76, 0xFF},
		color.RGBA{0x2B, 0x33, 0x3C, 0xFF},
		colours("56B4E9", "E69F00", "2FC79B", "E39AC2", "F0E442", "3C8FD0", "B79BDA", "A3ADB8"),
		color.RGBA{0x24, 0x3B, 0x55, 0xFF},
		color.RGBA{0xF0, 0xE4, 0x42, 0xFF},
	}
)

func colours(hex ...string) (out []color.Color) {
	for _, h := range hex {
		var c color.RGBA
		_, _ = fmt.Sscanf(h, "%02X%02X%02X", &c.R, &c.G, &c.B)
		c.A = 0xFF
		out = append(out, c)
	}
	return out
}

// SVGs returns functions that write the pictures, by file name: each picture for light and for dark slides.
func SVGs(d *Data) (map[string]func(io.Writer) error, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	out := map[string]func(io.Writer) error{}
	for _, t := range []*theme{&light, &dark} {
		for name, f := range map[string]func(*theme) (*picture, error){
			"pareto": d.paretoSVG, "roofline": d.rooflineSVG, "layers": d.layersSVG, "fbcb": d.heatSVG, "ablation": d.ablationSVG,
		} {
			out[name+t.suffix+".svg"] = func(w io.Writer) error {
				p, err := f(t)
				if err != nil {
					return fmt.Errorf("draw: %w", err)
				}
				return p.save(w)
			}
		}
	}
	return out, nil
}

// picture is a plot with a legend at its side.
type picture struct {
	*plot.Plot
	t             *theme
	key           plot.Legend
	side          vg.Length // width of the legend
	width, height vg.Length
	scale         *plotter.ColorBar // colour scale instead of a legend
	scaleName     string
}

func (t *theme) picture(title, x, y string, width, height, side vg.Length) *picture {
	p := &picture{Plot: plot.New(), t: t, key: plot.NewLegend(), side: side, width: width, height: height}
	p.BackgroundColor = t.paper
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = 3 * vg.Millimeter
	p.Title.TextStyle.Color = t.ink
	p.Title.TextStyle.Font.Size = vg.Points(13)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Label.TextStyle.Color, a.Tick.Color, a.Tick.Label.Color = t.soft, t.ink, t.soft, t.ink
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	for _, f := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.key.TextStyle} {
		f.Font.Variant = "Sans"
	}
	p.key.ThumbnailWidth = vg.Points(34)
	p.key.TextStyle.Color, p.key.Top, p.key.Left, p.key.Padding = t.ink, true, true, vg.Points(3)
	return p
}

// ticks places ticks with numbers at distances of 1, 2 or 5 times a power of ten.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) (out []plot.Tick) {
	const about = 7
	step := math.Pow(10, math.Floor(math.Log10((high-low)/about)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= about {
			step *= f
			break
		}
	}
	for v := math.Ceil(low/step) * step; v <= high+step*1e-9; v += step {
		out = append(out, plot.Tick{Value: v, Label: thousands(math.Round(v/step) * step)})
	}
	return out
}

// thousands formats a number with commas between groups of three digits.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

func (p *picture) grid() {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = p.t.faint, p.t.faint
	p.Add(g)
}

func (p *picture) save(w io.Writer) error {
	if p.scale == nil { // the legend is as wide as its longest name
		need := p.key.Rectangle(draw.New(vgsvg.New(p.width, p.height))).Size().X + 8*vg.Millimeter
		p.width, p.side = p.width+max(0, need-p.side), max(p.side, need)
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(p.width, p.height), vgsvg.EmbedFonts(true))
	c := draw.New(canvas)
	c.SetColor(p.t.paper)
	c.Fill(c.Rectangle.Path())
	p.Draw(draw.Crop(c, 2*vg.Millimeter, -p.side, 2*vg.Millimeter, -2*vg.Millimeter))
	strip := draw.Crop(c, p.width-p.side+4*vg.Millimeter, -2*vg.Millimeter, 10*vg.Millimeter, -14*vg.Millimeter)
	if p.scale != nil {
		bar := p.t.picture("", "", p.scaleName, 0, 0, 0)
		bar.Add(p.scale)
		bar.HideX()
		bar.Draw(draw.Crop(strip, 0, -max(0, strip.Max.X-strip.Min.X-22*vg.Millimeter), 0, 0))
	} else {
		p.key.Draw(strip)
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (t *theme) dots(points plotter.XYs, c color.Color, r vg.Length) (*plotter.Scatter, error) {
	s, err := plotter.NewScatter(points)
	if err == nil {
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: r, Shape: draw.CircleGlyph{}}
	}
	return s, err
}

func (d *Data) paretoSVG(t *theme) (*picture, error) {
	p := t.picture(fmt.Sprintf("%s on %s: designs (%s)", d.Network, d.Board, d.Label), "DSPs", "GOP/s, weighted over batch sizes 1 to 8",
		20*vg.Centimeter, 12*vg.Centimeter, 40*vg.Millimeter)
	p.X.Min, p.Y.Min = 0, 0
	p.grid()
	var rest, front plotter.XYs
	for _, x := range d.Points {
		if xy := (plotter.XY{X: float64(x.DSP), Y: x.GOPS}); x.Front {
			front = append(front, xy)
		} else {
			rest = append(rest, xy)
		}
	}
	for _, s := range []struct {
		name   string
		points plotter.XYs
		c      color.Color
		r      vg.Length
	}{
		{"evaluated", rest, t.soft, vg.Points(1.2)},
		{"Pareto front", front, t.lines[0], vg.Points(2.5)},
		{"best", plotter.XYs{{X: float64(d.Best.DSP), Y: d.Best.GOPS}}, t.lines[1], vg.Points(4)},
	} {
		if len(s.points) == 0 {
			continue
		}
		x, err := t.dots(s.points, s.c, s.r)
		if err != nil {
			return nil, err
		}
		p.Add(x)
		p.key.Add(s.name, x)
	}
	return p, nil
}

func (d *Data) rooflineSVG(t *theme) (*picture, error) {
	p := t.picture(fmt.Sprintf("%s on <%d, %d, %d>: roofline, one dot a layer (%s)", d.Network, d.Design.TR, d.Design.TP, d.Design.TC, d.Label),
		"operations a byte of DRAM traffic", "GOP/s", 20*vg.Centimeter, 12*vg.Centimeter, 48*vg.Millimeter)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.grid()
	least, most := 1.0, 10.0
	for i, batch := range []int{1, abi.BMax} {
		var pts plotter.XYs
		for _, l := range d.Layers {
			x := l.At[batch-1].Time
			if x.MACs == 0 || x.Total == 0 {
				continue
			}
			ops := 2 * float64(x.MACs)
			pts = append(pts, plotter.XY{X: ops / float64(x.BytesRead+x.BytesWritten), Y: ops * d.Design.ClockMHz / (float64(x.Total) * 1000)})
			most, least = max(most, pts[len(pts)-1].X), min(least, pts[len(pts)-1].X)
		}
		if len(pts) == 0 {
			continue
		}
		s, err := t.dots(pts, t.lines[i], vg.Points(2.4))
		if err != nil {
			return nil, err
		}
		p.Add(s)
		p.key.Add(fmt.Sprintf("B = %d", batch), s)
	}
	ridge := d.Peak / d.Bandwidth
	for i, r := range []struct {
		name string
		line plotter.XYs
	}{
		{fmt.Sprintf("DRAM %.1f GB/s", d.Bandwidth), plotter.XYs{{X: min(least, ridge/2), Y: min(least, ridge/2) * d.Bandwidth}, {X: ridge, Y: d.Peak}}},
		{fmt.Sprintf("peak %.0f GOP/s", d.Peak), plotter.XYs{{X: ridge, Y: d.Peak}, {X: max(most, 2*ridge), Y: d.Peak}}},
	} {
		line, err := plotter.NewLine(r.line)
		if err != nil {
			return nil, err
		}
		line.Width, line.Color = vg.Points(1.6), t.ink
		if i == 0 {
			line.Dashes = dashes[1]
		}
		p.Add(line)
		p.key.Add(r.name, line)
	}
	return p, nil
}

// rowHeight is the height of a layer's row.
const rowHeight = 3.4 * vg.Millimeter

// names returns the layers' names from last to first, shortened so that they fit beside an axis.
func (d *Data) names() []string {
	const most = 34
	var out []string
	for _, l := range slices.Backward(d.Layers) {
		n := []rune(l.Name)
		if len(n) > most {
			n = append([]rune("…"), n[len(n)-most+1:]...)
		}
		out = append(out, string(n))
	}
	return out
}

// byLayer labels the vertical axis with the layers.
func (p *picture) byLayer(d *Data) {
	p.NominalY(d.names()...)
	p.Y.Tick.Label.Color = p.t.ink
	p.Y.Tick.Label.Font.Size = vg.Points(7)
	p.Y.Padding = rowHeight / 2
}

func (d *Data) layersSVG(t *theme) (*picture, error) {
	p := t.picture(fmt.Sprintf("%s on <%d, %d, %d>: cycles by layer at B = 1, and what binds it (%s)", d.Network, d.Design.TR, d.Design.TP, d.Design.TC, d.Label),
		"cycles", "", 24*vg.Centimeter, max(9*vg.Centimeter, vg.Length(len(d.Layers)+8)*rowHeight), 32*vg.Millimeter)
	for i, b := range d.bounds() {
		v := make(plotter.Values, len(d.Layers))
		some := false
		for j, l := range d.Layers {
			if string(l.At[0].Time.Bound) == b {
				v[len(v)-1-j], some = float64(l.At[0].Time.Total), true
			}
		}
		if !some {
			continue
		}
		bar, err := plotter.NewBarChart(v, 0.7*rowHeight)
		if err != nil {
			return nil, err
		}
		bar.Horizontal = true
		bar.Color, bar.LineStyle.Width = t.lines[i%len(t.lines)], 0
		p.Add(bar)
		p.key.Add(b, bar)
	}
	p.byLayer(d)
	p.X.Min = 0
	return p, nil
}

// bounds returns the names of the limiting resources over all layers and batch sizes.
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

// utilGrid is a grid of the utilisation in percent, with batch sizes as columns and layers as rows.
type utilGrid struct{ d *Data }

func (g utilGrid) Dims() (c, r int) { return abi.BMax, len(g.d.Layers) }
func (g utilGrid) Z(c, r int) float64 {
	return 100 * g.d.Layers[len(g.d.Layers)-1-r].At[c].Util
}
func (utilGrid) X(c int) float64 { return float64(c + 1) }
func (utilGrid) Y(r int) float64 { return float64(r) }

// ramp is a colour scale between two colours.
type ramp struct {
	low, high color.RGBA
	min, max  float64
}

func (r *ramp) At(v float64) (color.Color, error) {
	f := math.Max(0, math.Min(1, (v-r.min)/(r.max-r.min)))
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (float64(b)-float64(a))*f)) }
	return color.RGBA{mix(r.low.R, r.high.R), mix(r.low.G, r.high.G), mix(r.low.B, r.high.B), 0xFF}, nil
}
func (r *ramp) Max() float64       { return r.max }
func (r *ramp) Min() float64       { return r.min }
func (r *ramp) SetMax(v float64)   { r.max = v }
func (r *ramp) SetMin(v float64)   { r.min = v }
func (r *ramp) Alpha() float64     { return 1 }
func (r *ramp) SetAlpha(_ float64) {}

// Palette implements palette.ColorMap.
func (r *ramp) Palette(n int) palette.Palette {
	out := make(fixed, n)
	for i := range out {
		out[i], _ = r.At(r.min + (r.max-r.min)*float64(i)/float64(max(1, n-1)))
	}
	return out
}

type fixed []color.Color

func (f fixed) Colors() []color.Color { return f }

// steps is the number of colours of a colour scale.
const steps = 64

func (d *Data) heatSVG(t *theme) (*picture, error) {
	p := t.picture(fmt.Sprintf("%s on <%d, %d, %d>: multipliers at work (%s)", d.Network, d.Design.TR, d.Design.TP, d.Design.TC, d.Label),
		"batch size", "", 20*vg.Centimeter, max(10*vg.Centimeter, vg.Length(len(d.Layers)+8)*rowHeight), 30*vg.Millimeter)
	r := &ramp{t.low, t.high, 0, 100}
	h := plotter.NewHeatMap(utilGrid{d}, r.Palette(steps))
	h.Min, h.Max = 0, 100
	p.Add(h)
	p.byLayer(d)
	p.Y.Padding = 0
	p.X.Tick.Marker = batches()
	p.scale, p.scaleName = &plotter.ColorBar{ColorMap: r, Vertical: true, Colors: steps}, "% of multipliers at work"
	return p, nil
}

func batches() plot.ConstantTicks {
	var at []plot.Tick
	for b := 1; b <= abi.BMax; b++ {
		at = append(at, plot.Tick{Value: float64(b), Label: strconv.Itoa(b)})
	}
	return at
}

// curve identifies a row of the ablation.
type curve struct {
	Law    string        `json:"law"`
	Scheme search.Scheme `json:"scheme"`
}

// shown lists the rows in the picture. More than six curves are hard to distinguish. The page's table has all rows.
var shown = []curve{
	{"rtl", search.Serial}, {"rtl", search.RBatch}, {"rtl", search.Fluid}, {"rtl", search.Stackable}, {"rtl", search.Ours}, {"paper", search.Stackable},
}

// dashes are patterns that distinguish curves without colour.
var dashes = [][]vg.Length{
	nil, {vg.Points(7), vg.Points(3)}, {vg.Points(2), vg.Points(3)}, {vg.Points(7), vg.Points(3), vg.Points(2), vg.Points(3)}, {vg.Points(12), vg.Points(4)}, {vg.Points(1), vg.Points(5)},
}

func (d *Data) ablationSVG(t *theme) (*picture, error) {
	p := t.picture(fmt.Sprintf("%s on %s: ways to batch (%s)", d.Network, d.Board, d.Label), "batch size", "GOP/s", 21*vg.Centimeter, 12*vg.Centimeter, 66*vg.Millimeter)
	p.Y.Min, p.X.Tick.Marker = 0, batches()
	p.grid()
	for _, r := range d.Ablation {
		i := slices.Index(shown, curve{r.Law, r.Scheme})
		if i < 0 {
			continue
		}
		pts := make(plotter.XYs, abi.BMax)
		for b, v := range r.GOPS {
			pts[b] = plotter.XY{X: float64(b + 1), Y: v}
		}
		line, err := plotter.NewLine(pts)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.Dashes = t.lines[i], vg.Points(1.8), dashes[i]
		name := string(r.Scheme)
		if r.Law == "paper" {
			name += " (paper)"
		}
		p.Add(line)
		p.key.Add(name, line)
	}
	return p, nil
}
