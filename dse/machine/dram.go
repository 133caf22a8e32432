package machine

import (
	"math"

	"github.com/sluice-npu/sluice/hw/configs"
)

// burst is a burst in flight.
type burst struct {
	due   int64
	beats int
}

// bank is the state of the memory for one port (Port in sim/dram.hpp).
type bank struct {
	reads, writes, answers   queue[burst]
	buffer                   int // number of beats accepted but not yet stored
	rvalid, rlast, bvalid    bool
	arready, awready, wready bool
}

// Limits of the model.
const (
	memoryBursts = 16 // number of bursts per port and direction
	memoryBeats  = 16 // number of beats that a port accepts before the memory stores them
)

// dram is the memory. It has one token bucket for all ports. The ports alternate beat by beat.
type dram struct {
	now, latency            int64
	tokens, rate, cap, cost int64 // in units of 1/65536 byte
	turn                    int
	idle                    bool
	ports                   []bank
}

func (x *dram) reset(d configs.Design) {
	x.latency = int64(max(1, d.DRAM.LatencyCycles))
	x.rate, x.cost = int64(math.Round(d.DRAM.BytesPerCycle*65536)), int64(d.AXIBytes)<<16
	x.cap = x.rate + x.cost
	x.tokens = x.cap
	x.ports = make([]bank, d.NAXI)
}

func (x *dram) read(p, beats int) {
	x.ports[p].reads.push(burst{x.now + x.latency, beats})
	x.idle = false
}

func (x *dram) step() {
	if x.now++; x.idle {
		return
	}
	x.tokens = min(x.tokens+x.rate, x.cap)
	next, at := x.turn, x.turn
	for range 2 * len(x.ports) {
		p := &x.ports[at>>1]
		kind := at & 1
		if at++; at == 2*len(x.ports) {
			at = 0
		}
		if kind == 0 {
			p.rvalid = false
		}
		if x.tokens < x.cost {
			continue
		}
		if kind == 1 {
			if p.buffer == 0 || p.writes.n == 0 {
				continue
			}
			p.buffer--
			if w := p.writes.front(); w.beats > 1 {
				w.beats--
			} else {
				p.writes.pop()
				p.answers.push(burst{due: x.now + x.latency - 1})
			}
		} else {
			if p.reads.n == 0 || p.reads.front().due > x.now {
				continue
			}
			r := p.reads.front()
			r.beats--
			p.rvalid, p.rlast = true, r.beats == 0
			if p.rlast {
				p.reads.pop()
			}
		}
		x.tokens -= x.cost
		next = at
	}
	x.turn = next
	x.idle = x.tokens == x.cap
	for i := range x.ports {
		p := &x.ports[i]
		if p.bvalid = p.answers.n > 0 && p.answers.front().due <= x.now; p.bvalid {
			p.answers.pop()
		}
		p.arready, p.awready, p.wready = p.reads.n < memoryBursts, p.writes.n+p.answers.n < memoryBursts, p.buffer < memoryBeats
		x.idle = x.idle && p.reads.n+p.writes.n+p.answers.n+p.buffer == 0 && !p.rvalid && !p.bvalid
	}
	if x.idle {
		x.turn = 0
	}
}
