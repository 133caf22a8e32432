package cuda_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/disb"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// MEASURED.md's table of the time for which a block continues after the order to leave, at full occupancy: maximum and
// median over all times of the order.
func TestIntervals(t *testing.T) {
	const blocks, ghz = 6, 1.755 // on an SM, which issues as many instructions a clock as a block has warps
	text, err := os.ReadFile("MEASURED.md")
	if err != nil {
		t.Fatal(err)
	}
	us := func(clocks float64) float64 { return blocks * clocks / ghz / 1e3 }
	show := func(name string, most, half float64) {
		line := fmt.Sprintf("| %s | %.1f us | %.1f us |", name, us(most), us(half))
		t.Log(line)
		if !strings.Contains(string(text), line) {
			t.Errorf("MEASURED.md does not show %q", line)
		}
		if us(half) >= 15 {
			t.Errorf("%s: half of the blocks are told to leave for more than %.1f us", name, us(half))
		}
	}
	for _, name := range catalogue.Names() {
		b, err := disb.StandIn(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		between, took, err := cuda.Intervals(b)
		if err != nil {
			t.Fatal(err)
		}
		all := 0.0
		for _, c := range took {
			all += float64(c)
		}
		half, most := 0.0, slices.Max(between)
		for step := float64(most) / 2; step > 0.5; step /= 2 { // every time between two looks is equally likely
			gone := 0.0
			for i, c := range took {
				gone += float64(c) / all * min(1, (half+step)/float64(between[i]))
			}
			if gone < 0.5 {
				half += step
			}
		}
		show(name, float64(most), half)
	}
	deep := kernels.Layer{KH: 3, KW: 3, InC: 29} // narrow, of five steps
	if got := deep.Interval(); got != (kernels.Poll+1)*kernels.NarrowCost {
		t.Errorf("a narrow layer of five steps: %d clocks", got)
	}
	show("any other, at most", float64(deep.Interval()), float64(deep.Interval())/2)
}
