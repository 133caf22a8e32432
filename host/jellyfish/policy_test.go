package jellyfish

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// desk plays the engine for the outer policy: requests come and are removed at once, plans are delivered, networks
// are loaded when the test says so.
type desk struct {
	t    *testing.T
	p    *Policy
	n    *sched.Nested
	s    sched.State
	next device.RequestID
}

func newDesk(t *testing.T, o Options, devices int) *desk {
	t.Helper()
	n, p, err := New(o, devices)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, p: p, n: n}
	for range devices {
		d.s.Devices = append(d.s.Devices, sched.DeviceView{MaxBatch: SyntheticBatch, Places: 1, Slots: 64})
		d.host(len(d.s.Devices)-1, o.Zoo[0].Name)
	}
	return d
}

// host makes a network servable on a device.
func (d *desk) host(k int, names ...string) {
	for _, name := range names {
		i := slices.IndexFunc(d.p.o.Zoo, func(n Net) bool { return n.Name == name })
		var cells []sched.Cell
		for b, at := range d.p.o.Zoo[i].P99 {
			cells = append(cells, sched.Cell{Batch: b + 1, P50: at, P95: at, P99: at})
		}
		tab, err := sched.NewTableOf(name, cells)
		if err != nil {
			d.t.Fatal(err)
		}
		d.s.Devices[k].Hosted = append(d.s.Devices[k].Hosted, sched.Hosted{Network: name, Family: "zoo", Table: tab})
	}
}

// frame delivers a client's frame and returns the outer policy's answer, and its plan if it makes one.
func (d *desk) frame(now Time, client int, link float64) ([]sched.Action, *plan) {
	d.next++
	d.s.Queue.Push(&sched.Request{ID: d.next, Client: client, Network: "zoo", Arrived: now, Deadline: now + 1e9, Link: link})
	out := d.p.Decide(now, &d.s, &sched.Event{Kind: sched.Arrival, Request: d.next}, nil)
	d.s.Queue.Remove(d.next)
	return out, planned(out)
}

func planned(all []sched.Action) *plan {
	for _, a := range all {
		if a.Kind == sched.MakePlan {
			return a.Plan.(*plan)
		}
	}
	return nil
}

func (d *desk) found(now Time, of *decision) []sched.Action {
	d.s.Found = of
	return d.p.Decide(now, &d.s, &sched.Event{Kind: sched.Planned}, nil)
}

func (d *desk) timer(now Time) *plan {
	return planned(d.p.Decide(now, &d.s, &sched.Event{Kind: sched.Timer}, nil))
}

func two() Options {
	return Options{Zoo: Synthetic(1), Clients: []Registered{{15, 100e6}, {10, 150e6}}, Advise: true}
}

// A decision is made when a client arrives and every half second. A link's rate is the harmonic mean of what its
// frames reported. A client that was silent for two seconds is no longer considered.
func TestDecisions(t *testing.T) {
	d := newDesk(t, two(), 1)
	out, pl := d.frame(0, 0, 20e6)
	if pl == nil || len(pl.known) != 1 || pl.known[0] != (Client{15, 100e6, 20e6}) || pl.Cost() != 10e6 {
		t.Fatalf("the first frame: %+v, %v", pl, out)
	}
	none := func() *decision {
		return &decision{clients: pl.clients, at: []int{0, 0}[:len(pl.clients)], devices: []int{0}, nets: []int{0}, batch: []int{1}}
	}
	d.found(10e6, none())
	for _, at := range []Time{100e6, 200e6, 499e6} {
		out, again := d.frame(at, 0, 20e6)
		waits := slices.ContainsFunc(out, func(a sched.Action) bool { return a.Kind == sched.Wait && a.Until == 500e6 })
		if again != nil || !waits {
			t.Errorf("at %d: %v", at, out)
		}
	}
	if pl = d.timer(500e6); pl == nil {
		t.Fatal("no decision after half a second")
	}
	d.found(510e6, none())
	if _, pl = d.frame(600e6, 1, 5e6); pl == nil || len(pl.known) != 2 {
		t.Fatalf("nobody decides for the one who came: %+v", pl)
	}
	d.found(610e6, none())
	d.frame(700e6, 0, 5e6)
	pl = d.timer(1100e6)
	// In the second before 1.1 s: two frames at 20 Mbit/s and one at 5.
	if pl == nil || math.Abs(pl.known[0].Bandwidth-3/(2/20e6+1/5e6)) > 1 {
		t.Fatalf("%+v, expected 10 Mbit/s", pl)
	}
	d.found(1110e6, none())
	d.frame(1500e6, 1, 5e6)
	if pl = d.timer(2650e6); pl == nil || len(pl.clients) != 2 {
		t.Fatalf("1.95 s after the last frame: %+v", pl)
	}
	d.found(2660e6, none())
	if pl = d.timer(3200e6); pl == nil || !slices.Equal(pl.clients, []int{1}) {
		t.Fatalf("2.5 s after the last frame of the first client: %+v", pl)
	}
	d.found(3210e6, none())
	if pl = d.timer(4000e6); pl != nil {
		t.Errorf("nobody is there: %+v", pl)
	}
	if got := d.p.Counts().Decisions; got != 6 {
		t.Errorf("%d decisions", got)
	}
}

