// This file connects Jellyfish to the engine. An outer policy decides every half second which network each worker runs
// and which clients it serves. Each worker has an inner policy.

package jellyfish

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/bandwidth"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Registered contains the values that a client declares about itself.
type Registered struct {
	Rate int  // requests a second
	SLO  Time // limit of the end-to-end latency
}

// Options configure the scheduler.
type Options struct {
	Zoo     Zoo
	Clients []Registered // by sched.Task.Client
	Select  Selector     // nil means Search
	Budget  Budget       // nil means Aligned
	// Advise: clients receive the size of their network. Otherwise clients choose the size, and Budget must be for the
	// chosen size.
	Advise   bool
	Prefetch int  // number of networks that remain loaded on a worker, including the current network; 0: 5
	Every    Time // interval between decisions; 0: 0.5 s
	Cost     Time // virtual time of a decision; 0: 10 ms
	Seed     uint64
}

// Counts count the scheduler's actions.
type Counts struct {
	Decisions int
	Changes   int // changes of a worker's network
	Hits      int // changes of a worker's network to an already loaded network
	Unmapped  int // requests of clients without a worker
	Late      int // requests that workers dropped because they would miss their deadlines
}

// Policy is the outer policy. It plans for the clients that have sent a request recently.
type Policy struct {
	o        Options
	ids      []device.RequestID
	clients  []client
	workers  []worker
	planning bool
	due      Time // time of the next decision
	counts   Counts
}

type client struct {
	link    bandwidth.Estimator
	seen    Time // time of its last request; -1: never
	decided bool // the last decision included this client
	at      int  // the client's worker; -1: none
	size    int  // network with the size that the client last received; -1: none
}

type worker struct {
	want  int // network that the worker should run
	have  int // network that the worker runs
	batch int // largest batch; 0: the network's largest batch
	// Network that is being loaded or unloaded (-1: none), and the start time of this action.
	moving  int
	loading bool
	since   Time
}

// gone is the time without requests, in ns, after which a client is ignored.
const gone = 2_000_000_000

// New returns the policy for a number of devices. It consists of one outer policy, and one inner policy per device.
func New(o Options, devices int) (*sched.Nested, *Policy, error) {
	if len(o.Zoo) == 0 || len(o.Clients) == 0 || devices < 1 {
		return nil, nil, fmt.Errorf("%w: %d networks, %d clients, %d workers", ErrClients, len(o.Zoo), len(o.Clients), devices)
	}
	for i, c := range o.Clients {
		if c.Rate < 1 || c.SLO < 1 {
			return nil, nil, fmt.Errorf("%w: client %d has a rate of %d/s and an SLO of %d ns", ErrClients, i, c.Rate, c.SLO)
		}
	}
	if o.Select == nil {
		o.Select = Search{}
	}
	if o.Budget == nil {
		o.Budget = Aligned
	}
	if o.Prefetch < 1 {
		o.Prefetch = 5
	}
	if o.Every <= 0 {
		o.Every = 500_000_000
	}
	if o.Cost <= 0 {
		o.Cost = 10_000_000
	}
	p := &Policy{o: o}
	p.clients, p.workers = make([]client, len(o.Clients)), make([]worker, devices)
	for i := range p.clients {
		p.clients[i].seen, p.clients[i].at, p.clients[i].size = -1, -1, -1
	}
	n := &sched.Nested{Outer: p}
	for k := range devices {
		p.workers[k].moving = -1
		n.Inner = append(n.Inner, &inner{p, k})
	}
	return n, p, nil
}

// Name implements sched.Policy.
func (p *Policy) Name() string { return "jellyfish-" + p.o.Select.Name() }

// Counts returns the counts so far.
func (p *Policy) Counts() Counts { return p.counts }

// decision is the result of a plan.
type decision struct {
	clients []int // clients at the start of the plan
	at      []int // worker of each client, or -1
	devices []int // workers at the start of the plan
	nets    []int // network of each worker
	batch   []int
}

// plan is a decision in progress.
type plan struct {
	o       *Options
	clients []int
	known   []Client
	devices []int
	have    []int // current networks by device
	seed    uint64
}

// Cost implements sched.Plan.
func (n *plan) Cost() Time { return n.o.Cost }

