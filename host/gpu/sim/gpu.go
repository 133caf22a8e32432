// Package sim simulates a GPU in virtual time. Streams have host and device queues. A command processor begins kernels
// in stream order. A scheduler places blocks on multiprocessors as far as the multiprocessors' resources allow. Kernels
// share the DRAM bandwidth, and copies use a link to the host. Streams can be evicted, and kernels can be killed.
//
// There is no formula for contention. Blocks on one SM share its issue slots, kernels share the DRAM by max-min
// fairness, and a block that does not fit waits. All costs come from Params or from the kernel.
//
// SMs with the same resident blocks are stored as one class, so the time to compute an event depends on the number of
// classes. The same calls give the same results on every machine.
package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Part is a kernel, or some blocks of a kernel, in a launch.
type Part struct {
	Program *Program
	Kernel  int
	Memory  *Memory
	As      *kernel.Kernel // another version or batch of the kernel; nil: the kernel of Program
	On      Set            // SMs that the part's blocks may use, within the stream's mask; empty: all
	// From is the index of the part's first block. Blocks is the number of blocks; 0: all from From on. The parts of a
	// kernel run one after another, in the order of their blocks.
	From, Blocks int
	Slow         float64 // factor on the time of the part's blocks; 0: 1
}

// UpTo returns the index of the part's last block plus one, and whether this block is the kernel's last block.
func (p *Part) UpTo() (block int, last bool) {
	all := p.kernel().Blocks
	if p.Blocks == 0 || p.From+p.Blocks >= all {
		return all, true
	}
	return p.From + p.Blocks, false
}

// Item is one launch in a stream: a kernel, a copy, or a padded kernel. All parts of a padded kernel begin and end
// together. From Launch until its event, an item belongs to the GPU. At other times it belongs to the caller.
type Item struct {
	Parts []Part
	Tag   uint64 // for the caller's use
	Began Time   // time at which it left its queue; -1: still queued
	First Time   // time at which its first block was placed

	epoch uint64
	ready Time
	turn  uint64 // its position in a hardware queue
}

// kernel returns the kernel that the part runs.
func (p *Part) kernel() *kernel.Kernel {
	if p.As != nil {
		return p.As
	}
	return &p.Program.Kernels[p.Kernel]
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	Done    EventKind = iota // the item has ended and its writes are in memory
	Killed                   // the item was stopped; its output is corrupt if a block had begun
	Dropped                  // the item was removed before it began
	Evicted                  // all items that were in the stream at the call of Evict have left
)

// Event is an event that Evict or Advance reports.
type Event struct {
	At     Time
	Kind   EventKind
	Stream int
	Item   *Item // nil if Kind is Evicted
}

// GPU is a simulated GPU. It is not safe for concurrent use.
type GPU struct {
	p       Params
	now     Time
	streams []stream
	active  []*run // runs with running blocks or with blocks to place, in the order of placement
	classes []*class
	links   [2]link
	sets    []*set  // memsets in progress
	shared  [][]int // by hardware queue: its streams; nil: every stream has its own queue
	turn    uint64
	seq     uint64

	fresh        []int // for merge: indices of classes that have changed
	spareRuns    []*run
	spareClasses []*class
	spareSets    []*set
	nextBlock    Time // end of the next block, or Never
	next         Time // time of the next event, if known is set
	known        bool // next is valid
	parts        []*part
	busy         float64 // ns: sum over all SMs of the time with a block
	apart        bool    // for tests: SMs are never merged into classes
}

type headState uint8

const (
	idle    headState = iota
	fetched           // the command processor has fetched the stream's head, which begins at the time `at`
	running           // the head has begun and has not ended
)

// stream is a queue of items in order. Only the head of a stream can be fetched or running.
type stream struct {
	priority int
	mask     Set
	hardware int // index of its hardware queue; -1: a queue of its own
	epoch    uint64
	host     fifo // launched items
	device   fifo // items that are visible to the command processor
	moving   Time // time at which the host queue's head arrives in the device queue, or Never
	hostFree Time // time at which the launching thread is free
	state    headState
	at       Time // time at which the fetched head begins
	run      *run
	killAt   Time // time at which the running head will be stopped, or Never
	asleep   bool // the transfer thread sleeps because the device queue was full
	paused   bool // no transfers from the host queue to the device queue
	evicting bool // an eviction is in progress
	quietAt  Time // earliest possible time of the Evicted event
	stale    int  // number of consecutive items that the command processor has dropped
}

