package timing

import (
	"strings"
)

// A kind is a type of cell: how its outputs arise and where paths end at its inputs.
type kind struct {
	class  class
	family string // of parts that have it; empty: all
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

// An arc is a path to an output: from the clock (from < 0), or from an input pin.
type arc struct {
	from  int32 // pin
	delay float64
}

// arcs appends the arcs to output pin out of cell c.
func (n *Netlist) arcs(list []arc, c *cell, out *pin, t *Table) []arc {
	clock := func(d float64) { list = append(list, arc{-1, d}) }
	from := func(d float64, ok func(p *pin) bool) {
		for _, i := range c.pins {
			if p := &n.pins[i]; !p.out && p.net >= 0 && !c.k.clock(p.port) && ok(p) {
				list = append(list, arc{i, d})
			}
		}
	}
	any := func(*pin) bool { return true }
	switch c.k.class {
	case lut:
		from(t.LUT, any)
	case inverter, buffer: // fit has turned the inverters that no other cell absorbs into LUTs
		from(0, any)
	case mux:
		from(t.Mux, any)
	case carry:
		sum := out.port == "O"
		// a carry comes from the cell below, or from the fabric into a chain
		carried := func(p *pin) bool {
			d := n.driver[p.net]
			return p.port == "CI" && d >= 0 && n.pins[d].cell != portCell && n.cells[n.pins[d].cell].k.class == carry
		}
		begins := func(p *pin) bool {
			return (p.port == "CI" || p.port == "CYINIT" || p.port == "CI_TOP") && !carried(p)
		}
		from(t.CarryOut, func(p *pin) bool { return sum && carried(p) })
		from(t.CarryPass, func(p *pin) bool { return !sum && carried(p) })
		from(t.CarryInit, begins)
		from(t.CarryIn, func(p *pin) bool { return !sum && (p.port == "S" || p.port == "DI") && p.index <= out.index })
		from(t.Sum, func(p *pin) bool { return sum && p.port == "S" && p.index == out.index })
		from(t.CarryIn+t.Sum/4, func(p *pin) bool { return sum && (p.port == "S" || p.port == "DI") && p.index < out.index })
	case ff:
		clock(t.FFOut)
	case shift:
		clock(t.ShiftOut)
		from(t.LUTRAM, func(p *pin) bool { return p.port[0] == 'A' })
	case lutram:
		clock(t.LUTRAMOut)
		from(t.LUTRAM, func(p *pin) bool { return readAddress(c.kind, out.port, p.port) })
	case bram:
		reg := c.params["DOA_REG"]
		if strings.Contains(out.port, "BDO") || strings.Contains(out.port, "PBDOP") || strings.Contains(out.port, "DOUTB") || strings.Contains(out.port, "DOUTPB") {
			reg = c.params["DOB_REG"]
		}
		if reg != 0 {
			clock(t.RAMOutReg)
		} else {
			clock(t.RAMOut)
		}
	case uram:
		if (strings.HasSuffix(out.port, "_A") && c.params["OREG_A"] != 0) || (strings.HasSuffix(out.port, "_B") && c.params["OREG_B"] != 0) {
			clock(t.URAMOutReg)
		} else {
			clock(t.URAMOut)
		}
	case dsp:
		if c.params["PREG"] != 0 {
			if out.port == "PCOUT" {
				clock(t.DSPCascade)
			} else {
				clock(t.DSPOut)
			}
			break
		}
		if c.params["MREG"] != 0 {
			clock(t.DSPFromM)
		} else {
			for _, x := range []string{"A", "B"} {
				if c.params[x+"REG"] != 0 {
					clock(t.DSPFromAB)
				} else {
					from(t.DSPToP, func(p *pin) bool { return p.port == x })
				}
			}
		}
		if c.params["CREG"] != 0 {
			clock(t.DSPAdd)
		} else {
			from(t.DSPAdd, func(p *pin) bool { return p.port == "C" })
		}
		from(t.DSPAdd, func(p *pin) bool { return p.port == "PCIN" })
	}
	return list
}

// readAddress reports whether a port is the read address of a LUT RAM's output.
func readAddress(kind, out, in string) bool {
	if strings.HasPrefix(out, "DO") && len(out) == 3 { // RAM32M: DOA by ADDRA
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

// setup is an input pin's setup time; ok is false if no path ends there.
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
		switch {
		case p.port == "WE" || strings.HasPrefix(p.port, "D") && !strings.HasPrefix(p.port, "DPRA"):
			return t.LUTRAMIn, true
		case c.kind == "RAM32M" || c.kind == "RAM64M":
			return t.LUTRAMIn, p.port == "ADDRD"
		case c.kind == "RAM32M16" || c.kind == "RAM64M8":
			return t.LUTRAMIn, p.port == "ADDRH"
		}
		return t.LUTRAMIn, strings.HasPrefix(p.port, "A")
	case bram, uram:
		addr, data, enable := t.RAMAddr, t.RAMData, t.RAMEnable
		if c.k.class == uram {
			addr, data, enable = t.URAMAddr, t.URAMData, t.URAMEnable
		}
		switch {
		case strings.Contains(p.port, "ADDR"):
			return addr, true
		case strings.HasPrefix(p.port, "DI"):
			return data, true
		}
		return enable, true
	case dsp:
		switch p.port {
		case "A", "B", "D", "ACIN", "BCIN":
			x := p.port
			if len(x) == 4 {
				x = x[:1]
			}
			switch {
			case c.params[x+"REG"] != 0:
				return t.DSPIn, true
			case c.params["MREG"] != 0:
				return t.DSPToM, true
			}
			return t.DSPToP, c.params["PREG"] != 0
		case "C":
			if c.params["CREG"] != 0 {
				return t.DSPIn, true
			}
			return t.DSPCToP, c.params["PREG"] != 0
		case "PCIN":
			return t.DSPPCToP, c.params["PREG"] != 0
		}
		if strings.HasPrefix(p.port, "CE") || strings.HasPrefix(p.port, "RST") {
			return t.DSPEnable, true
		}
		// the operation: from the multiplexers to the sum
		return t.DSPCToP, c.params["PREG"] != 0
	}
	return 0, false
}

// wire is the delay of a net from its driver to a pin.
func (n *Netlist) wire(t *Table, to *pin) float64 {
	d := n.driver[to.net]
	if d < 0 {
		return 0
	}
	f := n.fanout[to.net]
	if to.cell == portCell {
		return t.net(f)
	}
	c := &n.cells[to.cell]
	var from class
	if p := &n.pins[d]; p.cell != portCell {
		from = n.cells[p.cell].k.class
	}
	switch {
	case from == carry && c.k.class == carry && to.port == "CI":
		return 0
	case c.k.class == mux && to.port != "S": // fit has put a LUT before those without an adjacent one
		return 0
	case c.k.class == dsp && (to.port == "PCIN" || to.port == "ACIN" || to.port == "BCIN"):
		return 0
	case c.k.class == carry && (to.port == "S" || to.port == "DI") && from == lut && f <= 2:
		return t.NetLocal
	case c.k.class == ff && to.port == "D" && (from == lut || from == carry || from == mux || from == lutram):
		switch {
		case n.regs[to.net] > 1: // exactly one of them is adjacent
		case f <= 2:
			return t.NetLocal
		default:
			return t.NetIn
		}
	}
	return t.net(f)
}
