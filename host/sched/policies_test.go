package sched_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// example is a state and the expected answer of a policy. Segments take 10 + 2 B, so a batch of B takes 30 + 6 B
// through all three: 36, 42, 48 ... 78.
type example struct {
	name     string
	now      int64
	launches []*sched.LaunchView
	queue    []sched.Request
	change   func(*sched.State)
	want     []sched.Action
}

func check(t *testing.T, p func() sched.Policy, examples []example) {
	t.Helper()
	for _, c := range examples {
		t.Run(c.name, func(t *testing.T) {
			s := state(linear(t, 3, 8, 10, 2), c.launches, c.queue...)
			if c.change != nil {
				c.change(s)
			}
			if d := cmp.Diff(c.want, p().Decide(c.now, s, &sched.Event{}, nil)); d != "" {
				t.Error(d)
			}
		})
	}
}

// due returns requests 1, 2, ... with these deadlines, arrived at 1, 2, ...
func due(deadlines ...int64) []sched.Request {
	var out []sched.Request
	for i, d := range deadlines {
		out = append(out, requests(i+1, i+1, d)...)
	}
	return out
}

func head(n int) []sched.Action {
	return []sched.Action{{Kind: sched.Launch, Network: "n", Last: 2, Count: n}}
}

func these(ids ...device.RequestID) sched.Action {
	return sched.Action{Kind: sched.Launch, Network: "n", Last: 2, Requests: ids}
}

// view is a launch that began with as many requests as are left in it.
func view(id device.LaunchID, phase sched.Phase, last, reached int, reqs []sched.Request) *sched.LaunchView {
	return &sched.LaunchView{ID: id, Network: "n", Last: last, Reached: reached, Phase: phase, Requests: reqs, Began: len(reqs)}
}

func down(s *sched.State)     { s.Devices[0].Down = true }
func homeless(s *sched.State) { s.Devices[0].Hosted = nil }

func another(s *sched.State) { s.Devices = append(s.Devices, s.Devices[0]) }

// elsewhere changes a waiting request's network.
func elsewhere(i int) func(*sched.State) { return func(s *sched.State) { s.Queue.At(i).Network = "m" } }

