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

// busy waits until the launcher has launched all begun work that it may launch, and the work is running.
func (r *rig) busy() {
	r.t.Helper()
	for range 2 { // after the second answer, it has examined all launches
		if _, err := r.d.Counts(); !errors.Is(err, device.ErrRequest) {
			r.t.Fatalf("launches are under way: %v", err)
		}
	}
}

// busyOrNot is busy for launches that may have ended.
func (r *rig) busyOrNot() {
	for range 2 {
		_, _ = r.d.Counts()
	}
}

const (
	soon = int64(time.Millisecond)
	some = int64(200 * time.Millisecond) // in which another comes
	late = int64(time.Hour)
)

// ready returns a device with a stream for each of two launches, on which they have run.
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

// A launch that waits for its turn longer than its limit is not a hang, since the launch before it may still run. A
// launch with nothing in its way is a hang, independent of later launches and of other units.
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
		{"before another", "streams", [2]device.Units{}, [2]int64{some, late}, [2]int{0, 0}, 1},
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
				switch { // it is on the GPU before the other comes
				case c.limits[0] == some: // or it hangs, if the other comes late
					r.busyOrNot()
				case c.limits[i] != soon:
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

// Progress of a launch counts also for the launch that waits behind it: the watchdog sees no hang.
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

// Of two launches on the same units the first is in the way of the second. A launch of priority is in the way of one
// without, in any order. A waiting launch has all launches on the GPU, and those of priority, in its way.
func TestInTheWay(t *testing.T) {
	type is = cuda.Standing
	here, there := device.UnitRange(0, 2), device.UnitRange(2, 2)
	f, high := is{There: true, Ticket: 2, Units: here}, is{There: true, Priority: true, Ticket: 2, Units: here}
	waits, cleans := is{Units: here}, is{Cleaning: true, Ticket: 2, Units: here}
	for _, c := range []struct {
		name string
		g, f is
		want bool
	}{
		{"first", is{There: true, Ticket: 1, Units: here}, f, true},
		{"second", is{There: true, Ticket: 3, Units: here}, f, false},
		{"first, of priority", is{There: true, Priority: true, Ticket: 1, Units: here}, f, true},
		{"second, of priority", is{There: true, Priority: true, Ticket: 3, Units: here}, f, true},
		{"first, before one of priority", is{There: true, Ticket: 1, Units: here}, high, true},
		{"second, behind one of priority", is{There: true, Ticket: 3, Units: here}, high, false},
		{"first, both of priority", is{There: true, Priority: true, Ticket: 1, Units: here}, high, true},
		{"second, both of priority", is{There: true, Priority: true, Ticket: 3, Units: here}, high, false},
		{"first, elsewhere", is{There: true, Priority: true, Ticket: 1, Units: there}, f, false},
		{"first, on all", is{There: true, Ticket: 1}, f, true},
		{"of priority, not there", is{Priority: true, Ticket: 1, Units: here}, f, false},
		{"there, before one that waits", is{There: true, Ticket: 3, Units: there}, waits, true},
		{"of priority, not there, before one that waits", is{Priority: true, Units: there}, waits, true},
		{"neither, before one that waits", is{Ticket: 1, Units: here}, waits, false},
		{"first, before one whose word is on the way", is{There: true, Ticket: 1, Units: here}, cleans, true},
		{"second, behind one whose word is on the way", is{There: true, Ticket: 3, Units: here}, cleans, false},
	} {
		if got := cuda.InTheWay(&c.g, &c.f); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, one := range []is{f, high, waits, {Priority: true, Units: here}} {
		if cuda.InTheWay(&one, &one) {
			t.Errorf("it is in its own way: %+v", one)
		}
	}
}

// A launch hangs if its limit has passed, and also the limit of the launch in its way since its last progress.
func TestLate(t *testing.T) {
	const h = time.Hour
	gone := cuda.Aged{}
	for _, c := range []struct {
		name string
		f, g cuda.Aged
		want bool
	}{
		{"in time", cuda.Aged{h, 2 * h, true}, gone, false},
		{"too late", cuda.Aged{2 * h, h, true}, gone, true},
		{"without a limit", cuda.Aged{2 * h, 0, true}, gone, false},
		{"behind one that moved", cuda.Aged{3 * h, 2 * h, true}, cuda.Aged{h, 2 * h, true}, false},
		{"waiting for one that moved", cuda.Aged{3 * h, 2 * h, false}, cuda.Aged{h, 2 * h, true}, false},
		{"behind one that may take longer", cuda.Aged{3 * h, h, true}, cuda.Aged{3 * h, 5 * h, true}, false},
		{"behind one that hangs too", cuda.Aged{3 * h, h, true}, cuda.Aged{3 * h, h, true}, true},
		{"behind one that stands still for longer", cuda.Aged{h, 2 * h, true}, cuda.Aged{9 * h, h, true}, false},
		{"beside one that is not there", cuda.Aged{3 * h, 2 * h, true}, cuda.Aged{h, 9 * h, false}, true},
	} {
		if got := cuda.Late(c.f, c.g); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func errorSays(err error, id device.LaunchID) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("launch %d, ", id))
}
