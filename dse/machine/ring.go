package machine

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// fetcher is weight_fetch. This unit reads biases and weights, layer after layer, as long as their memories have room.
type fetcher struct {
	state state
	l     *layer
	layer int
	tile  int // number of remaining row tiles
	at    int // number of the next wide beat
	left  int
	chunk int
	keep  int // bytes that the ring can keep for replay
	depth int // capacity of the ring in wide beats
	below int // limit LOW of the RTL

	free, spare int
	low         bool
	biasFree    int
	kinds       queue[bool] // by request in flight: whether it is for biases
	layers      queue[biases]
	beats       int // number of wide beats of biases in their queue
	pos, sub    int
	biased      int // number of layers with complete biases
}

type biases struct {
	any   bool
	count int
}

func (x *fetcher) reset(m *machine) {
	x.depth = m.d.WRingBeats / m.lanes
	x.keep = x.depth*m.wide - abi.RingSpare
	x.chunk = min(rtl.ChunkBeats, rtl.ChunkBytes/m.wide)
	x.below = max(x.depth/16, min(rtl.LatentBytes/m.wide, x.depth/2))
	x.free, x.spare, x.low, x.biasFree = x.depth, x.depth, true, rtl.BiasBeats
}

// replay reports whether the weights are read only once.
func (x *fetcher) replay(l *layer) bool { return l.depthw || l.Order || l.bytes <= x.keep }

func (x *fetcher) step(m *machine) {
	f, was := &m.feed, x.left
	chunk, issued, asked := min(x.chunk, x.left), 0, 0
	isBias := x.state == bias
	if (isBias || x.state == weights) && x.left > 0 && x.kinds.n < rtl.KindsUnderWay &&
		(isBias && x.biasFree >= chunk || !isBias && x.free >= chunk) && m.read.request(clientWeights, x.at, chunk) {
		x.kinds.push(isBias)
		x.at += chunk
		x.left -= chunk
		if isBias {
			asked = chunk
		} else {
			issued = chunk
		}
	}
	came, isBiases := m.read.answered(clientWeights), false
	if came {
		isBiases = *x.kinds.front()
		if m.read.last {
			x.kinds.pop()
		}
	}
	x.biasFree += x.memory(m.wide/4) - asked
	if isBiases {
		x.beats++
	}
	x.advance(m, was, issued)

	spare := x.spare
	if f.rewind {
		spare = x.free
	} else if f.push {
		spare++
	}
	x.low = spare > x.depth-x.below+issued
	x.spare = spare - issued
	x.free += m.ring.step(came && !isBiases, f) - issued
}

// memory writes one bias into the memory of biases. The parameter `beat` is the number of biases in a wide beat. The
// result is 1 if all biases of a wide beat are now written, otherwise 0.
func (x *fetcher) memory(beat int) (used int) {
	if x.layers.n == 0 {
		return 0
	}
	l := x.layers.front()
	end := !l.any
	if l.any && x.beats > 0 {
		x.pos++
		x.sub++
		end = x.pos == l.count
		if end || x.sub == beat {
			x.beats--
			x.sub, used = 0, 1
		}
	}
	if end {
		x.layers.pop()
		x.pos, x.sub = 0, 0
		x.biased++
	}
	return used
}

func (x *fetcher) advance(m *machine, was, issued int) {
	l := x.l
	switch x.state {
	case idle:
		if x.l = m.fetch.take(m, unitFetch); x.l != nil {
			x.state = room
		}
	case room:
		any := l.Drained() || l.table
		switch {
		case x.layers.n == rtl.LayersAhead:
		case !any:
			x.layers.push(biases{})
			x.layer++
			x.state = idle
		case x.layer-m.drain.drained < 2:
			x.layers.push(biases{true, l.BiasCount})
			x.state, x.at, x.left = bias, 0, ceil(4*l.BiasCount, m.wide)
			x.tile = 1
			if !x.replay(l) {
				x.tile = ceil(l.OutH, int(l.TileRows)) * ceil(int(l.BR), int(l.TileB))
			}
		}
	case bias:
		if was == 0 {
			if x.state = tiles; !l.Drained() {
				x.state = idle
				x.layer++
			}
		}
	case tiles:
		x.at, x.left, x.state = 0, l.bytes/m.wide, weights
	case weights:
		if issued > 0 && x.left == 0 {
			x.state = nextTile
		}
	case nextTile:
		x.state = tiles
		if x.tile--; x.tile == 0 {
			x.layer++
			x.state = idle
		}
	}
}

// ring is weight_ring.
type ring struct {
	written, fetched, taken, kept int
	read, out                     bool // a word is in the output register of the RAM; of the ring
}

