// Scenarios as text: submitted tasks, actions of the policy, and the ending of each request. A changed schedule is a changed
// line; -rewrite writes the files again.

package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, scenario)
	})
}

// scenario serves the tasks of the input, one per line: the time, then exits= with the exit of each sample, and if they
// are not the defaults deadline=, theta= (one per exit) and cancel=. A segment takes fixed + each * B ns. The command's
// arguments:
//
//	segments, fixed, each  the latency table, of batches up to 8
//	policy                 a name of sched, or joiner or dropper
//	deadline               after the arrival; default 1000
//	actual                 the device's time instead of fixed, by the measured clock
//	fail, hang, unresettable  numbers of the device's runs and resets that fail or hang, or all
//	reset, resets          the time of a reset, and the number of tries
//	watchdog               (times, least) of the table, or (fixed)
//	queue                  tasks are refused if this many requests wait
func scenario(t *testing.T, d *datadriven.TestData) string {
	number := func(key string, value int64) int64 {
		d.MaybeScanArgs(t, key, &value)
		return value
	}
	listed := func(key string) func(int) bool {
		a, ok := d.Arg(key)
		return func(n int) bool { return ok && (a.Vals[0] == "all" || slices.Contains(a.Vals, strconv.Itoa(n))) }
	}
	segments, each := int(number("segments", 2)), number("each", 1)
	tab := table(t, enginetest.Linear(segments, 8, number("fixed", 10), each))
	var name string
	d.ScanArgs(t, "policy", &name)
	p := map[string]sched.Policy{"joiner": joiner{}, "dropper": dropper{}}[name]
	if p == nil {
		p = policy(t, name)
	}
	var exits []int
	var tasks []sched.Task
	src := &load.Open{Cancel: map[int]int64{}, Task: func(i int, _ int64) sched.Task { return tasks[i] }}
	for line := range strings.Lines(d.Input) {
		task := sched.Task{Network: enginetest.Network, Theta: 0.8}
		at, deadline := int64(0), number("deadline", 1000)
		for i, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			if i == 0 {
				at, key = whole(d, field), ""
			}
			switch key {
			case "exits":
				for e := range strings.SplitSeq(value, ",") {
					exits, task.Samples = append(exits, int(whole(d, e))), task.Samples+1
				}
			case "deadline":
				deadline = whole(d, value)
			case "theta":
				for v := range strings.SplitSeq(value, ",") {
					f, err := strconv.ParseFloat(v, 32)
					if err != nil {
						d.Fatalf(t, "%s: %v", line, err)
					}
					task.Thetas = append(task.Thetas, float32(f))
				}
			case "cancel":
				src.Cancel[len(tasks)] = whole(d, value)
			}
		}
		task.Deadline = at + deadline
		tasks, src.Times = append(tasks, task), append(src.Times, at)
	}
	var ended []string
	cfg := config(tab, p, nil, 0, func(i int) int { return exits[i] })
	cfg.Source = &spy{Source: src, ended: &ended}
	device := &enginetest.Fake{T: tab}
	if actual := number("actual", 0); actual > 0 {
		cfg.Clock, device.T = engine.Measured, table(t, enginetest.Linear(segments, 8, actual, each))
	}
	cfg.Devices = adapt(&enginetest.Faulty{Blocking: device, Fail: listed("fail"), Hang: listed("hang"), FailReset: listed("unresettable")})
	cfg.ResetCost, cfg.Resets = number("reset", 0), int(number("resets", 0))
	if a, ok := d.Arg("watchdog"); ok && len(a.Vals) == 2 {
		cfg.Watchdog = engine.Watchdog{Times: whole(d, a.Vals[0]), Least: whole(d, a.Vals[1])}
	} else if ok {
		cfg.Watchdog.Fixed = whole(d, a.Vals[0])
	}
	if n := number("queue", 0); n > 0 {
		cfg.Admission = func(_ int64, s *sched.State, _ *sched.Task) bool { return s.Queue.Len() < int(n) }
	}
	res := run(t, cfg)
	if device.Used() != 0 {
		d.Fatalf(t, "%d slots are still taken after the run", device.Used())
	}
	return inWords(res, ended)
}

func whole(d *datadriven.TestData, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", d.Pos, err))
	}
	return n
}

// inWords describes a run: actions, segments and resets in order, then the endings of requests and tasks.
func inWords(res *engine.Result, tasks []string) string {
	type line struct {
		at   int64
		text string
	}
	var all []line
	steps := strings.Split(strings.TrimSpace(kinds(res.Steps)), "\n")
	for i := range res.Steps {
		all = append(all, line{res.Steps[i].At, steps[i]})
	}
	for _, s := range res.Spans {
		what, how := fmt.Sprintf("segment %d %v", s.Segment, s.Requests), ""
		if s.Segment < 0 {
			what = "reset"
		}
		if s.Failed {
			how = ", failed"
		}
		all = append(all, line{s.Start, fmt.Sprintf("%d to %d %s%s", s.Start, s.End, what, how)})
	}
	slices.SortStableFunc(all, func(a, b line) int { return int(a.at - b.at) })
	var b strings.Builder
	for _, l := range all {
		if l.text != "" {
			fmt.Fprintln(&b, l.text)
		}
	}
	for i := range res.Records {
		r := &res.Records[i]
		fmt.Fprintf(&b, "request %d: %s at %d", r.ID, r.Ending, r.Ended)
		if r.Exit >= 0 {
			fmt.Fprintf(&b, ", exit %d", r.Exit)
		}
		if r.Retried {
			b.WriteString(", retried")
		}
		if r.Why != "" {
			fmt.Fprintf(&b, ": %s", r.Why)
		}
		b.WriteByte('\n')
	}
	if len(tasks) < len(res.Records) {
		fmt.Fprintf(&b, "tasks: %s\n", strings.Join(tasks, ", "))
	}
	s := res.Summary()
	fmt.Fprintf(&b, "%d violations, %d preemptions, %d merges, %d faults, %d hangs, %d resets, %d calls of the policy, busy for %d of %d, p99 %d\n",
		s.Violations, s.Preemptions, s.Merges, s.Faults, s.Hangs, s.Resets, s.Calls, res.Busy[0], s.End, s.Latency.P99)
	return b.String()
}
