package engine

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// behind returns an admission with a queue of requests with these priorities and deadlines, for a number of networks.
func behind(networks int, priorities []int, deadlines []Time) *admission {
	a := &admission{on: true, st: &sched.State{Traffic: make([]sched.Traffic, networks)}}
	for i, d := range deadlines {
		a.st.Queue.Push(&sched.Request{ID: device.RequestID(i + 1), Network: fmt.Sprint(i % networks), Priority: priorities[i%len(priorities)], Deadline: d})
	}
	return a
}

// TestWaitFirst: requests with a higher priority go first, and so do those with the same priority and an earlier or
// equal deadline, with every way to search the queue.
func TestWaitFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		networks := rapid.IntRange(1, 3).Draw(t, "networks")
		priorities := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 3).Draw(t, "priorities")
		deadlines := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Time { return rapid.Int64Range(1, 20).Draw(t, "deadline") }), 0, 100).Draw(t, "deadlines")
		if rapid.Bool().Draw(t, "in order") {
			slices.Sort(deadlines)
		}
		in := &sched.Task{Network: "0", Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Deadline: rapid.Int64Range(1, 20).Draw(t, "its deadline")}
		want := make([]int, networks)
		for i, d := range deadlines {
			if p := priorities[i%len(priorities)]; p > in.Priority || p == in.Priority && d <= in.Deadline {
				want[i%networks]++
			}
		}
		list, n := behind(networks, priorities, deadlines).waitFirst(in)
		total := 0
		for i, w := range want {
			total += w
			got := 0
			for _, l := range list {
				if l.network == fmt.Sprint(i) {
					got += l.n
				}
			}
			if got != w {
				t.Errorf("%d of network %d go first: expected %d", got, i, w)
			}
		}
		if n != total {
			t.Errorf("%d go first: expected %d", n, total)
		}
	})
}

// BenchmarkWaitFirst: the cost of an arrival at a queue, in the order of deadlines and in another order.
func BenchmarkWaitFirst(b *testing.B) {
	for _, c := range []struct {
		name     string
		networks int
		turn     Time // every other deadline is later by so much
	}{{"ordered", 1, 0}, {"deadlines of two kinds", 1, 1000}, {"of four networks", 4, 0}} {
		for _, n := range []int{64, 1024, 16384} {
			b.Run(fmt.Sprintf("%s/waiting=%d", c.name, n), func(b *testing.B) {
				deadlines := make([]Time, n)
				for i := range deadlines {
					deadlines[i] = Time(i) + Time(i%2)*c.turn
				}
				a := behind(c.networks, []int{0}, deadlines)
				in := &sched.Task{Network: "0", Deadline: never}
				for b.Loop() {
					if _, got := a.waitFirst(in); got != n {
						b.Fatalf("%d go first: expected %d", got, n)
					}
				}
			})
		}
	}
}

// TestIdleDevice: on an idle device a task is judged only by the table, not by earlier inputs and launches, since
// nothing else would correct those estimates.
func TestIdleDevice(t *testing.T) {
	table, err := sched.Uniform("0", 2, 8, 1000)
	if err != nil {
		t.Fatal(err)
	}
	a := behind(1, []int{0}, nil)
	a.copy, a.pace = 1e6, 8
	a.st.Traffic[0] = sched.Traffic{Network: "0", Passed: make([]int64, 2)}
	a.st.Devices = []sched.DeviceView{{MaxBatch: 8, Hosted: []sched.Hosted{{Network: "0", Table: table}}}}
	v := &a.st.Devices[0]
	judge := func(what string, deadline Time, admitted bool) {
		t.Helper()
		if err := a.hopeless(0, &sched.Task{ID: 1, Network: "0", Deadline: deadline}); (err == nil) != admitted {
			t.Errorf("%s: %v", what, err)
		}
	}
	judge("idle", 2000, true)
	judge("idle, and its table says more", 1999, false)
	v.Launches = []*sched.LaunchView{{Network: "0"}}
	judge("a launch is there", 2000, false)
	v.Launches = nil
	v.Queue.Push(&sched.Request{ID: 1, Network: "0", Deadline: never})
	judge("somebody waits for the device", 2000, false)
	v.Queue = sched.Queue{}
	a.st.Queue.Push(&sched.Request{ID: 1, Network: "0", Deadline: never})
	judge("somebody waits", 2000, false)
}
