package sched_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// entries returns T[first][last][batch] = segments * (fixed + batch*each).
func entries(segments, batch int, fixed, each int64) []bundle.LatencyEntry {
	var out []bundle.LatencyEntry
	for first := range segments {
		for last := first; last < segments; last++ {
			for b := 1; b <= batch; b++ {
				out = append(out, bundle.LatencyEntry{
					Network: "n", First: first, Last: last, Batch: b, P50: int64(last-first+1) * (fixed + int64(b)*each),
				})
			}
		}
	}
	return out
}

func linear(t testing.TB, segments, batch int, fixed, each int64) *sched.Table {
	t.Helper()
	table, err := sched.NewTable(entries(segments, batch, fixed, each), "n")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func requests(from, to int, deadline int64) []sched.Request {
	var out []sched.Request
	for id := from; id <= to; id++ {
		out = append(out, sched.Request{ID: device.RequestID(id), Network: "n", Arrived: int64(id), Deadline: deadline})
	}
	return out
}

func state(table *sched.Table, launches []*sched.LaunchView, queued ...sched.Request) *sched.State {
	s := &sched.State{Devices: []sched.DeviceView{{
		MaxBatch: 8, Places: 1, Slots: 32, Hosted: []sched.Hosted{{Network: "n", Table: table}}, Launches: launches,
	}}}
	for _, r := range queued {
		s.Queue.Push(&r)
	}
	return s
}

// Segments take 10 + 2 B. At exit 0 with B_rem = 2 and 3 waiting:
// T_overhead = T[0..0][3] + T[1..2][5] = 16 + 40 = 56.
func TestFluidWorkedExamples(t *testing.T) {
	table := linear(t, 3, 8, 10, 2)
	at := func(id device.LaunchID, phase sched.Phase, last, reached int, reqs []sched.Request) *sched.LaunchView {
		return &sched.LaunchView{ID: id, Network: "n", Last: last, Reached: reached, Phase: phase, Requests: reqs}
	}
	list := func(l ...*sched.LaunchView) []*sched.LaunchView { return l }
	two := requests(1, 2, 1000)
	for _, c := range []struct {
		name     string
		now      int64
		bMax     int
		launches []*sched.LaunchView
		queue    []sched.Request
		want     []sched.Action
	}{
		{name: "nothing to do"},
		{
			name: "starts with the first request", queue: requests(1, 1, 9),
			want: []sched.Action{{Kind: sched.Launch, Network: "n", Last: 2, Count: 1}},
		},
		{
			name: "B_act = min(N_Q, B_max)", queue: requests(1, 11, 9),
			want: []sched.Action{{Kind: sched.Launch, Network: "n", Last: 2, Count: 8}},
		},
		{
			name: "a parameter below the hardware's B_max", bMax: 3, queue: requests(1, 11, 9),
			want: []sched.Action{{Kind: sched.Launch, Network: "n", Last: 2, Count: 3}},
		},
		{
			name:     "no preemption inside a segment",
			launches: list(at(1, sched.Running, 2, 0, two)), queue: requests(3, 5, 1000),
		},
		{
			name: "overhead 56 < slack 57: preempt", now: 943,
			launches: list(at(1, sched.AtExit, 2, 0, two)), queue: requests(3, 5, 2000),
			want: []sched.Action{{Kind: sched.Preempt, Launch: 1}, {Kind: sched.Launch, Network: "n", Last: 0, Count: 3}},
		},
		{
			name: "overhead 56 = slack 56: go on", now: 944,
			launches: list(at(1, sched.AtExit, 2, 0, two)), queue: requests(3, 5, 2000),
		},
		{
			name:     "empty queue: go on",
			launches: list(at(1, sched.AtExit, 2, 0, two)),
		},
		{
			name:     "full batch: go on",
			launches: list(at(1, sched.AtExit, 2, 0, requests(1, 8, 1000))), queue: requests(9, 9, 1000),
		},
		{
			name: "B_incr = B_max - B_rem, at exit 1: T[0..1][2] + T[2..2][8] = 28 + 26", now: 0,
			launches: list(at(1, sched.AtExit, 2, 1, requests(1, 6, 55))), queue: requests(7, 11, 99),
			want: []sched.Action{{Kind: sched.Preempt, Launch: 1}, {Kind: sched.Launch, Network: "n", Last: 1, Count: 2}},
		},
		{
			name:     "the new requests are not preempted on their way",
			launches: list(at(1, sched.Halted, 2, 1, two), at(2, sched.AtExit, 1, 0, requests(3, 4, 1000))), queue: requests(5, 6, 1000),
		},
		{
			name:     "merge and go on",
			launches: list(at(1, sched.Halted, 2, 0, two), at(2, sched.AtExit, 0, 0, requests(3, 4, 1000))),
			want:     []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name:     "merge and look again: B_rem is 4 by now",
			launches: list(at(1, sched.Halted, 2, 0, two), at(2, sched.AtExit, 0, 0, requests(3, 4, 1000))), queue: requests(5, 14, 1000),
			want: []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Launch, Network: "n", Last: 0, Count: 4}},
		},
		{
			name:     "all the new ones have left: look again with the old batch",
			launches: list(at(1, sched.Halted, 2, 0, two)), queue: requests(5, 5, 1000),
			want: []sched.Action{{Kind: sched.Launch, Network: "n", Last: 0, Count: 1}},
		},
		{
			name:     "all the new ones have left, nobody waits",
			launches: list(at(1, sched.Halted, 2, 0, two)),
			want:     []sched.Action{{Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name:     "the old batch was cancelled: the new ones go on alone",
			launches: list(at(2, sched.AtExit, 0, 0, requests(3, 4, 1000))),
			want:     []sched.Action{{Kind: sched.Resume, Launch: 2, Last: 2}},
		},
		{
			name:     "the smallest deadline counts, whoever has it",
			launches: list(at(1, sched.Halted, 2, 0, requests(1, 1, 1000)), at(2, sched.AtExit, 0, 0, requests(3, 3, 40))), queue: requests(5, 5, 1000),
			want: []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name:     "also where the halted batch has it",
			launches: list(at(1, sched.Halted, 2, 0, requests(1, 1, 40)), at(2, sched.AtExit, 0, 0, requests(3, 3, 1000))), queue: requests(5, 5, 1000),
			want: []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Resume, Launch: 1, Last: 2}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := sched.Fluid{BMax: c.bMax}.Decide(c.now, state(table, c.launches, c.queue...), &sched.Event{}, nil)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFluidKeepsNetworksApart(t *testing.T) {
	table := linear(t, 2, 8, 10, 2)
	q := requests(1, 4, 1000)
	q[2].Network = "other"
	s := state(table, nil, q...)
	got := sched.Fluid{}.Decide(0, s, &sched.Event{}, nil)
	if d := cmp.Diff([]sched.Action{{Kind: sched.Launch, Network: "n", Last: 1, Count: 2}}, got); d != "" {
		t.Error(d)
	}
}

func TestSeveralDevicesShareTheQueue(t *testing.T) {
	table := linear(t, 2, 8, 10, 2)
	s := state(table, nil, requests(1, 10, 1000)...)
	s.Devices = append(s.Devices, s.Devices[0], s.Devices[0])
	s.Devices[1].Down = true
	for p, want := range map[sched.Policy][]sched.Action{
		sched.Fluid{}:  {{Kind: sched.Launch, Network: "n", Last: 1, Count: 8}, {Kind: sched.Launch, Device: 2, Network: "n", Last: 1, Count: 2}},
		sched.Serial{}: {{Kind: sched.Launch, Network: "n", Last: 1, Count: 1}, {Kind: sched.Launch, Device: 2, Network: "n", Last: 1, Count: 1}},
	} {
		if d := cmp.Diff(want, p.Decide(0, s, &sched.Event{}, nil)); d != "" {
			t.Errorf("%s: %s", p.Name(), d)
		}
	}
}

func TestDevicesAtExitsShareTheQueue(t *testing.T) {
	table := linear(t, 2, 8, 10, 2)
	at := func(id device.LaunchID, dev int) []*sched.LaunchView {
		return []*sched.LaunchView{{ID: id, Device: dev, Network: "n", Last: 1, Phase: sched.AtExit, Requests: requests(int(id), int(id), 1000)}}
	}
	s := state(table, at(1, 0), requests(3, 12, 1000)...)
	s.Devices = append(s.Devices, s.Devices[0])
	s.Devices[1].Launches = at(2, 1)
	want := []sched.Action{
		{Kind: sched.Preempt, Launch: 1},
		{Kind: sched.Launch, Network: "n", Count: 7},
		{Kind: sched.Preempt, Launch: 2},
		{Kind: sched.Launch, Device: 1, Network: "n", Count: 3},
	}
	if d := cmp.Diff(want, (sched.Fluid{}).Decide(0, s, &sched.Event{}, nil)); d != "" {
		t.Error(d)
	}
}

func TestSerial(t *testing.T) {
	table := linear(t, 3, 8, 10, 2)
	one := []*sched.LaunchView{{ID: 1, Network: "n", Last: 2, Reached: 0, Phase: sched.AtExit, Requests: requests(1, 1, 9)}}
	if got := (sched.Serial{}).Decide(0, state(table, one, requests(2, 9, 9)...), &sched.Event{}, nil); len(got) != 0 {
		t.Errorf("a busy device is given %v", got)
	}
}

// A policy must not allocate, nor change its arguments.
func TestDecideDoesNotAllocate(t *testing.T) {
	for name, s := range states(t) {
		for _, policy := range sched.Names() {
			p := make1(t, policy)
			buf := make([]sched.Action, 0, 16)
			ev := new(sched.Event)
			if n := testing.AllocsPerRun(100, func() { buf = p.Decide(0, s, ev, buf[:0]) }); n != 0 {
				t.Errorf("%s allocates %g times a decision in state %q", policy, n, name)
			}
		}
	}
}

func make1(t testing.TB, name string) sched.Policy {
	t.Helper()
	p, err := sched.New(name, sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func states(t testing.TB) map[string]*sched.State {
	table := linear(t, 4, 8, 10, 2)
	base := &sched.LaunchView{ID: 1, Network: "n", Last: 3, Reached: 1, Phase: sched.Halted, Requests: requests(1, 3, 1000)}
	fill := &sched.LaunchView{ID: 2, Network: "n", Last: 1, Reached: 1, Phase: sched.AtExit, Requests: requests(4, 5, 1000)}
	exit := &sched.LaunchView{ID: 1, Network: "n", Last: 3, Reached: 1, Phase: sched.AtExit, Requests: requests(1, 3, 1000)}
	all := map[string]*sched.State{
		"idle":    state(table, nil, requests(1, 5, 1000)...),
		"at exit": state(table, []*sched.LaunchView{exit}, requests(6, 9, 1000)...),
		"merging": state(table, []*sched.LaunchView{base, fill}, requests(6, 9, 1000)...),
		"late":    state(table, nil, append(requests(1, 40, 5), requests(41, 45, 1000)...)...),
	}
	for _, s := range all {
		s.Traffic = []sched.Traffic{{
			Network: "n", Arrived: 5000, Gap: 30, Ended: 4990, Tail: 20,
			Passed: []int64{4990, 4000, 3000, 2000}, Left: []int64{990, 1000, 1000, 2000},
		}}
	}
	return all
}

func BenchmarkDecide(b *testing.B) {
	for name, s := range states(b) {
		for _, policy := range sched.Names() {
			b.Run(policy+"/"+name, func(b *testing.B) {
				p := make1(b, policy)
				buf := make([]sched.Action, 0, 16)
				ev := new(sched.Event)
				b.ReportAllocs()
				for b.Loop() {
					buf = p.Decide(0, s, ev, buf[:0])
				}
			})
		}
	}
}

// The cost of a decision does not depend on the length of the queue.
func BenchmarkBacklog(b *testing.B) {
	for _, policy := range []string{"fluid", "fluid+", "fluid+/standing back", "fluid+last"} {
		for _, n := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", policy, n), func(b *testing.B) {
				name, standing, _ := strings.Cut(policy, "/")
				p, tail := make1(b, name), 0.0
				if standing != "" {
					tail = 1e6
				}
				s := state(linear(b, 4, 8, 10, 2), nil, requests(1, n, 200_000)...)
				for _, r := range requests(n+1, n+5, 1e6) {
					s.Queue.Push(&r)
				}
				s.Traffic = []sched.Traffic{{Network: "n", Arrived: 100_000, Gap: 30, Ended: 80_000, Tail: tail, Passed: make([]int64, 4), Left: make([]int64, 4)}}
				buf := make([]sched.Action, 0, 16)
				ev := new(sched.Event)
				b.ReportAllocs()
				for b.Loop() {
					buf = p.Decide(210_000, s, ev, buf[:0])
				}
			})
		}
	}
}

// The additional work of fluid+ at every 64th arrival.
func BenchmarkFollow(b *testing.B) {
	for _, segments := range []int{4, 64} {
		b.Run(fmt.Sprint(segments, " segments"), func(b *testing.B) {
			p := make1(b, "fluid+")
			s := state(linear(b, segments, 8, 10, 2), nil, requests(1, 5, 1e6)...)
			s.Traffic = []sched.Traffic{{Network: "n", Arrived: 10_000, Gap: 30, Passed: make([]int64, segments), Left: make([]int64, segments)}}
			buf := make([]sched.Action, 0, 16)
			ev := new(sched.Event)
			b.ReportAllocs()
			for b.Loop() {
				s.Traffic[0].Arrived += 100
				buf = p.Decide(0, s, ev, buf[:0])
			}
		})
	}
}

func TestTableRefusals(t *testing.T) {
	good := func() []bundle.LatencyEntry {
		return []bundle.LatencyEntry{
			{Network: "n", First: 0, Last: 0, Batch: 1, P50: 1},
			{Network: "n", First: 0, Last: 1, Batch: 1, P50: 2},
			{Network: "n", First: 1, Last: 1, Batch: 1, P50: 1},
		}
	}
	table, err := sched.NewTable(good(), "n")
	if err != nil || table.Segments() != 2 || table.MaxBatch() != 1 || table.Alone() != 2 {
		t.Fatalf("a good table: %v, %v", table, err)
	}
	for name, spoil := range map[string]func(e []bundle.LatencyEntry) []bundle.LatencyEntry{
		"empty":        func([]bundle.LatencyEntry) []bundle.LatencyEntry { return nil },
		"missing":      func(e []bundle.LatencyEntry) []bundle.LatencyEntry { return e[:2] },
		"twice":        func(e []bundle.LatencyEntry) []bundle.LatencyEntry { return append(e, e[0]) },
		"zero time":    func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[1].P50 = 0; return e },
		"zero batch":   func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[1].Batch = 0; return e },
		"backwards":    func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[2].Last = 0; return e },
		"negative":     func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[0].First = -1; return e },
		"out of range": func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[1].Last = 1 << 30; return e },
		"huge batch":   func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[1].Batch = 1 << 30; return e },
		"other":        func(e []bundle.LatencyEntry) []bundle.LatencyEntry { e[1].Network = "m"; return e },
	} {
		if _, err := sched.NewTable(spoil(good()), "n"); !errors.Is(err, sched.ErrTable) {
			t.Errorf("%s: error %v, want ErrTable", name, err)
		}
	}
}

