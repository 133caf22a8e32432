// Package check tests that an HLS tool can turn the HLS kernel into hardware. It reads LLVM's intermediate code of
// each instance (clang 14, opt 14). It rejects external, indirect and recursive calls, allocation, variable sizes
// and floating point. Every loop must have a bound, from ScalarEvolution or from a stated trip count. Every stated II
// must be large enough for the memory dependences that LLVM's dependence analysis prints.
//
// The vendor's scheduler is not modelled: an accepted II can still fail in the scheduler because of a long path.
package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tools from Debian's packages clang-14 and llvm-14.
const (
	clang = "clang++-14"
	opt   = "opt-14"
)

// maxTrips is above every bound that is accepted from ScalarEvolution: larger ones only reflect a counter's width.
const maxTrips = 1 << 20

// memoryLatency is the minimum number of cycles from the address of a read to the end of a write that depends on the
// read. Block RAM needs one cycle for the read and another cycle for the write.
const memoryLatency = 2

// ErrTool is wrapped by errors about a missing tool.
var ErrTool = errors.New("a tool is missing")

// Options selects the checks.
type Options struct {
	Source  string   // folder of the kernel; its npu.cpp is compiled
	File    string   // file name in this folder (default npu.cpp)
	Include []string // additional folders with headers
	// Dependences enables the dependence analysis. Its time grows with the square of a stage's size.
	Dependences bool
}

// Report is the result. Problems is empty if the kernel passes.
type Report struct {
	Functions int      `json:"functions"`
	Loops     int      `json:"loops"`
	ByLLVM    int      `json:"loops_bounded_by_scev"`
	Stated    int      `json:"loops_by_stated_trip_count"`
	Pipelined int      `json:"loops_pipelined"`
	Carried   int      `json:"dependences_carried"`  // dependences that pipelined loops carry through memory
	Declared  int      `json:"dependences_declared"` // number of these dependences that the source declares false
	Bursts    int      `json:"bursts"`               // loops over consecutive beats of DRAM
	Single    int      `json:"single_beats"`         // DRAM accesses outside bursts, each with its reason
	Ports     int      `json:"ports"`                // memory ports of pipelined loops; each port allows one access per II
	Problems  []string `json:"problems"`
}

