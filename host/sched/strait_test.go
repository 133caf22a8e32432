package sched_test

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// The AIMD constants of section 3.3 and appendix A.1: start at 75 %, add 0.25 % every 100 ms, 100 % at most.
func TestCap(t *testing.T) {
	for _, c := range []struct {
		since int64
		want  float64
	}{{0, 0.75}, {99e6, 0.75}, {100e6, 0.7525}, {1e9, 0.775}, {2e9, 0.8}, {9.9e9, 0.9975}, {10e9, 1}, {3600e9, 1}} {
		if got := sched.Cap(c.since, sched.CapLow); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d ns after a violation: %g, expected %g", c.since, got, c.want)
		}
	}
	if got := sched.Cap(1e9, 0.5); math.Abs(got-0.525) > 1e-12 {
		t.Errorf("from 50 %%: %g", got)
	}
}

// shared is a table of one segment: the time in ns at batch 1, half of that for each further request, and the use of
// one resource.
func shared(t testing.TB, network string, ns int64, use float64) *sched.Table {
	t.Helper()
	var cells []sched.Cell
	var uses []sched.Throughput
	for b := int64(1); b <= 8; b++ {
		at := ns * (b + 1) / 2
		cells = append(cells, sched.Cell{Batch: int(b), P50: at, P95: at, P99: at})
		var u sched.Throughput
		u[predict.DRAM] = use
		uses = append(uses, u)
	}
	tab, err := sched.NewTableOf(network, cells)
	if err != nil {
		t.Fatal(err)
	}
	tab.Use = [][]sched.Throughput{uses}
	return tab
}

// hand plays the engine: a launch of the policy runs until the test ends it.
type hand struct {
	t    testing.TB
	p    sched.Policy
	s    sched.State
	now  int64
	next uint64
}

func newHand(t testing.TB, p sched.Policy, devices int, tables map[string]*sched.Table) *hand {
	h := &hand{t: t, p: p}
	for range devices {
		d := sched.DeviceView{MaxBatch: 8, Places: 4, Slots: 64}
		for n, tab := range tables {
			d.Hosted = append(d.Hosted, sched.Hosted{Network: n, Family: n, Table: tab})
		}
		h.s.Devices = append(h.s.Devices, d)
	}
	return h
}

func (h *hand) push(network string, priority, n int, within int64) {
	for range n {
		h.next++
		h.s.Queue.Push(&sched.Request{ID: device.RequestID(h.next), Network: network, Priority: priority, Arrived: h.now, Deadline: h.now + within})
	}
}

// ask calls the policy and starts its launches. It returns the launches and the number of dropped requests.
func (h *hand) ask(ev sched.Event) (launched []*sched.LaunchView, dropped int) {
	for _, a := range h.p.Decide(h.now, &h.s, &ev, nil) {
		switch a.Kind {
		case sched.Drop:
			h.s.Queue.Remove(a.Request)
			dropped++
		case sched.Launch:
			h.next++
			v := &sched.LaunchView{ID: device.LaunchID(h.next), Device: a.Device, Network: a.Network, Reached: -1, Since: h.now, Priority: a.Priority}
			for _, id := range a.Requests {
				r, ok := h.s.Queue.Remove(id)
				if !ok {
					h.t.Fatalf("request %d is not waiting", id)
				}
				v.Requests = append(v.Requests, r)
			}
			h.s.Devices[a.Device].Launches = append(h.s.Devices[a.Device].Launches, v)
			launched = append(launched, v)
		}
	}
	return launched, dropped
}

// end ends a launch.
func (h *hand) end(v *sched.LaunchView) ([]*sched.LaunchView, int) {
	d := &h.s.Devices[v.Device]
	d.Launches = slices.DeleteFunc(d.Launches, func(o *sched.LaunchView) bool { return o == v })
	return h.ask(sched.Event{Kind: sched.SegmentDone, Device: v.Device, Launch: v.ID, Exited: len(v.Requests), Took: h.now - v.Since})
}

// plain is a model with known values: the slowdown is e to the DRAM pressure of the others, for both priorities.
func plain() *predict.Model {
	m := predict.NewModel()
	for i := range predict.Resources {
		m.P[3+i] = 0
	}
	m.P[3+predict.DRAM] = 1
	m.P[3+predict.Resources], m.P[4+predict.Resources] = 0, 0
	return m
}

