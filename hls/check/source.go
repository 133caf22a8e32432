package check

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// sourceLoop is a loop statement with the pragmas at the head of its body.
type sourceLoop struct {
	File string
	Line int
	End  int // the last line of its body
	// Label names the loop in the reports of the vendor's tool.
	Label      string
	II         int    // initiation interval of its pipeline; 0: not pipelined
	Trips      string // the stated bound, as written; "": none
	TripsLine  int    // line of the pragma loop_tripcount
	Unroll     bool
	Dependence map[string]bool // variables that the source declares free of carried dependences
}

// source contains the facts that the checker reads from the kernel's files.
type source struct {
	loops     map[string]map[int]*sourceLoop // by file, line of the statement
	registers map[string]bool                // arrays that are partitioned into registers
	locks     map[string]bool                // names of the locks for blocks of a stream
	split     map[string]map[int]bool        // dimensions that are partitioned completely, by array
	dram      map[string]string              // bundles of the top function's m_axi ports, by port
	text      map[string][]string            // lines of the files
	regions   int                            // number of functions with concurrent stages
	functions []*definition
	pragmas   []placed
	constants []constant
}

// placed is a pragma with its file and line.
type placed struct {
	file       string
	line       int
	kind, text string
}

// constant is a name that a pragma uses instead of a number.
type constant struct {
	file string
	line int
	text string
}

func newSource() *source {
	return &source{
		loops: map[string]map[int]*sourceLoop{}, registers: map[string]bool{}, locks: map[string]bool{},
		split: map[string]map[int]bool{}, dram: map[string]string{}, text: map[string][]string{},
	}
}

// line returns a line of a file, counted from 1, or "" if the file has no such line.
func (s *source) line(file string, n int) string {
	if n < 1 || n > len(s.text[file]) {
		return ""
	}
	return s.text[file][n-1]
}

var (
	loopRE   = regexp.MustCompile(`^(\s*)((?:for|while)\b.*)`)
	labelRE  = regexp.MustCompile(`^\s*([a-z_][a-z_0-9]*):(\s*//.*)?$`)
	pragmaRE = regexp.MustCompile(`^\s*#\s*pragma\s+HLS\s+(\w+)\s*(.*)$`)
	// pragmas that pragmaRE does not match, with blanks wherever the compiler allows them
	otherPragmaRE = regexp.MustCompile(`^\s*(?:#|%:|\?\?=)\s*pragma\b|\b_Pragma\b`)
	// the statements "do" and "goto", and loops that do not begin a line, cannot have a pragma
	jumpRE      = regexp.MustCompile(`\b(?:do|goto)\b`)
	inlineForRE = regexp.MustCompile(`\S.*?\b(?:for|while)\b`)
	quotedRE    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	lockRE      = regexp.MustCompile(`hls::(?:read|write)_lock<\w+>\s+(\w+)\(`)
	// options of pragmas whose value is the name of a constant
	constantRE = regexp.MustCompile(`\b(?:depth|min|max|avg|factor|latency|max_\w+_burst_length|num_\w+_outstanding)=([A-Za-z_][\w:]*)`)
	inlineRE   = regexp.MustCompile(`^(static )?inline\b`)
)

func setting(text, key string) string {
	for _, f := range strings.Fields(text) {
		if v, ok := strings.CutPrefix(f, key+"="); ok {
			return v
		}
	}
	return ""
}

// read reads the files of the folder dir. It replaces HLS pragmas for unrolling and inlining with clang's equivalents,
// and writes the files to the folder `out` for the analysis. Line numbers do not change.
func read(dir, out, top string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.?pp"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no *.hpp or *.cpp", dir)
	}
	s := newSource()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(f)
		lines, err := s.scan(base, strings.Split(string(text), "\n"))
		if err != nil {
			return nil, err
		}
		s.functions = append(s.functions, definitions(base, string(text))...)
		if err := os.WriteFile(filepath.Join(out, base), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			return nil, err
		}
	}
	return s, s.ask(filepath.Join(out, top))
}

