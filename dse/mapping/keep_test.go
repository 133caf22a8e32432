package mapping

import (
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"pgregory.net/rapid"
)

// chain draws layers in which each reads the output of the previous one.
func chain(t *rapid.T) ([]cost.Geom, []Link) {
	side := rapid.SampledFrom([]int{1, 2, 4, 7, 14}).Draw(t, "side")
	n := rapid.IntRange(2, 4).Draw(t, "layers")
	c := rapid.IntRange(1, 48).Draw(t, "channels")
	var layers []cost.Geom
	var links []Link
	for i := range n {
		next := rapid.IntRange(1, 48).Draw(t, "channels")
		g := conv(side, side, c, next, rapid.SampledFrom([]int{1, 3}).Draw(t, "k"), 1)
		switch kind := rapid.IntRange(0, 8).Draw(t, "kind"); {
		case kind == 0 && i > 0:
			g, next = pool(side, c), c
		case kind < 4:
			g, next = conv(side, side, c, c, 3, 1), c
			g.Op = abi.OpDepthwise
		}
		layers, c = append(layers, g), next
		if i > 0 {
			links = append(links, Link(rapid.IntRange(0, 2).Draw(t, "link")))
		}
	}
	cost.InStart(layers)
	return layers, links
}

func withUnit() configs.Design {
	d := design()
	d.Depthwise = true
	return d
}

func pool(side, c int) cost.Geom {
	g := conv(side, side, c, c, 3, 1)
	g.Op, g.BiasCount = abi.OpMaxPool, 0
	return g
}

// bruteKeep evaluates every legal way to keep tensors, with every one-tile entry.
func bruteKeep(t *rapid.T, layers []cost.Geom, links []Link, bact int, plain []abi.FBCB) int64 {
	d := withUnit()
	best := int64(0)
	n := len(links)
	ways := 1
	for range n {
		ways *= 3
	}
	for way := range ways {
		outs := make([]Link, len(layers))
		ok := true
		for i, w := 0, way; i < n; i, w = i+1, w/3 {
			outs[i] = Link(w % 3)
			ok = ok && outs[i] <= links[i]
		}
		walk := cost.Walk{}
		for i, g := range layers {
			in := i > 0 && outs[i-1] != Apart
			least := int64(0)
			if !in && outs[i] == Apart {
				least = cost.Layer(d, g, bact, plain[i]).Total
			} else {
				for _, p := range Points {
					for _, order := range []bool{false, true} {
						e := abi.FBCB{BR: uint8((bact + p.S - 1) / p.S), K: uint8(p.K), Order: order, TileB: uint8(bact), TileRows: uint16(g.OutH)}
						e = Stay(e, in, outs[i])
						if Check(d, g, bact, e) != nil {
							continue
						}
						if c := cost.Layer(d, g, bact, e).Total; least == 0 || c < least {
							least = c
						}
					}
				}
			}
			ok = ok && least > 0
			step := cost.StepOf(d, g, bact, in, outs[i] == Only)
			walk = walk.Next(&step, least)
		}
		if ok && (best == 0 || walk.End < best) {
			best = walk.End
		}
	}
	return best
}

// Keep finds the result of an exhaustive search, and its result is legal.
func TestKeepAgainstFullSearch(t *testing.T) {
	d := withUnit()
	rapid.Check(t, func(t *rapid.T) {
		layers, links := chain(t)
		bact := rapid.IntRange(1, abi.BMax).Draw(t, "batch")
		plain := make([]abi.FBCB, len(layers))
		for i, g := range layers {
			var err error
			if plain[i], _, err = Choose(d, g, bact, Options{}); err != nil {
				t.Skip(err)
			}
		}
		want := bruteKeep(t, layers, links, bact, plain)
		entries := append([]abi.FBCB(nil), plain...)
		Keep(d, layers, links, bact, entries, Options{})
		for i, e := range entries {
			if err := Check(d, layers[i], bact, e); err != nil {
				t.Fatalf("layer %d: %v", i, err)
			}
			if i < len(links) && (e.KeepOut && links[i] == Apart || e.OnChip && links[i] != Only) {
				t.Fatalf("layer %d keeps what it must not: %+v, link %v", i, e, links[i])
			}
		}
		sum := cost.Start(d)
		for _, t := range cost.Walked(d, layers, bact, entries) {
			sum += t.Total
		}
		if err := CheckLinks(layers, entries); err != nil {
			t.Fatal(err)
		}
		if sum != want {
			t.Fatalf("%d cycles, %d are possible", sum, want)
		}
		spilled := append([]abi.FBCB(nil), plain...)
		Keep(d, layers, links, bact, spilled, Options{Spill: true})
		for i := range spilled {
			if spilled[i] != plain[i] {
				t.Fatalf("layer %d is kept under Spill", i)
			}
		}
	})
}

