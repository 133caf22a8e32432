package check

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module contains the parts of LLVM's intermediate code that the checks use, as text.
type module struct {
	functions []*function
	names     map[string]*function
	meta      map[string]string // by node !N: the text after the =
	calls     map[string][]call // by called function; built at the first use
}

type function struct {
	name    string
	defined bool
	blocks  []*block
	params  []string         // %names, in order
	lines   map[string]*inst // by the instruction's text
	defs    map[string]*inst // by the name that the instruction defines, %name
}

type block struct {
	name  string
	insts []*inst
}

type inst struct {
	text  string
	block *block
}

var (
	defineRE = regexp.MustCompile(`^(define|declare) .*?@("[^"]+"|[\w.$]+)\(`)
	blockRE  = regexp.MustCompile(`^("[^"]+"|[\w.$-]+):(\s|$)`)
	defRE    = regexp.MustCompile(`^(%(?:"[^"]+"|[\w.$-]+)) = (.*)$`)
	metaRE   = regexp.MustCompile(`^(![0-9]+) = (.*)$`)
	calleeRE = regexp.MustCompile(`^(?:(?:tail|musttail|notail) )?(?:call|invoke) [^(]*?([@%](?:"[^"]+"|[\w.$]+))\(`)
	groupRE  = regexp.MustCompile(` #[0-9]+`)
	floatRE  = regexp.MustCompile(`(^|[ (<\[,])(half|bfloat|float|double|fp128|x86_fp80)([ *,)>\]]|$)`)
)

// parse reads the output of clang -S -emit-llvm.
func parse(text string) *module {
	m := &module{names: map[string]*function{}, meta: map[string]string{}}
	var f *function
	var b *block
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "define ") || strings.HasPrefix(line, "declare "):
			g := defineRE.FindStringSubmatch(line)
			if g == nil {
				continue
			}
			f = &function{name: strings.Trim(g[2], `"`), defined: g[1] == "define", params: operands(line[len(g[0]):]), lines: map[string]*inst{}, defs: map[string]*inst{}}
			m.functions = append(m.functions, f)
			m.names[f.name] = f
			if !f.defined {
				f = nil
				continue
			}
			b = &block{name: "entry"}
			f.blocks = append(f.blocks, b)
		case line == "}":
			f = nil
		case f != nil && blockRE.MatchString(line):
			name := strings.Trim(blockRE.FindStringSubmatch(line)[1], `"`)
			if len(f.blocks) == 1 && len(b.insts) == 0 {
				b.name = name
				continue
			}
			b = &block{name: name}
			f.blocks = append(f.blocks, b)
		case f != nil && strings.HasPrefix(line, "  "):
			i := &inst{strings.TrimSpace(line), b}
			b.insts = append(b.insts, i)
			f.lines[bare(i.text)] = i
			if g := defRE.FindStringSubmatch(i.text); g != nil {
				f.defs[g[1]] = i
			}
		default:
			if g := metaRE.FindStringSubmatch(line); g != nil {
				m.meta[g[1]] = g[2]
			}
		}
	}
	return m
}

// bare returns an instruction's text without its metadata, which every tool renumbers.
func bare(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), ", !")
	return groupRE.ReplaceAllString(text, "")
}

// op returns the text of an instruction without the name of its result.
func (i *inst) op() string {
	if g := defRE.FindStringSubmatch(i.text); g != nil {
		return g[2]
	}
	return i.text
}

// callee returns the name of the called function; "" if the instruction is not a call. For an indirect call it returns
// the register.
func (i *inst) callee() (name string, indirect bool) {
	op := i.op()
	if !strings.Contains(op, "call ") && !strings.Contains(op, "invoke ") {
		return "", false
	}
	// attributes can contain parentheses, for example dereferenceable(8)
	flat := attributeRE.ReplaceAllString(op, "")
	g := calleeRE.FindStringSubmatch(flat)
	if g == nil {
		if strings.Contains(flat, "call ") && strings.Contains(flat, "asm ") {
			return "inline assembly", true
		}
		return "", false
	}
	return strings.Trim(g[1][1:], `"`), g[1][0] == '%'
}

var attributeRE = regexp.MustCompile(`\b(dereferenceable|dereferenceable_or_null|align|sret|byval)\([^()]*(\([^()]*\))?[^()]*\)`)

// Besides its own functions, the kernel may call functions of streams and blocks, which the HLS tool implements, and
// LLVM's intrinsics.
var (
	streamRE    = regexp.MustCompile(`^_ZN3hls(6stream|16stream_of_blocks|10burst_maxi)I`)
	intrinsicRE = regexp.MustCompile(`^llvm\.(dbg|lifetime|memset|memcpy|memmove|smax|smin|umax|umin|abs|fshl|fshr|experimental\.noalias|ctlz|cttz|bswap|usub\.sat|uadd\.sat|assume)\b`)
	allocRE     = regexp.MustCompile(`^(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|_Zn[wa]|_Zd[la])`)
)

