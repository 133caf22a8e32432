// A test device with everything that the contract allows, under random policies: four places, partitions, priorities,
// copies, aborts inside segments, and interference, in virtual and in real time.

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// chip is a device in virtual time whose launches slow each other down: with n running, each has 1/n of its speed. A
// kernel takes kernelNs; a segment has kernels of them. A copy takes copyNs, one after the other. It records its work
// independently, and reports what was wrong.
type chip struct {
	name     string
	segments int
	through  bool
	slots    int

	now    int64
	works  []*chipWork
	copies []*chipWork // in order; the first one is under way
	there  map[device.RequestID]bool
	events []device.Event
	outs   map[device.WorkID]int // how often each piece of work has ended
	wrong  []string
	exit   func(id device.RequestID) int
	ran    map[device.RequestID][]int // kernels that ran to their end, by request: segment * kernels + kernel
	fail   func(id device.WorkID) error
	most   int // launches at the same time
	// beside is the time for which launches ran beside others.
	beside int64
}

const (
	kernels  = 4
	kernelNs = 1000
	copyNs   = 700
	tiny     = 1e-3 // ns, below which nothing is left: sums are rounded
)

type chipWork struct {
	w        *device.Work
	stage    int     // kernels done since the start of the network
	left     float64 // time left of the running kernel, or of the copy
	stopping bool
	batch    []device.RequestID
	theta    []float32
}

func newChip(name string, segments int, through bool) *chip {
	return &chip{
		name: name, segments: segments, through: through, slots: 24, there: map[device.RequestID]bool{},
		outs: map[device.WorkID]int{}, ran: map[device.RequestID][]int{},
		exit: func(id device.RequestID) int { return int(uint64(id) * 2654435761 % uint64(segments)) },
	}
}

func (c *chip) Info() device.Info {
	return device.Info{
		Name: c.name, Label: "simulated", MaxBatch: 4, Slots: c.slots, Places: 4, Units: 8, UnitAlign: 2, Priorities: 2,
		Preempt: device.PreemptKernel, Through: c.through, ClockHz: 1e9,
	}
}

func (c *chip) complain(format string, a ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, a...))
}

// advance advances the time; there is no event before that time.
func (c *chip) advance(now int64) {
	d := float64(now - c.now)
	if now < c.now {
		c.complain("time runs backwards: %d after %d", now, c.now)
	}
	for _, x := range c.works {
		x.left -= d / float64(len(c.works))
	}
	if len(c.works) > 1 {
		c.beside += now - c.now
	}
	if len(c.copies) > 0 {
		c.copies[0].left -= d
	}
	c.now = now
}

func (c *chip) Begin(_ context.Context, now device.Time, w *device.Work) (bool, error) {
	c.advance(now)
	if _, ok := c.outs[w.ID]; ok {
		c.complain("work %d begins twice", w.ID)
	}
	c.outs[w.ID] = 0
	switch w.Kind {
	case device.Copy:
		if c.there[w.Request] {
			c.complain("request %d takes two slots", w.Request)
		}
		if len(c.there) >= c.slots {
			c.complain("more than %d slots", c.slots)
		}
		if in, err := w.Input(); err != nil || len(in) != 1 {
			c.complain("input of %d: %v", w.Request, err)
		}
		c.there[w.Request] = true
		c.copies = append(c.copies, &chipWork{w: w, left: copyNs})
		return false, nil
	case device.Reset:
		c.copies = append(c.copies, &chipWork{w: w, left: float64(w.Expect)})
		for _, x := range c.works {
			if w.Units.Meets(x.w.Launch.Units) {
				c.complain("reset of %s under launch %d", w.Units, x.w.Launch.ID)
			}
		}
		return false, nil
	case device.Load, device.Unload:
		c.copies = append(c.copies, &chipWork{w: w, left: 5 * copyNs})
		return false, nil
	}
	l := &w.Launch
	for _, x := range c.works {
		o := &x.w.Launch
		if l.Units.Meets(o.Units) && (l.Exclusive || o.Exclusive) {
			c.complain("launches %d and %d meet on %s and %s", l.ID, o.ID, l.Units, o.Units)
		}
		for _, id := range l.Requests {
			if slices.Contains(x.batch, id) {
				c.complain("request %d runs twice", id)
			}
		}
	}
	for _, id := range l.Requests {
		if !c.there[id] {
			c.complain("request %d has no slot", id)
		}
	}
	info := c.Info()
	if !info.Legal(l.Units) {
		c.complain("units %s", l.Units)
	}
	x := &chipWork{w: w, stage: l.First*kernels + l.Kernel, left: kernelNs, batch: slices.Clone(l.Requests)}
	for i := range l.Requests {
		x.theta = append(x.theta, l.ThetaAt(i, l.First))
	}
	c.works = append(c.works, x)
	if c.most = max(c.most, len(c.works)); c.most > info.Places {
		c.complain("%d launches at once", c.most)
	}
	return false, nil
}

