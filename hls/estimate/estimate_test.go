package estimate

import (
	"testing"

	"github.com/sluice-npu/sluice/hw/abi"
)

// conv returns a 1 x 1 convolution of one item with a residual. Activations, residuals and results have the same number
// of beats.
func conv(rows, width, channels int) (*abi.Desc, abi.FBCB) {
	d := &abi.Desc{
		Op: abi.OpGEMM, Residual: true,
		InH: uint16(rows), InW: uint16(width), InC: uint16(channels), InPix: uint16(channels), InRow: uint32(width * channels),
		OutH: uint16(rows), OutW: uint16(width), OutC: uint16(channels), OutPix: uint16(channels), ResPix: uint16(channels),
		KH: 1, KW: 1, SH: 1, SW: 1, KWC: uint32(channels), BiasCount: uint16(channels),
		OutRowBytes: uint32(2 * width * channels), ResRowBytes: uint32(2 * width * channels),
		WBytes1: 64,
	}
	return d, abi.FBCB{BR: 1, TileB: 1, TileRows: uint16(rows)}
}

// Steps that pass on a whole block run one after another: the time of a layer with one item is the sum of load, array
// and write-back.
func TestOneItem(t *testing.T) {
	m := model(t)
	d, e := conv(4, 4, 4)
	l := m.Layer(d, e, 1)
	front := max(l.Stages["form_rows"], l.Stages["feed_weights"], l.Stages["multiply"], l.Stages["fetch_weights"])
	back := max(l.Stages["drain"], l.Stages["fetch_residual"], l.Stages["write_out"])
	latency := int64(m.Design.DRAM.LatencyCycles)
	if want := l.Stages["load_rows"] + front + back + 2*latency; l.Cycles < want {
		t.Errorf("%d cycles, at least %d expected: %+v", l.Cycles, want, l)
	}
	if l.Stages["write_out"] < 4*latency/outstanding {
		t.Errorf("write_out: %d cycles for 4 answers of %d, %d open at most", l.Stages["write_out"], latency, outstanding)
	}
}

// No layer is faster than the transfer of its beats through the memory ports and DRAM.
func TestFloors(t *testing.T) {
	m := model(t)
	m.Design.DRAM.LatencyCycles = 0
	for name, l := range m.Loops {
		l.Depth = 0
		m.Loops[name] = l
	}
	d, e := conv(4, 16, 4)
	const beats = 4 * 16 * 4 / 4 // each of activations, residuals and results
	m.Design.AXIBytes, m.Design.DRAM.BytesPerCycle = 8, 1e9
	// activations, residuals and weights share one port
	m.Design.NAXI = 1
	one := m.Layer(d, e, 1)
	if want := int64(2*beats + 64/8 + 2); one.Port != want || one.Cycles < want {
		t.Errorf("one port: %d of %d cycles, expected %d: %+v", one.Port, one.Cycles, want, one)
	}
	m.Design.NAXI = 4
	if four := m.Layer(d, e, 1); four.Port != beats {
		t.Errorf("four ports: %+v", four)
	}
	m.Design.DRAM.BytesPerCycle = 0.5
	l := m.Layer(d, e, 1)
	if want := int64(2 * 8 * (3*beats + 64/8 + 2)); l.DRAM != want || l.Cycles < want || l.Bound != BoundDRAM {
		t.Errorf("half a byte a cycle: %d of %d cycles, expected %d: %+v", l.DRAM, l.Cycles, want, l)
	}
}

// Two blocks between two steps: a step waits for the previous step, and until the next step has emptied the block of two
// items before.
func TestSchedule(t *testing.T) {
	same := func(n int, it item) (out []item) {
		for range n {
			out = append(out, it)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		items []item
		want  int64
	}{
		{"one", same(1, item{10, 20, 30}), 60},
		{"the longest behind", same(3, item{10, 20, 30}), 10 + 20 + 3*30},
		{"the longest first", same(3, item{30, 20, 10}), 3*30 + 20 + 10},
		{"rows loaded once", []item{{30, 5, 5}, {0, 5, 5}, {0, 5, 5}}, 30 + 3*5 + 5},
		// the third load begins when the first block is free, at 150
		{"no third block", []item{{50, 100, 0}, {50, 100, 0}, {120, 1, 0}}, 271},
		// the third item's array begins when the first item's sums are written, at 102
		{"no third bank", []item{{1, 1, 100}, {1, 1, 0}, {1, 50, 0}}, 152},
	} {
		if got := schedule(c.items); got != c.want {
			t.Errorf("%s: %d cycles, expected %d", c.name, got, c.want)
		}
	}
}
