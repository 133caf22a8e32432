// Package timing estimates the length of every register-to-register path in a flat netlist that yosys mapped to Xilinx
// cells. The length is in LUT levels, and in nanoseconds with the delays of a table (table.go). Nothing is placed: net
// delays are estimated from fan-out. The table is calibrated with a core that has a published delay.
package timing

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNetlist is wrapped by errors about a netlist.
var ErrNetlist = errors.New("netlist")

// pin is one bit of a port of a cell.
type pin struct {
	cell  int32 // index of the cell; portCell for a port of the module
	net   int32 // -1: constant
	port  string
	index int32
	out   bool
}

const portCell = -1

type cell struct {
	name, kind string
	params     map[string]int
	pins       []int32 // indices into Netlist.pins
	k          *kind
}

// Netlist is a flat module of mapped cells.
type Netlist struct {
	Top    string
	cells  []cell
	pins   []pin
	driver []int32   // by net: the pin that drives it; -1: none
	loads  [][]int32 // by net: the input pins that it drives
	fanout []int32   // by net: number of cells that it drives, except at clock inputs; set by fit
	regs   []int32   // by net: number of D inputs of registers that it drives; set by fit
	names  []string  // by net
	src    []string  // by net: line of its declaration in the RTL
}

type bitList []int32

// UnmarshalJSON reads a list of net numbers and constants.
func (b *bitList) UnmarshalJSON(text []byte) error {
	s := strings.TrimSpace(string(text))
	if len(s) < 2 || s[0] != '[' || s[len(s)-1] != ']' {
		return fmt.Errorf("%w: %.40q is not a list of bits", ErrNetlist, s)
	}
	s = strings.TrimSpace(s[1 : len(s)-1])
	if s == "" {
		*b = nil
		return nil
	}
	list := make([]int32, 0, strings.Count(s, ",")+1)
	for f := range strings.SplitSeq(s, ",") {
		f = strings.TrimSpace(f)
		switch f {
		case `"0"`, `"1"`, `"x"`, `"z"`:
			list = append(list, -1)
			continue
		}
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil || n < 0 || n > maxNet {
			return fmt.Errorf("%w: bit %.20q is neither a net nor a constant", ErrNetlist, f)
		}
		list = append(list, int32(n))
	}
	*b = list
	return nil
}

// maxNet is the largest accepted net number. The largest netlist here has about 10^6 nets.
const maxNet = 1 << 25

type (
	jsonPort struct {
		Direction string  `json:"direction"`
		Bits      bitList `json:"bits"`
	}
	jsonCell struct {
		Type       string                     `json:"type"`
		Parameters map[string]json.RawMessage `json:"parameters"`
		Directions map[string]string          `json:"port_directions"`
		Conns      map[string]bitList         `json:"connections"`
	}
	jsonNet struct {
		Hide       int               `json:"hide_name"`
		Offset     int               `json:"offset"`
		Bits       bitList           `json:"bits"`
		Attributes map[string]string `json:"attributes"`
	}
	jsonModule struct {
		Ports map[string]jsonPort `json:"ports"`
		Cells map[string]jsonCell `json:"cells"`
		Nets  map[string]jsonNet  `json:"netnames"`
	}
)

// Read reads module top from the output of yosys' `json`. The module must be flat, and the model must know its cells.
func Read(r io.Reader, top string) (*Netlist, error) {
	var doc struct {
		Modules map[string]json.RawMessage `json:"modules"`
	}
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNetlist, err)
	}
	raw, ok := doc.Modules[top]
	if !ok {
		return nil, fmt.Errorf("%w: there is no module %s", ErrNetlist, top)
	}
	var m jsonModule
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%w: module %s: %w", ErrNetlist, top, err)
	}
	return build(top, &m)
}

