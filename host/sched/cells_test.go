package sched_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/host/sched"
)

// cells returns cells of two segments and batches 1 and 2 on the given units: 1000 ns per segment and sample, divided
// by the units.
func cells(units ...int) []sched.Cell {
	var out []sched.Cell
	for _, u := range units {
		for first := range 2 {
			for last := first; last < 2; last++ {
				for b := 1; b <= 2; b++ {
					t := int64(1000*(last-first+1)*b) / int64(max(1, u))
					if u == 0 {
						t = 7
					}
					out = append(out, sched.Cell{First: first, Last: last, Batch: b, Units: u, P50: t, P95: t + 1, P99: t + 5})
				}
			}
		}
	}
	return out
}

func TestTablesWithUnits(t *testing.T) {
	tab, err := sched.NewTableOf("n", cells(4, 2, 10))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(tab.Units(), []int{2, 4, 10}) {
		t.Errorf("units %v", tab.Units())
	}
	for units, want := range map[int]int64{0: 200, 1: 1000, 2: 1000, 3: 1000, 4: 500, 9: 500, 10: 200, 99: 200} {
		if got := tab.On(units).At(0, 1, 1); got != want {
			t.Errorf("on %d units: %d ns, want %d", units, got, want)
		}
	}
	if p := tab.On(4); p.P95(1, 1, 2) != 501 || p.P99(1, 1, 2) != 505 {
		t.Errorf("p95 %d, p99 %d", p.P95(1, 1, 2), p.P99(1, 1, 2))
	}
	if tab, err = sched.NewTableOf("n", cells(0, 4)); err != nil || tab.At(0, 0, 1) != 7 || tab.On(4).At(0, 0, 1) != 250 {
		t.Errorf("whole device: %v", err)
	}
	for name, c := range map[string][]sched.Cell{
		"nothing":          nil,
		"a cell is twice":  append(cells(4), cells(4)[0]),
		"a cell is gone":   cells(2, 4)[1:],
		"another batch":    append(cells(4), sched.Cell{Batch: 1, Units: 2, P50: 1}),
		"quantiles fall":   append(cells(4), sched.Cell{Batch: 1, Units: 2, P50: 5, P95: 4}),
		"negative units":   {{Batch: 1, Units: -1, P50: 1}},
		"no time":          {{Batch: 1}},
		"backwards":        {{First: 1, Batch: 1, P50: 1}},
		"batch 0":          {{P50: 1}},
		"endless segments": {{Last: 1 << 40 >> 20, Batch: 1, P50: 1}},
	} {
		if _, err := sched.NewTableOf("n", c); !errors.Is(err, sched.ErrTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any cells give a table or ErrTable, never a panic.
func TestAnyCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(-1, 3)
		c := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sched.Cell {
			return sched.Cell{
				First: small.Draw(t, "first"), Last: small.Draw(t, "last"), Batch: small.Draw(t, "batch"), Units: small.Draw(t, "units"),
				P50: rapid.Int64Range(-1, 3).Draw(t, "p50"), P95: rapid.Int64Range(-1, 3).Draw(t, "p95"), P99: rapid.Int64Range(-1, 3).Draw(t, "p99"),
			}
		}), 0, 6).Draw(t, "cells")
		tab, err := sched.NewTableOf("n", c)
		if err != nil {
			if !errors.Is(err, sched.ErrTable) {
				t.Fatal(err)
			}
			return
		}
		for u := range 5 {
			if p := tab.On(u); p.P99(0, 0, 1) < p.P95(0, 0, 1) || p.P95(0, 0, 1) < p.At(0, 0, 1) {
				t.Fatalf("quantiles fall on %d units", u)
			}
		}
	})
}