func (c *chip) Abort(now device.Time, id device.WorkID, kill bool) {
	c.advance(now)
	for i, x := range c.works {
		if x.w.ID == id && !kill {
			x.stopping = true
		} else if x.w.ID == id {
			c.stop(i)
			return
		}
	}
}

// stop ends a launch at the last kernel that has run to its end.
func (c *chip) stop(i int) {
	x := c.works[i]
	c.works = slices.Delete(c.works, i, i+1)
	c.end(device.Event{Kind: device.Aborted, Work: x.w.ID, Resume: device.ResumePoint{Segment: x.stage / kernels, Kernel: x.stage % kernels}})
}

func (c *chip) end(e device.Event) {
	e.Over = true
	c.outs[e.Work]++
	c.events = append(c.events, e)
}

func (c *chip) Release(id device.RequestID) { delete(c.there, id) }
func (c *chip) Close() error                { return nil }

func (c *chip) Next() (device.Time, bool) {
	if len(c.events) > 0 {
		return c.now, true
	}
	due, ok := int64(0), false
	at := func(left float64) {
		t := c.now + max(0, int64(math.Ceil(left-tiny)))
		if !ok || t < due {
			due, ok = t, true
		}
	}
	for _, x := range c.works {
		at(x.left * float64(len(c.works)))
	}
	if len(c.copies) > 0 {
		at(c.copies[0].left)
	}
	return due, ok
}

func (c *chip) Take(now device.Time) *device.Event {
	c.advance(now)
	for len(c.events) == 0 {
		if len(c.copies) > 0 && c.copies[0].left <= tiny {
			w := c.copies[0].w
			c.copies = c.copies[1:]
			c.end(device.Event{Kind: device.Done, Work: w.ID, Took: copyNs})
			continue
		}
		i := slices.IndexFunc(c.works, func(x *chipWork) bool { return x.left <= tiny })
		if i < 0 {
			return nil
		}
		c.kernel(i)
	}
	e := c.events[0]
	c.events = c.events[1:]
	return &e
}

