package syn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrPack is wrapped by errors about the netlist of PackOutputs.
var ErrPack = errors.New("netlist")

// wires is a list of nets. A negative number is a constant: an index from the end of the string constants.
type wires []int32

const constants = `zx10`

// UnmarshalJSON implements json.Unmarshaler.
func (b *wires) UnmarshalJSON(text []byte) error {
	*b = (*b)[:0]
	for f := range bytes.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("[], \n", r) }) {
		if len(f) == 3 && f[0] == '"' && strings.IndexByte(constants, f[1]) >= 0 {
			*b = append(*b, int32(strings.IndexByte(constants, f[1])-len(constants)))
			continue
		}
		n, err := strconv.ParseInt(string(f), 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: bit %.20q is neither a net nor a constant", ErrPack, f)
		}
		*b = append(*b, int32(n))
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (b wires) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, n := range b {
		if i > 0 {
			text = append(text, ',')
		}
		if n < 0 {
			text = append(text, '"', constants[len(constants)+int(n)], '"')
		} else {
			text = strconv.AppendInt(text, int64(n), 10)
		}
	}
	return append(text, ']'), nil
}

const zero int32 = -1 // the constant 0

// packCell is a cell of yosys' JSON.
type packCell struct {
	HideName    int                        `json:"hide_name"`
	Type        string                     `json:"type"`
	Model       string                     `json:"model,omitempty"`
	Parameters  map[string]json.RawMessage `json:"parameters"`
	Attributes  json.RawMessage            `json:"attributes"`
	Directions  map[string]string          `json:"port_directions"`
	Connections map[string]wires           `json:"connections"`
}

// output contains those output ports of a memory that share one optional output register.
type output struct {
	data          []string // data ports
	set           []string // parameters that enable the register
	enable, clock string
	on            json.RawMessage // value of these parameters if the register is enabled
}

// outputs returns the outputs of a memory: one per port, or one for both ports if a word is as wide as both.
func (c *packCell) outputs() []output {
	on := json.RawMessage(`"` + strings.Repeat("0", 31) + `1"`)
	a := output{[]string{"DOADO", "DOPADOP"}, []string{"DOA_REG"}, "REGCEAREGCE", "CLKARDCLK", on}
	b := output{[]string{"DOBDO", "DOPBDOP"}, []string{"DOB_REG"}, "REGCEB", "CLKBWRCLK", on}
	wide := string(c.Parameters["RAM_MODE"]) == `"SDP"`
	switch c.Type {
	case "RAMB18E1", "RAMB36E1":
	case "RAMB18E2", "RAMB36E2":
		a.data, b.data = []string{"DOUTADOUT", "DOUTPADOUTP"}, []string{"DOUTBDOUT", "DOUTPBDOUTP"}
		width, _ := strconv.ParseInt(strings.Trim(string(c.Parameters["READ_WIDTH_A"]), `"`), 2, 32) // 0: no such parameter
		wide = width == map[string]int64{"RAMB18E2": 36, "RAMB36E2": 72}[c.Type]
	case "URAM288":
		on = json.RawMessage(`"TRUE"`)
		return []output{
			{[]string{"DOUT_A"}, []string{"OREG_A", "USE_EXT_CE_A"}, "OREG_CE_A", "CLK", on},
			{[]string{"DOUT_B"}, []string{"OREG_B", "USE_EXT_CE_B"}, "OREG_CE_B", "CLK", on},
		}
	default:
		return nil
	}
	if wide {
		a.data, a.set = append(a.data, b.data...), append(a.set, b.set...)
		return []output{a}
	}
	return []output{a, b}
}

// PackOutputs moves registers into the output register of a block RAM or URAM if nothing else reads the output, like
// Vivado and unlike yosys 0.23. It rewrites module top of yosys' JSON and returns the number of new output registers.
func PackOutputs(doc []byte, top string) (out []byte, packed int, err error) {
	var all struct {
		Creator string                                `json:"creator"`
		Modules map[string]map[string]json.RawMessage `json:"modules"`
	}
	if err := json.Unmarshal(doc, &all); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrPack, err)
	}
	module := all.Modules[top]
	var cells map[string]*packCell
	var ports map[string]struct{ Bits wires }
	if err := errors.Join(json.Unmarshal(module["cells"], &cells), json.Unmarshal(module["ports"], &ports)); err != nil {
		return nil, 0, fmt.Errorf("%w: module %s: %w", ErrPack, top, err)
	}
	uses, registers := map[int32]int{}, map[int32]string{} // by net: number of pins; register with the net as input
	for _, p := range ports {
		for _, n := range p.Bits {
			uses[n]++
		}
	}
	for name, c := range cells {
		for _, b := range c.Connections {
			for _, n := range b {
				uses[n]++
			}
		}
		if c.Type == "FDRE" {
			registers[c.Connections["D"][0]] = name
		}
	}
	for _, c := range cells {
		for _, o := range c.outputs() {
			if c.pack(o, cells, uses, registers) {
				packed++
			}
		}
	}
	if module["cells"], err = json.Marshal(cells); err == nil {
		out, err = json.Marshal(all)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrPack, err)
	}
	return out, packed, nil
}

// stays reports whether Vivado must not move a register.
func (c *packCell) stays() bool {
	for name, v := range c.Parameters {
		if strings.HasSuffix(name, "_INVERTED") && strings.Contains(string(v), "1") {
			return true
		}
	}
	return strings.Contains(string(c.Attributes), `"keep"`) || strings.Contains(strings.ToLower(string(c.Attributes)), `"dont_touch"`)
}

// pack moves the registers that read an output into the memory, if nothing else does and they share clock and enable.
func (c *packCell) pack(o output, cells map[string]*packCell, uses map[int32]int, registers map[int32]string) bool {
	if bytes.Equal(c.Parameters[o.set[0]], o.on) { // the output already has a register
		return false
	}
	var behind []string // register names, by used bit of the output
	var with *packCell
	for _, port := range o.data {
		for _, n := range c.Connections[port] {
			if n < 0 || uses[n] < 2 {
				continue
			}
			name := registers[n]
			f := cells[name]
			if f == nil || uses[n] > 2 || f.stays() || f.Connections["R"][0] != zero || strings.Contains(string(f.Parameters["INIT"]), "1") ||
				!slices.Equal(f.Connections["C"], c.Connections[o.clock]) || with != nil && !slices.Equal(f.Connections["CE"], with.Connections["CE"]) {
				return false
			}
			with = f
			behind = append(behind, name)
		}
	}
	if with == nil {
		return false
	}
	c.Connections[o.enable] = with.Connections["CE"]
	if c.Directions == nil {
		c.Directions = map[string]string{}
	}
	c.Directions[o.enable] = "input" // yosys omits a port without a driver
	for _, p := range o.set {
		c.Parameters[p] = o.on
	}
	at := 0
	for _, port := range o.data {
		for i, n := range c.Connections[port] {
			if n < 0 || uses[n] < 2 {
				continue
			}
			c.Connections[port][i] = cells[behind[at]].Connections["Q"][0]
			delete(cells, behind[at])
			at++
		}
	}
	return true
}
