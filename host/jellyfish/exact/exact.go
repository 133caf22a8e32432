// Package exact solves problem P1 of Jellyfish (section IV-A) exactly, by branch and bound. If this needs too many
// nodes, Lagrangian relaxation gives a proven upper bound. The schedulers' selections are compared with these results.
// The package is too slow for scheduling.
package exact

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-npu/sluice/host/jellyfish"
)

// ErrSize is the error for a problem that is too large.
var ErrSize = errors.New("exact: problem too large")

// Answer is the solution. Accuracy has the same meaning as in jellyfish.Mapping.
type Answer struct {
	Accuracy float64 // accuracy of the best selection that maps all clients; if Proved is false: an upper bound
	Proved   bool    // Accuracy is exact
	Nodes    int
}

// kind is a possible configuration of a worker: a network and its largest batch.
type kind struct {
	net, batch int
	value      float64 // accuracy
	room       int
	fits       uint64 // clients with budgets that allow the batch, among the first 64 clients
	who        []int  // all clients with budgets that allow the batch
	load       int    // their total weight
}

// set is a set of clients.
type set [3]uint64

func (s *set) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

type solver struct {
	p        *jellyfish.Problem
	kinds    []kind // in descending order of networks
	total    int
	widest   int // the largest weight
	everyone uint64
	best     float64 // best sum of accuracy times weight
	nodes    int
	limit    int
	over     bool
	chosen   []int
	reach    []uint64
	next     []uint64
	inside   []uint64
}

// eps is the tolerance for sums of accuracy times weight.
const eps = 1e-9

// Solve finds the best selection that maps all clients. found is the accuracy of a known selection (0: none). If more
// than limit nodes are necessary, the result is a bound. With more than 64 clients or 4 workers, the result is always a
// bound. At most 192 clients are allowed.
func Solve(p *jellyfish.Problem, found float64, limit int) (Answer, error) {
	if len(p.Clients) > len(set{})*64 || len(p.Clients) == 0 {
		return Answer{}, fmt.Errorf("%w: %d clients, expected 1..%d", ErrSize, len(p.Clients), len(set{})*64)
	}
	s := newSolver(p)
	s.limit = limit
	s.best = found*float64(s.total) - eps
	if found <= 0 {
		s.best = -1
	}
	sum := float64(s.total)
	if len(p.Clients) <= partitions && p.Workers == 4 {
		return Answer{Accuracy: s.partition() / sum, Proved: true}, nil
	}
	if s.over = len(p.Clients) > 64 || p.Workers > 4; !s.over {
		s.branch(0, 0)
	}
	if !s.over {
		return Answer{Accuracy: max(0, s.best) / sum, Proved: true, Nodes: s.nodes}, nil
	}
	return Answer{Accuracy: s.bound(max(s.best, 0), 400) / sum, Nodes: s.nodes}, nil
}

func newSolver(p *jellyfish.Problem) *solver {
	s := &solver{p: p, chosen: make([]int, p.Workers)}
	for i := range p.Clients {
		s.total += p.Weight(i)
		s.widest = max(s.widest, p.Weight(i))
		s.everyone |= 1 << i
	}
	for j := len(p.Zoo) - 1; j >= 0; j-- {
		from := len(s.kinds)
		for b := len(p.Zoo[j].P99); b >= 1; b-- {
			k := kind{net: j, batch: b, value: p.Zoo[j].Accuracy, room: p.Room(j, b)}
			for i := range p.Clients {
				if p.Most(j, i) >= b {
					k.fits |= 1 << i
					k.who = append(k.who, i)
					k.load += p.Weight(i)
				}
			}
			k.room = min(k.room, k.load)
			// A batch size is unnecessary if a larger size serves the same clients, or if a smaller size has at least its room.
			if len(k.who) == 0 || len(s.kinds) > from && len(s.kinds[len(s.kinds)-1].who) == len(k.who) {
				continue
			}
			if n := len(s.kinds); n > from && s.kinds[n-1].room <= k.room { // all clients of a larger batch allow a smaller batch
				s.kinds = s.kinds[:n-1]
			}
			s.kinds = append(s.kinds, k)
		}
	}
	return s
}

func (s *solver) weigh(set uint64) int {
	sum := 0
	for ; set != 0; set &= set - 1 {
		sum += s.p.Weight(bits.TrailingZeros64(set))
	}
	return sum
}

