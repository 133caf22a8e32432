package timing

import (
	"slices"
	"strings"
)

// fit returns a copy of the netlist that contains only cells and nets of the fabric. An inverter becomes a LUT, unless
// an adjacent cell can invert the signal instead, which depends on the family. The data inputs of a wide multiplexer
// are connected to adjacent LUTs.
func (n *Netlist) fit(family string) *Netlist {
	f := *n
	f.cells, f.pins, f.driver = slices.Clone(n.cells), slices.Clone(n.pins), slices.Clone(n.driver)
	f.names, f.src = slices.Clone(n.names), slices.Clone(n.src)
	f.loads = make([][]int32, len(n.loads))
	for b := range n.loads {
		f.loads[b] = slices.Clone(n.loads[b])
	}
	for i := range f.cells {
		if f.cells[i].k.class == inverter {
			f.invert(int32(i), family)
		}
	}
	takers := make([]int32, len(f.driver)) // by net: number of multiplexers with the net as data input
	for i := range f.pins {
		if p := &f.pins[i]; p.net >= 0 && f.muxData(p) {
			takers[p.net]++
		}
	}
	for i := range n.pins { // excludes the pins that feed adds
		if p := &f.pins[i]; p.net >= 0 && f.muxData(p) {
			f.feed(int32(i), takers[p.net] > 1)
		}
	}
	f.count()
	return &f
}

// connect moves a pin to another net; -1: to no net.
func (n *Netlist) connect(at, net int32) {
	p := &n.pins[at]
	if p.net >= 0 {
		if p.out {
			n.driver[p.net] = -1
		} else {
			n.loads[p.net] = slices.DeleteFunc(n.loads[p.net], func(l int32) bool { return l == at })
		}
	}
	if p.net = net; net < 0 {
		return
	}
	if p.out {
		n.driver[net] = at
	} else {
		n.loads[net] = append(n.loads[net], at)
	}
}

// invert removes inverter i if its neighbours can invert: the LUT at its input, if that LUT drives nothing else, or else
// every cell at its output. If some cells at its output cannot invert, a LUT inverts for them.
func (n *Netlist) invert(i int32, family string) {
	c := &n.cells[i]
	in, out := int32(-1), int32(-1)
	for _, at := range c.pins {
		if n.pins[at].out {
			out = at
		} else {
			in = at
		}
	}
	c.k = &kind{lut, ""}
	if len(c.pins) != 2 || in < 0 || out < 0 || n.pins[in].net < 0 || n.pins[out].net < 0 {
		return
	}
	from, to := n.pins[in].net, n.pins[out].net
	if s := n.source(from); s != nil && s != c && s.k.class == lut && len(n.loads[from]) == 1 {
		n.connect(in, -1)
		n.connect(out, -1)
		n.connect(n.driver[from], to)
		return
	}
	var left []int32
	for _, l := range n.loads[to] {
		if p := &n.pins[l]; p.cell != portCell && p.cell != i && n.cells[p.cell].inverts(p.port, family) {
			p.net = from
			n.loads[from] = append(n.loads[from], l)
		} else {
			left = append(left, l)
		}
	}
	if n.loads[to] = left; left == nil {
		n.connect(in, -1)
		n.connect(out, -1)
	}
}

// inverts reports whether a cell can invert an input port. A LUT can invert through its table. A register can invert
// its clock, and on UltraScale+ its set and reset, but not D and enable (UG474, UG574; project X-Ray has the bit CLKINV
// for series 7, project U-Ray also RST_ABCDINV and RST_EFGHINV). Block RAM, URAM and DSP can invert the ports with a
// parameter IS_..._INVERTED (UG473, UG573, UG479, UG579; `invertible_pin` in yosys' cells_sim.v).
func (c *cell) inverts(port, family string) bool {
	if c.k.clock(port) {
		return true
	}
	has := func(names ...string) bool { return slices.Contains(names, port) }
	switch c.k.class {
	case lut:
		return true
	case ff:
		return family == "xcup" && has("R", "S", "CLR", "PRE")
	case bram:
		return has("ENARDEN", "ENBWREN", "RSTRAMARSTRAM", "RSTRAMB", "RSTREGARSTREG", "RSTREGB")
	case uram:
		return has("EN_A", "EN_B", "RDB_WR_A", "RDB_WR_B", "RST_A", "RST_B")
	case dsp:
		return has("ALUMODE", "CARRYIN", "INMODE", "OPMODE") || c.kind == "DSP48E2" && strings.HasPrefix(port, "RST")
	}
	return false
}

// muxData reports whether a pin is a data input of a wide multiplexer.
func (n *Netlist) muxData(p *pin) bool {
	return !p.out && p.cell != portCell && n.cells[p.cell].k.class == mux && p.port != "S"
}

// feed ensures that an adjacent cell drives a data input of a wide multiplexer: a LUT for MUXF7, a MUXF7 for MUXF8, a
// MUXF8 for MUXF9. It inserts the missing cells. If several multiplexers share the driver, feed inserts all cells: only
// one multiplexer can be next to the driver, and feed assumes that none is.
func (n *Netlist) feed(at int32, shared bool) {
	before := func(c *cell) int { return int(c.kind[4] - '6') } // number of multiplexers from a LUT up to and including c
	p := &n.pins[at]
	need, have := before(&n.cells[p.cell]), 0
	if c := n.source(p.net); c != nil && !shared {
		switch c.k.class {
		case lut:
			have = 1
		case mux:
			have = 1 + before(c)
		}
	}
	if have > need {
		have = 0
	}
	for _, kind := range []string{"LUT1", "MUXF7", "MUXF8"}[have:need] {
		n.pass(at, kind)
	}
}

// pass inserts a cell before an input pin. The cell forwards its input.
func (n *Netlist) pass(at int32, kind string) {
	net, c := int32(len(n.driver)), int32(len(n.cells))
	from := n.pins[at].net
	n.driver, n.loads = append(n.driver, -1), append(n.loads, nil)
	n.names, n.src = append(n.names, n.names[from]), append(n.src, n.src[from])
	in := int32(len(n.pins))
	n.pins = append(n.pins, pin{cell: c, net: -1, port: "I0"}, pin{cell: c, net: -1, port: "O", out: true})
	n.cells = append(n.cells, cell{name: n.names[from], kind: kind, k: kindOf(kind), pins: []int32{in, in + 1}})
	n.connect(at, net)
	n.connect(in, from)
	n.connect(in+1, net)
}

// count sets fanout and regs.
func (n *Netlist) count() {
	n.fanout, n.regs = make([]int32, len(n.driver)), make([]int32, len(n.driver))
	for b, loads := range n.loads {
		slices.Sort(loads) // the pins of a cell are adjacent
		last := int32(portCell)
		for _, l := range loads {
			p := &n.pins[l]
			if p.cell == portCell || n.cells[p.cell].k.clock(p.port) {
				continue
			}
			if n.cells[p.cell].k.class == ff && p.port == "D" {
				n.regs[b]++
			}
			if p.cell != last {
				last = p.cell
				n.fanout[b]++
			}
		}
	}
}
