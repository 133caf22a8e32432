package golden

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/hw/abi"
)

// Products in blocks equal those computed one by one: at the extremes of both factors, for rows of one element and of
// several calls, for odd rows, for channels and positions that do not fill a block, and for every stride.
func TestBlocksAreExact(t *testing.T) {
	if !hasVectors {
		t.Skip("this processor has no AVX2")
	}
	rng := rand.New(rand.NewPCG(firstSeed(t), 0))
	draw := func(kind int) int16 {
		switch kind {
		case 0:
			return math.MinInt16
		case 1:
			return math.MaxInt16
		case 2:
			return -1
		case 3: // 16 of them exceed the limit of a window
			return 4096
		case 4:
			return int16(rng.IntN(511) - 255) // longest windows
		}
		return int16(rng.Uint32())
	}
	for n := range 400 {
		of := func(k int) uint8 { return uint8(1 + rng.IntN(k)) }
		d := abi.Desc{
			Op: abi.OpGEMM, InC: uint16(1 + rng.IntN(300)), KH: of(3), KW: of(3), SH: of(2), SW: of(3), OutC: uint16(1 + rng.IntN(20)),
			OutH: uint16(of(3)), OutW: uint16(of(9)), ClampLo: math.MinInt16, ClampHi: math.MaxInt16, Shift: uint8(rng.IntN(40)),
		}
		d.KWC = uint32(d.KW) * uint32(d.InC)
		d.InH, d.InW = (d.OutH-1)*uint16(d.SH)+uint16(d.KH), (d.OutW-1)*uint16(d.SW)+uint16(d.KW)
		d.InPix, d.OutPix = d.InC, d.OutC
		d.InRowBytes, d.OutRowBytes = 2*uint32(d.InW)*uint32(d.InC), 2*uint32(d.OutW)*uint32(d.OutC)
		d.OutOffset = uint32(d.InH) * d.InRowBytes
		l := layer{d: d, weights: make([]int16, int(d.OutC)*int(d.KH)*int(d.KWC)), bias: make([]int32, d.OutC)}
		kinds := [2]int{n % 6, n / 6 % 6}
		for i := range l.weights {
			l.weights[i] = draw(kinds[0])
		}
		slot := make([]byte, int(d.OutOffset)+int(d.OutH)*int(d.OutRowBytes))
		for i := 0; i < int(d.OutOffset); i += 2 {
			v := draw(kinds[1])
			slot[i], slot[i+1] = byte(v), byte(uint16(v)>>8)
		}
		var results [2]string
		for i := range results {
			if i == 1 {
				l.block()
			}
			out := append([]byte(nil), slot...)
			err := l.gemm(new(buffers), out)
			results[i] = fmt.Sprintf("%x", out)
			if err != nil {
				results[i] = "overflow"
			}
		}
		if results[0] != results[1] {
			t.Fatalf("draw %d, %+v: products in blocks differ", n, d)
		}
	}
}

// A window is the longest that fits at every place and for every channel.
func TestWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(firstSeed(t), 1))
	for range 300 {
		pairs := 1 + rng.IntN(blockPairs)
		weights := make([]int16, pairs*blockC*2)
		for i := range weights { // small ones, and few large ones
			if weights[i] = int16(rng.Uint32()) >> (6 + rng.IntN(8)); rng.IntN(len(weights)) == 0 {
				weights[i] = int16(rng.Uint32())
			}
		}
		fit := func(n int) bool {
			for at := 0; at < pairs; at += n {
				var sums [blockC]int
				for i, w := range weights[at*blockC*2 : min(at+n, pairs)*blockC*2] {
					sums[i/2%blockC] += max(int(w), -int(w))
				}
				if slices.Max(sums[:]) > windowMost {
					return false
				}
			}
			return true
		}
		n := window(weights)
		if n > 1 && !fit(n) || n < maxWindow && n < pairs && fit(2*n) {
			t.Fatalf("%d pairs: a window of %d, %d fits: %v, %d: %v", pairs, n, n, fit(n), 2*n, fit(2*n))
		}
	}
}

// BenchmarkLayer measures a layer of ResNet-50 (14 x 14, 256 channels, 3 x 3), one by one and in blocks.
func BenchmarkLayer(b *testing.B) {
	for _, blocked := range []bool{false, true} {
		b.Run(fmt.Sprintf("blocks=%v", blocked), func(b *testing.B) {
			d := abi.Desc{
				Op: abi.OpGEMM, InH: 14, InW: 14, InC: 256, InPix: 256, InRowBytes: 14 * 512, KH: 3, KW: 3, KWC: 768, SH: 1, SW: 1, PadT: 1, PadL: 1,
				OutH: 14, OutW: 14, OutC: 256, OutPix: 256, OutRowBytes: 14 * 512, OutOffset: 14 * 14 * 512, ClampHi: math.MaxInt16, Shift: 15,
			}
			l := layer{d: d, weights: make([]int16, 256*9*256), bias: make([]int32, 256)}
			for i := range l.weights {
				l.weights[i] = int16(i)
			}
			if blocked {
				l.block()
			}
			slot, s := make([]byte, 2*14*14*512), new(buffers)
			for b.Loop() {
				if err := l.gemm(s, slot); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*14*14*256*9*256/1e6/b.Elapsed().Seconds(), "MMAC/s")
		})
	}
}
