// This file prepares a decision: for each network and client, it finds the largest batch that is fast enough.

package jellyfish

import (
	"fmt"
	"math/bits"
	"slices"
)

// Client describes a client to the scheduler.
type Client struct {
	Rate      int     // requests a second, rounded up
	SLO       Time    // limit of the end-to-end latency
	Bandwidth float64 // estimate in bits a second; 0: unknown, so a transfer is assumed to use the whole SLO
}

// Budget returns the part of a client's SLO that is available for a network on the server (L_ij of equation 5).
type Budget func(c *Client, zoo Zoo, net int) Time

// Aligned is the budget O_i - s/W_i for frames of the network's size. If the client's link cannot transfer such frames
// without a queue, the frames have the largest size that the link can sustain (section III-A).
func Aligned(c *Client, zoo Zoo, net int) Time { return Planned(Headroom)(c, zoo, net) }

// Planned returns a budget like Aligned, but with headroom instead of the constant Headroom.
func Planned(headroom float64) Budget {
	return func(c *Client, zoo Zoo, net int) Time {
		return c.SLO - c.carry(min(zoo[net].Bytes, zoo[zoo.Largest(c.sustained(headroom))].Bytes))
	}
}

// Fixed returns the budget for clients whose frames always have the size of the same network.
func Fixed(size int) Budget {
	return func(c *Client, zoo Zoo, _ int) Time { return c.SLO - c.carry(zoo[size].Bytes) }
}

// Share returns a budget that is a fixed share of the SLO.
func Share(of float64) Budget {
	return func(c *Client, _ Zoo, _ int) Time { return Time(of * float64(c.SLO)) }
}

// carry returns the transfer time of bytes over the link, limited to the SLO.
func (c *Client) carry(bytes int64) Time {
	if c.Bandwidth <= 0 {
		return c.SLO
	}
	return Time(min(float64(c.SLO), float64(bytes)*8e9/c.Bandwidth))
}

// Headroom is the share of the link that a client plans to use (assumed). If it were 1, a queue from a slow phase of
// the link would never drain.
const Headroom = 0.9

// sustained returns the size of the largest frame that the link can transfer before the next frame, in bytes.
func (c *Client) sustained(headroom float64) int64 {
	return int64(headroom * c.Bandwidth / 8 / float64(c.Rate))
}

// Problem is one decision (P1 of section IV-A). It selects a network for each worker and a worker for each client.
type Problem struct {
	Zoo     Zoo
	Clients []Client
	Workers int

	h      int       // unit of the rates, in requests a second
	weight []int     // by client: its rate in units
	total  int       // sum of the weights
	widest int       // the largest room
	sum    int       // sum of the rates
	most   [][]uint8 // by network and client: largest batch with twice its P99 within the client's budget; 0: no batch
	room   [][]int   // by network and batch - 1: units of rate that the network serves in batches up to that size
	order  [][]int32 // by network: clients in descending order of their budgets
}

