package cost

import (
	"math"

	"github.com/sluice-npu/sluice/hw/configs"
)

// The geometry of runs: which beats, stripes and requests the pieces of a tensor that lie one behind the other in DRAM
// touch. It follows from the layer and from where its tensors lie, like all of geom.go.

// run is the average cost of one of a tensor's runs: bytes of the wide beats that it touches, bursts, ends within a
// wide beat (each costs one cycle when results are packed), and chunks, the requests for residuals.
type run struct{ bytes, bursts, ragged, chunks float64 }

// times returns the cost of n runs, or of a part of one.
func (r run) times(n float64) run { return run{n * r.bytes, n * r.bursts, n * r.ragged, n * r.chunks} }

// read and written return the traffic of n runs.
func (r run) read(n int64) traffic {
	return traffic{read: int64(float64(n) * r.bytes), reads: int64(float64(n) * r.bursts)}
}

func (r run) written(n int64) traffic {
	return traffic{written: int64(float64(n) * r.bytes), writes: int64(float64(n) * r.bursts)}
}

// touched returns the average number of aligned blocks of unit bytes (a power of two) that a run of n bytes touches.
// The first run begins at offset, the others at distances of pitch bytes.
func touched(unit, n, pitch, offset int64) float64 {
	step := gcd(pitch, unit) // distance between possible run starts in a block
	whole, rest := (n-1)/unit, (n-1)%unit
	places := unit / step
	within := (unit - rest - offset%step + step - 1) / step // number of starts for which a run ends in its last whole block
	return float64(whole+1) + float64(max(0, places-within))/float64(places)
}

// ragged returns the share of addresses at distances of pitch bytes, the first at offset, that are within a block of
// unit bytes and not at its start.
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

// row returns the cost of an input row: one run, or one run per pixel if pixels have other elements between them.
func (m *Prepared) row() run {
	g, n := &m.g, int64(m.d.ElemBytes())
	if row := int64(g.InRow()) * n; g.InPix == g.InC {
		return m.runOf(row, row, g.InOffset)
	}
	return m.runOf(int64(g.InC)*n, int64(g.InPix)*n, g.InOffset).times(float64(g.InW))
}

// pixel returns the cost of a pixel's results or residuals for a C tile of size channels: one run per pixel, or one run
// per row if the tile has all channels.
func (m *Prepared) pixel(size, pix int, offset int64) run {
	pitch, w := int64(pix*m.d.ElemBytes()), m.g.OutW
	if size == m.g.OutC && pix == size {
		return m.runOf(int64(w)*pitch, int64(w)*pitch, offset).times(1 / float64(w))
	}
	return m.runOf(int64(size*m.d.ElemBytes()), pitch, offset)
}

// runOf returns the cost of runs of n bytes, the first at offset, the others at distances of pitch bytes. Several ports
// receive stripes; a single port gets bursts of the maximum length.
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

// Seen returns g with its offsets reduced to what the law on this design can distinguish. Runs at a constant pitch
// begin at the same places in beats and stripes if their offsets are equal modulo the common divisor of the pitch and
// these.
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
