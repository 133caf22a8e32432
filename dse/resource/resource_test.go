package resource

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The law of memories gives yosys' own results for some 480 shapes of each family.
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

// yosys' own rule gives the same.
func yosys(m Memory, family string) Blocks {
	b := Blocks{}
	for _, p := range m.parts(family) {
		b.add(Place(family, p.Words, p.Width))
	}
	return b
}