// Low priority is limited by the cap if other batches of low priority run; one alone always runs. The cap rises, and
// a violation of high priority reduces it.
func TestCapHolds(t *testing.T) {
	p := &sched.Strait{Model: plain(), Frozen: true}
	h := newHand(t, p, 1, map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.9), "b": shared(t, "b", 1e6, 0.29), "c": shared(t, "c", 1e6, 0.5), "high": shared(t, "high", 1e6, 0.1)})
	second := int64(1e9)
	h.push("a", 0, 1, 100*second)
	a, _ := h.ask(sched.Event{})
	if len(a) != 1 {
		t.Fatal("the only batch of low priority was not launched, though it uses more than the cap")
	}
	h.now = 1e6
	h.end(a[0])
	h.push("c", 0, 1, 100*second)
	c, _ := h.ask(sched.Event{})
	h.push("b", 0, 1, 100*second)
	if b, _ := h.ask(sched.Event{}); len(c) != 1 || len(b) != 0 {
		t.Fatalf("0.29 was launched beside 0.5 under a cap of 0.75: %d, %d", len(c), len(b))
	}
	h.now = 2 * second // the cap is 0.8 by now
	b, _ := h.ask(sched.Event{})
	if len(b) != 1 {
		t.Fatal("0.29 was not launched beside 0.5 under a cap of 0.8")
	}
	h.end(b[0])
	h.push("high", 1, 1, 10e6)
	high, _ := h.ask(sched.Event{})
	if len(high) != 1 {
		t.Fatal("high priority was not launched")
	}
	h.now += 20e6 // late
	h.end(high[0])
	h.push("b", 0, 1, 100*second)
	if b, _ = h.ask(sched.Event{}); len(b) != 0 {
		t.Fatal("0.29 was launched beside 0.5 after a violation of high priority")
	}
	h.now += 2 * second
	if b, _ = h.ask(sched.Event{}); len(b) != 1 {
		t.Fatal("0.29 was not launched two seconds later")
	}
}

// The largest batch is launched that is expected to end in time, with half of the device's work running beside it. By
// hand: 0.6 ms (b + 1) / 2, slowed by e^0.2.
func TestMeet(t *testing.T) {
	p := &sched.Strait{Model: plain(), Frozen: true}
	h := newHand(t, p, 1, map[string]*sched.Table{"a": shared(t, "a", 600e3, 0.3), "high": shared(t, "high", 100e6, 0.4)})
	h.push("high", 1, 1, 1e12)
	if l, _ := h.ask(sched.Event{}); len(l) != 1 {
		t.Fatal("nothing was launched")
	}
	slow := math.Exp(0.2)
	for n := 1; n <= 8; n++ {
		within := int64(slow*float64(600e3*(n+1)/2)) + 10
		h.push("a", 1, 8, within)
		l, _ := h.ask(sched.Event{})
		if len(l) == 0 || len(l[0].Requests) != n {
			t.Fatalf("%d ns for a batch of %d: %+v", within, n, l)
		}
		for h.s.Queue.Len() > 0 {
			h.s.Queue.Pop()
		}
		for _, v := range slices.Clone(h.s.Devices[0].Launches[1:]) {
			h.end(v)
		}
	}
}

// sent is shared with inputs that take the given number of ns per request.
func sent(t testing.TB, network string, ns int64, use float64, input int64) *sched.Table {
	tab := shared(t, network, ns, use)
	for b := int64(1); b <= 8; b++ {
		tab.Copies = append(tab.Copies, b*input)
	}
	return tab
}

// meet() includes the inputs (equations 2 and 3): those of the batch, those before them on the link, and the measured
// speed of the link. By hand: 0.2 ms per request, after 0.2 ms of another batch, at twice the time.
func TestMeetCountsInputs(t *testing.T) {
	const input = 200e3
	for _, c := range []struct {
		what   string
		before bool
		slow   int64 // duration of an earlier transfer, relative to its profile
	}{{"idle link", false, 1}, {"behind another", true, 1}, {"a slow link", false, 2}, {"behind another on a slow link", true, 2}} {
		for n := int64(1); n <= 8; n++ {
			for _, spare := range []int64{10, -10} {
				h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 1, map[string]*sched.Table{"a": sent(t, "a", 1e6, 0, input), "b": sent(t, "b", 1e6, 0, input)})
				h.push("b", 1, 1, 1e9)
				l, _ := h.ask(sched.Event{})
				l[0].Since = c.slow * input // its inputs had arrived
				h.now = 2e6
				h.end(l[0])
				within := c.slow*input*n + 1e6*(n+1)/2 + spare
				if c.before {
					h.push("b", 1, 1, 1e9)
					if l, _ := h.ask(sched.Event{}); len(l) != 1 {
						t.Fatal("the one before was not launched")
					}
					within += c.slow * input
				}
				h.push("a", 1, 8, within)
				want := n
				if spare < 0 {
					want--
				}
				got := int64(0)
				if l, _ := h.ask(sched.Event{}); len(l) > 0 {
					got = int64(len(l[0].Requests))
				}
				if got != want {
					t.Errorf("%s, %d ns: a batch of %d, expected %d", c.what, within, got, want)
				}
			}
		}
	}
}

