package check

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	daOfRE   = regexp.MustCompile(`^'Dependence Analysis' for function '(.*)':`)
	daRE     = regexp.MustCompile(`^\s*da analyze - (?:consistent )?(flow|anti) \[([^\]|]*)`)
	storeRE  = regexp.MustCompile(`^store .*, [^,]*\* (%(?:"[^"]+"|[\w.$-]+)|@[\w.$]+)(, align|$)`)
	loadRE   = regexp.MustCompile(`^load .*\* (%(?:"[^"]+"|[\w.$-]+)|@[\w.$]+)(, align|$)`)
	memcpyRE = regexp.MustCompile(`call void @llvm\.mem(?:cpy|move)[\w.]*\(i8\* [^,%@]*([%@](?:"[^"]+"|[\w.$-]+)), i8\* [^,%@]*([%@](?:"[^"]+"|[\w.$-]+)),`)
	gepRE    = regexp.MustCompile(`^(?:getelementptr|bitcast|addrspacecast) .*?\* (%(?:"[^"]+"|[\w.$-]+)|@[\w.$]+)[, ]`)
)

var (
	kindRE    = regexp.MustCompile(`^(?:load|store) (?:volatile )?[\w%."]+`)
	definesRE = regexp.MustCompile(`^(%(?:"[^"]+"|[\w.$-]+)) = (?:tail |notail )?(load (?:volatile )?|call )(.*)$`)
	numberRE  = regexp.MustCompile(`^(?:(?:\w+(?:\([^)]*\))? )*?)(i\d+)[ ,]`)
)

