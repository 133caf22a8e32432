package machine

import "github.com/sluice-npu/sluice/dse/rtl"

// Clients of the read ports.
const (
	clientDesc = iota
	clientActs
	clientWeights
	clientResidual
	clients
)

// cut splits requests into bursts. For several ports it splits at stripes, and a second request can wait (stripe_cut).
// For a single port it splits at pages (axi_read, axi_write).
type cut struct {
	one, waits     bool // a request is pending; a second request waits
	at, n          int  // first wide beat; number of wide beats
	nextAt, nextN  int
	asks           bool // a request arrives in this cycle
	askedAt, asked int
}

// piece returns the number of wide beats of the next burst, and whether the burst is the last of the request.
func (c *cut) piece(unit, most int) (n int, last bool) {
	n = min(c.n, most, unit-c.at%unit)
	return n, n == c.n
}

// step is one clock edge. The parameter `gone` is the number of wide beats that are sent.
func (c *cut) step(gone int) {
	c.at, c.n = c.at+gone, c.n-gone
	if free := !c.one || c.n == 0; free && c.waits {
		c.one, c.waits, c.at, c.n = true, false, c.nextAt, c.nextN
	} else if free {
		c.one, c.at, c.n = c.asks, c.askedAt, c.asked
	} else if c.asks {
		c.waits, c.nextAt, c.nextN = true, c.askedAt, c.asked
	}
	c.asks = false
}

// address is the path of bursts to a port. It consists of a register for a new burst (CUT = 0 with several ports), a
// spill register, and the number of bursts without a response.
type address struct {
	given int // beats of the new burst; 0: no burst
	out   queue[int]
	owed  int
}

// free reports whether a new burst can move to the spill register.
func (a *address) free() bool { return a.owed < rtl.BurstsUnderWay && a.out.n < 2 }

// readPort is an axi_read in read_ports, and the queue of its wide beats.
type readPort struct {
	address
	came bool // a beat is in the register
	lane int
	have int // number of wide beats in the queue
	room int // number of wide beats for which the queue has room
	take bool
}

type ordered struct {
	client, port, n int
	last            bool
}

type readPorts struct {
	unit, most int // of a burst in wide beats: alignment of its end; maximum length
	deep       int
	cuts       [clients]cut
	ready      [clients]bool // by client: a request is accepted in this cycle
	level      [clients]int
	grant      bool
	one, ask   int // client and port of the next burst
	ptr, turn  int
	ports      []readPort
	order      queue[ordered]
	oldest     ordered
	any        bool // the burst in oldest is valid
	done       int  // number of wide beats of oldest that have left
	quiet      bool // nothing is in flight or requested

	client int // client that receives a wide beat in this cycle; the value clients means no client
	last   bool
}

func (x *readPorts) reset(m *machine) {
	x.client = clients
	x.ports = make([]readPort, m.d.NAXI)
	x.unit, x.most = rtl.PageBytes/m.wide, m.d.MaxBurst
	if len(x.ports) == 1 {
		return
	}
	x.most = stripeOf(m) / m.lanes
	x.unit, x.deep = x.most, min(rtl.PortBeats, rtl.PortStripes*x.most)
	for i := range x.ports {
		x.ports[i].room = x.deep
	}
}

// stripeOf returns the number of beats of a stripe.
func stripeOf(m *machine) int {
	n := rtl.StripeBeats
	for n > m.d.MaxBurst {
		n /= 2
	}
	return n
}

// answered reports whether the client receives a wide beat in this cycle.
func (x *readPorts) answered(client int) bool { return x.client == client }

// request requests wide beats, and reports whether the request is accepted.
func (x *readPorts) request(client, at, n int) bool {
	if !x.ready[client] {
		return false
	}
	c := &x.cuts[client]
	c.asks, c.askedAt, c.asked = true, at, n
	x.quiet = false
	return true
}

// fairest returns the client with the highest level among the clients with a pending request. If several clients have
// this level, it returns the first of them in cyclic order from ptr.
func (x *readPorts) fairest() (best int) {
	most := -1
	best = x.ptr
	for i := range clients {
		c := (x.ptr + i) % clients
		if x.cuts[c].one && x.level[c] > most {
			most, best = x.level[c], c
		}
	}
	return best
}

