// A suite runs the cases of benches, each case once, with several workers. After an interruption, a suite can continue.

package fluid

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/shard"
)

// SuiteConfig selects the runs of a suite.
type SuiteConfig struct {
	Benches []Bench
	Seeds   []uint64
	N       int // number of requests per run
	Workers int
	Models  Models
	Traces  map[string][]int64 // by the trace's name: arrival times in ns; traces with the same name must be equal
	// Store stores results, so that an interrupted suite can continue; nil: results are not stored.
	Store    *Store
	Shards   *shard.Run // this process executes only some shards, one run after another; nil: all runs, in parallel
	Progress func(done, of int)
}

// Suite contains the results of all cases of its benches, and of further cases that claims require.
type Suite struct {
	SuiteConfig
	Rows    []frame.Row
	mu      sync.Mutex
	results map[Case]*Metrics
}

// cases returns the cases that the benches need, each case once, in order.
func (c *SuiteConfig) cases() []Case {
	var out []Case
	seen := map[Case]bool{}
	for i := range c.Benches {
		for _, s := range c.Benches[i].Settings {
			for _, v := range c.Benches[i].Variants {
				if !applies(v, s) {
					continue
				}
				for _, seed := range c.Seeds {
					k := Case{Setting: s, Policy: v.Policy, Mapping: v.Mapping, Seed: seed, N: c.N}
					if !seen[k] {
						seen[k] = true
						out = append(out, k)
					}
				}
			}
		}
	}
	return out
}

// Runs returns the number of the suite's runs.
func (c *SuiteConfig) Runs() int { return len(c.cases()) }

// applies reports whether a variant can run at a setting.
func applies(v Variant, s Setting) bool {
	return (!changesTheta(v.Policy) || s.Network == RealNetwork) && (!strings.HasSuffix(v.Mapping, own) || s.Bandwidth == 0)
}

// RunSuite runs every case without a result in the store. The results do not depend on the number of workers or on
// interruptions. The suite is nil if this process executes only some shards.
func RunSuite(ctx context.Context, c SuiteConfig) (*Suite, error) {
	if len(c.Seeds) == 0 || c.N < 1 || c.N > maxRequests || c.Models == nil {
		return nil, fmt.Errorf("%w: %d seeds, %d requests a run (1..%d)", experiments.ErrSetup, len(c.Seeds), c.N, maxRequests)
	}
	cases := c.cases()
	results, err := c.all(ctx, cases)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if over, err := c.Shards.Finish(); over || err != nil {
		return nil, err
	}
	s := &Suite{SuiteConfig: c, results: map[Case]*Metrics{}}
	for i := range cases {
		s.results[cases[i]] = results[i]
	}
	return s, s.rows(ctx)
}

// all returns the results of cases. If this process executes only some shards, only their results are returned.
func (c *SuiteConfig) all(ctx context.Context, cases []Case) (results []*Metrics, err error) {
	if c.Shards != nil {
		for r, err := range shard.Units(c.Shards, "runs", len(cases), func(i int) (*Metrics, error) { return c.one(ctx, &cases[i]) }) {
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
		return results, nil
	}
	results = make([]*Metrics, len(cases))
	all, running := errgroup.WithContext(ctx)
	all.SetLimit(max(1, c.Workers))
	var mu sync.Mutex
	done := 0
	for i := range cases {
		all.Go(func() (err error) {
			if err := running.Err(); err != nil {
				return err
			}
			if results[i], err = c.one(running, &cases[i]); err != nil || c.Progress == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			c.Progress(done, len(cases))
			return nil
		})
	}
	return results, all.Wait()
}

// one returns the result of a case. It runs the case if the store does not contain the result.
func (c *SuiteConfig) one(ctx context.Context, k *Case) (*Metrics, error) {
	key, err := k.key()
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", k.Policy, k.Setting, err)
	}
	m, err := c.Models.Model(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if c.Store != nil {
		if r := c.Store.get(k, m); r != nil {
			return r, nil
		}
	}
	r, err := k.Run(ctx, m, c.Traces)
	if err != nil || c.Store == nil {
		return r, err
	}
	return r, c.Store.put(k, m, r)
}

// Mean returns the mean of a metric over the suite's seeds, and the half width of its 95 % interval (nil with one
// seed). It returns false if a run is missing. For each seed, it subtracts the values of the variants in `less`. The
// differences are paired, because both variants serve the same requests.
func (s *Suite) Mean(setting Setting, v Variant, of func(*Metrics) float64, less ...Variant) (float64, *float64, bool) {
	var vals []float64
	for _, seed := range s.Seeds {
		x := 0.0
		for i, v := range append([]Variant{v}, less...) {
			m := s.of(setting, v, seed)
			if m == nil {
				return 0, nil, false
			}
			if i == 0 {
				x = of(m)
			} else {
				x -= of(m)
			}
		}
		vals = append(vals, x)
	}
	mean, half := frame.Interval(vals)
	return mean, half, true
}

// of returns the metrics of a run, or nil if the case was not run.
func (s *Suite) of(setting Setting, v Variant, seed uint64) *Metrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[Case{Setting: setting, Policy: v.Policy, Mapping: v.Mapping, Seed: seed, N: s.N}]
}

// run returns the metrics of a run. It executes the run if no bench has executed it.
func (s *Suite) run(ctx context.Context, setting Setting, v Variant, seed uint64) (*Metrics, error) {
	m := s.of(setting, v, seed)
	if m != nil {
		return m, nil
	}
	k := Case{Setting: setting, Policy: v.Policy, Mapping: v.Mapping, Seed: seed, N: s.N}
	m, err := s.one(ctx, &k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[k] = m
	return m, err
}

// rows computes the rows of all benches, in order.
func (s *Suite) rows(ctx context.Context) error {
	for i := range s.Benches {
		b := &s.Benches[i]
		for _, set := range b.Settings {
			for _, v := range b.Variants {
				if !applies(v, set) {
					continue
				}
				all := numbers
				if s.of(set, v, s.Seeds[0]).Accuracy != nil {
					all = append(all[:len(all):len(all)], frame.Metric[*Metrics]{Name: "accuracy", Of: func(m *Metrics) float64 { return *m.Accuracy }})
				}
				var runs []*Metrics
				for _, seed := range s.Seeds {
					runs = append(runs, s.of(set, v, seed))
				}
				more := frame.Rows(frame.Row{Bench: b.Name, Setting: set.String(), Policy: v.String(), HeldOut: HeldOut(set, v.Policy)}, runs, all)
				for i := range more {
					more[i].Published = Published(set, v.String(), more[i].Metric)
				}
				s.Rows = append(s.Rows, more...)
			}
		}
		if b.Tables != nil {
			t := &tabler{ctx: ctx, models: s.Models, bench: b.Name}
			if err := b.Tables(t); err != nil {
				return fmt.Errorf("bench %s: %w", b.Name, err)
			}
			s.Rows = append(s.Rows, t.rows...)
		}
	}
	s.Rows = append(s.Rows, append(s.plus("fluid+"), s.plus("fluid+last")...)...)
	return nil
}
