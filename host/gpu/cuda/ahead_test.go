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

// Where priority goes ahead its kernels are with the driver while others have not left, else when they have; what it
// left behind goes on either way, once, with golden's results.
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
				r.must(both[i]) // their streams are there, and clean
			}
			orders = nil
			r.h.Log(1)
			r.h.Hold(1)
			for i := range both {
				r.begin(both[i])
				for range 2 { // between two answers the launcher has launched what it may
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
			// The order to leave comes right behind the launch of the first kernel of priority, and nothing else before its last.
			i := slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, "cuStreamWriteValue32") })
			if i < 1 || i+2 >= len(calls) || !strings.HasPrefix(calls[i-1], "cuLaunchKernel") || !strings.HasPrefix(calls[i+2], "cuLaunchKernel") {
				t.Errorf("around the order to leave stands %v", calls[max(0, i-2):min(len(calls), i+4)])
			}
		})
	}
}

// Of a launch of priority that is over before others are known to have left, the preemption lasts until they are.
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
	r.must(second) // their streams are there, and clean
	r.h.Late(int(late))
	defer r.h.Late(0)
	r.h.Hold(1)
	for _, w := range []device.Work{first, second} {
		r.begin(w)
		for range 2 { // between two answers the launcher has launched what it may
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