// A request of high priority that is given up reduces the cap, like one that is late.
func TestDropTakesTheCapBack(t *testing.T) {
	for _, drop := range []int{0, 1} {
		h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 1, map[string]*sched.Table{"b": shared(t, "b", 1e6, 0.29), "c": shared(t, "c", 1e6, 0.5), "high": shared(t, "high", 1e6, 0.1)})
		h.now = 2e9 // the cap is 0.8 by now
		h.push("c", 0, 1, 1e9)
		h.ask(sched.Event{})
		h.push("high", 1, drop, 0.9e6)
		if _, dropped := h.ask(sched.Event{}); dropped != drop {
			t.Fatalf("%d dropped, expected %d", dropped, drop)
		}
		h.push("b", 0, 1, 1e9)
		if l, _ := h.ask(sched.Event{}); len(l) != 1-drop {
			t.Errorf("%d of high priority dropped: %d launched", drop, len(l))
		}
	}
}

// One of low priority does not.
func TestLowDoesNotTakeTheCapBack(t *testing.T) {
	tables := map[string]*sched.Table{"b": shared(t, "b", 1e6, 0.29), "c": shared(t, "c", 1e6, 0.5), "low": shared(t, "low", 1e6, 0.01)}
	for _, late := range []bool{false, true} {
		h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 1, tables)
		h.now = 2e9 // the cap is 0.8 by now
		if late {
			h.push("low", 0, 1, 2e6)
			l, _ := h.ask(sched.Event{})
			h.now += 3e6
			h.end(l[0])
		} else {
			h.push("low", 0, 1, 0.9e6)
			if _, dropped := h.ask(sched.Event{}); dropped != 1 {
				t.Fatalf("%d dropped", dropped)
			}
		}
		h.push("c", 0, 1, 1e9)
		h.ask(sched.Event{})
		h.push("b", 0, 1, 1e9)
		if l, _ := h.ask(sched.Event{}); len(l) != 1 {
			t.Errorf("late %v: low priority takes the cap back", late)
		}
	}
}

// A request is given up if its input alone makes it late: 1 ms of work after 0.5 ms of input.
func TestDropCountsInputs(t *testing.T) {
	for within, want := range map[int64]int{1_499_000: 1, 1_501_000: 0} {
		h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 1, map[string]*sched.Table{"a": sent(t, "a", 1e6, 0, 500e3)})
		h.push("a", 1, 1, within)
		if _, dropped := h.ask(sched.Event{}); dropped != want {
			t.Errorf("within %d ns: %d dropped, expected %d", within, dropped, want)
		}
	}
}

// violate() uses the coefficient of the priority that is slowed. By hand: half of what e^0.3 adds, 1.175 ms.
func TestViolateByPriority(t *testing.T) {
	tables := map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.3), "b": shared(t, "b", 1e6, 0.3)}
	for _, c := range []struct {
		priority int
		within   int64
		launched int
	}{{1, 1_176_000, 1}, {1, 1_174_000, 0}, {0, 1_300_000, 0}, {0, 1_351_000, 1}} {
		m := plain()
		m.P[6+predict.Resources] = 0.5 // for high priority
		h := newHand(t, &sched.Strait{Model: m, Frozen: true, Low: 1}, 1, tables)
		h.push("a", c.priority, 1, c.within)
		h.ask(sched.Event{})
		h.push("b", 0, 1, 1e9)
		if l, _ := h.ask(sched.Event{}); len(l) != c.launched {
			t.Errorf("beside priority %d, within %d ns: %d launched", c.priority, c.within, len(l))
		}
	}
}

// Sharing with one batch of low priority at a time delays the next one of low priority, and no other.
func TestOneLow(t *testing.T) {
	h := newHand(t, &sched.Sharing{Limit: 3, Lows: 1}, 1, map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.1), "b": shared(t, "b", 1e6, 0.1)})
	h.push("a", 0, 1, 1e9)
	first, _ := h.ask(sched.Event{})
	h.push("b", 0, 1, 1e9)
	if l, _ := h.ask(sched.Event{}); len(first) != 1 || len(l) != 0 {
		t.Fatalf("%d, then %d of low priority launched", len(first), len(l))
	}
	h.push("b", 1, 1, 1e9)
	if l, _ := h.ask(sched.Event{}); len(l) != 1 || l[0].Priority != 1 {
		t.Fatalf("high priority beside one of low: %+v", l)
	}
	h.now = 1e6
	if l, _ := h.end(first[0]); len(l) != 1 || l[0].Priority != 0 {
		t.Errorf("the next of low priority: %+v", l)
	}
}

