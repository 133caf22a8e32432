package sched_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/sched"
)

// ladder has levels that cost a tenth or a fifth of the accuracy of requests that pass exit 0.
func ladder(exits int) []sched.Level {
	levels := []sched.Level{{Loss: make([]float64, exits)}, {Loss: make([]float64, exits)}}
	for i := range levels {
		levels[i].Thetas = slices.Repeat([]float32{[]float32{0.7, 0.5}[i]}, exits)
		levels[i].Loss[0] = 0.1 * float64(i+1)
	}
	return levels
}

func easing(t testing.TB, exits int) sched.Policy {
	t.Helper()
	p, err := sched.New("fluid+theta", sched.Options{Levels: ladder(exits), Loss: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fluid+theta lowers the thresholds as the queue grows, within the accuracy budget.
func TestThetaFollowsTheQueueWithinItsBudget(t *testing.T) {
	p := easing(t, 3)
	running := []*sched.LaunchView{view(9, sched.Running, 2, 0, requests(900, 901, 1e9))}
	tr := sched.Traffic{Network: "n", Gap: 1000, Arrived: 10, Passed: make([]int64, 3), Left: make([]int64, 3)}
	step := func(name string, launches []*sched.LaunchView, waiting int, want ...float32) {
		t.Helper()
		s := state(linear(t, 3, 8, 10, 2), launches, requests(1, waiting, 1e9)...)
		s.Traffic = []sched.Traffic{tr}
		got := p.Decide(0, s, &sched.Event{}, nil)
		i := slices.IndexFunc(got, func(a sched.Action) bool { return a.Kind == sched.SetTheta })
		switch {
		case want == nil && i >= 0:
			t.Errorf("%s: %+v", name, got[i])
		case want != nil && (i != 0 || got[0].Network != "n" || !slices.Equal(got[0].Thetas, want)):
			t.Errorf("%s: %+v, want %v", name, got, want)
		}
	}
	step("nothing saved yet", nil, 8)
	tr.Ended = 100 // adds 1 to the bank; a batch of 8 could cost 0.8 on the first level, 1.6 on the second
	step("the first level can be paid", nil, 8, 0.7, 0.7, 0.7)
	step("and stays", nil, 8)
	tr.Ended = 1100 // adds 10: more than the limit of the bank
	step("now the second", nil, 8, 0.5, 0.5, 0.5)
	step("half a batch waits", nil, 4, 0.7, 0.7, 0.7)
	step("nobody waits", running, 0, []float32{}...)
	tr.Passed[0] += 10 // begun on the first level: costs 1
	step("again", nil, 8, 0.5, 0.5, 0.5)
	step("a segment runs when it goes down", running, 4, 0.7, 0.7, 0.7)
	tr.Passed[0] += 40 // begun on the second level: costs 8; 1 is left
	step("the second cannot be paid", nil, 8)
	tr.Passed[0] += 3 // costs 0.3; 0.7 is left
	step("nor can the first", nil, 8, []float32{}...)
}

func TestThetaWithoutLevelsIsFluidPlus(t *testing.T) {
	for name, s := range states(t) {
		a, b := make1(t, "fluid+").Decide(0, s, &sched.Event{}, nil), make1(t, "fluid+theta").Decide(0, s, &sched.Event{}, nil)
		if len(a) != len(b) || len(a) > 0 && a[len(a)-1].Kind != b[len(b)-1].Kind {
			t.Errorf("%s: %+v, %+v", name, a, b)
		}
	}
}

func TestThetaDoesNotAllocate(t *testing.T) {
	for name, s := range states(t) {
		p, n := easing(t, 4), int64(0)
		buf := make([]sched.Action, 0, 16)
		ev := new(sched.Event)
		if a := testing.AllocsPerRun(100, func() {
			n++
			s.Traffic[0].Ended += 50 * (n % 7)
			s.Traffic[0].Passed[0] += 10 * (n % 5)
			buf = p.Decide(0, s, ev, buf[:0])
		}); a != 0 {
			t.Errorf("%g times a decision in state %q", a, name)
		}
	}
}

func TestThetaRefusals(t *testing.T) {
	for name, o := range map[string]sched.Options{
		"a loss above one":   {Loss: 1.5},
		"a negative one":     {Loss: -0.1},
		"fewer losses":       {Levels: []sched.Level{{Thetas: []float32{1, 1}, Loss: []float64{0}}}},
		"a loss that gains":  {Levels: []sched.Level{{Thetas: []float32{1}, Loss: []float64{-1}}}},
		"levels of no exits": {Levels: []sched.Level{{Thetas: []float32{1}}}},
	} {
		if _, err := sched.New("fluid+theta", o); !errors.Is(err, sched.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
