package cost

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/hw/abi"
)

// The steps that steady skips change nothing: with every step simulated, random layers have the same cycles and bytes.
func TestSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := design()
		d.NAXI = rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "ports")
		d.WRingBeats = 1 << rapid.IntRange(7, 14).Draw(t, "ring")
		d.DRAM.BytesPerCycle = rapid.SampledFrom([]float64{4, 15.3, 60}).Draw(t, "bytes a cycle")
		k := rapid.IntRange(1, 5).Draw(t, "kernel")
		stride := rapid.IntRange(1, 2).Draw(t, "stride")
		g := Geom{
			Op:  rapid.SampledFrom([]abi.Op{abi.OpGEMM, abi.OpGEMM, abi.OpMaxPool, abi.OpDepthwise}).Draw(t, "op"),
			InC: rapid.IntRange(1, 80).Draw(t, "in"), OutC: rapid.IntRange(1, 300).Draw(t, "out"),
			OutH: rapid.IntRange(1, 60).Draw(t, "rows"), OutW: rapid.IntRange(1, 20).Draw(t, "columns"),
			KH: k, KW: k, SH: stride, SW: stride, PadT: rapid.IntRange(0, k-1).Draw(t, "pad"),
			Residual: rapid.Bool().Draw(t, "residual"),
		}
		if !g.GEMM() {
			g.OutC = g.InC
		}
		if g.Drained() {
			g.BiasCount = g.OutC
		} else {
			g.Residual = false
		}
		g.InH, g.InW = (g.OutH-1)*stride+k-g.PadT, (g.OutW-1)*stride+k
		g.InPix, g.OutPix, g.ResPix = g.InC+rapid.IntRange(0, 9).Draw(t, "gap"), g.OutC, g.OutC
		batch := rapid.IntRange(1, abi.BMax).Draw(t, "batch")
		e := abi.FBCB{
			BR: uint8(batch), K: rapid.Uint8Range(0, 2).Draw(t, "k"), Order: rapid.Bool().Draw(t, "order"),
			TileB: uint8(rapid.IntRange(1, batch).Draw(t, "tile")), TileRows: uint16(rapid.IntRange(1, g.OutH).Draw(t, "tile rows")),
		}
		if batch > 1 && rapid.Bool().Draw(t, "groups") {
			e.BR = uint8(ceil(batch, 2))
			e.TileB = min(e.TileB, e.BR)
		}
		got := Layer(d, g, batch, e)
		walked = math.MaxInt
		want := Layer(d, g, batch, e)
		walked = period
		if got != want {
			t.Fatalf("%+v, walked %+v", got, want)
		}
	})
}
