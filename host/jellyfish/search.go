// This file selects networks by a search that is not in the publication.

package jellyfish

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Search is simulated annealing with more choices than in the publication. For each worker it also chooses a minimum
// batch (Kind.Least): the worker accepts only clients with budgets that allow a batch of this size. Without a minimum,
// one client with a tight budget can halve the rate that a network serves, and algorithm 1 selects such a client if the
// sums of rates are equal. A step changes one or two workers, not all workers. Each step chooses at random a Tie, and
// whether clients are selected for the largest network first or last. "Last" can be better if smaller networks need
// clients that the largest network would otherwise take. The search starts at the previous set or at the best set of
// equal networks. Its temperature falls over all annealing steps. At the end, the search tries to replace each worker's
// kind, as long as the result improves.
type Search struct {
	Work int // limit for mappings * workers * clients; 0: 1,200,000, about 6 ms
}

// Name implements Selector.
func (Search) Name() string { return "search" }

// walk is a search in progress.
type walk struct {
	p      *Problem
	m      *Mapper
	rng    *rand.Rand
	floors [][]int // by network: the values of Kind.Least with different results
	kinds  []Kind  // kinds of the best set
	best   Choice
	next   []Kind
	then   Mapping
}

// Select implements Selector.
func (s Search) Select(p *Problem, previous []int, seed uint64) Choice {
	work := cmp.Or(s.Work, 1_200_000)
	limit := min(4000, max(100, work/max(1, p.Workers*len(p.Clients))))
	w := &walk{
		p: p, m: NewMapper(p), rng: rand.New(rand.NewPCG(seed, 0x7365617263)), floors: make([][]int, len(p.Zoo)),
		kinds: make([]Kind, p.Workers), next: make([]Kind, p.Workers),
	}
	for j := range p.Zoo {
		w.floors[j] = []int{1}
		for _, b := range p.most[j] {
			if b > 1 && !slices.Contains(w.floors[j], int(b)) {
				w.floors[j] = append(w.floors[j], int(b))
			}
		}
	}
	w.best.Mapping.Mapped = -1
	copy(w.next, Plain(start(p, previous)))
	w.both()
	for j := range p.Zoo {
		for i := range w.next {
			w.next[i] = Kind{j, 1}
		}
		w.both()
	}
	if len(p.Zoo) > 1 && len(p.Clients) > 0 {
		w.cool(limit * 7 / 10)
		for w.best.Tried < limit && w.climb(limit) {
		}
	}
	return w.best
}

// try maps clients to the kinds in next. It stores the result in best if the result is better than best. Of equal sets,
// the first set remains in best. The search begins with the previous choice, so the previous choice remains if no set
// is better.
func (w *walk) try(tie Tie, last bool) bool {
	w.best.Tried++
	slices.SortFunc(w.next, func(a, b Kind) int {
		if a.Net != b.Net {
			return b.Net - a.Net
		}
		return b.Least - a.Least
	})
	if last {
		slices.Reverse(w.next)
	}
	w.m.Map(w.next, tie, &w.then)
	if !w.then.better(&w.best.Mapping) {
		return false
	}
	w.best.Mapping.copy(&w.then)
	if last { // a Choice is in descending order
		slices.Reverse(w.best.Mapping.Batch)
		for i, k := range w.best.Mapping.Worker {
			if k >= 0 {
				w.best.Mapping.Worker[i] = len(w.next) - 1 - k
			}
		}
		slices.Reverse(w.next)
	}
	copy(w.kinds, w.next)
	w.best.Nets = w.best.Nets[:0]
	for _, k := range w.next {
		w.best.Nets = append(w.best.Nets, k.Net)
	}
	return true
}

// both maps clients to the kinds in next, with each Tie. If a client is unmapped, both also maps in the reverse order.
func (w *walk) both() bool {
	won := w.try(Ample, false)
	won = w.try(Tight, false) || won
	if w.then.Mapped < len(w.p.Clients) {
		won = w.try(Ample, true) || won
		won = w.try(Tight, true) || won
	}
	return won
}

// worth returns the value that the annealing maximises. The number of mapped clients weighs more than the accuracy.
func (w *walk) worth(m *Mapping) float64 {
	return 10*float64(m.Mapped)/float64(len(w.p.Clients)) + m.Accuracy
}

// cool anneals over the given number of steps, between the publication's first and last temperature.
func (w *walk) cool(steps int) {
	now, worth := slices.Clone(w.kinds), w.worth(&w.best.Mapping)
	const first, last = 0.0125, 0.0005
	down := math.Pow(last/first, 1/float64(max(1, steps)))
	for t := float64(first); w.best.Tried < steps; t *= down {
		copy(w.next, now)
		i := w.rng.IntN(len(w.next))
		w.move(i, 1-2*w.rng.IntN(2))
		if k := w.rng.IntN(2 * len(w.next)); k < len(w.next) && k != i {
			w.move(k, 1-2*w.rng.IntN(2))
		}
		w.try(Tie(w.rng.IntN(2)), w.rng.IntN(8) == 0)
		if then := w.worth(&w.then); then > worth || math.Exp((then-worth)/t) > w.rng.Float64() {
			copy(now, w.next)
			worth = then
		}
	}
}

// move replaces a worker's network with a network up to two sizes larger or smaller, or changes its minimum batch.
func (w *walk) move(i, by int) {
	k := &w.next[i]
	if w.rng.IntN(3) == 0 {
		by *= 2
	}
	if w.rng.IntN(4) > 0 {
		k.Net = min(max(k.Net+by, 0), len(w.p.Zoo)-1)
		k.Least = 1
	}
	if w.rng.IntN(3) == 0 {
		k.Least = w.floors[k.Net][w.rng.IntN(len(w.floors[k.Net]))]
	}
}

// climb replaces the kinds of the best set with better kinds, one after another.
func (w *walk) climb(limit int) bool {
	won := false
	for i := range w.kinds {
		if i > 0 && w.kinds[i] == w.kinds[i-1] { // the result would be the same set again
			continue
		}
		for d := 1; d < len(w.p.Zoo); d++ {
			for _, j := range [2]int{w.kinds[i].Net + d, w.kinds[i].Net - d} {
				if j < 0 || j >= len(w.p.Zoo) {
					continue
				}
				for _, least := range w.floors[j] {
					if w.best.Tried >= limit {
						return false
					}
					copy(w.next, w.kinds)
					w.next[i] = Kind{j, least}
					if w.both() {
						return true
					}
				}
			}
		}
	}
	return won
}
