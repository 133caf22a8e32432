package engine_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// For every policy, over any table, arrivals, cancels, networks and levels: nothing is launched while a request of a
// higher level waits. Under Interrupting policies no segment begins while a request of a higher level waits or is
// halted.
func TestHigherLevelsGoFirst(t *testing.T) {
	interrupted, lower := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(sched.Names()).Draw(t, "policy")
		p, err := sched.New(name, sched.Options{BMax: rapid.IntRange(0, 6).Draw(t, "B_max")})
		if err != nil {
			t.Fatal(err)
		}
		tab := randomTable(t)
		rates := make([]float64, tab.Segments())
		for i := range rates {
			rates[i] = 1 / float64(len(rates))
		}
		d, err := drawn.New(tab, rates, rapid.Uint64().Draw(t, "seed"), 0)
		if err != nil {
			t.Fatal(err)
		}
		cfg := engine.Config{
			Devices: []device.Device{fewSlots{d, d.Info().MaxBatch + rapid.IntRange(0, 20).Draw(t, "slots")}}, Inputs: engine.NoInputs,
			Networks: []engine.Network{
				{Name: enginetest.Network, Tables: []*sched.Table{tab}}, {Name: "other", Tables: []*sched.Table{tab}},
			},
		}
		n := rapid.IntRange(1, 120).Draw(t, "n")
		times := make([]int64, n)
		for i, at := 0, int64(0); i < n; i++ {
			at += rapid.SampledFrom([]int64{0, 1, 50, 300, 1000}).Draw(t, "gap")
			times[i] = at
		}
		levels, slo := rapid.IntRange(1, 4).Draw(t, "levels"), rapid.Int64Range(1, 20_000).Draw(t, "slo")
		networks := rapid.IntRange(1, 2).Draw(t, "networks")
		cancels := map[int]engine.Time{}
		for i := 0; i < n; i += rapid.IntRange(2, 30).Draw(t, "a cancel after") {
			cancels[i] = times[i] + rapid.Int64Range(0, 500).Draw(t, "cancelled after")
		}
		cfg.Source = &load.Open{Times: times, Cancel: cancels, Task: func(i int, at int64) sched.Task {
			return sched.Task{
				Network: cfg.Networks[i*i%7%networks].Name, Deadline: at + 1 + (slo*int64(i*i+7))%(2*slo), Priority: i*i%11%levels - 1,
			}
		}}
		_, interrupts := p.(sched.Interrupting)
		cfg.Policy = watched{p, func(_ int64, s *sched.State, actions []sched.Action) {
			v := &s.Devices[0]
			waiting := map[device.RequestID]int{}
			for i := range s.Queue.Len() {
				r := s.Queue.At(i)
				waiting[r.ID] = r.Priority
			}
			at := map[device.LaunchID]int{} // levels of launches
			var begins []int                // levels of what begins
			running := false
			for _, l := range v.Launches {
				at[l.ID] = l.Level()
				running = running || l.Phase == sched.Running
			}
			goesOn := device.LaunchID(0)
			if top := len(v.Launches) - 1; top >= 0 && v.Launches[top].Phase == sched.AtExit && v.Launches[top].Reached < v.Launches[top].Last {
				goesOn = v.Launches[top].ID
			}
			used, head, launched := v.Used, 0, math.MinInt
			for _, a := range actions {
				switch a.Kind {
				case sched.Drop:
					delete(waiting, a.Request)
				case sched.Merge:
					at[a.Into] = max(at[a.Into], at[a.Launch])
					delete(at, a.Launch)
				case sched.Preempt:
					goesOn = 0
				case sched.Resume:
					begins = append(begins, at[a.Launch])
					delete(at, a.Launch)
				case sched.Launch:
					ids := a.Requests
					for ; len(ids) < a.Count; head++ {
						ids = append(slices.Clone(ids), s.Queue.At(head).ID)
					}
					for _, id := range ids {
						launched = max(launched, waiting[id])
						delete(waiting, id)
					}
					used += len(ids)
					begins = append(begins, launched)
					if len(v.Launches) > 0 && a.Last == tab.Segments()-1 {
						interrupted++
					}
				}
			}
			if goesOn != 0 {
				begins = append(begins, at[goesOn])
			}
			if running || len(begins) == 0 {
				return
			}
			for id, level := range waiting {
				if launched > math.MinInt && level > launched {
					t.Fatalf("%s launches level %d while request %d of level %d waits: %+v", name, launched, id, level, actions)
				}
				if interrupts && used < v.Slots && level > begins[0] {
					t.Fatalf("%s begins a segment of level %d while request %d of level %d waits: %+v", name, begins[0], id, level, actions)
				}
				if level < begins[0] {
					lower++
				}
			}
			for id, level := range at {
				if interrupts && id != goesOn && level > begins[0] {
					t.Fatalf("%s begins a segment of level %d while launch %d of level %d is halted: %+v", name, begins[0], id, level, actions)
				}
			}
		}}
		res, err := engine.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
	})
	if !testing.Short() && (interrupted < 10 || lower < 100) { // a fifth of the draws tells too little
		t.Errorf("%d launches interrupted another, %d requests waited behind a higher level: too few to tell", interrupted, lower)
	}
}

// fewSlots is a device that holds no more samples than that.
type fewSlots struct {
	*drawn.Dev
	slots int
}

func (d fewSlots) Info() device.Info {
	info := d.Dev.Info()
	info.Slots = d.slots
	return info
}
