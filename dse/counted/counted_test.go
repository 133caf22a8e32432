package counted

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Errors of the law on layers that were not used to tune it. The test fails if a change of the law increases them;
// after an improvement these limits are lowered. They are for the layers of held.json; samples by other generators
// differ under the same law (2.41 and 23.2 % for 386 random ones before strides of four and more were drawn, 2.60 and
// 22.5 for 967 since).
func TestBands(t *testing.T) {
	kinds, err := Kinds(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, most := range []Band{{Mean: 0.0164, Worst: 0.080}, {Mean: 0.0188, Worst: 0.2212}, {Mean: 0.0192, Worst: 0.105}, {Mean: 0.0238, Worst: 0.139}} {
		k := &kinds[i]
		got := fmt.Sprintf("%s: mean %.2f %%, worst %.2f %%, here stand %.2f and %.2f",
			k.What, 100*k.Band.Mean, 100*k.Band.Worst, 100*most.Mean, 100*most.Worst)
		if k.Band.Mean > most.Mean || k.Band.Worst > most.Worst {
			t.Error(got)
		}
		if k.Band.Mean < 0.95*most.Mean || k.Band.Worst < 0.95*most.Worst {
			t.Errorf("%s: lower them", got)
		}
	}
}

var update = flag.Bool("update", false, "write bands.json")

// typed is the files of each type.
var typed = []struct {
	held, networks string
	int8           bool
}{{"held.json", "networks.json", false}, {"held-int8.json", "networks-int8.json", true}}

// held returns a stored sample.
func held(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The stored bands equal those computed from the stored layers by the current law.
func TestBandsAreTheLayers(t *testing.T) {
	var want stored
	for _, x := range typed {
		f, err := Read(strings.NewReader(held(t, x.held)))
		if err != nil {
			t.Fatal(err)
		}
		*want.of(x.int8) = Bands{Layers: bandsOf(f.Layers), Starts: BandsOf(starts(t, x.networks))}
	}
	if *update {
		text, err := json.MarshalIndent(want, "", "  ")
		if err != nil || os.WriteFile("bands.json", append(text, '\n'), 0o644) != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, have, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("bands.json is not what is stored (-want +have): go test ./dse/counted -update\n%s", diff)
	}
}

// starts returns the stored starts of a file.
func starts(t testing.TB, name string) []Layer {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rtl, all, err := ReadStarts(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	isOfHere(t, name, rtl, strings.HasSuffix(name, "-int8.json"))
	return all
}

// isOfHere fails if a file was counted on other RTL than the tree's.
func isOfHere(t testing.TB, name, rtl string, eight bool) {
	t.Helper()
	want, err := Sources("../..", eight)
	if err != nil {
		t.Fatal(err)
	}
	if rtl != want {
		t.Errorf("%s was counted on RTL %.12s, here is %.12s: count again with dse/counted/count.sh", name, rtl, want)
	}
}

// Errors of the law on whole starts, by network. The test fails if a change of the law increases them; after an
// improvement these limits are lowered. Before the law included the wait for descriptors, its cycles for the small
// chains were half of the counted ones. The machine's cycles of the same starts are exact (dse/machine, TestStarts).
func TestNetworks(t *testing.T) {
	by := map[string][]Layer{}
	for _, file := range []string{"networks.json", "networks-int8.json", "torchvision.json"} {
		for _, l := range starts(t, file) {
			name := l.Network
			if l.Int8() {
				name += " in int8"
			}
			by[name] = append(by[name], l)
		}
	}
	most := map[string]Band{
		"fashion": {0.0225, 0.158}, "tiny": {0.0255, 0.124}, "resnet50 at 32": {0.0047, 0.0230}, "mobilenetv2 at 32": {0.0130, 0.0444},
		"squeezenet1_1 at 32": {0.0097, 0.0155}, "googlenet at 32": {0.0057, 0.0107},
		"fashion in int8": {0.0134, 0.0360}, "tiny in int8": {0.0220, 0.0529},
		"chain k1c8h1n12": {0.0089, 0}, "chain mlp16x6": {0.0160, 0}, "chain ds16h4": {0.0038, 0}, "chain k3c8h8n12": {0.0401, 0.0983},
	}
	for name, all := range by {
		s, m := Summarise(all), most[name]
		got := fmt.Sprintf("%s: %d starts, mean %.2f %%, worst %.2f %%, here stand %.2f and %.2f", name, s.N, 100*s.Mean, 100*s.Worst, 100*m.Mean, 100*m.Worst)
		switch {
		case s.Mean > m.Mean || s.Worst > m.Worst:
			t.Error(got)
		case s.Mean < 0.95*m.Mean || s.Worst < 0.95*m.Worst:
			t.Errorf("%s: lower them", got)
		}
	}
	if len(by) != len(most) {
		t.Errorf("%d networks, expected %d", len(by), len(most))
	}
}

// The printed band matches the printed network, configuration and memory.
func TestOf(t *testing.T) {
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	d.DRAM.BytesPerCycle = 8
	var here []Layer
	all := starts(t, "networks.json")
	for _, l := range all {
		if l.Config == "zc706" && l.Bandwidth == 8 && l.Network == "fashion" {
			here = append(here, l)
		}
	}
	s, err := Of(d, "fashion", false)
	if want := Summarise(here); err != nil || !s.Counted || s.N != want.N || want.N < 8 || math.Abs(s.Mean-want.Mean) > 1e-12 || math.Abs(s.Worst-want.Worst) > 1e-12 {
		t.Errorf("%+v, %v, counted %+v", s, err, want)
	}
	if s, err := Of(d, "inceptionv3", false); err != nil || !s.Counted || s.Network != "" || !strings.Contains(s.String(), "of other networks") {
		t.Errorf("%+v, %v", s, err)
	}
	other := d
	other.TC /= 2
	if s, err := Of(other, "fashion", false); err != nil || s.Counted {
		t.Errorf("a design of the same name: %+v, %v", s, err)
	}
	d.DRAM.BytesPerCycle = 9
	if s, err := Of(d, "inceptionv3", false); err != nil || s.Counted || s.N != len(all) || !strings.Contains(s.String(), "not counted on this design at this memory; 4") {
		t.Errorf("%+v, %v", s, err)
	}
	fashion := slices.DeleteFunc(slices.Clone(all), func(l Layer) bool { return l.Network != "fashion" })
	if s, err := Of(d, "fashion", false); err != nil || s.Counted || s.N != len(fashion) || math.Abs(s.Mean-Summarise(fashion).Mean) > 1e-12 || !strings.Contains(s.String(), "not counted on this design at this memory; its ") {
		t.Errorf("%+v, %v", s, err)
	}
	d.DRAM = configs.DRAM{BytesPerCycle: 8, LatencyCycles: 200}
	if s, err := Of(d, "fashion", false); err != nil || s.Counted {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Of(d, "mine.onnx", true); err != nil || s.Counted || s.Mean < s.Random.Mean || s.Worst < s.Random.Worst {
		t.Errorf("%+v, %v", s, err)
	}
}

// The machine is slower than the DRAM, and the law agrees, in three cases: the ring holds fewer weights than come in a
// round trip of the DRAM, the queues of several ports hold fewer bytes, or 16 small requests for residuals are in
// flight. No stored counters exist for these designs.
func TestSmallRings(t *testing.T) {
	again := cost.Geom{Op: abi.OpGEMM, InH: 7, InW: 7, InC: 48, InPix: 48, OutH: 7, OutW: 7, OutC: 24, OutPix: 24, KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 24}
	once := cost.Geom{Op: abi.OpMaxPool, InH: 24, InW: 8, InC: 48, InPix: 48, OutH: 2, OutW: 1, OutC: 48, OutPix: 48, KH: 2, KW: 2, SH: 12, SW: 7}
	narrow := cost.Geom{Op: abi.OpDepthwise, InH: 1, InW: 200, InC: 4, InPix: 4, OutH: 1, OutW: 200, OutC: 4, OutPix: 4, KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: 4, Residual: true, Product: true}
	for _, x := range []struct {
		config string
		geom   cost.Geom
	}{{"v13x", narrow}, {"v13x", again}, {"v7", again}, {"v8", again}, {"v5", again}, {"tinyx", again}, {"v5", once}} {
		d, err := configs.Load(x.config)
		if err != nil {
			t.Fatal(err)
		}
		e := abi.FBCB{BR: 4, TileB: 1, TileRows: 1}
		l := Layer{Config: x.config, Design: d, Bandwidth: d.DRAM.BytesPerCycle, Batch: 4, Chain: []Step{{Geom: x.geom, Entry: e}}}
		r, err := l.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.Cycles = r.Cycles
		if err := l.judge(nil); err != nil {
			t.Fatal(err)
		}
		if t.Logf("%s: law %d, machine %d", x.config, l.Law, l.Cycles); math.Abs(l.Share()) > 0.1 {
			t.Errorf("%s, %v: law %d, machine %d", x.config, x.geom.Op, l.Law, l.Cycles)
		}
	}
}

// The stored counters are of the tree's RTL.
func TestSources(t *testing.T) {
	for _, x := range typed {
		f, err := Read(strings.NewReader(held(t, x.held)))
		if err != nil {
			t.Fatal(err)
		}
		isOfHere(t, x.held, f.RTL, x.int8)
		for _, l := range f.Layers {
			if l.Int8() != x.int8 {
				t.Errorf("%s has a layer of another type, on %s", x.held, l.Config)
			}
		}
	}
	if _, err := Sources(t.TempDir(), false); err == nil {
		t.Error("a folder without RTL has sources")
	}
}

func TestRead(t *testing.T) {
	held := held(t, typed[0].held)
	for _, text := range []string{
		``, `{}`, `{"layers": [{"config": "run"}]}`,
		strings.ReplaceAll(held, `"config": "run"`, `"config": "none"`),
		strings.ReplaceAll(held, `"TileB": `, `"TileB": -`),
		strings.ReplaceAll(held, `"InH": `, `"InH": -`),
	} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrFile) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	text := held(f, typed[0].held)
	i := strings.Index(text, `"layers"`)
	f.Add(`{` + text[i:i+2000])
	f.Add(`{"layers": [{"config": "run", "bytes_per_cycle": 8, "batch": 1, "cycles": 5, "chain": [{}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if file, err := Read(strings.NewReader(text)); err == nil && len(file.Layers) == 0 {
			t.Error("no layers and no error")
		}
	})
}

// The worst layer has an error above WorstCycles, and the summary is of that layer.
func TestWorst(t *testing.T) {
	all := []Layer{{Law: 3327, Cycles: 3373}, {Law: 791494, Cycles: 793900}, {Law: 400000, Cycles: 401000}}
	if l := Worst(all); l != &all[1] {
		t.Errorf("worst %+v", l)
	}
	if s := Summarise(all); s.Worst != -all[1].Share() || s.Beyond != 0 {
		t.Errorf("%+v", s)
	}
	if l := Worst(all[:1]); l != nil || Summarise(all[:1]).Worst != 0 {
		t.Errorf("%d cycles are no worst", l.Law-l.Cycles)
	}
}

// bandsOf returns the bands of networks' and of random layers: the largest mean of a configuration at a bandwidth, and
// the worst layer.
func bandsOf(all []Layer) (out [2]Band) {
	kinds, _ := Kinds(all)
	for i := range kinds {
		for _, s := range By(kinds[i].Layers) {
			k := &out[i%2]
			k.Mean, k.Worst = max(k.Mean, s.Mean), max(k.Worst, s.Worst)
		}
	}
	return out
}

// The file that the machine is compared with was counted on the tree's RTL.
func TestRandomIsOfHere(t *testing.T) {
	rtl, _, err := ReadStarts(strings.NewReader(held(t, "random.json")))
	if err != nil {
		t.Fatal(err)
	}
	isOfHere(t, "random.json", rtl, false)
}