// decide computes which burst is sent in this cycle, and which requests can be accepted.
func (x *readPorts) decide(m *machine) {
	x.level = [clients]int{clientDesc: 3, clientActs: 1}
	if m.weight.low {
		x.level[clientWeights] = 2
	}
	if m.res.low() {
		x.level[clientResidual] = 2
	}
	if x.quiet {
		return
	}
	p := &x.ports[0]
	if len(x.ports) == 1 {
		x.one = x.fairest()
		c := &x.cuts[x.one]
		x.grant = c.one && p.free()
		for i := range x.ready {
			x.ready[i] = !x.cuts[i].one
		}
		if x.grant {
			_, x.ready[x.one] = c.piece(x.unit, x.most)
		}
		return
	}
	for i := range x.ready {
		x.ready[i] = !x.cuts[i].waits
	}
	c := &x.cuts[x.one]
	p = &x.ports[x.ask]
	n, _ := c.piece(x.unit, x.most)
	x.grant = c.one && x.order.n < rtl.ReadOrder && (p.given == 0 || p.free()) && p.room >= n
}

// idle returns the output idle_o.
func (x *readPorts) idle() bool {
	for i := range x.cuts {
		if x.cuts[i].one {
			return false
		}
	}
	if x.any || x.order.n > 0 {
		return false
	}
	for i := range x.ports {
		if p := &x.ports[i]; p.given > 0 || p.out.n > 0 || p.owed > 0 {
			return false
		}
	}
	return true
}

// asks reports whether a client requests something in this cycle.
func (x *readPorts) asks() bool {
	return x.cuts[0].asks || x.cuts[1].asks || x.cuts[2].asks || x.cuts[3].asks
}

func (x *readPorts) step(m *machine) {
	if x.quiet {
		return
	}
	idle := x.idle()
	if x.quiet = idle && x.client == clients && !x.asks(); x.quiet {
		x.ptr, x.turn, x.one, x.ask, x.ready = 0, 0, 0, 0, [clients]bool{true, true, true, true}
		return
	}
	n, last := x.cuts[x.one].piece(x.unit, x.most)
	if !x.grant {
		n = 0
	}
	one, ask := x.one, x.ask
	if x.deliver(m); idle {
		x.ptr, x.turn = 0, 0
	}
	if x.grant {
		x.ptr, x.turn = (one+1)%clients, (ask+1)%len(x.ports)
		x.order.push(ordered{one, ask, n, last})
	}
	for i := range x.cuts {
		gone := 0
		if i == one {
			gone = n
		}
		x.cuts[i].step(gone)
	}
	if len(x.ports) == 1 {
		x.ports[0].given = n // with a single port the register of the request is the cut
		x.ports[0].step(m, 0, 0)
		return
	}
	x.one = x.fairest()
	x.collect(m, n)
	best := x.turn
	for i := range x.ports {
		if p := (x.turn + i) % len(x.ports); x.ports[p].room > x.ports[best].room {
			best = p
		}
	}
	x.ask = best
}

// deliver sends a wide beat of the oldest burst to its client.
func (x *readPorts) deliver(m *machine) {
	x.client = clients
	if len(x.ports) == 1 {
		if b := &m.dram.ports[0]; b.rvalid {
			o := x.order.front()
			x.client, x.last = o.client, b.rlast && o.last
			if b.rlast {
				x.order.pop()
			}
		}
		return
	}
	take := x.any && x.ports[x.oldest.port].take
	ends := take && x.done+1 == x.oldest.n
	x.last = ends && x.oldest.last
	if take {
		x.client = x.oldest.client
		if x.done++; ends {
			x.done = 0
		}
	}
	if !x.any || ends {
		if x.any = x.order.n > 0; x.any {
			x.oldest = x.order.pop()
		}
	}
}

// collect is one clock edge of several ports, which assemble wide beats. One port gets a request for n wide beats.
func (x *readPorts) collect(m *machine, n int) {
	for i := range x.ports {
		p := &x.ports[i]
		given := 0
		if i == x.ask {
			p.room -= n
			given = n * m.lanes
		}
		if p.take {
			p.room++
			p.have--
		}
		if p.came {
			if p.lane++; p.lane == m.lanes {
				p.lane = 0
				p.have++
			}
		}
		p.take = x.any && x.oldest.port == i && p.have > 0
		p.step(m, i, given)
	}
}

// step is one clock edge of a port. The parameter `given` is the number of beats of a new request (0: no request).
func (p *readPort) step(m *machine, i, given int) {
	b := &m.dram.ports[i]
	free := p.free()
	if p.came = b.rvalid; b.rvalid && b.rlast {
		p.owed--
	}
	if p.out.n > 0 {
		if b.arready {
			m.dram.read(i, p.out.pop())
		} else {
			m.Stalls.Read++
		}
	}
	if p.given > 0 && free {
		p.out.push(p.given)
		p.owed++
		p.given = 0
	}
	if given > 0 {
		p.given = given
	}
}

// writePort is an axi_write in write_ports, and the queue of its wide beats.
type writePort struct {
	address
	lens   queue[int] // by burst that is announced but not sent: number of beats
	beat   int
	data   int // number of beats in the spill register
	queued int // number of wide beats in the queue
	lane   int
	wide   int // number of wide beats of the port's stripes that are not sent
}

