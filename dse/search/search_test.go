package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// drawDesign draws a design that the RTL accepts.
func drawDesign(t *rapid.T) configs.Design {
	of := configs.Design{Type: rapid.SampledFrom([]string{"", configs.TypeInt8}).Draw(t, "type")}
	least, most := of.Chains()
	d := configs.Design{
		Name: "drawn", Type: of.Type, TP: rapid.IntRange(max(3, least), most).Draw(t, "TP"), TC: 4 * rapid.IntRange(1, 48).Draw(t, "TC"),
		TR: 1 << rapid.IntRange(4, 12).Draw(t, "TR"), NAXI: rapid.IntRange(1, 4).Draw(t, "n_axi"),
		AXIBytes: rapid.SampledFrom([]int{8, 16}).Draw(t, "axi_bytes"), MaxBurst: rapid.SampledFrom([]int{4, 16}).Draw(t, "burst"), WLoad: 2,
		ABufWords: rapid.IntRange(16, 20000).Draw(t, "abuf"), WRingBeats: 1 << rapid.IntRange(6, 14).Draw(t, "ring"),
		Stack: rapid.Bool().Draw(t, "stack"), Fluid: rapid.Bool().Draw(t, "fluid"), ClockMHz: 150,
		Depthwise: rapid.Bool().Draw(t, "depthwise"), Post: rapid.Bool().Draw(t, "post"),
		DRAM: configs.DRAM{BytesPerCycle: rapid.Float64Range(1, 64).Draw(t, "bpc"), LatencyCycles: rapid.IntRange(0, 300).Draw(t, "latency")},
	}
	d.AXIBytes = min(d.AXIBytes, d.ElemBytes()*d.NB())
	d.Drain = drainFor(d.TC, min(d.NB(), 2*rapid.IntRange(1, 11).Draw(t, "drain")))
	d.CMax = (2048 + d.Drain - 1) / d.Drain * d.Drain
	if err := d.Elaborates(); err != nil {
		t.Fatalf("drawn design: %v", err)
	}
	return d
}

// drawGeom draws a layer for which the design has the units.
func drawGeom(t *rapid.T, d configs.Design) cost.Geom {
	g := cost.Geom{
		Op:  rapid.SampledFrom([]abi.Op{abi.OpGEMM, abi.OpGEMM, abi.OpGEMM, abi.OpMaxPool, abi.OpAvgPool, abi.OpDepthwise}).Draw(t, "op"),
		InH: rapid.IntRange(1, 150).Draw(t, "in_h"), InW: rapid.IntRange(1, 150).Draw(t, "in_w"), InC: rapid.IntRange(1, 600).Draw(t, "in_c"),
		KH: rapid.IntRange(1, 7).Draw(t, "kh"), KW: rapid.IntRange(1, 7).Draw(t, "kw"),
		SH: rapid.IntRange(1, 3).Draw(t, "sh"), SW: rapid.IntRange(1, 3).Draw(t, "sw"),
	}
	if rapid.Bool().Draw(t, "narrow") { // rows of a burst or two
		g.InW, g.InC, g.SH, g.SW = rapid.IntRange(1, 6).Draw(t, "few"), rapid.IntRange(1, 16).Draw(t, "channels"), rapid.IntRange(1, 5).Draw(t, "steps"), rapid.IntRange(1, 14).Draw(t, "wide")
	}
	if rapid.IntRange(0, 9).Draw(t, "size") > 0 { // most have entries: rows fit the accumulators, and windows the buffer
		g.InW = min(g.InW, d.TR*g.SW)
		g.InC = max(1, min(g.InC, d.ABufElems()/(g.KH*g.InW)))
	}
	g.PadT, g.PadL = rapid.IntRange(0, g.KH/2).Draw(t, "pad_t"), rapid.IntRange(0, g.KW/2).Draw(t, "pad_l")
	g.OutH, g.OutW = max(1, (g.InH+2*g.PadT-g.KH)/g.SH+1), max(1, (g.InW+2*g.PadL-g.KW)/g.SW+1)
	g.OutC = rapid.IntRange(1, 700).Draw(t, "out_c")
	if !g.GEMM() {
		g.OutC = g.InC
	}
	if g.Op == abi.OpDepthwise && mapping.Limits(d, g) != nil {
		g.Op = abi.OpMaxPool
	}
	if g.Drained() {
		g.BiasCount = g.OutC
		g.Residual = rapid.Bool().Draw(t, "residual")
		if d.Post {
			g.Product = g.Residual && rapid.Bool().Draw(t, "product")
			if g.Curve = !g.Product && rapid.Bool().Draw(t, "curve"); g.Curve {
				g.BiasCount += abi.CurveWords
			}
		}
	}
	if g.Int8 = d.Int8(); g.Int8 && g.Drained() {
		g.BiasCount = abi.Post8Words(&abi.Desc{OutC: uint16(g.OutC), Residual: g.Residual, Curve: g.Curve})
	}
	g.First = rapid.Bool().Draw(t, "first")
	gap := func(name string, c int) (int, int64) {
		if rapid.Bool().Draw(t, name) {
			return c, 512 * int64(d.ElemBytes()) * rapid.Int64Range(0, 15).Draw(t, name+"_at")
		}
		return c + rapid.IntRange(0, 40).Draw(t, name+"_pix"), int64(d.ElemBytes()) * rapid.Int64Range(0, 8191).Draw(t, name+"_at")
	}
	g.InPix, g.InOffset = gap("in", g.InC)
	g.OutPix, g.OutOffset = gap("out", g.OutC)
	if g.Residual {
		g.ResPix, g.ResOffset = gap("res", g.OutC)
		if g.Product && rapid.Bool().Draw(t, "broadcast") {
			g.ResPix = 0
		}
	}
	return g
}