func build(top string, m *jsonModule) (*Netlist, error) {
	n := &Netlist{Top: top}
	nets := int32(0)
	for _, p := range m.Ports {
		nets = max(nets, most(p.Bits))
	}
	for _, c := range m.Cells {
		for _, b := range c.Conns {
			nets = max(nets, most(b))
		}
	}
	nets++
	n.driver = slices.Repeat([]int32{-1}, int(nets))
	n.loads = make([][]int32, nets)
	for _, name := range sortedKeys(m.Ports) {
		p := m.Ports[name]
		if p.Direction != "input" && p.Direction != "output" {
			return nil, fmt.Errorf("%w: %s: port %s is %q", ErrNetlist, top, name, p.Direction)
		}
		for i, b := range p.Bits {
			// an input port drives its net
			if err := n.add(pin{cell: portCell, net: b, port: name, index: int32(i), out: p.Direction == "input"}); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range sortedKeys(m.Cells) {
		c := m.Cells[name]
		k := kindOf(c.Type)
		if k == nil {
			return nil, fmt.Errorf("%w: %s: cell %s is of type %s, which the model does not know", ErrNetlist, top, name, c.Type)
		}
		at := int32(len(n.cells))
		n.cells = append(n.cells, cell{name: name, kind: c.Type, k: k, params: params(c.Parameters)})
		for _, port := range sortedKeys(c.Conns) {
			dir := c.Directions[port]
			if dir != "input" && dir != "output" {
				return nil, fmt.Errorf("%w: %s: port %s of cell %s is %q", ErrNetlist, top, port, name, dir)
			}
			for i, b := range c.Conns[port] {
				if err := n.add(pin{cell: at, net: b, port: port, index: int32(i), out: dir == "output"}); err != nil {
					return nil, err
				}
			}
		}
	}
	n.name(m)
	return n, nil
}

// add adds a pin to its cell and its net.
func (n *Netlist) add(p pin) error {
	at := int32(len(n.pins))
	n.pins = append(n.pins, p)
	if p.cell != portCell {
		n.cells[p.cell].pins = append(n.cells[p.cell].pins, at)
	}
	switch {
	case p.net < 0:
	case !p.out:
		n.loads[p.net] = append(n.loads[p.net], at)
	case n.driver[p.net] >= 0:
		return fmt.Errorf("%w: %s: net %d has two drivers", ErrNetlist, n.Top, p.net)
	default:
		n.driver[p.net] = at
	}
	return nil
}

// source returns the cell that drives a net; nil: a port or nothing drives it.
func (n *Netlist) source(net int32) *cell {
	if d := n.driver[net]; d >= 0 && n.pins[d].cell != portCell {
		return &n.cells[n.pins[d].cell]
	}
	return nil
}

func most(b bitList) int32 {
	v := int32(0)
	for _, x := range b {
		v = max(v, x)
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// params returns the numeric parameters, which yosys writes in binary. TRUE becomes 1.
func params(all map[string]json.RawMessage) map[string]int {
	var p map[string]int
	for k, raw := range all {
		s := strings.Trim(string(raw), `"`)
		if strings.HasPrefix(k, "INIT") || len(s) > 32 {
			continue
		}
		if s == "TRUE" {
			s = "1"
		}
		v, err := strconv.ParseInt(s, 2, 64)
		if err != nil {
			continue
		}
		if p == nil {
			p = map[string]int{}
		}
		p[k] = int(v)
	}
	return p
}

var registerName = regexp.MustCompile(`(_q|_o)\b`)

// name sets the name of every net. Among a net's names in the RTL, it prefers names of registers, and then short names.
func (n *Netlist) name(m *jsonModule) {
	n.names = make([]string, len(n.driver))
	n.src = make([]string, len(n.driver))
	type score struct{ hidden, plain, auto, long int }
	best := make([]score, len(n.driver))
	less := func(a, b score) bool {
		return cmp.Or(cmp.Compare(a.hidden, b.hidden), cmp.Compare(a.plain, b.plain), cmp.Compare(a.auto, b.auto), cmp.Compare(a.long, b.long)) < 0
	}
	for _, name := range sortedKeys(m.Nets) {
		v := m.Nets[name]
		s := score{hidden: v.Hide, long: len(name)}
		if !registerName.MatchString(name) {
			s.plain = 1
		}
		if strings.Contains(name, "$") {
			s.auto = 1
		}
		for i, b := range v.Bits {
			if b < 0 || int(b) >= len(best) {
				continue
			}
			if n.names[b] == "" || less(s, best[b]) {
				best[b] = s
				n.names[b] = name
				if len(v.Bits) > 1 {
					n.names[b] = fmt.Sprintf("%s[%d]", name, i+v.Offset)
				}
				n.src[b] = line(v.Attributes["src"])
			}
		}
	}
}

var srcLine = regexp.MustCompile(`([^/|]+\.(?:sv|v)):(\d+)\.(\d+)-(\d+)\.(\d+)$`)

// line converts an attribute `dir/run_gen.sv:24.3-24.9` to `run_gen.sv:24`. After flattening, an attribute lists the
// source ranges of the declaration and of the instances around it. line selects the shortest range, which is the
// declaration's. Ranges in yosys' own files are ignored.
func line(src string) string {
	at, least := "", math.MaxInt
	for part := range strings.SplitSeq(src, "|") {
		m := srcLine.FindStringSubmatch(part)
		if m == nil || strings.Contains(part, "/share/yosys/") {
			continue
		}
		var v [4]int
		for i, s := range m[2:] {
			v[i], _ = strconv.Atoi(s) // these are digits; an overflow is harmless
		}
		if long := (v[2]-v[0])*1000 + v[3] - v[1]; long < least {
			at, least = m[1]+":"+m[2], long
		}
	}
	return at
}

// Register returns the name of a bit's register: the bit's name without indices.
func Register(name string) string { return indices.ReplaceAllString(name, "") }

var indices = regexp.MustCompile(`(\[\d+\])+$`)
