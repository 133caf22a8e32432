package cost_test

import (
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
)

// A window that the pool's sums cannot hold, or a table longer than the pool's memory, is refused
// before it reaches a device.
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
