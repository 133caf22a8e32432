package estimate

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// maxReport limits the size of a synthesis report.
const maxReport = 16 << 20

// ErrReport is wrapped by errors about a file that is not a synthesis report.
var ErrReport = errors.New("no csynth.xml")

// Report contains a report's facts about its synthesis run.
type Report struct {
	File      string  `json:"file"`
	Top       string  `json:"top"`
	Part      string  `json:"part,omitempty"`
	Target    float64 `json:"target_ns"`    // requested clock period; 0: not stated
	Estimated float64 `json:"estimated_ns"` // estimated clock period of the slowest module; 0: not stated
}

// tolerance is the largest difference in ns between two clock periods that count as equal. Reports and the flow round
// periods to 0.001 ns.
const tolerance = 0.01

// Doubts returns the differences between a report and the design, in the clock and the FPGA part. The board's FPGA part
// is `part` ("": unknown). If there are differences, the report's II and depths are not the design's.
func (r *Report) Doubts(d configs.Design, part string) (out []string) {
	said := func(format string, args ...any) { out = append(out, r.File+": "+fmt.Sprintf(format, args...)) }
	period := 1000 / d.ClockMHz
	switch {
	case r.Target == 0:
		said("the report says no TargetClockPeriod; %s has %.3f ns (%g MHz)", d.Name, period, d.ClockMHz)
	case math.Abs(r.Target-period) > tolerance:
		said("synthesised for a clock of %.3f ns, %s has %.3f ns (%g MHz): its II and depths are of another schedule", r.Target, d.Name, period, d.ClockMHz)
	}
	if r.Estimated > period+tolerance {
		said("misses the clock: %.3f ns estimated, %s has %.3f ns (%g MHz)", r.Estimated, d.Name, period, d.ClockMHz)
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	if part != "" && r.Part != "" && plain(r.Part) != plain(part) {
		said("synthesised for the part %s, the board %s has %s", r.Part, d.Board, part)
	}
	return out
}

// reported is a loop of a report; the line numbers are for messages.
type reported struct {
	module              int // index in the order of the file; 0: the report's own function
	label, name         string
	ii, depth           string
	lineOfII, lineDepth int
}

// Read reads the loops from a synthesis report: csynth.xml, which contains the reports of all modules, or
// FUNCTION_csynth.xml. For each loop of the model, Read copies II and depth from the report. If several modules or
// reports contain a loop, the largest II counts (then the largest depth). Read returns the number of loops found, >= 1.
func (m *Model) Read(file string, r io.Reader) (int, error) {
	c := &csynth{
		dec: xml.NewDecoder(io.LimitReader(r, maxReport+1)), modules: []string{""}, found: map[string]*reported{}, of: Report{File: file},
	}
	for {
		t, err := c.dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.token(t)
		}
		if err != nil {
			line, _ := c.dec.InputPos()
			return 0, c.at(line, err.Error())
		}
	}
	if c.modules[0] == "" {
		return 0, fmt.Errorf("%w: %s: expected profile/UserAssignments/TopModelName", ErrReport, file)
	}
	taken, err := m.taken(c)
	if err != nil {
		return 0, err
	}
	if len(taken) == 0 {
		return 0, fmt.Errorf("%w: %s: of %s, with %d modules and %d loops, none of them a pipelined loop of the kernel; expected csynth.xml or a stage's FUNCTION_csynth.xml",
			ErrReport, file, c.modules[0], len(c.modules)-1, len(c.found))
	}
	maps.Copy(m.Loops, taken)
	c.of.Top = c.modules[0]
	m.Reports = append(m.Reports, c.of)
	return len(taken), nil
}

// csynth is the state of reading a report.
type csynth struct {
	dec     *xml.Decoder
	path    []string // names of the open elements
	value   string
	modules []string // module names; the first is the report's own function
	found   map[string]*reported
	of      Report
}

func (c *csynth) at(line int, what string) error {
	return fmt.Errorf("%w: %s:%d: %s", ErrReport, c.of.File, line, what)
}

func (c *csynth) token(t xml.Token) error {
	if c.dec.InputOffset() > maxReport {
		return fmt.Errorf("longer than %d bytes", maxReport)
	}
	switch t := t.(type) {
	case xml.StartElement:
		if c.path = append(c.path, t.Name.Local); len(c.path) > 64 {
			return errors.New("elements deeper than 64")
		}
		if len(c.path) == 1 && c.path[0] != "profile" {
			return errors.New("expected an element profile, found " + c.path[0])
		}
		if strings.Join(c.path, "/") == modulePath {
			c.modules = append(c.modules, "")
		}
		c.value = ""
	case xml.CharData:
		c.value += string(t)
	case xml.EndElement:
		where, text := strings.Join(c.path, "/"), strings.TrimSpace(c.value)
		c.path, c.value = c.path[:len(c.path)-1], ""
		return c.element(where, text)
	}
	return nil
}

