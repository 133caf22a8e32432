package check

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	evolvesRE = regexp.MustCompile(`^\{(.*),\+,(\d+)\}(?:<\w+>)*<%"?([^>"]*)"?>$`)
	offsetRE  = regexp.MustCompile(`^\((\d+) \+ (.*)$`)
	widthRE   = regexp.MustCompile(`^(?:load|store) i(\d+)[ ,]`)
)

// access is a read or a write of DRAM.
type access struct {
	at     *inst
	bundle string
	writes bool
	place  string // register with the DRAM address
	bytes  int    // 0: unknown
}

type placedAccess struct {
	access
	f *function
}

// bursts checks that the vendor's tool can convert every DRAM access to a burst (UG1399, Preconditions and Limitations
// of Burst Transfer). The access must be in a pipelined loop of its own, be executed in every trip, have consecutive
// addresses, and be the only access to its port in the loop. The number of trips must be known when the loop begins. An
// access that cannot be a burst needs a comment at its source line that begins with "// single beat:" and a reason.
func bursts(m *module, src *source, loops []*loop, seen evolution, r *Report) {
	said := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	type port struct {
		l      *loop
		bundle string
	}
	inLoop := map[port][]access{}
	var everywhere []placedAccess
	alone := map[string]bool{} // by source line and direction, because the compiler can split a beat
	for _, f := range m.functions {
		if !f.defined {
			continue
		}
		for name, bundle := range dram(m, src, f) {
			for _, a := range f.accesses(name, bundle, said) {
				everywhere = append(everywhere, placedAccess{a, f})
				if l := innermost(loops, f, a.at.block); l != nil && l.src != nil && l.src.II > 0 {
					inLoop[port{l, bundle}] = append(inLoop[port{l, bundle}], a)
					continue
				}
				file, line := m.dbg(a.at)
				alone[fmt.Sprint(file, line, a.writes)] = true
				if !strings.Contains(src.line(file, line), "// single beat: ") {
					said("%s:%d: DRAM (%s) is reached beside a pipelined loop, and no comment there says // single beat: and why", file, line, bundle)
				}
			}
		}
	}
	r.Single = len(alone)
	for p, all := range inLoop {
		why := p.l.burst(all, seen)
		for _, a := range everywhere {
			// an outer loop accesses the same port in the other direction
			if why == "" && a.bundle == p.bundle && a.writes != all[0].writes && slices.ContainsFunc(loops, func(l *loop) bool {
				return l.f == p.l.f && a.f == l.f && l.blocks[p.l.header] && l.blocks[a.at.block.name]
			}) {
				why = "is reached in the other direction in a loop around it"
			}
		}
		if why != "" {
			said("%v: no burst: DRAM (%s) %s", p.l.src, p.bundle, why)
		} else {
			r.Bursts++
		}
	}
	slices.Sort(r.Problems)
}

// burst returns the reason why the accesses to one port in a loop cannot become a burst, or "" if they can. It accepts
// a beat that the compiler has split into adjacent accesses.
func (l *loop) burst(all []access, seen evolution) string {
	bytes, step, base := 0, 0, ""
	parts, read := map[string]bool{}, map[string]bool{}
	for _, a := range all {
		if !a.writes && read[a.place] {
			continue // a second read of the same word
		}
		read[a.place] = true
		if a.writes != all[0].writes {
			return "is reached twice a trip: read and written"
		}
		if !l.always(a.at.block) {
			return "is reached under a condition"
		}
		if a.bytes == 0 {
			return "is not reached by whole bytes: " + a.at.op()
		}
		g := evolvesRE.FindStringSubmatch(seen[value{l.f, a.place}])
		if g == nil || g[3] != l.header {
			return "is reached at addresses that are not consecutive: " + seen[value{l.f, a.place}]
		}
		from, offset := g[1], "0"
		if o := offsetRE.FindStringSubmatch(from); o != nil {
			from, offset = "("+o[2], o[1]
		}
		n, err := strconv.Atoi(g[2])
		if err != nil || n < a.bytes || step != 0 && n != step {
			return "is reached at addresses that are not consecutive: " + g[0]
		}
		if base != "" && from != base || parts[offset] {
			return "is reached twice a trip"
		}
		bytes, step, base, parts[offset] = bytes+a.bytes, n, from, true
	}
	switch {
	case bytes > step:
		return "is reached twice a trip"
	case bytes < step:
		return fmt.Sprintf("is reached at addresses that are not consecutive: %d bytes every %d", bytes, step)
	case !l.known:
		return "is reached in a loop of which it is not known when it begins how often it runs"
	}
	return ""
}

