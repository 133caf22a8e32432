package mapping

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"pgregory.net/rapid"
)

func design() configs.Design {
	return configs.Design{
		TR: 256, TP: 8, TC: 32, NAXI: 1, AXIBytes: 8, MaxBurst: 16, WLoad: 2, Drain: 8,
		ABufWords: 1024, WRingBeats: 512, CMax: 512, Stack: true, Fluid: true, ClockMHz: 150,
		DRAM: configs.DRAM{BytesPerCycle: 8, LatencyCycles: 100},
	}
}

func conv(h, w, cin, cout, k, s int) cost.Geom {
	out := func(n int) int { return (n+2*(k/2)-k)/s + 1 }
	return cost.Geom{
		Op: abi.OpGEMM, InH: h, InW: w, InC: cin, InPix: cin, OutH: out(h), OutW: out(w), OutC: cout, OutPix: cout,
		KH: k, KW: k, SH: s, SW: s, PadT: k / 2, PadL: k / 2, BiasCount: cout,
	}
}

// brute enumerates all combinations of field values and keeps those that Check allows.
func brute(d configs.Design, g cost.Geom, bact int, o Options) (best int64) {
	for _, p := range o.Points {
		for _, order := range o.Orders {
			for br := 1; br <= bact; br++ {
				for tb := 1; tb <= br; tb++ {
					for tr := 1; tr <= g.OutH; tr++ {
						e := abi.FBCB{BR: uint8(br), K: uint8(p.K), Order: order, TileB: uint8(tb), TileRows: uint16(tr)}
						if cost.Groups(e, bact) != p.S || Check(d, g, bact, e) != nil {
							continue
						}
						if c := cost.Layer(d, g, bact, e).Total; best == 0 || c < best {
							best = c
						}
					}
				}
			}
		}
	}
	return best
}

// Choose has the result of a search over all fields; among equals the first enumerated one. It has a result exactly if
// there is a legal entry.
func TestChooseAgainstFullSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := design()
		g := conv(rapid.IntRange(1, 40).Draw(t, "h"), rapid.IntRange(1, 40).Draw(t, "w"),
			rapid.IntRange(1, 100).Draw(t, "cin"), rapid.IntRange(1, 100).Draw(t, "cout"),
			rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "k"), rapid.IntRange(1, 2).Draw(t, "s"))
		g.First = rapid.Bool().Draw(t, "first")
		bact := rapid.IntRange(1, abi.BMax).Draw(t, "bact")
		o := Basic()
		if rapid.Bool().Draw(t, "all") {
			o = Options{Points: Points, Orders: []bool{false, true}}
		}
		e, b, err := Choose(d, g, bact, o)
		want := brute(d, g, bact, o)
		if (err != nil) != (want == 0) {
			t.Fatalf("Choose: %v, the full search finds %d cycles", err, want)
		}
		if err != nil {
			if !errors.Is(err, ErrNoFit) {
				t.Fatalf("Choose: %v is no ErrNoFit", err)
			}
			return
		}
		if err := Check(d, g, bact, e); err != nil {
			t.Fatalf("chosen entry: %v", err)
		}
		if b.Total != want {
			t.Fatalf("chosen %d cycles (%+v), best %d", b.Total, e, want)
		}
		var first abi.FBCB
		Enumerate(d, g, bact, o, func(x abi.FBCB) {
			if first.BR == 0 && cost.Layer(d, g, bact, x).Total == want {
				first = x
			}
		})
		if e != first {
			t.Fatalf("chosen %+v, the first of the fastest is %+v", e, first)
		}
	})
}