// branch chooses the kinds of the workers with indices >= `at`. It allows only kinds with indices >= `from`.
func (s *solver) branch(at, from int) {
	for k := from; k < len(s.kinds) && !s.over; k++ {
		if s.nodes++; s.nodes > s.limit {
			s.over = true
			return
		}
		s.chosen[at] = k
		if s.above(at+1, k) <= s.best+eps {
			continue
		}
		if at+1 == len(s.chosen) {
			s.assign()
			continue
		}
		s.branch(at+1, k)
	}
}

// above returns an upper bound if the first n workers have the chosen kinds and the other workers have kinds with
// indices >= `from`. It loads workers in descending order of accuracy. Their load so far is at most their total room,
// and at most the weight of the clients that they can serve. The result is negative if some clients cannot be mapped.
func (s *solver) above(n, from int) float64 {
	value, load, room := 0.0, 0, 0
	var fits uint64
	for _, k := range s.chosen[:n] {
		kd := &s.kinds[k]
		room += kd.room
		fits |= kd.fits
		upTo := min(load+kd.room, s.weigh(fits), room)
		value += kd.value * float64(max(0, upTo-load))
		load = max(load, upTo)
	}
	if rest := len(s.chosen) - n; rest > 0 {
		widest := 0
		for k := from; k < len(s.kinds); {
			net := s.kinds[k].net
			v := s.kinds[k].value
			for ; k < len(s.kinds) && s.kinds[k].net == net; k++ {
				fits |= s.kinds[k].fits
				widest = max(widest, s.kinds[k].room)
			}
			upTo := min(room+rest*widest, s.weigh(fits))
			value += v * float64(max(0, upTo-load))
			load = max(load, upTo)
		}
	}
	if load < s.total {
		return -1
	}
	return value
}

// assign finds the best mapping of all clients to the chosen kinds. Client by client, it computes which load vectors
// (one load per kind) are reachable. For the kind with the most room, the load is not stored: it follows from the
// others.
func (s *solver) assign() {
	implied := 0
	for i, k := range s.chosen {
		if s.kinds[k].room >= s.kinds[s.chosen[implied]].room {
			implied = i
		}
	}
	// Each dimension exceeds its kind's room by the largest weight. So if a client exceeds the room, no valid vector
	// results. s.inside is the mask of the valid vectors.
	var stride [4]int
	size := 1
	for i, k := range s.chosen {
		if i != implied {
			stride[i] = size
			size *= s.kinds[k].room + 1 + s.widest
		}
	}
	words := size/64 + 1
	s.reach, s.next, s.inside = zeroed(s.reach, words), zeroed(s.next, words), zeroed(s.inside, words)
	s.each(implied, stride, func(bit int, _ int, _ float64) { s.inside[bit/64] |= 1 << (bit % 64) })
	s.reach[0] = 1
	done := 0
	for i := range s.p.Clients {
		w := s.p.Weight(i)
		done += w
		clear(s.next)
		for x, k := range s.chosen {
			if s.kinds[k].fits>>i&1 == 0 {
				continue
			}
			by := w * stride[x]
			if x == implied {
				by = 0
			}
			shift, low := by/64, uint(by%64)
			for y := words - 1; y >= shift; y-- {
				v := s.reach[y-shift] << low
				if low > 0 && y > shift {
					v |= s.reach[y-shift-1] >> (64 - low)
				}
				s.next[y] |= v & s.inside[y]
			}
		}
		s.reach, s.next = s.next, s.reach
	}
	s.each(implied, stride, func(bit, load int, value float64) {
		if s.reach[bit/64]>>(bit%64)&1 == 0 || done-load > s.kinds[s.chosen[implied]].room {
			return
		}
		if v := value + s.kinds[s.chosen[implied]].value*float64(done-load); v > s.best+eps {
			s.best = v
		}
	})
}

// each calls f for all vectors of loads within the rooms. The vectors have no load for worker number `implied`.
func (s *solver) each(implied int, stride [4]int, f func(bit, load int, value float64)) {
	var walk func(at, bit, load int, value float64)
	walk = func(at, bit, load int, value float64) {
		if at == len(s.chosen) {
			f(bit, load, value)
			return
		}
		if at == implied {
			walk(at+1, bit, load, value)
			return
		}
		k := &s.kinds[s.chosen[at]]
		for x := 0; x <= k.room && load+x <= s.total; x++ {
			walk(at+1, bit+x*stride[at], load+x, value+k.value*float64(x))
		}
	}
	walk(0, 0, 0, 0)
}

