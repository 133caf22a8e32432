// This file selects networks by simulated annealing (algorithm 2).

package jellyfish

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Choice is the result of a selection.
type Choice struct {
	Nets    []int // a network for each worker, in descending order
	Mapping Mapping
	Tried   int // number of sets for which clients were mapped
}

// Selector chooses networks. previous contains the workers' current networks in any order; it is empty at the start.
// Equal arguments produce equal results.
type Selector interface {
	Name() string
	Select(p *Problem, previous []int, seed uint64) Choice
}

// start returns the first set of a search: the previous set, or the smallest networks.
func start(p *Problem, previous []int) []int {
	nets := make([]int, p.Workers)
	copy(nets, previous)
	for i := range nets {
		nets[i] = min(max(nets[i], 0), len(p.Zoo)-1)
	}
	descend(nets)
	return nets
}

func descend(nets []int) {
	slices.Sort(nets)
	slices.Reverse(nets)
}

// Annealing is the publication's algorithm 2 with two corrections. Lines 11 to 13 are moved out of the condition in
// line 9, inside which no worse set could be accepted. A worse set is accepted with probability exp(-|difference|/T).
type Annealing struct {
	T0, Least, Alpha float64 // first and last temperature, and cooling factor; T0 = 0: 0.0125, 0.0005, 0.99
}

// Name implements Selector.
func (Annealing) Name() string { return "annealing" }

// Modes of algorithm 2.
const (
	degrade = iota // until every client is mapped: a step keeps each network or selects the next smaller network
	upgrade        // after every client is mapped: a step can also select the next larger network
)

// Select implements Selector.
func (a Annealing) Select(p *Problem, previous []int, seed uint64) Choice {
	a = a.constants()
	rng := rand.New(rand.NewPCG(seed, 0x6a656c6c79))
	m := NewMapper(p)
	best := Choice{Nets: start(p, previous)}
	m.Map(Plain(best.Nets), Ample, &best.Mapping)
	best.Tried = 1
	nets, next, kinds := slices.Clone(best.Nets), make([]int, p.Workers), make([]Kind, p.Workers)
	var now, then Mapping
	for mode := degrade; mode <= upgrade; mode++ {
		copy(nets, best.Nets)
		now.copy(&best.Mapping)
		for t := a.T0; t > a.Least; t *= a.Alpha {
			if mode == degrade && now.Mapped == len(p.Clients) || mode == upgrade && nets[p.Workers-1] == len(p.Zoo)-1 {
				break
			}
			for i := range nets {
				step := rng.IntN(2+mode) - 1 // {-1, 0}, or {-1, 0, 1}
				next[i] = min(max(nets[i]+step, 0), len(p.Zoo)-1)
			}
			descend(next)
			for i, j := range next {
				kinds[i] = Kind{j, 1}
			}
			m.Map(kinds, Ample, &then)
			best.Tried++
			if then.better(&best.Mapping) {
				best.Mapping.copy(&then)
				copy(best.Nets, next)
			}
			diff := metric(&then, mode, len(p.Clients)) - metric(&now, mode, len(p.Clients))
			if accept(diff, t, rng) {
				copy(nets, next)
				now.copy(&then)
			}
		}
	}
	return best
}

// constants returns the constants in a, or the defaults of section IV-C if T0 is zero.
func (a Annealing) constants() Annealing {
	if a.T0 == 0 {
		return Annealing{0.0125, 0.0005, 0.99}
	}
	return a
}

// accept reports whether the search continues from a neighbour. diff is the improvement, and t the temperature. A worse
// neighbour is accepted at random.
func accept(diff, t float64, rng *rand.Rand) bool {
	return diff > 0 || math.Exp(-math.Abs(diff)/t) > rng.Float64()
}

// metric returns the value that a mode maximises.
func metric(m *Mapping, mode, clients int) float64 {
	if mode == degrade {
		return float64(m.Mapped) / float64(max(1, clients))
	}
	return m.Accuracy
}