// NewProblem prepares a decision.
func NewProblem(zoo Zoo, clients []Client, workers int, budget Budget) (*Problem, error) {
	if workers < 1 || workers > 1<<10 || len(clients) > 1<<20 {
		return nil, fmt.Errorf("%w: %d of them on %d workers, expected up to 2^20 on 1..1024", ErrClients, len(clients), workers)
	}
	p := &Problem{Zoo: zoo, Clients: clients, Workers: workers}
	for i := range clients {
		c := &clients[i]
		if c.Rate < 1 || c.Rate > 1e6 || c.SLO < 1 || !(c.Bandwidth >= 0) {
			return nil, fmt.Errorf("%w: client %d has a rate of %d/s, an SLO of %d ns, %g bits/s", ErrClients, i, c.Rate, c.SLO, c.Bandwidth)
		}
		p.h = gcd(p.h, c.Rate)
	}
	for i := range clients {
		p.weight = append(p.weight, clients[i].Rate/p.h)
		p.total += clients[i].Rate / p.h
		p.sum += clients[i].Rate
	}
	budgets := make([]Time, len(clients))
	for j := range zoo {
		n := &zoo[j]
		room := make([]int, len(n.P99))
		for b := range n.P99 {
			if len(clients) > 0 {
				room[b] = min(p.total, int(Time(b+1)*1_000_000_000/n.P99[b]/Time(p.h)))
			}
			if b > 0 {
				room[b] = max(room[b], room[b-1])
			}
		}
		p.room = append(p.room, room)
		p.widest = max(p.widest, room[len(room)-1])
		most, order := make([]uint8, len(clients)), make([]int32, len(clients))
		for i := range clients {
			budgets[i] = budget(&clients[i], zoo, j)
			order[i] = int32(i)
			for b := len(n.P99); b >= 1; b-- {
				if 2*n.P99[b-1] <= budgets[i] {
					most[i] = uint8(b)
					break
				}
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int {
			switch {
			case budgets[a] > budgets[b]:
				return -1
			case budgets[a] < budgets[b]:
				return 1
			}
			return 0
		})
		p.most, p.order = append(p.most, most), append(p.order, order)
	}
	return p, nil
}

// Step returns the unit of rates, in requests a second: the greatest common divisor of the clients' rates.
func (p *Problem) Step() int { return p.h }

// Weight returns a client's rate in units.
func (p *Problem) Weight(client int) int { return p.weight[client] }

// Most returns the largest batch of a network within a client's budget, or 0 if no batch is within the budget.
func (p *Problem) Most(net, client int) int { return int(p.most[net][client]) }

// Room returns the rate, in units, that a network can serve in batches up to this size, limited to the sum of all
// rates.
func (p *Problem) Room(net, batch int) int { return p.room[net][batch-1] }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Mapping assigns clients to workers.
type Mapping struct {
	Worker []int // by client: index of its network in the set; -1: unmapped
	Batch  []int // by index in the set: largest batch within the budgets of all its clients; 0: no client
	Mapped int   // number of mapped clients (O1)
	// Mean accuracy over all requests (O2): equation 1 divided by the sum of rates. Requests of unmapped clients
	// count as wrong.
	Accuracy float64
}

// better reports whether m maps more clients than o, or the same number of clients with higher accuracy.
func (m *Mapping) better(o *Mapping) bool {
	return m.Mapped > o.Mapped || m.Mapped == o.Mapped && m.Accuracy > o.Accuracy+1e-12
}

func (m *Mapping) copy(o *Mapping) {
	m.Worker, m.Batch = append(m.Worker[:0], o.Worker...), append(m.Batch[:0], o.Batch...)
	m.Mapped, m.Accuracy = o.Mapped, o.Accuracy
}

// Kind is a worker's configuration. Net is its network. It accepts only clients whose budgets allow a batch of Least.
type Kind struct{ Net, Least int }

// Plain returns kinds that accept every client.
func Plain(nets []int) []Kind {
	kinds := make([]Kind, len(nets))
	for i, j := range nets {
		kinds[i] = Kind{j, 1}
	}
	return kinds
}

// Tie decides which client set is selected if the sums of rates are equal. The publication allows any of these sets.
type Tie uint8

const (
	Ample Tie = iota // clients with ample budgets, because they allow large batches
	Tight            // clients with tight budgets, because other networks can then serve the rest in larger batches
)

// Mapper maps clients to sets of networks. It has buffers, so each goroutine needs its own Mapper.
type Mapper struct {
	p     *Problem
	words int
	reach []uint64 // by row: reachable sums of rates, one bit each
	rows  []int32  // by row: the client that was added
	free  []bool
}

// NewMapper returns a Mapper for a decision.
func NewMapper(p *Problem) *Mapper {
	words := p.widest/64 + 1
	return &Mapper{
		p: p, words: words, reach: make([]uint64, (len(p.Clients)+1)*words), rows: make([]int32, len(p.Clients)+1),
		free: make([]bool, len(p.Clients)),
	}
}

// Map is MapClients of algorithm 1. For one kind after another, it selects the free clients with the largest sum of
// rates. In algorithm 1, kinds are in descending order of accuracy.
func (m *Mapper) Map(kinds []Kind, tie Tie, out *Mapping) {
	p := m.p
	out.Worker, out.Batch = out.Worker[:0], out.Batch[:0]
	out.Mapped = 0
	for i := range p.Clients {
		m.free[i] = true
		out.Worker = append(out.Worker, -1)
	}
	value := 0.0
	for at, k := range kinds {
		from := out.Mapped
		load, batch := 0, 0
		if from < len(p.Clients) {
			load, batch = m.take(k, tie, at, out)
		}
		out.Batch = append(out.Batch, batch)
		value += float64(p.Zoo[k.Net].Accuracy * float64(load*p.h))
	}
	out.Accuracy = 0
	if p.sum > 0 {
		out.Accuracy = value / float64(p.sum)
	}
}

// take is FindOptimalClients of algorithm 1. Over all batch sizes, it finds the set of free clients with the largest
// sum of rates that a network can serve in time. In this knapsack problem weights equal values, so a row of the matrix
// stores which sums are reachable, one bit each.
func (m *Mapper) take(kind Kind, tie Tie, at int, out *Mapping) (load, batch int) {
	p, w := m.p, m.words
	most, room, least := p.most[kind.Net], p.room[kind.Net], uint8(max(1, kind.Least))
	clear(m.reach[:w])
	m.reach[0] = 1
	row, best, bestRow := 0, 0, 0
	for _, i := range p.order[kind.Net] {
		if !m.free[i] {
			continue
		}
		if most[i] < least { // the following clients do not allow larger batches
			break
		}
		k, step := room[most[i]-1], p.weight[i]
		prev := m.reach[row*w : row*w+w]
		row++
		m.rows[row] = i
		next := m.reach[row*w : row*w+w]
		shift, by := step/64, uint(step%64)
		top := -1
		for x := range next {
			var with uint64
			if x >= shift {
				with = prev[x-shift] << by
				if by > 0 && x > shift {
					with |= prev[x-shift-1] >> (64 - by)
				}
			}
			keep := ^uint64(0) // mask of the sums up to k
			if d := k - 64*x; d < 0 {
				keep = 0
			} else if d < 63 {
				keep = 1<<(d+1) - 1
			}
			with &= keep
			if with != 0 {
				top = 64*x + 63 - bits.LeadingZeros64(with)
			}
			next[x] = prev[x]&keep | with
		}
		if top > best || tie == Tight && top == best && best > 0 {
			best, bestRow = top, row
		}
	}
	if best == 0 {
		return 0, 0
	}
	batch = len(room)
	for r, left := bestRow, best; left > 0; r-- {
		i := m.rows[r]
		step := p.weight[i]
		prev := m.reach[(r-1)*w : r*w]
		without := prev[left/64]>>(left%64)&1 == 1
		with := left >= step && prev[(left-step)/64]>>((left-step)%64)&1 == 1
		if r == bestRow || with && (!without || tie == Tight) {
			left -= step
			m.free[i] = false
			out.Worker[i] = at
			out.Mapped++
			batch = min(batch, int(most[i]))
		}
	}
	return best, batch
}