// step is one clock edge. It runs after step of the feeder, and returns the number of released words.
func (r *ring) step(came bool, f *feeder) (freed int) {
	if f.commit {
		freed = r.taken - r.kept
		r.kept = r.taken
	}
	move := r.read && (!r.out || f.ready)
	fetch := r.written != r.fetched && (!r.read || move) && !f.rewind
	if came {
		r.written++
	}
	if f.rewind {
		r.fetched, r.taken, r.read, r.out = r.kept, r.kept, false, false
		return freed
	}
	if f.push {
		r.taken++
	}
	if fetch {
		r.fetched++
	}
	r.read, r.out = fetch || r.read && !move, move || r.out && !f.ready
	return freed
}

// feeder is weight_feed. This unit loads the shadow weights, pass after pass.
type feeder struct {
	state   state
	l       *layer
	item    int
	passes  int // number of remaining passes of the C tile
	left    int // number of wide beats of the C tile not yet read
	fill    int // number of words in the gearbox
	most    int // number of words of the largest load
	need    int // number of words of the next load
	vectors int // number of vectors of the pass in the next load and all later loads
	final   bool
	fresh   bool // no word of the tile has arrived
	wait    int  // number of cycles until the last swap has passed the chain

	swap                        bool // the array swaps in this cycle
	ready, push, commit, rewind bool // signals to the ring in this cycle
}

func (x *feeder) step(m *machine) {
	if x.l == nil {
		x.commit = true
		x.take(m)
		return
	}
	pop := x.state == load && x.wait == 0 && x.fill >= x.need || x.state == padding && x.fill > 0
	done := x.state == padding && x.left == 0 && x.fill == 0
	x.handshake(m, done)
	gone, final := min(x.need, x.fill), x.final
	if x.state == full || x.fresh || x.state == load && pop {
		x.begin(&m.d)
	}
	x.fresh = x.state == tiles
	x.wait = max(0, x.wait-1)
	if x.push {
		x.left--
		if x.state != depthwise {
			x.fill += m.wide / rtl.WordBytes
		}
	}
	if pop {
		x.fill -= gone
	}
	x.advance(m, pop && final, done)
	x.swap = false
}

// handshake computes the signals to the ring. The parameter `done` reports that all words of a C tile have been used.
func (x *feeder) handshake(m *machine, done bool) {
	l, i := x.l, &x.l.items[x.item]
	room := x.fill <= m.wide/rtl.WordBytes+x.most
	if x.state == depthwise {
		room = !m.pool.full
	}
	replay := !l.depthw && m.weight.replay(l)
	x.ready = x.left > 0 && room
	x.commit, x.rewind = !replay || i.lastTile, done && replay && !i.lastTile && (l.Order || i.lastC)
	x.push = m.ring.out && x.ready && !x.rewind
}

func (x *feeder) take(m *machine) {
	if l := m.fetch.take(m, unitFeed); l != nil {
		x.l, x.state, x.item = l, pass, 0
	}
}

// advance is the state machine. The parameter `final` reports that the last load of a pass leaves; `done` reports that
// all words of a C tile are used.
func (x *feeder) advance(m *machine, final, done bool) {
	l := x.l
	switch x.state {
	case idle:
		x.take(m)
	case pass:
		switch x.state = idle; {
		case l.GEMM():
			x.state = tiles
		case l.depthw:
			x.state, x.left = depthwise, l.bytes/m.wide
		}
	case tiles:
		x.passes = l.passes
		x.left = min(l.tile, l.bytes-l.items[x.item].c0/l.tc*l.tile) / m.wide
		x.need, x.state = x.most, load
	case load:
		if final {
			x.state = full
		}
	case full:
		if x.swap {
			x.wait, x.state = l.chain, load
			if x.passes--; x.passes == 0 {
				x.need, x.state = x.most, padding
			}
		}
	case padding:
		if done {
			x.next()
		}
	case depthwise:
		if x.push && x.left == 0 {
			x.state, m.pool.full = idle, true
		}
	}
}

// next proceeds to the next C tile. After the last C tile, it returns to the first C tile of the layer, or proceeds to
// the next layer.
func (x *feeder) next() {
	x.state = tiles
	if !x.l.Order && x.l.items[x.item].lastC {
		x.state = pass
	}
	if x.item++; x.item == len(x.l.items) {
		x.item, x.state = 0, idle
	}
}

// begin computes the next load.
func (x *feeder) begin(d *configs.Design) {
	nch := x.l.items[x.item].nch
	if d.Int8() {
		nch = ceil(nch, 2) // the unit processes a pair of int8 channels like one int16 channel
	}
	at := d.WLoad
	if x.l.two {
		at /= 2
	}
	first := d.TP / 2
	switch x.vectors -= at; {
	case x.state != full && !x.fresh:
	case x.l.stack == cost.KHalf:
		x.vectors = ceil(nch, 2)
	case x.l.stack == cost.K2:
		x.vectors = 2 * nch
	default:
		x.vectors = nch
	}
	x.final = x.vectors <= at
	x.need = min(x.vectors, at) * d.TP
	if x.l.stack == cost.KHalf {
		x.need = min(x.vectors, at) * 2 * first
		if x.final && nch%2 != 0 {
			x.need -= first
		}
	}
}
