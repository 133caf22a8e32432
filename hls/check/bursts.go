package check

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	evolvesRE = regexp.MustCompile(`,\+,(\S+)\}(?:<\w+>)*<%"?([^>"]*)"?>$`)
	widthRE   = regexp.MustCompile(`^(?:load|store) i(\d+)[ ,]`)
)

// access is a read or a write of DRAM.
type access struct {
	at     *inst
	bundle string
	writes bool
	place  string // in DRAM, a register
}

// bursts holds every access of DRAM to the form of which the vendor's tool makes a burst (UG1399, Preconditions
// and Limitations of Burst Transfer): in a pipelined loop of its own, met in every trip, one beat behind the
// other, the only one of its port there, the number of trips known when the loop begins. What is no burst must
// say so in the source, at its line: // single beat: and why.
func bursts(m *module, src *source, loops []*loop, seen evolution, r *Report) {
	said := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	inLoop := map[*loop][]access{}
	for _, f := range m.functions {
		if !f.defined {
			continue
		}
		for name, bundle := range dram(m, src, f) {
			for _, a := range f.accesses(name, bundle, said) {
				file, line := m.dbg(a.at)
				l := innermost(loops, f, a.at.block)
				if l == nil || l.src == nil || l.src.II == 0 {
					r.Single++
					if !strings.Contains(src.line(file, line), "// single beat: ") {
						said("%s:%d: DRAM (%s) is reached beside a pipelined loop, and no comment there says // single beat: and why", file, line, bundle)
					}
					continue
				}
				inLoop[l] = append(inLoop[l], a)
				g := evolvesRE.FindStringSubmatch(seen[value{f, a.place}])
				width := widthRE.FindStringSubmatch(a.at.op())
				if width == nil {
					said("%v: a beat of DRAM (%s) is not taken as one number: %s", l.src, bundle, a.at.op())
					continue
				}
				bits, _ := strconv.Atoi(width[1])
				switch {
				case !l.always(a.at.block):
					said("%v: no burst: DRAM (%s) is reached under a condition", l.src, bundle)
				case g == nil || g[2] != l.header || g[1] != strconv.Itoa(bits/8):
					said("%v: no burst: the addresses of DRAM (%s) are not consecutive: %s", l.src, bundle, seen[value{f, a.place}])
				case !l.known:
					said("%v: no burst on %s: how often the loop runs is not known when it begins", l.src, bundle)
				default:
					r.Bursts++
				}
			}
		}
	}
	for l, all := range inLoop {
		for i, a := range all {
			for _, b := range all[:i] {
				if a.bundle == b.bundle {
					said("%v: no burst: DRAM (%s) is reached twice a trip", l.src, a.bundle)
				}
			}
		}
	}
	slices.Sort(r.Problems)
}

// dram are a function's parameters that point to DRAM, with their bundles: the top's, and what is handed on.
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

// call is an instruction that calls, and where.
type call struct {
	f  *function
	at *inst
}

func (m *module) callers(f *function) (out []call) {
	for _, c := range m.functions {
		for _, b := range c.blocks {
			for _, i := range b.insts {
				if name, indirect := i.callee(); !indirect && name == f.name && c != f {
					out = append(out, call{c, i})
				}
			}
		}
	}
	return out
}

// isTop: nobody calls it.
func (m *module) isTop(f *function) bool { return len(m.callers(f)) == 0 }

// accesses follows a pointer to DRAM to what reads and writes through it.
func (f *function) accesses(pointer, bundle string, said func(string, ...any)) (out []access) {
	uses := regexp.MustCompile(regexp.QuoteMeta(pointer) + `([, )]|$)`)
	for _, b := range f.blocks {
		for _, i := range b.insts {
			op := i.op()
			if !uses.MatchString(op) || strings.Contains(op, "@llvm.dbg") {
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
				out = append(out, access{i, bundle, false, pointer})
			case strings.HasPrefix(op, "store ") && strings.Fields(op)[2] == pointer+",":
				said("%s: a pointer to DRAM (%s) is stored: %s", f.name, bundle, op)
			case strings.HasPrefix(op, "store "):
				out = append(out, access{i, bundle, true, pointer})
			case slices.Contains(f.params, pointer) && i.arguments() != nil:
				// handed on as it is: dram
			default:
				said("%s: an address in DRAM (%s) goes where it cannot be followed: %s", f.name, bundle, op)
			}
		}
	}
	return out
}

// innermost is the loop closest around a block.
func innermost(loops []*loop, f *function, b *block) (at *loop) {
	for _, l := range loops {
		if l.f == f && l.blocks[b.name] && (at == nil || l.depth > at.depth) {
			at = l
		}
	}
	return at
}

// dbg is the place in the source of an instruction.
func (m *module) dbg(i *inst) (file string, line int) {
	g := dbgRE.FindStringSubmatch(i.text)
	if g == nil {
		return "", 0
	}
	return m.place(g[1])
}
