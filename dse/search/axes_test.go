package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The DRAM has the same speed in seconds at any clock; every combination occurs once, with its own name.
func TestAxes(t *testing.T) {
	g := grid(t, "zc706") // 150 MHz, 15.3 bytes and a latency of 100 cycles
	g.TP, g.TC, g.TR = Range{4, 4}, Range{16, 16}, Range{128, 128}
	g.Axes = Axes{ClockMHz: []float64{75, 150}, BytesPerCycle: []float64{10, 20}, WLoad: []int{2, 4}}
	all, _ := g.pairs()
	names, designs := map[string]bool{}, map[configs.Design]bool{}
	for _, p := range all {
		for _, d := range p.designs {
			slower := 150 / d.ClockMHz
			if b := d.DRAM.BytesPerCycle / slower; b != 10 && b != 20 {
				t.Errorf("%s: %g bytes/cycle", d.Name, d.DRAM.BytesPerCycle)
			}
			if d.DRAM.LatencyCycles != int(100/slower) {
				t.Errorf("%s: a latency of %d cycles", d.Name, d.DRAM.LatencyCycles)
			}
			names[d.Name] = true
			d.Name = ""
			designs[d] = true
		}
	}
	if len(names) != 8 || len(designs) != 8 {
		t.Errorf("%d names and %d designs of 2 x 2 x 2", len(names), len(designs))
	}
	// T_C / 2 = 8 has no even divisor between 8 and 16
	g.Axes = Axes{Drain: []int{8, 16}}
	if all, _ = g.pairs(); len(all) != 1 {
		t.Errorf("%d templates that differ in nothing", len(all))
	}
	for _, a := range []Axes{
		{ClockMHz: []float64{0}},
		{BytesPerCycle: []float64{-1}},
		{WLoad: []int{0}},
		{ABufWords: []int{5}},
		{Type: []string{"int4"}},
		{Type: []string{"int8", "int8"}},
		{ClockMHz: []float64{150, 150}},
		{WLoad: make([]int, 70), Drain: make([]int, 70)},
	} {
		g.Axes = a
		if err := g.Check(); !errors.Is(err, ErrGrid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// The type is an axis: an int8 design has half of the array's DSPs, chains beyond int16's, a name of its own, and is the best.
func TestTypeAxis(t *testing.T) {
	w, g := load(t, "tiny"), grid(t, "zc706")
	g.TP, g.TC, g.TR = Range{15, 18}, Range{16, 16}, Range{128, 128}
	g.Axes.Type = []string{"int16", "int8"}
	r := sweepOf(t, w, g, Options{Objective: GOPS, Exhaustive: true})
	b := r.Best.Design
	if r.Designs != 2+4 || len(r.Refused) > 0 || !b.Int8() || !strings.Contains(b.Name, "-int8") {
		t.Errorf("%d designs, the best %+v", r.Designs, b)
	}
	if want := b.TP * b.TC / 2; r.Best.DSP != want {
		t.Errorf("%d DSPs, expected %d", r.Best.DSP, want)
	}
	var chains []string
	for _, p := range r.Points {
		chains = append(chains, fmt.Sprint(p.TP, p.Design.Type))
	}
	if slices.Sort(chains); strings.Join(chains, " ") != "15 15int8 16 16int8 17int8 18int8" {
		t.Error(chains)
	}
	if !strings.Contains(r.Grid, "T_P 15..16 and T_P 15..18 of int8") || !strings.Contains(r.Grid, "T_P T_C <= 896 and 1800") {
		t.Error(r.Grid)
	}
}

// Options are axes. The depthwise unit's multipliers are included in the DSPs, and the search decides whether the unit
// pays. A network that needs curves is rejected in a space where no design has them.
func TestOptionAxes(t *testing.T) {
	w, g := load(t, "mobilenetv2"), grid(t, "zc706")
	g.TP, g.TC, g.TR = Range{7, 7}, Range{100, 128}, Range{1024, 1024}
	without := sweepOf(t, w, g, Options{Objective: Latency})
	g.Axes.Depthwise = []bool{false, true}
	both := sweepOf(t, w, g, Options{Objective: Latency})
	b := both.Best
	if !b.Design.Depthwise || b.Value <= without.Best.Value {
		t.Errorf("best %+v with a choice, %+v without", b, without.Best)
	}
	if d := b.Design; b.DSP != d.MACs()+d.PoolMuls()+3*d.NB() || both.Refused["DSPs"] == 0 {
		t.Errorf("%d DSPs of <%d, %d, %d>; refused %v", b.DSP, b.TR, b.TP, b.TC, both.Refused)
	}

	net, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for net.Nodes[n].Op != graph.Conv {
		n++
	}
	net.Nodes[n].Function = &graph.Function{Name: "HardSwish"}
	if w, err = NewWorkload(net); err != nil {
		t.Fatal(err)
	}
	g.TC, g.Axes = Range{16, 16}, Axes{}
	_, err = Sweep(context.Background(), w, g, Options{Objective: Latency})
	if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), net.Nodes[n].Name) || !strings.Contains(err.Error(), "curve") {
		t.Errorf("without curves: %v", err)
	}
	g.Axes.Post = []bool{false, true}
	if r := sweepOf(t, w, g, Options{Objective: Latency}); !r.Best.Design.Post || r.Unmapped != 1 {
		t.Errorf("best %+v, %d designs do not run it", r.Best.Design, r.Unmapped)
	}
}
