package cost

import (
	"math/bits"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/configs"
)

// memory describes the DRAM and its ports.
type memory struct {
	bpc, port, rate  float64 // bytes per cycle: of the DRAM; of the ports in one direction; the smaller of the two
	perByte, perPort float64 // cycles per byte
	perUnder         float64 // 1 / under
	beatBits         int     // logarithm of beat, which is a power of two
	perRead          float64 // cycles per byte read, including the wait for room in the queue if there are several ports
	perWeight        float64 // cycles per byte of weights that wait for room in the ring; 0: the ring can store a round trip

	beat, wide, stripe int64 // bytes: of a port's beat; of one beat on all ports together; of the longest burst
	chunk, ring        int64 // bytes: of a request for residuals or weights; of the weights ring
	ports, under       int64 // number of ports; maximum number of bursts in flight on all ports
	latency, there     int64 // cycles: latency of the DRAM; from the request to the data of a read
	again              int64 // cycles until a row is in a half of the buffer after the half has become free
}

func memoryOf(d *configs.Design) memory {
	m := memory{
		bpc: d.DRAM.BytesPerCycle, port: float64(d.NAXI * d.AXIBytes),
		ring: int64(d.WRingBeats * d.AXIBytes), beat: int64(d.AXIBytes), wide: int64(d.WideBytes()), stripe: int64(min(rtl.StripeBeats, d.MaxBurst) * d.AXIBytes),
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
	if trip := m.there + rtl.RingPath; trip*m.wide > m.ring {
		m.perWeight = float64(trip) / float64(m.ring)
	}
	return m
}

// almostOne rounds cycles up if it is added before rounding down. Fractions that are only a rounding error do not
// count.
const almostOne = 1 - 1e-6

// time returns the cycles that the traffic t needs: the longest of the DRAM transfer, the port transfer in one
// direction, and the bursts. The field perRead includes the time that reads wait for room in the queues. A burst is in
// flight for a latency and one cycle per beat, and the number of bursts in flight is limited.
func (m *memory) time(t traffic) int64 {
	most := max(float64(t.read+t.written)*m.perByte, float64(t.written)*m.perPort, float64(t.read)*m.perRead)
	life := m.latency + rtl.BurstCycles + 1
	wait := max(t.reads*life+t.read>>m.beatBits, t.writes*life+t.written>>m.beatBits)
	return max(int64(most+almostOne), int64(float64(wait)*m.perUnder))
}
