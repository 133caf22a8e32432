package cost

import (
	"math"

	"github.com/sluice-npu/sluice/hw/configs"
)

// This file computes the geometry of runs. A run is a contiguous piece of a tensor in DRAM. The geometry describes
// which beats, stripes and requests a run touches. It depends only on the layer and on the addresses of its tensors.

// run is the average cost of a run of a tensor: bytes of the touched wide beats, bursts, ends within a wide beat
// (ragged), and requests for residuals (chunks). When results are packed, each such end costs one cycle.
type run struct{ bytes, bursts, ragged, chunks float64 }

// times returns the cost of n runs, or of a fraction n of a run.
func (r run) times(n float64) run { return run{n * r.bytes, n * r.bursts, n * r.ragged, n * r.chunks} }

// read and written return the traffic of n runs.
func (r run) read(n int64) traffic {
	return traffic{read: int64(float64(n) * r.bytes), reads: int64(float64(n) * r.bursts)}
}

func (r run) written(n int64) traffic {
	return traffic{written: int64(float64(n) * r.bytes), writes: int64(float64(n) * r.bursts)}
}

// touched returns the average number of aligned blocks of `unit` bytes (a power of two) that a run of n bytes touches.
// The first run begins at offset. The distance between the starts of neighbouring runs is `pitch` bytes.
func touched(unit, n, pitch, offset int64) float64 {
	step := gcd(pitch, unit) // distance between possible starts of a run in a block
	whole, rest := (n-1)/unit, (n-1)%unit
	places := unit / step
	within := (unit - rest - offset%step + step - 1) / step // number of starts for which a run touches no additional block
	return float64(whole+1) + float64(max(0, places-within))/float64(places)
}

// ragged returns the share of addresses that are not at the start of a block of `unit` bytes. The first address is
// `offset`, and the addresses are `pitch` bytes apart.
func ragged(unit, pitch, offset int64) float64 {
	step := gcd(pitch, unit)
	if offset%step != 0 {
		return 1
	}
	return 1 - float64(step)/float64(unit)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// row returns the cost of an input row. The row is one run, or one run per pixel if other elements are between pixels.
func (m *Prepared) row() run {
	g, n := &m.g, int64(m.d.ElemBytes())
	if row := int64(g.InRow()) * n; g.InPix == g.InC {
		return m.runOf(row, row, g.InOffset)
	}
	return m.runOf(int64(g.InC)*n, int64(g.InPix)*n, g.InOffset).times(float64(g.InW))
}

// pixel returns the cost of a pixel's results or residuals for a C tile of size channels. A pixel is one run. If the
// tile has all channels, a whole row is one run.
func (m *Prepared) pixel(size, pix int, offset int64) run {
	pitch, w := int64(pix*m.d.ElemBytes()), m.g.OutW
	if size == m.g.OutC && pix == size {
		return m.runOf(int64(w)*pitch, int64(w)*pitch, offset).times(1 / float64(w))
	}
	return m.runOf(int64(size*m.d.ElemBytes()), pitch, offset)
}

// runOf returns the average cost of a run of n bytes. The first run begins at offset, and each next run pitch bytes
// later. For several ports, a run is split into aligned stripes; for a single port, into bursts of the maximum length.
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

// Seen returns g with reduced offsets, so that geometries become equal if the law on this design cannot distinguish
// them. The position of a run in beats and stripes depends only on the offset modulo gcd(pitch, lcm(beat, stripe)).
func Seen(d configs.Design, g Geom) Geom {
	m := memoryOf(&d)
	unit := m.stripe * m.wide / gcd(m.stripe, m.wide)
	place := func(offset int64, c, pix, w int) int64 {
		if c == pix { // one run per row
			pix *= w
		}
		return offset % gcd(int64(pix*d.ElemBytes()), unit)
	}
	g.InOffset = place(g.InOffset, g.InC, g.InPix, g.InW)
	g.OutOffset, g.ResOffset = place(g.OutOffset, g.OutC, g.OutPix, g.OutW), place(g.ResOffset, g.OutC, g.ResPix, g.OutW)
	return g
}