// A batch whose requests were all given up may end in the same event in which another batch passes an exit.
func TestABatchGoesWhileAnotherPasses(t *testing.T) {
	h := newHand(t, &sched.Sharing{Limit: 3}, 1, map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.1), "b": shared(t, "b", 1e6, 0.1)})
	h.push("a", 0, 1, 1e9)
	h.push("b", 0, 1, 1e9)
	l, _ := h.ask(sched.Event{})
	if len(l) != 2 {
		t.Fatalf("%d launched", len(l))
	}
	h.now = 1e6
	h.s.Devices[0].Launches = l[1:]
	h.ask(sched.Event{Kind: sched.SegmentDone, Launch: l[1].ID, Took: h.now})
	h.push("a", 0, 1, 1e9)
	if l, _ = h.ask(sched.Event{}); len(l) != 1 {
		t.Errorf("%d launched beside one that goes on", len(l))
	}
}

// The baselines launch high priority first even if it arrived later, and give up requests that have no time left,
// unless they keep all.
func TestSharingOrderAndDrop(t *testing.T) {
	tables := map[string]*sched.Table{"low": shared(t, "low", 1e6, 0.1), "high": shared(t, "high", 1e6, 0.1)}
	for _, keep := range []bool{false, true} {
		h := newHand(t, &sched.Sharing{Limit: 1, Keep: keep}, 1, tables)
		h.push("low", 0, 1, 1e9)
		h.now = 1000
		h.push("high", 1, 1, 1e9)
		l, _ := h.ask(sched.Event{})
		if len(l) != 1 || l[0].Priority != 1 {
			t.Fatalf("one place, both wait: %+v", l)
		}
		h.push("high", 1, 1, 0.9e6) // takes 1 ms
		l, dropped := h.ask(sched.Event{})
		if want := map[bool]int{false: 1}[keep]; dropped != want || len(l) != 0 {
			t.Errorf("no time left, keep %v: %d dropped, expected %d", keep, dropped, want)
		}
	}
}

// Reactive sharing: three batches of low priority on a device, one fewer for each batch of high priority that ends
// late, but at least one; at the next multiple of 200 ms three again.
func TestReactive(t *testing.T) {
	tables := map[string]*sched.Table{"low": shared(t, "low", 1e6, 0.1), "high": shared(t, "high", 1e6, 0.1)}
	for late, want := range []int{3, 2, 1, 1, 1} {
		h := newHand(t, &sched.Sharing{Limit: 4, Reactive: true, BMax: 1}, 1, tables)
		h.now = 210e6
		for range late {
			h.push("high", 1, 1, 2e6)
			l, _ := h.ask(sched.Event{})
			h.now += 3e6
			h.end(l[0])
		}
		h.push("low", 0, 5, 1e12)
		l, _ := h.ask(sched.Event{})
		if len(l) != want {
			t.Errorf("%d late: %d of low priority launched, expected %d", late, len(l), want)
		}
		h.now = 399e6
		if l, _ = h.ask(sched.Event{}); len(l) != 0 {
			t.Errorf("%d late: %d more before 400 ms", late, len(l))
		}
		h.now = 400e6
		if l, _ = h.ask(sched.Event{}); len(l) != 3-want {
			t.Errorf("%d late: %d more at 400 ms, expected %d", late, len(l), 3-want)
		}
	}
}

// No request of the same or higher priority is made late. Low priority is, if high priority needs it. A request that
// will be late anyway does not prevent others.
func TestViolate(t *testing.T) {
	tables := map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.3), "b": shared(t, "b", 1e6, 0.3)}
	for _, c := range []struct {
		what          string
		first, second int
		within        int64
		launched      int
	}{
		{"room for both", 1, 1, 2e6, 1},
		{"high beside high that would be late", 1, 1, 1.2e6, 0},
		{"low beside high that would be late", 1, 0, 1.2e6, 0},
		{"low beside low that would be late", 0, 0, 1.2e6, 0},
		{"high beside low that would be late", 0, 1, 1.2e6, 1},
	} {
		h := newHand(t, &sched.Strait{Model: plain(), Frozen: true, Low: 1}, 1, tables)
		h.push("a", c.first, 1, c.within)
		if l, _ := h.ask(sched.Event{}); len(l) != 1 {
			t.Fatal("the first was not launched")
		}
		h.push("b", c.second, 1, 1e9)
		if l, _ := h.ask(sched.Event{}); len(l) != c.launched {
			t.Errorf("%s: %d launched", c.what, len(l))
		}
	}
	h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 1, tables)
	h.push("a", 1, 1, 1.2e6)
	h.ask(sched.Event{})
	h.now = 1.5e6 // late, and still running
	h.push("b", 1, 1, 1e9)
	if l, _ := h.ask(sched.Event{}); len(l) != 1 {
		t.Error("somebody late anyway keeps others off")
	}
}

