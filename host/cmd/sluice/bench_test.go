package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/fluid"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func testModels(t *testing.T) (*modelStore, func(fluid.ModelKey) *fluid.Model) {
	t.Helper()
	e := &cli.Env{Ctx: context.Background(), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Log: quiet()}
	s := newModelStore(e, t.TempDir(), "")
	return s, func(k fluid.ModelKey) *fluid.Model {
		t.Helper()
		m, err := s.Model(e.Ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// The table with the hardware's own mapping and memory equals the compiler's; the others are derived from it.
func TestModels(t *testing.T) {
	_, get := testModels(t)
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	g, err := zoo.Load("tiny", weightSeed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compileShape(g, d)
	if err != nil {
		t.Fatal(err)
	}
	// by the law, as all of the publication's networks; the bundle's own table is the machine's
	want := func(first, last, batch int) int64 {
		sum := int64(0)
		for _, e := range b.Network.Exits[first : last+1] {
			cycles, err := cost.Segment(d, b.Layers, b.FBCB, e.First, e.Last, batch)
			if err != nil {
				t.Fatal(err)
			}
			sum += cycles
		}
		return cost.Nanoseconds(d, sum)
	}
	key := fluid.ModelKey{Network: "tiny", Board: "zc706", Mapping: fluid.MappingFluid}
	m := get(key)
	last := len(b.Network.Exits) - 1
	if m.Table.Segments() != last+1 || m.Table.MaxBatch() != abi.BMax || m.PeakMACs != 896*150e6 {
		t.Fatalf("%d segments, batches to %d, %g MACs a second", m.Table.Segments(), m.Table.MaxBatch(), m.PeakMACs)
	}
	for i := range last + 1 {
		for j := i; j <= last; j++ {
			for n := 1; n <= abi.BMax; n++ {
				if m.Table.At(i, j, n) != want(i, j, n) {
					t.Fatalf("segments %d..%d at %d: %d ns, the law says %d", i, j, n, m.Table.At(i, j, n), want(i, j, n))
				}
			}
		}
		if m.MACs[i] != b.Network.Exits[i].MACs {
			t.Errorf("segment %d: %d MACs, the compiler says %d", i, m.MACs[i], b.Network.Exits[i].MACs)
		}
		pools := int64(0)
		for l := b.Network.Exits[i].First; l <= b.Network.Exits[i].Last; l++ {
			if g := cost.GeomOf(&b.Layers[l]); !g.GEMM() {
				pools += cost.Layer(d, g, abi.BMax, b.FBCB[l][abi.BMax-1]).Total
			}
		}
		if m.Pools[i] != cost.Nanoseconds(d, pools) || pools == 0 {
			t.Errorf("segment %d: pools take %d ns, expected %d", i, m.Pools[i], cost.Nanoseconds(d, pools))
		}
	}
	if one := m.Table.At(0, last, abi.BMax); m.Double <= one || m.Double > 2*one {
		t.Errorf("twice the batch takes %d ns, the batch %d", m.Double, one)
	}

	// Beyond the hardware's maximum batch: all samples in one group, with the same tiles.
	for i := range b.Layers {
		g := cost.GeomOf(&b.Layers[i])
		least := int64(math.MaxInt64)
		mapping.Enumerate(d, g, abi.BMax, mapping.Basic(), func(e abi.FBCB) {
			e.BR = 20
			least = min(least, cost.Layer(d, g, 20, e).Total)
		})
		if got, err := beyond(d, g, 20, mapping.Basic()); err != nil || got != least {
			t.Errorf("layer %d at a batch of 20: %d cycles, %v, expected %d", i, got, err, least)
		}
	}

	at := func(how string, n int) int64 {
		k := key
		k.Mapping = how
		return get(k).Table.At(0, last, n)
	}
	for n := 1; n <= abi.BMax; n++ {
		best := at(fluid.MappingFluid, n)
		for _, how := range []string{fluid.MappingR, fluid.MappingFC, fluid.MappingP, fluid.MappingNoStack, fluid.MappingNoFluid} {
			if x := at(how, n); x < best {
				t.Errorf("%s at %d: %d ns, less than what may choose everything, %d", how, n, x, best)
			}
		}
	}
	// Convolutions sample by sample: two more samples always cost the same if no layer is fully connected, and
	// batched fully connected layers cost less than that.
	fc := func(n int) int64 { return at(fluid.MappingFC, n) }
	if a, b := fc(4)-fc(2), fc(8)-fc(6); math.Abs(float64(a)/float64(b)-1) > 0.05 || fc(8) <= 6*fc(1) || fc(8) >= 8*fc(1) {
		t.Errorf("FC alone batched: %d, %d, %d ns at 1, 4, 8", fc(1), fc(4), fc(8))
	}

	wide := key
	wide.Bandwidth = 100
	if get(wide).Table.Alone() >= m.Table.Alone() {
		t.Error("a faster DRAM is not faster")
	}
	nominal := key
	nominal.Bandwidth = d.DRAM.BytesPerCycle * d.ClockMHz / 1e3
	if get(nominal).Table.Alone() != m.Table.Alone() {
		t.Error("the configuration's bandwidth, in GB/s, gives another table")
	}

	layers := key
	layers.Layerwise = true
	l := get(layers)
	// each layer has a start of its own, and neither its descriptor nor its weights come while another layer works
	alone := int64(0)
	for i := range b.Layers {
		_, c, err := mapping.Choose(d, cost.GeomsOf(b.Layers[i : i+1])[0], 1, strategies[fluid.MappingFluid])
		if err != nil {
			t.Fatal(err)
		}
		alone += cost.Nanoseconds(d, cost.Start(d)+c.Total)
	}
	starts := cost.Nanoseconds(d, cost.Start(d)) * int64(len(l.MACs)-last-1)
	if x := l.Table.Alone(); x < alone-10 || x > alone+10 || x <= m.Table.Alone()+starts {
		t.Errorf("layer by layer takes %d ns, expected %d; by exits %d, and the starts between are %d", x, alone, m.Table.Alone(), starts)
	}
	exits := 0
	for i, e := range l.Exit {
		if e >= 0 {
			if exits++; e != exits-1 {
				t.Errorf("exit %d stands behind boundary %d", e, i)
			}
		}
	}
	if exits != last+1 || len(l.Exit) != len(b.Layers) {
		t.Errorf("%d exits at %d boundaries; %d layers", exits, len(l.Exit), len(b.Layers))
	}

	k := key
	k.Backbone = true
	if back := get(k); back.Table.Segments() != 1 || back.Table.Alone() >= m.Table.Alone() {
		t.Errorf("without early exits: %d segments, %d ns", back.Table.Segments(), back.Table.Alone())
	}
}

// If there are more boundaries than a table holds, neighbours are joined, and no layer is lost.
func TestPartsFitTheTable(t *testing.T) {
	sh := &netShape{Layers: make([]abi.Desc, 600), Nodes: make([]string, 600)}
	for i := range sh.Nodes {
		sh.Nodes[i] = strings.Repeat("n", 1+i/2) // two pieces for each node
	}
	sh.Exits = []bundle.Exit{{First: 0, Last: 240}, {First: 241, Last: 599}}
	parts := sh.parts(true)
	if len(parts) > sched.MaxSegments || len(parts) < sched.MaxSegments/2 {
		t.Errorf("%d parts", len(parts))
	}
	next := 0
	for _, p := range parts {
		if p.first != next || p.last < p.first {
			t.Fatalf("layers %d..%d after %d", p.first, p.last, next-1)
		}
		if next = p.last + 1; (p.exit >= 0) != (p.last == 240 || p.last == 599) {
			t.Errorf("layers %d..%d end at exit %d", p.first, p.last, p.exit)
		}
		if p.last < 599 && p.last != 240 && sh.Nodes[p.last] == sh.Nodes[p.last+1] {
			t.Errorf("a node is cut behind layer %d", p.last)
		}
	}
	if next != 600 {
		t.Errorf("%d of 600 layers", next)
	}
	if n := len(sh.parts(false)); n != 2 {
		t.Errorf("%d parts by exits", n)
	}
}

func TestBadModels(t *testing.T) {
	s, _ := testModels(t)
	good := fluid.ModelKey{Network: "tiny", Board: "zc706", Mapping: fluid.MappingR}
	for name, f := range map[string]func(*fluid.ModelKey){
		"board":     func(k *fluid.ModelKey) { k.Board = "z80" },
		"network":   func(k *fluid.ModelKey) { k.Network = "lenet" },
		"mapping":   func(k *fluid.ModelKey) { k.Mapping = "x" },
		"bandwidth": func(k *fluid.ModelKey) { k.Bandwidth = -1 },
		"no number": func(k *fluid.ModelKey) { k.Bandwidth = math.NaN() },
		"too fast":  func(k *fluid.ModelKey) { k.Bandwidth = 1e9 },
		"trained":   func(k *fluid.ModelKey) { k.Network, k.Backbone = fluid.RealNetwork, true },
	} {
		k := good
		f(&k)
		m, err := s.Model(context.Background(), k)
		var c *cli.Error
		if m != nil || !errors.As(err, &c) || c.Code != cli.Input {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Model(ctx, good); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestGain: a difference is in percent up to three times the base.
func TestGain(t *testing.T) {
	for _, c := range []struct {
		difference, base float64
		want             string
	}{{0, 0, "-"}, {5, 0, "> 3 x"}, {-10, 40, "-25.0 %"}, {20, 10, "+200.0 %"}, {20.1, 10, "> 3 x"}, {6415.6, 11.3, "> 3 x"}} {
		if got := gain(c.difference, c.base); got != c.want {
			t.Errorf("%v over %v: %q, expected %q", c.difference, c.base, got, c.want)
		}
	}
}
