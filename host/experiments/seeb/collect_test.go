package seeb_test

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// rules are the properties that a system's launches must have.
type rules struct {
	sched.Policy
	t       *testing.T
	window  sched.Time // nothing is launched that came after its last end
	one     bool       // one launch at a time, with the earliest deadlines first
	share   bool       // on a part of the units
	most    int        // requests of a launch
	batches int
}

func (r *rules) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	buf = (&enginetest.Twice{Policy: r.Policy, T: r.t}).Decide(now, s, ev, buf)
	d := &s.Devices[0]
	var networks []string
	for _, l := range d.Launches {
		networks = append(networks, l.Network)
	}
	by := now
	if r.window > 0 {
		by = now / r.window * r.window
	}
	of := map[device.RequestID]*sched.Request{}
	for i := range s.Queue.Len() {
		of[s.Queue.At(i).ID] = s.Queue.At(i)
	}
	for i := range buf {
		a := &buf[i]
		if a.Kind != sched.Launch {
			continue
		}
		r.batches++
		r.most = max(r.most, len(a.Requests))
		if slices.Contains(networks, a.Network) {
			r.t.Errorf("%s at %d: two batches of %s", r.Name(), now, a.Network)
		}
		if networks = append(networks, a.Network); r.one && len(networks) > 1 {
			r.t.Errorf("%s at %d: %d batches", r.Name(), now, len(networks))
		}
		if n := a.Units.Count(); r.share != (n > 0) || r.share && (n < 4 || a.Units.Without(device.UnitRange(0, d.Units)).Count() > 0) {
			r.t.Errorf("%s at %d: units %s of %d", r.Name(), now, a.Units, d.Units)
		}
		tight := sched.Time(1 << 62)
		for _, id := range a.Requests {
			if of[id] == nil || of[id].Arrived > by {
				r.t.Fatalf("%s at %d: request %d, which is not there or came after %d", r.Name(), now, id, by)
			}
			tight = min(tight, of[id].Deadline)
		}
		for _, q := range of {
			if r.one && q.Arrived <= by && q.Deadline < tight && q.Network != a.Network {
				r.t.Errorf("%s at %d: request %d must end before all of the batch", r.Name(), now, q.ID)
			}
		}
	}
	return buf
}

// The systems that SEEB is compared with obey their rules, and every policy here gives the same answer when asked
// twice.
func TestCollect(t *testing.T) {
	e := edge(t, 16)
	for system, r := range map[string]*rules{
		"batch": {window: 100e6}, "branchynet": {window: 100e6}, "triton": {}, "deeprt": {window: 100e6, one: true}, "gslice": {window: 100e6, share: true},
	} {
		r.t = t
		if err := e.Under(system, "poisson:60", 1e9, *seed, func(p sched.Policy) sched.Policy { r.Policy = p; return r }); err != nil {
			t.Error(err)
		}
		if r.batches == 0 || r.most < 2 {
			t.Errorf("%s: %d batches, of %d at most", system, r.batches, r.most)
		}
	}
	w := &watched{t: t, period: 100e6, began: map[device.LaunchID]sched.Time{}}
	if err := e.Under("seeb", "poisson:60", 1e9, *seed, func(p sched.Policy) sched.Policy { w.Policy = &enginetest.Twice{Policy: p, T: t}; return w }); err != nil {
		t.Error(err)
	}
}
