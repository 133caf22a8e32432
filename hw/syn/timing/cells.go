package timing

import (
	"strings"
)

// A kind describes a type of cell.
type kind struct {
	class  class
	family string // family that has the cell; empty: all families
}

type class int

const (
	lut class = iota + 1
	inverter
	mux
	carry
	ff
	shift
	lutram
	bram
	uram
	dsp
	buffer
)

func kindOf(t string) *kind {
	switch t {
	case "LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6":
		return &kind{lut, ""}
	case "INV":
		return &kind{inverter, ""}
	case "MUXF7", "MUXF8":
		return &kind{mux, ""}
	case "MUXF9":
		return &kind{mux, "xcup"}
	case "CARRY4":
		return &kind{carry, ""} // yosys uses it for both families
	case "CARRY8":
		return &kind{carry, "xcup"}
	case "FDRE", "FDSE", "FDCE", "FDPE", "FDRE_1", "FDSE_1", "FDCE_1", "FDPE_1":
		return &kind{ff, ""}
	case "SRL16E", "SRLC16E", "SRLC32E":
		return &kind{shift, ""}
	case "RAMB18E1", "RAMB36E1":
		return &kind{bram, "xc7"}
	case "RAMB18E2", "RAMB36E2":
		return &kind{bram, "xcup"}
	case "URAM288", "URAM288_BASE":
		return &kind{uram, "xcup"}
	case "DSP48E1":
		return &kind{dsp, "xc7"}
	case "DSP48E2":
		return &kind{dsp, "xcup"}
	case "BUFG", "IBUF", "OBUF":
		return &kind{buffer, ""}
	}
	if strings.HasPrefix(t, "RAM32") || strings.HasPrefix(t, "RAM64") || strings.HasPrefix(t, "RAM128") ||
		strings.HasPrefix(t, "RAM256") || strings.HasPrefix(t, "RAM512") {
		return &kind{lutram, ""}
	}
	return nil
}

// level reports whether a path through the cell counts as a LUT level.
func (k *kind) level() bool {
	return k.class == lut || k.class == mux || k.class == lutram || k.class == shift
}

func (k *kind) clock(port string) bool {
	switch port {
	case "C":
		return k.class == ff
	case "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK", "CLKA", "CLKB":
		return true
	}
	return false
}

// An arc is a path through a cell to an output pin.
type arc struct {
	from  int32   // input pin; -1: the clock
	delay float64 // ns
}

// arcs appends the arcs to output pin out of cell c.
func (n *Netlist) arcs(list []arc, c *cell, out *pin, t *Table) []arc {
	a := &arcList{n, c, list}
	switch c.k.class {
	case lut:
		a.from(t.LUT, anyPin)
	case inverter, buffer: // fit has already converted the necessary inverters to LUTs
		a.from(0, anyPin)
	case mux:
		a.from(t.Mux, anyPin)
	case carry:
		a.carry(out, t)
	case ff:
		a.clock(t.FFOut)
	case shift:
		a.clock(t.ShiftOut)
		a.from(t.LUTRAM, func(p *pin) bool { return p.port[0] == 'A' })
	case lutram:
		a.clock(t.LUTRAMOut)
		a.from(t.LUTRAM, func(p *pin) bool { return readAddress(c.kind, out.port, p.port) })
	case bram:
		a.clock(either(c.registered(out.port), t.RAMOutReg, t.RAMOut))
	case uram:
		a.clock(either(c.registered(out.port), t.URAMOutReg, t.URAMOut))
	case dsp:
		a.dsp(out.port, t)
	}
	return a.list
}

// arcList is a list of arcs to one output of cell c.
type arcList struct {
	n    *Netlist
	c    *cell
	list []arc
}

func (a *arcList) clock(delay float64) { a.list = append(a.list, arc{-1, delay}) }

// from adds an arc for each input pin that the function ok accepts, except constants and clocks.
func (a *arcList) from(delay float64, ok func(p *pin) bool) {
	for _, i := range a.c.pins {
		if p := &a.n.pins[i]; !p.out && p.net >= 0 && !a.c.k.clock(p.port) && ok(p) {
			a.list = append(a.list, arc{i, delay})
		}
	}
}

func anyPin(*pin) bool { return true }

// carry adds the arcs to an output of a carry cell: O is a sum, CO a carry.
func (a *arcList) carry(out *pin, t *Table) {
	n, sum := a.n, out.port == "O"
	// The carry of a cell comes from the cell below, or from the fabric at the start of a chain.
	chained := func(p *pin) bool {
		s := n.source(p.net)
		return p.port == "CI" && s != nil && s.k.class == carry
	}
	begins := func(p *pin) bool {
		return (p.port == "CI" || p.port == "CYINIT" || p.port == "CI_TOP") && !chained(p)
	}
	operand := func(p *pin) bool { return p.port == "S" || p.port == "DI" }
	a.from(either(sum, t.CarryOut, t.CarryPass), chained)
	a.from(t.CarryInit, begins)
	if sum {
		a.from(t.Sum, func(p *pin) bool { return p.port == "S" && p.index == out.index })
		a.from(t.CarryIn+t.Sum/4, func(p *pin) bool { return operand(p) && p.index < out.index })
		return
	}
	a.from(t.CarryIn, func(p *pin) bool { return operand(p) && p.index <= out.index })
}

