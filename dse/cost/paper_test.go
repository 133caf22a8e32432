package cost

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/hw/abi"
)

// Table I: T_R and the percentages follow exactly from the published (T_P, T_C).
func TestPaperTable(t *testing.T) {
	for _, c := range []struct {
		tp, dsp   int
		mibit     float64
		want      PaperPoint
		dspP, ram float64 // as printed
	}{
		{7, 900, 19.2, PaperPoint{4652, 7, 128}, 99.56, 99.96},
		{4, 900, 19.2, PaperPoint{2742, 4, 225}, 100.0, 99.94},
		{10, 1728, 38.0, PaperPoint{6832, 10, 172}, 99.53, 99.99},
	} {
		p, err := PaperAt(c.tp, c.dsp, c.mibit)
		if err != nil || p != c.want {
			t.Errorf("T_P = %d: %v, %v, want %v", c.tp, p, err, c.want)
		}
		if got := 100 * float64(p.DSPs()) / float64(c.dsp); math.Abs(got-c.dspP) > 0.01 {
			t.Errorf("%v: %.3f %% of the DSPs, printed %.2f", p, got, c.dspP)
		}
		if got := 100 * float64(p.Bits()) / (c.mibit * mibit); math.Abs(got-c.ram) > 0.01 {
			t.Errorf("%v: %.3f %% of the memory, printed %.2f", p, got, c.ram)
		}
	}
	// The fourth row prints 100 % of the DSPs for <10, 172>; the third row prints 99.53 for it.
	if p := (PaperPoint{6832, 10, 172}); math.Abs(100*float64(p.DSPs())/1728-100) < 0.4 {
		t.Errorf("%v uses %d of 1728 DSPs", p, p.DSPs())
	}
}

func drawPaper(t *rapid.T) (PaperPoint, Geom, int) {
	p, err := PaperAt(rapid.IntRange(2, 64).Draw(t, "tp"), rapid.IntRange(200, 2000).Draw(t, "dsp"), 20)
	if err != nil {
		t.Fatal(err)
	}
	h, k := rapid.IntRange(1, 112).Draw(t, "h"), rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "k")
	c := rapid.IntRange(1, 512).Draw(t, "cin")
	g := Geom{
		Op: abi.OpGEMM, InH: h, InW: h, InC: c, OutH: h, OutW: h, OutC: rapid.IntRange(1, 512).Draw(t, "cout"),
		KH: k, KW: k, SH: 1, SW: 1,
	}
	return p, g, rapid.IntRange(1, abi.BMax).Draw(t, "batch")
}

// Samples one after another along P are never computed faster than all of them along R.
func TestPaperLiteralGainsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, g, b := drawPaper(t)
		whole, err := PaperLayer(p, g, b, PaperMapping{BR: b}, 1e9)
		if err != nil {
			t.Fatal(err)
		}
		for br := 1; br <= b; br++ {
			x, err := PaperLayer(p, g, b, PaperMapping{BR: br, Literal: true}, 1e9)
			if err != nil {
				t.Fatal(err)
			}
			if x.Compute < whole.Compute {
				t.Fatalf("%v, B = %d, B_R = %d: %d cycles, along R %d", p, b, br, x.Compute, whole.Compute)
			}
		}
	})
}

// No mapping computes more MACs per cycle than there are DSPs, or moves fewer bytes than its results.
func TestPaperBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, g, b := drawPaper(t)
		for _, m := range PaperMappings(b) {
			x, err := PaperLayer(p, g, b, m, 10)
			if errors.Is(err, ErrPaper) {
				continue // no PE left
			}
			if macs := int64(b) * g.MACs(); x.Compute*int64(p.DSPs()) < macs {
				t.Fatalf("%v, %+v: %d MACs in %d cycles", p, m, macs, x.Compute)
			}
			out := int64(b) * int64(g.OutH) * int64(g.OutW) * int64(g.OutC)
			if x.DRAM < 2*out/10 || x.Total != max(x.Compute, x.DRAM) {
				t.Fatalf("%v, %+v: %+v", p, m, x)
			}
			m.Formed = true
			if y, err := PaperLayer(p, g, b, m, 10); err != nil || y.DRAM > x.DRAM || y.Compute != x.Compute {
				t.Fatalf("formed on the way: %+v, off chip %+v (%v)", y, x, err)
			}
		}
	})
}

