package cost

import (
	"math"
	"math/bits"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/configs"
)

// memory is the DRAM and the ports to it.
type memory struct {
	bpc, port, rate  float64 // bytes a cycle: DRAM, ports in one direction, the smaller
	perByte, perPort float64 // cycles a byte
	perUnder         float64 // of what each burst takes
	beatBits         int     // logarithm of beat, a power of two
	perRead          float64 // cycles a byte that is read, which needs room in the queue of one of several ports
	perWeight        float64 // cycles a byte of weights that come as the ring gives up others; 0: it holds those of a round trip

	beat, wide, stripe int64 // bytes of a port's beat, of all ports', of the longest burst
	chunk              int64 // of a request for residuals or weights
	ports, under       int64 // bursts under way on all of them at most
	latency, there     int64 // of the DRAM; of a read on all its way
	again              int64 // half of the buffer free to a row in it
}

func memoryOf(d *configs.Design) memory {
	m := memory{
		bpc: d.DRAM.BytesPerCycle, port: float64(d.NAXI * d.AXIBytes),
		beat: int64(d.AXIBytes), wide: int64(d.WideBytes()), stripe: int64(min(rtl.StripeBeats, d.MaxBurst) * d.AXIBytes),
		ports: int64(d.NAXI), under: int64(rtl.BurstsUnderWay * d.NAXI), latency: int64(d.DRAM.LatencyCycles),
	}
	m.chunk = m.wide * min(rtl.StripeBeats, max(1, rtl.ChunkBytes/m.wide))
	m.rate = min(m.bpc, m.port)
	m.there = m.latency + readPath(*d)
	m.again = m.there + rtl.Turn
	m.perByte, m.perPort, m.perUnder = 1/m.bpc, 1/m.port, 1/float64(m.under)
	m.beatBits = bits.Len64(uint64(m.beat)) - 1
	m.perRead = m.perPort
	if m.ports > 1 {
		m.perRead = max(m.perRead, float64(m.there+m.stripe/m.beat)/float64(m.ports*min(rtl.PortBeats*m.wide, rtl.PortStripes*m.stripe)))
	}
	if trip, ring := float64(m.there+rtl.RingPath), float64(d.WRingBeats*d.AXIBytes); trip*float64(m.wide) > ring {
		m.perWeight = trip / ring
	}
	return m
}

// almostOne rounds cycles up that are not whole but for rounding.
const almostOne = 1 - 1e-6

// time is how long it takes: what the DRAM moves in a cycle, what the ports do in either direction (with room for what is under way), and
// the bursts that may be under way at a time, each for a latency and its own beats.
func (m *memory) time(t traffic) int64 {
	most := max(float64(t.read+t.written)*m.perByte, float64(t.written)*m.perPort, float64(t.read)*m.perRead)
	life := m.latency + rtl.BurstCycles + 1
	wait := max(t.reads*life+t.read>>m.beatBits, t.writes*life+t.written>>m.beatBits)
	return max(int64(most+almostOne), int64(float64(wait)*m.perUnder))
}

// fresh is how long it takes where nothing is under way: the first bursts wait for nothing but the DRAM.
func (m *memory) fresh(t traffic) int64 {
	if t.reads <= m.under {
		t.reads = 0
	}
	return m.time(t)
}

// runOf is the cost of runs of n bytes, the first at offset, the others pitch bytes behind each other. Several
// ports get stripes; one has bursts as long as they may be.
func (m *memory) runOf(n, pitch, offset int64) run {
	r := run{
		bytes:  float64(m.wide) * touched(m.wide, n, pitch, offset),
		bursts: float64((n + m.stripe - 1) / m.stripe),
		ragged: ragged(m.wide, pitch, offset) + ragged(m.wide, pitch, offset+n),
	}
	r.chunks = math.Ceil(r.bytes / float64(m.chunk))
	if m.ports > 1 {
		r.bursts = touched(m.stripe, n, pitch, offset)
	}
	return r
}

// Seen is a geometry with its offsets as far as the law sees them on a design: runs that lie a pitch apart begin at the
// same places in beats and stripes wherever an offset is the same modulo what pitch and these have in common.
func Seen(d configs.Design, g Geom) Geom {
	m := memoryOf(&d)
	unit := m.stripe * m.wide / gcd(m.stripe, m.wide)
	place := func(offset int64, c, pix, w int) int64 {
		if c == pix { // a run a row
			pix *= w
		}
		return offset % gcd(int64(pix*d.ElemBytes()), unit)
	}
	g.InOffset = place(g.InOffset, g.InC, g.InPix, g.InW)
	g.OutOffset, g.ResOffset = place(g.OutOffset, g.OutC, g.OutPix, g.OutW), place(g.ResOffset, g.OutC, g.ResPix, g.OutW)
	return g
}
