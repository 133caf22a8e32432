package engine_test

import (
	"testing"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// admitted runs tasks that all arrive at once, and returns each one's ending, in the order of the list.
func admitted(t *testing.T, cfg *engine.Config, tasks []sched.Task) []engine.Ending {
	t.Helper()
	return admittedAt(t, cfg, make([]int64, len(tasks)), tasks)
}

// admittedAt is admitted for tasks that arrive at these times.
func admittedAt(t *testing.T, cfg *engine.Config, times []int64, tasks []sched.Task) []engine.Ending {
	t.Helper()
	cfg.ByTable = true
	cfg.Inputs = engine.WordInputs(func(*sched.Request) ([]int16, error) { return []int16{3, 1}, nil })
	cfg.Source = &load.Open{Times: times, Task: func(i int, _ int64) sched.Task {
		in := tasks[i]
		in.ID, in.Theta = uint64(i+1), 0.5
		return in
	}}
	res, err := engine.Run(t.Context(), *cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Fatal(err)
	}
	ends := make([]engine.Ending, len(tasks))
	for _, r := range res.Records {
		ends[r.Task-1] = max(ends[r.Task-1], r.Ending)
	}
	return ends
}

// of returns n copies of a task.
func of(n int, in sched.Task) []sched.Task {
	list := make([]sched.Task, n)
	for i := range list {
		list[i] = in
	}
	return list
}

// A task that arrives after many with later deadlines is accepted if the policy runs it first.
func TestAdmissionLetsTheEarliestDeadlineGoFirst(t *testing.T) {
	tab := goodputTable(t)
	cfg := engine.Config{
		Devices:  adapt(&enginetest.Fake{T: tab}),
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   &sched.EDF{},
	}
	tasks := of(50, sched.Task{Network: enginetest.Network, Deadline: 5_000_000_000})
	tasks = append(tasks, of(50, sched.Task{Network: enginetest.Network, Deadline: 4_000_000_000})...)
	tasks = append(tasks, sched.Task{Network: enginetest.Network, Deadline: 130_000_000}) // it waits for one launch, and runs in a batch
	ends := admitted(t, &cfg, tasks)
	for i, how := range ends {
		if how != engine.OnTime {
			t.Errorf("task %d of %d: %s", i+1, len(tasks), how)
		}
	}
}

// A task of higher priority is accepted after as many of lower priority as its deadline allows.
func TestAdmissionKnowsPriorities(t *testing.T) {
	tab := goodputTable(t)
	cfg := engine.Config{
		Devices:  adapt(&enginetest.Fake{T: tab}),
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   &sched.Dispatch{},
	}
	tasks := of(70, sched.Task{Network: enginetest.Network, Deadline: 570_000_000})
	tasks = append(tasks, sched.Task{Network: enginetest.Network, Deadline: 570_000_000, Priority: 1})
	ends := admitted(t, &cfg, tasks)
	if ends[69] != engine.Refused || ends[70] != engine.OnTime {
		t.Errorf("the last of lower priority: %s, the one of higher priority: %s, expected refused and on time", ends[69], ends[70])
	}
}

// If the policy preempts, a task waits for one segment of a launch of a lower level, for all of a launch of its own
// or a higher level, and not at all for a halted launch of a lower level. A segment takes 5 ms alone, all four 20 ms.
func TestAdmissionKnowsWhoIsPreempted(t *testing.T) {
	const ms = 1_000_000
	tab := goodputTable(t)
	one := []int64{0, 1 * ms}         // a launch is before its first exit, at 5 ms
	two := []int64{0, 1 * ms, 6 * ms} // a launch of level 1 runs its first segment until 10 ms; a launch of level 0 is halted
	for _, c := range []struct {
		name   string
		policy sched.Policy
		times  []int64
		levels []int
		ready  int64 // expected time of the last one's result: it is accepted with this deadline, and refused with an earlier one
	}{
		{"a lower level, which is halted at 5 ms", sched.Fluid{}, one, []int{0, 1}, 25 * ms},
		{"its own level", sched.Fluid{}, one, []int{0, 0}, 40 * ms},
		{"a higher level", sched.Fluid{}, one, []int{1, 0}, 40 * ms},
		{"a lower level, under a policy that does not preempt", &sched.EDF{}, one, []int{0, 1}, 40 * ms},
		{"a lower level that is halted", sched.Fluid{}, two, []int{0, 1, 1}, 30 * ms},
		{"its own level that is halted", sched.Fluid{}, two, []int{0, 1, 0}, 45 * ms},
	} {
		for deadline, refused := range map[int64]bool{c.ready: false, c.ready - 1: true} {
			cfg := engine.Config{
				Devices:  adapt(&enginetest.Fake{T: tab}),
				Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
				Policy:   c.policy,
			}
			tasks := of(len(c.times), sched.Task{Network: enginetest.Network})
			for i, level := range c.levels {
				tasks[i].Priority = level
			}
			last := &tasks[len(tasks)-1]
			last.Deadline = deadline
			if got := admittedAt(t, &cfg, c.times, tasks)[len(tasks)-1]; (got == engine.Refused) != refused {
				t.Errorf("behind %s, with a deadline at %d ns: %s, its result is expected at %d ns", c.name, deadline, got, c.ready)
			}
		}
	}
}

// Requests for a network of other devices do not delay a task.
func TestAdmissionLooksAtItsOwnDevices(t *testing.T) {
	tab := goodputTable(t)
	cfg := engine.Config{
		Devices: adapt(&enginetest.Fake{T: tab}, &enginetest.Fake{T: tab}),
		Networks: []engine.Network{
			{Name: enginetest.Network, Tables: []*sched.Table{tab, nil}},
			{Name: "other", Tables: []*sched.Table{nil, tab}},
		},
		Policy: &sched.Dispatch{},
	}
	tasks := of(40, sched.Task{Network: enginetest.Network, Deadline: 415_000_000}) // 400 ms in full batches
	tasks = append(tasks, sched.Task{Network: "other", Deadline: 415_000_000})
	if how := admitted(t, &cfg, tasks)[40]; how != engine.OnTime {
		t.Errorf("the task of a device that is idle: %s", how)
	}
	// An idle device does not help a network of another device.
	ends := admitted(t, &cfg, []sched.Task{{Network: "other", Deadline: 500_000_000}, {Network: "other", Deadline: 25_000_000}})
	if ends[0] != engine.OnTime || ends[1] != engine.Refused {
		t.Errorf("one that takes 20 ms: %s, behind it one with a deadline of 25 ms: %s, expected on time and refused", ends[0], ends[1])
	}
}

// All samples of a task count: a hundred take longer than one.
func TestAdmissionCountsSamples(t *testing.T) {
	tab := goodputTable(t)
	cfg := engine.Config{
		Devices:  adapt(&enginetest.Fake{T: tab}),
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   &sched.EDF{},
	}
	ends := admitted(t, &cfg, []sched.Task{{Network: enginetest.Network, Samples: 100, Deadline: 300_000_000}, {Network: enginetest.Network, Samples: 16, Deadline: 300_000_000}})
	if ends[0] != engine.Refused || ends[1] != engine.OnTime {
		t.Errorf("100 samples %s, 16 samples %s, expected refused and on time: a batch of 8 takes 80 ms, the deadline is 300 ms", ends[0], ends[1])
	}
}

// A policy that has launched single requests so far, as no more waited, is not expected to continue so.
func TestAdmissionOfTheFirstLargeRequest(t *testing.T) {
	tab := goodputTable(t)
	cfg := engine.Config{
		Devices:  adapt(&enginetest.Fake{T: tab}),
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   &sched.EDF{},
	}
	ends := admittedAt(t, &cfg, []int64{0, 100_000_000}, []sched.Task{{Network: enginetest.Network}, {Network: enginetest.Network, Samples: 16, Deadline: 270_000_000}})
	if ends[1] != engine.OnTime {
		t.Errorf("16 samples, of which 8 take 80 ms, within 170 ms: %s", ends[1])
	}
}

// Under a policy with one request per launch, the first of a queue is not dropped because a full batch would be too
// late.
func TestAdmissionKnowsThePolicysBatch(t *testing.T) {
	tab := goodputTable(t)
	cfg := engine.Config{
		Devices:  adapt(&enginetest.Fake{T: tab}),
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   sched.Serial{},
	}
	tasks := []sched.Task{{Network: enginetest.Network, Deadline: 41_000_000}, {Network: enginetest.Network, Deadline: 41_000_000}}
	tasks = append(tasks, of(6, sched.Task{Network: enginetest.Network, Deadline: 400_000_000})...)
	for i, how := range admitted(t, &cfg, tasks) {
		if how != engine.OnTime {
			t.Errorf("task %d: %s", i+1, how)
		}
	}
}
