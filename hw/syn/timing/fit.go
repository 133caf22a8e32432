package timing

import (
	"slices"
	"strings"
)

// Fit makes of the mapped netlist what a fabric has of it. yosys writes cells that no part has, and nets that none can
// route: an inverter is a LUT of its own but where something beside it takes the inversion, and the data inputs of
// wide multiplexers come out of the LUT beside them and from nowhere else.
//
// The netlist itself stays as it is: whether a register takes an inversion depends on the family.
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
	takers := make([]int32, len(f.driver)) // by net: multiplexers that have it for data
	for i := range f.pins {
		if p := &f.pins[i]; p.net >= 0 && f.muxData(p) {
			takers[p.net]++
		}
	}
	for i := range n.pins { // as many as there were: what is added needs nothing
		if p := &f.pins[i]; p.net >= 0 && f.muxData(p) {
			f.feed(int32(i), takers[p.net] > 1)
		}
	}
	f.count()
	return &f
}

// connect takes a pin to another net; -1 leaves it open.
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

// invert finds who takes the inversion of cell i: the LUT before it where that drives nothing else, those behind it
// that can; what is left over makes it a LUT.
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
	if d := n.driver[from]; d >= 0 && n.pins[d].cell != portCell && n.pins[d].cell != i &&
		n.cells[n.pins[d].cell].k.class == lut && len(n.loads[from]) == 1 {
		n.connect(in, -1)
		n.connect(out, -1)
		n.connect(d, to)
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

// inverts tells whether a cell takes the inversion of what comes in at a port. LUTs do, in their table. Of registers
// the clock alone can be inverted in the slice, set and reset too on UltraScale+ (UG474; UG574, where project U-Ray
// finds the bits RST_ABCDINV and RST_EFGHINV; project X-Ray finds CLKINV and nothing else on series 7), never D and
// never the enable. Of block RAM, URAM and DSP it is what the primitive has an IS_..._INVERTED for (UG473, UG573,
// UG479, UG579; yosys' cells_sim.v has the same as `invertible_pin`).
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

// muxData tells whether a pin is one of the data inputs of a wide multiplexer.
func (n *Netlist) muxData(p *pin) bool {
	return !p.out && p.cell != portCell && n.cells[p.cell].k.class == mux && p.port != "S"
}

// feed gives a data input of a wide multiplexer what the slice has before it: MUXF7 the LUT beside it, MUXF8 the
// MUXF7, MUXF9 the MUXF8. Where that is none, or one that other multiplexers have too, a LUT is passed to get there,
// and the multiplexers between: which of several has the LUT beside it is the placer's choice, so none is taken to.
func (n *Netlist) feed(at int32, shared bool) {
	before := func(c *cell) int { return int(c.kind[4] - '6') } // multiplexers, itself among them
	p := &n.pins[at]
	need, have := before(&n.cells[p.cell]), 0
	if d := n.driver[p.net]; d >= 0 && n.pins[d].cell != portCell && !shared {
		switch c := &n.cells[n.pins[d].cell]; c.k.class {
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

// pass puts a cell that changes nothing before an input pin.
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

// count finds how many cells each net has behind it, and how many registers take it in.
func (n *Netlist) count() {
	n.fanout, n.regs = make([]int32, len(n.driver)), make([]int32, len(n.driver))
	for b, loads := range n.loads {
		slices.Sort(loads) // the pins of a cell stand together
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