// dsp adds the arcs to an output of a DSP. Without PREG, the arcs begin at earlier registers, or at inputs without a
// register.
func (a *arcList) dsp(out string, t *Table) {
	has := func(register string) bool { return a.c.params[register] != 0 }
	is := func(port string) func(*pin) bool { return func(p *pin) bool { return p.port == port } }
	switch {
	case has("PREG"):
		a.clock(either(out == "PCOUT", t.DSPCascade, t.DSPOut))
		return
	case has("MREG"):
		a.clock(t.DSPFromM)
	default:
		for _, x := range []string{"A", "B"} {
			if has(x + "REG") {
				a.clock(t.DSPFromAB)
			} else {
				a.from(t.DSPToP, is(x))
			}
		}
	}
	if has("CREG") {
		a.clock(t.DSPAdd)
	} else {
		a.from(t.DSPAdd, is("C"))
	}
	a.from(t.DSPAdd, is("PCIN"))
}

func either(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

// memoryPort returns A or B: the port of a memory that an output belongs to.
func memoryPort(out string) string {
	if strings.Contains(out, "BDO") || strings.Contains(out, "OUTB") || strings.Contains(out, "OUTPB") || strings.HasSuffix(out, "_B") {
		return "B"
	}
	return "A"
}

// registered reports whether an output of a memory has the optional register.
func (c *cell) registered(out string) bool {
	if c.k.class == uram {
		return c.params["OREG_"+memoryPort(out)] != 0
	}
	return c.params["DO"+memoryPort(out)+"_REG"] != 0
}

// readAddress reports whether a port is the read address of a LUT RAM's output.
func readAddress(kind, out, in string) bool {
	if strings.HasPrefix(out, "DO") && len(out) == 3 { // RAM32M: ADDRA is the address of DOA
		return in == "ADDR"+out[2:]
	}
	switch out {
	case "DPO":
		return strings.HasPrefix(in, "DPRA")
	case "SPO", "O":
		return strings.HasPrefix(in, "A")
	}
	return strings.HasPrefix(in, "A") || strings.HasPrefix(in, "DPRA")
}

// setup returns an input pin's setup time; ok is false if no path ends there.
func (t *Table) setup(c *cell, p *pin) (ns float64, ok bool) {
	if c.k.clock(p.port) {
		return 0, false
	}
	switch c.k.class {
	case ff:
		switch p.port {
		case "D":
			return t.FFIn, true
		case "CE":
			return t.FFEnable, true
		}
		return t.FFReset, true
	case shift:
		return t.ShiftIn, p.port == "D" || p.port == "CE"
	case lutram:
		return t.LUTRAMIn, lutramEnds(c.kind, p.port)
	case bram:
		return memorySetup(p.port, t.RAMAddr, t.RAMData, t.RAMEnable), true
	case uram:
		return memorySetup(p.port, t.URAMAddr, t.URAMData, t.URAMEnable), true
	case dsp:
		return t.dspSetup(c, p.port)
	}
	return 0, false
}

// lutramEnds reports whether a path ends at an input of a LUT RAM. Paths end at all inputs of a write.
func lutramEnds(kind, port string) bool {
	switch {
	case port == "WE" || strings.HasPrefix(port, "D") && !strings.HasPrefix(port, "DPRA"):
		return true
	case kind == "RAM32M" || kind == "RAM64M":
		return port == "ADDRD"
	case kind == "RAM32M16" || kind == "RAM64M8":
		return port == "ADDRH"
	}
	return strings.HasPrefix(port, "A")
}

func memorySetup(port string, address, data, enable float64) float64 {
	switch {
	case strings.Contains(port, "ADDR"):
		return address
	case strings.HasPrefix(port, "DI"):
		return data
	}
	return enable
}

// dspSetup returns the setup time to the first register after a DSP's input.
func (t *Table) dspSetup(c *cell, port string) (ns float64, ok bool) {
	has := func(register string) bool { return c.params[register] != 0 }
	switch port {
	case "A", "B", "D", "ACIN", "BCIN":
		switch {
		case has(strings.TrimSuffix(port, "CIN") + "REG"):
			return t.DSPIn, true
		case has("MREG"):
			return t.DSPToM, true
		}
		return t.DSPToP, has("PREG")
	case "C":
		if has("CREG") {
			return t.DSPIn, true
		}
		return t.DSPCToP, has("PREG")
	case "PCIN":
		return t.DSPPCToP, has("PREG")
	}
	if strings.HasPrefix(port, "CE") || strings.HasPrefix(port, "RST") {
		return t.DSPEnable, true
	}
	// OPMODE and similar inputs select the adder's operands.
	return t.DSPCToP, has("PREG")
}

// wire returns the delay in ns of a net from its driver to a pin.
func (n *Netlist) wire(t *Table, to *pin) float64 {
	if n.driver[to.net] < 0 {
		return 0
	}
	f := n.fanout[to.net]
	if to.cell == portCell {
		return t.net(f)
	}
	c := &n.cells[to.cell]
	var from class
	if s := n.source(to.net); s != nil {
		from = s.k.class
	}
	switch {
	case from == carry && c.k.class == carry && to.port == "CI":
		return 0
	case c.k.class == mux && to.port != "S": // its LUT is adjacent: see fit
		return 0
	case c.k.class == dsp && (to.port == "PCIN" || to.port == "ACIN" || to.port == "BCIN"):
		return 0
	case c.k.class == carry && (to.port == "S" || to.port == "DI") && from == lut && f <= 2:
		return t.NetLocal
	case c.k.class == ff && to.port == "D" && (from == lut || from == carry || from == mux || from == lutram):
		switch {
		case n.regs[to.net] > 1: // only one register can be adjacent to the driver
		case f <= 2:
			return t.NetLocal
		default:
			return t.NetIn
		}
	}
	return t.net(f)
}
