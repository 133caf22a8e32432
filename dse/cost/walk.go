package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Fetch is the cycles from the request for a layer's descriptor until it is offered to the units. Its checks are here those
// of a layer whose row tile is all of it.
func Fetch(d configs.Design, g Geom, bact int) int64 {
	beats := cycles(abi.DescBytes, min(d.DRAM.BytesPerCycle, float64(d.AXIBytes))) // a stripe: of one port
	checks := Checks(d, &g, g.InRowsOnChip(g.OutH), bact, g.OutH)
	return rtl.FetchStates + int64(d.DRAM.LatencyCycles) + readPath(d) - 2 + beats + int64(checks)
}

// Step is what a walk knows of a layer beside its cycles. Nothing of it depends on k, s, loop order and row tile.
type Step struct {
	fetch int64 // Fetch
	there int64 // of a read on all its way
	late  int64 // by how much its weights come behind the barrier where they begin to come with its offer
	moved int64 // that the DRAM takes for all that the layer moves once
	tail  int64 // last byte read to the end
	taken int64 // units ready for another layer to the end
	ring  int64 // that the DRAM takes to fill the ring
}

// StepOf is a layer's, of which what it reads (in) or writes (out) is on chip only.
func StepOf(d configs.Design, g Geom, bact int, in, out bool) Step {
	p := Prepare(d, g, K1, 1)
	m := &p
	s := Step{fetch: Fetch(d, g, bact), there: m.there, ring: cycles(m.ring, m.rate), tail: m.latency + writePath(&d, &g)}
	pixels := int64(bact) * int64(g.OutH) * int64(g.OutW)
	t := traffic{read: m.biases + m.weightBytes + abi.DescBytes}
	if !in {
		t.add(m.input(g.inRows(0, g.OutH), bact))
		s.late = rtl.OfferRows + int64(g.PadT) + cycles(m.biases+m.low, m.rate)
	} else if s.late = rtl.OfferRows; g.Drained() {
		s.late += m.there + cycles(abi.DescBytes+m.biases+m.pass, m.rate) + rtl.OfferPasses - rtl.OfferRows
	}
	if out {
		s.tail, s.taken = rtl.KeptEnd+words(&d, &g), rtl.TakenKept
	} else {
		t.add(m.full.out.written(pixels * int64(g.OutC/m.full.size)))
		s.taken = m.latency + rtl.TakenDRAM
	}
	if !g.Drained() {
		s.taken = rtl.TakenPool
	}
	t.add(m.full.res.read(pixels * int64(g.OutC/m.full.size)))
	if g.GEMM() {
		s.tail += rtl.DrainDelay + m.toSums
	}
	s.moved = max(cycles(t.read+t.written, m.bpc), cycles(t.read, m.port), cycles(t.written, m.port))
	return s
}

// Walk is where a start stands between two of its layers, in cycles since it began.
type Walk struct {
	End   int64 // the layer before is written
	dram  int64 // the DRAM could have moved all up to there
	taken int64 // the units had taken the layer before
	ready int64 // they are ready for the next one
}

// Before tells whether the walk is nowhere behind another.
func (w *Walk) Before(o *Walk) bool {
	return max(w.End-o.End, w.dram-o.dram, w.taken-o.taken, w.ready-o.ready) <= 0
}

// Next is the walk behind one more layer that takes so many cycles where all its weights that the ring takes are there
// (Layer). They are where the DRAM had time and the layer was offered early enough; the walk's first has its own way in
// its cycles.
func (w Walk) Next(s *Step, cycles int64) Walk {
	first := w == Walk{}
	offered := w.taken + rtl.OfferNext + s.fetch
	if first {
		w.End = Start(configs.Design{})
		offered = w.End + s.fetch
	}
	from := max(w.dram, offered+s.there) // first byte of its weights
	end := w.End + cycles
	if !first {
		end = max(end, from-s.there+s.late+cycles, from+s.moved+s.tail)
	}
	return Walk{End: end, dram: max(from+s.moved, end-s.ring), taken: max(offered, w.ready), ready: end - s.taken}
}

// Walked is what each layer of a start takes in it (InStart) under its entry.
func Walked(d configs.Design, layers []Geom, bact int, entries []abi.FBCB) []Breakdown {
	out := make([]Breakdown, len(layers))
	w, end := Walk{}, Start(d)
	for i, g := range layers {
		out[i] = Layer(d, g, bact, entries[i])
		s := StepOf(d, g, bact, entries[i].KeepIn, entries[i].OnChip)
		w = w.Next(&s, out[i].Total)
		out[i].Wait = w.End - end - out[i].Total
		out[i].Total, end = w.End-end, w.End
	}
	return out
}
