package sched_test

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// GSLICE's batch begins at one image, doubles if a batch took less than half of its requests' time, stays if it took
// more, and halves if it took too long; it never exceeds the device's limit.
func TestGSLICEBatch(t *testing.T) {
	const ms = 1_000_000
	p := &sched.Collect{Label: "gslice", Share: true, Window: 100 * ms, Resize: 1000 * ms}
	st := &sched.State{Devices: make([]sched.DeviceView, 1)}
	d := &st.Devices[0]
	d.MaxBatch, d.Places, d.Slots, d.Units, d.Priorities = 4, 8, 64, 10, 1
	d.Hosted = []sched.Hosted{{Network: "n", Table: upTo4(t, "n")}}
	for i := range 40 {
		st.Queue.Push(&sched.Request{ID: device.RequestID(i + 1), Network: "n", Arrived: ms, Deadline: 101 * ms})
	}
	now := sched.Time(100 * ms)
	// Each batch takes the given number of ms, out of the 100 of its requests.
	var got []int
	for _, took := range []sched.Time{10, 10, 10, 60, 120, 120, 120, 10} {
		for _, a := range p.Decide(now, st, &sched.Event{}, nil) {
			if a.Kind != sched.Launch {
				continue
			}
			got = append(got, len(a.Requests))
			l := &sched.LaunchView{Network: a.Network, Units: a.Units}
			for _, id := range a.Requests {
				r, _ := st.Queue.Remove(id)
				l.Requests = append(l.Requests, r)
			}
			d.Launches = append(d.Launches, l)
		}
		now += took * ms
		d.Launches = d.Launches[:0]
	}
	if want := []int{1, 2, 4, 4, 4, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("batches of %v, expected %v", got, want)
	}
}
