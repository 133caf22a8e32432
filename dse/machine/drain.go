package machine

import "github.com/sluice-npu/sluice/dse/rtl"

// drain processes complete banks, or the sums of the depthwise unit: bias, residual, shift and clamp.
type drain struct {
	state   state
	l       *layer
	layers  int // number of layers drained from the accumulators
	drained int // number of layers with no words left in the drain, as weight_fetch reads it
	ended   int // value of drained in the next cycle
	item    int
	ch      int // number of remaining channels of the pixel
	pixels  int // number of remaining pixels of the item
	banks   int // number of complete banks
	way     [rtl.ReadStages]group
	under   int // number of groups in the fields way and queue
	queue   queue[group]
	b       group // group in stage B; no words if the stage is empty
	pipe    pipe  // stage C and the stages of post or requant
}

// group is a group of words. The field `pixel` is true if the group contains the last words of a pixel.
type group struct {
	words int
	pixel bool
}

func (x *drain) step(m *machine) {
	x.drained = x.ended
	l, dw := x.l, x.l != nil && x.l.depthw
	ready := m.out.words.n < 2 && !m.out.pool
	leaves, empty := x.pipe.leaves(), x.under == 0 && x.b.words == 0 && x.pipe.under == 0
	enabled := ready || leaves == 0
	goes := x.b.words > 0 && enabled && (!l.Residual || m.res.fill >= x.b.words) && (!dw || m.pool.has(m, x.b.words))
	reads := x.state == running && x.under < rtl.DrainQueue
	if enabled {
		if ready && leaves > 0 {
			m.out.in = leaves
		}
		x.pipe.move()
	}
	if goes {
		x.pipe.put(x.b.words)
		if l.Residual {
			m.res.pop = x.b.words
		}
		if dw {
			m.pool.pop(m, x.b.words, x.b.pixel)
		}
		x.b.words = 0
	}
	if x.b.words == 0 && x.queue.n > 0 {
		x.b = x.queue.pop()
		x.under--
	}
	if g := x.way[rtl.ReadStages-1]; g.words > 0 {
		x.queue.push(g)
	}
	copy(x.way[1:], x.way[:])
	x.way[0] = group{}
	if x.state == idle && empty {
		x.ended = x.layers
	}
	x.advance(m, reads, empty)
	if m.array.done(m.now) {
		x.banks++
	}
}

func (x *drain) advance(m *machine, reads, empty bool) {
	l := x.l
	switch x.state {
	case idle:
		if !empty {
			return
		}
		if l = m.fetch.take(m, unitDrain); l != nil {
			x.l, x.state, x.item = l, test, 0
		}
	case test:
		x.state = pooling
		if l.Drained() {
			x.state = waiting
		}
	case pooling:
		if m.ended == x.layers+1 {
			x.layers++
			x.state = idle
		}
	case waiting:
		t := &l.items[x.item]
		x.ch, x.pixels = t.nch, (t.nb+t.nb1)*t.nr*l.OutW
		if (l.depthw || x.banks > 0) && m.weight.biased != x.layers {
			x.state = running
		}
	case running:
		if !reads {
			return
		}
		g := group{words: min(l.step, x.ch)}
		x.ch -= g.words
		if g.pixel = x.ch == 0; g.pixel {
			x.ch = l.items[x.item].nch
			x.pixels--
		}
		x.way[0] = g
		x.under++
		if x.pixels == 0 {
			x.state = last
		}
	case last:
		if x.state = waiting; !l.depthw {
			x.banks--
			m.array.banks--
		}
		if x.item++; x.item == len(l.items) {
			x.layers++
			x.state = idle
		}
	}
}

// output is run_gen, npu_output, out_writer and keep_writer. These units assemble words into runs and runs into beats.
type output struct {
	runs    runs
	in      int // number of words that arrive in this cycle
	words   queue[int]
	pool    bool // the words of the run come from the pool unit
	local   bool // the run stays on chip only
	closing bool
	keep    int // number of remaining words of a kept run

	state      state
	head, tail int
	left, fill int
}

func (x *output) step(m *machine) {
	room := x.fill <= max(m.d.Drain, m.beat)+m.beat
	n := x.arrives(room)
	taken := x.takes(m, n, room)
	if x.closing && x.state == idle && x.fill == 0 && x.keep == 0 && m.write.idle {
		x.closing = false
		m.ended++
		m.written(m.now + 1)
	}
	m.write.word = x.fill >= m.beat
	if m.write.word && m.write.room {
		x.fill -= m.beat
	}
	if n > 0 {
		x.words.pop()
		x.keep = max(0, x.keep-n)
	}
	x.advance(n, room)
	if taken {
		x.take(m, x.runs.s.front())
	}
	if x.in > 0 {
		x.words.push(x.in)
		x.in = 0
	}
	x.runs.step(m, unitRuns, taken)
}

