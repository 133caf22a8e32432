// Package timing estimates the delays of a flat netlist that yosys mapped to Xilinx cells: every register-to-register
// path, in LUT levels and in nanoseconds by a stated table (table.go). Nothing is placed: net delays are estimated
// from fan-out, and the table is calibrated with a published core.
package timing

import (
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
	pins       []int32 // into Netlist.pins
	k          *kind
}

// Netlist is a flat module of mapped cells.
type Netlist struct {
	Top    string
	cells  []cell
	pins   []pin
	driver []int32   // by net: its driving pin; -1: none
	loads  [][]int32 // by net
	fanout []int32   // by net: cells behind it, without clocks; set by fit
	regs   []int32   // by net: D inputs of registers among them
	names  []string  // by net
	src    []string  // by net: line of its declaration in the RTL
}

type bitList []int32

// UnmarshalJSON reads a list of net numbers and constants.
func (b *bitList) UnmarshalJSON(text []byte) error {
	s := strings.TrimSpace(string(text))
	if len(s) < 2 || s[0] != '[' || s[len(s)-1] != ']' {
		return fmt.Errorf("%w: %.40q is no list of bits", ErrNetlist, s)
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

// maxNet limits net numbers: the largest netlist here has about 10^6.
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

// Read reads the output of yosys' `json`. Module top must be flat, with cells known to the model.
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
	add := func(p pin) error {
		at := int32(len(n.pins))
		n.pins = append(n.pins, p)
		if p.cell != portCell {
			n.cells[p.cell].pins = append(n.cells[p.cell].pins, at)
		}
		if p.net < 0 {
			return nil
		}
		if !p.out {
			n.loads[p.net] = append(n.loads[p.net], at)
			return nil
		}
		if n.driver[p.net] >= 0 {
			return fmt.Errorf("%w: %s: net %d has two drivers", ErrNetlist, top, p.net)
		}
		n.driver[p.net] = at
		return nil
	}
	for _, name := range sortedKeys(m.Ports) {
		p := m.Ports[name]
		if p.Direction != "input" && p.Direction != "output" {
			return nil, fmt.Errorf("%w: %s: port %s is %q", ErrNetlist, top, name, p.Direction)
		}
		for i, b := range p.Bits {
			// an input drives its net
			if err := add(pin{cell: portCell, net: b, port: name, index: int32(i), out: p.Direction == "input"}); err != nil {
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
				if err := add(pin{cell: at, net: b, port: port, index: int32(i), out: dir == "output"}); err != nil {
					return nil, err
				}
			}
		}
	}
	n.name(m)
	return n, nil
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

// params returns the numeric parameters, which yosys writes as binary digits; TRUE is 1.
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

// name gives every net a name that is found in the RTL: a register's if there is one, else a short one.
func (n *Netlist) name(m *jsonModule) {
	n.names = make([]string, len(n.driver))
	n.src = make([]string, len(n.driver))
	type score struct{ hidden, plain, auto, long int }
	best := make([]score, len(n.driver))
	less := func(a, b score) bool {
		if a.hidden != b.hidden {
			return a.hidden < b.hidden
		}
		if a.plain != b.plain {
			return a.plain < b.plain
		}
		if a.auto != b.auto {
			return a.auto < b.auto
		}
		return a.long < b.long
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

// line converts an attribute `dir/run_gen.sv:24.3-24.9` to `run_gen.sv:24`. Flattening joins the lines of the
// enclosing instances with the declaration's, which is the shortest. Lines of yosys' own maps are ignored.
func line(src string) string {
	at, least := "", math.MaxInt
	for part := range strings.SplitSeq(src, "|") {
		m := srcLine.FindStringSubmatch(part)
		if m == nil || strings.Contains(part, "/share/yosys/") {
			continue
		}
		var v [4]int
		for i, s := range m[2:] {
			v[i], _ = strconv.Atoi(s) // digits only; too many are no line of a file
		}
		if long := (v[2]-v[0])*1000 + v[3] - v[1]; long < least {
			at, least = m[1]+":"+m[2], long
		}
	}
	return at
}

// Register removes the indices from a name: the register of a bit.
func Register(name string) string { return indices.ReplaceAllString(name, "") }

var indices = regexp.MustCompile(`(\[\d+\])+$`)
