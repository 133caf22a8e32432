package check

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	globalRE  = regexp.MustCompile(`^@_ZZ.*E\d+([a-z_]\w*)$`)
	pointerRE = regexp.MustCompile(`^(?:load|store) .*\* ([%@](?:"[^"]+"|[\w.$-]+))(?:, |$)`)
	indexedRE = regexp.MustCompile(`^getelementptr (?:inbounds )?.*?\* ([%@](?:"[^"]+"|[\w.$-]+))((?:, i(?:32|64) [%\w."$-]+)*)`)
	castRE    = regexp.MustCompile(`^(?:bitcast|addrspacecast) .*?\* ([%@](?:"[^"]+"|[\w.$-]+)) to`)
	selectRE  = regexp.MustCompile(`^select i1 [^,]+, .*?\* ([%@](?:"[^"]+"|[\w.$-]+)), .*?\* ([%@](?:"[^"]+"|[\w.$-]+))(?:, |$)`)
	phiRE     = regexp.MustCompile(`\[ ([%@](?:"[^"]+"|[\w.$-]+)), %`)
	indexRE   = regexp.MustCompile(`i(?:32|64) ([%\w."$-]+)`)
)

// anywhere represents an index that is not a constant.
const anywhere = "*"

// element is a place in a variable. It has one index for each dimension; "*" (anywhere) means a non-constant index.
type element struct {
	variable string
	index    []string
	exact    []string // like index, but with the expression of each non-constant index
	at       string   // offsets that were added to the pointer
	memory   bool     // false: a scalar, or a parameter of the top function
}

// ports checks the memory accesses of every pipelined loop: in one II, each memory can be read once and written once. A
// dimension that is partitioned completely has one memory for each index. A non-constant index accesses all these
// memories. Accesses are counted separately even if their conditions exclude each other.
func ports(m *module, src *source, loops []*loop, r *Report) {
	for _, l := range loops {
		if l.src == nil || l.src.II == 0 {
			continue
		}
		type kind struct {
			variable string
			writes   bool
		}
		streams := map[kind]int{}
		asked := map[kind]map[string]int{} // number of accesses, by the indices of partitioned dimensions
		met := map[string]bool{}
		for _, part := range append([]part{{l.f, l.blocks}}, m.bodies(l)...) {
			for _, i := range part.insts() {
				if object, writes, ok := i.streams(); ok {
					e := m.element(part.f, object, 0)
					if e.variable == "" {
						r.Problems = append(r.Problems, fmt.Sprintf("%v: which stream it is cannot be followed: %s", l.src, i.op()))
					}
					k := kind{e.variable, writes}
					if streams[k]++; streams[k] == l.src.II+1 {
						what := "read"
						if writes {
							what = "written"
						}
						r.Problems = append(r.Problems, fmt.Sprintf("%v: II=%d, but %s is %s more than %d time(s) a trip", l.src, l.src.II, e.variable, what, l.src.II))
					}
				}
				for _, a := range i.touches() {
					e := m.element(part.f, a.pointer, 0)
					if e.variable == "" && !strings.Contains(i.op(), "call ") {
						r.Problems = append(r.Problems, fmt.Sprintf("%v: what is reached cannot be followed: %s", l.src, i.op()))
					}
					if !e.memory || src.registers[e.variable] {
						continue
					}
					once := fmt.Sprint(part.f.name, a.writes, a.pointer)
					if !a.writes && met[once] {
						continue // a second read of the same word
					}
					met[once] = true
					var place []string
					for dim := range src.split[e.variable] {
						if dim > len(e.index) {
							place = append(place, anywhere)
							continue
						}
						place = append(place, fmt.Sprintf("%d:%s", dim, e.index[dim-1]))
					}
					slices.Sort(place)
					k := kind{e.variable, a.writes}
					if asked[k] == nil {
						asked[k] = map[string]int{}
					}
					asked[k][strings.Join(place, " ")]++
				}
			}
		}
		for k, places := range asked {
			r.Ports++
			what := "read"
			if k.writes {
				what = "written"
			}
			most, where := busiest(places)
			if most > l.src.II {
				r.Problems = append(r.Problems, fmt.Sprintf("%v: II=%d, but a memory of %s%s is %s %d times a trip", l.src, l.src.II, k.variable, where, what, most))
			}
		}
	}
	slices.Sort(r.Problems)
}

// busiest returns the largest number of accesses to one memory, and names that memory.
func busiest(places map[string]int) (most int, where string) {
	for _, at := range slices.Sorted(maps.Keys(places)) {
		n := 0
		for other, times := range places {
			if mayOverlap(at, other) {
				n += times
			}
		}
		if n > most {
			most, where = n, ""
			if at != "" {
				where = " (" + at + ")"
			}
		}
	}
	return most, where
}

// mayOverlap reports whether two places can be in the same memory.
func mayOverlap(a, b string) bool {
	f, g := strings.Fields(a), strings.Fields(b)
	for i := range min(len(f), len(g)) {
		if !strings.Contains(f[i], anywhere) && !strings.Contains(g[i], anywhere) && f[i] != g[i] {
			return false
		}
	}
	return true
}

// part contains the blocks of a function that run in a trip of a loop.
type part struct {
	f      *function
	blocks map[string]bool // nil: all blocks
}

func (p part) insts() (out []*inst) {
	for _, b := range p.f.blocks {
		if p.blocks == nil || p.blocks[b.name] {
			out = append(out, b.insts...)
		}
	}
	return out
}