// kernel records the end of a launch's kernel.
func (c *chip) kernel(i int) {
	x := c.works[i]
	if c.fail != nil {
		if err := c.fail(x.w.ID); err != nil {
			c.works = slices.Delete(c.works, i, i+1)
			if device.ScopeOf(err) == device.LoseDevice {
				for len(c.works) > 0 { // all running work is lost too, and is reported as stopped
					c.stop(0)
				}
			}
			c.end(device.Event{Kind: device.Failed, Work: x.w.ID, Err: err})
			return
		}
	}
	for _, id := range x.batch {
		c.ran[id] = append(c.ran[id], x.stage)
	}
	x.stage++
	x.left = kernelNs
	if x.stage%kernels != 0 {
		if x.stopping {
			c.stop(i)
		}
		return
	}
	s := x.stage/kernels - 1
	e := device.Event{Kind: device.Passed, Work: x.w.ID, Segment: s, Report: &device.Report{}}
	var batch []device.RequestID
	for k, id := range x.batch {
		r := device.Result{Request: id, Taken: -1, Exits: []device.ExitResult{{Exit: s, Class: int(id % 10), Confidence: 1, Raw: []int16{int16(s)}}}}
		if s == c.segments-1 || c.exit(id) <= s && x.theta[k] <= 1 {
			r.Taken = s
		} else {
			batch = append(batch, id)
		}
		e.Report.Results = append(e.Report.Results, r)
	}
	x.theta = x.theta[:0]
	for k, id := range x.w.Launch.Requests {
		if slices.Contains(batch, id) && s+1 <= x.w.Launch.Last {
			x.theta = append(x.theta, x.w.Launch.ThetaAt(k, s+1))
		}
	}
	x.batch = batch
	if len(batch) == 0 || s == x.w.Launch.Last {
		c.works = slices.Delete(c.works, i, i+1)
		c.end(e)
		return
	}
	c.events = append(c.events, e)
	if x.stopping {
		c.stop(i)
	}
}

// wild is a policy that performs legal actions at random: launches on any units, exclusively or not, stops, kills,
// resumes elsewhere, assigns ahead, loads and unloads, plans, advises.
type wild struct {
	rng      *rand.Rand
	assigned bool // every request is assigned first
	planned  int
	plans    int
	// stuck is called for a launch that should have continued and now never would.
	stuck func(error)
}

type nap struct{ find func(context.Context) any }

func (n nap) Find(ctx context.Context) any { return n.find(ctx) }
func (nap) Cost() sched.Time               { return 50_000_000 }

func (*wild) Name() string { return "wild" }