// Half of a batch is done: only the rest of it is slowed. By hand: 1 ms alone, 0.5 ms done, the rest slowed by e^0.3
// ends 0.675 ms later.
func TestRestIsSlowed(t *testing.T) {
	tables := map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.3), "b": shared(t, "b", 1e6, 0.3)}
	for _, c := range []struct {
		within   int64
		launched int
	}{{1_174_000, 0}, {1_176_000, 1}} {
		h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 1, tables)
		h.push("a", 1, 1, c.within)
		h.ask(sched.Event{})
		h.now = 0.5e6
		h.push("b", 1, 1, 1e9)
		if l, _ := h.ask(sched.Event{}); len(l) != c.launched {
			t.Errorf("within %d ns: %d launched", c.within, len(l))
		}
	}
}

// What a batch has run beside, by hand: 0.5 ms alone, 1 ms beside 0.4; the other one 1 ms beside 0.3 and 0.5 ms
// alone. Also how much slower it was.
func TestRunsBeside(t *testing.T) {
	var got []sched.Finished
	p := &sched.Strait{Model: plain(), Frozen: true, Ended: func(f *sched.Finished) { got = append(got, *f) }}
	h := newHand(t, p, 1, map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.3), "b": shared(t, "b", 1e6, 0.4)})
	h.push("a", 1, 1, 1e9)
	a, _ := h.ask(sched.Event{})
	h.now = 0.5e6
	h.push("b", 1, 1, 1e9)
	b, _ := h.ask(sched.Event{})
	h.now = 1.5e6
	h.end(a[0])
	h.now = 2e6
	h.end(b[0])
	if len(got) != 2 {
		t.Fatalf("%d batches have ended", len(got))
	}
	for i, want := range []struct{ beside, atLaunch, own, slow, predicted float64 }{
		{0.4 * 1 / 1.5, 0, 0.3, 1.5, math.Exp(0.4 * 1 / 1.5)}, {0.3 * 1 / 1.5, 0.3, 0.4, 1.5, math.Exp(0.2)},
	} {
		f := &got[i]
		for what, v := range map[string][2]float64{
			"beside": {f.Others[predict.DRAM], want.beside}, "at the launch": {f.AtLaunch[predict.DRAM], want.atLaunch},
			"own": {f.Own[predict.DRAM], want.own}, "slowdown": {f.Actual, want.slow}, "predicted": {f.Predicted, want.predicted},
		} {
			if math.Abs(v[0]-v[1]) > 1e-9 {
				t.Errorf("batch %d, %s: %g, expected %g", i, what, v[0], v[1])
			}
		}
	}
}

// Of several devices, the one is used where the batch is expected to end first. A request that would be late even
// alone is dropped. High priority goes first.
func TestChoice(t *testing.T) {
	tables := map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.3), "b": shared(t, "b", 1e6, 0.6)}
	h := newHand(t, &sched.Strait{Model: plain(), Frozen: true}, 3, tables)
	for _, want := range []int{0, 1, 2} { // an idle one each time
		h.push("b", 1, 1, 1e9)
		if l, _ := h.ask(sched.Event{}); len(l) != 1 || l[0].Device != want {
			t.Fatalf("launched %+v, expected on device %d", l, want)
		}
	}
	h.push("a", 1, 1, 1e9)
	h.ask(sched.Event{}) // on device 0
	h.now = 1e5
	h.end(h.s.Devices[1].Launches[0])
	h.push("a", 0, 1, 1e9)
	h.push("b", 1, 1, 1e9)
	h.push("b", 1, 1, 0.9e6) // cannot be in time
	l, dropped := h.ask(sched.Event{})
	if dropped != 1 {
		t.Errorf("%d dropped, expected the one that cannot end in time", dropped)
	}
	if len(l) != 2 || l[0].Network != "b" || l[0].Device != 1 || l[1].Network != "a" {
		t.Errorf("launched %+v", l)
	}
}