func drawOptions(t *rapid.T) mapping.Options {
	return rapid.SampledFrom([]mapping.Options{{}, mapping.RTL(), mapping.Basic()}).Draw(t, "options")
}

// everything calls f with entries that Enumerate tries or could, legal or not, in its order.
func everything(g cost.Geom, batch int, o mapping.Options, f func(abi.FBCB)) {
	for _, p := range mapping.Points {
		for _, order := range []bool{false, true} {
			for tb := ceil(batch, p.S); tb >= 1 && p.S <= batch; tb-- {
				for _, tr := range mapping.Heights(g.OutH) {
					if (o.Points == nil || slices.Contains(o.Points, p)) && (o.Orders == nil || slices.Contains(o.Orders, order)) {
						f(abi.FBCB{BR: uint8(ceil(batch, p.S)), K: uint8(p.K), Order: order, TileB: uint8(tb), TileRows: uint16(tr)})
					}
				}
			}
		}
	}
}

// The entries of the search are those that mapping.Check allows in each room, and their number is right.
func TestSameSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, o := drawDesign(t), drawOptions(t)
		g := drawGeom(t, d)
		batch := rapid.IntRange(1, abi.BMax).Draw(t, "batch")
		smaller := d
		smaller.TR /= 2
		smaller.ABufWords += rapid.IntRange(0, 4096).Draw(t, "more")
		designs := []configs.Design{smaller, d}
		l, rs := newLayer(g), rooms(designs)
		found := make([][]abi.FBCB, 2)
		mapping.EnumerateIn(d, g, batch, o, rs, func(e abi.FBCB, first, last int) {
			for i := first; i <= last; i++ {
				found[i] = append(found[i], e)
			}
		})
		at := candidatesOf(d, &l, o)
		_, _, counts := at.promise(batch, rs, &scratch{})
		for i, x := range designs {
			var want []abi.FBCB
			everything(g, batch, o, func(e abi.FBCB) {
				if mapping.Check(x, g, batch, e) == nil {
					want = append(want, e)
				}
			})
			if diff := cmp.Diff(want, found[i]); diff != "" {
				t.Fatalf("T_R %d: entries differ (-mapping +search):\n%s", x.TR, diff)
			}
			if counts[i] != int64(len(want)) {
				t.Fatalf("T_R %d: counted %d entries of %d", x.TR, counts[i], len(want))
			}
		}
	})
}

// No bound exceeds the law. The law does not depend on T_R or on the size of the activation buffer, and for pools
// only on lanes and DRAIN, so designs that differ only in other parameters share times. The fastest entry found with
// pruning is the fastest of all, as in mapping.Choose.
func TestBoundIsBelowTheLaw(t *testing.T) {
	draws, legal := 0, 0
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		defer f.Value.Set(f.DefValue)
		f.Value.Set("1000")
	}
	defer func() {
		if 10*legal < 9*draws {
			t.Errorf("%d of %d draws have a legal entry", legal, draws)
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		d, o := drawDesign(t), drawOptions(t)
		g := drawGeom(t, d)
		batch := rapid.IntRange(1, abi.BMax).Draw(t, "batch")
		l := newLayer(g)
		other := d
		other.TR, other.ABufWords = 64, 77
		if !g.GEMM() { // with the same number of lanes and the same DRAIN
			other.TP, other.TC = d.NB()/2, 2*d.TC
		}
		mapping.Enumerate(d, g, batch, o, func(e abi.FBCB) {
			law := cost.Layer(d, g, batch, e).Total
			if got := cost.Layer(other, g, batch, e).Total; got != law {
				t.Fatalf("%+v: %d cycles, %d with other memories", e, law, got)
			}
			if got := cost.Layer(d, cost.Seen(d, g), batch, e).Total; got != law {
				t.Fatalf("%+v: %d cycles, %d at the offsets that the law is said to see", e, law, got)
			}
			if tile, all := bounds(d, &l, batch, e); max(tile, all) > law {
				t.Fatalf("%+v: the bound is %d, over all tiles %d, the law says %d (%+v)", e, tile, all, law, cost.Layer(d, g, batch, e))
			}
		})
		rs, at, m := rooms([]configs.Design{d}), candidatesOf(d, &l, o), scratch{}
		best, _ := at.fastest(batch, rs, &m)
		full, _ := exhaustive(d, &l, batch, o, rs)
		_, want, err := mapping.Choose(d, g, batch, o)
		draws++
		if err != nil {
			if best[0] != none {
				t.Fatalf("found %d where mapping finds nothing: %v", best[0], err)
			}
			return
		}
		legal++
		if best[0] != want.Total || full[0] != want.Total {
			t.Fatalf("%d cycles with pruning, %d without, mapping finds %d", best[0], full[0], want.Total)
		}
	})
}