// dram returns the parameters of a function that point to DRAM, with their bundles. These are parameters of the top
// function, and parameters that receive such a pointer in a call.
func dram(m *module, src *source, f *function) map[string]string {
	out := map[string]string{}
	for _, p := range f.params {
		if bundle, ok := src.dram[strings.TrimPrefix(p, "%")]; ok && f.name != "" && m.isTop(f) {
			out[p] = bundle
		}
	}
	for _, c := range m.callers(f) {
		from := dram(m, src, c.f)
		for i, arg := range c.at.arguments() {
			if bundle, ok := from[arg]; ok && i < len(f.params) {
				out[f.params[i]] = bundle
			}
		}
	}
	return out
}

// call is a call instruction and the function that contains it.
type call struct {
	f  *function
	at *inst
}

func (m *module) callers(f *function) []call {
	if m.calls == nil { // built at the first use
		m.calls = map[string][]call{}
		for _, c := range m.functions {
			for _, b := range c.blocks {
				for _, i := range b.insts {
					if name, indirect := i.callee(); name != "" && !indirect && name != c.name {
						m.calls[name] = append(m.calls[name], call{c, i})
					}
				}
			}
		}
	}
	return m.calls[f.name]
}

// isTop reports whether nothing calls the function.
func (m *module) isTop(f *function) bool { return len(m.callers(f)) == 0 }

// accesses follows a pointer to DRAM to the instructions that read or write through it.
func (f *function) accesses(pointer, bundle string, said func(string, ...any)) (out []access) {
	uses := regexp.MustCompile(regexp.QuoteMeta(pointer) + `([, )]|$)`)
	for _, b := range f.blocks {
		for _, i := range b.insts {
			op := i.op()
			if !strings.Contains(op, pointer) || !uses.MatchString(op) || strings.Contains(op, "@llvm.dbg") {
				continue
			}
			name := ""
			if g := defRE.FindStringSubmatch(i.text); g != nil {
				name = g[1]
			}
			switch {
			case strings.HasPrefix(op, "getelementptr ") || strings.HasPrefix(op, "bitcast "):
				out = append(out, f.accesses(name, bundle, said)...)
			case strings.HasPrefix(op, "load "):
				out = append(out, access{i, bundle, false, pointer, width(op)})
			case strings.HasPrefix(op, "store ") && strings.Fields(op)[2] == pointer+",":
				said("%s: a pointer to DRAM (%s) is stored: %s", f.name, bundle, op)
			case strings.HasPrefix(op, "store "):
				out = append(out, access{i, bundle, true, pointer, width(op)})
			case strings.Contains(op, "@llvm.memcpy."):
				args := i.arguments()
				if len(args) < 3 {
					said("%s: DRAM (%s): %s", f.name, bundle, op)
					continue
				}
				n, _ := strconv.Atoi(args[2]) // 0 if not a constant
				out = append(out, access{i, bundle, args[0] == pointer, pointer, n})
			case slices.Contains(f.params, pointer) && i.arguments() != nil:
				// the pointer to DRAM is passed on unchanged
			default:
				said("%s: an address in DRAM (%s) goes where it cannot be followed: %s", f.name, bundle, op)
			}
		}
	}
	return out
}

// width returns the number of bytes that a load or store of an integer transfers, or 0 for other types.
func width(op string) int {
	g := widthRE.FindStringSubmatch(op)
	if g == nil {
		return 0
	}
	bits, err := strconv.Atoi(g[1])
	if err != nil || bits%8 != 0 {
		return 0
	}
	return bits / 8
}

// innermost returns the innermost loop that contains a block.
func innermost(loops []*loop, f *function, b *block) (at *loop) {
	for _, l := range loops {
		if l.f == f && l.blocks[b.name] && (at == nil || l.depth > at.depth) {
			at = l
		}
	}
	return at
}

// dbg returns the source location of an instruction.
func (m *module) dbg(i *inst) (file string, line int) {
	g := dbgRE.FindStringSubmatch(i.text)
	if g == nil {
		return "", 0
	}
	return m.place(g[1])
}
