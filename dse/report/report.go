// Package report draws the results of a design space search. It writes one HTML page, which works offline because data,
// style and script are inline. It also writes the pictures as SVG files.
package report

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

//go:embed page.html page.css page.js
var files embed.FS

// ErrData is wrapped by errors about missing data.
var ErrData = errors.New("nothing to draw")

// Data contains all data on the page.
type Data struct {
	Title     string `json:"title"`
	Label     string `json:"label"` // "estimated"
	Version   string `json:"version"`
	Network   string `json:"network"`
	Board     string `json:"board"`
	Objective string `json:"objective"`
	Grid      string `json:"grid"`
	Designs   int    `json:"designs"`
	Refused   int    `json:"refused"`
	Unmapped  int    `json:"unmapped"`
	Space     int64  `json:"space"`
	Evaluated int64  `json:"evaluated"`
	Searched  int    `json:"searched"`

	Points    []Dot                `json:"points"`
	Best      Dot                  `json:"best"`
	Ranks     []RankRow            `json:"ranks"`
	Design    configs.Design       `json:"design"` // design for Layers
	Resources resource.Estimate    `json:"resources"`
	Used      map[string]float64   `json:"used"`
	Peak      float64              `json:"peak_gops"`
	Bandwidth float64              `json:"gb_per_s"`
	Band      counted.Stated       `json:"cycles_band"` // error band of the network's cycles on Design
	Layers    []Layer              `json:"layers"`
	Ablation  []search.AblationRow `json:"ablation"`
}

// MarshalJSON writes empty lists as [], so that the page's script can iterate over them. For example, Ranks is empty
// for a board without published designs.
func (d *Data) MarshalJSON() ([]byte, error) {
	type plain Data // the same fields without the method MarshalJSON
	p := plain(*d)
	if p.Ranks == nil {
		p.Ranks = []RankRow{}
	}
	if p.Ablation == nil {
		p.Ablation = []search.AblationRow{}
	}
	return json.Marshal(p)
}

// Dot is a design in the picture of the design space.
type Dot struct {
	TR     int               `json:"TR"`
	TP     int               `json:"TP"`
	TC     int               `json:"TC"`
	DSP    int               `json:"dsp"`
	BRAM36 float64           `json:"bram36"`
	GOPS   float64           `json:"gops"`
	B1MS   float64           `json:"b1_ms"`
	Value  float64           `json:"value"`
	ByB    [abi.BMax]float64 `json:"gops_by_batch"`
	Front  bool              `json:"front"`
}

// RankRow is a row about a reference design or a published design.
type RankRow struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Layer describes a layer at all batch sizes.
type Layer struct {
	Name    string         `json:"name"`
	Segment int            `json:"segment"`
	Op      string         `json:"op"`
	R       int            `json:"R"`
	P       int            `json:"P"`
	C       int            `json:"C"`
	At      [abi.BMax]Cell `json:"at"`
}

// Cell describes a layer at one batch size: its FBCB entry and its time.
type Cell struct {
	K        string         `json:"k"`
	S        int            `json:"s"`
	BR       int            `json:"B_R"`
	Order    bool           `json:"order"`
	TileB    int            `json:"tile_b"`
	TileRows int            `json:"tile_rows"`
	KeepIn   bool           `json:"keep_in,omitempty"`  // the layer's input is on chip
	KeepOut  bool           `json:"keep_out,omitempty"` // the layer's output remains on chip
	Util     float64        `json:"util"`
	Time     cost.Breakdown `json:"time"`
}

// Dots returns the designs of a sweep, and the best design. The field Front marks the designs on the Pareto front.
func Dots(r *search.Result) (all []Dot, best Dot) {
	key := func(p search.Point) [3]int { return [3]int{p.TR, p.TP, p.TC} }
	front := map[[3]int]bool{}
	for _, p := range r.Pareto {
		front[key(p)] = true
	}
	dot := func(p search.Point) Dot {
		return Dot{
			TR: p.TR, TP: p.TP, TC: p.TC, DSP: p.DSP, BRAM36: p.BRAM36, GOPS: p.GOPS, B1MS: float64(p.B1NS) / 1e6,
			Value: p.Value, ByB: p.ByB, Front: front[key(p)],
		}
	}
	for _, p := range r.Points {
		all = append(all, dot(p))
	}
	return all, dot(r.Best)
}

// Layers maps each layer of a network on a design, at each batch size.
func Layers(w *search.Workload, d configs.Design, o mapping.Options) ([]Layer, error) {
	list, err := w.Lower(d)
	if err != nil {
		return nil, err
	}
	var at [abi.BMax][]search.Choice
	for b := range at {
		if at[b], err = search.Choose(d, list, b+1, o); err != nil {
			return nil, fmt.Errorf("batch %d: %w", b+1, err)
		}
	}
	var out []Layer
	for i, l := range list {
		g := l.Geom
		x := Layer{Name: l.Name, Segment: l.Segment, Op: g.Op.String(), R: g.OutH * g.OutW, P: g.P(), C: g.OutC}
		for b := 1; b <= abi.BMax; b++ {
			e, t := at[b-1][i].Entry, at[b-1][i].Time
			x.At[b-1] = Cell{
				K: cost.K(e.K).String(), S: cost.Groups(e, b), BR: int(e.BR), Order: e.Order, TileB: int(e.TileB),
				TileRows: int(e.TileRows), KeepIn: e.KeepIn, KeepOut: e.KeepOut, Util: t.Utilisation(d), Time: t,
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// check returns an error for data that the page cannot show.
func (d *Data) check() error {
	if len(d.Points) == 0 || len(d.Layers) == 0 {
		return fmt.Errorf("%w: %d designs, %d layers", ErrData, len(d.Points), len(d.Layers))
	}
	return nil
}

// HTML writes the page.
func HTML(w io.Writer, d *Data) error {
	if err := d.check(); err != nil {
		return err
	}
	text := map[string]string{}
	for _, name := range []string{"page.css", "page.js"} {
		b, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		text[name] = string(b)
	}
	// json.Marshal escapes <, > and &, so no string can terminate the script element
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	t, err := template.ParseFS(files, "page.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return t.Execute(w, map[string]any{
		"Title": d.Title, "Shown": shown, "CSS": template.CSS(text["page.css"]), "JS": template.JS(text["page.js"]), "Data": template.JS(data), "D": d,
	})
}
