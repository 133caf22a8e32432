// This file has the latency table T[first][last][batch], in a form that a policy can read in a few ns.

package sched

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// ErrTable is the error of a latency table with a missing or impossible cell.
var ErrTable = errors.New("latency table")

// MaxSegments limits the segments of a network in a table. It is large enough for one segment per layer.
const MaxSegments = 256

// Table is T[first][last][batch] in ns: the time of the segments first..last, both included, for a constant batch
// size.
type Table struct {
	segments, maxBatch int
	ns                 []Time

	// The fields below are for tables from cells (NewTableOf).
	units    int      // 0: the whole device
	parts    []*Table // tables by number of units, in ascending order
	p95, p99 []Time

	// CopyBytes is the size of a sample's input in bytes; 0: unknown. Copies is the transfer time of a batch's inputs
	// if there is no other transfer, indexed by batch - 1. Use is indexed by segment and batch - 1. nil: unknown.
	CopyBytes int64
	Copies    []Time
	Use       [][]Throughput
}

// NewTable builds a table from the p50 of a network's entries. Every cell with first <= last and a batch up to the
// largest must occur exactly once and be positive. Measured times need not increase with the span or the batch.
func NewTable(entries []bundle.LatencyEntry, network string) (*Table, error) {
	t := &Table{}
	for _, e := range entries {
		if e.Network != network {
			continue
		}
		if e.First < 0 || e.Last < e.First || e.Last >= MaxSegments || e.Batch < 1 || e.Batch > 1024 {
			return nil, fmt.Errorf("%w of %s: segments %d..%d at batch %d are out of range", ErrTable, network, e.First, e.Last, e.Batch)
		}
		t.segments, t.maxBatch = max(t.segments, e.Last+1), max(t.maxBatch, e.Batch)
	}
	if t.segments == 0 {
		return nil, fmt.Errorf("%w of %s: it has no entry", ErrTable, network)
	}
	t.ns = make([]Time, t.segments*t.segments*t.maxBatch)
	for _, e := range entries {
		if e.Network != network {
			continue
		}
		cell := &t.ns[t.index(e.First, e.Last, e.Batch)]
		switch {
		case e.P50 <= 0:
			return nil, fmt.Errorf("%w of %s: segments %d..%d at batch %d take %d ns", ErrTable, network, e.First, e.Last, e.Batch, e.P50)
		case *cell != 0:
			return nil, fmt.Errorf("%w of %s: duplicate entry for segments %d..%d at batch %d", ErrTable, network, e.First, e.Last, e.Batch)
		}
		*cell = e.P50
	}
	if err := t.complete(network); err != nil {
		return nil, err
	}
	return t, nil
}

// complete returns an error if a cell of the table is missing.
func (t *Table) complete(network string) error {
	for first := range t.segments {
		for last := first; last < t.segments; last++ {
			for b := 1; b <= t.maxBatch; b++ {
				if t.At(first, last, b) == 0 {
					return fmt.Errorf("%w of %s: segments %d..%d at batch %d are missing", ErrTable, network, first, last, b)
				}
			}
		}
	}
	return nil
}

func (t *Table) index(first, last, batch int) int {
	return (first*t.segments+last)*t.maxBatch + batch - 1
}

// Segments returns the number of segments, which is also the number of exits.
func (t *Table) Segments() int { return t.segments }

// MaxBatch returns the largest batch size in the table.
func (t *Table) MaxBatch() int { return t.maxBatch }

// At is T[first][last][batch] in ns. The arguments must be in range: 0 <= first <= last < Segments, 1 <= batch <= MaxBatch.
func (t *Table) At(first, last, batch int) Time { return t.ns[t.index(first, last, batch)] }

// Alone returns the time of one request alone through the whole network, in ns. Under the policy "serial" this is the
// service time of a request that does not leave early.
func (t *Table) Alone() Time { return t.At(0, t.segments-1, 1) }

// Uniform returns a table in which every segment takes ns nanoseconds for any batch size. A span takes the sum of the
// times of its segments.
func Uniform(network string, segments, batch int, ns Time) (*Table, error) {
	var e []bundle.LatencyEntry
	for first := range segments {
		for last := first; last < segments; last++ {
			for b := 1; b <= batch; b++ {
				t := ns * Time(last-first+1)
				e = append(e, bundle.LatencyEntry{Network: network, First: first, Last: last, Batch: b, P50: t, P99: t})
			}
		}
	}
	return NewTable(e, network)
}