// pool is a device with several places whose launches slow one another: each runs at 1 / (1 + use of the others).
type pool struct {
	tables map[string]*sched.Table
	now    int64
	runs   []poolRun
	link   []poolCopy // transfers of inputs, one after the other
	free   int64
}

type poolCopy struct {
	w  *device.Work
	at int64
}

type poolRun struct {
	w    *device.Work
	left float64
	use  float64
}

func (p *pool) Info() device.Info {
	return device.Info{Name: "pool", MaxBatch: 8, Places: 4, Slots: 64, Through: true, ClockHz: 1e9, Priorities: 2}
}
func (*pool) Release(device.RequestID)         {}
func (*pool) Close() error                     { return nil }
func (*pool) Abort(int64, device.WorkID, bool) {}
func (p *pool) Begin(_ context.Context, now int64, w *device.Work) (bool, error) {
	p.pass(now)
	if t := p.tables[w.Network]; w.Kind == device.Copy && t != nil && len(t.Copies) > 0 {
		p.free = max(p.free, now) + t.Copies[0]
		p.link = append(p.link, poolCopy{w, p.free})
		return false, nil
	}
	if w.Kind != device.Run {
		return true, nil
	}
	t, n := p.tables[w.Launch.Network], len(w.Launch.Requests)
	p.runs = append(p.runs, poolRun{w, float64(t.At(0, 0, n)), t.Use[0][n-1][predict.DRAM]})
	return false, nil
}

func (p *pool) rate(i int) float64 {
	others := 0.0
	for j := range p.runs {
		if j != i {
			others += p.runs[j].use
		}
	}
	return 1 / (1 + others)
}

func (p *pool) pass(now int64) {
	dt := float64(now - p.now)
	for i := range p.runs {
		p.runs[i].left -= dt * p.rate(i)
	}
	p.now = max(p.now, now)
}

func (p *pool) Next() (int64, bool) {
	at := int64(math.MaxInt64)
	for i := range p.runs {
		at = min(at, p.now+int64(math.Ceil(max(0, p.runs[i].left)/p.rate(i))))
	}
	if len(p.link) > 0 {
		at = min(at, p.link[0].at)
	}
	return at, len(p.runs)+len(p.link) > 0
}

func (p *pool) Take(now int64) *device.Event {
	p.pass(now)
	if len(p.link) > 0 && p.link[0].at <= now {
		w := p.link[0].w
		p.link = p.link[1:]
		return &device.Event{Kind: device.Done, Work: w.ID, Over: true}
	}
	for i := range p.runs {
		if p.runs[i].left > 1e-6 {
			continue
		}
		w := p.runs[i].w
		p.runs = slices.Delete(p.runs, i, i+1)
		rep := &device.Report{}
		for _, id := range w.Launch.Requests {
			rep.Results = append(rep.Results, device.Result{Request: id, Exits: []device.ExitResult{{}}})
		}
		return &device.Event{Kind: device.Passed, Work: w.ID, Over: true, Report: rep}
	}
	return nil
}

// witness computes independently, from what the engine shows, whether batches launched by Strait are expected to end
// in time, and whether low priority stays below the cap.
type witness struct {
	*sched.Strait
	t        *testing.T
	launches int
	held     int   // batches of low priority that run beside others of low priority
	missed   int64 // when a request of high priority was last late or dropped
	mine     []begun
	free     [3]int64 // when a device's link is free
}

// begun is a launch that has not been seen to end.
type begun struct {
	id       device.LaunchID // 0: not shown yet
	device   int
	first    device.RequestID
	priority int
	deadline int64
}

// late reports whether the event means that a request of high priority was late.
func (w *witness) late(now int64, s *sched.State, ev *sched.Event) {
	for i := range w.mine {
		for _, v := range s.Devices[w.mine[i].device].Launches {
			if len(v.Requests) > 0 && v.Requests[0].ID == w.mine[i].first {
				w.mine[i].id = v.ID
			}
		}
	}
	if ev.Kind != sched.SegmentDone {
		return
	}
	at := slices.IndexFunc(w.mine, func(b begun) bool { return b.id == ev.Launch })
	if at < 0 {
		at = slices.IndexFunc(w.mine, func(b begun) bool { return b.id == 0 && b.device == ev.Device })
	}
	if at < 0 {
		w.t.Errorf("at %d: launch %d ends, which was never begun", now, ev.Launch)
		return
	}
	if b := w.mine[at]; b.priority > 0 && now > b.deadline {
		w.missed = now
	}
	w.mine = slices.Delete(w.mine, at, at+1)
}

