package exact

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/host/jellyfish"
)

var (
	seed = flag.Uint64("seed", 1, "of the random instances")
	n    = flag.Int("n", 80, "random instances")
)

// brute is the best sum of accuracy and rate over all assignments of all clients to workers, each worker with its
// best network and batch; 0 if no assignment maps all clients.
func brute(p *jellyfish.Problem) float64 {
	n := len(p.Clients)
	best := 0.0
	where := make([]int, n)
	for {
		sum, ok := 0.0, true
		for w := 0; w < p.Workers && ok; w++ {
			rate, value := 0, -1.0
			for i := range where {
				if where[i] == w {
					rate += p.Clients[i].Rate
				}
			}
			for j := range p.Zoo {
				for b, l := range p.Zoo[j].P99 {
					fits := jellyfish.Time(rate)*l <= jellyfish.Time(b+1)*1e9
					for i := range where {
						fits = fits && (where[i] != w || 2*l <= jellyfish.Aligned(&p.Clients[i], p.Zoo, j))
					}
					if fits {
						value = max(value, p.Zoo[j].Accuracy*float64(rate))
					}
				}
			}
			if rate > 0 {
				ok = value >= 0
				sum += value
			}
		}
		if ok {
			best = max(best, sum)
		}
		i := 0
		for ; i < n; i++ {
			if where[i]++; where[i] < p.Workers {
				break
			}
			where[i] = 0
		}
		if i == n {
			return best
		}
	}
}

func draw(k, workers, clients int) *jellyfish.Problem {
	rng := rand.New(rand.NewPCG(*seed, uint64(k)))
	var c []jellyfish.Client
	for range clients {
		c = append(c, jellyfish.Client{
			Rate: []int{10, 15, 25}[rng.IntN(3)], SLO: []jellyfish.Time{75e6, 100e6, 150e6}[rng.IntN(3)], Bandwidth: 7.5e6 + rng.Float64()*42.5e6,
		})
	}
	zoo := jellyfish.Synthetic(1 + rng.Float64()) // also slower ones, so that few clients fill a worker
	p, err := jellyfish.NewProblem(zoo, c, workers, jellyfish.Aligned)
	if err != nil {
		panic(err)
	}
	return p
}

// On small instances the result equals an exhaustive search, by each of the methods; no bound is below it, and no
// selection above it.
func TestSolve(t *testing.T) {
	t.Logf("--seed %d --n %d", *seed, *n)
	tight, possible := 0, 0
	for k := range *n {
		workers := []int{1, 2, 3, 4}[k%4]
		p := draw(k, workers, []int{9, 10, 7, 6}[k%4])
		rate := 0
		for i := range p.Clients {
			rate += p.Clients[i].Rate
		}
		want := brute(p) / float64(rate)
		s := newSolver(p)
		s.limit, s.best = math.MaxInt, -1
		s.branch(0, 0)
		if got := max(0, s.best) / float64(s.total); math.Abs(got-want) > 1e-7 {
			t.Errorf("instance %d: %g by branch and bound, %g by trying everything", k, got, want)
		}
		a, err := Solve(p, 0, math.MaxInt)
		if err != nil || !a.Proved || math.Abs(a.Accuracy-want) > 1e-7 {
			t.Errorf("instance %d: %+v, %v; %g by trying everything", k, a, err, want)
		}
		o, err := Solve(p, 0.9*want, 0)    // steps stop at the known optimum
		ended := want == 0 && o.Nodes == 0 // no client fits anywhere: nothing to search
		if err != nil || o.Proved != (p.Workers == 4 || ended) || o.Accuracy < want-1e-7 {
			t.Errorf("instance %d: a bound of %+v, %v; %g is possible", k, o, err, want)
		}
		if want > 0 {
			possible++
			if o.Accuracy < 1.05*want {
				tight++
			}
		}
		for _, sel := range []jellyfish.Selector{jellyfish.Annealing{}, jellyfish.Search{}} {
			c := sel.Select(p, nil, 1)
			if c.Mapping.Mapped == len(p.Clients) && c.Mapping.Accuracy > want+1e-7 {
				t.Errorf("instance %d: %s has %g, %g is the best", k, sel.Name(), c.Mapping.Accuracy, want)
			}
		}
	}
	if 4*tight < 3*possible || possible < *n/4 {
		t.Errorf("%d of %d bounds are within 5 %%, of %d instances", tight, possible, *n)
	}
	if _, err := Solve(draw(0, 5, 193), 0, 1); err == nil {
		t.Error("193 clients are accepted")
	}
}

// Beyond 64 clients or 4 workers there is only a bound: no selection that maps all clients is above it, and none far
// below.
func TestWide(t *testing.T) {
	for k, c := range []struct{ workers, clients int }{{8, 32}, {8, 72}, {12, 100}, {5, 10}} {
		var all []jellyfish.Client
		rng := rand.New(rand.NewPCG(*seed, uint64(k)))
		for range c.clients {
			all = append(all, jellyfish.Client{Rate: []int{10, 15}[rng.IntN(2)], SLO: 150e6, Bandwidth: 7.5e6 + rng.Float64()*42.5e6})
		}
		p, err := jellyfish.NewProblem(jellyfish.Synthetic(1), all, c.workers, jellyfish.Aligned)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Solve(p, 0, math.MaxInt)
		if err != nil || a.Proved {
			t.Errorf("%+v: %+v, %v", c, a, err)
		}
		got := jellyfish.Search{}.Select(p, nil, 1).Mapping
		t.Logf("%+v: %d mapped, %.4f, bound %.4f", c, got.Mapped, got.Accuracy, a.Accuracy)
		if got.Mapped != c.clients || got.Accuracy > a.Accuracy+1e-9 || got.Accuracy < 0.97*a.Accuracy {
			t.Errorf("%+v: %d mapped with %g, the bound is %g", c, got.Mapped, got.Accuracy, a.Accuracy)
		}
	}
}