// ask appends assertions to the file top. With them, the compiler checks that the names in pragmas are constants >= 1.
func (s *source) ask(top string) error {
	var code strings.Builder
	for _, c := range s.constants {
		fmt.Fprintf(&code, "#line %d %q\nstatic_assert((%s) >= 1, \"a pragma's %s: expected 1 or more\");\n", c.line, c.file, c.text, c.text)
	}
	if code.Len() == 0 {
		return nil
	}
	f, err := os.OpenFile(top, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("\nnamespace npu {\n" + code.String() + "}\n")
	return err
}

func (s *source) scan(file string, lines []string) ([]string, error) {
	s.loops[file] = map[int]*sourceLoop{}
	s.text[file] = lines
	out := append([]string(nil), lines...)
	label := ""
	var open *sourceLoop // the current loop, while its head is read
	dataflow := false    // the current function has the pragma dataflow
	for i, line := range lines {
		text := strings.TrimSpace(line)
		for _, m := range lockRE.FindAllStringSubmatch(line, -1) {
			s.locks[m[1]] = true
		}
		if m := pragmaRE.FindStringSubmatch(line); m != nil {
			if err := s.add(placed{file, i + 1, m[1], m[2]}, open, out); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			dataflow = dataflow || m[1] == "dataflow"
			continue
		}
		code, _, _ := strings.Cut(quotedRE.ReplaceAllString(line, `""`), "//")
		if otherPragmaRE.MatchString(code) {
			return nil, fmt.Errorf("%s:%d: expected #pragma HLS NAME, found %q", file, i+1, text)
		}
		if strings.HasPrefix(line, "}") {
			dataflow = false // end of the function
		}
		if text == "SLUICE_REGION;" {
			if !dataflow {
				return nil, fmt.Errorf("%s:%d: stages without a pragma HLS dataflow above, in the same function", file, i+1)
			}
			s.regions++
		}
		if text == "" || strings.HasPrefix(text, "//") {
			continue
		}
		if jumpRE.MatchString(code) || inlineForRE.MatchString(code) {
			return nil, fmt.Errorf("%s:%d: expected every loop to be a for or while that begins its line, with its bound and pragmas behind it: %q", file, i+1, text)
		}
		open = nil
		if m := labelRE.FindStringSubmatch(line); m != nil {
			label = m[1]
			continue
		}
		if loopRE.MatchString(line) {
			open = &sourceLoop{File: file, Line: i + 1, Label: label, Dependence: map[string]bool{}}
			open.End = bodyEnd(lines, i)
			s.loops[file][i+1] = open
		}
		label = ""
	}
	return out, nil
}

// add records a pragma, and writes the compiler's equivalent to out. The argument open is the loop whose body begins
// with the pragma.
func (s *source) add(p placed, open *sourceLoop, out []string) error {
	if err := known(p.kind, p.text); err != nil {
		return err
	}
	s.pragmas = append(s.pragmas, p)
	for _, g := range constantRE.FindAllStringSubmatch(p.text, -1) {
		s.constants = append(s.constants, constant{p.file, p.line, g[1]})
	}
	lines := s.text[p.file]
	switch p.kind {
	case "array_partition":
		name := setting(p.text, "variable")
		if strings.Contains(p.text, "complete") && setting(p.text, "dim") == "0" {
			s.registers[name] = true
		} else if dim, err := strconv.Atoi(setting(p.text, "dim")); err == nil && strings.Contains(p.text, "complete") {
			if s.split[name] == nil {
				s.split[name] = map[int]bool{}
			}
			s.split[name][dim] = true
		}
	case "interface":
		if setting(p.text, "mode") == "m_axi" {
			s.dram[setting(p.text, "port")] = setting(p.text, "bundle")
		}
	case "inline":
		j := p.line - 2
		for j >= 0 && !inlineRE.MatchString(lines[j]) {
			j--
		}
		if j < 0 {
			return fmt.Errorf("no inline function above")
		}
		out[j] = "__attribute__((always_inline)) " + lines[j]
	case "pipeline", "loop_tripcount", "unroll", "dependence":
		if open == nil {
			return fmt.Errorf("%s is not at the head of a loop", p.kind)
		}
		if err := open.pragma(p.kind, p.text); err != nil {
			return err
		}
		if p.kind == "loop_tripcount" {
			open.TripsLine = p.line
		}
		if p.kind == "unroll" {
			at := open.Line - 1
			out[at] = loopRE.ReplaceAllString(lines[at], `${1}_Pragma("clang loop unroll(full)") ${2}`)
		}
	}
	return nil
}

func (l *sourceLoop) pragma(kind, text string) error {
	switch kind {
	case "pipeline":
		ii, err := strconv.Atoi(setting(text, "II"))
		if err != nil || ii < 1 {
			return fmt.Errorf("pipeline without an II of at least 1: %q", text)
		}
		l.II = ii
	case "loop_tripcount":
		if l.Trips = setting(text, "max"); l.Trips == "" {
			return fmt.Errorf("loop_tripcount without max: %q", text)
		}
	case "unroll":
		l.Unroll = true
	case "dependence":
		if setting(text, "type") != "inter" {
			return fmt.Errorf("dependence of a kind that hlscheck does not hold an II to: expected type=inter, found %q", text)
		}
		v := setting(text, "variable")
		if v == "" || !bytes.Contains([]byte(text), []byte("false")) {
			return fmt.Errorf("dependence that frees no variable: %q", text)
		}
		l.Dependence[v] = true
	}
	return nil
}

func (l *sourceLoop) String() string {
	name := fmt.Sprintf("%s:%d", l.File, l.Line)
	if l.Label != "" {
		name += " (" + l.Label + ")"
	}
	return name
}

// bodyEnd returns the line number of the closing brace of the statement at lines[i], counted from 1.
func bodyEnd(lines []string, i int) int {
	depth, opened := 0, false
	for j := i; j < len(lines); j++ {
		code, _, _ := strings.Cut(lines[j], "//")
		for _, c := range code {
			switch c {
			case '{':
				depth++
				opened = true
			case '}':
				depth--
			}
		}
		if opened && depth <= 0 {
			return j + 1
		}
	}
	return len(lines)
}
