package bundle

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The order of hw/README.md, written out: <T_P, T_C> = <2, 2>, three channels of a 2 x 3 kernel row.
func TestPackingOrder(t *testing.T) {
	d := configs.Design{TP: 2, TC: 2}
	var w []int16 // value = 100 * channel + 10 * kernel row + element
	for c := range 3 {
		for y := range 2 {
			for i := range 3 {
				w = append(w, int16(100*c+10*y+i))
			}
		}
	}
	words := func(b []byte) []int16 {
		var out []int16
		for i := 0; i < len(b); i += 2 {
			out = append(out, int16(binary.LittleEndian.Uint16(b[i:])))
		}
		return out
	}
	for _, c := range []struct {
		k    cost.K
		want [][]int16 // C tiles, without their padding
	}{
		{cost.K1, [][]int16{
			{0, 1, 100, 101, 2, 0, 102, 0, 10, 11, 110, 111, 12, 0, 112, 0}, // channels 0 and 1
			{200, 201, 202, 0, 210, 211, 212, 0},                            // channel 2
		}},
		{cost.KHalf, [][]int16{ // T_P' = 1, T_C' = 4
			{0, 100, 200, 1, 101, 201, 2, 102, 202, 10, 110, 210, 11, 111, 211, 12, 112, 212},
		}},
		{cost.K2, [][]int16{ // T_P' = 4, T_C' = 1
			{0, 1, 2, 0, 10, 11, 12, 0},
			{100, 101, 102, 0, 110, 111, 112, 0},
			{200, 201, 202, 0, 210, 211, 212, 0},
		}},
	} {
		got, err := PackWeights(d, c.k, w, 3, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		var want []int16
		for _, tile := range c.want { // to 64 bytes each
			want = append(want, tile...)
			want = append(want, make([]int16, abi.WeightAlign/2-len(tile))...)
		}
		if !slices.Equal(words(got), want) {
			t.Errorf("k = %v: %v\nwant %v", c.k, words(got), want)
		}
	}
}

func TestPackUnpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := configs.Design{TP: rapid.IntRange(2, 9).Draw(t, "TP"), TC: rapid.IntRange(2, 9).Draw(t, "TC")}
		k := rapid.SampledFrom(Ks[:]).Draw(t, "k")
		c, kh, kwc := rapid.IntRange(1, 40).Draw(t, "c"), rapid.IntRange(1, 4).Draw(t, "kh"), rapid.IntRange(1, 30).Draw(t, "kwc")
		w := rapid.SliceOfN(rapid.Int16(), c*kh*kwc, c*kh*kwc).Draw(t, "w")
		packed, err := PackWeights(d, k, w, c, kh, kwc)
		if err != nil {
			t.Fatal(err)
		}
		g := cost.Geom{OutC: c, KH: kh, KW: 1, InC: kwc}
		if all, _ := cost.WeightBytes(d, g, k); all != int64(len(packed)) {
			t.Fatalf("%d bytes, W_BYTES says %d", len(packed), all)
		}
		got, err := UnpackWeights(d, k, packed, c, kh, kwc)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, w) {
			t.Fatalf("unpacked %v, packed %v", got, w)
		}
		if _, err := UnpackWeights(d, k, packed[:len(packed)-16], c, kh, kwc); err == nil {
			t.Fatal("16 bytes too few, and no error")
		}
		// Padding must be zero.
		for i := 0; i < len(packed); i += 2 {
			packed[i] ^= 1
			again, err := UnpackWeights(d, k, packed, c, kh, kwc)
			packed[i] ^= 1
			if err == nil && slices.Equal(again, w) {
				t.Fatalf("word %d changed, and nothing noticed", i/2)
			}
		}
	})
}

// overlaps compared with a map of bytes.
func TestOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bundle := Bundle{Design: configs.Design{Type: rapid.SampledFrom([]string{"", configs.TypeInt8}).Draw(t, "type")}}
		elem := bundle.Design.ElemBytes()
		draw := func(name string, pix int) region {
			if rapid.Bool().Draw(t, name+" own grid") {
				pix = rapid.IntRange(1, 6).Draw(t, name+" pix")
			}
			return bundle.view(rapid.IntRange(1, 4).Draw(t, name+" h"), rapid.IntRange(1, 4).Draw(t, name+" w"),
				rapid.IntRange(1, pix).Draw(t, name+" c"), pix, int64(elem*rapid.IntRange(0, 60).Draw(t, name+" off")))
		}
		pix := rapid.IntRange(1, 6).Draw(t, "pix")
		a, b := draw("a", pix), draw("b", pix)
		used := map[int64]bool{}
		each := func(r region, f func(at int64)) {
			for y := range r.h {
				for x := range r.w {
					for c := range r.c {
						f(r.off + int64(y)*r.row + int64(elem*(x*r.pix+c)))
					}
				}
			}
		}
		each(a, func(at int64) { used[at] = true })
		shared := false
		each(b, func(at int64) { shared = shared || used[at] })
		got := a.overlaps(b)
		if shared && !got {
			t.Fatalf("%+v and %+v share bytes", a, b)
		}
		// The converse holds only for parts of one tensor; otherwise overlaps may report too much.
		if !shared && got && a.pix == b.pix && a.row == b.row && a.h == b.h && max(a.off, b.off)-min(a.off, b.off)+int64(elem*max(a.c, b.c)) <= int64(elem*a.pix) {
			t.Fatalf("%+v and %+v share nothing", a, b)
		}
		if got != b.overlaps(a) {
			t.Fatalf("%+v, %+v: overlaps is not symmetric", a, b)
		}
	})
}
