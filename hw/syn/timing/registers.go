package timing

import (
	"fmt"
	"slices"
	"strings"
)

// Registers counts one pipeline register of the DSPs or memories in a netlist: how many of the cells that could use it
// have it. Without names the others by the signal at their output.
type Registers struct {
	Kind     string // DSP48E1, RAMB36E1...
	Register string // AREG, BREG, CREG, MREG, PREG; OUT: a memory's output register, by port
	Have, Of int
	Without  []string
}

// Registers counts the pipeline registers of DSPs and memories, which cost no logic. A DSP's register counts if its
// input is not constant, PREG always, and MREG if the DSP multiplies. A memory's register counts if something reads the
// port. Registers is not in Model, since no delay depends on it.
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
	probe := &Table{RAMOutReg: 1, URAMOutReg: 1}
	for i := range n.cells {
		c := &n.cells[i]
		fed, read := map[string]bool{}, map[string]bool{} // by port: not constant; read: by "A" or "B", whether it is registered
		for _, p := range c.pins {
			switch q := &n.pins[p]; {
			case q.net < 0:
			case !q.out:
				fed[q.port] = true
			case (c.k.class == bram || c.k.class == uram) && len(n.loads[q.net]) > 0 && !strings.HasPrefix(q.port, "CAS"):
				for _, a := range n.arcs(nil, c, q, probe) {
					port := "A"
					if strings.Contains(q.port, "BDO") || strings.Contains(q.port, "OUTB") || strings.Contains(q.port, "OUTPB") || strings.HasSuffix(q.port, "_B") {
						port = "B"
					}
					read[port] = a.delay == 1
				}
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

// cellName returns a cell's name as in the RTL: its output's name, or else its own.
func (n *Netlist) cellName(i int32) string {
	for _, p := range n.cells[i].pins {
		if q := &n.pins[p]; q.out && q.net >= 0 && n.names[q.net] != "" && !strings.Contains(n.names[q.net], "$") {
			return n.names[q.net]
		}
	}
	return n.cells[i].name
}
