// This file computes statistics of a run in constant memory.

package engine

import (
	"math/bits"

	"github.com/sluice-npu/sluice/host/sched"
)

// fine is the number of histogram buckets between two successive powers of two.
const fine = 1 << 10

// Stream has the statistics of requests that every run stores.
type Stream struct {
	Requests int64                    `json:"requests"`
	Endings  [sched.Errored + 1]int64 `json:"endings"` // by Ending
	Exits    []int64                  `json:"exits"`   // number of results by exit
	Sum      float64                  `json:"sum_ns"`  // sum of the latencies
	Hist     Histogram                `json:"-"`       // histogram of the latencies
}

func (s *Stream) take(r *Record) {
	s.Requests++
	s.Endings[r.Ending]++
	if r.Ending != OnTime && r.Ending != Late {
		return
	}
	if r.Exit >= 0 && r.Exit < len(s.Exits) {
		s.Exits[r.Exit]++
	}
	s.Sum += float64(r.Latency())
	s.Hist.Add(r.Latency())
}

// Histogram counts times in ns. Each value below 2048 ns has its own bucket. Larger values share a bucket if they have
// the same number of bits and the same first 11 bits, so quantiles are exact to 0.1 %.
type Histogram struct {
	counts []int64
	n      int64
}

// Add counts a time. Negative times count as 0.
func (h *Histogram) Add(ns int64) {
	i := bucket(max(0, ns))
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.n++
}

func bucket(ns int64) int {
	v := uint64(ns)
	if v < 2*fine {
		return int(v)
	}
	shift := bits.Len64(v) - 11
	return shift*fine + int(v>>shift)
}

// highest is the largest value that belongs to bucket i.
func highest(i int) int64 {
	if i < 2*fine {
		return int64(i)
	}
	shift := i/fine - 1
	return int64((uint64(i%fine+fine)+1)<<shift - 1)
}

// Quantile returns the quantile q of the counted values, or up to 0.1 % more; -1 if there are no values.
func (h *Histogram) Quantile(q float64) int64 {
	if h.n == 0 {
		return -1
	}
	left := rank(q, h.n)
	for i, c := range h.counts {
		if left -= c; left <= 0 {
			return highest(i)
		}
	}
	return highest(len(h.counts) - 1)
}