// Run checks one instance of the kernel.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.File == "" {
		o.File = "npu.cpp"
	}
	for tool, pkg := range map[string]string{clang: "clang-14", opt: "llvm-14"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %s: install the package %s", ErrTool, tool, pkg)
		}
	}
	dir, err := os.MkdirTemp("", "hlscheck")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	src, err := read(o.Source, dir, o.File)
	if err != nil {
		return nil, fmt.Errorf("read the kernel: %w", err)
	}
	if o.File == "npu.cpp" && src.regions != 1 {
		return nil, fmt.Errorf("%s: %d dataflow regions (SLUICE_REGION), expected 1, in run_layer", o.Source, src.regions)
	}
	flags := []string{
		"-std=c++14", "-O1", "-g1", "-D__SYNTHESIS__", "-fno-vectorize", "-fno-slp-vectorize", "-fno-builtin",
		"-fno-discard-value-names", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
		"-Wno-unknown-pragmas", "-Wno-unused-label", "-Wno-vla-extension", "-I" + dir, "-S", "-emit-llvm", "-o", "-",
		// unroll every loop with the pragma, without clang's own limit of 16,384 instructions
		"-mllvm", "-pragma-unroll-threshold=2147483647",
	}
	for _, i := range o.Include {
		flags = append(flags, "-I"+i)
	}
	file := filepath.Join(dir, o.File)
	plain, err := run(ctx, nil, clang, append(slices.Clone(flags), "-Xclang", "-disable-llvm-passes", file)...)
	if err != nil {
		return nil, err
	}
	r := &Report{Problems: language(parse(plain))}
	text, err := run(ctx, nil, clang, append(flags, file)...)
	if err != nil {
		return nil, err
	}
	m := parse(text)
	for _, f := range m.functions {
		if f.defined {
			r.Functions++
		}
	}
	loops, seen, err := findLoops(ctx, m, src, text, r)
	if err != nil {
		return nil, err
	}
	structure(src, r)
	bursts(m, src, loops, seen, r)
	ports(m, src, loops, r)
	if o.Dependences {
		if err := dependences(ctx, m, src, text, loops, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// run returns the standard output of a tool, or its standard error if the output is empty (opt prints there).
func run(ctx context.Context, stdin []byte, tool string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, tool, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", tool, err, errs.String())
	}
	if out.Len() == 0 {
		return errs.String(), nil
	}
	return out.String(), nil
}

// loop is a loop of the intermediate code.
type loop struct {
	f       *function
	header  string
	blocks  map[string]bool
	depth   int
	inner   bool // contains other loops
	src     *sourceLoop
	known   bool // the number of trips is known when the loop begins
	bounded bool // LLVM finds a bound
}

// value identifies the result of an instruction in a function. evolution maps a value to ScalarEvolution's expression.
type (
	value struct {
		f    *function
		name string
	}
	evolution map[value]string
)

var (
	loopAtRE  = regexp.MustCompile(`^\s*(?:Parallel )?Loop at depth (\d+) containing: (.*)$`)
	scevForRE = regexp.MustCompile(`^Determining loop execution counts for: @"?(.*?)"?$`)
	scevOfRE  = regexp.MustCompile(`^Classifying expressions for: @(.*)$`)
	scevCntRE = regexp.MustCompile(`^Loop %"?(.*?)"?: backedge-taken count is `)
	scevMaxRE = regexp.MustCompile(`^Loop %"?(.*?)"?: (?:<multiple exits> )?max backedge-taken count is (-?\d+)\s*$`)
	loopMDRE  = regexp.MustCompile(`!llvm\.loop (![0-9]+)`)
	targetRE  = regexp.MustCompile(`label %"?([\w.$-]+)"?`)
	dbgRE     = regexp.MustCompile(`!dbg (![0-9]+)`)
	nodeRE    = regexp.MustCompile(`![0-9]+`)
)

// findLoops finds all loops, with their places in the source and their bounds.
func findLoops(ctx context.Context, m *module, src *source, text string, r *Report) ([]*loop, evolution, error) {
	// LLVM prints the loops of a function before their execution counts, and only the counts name the function.
	printed, err := run(ctx, []byte(text), opt, "-passes=function(print<loops>,print<scalar-evolution>)", "-disable-output", "-")
	if err != nil {
		return nil, nil, err
	}
	loops, seen, err := readLoops(printed, m)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range loops {
		l.src = l.place(m, src)
	}
	// A loop statement belongs to one loop. An inner loop at the same place therefore has no statement and needs no bound.
	var inside []*loop
	for _, l := range loops {
		if slices.ContainsFunc(loops, func(outer *loop) bool {
			return outer != l && outer.f == l.f && outer.src == l.src && outer.blocks[l.header] && !outer.splits(l)
		}) {
			inside = append(inside, l)
		}
	}
	for _, l := range inside {
		l.src = nil
	}
	for _, l := range loops {
		r.loop(l, loops, m)
	}
	return loops, seen, nil
}

// readLoops reads LLVM's output about the loops and the evolution of values.
func readLoops(printed string, m *module) ([]*loop, evolution, error) {
	seen := evolution{}
	var f *function // function of the current expression
	defined := ""
	var loops []*loop
	named := 0 // number of loops with a known function
	for line := range strings.SplitSeq(printed, "\n") {
		if g := loopAtRE.FindStringSubmatch(line); g != nil {
			l := loopOf(g[1], g[2])
			for _, outer := range loops[named:] {
				outer.inner = outer.inner || outer.blocks[l.header]
			}
			loops = append(loops, l)
		}
		if g := scevOfRE.FindStringSubmatch(line); g != nil {
			f = m.names[strings.Trim(g[1], `"`)]
		}
		if g := defRE.FindStringSubmatch(strings.TrimSpace(line)); g != nil {
			defined = g[1]
		} else if e, ok := strings.CutPrefix(line, "  -->  "); ok && f != nil {
			e, _, _ = strings.Cut(e, " U: ")
			seen[value{f, defined}] = e
		}
		if g := scevForRE.FindStringSubmatch(line); g != nil {
			for _, l := range loops[named:] {
				if l.f = m.names[g[1]]; l.f == nil {
					return nil, nil, fmt.Errorf("%s: there is no function %q", opt, g[1])
				}
			}
			named = len(loops)
		}
		if g := scevCntRE.FindStringSubmatch(line); g != nil {
			for _, l := range loops {
				l.known = l.known || l.header == g[1] && l.f == loops[named-1].f
			}
		}
		if g := scevMaxRE.FindStringSubmatch(line); g != nil {
			for _, l := range loops {
				if n, err := strconv.ParseInt(g[2], 10, 64); err == nil && l.header == g[1] && l.f == loops[named-1].f {
					l.bounded = n >= 0 && n < maxTrips
				}
			}
		}
	}
	if named < len(loops) {
		return nil, nil, fmt.Errorf("%s: %d loops without a function", opt, len(loops)-named)
	}
	return loops, seen, nil
}

// loopOf reads a loop's depth and its blocks.
func loopOf(depth, blocks string) *loop {
	l := &loop{blocks: map[string]bool{}}
	l.depth, _ = strconv.Atoi(depth)
	for b := range strings.SplitSeq(blocks, ",") {
		name, marks, _ := strings.Cut(strings.TrimPrefix(b, "%"), "<")
		name = strings.Trim(name, `"`)
		l.blocks[name] = true
		if strings.Contains(marks, "header>") {
			l.header = name
		}
	}
	return l
}

// loop counts a loop and reports its problems.
func (r *Report) loop(l *loop, loops []*loop, m *module) {
	said := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	r.Loops++
	if l.src == nil {
		said("%s: the loop at %s has no place in the source%s", l.f.name, l.header, l.near(m))
		return
	}
	if !l.leaves() {
		said("%v: no bound: nothing leaves the loop", l.src)
		return
	}
	switch {
	case l.bounded:
		r.ByLLVM++
	case l.src.Trips != "":
		r.Stated++
	default:
		said("%v: no bound: ScalarEvolution finds none and no loop_tripcount states one", l.src)
	}
	if l.src.Unroll {
		said("%v: cannot be unrolled: its trips are not constant", l.src)
	}
	if l.src.II == 0 {
		return
	}
	r.Pipelined++
	for _, f := range m.reached(l) {
		if slices.ContainsFunc(loops, func(in *loop) bool { return in.f == f }) {
			said("%v: pipelined, and calls %s, which has a loop", l.src, f.name)
		}
	}
	if l.inner {
		said("%v: pipelined, with a loop inside that is not unrolled", l.src)
	}
}

// place returns the loop's statement in the source. It uses the debug location of the loop's latch or its jump. If an
// optimisation has removed both, place returns the innermost statement around most instructions.
func (l *loop) place(m *module, src *source) *sourceLoop {
	for _, b := range l.f.blocks {
		if !l.blocks[b.name] || len(b.insts) == 0 {
			continue
		}
		last := b.insts[len(b.insts)-1].text
		if !slices.Contains(b.targets(), l.header) {
			continue
		}
		var ids []string
		if g := loopMDRE.FindStringSubmatch(last); g != nil {
			ids = nodeRE.FindAllString(m.meta[g[1]], -1)
		}
		if g := dbgRE.FindStringSubmatch(last); g != nil { // the statement's jump back
			ids = append(ids, g[1])
		}
		for _, id := range ids {
			if file, line := m.place(id); file != "" {
				if s := src.loops[file][line]; s != nil {
					return s
				}
			}
		}
	}
	// A moved instruction keeps its line, so a few instructions can be outside the statement. An inlined instruction is
	// inside statements of its own function and of the caller; the statement with fewer calls in between is preferred.
	type score struct{ n, calls int }
	scores := map[*sourceLoop]score{}
	for _, b := range l.f.blocks {
		if !l.blocks[b.name] {
			continue
		}
		for _, i := range b.insts {
			g := dbgRE.FindStringSubmatch(i.text)
			if g == nil {
				continue
			}
			counted := map[*sourceLoop]bool{}
			for id, calls := g[1], 0; id != "" && calls < 64; id, calls = field(m.meta[id], "inlinedAt"), calls+1 {
				file, line := m.place(id)
				for _, s := range src.loops[file] {
					if s.Line <= line && line <= s.End && !counted[s] {
						counted[s] = true
						scores[s] = score{scores[s].n + 1, scores[s].calls + calls}
					}
				}
			}
		}
	}
	var found *sourceLoop
	for s, a := range scores {
		if found == nil {
			found = s
			continue
		}
		b := scores[found]
		if cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(b.calls, a.calls), cmp.Compare(s.Line, found.Line), strings.Compare(s.File, found.File)) > 0 {
			found = s
		}
	}
	return found
}
