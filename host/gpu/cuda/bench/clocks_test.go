package bench_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
)

// Clocks are steady if, after enough load, two groups take the same time and the SMs' clock no longer rises. Two equal
// groups at the start are not enough, since an idle GPU is steady too.
func TestSteady(t *testing.T) {
	const second = 1_000_000_000
	const ms = 1_000_000
	groups := func(n int, g [3]int) [][3]int { return slices.Repeat([][3]int{g}, n) }
	idle, up := [3]int{4 * ms, 5, -1}, [3]int{2 * ms, 5, -1}
	for _, c := range []struct {
		name string
		all  [][3]int
		want int
	}{
		{"a plateau at rest", groups(49, idle), 0},
		{"a second of it", groups(60, idle), 50},
		{"clocks that rise", slices.Concat(groups(49, idle), groups(2, up)), 51},
		{"that rise at the end", slices.Concat(groups(48, idle), groups(10, up)), 52},
		{"never the same", [][3]int{{second, 5, -1}, {2 * second, 5, -1}, {second, 5, -1}}, 0},
		{"NVML says they rise", [][3]int{{second, 5, 300}, {second, 5, 900}, {second, 5, 1980}, {second, 5, 1980}}, 4},
		{"within its steps", [][3]int{{second, 5, 1950}, {second, 5, 1965}}, 2},
		{"it is asked under load alone", [][3]int{{ms, 5, 1980}, {second, 5, 1980}, {second, 5, 1980}}, 3},
	} {
		if got := bench.Steady(second, c.all); got != c.want {
			t.Errorf("%s: after group %d, expected %d", c.name, got, c.want)
		}
	}
}

// A GPU is kept busy for the requested time before its pace is measured.
func TestWarmth(t *testing.T) {
	cfg, _ := small(t)
	cfg.N, cfg.Parts, cfg.Warm = 1, []string{bench.Costs}, 50*time.Millisecond
	raw, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range raw.Series {
		if s.Key == "costs load until steady" && len(s.Runs) == 1 && s.Runs[0] >= cfg.Warm.Nanoseconds() {
			return
		}
	}
	t.Errorf("it was not: %v", raw.Series)
}