// reached returns the functions that a trip calls, directly or indirectly.
func (m *module) reached(l *loop) (out []*function) {
	var visit func(p part)
	visit = func(p part) {
		for _, i := range p.insts() {
			name, _ := i.callee()
			if f := m.names[name]; f != nil && f.defined && !slices.Contains(out, f) {
				out = append(out, f)
				visit(part{f, nil})
			}
		}
	}
	visit(part{l.f, l.blocks})
	return out
}

func (m *module) bodies(l *loop) (out []part) {
	for _, f := range m.reached(l) {
		out = append(out, part{f, nil})
	}
	return out
}

var transferRE = regexp.MustCompile(`^_ZN3hls(?:6stream|10burst_maxi)I.*E(4readEv|5write)`)

// streams returns the stream or port from which an instruction reads an element, or to which it writes an element.
func (i *inst) streams() (object string, writes, ok bool) {
	name, _ := i.callee()
	g := transferRE.FindStringSubmatch(name)
	if g == nil {
		return "", false, false
	}
	args := i.arguments()
	n := 0
	if strings.Contains(i.op(), "sret(") {
		n = 1 // the first argument is the address of the result
	}
	if n >= len(args) {
		return "", false, false
	}
	return args[n], g[1] == "5write", true
}

type touch struct {
	pointer string
	writes  bool
}

// touches returns the variables that an instruction reads and writes.
func (i *inst) touches() []touch {
	op := i.op()
	switch {
	case strings.HasPrefix(op, "load "):
		if g := pointerRE.FindStringSubmatch(op); g != nil {
			return []touch{{g[1], false}}
		}
	case strings.HasPrefix(op, "store "):
		if g := pointerRE.FindStringSubmatch(op); g != nil {
			return []touch{{g[1], true}}
		}
	}
	if name, _ := i.callee(); streamRE.MatchString(name) { // the value passed to a stream is read
		var out []touch
		for _, p := range i.arguments()[1:] {
			if strings.HasPrefix(p, "%") || strings.HasPrefix(p, "@") {
				out = append(out, touch{p, false})
			}
		}
		return out
	}
	if c := memcpyRE.FindStringSubmatch(attributeRE.ReplaceAllString(op, "")); c != nil {
		return []touch{{c[1], true}, {c[2], false}}
	}
	return nil
}

// element follows a pointer to the variable that it points into, through calls, up to the variable's declaration.
func (m *module) element(f *function, pointer string, depth int) element {
	if depth > 64 {
		return element{}
	}
	if g := globalRE.FindStringSubmatch(pointer); g != nil {
		return element{variable: g[1], memory: true}
	}
	if n := slices.Index(f.params, pointer); n >= 0 {
		for _, c := range m.callers(f) {
			if args := c.at.arguments(); n < len(args) {
				return m.element(c.f, args[n], depth+1)
			}
		}
		return element{variable: pointer[1:]} // a parameter of the top function: not a memory of the kernel
	}
	def := f.defs[pointer]
	if def == nil {
		return element{}
	}
	op := def.op()
	switch {
	case strings.HasPrefix(op, "alloca "):
		name := strings.Trim(suffixRE.ReplaceAllString(pointer[1:], ""), `"`)
		return element{variable: name, memory: strings.HasPrefix(op, "alloca [") || strings.Contains(op, "stream_of_blocks")}
	case strings.Contains(op, "call ") && strings.Contains(op, "stream_of_blocks"):
		if args := def.arguments(); len(args) > 0 {
			return m.element(f, args[0], depth+1)
		}
	}
	var from []string // possible values of the pointer
	if g := selectRE.FindStringSubmatch(op); g != nil {
		from = g[1:]
	} else if strings.HasPrefix(op, "phi ") {
		for _, g := range phiRE.FindAllStringSubmatch(op, -1) {
			from = append(from, g[1])
		}
	}
	if len(from) > 0 {
		e := m.element(f, from[0], depth+1)
		for _, p := range from[1:] {
			if other := m.element(f, p, depth+1); other.variable != e.variable {
				return element{}
			}
		}
		e.index = slices.Repeat([]string{anywhere}, len(e.index))
		e.exact = slices.Clone(e.index)
		e.at += " " + f.name + pointer
		return e
	}
	if g := castRE.FindStringSubmatch(op); g != nil {
		return m.element(f, g[1], depth+1)
	}
	g := indexedRE.FindStringSubmatch(op)
	if g == nil {
		return element{}
	}
	e := m.element(f, g[1], depth+1)
	for n, x := range indexRE.FindAllStringSubmatch(g[2], -1) {
		index, exact := x[1], x[1]
		if strings.HasPrefix(index, "%") {
			index, exact = anywhere, f.name+x[1]
		}
		if n > 0 {
			e.index = append(slices.Clone(e.index), index)
			e.exact = append(slices.Clone(e.exact), exact)
			continue
		}
		// The first index moves the pointer itself, so it is added to the last index so far.
		if index != "0" {
			e.at += " " + exact
		}
		if last := len(e.index) - 1; last >= 0 && index != "0" {
			e.index = slices.Clone(e.index)
			a, err := strconv.Atoi(e.index[last])
			b, err2 := strconv.Atoi(index)
			e.index[last] = strconv.Itoa(a + b)
			if err != nil || err2 != nil {
				e.index[last] = anywhere
			}
		}
	}
	return e
}
