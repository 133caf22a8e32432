package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Fetch is the number of cycles from the request for a layer's descriptor until the descriptor is offered to the units.
// It includes the checks of the descriptor, for a single row tile that contains the whole layer.
func Fetch(d configs.Design, g Geom, bact int) int64 {
	beats := cycles(abi.DescBytes, min(d.DRAM.BytesPerCycle, float64(d.AXIBytes))) // one stripe on one port
	checks := Checks(d, &g, g.InRowsOnChip(g.OutH), bact, g.OutH)
	return rtl.FetchStates + int64(d.DRAM.LatencyCycles) + readPath(d) - 2 + beats + int64(checks)
}

// Step contains the properties of a layer that a walk needs in addition to the layer's cycles. All properties are in
// cycles. They do not depend on k, s, loop order or row tile.
type Step struct {
	fetch int64 // Fetch
	there int64 // from the request to the data of a read
	late  int64 // from the barrier until the layer needs weights, if the weights are read when the layer is offered
	moved int64 // time on the DRAM for all bytes of the layer, each moved once
	tail  int64 // from the last byte read to the end of the layer
	taken int64 // from the time at which the units are ready for another layer to the end of the layer
	ring  int64 // time on the DRAM to fill the ring
}

// StepOf returns the step of a layer. If `in` is true, the layer's input is on chip. If `out` is true, its output is
// only on chip.
func StepOf(d configs.Design, g Geom, bact int, in, out bool) Step {
	m := Prepare(d, g, K1, 1)
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

// Walk is the state of a start between two layers. Times are in cycles since the start began.
type Walk struct {
	End   int64 // time at which the previous layer is completely written
	dram  int64 // earliest time at which the DRAM can have moved everything so far
	taken int64 // time at which the units had accepted the previous layer
	ready int64 // time at which the units are ready for the next layer
}

// Before reports whether every time of w is at most as late as the same time of o.
func (w *Walk) Before(o *Walk) bool {
	return max(w.End-o.End, w.dram-o.dram, w.taken-o.taken, w.ready-o.ready) <= 0
}

// Next returns the state after one more layer. The parameter cycles is the result of the function Layer, which assumes
// that weights that fit the ring are on chip. Next adds the wait for weights if the DRAM was busy or the layer was
// offered too late. For the first layer of a start, the parameter already includes this wait.
func (w Walk) Next(s *Step, cycles int64) Walk {
	first := w == Walk{}
	offered := w.taken + rtl.OfferNext + s.fetch
	if first {
		w.End = Start(configs.Design{})
		offered = w.End + s.fetch
	}
	from := max(w.dram, offered+s.there) // time at which the first byte of its weights arrives
	end := w.End + cycles
	if !first {
		end = max(end, from-s.there+s.late+cycles, from+s.moved+s.tail)
	}
	return Walk{End: end, dram: max(from+s.moved, end-s.ring), taken: max(offered, w.ready), ready: end - s.taken}
}

// Walked returns the time of each layer of a start (InStart) under its entry.
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
