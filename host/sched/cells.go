// This file has latency tables with times per number of units, the quantiles P95 and P99, and data for predictors.

package sched

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/predict"
)

// Cell is the measured or estimated time of the segments First..Last of a network on a device, for a batch size and a
// number of units (0: the whole device). A P95 or P99 of 0 is unknown.
type Cell struct {
	First, Last, Batch, Units int
	P50, P95, P99             Time
}

// Throughput has, for each resource of a device, the share (0..1) that a segment uses when it runs alone. The resources
// are level-1 and level-2 cache, DRAM, tensor cores, FMA pipes, and capacity for threads.
type Throughput = predict.Use

// NewTableOf builds a table from cells. The cells for each number of units must have the same spans and batch sizes,
// and must be complete (NewTable). Cells for the whole device have Units 0. If there are no such cells, the table with
// the largest number of units is used for the whole device. Quantiles must not decrease: p50 <= P95 <= P99.
func NewTableOf(network string, cells []Cell) (*Table, error) {
	var units []int
	for _, c := range cells {
		if c.Units < 0 || c.P95 != 0 && c.P95 < c.P50 || c.P99 != 0 && c.P99 < max(c.P50, c.P95) {
			return nil, fmt.Errorf("%w of %s: segments %d..%d at batch %d on %d units take %d, %d, %d ns", ErrTable, network, c.First, c.Last, c.Batch, c.Units, c.P50, c.P95, c.P99)
		}
		if !slices.Contains(units, c.Units) {
			units = append(units, c.Units)
		}
	}
	slices.Sort(units)
	var all []*Table
	for _, u := range units {
		t, err := tableOn(network, u, cells)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && (t.segments != all[0].segments || t.maxBatch != all[0].maxBatch) {
			return nil, fmt.Errorf("%w of %s: %d segments and batches up to %d on %d units, %d and %d on %d", ErrTable, network,
				t.segments, t.maxBatch, t.units, all[0].segments, all[0].maxBatch, all[0].units)
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w of %s: it has no entry", ErrTable, network)
	}
	whole := all[len(all)-1]
	if all[0].units == 0 {
		whole, all = all[0], all[1:]
	}
	whole.parts = all
	return whole, nil
}

// tableOn builds the table for one number of units.
func tableOn(network string, units int, cells []Cell) (*Table, error) {
	var e []bundle.LatencyEntry
	for _, c := range cells {
		if c.Units == units {
			e = append(e, bundle.LatencyEntry{Network: network, First: c.First, Last: c.Last, Batch: c.Batch, P50: c.P50})
		}
	}
	t, err := NewTable(e, network)
	if err != nil {
		return nil, fmt.Errorf("on %d units: %w", units, err)
	}
	t.units = units
	t.p95, t.p99 = slices.Clone(t.ns), slices.Clone(t.ns)
	for _, c := range cells {
		if i := t.index(c.First, c.Last, c.Batch); c.Units == units {
			t.p95[i] = max(c.P50, c.P95)
			t.p99[i] = max(t.p95[i], c.P99)
		}
	}
	return t, nil
}

// On returns the table for a launch on a number of units (0: the whole device). If there is none, it returns the table
// for the next smaller number of units. If there is no smaller number, it returns the table for the smallest number.
func (t *Table) On(units int) *Table {
	if units == 0 || len(t.parts) == 0 {
		return t
	}
	best := t.parts[0]
	for _, p := range t.parts {
		if p.units <= units {
			best = p
		}
	}
	return best
}

// Units returns the numbers of units with times in the table, in ascending order; nil: only the whole device.
func (t *Table) Units() []int {
	var out []int
	for _, p := range t.parts {
		out = append(out, p.units)
	}
	return out
}

// P95 returns the 95th percentile, or the median if the percentile is unknown.
func (t *Table) P95(first, last, batch int) Time {
	if t.p95 == nil {
		return t.At(first, last, batch)
	}
	return t.p95[t.index(first, last, batch)]
}

// P99 returns the 99th percentile. If this is unknown, it returns P95.
func (t *Table) P99(first, last, batch int) Time {
	if t.p99 == nil {
		return t.At(first, last, batch)
	}
	return t.p99[t.index(first, last, batch)]
}