func (w *witness) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	w.late(now, s, ev)
	buf = w.Strait.Decide(now, s, ev, buf)
	for _, a := range buf {
		if a.Kind == sched.Drop {
			for i := range s.Queue.Len() {
				if r := s.Queue.At(i); r.ID == a.Request && r.Priority > 0 {
					w.missed = now
				}
			}
		}
	}
	highest := sched.Cap(now-w.missed, sched.CapLow)
	type load struct{ all, low float64 }
	busy := make([]load, len(s.Devices))
	count := make([]int, len(s.Devices))
	add := func(dev int, t *sched.Table, n, priority int) {
		u := t.Use[0][n-1][predict.DRAM]
		busy[dev].all += u
		if priority == 0 {
			busy[dev].low += u
		}
		count[dev]++
	}
	for d := range s.Devices {
		for _, v := range s.Devices[d].Launches {
			add(d, s.Devices[d].Table(v.Network), len(v.Requests), v.Priority)
		}
	}
	for _, a := range buf {
		if a.Kind != sched.Launch {
			continue
		}
		w.launches++
		tab, n := s.Devices[a.Device].Table(a.Network), len(a.Requests)
		var own, others predict.Use
		own = tab.Use[0][n-1]
		others[predict.DRAM] = busy[a.Device].all / 2
		if len(tab.Copies) > 0 {
			w.free[a.Device] = max(w.free[a.Device], now) + tab.Copies[n-1]
		}
		end := max(now, w.free[a.Device]) + int64(w.Model.Interference(others, own, a.Priority)*float64(tab.At(0, 0, n)))
		for i := range s.Queue.Len() {
			if r := s.Queue.At(i); slices.Contains(a.Requests, r.ID) && end > r.Deadline+1 {
				w.t.Errorf("at %d: request %d is due at %d, its batch of %d is expected to end at %d", now, r.ID, r.Deadline, n, end)
			}
		}
		if count[a.Device] >= 4 {
			w.t.Errorf("at %d: a fifth batch on device %d", now, a.Device)
		}
		if low := busy[a.Device].low; a.Priority == 0 && low > 0 {
			if w.held++; low+own[predict.DRAM] > highest+1e-9 {
				w.t.Errorf("at %d: low priority uses %g of device %d, with this one %g more; %g is allowed since %d", now, low, a.Device, own[predict.DRAM], highest, w.missed)
			}
		}
		b := begun{device: a.Device, first: a.Requests[0], priority: a.Priority, deadline: math.MaxInt64}
		for i := range s.Queue.Len() {
			if r := s.Queue.At(i); slices.Contains(a.Requests, r.ID) {
				b.deadline = min(b.deadline, r.Deadline)
			}
		}
		w.mine = append(w.mine, b)
		add(a.Device, tab, n, a.Priority)
	}
	return buf
}

var (
	straitSeed = flag.Uint64("strait.seed", 0, "of the first random load")
	straitN    = flag.Int("strait.n", 30, "random loads")
)

