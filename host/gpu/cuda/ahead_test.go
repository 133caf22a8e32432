package cuda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// With reset-ahead the kernels of priority are launched before the other launches have left, otherwise after that. In
// both cases the others resume, once, with golden's results.
func TestAhead(t *testing.T) {
	for name, ahead := range map[string]bool{"reset": false, "reset-ahead": true} {
		t.Run(name, func(t *testing.T) {
			var orders []gpu.Order
			r := start(t, cuda.Config{Mode: mode(t, name), Heard: func(o gpu.Order) { orders = append(orders, o) }})
			b, want := r.admitted(1, 6)
			if e := r.copy(b, 2, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
				t.Fatal(e.Err)
			}
			both := [2]device.Work{launch(b, 0, 0, 2, 1), launch(b, 0, 0, 2, 2)}
			for i := range both {
				both[i].Launch.ID, both[i].Launch.Priority = device.LaunchID(i+1), i
				r.must(both[i]) // creates and clears their streams
			}
			orders = nil
			r.h.Log(1)
			r.h.Hold(1)
			for i := range both {
				r.begin(both[i])
				for range 2 { // after the second answer, the launcher has launched all that it may
					if _, err := r.d.Counts(); !errors.Is(err, device.ErrRequest) {
						t.Fatalf("launches are under way: %v", err)
					}
				}
			}
			calls := r.h.Calls()
			r.h.Log(0)
			held := slices.Clone(orders) // the launcher has nothing to do before the fake lets go
			r.h.Hold(0)
			for range both {
				e := r.event()
				if e.Kind != device.Passed || !e.Over {
					t.Fatalf("%+v (%v)", e, e.Err)
				}
				if x := e.Report.Results[0]; x.Request == 1 && !slices.Equal(x.Exits[0].Raw, want[0]) {
					t.Errorf("exit 0: %v, golden says %v", x.Exits[0].Raw, want[0])
				}
			}
			of := func(did gpu.Did, id device.LaunchID, all []gpu.Order) (n int) {
				for _, o := range all {
					if o.Did == did && o.Launch == id {
						n++
					}
				}
				return n
			}
			if n := of(gpu.Launched, 2, held); (n > 0) != ahead || of(gpu.PutAside, 1, held) != 1 || of(gpu.TakenUp, 1, held) != 0 {
				t.Errorf("%d kernels of priority while others are held: %+v", n, held)
			}
			if n := of(gpu.TakenUp, 1, orders); n > 1 { // none, where its kernels had ended before the order came
				t.Errorf("taken up %d times", n)
			}
			if !ahead {
				return
			}
			// The order to leave comes directly after the launch of the first kernel of priority, and no other order before the last
			// kernel.
			i := slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, "cuStreamWriteValue32") })
			if i < 1 || i+2 >= len(calls) || !strings.HasPrefix(calls[i-1], "cuLaunchKernel") || !strings.HasPrefix(calls[i+2], "cuLaunchKernel") {
				t.Errorf("around the order to leave stands %v", calls[max(0, i-2):min(len(calls), i+4)])
			}
		})
	}
}

