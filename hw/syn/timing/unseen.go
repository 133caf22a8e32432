package timing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// This file is not in Model, since no figure depends on it.

// Flat returns an error if a module of yosys' json is missing or contains other modules of the file. Read also rejects
// such a module, but its error does not mention the hierarchy.
func Flat(text []byte, top string) error {
	type module struct {
		Attributes map[string]json.RawMessage `json:"attributes"`
		Cells      map[string]struct {
			Type string `json:"type"`
		} `json:"cells"`
	}
	var doc struct {
		Modules map[string]module `json:"modules"`
	}
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	var names []string
	for _, name := range sortedKeys(doc.Modules) {
		_, black := doc.Modules[name].Attributes["blackbox"]
		_, white := doc.Modules[name].Attributes["whitebox"]
		if !black && !white { // the other modules are the vendor's cells
			names = append(names, name)
		}
	}
	if _, ok := doc.Modules[top]; !ok {
		return fmt.Errorf("%w: there is no module %s: -top names one of %s", ErrNetlist, top, strings.Join(names, ", "))
	}
	cells := doc.Modules[top].Cells
	for _, name := range sortedKeys(cells) {
		if kind := cells[name].Type; slices.Contains(names, kind) && kindOf(kind) == nil {
			return fmt.Errorf("%w: %s: cell %s is module %s of the same file: a netlist is read flat (flatten in yosys, synth_xilinx -flatten)", ErrNetlist, top, name, kind)
		}
	}
	return nil
}

// Unseen describes the clocks for which the estimate is wrong. The estimate assumes that every path is between rising
// edges of the same clock.
func (n *Netlist) Unseen() []string {
	var up, down string // a cell for each edge
	clocks := map[int32]bool{}
	for i := range n.cells {
		c := &n.cells[i]
		if c.k.class == lut || c.k.class == mux || c.k.class == carry {
			continue
		}
		for _, at := range c.pins {
			p := &n.pins[at]
			if p.out || p.net < 0 || !c.k.clock(p.port) {
				continue
			}
			net, inverted := n.clockOf(p.net)
			clocks[net] = true
			if strings.HasSuffix(c.kind, "_1") || c.params["IS_"+p.port+"_INVERTED"] == 1 {
				inverted = !inverted
			}
			if inverted {
				down = c.name
			} else {
				up = c.name
			}
		}
	}
	var all []string
	if up != "" && down != "" {
		all = append(all, fmt.Sprintf("registers at both edges of a clock (%s, %s): a path of half a cycle is read as one of a whole", up, down))
	}
	if len(clocks) > 1 {
		var names []string
		for net := range clocks {
			names = append(names, n.label(net))
		}
		slices.Sort(names)
		const most = 8
		if len(names) > most {
			names = append(names[:most], "...")
		}
		all = append(all, fmt.Sprintf("%d clocks (%s): they are read as one, paths from one to another too", len(clocks), strings.Join(names, ", ")))
	}
	return all
}

// clockOf follows a clock back through buffers and inverters to its source net.
func (n *Netlist) clockOf(net int32) (source int32, inverted bool) {
	for range n.cells { // a ring of buffers has no source
		c := n.source(net)
		if c == nil || c.k.class != buffer && c.k.class != inverter {
			break
		}
		in := int32(-1)
		for _, at := range c.pins {
			if p := &n.pins[at]; !p.out {
				in = p.net
			}
		}
		if in < 0 {
			break
		}
		net, inverted = in, inverted != (c.k.class == inverter)
	}
	return net, inverted
}
