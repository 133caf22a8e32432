package search

import (
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
)

// More freedom is never slower, under either law, for the network and at every batch size. For one sample, serial, FC
// and R are the same. Ours is the result of the search.
func TestAblation(t *testing.T) {
	w, g := load(t, "resnet50"), grid(t, "zc706")
	d := g.Template
	rows, err := Ablate(w, d, g.Mapping)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPaperSpace(w, g.Board, d, PaperOptions{BytesPerCycle: 15.3})
	if err != nil {
		t.Fatal(err)
	}
	paper, err := p.Ablate(cost.PaperPoint{TR: 4652, TP: 7, TC: 128})
	if err != nil {
		t.Fatal(err)
	}
	own, err := p.AblateOwn()
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range own {
		if r.GOPS[7] < paper[i].GOPS[7]*0.9999999 {
			t.Errorf("%s: %g GOP/s at B = 8 on its own design %v, %g on %v", r.Scheme, r.GOPS[7], r.Design, paper[i].GOPS[7], paper[i].Design)
		}
	}
	if len(rows) != len(Schemes) || len(paper) != len(Schemes)-1 {
		t.Fatalf("%d and %d rows", len(rows), len(paper))
	}
	for _, list := range [][]AblationRow{rows, paper} {
		by := map[Scheme]AblationRow{}
		for _, r := range list {
			by[r.Scheme] = r
			for b, v := range r.GOPS {
				if v <= 0 || v > r.Peak {
					t.Errorf("%s, %s: %g GOP/s at B = %d, the peak is %g", r.Law, r.Scheme, v, b+1, r.Peak)
				}
			}
		}
		for b := range abi.BMax {
			for _, c := range [][2]Scheme{{Serial, FC}, {RBatch, Fluid}, {PBatch, Fluid}, {Fluid, Stackable}} {
				if lo, hi := by[c[0]].GOPS[b], by[c[1]].GOPS[b]; lo > hi*1.0000001 {
					t.Errorf("%s at B = %d: %s %g, %s %g", list[0].Law, b+1, c[0], lo, c[1], hi)
				}
			}
			if o, ok := by[Ours]; ok && o.GOPS[b] < by[Stackable].GOPS[b] {
				t.Errorf("B = %d: ours %g, %s %g", b+1, o.GOPS[b], Stackable, by[Stackable].GOPS[b])
			}
		}
		if by[Serial].GOPS[0] != by[RBatch].GOPS[0] || by[Serial].GOPS[0] != by[FC].GOPS[0] {
			t.Errorf("%s: at B = 1 serial %g, FC %g, R %g", list[0].Law, by[Serial].GOPS[0], by[FC].GOPS[0], by[RBatch].GOPS[0])
		}
	}
	s := &sweep{w: w, g: g, o: Options{Objective: GOPS, Weights: Uniform()}}
	ours, err := s.judge(d)
	if err != nil {
		t.Fatal(err)
	}
	if ours.ByB != rows[len(rows)-1].GOPS {
		t.Errorf("ours %v, the search %v", rows[len(rows)-1].GOPS, ours.ByB)
	}
	if _, err := Ablate(w, d, mapping.Options{Points: []mapping.Point{}}); err == nil {
		t.Error("no point to choose from is no error")
	}
}

// The paper's rows: T_R is exact at the published points, the fourth row is rejected with its reason, and the
// published design of ResNet-50 on the ZC706 is the best of its space.
func TestPaperSweep(t *testing.T) {
	backbone, err := Backbone(load(t, "resnet50").net.Graph)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorkload(backbone)
	if err != nil {
		t.Fatal(err)
	}
	for board, reproduced := range map[string][]bool{"zc706": {true, true}, "zcu104": {true, false}} {
		g := grid(t, board)
		p, err := NewPaperSpace(w, g.Board, g.Template, PaperOptions{BytesPerCycle: g.Board.DRAM.BytesPerCycle[0]})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range r.Ranks {
			if k.Reproduced != reproduced[i] || (k.Why == "") != k.Reproduced || k.TR != k.Published.TR {
				t.Errorf("%s: %+v", board, k)
			}
		}
		if board == "zc706" && (r.Best.PaperPoint != cost.PaperPoint{TR: 4652, TP: 7, TC: 128} || r.Ranks[0].Rank != 1) {
			t.Errorf("best %v, the published point has rank %d", r.Best.PaperPoint, r.Ranks[0].Rank)
		}
	}
}
