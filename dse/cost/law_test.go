package cost

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func design() configs.Design {
	return configs.Design{
		Name: "test", TR: 256, TP: 8, TC: 32, NAXI: 1, AXIBytes: 8, MaxBurst: 16, WLoad: 2, Drain: 8,
		ABufWords: 1024, WRingBeats: 512, CMax: 512, Stack: true, Fluid: true, ClockMHz: 150,
		DRAM: configs.DRAM{BytesPerCycle: 8, LatencyCycles: 100},
	}
}

// One layer computed by hand: 16 x 16 x 16 to 32 channels, 3 x 3, two row tiles of 8 rows, at 8 bytes per cycle.
func TestLayerByHand(t *testing.T) {
	g := Geom{
		Op: abi.OpGEMM, InH: 16, InW: 16, InC: 16, InPix: 16, OutH: 16, OutW: 16, OutC: 32, OutPix: 32,
		KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 32,
	}
	got := Layer(design(), g, 1, abi.FBCB{BR: 1, TileB: 1, TileRows: 8})
	const (
		passes  = 3 * 6  // 48 elements of a kernel row in chunks of 8
		rows    = 8 * 16 // more than the length of the chain, and than loading needs
		row     = 16 * 16 * 2
		tile    = 9 * row // 9 of 10 input rows are in the image
		weights = 32 * passes * 8 * 2
		bias    = 32 * 4
		out     = 8 * 16 * 32 * 2                     // of a tile
		there   = 4096                                // bytes that came before the layer began: a full ring
		start   = rtl.LayerStart + 2 + 100 + rtl.Read // two cycles for the row of padding

		fill   = start + row/8
		l1     = start + tile/8
		s1     = l1 + 16 - 2*row/8 // the first kernel row does not need two of the rows; an output row's pixels follow its input
		e1     = s1 + (passes-1)*rows
		l2     = l1 + (tile+weights+bias-there)/8 // the first tile's results leave after it
		s2     = e1 + rtl.Visit + rows
		e2     = s2 + (passes-1)*rows
		drain  = out / 8 // 4 cycles per row by itself, 8 with the port
		behind = rtl.DrainDelay + 8 + rtl.ChainTail
		total  = e2 + behind + drain + 100 + rtl.Write + rtl.PostStages + rtl.ReadStages + 1
	)
	if l2+16-row/8 > s2 || l2 > e1+behind {
		t.Fatal("the example is another case")
	}
	if got.Compute != 2*passes*rows || got.Drain != 2*drain || got.Fill != fill {
		t.Errorf("compute %d, drain %d, fill %d, want %d, %d, %d", got.Compute, got.Drain, got.Fill, 2*passes*rows, 2*drain, fill)
	}
	if want := int64(2*tile + 2*weights + bias + abi.DescBytes); got.BytesRead != want || got.BytesWritten != 2*out {
		t.Errorf("bytes %d, %d, want %d, %d", got.BytesRead, got.BytesWritten, want, 2*out)
	}
	if got.Total != total {
		t.Errorf("total %d, want %d", got.Total, total)
	}
	if got.MACs != 16*16*32*9*16 {
		t.Errorf("MACs %d", got.MACs)
	}
}

// The law is never below the roofline, and a batch needs at least as long as a smaller one.
func TestRoofline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := design()
		n := rapid.IntRange(1, 20).Draw(t, "size")
		k := rapid.IntRange(1, min(n, 5)).Draw(t, "k")
		g := Geom{
			Op:  rapid.SampledFrom([]abi.Op{abi.OpGEMM, abi.OpMaxPool, abi.OpAvgPool, abi.OpDepthwise}).Draw(t, "op"),
			InH: n, InW: n, InC: rapid.IntRange(1, 100).Draw(t, "cin"), OutH: n - k + 1, OutW: n - k + 1,
			OutC: rapid.IntRange(1, 100).Draw(t, "cout"), KH: k, KW: k, SH: 1, SW: 1,
		}
		if !g.GEMM() {
			g.OutC = g.InC
		}
		if g.Drained() {
			g.BiasCount = g.OutC
		}
		g.InPix, g.OutPix = g.InC, g.OutC
		last := int64(0)
		for b := 1; b <= abi.BMax; b++ {
			e := abi.FBCB{BR: uint8(b), TileB: 1, TileRows: uint16(rapid.IntRange(1, g.OutH).Draw(t, "rows"))}
			if b > 1 {
				e.TileRows = 1
			}
			c := Layer(d, g, b, e)
			bytes := int64(b) * int64(g.InH*g.InW*g.InC+g.OutH*g.OutW*g.OutC) * 2
			if c.Total < c.MACs/int64(d.TP*d.TC) || c.Total < int64(float64(bytes)/d.DRAM.BytesPerCycle) {
				t.Fatalf("batch %d: %d cycles for %d MACs and %d bytes", b, c.Total, c.MACs, bytes)
			}
			if u := c.Utilisation(d); u < 0 || u > 1 {
				t.Fatalf("utilisation %v", u)
			}
			if b > 2 && c.Total < last {
				t.Fatalf("batch %d: %d cycles, one less: %d", b, c.Total, last)
			}
			last = c.Total
		}
	})
}

