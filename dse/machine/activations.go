package machine

import "github.com/sluice-npu/sluice/dse/rtl"

// loader is act_loader. This unit loads row tiles into the halves of the activation buffer, and counts the rows that
// have arrived.
type loader struct {
	state  state
	l      *layer
	layer  int // number of layers accepted since the start
	busy   [2]bool
	start  bool // half that the layer uses first
	half   int  // half that the current tile uses
	pad    int
	c0     int
	b0, oh int
	nb, nr int
	i, j   int
	ih0    int // input row in the first place of the tile
	group  int
	pix    int
	known  bool // the position of the next tile is known

	metas  queue[bool] // by run in flight: whether the run ends a row
	places queue[place]
	rows   int // number of rows that have arrived but are not yet in avail
	avail  [4]int
	freed  [2]bool // halves that became free in this cycle
}

type place struct {
	at  int // index in avail
	nil bool
}

func (x *loader) take(m *machine) {
	l := m.fetch.take(m, unitActs)
	if l == nil {
		return
	}
	x.l, x.pad, x.state = l, 0, pad
	x.start = l.KeepIn && !x.start
	x.half = 0
	if x.start {
		x.half = 1
	}
}

func (x *loader) step(m *machine) {
	ready := x.metas.n < rtl.PlacesUnderWay && x.places.n < rtl.PlacesUnderWay
	if x.places.n > 0 && (x.places.front().nil || x.rows > 0) {
		p := x.places.pop()
		x.avail[p.at]++
		if !p.nil {
			x.rows--
		}
	}
	if m.read.answered(clientActs) && m.read.last && x.metas.pop() {
		x.rows++
	}
	x.advance(m, ready)
	for h, freed := range x.freed {
		if freed {
			x.busy[h], x.avail[h], x.avail[2+h], x.freed[h] = false, 0, 0, false
		}
	}
}

// allPlaces is the number of places of a kept tensor.
const allPlaces = 1<<16 - 1

func (x *loader) advance(m *machine, ready bool) {
	l := x.l
	switch x.state {
	case idle:
		x.take(m)
	case pad:
		if x.pad++; x.pad > l.PadT {
			x.state = barrier
		}
		x.b0, x.oh, x.c0 = 0, 0, 0
	case barrier:
		x.ih0 = -l.PadT
		if m.ended != x.layer {
			return
		}
		if x.state = half; l.KeepIn {
			x.busy[x.half], x.avail[x.half] = true, allPlaces
			x.layer++
			x.state = idle
		}
	case half:
		x.nb, x.nr = min(int(l.TileB), int(l.BR)-x.b0), min(int(l.TileRows), l.OutH-x.oh)
		x.i, x.j, x.group, x.pix, x.known = 0, 0, 0, 0, false
		if !x.busy[x.half] {
			x.busy[x.half] = true
			x.state = row
		}
	case row:
		x.known = x.known || x.j == x.nr*l.SH
		if ih := x.ih0 + x.j; ih >= 0 && ih < l.InH {
			x.state = running
		} else if ready {
			x.places.push(place{2*x.group + x.half, true})
			x.state = next
		}
	case running:
		if ready {
			x.run(m)
		}
	case next:
		x.next(m.bact)
	case advance:
		x.tile()
	}
}

// run requests a row, or one pixel of the row.
func (x *loader) run(m *machine) {
	l := x.l
	b := x.b0 + x.i + x.group*int(l.BR)
	r := run{addr: b*slot + int(l.InOffset) + (x.ih0+x.j)*l.rowBytes + m.elem*x.pix*l.InPix, elems: l.InC}
	ends := x.pix+1 == l.InW
	if l.InPix == l.InC {
		r.elems, ends = l.InRow(), true
	}
	if at, n := r.beats(m); !m.read.request(clientActs, at, n) {
		return
	}
	x.metas.push(ends)
	x.pix++
	if ends {
		x.places.push(place{2*x.group + x.half, false})
		x.state = next
	}
}

// next proceeds to the next row, to the other group, to the next sample or to the next tile.
func (x *loader) next(bact int) {
	l := x.l
	x.pix, x.state = 0, row
	if x.j++; x.j < (x.nr-1)*l.SH+l.KH {
		return
	}
	other := l.two && x.group == 0 && x.b0+x.i+int(l.BR) < bact
	switch {
	case other:
		x.group, x.j = 1, 0
		return
	case x.i+1 < x.nb:
		x.i++
		x.j = 0
	default:
		x.state = advance
	}
	x.group = 0
}

// tile proceeds to the next tile. If the stride skips rows, this needs one cycle per skipped row.
func (x *loader) tile() {
	l := x.l
	if x.oh+x.nr < l.OutH {
		if !x.known && x.j != x.nr*l.SH {
			x.j++
			return
		}
		x.half, x.oh, x.ih0, x.state = 1-x.half, x.oh+x.nr, x.ih0+x.nr*l.SH, half
		return
	}
	x.half, x.oh, x.state = 1-x.half, 0, barrier
	if x.b0 += x.nb; x.b0 < int(l.BR) {
		return
	}
	x.b0 = 0
	x.c0 += l.tc
	if !l.Order || l.few || x.c0 >= l.OutC {
		x.state = idle
		x.layer++
	}
}
