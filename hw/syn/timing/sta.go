package timing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Stage is a net of a path, with the cell that drives it.
type Stage struct {
	Net    string  `json:"net"`
	Cell   string  `json:"cell"`
	Fanout int     `json:"fanout"`
	NS     float64 `json:"ns"` // time from the clock edge to the driver's output
	RTL    string  `json:"rtl,omitempty"`
}

// Path is the longest path to a register, by time or by levels.
type Path struct {
	NS      float64 `json:"ns"`
	Levels  int     `json:"levels"` // LUTs, LUT memories and wide multiplexers, without carry chains
	Carries int     `json:"carries"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	FromRTL string  `json:"from_rtl,omitempty"`
	ToRTL   string  `json:"to_rtl,omitempty"`
	Stages  []Stage `json:"stages,omitempty"`
}

// Analysis is the result for a netlist with a table.
type Analysis struct {
	Table     *Table
	Ends      int     // number of pins where paths end
	Worst     []Path  // slowest path to each register, slowest first
	Deep      Path    // path with the most levels
	Deepest   []Path  // deepest path to each register, deepest first; only paths with more than MostLevels
	MaxLevels int     // levels of the deepest path
	MaxNS     float64 // delay of the slowest path

	ends []end
}

type end struct {
	ns, levels float64
	pin        int32
}

// Count returns the number of ends later than ns, and the number of ends deeper than levels.
func (a *Analysis) Count(ns float64, levels int) (slow, deep int) {
	for _, e := range a.ends {
		if e.ns > ns {
			slow++
		}
		if int(e.levels) > levels {
			deep++
		}
	}
	return slow, deep
}

// arrival describes the longest path to each net.
type arrival struct {
	at   []float64 // by net: length of the path; -never: no path
	pred []int32   // by net: previous input pin of the path; -1: the clock
}

const never = math.MaxFloat64

// propagate finds the longest path to every net. weigh returns the length of a cell's arc. A static net has no path.
func (n *Netlist) propagate(t *Table, ports bool, weigh func(c *cell, a arc) float64) (*arrival, error) {
	r := &arrival{at: make([]float64, len(n.driver)), pred: make([]int32, len(n.driver))}
	state := make([]int8, len(n.driver)) // 0 new, 1 in progress, 2 done
	var arcs []arc
	type frame struct {
		net  int32
		arcs []arc
		next int
	}
	var stack []frame
	push := func(b int32) {
		state[b] = 1
		r.at[b], r.pred[b] = -never, -1
		f := frame{net: b}
		if c := n.source(b); c != nil {
			arcs = n.arcs(arcs[:0], c, &n.pins[n.driver[b]], t)
			f.arcs = slices.Clone(arcs)
		} else if n.driver[b] >= 0 && ports {
			f.arcs = []arc{{-1, t.FFOut}}
		}
		stack = append(stack, f)
	}
	for b := range n.driver {
		if state[b] != 0 {
			continue
		}
		push(int32(b))
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(f.arcs) {
				state[f.net] = 2
				stack = stack[:len(stack)-1]
				continue
			}
			a := f.arcs[f.next]
			c := n.source(f.net)
			if a.from < 0 {
				if v := weigh(c, a); v > r.at[f.net] {
					r.at[f.net], r.pred[f.net] = v, -1
				}
				f.next++
				continue
			}
			in := n.pins[a.from].net
			switch state[in] {
			case 0:
				push(in)
				continue
			case 1:
				return nil, fmt.Errorf("%w: %s: a loop without a register through %s", ErrNetlist, n.Top, n.label(in))
			}
			if r.at[in] != -never {
				if v := r.at[in] + weigh(c, a); v > r.at[f.net] {
					r.at[f.net], r.pred[f.net] = v, a.from
				}
			}
			f.next++
		}
	}
	return r, nil
}

func (n *Netlist) label(net int32) string {
	if s := n.names[net]; s != "" {
		return s
	}
	return fmt.Sprintf("net %d", net)
}

// Analyse finds the longest paths with a table of delays. It returns at most keep paths with their stages: the slowest
// path to each register, slowest first. If ports is set, the module's ports count as external registers.
func (n *Netlist) Analyse(t *Table, keep int, ports bool) (*Analysis, error) {
	n, err := n.fitFor(t)
	if err != nil {
		return nil, err
	}
	r, times, err := n.ends(t, ports, func(at int32) float64 { return n.wire(t, &n.pins[at]) })
	if err != nil {
		return nil, err
	}
	depth, err := n.propagate(t, ports, func(c *cell, a arc) float64 {
		if a.from >= 0 && c.k.level() {
			return 1
		}
		return 0
	})
	if err != nil {
		return nil, err
	}
	for i := range r.ends {
		r.ends[i].levels = depth.at[n.pins[r.ends[i].pin].net]
	}
	deep := slices.Clone(r.ends)
	slices.SortFunc(deep, largest(func(e end) float64 { return e.levels }))
	r.Deep = n.path(depth, times, deep[0])
	r.MaxLevels = int(deep[0].levels)
	deep = slices.DeleteFunc(deep, func(e end) bool { return int(e.levels) <= MostLevels })
	r.Deepest = n.paths(depth, times, deep, keep)
	r.Worst = n.paths(times, times, r.ends, keep)
	return r, nil
}

// fitFor checks that the table's family has all cells of the netlist, and then calls fit.
func (n *Netlist) fitFor(t *Table) (*Netlist, error) {
	for i := range n.cells {
		if c := &n.cells[i]; c.k.family != "" && c.k.family != t.Family {
			return nil, fmt.Errorf("%w: %s: cell %s is of type %s, which family %s has: table %s is for family %s", ErrNetlist, n.Top, c.name, c.kind, c.k.family, t.Name, t.Family)
		}
	}
	return n.fit(t.Family), nil
}

// ends computes the latest arrival times, and the ends of paths, slowest first. wire returns the delay in ns of a net
// up to an input pin.
func (n *Netlist) ends(t *Table, ports bool, wire func(at int32) float64) (*Analysis, *arrival, error) {
	times, err := n.propagate(t, ports, func(_ *cell, a arc) float64 {
		if a.from < 0 {
			return a.delay
		}
		return a.delay + wire(a.from)
	})
	if err != nil {
		return nil, nil, err
	}
	r := &Analysis{Table: t}
	for i := range n.pins {
		p := &n.pins[i]
		if p.out || p.net < 0 || times.at[p.net] == -never {
			continue
		}
		ns, ok := t.FFIn, ports
		if p.cell != portCell {
			ns, ok = t.setup(&n.cells[p.cell], p)
		}
		if ok {
			r.ends = append(r.ends, end{ns: times.at[p.net] + wire(int32(i)) + ns, pin: int32(i)})
		}
	}
	if r.Ends = len(r.ends); r.Ends == 0 {
		return nil, nil, fmt.Errorf("%w: %s has no path", ErrNetlist, n.Top)
	}
	slices.SortFunc(r.ends, largest(func(e end) float64 { return e.ns }))
	r.MaxNS = r.ends[0].ns
	return r, times, nil
}

// largest orders ends by a measure, the largest first.
func largest(by func(e end) float64) func(a, b end) int {
	return func(a, b end) int { return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a.pin, b.pin)) }
}

// paths returns at most keep paths, in the order of the ends, and at most one path per register.
func (n *Netlist) paths(by, times *arrival, ends []end, keep int) (list []Path) {
	seen := map[string]bool{}
	for _, e := range ends {
		if len(list) == keep {
			break
		}
		if to := Register(n.target(e.pin)); !seen[to] {
			seen[to] = true
			list = append(list, n.path(by, times, e))
		}
	}
	return list
}

// target returns the name of the register, memory or port at the end of a path.
func (n *Netlist) target(at int32) string {
	p := &n.pins[at]
	if p.cell == portCell {
		return "port " + p.port
	}
	c := &n.cells[p.cell]
	out := int32(-1)
	for _, i := range c.pins {
		if q := &n.pins[i]; q.out && q.net >= 0 && (out < 0 || n.names[q.net] != "" && n.names[out] == "") {
			out = q.net
		}
	}
	name := c.name
	if out >= 0 && n.names[out] != "" {
		name = Register(n.names[out])
	}
	switch {
	case c.k.class == ff && p.port == "D":
		return name
	case c.k.class == ff:
		return name + "." + p.port
	}
	return fmt.Sprintf("%s(%s).%s", c.kind, name, p.port)
}

// path returns the longest path to an end, by a measure such as levels. times has the stages' times.
func (n *Netlist) path(by, times *arrival, e end) Path {
	p := Path{NS: e.ns, To: n.target(e.pin), ToRTL: n.rtlOf(e.pin)}
	var nets []int32
	for b := n.pins[e.pin].net; ; b = n.pins[by.pred[b]].net {
		nets = append(nets, b)
		if by.pred[b] < 0 {
			break
		}
	}
	slices.Reverse(nets)
	chain := false
	for i, b := range nets {
		s := Stage{Net: n.label(b), NS: times.at[b], Fanout: int(n.fanout[b]), RTL: n.src[b], Cell: "port"}
		if c := n.source(b); c != nil {
			s.Cell = c.kind
			switch {
			case i == 0:
			case c.k.level():
				p.Levels++
			case c.k.class == carry && !chain:
				p.Carries++
			}
			chain = c.k.class == carry
		}
		p.Stages = append(p.Stages, s)
	}
	p.From, p.FromRTL = Register(p.Stages[0].Net), p.Stages[0].RTL
	if p.Stages[0].Cell == "port" {
		p.From = "port " + p.From
	} else if !strings.HasPrefix(p.Stages[0].Cell, "FD") {
		p.From = fmt.Sprintf("%s(%s)", p.Stages[0].Cell, p.From)
	}
	return p
}

func (n *Netlist) rtlOf(at int32) string {
	p := &n.pins[at]
	if p.cell == portCell {
		return n.src[p.net]
	}
	for _, i := range n.cells[p.cell].pins {
		if q := &n.pins[i]; q.out && q.net >= 0 && n.src[q.net] != "" {
			return n.src[q.net]
		}
	}
	return ""
}