func (w *wild) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if ev.Kind == sched.Planned {
		w.planned++
	}
	given := map[device.RequestID]bool{}
	for d := range s.Devices {
		for _, l := range s.Devices[d].Launches {
			// The policy is called once when a launch reaches an exit; then the launch continues or was stopped.
			if l.Phase == sched.AtExit && l.Reached < l.Last && !(ev.Kind == sched.SegmentDone && ev.Launch == l.ID) {
				w.stuck(fmt.Errorf("launch %d stands at exit %d of %d at %d ns, at a later event (%v of launch %d)", l.ID, l.Reached, l.Last, now, ev.Kind, ev.Launch))
			}
		}
	}
	for d := range s.Devices {
		v := &s.Devices[d]
		if v.Down {
			continue
		}
		held, busy := v.Places, 0
		shared, exclusive := device.Units{}, v.Lost
		for _, l := range v.Launches {
			if l.Phase == sched.Running || l.Phase == sched.Stopping || l.Phase == sched.AtExit && l.Reached < l.Last {
				held--
				busy++
				if l.Exclusive {
					exclusive = exclusive.Union(l.Units)
				} else {
					shared = shared.Union(l.Units)
				}
			}
		}
		place := func() (device.Units, bool, bool) {
			free := device.UnitRange(0, 8).Without(exclusive)
			var u device.Units
			for i := 0; i < 8; i += 2 {
				if free.Has(i) && w.rng.IntN(2) == 0 {
					u = u.Union(device.UnitRange(i, 2))
				}
			}
			if u.Empty() || held == 0 {
				return u, false, false
			}
			ex := w.rng.IntN(3) == 0 && (shared.Empty() || !u.Meets(shared))
			held--
			if ex {
				exclusive = exclusive.Union(u)
			} else {
				shared = shared.Union(u)
			}
			return u, ex, true
		}
		for _, l := range v.Launches {
			switch {
			case l.Phase == sched.Running && w.rng.IntN(6) == 0 && ev.Kind != sched.Arrival && len(l.Requests) > 0:
				kind := sched.Preempt
				if w.rng.IntN(2) == 0 {
					kind = sched.Abort
				}
				buf = append(buf, sched.Action{Kind: kind, Launch: l.ID})
			case l.Phase == sched.Halted || l.Phase == sched.AtExit && l.Reached == l.Last:
				if u, ex, ok := place(); ok {
					buf = append(buf, sched.Action{Kind: sched.Resume, Launch: l.ID, Last: v.Table(l.Network).Segments() - 1, Units: u, Exclusive: ex})
				}
			}
		}
		if w.assigned {
			room := v.Slots - v.Used
			var ids []device.RequestID
			for i := 0; i < s.Queue.Len() && len(ids) < min(room, 3); i++ {
				if id := s.Queue.At(i).ID; !given[id] && w.rng.IntN(2) == 0 {
					given[id] = true
					ids = append(ids, id)
				}
			}
			if len(ids) > 0 {
				buf = append(buf, sched.Action{Kind: sched.Assign, Device: d, Network: v.Hosted[w.rng.IntN(len(v.Hosted))].Network, Requests: ids})
			}
			if v.Queue.Len() > 0 {
				network, n := v.Queue.At(0).Network, 0
				for n < min(4, v.Queue.Len()) && v.Queue.At(n).Network == network {
					n++
				}
				if u, ex, ok := place(); ok {
					buf = append(buf, sched.Action{
						Kind: sched.Launch, Device: d, Network: network, Count: n, Assigned: true,
						Last: v.Table(network).Segments() - 1, Units: u, Exclusive: ex, Priority: w.rng.IntN(2),
					})
				}
			}
			continue
		}
		var ids []device.RequestID
		for i := 0; i < s.Queue.Len() && len(ids) < min(4, v.Slots-v.Used); i++ {
			if id := s.Queue.At(i).ID; !given[id] {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			continue
		}
		if u, ex, ok := place(); ok {
			for _, id := range ids {
				given[id] = true
			}
			h := v.Hosted[w.rng.IntN(len(v.Hosted))]
			buf = append(buf, sched.Action{Kind: sched.Launch, Device: d, Network: h.Network, Requests: ids, Last: h.Table.Segments() - 1, Units: u, Exclusive: ex})
		}
	}
	if w.plans > 0 && w.rng.IntN(20) == 0 {
		w.plans--
		buf = append(buf, sched.Action{Kind: sched.MakePlan, Plan: nap{func(context.Context) any { return 1 }}},
			sched.Action{Kind: sched.Advise, Advice: &sched.Advice{Rate: 1}})
	}
	if s.Queue.Len() > 0 || slices.ContainsFunc(s.Devices, func(v sched.DeviceView) bool { return v.Queue.Len()+len(v.Launches) > 0 }) {
		buf = append(buf, sched.Action{Kind: sched.Wait, Until: now + 900 + w.rng.Int64N(3000)}) // it may have used no opportunity so far
	}
	return buf
}