// Find implements sched.Plan.
func (n *plan) Find(context.Context) any {
	p, err := NewProblem(n.o.Zoo, n.known, len(n.devices), n.o.Budget)
	if err != nil {
		return nil // cannot happen: rates and SLOs were checked
	}
	c := n.o.Select.Select(p, n.have, n.seed)
	d := &decision{clients: n.clients, devices: n.devices, nets: make([]int, len(n.devices)), batch: make([]int, len(n.devices))}
	to := Match(n.have, c.Nets)
	for i, k := range to {
		d.nets[k], d.batch[k] = c.Nets[i], c.Mapping.Batch[i]
		if d.batch[k] == 0 { // the worker serves no client, so its network need not change
			d.nets[k] = n.have[k]
		}
	}
	for _, w := range c.Mapping.Worker {
		if w >= 0 {
			w = n.devices[to[w]]
		}
		d.at = append(d.at, w)
	}
	return d
}

// Decide implements sched.Policy.
func (p *Policy) Decide(now Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	p.ids = p.ids[:0]
	early := false
	switch ev.Kind {
	case sched.Arrival:
		for i := s.Queue.Len() - 1; i >= 0; i-- {
			if r := s.Queue.At(i); r.ID == ev.Request && r.Client >= 0 && r.Client < len(p.clients) {
				c := &p.clients[r.Client]
				early = !c.decided
				c.seen = now
				c.link.Add(now, r.Link)
				break
			}
		}
	case sched.Planned:
		p.planning = false
		if d, ok := s.Found.(*decision); ok {
			buf = p.decided(s, d, buf)
		}
	}
	buf = p.plan(now, s, early, buf)
	for k := range p.workers {
		buf = p.load(now, k, s, buf)
	}
	return p.assign(s, buf)
}

// plan starts a decision once per Options.Every, and when a new client sends its first request.
func (p *Policy) plan(now Time, s *sched.State, early bool, buf []sched.Action) []sched.Action {
	if p.planning {
		return buf
	}
	n := &plan{o: &p.o, seed: p.o.Seed + uint64(p.counts.Decisions)}
	for i := range p.clients {
		c := &p.clients[i]
		if c.seen < 0 || now-c.seen > gone {
			c.decided, c.at = false, -1
			continue
		}
		n.clients = append(n.clients, i)
	}
	if len(n.clients) == 0 {
		return buf
	}
	if now < p.due && !early {
		return append(buf, sched.Action{Kind: sched.Wait, Until: p.due})
	}
	for k := range s.Devices {
		if !s.Devices[k].Down && k < len(p.workers) {
			n.devices, n.have = append(n.devices, k), append(n.have, p.workers[k].want)
		}
	}
	p.due = now + p.o.Every
	if len(n.devices) == 0 {
		return append(buf, sched.Action{Kind: sched.Wait, Until: p.due})
	}
	for _, i := range n.clients {
		r := p.o.Clients[i]
		n.known = append(n.known, Client{Rate: r.Rate, SLO: r.SLO, Bandwidth: p.clients[i].link.Rate(now)})
	}
	p.planning = true
	return append(buf, sched.Action{Kind: sched.MakePlan, Plan: n}, sched.Action{Kind: sched.Wait, Until: p.due})
}

// decided applies a decision.
func (p *Policy) decided(s *sched.State, d *decision, buf []sched.Action) []sched.Action {
	p.counts.Decisions++
	for i, k := range d.devices {
		w := &p.workers[k]
		w.batch = d.batch[i]
		if d.nets[i] != w.want {
			p.counts.Changes++
			if s.Devices[k].Hosts(p.o.Zoo[d.nets[i]].Name) {
				p.counts.Hits++
			}
		}
		w.want = d.nets[i]
	}
	for i, k := range d.clients {
		c := &p.clients[k]
		c.decided, c.at = true, d.at[i]
		size := 0
		if c.at >= 0 {
			size = p.workers[c.at].want
		}
		if p.o.Advise && size != c.size {
			n := &p.o.Zoo[size]
			buf = append(buf, sched.Action{Kind: sched.Advise, Advice: &sched.Advice{Client: k, Network: n.Name, Shape: []int{n.Side, n.Side, 3}}})
		}
		c.size = size
	}
	return buf
}

// lost is the time in ns after which an incomplete load is repeated, because it failed or a reset removed it.
const lost = 15_000_000_000

