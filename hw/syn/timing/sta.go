package timing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Stage is one net of a path, with its driver.
type Stage struct {
	Net    string  `json:"net"`
	Cell   string  `json:"cell"`
	Fanout int     `json:"fanout"`
	NS     float64 `json:"ns"` // since the clock edge, at the driver's output
	RTL    string  `json:"rtl,omitempty"`
}

// Path is the longest path to a register.
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
	Ends      int     // where paths end
	Worst     []Path  // by end register, slowest first
	Deep      Path    // the path with the most levels
	Deepest   []Path  // by end register, deepest first; only those beyond MostLevels
	MaxLevels int     // of any path
	MaxNS     float64 // of any path

	ends []end
}

type end struct {
	ns, levels float64
	pin        int32
}

// Count returns how many ends are beyond ns, and beyond levels.
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

// arrival is the latest time of each net, and its predecessor: an input pin, or -1 for the clock.
type arrival struct {
	at   []float64
	pred []int32
}

const never = math.MaxFloat64

// propagate finds the longest path to every net with arc costs by weigh. Static nets have none.
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
		d := n.driver[b]
		if d >= 0 {
			if p := &n.pins[d]; p.cell != portCell {
				arcs = n.arcs(arcs[:0], &n.cells[p.cell], p, t)
				f.arcs = slices.Clone(arcs)
			} else if ports {
				f.arcs = []arc{{-1, t.FFOut}}
			}
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
			var c *cell
			if p := &n.pins[n.driver[f.net]]; p.cell != portCell {
				c = &n.cells[p.cell]
			}
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

// Analyse finds the longest paths with a table. The keep worst, one for each register, have their stages. With ports,
// the module's ports count as registers outside.
func (n *Netlist) Analyse(t *Table, keep int, ports bool) (*Analysis, error) {
	for i := range n.cells {
		if c := &n.cells[i]; c.k.family != "" && c.k.family != t.Family {
			return nil, fmt.Errorf("%w: %s: cell %s is of type %s, of family %s: table %s is of %s", ErrNetlist, n.Top, c.name, c.kind, c.k.family, t.Name, t.Family)
		}
	}
	n = n.fit(t.Family)
	times, err := n.propagate(t, ports, func(_ *cell, a arc) float64 {
		if a.from < 0 {
			return a.delay
		}
		return a.delay + n.wire(t, &n.pins[a.from])
	})
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
		if !ok {
			continue
		}
		e := end{ns: times.at[p.net] + n.wire(t, p) + ns, levels: depth.at[p.net], pin: int32(i)}
		r.ends = append(r.ends, e)
	}
	r.Ends = len(r.ends)
	if r.Ends == 0 {
		return nil, fmt.Errorf("%w: %s has no path", ErrNetlist, n.Top)
	}
	order := func(by func(e end) float64) func(a, b end) int {
		return func(a, b end) int { return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a.pin, b.pin)) }
	}
	deep := slices.MinFunc(r.ends, order(func(e end) float64 { return e.levels }))
	r.Deep = n.path(depth, times, deep)
	r.MaxLevels = int(deep.levels)
	slices.SortFunc(r.ends, order(func(e end) float64 { return e.levels }))
	below := map[string]bool{}
	for _, e := range r.ends {
		if len(r.Deepest) == keep || int(e.levels) <= MostLevels {
			break
		}
		if to := Register(n.target(e.pin)); !below[to] {
			below[to] = true
			r.Deepest = append(r.Deepest, n.path(depth, times, e))
		}
	}
	slices.SortFunc(r.ends, order(func(e end) float64 { return e.ns }))
	r.MaxNS = r.ends[0].ns
	seen := map[string]bool{}
	for _, e := range r.ends {
		if len(r.Worst) == keep {
			break
		}
		if to := Register(n.target(e.pin)); !seen[to] {
			seen[to] = true
			r.Worst = append(r.Worst, n.path(times, times, e))
		}
	}
	return r, nil
}

// target names the register, memory or port at the end of a path.
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

// path follows the longest path by one measure; its ns come from times.
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
		if d := n.driver[b]; d >= 0 && n.pins[d].cell != portCell {
			c := &n.cells[n.pins[d].cell]
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
