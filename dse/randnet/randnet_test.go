package randnet

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func design(t *testing.T, name string) configs.Design {
	t.Helper()
	d, err := configs.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The same seed gives the same network.
func TestReproducible(t *testing.T) {
	d := design(t, "run")
	for seed := range uint64(20) {
		a, err := New(seed, d, All())
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(seed, d, All())
		if err != nil {
			t.Fatal(err)
		}
		h1, err1 := a.Bundle.Hash()
		h2, err2 := b.Bundle.Hash()
		if err1 != nil || err2 != nil || h1 != h2 {
			t.Fatalf("seed %d: bundles %016x and %016x (%v, %v)", seed, h1, h2, err1, err2)
		}
		x := Input(rand.New(rand.NewPCG(seed, 1)), a.Bundle)
		if y := Input(rand.New(rand.NewPCG(seed, 1)), b.Bundle); !slices.Equal(x, y) {
			t.Fatalf("seed %d: different inputs", seed)
		}
	}
}

// Excluded features never occur, allowed ones occur often enough, and every network stays within the limits.
func TestOptionsAndCoverage(t *testing.T) {
	for _, c := range []struct {
		name, config string
		o            Options
	}{{"plain", "run", Options{}}, {"all", "run", All()}, {"all", "tiny", All()}, {"all", "zc706", All()}} {
		seen := map[string]int{}
		const n = 300
		for seed := range uint64(n) {
			net, err := New(seed, design(t, c.config), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if net.Quant.Graph.TotalMACs() > 2_000_000 {
				t.Errorf("seed %d: %d MACs", seed, net.Quant.Graph.TotalMACs())
			}
			merged := strings.Contains(strings.Join(net.Bundle.Names, ""), "+")
			kinds := map[string]bool{"exits": len(net.Bundle.Network.Exits) > 1, "one layer of several": merged}
			for i := range net.Bundle.Layers {
				l := &net.Bundle.Layers[i]
				kinds[l.Op.String()] = true
				for name, has := range map[string]bool{
					"residual": l.Residual, "table": l.AvgTable, "in window": l.InPix%l.InC != 0 || l.InPix != l.InC && l.KW > 1, "out window": l.OutPix != l.OutC,
					"stride": l.SH > 1 || l.SW > 1, "padding": l.PadT > 0 || l.PadL > 0, "one pixel": l.OutH == 1 && l.OutW == 1,
					"oblong kernel": l.KH != l.KW, "C tiles": l.Op == abi.OpGEMM && int(l.OutC) > net.Bundle.Design.TC,
					"row tiles": net.Bundle.FBCB[i][0].TileRows < l.OutH, "samples tiled": net.Bundle.FBCB[i][7].TileB < 8,
					"clamp": l.ClampLo > -32768, "one channel": l.InC == 1, "no shift": l.Op == abi.OpGEMM && l.Shift == 0,
					"1x7": l.KH == 1 && l.KW == 7, "7x1": l.KH == 7 && l.KW == 1,
				} {
					kinds[name] = kinds[name] || has
				}
			}
			for k, has := range kinds {
				if has {
					seen[k]++
				}
			}
		}
		t.Logf("%s on %s: of %d networks %v", c.name, c.config, n, seen)
		special := []string{"residual", "table", "in window", "out window", "exits", "MAX_POOL", "AVG_POOL", "one layer of several"}
		always := []string{
			"GEMM", "stride", "padding", "one pixel", "oblong kernel", "C tiles", "row tiles", "samples tiled", "clamp",
			"one channel", "1x7", "7x1",
		}
		if c.config == "zc706" { // large buffers: hardly any layer is cut
			always = always[:5]
		}
		for _, k := range always {
			if seen[k] == 0 {
				t.Errorf("%s on %s: no network with %s", c.name, c.config, k)
			}
		}
		for _, k := range special {
			if c.name == "plain" && seen[k] > 0 {
				t.Errorf("%s on %s: %d networks with %s, which the options leave out", c.name, c.config, seen[k], k)
			}
			if c.name == "all" && seen[k] < 5 {
				t.Errorf("%s on %s: only %d networks with %s", c.name, c.config, seen[k], k)
			}
		}
	}
}

// Networks that Want rejects are not failed draws: a rare kind is found, and a search for an impossible kind ends.
func TestWant(t *testing.T) {
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after int
		ok    bool
	}{{0, true}, {3 * attempts, true}, {turned + attempts, false}} {
		asked := 0
		o := Built()
		o.Want = func(*quant.Network) bool {
			asked++
			return asked > c.after
		}
		if _, err := New(1, d, o); (err == nil) != c.ok {
			t.Errorf("wanted after %d: %v", c.after, err)
		}
	}
}

// A draw is repeated if its products leave the range of fractions, as this seed's first draw does.
func TestFractionsStayInRange(t *testing.T) {
	if _, err := New(369844289544, design(t, "v13x"), Built()); err != nil {
		t.Error(err)
	}
}

// Some inputs consist of the limits of the design's type and values next to 0.
func TestInputOfExtremes(t *testing.T) {
	for name, ends := range map[string][]int16{"run": {math.MinInt16, math.MaxInt16}, "run-int8": {math.MinInt8, math.MaxInt8}} {
		net, err := New(1, design(t, name), All())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for seed := range uint64(40) {
			x := Input(rand.New(rand.NewPCG(seed, 1)), net.Bundle)
			between := slices.ContainsFunc(x, func(v int16) bool { return max(v, -v) > 1 && !slices.Contains(ends, v) })
			found = found || !between && slices.Contains(x, ends[0]) && slices.Contains(x, ends[1])
		}
		if !found {
			t.Errorf("%s: no input of %v and what is next to 0", name, ends)
		}
	}
}