// A batch that meet() rejects never starts, with random loads of random networks on one to three devices; and all
// requests end.
func TestNeverStartsWhatMeetRefuses(t *testing.T) {
	t.Logf("--strait.seed %d --strait.n %d", *straitSeed, *straitN)
	held := 0
	defer func() {
		if held < *straitN {
			t.Errorf("low priority beside low priority was launched %d times in all", held)
		}
	}()
	for seed := *straitSeed; seed < *straitSeed+uint64(*straitN); seed++ {
		rng := rand.New(rand.NewPCG(seed, 11))
		tables := map[string]*sched.Table{}
		var networks []engine.Network
		n := 1 + rng.IntN(3)
		for i := range 2 + rng.IntN(4) {
			name := string(rune('a' + i))
			tables[name] = shared(t, name, 500e3+rng.Int64N(2e6), 0.1+0.6*rng.Float64())
			if seed%2 == 1 {
				tables[name] = sent(t, name, tables[name].At(0, 0, 1), tables[name].Use[0][0][predict.DRAM], 100e3+rng.Int64N(400e3))
			}
			nw := engine.Network{Name: name}
			for range n {
				nw.Tables = append(nw.Tables, tables[name])
			}
			networks = append(networks, nw)
		}
		w := &witness{Strait: &sched.Strait{Places: 4, Form: 0.2 * rng.Float64()}, t: t}
		cfg := engine.Config{Networks: networks, Policy: w, Inputs: engine.NoInputs, Clock: engine.Measured, Keep: engine.Records}
		for range n {
			cfg.Devices = append(cfg.Devices, &pool{tables: tables})
		}
		src := &mixed{rng: rng, n: 300, networks: len(networks), gap: 2e6 / float64(n) * (0.3 + rng.Float64())}
		cfg.Source = src
		res, err := engine.Run(context.Background(), cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		held += w.held
		if w.launches < 20 {
			t.Errorf("seed %d: %d launches", seed, w.launches)
		}
		for i := range res.Records {
			if e := res.Records[i].Ending; e != sched.OnTime && e != sched.Late && e != sched.Dropped {
				t.Errorf("seed %d: request %d ends as %s", seed, i+1, e)
			}
		}
	}
}

// Answers depend only on the state and on what was learned.
func TestStraitAnswersFollowFromTheState(t *testing.T) {
	for _, p := range []sched.Policy{
		&sched.Strait{Places: 4, Form: 0.1}, &sched.Sharing{Label: "static", Limit: 3, Form: 0.1}, &sched.Sharing{Label: "reactive", Limit: 4, Reactive: true},
	} {
		tables := map[string]*sched.Table{}
		var networks []engine.Network
		for i := range 4 {
			name := string(rune('a' + i))
			tables[name] = shared(t, name, int64(1+i)*700e3, 0.3)
			networks = append(networks, engine.Network{Name: name, Tables: []*sched.Table{tables[name], tables[name]}})
		}
		asked := &enginetest.Twice{Policy: p, T: t}
		if _, err := engine.Run(context.Background(), engine.Config{
			Networks: networks, Policy: asked, Inputs: engine.NoInputs, Clock: engine.Measured, Keep: engine.Counts,
			Devices: []device.Device{&pool{tables: tables}, &pool{tables: tables}},
			Source:  &mixed{rng: rand.New(rand.NewPCG(5, 5)), n: 600, networks: 4, gap: 600e3},
		}); err != nil {
			t.Fatal(err)
		}
		if asked.Asked < 600 {
			t.Errorf("%s was asked %d times", p.Name(), asked.Asked)
		}
	}
}

// mixed is a list of requests of both priorities for random networks.
type mixed struct {
	rng      *rand.Rand
	n        int
	networks int
	gap      float64
	at       int64
	task     sched.Task
}

func (m *mixed) Next() (sched.Item, bool) {
	if m.n == 0 {
		return sched.Item{}, false
	}
	m.n--
	m.at += int64(m.rng.ExpFloat64() * m.gap)
	net := m.rng.IntN(m.networks)
	m.task = sched.Task{ID: uint64(m.n + 1), Network: string(rune('a' + net)), Arrived: m.at, Created: m.at, Deadline: m.at + 4e6 + int64(net)*5e6, Priority: net % 2, Samples: 1, Theta: 2}
	return sched.Item{At: m.at, Task: &m.task}, true
}

func (*mixed) Ended(sched.Time, *sched.Task, sched.Ending) []sched.Item { return nil }

// After warm-up a decision allocates nothing, including its launches.
func TestStraitDoesNotAllocate(t *testing.T) {
	for _, p := range []sched.Policy{&sched.Strait{}, &sched.Sharing{Limit: 3}, &sched.Sharing{Limit: 4, Reactive: true}} {
		h := newHand(t, p, 2, map[string]*sched.Table{"a": shared(t, "a", 1e6, 0.3), "b": shared(t, "b", 1e6, 0.3)})
		buf := make([]sched.Action, 0, 64)
		ev := new(sched.Event)
		h.push("a", 1, 12, 1e9)
		h.push("b", 0, 12, 1e9)
		if n := testing.AllocsPerRun(100, func() { buf = p.Decide(0, &h.s, ev, buf[:0]) }); n != 0 {
			t.Errorf("%s allocates %g times a decision", p.Name(), n)
		}
	}
}

// BenchmarkStrait measures a decision with 40 waiting requests of 12 models and four batches on each device.
func BenchmarkStrait(b *testing.B) {
	for _, devices := range []int{1, 4} {
		tables := map[string]*sched.Table{}
		for i := range 12 {
			n := string(rune('a' + i))
			tables[n] = shared(b, n, 1e6, 0.3)
		}
		p := &sched.Strait{}
		h := newHand(b, p, devices, tables)
		for i := range 8 * devices {
			h.push(string(rune('a'+i%12)), i%2, 1, 1e9)
			h.ask(sched.Event{})
		}
		for i := range 40 {
			h.push(string(rune('a'+i%12)), i%2, 1, 100e6)
		}
		var buf []sched.Action
		ev := new(sched.Event)
		b.Run([]string{1: "gpu", 4: "gpus"}[devices], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = p.Decide(h.now, &h.s, ev, buf[:0])
			}
		})
	}
}