// relevant reduces a module's text for the dependence analysis. The time of the analysis grows with the square of a
// function's loads, stores and calls. Instructions that need no comparison are removed, and their results become
// unknown.
func (m *module) relevant(text string, alike map[*inst]int) string {
	lines := strings.Split(text, "\n")
	var f *function
	var all []*inst
	for n, line := range lines {
		switch {
		case strings.HasPrefix(line, "define "):
			f, all = nil, nil
			if g := defineRE.FindStringSubmatch(line); g != nil {
				f = m.names[strings.Trim(g[2], `"`)]
			}
			if f != nil {
				all = part{f, nil}.insts()
			}
		case line == "}":
			f = nil
		case f != nil && strings.HasPrefix(line, "  ") && len(all) > 0 && all[0].text == strings.TrimSpace(line):
			i := all[0]
			all = all[1:]
			if alike[i] > 0 || !i.removable() {
				continue
			}
			op := i.op()
			g := definesRE.FindStringSubmatch(i.text)
			switch {
			case strings.HasPrefix(op, "store ") || strings.HasPrefix(op, "call void ") || strings.HasPrefix(op, "tail call void "):
				lines[n] = ""
			case g != nil:
				if t := numberRE.FindStringSubmatch(g[3]); t != nil {
					lines[n] = "  " + g[1] + " = freeze " + t[1] + " undef"
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

// removable reports whether an instruction accesses memory and can be removed if it is not compared. Locks of blocks
// are not removable, because other accesses use them.
func (i *inst) removable() bool {
	op := i.op()
	switch {
	case memcpyRE.MatchString(attributeRE.ReplaceAllString(op, "")):
		return true
	case strings.Contains(op, "call "):
		kept := strings.Contains(op, "stream_of_blocks") ||
			strings.Contains(op, "@llvm.") && !strings.Contains(op, "@llvm.mem") && !strings.Contains(op, "@llvm.lifetime")
		return !kept
	}
	return strings.HasPrefix(op, "load ") || strings.HasPrefix(op, "store ")
}

// reach describes how an instruction in a pipelined loop accesses a variable, and which of the variable's memories. A
// dimension that is partitioned completely has one memory for each constant index.
type reach struct {
	at       *inst
	writes   bool
	unknown  bool   // the target is unknown
	anywhere bool   // any of the variable's memories can be accessed
	memory   string // name of the memory
	place    string // index in this memory
}

// compared returns the instructions to compare, each with the number of instructions that it represents. For a
// pipelined loop, these are the accesses to a memory that the loop both reads and writes. If several memories have the
// same accesses, in the same order and at the same places, only one of these memories is compared.
func (m *module) compared(src *source, loops []*loop) map[*inst]int {
	alike := map[*inst]int{}
	for _, l := range loops {
		if l.src == nil || l.src.II == 0 {
			continue
		}
		variables := map[string][]reach{}
		lost := false // some access has an unknown target
		for _, i := range (part{l.f, l.blocks}).insts() {
			if innermost(loops, l.f, i.block) != l {
				continue
			}
			for _, a := range l.reached(m, src, i) {
				lost = lost || a.unknown
				variables[a.variable] = append(variables[a.variable], a.reach)
			}
		}
		for _, all := range variables {
			for at, n := range representatives(all, lost) {
				alike[at] = max(alike[at], n)
			}
		}
	}
	return alike
}

type reached struct {
	variable string
	reach
}

// reached returns the memories that an instruction reads and writes, without registers.
func (l *loop) reached(m *module, src *source, i *inst) (out []reached) {
	for _, t := range i.touches() {
		if i.removable() && strings.Contains(i.op(), "call ") && !memcpyRE.MatchString(attributeRE.ReplaceAllString(i.op(), "")) {
			continue // an access to a stream
		}
		if name, kind := l.f.object(i, t.writes); kind == register || src.registers[name] {
			continue
		}
		e := m.element(l.f, t.pointer, 0)
		a := reached{e.variable, reach{at: i, writes: t.writes, unknown: e.variable == "", place: i.kind() + e.at}}
		for dim, index := range e.index {
			switch {
			case !src.split[e.variable][dim+1]:
				a.place += "," + e.exact[dim]
			case index == anywhere:
				a.anywhere = true
			default:
				a.memory += fmt.Sprintf(" %d:%s", dim+1, index)
			}
		}
		out = append(out, a)
	}
	return out
}

// kind returns the operation of an instruction and its operand type.
func (i *inst) kind() string {
	if g := kindRE.FindString(i.op()); g != "" {
		return g
	}
	return i.op()
}

// representatives selects, from a loop's accesses to a variable, those that must be compared.
func representatives(all []reach, lost bool) map[*inst]int {
	out := map[*inst]int{}
	whole := lost || slices.ContainsFunc(all, func(a reach) bool { return a.anywhere })
	memories := map[string][]reach{}
	var order []string
	for _, a := range all {
		if whole {
			a.memory = ""
		}
		if memories[a.memory] == nil {
			order = append(order, a.memory)
		}
		memories[a.memory] = append(memories[a.memory], a)
	}
	shapes := map[string][]reach{}
	members := map[string]int{}
	for _, name := range order {
		of := memories[name]
		write := func(a reach) bool { return a.writes }
		read := func(a reach) bool { return !a.writes }
		if !lost && (!slices.ContainsFunc(of, write) || !slices.ContainsFunc(of, read)) {
			continue
		}
		var shape strings.Builder
		for _, a := range of {
			fmt.Fprintf(&shape, "%t %s\n", a.writes, a.place)
		}
		if shapes[shape.String()] == nil {
			shapes[shape.String()] = of
		}
		members[shape.String()]++
	}
	for shape, of := range shapes {
		for _, a := range of {
			out[a.at] = members[shape]
		}
	}
	return out
}

// dependences checks the II of every pipelined loop against values that are written in one trip and read in a later
// trip.
func dependences(ctx context.Context, m *module, src *source, text string, loops []*loop, r *Report) error {
	alike := m.compared(src, loops)
	printed, err := run(ctx, []byte(m.relevant(text, alike)), opt, "-passes=print<da>", "-disable-output", "-")
	if err != nil {
		return err
	}
	said := map[string]bool{}
	var f *function
	pair := ""
	for line := range strings.SplitSeq(printed, "\n") {
		if g := daOfRE.FindStringSubmatch(line); g != nil {
			f = m.names[g[1]]
			continue
		}
		if strings.HasPrefix(line, "Src:") {
			pair = strings.TrimPrefix(line, "Src:")
			continue
		}
		g := daRE.FindStringSubmatch(line)
		confused := g == nil && strings.HasSuffix(line, "confused!")
		if g == nil && !confused || f == nil {
			continue
		}
		from, to, _ := strings.Cut(pair, " --> Dst:")
		a, b := f.lines[bare(from)], f.lines[bare(to)]
		if a == nil || b == nil {
			return fmt.Errorf("dependence analysis of %s: %q is no instruction of it", f.name, pair)
		}
		l := innermost(loops, f, a.block)
		if l == nil || l != innermost(loops, f, b.block) || l.src == nil || l.src.II == 0 {
			continue
		}
		// an anti dependence is a read before a write; its inverse is a write before a read in a later trip
		reader, writer, back := b, a, false
		if !confused && g[1] == "anti" {
			reader, writer, back = a, b, true
		}
		distance := 1
		name, kind := f.object(reader, false)
		if confused {
			// The analysis does not examine copies of structs. Such a copy can read the written value.
			if written, _ := f.object(writer, true); written == "" || written != name {
				continue
			}
		} else if distance = carried(strings.Fields(g[2]), l.depth, back); distance == 0 {
			continue
		}
		if kind == register || src.registers[name] {
			continue // affects only the latency of the path
		}
		n := min(alike[a], alike[b])
		r.Carried += n
		if l.src.Dependence[name] || kind == lock && l.src.freesLock(src) {
			r.Declared += n
			continue
		}
		if need := (memoryLatency + distance - 1) / distance; need > l.src.II {
			what := fmt.Sprintf("%v: II=%d, but %s is read %d trip(s) after it is written: II=%d at least, or a dependence pragma with its reason",
				l.src, l.src.II, name, distance, need)
			if !said[what] {
				said[what] = true
				r.Problems = append(r.Problems, what)
			}
		}
	}
	slices.Sort(r.Problems)
	return nil
}

func (l *sourceLoop) freesLock(src *source) bool {
	for v := range l.Dependence {
		if src.locks[v] {
			return true
		}
	}
	return false
}

// carried returns the minimum distance of a dependence with these directions, in trips of the loop at a depth. If
// `back` is true, it is the distance of the inverse dependence. The result is 0 if this loop carries no dependence.
func carried(directions []string, depth int, back bool) int {
	if depth > len(directions) {
		return 0
	}
	for i, d := range directions[:depth] {
		n, err := strconv.Atoi(d)
		if err == nil && back {
			n = -n
		}
		switch {
		case i < depth-1 && (err == nil && n != 0 || d == "<" || d == ">" || d == "<>"):
			return 0 // an outer loop carries the dependence
		case i < depth-1:
		case err == nil:
			return max(n, 0)
		case d == "=", back && (d == "<" || d == "<="), !back && (d == ">" || d == "=>" || d == ">="):
			return 0
		}
	}
	return 1 // the distance is unknown, or every trip uses the same place
}

type objectKind int

const (
	memory objectKind = iota
	register
	lock // one block of a stream
)

var suffixRE = regexp.MustCompile(`(\.(i|addr|coerce|sroa|ptr|v|lcssa|\d+)\d*)+$|\d+$`)

// object returns the variable that an instruction reads or writes, or "" if it accesses no variable.
func (f *function) object(i *inst, writes bool) (string, objectKind) {
	op := i.op()
	g := loadRE.FindStringSubmatch(op)
	if writes {
		g = storeRE.FindStringSubmatch(op)
	}
	if c := memcpyRE.FindStringSubmatch(attributeRE.ReplaceAllString(op, "")); c != nil {
		g = []string{"", c[1]}
		if !writes {
			g[1] = c[2]
		}
	}
	if g == nil {
		return "", memory
	}
	at := g[1]
	for range 64 {
		def := f.defs[at]
		if def == nil {
			return strings.Trim(suffixRE.ReplaceAllString(at[1:], ""), `"`), memory
		}
		op := def.op()
		switch {
		case strings.HasPrefix(op, "alloca "):
			name := strings.Trim(suffixRE.ReplaceAllString(at[1:], ""), `"`)
			if strings.HasPrefix(op, "alloca [") {
				return name, memory
			}
			return name, register // a number, or a struct of numbers that goes through a stream
		case strings.Contains(op, "call ") && strings.Contains(op, "stream_of_blocks"):
			return "a block", lock
		}
		next := gepRE.FindStringSubmatch(op)
		if next == nil {
			return at, memory
		}
		at = next[1]
	}
	return at, memory
}