// arrives returns the number of words that keep_writer, or out_writer if it has room, accepts in this cycle.
func (x *output) arrives(room bool) int {
	accepts := x.state == body && room
	if x.local {
		accepts = x.keep > 0
	}
	if !accepts || x.words.n == 0 {
		return 0
	}
	return *x.words.front()
}

// takes reports whether the next run starts in this cycle: its writer is free, or becomes free with n arriving words.
func (x *output) takes(m *machine, n int, room bool) bool {
	if x.closing || x.runs.s.n == 0 {
		return false
	}
	if x.runs.s.front().local {
		return x.keep <= n
	}
	free := x.state == idle || x.state == body && x.left == n && x.tail == 0 || x.state == tail && room
	return free && m.write.ready
}

// advance is the state machine of out_writer.
func (x *output) advance(n int, room bool) {
	switch {
	case x.state == head && room:
		x.fill += x.head
		x.state = body
	case x.state == body:
		x.fill += n
		if x.left -= n; x.left == 0 {
			x.state = idle
			if x.tail > 0 {
				x.state = tail
			}
		}
	case x.state == tail && room:
		x.fill += x.tail
		x.state = idle
	}
}

// take starts a run.
func (x *output) take(m *machine, r *run) {
	x.pool, x.local, x.closing = r.pool, r.local, r.last
	if r.keep {
		x.keep = r.elems
	}
	if r.local {
		return
	}
	at, n := r.beats(m)
	m.write.command(at, n)
	x.head, x.left = r.addr%m.wide/m.elem, r.elems
	x.tail = n*m.beat - x.head - x.left
	if x.state = body; x.head > 0 {
		x.state = head
	}
}

// residual is res_loader.
type residual struct {
	runs  runs
	layer int
	busy  bool
	at    int // number of the next wide beat
	words int // number of words from the next wide beat to the end of the run
	skip  int // number of words in the next wide beat before the run
	free  int // number of free beats in the queue
	fits  bool
	asked int // number of chunks in flight
	most  int // number of words of the largest chunk

	chunks           queue[chunk]
	head             bool
	now              chunk
	written, fetched int // number of beats
	there            bool
	fill             int // number of words that are ready for the drain
	pop              int // number of words that the drain reads in this cycle
}

type chunk struct{ skip, words int }

func (x *residual) step(m *machine) {
	taken := x.runs.s.n > 0 && !x.busy && m.ended == x.layer
	if x.runs.state != idle || x.runs.s.n > 0 || x.runs.a || x.busy || x.asked > 0 {
		asks := x.busy && x.fits && x.asked < rtl.ResChunks
		x.deliver(m)
		if asks {
			x.request(m)
		}
		if taken {
			x.take(m, x.runs.s.front())
		}
		x.fits = x.free >= ceil(min(x.words, x.most), m.beat)
	}
	x.fill -= x.pop // the drain may read the last words of a layer when everything else is idle
	x.pop = 0
	x.runs.step(m, unitResidual, taken)
	if x.runs.skipped {
		x.layer++
	}
}

// deliver converts a beat to words.
func (x *residual) deliver(m *machine) {
	push := x.there && x.head && x.fill <= m.beat+m.d.Drain
	fetch := x.written != x.fetched && (!x.there || push)
	ends := push && x.now.words <= m.beat
	if push {
		x.free++
		x.fill += min(x.now.words, m.beat) - x.now.skip
		x.now = chunk{0, x.now.words - m.beat}
	}
	if ends {
		x.asked--
	}
	if !x.head || ends {
		if x.head = x.chunks.n > 0; x.head {
			x.now = x.chunks.pop()
		}
	}
	x.there = fetch || x.there && !push
	if fetch {
		x.fetched++
	}
	if m.read.answered(clientResidual) {
		x.written++
	}
}

// request requests the next chunk.
func (x *residual) request(m *machine) {
	n := min(x.words, x.most)
	beats := ceil(n, m.beat)
	if !m.read.request(clientResidual, x.at, beats) {
		return
	}
	x.chunks.push(chunk{x.skip, n})
	x.free -= beats
	x.asked++
	x.at += beats
	x.words -= n
	x.skip, x.busy = 0, x.words > 0
}

// take starts a run.
func (x *residual) take(m *machine, r *run) {
	x.busy = true
	x.at, _ = r.beats(m)
	x.skip = r.addr % m.wide / m.elem
	x.words = r.elems + x.skip
	if r.last {
		x.layer++
	}
}

// low reports whether less than half of the queue is filled or requested.
func (x *residual) low() bool { return x.free > rtl.ResBeats/2 }
