package sched_test

import (
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// upTo4 is a table with equal times for batches of one to four.
func upTo4(t *testing.T, network string) *sched.Table {
	var all []bundle.LatencyEntry
	for b := range 4 {
		all = append(all, bundle.LatencyEntry{Network: network, Batch: b + 1, P50: 1000})
	}
	tab, err := sched.NewTable(all, network)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// The launches of a SEEB period for one request with a deadline, beside others without: the tightest deadline of the
// group and the slack determine the threshold, and the units are those of the group.
func TestSEEBDecides(t *testing.T) {
	tab := upTo4(t, "n")
	const ms = 1_000_000
	for _, c := range []struct {
		name            string
		deadline, slack sched.Time
		theta           float32
	}{
		// A batch of four takes 10 ms + 40 ms times theta; the cost prefers the highest theta that is in time.
		{"in time at any threshold", 200 * ms, 0, 0.9},
		{"the tightest of the group", 138 * ms, 0, 0.5},
		{"in time but for the slack", 200 * ms, 60 * ms, 0.5},
		{"never in time: the lowest", 105 * ms, 0, 0.1},
	} {
		s := &sched.SEEB{
			Thetas: []float32{0.1, 0.5, 0.9}, Lambda1: 1, Lambda2: 10, Slack: c.slack, FixedBatch: 4,
			Models: map[string]sched.LatencyModel{"n": {Alpha: 10 * ms, Beta2: 40 * ms}},
		}
		st := &sched.State{Devices: make([]sched.DeviceView, 1)}
		d := &st.Devices[0]
		d.MaxBatch, d.Places, d.Slots, d.Units, d.Priorities = 4, 8, 64, 10, 1
		d.Hosted = []sched.Hosted{{Network: "n", Table: tab}}
		for i := range 4 {
			r := &sched.Request{ID: device.RequestID(i + 1), Network: "n", Arrived: 50 * ms, Deadline: 900 * ms}
			if i == 2 {
				r.Deadline = c.deadline
			}
			st.Queue.Push(r)
		}
		if got := s.Decide(60*ms, st, &sched.Event{}, nil); len(got) != 1 || got[0].Kind != sched.Wait || got[0].Until != 100*ms {
			t.Errorf("%s: before the period's end: %+v", c.name, got)
		}
		var launches int
		for _, a := range s.Decide(100*ms, st, &sched.Event{}, nil) {
			switch a.Kind {
			case sched.SetTheta:
				if a.Thetas[0] != c.theta {
					t.Errorf("%s: threshold %v, expected %v", c.name, a.Thetas[0], c.theta)
				}
			case sched.Launch:
				launches++
				if len(a.Requests) != 4 || a.Units.Count() != 10 || !a.Exclusive {
					t.Errorf("%s: %d requests on units %s, exclusive: %v", c.name, len(a.Requests), a.Units, a.Exclusive)
				}
			}
		}
		if launches != 1 {
			t.Errorf("%s: %d launches", c.name, launches)
		}
	}
}

// Taken literally, a group gets one range of units, starting at the first free one; while a batch runs on all units,
// no group gets any.
func TestSEEBLiteralUnits(t *testing.T) {
	tab := upTo4(t, "a")
	const ms = 1_000_000
	model := sched.LatencyModel{Alpha: ms}
	s := &sched.SEEB{Literal: true, Thetas: []float32{0.5}, Models: map[string]sched.LatencyModel{"a": model, "b": model}}
	st := &sched.State{Devices: make([]sched.DeviceView, 1)}
	d := &st.Devices[0]
	d.MaxBatch, d.Places, d.Slots, d.Units, d.Priorities = 1, 8, 64, 10, 1
	d.Hosted = []sched.Hosted{{Network: "a", Table: tab}, {Network: "b", Table: tab}}
	push := func(id int, network string, at sched.Time) {
		st.Queue.Push(&sched.Request{ID: device.RequestID(id), Network: network, Arrived: at, Deadline: 900 * ms})
	}
	units := func(now sched.Time) (all []device.Units) {
		for _, a := range s.Decide(now, st, &sched.Event{}, nil) {
			if a.Kind == sched.Launch {
				all = append(all, a.Units)
				var rs []sched.Request
				for _, id := range a.Requests {
					r, _ := st.Queue.Remove(id)
					rs = append(rs, r)
				}
				d.Launches = append(d.Launches, &sched.LaunchView{Network: a.Network, Units: a.Units, Requests: rs})
			}
		}
		return all
	}
	push(1, "a", ms)
	push(2, "b", ms)
	push(3, "b", ms)
	push(4, "b", ms)
	push(5, "b", ms)
	got := units(100 * ms)
	if len(got) != 2 || got[0] != device.UnitRange(0, 2) || got[1] != device.UnitRange(2, 8) {
		t.Fatalf("units %s, expected 0-1 and 2-9", got)
	}
	push(6, "a", 150*ms)
	if got := units(200 * ms); len(got) != 0 {
		t.Errorf("all units are taken, and units %s were given out", got)
	}
	d.Launches = d.Launches[1:] // the first has ended: 0 and 1 are free
	if got := units(250 * ms); len(got) != 0 {
		t.Errorf("within a period units %s were given out", got)
	}
	if got := units(300 * ms); len(got) != 1 || got[0] != device.UnitRange(0, 2) {
		t.Errorf("units %s, expected 0-1", got)
	}
}

// With free units on both sides of a running group, the range ends at that group.
func TestSEEBLiteralRange(t *testing.T) {
	const ms = 1_000_000
	model := sched.LatencyModel{Alpha: ms}
	models := map[string]sched.LatencyModel{"a": model, "b": model, "c": model}
	units := func(literal bool) device.Units {
		s := &sched.SEEB{Literal: literal, Thetas: []float32{0.5}, Models: models}
		st := &sched.State{Devices: make([]sched.DeviceView, 1)}
		d := &st.Devices[0]
		d.MaxBatch, d.Places, d.Slots, d.Units, d.Priorities = 1, 8, 64, 12, 1
		for i, n := range []string{"a", "b", "c"} {
			d.Hosted = append(d.Hosted, sched.Hosted{Network: n, Table: upTo4(t, n)})
			st.Queue.Push(&sched.Request{ID: device.RequestID(i + 1), Network: n, Arrived: ms, Deadline: 900 * ms})
		}
		for _, a := range s.Decide(100*ms, st, &sched.Event{}, nil) {
			if a.Kind == sched.Launch {
				r, _ := st.Queue.Remove(a.Requests[0])
				d.Launches = append(d.Launches, &sched.LaunchView{Network: a.Network, Units: a.Units, Requests: []sched.Request{r}})
			}
		}
		if len(d.Launches) != 3 || d.Launches[1].Units != device.UnitRange(4, 4) {
			t.Fatalf("three groups of a third of the units are expected: %d launches", len(d.Launches))
		}
		d.Launches = d.Launches[1:2] // 4 to 7; 0 to 3 and 8 to 11 are free
		s.Decide(150*ms, st, &sched.Event{}, nil)
		st.Queue.Push(&sched.Request{ID: 4, Network: "a", Arrived: 160 * ms, Deadline: 900 * ms})
		for _, a := range s.Decide(200*ms, st, &sched.Event{}, nil) {
			if a.Kind == sched.Launch {
				return a.Units
			}
		}
		return device.Units{}
	}
	if got := units(true); got != device.UnitRange(0, 4) {
		t.Errorf("literally: units %s, expected 0-3", got)
	}
	if got := units(false); got.Count() != 8 {
		t.Errorf("seeb: units %s, expected all that are free", got)
	}
}