// A worker loads the network that it should run, then the closest ones in size, five in all; others are unloaded. A
// change to a loaded network is a hit.
func TestPrefetch(t *testing.T) {
	for _, c := range []struct {
		prefetch int
		order    []int
	}{{0, []int{5, 4, 6, 3, 7}}, {3, []int{5, 4, 6}}} {
		o := two()
		o.Prefetch = c.prefetch
		d := newDesk(t, o, 1)
		_, pl := d.frame(0, 0, 20e6)
		d.p.workers[0].moving = -1 // the neighbours of network 0 have not been requested
		out := d.found(10e6, &decision{clients: pl.clients, at: []int{0}, devices: []int{0}, nets: []int{5}, batch: []int{2}})
		advised := slices.ContainsFunc(out, func(a sched.Action) bool {
			return a.Kind == sched.Advise && a.Advice.Client == 0 && a.Advice.Network == o.Zoo[5].Name && a.Advice.Shape[0] == o.Zoo[5].Side
		})
		if !advised {
			t.Errorf("the client is not told: %v", out)
		}
		now := Time(10e6)
		for _, want := range c.order {
			k := slices.IndexFunc(out, func(a sched.Action) bool { return a.Kind == sched.LoadNetwork })
			if k < 0 || out[k].Network != o.Zoo[want].Name {
				t.Fatalf("%v, expected a load of network %d", out, want)
			}
			now += 100e6
			d.host(0, o.Zoo[want].Name)
			out = d.p.Decide(now, &d.s, &sched.Event{Kind: sched.Loaded}, nil)
		}
		if k := slices.IndexFunc(out, func(a sched.Action) bool { return a.Kind == sched.LoadNetwork || a.Kind == sched.Unload }); k < 0 || out[k].Kind != sched.Unload || out[k].Network != o.Zoo[0].Name {
			t.Errorf("%v, expected that network 0 goes", out)
		}
		d.s.Devices[0].Hosted = d.s.Devices[0].Hosted[1:]
		d.found(now+1, &decision{clients: pl.clients, at: []int{0}, devices: []int{0}, nets: []int{6}, batch: []int{2}})
		d.found(now+2, &decision{clients: pl.clients, at: []int{0}, devices: []int{0}, nets: []int{12}, batch: []int{2}})
		if got := d.p.Counts(); got.Changes != 3 || got.Hits != 1 {
			t.Errorf("%+v, expected a hit in three changes", got)
		}
	}
}

// A worker drops requests that cannot be in time even alone, and no others. It takes the largest batch, up to the
// decided size, that meets all deadlines. By the zoo: 23 ms for one, 26 for two, 29 for three.
func TestLazyDrop(t *testing.T) {
	d := newDesk(t, two(), 1)
	w := &d.p.workers[0]
	for _, c := range []struct {
		within  []Time // ms from now
		batch   int
		dropped int
		taken   int
	}{
		{[]Time{22, 24}, 12, 1, 1},
		{[]Time{23, 24}, 12, 0, 1},
		{[]Time{27, 24, 27}, 12, 0, 2}, // with the second one the first two would be late
		{[]Time{30, 30, 30, 30}, 12, 0, 3},
		{[]Time{90, 90, 90, 90}, 2, 0, 2},
		{[]Time{1, 2, 3}, 12, 3, 0},
	} {
		w.batch = c.batch
		late := d.p.counts.Late
		view := d.s.Devices[0]
		view.Queue = sched.Queue{}
		for i, within := range c.within {
			view.Queue.Push(&sched.Request{ID: device.RequestID(i + 1), Network: d.p.o.Zoo[0].Name, Deadline: 1e9 + within*1e6})
		}
		s := sched.State{Devices: []sched.DeviceView{view}}
		d.p.ids = d.p.ids[:0]
		dropped, taken := 0, 0
		for _, a := range d.n.Inner[0].Decide(1e9, &s, &sched.Event{}, nil) {
			switch a.Kind {
			case sched.Drop:
				dropped++
			case sched.Launch:
				taken += len(a.Requests)
			}
		}
		if dropped != c.dropped || taken != c.taken || d.p.counts.Late-late != c.dropped {
			t.Errorf("%v ms, batches of %d: %d dropped, %d taken; expected %d, %d", c.within, c.batch, dropped, taken, c.dropped, c.taken)
		}
	}
}

