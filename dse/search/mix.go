package search

import (
	"fmt"
	"math"
	"strings"
)

// Part is a network of a workload.
type Part struct {
	Name     string  `json:"name"`
	First    int     `json:"first"` // index of its first segment in the workload
	Segments int     `json:"segments"`
	Share    float64 `json:"share"` // share of the requests
	MACs     int64   `json:"macs"`
}

// Mix combines several networks on one design. The requests are divided among them in proportion to shares.
// All values then refer to the mean request: its latency, and its operations divided by its cycles.
func Mix(ws []*Workload, shares []float64) (*Workload, error) {
	if len(ws) == 0 || len(shares) != len(ws) {
		return nil, fmt.Errorf("%w: %d networks and %d shares", ErrWeights, len(ws), len(shares))
	}
	if len(ws) == 1 {
		return ws[0], nil
	}
	sum := 0.0
	for _, v := range shares {
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%w: a network's share is %v, must be more than 0", ErrWeights, v)
		}
		sum += v
	}
	m := &Workload{mix: ws}
	var names []string
	for i, w := range ws {
		if w.mix != nil {
			return nil, fmt.Errorf("%w: a mix of mixes", ErrWeights)
		}
		share := shares[i] / sum
		m.Parts = append(m.Parts, Part{Name: w.Name, First: m.Segments, Segments: w.Segments, Share: share, MACs: w.MACs})
		m.Segments += w.Segments
		m.SegMACs = append(m.SegMACs, w.SegMACs...)
		m.meanMACs += share * float64(w.MACs)
		names = append(names, w.Name)
	}
	m.MACs, m.Name = int64(math.Round(m.meanMACs)), strings.Join(names, "+")
	return m, nil
}

// mean returns the mean number of cycles of a request at a batch size. Each network is weighted by its share of the
// requests. Each segment is also weighted by its share in reach. If reach is nil, all requests run all segments.
func (w *Workload) mean(c Cycles, batch int, reach []float64) float64 {
	if reach == nil && len(w.Parts) == 1 {
		return float64(c.Sum(batch))
	}
	sum := 0.0
	for _, p := range w.Parts {
		part := 0.0
		for i := p.First; i < p.First+p.Segments; i++ {
			if reach == nil {
				part += float64(c[batch-1][i])
			} else {
				part += reach[i] * float64(c[batch-1][i])
			}
		}
		sum += p.Share * part
	}
	return sum
}
