package int8

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// designs returns int8 designs, with and without options.
func designs(t *testing.T) []configs.Design {
	t.Helper()
	var out []configs.Design
	for _, name := range []string{"tinyx", "v13x", "tinyx"} {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		d = d.Typed("int8")
		d.TP = max(d.TP, 4)
		d.Depthwise = len(out) < 2
		out = append(out, d)
	}
	return out
}

// compiled returns a network's bundle as read from its file.
func compiled(t *testing.T, n *quant.Int8, d configs.Design, rng *rand.Rand) *bundle.Bundle {
	t.Helper()
	b, err := compile.Int8(n, d, compile.Options{Mapping: mapping.Options{Pick: rng.IntN}})
	if err != nil {
		t.Fatal(n.Graph.Name, err)
	}
	var file bytes.Buffer
	if err := bundle.Write(&file, b); err != nil {
		t.Fatal(n.Graph.Name, err)
	}
	if b, err = bundle.Read(&file); err != nil {
		t.Fatal(n.Graph.Name, err)
	}
	return b
}

// TestBundle compares golden on a bundle, from descriptors, packed weights and words alone, with the network's own
// executor: every layer's map after the layer, and the exits as one batch.
func TestBundle(t *testing.T) {
	const seed, networks = 340, 45
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("networks %d to %d", seed<<16, seed<<16+networks-1)
	hits := map[string]int{}
	for k := range uint64(networks) {
		g, images := draw(seed<<16+k, true)
		n := inInt8(t, g, images, false)
		if k%2 == 1 { // as in some files: outputs of pools and concatenations have another step than their inputs
			g.Scales = map[graph.TensorID]graph.Scale{}
			for i, c := range n.Maps {
				if rng.IntN(2) == 0 {
					g.Scales[graph.TensorID(i)] = graph.Scale{Step: float64(float32(c.Step * (0.6 + rng.Float64()))), Zero: rng.IntN(256) - 128}
				}
			}
			n = inInt8(t, g, images, false)
		}
		p, err := New(n)
		if err != nil {
			t.Fatal(g.Name, err)
		}
		b := compiled(t, n, designs(t)[k%3], rng)
		in := b.Network.Input(images[0])
		want := make([]int16, len(in))
		n.Input(want, images[0])
		if !slices.Equal(in, want) {
			t.Fatalf("%s: an input of %v, expected %v", g.Name, in, want)
		}
		maps, err := p.Run(in)
		if err != nil {
			t.Fatal(g.Name, err)
		}
		q, err := golden.New(b)
		if err != nil {
			t.Fatal(g.Name, err)
		}
		slot := q.NewSlot()
		if err := q.SetInput(slot, in); err != nil {
			t.Fatal(g.Name, err)
		}
		for i := range b.Layers {
			if err := q.Layers(i, i, 0, slot); err != nil {
				t.Fatal(g.Name, err)
			}
			same(t, b, i, slot, g, maps)
			d := &b.Layers[i]
			if strings.Contains(b.Names[i], ".copy") && d.AvgMul != 1<<d.AvgShift {
				hits["copy"]++
			}
			hits[fmt.Sprint(d.Op, " res ", d.Residual, " curve ", d.Curve, " product ", d.Product, " table ", d.AvgTable)]++
		}
		for _, batch := range []int{1, 3, abi.BMax} {
			if err := q.SetInput(slot, in); err != nil {
				t.Fatal(err)
			}
			if err := q.Segment(0, batch, slot); err != nil {
				t.Fatal(g.Name, err)
			}
			if got, _ := q.Logits(slot, 0); !slices.Equal(got, maps[g.Exits[0].Tensor]) {
				t.Fatalf("%s, a batch of %d: exit %v, expected %v", g.Name, batch, got, maps[g.Exits[0].Tensor])
			}
		}
	}
	for _, kind := range []string{
		"GEMM res false curve false product false", "GEMM res true curve false product false", "GEMM res false curve true product false",
		"GEMM res true curve true product false", "DEPTHWISE res true curve false product true", "DEPTHWISE res true curve true product false",
		"DEPTHWISE res false curve false product false", "GEMM res true curve false product true", "MAX_POOL res false curve false product false",
	} {
		if hits[kind+" table false"] == 0 {
			t.Errorf("no layer of the kind %q: %v", kind, hits)
		}
	}
	if hits["AVG_POOL res false curve false product false table true"] == 0 || hits["copy"] == 0 {
		t.Errorf("no average with a table, or no copy from one step to another: %v", hits)
	}
}

// same compares a layer's output in a slot with its node's map.
func same(t *testing.T, b *bundle.Bundle, layer int, slot []byte, g *graph.Graph, maps [][]int16) {
	t.Helper()
	name, _, _ := strings.Cut(b.Names[layer], "[")
	name, _, _ = strings.Cut(name, "+")
	name, _, _ = strings.Cut(name, ".copy")
	i := slices.IndexFunc(g.Nodes, func(n graph.Node) bool { return n.Name == name })
	if i < 0 {
		t.Fatalf("%s: a layer %q of no node", g.Name, b.Names[layer])
	}
	to, d := b.Slot.Tensors[g.Nodes[i].Output], &b.Layers[layer]
	first := int(d.OutOffset) - to.Offset
	for pix := range to.H * to.W {
		for c := max(first, 0); c < min(first+int(d.OutC), to.C); c++ {
			got, want := b.ElementAt(slot, to.Offset, pix*to.Pix+c), maps[g.Nodes[i].Output][pix*to.C+c]
			if got != want {
				t.Fatalf("%s, design %s, layer %d (%s, %v), pixel %d, channel %d: %d, expected %d", g.Name, b.Design.Name, layer, b.Names[layer], d.Op, pix, c, got, want)
			}
		}
	}
}