func TestAdaptB(t *testing.T) {
	wait := func(until int64) []sched.Action { return []sched.Action{{Kind: sched.Wait, Until: until}} }
	three := requests(1, 3, 1001) // the oldest has 1000 ns, from time 1
	running := []*sched.LaunchView{view(9, sched.AtExit, 2, 0, requests(20, 20, 9))}
	for _, v := range []struct {
		name string
		due  int64
	}{{"r-adaptb-s", 51}, {"fc-adaptb-m", 451}, {"r-adaptb-l", 951}} {
		check(t, func() sched.Policy { return make1(t, v.name) }, []example{
			{name: v.name + " has nobody"},
			{name: v.name + " waits", now: v.due - 1, queue: three, want: wait(v.due)},
			{name: v.name + " has waited", now: v.due, queue: three, want: head(3)},
			{name: v.name + " is full", queue: requests(1, 8, 1001), want: head(8)},
			{name: v.name + " is more than full", queue: requests(1, 11, 1001), want: head(8)},
		})
	}
	s := func(o sched.Options) func() sched.Policy {
		return func() sched.Policy {
			p, err := sched.New("r-adaptb-s", o)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	check(t, s(sched.Options{}), []example{
		{name: "busy", now: 60, launches: running, queue: three},
		{name: "down", now: 60, queue: three, change: down},
		{name: "not servable", now: 60, queue: three, change: homeless},
		{name: "another network behind", now: 60, queue: three, change: elsewhere(2), want: head(2)},
		{name: "a deadline before the arrival", now: 1, queue: requests(1, 1, 0), want: head(1)},
		{name: "no deadline", now: 1, queue: requests(1, 1, sched.Never), want: head(1)},
		// A full batch takes 3 x (10 + 2 x 8): no request waits for more than a hundred of these.
		{name: "no deadline to speak of", now: 60, queue: requests(1, 1, 1<<62), want: wait(1 + 100*78)},
		{name: "no deadline to speak of, and has waited", now: 1 + 100*78, queue: requests(1, 1, 1<<62), want: head(1)},
		{name: "a deadline just as far off", now: 60, queue: requests(1, 1, 1+20*100*78), want: wait(1 + 100*78)},
		{name: "a deadline nearer than that", now: 60, queue: requests(1, 1, 1+20*100*77), want: wait(1 + 100*77)},
		{
			name: "two devices", now: 60, queue: append(requests(1, 8, 1001), requests(100, 101, 9999)...), change: another,
			want: append(head(8), wait(100+(9999-100)/100*5+(9999-100)%100*5/100)...),
		},
		{
			name: "two batches", now: 60, queue: requests(1, 16, 1001), change: another,
			want: append(head(8), sched.Action{Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Count: 8}),
		},
	})
	check(t, s(sched.Options{SLO: 200}), []example{
		{name: "an SLO for all: wait", now: 10, queue: three, want: wait(11)},
		{name: "an SLO for all", now: 11, queue: three, want: head(3)},
		{name: "an SLO for those without a deadline", now: 10, queue: requests(1, 1, sched.Never), want: wait(11)},
	})
	check(t, s(sched.Options{SLO: 1 << 62}), []example{{name: "a far-off parameter is kept", now: 60, queue: three, want: wait(1 + 1<<62/100*5 + 1<<62%100*5/100)}})
	check(t, s(sched.Options{BMax: 2}), []example{{name: "a smaller B_max", queue: three, want: head(2)}})
}

func TestEDF(t *testing.T) {
	check(t, func() sched.Policy { return make1(t, "edf") }, []example{
		{name: "nobody"},
		{name: "in order", queue: due(300, 500, 900), want: []sched.Action{these(1, 2, 3)}},
		{name: "out of order", queue: due(900, 300, 500), want: []sched.Action{these(2, 3, 1)}},
		{name: "equal deadlines: the older first", queue: due(900, 300, 300), want: []sched.Action{these(2, 3, 1)}},
		{name: "the eight earliest", queue: due(9, 8, 7, 6, 5, 4, 3, 2, 1), want: []sched.Action{these(9, 8, 7, 6, 5, 4, 3, 2)}},
		{name: "hopeless ones too", now: 1000, queue: due(300, 200), want: []sched.Action{these(2, 1)}},
		{name: "up to another network", queue: due(900, 300, 500), change: elsewhere(2), want: []sched.Action{these(2)}},
		{name: "busy", launches: []*sched.LaunchView{view(9, sched.AtExit, 2, 0, requests(20, 20, 9))}, queue: due(5)},
		{name: "down", queue: due(5), change: down},
		{name: "not servable", queue: due(5), change: homeless},
		{
			name: "two devices", queue: due(9, 8, 7, 6, 5, 4, 3, 2, 1), change: another,
			want: []sched.Action{these(9, 8, 7, 6, 5, 4, 3, 2), {Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Requests: []device.RequestID{1}}},
		},
		{name: "two devices, one batch", queue: due(5), change: another, want: []sched.Action{these(1)}},
	})
}

func TestClockwork(t *testing.T) {
	drop := func(id device.RequestID) sched.Action { return sched.Action{Kind: sched.Drop, Request: id} }
	level := func(list []sched.Request, level int) []sched.Request {
		for i := range list {
			list[i].Priority = level
		}
		return list
	}
	check(t, func() sched.Policy { return make1(t, "clockwork") }, []example{
		{name: "nobody"},
		// Eight of the lower level would fill a batch (78), without any of the higher level.
		{name: "not without the highest level", queue: append(requests(1, 8, 1000), level(requests(9, 9, 40), 1)...), want: []sched.Action{these(9)}},
		{
			name: "the largest batch with one of the highest level", queue: append(requests(1, 8, 1000), level(append(requests(9, 9, 40), requests(10, 10, 60)...), 1)...),
			want: []sched.Action{these(10, 1, 2, 3, 4)}, // 60
		},
		{name: "which has the lower one fill it up", queue: append(requests(1, 8, 1000), level(requests(9, 9, 78), 1)...), want: []sched.Action{these(9, 1, 2, 3, 4, 5, 6, 7)}},
		// Request 1 has missed its latest start alone (36). Size 3 (48) has only 3 and 4 in its queue. Size 2 (42)
		// has enough: request 2 has missed its start there, and will be served alone if there is still time.
		{name: "large to small", queue: due(35, 40, 50, 60), want: []sched.Action{drop(1), these(3, 4)}},
		{name: "the latest start is now", queue: due(36), want: []sched.Action{these(1)}},
		{name: "all are too late", now: 1000, queue: due(300, 200), want: []sched.Action{drop(2), drop(1)}},
		{name: "a full batch", queue: due(78, 78, 78, 78, 78, 78, 78, 78, 79), want: []sched.Action{these(1, 2, 3, 4, 5, 6, 7, 8)}},
		{name: "just not a full one", queue: due(77, 77, 77, 77, 77, 77, 77, 77), want: []sched.Action{these(1, 2, 3, 4, 5, 6, 7)}},
		{name: "out of order", queue: due(60, 50, 40, 35), want: []sched.Action{drop(4), these(2, 1)}},
		{name: "passes another network over", queue: due(100, 101, 102), change: elsewhere(1), want: []sched.Action{these(1, 3)}},
		{name: "busy: nothing is dropped", now: 99, launches: []*sched.LaunchView{view(9, sched.Running, 2, 0, requests(20, 20, 9))}, queue: due(5)},
		{name: "down", queue: due(99), change: down},
		{name: "not servable", queue: due(99), change: homeless},
		{
			name: "two devices", queue: due(1, 78, 78, 78, 78, 78, 78, 78, 78, 78), change: another,
			want: []sched.Action{drop(1), these(2, 3, 4, 5, 6, 7, 8, 9), {Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Requests: []device.RequestID{10}}},
		},
	})
}

// One request alone takes 12 per segment, 36 in all; the time of a batch is assumed to be its size times that.
func TestLazyBatching(t *testing.T) {
	two := func(deadline int64) []sched.Request { return requests(1, 2, deadline) }
	list := func(l ...*sched.LaunchView) []*sched.LaunchView { return l }
	preempt := func(id device.LaunchID, last, n int) []sched.Action {
		return []sched.Action{{Kind: sched.Preempt, Launch: id}, {Kind: sched.Launch, Network: "n", Last: last, Count: n}}
	}
	once := view(1, sched.AtExit, 2, 0, two(1000))
	once.Began = 8
	seven := view(1, sched.AtExit, 2, 0, two(1000))
	seven.Began = 7
	check(t, func() sched.Policy { return make1(t, "lazy") }, []example{
		{name: "nobody"},
		{name: "starts with all whose slack allows it: 3 x 36", queue: requests(1, 3, 108), want: head(3)},
		{name: "one ns less", queue: requests(1, 3, 107), want: head(2)},
		{name: "somebody must start", queue: requests(1, 3, 10), want: head(1)},
		{name: "B_max", queue: requests(1, 9, 1000), want: head(8)},
		{name: "inside a segment", launches: list(view(1, sched.Running, 2, 0, two(1000))), queue: requests(3, 3, 1000)},
		// Both have 2 x 12 left, the new one 36: 84 in all.
		{name: "every slack stays 0", launches: list(view(1, sched.AtExit, 2, 0, two(84))), queue: requests(3, 3, 84), want: preempt(1, 0, 1)},
		{name: "an old one's would not", launches: list(view(1, sched.AtExit, 2, 0, two(83))), queue: requests(3, 3, 84)},
		{name: "the new one's would not", launches: list(view(1, sched.AtExit, 2, 0, two(84))), queue: requests(3, 3, 83)},
		{name: "as many as keep it", launches: list(view(1, sched.AtExit, 2, 0, two(120))), queue: requests(3, 9, 500), want: preempt(1, 0, 2)},
		{name: "later the old ones need less: 2 x 12 + 36", launches: list(view(1, sched.AtExit, 2, 1, two(60))), queue: requests(3, 3, 60), want: preempt(1, 1, 1)},
		{name: "full once: never again, though six have left", launches: list(once), queue: requests(9, 9, 1000)},
		{name: "freed places stay empty", launches: list(seven), queue: requests(8, 12, 1000), want: preempt(1, 0, 1)},
		// Below, 2 with one segment to go; on top, 1 with two; the new one: 24 + 24 + 36.
		{
			name:     "newer ones preempt those that catch up",
			launches: list(view(1, sched.Halted, 2, 1, two(84)), view(2, sched.AtExit, 1, 0, requests(3, 3, 84))), queue: requests(4, 4, 84),
			want: preempt(2, 0, 1),
		},
		{
			name:     "not if one below would miss its deadline",
			launches: list(view(1, sched.Halted, 2, 1, two(83)), view(2, sched.AtExit, 1, 0, requests(3, 3, 84))), queue: requests(4, 4, 84),
		},
		{
			name:     "caught up: merge and go on",
			launches: list(view(1, sched.Halted, 2, 1, two(99)), view(2, sched.AtExit, 1, 1, requests(3, 3, 99))),
			want:     []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name:     "merge and go on to the next sub-batch below",
			launches: list(view(1, sched.Halted, 2, 1, two(99)), view(2, sched.Halted, 1, 0, requests(3, 3, 99)), view(3, sched.AtExit, 0, 0, requests(4, 4, 99))),
			want:     []sched.Action{{Kind: sched.Merge, Launch: 3, Into: 2}, {Kind: sched.Resume, Launch: 2, Last: 1}},
		},
		{
			name:     "merge all the way down",
			launches: list(view(1, sched.Halted, 2, 1, two(99)), view(2, sched.Halted, 1, 1, requests(3, 3, 99)), view(3, sched.AtExit, 1, 1, requests(4, 4, 99))),
			want:     []sched.Action{{Kind: sched.Merge, Launch: 3, Into: 2}, {Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name:     "the new ones have all left",
			launches: list(view(1, sched.Halted, 2, 0, two(99))),
			want:     []sched.Action{{Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name:     "merged, and newer ones at once",
			launches: list(view(1, sched.Halted, 2, 0, two(1000)), view(2, sched.AtExit, 0, 0, requests(3, 3, 1000))), queue: requests(4, 4, 1000),
			want: []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Launch, Network: "n", Count: 1}},
		},
		{name: "down", queue: requests(1, 1, 99), change: down},
		{name: "not servable", queue: requests(1, 1, 99), change: homeless},
		{
			name: "two devices", queue: requests(1, 3, 108), change: func(s *sched.State) { another(s); s.Queue.At(1).Deadline = 71 },
			want: []sched.Action{head(1)[0], {Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Count: 1}},
		},
	})
}

// The other reading: an idle device takes all that wait, whatever their slack; preemption is as above.
func TestLazyBatchingIdle(t *testing.T) {
	preempt := []sched.Action{{Kind: sched.Preempt, Launch: 1}, {Kind: sched.Launch, Network: "n", Count: 1}}
	at := func(deadline int64) []*sched.LaunchView {
		return []*sched.LaunchView{view(1, sched.AtExit, 2, 0, requests(1, 2, deadline))}
	}
	check(t, func() sched.Policy { return make1(t, "lazy-idle") }, []example{
		{name: "nobody"},
		{name: "all of them late", queue: requests(1, 3, 10), want: head(3)},
		{name: "B_max", queue: requests(1, 9, 10), want: head(8)},
		{name: "every slack stays 0", launches: at(84), queue: requests(3, 3, 84), want: preempt},
		{name: "an old one's would not", launches: at(83), queue: requests(3, 3, 84)},
		{
			name: "two devices", queue: requests(1, 9, 10), change: another,
			want: []sched.Action{head(8)[0], {Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Count: 1}},
		},
	})
}

// seen gives fluid+ statistics of a load: many requests so far, none leaving early, one every gap ns, and one in a
// hundred waiting longer than the tail.
func seen(gap, tail float64) func(*sched.State) {
	return func(s *sched.State) {
		s.Traffic = []sched.Traffic{{
			Network: "n", Arrived: 1000, Gap: gap, Tail: tail, Ended: 990, Passed: []int64{1e6, 1e6, 1e6}, Left: []int64{0, 0, 1e6},
		}}
	}
}

func TestPlusExamples(t *testing.T) {
	plus := func() sched.Policy { return make1(t, "fluid+") }
	calm, rush := seen(1000, 0), seen(10, 0)
	list := func(l ...*sched.LaunchView) []*sched.LaunchView { return l }
	two := requests(1, 2, 100_000)
	check(t, plus, []example{
		{name: "nobody"},
		{name: "starts with the first request", queue: due(1000), change: calm, want: []sched.Action{these(1)}},
		{name: "without having seen anything", queue: due(1000), want: []sched.Action{these(1)}},
		{name: "batching pays: 42 for two, 36 for one", queue: due(1000, 1000), change: calm, want: []sched.Action{these(1, 2)}},
		{name: "under the guard: what serves most per time", queue: requests(1, 17, 100_000), change: rush, want: []sched.Action{these(1, 2, 3, 4, 5, 6, 7, 8)}},
		// Overload: with five more the batch ends after 20 + 2 x 26 = 72 instead of 2 x 16 = 32, and at the highest
		// pace five take 5 x 9.75 = 48.75. V is not valid for such a load and would let the batch go on.
		{
			name: "under the guard, at an exit", launches: list(view(1, sched.AtExit, 2, 0, requests(1, 3, 1e6))), queue: requests(10, 26, 1e6), change: seen(8, 0),
			want: []sched.Action{{Kind: sched.Preempt, Launch: 1}, {Kind: sched.Launch, Network: "n", Last: 0, Requests: []device.RequestID{10, 11, 12, 13, 14}}},
		},
		// The first would miss its deadline in a batch of two (42).
		{name: "as many as the SLO allows", queue: due(41, 1000), change: calm, want: []sched.Action{these(1)}},
		{name: "inside a segment", launches: list(view(1, sched.Running, 2, 0, two)), queue: requests(3, 5, 1e5), change: calm},
		{name: "no nested preemption", launches: list(view(1, sched.Halted, 2, 1, two), view(2, sched.AtExit, 1, 0, requests(3, 4, 1e5))), queue: requests(5, 6, 1e5), change: calm},
		{name: "nobody waits: go on", launches: list(view(1, sched.AtExit, 2, 0, two)), change: calm},
		{name: "full: go on", launches: list(view(1, sched.AtExit, 2, 0, requests(1, 8, 1e5))), queue: requests(9, 9, 1e5), change: calm},
		// Six would take 8 x (22 + 52) = 592 in all; five take 8 x (20 + 48), plus 36 for the remaining one: 580.
		{
			name: "fills up", launches: list(view(1, sched.AtExit, 2, 0, two)), queue: requests(3, 8, 1e5), change: calm,
			want: []sched.Action{{Kind: sched.Preempt, Launch: 1}, {Kind: sched.Launch, Network: "n", Last: 0, Requests: []device.RequestID{3, 4, 5, 6, 7}}},
		},
		// One more costs the other two 12 + 2 x 2 each, and saves less than that for itself if no other request
		// comes.
		{name: "not for one alone", launches: list(view(1, sched.AtExit, 2, 0, two)), queue: requests(3, 3, 1e5), change: calm},
		// Going on takes 2 x 14 = 28, filling up first 22 + 2 x 26 = 74: both would be late.
		{name: "not at a deadline's cost", launches: list(view(1, sched.AtExit, 2, 0, requests(1, 2, 40))), queue: requests(3, 8, 1e5), change: calm},
		{
			name: "merges and goes on", launches: list(view(1, sched.Halted, 2, 0, two), view(2, sched.AtExit, 0, 0, requests(3, 4, 1e5))), change: calm,
			want: []sched.Action{{Kind: sched.Merge, Launch: 2, Into: 1}, {Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{
			name: "the new ones have left", launches: list(view(1, sched.Halted, 2, 0, two)), change: calm,
			want: []sched.Action{{Kind: sched.Resume, Launch: 1, Last: 2}},
		},
		{name: "up to another network", queue: due(1000, 1000, 1000), change: func(s *sched.State) { calm(s); s.Queue.At(1).Network = "m" }, want: []sched.Action{these(1)}},
		{name: "down", queue: due(5), change: down},
		{name: "not servable", queue: due(5), change: homeless},
		// At 100, the first two cannot meet their deadlines: they are let go until no other request waits.
		{name: "lets the hopeless go", now: 100, queue: due(99, 120, 1000), change: calm, want: []sched.Action{these(3)}},
		{name: "but serves them when nobody else waits", now: 100, queue: due(99, 120), change: calm, want: []sched.Action{these(1, 2)}},
		// The first had 98.
		{name: "for twenty times what they were given", now: 1960, queue: due(99, 3000), change: calm, want: []sched.Action{these(2)}},
		{name: "but not for longer", now: 1961, queue: due(99, 3000), change: calm, want: []sched.Action{these(1, 2)}},
		// They have waited for 99 and 98.
		{name: "who has not waited for the tail stands back", now: 100, queue: due(99, 99, 1000), change: seen(1000, 99), want: []sched.Action{these(3, 1, 2)}},
		{name: "but not behind the deadline of others", now: 100, queue: due(99, 99, 143), change: seen(1000, 99), want: []sched.Action{these(3)}},
		{name: "who has waited for longer is let go", now: 100, queue: due(99, 99, 143), change: seen(1000, 98), want: []sched.Action{these(3)}},
		{
			name: "who has been let go comes last of all", now: 100, queue: due(99, 99), change: seen(1000, 98),
			want: []sched.Action{these(2)},
		},
		{
			name: "two devices take different ones", queue: due(41, 1000), change: func(s *sched.State) { calm(s); another(s) },
			want: []sched.Action{these(1), {Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Requests: []device.RequestID{2}}},
		},
	})
	check(t, func() sched.Policy { return make1(t, "fluid+refuse") }, []example{
		{
			name: "gives the hopeless up", now: 100, queue: due(99, 120, 1000), change: calm,
			want: []sched.Action{{Kind: sched.Drop, Request: 1}, {Kind: sched.Drop, Request: 2}, these(3)},
		},
		{
			name: "all of them", now: 100, queue: due(99, 120), change: calm,
			want: []sched.Action{{Kind: sched.Drop, Request: 1}, {Kind: sched.Drop, Request: 2}},
		},
		{
			name: "at an exit, too", now: 100, launches: list(view(1, sched.AtExit, 2, 0, requests(11, 12, 1e5))), queue: due(99), change: calm,
			want: []sched.Action{{Kind: sched.Drop, Request: 1}},
		},
	})
}

// Patience has a limit: at most 0.8 % of a network's requests are let go, whatever was let go of others, or of one that
// is gone.
func TestPlusLetsFewGo(t *testing.T) {
	p := make1(t, "fluid+")
	for first := 1; first < 100; first += 20 {
		network := []string{"n", "m"}[first/20%2]
		s := state(linear(t, 3, 8, 10, 2), nil)
		seen(1000, 0)(s)
		s.Devices[0].Hosted = append(s.Devices[0].Hosted, sched.Hosted{Network: "m", Table: s.Devices[0].Hosted[0].Table})
		s.Traffic = append(s.Traffic, s.Traffic[0])
		s.Traffic[1].Network = "m"
		for _, r := range append(requests(first, first+14, 99), requests(first+15, first+15, 1e6)...) {
			r.Network = network
			s.Queue.Push(&r)
		}
		got := p.Decide(100, s, &sched.Event{}, nil)
		// Of 1000 requests, 8 were let go; the ninth is served.
		if len(got) != 1 || len(got[0].Requests) == 0 || got[0].Requests[0] != device.RequestID(first+8) {
			t.Errorf("%s, from request %d on: %+v", network, first, got)
		}
		if network == "n" {
			continue // m's come beside it
		}
		p.Decide(100, state(linear(t, 3, 8, 10, 2), nil), &sched.Event{Kind: sched.Loaded}, nil) // both are gone
	}
}

// A batch of two fifths of the waiting requests decides which cannot be in time: one alone takes 36, four 54.
func TestPlusCountsOnABatch(t *testing.T) {
	calm := seen(1000, 0)
	check(t, func() sched.Policy { return make1(t, "fluid+refuse") }, []example{
		{name: "alone", now: 100, queue: due(140), change: calm, want: []sched.Action{these(1)}},
		{
			name: "among ten", now: 100, queue: append(due(140), requests(2, 10, 1e6)...), change: calm,
			want: []sched.Action{{Kind: sched.Drop, Request: 1}, these(2, 3, 4, 5, 6, 7, 8)},
		},
	})
}

func TestPlusLast(t *testing.T) {
	calm, crowd := seen(1000, 0), seen(1000, 1e6)
	long := func(last ...int64) []sched.Request { // 300 that are too late, starting with request 1
		out := requests(1, 300, 450)
		for i, d := range last {
			out = append(out, requests(301+i, 301+i, d)...)
		}
		return out
	}
	check(t, func() sched.Policy { return make1(t, "fluid+last") }, []example{
		{name: "nobody"},
		{name: "who can meet the deadline first", now: 100, queue: due(99, 120, 1000), change: calm, want: []sched.Action{these(3, 1, 2)}},
		{name: "alone, if need be", now: 100, queue: due(99, 120, 143), change: calm, want: []sched.Action{these(3)}},
		{name: "whatever the tail is", now: 100, queue: due(99, 120, 143), change: crowd, want: []sched.Action{these(3)}},
		{name: "the others when nobody else waits", now: 100, queue: due(99, 120), change: calm, want: []sched.Action{these(1, 2)}},
		// The first had 98.
		{name: "and after twenty times what they were given", now: 1961, queue: due(99, 3000), change: calm, want: []sched.Action{these(1, 2)}},
		{name: "but not before", now: 1960, queue: due(99, 3000), change: calm, want: []sched.Action{these(2, 1)}},
		// If full batches are needed to keep up, late requests fill those that are not full.
		{name: "from behind a long queue", now: 500, queue: long(2000, 3000), change: calm, want: []sched.Action{these(301, 302, 1, 2, 3, 4, 5, 6)}},
		{name: "in any order of deadlines", now: 500, queue: long(3000, 470, 2000), change: calm, want: []sched.Action{these(301, 303, 1, 2, 3, 4, 5, 6)}},
		{
			name: "two devices take different ones", now: 100, queue: due(99, 141, 1000), change: func(s *sched.State) { calm(s); another(s) },
			want: []sched.Action{these(2), {Kind: sched.Launch, Device: 1, Network: "n", Last: 2, Requests: []device.RequestID{3, 1}}},
		},
		{name: "another network", now: 100, queue: due(99, 1000), change: func(s *sched.State) { calm(s); s.Queue.At(1).Network = "m" }, want: nil},
	})
}

// The more requests have begun beyond the tail, the sooner late requests are due.
func TestPlusHoldsTheTail(t *testing.T) {
	p := make1(t, "fluid+")
	s := state(linear(t, 3, 8, 10, 2), nil, due(99, 99, 147)...)
	seen(1000, 120)(s)
	first := func(now int64) device.RequestID {
		t.Helper()
		got := p.Decide(now, s, &sched.Event{}, nil)
		if len(got) != 1 || len(got[0].Requests) == 0 {
			t.Fatalf("%+v", got)
		}
		return got[0].Requests[0]
	}
	if got := first(100); got != 3 {
		t.Errorf("request %d goes before the one that can be in time", got)
	}
	tr := &s.Traffic[0]
	tr.Beyond, tr.InOrder = 14, 20 // as many as allowed
	if got := first(100); got != 3 {
		t.Errorf("with no more beyond the tail than may be: request %d", got)
	}
	tr.Beyond += 10 // a third of the limit: late requests stand back for 80
	if got := first(100); got != 1 {
		t.Errorf("with ten too many beyond the tail: request %d", got)
	}
	tr.InOrder += 15 // forgiven
	if got := first(100); got != 3 {
		t.Errorf("once as many would be in the order of arrival: request %d", got)
	}
}

func TestTraffic(t *testing.T) {
	tr := sched.Traffic{Passed: make([]int64, 2), Left: make([]int64, 2)}
	for i := range 50_000 {
		at := int64(i) * 100
		tr.Arrive(at, 1)
		tr.Pass(0, i%4 == 0)
		tr.Begin(at+int64(i*617%1000), at) // waits for 0 to 999
	}
	if tr.Tail < 960 || tr.Tail > 1010 {
		t.Errorf("one in a hundred waits for 990 or more: %g", tr.Tail)
	}
	if tr.Beyond < 500 || tr.Beyond > 800 || tr.Beyond != tr.InOrder {
		t.Errorf("beyond the tail: %d, in order %d; a hundredth is 500, and some 200 until it is found", tr.Beyond, tr.InOrder)
	}
	if tr.Gap < 99.9 || tr.Gap > 100.1 || tr.Arrived != 50_000 || tr.Left[0] != 12_500 || tr.Passed[0] != 50_000 || tr.Passed[1] != 0 {
		t.Errorf("%+v", tr)
	}
	for range 20_000 { // each sample of a task counts as a request
		tr.Arrive(tr.Latest+400, 4)
	}
	if tr.Arrived != 130_000 || tr.Gap < 95 || tr.Gap > 105 {
		t.Errorf("four every 400 ns: %g", tr.Gap)
	}
	for range 20_000 {
		tr.Arrive(tr.Latest+200, 1)
	}
	if tr.Gap < 199 || tr.Gap > 201 {
		t.Errorf("the rate has halved: %g", tr.Gap)
	}
}

// A request that ends without having begun frees its place, or the first one if its own has been used.
func TestTrafficGone(t *testing.T) {
	for _, c := range []struct {
		name string
		gone []int64
		want []int64 // waits in arrival order, from 100 on
	}{
		{"nobody", nil, []int64{90, 80, 70, 60, 50}},
		{"the first", []int64{10}, []int64{80, 70, 60, 50}},
		{"the last", []int64{50}, []int64{90, 80, 70, 60}},
		{"one between", []int64{20}, []int64{90, 70, 60, 50}},
		{"and behind the middle", []int64{40}, []int64{90, 80, 70, 50}},
		{"one whose place was given away", []int64{5}, []int64{80, 70, 60, 50}},
		{"all, and one more", []int64{30, 10, 50, 20, 40, 30}, nil},
	} {
		tr := sched.Traffic{}
		for at := int64(10); at <= 50; at += 10 {
			tr.Arrive(at, 1)
		}
		for _, at := range c.gone {
			tr.Gone(at)
		}
		for _, want := range c.want {
			lower := tr // a share changes only at Begin
			lower.Tail, tr.Tail = float64(want-1), float64(want)
			before := tr.InOrder
			if lower.Begin(100, 100); lower.InOrder != before+1 {
				t.Errorf("%s: a wait is less than %d", c.name, want)
			}
			if tr.Begin(100, 100); tr.InOrder != before {
				t.Errorf("%s: a wait is more than %d", c.name, want)
			}
		}
		if tr.Tail = 1; len(c.want) > 0 {
			continue
		}
		if tr.Begin(100, 100); tr.InOrder != 0 || tr.Tail != 1 {
			t.Errorf("%s: somebody is still there", c.name)
		}
	}
}

// The tail depends neither on the order in which requests begin nor on those that never begin.
func TestTrafficTail(t *testing.T) {
	var tail [4]float64
	for order := range tail {
		tr := sched.Traffic{}
		rng := rand.New(rand.NewPCG(1, 1))
		var waiting []int64
		for now := range int64(20_000) {
			if rng.IntN(2) == 0 {
				tr.Arrive(now, 1)
				waiting = append(waiting, now)
			}
			if order == 3 { // other requests come and go
				tr.Arrive(now, 1)
				tr.Gone(now)
			}
			if rng.IntN(9) < 4 || len(waiting) == 0 {
				continue
			}
			i := []int{0, len(waiting) - 1, len(waiting) / 2, 0}[order]
			tr.Begin(now, waiting[i])
			waiting = slices.Delete(waiting, i, i+1)
		}
		tail[order] = tr.Tail
		if order == 0 && tr.Beyond != tr.InOrder {
			t.Errorf("in order %d are beyond the tail, not %d", tr.InOrder, tr.Beyond)
		}
		if order == 1 && tr.Beyond <= tr.InOrder {
			t.Errorf("out of order %d are beyond the tail, in order %d", tr.Beyond, tr.InOrder)
		}
	}
	if tail[1] != tail[0] || tail[2] != tail[0] || tail[3] != tail[0] {
		t.Errorf("the tail by order: %g", tail)
	}
}