// bounds returns the bound of an entry, and the bound of all entries with its <k, s>.
func bounds(d configs.Design, l *layer, batch int, e abi.FBCB) (tile, all int64) {
	sp := newSpread(d, l, mapping.Point{K: cost.K(e.K), S: cost.Groups(e, batch)}, []bool{e.Order})
	s := sp.at(batch)
	return s.tile(int(e.TileB), int(e.TileRows), none), s.All
}

// Bounds of layers with rows so short that their bursts wait for each other do not exceed the law, which assumes that
// the rows that the first kernel row does not need are slower than all rows of the first tile.
func TestBoundWhereBurstsWait(t *testing.T) {
	for _, c := range []struct {
		config string
		g      cost.Geom
	}{
		{"v8", cost.Geom{InH: 16, InW: 2, InC: 9, OutH: 5, OutC: 2, KH: 3, KW: 1, SH: 3, SW: 6}},
		{"tiny", cost.Geom{InH: 19, InW: 5, InC: 2, OutH: 5, OutC: 10, KH: 5, KW: 5, SH: 3, SW: 2, Residual: true}},
		{"tiny", cost.Geom{InH: 15, InW: 2, InC: 9, OutH: 5, OutC: 7, KH: 3, KW: 4, SH: 3, SW: 3}},
	} {
		d, err := configs.Load(c.config)
		if err != nil {
			t.Fatal(err)
		}
		g := c.g
		g.Op, g.OutW, g.InPix, g.OutPix, g.ResPix, g.BiasCount = abi.OpGEMM, 1, g.InC, g.OutC, g.OutC, g.OutC
		l := newLayer(g)
		for batch := 1; batch <= abi.BMax; batch++ {
			mapping.Enumerate(d, l.g, batch, mapping.Options{}, func(e abi.FBCB) {
				if tile, all := bounds(d, &l, batch, e); max(tile, all) > cost.Layer(d, g, batch, e).Total {
					t.Errorf("%s, %+v, %+v at B = %d: the bound is %d, over all tiles %d, the law says %d", c.config, g, e, batch, tile, all, cost.Layer(d, g, batch, e).Total)
				}
			})
		}
	}
}

// geoms returns the geometries of a bundle's layers, which determine their time.
func geoms(b *bundle.Bundle) []cost.Geom {
	var out []cost.Geom
	for _, x := range b.Network.Exits {
		out = append(out, cost.GeomsOf(b.Layers[x.First:x.Last+1])...)
	}
	return out
}

func lowered1(t *testing.T, g *graph.Graph, d configs.Design) []cost.Geom {
	t.Helper()
	w, err := NewWorkload(g)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := w.Lower(d)
	if err != nil {
		t.Fatal(err)
	}
	var out []cost.Geom
	for _, l := range layers {
		out = append(out, l.Geom)
	}
	return out
}

// agree reports whether the scales of convolutions that may be merged allow it: the search assumes so, and has no
// scales.
func agree(q *quant.Network) (layers int, ok bool) {
	merged := alias.Of(q.Graph).Merged
	for _, nodes := range merged {
		a := &q.Layers[nodes[0]]
		for _, n := range nodes {
			if l := &q.Layers[n]; l.Shift != a.Shift || l.ClampLo != a.ClampLo || l.ClampHi != a.ClampHi {
				return 0, false
			}
		}
	}
	return len(merged), true
}