func TestCheckRefuses(t *testing.T) {
	d, g := design(), conv(16, 16, 8, 16, 3, 1)
	ok := abi.FBCB{BR: 2, TileB: 1, TileRows: 16}
	if err := Check(d, g, 2, ok); err != nil {
		t.Fatal(err)
	}
	plain := d
	plain.Stack, plain.Fluid = false, false
	pool := g
	pool.Op, pool.OutC = abi.OpMaxPool, 8
	wide := g
	wide.OutC = 20
	for _, c := range []struct {
		name string
		d    configs.Design
		g    cost.Geom
		bact int
		e    abi.FBCB
	}{
		{"no batch", d, g, 0, ok},
		{"batch above B_MAX", d, g, 9, abi.FBCB{BR: 9, TileB: 1, TileRows: 1}},
		{"B_R zero", d, g, 2, abi.FBCB{TileB: 1, TileRows: 1}},
		{"B_R above the batch", d, g, 1, ok},
		{"three groups", d, g, 3, abi.FBCB{BR: 1, TileB: 1, TileRows: 1}},
		{"uneven B_R", d, g, 5, abi.FBCB{BR: 4, TileB: 1, TileRows: 1}},
		{"k = 2 with s = 2", d, g, 2, abi.FBCB{BR: 1, K: 2, TileB: 1, TileRows: 1}},
		{"k = 3", d, g, 2, abi.FBCB{BR: 2, K: 3, TileB: 1, TileRows: 1}},
		{"no stacking built", plain, g, 2, abi.FBCB{BR: 2, K: 2, TileB: 1, TileRows: 1}},
		{"no groups built", plain, g, 2, abi.FBCB{BR: 1, TileB: 1, TileRows: 1}},
		{"groups narrower than the layer", d, wide, 2, abi.FBCB{BR: 1, TileB: 1, TileRows: 1}},
		{"pool with k = 2", d, pool, 2, abi.FBCB{BR: 2, K: 2, TileB: 1, TileRows: 1}},
		{"tile of no samples", d, g, 2, abi.FBCB{BR: 2, TileRows: 1}},
		{"tile of too many samples", d, g, 2, abi.FBCB{BR: 2, TileB: 3, TileRows: 1}},
		{"tile of no rows", d, g, 2, abi.FBCB{BR: 2, TileB: 1}},
		{"tile beyond the image", d, g, 2, abi.FBCB{BR: 2, TileB: 1, TileRows: 17}},
		{"accumulators", d, g, 2, abi.FBCB{BR: 2, TileB: 2, TileRows: 16}},
		{"accumulators of k = 1/2", d, g, 2, abi.FBCB{BR: 2, K: 1, TileB: 1, TileRows: 9}},
		{"activation buffer", d, conv(16, 16, 100, 16, 3, 1), 1, abi.FBCB{BR: 1, TileB: 1, TileRows: 16}},
		{"kept in two tiles", d, g, 2, abi.FBCB{BR: 2, TileB: 1, TileRows: 16, KeepIn: true}},
		{"on chip and not kept", d, g, 1, abi.FBCB{BR: 1, TileB: 1, TileRows: 16, OnChip: true}},
	} {
		if err := Check(c.d, c.g, c.bact, c.e); !errors.Is(err, ErrIllegal) || !strings.HasPrefix(err.Error(), ErrIllegal.Error()+": ") || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v, want ErrIllegal", c.name, err)
		}
	}
}

func TestPartsCoverEveryCount(t *testing.T) {
	for n := 1; n <= 200; n++ {
		want := map[int]bool{}
		for size := 1; size <= n; size++ {
			want[(n+size-1)/size] = true
		}
		got := map[int]bool{}
		for _, size := range parts(n) {
			got[(n+size-1)/size] = true
		}
		if len(got) != len(want) || len(parts(n)) != len(want) {
			t.Fatalf("parts(%d) = %v: %d numbers of pieces, want %d", n, parts(n), len(got), len(want))
		}
	}
}

// A row that is one run may have at most the number of beats that a command can count.
func TestRunBeats(t *testing.T) {
	d := design()
	c := d.WideBytes() / 2 // elements per beat
	g := cost.Geom{
		Op: abi.OpMaxPool, InH: 1, InW: 1, InC: c, InPix: c, OutH: 1, OutW: maxRunBeats, OutC: c, OutPix: c, KH: 1, KW: 1, SH: 1, SW: 1,
	}
	e := abi.FBCB{BR: 1, TileB: 1, TileRows: 1}
	if err := Check(d, g, 1, e); err != nil {
		t.Errorf("%d beats: %v", maxRunBeats, err)
	}
	g.OutW++
	if err := Check(d, g, 1, e); !errors.Is(err, ErrIllegal) {
		t.Errorf("%d beats: %v", g.OutW, err)
	}
	g.OutPix++ // each pixel is a run
	if err := Check(d, g, 1, e); err != nil {
		t.Errorf("pixels apart: %v", err)
	}
	d.ABufWords = 1 << 16
	g = cost.Geom{
		Op: abi.OpMaxPool, InH: 1, InW: maxRunBeats + 1, InC: c, InPix: c, OutH: 1, OutW: 1, OutC: c, OutPix: c, KH: 1, KW: 1, SH: 1, SW: 1,
	}
	if err := Check(d, g, 1, e); !errors.Is(err, ErrIllegal) {
		t.Errorf("an input row of %d beats: %v", g.InW, err)
	}
}