// run is an item on the SMs.
type run struct {
	item     *Item
	stream   int
	priority int
	seq      uint64
	parts    []part
	live     int // number of blocks that are running or not placed yet
	begun    bool
	regs     int // registers and shared memory of a block: the maximum of all parts
	shared   int
}

type part struct {
	run    *run
	k      *kernel.Kernel
	on     Set
	left   int     // number of blocks that are not placed yet
	slow   float64 // factor on BlockNs
	sum    uint64  // checksum of its input
	stream float64 // DRAM rate of a block at full speed, bytes/ns
	demand float64
	share  float64
}

// class is a set of SMs with the same resident blocks.
type class struct {
	sms                   Set
	n                     int
	threads, regs, shared int // used on each SM of the class
	blocks                int
	residents             []resident
	changed               bool // changed since the last merge
}

// resident is a group of blocks of a part that began together. Each SM of a class has a number of them, field `per`.
type resident struct {
	p    *part
	per  int
	left float64 // remaining work in ns
	rate float64
}

// set is a memset. It uses no SM, but only a share of the DRAM bandwidth.
type set struct {
	part
	item   *Item
	stream int
	left   float64 // bytes that remain
}

// link is one direction of the host link. Copies run in order of arrival.
type link struct {
	items  []copying
	freeAt Time
}

type copying struct {
	item   *Item
	stream int
	end    Time
	sum    uint64
}

// New returns a GPU without work.
func New(p Params) (*GPU, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	g := &GPU{p: p, nextBlock: Never}
	g.classes = []*class{{sms: All(p.SMs), n: p.SMs}}
	if p.Hardware > 0 {
		g.shared = make([][]int, p.Hardware)
	}
	return g, nil
}

// Params returns the parameters.
func (g *GPU) Params() Params { return g.p }

// Now returns the current time.
func (g *GPU) Now() Time { return g.now }

// Stream adds a stream and returns its index. Streams are assigned to the hardware queues round-robin. Blocks of
// streams with higher priority are placed first.
func (g *GPU) Stream(priority int) int {
	s := g.CopyStream()
	g.streams[s].priority = priority
	if n := len(g.shared); n > 0 {
		h := s % n
		g.streams[s].hardware = h
		g.shared[h] = append(g.shared[h], s)
	}
	return s
}

// CopyStream adds a stream for copies and returns its index. No other stream uses its copy engine's queue.
func (g *GPU) CopyStream() int {
	g.streams = append(g.streams, stream{mask: All(g.p.SMs), hardware: -1, moving: Never, killAt: Never})
	return len(g.streams) - 1
}

// Mask confines the stream's kernels to the given SMs. This applies from the next kernel.
func (g *GPU) Mask(s int, sms Set) { g.streams[s].mask = sms.and(All(g.p.SMs)) }

// Prioritise sets a stream's priority. This applies from the next kernel.
func (g *GPU) Prioritise(s, priority int) { g.streams[s].priority = priority }

// Capacity sets the capacity of the device queues in kernels.
func (g *GPU) Capacity(n int) { g.p.Queue = max(1, n) }

// Launch appends an item to a stream.
func (g *GPU) Launch(s int, it *Item) {
	g.known = false
	st := &g.streams[s]
	st.hostFree = max(st.hostFree, g.now) + g.p.LaunchNs
	it.ready, it.epoch, it.Began = st.hostFree, st.epoch, -1
	st.host.push(it)
	g.move(st)
}

// Idle reports whether the stream is empty.
func (g *GPU) Idle(s int) bool {
	st := &g.streams[s]
	return st.state == idle && st.host.len() == 0 && st.device.len() == 0
}

// Pause stops or allows transfers from the stream's host queue. Items that are already in transfer still arrive.
func (g *GPU) Pause(s int, on bool) {
	g.known = false
	st := &g.streams[s]
	st.paused = on
	g.move(st)
}

