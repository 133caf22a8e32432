package cuda

import (
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Proxy returns the register limit for a launch of a number of blocks on a number of SMs. An SM holds resident blocks of
// the kernel of one layer; held has the numbers for the other kernels, by registers.
func Proxy(resident, blocks, sms int, held [][2]int) int {
	l := &launcher{resident: resident}
	for _, h := range held {
		l.proxies = append(l.proxies, proxy{registers: h[0], resident: h[1]})
	}
	return l.proxy(blocks, sms).registers
}

// Anchor is a reading of both clocks, for Spans.
type Anchor struct {
	Host, Width time.Duration
	GPU         uint64
}

// AnchorOf returns the narrowest reading of several runs of the clock's kernel, from their launch times and the values
// seen, alternately of host and GPU.
func AnchorOf(launched []time.Duration, seen [][]time.Duration) Anchor {
	var best anchor
	for i, run := range seen {
		var all []sighting
		for k := 0; k < len(run); k += 2 {
			all = append(all, sighting{run[k], uint64(run[k+1])})
		}
		best = narrower(best, anchorOf(launched[i], all))
	}
	return Anchor{best.host, best.width, best.gpu}
}

// Spans returns the result for an observed preemption between two anchors, with a timer of a given step. flagged is
// negative if no flag was set.
func Spans(arrived, flagged, away, over time.Duration, gone, began uint64, before, after Anchor, step time.Duration) (Preemption, Clock) {
	return spansOf(false, arrived, flagged, away, over, gone, began, before, after, step)
}

// SpansAhead is Spans for priority that was launched before the flag.
func SpansAhead(arrived, flagged, away, over time.Duration, gone, began uint64, before, after Anchor, step time.Duration) (Preemption, Clock) {
	return spansOf(true, arrived, flagged, away, over, gone, began, before, after, step)
}

func spansOf(ahead bool, arrived, flagged, away, over time.Duration, gone, began uint64, before, after Anchor, step time.Duration) (Preemption, Clock) {
	start := time.Now()
	m := &meeting{ahead: ahead, arrived: start.Add(arrived), away: start.Add(away), over: start.Add(over), gone: gone, began: began, timed: true}
	if flagged >= 0 {
		m.flagged = start.Add(flagged)
	}
	of := func(a Anchor) anchor { return anchor{a.Host, a.Width, a.GPU} }
	n := Counts{Clock: Clock{Step: step}}
	n.reckon(&clocks{start, of(before), of(after), step}, []*meeting{m})
	return n.Preemptions[0], n.Clock
}

// LoadAny begins to load a bundle without checking it.
func (d *Device) LoadAny(w device.Work) {
	n, err := prepare(w.Artefact.(*bundle.Bundle))
	d.give(order{work: &w, net: n, err: err})
}

// Intervals returns, by layer, the largest number of clocks between two looks of a block, and the clocks of all tiles.
func Intervals(b *bundle.Bundle) (between, took []int64, err error) {
	for i := range b.Layers {
		l, err := layerOf(&b.Layers[i])
		if err != nil {
			return nil, nil, err
		}
		l.Grid(1)
		between, took = append(between, l.Interval()), append(took, int64(l.To)*l.Steps())
	}
	return between, took, nil
}

// Standing is the state of a launch: with a kernel on the GPU, or waiting for its turn, unless its control word is being
// written.
type Standing struct {
	There, Priority, Cleaning bool
	Ticket                    uint64 // of its work at the driver
	Units                     device.Units
}

// InTheWay reports whether g is in the way of f; both may be the same.
func InTheWay(g, f *Standing) bool {
	made := func(s *Standing) *flow {
		f := &flow{rt: s.Priority, cleaning: s.Cleaning, ticket: s.Ticket, lane: &lane{key: laneKey{units: s.Units}}}
		if f.in = f.lane; s.There {
			f.flying = 1
			f.in.fly = []fly{{ticket: s.Ticket, flows: [kernels.MaxRoles]*flow{f}}}
		}
		return f
	}
	of := made(f)
	if g == f {
		return (&launcher{}).inTheWay(of, of)
	}
	return (&launcher{}).inTheWay(made(g), of)
}

// Aged is a launch with the time since its last progress and its limit. There: it is on the GPU.
type Aged struct {
	Still, Limit time.Duration
	There        bool
}

// Late reports whether f hangs, if g is before it.
func Late(f, g Aged) bool {
	l, now := &launcher{}, time.Now()
	for i, a := range []Aged{g, f} {
		x := &flow{work: &device.Work{Limit: int64(a.Limit)}, patience: now.Add(-a.Still), lane: &lane{}}
		if x.in = x.lane; a.There {
			x.flying = 1
			x.in.fly = []fly{{ticket: uint64(i + 1), flows: [kernels.MaxRoles]*flow{x}}}
		}
		l.flows = append(l.flows, x)
	}
	return l.late(l.flows[1])
}
