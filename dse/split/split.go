// Package split cuts layers into windows of channels, each a descriptor: the compiler and the search
// must cut alike.
//
// A grouped convolution is a window for every T_C channels, which wastes the fewest multiplications on
// the zeros beside the diagonal. A network of many wide ones (DenseNet normalises all maps so far
// before every convolution) has more of them than the hardware's table of L_MAX descriptors holds.
// Wider windows are fewer, and take more cycles.
package split

import (
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Of cuts n channels into equal windows of at most size, in units of unit; each is [from, to).
func Of(n, size, unit int) [][2]int {
	units := n / unit
	return Cut(n, max(1, (units+max(1, size/unit)-1)/max(1, size/unit)), unit)
}

// Cut cuts n channels into so many equal windows.
func Cut(n, parts, unit int) [][2]int {
	units := n / unit
	out := make([][2]int, 0, parts)
	for i := range parts {
		out = append(out, [2]int{units * i / parts * unit, units * (i + 1) / parts * unit})
	}
	return out
}

// Grouped is a grouped layer.
type Grouped struct {
	Parts int                         // windows it has
	Geoms func(parts int) []cost.Geom // the layers that it is with another number of them; nil: it cannot
}

// Widen answers how many windows each layer should have, so that together they have over fewer, or as
// few as the design runs where that is not enough. The next to become wider is always the one that
// costs the fewest steps of the array for a window saved.
func Widen(d configs.Design, layers []Grouped, over int) []int {
	type option struct {
		parts int
		steps int64
	}
	at, options := make([]int, len(layers)), make([][]option, len(layers))
	for i, l := range layers {
		for parts := l.Parts; parts >= 1; parts-- {
			if steps, ok := steps(d, l.Geoms(parts)); ok {
				options[i] = append(options[i], option{parts, steps})
			}
		}
		if len(options[i]) == 0 || options[i][0].parts != l.Parts {
			options[i] = []option{{parts: l.Parts}} // what does not fit is not for this package to say
		}
	}
	for over > 0 {
		layer, to, least := -1, 0, math.Inf(1)
		for i, o := range options {
			for j := at[i] + 1; j < len(o); j++ {
				saved := min(o[at[i]].parts-o[j].parts, over)
				if x := float64(o[j].steps-o[at[i]].steps) / float64(saved); x < least {
					layer, to, least = i, j, x
				}
			}
		}
		if layer < 0 {
			break
		}
		over -= options[layer][at[layer]].parts - options[layer][to].parts
		at[layer] = to
	}
	out := make([]int, len(layers))
	for i := range out {
		out[i] = options[i][at[i]].parts
	}
	return out
}

// steps is what the array takes for one sample: a row of T_P products at T_C channels each. Enough to
// compare windows of one layer, and cheap enough for a search that asks for every design.
func steps(d configs.Design, geoms []cost.Geom) (sum int64, ok bool) {
	smallest := abi.FBCB{BR: 1, K: uint8(cost.K1), TileB: 1, TileRows: 1}
	for _, g := range geoms {
		if mapping.Limits(d, g) != nil || mapping.Check(d, g, 1, smallest) != nil {
			return 0, false
		}
		sum += int64(g.OutH) * int64(g.OutW) * ceil(g.KH*g.KWC(), d.TP) * ceil(g.OutC, d.TC)
	}
	return sum, len(geoms) > 0
}

func ceil(a, b int) int64 { return int64((a + b - 1) / b) }