func chipTable(t interface{ Fatal(...any) }, network string, segments int) *sched.Table {
	e := enginetest.Linear(segments, 4, kernels*kernelNs, 0)
	for i := range e {
		e[i].Network = network
	}
	tab, err := sched.NewTable(e, network)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// family is a configuration with two members of a family on a number of chips.
func family(t interface{ Fatal(...any) }, chips []*chip, times []int64, p sched.Policy) engine.Config {
	cfg := engine.Config{
		Policy:   p,
		Networks: []engine.Network{{Name: "large@1", Family: "digits"}, {Name: "small@1", Family: "digits"}},
		Inputs:   engine.WordInputs(func(*sched.Request) ([]int16, error) { return []int16{1}, nil }),
		Source: &load.Open{Times: times, Task: func(i int, at int64) sched.Task {
			return sched.Task{Network: "digits", Deadline: at + 1e12, Theta: 0.5, Samples: 1 + i%3}
		}},
	}
	for _, c := range chips {
		cfg.Devices = append(cfg.Devices, c)
		for i := range cfg.Networks {
			cfg.Networks[i].Tables = append(cfg.Networks[i].Tables, chipTable(t, cfg.Networks[i].Name, c.segments))
		}
	}
	return cfg
}

func checkChips(t interface {
	Helper()
	Errorf(string, ...any)
}, chips []*chip, res *engine.Result,
) {
	t.Helper()
	for _, c := range chips {
		for _, s := range c.wrong {
			t.Errorf("%s: %s", c.name, s)
		}
		for id, n := range c.outs {
			if n != 1 {
				t.Errorf("%s: work %d has ended %d times", c.name, id, n)
			}
		}
		if len(c.there)+len(c.works)+len(c.copies) > 0 {
			t.Errorf("%s: %d slots, %d launches, %d copies are left", c.name, len(c.there), len(c.works), len(c.copies))
		}
	}
	for i := range res.Records {
		r := &res.Records[i]
		if r.Exit < 0 {
			continue
		}
		// An aborted and resumed launch ends like an undisturbed one: every kernel up to the exit has run to its end once, in
		// order.
		whole := false
		for _, c := range chips {
			n := (r.Exit + 1) * kernels
			ran := c.ran[r.ID]
			if len(ran) < n || r.Exit != c.exit(r.ID) && r.Exit != c.segments-1 {
				continue // it may have begun here, and failed
			}
			whole = true
			for k, stage := range ran[len(ran)-n:] {
				whole = whole && k == stage
			}
			if whole {
				break
			}
		}
		if !whole {
			for _, c := range chips {
				t.Errorf("request %d, which left at exit %d, ran the kernels %v on %s", r.ID, r.Exit, c.ran[r.ID], c.name)
			}
		}
	}
}

// No place, exclusive unit or slot is taken twice, every piece of work ends once, and every stopped and resumed
// launch ends as an undisturbed one. This holds for all legal actions and all failures, on one or several devices,
// whether launches pass exits by themselves or are begun at each.
func TestContractHolds(t *testing.T) {
	stops, fails, besides := contractHolds(t, 4000, engine.Run)
	least := 10
	if testing.Short() { // a fifth of the cases
		least = 1
	}
	if stops < 10*least || fails < least || besides == 0 {
		t.Errorf("%d launches stopped, %d failures, %d ns beside another: too little to tell anything", stops, fails, besides)
	}
}

// The same in real time, where policies decide on a past state while devices continue. What happens depends on the
// machine: on a slow one no two launches may overlap.
func TestContractHoldsInRealTime(t *testing.T) {
	stops, fails, besides := contractHolds(t, 20_000, engine.Serve)
	t.Logf("%d launches stopped, %d failures, %d ns beside another", stops, fails, besides)
}

// It returns how many launches were stopped, how many failed, and how long two ran side by side.
func contractHolds(t *testing.T, gap int64, serve func(context.Context, engine.Config) (*engine.Result, error)) (stops, fails int, besides int64) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		var chips []*chip
		for i := range rapid.IntRange(1, 3).Draw(t, "devices") {
			chips = append(chips, newChip(fmt.Sprint("chip", i), rapid.IntRange(1, 4).Draw(t, "segments"), rapid.Bool().Draw(t, "through")))
		}
		failed := make([]int, len(chips))
		if every := rapid.SampledFrom([]int{0, 0, 60}).Draw(t, "failing"); every > 0 {
			for i, c := range chips {
				rng := rand.New(rand.NewPCG(seed, uint64(2+i))) // a device has a goroutine of its own
				c.fail = func(device.WorkID) error {
					if rng.IntN(every) > 0 {
						return nil
					}
					failed[i]++
					return &device.Failure{Scope: device.Scope(rng.IntN(3)), Err: errors.New("injected")}
				}
			}
		}
		n := rapid.IntRange(1, 60).Draw(t, "n")
		times := make([]int64, n)
		for i := 1; i < n; i++ {
			times[i] = times[i-1] + rng.Int64N(gap)
		}
		ctx, stop := context.WithCancelCause(context.Background())
		defer stop(nil)
		p := &wild{rng: rng, assigned: rapid.Bool().Draw(t, "assigned"), plans: 3, stuck: stop}
		cfg := family(t, chips, times, p)
		cfg.ResetCost = 3000
		cfg.Watchdog = engine.Watchdog{Least: 60e9, Other: 60e9}
		cancels := map[int]int64{}
		for i := range times {
			if rng.IntN(8) == 0 {
				cancels[i] = times[i] + rng.Int64N(30_000)
			}
		}
		cfg.Source.(*load.Open).Cancel = cancels
		res, err := serve(ctx, cfg)
		if err != nil {
			t.Fatal(err, context.Cause(ctx))
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
		checkChips(t, chips, res)
		if p.planned != 3-p.plans {
			t.Fatalf("%d plans were made, %d came back", 3-p.plans, p.planned)
		}
		stops += int(res.Preemptions)
		for i, c := range chips {
			besides += c.beside
			fails += failed[i]
		}
		end := int64(0) // 0 if everything was cancelled before it ran
		if n := len(res.Spans); n > 0 {
			end = res.Spans[n-1].End
		}
		for d, busy := range res.Busy {
			if busy > end {
				t.Fatalf("device %d was busy for %d ns of %d", d, busy, end)
			}
		}
	})
	return stops, fails, besides
}