// The printed bound is that of a full C tile in both loop orders, even if the last C tile has one channel.
func TestBoundOfOrders(t *testing.T) {
	d := design()
	d.NAXI, d.DRAM.BytesPerCycle = 4, 64
	g := Geom{
		Op: abi.OpGEMM, InH: 60, InW: 15, InC: 64, InPix: 64, OutH: 60, OutW: 15, OutC: 33, OutPix: 33,
		KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: 33,
	}
	for _, order := range []bool{false, true} {
		if got := Layer(d, g, 1, abi.FBCB{BR: 1, Order: order, TileB: 1, TileRows: 1}).Bound; got != BoundLoad {
			t.Errorf("order %v: %v", order, got)
		}
	}
}

func TestSegmentSums(t *testing.T) {
	d := design()
	l := abi.Desc{
		Op: abi.OpGEMM, InH: 4, InW: 4, InC: 4, InPix: 4, OutH: 4, OutW: 4, OutC: 4, OutPix: 4, KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: 4,
	}
	layers := []abi.Desc{l, l, l}
	one := abi.FBCB{BR: 1, TileB: 1, TileRows: 4}
	keeps, both, reads := one, one, one
	keeps.KeepOut, keeps.OnChip, both.KeepOut, both.OnChip, both.KeepIn, reads.KeepIn = true, true, true, true, true, true
	fbcb := [][]abi.FBCB{{keeps}, {both}, {reads}}
	// such small layers wait for their descriptor: the third one's is requested when the first layer is drained
	g := GeomsOf(layers)
	var cycles [3]int64
	for i := range g {
		cycles[i] = Layer(d, g[i], 1, fbcb[i][0]).Total
	}
	const weights = 4*rtl.BiasBytes + 4*8*rtl.WordBytes // 4 channels, one pass of T_P
	fetch, late := Fetch(d, g[0], 1), int64(100+rtl.Read+(abi.DescBytes+weights)/8+rtl.OfferPasses)
	offer0, end0 := Start(d)+fetch, Start(d)+cycles[0]
	offer1 := offer0 + rtl.OfferNext + fetch
	end1 := max(end0, offer1+late) + cycles[1]
	offer2 := max(offer1, end0-rtl.TakenKept) + rtl.OfferNext + fetch
	want := max(end1, offer2+late) + cycles[2]
	if offer1+late <= end0 || offer2+late <= end1 {
		t.Fatal("the example is another case")
	}
	got, err := Segment(d, layers, fbcb, 0, 2, 1)
	if err != nil || got != want {
		t.Errorf("%d, %v, want %d", got, err, want)
	}
	times, err := Times(d, layers, fbcb, 0, 2, 1)
	if err != nil || times[0].Total != cycles[0] || times[1].Total != end1-end0 || times[0].Wait != 0 || times[2].Wait != want-end1-cycles[2] {
		t.Errorf("%+v, %v", times, err)
	}
	for _, c := range [][3]int{{0, 3, 1}, {-1, 0, 1}, {2, 1, 1}, {0, 0, 2}, {0, 0, 0}} {
		if _, err := Segment(d, layers, fbcb, c[0], c[1], c[2]); err == nil {
			t.Errorf("Segment%v: no error", c)
		}
	}
	if ns := Nanoseconds(d, 150); ns != 1000 {
		t.Errorf("150 cycles at 150 MHz are %d ns", ns)
	}
}

// Compared with counting: runs at every place that a pitch leads to.
func TestTouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := int64(1) << rapid.IntRange(1, 8).Draw(t, "unit")
		n := rapid.Int64Range(1, 1000).Draw(t, "n")
		pitch := rapid.Int64Range(1, 2000).Draw(t, "pitch")
		offset := rapid.Int64Range(0, 10000).Draw(t, "offset")
		blocks, runs := int64(0), unit // one or several periods of places
		for i := range runs {
			at := offset + i*pitch
			blocks += (at+n-1)/unit - at/unit + 1
		}
		if got, want := touched(unit, n, pitch, offset), float64(blocks)/float64(runs); got != want {
			t.Fatalf("%v blocks of %d bytes, want %v", got, unit, want)
		}
	})
}

// The law does not distinguish offsets more finely than Seen, but more finely than their place in a beat or a 64-byte
// word.
func TestSeen(t *testing.T) {
	differ := 0
	for _, name := range []string{"run", "v7", "zc706", "zcu104"} {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		d.DRAM.LatencyCycles = 300
		for _, pix := range []int{12, 24, 64, 128} {
			g := Geom{
				Op: abi.OpGEMM, InH: 16, InW: 16, InC: 8, InPix: pix, OutH: 16, OutW: 16, OutC: 12, OutPix: pix, Residual: true, ResPix: pix,
				KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: 12,
			}
			e := abi.FBCB{BR: 1, TileB: 1, TileRows: 1}
			at := map[int64]int64{} // by place in a word
			for offset := int64(0); offset < 8192; offset += 16 {
				g.InOffset, g.OutOffset, g.ResOffset = offset, offset, offset
				is := Layer(d, g, 1, e).Total
				if seen := Layer(d, Seen(d, g), 1, e).Total; seen != is {
					t.Fatalf("%s, pixels of %d at %d: %d cycles, of what is seen %d", name, pix, offset, is, seen)
				}
				if first, ok := at[offset%64]; ok && first != is {
					differ++
				}
				if at[offset%64] == 0 {
					at[offset%64] = is
				}
			}
		}
	}
	if differ == 0 {
		t.Error("offsets matter modulo 64 alone")
	}
}
