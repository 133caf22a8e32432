package resource

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

// The law of memories has yosys' own results for some 480 shapes of each family.
func TestPlaceIsYosys(t *testing.T) {
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		f, err := os.Open("testdata/shapes-" + family + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n := 0
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "#") {
				continue
			}
			var width, words int
			var want Blocks
			if _, err := fmt.Sscan(sc.Text(), &width, &words, &want.BRAM18, &want.BRAM36, &want.URAM, &want.LUTRAM); err != nil {
				t.Fatal(err)
			}
			n++
			if got := Place(family, words, width); got != want {
				t.Errorf("%s: %d words of %d bits: %+v, yosys %+v", family, words, width, got, want)
			}
		}
		if n < 150 {
			t.Errorf("%s: %d shapes only", family, n)
		}
	}
}

// The size of a memory is the larger one of yosys' rule and Vivado's rule. On 7 series Vivado extends depths to a
// power of two, but banks of activations are split into parts with such depths.
func TestTheLargerRuleCounts(t *testing.T) {
	for _, c := range []struct {
		name         string
		family       string
		words, width int
		yosys, both  int // blocks of 18 Kibit
	}{
		{activations, boards.Series7, 14336, 16, 14, 14}, // 8K + 4K + 2K
		{activations, boards.Series7, 14000, 16, 14, 14}, // the last part is rounded up
		{activations, boards.Series7, 15360, 16, 15, 15},
		{activations, boards.Series7, 15872, 16, 16, 16}, // splitting saves nothing: one memory
		{activations, boards.Series7, 16384, 16, 16, 16},
		{activations, boards.Series7, 1030, 16, 2, 2},
		{activations, boards.Series7, 1000, 16, 1, 1},
		{activations, boards.UltraScalePlus, 5120, 16, 5, 5},
		{activations, boards.UltraScalePlus, 14336, 16, 0, 0}, // folded, in URAM
		{weightsRing, boards.Series7, 14336, 16, 14, 16},      // not split
		{weightsRing, boards.Series7, 3072, 36, 6, 8},
		{weightsRing, boards.UltraScalePlus, 3072, 36, 6, 6}, // the rule is only for 7 series
	} {
		m := Memory{c.name, 1, c.words, c.width, false}
		if y, b := yosys(m, c.family).half(), m.Place(c.family).half(); y != c.yosys || b != c.both {
			t.Errorf("%s, %v: %d halves by yosys' rule, %d by the larger, expected %d and %d", c.family, m, y, b, c.yosys, c.both)
		}
	}
	for name, want := range map[string]float64{"zc706": 523.5, "zcu104": 281.5, "small": 12.5} {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		family := boards.Series7
		if name == "zcu104" {
			family = boards.UltraScalePlus
		}
		if y, b := memories(family, d, yosys).BRAM36, memories(family, d, Memory.Place).BRAM36; y != want || b != want {
			t.Errorf("%s: %g BRAM36 by yosys' rule, %g by the larger, expected %g", name, y, b, want)
		}
	}
}

// yosys returns the blocks by yosys' own rule.
func yosys(m Memory, family string) Blocks {
	b := Blocks{}
	for _, p := range m.parts(family) {
		b.add(Place(family, p.Words, p.Width))
	}
	return b
}

// DSPs and memories of the depthwise unit and of curves equal yosys', from runs of depthwise and post alone.
func TestOptionsAreExact(t *testing.T) {
	for _, c := range []struct {
		family       string
		d            configs.Design
		dsp          int
		bram         float64
		unit, curves int // LUTs used as memory
	}{
		{boards.Series7, configs.Design{TP: 7, TC: 128, NAXI: 4, AXIBytes: 8, MaxBurst: 16, Drain: 16, CMax: 2048}, 48, 12, 1920, 16 * 68},
		{boards.Series7, configs.Design{TP: 7, TC: 128, NAXI: 4, AXIBytes: 8, MaxBurst: 16, Drain: 16, CMax: 2048, Type: configs.TypeInt8}, 48, 6, 1712, 16 * 68},
		{boards.UltraScalePlus, configs.Design{TP: 3, TC: 4, NAXI: 1, AXIBytes: 8, MaxBurst: 4, Drain: 2, CMax: 128}, 24, 6, 832, -1},
	} {
		with := c.d
		with.Depthwise = true
		a, b := memories(c.family, c.d, yosys), memories(c.family, with, yosys)
		if b.DSP-a.DSP != c.dsp || b.BRAM36-a.BRAM36 != c.bram {
			t.Errorf("%s: the unit takes %d DSPs and %g BRAM36, yosys %d and %g", c.family, b.DSP-a.DSP, b.BRAM36-a.BRAM36, c.dsp, c.bram)
		}
		lutram := func(d configs.Design) (n int) {
			for _, m := range Memories(d) {
				n += m.Count * Place(c.family, m.Words, m.Width).LUTRAM
			}
			return n
		}
		if n := lutram(with) - lutram(c.d); n != c.unit {
			t.Errorf("%s: the unit has %d LUTs as memory, yosys %d", c.family, n, c.unit)
		}
		post := c.d
		post.Post = true
		if n := lutram(post) - lutram(c.d) - c.curves; c.curves >= 0 && (n < 0 || n > 4) { // the queue of layers is wider
			t.Errorf("%s: curves have %d LUTs as memory, yosys %d", c.family, n+c.curves, c.curves)
		}
	}
}