// timid launches on separate units, sometimes stops a running launch, and resumes it.
type timid struct {
	rng     *rand.Rand
	stopped int
}

func (*timid) Name() string { return "timid" }

func (p *timid) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	taken := 0
	for d := range s.Devices {
		v := &s.Devices[d]
		free := v.Free()
		room := v.Slots - v.Used
		held := 0
		for _, l := range v.Launches {
			if l.Phase == sched.AtExit && l.Reached < l.Last {
				free = free.Without(l.Units)
			}
			if l.Phase != sched.Halted && !(l.Phase == sched.AtExit && l.Reached == l.Last) {
				held++
			}
		}
		one := func() (device.Units, bool) {
			for i := 0; i < 8; i += 2 {
				if free.Has(i) && held < v.Places {
					free = free.Without(device.UnitRange(i, 2))
					held++
					return device.UnitRange(i, 2), true
				}
			}
			return device.Units{}, false
		}
		for _, l := range v.Launches {
			if l.Phase == sched.Halted || l.Phase == sched.AtExit && l.Reached == l.Last {
				if u, ok := one(); ok {
					buf = append(buf, sched.Action{Kind: sched.Resume, Launch: l.ID, Last: v.Table(l.Network).Segments() - 1, Units: u, Exclusive: true})
				}
			}
		}
		for taken < s.Queue.Len() && room > 0 {
			u, ok := one()
			if !ok {
				break
			}
			h := v.Hosted[p.rng.IntN(len(v.Hosted))]
			buf = append(buf, sched.Action{Kind: sched.Launch, Device: d, Network: h.Network, Count: 1, Last: h.Table.Segments() - 1, Units: u, Exclusive: true})
			taken++
			room--
		}
		if ev.Kind == sched.SegmentDone && ev.Device == d {
			for _, l := range v.Launches {
				if l.ID == ev.Launch && l.Phase == sched.Running && p.rng.IntN(3) == 0 {
					p.stopped++
					buf = append(buf, sched.Action{Kind: sched.Preempt, Launch: l.ID})
				}
			}
		}
	}
	return buf
}

// A segment's end moves when another begins beside it.
func TestEndsMove(t *testing.T) {
	c := newChip("chip", 1, false)
	c.exit = func(device.RequestID) int { return 0 }
	cfg := family(t, []*chip{c}, []int64{0, 2000}, &timid{rng: rand.New(rand.NewPCG(1, 1))})
	cfg.Source = &load.Open{Times: []int64{0, 2000}, Task: func(_ int, at int64) sched.Task {
		return sched.Task{Network: "digits", Deadline: at + 1e9, Theta: 0.5}
	}}
	res, err := engine.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkChips(t, []*chip{c}, res)
	// Copied by 700 and alone until 2700, where 2000 of 4000 ns are done; then both at half their pace:
	// the first needs 4000 more, the second has 2000 of 4000 left when it is alone again.
	if a, b := res.Records[0].Ended, res.Records[1].Ended; a != 6700 || b != 8700 {
		t.Errorf("they end at %d and %d, expected 6700 and 8700", a, b)
	}
}