// Drained reports whether the stream has no item on the device or in transfer.
func (g *GPU) Drained(s int) bool {
	st := &g.streams[s]
	return st.state == idle && st.device.len() == 0 && st.moving == Never
}

// Queued returns the numbers of waiting items in the stream's host and device queues, without the running item.
func (g *GPU) Queued(s int) (host, device int) {
	st := &g.streams[s]
	return st.host.len(), st.device.len()
}

// Eviction describes how a stream is evicted.
type Eviction struct {
	Kill    bool // stop the running kernel if the GPU can do so; otherwise wait for the kernel's end
	Reclaim bool // the host waits until the memory of dropped items is freed
	// Forgive is a deliberate fault: the stream's epoch does not change, so queued kernels still run.
	Forgive bool
}

// Evict removes from the stream all items that were launched so far. Items in the host queue are dropped here and
// appended to buf. Kernels in the device queue leave when they are fetched. The running kernel is killed, or the
// eviction waits for its end. The last event is Evicted. Items that are launched later wait until the removed items
// have left.
func (g *GPU) Evict(s int, how Eviction, buf []Event) []Event {
	g.known = false
	st := &g.streams[s]
	cost := g.p.ResetNs
	for st.host.len() > 0 {
		it := st.host.pop()
		if how.Reclaim {
			cost += g.p.ReclaimNs
		}
		buf = append(buf, Event{g.now, Dropped, s, it})
	}
	st.moving, st.asleep = Never, false
	if !how.Forgive {
		st.epoch++
	}
	st.evicting, st.quietAt, st.stale = true, g.now+cost, 0
	st.hostFree = max(st.hostFree, g.now) + cost
	if st.state == fetched && !how.Forgive {
		// The head was already fetched. It leaves when it would otherwise begin.
		st.at, st.stale = max(st.at, g.now+cost+g.p.EvictNs), 1
	}
	if st.state == running && how.Kill && g.p.KillNs > 0 && st.run != nil {
		st.killAt = g.now + cost + g.p.KillNs
	}
	return g.settle(s, buf)
}

// Next returns the time of the next event, or Never if there is none.
func (g *GPU) Next() Time {
	if g.known {
		return g.next
	}
	t := g.nextBlock
	for i := range g.streams {
		st := &g.streams[i]
		t = min(t, st.moving, st.killAt)
		if st.state == fetched {
			t = min(t, st.at)
		}
		if st.evicting && st.empty() {
			t = min(t, st.quietAt)
		}
	}
	for i := range g.links {
		if l := &g.links[i]; len(l.items) > 0 {
			t = min(t, l.items[0].end)
		}
	}
	g.next, g.known = t, true
	return t
}

// empty reports whether all evicted items have left.
func (st *stream) empty() bool {
	if st.state == running || st.state == fetched && st.device.head().epoch != st.epoch {
		return false
	}
	return st.device.len() == 0 || st.device.head().epoch == st.epoch
}

// Advance advances the time and appends the events to buf. It stops at the first time with an event, so that the caller
// can react at that time. To reach the time `to`, call Advance repeatedly until Now returns this time.
func (g *GPU) Advance(to Time, buf []Event) []Event {
	had := len(buf)
	for len(buf) == had {
		t := g.Next()
		if t > to {
			g.pass(to)
			return buf
		}
		g.pass(t)
		buf = g.step(buf)
	}
	return buf
}

// pass advances the time to t. No block or memset may end before t.
func (g *GPU) pass(t Time) {
	if dt := float64(t - g.now); dt > 0 {
		for _, c := range g.classes {
			if len(c.residents) > 0 {
				g.busy += dt * float64(c.n)
			}
			for i := range c.residents {
				c.residents[i].left -= c.residents[i].rate * dt
			}
		}
		for _, m := range g.sets {
			m.left -= m.demand * m.share * dt
		}
		g.now = t
	}
}

