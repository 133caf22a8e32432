package estimate

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/configs"
)

// report has the form of UG1399's csynth.xml, reduced to what is read.
const report = `<profile>
<UserAssignments><TopModelName>multiply_Pipeline_rows</TopModelName></UserAssignments>
<PerformanceEstimates><SummaryOfLoopLatency>
<rows><Name>rows</Name><Slack>4.8</Slack><TripCount><range><min>1</min><max>32</max></range></TripCount>
<PipelineII>2</PipelineII><PipelineDepth>17</PipelineDepth></rows>
<VITIS_LOOP_1><Name>VITIS_LOOP_1</Name><PipelineII>1</PipelineII><PipelineDepth>3</PipelineDepth></VITIS_LOOP_1>
</SummaryOfLoopLatency></PerformanceEstimates></profile>`

func model(t testing.TB) *Model {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRead(t *testing.T) {
	m := model(t)
	n, err := m.Read("a.xml", strings.NewReader(report))
	if err != nil || n != 1 {
		t.Fatalf("%d loops, %v", n, err)
	}
	if got := m.Loops["multiply.rows"]; got != (Loop{II: 2, Depth: 17, Reported: true}) {
		t.Errorf("multiply.rows: %+v", got)
	}
	if got := m.Loops["multiply.hold"]; got.Reported || got.II != 1 {
		t.Errorf("multiply.hold: %+v", got)
	}
}

// Clock and part of a report are compared with the configuration's; an invalid clock is rejected with its line.
func TestReportsClock(t *testing.T) {
	of := func(part, target, top, module string) string {
		return `<profile>
<UserAssignments>` + part + target + `<TopModelName>multiply_Pipeline_rows</TopModelName></UserAssignments>
<PerformanceEstimates><SummaryOfTimingAnalysis><unit>ns</unit>` + top + `</SummaryOfTimingAnalysis><SummaryOfLoopLatency>
<rows><Name>rows</Name><PipelineII>1</PipelineII><PipelineDepth>9</PipelineDepth></rows></SummaryOfLoopLatency></PerformanceEstimates>
<ModuleInformation><Module><Name>m</Name><PerformanceEstimates><SummaryOfTimingAnalysis>` + module + `</SummaryOfTimingAnalysis></PerformanceEstimates></Module></ModuleInformation>
</profile>`
	}
	period := func(ns string) string { return "<TargetClockPeriod>" + ns + "</TargetClockPeriod>" }
	reached := func(ns string) string { return "<EstimatedClockPeriod>" + ns + "</EstimatedClockPeriod>" }
	part := func(name string) string { return "<Part>" + name + "</Part>" }
	for _, c := range []struct {
		name, text string
		doubts     []string // parts of the messages, in order
	}{
		{"as asked", of(part("xc7z045-ffg900-2"), period("6.67"), reached("4.867"), reached("4.2")), nil},
		{"another clock", of("", period("10.00"), reached("6.1"), ""), []string{"clock of 10.000 ns, tiny has 6.667 ns (150 MHz)"}},
		{"missed by a module", of("", period("6.667"), reached("4.8"), reached("9.9")), []string{"misses the clock: 9.900 ns estimated"}},
		{"no clock", of("", "", "", ""), []string{"no TargetClockPeriod"}},
		{"another part", of(part("xc7z020clg400-1"), period("6.667"), "", ""), []string{"the part xc7z020clg400-1, the board  has xc7z045ffg900-2"}},
	} {
		m := model(t)
		m.Design.ClockMHz = 150
		if _, err := m.Read("a.xml", strings.NewReader(c.text)); err != nil || len(m.Reports) != 1 {
			t.Fatalf("%s: %v, %+v", c.name, err, m.Reports)
		}
		got := m.Reports[0].Doubts(m.Design, "xc7z045ffg900-2")
		if len(got) != len(c.doubts) {
			t.Fatalf("%s: %q", c.name, got)
		}
		for i, want := range c.doubts {
			if !strings.Contains(got[i], want) || !strings.HasPrefix(got[i], "a.xml: ") {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
	for text, want := range map[string]string{
		of("", period("fast"), "", ""):            "a.xml:2: TargetClockPeriod: expected nanoseconds",
		of("", period("6.7"), reached("-1"), ""):  "a.xml:3: EstimatedClockPeriod: expected nanoseconds",
		of("", period("6.7"), "", reached("NaN")): "a.xml:5: EstimatedClockPeriod: expected nanoseconds",
	} {
		m := model(t)
		if _, err := m.Read("a.xml", strings.NewReader(text)); !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), want) || len(m.Reports) != 0 {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// top has the form of Vitis' csynth.xml for the whole kernel: the loops of its modules are nested in it. A loop that
// is not pipelined, or that the model does not know, may have no number.
const top = `<profile>
<UserAssignments><TopModelName>sluice_npu</TopModelName></UserAssignments>
<PerformanceEstimates><SummaryOfLoopLatency><layers><Name>layers</Name><TripCount>undef</TripCount>
<PipelineII>undef</PipelineII><PipelineDepth>undef</PipelineDepth></layers></SummaryOfLoopLatency></PerformanceEstimates>
<ModuleInformation>
<Module><Name>multiply_Pipeline_rows</Name><PerformanceEstimates><SummaryOfLoopLatency>
<rows><Name>rows</Name><PipelineII>2</PipelineII><PipelineDepth>17</PipelineDepth></rows>
</SummaryOfLoopLatency></PerformanceEstimates></Module>
<Module><Name>decode_Pipeline_rows</Name><PerformanceEstimates><SummaryOfLoopLatency>
<rows><Name>rows</Name><PipelineII>undef</PipelineII><PipelineDepth>4</PipelineDepth></rows>
</SummaryOfLoopLatency></PerformanceEstimates></Module>
<Module><Name>drain_Pipeline_steps</Name><PerformanceEstimates><SummaryOfLoopLatency>
<steps><Name>steps</Name><PipelineII>3</PipelineII><PipelineDepth>5</PipelineDepth></steps>
</SummaryOfLoopLatency></PerformanceEstimates></Module>
</ModuleInformation></profile>`

func TestReadTop(t *testing.T) {
	m := model(t)
	n, err := m.Read("csynth.xml", strings.NewReader(top))
	if err != nil || n != 2 {
		t.Fatalf("%d loops, %v", n, err)
	}
	for name, want := range map[string]Loop{
		"multiply.rows": {II: 2, Depth: 17, Reported: true}, "drain.steps": {II: 3, Depth: 5, Reported: true},
	} {
		if got := m.Loops[name]; got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := m.Loops["finish.steps"]; got.Reported {
		t.Errorf("finish.steps: %+v", got) // another module's loop with that label
	}
}

// If the tool has made a loop several times, in several modules or reports, the slowest one counts, in any order.
func TestReadTwice(t *testing.T) {
	module := func(name, ii, depth string) string {
		return "<Module><Name>" + name + "</Name><PerformanceEstimates><SummaryOfLoopLatency><steps><Name>steps</Name><PipelineII>" + ii +
			"</PipelineII><PipelineDepth>" + depth + "</PipelineDepth></steps></SummaryOfLoopLatency></PerformanceEstimates></Module>\n"
	}
	text := func(modules ...string) string {
		return "<profile><UserAssignments><TopModelName>sluice_npu</TopModelName></UserAssignments><ModuleInformation>" +
			strings.Join(modules, "") + "</ModuleInformation></profile>"
	}
	a, b, c := module("drain_Pipeline_steps", "1", "40"), module("drain_Pipeline_steps1", "3", "5"), module("drain_Pipeline_steps2", "3", "4")
	for _, reports := range [][]string{{text(a, b, c)}, {text(c, b, a)}, {text(b), text(a), text(c)}, {text(a), text(c), text(b)}} {
		m := model(t)
		for _, r := range reports {
			if _, err := m.Read("csynth.xml", strings.NewReader(r)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := m.Loops["drain.steps"], (Loop{II: 3, Depth: 5, Reported: true}); got != want {
			t.Errorf("%q: %+v, want %+v", reports, got, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "TopModelName",
		"<other></other>":     "expected an element profile",
		"<profile>":           "unexpected EOF",
		"<profile></profile>": "TopModelName",
		strings.Replace(report, "<PipelineII>2<", "<PipelineII>0<", 1):        "PipelineII of multiply.rows: expected 1 or more",
		strings.Replace(report, "<PipelineDepth>17<", "<PipelineDepth>x<", 1): "PipelineDepth of multiply.rows: expected 1 or more",
		strings.Replace(report, "<PipelineII>2<", "<PipelineII>undef<", 1):    `a.xml:5: PipelineII of multiply.rows: expected 1 or more, found "undef"`,
		strings.Replace(report, "multiply_Pipeline", "other_Pipeline", 1):     "none of them a pipelined loop of the kernel",
		strings.ReplaceAll(top, "_Pipeline_", "_"):                            "with 3 modules and 4 loops, none of them",
		strings.Repeat("<profile>", 65):                                       "deeper than 64",
	} {
		m := model(t)
		_, err := m.Read("a.xml", strings.NewReader(text))
		if !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.xml") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// Every pipelined loop of the kernel is in the model, and the model uses no other loop (Layer would panic).
func TestLoops(t *testing.T) {
	m := model(t)
	for _, name := range []string{"load_run.beats", "form_pass.row", "multiply.rows", "drain.steps", "write_out.beats"} {
		if l := m.Loops[name]; l.II != 1 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// The model adds a loop of an inlined function to the stage that contains the function. Vitis reports the loop under the
// name of that stage.
func TestCallersAreTheStages(t *testing.T) {
	text, err := os.ReadFile("estimate.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`w\.trips\("(\w+)", "(\w+)\.`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 10 {
		t.Fatalf("only %d loops", len(found))
	}
	for _, f := range found {
		if stage, function := f[1], f[2]; !slices.Contains(callers(function), stage) {
			t.Errorf("callers(%q) is %v, without %q", function, callers(function), stage)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(report)
	f.Add(top)
	m := model(f)
	f.Fuzz(func(t *testing.T, text string) {
		for name, l := range m.Loops {
			if l.II < 1 || l.Depth < 1 {
				t.Fatalf("%s: %+v", name, l)
			}
		}
		if _, err := m.Read("a.xml", strings.NewReader(text)); err != nil && !errors.Is(err, ErrReport) {
			t.Fatal(err)
		}
	})
}