// Equation 5 with aligned frames, by hand. At 15 frames a second over 10 Mbit/s, 90 % of the link are 75,000 bytes
// per frame, so a frame of 416 pixels (72,357 bytes) is the largest; it takes 57.9 ms, one of 352 (56,000) 44.8 ms.
// Over 20 Mbit/s the largest frame takes 52 ms. Without a link there is no frame.
func TestAligned(t *testing.T) {
	zoo := Synthetic(1)
	if zoo[9].Side != 416 || zoo[9].Bytes < 72_300 || zoo[9].Bytes > 72_400 || zoo[10].Bytes <= 75_000 || zoo[10].Bytes > 97_500 {
		t.Fatalf("frames of %d and %d bytes", zoo[9].Bytes, zoo[10].Bytes)
	}
	for _, c := range []struct {
		mbits float64
		net   int
		want  Time
	}{{10, 7, 100e6 - 44_800_000}, {10, 15, 100e6 - zoo[9].Bytes*800}, {20, 15, 100e6 - 52_000_000}, {0, 0, 0}} {
		client := Client{Rate: 15, SLO: 100e6, Bandwidth: c.mbits * 1e6}
		if got := Aligned(&client, zoo, c.net); got != c.want {
			t.Errorf("network %d over %g Mbit/s leaves %d ns, expected %d", c.net, c.mbits, got, c.want)
		}
	}
	// With the whole link, 83,333 bytes per frame are planned: the largest is still 416 pixels. With half of it,
	// 41,666: one of less than 416.
	client := Client{Rate: 15, SLO: 100e6, Bandwidth: 10e6}
	for headroom, bytes := range map[float64]int64{1: zoo[zoo.Largest(83_333)].Bytes, 0.5: zoo[zoo.Largest(41_666)].Bytes} {
		if got, want := Planned(headroom)(&client, zoo, 15), Time(100e6-bytes*800); got != want {
			t.Errorf("with %g of the link %d ns are left, expected %d", headroom, got, want)
		}
	}
}

// The annealing finds more accurate networks, starts with that at once if all clients are mapped, and never ends
// below its start value. The search makes all the steps that its budget allows.
func TestSelectionsUseTheirTime(t *testing.T) {
	zoo := Synthetic(1)
	client := Client{Rate: 10, SLO: 150e6, Bandwidth: 50e6}
	p, err := NewProblem(zoo, []Client{client, client}, 2, Aligned)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		c := Annealing{}.Select(p, []int{0, 0}, seed)
		if c.Mapping.Mapped != 2 || c.Mapping.Accuracy < zoo[8].Accuracy || c.Tried > 1+321 {
			t.Errorf("seed %d: %d sets tried for %v, %g", seed, c.Tried, c.Nets, c.Mapping.Accuracy)
		}
		// From the best selection of a full instance it cannot improve: its result is that one or an equal one.
		p := draw(rand.New(rand.NewPCG(seed, 5)), zoo, 2, 14, []int{10, 15, 25}, t)
		best := Search{}.Select(p, nil, seed)
		var at Mapping
		NewMapper(p).Map(Plain(best.Nets), Ample, &at)
		if c := (Annealing{}).Select(p, best.Nets, seed); at.better(&c.Mapping) {
			t.Errorf("seed %d: from %v (%g) to %v (%g)", seed, best.Nets, at.Accuracy, c.Nets, c.Mapping.Accuracy)
		}
		if best.Mapping.Accuracy > zoo[14].Accuracy {
			t.Errorf("seed %d: there is room for %g", seed, best.Mapping.Accuracy)
		}
		if best.Tried < 4000*7/10 || best.Tried > 4000 {
			t.Errorf("seed %d: the search tries %d sets, 2800 to 4000 are its work", seed, best.Tried)
		}
	}
	if c := (Search{Work: 100_000}).Select(p, nil, 1); c.Tried > 4000 {
		t.Errorf("%d sets tried", c.Tried)
	}
}