// step handles all events that are due now.
func (g *GPU) step(buf []Event) []Event {
	changed := false
	g.known = false
	if g.nextBlock <= g.now {
		buf, changed = g.endBlocks(buf)
	}
	for i := range g.links {
		l := &g.links[i]
		for len(l.items) > 0 && l.items[0].end <= g.now {
			c := l.items[0]
			l.items = slices.Delete(l.items, 0, 1)
			p := &c.item.Parts[0]
			p.Memory.write(p.Kernel, c.sum)
			buf = g.headDone(c.stream, c.item, Done, buf)
		}
	}
	for s := range g.streams {
		st := &g.streams[s]
		if st.killAt <= g.now {
			st.killAt = Never
			if st.run != nil {
				buf = g.kill(s, buf)
				changed = true
			}
		}
		if st.moving <= g.now {
			st.moving = Never
			it := st.host.pop()
			g.turn++
			it.turn = g.turn
			st.device.push(it)
			g.move(st)
			g.fetch(st)
		}
		if st.state == fetched && st.at <= g.now {
			var began bool
			buf, began = g.begin(s, buf)
			changed = changed || began
		}
		buf = g.settle(s, buf)
	}
	if changed {
		g.place()
		g.rates()
	}
	return buf
}

// settle reports the end of an eviction if all evicted items have left.
func (g *GPU) settle(s int, buf []Event) []Event {
	st := &g.streams[s]
	if st.evicting && st.empty() && st.quietAt <= g.now {
		st.evicting = false
		buf = append(buf, Event{g.now, Evicted, s, nil})
	}
	return buf
}

// move starts the transfer of the host queue's head to the device queue, if the device queue has room. A running item
// also counts as part of the device queue.
func (g *GPU) move(st *stream) {
	taken := st.device.len()
	if st.state == running {
		taken++
	}
	if st.moving != Never || st.paused || st.host.len() == 0 {
		return
	}
	if taken > 0 && g.p.Fence && st.host.head().Parts[0].kernel().Kind != kernel.Compute {
		return // after the eviction of an earlier kernel, a copy or memset would run twice
	}
	if taken >= g.p.Queue {
		st.asleep = true
		return
	}
	st.moving = max(g.now, st.host.head().ready) + g.p.TransferNs
	if st.asleep {
		st.asleep = false
		st.moving += g.p.WakeNs
	}
}

// fetch passes the head of the device queue to the command processor. If streams share a hardware queue, their items
// are fetched in the order of arrival in this queue. An item is fetched only after the previous item has ended.
func (g *GPU) fetch(st *stream) {
	if st.hardware >= 0 {
		st = g.front(st.hardware)
	}
	if st == nil || st.state != idle || st.device.len() == 0 {
		return
	}
	st.state = fetched
	if st.device.head().epoch == st.epoch {
		st.at, st.stale = g.now+g.p.DispatchNs, 0
		return
	}
	cost := g.p.EvictEach
	if st.stale == 0 {
		cost = g.p.EvictNs
	}
	st.stale++
	st.at = g.now + cost
}

// front returns the stream with the first item in a hardware queue. It returns nil if the queue is empty or if an
// earlier item has not ended.
func (g *GPU) front(hardware int) (first *stream) {
	for _, s := range g.shared[hardware] {
		st := &g.streams[s]
		if st.state != idle {
			return nil
		}
		if st.device.len() > 0 && (first == nil || st.device.head().turn < first.device.head().turn) {
			first = st
		}
	}
	return first
}

