package timing

import (
	"fmt"
	"slices"
	"strings"
)

// Registers counts the use of one kind of pipeline register in the DSPs or memories of a netlist.
type Registers struct {
	Kind     string   // DSP48E1, RAMB36E1...
	Register string   // AREG, BREG, CREG, MREG, PREG; OUT: the output register of a memory's port
	Have, Of int      // number of cells with the register, number of cells that could use it; OUT: number of ports
	Without  []string // names of the output signals of the cells without the register
}

// Registers counts the pipeline registers of DSPs and memories, which cost no logic. A DSP could use the register of an
// input that is not constant, MREG if it multiplies, and always PREG. A memory could use the register of a port that has
// loads. This file is not in Model, since no delay depends on it.
func (n *Netlist) Registers() []Registers {
	var all []Registers
	at := map[[2]string]int{}
	count := func(i int32, register, name string, has bool) {
		key := [2]string{n.cells[i].kind, register}
		if _, ok := at[key]; !ok {
			at[key] = len(all)
			all = append(all, Registers{Kind: key[0], Register: register})
		}
		r := &all[at[key]]
		r.Of++
		if has {
			r.Have++
		} else {
			r.Without = append(r.Without, name)
		}
	}
	for i := range n.cells {
		c := &n.cells[i]
		fed := map[string]bool{}  // by input port: whether it is not constant
		read := map[string]bool{} // by memory port A or B with loads: whether it has the output register
		for _, p := range c.pins {
			switch q := &n.pins[p]; {
			case q.net < 0:
			case !q.out:
				fed[q.port] = true
			case (c.k.class == bram || c.k.class == uram) && len(n.loads[q.net]) > 0 && !strings.HasPrefix(q.port, "CAS"):
				read[memoryPort(q.port)] = c.registered(q.port)
			}
		}
		name := func() string { return Register(n.cellName(int32(i))) }
		if c.k.class == dsp {
			for _, x := range []string{"A", "B", "C"} {
				if fed[x] || fed[x+"CIN"] {
					count(int32(i), x+"REG", name(), c.params[x+"REG"] != 0)
				}
			}
			if c.params["MREG"] != 0 || fed["A"] && fed["B"] {
				count(int32(i), "MREG", name(), c.params["MREG"] != 0)
			}
			count(int32(i), "PREG", name(), c.params["PREG"] != 0)
		}
		for _, port := range []string{"A", "B"} {
			if has, ok := read[port]; ok {
				count(int32(i), "OUT", fmt.Sprintf("%s.%s", name(), port), has)
			}
		}
	}
	slices.SortFunc(all, func(a, b Registers) int { return strings.Compare(a.Kind+" "+a.Register, b.Kind+" "+b.Register) })
	return all
}

// cellName returns the name of a cell's output in the RTL, or the cell's own name if the output has none.
func (n *Netlist) cellName(i int32) string {
	for _, p := range n.cells[i].pins {
		if q := &n.pins[p]; q.out && q.net >= 0 && n.names[q.net] != "" && !strings.Contains(n.names[q.net], "$") {
			return n.names[q.net]
		}
	}
	return n.cells[i].name
}
