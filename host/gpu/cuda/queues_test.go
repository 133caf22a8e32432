package cuda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// There are never more streams than hardware queues, on however many partitions launches have run. The least recently
// used streams are destroyed, and the others work as before.
func TestQueues(t *testing.T) {
	const queues = "CUDA_DEVICE_MAX_CONNECTIONS"
	t.Setenv(queues, "6")
	_, h := library(t)
	h.Log(1)
	r := start(t, cuda.Config{Mode: mode(t, "reset"), Places: 4})
	b, want := r.admitted(1, 6)
	for id := device.RequestID(2); id <= 4; id++ {
		if e := r.copy(b, id, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
	}
	runs := func(u device.Units) {
		t.Helper()
		if got := r.whole(b, u, 1)[0][0].Raw; !slices.Equal(got, want[0]) {
			t.Fatalf("on %v: %v, golden says %v", u, got, want[0])
		}
	}
	made, most, there := 0, 0, 0
	calls := map[string]int{} // calls for memory of GPU and host, and for events
	count := func() {
		for _, c := range h.Calls() {
			switch name, _, _ := strings.Cut(c, "("); name {
			case "cuStreamCreateWithPriority":
				made++
				there++
			case "cuStreamDestroy_v2":
				there--
			case "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuEventCreate", "cuEventDestroy_v2":
				calls[name]++
			}
			most = max(most, there)
		}
		h.Log(1)
	}
	for round := range 2 {
		made = 0
		clear(calls)
		for unit := range r.d.Info().Units {
			runs(device.UnitRange(unit, 1))
		}
		// Events are destroyed with the stream on which they are recorded, since they belong to its context.
		units := r.d.Info().Units
		if count(); round == 1 && (made != units || len(calls) != 2 || calls["cuEventCreate"] != 5*units || calls["cuEventDestroy_v2"] != 5*units) {
			t.Errorf("%d streams and %v, where each of %d launches needs another stream with its events and has all else", made, calls, units)
		}
	}
	if there != 6 || most != 6 {
		t.Errorf("%d streams, and %d once: expected 6 of 6 queues", there, most)
	}
	made = 0
	for i := range 3 { // the streams used last, and that of the launches of priority
		runs(device.UnitRange(r.d.Info().Units-3+i, 1))
	}
	w := launch(b, 0, 0, 2, 1)
	w.Launch.Priority = 1
	r.must(w)
	if count(); made != 0 {
		t.Errorf("%d streams are made, where there are some", made)
	}
	for i := range 4 { // all places are taken
		w := launch(b, 0, 0, 2, device.RequestID(i+1))
		w.Launch.Units = device.UnitRange(4*i, 4)
		r.begin(w)
	}
	for range 4 {
		if e := r.event(); e.Kind != device.Passed {
			t.Fatalf("%+v (%v)", e, e.Err)
		}
	}
	if count(); most != 6 {
		t.Errorf("%d streams once, where all places are taken", most)
	}
	h.Log(0)
	r.must(device.Work{Kind: device.Reset})
	runs(device.Units{})
	if _, err := r.d.Costs(1); err != nil {
		t.Error(err)
	}
	path, _ := library(t)
	for _, c := range []struct {
		env    string
		places int
		says   string
	}{
		{"6", 5, "5 launches at the same time: 4 are the most"},
		{"1", 1, "0 are the most"},
		{"32", 31, "30 are the most"},
		{"33", 1, queues + ` is "33": a number from 1 to 32 is expected`},
		{"0", 1, `is "0"`},
		{"many", 1, `is "many"`},
	} {
		t.Setenv(queues, c.env)
		if _, err := cuda.New(cuda.Config{Library: path, Places: c.places}); !errors.Is(err, device.ErrRequest) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s queues, %d launches: %v", c.env, c.places, err)
		}
	}
}