// begin begins the fetched head. An evicted head leaves. The blocks of any other head can be placed from now on.
func (g *GPU) begin(s int, buf []Event) (_ []Event, began bool) {
	st := &g.streams[s]
	it := st.device.pop()
	if it.epoch != st.epoch {
		return g.headDone(s, it, Dropped, buf), false
	}
	st.state, it.Began = running, g.now
	g.move(st)
	k := it.Parts[0].kernel()
	switch k.Kind {
	case kernel.Compute:
	case kernel.Memset:
		p := &it.Parts[0]
		var m *set
		if n := len(g.spareSets); n > 0 {
			m, g.spareSets = g.spareSets[n-1], g.spareSets[:n-1]
		} else {
			m = &set{}
		}
		*m = set{part: part{sum: p.Memory.read(p.Kernel)}, item: it, stream: s, left: float64(k.Bytes)}
		g.sets = append(g.sets, m)
		return buf, true
	default:
		g.copy(s, it, k)
		return buf, false
	}
	r := g.newRun()
	r.item, r.stream, r.priority, r.seq = it, s, st.priority, g.seq
	g.seq++
	padded := 1.0
	if len(it.Parts) > 1 {
		padded = 1 + g.p.PadShare
	}
	for i := range it.Parts {
		p := &it.Parts[i]
		k := p.kernel()
		on := st.mask
		if p.On != (Set{}) {
			on = on.and(p.On)
		}
		upTo, _ := p.UpTo()
		blocks := upTo - p.From
		slow := padded * cmp.Or(p.Slow, 1)
		r.parts = append(r.parts, part{
			run: r, k: k, on: on, left: blocks, slow: slow, sum: p.Memory.begin(p.Kernel, p.From > 0),
			stream: float64(k.Bytes) / float64(k.Blocks) / (k.BlockNs * slow),
		})
		r.live += blocks
		r.regs = max(r.regs, g.p.SM.BlockRegs(k))
		r.shared = max(r.shared, k.Shared)
	}
	st.run = r
	at, _ := slices.BinarySearchFunc(g.active, r, func(a, b *run) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	g.active = slices.Insert(g.active, at, r)
	return buf, true
}

// copy starts a copy on the upload or the download link.
func (g *GPU) copy(s int, it *Item, k *kernel.Kernel) {
	way, speed := 0, g.p.Up
	if k.Kind == kernel.Fetch {
		way, speed = 1, g.p.Down
	}
	l := &g.links[way]
	l.freeAt = max(l.freeAt, g.now) + g.p.LinkNs + int64(math.Ceil(float64(k.Bytes)/speed))
	p := &it.Parts[0]
	l.items = append(l.items, copying{it, s, l.freeAt, p.Memory.read(p.Kernel)})
}

// headDone reports the end of the stream's head and fetches the next item.
func (g *GPU) headDone(s int, it *Item, how EventKind, buf []Event) []Event {
	st := &g.streams[s]
	st.state, st.run, st.killAt = idle, nil, Never
	buf = append(buf, Event{g.now, how, s, it})
	g.move(st)
	g.fetch(st)
	return g.settle(s, buf)
}

// kill stops the running head of a stream.
func (g *GPU) kill(s int, buf []Event) []Event {
	r := g.streams[s].run
	for _, c := range g.classes {
		c.drop(func(re *resident) bool { return re.p.run == r })
	}
	g.merge()
	for i := range r.parts {
		p := &r.item.Parts[i]
		if r.begun {
			p.Memory.spoil(p.Kernel, r.parts[i].sum)
		}
	}
	it := r.item
	g.retire(r)
	return g.headDone(s, it, Killed, buf)
}

// endBlocks removes finished blocks, and ends runs that have no blocks left.
func (g *GPU) endBlocks(buf []Event) ([]Event, bool) {
	const none = 1e-6 // ns: less remaining work than this is a rounding error
	ended := false
	for _, c := range g.classes {
		c.drop(func(re *resident) bool {
			if re.left > none {
				return false
			}
			re.p.run.live -= re.per * c.n
			ended = true
			return true
		})
	}
	for i := 0; i < len(g.sets); {
		m := g.sets[i]
		if m.left > none {
			i++
			continue
		}
		g.sets = slices.Delete(g.sets, i, i+1)
		p := &m.item.Parts[0]
		p.Memory.write(p.Kernel, m.sum)
		buf = g.headDone(m.stream, m.item, Done, buf)
		g.spareSets = append(g.spareSets, m)
		ended = true
	}
	if !ended {
		g.rates()
		return buf, false
	}
	g.merge()
	for i := 0; i < len(g.active); {
		r := g.active[i]
		if r.live > 0 {
			i++
			continue
		}
		for j := range r.parts {
			p := &r.item.Parts[j]
			_, last := p.UpTo()
			p.Memory.end(p.Kernel, r.parts[j].sum, last)
		}
		s, it := r.stream, r.item
		g.retire(r)
		buf = g.headDone(s, it, Done, buf)
	}
	return buf, true
}

// place places blocks on SMs, by descending priority and then in the order in which the kernels began. A kernel places
// one block per SM at a time, on the emptiest SMs first. If not all blocks of a kernel fit, later kernels cannot use
// any SM that this kernel may use.
func (g *GPU) place() {
	var held Set
	for _, r := range g.active {
		for i := range r.parts {
			p := &r.parts[i]
			on := p.on.Without(held)
			if on == (Set{}) {
				continue
			}
			for p.left > 0 && g.layer(r, p, &on) {
			}
		}
		for i := range r.parts {
			if r.parts[i].left > 0 {
				held = held.or(r.parts[i].on)
			}
		}
	}
}

// layer places one block of p on each of the emptiest SMs with room. It reports whether there was such an SM.
func (g *GPU) layer(r *run, p *part, on *Set) bool {
	least := math.MaxInt
	var to Set
	for _, c := range g.classes {
		if c.threads > least || !g.fits(c, r, p.k) || !c.sms.meets(on) { // cheapest test first: most SMs are full
			continue
		}
		if c.threads < least {
			least, to = c.threads, Set{}
		}
		to.add(&c.sms, on)
	}
	if least == math.MaxInt {
		return false
	}
	to = to.First(p.left)
	for _, c := range g.classes {
		if c.threads != least || !c.sms.meets(&to) {
			continue
		}
		if s := c.sms.and(to); s == c.sms {
			g.put(c, p)
		} else {
			g.put(g.split(c, s), p)
		}
	}
	return true
}

func (g *GPU) fits(c *class, r *run, k *kernel.Kernel) bool {
	o := &g.p.SM
	return c.blocks < o.Blocks && c.threads+k.Threads <= o.Threads && c.regs+r.regs <= o.Regs && c.shared+r.shared <= o.Shared
}

// put places one block of a part on each SM of the class.
func (g *GPU) put(c *class, p *part) {
	r := p.run
	p.left -= c.n
	if !r.begun {
		r.item.First = g.now
	}
	r.begun, c.changed = true, true
	c.blocks++
	c.threads += p.k.Threads
	c.regs += r.regs
	c.shared += r.shared
	work := p.k.BlockNs * p.slow
	if n := len(c.residents); n > 0 && c.residents[n-1].p == p && c.residents[n-1].left == work {
		c.residents[n-1].per++
		return
	}
	c.residents = append(c.residents, resident{p: p, per: 1, left: work})
}

// split moves some SMs of a class to a new class.
func (g *GPU) split(c *class, sms Set) *class {
	d := g.newClass()
	residents := append(d.residents[:0], c.residents...)
	*d = *c
	d.residents = residents
	d.sms, d.n = sms, sms.Len()
	c.sms = c.sms.Without(sms)
	c.n -= d.n
	c.changed, d.changed = true, true
	g.classes = append(g.classes, d)
	return d
}

// merge merges classes with the same resident blocks.
func (g *GPU) merge() {
	if g.apart {
		return
	}
	// Two classes that have not changed still differ from each other.
	g.fresh = g.fresh[:0]
	for i, c := range g.classes {
		if c.changed {
			g.fresh = append(g.fresh, i)
		}
	}
	absorbed := false
	join := func(a, b *class) {
		if b.n > 0 && a.threads == b.threads && slices.Equal(a.residents, b.residents) {
			a.sms, a.n = a.sms.or(b.sms), a.n+b.n
			b.n, absorbed = 0, true
		}
	}
	for i, a := range g.classes {
		switch {
		case a.n == 0:
		case a.changed:
			for _, b := range g.classes[i+1:] {
				join(a, b)
			}
		default:
			for _, j := range g.fresh {
				if j > i {
					join(a, g.classes[j])
				}
			}
		}
	}
	for _, i := range g.fresh {
		g.classes[i].changed = false
	}
	if absorbed {
		g.classes = slices.DeleteFunc(g.classes, func(c *class) bool {
			if c.n == 0 {
				g.spareClasses = append(g.spareClasses, c)
			}
			return c.n == 0
		})
	}
}

// drop removes the residents for which gone returns true.
func (c *class) drop(gone func(*resident) bool) {
	kept := 0
	for i := range c.residents {
		re := &c.residents[i]
		if !gone(re) {
			if kept < i {
				c.residents[kept] = *re
			}
			kept++
			continue
		}
		c.changed = true
		r := re.p.run
		c.blocks -= re.per
		c.threads -= re.per * re.p.k.Threads
		c.regs -= re.per * r.regs
		c.shared -= re.per * r.shared
	}
	c.residents = c.residents[:kept]
}

// rates sets the speed of every block. The blocks on an SM share its issue slots, and kernels share the DRAM bandwidth
// by max-min fairness.
func (g *GPU) rates() {
	g.parts = g.parts[:0]
	for _, r := range g.active {
		for i := range r.parts {
			r.parts[i].demand, r.parts[i].share = 0, 1
			g.parts = append(g.parts, &r.parts[i])
		}
	}
	for _, m := range g.sets {
		m.demand, m.share = g.p.Bandwidth, 1
		g.parts = append(g.parts, &m.part)
	}
	for _, c := range g.classes {
		issue := 0.0
		for i := range c.residents {
			issue += float64(c.residents[i].per) * c.residents[i].p.k.Issue
		}
		speed := 1 / max(1, issue)
		for i := range c.residents {
			re := &c.residents[i]
			re.rate = speed
			re.p.demand += float64(re.per*c.n) * speed * re.p.stream
		}
	}
	total := 0.0
	for _, p := range g.parts {
		total += p.demand
	}
	if total > g.p.Bandwidth {
		slices.SortStableFunc(g.parts, func(a, b *part) int { return cmp.Compare(a.demand, b.demand) })
		left := g.p.Bandwidth
		for i, p := range g.parts {
			if fair := left / float64(len(g.parts)-i); p.demand > fair {
				p.share = fair / p.demand
			}
			left -= p.demand * p.share
		}
	}
	soon := math.Inf(1)
	for _, c := range g.classes {
		for i := range c.residents {
			re := &c.residents[i]
			re.rate *= re.p.share
			soon = min(soon, re.left/re.rate)
		}
	}
	for _, m := range g.sets {
		soon = min(soon, m.left/(m.demand*m.share))
	}
	g.nextBlock = Never
	if !math.IsInf(soon, 1) {
		g.nextBlock = g.now + max(0, int64(math.Ceil(soon-1e-6)))
	}
}

// Busy returns the share of SMs that have a block, and the share of threads in use.
func (g *GPU) Busy() (sms, threads float64) {
	for _, c := range g.classes {
		if len(c.residents) > 0 {
			sms += float64(c.n)
		}
		threads += float64(c.n * c.threads)
	}
	return sms / float64(g.p.SMs), threads / float64(g.p.SMs*g.p.SM.Threads)
}

// Usage returns the share of SMs that have a block, averaged over the time since the start.
func (g *GPU) Usage() float64 { return g.busy / float64(max(1, g.now)) / float64(g.p.SMs) }

func (g *GPU) newRun() *run {
	if n := len(g.spareRuns); n > 0 {
		r := g.spareRuns[n-1]
		g.spareRuns = g.spareRuns[:n-1]
		return r
	}
	return &run{}
}

// retire removes a run and stores its memory for later runs.
func (g *GPU) retire(r *run) {
	i := slices.Index(g.active, r)
	g.active = slices.Delete(g.active, i, i+1)
	*r = run{parts: r.parts[:0]}
	g.spareRuns = append(g.spareRuns, r)
}

func (g *GPU) newClass() *class {
	if n := len(g.spareClasses); n > 0 {
		c := g.spareClasses[n-1]
		g.spareClasses = g.spareClasses[:n-1]
		return c
	}
	return &class{}
}

// fifo is a ring buffer.
type fifo struct {
	items []*Item
	from  int
	n     int
}

func (f *fifo) len() int    { return f.n }
func (f *fifo) head() *Item { return f.items[f.from] }
func (f *fifo) push(it *Item) {
	if f.n == len(f.items) {
		grown := make([]*Item, max(8, 2*f.n))
		for i := range f.n {
			grown[i] = f.items[(f.from+i)%len(f.items)]
		}
		f.items, f.from = grown, 0
	}
	f.items[(f.from+f.n)%len(f.items)] = it
	f.n++
}

func (f *fifo) pop() *Item {
	it := f.items[f.from]
	f.items[f.from] = nil
	f.from = (f.from + 1) % len(f.items)
	f.n--
	return it
}
