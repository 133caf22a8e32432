package golden

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

var (
	seedFlag = flag.Uint64("seed", 0, "first seed of the random networks; 0: from the clock")
	nFlag    = flag.Int("nets", 150, "number of random networks")
)

func firstSeed(t testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("reproduce with -seed %d -nets 1 (seeds count up)", seed)
	return seed
}

func load(t testing.TB, name string) configs.Design {
	t.Helper()
	d, err := configs.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every tensor of a random network, at its place in the slot, equals the definition. The tensors of a layer are
// compared right after the layer.
func TestAgainstDefinition(t *testing.T) {
	first := firstSeed(t)
	designs := configs.Names()
	for i := range *nFlag {
		seed := first + uint64(i)
		d := load(t, designs[seed%uint64(len(designs))])
		o := randnet.All()
		if seed%3 == 0 {
			d.Stack, d.Fluid, d.Post, d.Depthwise = true, true, seed%2 == 0, seed%4 < 2
			o.Compile.Mapping = mapping.Options{Points: mapping.Points, Orders: []bool{false, true}}
		}
		if err := compare(seed, d, o); err != nil {
			t.Fatalf("seed %d on %s: %v", seed, d.Name, err)
		}
	}
}

// Woven maps equal the definition, at their place in the slot.
func TestWoven(t *testing.T) {
	first := firstSeed(t)
	designs := configs.Names()
	for i := range *nFlag / 3 {
		seed := first + uint64(i)
		d := load(t, designs[seed%uint64(len(designs))])
		o := randnet.All()
		o.Woven = true
		if err := compare(seed, d, o); err != nil {
			t.Fatalf("seed %d on %s: %v", seed, d.Name, err)
		}
	}
}

// Merged convolutions give the same results as separate ones: every network here has some.
func TestMergedLayers(t *testing.T) {
	first := firstSeed(t)
	designs := configs.Names()
	for seed, left := first, *nFlag/6; left > 0; seed++ {
		d := load(t, designs[seed%uint64(len(designs))])
		o := randnet.Built()
		o.Want = func(q *quant.Network) bool { return len(alias.Of(q.Graph).Merged) > 0 }
		n, err := randnet.New(seed, d, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(n.Bundle.Names, func(name string) bool { return strings.Contains(name, "+") }) {
			continue
		}
		left--
		if err := compare(seed, d, o); err != nil {
			t.Fatalf("seed %d on %s, layers %v: %v", seed, d.Name, n.Bundle.Names, err)
		}
	}
}

func compare(seed uint64, d configs.Design, o randnet.Options) error {
	n, err := randnet.New(seed, d, o)
	if err != nil {
		return err
	}
	p, err := New(n.Bundle)
	if err != nil {
		return err
	}
	image := randnet.Input(rand.New(rand.NewPCG(seed, 1)), n.Bundle)
	want := naive(n.Quant, image)
	slot := p.NewSlot()
	if err := p.SetInput(slot, image); err != nil {
		return err
	}
	// the node that represents a layer's node or nodes
	plan, byName := alias.Of(n.Quant.Graph), map[string]int{}
	for i := range n.Quant.Graph.Nodes {
		nodes, _ := plan.Layer(i)
		byName[n.Quant.Graph.Nodes[i].Name] = slices.Min(nodes)
	}
	node := func(l int) int {
		name, _, _ := strings.Cut(n.Bundle.Names[l], "[")
		name, _, _ = strings.Cut(name, "+")
		name, _, _ = strings.Cut(name, ".copy")
		return byName[name]
	}
	for l, name := range n.Bundle.Names {
		if err := p.Layers(l, l, 0, slot); err != nil {
			return err
		}
		if l+1 < len(n.Bundle.Names) && node(l+1) == node(l) {
			continue // more layers of this node follow
		}
		nodes, _ := plan.Layer(node(l))
		for _, i := range nodes {
			g := &n.Quant.Graph.Nodes[i]
			if got := tensorIn(n.Bundle, slot, int(g.Output)); !slices.Equal(got, want[g.Output]) {
				return fmt.Errorf("layer %d (%s): %s (%v) differs: got %v, want %v", l, name, g.Name, g.Op, clip(got), clip(want[g.Output]))
			}
		}
	}
	logits, err := p.Run(image)
	if err != nil {
		return err
	}
	for i, e := range n.Quant.Graph.Exits {
		for c, v := range logits[i] {
			if int64(v) != want[e.Tensor][c] {
				return fmt.Errorf("exit %d, class %d: %d, want %d", i, c, v, want[e.Tensor][c])
			}
		}
	}
	if got := tensorIn(n.Bundle, slot, int(n.Quant.Graph.Input)); !slices.Equal(got, want[n.Quant.Graph.Input]) {
		return errors.New("the input was overwritten")
	}
	return nil
}

func clip(v []int64) []int64 { return v[:min(len(v), 12)] }

// Halves are rounded up, also for negative numbers.
func TestRound(t *testing.T) {
	for _, c := range []struct {
		x    int64
		n    uint8
		want int64
	}{
		{7, 0, 7},
		{-7, 0, -7},
		{1, 1, 1},
		{-1, 1, 0},
		{-3, 1, -1},
		{6, 2, 2},
		{5, 2, 1},
		{-6, 2, -1},
		{-7, 2, -2},
		{1 << 46, 47, 1},
		{1<<46 - 1, 47, 0},
		{-(1 << 46), 47, 0},
		{-(1 << 46) - 1, 47, -1},
	} {
		if got := Round(c.x, c.n); got != c.want {
			t.Errorf("Round(%d, %d) = %d, want %d", c.x, c.n, got, c.want)
		}
	}
	if Saturate(1<<15) != 1<<15-1 || Saturate(-1<<15-1) != -1<<15 {
		t.Error("Saturate does not saturate")
	}
}

// A sum of more than 36 bits is an error, not a wrong number. The compiler would reject such weights, so they are
// written into a compiled bundle.
func TestOverflowIsReported(t *testing.T) {
	d := load(t, "run")
	for seed := uint64(1); ; seed++ {
		// k = 1 only: weights are read and written in that packing
		n, err := randnet.New(seed, d, randnet.Options{Compile: compile.Options{Mapping: mapping.Basic()}})
		if err != nil {
			t.Fatal(err)
		}
		l := &n.Bundle.Layers[0]
		if int(l.KH)*int(l.KWC) < 64 || l.PadT > 0 || l.PadL > 0 {
			continue
		}
		w, err := n.Bundle.LayerWeights(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w {
			w[i] = 32767
		}
		packed, err := bundle.PackWeights(d, 0, w, int(l.OutC), int(l.KH), int(l.KWC))
		if err != nil {
			t.Fatal(err)
		}
		copy(n.Bundle.Weights[l.WOffset1:], packed)
		p, err := New(n.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		image := make([]int16, n.Bundle.Network.InH*n.Bundle.Network.InW*n.Bundle.Network.InC)
		for i := range image {
			image[i] = -32768
		}
		slot := p.NewSlot()
		if err := p.SetInput(slot, image); err != nil {
			t.Fatal(err)
		}
		if err := p.Layers(0, 0, 0, slot); !errors.Is(err, ErrOverflow) {
			t.Fatalf("got %v, want ErrOverflow", err)
		}
		return
	}
}

// The smallest legal sum is not an overflow, but one less is. Products that leave the range are an overflow even if the
// bias brings the sum back into it.
func TestOverflowBegins(t *testing.T) {
	for _, c := range []struct {
		weight int16
		inputs uint16 // of -2^15 each
		bias   int32
		over   bool
	}{{1 << 14, 64, 0, false}, {1 << 14, 64, -1, true}, {-1 << 15, 32, -1, true}} {
		l := layer{d: abi.Desc{
			Op: abi.OpGEMM, InH: 1, InW: 1, InC: c.inputs, InPix: c.inputs, KH: 1, KW: 1, KWC: uint32(c.inputs), SH: 1, SW: 1,
			OutH: 1, OutW: 1, OutC: 1, OutPix: 1, OutOffset: 2 * uint32(c.inputs), Shift: 40, ClampHi: math.MaxInt16,
		}, weights: slices.Repeat([]int16{c.weight}, int(c.inputs)), bias: []int32{c.bias}}
		l.arrange()
		slot := append(bytes.Repeat([]byte{0, 0x80}, int(c.inputs)), 0, 0)
		if err := l.run(new(buffers), slot); errors.Is(err, ErrOverflow) != c.over {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestOnChipLeavesTheSlot: a tensor that is only on chip is used, but the bytes at its place in the slot do not change;
// all other bytes are as without it.
func TestOnChipLeavesTheSlot(t *testing.T) {
	seen := 0
	for seed := uint64(1); seed < 400 && seen < 10; seed++ {
		n, err := randnet.New(seed, load(t, "run"), randnet.Built())
		if err != nil {
			t.Fatal(err)
		}
		b := n.Bundle
		p, err := New(b)
		if err != nil {
			t.Fatal(err)
		}
		for batch := 1; batch <= abi.BMax; batch++ {
			var places [][2]int
			for l := range b.Layers {
				if d := &b.Layers[l]; b.FBCB[l][batch-1].OnChip {
					places = append(places, [2]int{int(d.OutOffset), int(d.OutOffset) + int(d.OutH)*int(d.OutRowBytes)})
				}
			}
			if len(places) == 0 {
				continue
			}
			seen++
			rng := rand.New(rand.NewPCG(seed, uint64(batch)))
			before := p.NewSlot()
			for i := range before {
				before[i] = byte(rng.Uint32())
			}
			if err := p.SetInput(before, randnet.Input(rng, b)); err != nil {
				t.Fatal(err)
			}
			plain, kept := bytes.Clone(before), bytes.Clone(before)
			for i := range b.Network.Exits {
				if err := errors.Join(p.Segment(i, 0, plain), p.Segment(i, batch, kept)); err != nil {
					t.Fatal(err)
				}
			}
			written := make([]bool, len(before)) // by a layer that writes its tensor to the slot
			for l := range b.Layers {
				d := &b.Layers[l]
				for at := int(d.OutOffset); at < int(d.OutOffset)+int(d.OutH)*int(d.OutRowBytes); at++ {
					written[at] = written[at] || !b.FBCB[l][batch-1].OnChip
				}
			}
			for at := range kept {
				inside := false
				for _, x := range places {
					inside = inside || at >= x[0] && at < x[1]
				}
				switch {
				case inside && !written[at] && kept[at] != before[at]:
					t.Fatalf("seed %d, batch %d: byte %d of a tensor on chip has changed", seed, batch, at)
				case !inside && kept[at] != plain[at]:
					t.Fatalf("seed %d, batch %d: byte %d differs", seed, batch, at)
				}
			}
		}
	}
	if seen == 0 {
		t.Fatal("no network keeps a tensor on chip")
	}
}

func TestRefusesWrongArguments(t *testing.T) {
	n, err := randnet.New(7, load(t, "run"), randnet.All())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(n.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	slot := p.NewSlot()
	for name, err := range map[string]error{
		"layers":   p.Layers(0, len(n.Bundle.Layers), 0, slot),
		"segment":  p.Segment(len(n.Bundle.Network.Exits), 0, slot),
		"slot":     p.Layers(0, 0, 0, slot[:len(slot)-1]),
		"input":    p.SetInput(slot, make([]int16, 1<<20)),
		"negative": p.Segment(-1, 0, slot),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Numbers of a slot are read equally on machines of both byte orders, and no bytes beyond them are read.
func TestDecode16(t *testing.T) {
	defer func(was bool) { little = was }(little)
	for _, little = range []bool{little, false} {
		got := []int16{7, 7, 7, 7}
		decode16(got[:3], []byte{1, 0, 0xff, 0xff, 0, 0x80, 9})
		if want := []int16{1, -1, math.MinInt16, 7}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		decode16(nil, nil)
	}
}

// BenchmarkMultiply measures the inner loop alone, by length of the dot product.
func BenchmarkMultiply(b *testing.B) {
	for _, p := range []int{9, 64, 144, 576} {
		b.Run(fmt.Sprint(p), func(b *testing.B) {
			x, w, acc := make([]int16, p), make([]int16, 32*p), make([]int64, 32)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range w {
				w[i] = int16(rng.Uint32())
			}
			for b.Loop() {
				multiply(acc, x, w)
			}
			b.ReportMetric(float64(b.N)*32*float64(p)/1e6/b.Elapsed().Seconds(), "MMAC/s")
		})
	}
}

// BenchmarkImage measures one image through a whole network of the zoo.
func BenchmarkImage(b *testing.B) {
	for _, name := range []string{"tiny", "fashion"} {
		b.Run(name, func(b *testing.B) {
			g, err := zoo.Load(name, 1)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			image := make([]float32, g.Tensors[g.Input].Elems())
			for i := range image {
				image[i] = rng.Float32()
			}
			q, err := quant.Quantise(g, [][]float32{image}, quant.Options{})
			if err != nil {
				b.Fatal(err)
			}
			compiled, err := compile.Compile(q, load(b, "run"), compile.Options{})
			if err != nil {
				b.Fatal(err)
			}
			p, err := New(compiled)
			if err != nil {
				b.Fatal(err)
			}
			x := randnet.Input(rng, compiled)
			for b.Loop() {
				if _, err := p.Run(x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(g.TotalMACs())/1e6/b.Elapsed().Seconds(), "MMAC/s")
		})
	}
}

// BenchmarkDepthwise measures 3x3 of 256 channels, with the depthwise operator, and as convolutions of windows of 32
// channels, as on a design without the unit.
func BenchmarkDepthwise(b *testing.B) {
	d := abi.Desc{
		Op: abi.OpDepthwise, InH: 14, InW: 14, InC: 256, InPix: 256, InRowBytes: 14 * 512, KH: 3, KW: 3, KWC: 768, SH: 1, SW: 1, PadT: 1, PadL: 1,
		OutH: 14, OutW: 14, OutC: 256, OutPix: 256, OutRowBytes: 14 * 512, OutOffset: 14 * 14 * 512, ClampHi: math.MaxInt16, Shift: 15,
	}
	const window = 32
	dense := d
	dense.Op, dense.InC, dense.OutC, dense.KWC = abi.OpGEMM, window, window, 3*window
	for _, desc := range []abi.Desc{d, dense} {
		b.Run(desc.Op.String(), func(b *testing.B) {
			depth := 1
			if desc.Op == abi.OpGEMM {
				depth = window
			}
			l := layer{d: desc, weights: make([]int16, int(desc.OutC)*9*depth), bias: make([]int32, desc.OutC)}
			l.arrange()
			slot, s := make([]byte, 2*14*14*512), new(buffers)
			for b.Loop() {
				for range d.OutC / desc.OutC {
					if err := l.run(s, slot); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