// A launch holds its units if it runs, is about to stop, or goes on from an exit; a launch without units holds all of
// them.
func TestFree(t *testing.T) {
	on := func(phase sched.Phase, reached int, units device.Units) *sched.LaunchView {
		return &sched.LaunchView{Last: 2, Reached: reached, Phase: phase, Units: units}
	}
	for _, c := range []struct {
		name string
		l    []*sched.LaunchView
		want string
	}{
		{"nobody", nil, "0-1,4-7"},
		{"a part that runs", []*sched.LaunchView{on(sched.Running, 0, device.UnitRange(4, 2))}, "0-1,6-7"},
		{"and one that stops", []*sched.LaunchView{on(sched.Stopping, 0, device.UnitRange(4, 2)), on(sched.Running, 0, device.UnitRange(0, 1))}, "1,6-7"},
		{"halted", []*sched.LaunchView{on(sched.Halted, 0, device.UnitRange(4, 2))}, "0-1,4-7"},
		{"goes on", []*sched.LaunchView{on(sched.AtExit, 1, device.UnitRange(4, 2))}, "0-1,6-7"},
		{"at its last", []*sched.LaunchView{on(sched.AtExit, 2, device.UnitRange(4, 2))}, "0-1,4-7"},
		{"the whole device", []*sched.LaunchView{on(sched.Running, 0, device.Units{})}, ""},
		{"the whole device, halted", []*sched.LaunchView{on(sched.Halted, 0, device.Units{})}, "0-1,4-7"},
	} {
		d := sched.DeviceView{Units: 8, Lost: device.UnitRange(2, 2), Launches: c.l}
		if got := d.Free(); got.String() != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}

func TestNew(t *testing.T) {
	want := "serial fc-adaptb-s fc-adaptb-m fc-adaptb-l r-adaptb-s r-adaptb-m r-adaptb-l lazy lazy-idle edf clockwork fluid fluid+ fluid+last fluid+theta fluid+refuse"
	if got := strings.Join(sched.Names(), " "); got != want {
		t.Errorf("the policies are %s", got)
	}
	mappings := map[string]string{
		"serial": "fluid", "fluid": "fluid", "fluid+": "fluid", "fluid+last": "fluid", "fluid+theta": "fluid", "fluid+refuse": "fluid",
		"fc-adaptb-s": "fc", "fc-adaptb-m": "fc", "fc-adaptb-l": "fc",
	}
	for _, n := range sched.Names() {
		p, err := sched.New(n, sched.Options{BMax: 4, SLO: 5, Rates: []float64{0.5, 0.5}})
		if err != nil || p.Name() != n {
			t.Errorf("New(%q) = %v, %v", n, p, err)
			continue
		}
		m := sched.MappingOf(n)
		want := mappings[n]
		if want == "" {
			want = "r"
		}
		if m != want {
			t.Errorf("the mapping of %s is %q; want %q", n, m, want)
		}
	}
	if _, err := sched.New("nonsense", sched.Options{}); !errors.Is(err, sched.ErrUnknownPolicy) || !strings.Contains(err.Error(), "clockwork, edf") {
		t.Errorf("unknown policy: %v", err)
	}
	for _, c := range []struct {
		o    sched.Options
		want error
	}{
		{sched.Options{BMax: -1}, sched.ErrOptions},
		{sched.Options{SLO: -1}, sched.ErrOptions},
		{sched.Options{Rates: []float64{}}, sched.ErrRates},
		{sched.Options{Rates: []float64{0.5, 0.4}}, sched.ErrRates},
		{sched.Options{Rates: []float64{0.7, 0.7}}, sched.ErrRates},
		{sched.Options{Rates: []float64{-0.5, 1.5}}, sched.ErrRates},
		{sched.Options{Rates: []float64{math.NaN(), 1}}, sched.ErrRates},
		{sched.Options{Rates: make([]float64, sched.MaxSegments+1)}, sched.ErrRates},
	} {
		for _, n := range sched.Names() {
			if _, err := sched.New(n, c.o); !errors.Is(err, c.want) {
				t.Errorf("%s with %+v: %v, want %v", n, c.o, err, c.want)
			}
		}
	}
}