// language finds constructs that no HLS tool can turn into hardware. The code must be unoptimised.
func language(m *module) (problems []string) {
	calls := map[string][]string{}
	for _, f := range m.functions {
		if !f.defined {
			continue
		}
		for _, b := range f.blocks {
			for _, i := range b.insts {
				op := i.op()
				if strings.HasPrefix(op, "alloca ") && allocaRE.MatchString(op) {
					problems = append(problems, fmt.Sprintf("%s: memory of variable size: %s", f.name, op))
				}
				if g := floatRE.FindStringSubmatch(stringRE.ReplaceAllString(op, "")); g != nil {
					problems = append(problems, fmt.Sprintf("%s: floating point (%s): %s", f.name, g[2], op))
				}
				name, indirect := i.callee()
				switch {
				case name == "":
				case indirect:
					problems = append(problems, fmt.Sprintf("%s: indirect call of %s", f.name, name))
				case m.names[name] != nil && m.names[name].defined:
					calls[f.name] = append(calls[f.name], name)
				case allocRE.MatchString(name):
					problems = append(problems, fmt.Sprintf("%s: allocates memory (%s)", f.name, name))
				case !streamRE.MatchString(name) && !intrinsicRE.MatchString(name):
					problems = append(problems, fmt.Sprintf("%s: external call of %s", f.name, name))
				}
			}
		}
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		path = append(path, name)
		switch state[name] {
		case visiting:
			problems = append(problems, "recursion: "+strings.Join(path[slices.Index(path, name):], " -> "))
			return
		case done:
			return
		}
		state[name] = visiting
		for _, c := range calls[name] {
			visit(c, path)
		}
		state[name] = done
	}
	for _, f := range m.functions {
		visit(f.name, nil)
	}
	return problems
}

var (
	allocaRE = regexp.MustCompile(`^alloca .*, i\d+ %`)
	stringRE = regexp.MustCompile(`"[^"]*"|![0-9]+|%"?[\w.:$<> ,-]+"?`)
)

// place returns the file and line of a debug location; "" if there is none.
func (m *module) place(id string) (file string, line int) {
	loc := m.meta[id]
	if !strings.Contains(loc, "DILocation(") {
		return "", 0
	}
	line, _ = strconv.Atoi(field(loc, "line"))
	for scope, n := field(loc, "scope"), 0; scope != "" && n < 64; n++ {
		text := m.meta[scope]
		if f := field(text, "file"); f != "" {
			name, err := strconv.Unquote(field(m.meta[f], "filename"))
			if err != nil {
				return "", 0
			}
			return filepath.Base(name), line
		}
		scope = field(text, "scope")
	}
	return "", 0
}

// field returns the value of a key in the text of a metadata node.
func field(text, key string) string {
	g := regexp.MustCompile(`\b` + key + `: ("[^"]*"|![0-9]+|[\w]+)`).FindStringSubmatch(text)
	if g == nil {
		return ""
	}
	return g[1]
}

// operands splits the text up to the closing parenthesis and returns the last word of each part: the names of
// parameters and arguments, or constants.
func operands(text string) (out []string) {
	depth, from := 0, 0
	take := func(to int) {
		f := strings.Fields(text[from:to])
		if len(f) > 0 {
			out = append(out, f[len(f)-1])
		}
		from = to + 1
	}
	quoted := false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[' || c == '{' || c == '<':
			depth++
		case c == ')' && depth == 0:
			take(i)
			return out
		case c == ')' || c == ']' || c == '}' || c == '>':
			depth--
		case c == ',' && depth == 0:
			take(i)
		}
	}
	return nil
}

// arguments returns the operands of a call; nil for other instructions.
func (i *inst) arguments() []string {
	flat := attributeRE.ReplaceAllString(i.op(), "")
	g := calleeRE.FindStringIndex(flat)
	if g == nil {
		return nil
	}
	return operands(flat[g[1]:])
}

// latches returns the blocks of the loop that jump back to its header.
func (l *loop) latches() (out []*block) {
	for _, b := range l.f.blocks {
		if l.blocks[b.name] && slices.Contains(b.targets(), l.header) {
			out = append(out, b)
		}
	}
	return out
}

// leaves reports whether a block of the loop jumps out of the loop or ends the function.
func (l *loop) leaves() bool {
	for _, b := range l.f.blocks {
		if !l.blocks[b.name] || len(b.insts) == 0 {
			continue
		}
		if strings.HasPrefix(b.insts[len(b.insts)-1].op(), "ret ") {
			return true
		}
		for _, to := range b.targets() {
			if !l.blocks[to] {
				return true
			}
		}
	}
	return false
}

// splits reports whether LLVM has split a loop with several latches into two loops (LoopSimplify: HEADER.outer).
func (l *loop) splits(inner *loop) bool {
	name, _, ok := strings.Cut(l.header, ".outer")
	return ok && strings.HasPrefix(inner.header, name)
}

// near returns a source line of the loop for a message, or "" if its code has no source line.
func (l *loop) near(m *module) string {
	for _, b := range l.f.blocks {
		if !l.blocks[b.name] {
			continue
		}
		for _, i := range b.insts {
			if g := dbgRE.FindStringSubmatch(i.text); g != nil {
				if file, line := m.place(g[1]); line > 0 {
					return fmt.Sprintf(" (near %s:%d)", file, line)
				}
			}
		}
	}
	return ""
}

// targets returns the blocks that can follow a block.
func (b *block) targets() (out []string) {
	if len(b.insts) == 0 {
		return nil
	}
	for _, i := range b.insts[max(0, len(b.insts)-1):] {
		for _, t := range targetRE.FindAllStringSubmatch(i.text, -1) {
			out = append(out, t[1])
		}
	}
	return out
}

// always reports whether every completed trip of the loop executes the block.
func (l *loop) always(b *block) bool {
	seen := map[string]bool{b.name: true}
	var reach func(name string)
	reach = func(name string) {
		if seen[name] || !l.blocks[name] {
			return
		}
		seen[name] = true
		for _, at := range l.f.blocks {
			if at.name == name {
				for _, t := range at.targets() {
					if t != l.header {
						reach(t)
					}
				}
			}
		}
	}
	reach(l.header)
	for _, latch := range l.latches() {
		if latch.name != b.name && seen[latch.name] {
			return false
		}
	}
	return true
}
