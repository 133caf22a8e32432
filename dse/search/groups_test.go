package search

import (
	"math"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The array has at most two sample groups. Four, each with its own input stream, would help if a layer's output
// channels fill a quarter of the array's columns better than a half. Such a layer would save at most the difference in
// passes, and still needs its DRAM traffic. The test bounds this loss, in percent of a network's time at the largest
// batch.
func TestMoreGroups(t *testing.T) {
	for network, boards := range map[string]map[string]float64{
		"resnet50":    {"zc706": 0.1, "zcu104": 0.1},
		"inceptionv3": {"zc706": 1.5, "zcu104": 5.5},
	} {
		w := load(t, network)
		for board, most := range boards {
			d := grid(t, board).Template
			layers, err := w.Lower(d)
			if err != nil {
				t.Fatal(err)
			}
			chosen, err := Choose(d, layers, abi.BMax, mapping.RTL())
			if err != nil {
				t.Fatal(err)
			}
			var total, saved int64
			for i, c := range chosen {
				g, time := &layers[i].Geom, c.Time
				if total += time.Total; !g.GEMM() {
					continue
				}
				if four := passes(d, g, 3, 4); four < passes(d, g, 1, 2) {
					saved += max(0, min(time.Compute-four, time.Total-max(time.Weights+time.Activations, time.Write)))
				}
			}
			share := 100 * float64(saved) / float64(total)
			if t.Logf("%s on %s: four sample groups would save at most %.2f %%", network, board, share); share > most {
				t.Errorf("%s on %s: %.2f %% are more than %g", network, board, share, most)
			}
		}
	}
}

// passes returns the minimum cycles of a layer, at one row per cycle, over from to to sample groups and any stacking.
func passes(d configs.Design, g *cost.Geom, from, to int) int64 {
	best := int64(math.MaxInt64)
	for _, k := range []cost.K{cost.KHalf, cost.K1, cost.K2} {
		for s := from; s <= to; s++ {
			rows, tile := (abi.BMax+s-1)/s*g.OutH*g.OutW, cost.CTile(d, k, s)
			best = min(best, int64(rows)*int64(cost.Passes(d, *g, k))*int64((g.OutC+tile-1)/tile))
		}
	}
	return best
}