// One layer by hand: 56 x 56 x 64 to 256 channels, 1 x 1, on <4652, 7, 128> at B = 2.
func TestPaperByHand(t *testing.T) {
	p := PaperPoint{4652, 7, 128}
	g := Geom{Op: abi.OpGEMM, InH: 56, InW: 56, InC: 64, OutH: 56, OutW: 56, OutC: 256, KH: 1, KW: 1, SH: 1, SW: 1}
	for _, c := range []struct {
		m             PaperMapping
		compute, data int64
	}{
		// 6,272 rows in 2 tiles, 10 steps, 2 C tiles
		{PaperMapping{BR: 2}, 6272 * 10 * 2, 2 * (6272*64*2 + 64*256*2 + 6272*256)},
		// two groups of 64 PEs: 3,136 rows in one tile, 4 C tiles
		{PaperMapping{BR: 1}, 3136 * 10 * 4, 2 * (6272*64*4 + 64*256 + 6272*256)},
		// <2326, 14, 64>: 3 tiles, 5 steps, 4 C tiles
		{PaperMapping{BR: 2, K: K2}, 6272 * 5 * 4, 2 * (6272*64*4 + 64*256*3 + 6272*256)},
		// <2326, 3, 256>: 22 steps, one C tile
		{PaperMapping{BR: 2, K: KHalf}, 6272 * 22, 2 * (6272*64 + 64*256*3 + 6272*256)},
		// along P: (2 - 1 + 1)(64 + 6) = 140 in 20 steps
		{PaperMapping{BR: 1, Literal: true}, 3136 * 20 * 2, 2 * (6272*64*2 + 64*256 + 6272*256)},
	} {
		x, err := PaperLayer(p, g, 2, c.m, 2)
		if err != nil || x.Compute != c.compute || x.DRAM != c.data/2 {
			t.Errorf("%+v: %+v, %v, want %d and %d", c.m, x, err, c.compute, c.data/2)
		}
	}
	if x, err := PaperLayer(p, Geom{Op: abi.OpMaxPool}, 1, PaperMapping{BR: 1}, 2); err != nil || x.Total != 0 {
		t.Errorf("a pool: %+v, %v", x, err)
	}
}

func TestPaperRefuses(t *testing.T) {
	for _, c := range []struct {
		tp, dsp int
		mibit   float64
	}{{0, 900, 19}, {-1, 900, 19}, {7, 3, 19}, {7, 900, 0}, {7, 900, math.NaN()}, {7, 900, 0.001}} {
		if p, err := PaperAt(c.tp, c.dsp, c.mibit); !errors.Is(err, ErrPaper) {
			t.Errorf("%+v: %v, %v", c, p, err)
		}
	}
	g := Geom{Op: abi.OpGEMM, OutH: 1, OutW: 1, OutC: 1, KH: 1, KW: 1, InC: 1}
	for _, c := range []struct {
		b, br int
		k     K
		bpc   float64
	}{{0, 0, K1, 1}, {9, 9, K1, 1}, {2, 3, K1, 1}, {2, 2, K1, 0}, {2, 2, K1, math.NaN()}, {8, 1, K2, 1}, {1, 1, KHalf, 1}} {
		if _, err := PaperLayer(PaperPoint{16, 1, 8}, g, c.b, PaperMapping{K: c.k, BR: c.br}, c.bpc); !errors.Is(err, ErrPaper) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if n := len(PaperMappings(8)); n != 3*5 { // s = 1, 2, 3, 4, 8
		t.Errorf("%d mappings at B = 8", n)
	}
}