// An outer policy routes, by what waits at each device, and an inner one for each runs fluid.
type router struct{}

func (router) Name() string { return "router" }

func (router) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	given := make([]int, len(s.Devices))
	for i := range s.Queue.Len() {
		best := -1
		for d := range s.Devices {
			v := &s.Devices[d]
			if v.Slots-v.Used-given[d] > 0 && !v.Down && (best < 0 || v.Queue.Len()+given[d] < s.Devices[best].Queue.Len()+given[best]) {
				best = d
			}
		}
		if best < 0 {
			return buf
		}
		given[best]++
		member := s.Devices[best].Hosted[best%len(s.Devices[best].Hosted)].Network // one member a device
		buf = append(buf, sched.Action{Kind: sched.Assign, Device: best, Network: member, Requests: []device.RequestID{s.Queue.At(i).ID}})
	}
	return buf
}

func TestNestedPolicies(t *testing.T) {
	for _, inner := range []string{"serial", "fluid", "fluid+", "edf"} {
		chips := []*chip{newChip("a", 4, false), newChip("b", 2, false), newChip("c", 3, false)}
		var times []int64
		for i := range 120 {
			times = append(times, int64(i)*1500)
		}
		p := &sched.Nested{Outer: router{}}
		for range chips {
			p.Inner = append(p.Inner, policy(t, inner))
		}
		cfg := family(t, chips, times, p)
		res, err := engine.Run(context.Background(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", inner, err)
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
		checkChips(t, chips, res)
		used := map[int]int{}
		for _, s := range res.Spans {
			used[s.Device]++
		}
		if s := res.Summary(); s.OnTime != s.Requests || len(used) != 3 {
			t.Errorf("%s: %+v, spans by device %v", inner, s, used)
		}
	}
}

// planner makes a plan at its first event, which ends when served is closed, and meanwhile serves one by one.
type planner struct {
	sched.Serial
	served  chan struct{}
	begun   bool
	planned sched.Time
}

func (p *planner) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if ev.Kind == sched.Planned {
		if s.Found != "found" {
			panic("the plan's answer is lost")
		}
		p.planned = now
	}
	if !p.begun {
		p.begun = true
		buf = append(buf, sched.Action{Kind: sched.MakePlan, Plan: nap{func(ctx context.Context) any {
			select {
			case <-ctx.Done():
			case <-p.served:
			case <-time.After(time.Minute): // the plan has blocked them
			}
			return "found"
		}}})
	}
	return p.Serial.Decide(now, s, ev, buf)
}

// A plan blocks nothing: requests that arrive meanwhile are served.
func TestAPlanStallsNobody(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10_000, 1000))
	for how, serve := range map[string]func(context.Context, engine.Config) (*engine.Result, error){"run": engine.Run, "serve": engine.Serve} {
		p := &planner{served: make(chan struct{})}
		times := make([]int64, 20)
		for i := range times {
			times[i] = int64(i) * 100_000
		}
		cfg := config(tab, p, times, 60e9, func(int) int { return 1 })
		cfg.Watchdog.Least = 60e9
		if how == "run" { // it asks for the plan at once, and hands it over when its time has passed
			close(p.served)
		} else {
			left := len(times)
			cfg.Observer = &onEnd{f: func(*engine.Record) {
				if left--; left == 0 {
					close(p.served)
				}
			}}
		}
		res, err := serve(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res.Records {
			if r := &res.Records[i]; r.Ending != engine.OnTime || r.Ended >= p.planned {
				t.Errorf("%s: request %d ended %s at %d, the plan at %d", how, r.ID, r.Ending, r.Ended, p.planned)
			}
		}
	}
}
