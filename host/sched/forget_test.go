package sched_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/sched"
)

// A policy forgets what it learned about a network that is unloaded: one with the same name later is new, and reloads
// do not add up.
func TestANetworkThatComesAgainIsNew(t *testing.T) {
	for _, name := range []string{"fluid+", "fluid+theta"} {
		make := func() sched.Policy {
			if name == "fluid+theta" {
				return easing(t, 3)
			}
			return make1(t, name)
		}
		serve := func(p sched.Policy, arrived int64) {
			table := linear(t, 3, 8, 10, 2) // a new table each time
			for n := range int64(100) {
				s := state(table, nil, requests(1, 8, 1e9)...)
				s.Traffic = []sched.Traffic{{
					Network: "n", Arrived: arrived + n, Ended: arrived + n, Gap: 1000, Tail: float64(arrived),
					Passed: []int64{arrived + n, 0, 0}, Left: []int64{arrived, 0, 0},
				}}
				p.Decide(n, s, &sched.Event{}, nil)
			}
		}
		p := make()
		for range 10 {
			serve(p, 100_000)
			p.Decide(0, state(linear(t, 3, 8, 10, 2), nil), &sched.Event{Kind: sched.Loaded}, nil) // the network is gone
		}
		serve(p, 0)
		fresh := make()
		serve(fresh, 0)
		if d := cmp.Diff(fresh, p, cmp.Exporter(func(reflect.Type) bool { return true }), cmp.Comparer(func(a, b *sched.Table) bool { return true })); d != "" {
			t.Errorf("%s: a network that has come again is known otherwise than one that is new: %s", name, d)
		}
	}
}

// A network's thresholds depend neither on the networks listed before it nor on whether the levels are meant for those.
func TestThetaKnowsItsNetwork(t *testing.T) {
	p := easing(t, 3)
	traffic := func(name string, exits int, ended int64) sched.Traffic {
		return sched.Traffic{Network: name, Gap: 1000, Arrived: 10, Ended: ended, Passed: make([]int64, exits), Left: make([]int64, exits)}
	}
	asks := func(waiting int, list ...sched.Traffic) (names []string) {
		s := state(linear(t, 3, 8, 10, 2), nil, requests(1, waiting, 1e9)...)
		s.Traffic = list
		for _, a := range p.Decide(0, s, &sched.Event{}, nil) {
			if a.Kind == sched.SetTheta {
				names = append(names, a.Network)
			}
		}
		return names
	}
	steps := []struct {
		what    string
		waiting int
		seen    []sched.Traffic
		want    []string
	}{
		{"n alone, nothing saved", 8, []sched.Traffic{traffic("n", 3, 0)}, nil},
		{"another comes in front, that has saved", 8, []sched.Traffic{traffic("m", 3, 1000), traffic("n", 3, 0)}, []string{"m"}},
		{"one without such exits in front", 8, []sched.Traffic{traffic("x", 2, 0), traffic("m", 3, 1000), traffic("n", 3, 1000)}, []string{"n"}},
		{"m has gone", 0, []sched.Traffic{traffic("x", 2, 0), traffic("n", 3, 1000)}, []string{"n"}},
	}
	for _, c := range steps {
		if got := asks(c.waiting, c.seen...); !cmp.Equal(got, c.want) {
			t.Errorf("%s: thresholds of %v are set, expected %v", c.what, got, c.want)
		}
	}
}
