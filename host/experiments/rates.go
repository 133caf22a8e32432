// Rates measures goodput by arrival rate and policy.

package experiments

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// RatesConfig selects the runs of Rates.
type RatesConfig struct {
	Rates    []float64 // multiples of serial's capacity
	Policies []string
	Seeds    []uint64
	N        int
	SLO      int64
	Theta    Theta
	Clock    engine.Clock
	Workers  int
	// Open returns a device with the bundle loaded. Each worker opens a device, and closes it at the end.
	Open     func(context.Context) (device.Blocking, error)
	Progress func(done, of int)
}

// RatePoint is one run of Rates.
type RatePoint struct {
	Rate     float64        `json:"rate"` // multiple of serial's capacity
	PerSec   float64        `json:"per_second"`
	Policy   string         `json:"policy"`
	Seed     uint64         `json:"seed"`
	Summary  engine.Summary `json:"summary"`
	OnTime   float64        `json:"on_time_share"`
	Duration int64          `json:"end_ns"`
}

// Rates runs every rate with every seed and policy. The points are in the order of rate, policy and seed, for any
// number of workers.
func Rates(ctx context.Context, s *Setup, c RatesConfig) ([]RatePoint, error) {
	if len(c.Rates) == 0 || len(c.Policies) == 0 || len(c.Seeds) == 0 || c.N < 1 {
		return nil, fmt.Errorf("%w: %d rates, %d policies, %d seeds, %d requests", ErrSetup, len(c.Rates), len(c.Policies), len(c.Seeds), c.N)
	}
	capacity := 1e9 / s.Service(c.Theta)
	points := make([]RatePoint, 0, len(c.Rates)*len(c.Policies)*len(c.Seeds))
	for _, r := range c.Rates {
		for _, p := range c.Policies {
			for _, seed := range c.Seeds {
				points = append(points, RatePoint{Rate: r, PerSec: r * capacity, Policy: p, Seed: seed})
			}
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	var (
		mu   sync.Mutex
		next int
		done int
	)
	for range max(1, min(c.Workers, len(points))) {
		all.Go(func() error {
			dev, err := c.Open(ctx)
			if err != nil {
				return err
			}
			defer dev.Close()
			for {
				if err := ctx.Err(); err != nil {
					return err
				}
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(points) {
					return nil
				}
				p := &points[i]
				res, err := s.Run(ctx, dev, Point{
					Policy: p.Policy, Rate: p.PerSec, SLO: c.SLO, Theta: c.Theta, Seed: p.Seed, N: c.N, Clock: c.Clock, Keep: engine.Records,
				}, nil)
				if err != nil {
					return err
				}
				p.Summary = res.Summary()
				p.OnTime, p.Duration = float64(p.Summary.OnTime)/float64(p.Summary.Requests), res.End
				mu.Lock()
				done++
				if c.Progress != nil {
					c.Progress(done, len(points))
				}
				mu.Unlock()
			}
		})
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("bench rates: %w", err)
	}
	return points, nil
}

// Rows averages goodput, violation rate, latencies and busy share over the seeds of each rate and policy.
func Rows(prefix string, points []RatePoint) []frame.Row {
	metrics := []frame.Metric[RatePoint]{
		{Name: "goodput", Of: func(p RatePoint) float64 { return p.Summary.Goodput }},
		{Name: "violation_rate", Of: func(p RatePoint) float64 { return float64(p.Summary.Violations) / float64(p.Summary.Requests) }},
		{Name: "avg_ns", Of: func(p RatePoint) float64 { return float64(p.Summary.Latency.Avg) }},
		{Name: "p50_ns", Of: func(p RatePoint) float64 { return float64(p.Summary.Latency.P50) }},
		{Name: "p99_ns", Of: func(p RatePoint) float64 { return float64(p.Summary.Latency.P99) }},
		{Name: "busy", Of: func(p RatePoint) float64 { return p.Summary.Busy }},
		{Name: "mean_batch", Of: func(p RatePoint) float64 { return p.Summary.MeanBatch }},
		{Name: "calls", Of: func(p RatePoint) float64 { return float64(p.Summary.Calls) }},
		{Name: "preemptions", Of: func(p RatePoint) float64 { return float64(p.Summary.Preemptions) }},
	}
	var rows []frame.Row
	for i := 0; i < len(points); {
		j := i
		for j < len(points) && points[j].Rate == points[i].Rate && points[j].Policy == points[i].Policy {
			j++
		}
		row := frame.Row{Setting: fmt.Sprintf("%s/%.2f", prefix, points[i].Rate), Policy: points[i].Policy, HeldOut: true}
		rows = append(rows, frame.Rows(row, points[i:j], metrics)...)
		i = j
	}
	return rows
}