// load switches a worker to its new network when this network is loaded. It also loads the networks of neighbouring
// sizes, one at a time, and unloads other networks.
func (p *Policy) load(now Time, k int, s *sched.State, buf []sched.Action) []sched.Action {
	d, w := &s.Devices[k], &p.workers[k]
	if d.Down {
		return buf
	}
	if d.Hosts(p.o.Zoo[w.want].Name) {
		w.have = w.want
	}
	if w.moving >= 0 {
		there := d.Hosts(p.o.Zoo[w.moving].Name)
		if w.loading && !there && now-w.since < lost || !w.loading && now == w.since {
			return buf
		}
		w.moving = -1
	}
	near := Neighbours(len(p.o.Zoo), w.want, p.o.Prefetch)
	for _, j := range near {
		if name := p.o.Zoo[j].Name; !d.Hosts(name) {
			w.moving, w.loading, w.since = j, true, now
			return append(buf, sched.Action{Kind: sched.LoadNetwork, Device: k, Network: name})
		}
	}
	for j := range p.o.Zoo {
		name := p.o.Zoo[j].Name
		if j != w.have && !slices.Contains(near, j) && d.Hosts(name) && !used(d, name) {
			w.moving, w.loading, w.since = j, false, now
			return append(buf, sched.Action{Kind: sched.Unload, Device: k, Network: name})
		}
	}
	return buf
}

// used reports whether a device runs a network, or has queued requests for it.
func used(d *sched.DeviceView, network string) bool {
	for _, l := range d.Launches {
		if l.Network == network {
			return true
		}
	}
	for i := range d.Queue.Len() {
		if d.Queue.At(i).Network == network {
			return true
		}
	}
	return false
}

// assign assigns pending requests to the workers of their clients. Requests of clients without a worker are dropped.
func (p *Policy) assign(s *sched.State, buf []sched.Action) []sched.Action {
	for k := range p.workers {
		d := &s.Devices[k]
		name, from := p.o.Zoo[p.workers[k].have].Name, len(p.ids)
		if d.Down || !d.Hosts(name) {
			continue
		}
		for i := range s.Queue.Len() {
			if r := s.Queue.At(i); p.worker(r) == k && d.Used+len(p.ids)-from < d.Slots {
				p.ids = append(p.ids, r.ID)
			}
		}
		if len(p.ids) > from {
			buf = append(buf, sched.Action{Kind: sched.Assign, Device: k, Network: name, Requests: p.ids[from:]})
		}
	}
	for i := range s.Queue.Len() {
		r := s.Queue.At(i)
		if r.Client < 0 || r.Client >= len(p.clients) || p.clients[r.Client].decided && p.clients[r.Client].at < 0 {
			p.counts.Unmapped++
			buf = append(buf, sched.Action{Kind: sched.Drop, Request: r.ID})
		}
	}
	return buf
}

// worker returns the worker of a request's client, or -1 if the client has no worker.
func (p *Policy) worker(r *sched.Request) int {
	if r.Client < 0 || r.Client >= len(p.clients) {
		return -1
	}
	return p.clients[r.Client].at
}

// inner serves the requests of one worker without delay, in batches up to the decided size. While it builds a batch, it
// drops requests that would be late (lazy dropping, section III-B).
type inner struct {
	p *Policy
	k int
}

// Name implements sched.Policy.
func (*inner) Name() string { return "worker" }

// Decide implements sched.Policy.
func (w *inner) Decide(now Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	d, is := &s.Devices[0], &w.p.workers[w.k]
	if d.Down || len(d.Launches) > 0 || d.Queue.Len() == 0 {
		return buf
	}
	h := d.Member(w.p.o.Zoo[is.have].Name)
	if h == nil {
		return buf
	}
	t := h.Table
	last := t.Segments() - 1
	most := min(d.MaxBatch, t.MaxBatch())
	if is.batch > 0 {
		most = min(most, is.batch)
	}
	from := len(w.p.ids)
	first := Time(0) // the earliest deadline in the batch
	for i := range d.Queue.Len() {
		r := d.Queue.At(i)
		if now+t.At(0, last, 1) > r.Deadline {
			w.p.counts.Late++
			buf = append(buf, sched.Action{Kind: sched.Drop, Request: r.ID})
			continue
		}
		n := len(w.p.ids) - from + 1
		if n > most || n > 1 && now+t.At(0, last, n) > min(first, r.Deadline) {
			continue
		}
		if n == 1 || r.Deadline < first {
			first = r.Deadline
		}
		w.p.ids = append(w.p.ids, r.ID)
	}
	if len(w.p.ids) > from {
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: h.Network, Last: last, Requests: w.p.ids[from:]})
	}
	return buf
}