type writePorts struct {
	unit, most  int
	cut         cut
	ready, room bool // accepted in this cycle: a command; a wide beat
	idle        bool // all writes have their responses
	quiet       bool // the ports are idle, and no write is requested
	word        bool // a wide beat is available in this cycle
	grant       bool
	ask, turn   int
	ports       []writePort
	order       queue[ordered]
	done        int
}

func (x *writePorts) reset(m *machine) {
	x.ports = make([]writePort, m.d.NAXI)
	x.unit, x.most = rtl.PageBytes/m.wide, m.d.MaxBurst
	if len(x.ports) > 1 {
		x.most = stripeOf(m) / m.lanes
		x.unit = x.most
	}
}

// command announces a run.
func (x *writePorts) command(at, n int) {
	x.cut.asks, x.cut.askedAt, x.cut.asked = true, at, n
	x.quiet = false
}

// decide computes which beats are sent in this cycle.
func (x *writePorts) decide(m *machine) {
	if x.quiet {
		return
	}
	x.idle = !x.cut.one && x.order.n == 0
	x.ask = x.turn
	for i := range x.ports {
		p := &x.ports[i]
		x.idle = x.idle && p.given == 0 && p.out.n+p.lens.n+p.data+p.owed+p.queued == 0
		if q := (x.turn + i) % len(x.ports); x.ports[q].wide < x.ports[x.ask].wide {
			x.ask = q
		}
	}
	p := &x.ports[x.ask]
	if len(x.ports) == 1 {
		_, last := x.cut.piece(x.unit, x.most)
		x.grant = x.cut.one && p.free()
		x.ready, x.room = !x.cut.one || x.grant && last, p.takes()
		return
	}
	x.grant = x.cut.one && x.order.n < rtl.WriteOrder && (p.given == 0 || p.free())
	x.ready = !x.cut.waits
	x.room = x.order.n > 0 && x.ports[x.order.front().port].queued < rtl.WriteQueue
}

// takes reports whether the port accepts a beat. If only one burst is announced, the address of this burst must have
// left the spill register.
func (p *writePort) takes() bool {
	return p.data < 2 && (p.out.n < 2 && p.lens.n > 0 || p.lens.n > 1)
}

func (x *writePorts) step(m *machine) {
	if x.quiet {
		return
	}
	if x.quiet = x.idle && !x.cut.asks; x.quiet {
		x.turn = 0
		return
	}
	n, _ := x.cut.piece(x.unit, x.most)
	if !x.grant {
		n = 0
	}
	put := x.word && x.room
	if len(x.ports) == 1 {
		x.ports[0].step(m, 0, n, put)
		x.cut.step(n)
		return
	}
	if x.idle {
		x.turn = 0
	}
	to := -1
	if put {
		o := x.order.front()
		to = o.port
		if x.done++; x.done == o.n {
			x.done = 0
			x.order.pop()
		}
	}
	for i := range x.ports {
		p := &x.ports[i]
		sends := p.queued > 0 && p.takes()
		given := 0
		if x.grant && i == x.ask {
			given = n * m.lanes
			p.wide += n
		}
		if sends {
			if p.lane++; p.lane == m.lanes {
				p.lane = 0
				p.queued--
				p.wide--
			}
		}
		if i == to {
			p.queued++
		}
		p.step(m, i, given, sends)
	}
	if x.grant {
		x.order.push(ordered{port: x.ask, n: n})
		x.turn = (x.ask + 1) % len(x.ports)
	}
	x.cut.step(n)
}

// step is one clock edge of a port. The parameter `given` is the number of beats of a new burst (0: no burst). If `put`
// is true, the port also receives a beat for its spill register.
func (p *writePort) step(m *machine, i, given int, put bool) {
	b := &m.dram.ports[i]
	free := p.free()
	if b.bvalid {
		p.owed--
	}
	if p.data > 0 {
		if b.wready {
			b.buffer++
			m.dram.idle = false
			p.data--
		} else {
			m.Stalls.Write++
		}
	}
	if p.out.n > 0 && b.awready {
		b.writes.push(burst{beats: p.out.pop()})
		m.dram.idle = false
	}
	if put {
		p.data++
		if p.beat++; p.beat == *p.lens.front() {
			p.beat = 0
			p.lens.pop()
		}
	}
	if len(m.dram.ports) == 1 {
		p.given = given // with a single port the register of the command is the cut
	}
	if p.given > 0 && free {
		p.out.push(p.given)
		p.lens.push(p.given)
		p.owed++
		p.given = 0
	}
	if len(m.dram.ports) > 1 && given > 0 {
		p.given = given
	}
}
