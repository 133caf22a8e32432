package lower

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		n, size, unit int
		want          [][2]int
	}{
		{8, 8, 1, [][2]int{{0, 8}}},
		{9, 8, 1, [][2]int{{0, 4}, {4, 9}}},
		{12, 5, 4, [][2]int{{0, 4}, {4, 8}, {8, 12}}},
		{12, 3, 4, [][2]int{{0, 4}, {4, 8}, {8, 12}}}, // a unit is never split
	} {
		if diff := cmp.Diff(c.want, windows(c.n, c.size, c.unit)); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

// apart returns a 1x1 depthwise convolution of a map.
func apart(side, channels, size int) grouped {
	return grouped{parts: len(windows(channels, size, 1)), geoms: func(parts int) (out []cost.Geom) {
		for _, w := range cut(channels, parts, 1) {
			n := w[1] - w[0]
			out = append(out, cost.Geom{
				Op: abi.OpGEMM, InH: side, InW: side, InC: n, InPix: channels, OutH: side, OutW: side, OutC: n, OutPix: channels,
				KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: n,
			})
		}
		return out
	}}
}

// The layers with the least cost per saved window become wider, and no more of them than necessary.
func TestWiden(t *testing.T) {
	d, err := configs.Load("mid")
	if err != nil {
		t.Fatal(err)
	}
	layers := []grouped{apart(28, 256, d.TC), apart(7, 256, d.TC), apart(14, 64, d.TC), apart(7, 256, d.TC)}
	for _, c := range []struct {
		over int
		want []int
	}{
		{0, []int{4, 4, 1, 4}},
		{1, []int{4, 2, 1, 4}}, // the smallest map first, among equals the earlier one; three windows of 85 need more steps than two of 128
		{2, []int{4, 2, 1, 4}},
		{3, []int{4, 2, 1, 2}},
		{4, []int{4, 2, 1, 2}},
		{6, []int{4, 1, 1, 1}},
		{7, []int{2, 1, 1, 1}},
		{9, []int{1, 1, 1, 1}},
		{50, []int{1, 1, 1, 1}},
	} {
		if diff := cmp.Diff(c.want, widen(d, layers, c.over)); diff != "" {
			t.Errorf("%d too many: %s", c.over, diff)
		}
	}
	// A window that does not fit is not an option: a row of a wider map has 28 x 1024 elements.
	d.ABufWords = 512 // 8,192 elements per half
	got := widen(d, []grouped{apart(28, 512, d.TC)}, 50)
	if got[0] != 2 {
		t.Errorf("512 channels of 28 columns become %d windows where two halves fit", got[0])
	}
}