func zeroed(v []uint64, n int) []uint64 {
	v = slices.Grow(v[:0], n)[:n]
	clear(v)
	return v
}

// bound returns an upper bound of the sum of accuracy times weight (Lagrangian relaxation). Each client has a price.
// The bound is the sum of all prices plus, for every worker, the result of dearest. It is valid for any prices.
// Subgradient steps change the prices to reduce the bound.
func (s *solver) bound(target float64, steps int) float64 {
	n := len(s.p.Clients)
	price, slope := make([]float64, n), make([]float64, n)
	for i := range price {
		price[i] = target / float64(s.total) * float64(s.p.Weight(i)) // start with the same price for each unit of weight
	}
	least, since, scale := float64(1<<60), 0, 1.0
	at := slices.Clone(price)
	for range steps {
		pays, taken := s.dearest(price)
		sum := float64(s.p.Workers) * pays
		for _, v := range price {
			sum += v
		}
		if sum < least-eps {
			least, since = sum, 0
			copy(at, price)
		} else if since++; since > 12 {
			scale, since = scale/2, 0
			copy(price, at)
			continue
		}
		norm, flat := 0.0, true
		for i := range slope {
			g := 1.0
			if taken.has(i) {
				g -= float64(s.p.Workers)
			}
			slope[i] = 0.7*slope[i] + g
			norm += slope[i] * slope[i]
			flat = flat && g == 0
		}
		if flat || sum-target < eps {
			break
		}
		// The minimum 1 prevents extreme prices, whose sums would be dominated by rounding errors.
		step := scale * (sum - target) / max(norm, 1)
		for i := range price {
			price[i] -= step * slope[i]
		}
	}
	return least
}

// dearest finds the kind and the set of clients for which the value minus the clients' prices is largest. It returns
// this difference and the set, or 0 if no difference is positive.
func (s *solver) dearest(price []float64) (most float64, best set) {
	var v []float64
	var with []set
	for k := range s.kinds {
		kd := &s.kinds[k]
		v, with = slices.Grow(v[:0], kd.room+1)[:kd.room+1], slices.Grow(with[:0], kd.room+1)[:kd.room+1]
		clear(v)
		clear(with)
		for _, i := range kd.who {
			w := s.p.Weight(i)
			pays := kd.value*float64(w) - price[i]
			if pays <= 0 {
				continue
			}
			for x := kd.room; x >= w; x-- {
				if t := v[x-w] + pays; t > v[x] {
					v[x], with[x] = t, with[x-w]
					with[x][i/64] |= 1 << (i % 64)
				}
			}
		}
		if v[kd.room] > most {
			most, best = v[kd.room], with[kd.room]
		}
	}
	return most, best
}

// partitions is the largest number of clients for which all partitions are tried: 16 have 3^16/2 pairs of disjoint
// sets.
const partitions = 16

// partition returns the best sum of accuracy times weight over all assignments of clients to four workers. First it
// computes the best sum of two workers for every set of clients. Then it combines the sums of two pairs of workers.
func (s *solver) partition() float64 {
	full := 1<<len(s.p.Clients) - 1
	alone, pair := make([]float64, full+1), make([]float64, full+1)
	for set := 1; set <= full; set++ {
		w := s.weigh(uint64(set))
		alone[set] = math.Inf(-1)
		for k := range s.kinds {
			if kd := &s.kinds[k]; uint64(set)&^kd.fits == 0 && w <= kd.room {
				alone[set] = kd.value * float64(w) // the first kind is the most accurate
				break
			}
		}
	}
	for set := 1; set <= full; set++ {
		low := set & -set
		rest := set ^ low
		best := alone[set]
		for part := rest; ; part = (part - 1) & rest { // part|low can be the whole set: a single worker serves this set
			best = max(best, alone[part|low]+alone[rest^part])
			if part == 0 {
				break
			}
		}
		pair[set] = best
	}
	best := 0.0
	for set := range full + 1 {
		best = max(best, pair[set]+pair[full^set])
	}
	return best
}
