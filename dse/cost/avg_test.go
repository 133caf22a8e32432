package cost_test

import (
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
)

// A window that the pool's sums cannot hold, or a table longer than the pool's memory, is rejected before it reaches a
// device.
func TestAverageLimits(t *testing.T) {
	for _, c := range []struct {
		kh, kw, table int
		ok            bool
	}{
		{64, 128, 0, true},
		{91, 91, 0, false},
		{15, 17, 256, true},
		{16, 16, 257, false},
	} {
		g := cost.Geom{
			Op: abi.OpAvgPool, InH: c.kh, InW: c.kw, InC: 3, InPix: 3, OutH: 1, OutW: 1, OutC: 3, OutPix: 3,
			KH: c.kh, KW: c.kw, SH: 1, SW: 1, BiasCount: c.table,
		}
		err := g.Check()
		if c.ok != (err == nil) || (err != nil && !errors.Is(err, cost.ErrGeom)) {
			t.Errorf("%d x %d with a table of %d: %v", c.kh, c.kw, c.table, err)
		}
	}
}

// Sizes beyond the counters of the NPU's units are rejected; the largest legal ones are not.
func TestSizesThatAreCounted(t *testing.T) {
	pool := func(change func(*cost.Geom)) cost.Geom {
		g := cost.Geom{
			Op: abi.OpMaxPool, InH: 1, InW: 1, InC: 1, InPix: 1, OutH: 1, OutW: 1, OutC: 1, OutPix: 1, KH: 1, KW: 1, SH: 1, SW: 1,
		}
		change(&g)
		return g
	}
	for _, c := range []struct {
		what string
		ok   bool
		g    cost.Geom
	}{
		{"output rows", true, pool(func(g *cost.Geom) { g.InH, g.OutH = 65535, 0xEFFF })},
		{"output rows", false, pool(func(g *cost.Geom) { g.InH, g.OutH = 65535, 0xF000 })},
		{"bytes of an output row", true, pool(func(g *cost.Geom) { g.InW, g.OutW, g.OutPix = 4096, 4095, 4096 })},
		{"bytes of an output row", false, pool(func(g *cost.Geom) { g.InW, g.OutW, g.OutPix = 4096, 4096, 4096 })},
		{"bytes of an input row", true, pool(func(g *cost.Geom) { g.InW, g.InPix = 4095, 4096 })},
		{"bytes of an input row", false, pool(func(g *cost.Geom) { g.InW, g.InPix = 4096, 4096 })},
		{"bytes of a residual's row", false, pool(func(g *cost.Geom) {
			g.Op, g.BiasCount, g.Residual, g.InW, g.OutW, g.ResPix = abi.OpGEMM, 1, true, 4096, 4096, 4096
		})},
	} {
		if err := c.g.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, cost.ErrGeom) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
