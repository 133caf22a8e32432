package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// Event describes what a unit has completed at a cycle. The unit has the name of its module in hw/rtl.
type Event struct {
	At   int64 // cycle, counted from the end of the previous layer or the beginning of the start
	Unit string
	What string
}

// Trace simulates a start as Run does. It also returns the events of one layer of the start.
func Trace(ctx context.Context, d configs.Design, layers []Layer, bact, layer int) ([]Event, Result, error) {
	t := tracer{layer: layer}
	r, err := watched(ctx, d, layers, bact, t.look)
	for i := range t.events {
		t.events[i].At -= t.begin
	}
	return t.events, r, err
}

// tracer compares the registers after a clock edge with the registers after the previous edge.
type tracer struct {
	layer  int
	begin  int64 // cycle at which the previous layer was written
	events []Event

	fetch, half, walk, drain state
	biased, ended            int
	asked, loaded, written   bool
	places                   [4]int // number of places of the tile that have not arrived, by half
	pass                     int
	since                    int64 // cycle at which the pass begins: the last row of the previous pass
	stalls                   Stalls
	same                     passes
}

// passes represents a sequence of equal passes.
type passes struct {
	first, n int
	at       int // index in events
	rows     int
	took     int64
	waits    string
}

func (t *tracer) add(m *machine, unit, format string, args ...any) {
	t.events = append(t.events, Event{m.now, unit, fmt.Sprintf(format, args...)})
}

func (t *tracer) look(m *machine) {
	l := &m.layers[t.layer]
	if f := &m.fetch; f.at == t.layer && f.state != t.fetch {
		switch t.fetch = f.state; f.state {
		case checking:
			t.add(m, "layer_fetch", "descriptor there, %d cycles of checks follow", l.checking)
		case offer:
			t.add(m, "layer_fetch", "layer offered to the units")
		}
	}
	if b := m.weight.biased; b != t.biased {
		if t.biased = b; b == t.layer+1 && l.BiasCount > 0 {
			t.add(m, "weight_fetch", "%d biases in their memory", l.BiasCount)
		}
	}
	t.rows(m, l)
	if x := &m.feed; !t.loaded && x.l == l && x.state == full {
		t.loaded = true
		t.add(m, "weight_feed", "weights of the first pass there")
	}
	if m.array.l == l && l.GEMM() {
		t.passes(m, l)
	}
	if m.pool.l == l && !l.GEMM() {
		t.walked(m)
	}
	if m.drain.l == l && l.Drained() {
		t.words(m)
	}
	if o := &m.out; m.ended == t.layer && o.runs.l == l && o.closing && o.state == idle && o.fill == 0 && o.keep == 0 && !t.written {
		t.written = true
		t.add(m, "npu_output", "last result on its way to DRAM, or kept")
	}
	if m.ended != t.ended {
		if t.ended = m.ended; m.ended == t.layer {
			t.begin = m.now
		}
		if m.ended == t.layer+1 {
			t.add(m, "npu_output", "layer written")
		}
	}
}

// rows adds events of tiles that act_loader loads.
func (t *tracer) rows(m *machine, l *layer) {
	a := &m.acts
	if a.l != l || m.ended > t.layer {
		return
	}
	if a.state == row && t.half == half {
		t.places[a.half] = a.nb * ((a.nr-1)*l.SH + l.KH)
		t.asked = false
	}
	t.half = a.state
	if a.state == next && a.metas.n > 0 && !t.asked {
		t.asked = true
		t.add(m, "act_loader", "first row of a tile of %d x %d asked for", a.nb, a.nr)
	}
	for i, n := range t.places {
		if n > 0 && a.avail[i] >= n {
			t.places[i] = 0
			t.add(m, "act_loader", "its %d rows there, padding among them", n)
		}
	}
}

// passes adds events of the passes of the array. Consecutive equal passes are one event.
func (t *tracer) passes(m *machine, l *layer) {
	x := &m.array
	n := x.item*l.passes + x.kh*ceil(l.KWC(), l.lanes) + x.chunk
	if t.walk != running && x.state == running && n == 0 {
		t.since, t.stalls, t.pass = m.now, m.Stalls, 0
	}
	t.walk = x.state
	if n == t.pass {
		return
	}
	item := &l.items[t.pass/l.passes]
	s, was := &m.Stalls, &t.stalls
	p := passes{first: t.pass%l.passes + 1, n: 1, rows: item.nb * item.nr * l.OutW, took: m.now - t.since}
	p.waits = waits(s.Weights-was.Weights, s.Activations-was.Activations, s.Drain-was.Drain, s.Depth-was.Depth)
	if q := &t.same; q.n > 0 && q.rows == p.rows && q.took == p.took && q.waits == p.waits && p.first > 1 {
		q.n++
		t.events = slices.Delete(t.events, q.at, q.at+1)
	} else {
		t.same = p
	}
	t.same.at = len(t.events)
	text, q := fmt.Sprintf("pass %d", t.same.first), &t.same
	if q.n > 1 {
		text = fmt.Sprintf("passes %d to %d, each", q.first, q.first+q.n-1)
	}
	t.add(m, "gemm_seq", "%s of %d: %d rows in %d cycles%s", text, l.passes, q.rows, q.took, q.waits)
	t.pass, t.since, t.stalls = n, m.now, m.Stalls
}

// waits describes lost cycles by the names of the stall counters.
func waits(weights, activations, drain, depth uint64) string {
	var all []string
	for _, w := range []struct {
		name string
		n    uint64
	}{{"weights", weights}, {"activations", activations}, {"drain", drain}, {"depth", depth}} {
		if w.n > 0 {
			all = append(all, fmt.Sprintf("%s %d", w.name, w.n))
		}
	}
	if all == nil {
		return ""
	}
	return ", waits: " + strings.Join(all, ", ")
}

// walked adds events of tiles that pool_seq has processed.
func (t *tracer) walked(m *machine) {
	x := &m.pool
	if x.state == t.walk {
		return
	}
	if t.walk == running {
		t.add(m, "pool_seq", "last tap of a tile%s", waits(0, m.Stalls.Activations-t.stalls.Activations, 0, 0))
	} else if x.state == running {
		t.add(m, "pool_seq", "first tap of a tile")
		t.stalls = m.Stalls
	}
	t.walk = x.state
}

// words adds events of items that the drain has output.
func (t *tracer) words(m *machine) {
	x := &m.drain
	if x.state == t.drain {
		return
	}
	if x.state == running {
		t.add(m, "drain", "a C tile's sums complete, %d words a cycle", x.l.step)
	} else if t.drain == last {
		t.add(m, "drain", "its last words on their way")
	}
	t.drain = x.state
}