// If a launch of priority ends before the others are known to have left, the preemption lasts until they have left.
func TestAheadOver(t *testing.T) {
	const late = 50 * time.Millisecond
	r := start(t, cuda.Config{Mode: mode(t, "reset-ahead")})
	b, _ := r.admitted(1, 6)
	if e := r.copy(b, 2, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	first, second := launch(b, 0, 0, 2, 1), launch(b, 0, 0, 2, 2)
	second.Launch.Priority = 1
	r.must(first)
	r.must(second) // creates and clears their streams
	r.h.Late(int(late))
	defer r.h.Late(0)
	r.h.Hold(1)
	for _, w := range []device.Work{first, second} {
		r.begin(w)
		for range 2 { // after the second answer, the launcher has launched all that it may
			if _, err := r.d.Counts(); !errors.Is(err, device.ErrRequest) {
				t.Fatalf("launches are under way: %v", err)
			}
		}
	}
	r.h.Hold(0)
	for range 2 {
		if e := r.event(); e.Kind != device.Passed || !e.Over {
			t.Fatalf("%+v (%v)", e, e.Err)
		}
	}
	c, err := r.d.Counts()
	if err != nil || len(c.Preemptions) != 1 || c.Preemptions[0].Away < late/4 {
		t.Errorf("%+v, %v, where the order to leave comes late", c.Preemptions, err)
	}
}

// If the first kernel of priority cannot be launched yet, because the Control of a new stream must be cleared first, the
// launches in its way still get the order to leave.
func TestAheadWaits(t *testing.T) {
	r := start(t, cuda.Config{Mode: mode(t, "reset-ahead")})
	b, _ := r.admitted(1, 6)
	if e := r.copy(b, 2, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	first, second := launch(b, 0, 0, 2, 1), launch(b, 0, 0, 2, 2)
	second.Launch.Priority, second.Launch.Units = 1, device.UnitRange(0, 3)
	r.must(first) // creates and clears its stream
	r.h.Hold(1)
	r.h.Log(1)
	for _, w := range []device.Work{first, second} {
		r.begin(w)
		for range 2 { // after the second answer, the launcher has launched all that it may
			if _, err := r.d.Counts(); !errors.Is(err, device.ErrRequest) {
				t.Fatalf("launches are under way: %v", err)
			}
		}
	}
	calls := r.h.Calls()
	r.h.Log(0)
	r.h.Hold(0)
	for range 2 {
		if e := r.event(); e.Kind != device.Passed || !e.Over {
			t.Fatalf("%+v (%v)", e, e.Err)
		}
	}
	if !slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "cuStreamWriteValue32") }) {
		t.Errorf("nobody is told to leave: %v", calls)
	}
}

// If the driver rejects the first kernel of priority, its launch fails without a retry.
func TestAheadFails(t *testing.T) {
	r := start(t, cuda.Config{Mode: mode(t, "reset-ahead")})
	b, _ := r.admitted(1, 6)
	w := launch(b, 0, 0, 2, 1)
	w.Launch.Priority = 1
	r.must(w) // creates and clears its stream
	r.h.Inject("cuLaunchKernel", 0, 701, 0)
	if e := r.do(w); e.Kind != device.Failed || !strings.Contains(e.Err.Error(), "LAUNCH_OUT_OF_RESOURCES") {
		t.Errorf("%v, %v, where the driver refuses its first kernel", e.Kind, e.Err)
	}
	r.must(w)
}

// If a launch must leave a second time, the write of the epoch is recorded again, before its Control is read.
func TestAheadTwice(t *testing.T) {
	r := start(t, cuda.Config{Mode: mode(t, "reset-ahead"), Through: true})
	b, want := r.admitted(2, 6)
	if e := r.copy(b, 2, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	r.h.Slow(1)
	for twice, tries := false, 0; !twice; tries++ {
		if tries == 100 {
			t.Fatal("no launch left twice")
		}
		r.h.Log(1)
		w, rt := launch(b, 0, len(b.Network.Exits)-1, 2, 1), launch(b, 0, 0, 2, 2)
		rt.Launch.Priority = 1
		under := r.begin(w)
		for n := 0; under != 0; n++ {
			beside := n < 3 // afterwards it ends
			if beside {
				r.begin(rt)
			}
			for beside || n >= 3 && under != 0 {
				e := r.event()
				if e.Kind != device.Passed {
					t.Fatalf("%+v (%v)", e, e.Err)
				}
				if e.Work != under {
					beside = false
				} else if got := e.Report.Results[0].Exits[0].Raw; !slices.Equal(got, want[e.Segment]) {
					t.Fatalf("exit %d: %v, golden says %v", e.Segment, got, want[e.Segment])
				} else if e.Over {
					under = 0
				}
			}
		}
		told, marked, before := 0, 0, ""
		for _, c := range r.h.Calls() {
			name, _, _ := strings.Cut(c, "(")
			switch {
			case name == "cuStreamWriteValue32_v2":
				told++
			case name == "cuEventRecord" && (before == "cuEventQuery" || before == "cuEventRecord"): // else it is of a kernel, a copy or a cleaning
				marked++
			}
			before = name
		}
		if twice = told > 1; marked != told {
			t.Errorf("it was told to leave %d times, and it was recorded %d times that its epoch was written", told, marked)
		}
	}
	r.h.Log(0)
}