func TestCheckLinksRefuses(t *testing.T) {
	layers := []cost.Geom{conv(8, 8, 4, 8, 3, 1), conv(8, 8, 8, 4, 3, 1), conv(8, 8, 4, 4, 1, 1)}
	e := abi.FBCB{BR: 1, TileB: 1, TileRows: 8}
	for name, c := range map[string][]abi.FBCB{
		"not taken up":     {Stay(e, false, Shared), e, e},
		"nothing was kept": {e, Stay(e, true, Apart), e},
		"first of a start": {Stay(e, true, Apart), e, e},
		"last of a start":  {e, e, Stay(e, false, Only)},
	} {
		if err := CheckLinks(layers, c); !errors.Is(err, ErrIllegal) {
			t.Errorf("%s: %v, want ErrIllegal", name, err)
		}
	}
	good := []abi.FBCB{Stay(e, false, Only), Stay(e, true, Shared), Stay(e, true, Apart)}
	if err := CheckLinks(layers, good); err != nil {
		t.Error(err)
	}
	layers[1].InC = 4
	if err := CheckLinks(layers, good); !errors.Is(err, ErrIllegal) {
		t.Errorf("another shape: %v, want ErrIllegal", err)
	}
}

func TestCheckKeptRefuses(t *testing.T) {
	d := withUnit()
	g := conv(8, 8, 4, 8, 3, 1)
	one := abi.FBCB{BR: 2, TileB: 2, TileRows: 8}
	wide := g
	wide.OutPix = 16
	each := pool(8, 8)
	each.Op, each.BiasCount = abi.OpDepthwise, 8
	apart := each
	apart.OutPix = 16
	for _, c := range []struct {
		name string
		g    cost.Geom
		e    abi.FBCB
	}{
		{"tiles of rows", g, Stay(abi.FBCB{BR: 2, TileB: 2, TileRows: 4}, false, Shared)},
		{"tiles of samples", g, Stay(abi.FBCB{BR: 2, TileB: 1, TileRows: 8}, true, Apart)},
		{"two groups", g, Stay(abi.FBCB{BR: 1, TileB: 1, TileRows: 8}, true, Apart)},
		{"a part of a concatenation", wide, Stay(one, false, Shared)},
		{"a pool that keeps", pool(8, 8), Stay(one, true, Shared)},
		{"a depthwise layer whose rows come meanwhile", each, Stay(one, false, Shared)},
		{"a depthwise layer that leaves a gap", apart, Stay(one, true, Only)},
		{"too large", conv(16, 16, 4, 48, 1, 1), Stay(abi.FBCB{BR: 2, TileB: 2, TileRows: 16}, false, Only)},
	} {
		if err := Check(d, c.g, 2, c.e); !errors.Is(err, ErrIllegal) {
			t.Errorf("%s: %v, want ErrIllegal", c.name, err)
		}
	}
	for _, e := range []abi.FBCB{Stay(one, false, Shared), Stay(one, true, Only), Stay(one, true, Apart)} {
		if err := Check(d, g, 2, e); err != nil {
			t.Error(err)
		}
	}
	if err := Check(d, each, 2, Stay(one, true, Only)); err != nil {
		t.Error(err)
	}
}