// element reads an element's text.
func (c *csynth) element(where, text string) (err error) {
	switch where {
	case "profile/UserAssignments/TopModelName":
		c.modules[0] = text
	case "profile/UserAssignments/Part":
		c.of.Part = text
	case "profile/UserAssignments/TargetClockPeriod":
		if c.of.Target, err = nanoseconds(text); err != nil {
			return fmt.Errorf("TargetClockPeriod: %w", err)
		}
	case "profile/" + clockPath, modulePath + "/" + clockPath:
		ns, err := nanoseconds(text)
		if err != nil {
			return fmt.Errorf("EstimatedClockPeriod: %w", err)
		}
		c.of.Estimated = max(c.of.Estimated, ns)
	case modulePath + "/Name":
		c.modules[len(c.modules)-1] = text
	default:
		module := 0
		rest, ok := strings.CutPrefix(where, "profile/"+loopsPath)
		if !ok {
			module = len(c.modules) - 1
			rest, ok = strings.CutPrefix(where, modulePath+"/"+loopsPath)
		}
		if loop, leaf, inLoop := cutLast(rest); ok && inLoop {
			c.loop(module, loop, leaf, text)
		}
	}
	return nil
}

func (c *csynth) loop(module int, loop, leaf, text string) {
	key := fmt.Sprintf("%d/%s", module, loop)
	l := c.found[key]
	if l == nil {
		_, label, nested := cutLast(loop)
		if !nested {
			label = loop
		}
		l = &reported{module: module, label: label}
		c.found[key] = l
	}
	line, _ := c.dec.InputPos()
	switch leaf {
	case "PipelineII":
		l.ii, l.lineOfII = text, line
	case "PipelineDepth":
		l.depth, l.lineDepth = text, line
	case "Name":
		l.name = text
	}
}

// taken returns the loops of a report that are also in the model. All other loops may contain `undef`.
func (m *Model) taken(c *csynth) (map[string]Loop, error) {
	taken := map[string]Loop{}
	for _, key := range slices.Sorted(maps.Keys(c.found)) {
		l := c.found[key]
		if l.lineOfII == 0 || l.lineDepth == 0 {
			continue
		}
		if l.name != "" {
			l.label = l.name
		}
		for name := range m.Loops {
			if !l.is(name, c.modules[l.module]) {
				continue
			}
			ii, ok := number(l.ii)
			if !ok {
				return nil, c.at(l.lineOfII, fmt.Sprintf("PipelineII of %s: expected 1 or more, found %q", name, l.ii))
			}
			depth, ok := number(l.depth)
			if !ok {
				return nil, c.at(l.lineDepth, fmt.Sprintf("PipelineDepth of %s: expected 1 or more, found %q", name, l.depth))
			}
			took := Loop{II: ii, Depth: depth, Reported: true}
			for _, before := range []Loop{taken[name], m.Loops[name]} {
				if before.Reported && (before.II > took.II || before.II == took.II && before.Depth > took.Depth) {
					took = before
				}
			}
			taken[name] = took
		}
	}
	return taken, nil
}

const (
	modulePath = "profile/ModuleInformation/Module"
	loopsPath  = "PerformanceEstimates/SummaryOfLoopLatency/"
	clockPath  = "PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod"
)

func cutLast(path string) (before, after string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// nanoseconds parses a clock period.
func nanoseconds(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= 1e6) {
		return 0, fmt.Errorf("expected nanoseconds above 0, found %q", text)
	}
	return v, nil
}

func number(text string) (int, bool) {
	v, err := strconv.Atoi(text)
	return v, err == nil && v >= 1 && v <= 1<<20
}

// is reports whether l is the model's loop `name`. In reports, a pipelined loop is a module of its own, and the loops
// of an inlined function are listed under its caller's name.
func (l *reported) is(name, module string) bool {
	function, own, _ := strings.Cut(name, ".")
	if own != l.label {
		return false
	}
	return slices.ContainsFunc(callers(function), func(f string) bool {
		return module == f || strings.HasPrefix(module, f+"_Pipeline_")
	})
}

// callers returns the names under which the reports list a function's loops.
func callers(function string) []string {
	switch function {
	case "load_run":
		return []string{function, "load_rows"}
	case "form_pass", "form_taps":
		return []string{function, "form_rows"}
	case "tap_lanes":
		return []string{function, "multiply"}
	case "keep_run":
		return []string{function, "keep_out"}
	}
	return []string{function}
}