// DSPs of int8 designs equal those of their arrays alone, and the LUTs and registers of their chains equal yosys' for
// mac_packed alone. For the design that yosys synthesised, DSPs and memories are exact and the rest is close.
func TestInt8(t *testing.T) {
	for _, c := range []struct {
		d   configs.Design
		dsp int
	}{
		{configs.Design{TP: 14, TC: 128, Drain: 16}, 896},
		{configs.Design{TP: 26, TC: 132, Drain: 22}, 1716},
		{configs.Design{TP: 26, TC: 132, Drain: 22, Stub: true}, 0},
	} {
		c.d.Type, c.d.NAXI, c.d.AXIBytes, c.d.MaxBurst, c.d.CMax = configs.TypeInt8, 4, 8, 16, 2048
		if e := memories(boards.Series7, c.d, Memory.Place); e.DSP != c.dsp {
			t.Errorf("<%d, %d>: %d DSPs, expected %d", c.d.TP, c.d.TC, e.DSP, c.dsp)
		}
	}
	for _, c := range []struct {
		family       string
		len, lut, ff int
	}{
		{boards.Series7, 4, 65, 228},
		{boards.Series7, 7, 99, 339},
		{boards.Series7, 8, 99, 364},
		{boards.Series7, 16, 170, 638},
		{boards.UltraScalePlus, 8, 65, 128},
		{boards.UltraScalePlus, 13, 101, 166},
		{boards.UltraScalePlus, 16, 101, 166},
	} {
		d := configs.Design{Type: configs.TypeInt8, TP: 2 * c.len, TC: 4}
		lut, ff := eight(c.family, d)
		d.TC = 2
		one, oneFF := eight(c.family, d)
		lut, ff = (lut-one)/2, (ff-oneFF)/2 // for half of a chain
		if math.Abs(lut/float64(c.lut)-1) > 0.015 || math.Abs(ff/float64(c.ff)-1) > 0.015 {
			t.Errorf("%s, %d DSPs: %g LUTs and %g registers, yosys %d and %d", c.family, c.len, lut, ff, c.lut, c.ff)
		}
	}

	r, err := syn.LoadRun("../../hw/syn/results/zc706-26x64-int8-xc7.json")
	if err != nil {
		t.Fatal(err)
	}
	lutram := 0.
	for _, m := range Memories(r.Design) {
		memory, _, _ := m.cells(r.Family)
		lutram += memory
	}
	e, whole := memories(r.Family, r.Design, yosys), Of(boards.Board{Family: r.Family}, r.Design)
	now, err := r.Current("../..")
	if err != nil {
		t.Fatal(err)
	}
	// queues of older RTL may be others; DSPs and blocks are the design's
	if e.DSP != r.Resources.DSP || e.BRAM36 != r.Resources.BRAM() || now && lutram != float64(r.Resources.LUTRAM) {
		t.Errorf("%s: %d DSPs, %g BRAM36, %g LUTs as memory; yosys %+v", r.Config, e.DSP, e.BRAM36, lutram, r.Resources)
	}
	const most = 0.1 // nothing was fitted on it
	if l, f := off(float64(whole.LUT.Value), r.Resources.LUTs()), off(float64(whole.FF.Value), r.Resources.FF); math.Abs(l) > most || math.Abs(f) > most {
		t.Errorf("%s: %d LUTs and %d registers, yosys %d and %d", r.Config, whole.LUT.Value, whole.FF.Value, r.Resources.LUTs(), r.Resources.FF)
	}
}
