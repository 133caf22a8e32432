package machine_test

import (
	"math/bits"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func ceil(a, b int) int { return (a + b - 1) / b }

// moments are the points in time of a layer that README.md computes, in order.
type moments struct{ offered, first, passed, sums, out, written int }

// page applies README.md's rules with its table of delays; scope reports whether they cover the layer.
func page(delay map[string]int, l machine.Layer, latency int) (m moments, scope bool) {
	g, e := l.Geom, l.Entry
	lanes := []int{cost.KHalf: 4, cost.K1: 8, cost.K2: 16}[e.K]
	drain := []int{cost.KHalf: 8, cost.K1: 8, cost.K2: 4}[e.K]
	tile := (g.OutH-1)*g.SH + g.KH
	digits := 0
	for _, n := range []int{g.InW, g.InW, g.KW, g.KW, g.SH, g.SH, g.SH, g.PadL, g.OutW, 0, 1, 1, g.OutH, tile} {
		digits += bits.Len(uint(n))
	}
	m.offered = delay["start"] + latency + 28 + digits
	beats := m.offered + delay["read"] + latency
	passes := g.KH * ceil(g.KW*g.InC, lanes)
	weights, row := 8*ceil(2*passes*lanes*g.OutC, 64), g.InW*g.InC/4
	biases := max(3, ceil(g.OutC, 2))
	m.first = beats + biases + ceil(lanes*g.OutC, 4) + delay["first"]
	for r := range g.OutH {
		if n := min(g.InH, r*g.SH-g.PadT+1); n > 0 {
			m.first = max(m.first, beats+biases+weights+n*row+delay["row"])
		}
		m.first += g.OutW
	}
	places := g.OutH * g.OutW
	m.passed = m.first + (passes-1)*places
	m.sums = m.passed + delay["sums"] + lanes
	words := places * ceil(g.OutC, drain)
	if g.OutW*g.OutC%4 > 0 {
		words += g.OutH
	}
	m.out = m.sums + max(words, g.OutH*ceil(g.OutW*g.OutC, 4)) + delay["out"]
	m.written = m.out + latency + delay["answer"]
	scope = g.GEMM() && !g.Residual && !g.Product && !g.Curve && g.InPix == g.InC && g.OutPix == g.OutC && l.RowBytes <= 2*g.InW*g.InC &&
		e.TileB == 1 && int(e.TileRows) >= g.OutH && g.OutC <= 256/lanes && weights <= 256 && g.InW*g.InC%4 == 0 && (g.OutH == 1 || g.OutW*g.OutC%4 == 0) && (row >= 7 || g.InH <= 4) && g.OutH > g.PadT &&
		(passes == 1 || places >= ceil(lanes*g.OutC, 4)+lanes)
	return m, scope
}

// traced returns the same moments by the machine.
func traced(t *testing.T, d configs.Design, l machine.Layer) (m moments) {
	t.Helper()
	events, _, err := machine.Trace(t.Context(), d, []machine.Layer{l}, 1, 0)
	if err != nil {
		t.Fatalf("%+v: %v", l, err)
	}
	for _, x := range events {
		at := int(x.At)
		switch {
		case strings.HasPrefix(x.What, "layer offered"):
			m.offered = at
		case strings.HasPrefix(x.What, "pass 1 "):
			m.first, m.passed = at, at
		case x.Unit == "gemm_seq":
			m.passed = at
		case strings.HasPrefix(x.What, "a C tile's"):
			m.sums = at
		case strings.HasPrefix(x.What, "last result"):
			m.out = at
		case x.What == "layer written":
			m.written = at
		}
	}
	return m
}

// README.md's rules and delays yield the machine's cycles, for its layer and for random ones that they cover. Its
// arithmetic is right.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	delay := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\d+) \\|$").FindAllStringSubmatch(string(text), -1) {
		delay[m[1]], _ = strconv.Atoi(m[2])
	}
	d, err := configs.Load("run")
	if err != nil {
		t.Fatal(err)
	}
	worked := cost.Geom{
		InH: 7, InW: 7, InC: 8, InPix: 8, OutH: 7, OutW: 7, OutC: 8, OutPix: 8, KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 8, OutOffset: 4096,
	}
	entry := abi.FBCB{BR: 1, TileB: 1, TileRows: 7, K: uint8(cost.K2)}
	is := traced(t, d, machine.Layer{Geom: worked, Entry: entry})
	if want, scope := page(delay, machine.Layer{Geom: worked, Entry: entry}, d.DRAM.LatencyCycles); is != want || !scope {
		t.Errorf("the layer worked out: by the page %+v (enough for it: %t), by the machine %+v", want, scope, is)
	}
	for name, want := range map[string]int{
		"start": is.offered - d.DRAM.LatencyCycles - 54, "read": is.first - 7 - is.offered - d.DRAM.LatencyCycles - 4 - 192 - 6*14 - delay["row"],
		"sums": is.sums - is.passed - 16, "out": is.out - is.sums - 98, "answer": is.written - is.out - d.DRAM.LatencyCycles,
	} {
		if delay[name] != want {
			t.Errorf("`%s` is %d, of the machine %d", name, delay[name], want)
		}
	}
	_, transcript, _ := strings.Cut(string(text), "    $ ")
	transcript, _, _ = strings.Cut(transcript, "\n\n")
	sums := regexp.MustCompile(`(?m)^- (\d+) = ([\d +x]+):`).FindAllStringSubmatch(string(text), -1)
	for _, m := range sums {
		total := 0
		for term := range strings.SplitSeq(m[2], "+") {
			n := 1
			for factor := range strings.SplitSeq(term, "x") {
				f, err := strconv.Atoi(strings.TrimSpace(factor))
				if err != nil {
					t.Fatal(err)
				}
				n *= f
			}
			total += n
		}
		if m[1] != strconv.Itoa(total) {
			t.Errorf("%s", m[0])
		}
		// the digits are a term of the next sum; no unit reports when the DRAM begins and when its row can be used
		if n := strings.Count(transcript, m[1]+" "); n == 0 && !slices.Contains([]string{"26", "337", "619"}, m[1]) {
			t.Errorf("%s: not in the transcript", m[0])
		}
	}
	if len(sums) < 10 {
		t.Errorf("%d sums", len(sums))
	}
	rng, n := rand.New(rand.NewPCG(32, 6)), 0
	for range 20_000 {
		k := rng.IntN(3)
		side := 1 + 2*rng.IntN(2)
		g := cost.Geom{
			InH: 1 + rng.IntN(16), InW: 1 + rng.IntN(16), InC: 1 + rng.IntN(24), OutC: 1 + rng.IntN(32), KH: side, KW: side, SH: 1 + rng.IntN(2),
			OutOffset: 1 << 16,
		}
		g.PadT, g.PadL, g.SW = side/2, side/2, g.SH
		g.OutH, g.OutW = (g.InH+2*g.PadT-side)/g.SH+1, (g.InW+2*g.PadL-side)/g.SH+1
		g.InPix, g.OutPix, g.BiasCount = g.InC, g.OutC, g.OutC
		e := abi.FBCB{BR: 1, TileB: 1, TileRows: uint16(g.OutH), K: uint8(k)}
		l := machine.Layer{Geom: g, Entry: e}
		want, scope := page(delay, l, d.DRAM.LatencyCycles)
		if !scope || mapping.Check(d, g, 1, e) != nil {
			continue
		}
		n++
		have := traced(t, d, l)
		if have != want {
			t.Errorf("%+v\nk = %v: by the page %+v, by the machine %+v", g, cost.K(k), want, have)
		}
		if n == 60 {
			break
		}
	}
	if n < 60 {
		t.Errorf("%d layers that the page is enough for", n)
	}
	// the table of the zoo's layers with trained weights, and the exercises
	listed := regexp.MustCompile("(?m)^\\| (\\w+) \\| `(/\\S+)` \\|$").FindAllStringSubmatch(string(text), -1)
	var have, want [][2]string
	for _, m := range listed {
		have = append(have, [2]string{m[1], m[2]})
	}
	for _, network := range []string{"fashion", "mobile", "tiny"} {
		graph, err := zoo.Load(network, 1)
		if err != nil {
			t.Fatal(err)
		}
		w, err := search.NewWorkload(graph)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := w.Lower(d)
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := search.Choose(d, layers, 1, mapping.RTL())
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range layers {
			x.Geom.First = true
			l := machine.Layer{Geom: x.Geom, Entry: mapping.Stay(chosen[i].Entry, false, mapping.Apart), RowBytes: x.InRow}
			by, scope := page(delay, l, d.DRAM.LatencyCycles)
			if !scope {
				continue
			}
			want = append(want, [2]string{network, x.Name})
			if is := traced(t, d, l); is != by {
				t.Errorf("%s %s: by the page %+v, by the machine %+v", network, x.Name, by, is)
			}
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the layers that the page is enough for (-are +listed):\n%s", diff)
	}
}
