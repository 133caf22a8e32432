// DNN selection by search: ours.

package jellyfish

import (
	"math/rand/v2"
	"slices"
)

// Search is an iterated local search. Beside a network it chooses for each worker the least batch that a
// client's budget must allow there (a Kind): without that, one client with a tight budget halves what a
// network serves, and algorithm 1 takes it whenever the sum of rates is the same. Every set is mapped with
// both ties and, where that leaves somebody out, in ascending order too: the largest sum for the largest
// network may be what the others cannot do without. From the previous set and from the best of equal networks one worker's kind is replaced as
// long as that gains, then two workers' networks against each other; when nothing gains, two workers are
// changed at random and it begins again from there, until its tries are spent.
type Search struct {
	Work int // mappings tried times workers times clients; 0: 1,500,000, some 20 ms
}

// Name implements Selector.
func (Search) Name() string { return "search" }

// climb is a search under way.
type climb struct {
	p      *Problem
	m      *Mapper
	rng    *rand.Rand
	floors [][]int // by network: the batches that make a difference as a least one
	now    []Kind
	value  Mapping // of now
	best   Choice
	next   []Kind
	then   Mapping
	limit  int
}

// Select implements Selector.
func (s Search) Select(p *Problem, previous []int, seed uint64) Choice {
	work := s.Work
	if work == 0 {
		work = 1_500_000
	}
	c := &climb{
		p: p, m: NewMapper(p), rng: rand.New(rand.NewPCG(seed, 0x7365617263)), floors: make([][]int, len(p.Zoo)),
		now: make([]Kind, p.Workers), next: make([]Kind, p.Workers),
		limit: min(5000, max(100, work/max(1, p.Workers*len(p.Clients)))),
	}
	for j := range p.Zoo {
		for _, b := range p.most[j] {
			if b > 0 && !slices.Contains(c.floors[j], int(b)) {
				c.floors[j] = append(c.floors[j], int(b))
			}
		}
		slices.Sort(c.floors[j])
		if len(c.floors[j]) == 0 {
			c.floors[j] = []int{1}
		}
	}
	c.best.Mapping.Mapped, c.value.Mapped = -1, -1
	for i, j := range start(p, previous) {
		c.next[i] = Kind{j, 1}
	}
	c.try()
	c.up()
	c.keep()
	c.value.Mapped = -1
	for j := range p.Zoo {
		for i := range c.next {
			c.next[i] = Kind{j, 1}
		}
		c.try()
	}
	c.up()
	c.keep()
	kinds := slices.Clone(c.now)
	for c.best.Tried < c.limit && p.Workers*len(p.Zoo) > 1 {
		copy(c.next, kinds)
		for range min(2, p.Workers) {
			j := c.rng.IntN(len(p.Zoo))
			c.next[c.rng.IntN(len(c.next))] = Kind{j, c.floors[j][c.rng.IntN(len(c.floors[j]))]}
		}
		c.value.Mapped = -1
		c.try()
		c.up()
		if c.keep() {
			copy(kinds, c.now)
		}
	}
	return c.best
}

// try maps to next, and goes there where it is better than now.
func (c *climb) try() bool {
	slices.SortFunc(c.next, func(a, b Kind) int {
		if a.Net != b.Net {
			return b.Net - a.Net
		}
		return b.Least - a.Least
	})
	won := false
	for turn := range 2 {
		for _, tie := range [2]Tie{Ample, Tight} {
			c.m.Map(c.next, tie, &c.then)
			c.best.Tried++
			if c.then.better(&c.value) {
				c.value.copy(&c.then)
				copy(c.now, c.next)
				won = true
			}
		}
		if turn == 0 {
			if c.then.Mapped == len(c.p.Clients) {
				break
			}
			slices.Reverse(c.next)
		}
	}
	return won
}

// keep keeps what now is, where it is better than the best, and tells whether it is no worse: of sets of
// the same worth the first found stays, which is the previous one where that is among them.
func (c *climb) keep() bool {
	if c.best.Mapping.better(&c.value) {
		return false
	}
	if c.value.better(&c.best.Mapping) {
		c.best.Mapping.copy(&c.value)
		c.best.Nets = c.best.Nets[:0]
		for _, k := range c.now {
			c.best.Nets = append(c.best.Nets, k.Net)
		}
	}
	return true
}

// up climbs as far as it can.
func (c *climb) up() {
	for c.one() || c.two() {
	}
}

// one replaces one worker's kind by a better one.
func (c *climb) one() bool {
	won := false
	for i := range c.now {
		if i > 0 && c.now[i] == c.now[i-1] { // the same set again
			continue
		}
		for j := len(c.p.Zoo) - 1; j >= 0; j-- {
			for _, least := range c.floors[j] {
				if c.best.Tried >= c.limit {
					return false
				}
				to := Kind{j, least}
				if to == c.now[i] {
					continue
				}
				copy(c.next, c.now)
				c.next[i] = to
				won = c.try() || won
			}
		}
	}
	return won
}

// two replaces two networks, one by a larger and one by a smaller one, up to three sizes away.
func (c *climb) two() bool {
	for i := range c.now {
		for k := range c.now {
			for step := range 9 {
				up, down := step/3+1, step%3+1
				if k == i || c.now[i].Net+up >= len(c.p.Zoo) || c.now[k].Net-down < 0 {
					continue
				}
				if c.best.Tried >= c.limit {
					return false
				}
				copy(c.next, c.now)
				c.next[i] = Kind{c.now[i].Net + up, 1}
				c.next[k] = Kind{c.now[k].Net - down, c.now[k].Least}
				if c.try() {
					return true
				}
			}
		}
	}
	return false
}
