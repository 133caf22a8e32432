package cuda_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// busy waits until the launcher has launched what it may of what was begun, and has it under way.
func (r *rig) busy() {
	r.t.Helper()
	for range 2 { // between two answers it has looked at all launches
		if _, err := r.d.Counts(); !errors.Is(err, device.ErrRequest) {
			r.t.Fatalf("launches are under way: %v", err)
		}
	}
}

// busyOrNot is busy where launches may have ended.
func (r *rig) busyOrNot() {
	for range 2 {
		_, _ = r.d.Counts()
	}
}

const (
	soon = int64(time.Millisecond)
	late = int64(time.Hour)
)

// ready is a device with a stream for each of two launches, on which they have run.
func ready(t *testing.T, name string, units [2]device.Units, priority [2]int) (*rig, *bundle.Bundle) {
	t.Helper()
	r := start(t, cuda.Config{Mode: mode(t, name), Params: h200(t)})
	b, _ := network(t, *seed, 2)
	r.load(b)
	in := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
	for id := range device.RequestID(3) {
		if e := r.copy(b, id+1, in); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
	}
	r.h.Hold(1)
	for i := range units {
		w := launch(b, 0, 0, 2, device.RequestID(i+1))
		w.Launch.Units, w.Launch.Priority = units[i], priority[i]
		r.begin(w)
	}
	r.busy()
	r.h.Hold(0)
	for range units {
		if e := r.event(); e.Kind != device.Passed || !e.Over {
			t.Fatalf("event %+v (%v)", e, e.Err)
		}
	}
	return r, b
}

// A launch that waits for its turn does not hang, though its limit is over: the one before it may take its time. One
// that nothing is in the way of does, whoever came after it and wherever others are.
func TestPatience(t *testing.T) {
	whole := device.Units{}
	for _, c := range []struct {
		name, mode string
		units      [2]device.Units
		limits     [2]int64
		priority   [2]int
		hangs      device.LaunchID // 0: none
	}{
		{"behind what is to leave", "wait", [2]device.Units{}, [2]int64{late, soon}, [2]int{0, 1}, 0},
		{"put aside", "wait", [2]device.Units{}, [2]int64{late, soon}, [2]int{1, 0}, 0},
		{"one of priority behind another", "wait", [2]device.Units{}, [2]int64{late, soon}, [2]int{1, 1}, 0},
		{"behind another in the hardware", "streams", [2]device.Units{}, [2]int64{late, soon}, [2]int{0, 0}, 0},
		{"before another", "streams", [2]device.Units{}, [2]int64{soon, late}, [2]int{0, 0}, 1},
		{"elsewhere", "streams", [2]device.Units{device.UnitRange(0, 2), device.UnitRange(2, 2)}, [2]int64{late, soon}, [2]int{0, 0}, 2},
		{"on a part of it", "streams", [2]device.Units{whole, device.UnitRange(2, 2)}, [2]int64{late, soon}, [2]int{0, 0}, 0},
		{"behind one that nobody waits for", "wait", [2]device.Units{}, [2]int64{0, soon}, [2]int{0, 1}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, b := ready(t, c.mode, c.units, c.priority)
			r.h.Hold(1)
			defer r.h.Hold(0)
			for i := range c.limits {
				w := launch(b, 0, 0, 2, device.RequestID(i+1))
				w.Limit, w.Launch.ID, w.Launch.Units, w.Launch.Priority = c.limits[i], device.LaunchID(i+1), c.units[i], c.priority[i]
				r.begin(w)
				if c.limits[i] != soon { // it is on the GPU before the other comes
					r.busy()
				}
			}
			if c.hangs == 0 {
				time.Sleep(20 * time.Duration(soon))
				r.busy()
				select {
				case e := <-r.events:
					t.Errorf("%+v (%v)", e, e.Err)
				default:
				}
				return
			}
			for range 2 {
				if e := r.event(); e.Kind != device.Failed || !device.IsHang(e.Err) || !errorSays(e.Err, c.hangs) {
					t.Errorf("%+v (%v), expected launch %d to hang", e, e.Err, c.hangs)
				}
			}
		})
	}
}

// What is in the way of a launch and moves is progress of that one too: a watchdog that asks for it sees no hang.
func TestProgressBehind(t *testing.T) {
	var r *rig
	var seen []uint64
	id := device.WorkID(0)
	r = start(t, cuda.Config{Mode: mode(t, "reset"), Heard: func(o gpu.Order) {
		if o.Did == gpu.TakenUp {
			seen = append(seen, r.d.Progress(id))
		}
	}})
	b, _ := network(t, *seed, 2)
	r.load(b)
	for i := range device.RequestID(2) {
		if e := r.copy(b, i+1, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
	}
	r.h.Hold(1)
	first := launch(b, 0, 0, 2, 1)
	first.Launch.Priority = 1
	r.begin(first)
	id = r.next + 1
	r.begin(launch(b, 0, 0, 2, 2))
	r.busy()
	r.h.Hold(0)
	for range 2 {
		if e := r.event(); e.Kind != device.Passed || !e.Over {
			t.Fatalf("event %+v (%v)", e, e.Err)
		}
	}
	e := &b.Network.Exits[0]
	if len(seen) != 1 || seen[0] != uint64(e.Last-e.First+1) {
		t.Errorf("when it was its turn it had come %v far, expected the %d kernels before it", seen, e.Last-e.First+1)
	}
}

// Of two launches on the same units of the GPU the first is in the way of the other, and one of priority in that of one
// without, whichever came first.
func TestInTheWay(t *testing.T) {
	here, there := device.UnitRange(0, 2), device.UnitRange(2, 2)
	for _, c := range []struct {
		name            string
		first, priority bool // g's
		f               bool // has priority
		units           device.Units
		want            bool
	}{
		{"first", true, false, false, here, true},
		{"second", false, false, false, here, false},
		{"first, of priority", true, true, false, here, true},
		{"second, of priority", false, true, false, here, true},
		{"first, before one of priority", true, false, true, here, true},
		{"second, behind one of priority", false, false, true, here, false},
		{"first, elsewhere", true, true, false, there, false},
		{"first, on all", true, false, false, device.Units{}, true},
	} {
		if got := cuda.InTheWay(c.first, c.priority, c.f, here, c.units); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func errorSays(err error, id device.LaunchID) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("launch %d, ", id))
}
