package lower

import (
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// windows splits n channels into equal windows [from, to) of at most `size` channels, in multiples of `unit`.
func windows(n, size, unit int) [][2]int {
	units := n / unit
	return cut(n, max(1, (units+max(1, size/unit)-1)/max(1, size/unit)), unit)
}

// cut splits n channels into the given number of equal windows.
func cut(n, parts, unit int) [][2]int {
	units := n / unit
	out := make([][2]int, 0, parts)
	for i := range parts {
		out = append(out, [2]int{units * i / parts * unit, units * (i + 1) / parts * unit})
	}
	return out
}

// grouped describes the windows of a grouped layer.
type grouped struct {
	parts int                         // number of windows
	geoms func(parts int) []cost.Geom // returns the layers for another number of windows; nil if that is impossible
}

// widen returns the number of windows of each layer. It saves `over` windows in total, or as many as the design allows.
// In each step, it chooses the layer that needs the fewest additional array steps per saved window.
func widen(d configs.Design, layers []grouped, over int) []int {
	type option struct {
		parts int
		steps int64
	}
	at, options := make([]int, len(layers)), make([][]option, len(layers))
	for i, l := range layers {
		for parts := l.parts; parts >= 1; parts-- {
			if steps, ok := steps(d, l.geoms(parts)); ok {
				options[i] = append(options[i], option{parts, steps})
			}
		}
		if len(options[i]) == 0 || options[i][0].parts != l.parts {
			options[i] = []option{{parts: l.parts}} // a layer that does not fit is reported elsewhere
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

// steps estimates the array's steps for one sample: each step is a row of T_P products for T_C channels. The estimate
// is good enough to compare window counts of a layer, and fast enough for a search over all designs.
func steps(d configs.Design, geoms []cost.Geom) (sum int64, ok bool) {
	for _, g := range geoms {
		if mapping.Fits(d, g) != nil {
			return 0, false
		}
		sum += int64(g.OutH) * int64(g.OutW) * ceil(g.KH*g.KWC(), d.TP) * ceil(g.OutC, d.TC)
	}
	return sum, len(geoms) > 0
}

func ceil(a, b int) int64 { return int64((a + b - 1) / b) }