// The search maps the same layers as the compiler.
func TestLowerIsTheCompilers(t *testing.T) {
	for _, name := range []string{"tiny", "v7", "small", "tinyx", "v13x"} {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		merged, units := 0, [3]int{} // the last: depthwise, products, curves
		for seed := range uint64(60) {
			o := randnet.All()
			o.Woven = seed >= 45
			net, err := randnet.New(seed, d, o)
			if err != nil {
				t.Fatal(err)
			}
			layers, ok := agree(net.Quant)
			if merged += layers; !ok {
				continue
			}
			if _, err := NewWorkload(net.Quant.Graph); errors.Is(err, ErrNothing) {
				continue
			}
			want, got := geoms(net.Bundle), lowered1(t, net.Quant.Graph, d)
			for i, g := range want {
				for j, is := range []bool{g.Op == abi.OpDepthwise, g.Product, g.Curve} {
					if is {
						units[j]++
					}
				}
				if i < len(got) && want[i].Op == abi.OpAvgPool {
					want[i].BiasCount, got[i].BiasCount = 0, 0 // randnet draws tables even if no pool needs one
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, seed %d (-compile +search):\n%s", name, seed, diff)
			}
		}
		if merged == 0 && !d.Depthwise {
			t.Errorf("%s: no layer is of several convolutions", name)
		}
		if (slices.Min(units[:]) > 0) != d.Depthwise {
			t.Errorf("%s: %d depthwise layers, %d products, %d curves", name, units[0], units[1], units[2])
		}
	}
	// more depthwise windows than the table holds: both widen the same ones
	narrow, err := configs.Load("mid")
	if err != nil {
		t.Fatal(err)
	}
	narrow.TC = 16
	g := network(t, "mobilenetv2", 64)
	b := compiled(t, g, narrow)
	if diff := cmp.Diff(geoms(b), lowered1(t, g, narrow)); diff != "" {
		t.Errorf("mobilenetv2 at T_C = 16 (-compile +search):\n%s", diff)
	}
	if !slices.ContainsFunc(b.Layers, func(l abi.Desc) bool { return l.KH == 3 && l.OutC > 32 }) {
		t.Errorf("%d layers, none of a depthwise convolution is wider than T_C", len(b.Layers))
	}
}

// The entries chosen by Choose, with tensors on chip, are those of the bundle, and the search has the bundle's
// cycles.
func TestChoiceIsTheCompilers(t *testing.T) {
	kept := 0
	for _, c := range []struct {
		network, config string
		side            int
		unit            bool // with the depthwise unit
		kind            string
	}{
		{"tiny", "run", 0, false, "int16"},
		{"fashion", "v7", 0, false, "int16"},
		{"mobilenetv2", "mid", 64, false, "int16"},
		{"mobilenetv2", "mid", 64, true, "int16"},
		{"inceptionv3", "zcu104", 107, false, "int16"},
		{"fashion", "v7", 0, false, "int8"},
		{"mobilenetv2", "mid", 64, true, "int8"},
	} {
		g := network(t, c.network, c.side)
		d, err := configs.Load(c.config)
		if err != nil {
			t.Fatal(err)
		}
		d = d.Typed(c.kind)
		d.Depthwise = c.unit
		b := compiled(t, g, d)
		if unit := slices.ContainsFunc(b.Layers, func(l abi.Desc) bool { return l.Op == abi.OpDepthwise }); unit != c.unit {
			t.Errorf("%s on %s: a layer for the depthwise unit: %t", c.network, c.config, unit)
		}
		w, err := NewWorkload(g)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := w.Lower(d)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(geoms(b), lowered1(t, g, d)); diff != "" {
			t.Errorf("%s on %s (-compile +search):\n%s", c.network, c.config, diff)
		}
		v := newSolver(w, mapping.RTL(), true)
		p := pair{tp: d.TP, tc: d.TC, designs: []configs.Design{d}}
		_, groups := v.survey(&p, v.lower(&p))
		_, cycles, err := v.solve(&p, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		for batch := 1; batch <= abi.BMax; batch++ {
			chosen, err := Choose(d, layers, batch, mapping.RTL())
			if err != nil {
				t.Fatal(err)
			}
			for i := range chosen {
				if e := b.FBCB[i][batch-1]; e != chosen[i].Entry {
					t.Fatalf("%s on %s at B = %d, layer %q: compiled %+v, chosen %+v", c.network, c.config, batch, b.Names[i], e, chosen[i].Entry)
				} else if e.KeepOut {
					kept++
				}
			}
			for i, x := range b.Network.Exits {
				want, err := cost.Segment(d, b.Layers, b.FBCB, x.First, x.Last, batch)
				if err != nil {
					t.Fatal(err)
				}
				if got, bound := cycles[0][batch-1][i], groups[0].least[0][batch-1][i]; got != want || bound > want {
					t.Errorf("%s on %s at B = %d, exit %d: %d cycles, the search says %d and at least %d", c.network, c.config, batch, i, want, got, bound)
				}
			}
		}
	}
	if kept < 50 {
		t.Errorf("%d tensors stay on chip", kept)
	}
}

// compiled returns a network's bundle, calibrated with an image of ones.
func compiled(t *testing.T, g *graph.Graph, d configs.Design) *bundle.Bundle {
	t.Helper()
	image := slices.Repeat([]float32{1}, g.Tensors[g.Input].Elems())
	if !d.Int8() {
		if quantised[g] == nil {
			q, err := quant.Quantise(g, [][]float32{image}, quant.Options{})
			if err != nil {
				t.Fatal(err)
			}
			quantised[g] = q
		}
		b, err := compile.Compile(quantised[g], d, compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seen, err := quant.See(g, 1, func(int) ([]float32, error) { return image, nil }, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := seen.Network(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compile.Int8(n, d, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The entries with a kept tensor, and the rooms that allow them, are those of mapping.Check.
func TestWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, batch := drawDesign(t), rapid.IntRange(1, abi.BMax).Draw(t, "batch")
		g := drawGeom(t, d)
		if rapid.Bool().Draw(t, "small") {
			g.InH, g.InW, g.KH, g.KW, g.SH, g.SW, g.PadT, g.PadL = 7, 7, 1, 1, 1, 1, 0, 0
			g.OutH, g.OutW = 7, 7
		}
		smaller := d
		smaller.TR /= 2
		smaller.ABufWords += rapid.IntRange(0, 4096).Draw(t, "more")
		designs := []configs.Design{smaller, d}
		for way := range 5 {
			in, out := way%2 == 0, mapping.Link((way+1)/2)
			found := make([]map[abi.FBCB]bool, 2)
			for i := range found {
				found[i] = map[abi.FBCB]bool{}
			}
			mapping.Whole(d, g, batch, in, out, mapping.Options{}, rooms(designs), func(e abi.FBCB, need mapping.Room) {
				first, last := need.Span(rooms(designs))
				for i := first; i <= last; i++ {
					found[i][e] = true
				}
			})
			everything(g, batch, mapping.Options{}, func(e abi.FBCB) {
				e = mapping.Stay(e, in, out)
				for i, x := range designs {
					if err := mapping.Check(x, g, batch, e); (err == nil) != found[i][e] && (in || out != mapping.Apart) {
						t.Fatalf("T_R %d, %+v, in %t, out %d: found %t, legal: %v", x.TR, e, in, out, found[i][e], err)
					}
				}
			})
		}
	})
}

// The paper's law gets the network's own layers, without merged convolutions.
func TestPaperHasTheNetworksLayers(t *testing.T) {
	w, g := load(t, "inceptionv3"), grid(t, "zc706")
	p, err := NewPaperSpace(w, g.Board, g.Template, PaperOptions{BytesPerCycle: 8})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := w.Lower(g.Template)
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for _, nodes := range w.net.Merged {
		shared += len(nodes) - 1
	}
	if shared != 19 || len(p.layers) != len(ours)+shared {
		t.Errorf("%d layers, ours are %d, of which %d could be more", len(p.layers), len(ours), shared)
	}
}

// networks are read once, and quantised once.
var (
	networks  = map[string]*graph.Graph{}
	quantised = map[*graph.Graph]*quant.Network{}
)

func network(t testing.TB, name string, side int) *graph.Graph {
	t.Helper()
	key := fmt.Sprint(name, side)
	if networks[key] == nil {
		g, err := zoo.LoadWith(name, onnx.Options{WeightSeed: 1, InputSide: onnx.Square(side)})
		if err != nil {
			t.Fatal(err)
		}
		networks[key] = g
	}
	return networks[key]
}

func load(t testing.TB, name string) *Workload {
	t.Helper()
	w, err := NewWorkload(network(t, name, 0))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func grid(t testing.TB, board string) Grid {
	t.Helper()
	b, err := boards.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGrid(b, d)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func sweepOf(t *testing.T, w *Workload, g Grid, o Options) *Result {
	t.Helper()
	r, err := Sweep(context.Background(), w, g, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var leastTC = flag.Int("tc", 124, "least T_C of ResNet-50 whose pruning is tested; nightly has 116")

// Pruning changes only the number of evaluations, not the best point, its mapping, the front or the ranks.
func TestPruningIsSafe(t *testing.T) {
	for _, c := range []struct {
		network, board string
		tp, tc         Range
		o              Options
		m              mapping.Options
		x              Axes
	}{
		{"tiny", "zc706", Range{2, 9}, Range{4, 32}, Options{Objective: GOPS}, mapping.Options{}, Axes{}},
		{"tiny", "zc706", Range{8, 16}, Range{36, 64}, Options{Objective: Latency}, mapping.RTL(), Axes{}},
		{"fashion", "zcu104", Range{3, 6}, Range{8, 32}, Options{Objective: GOPSPerDSP}, mapping.Options{}, Axes{}},
		{"resnet50", "zc706", Range{7, 8}, Range{*leastTC, 128}, Options{Objective: GOPS, Weights: Weights{3, 0, 0, 1, 0, 0, 0, 2}}, mapping.RTL(), Axes{}},
		{"mobilenetv2", "zc706", Range{7, 8}, Range{100, 100}, Options{Objective: Latency}, mapping.RTL(), Axes{Depthwise: []bool{false, true}, Post: []bool{false, true}}},
	} {
		w, g := load(t, c.network), grid(t, c.board)
		g.Axes = c.x
		g.TP, g.TC, g.Mapping = c.tp, c.tc, c.m
		ref, err := g.At(1024, c.tp.Lo, c.tc.Lo)
		if err != nil {
			t.Fatal(err)
		}
		c.o.References = []configs.Design{ref}
		pruned := sweepOf(t, w, g, c.o)
		c.o.Exhaustive = true
		full := sweepOf(t, w, g, c.o)
		if pruned.Evaluated >= full.Evaluated || full.Searched != full.Designs-full.Unmapped {
			t.Errorf("%s on %s: %d evaluations of %d, %d designs of %d searched", c.network, c.board, pruned.Evaluated, full.Evaluated, full.Searched, full.Designs-full.Unmapped)
		}
		pruned.Evaluated, pruned.Searched, pruned.Points, full.Points = full.Evaluated, full.Searched, nil, nil
		if diff := cmp.Diff(full, pruned); diff != "" {
			t.Errorf("%s on %s, %s (-exhaustive +pruned):\n%s", c.network, c.board, c.o.Objective, diff)
		}
		if r := pruned.Ranks[0]; r.Rank < 1 || r.Rank > r.Of {
			t.Errorf("%s: rank %d of %d", c.network, r.Rank, r.Of)
		}
	}
}

func text(t *testing.T, r *Result) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The result, including the number of evaluations, is the same for any number of workers.
func TestWorkers(t *testing.T) {
	w, g := load(t, "tiny"), grid(t, "zc706")
	g.TP.Hi, g.TC.Hi = 9, 48
	first := ""
	for _, workers := range []int{1, 2, 7} {
		r := text(t, sweepOf(t, w, g, Options{Objective: GOPS, Workers: workers}))
		if first == "" {
			first = r
		}
		if r != first {
			t.Errorf("%d workers find something else", workers)
		}
	}
}

// An interrupted sweep has no result. When resumed, it has the result of an uninterrupted one. A file of another sweep,
// or a modified file, is rejected.
func TestResume(t *testing.T) {
	w, g := load(t, "tiny"), grid(t, "zc706")
	g.TP.Hi, g.TC.Hi = 9, 48
	want := text(t, sweepOf(t, w, g, Options{Objective: GOPS}))
	file := filepath.Join(t.TempDir(), "state.json")
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(context.Background())
		calls := 0
		r, err := Sweep(ctx, w, g, Options{Objective: GOPS, State: file, Progress: func(done, total int) {
			if calls++; calls > 1 && done < total {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			if got := text(t, r); got != want {
				t.Fatalf("resumed %d times, the result is another", stop-1)
			}
			if stop < 3 {
				t.Errorf("the sweep was over after %d runs: nothing was interrupted", stop)
			}
			break
		}
		if !errors.Is(err, ErrInterrupted) || r != nil {
			t.Fatalf("interrupted: %v, result %v", err, r)
		}
		state, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(state, []byte(`"complete":false`)) {
			t.Fatalf("the state of an interrupted sweep (%v) says %.200s", err, state)
		}
	}
	state, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{`"schema":"sluice-dse-state/2"`, `"schema":"other"`},
		{`"complete":true`, `"complete":false`},
		{`"next":`, `"next":1`},
		{`{"schema"`, `{{`},
	} {
		bad := filepath.Join(t.TempDir(), "bad.json")
		if err := os.WriteFile(bad, []byte(strings.Replace(string(state), c.from, c.to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Sweep(context.Background(), w, g, Options{Objective: GOPS, State: bad}); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	if _, err := Sweep(context.Background(), w, g, Options{Objective: Latency, State: file}); !errors.Is(err, ErrState) {
		t.Errorf("another objective: %v", err)
	}
}

// served returns a Service that calls a function of designs.
func served(f func(d configs.Design, ns Cycles) (float64, error)) *Service {
	return &Service{
		Serve: func(_ context.Context, d configs.Design, ns Cycles, _ float64) (Served, error) {
			v, err := f(d, ns)
			return Served{Value: v}, err
		},
		Most: func(Cycles) (float64, bool) { return math.Inf(1), true },
	}
}

// Goodput is computed for every design; the best one wins.
func TestGoodput(t *testing.T) {
	w, g := load(t, "tiny"), grid(t, "zc706")
	g.TP, g.TC, g.TR = Range{4, 6}, Range{8, 64}, Range{64, 512}
	var best configs.Design
	asked := 0
	r := sweepOf(t, w, g, Options{Objective: Goodput, Workers: 1, Service: served(func(d configs.Design, ns Cycles) (float64, error) {
		asked++
		if len(ns[7]) != w.Segments {
			t.Fatalf("%d segments", len(ns[7]))
		}
		if d.TP == 5 && d.TC == 20 && d.TR == 128 {
			best = d
			return 2, nil
		}
		return 1, nil
	})})
	if asked != r.Designs-r.Unmapped || r.Best.Design != best || r.Best.Value != 2 {
		t.Errorf("asked %d times of %d designs, best %+v", asked, r.Designs-r.Unmapped, r.Best)
	}
	for _, s := range []*Service{
		served(func(configs.Design, Cycles) (float64, error) { return math.NaN(), nil }),
		served(func(configs.Design, Cycles) (float64, error) { return 0, errors.New("no") }),
		{},
		nil,
	} {
		if _, err := Sweep(context.Background(), w, g, Options{Objective: Goodput, Service: s}); err == nil {
			t.Error("a failing simulation is no error")
		}
	}
}

func TestRefuses(t *testing.T) {
	w, g := load(t, "tiny"), grid(t, "zc706")
	nan, inf, neg := Uniform(), Uniform(), Uniform()
	nan[3], inf[0], neg[7] = math.NaN(), math.Inf(1), -1
	var zero Weights
	for _, weights := range []Weights{nan, inf, neg} {
		if _, err := Sweep(context.Background(), w, g, Options{Objective: GOPS, Weights: weights}); !errors.Is(err, ErrWeights) {
			t.Errorf("weights %v: %v", weights, err)
		}
	}
	if err := zero.Check(); !errors.Is(err, ErrWeights) {
		t.Errorf("all weights zero: %v", err)
	}
	for _, change := range []func(*Grid){
		func(g *Grid) { g.TP = Range{0, 8} },
		func(g *Grid) { g.TP = Range{8, 4} },
		func(g *Grid) { g.TC = Range{-4, 8} },
		func(g *Grid) { g.TR = Range{16, 1 << 20} },
	} {
		bad := g
		change(&bad)
		if _, err := Sweep(context.Background(), w, bad, Options{Objective: GOPS}); !errors.Is(err, ErrGrid) {
			t.Errorf("%v %v %v: %v", bad.TP, bad.TC, bad.TR, err)
		}
	}
	for _, c := range []struct {
		change func(*Grid)
		says   string // in the message for one of the points
	}{
		{func(g *Grid) { g.Board.DSP = 5 }, "the grid has no point"},
		{func(g *Grid) { g.Board.BRAM36 = 1 }, "points: memory, as <"},
		{func(g *Grid) { g.Board.LUT = 10 }, "has 10"},
		{func(g *Grid) { g.Template.WLoad = 3 }, "w_load: expected an even number: both PEs of a pair load together, found 3"},
	} {
		poor := g
		c.change(&poor)
		if _, err := Sweep(context.Background(), w, poor, Options{Objective: GOPS}); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	if _, err := Sweep(context.Background(), w, g, Options{Objective: "fame"}); err == nil {
		t.Error("an unknown objective is no error")
	}
	if _, err := NewGrid(boards.Board{}, g.Template); !errors.Is(err, boards.ErrBoard) {
		t.Errorf("an empty board: %v", err)
	}
	pool := &graph.Graph{
		Name: "pool", Tensors: []graph.Tensor{{H: 4, W: 4, C: 2}, {H: 1, W: 1, C: 2}},
		Nodes: []graph.Node{{Op: graph.MaxPool, Inputs: []graph.TensorID{0}, Output: 1, Window: graph.Window{KH: 4, KW: 4, SH: 1, SW: 1}}},
		Exits: []graph.Exit{{Tensor: 1}}, Segment: []int{0},
	}
	if _, err := NewWorkload(pool); !errors.Is(err, ErrNothing) {
		t.Errorf("a network of pools: %v", err)
	}
	if _, err := NewWorkload(nil); !errors.Is(err, ErrNothing) {
		t.Errorf("no network: %v", err)
	}
}

// The front contains exactly the points that no other point dominates.
func TestFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Point {
			return Point{GOPS: float64(rapid.IntRange(1, 6).Draw(t, "gops")), B1NS: rapid.Int64Range(1, 6).Draw(t, "ns"), DSP: rapid.IntRange(1, 6).Draw(t, "dsp")}
		})).Draw(t, "points")
		front := Front(points)
		same := func(a, b Point) bool { return a.GOPS == b.GOPS && a.B1NS == b.B1NS && a.DSP == b.DSP }
		for i := range points {
			beaten := slices.ContainsFunc(points, func(q Point) bool { return dominates(&q, &points[i]) })
			n := 0
			for j := range front {
				if same(front[j], points[i]) {
					n++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[beaten]; n != want {
				t.Fatalf("%+v stands %d times on the front, want %d", points[i], n, want)
			}
		}
	})
}

// The designs for a first bitstream are the results of the sweep named in their files at <T_R, T_P, T_C>. They use at
// most 95 % of their board's DSPs and 90 % of its block RAM.
func TestFirstBitstream(t *testing.T) {
	for name, most := range map[string]int{"zc706": 490, "zcu104": 280} {
		g := grid(t, name)
		g.Budget = Budget{Margin: 0.05, BRAM36: most}
		want, err := configs.Load(name + "-first")
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.At(want.TR, want.TP, want.TC)
		if got.Name, got.Reason = want.Name, want.Reason; err != nil || got != want {
			t.Errorf("%s: the sweep makes %+v, %v; expected %+v", want.Name, got, err, want)
		}
		e := resource.Of(g.Board, want)
		if dsp, bram := float64(e.DSP)/float64(g.Board.DSP), e.BRAM36/float64(g.Board.BRAM36); dsp > 0.95 || bram > 0.9 {
			t.Errorf("%s: %.3f of the DSPs, %.3f of the block RAM", want.Name, dsp, bram)
		}
		if ref, err := configs.Load(name); err != nil || resource.Of(g.Board, ref).Check(g.allowedBoard()) == nil {
			t.Errorf("%s leaves as much free: %v", name, err)
		}
	}
}

// The RTL accepts the reference designs, and the grids of their boards contain designs with their <T_P, T_C>.
func TestReferences(t *testing.T) {
	for name, want := range map[string][3]int{"zc706": {1024, 7, 128}, "zcu104": {1024, 13, 132}} {
		g := grid(t, name)
		if err := g.Template.Elaborates(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d, err := g.At(want[0], want[1], want[2])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// 64 URAMs hold 16,384 words of each of the ZCU104's 64 banks; the 20,480 of its configuration would be 128
		if want := map[string]int{"zc706": 15360, "zcu104": 16384}[name]; d.Drain != g.Template.Drain || d.ABufWords != want {
			t.Errorf("%s: the grid's design has DRAIN %d and %d words, expected %d and %d", name, d.Drain, d.ABufWords, g.Template.Drain, want)
		}
	}
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	d.TR = 3072
	if err := d.Elaborates(); err == nil || !strings.Contains(err.Error(), "power of two") {
		t.Errorf("T_R 3072: %v", err)
	}
}

// BenchmarkSweep measures the whole ResNet-50 space of the ZC706, B = 1..8.
func BenchmarkSweep(b *testing.B) {
	w, g := load(b, "resnet50"), grid(b, "zc706")
	var asked, space int64
	for b.Loop() {
		r, err := Sweep(context.Background(), w, g, Options{Objective: GOPS})
		if err != nil {
			b.Fatal(err)
		}
		asked, space = asked+r.Evaluated, r.Space
	}
	b.ReportMetric(float64(asked)/b.Elapsed().Seconds(), "mappings/s")
	b.ReportMetric(float64(space), "space")
}

// The law for every 101st entry of ResNet-50's layers on the zc706.
func BenchmarkLaw(b *testing.B) {
	w := load(b, "resnet50")
	d, err := configs.Load("zc706")
	if err != nil {
		b.Fatal(err)
	}
	layers, err := w.Lower(d)
	if err != nil {
		b.Fatal(err)
	}
	type evaluation struct {
		law   *cost.Prepared
		batch int
		entry abi.FBCB
	}
	var all []evaluation
	n := 0
	unlike, _ := classes(d, layers, w.Segments)
	for _, cl := range unlike {
		l := newLayer(cl.Geom)
		at := candidatesOf(d, &l, mapping.Options{})
		for batch := 1; batch <= abi.BMax; batch++ {
			mapping.Enumerate(d, l.g, batch, mapping.Options{}, func(e abi.FBCB) {
				if n++; n%101 != 0 {
					return
				}
				for i := range at.on {
					if s := &at.on[i]; s.p.K == cost.K(e.K) && s.p.S == cost.Groups(e, batch) {
						all = append(all, evaluation{&s.law, batch, e})
					}
				}
			})
		}
	}
	b.ResetTimer()
	for b.Loop() {
		for _, x := range all {
			x.law.Layer(x.batch, x.entry)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all)), "ns/mapping")
}

// A grid without a point yields a message, not an empty map.
func TestRefusals(t *testing.T) {
	if got := (&refusals{}).String(); strings.Contains(got, "map") || got == "" {
		t.Errorf("%q", got)
	}
	r := &refusals{map[string]int{}, map[string]string{}}
	for i, why := range []string{"b", "a", "b"} {
		r.add(why, configs.Design{TR: i}, fmt.Errorf("reason %d", i))
	}
	if got, want := r.String(), "; refused 1 points: a, as <1, 0, 0>: reason 1; 2 points: b, as <0, 0, 0>: reason 0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
