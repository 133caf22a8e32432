package sched_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// shuffled is a state with n waiting requests whose deadlines are in random order.
func shuffled(t *testing.T, n int) (*sched.State, []sched.Request) {
	t.Helper()
	var queued []sched.Request
	for i, d := range rand.New(rand.NewPCG(1, uint64(n))).Perm(n) {
		queued = append(queued, sched.Request{ID: device.RequestID(i + 1), Network: "n", Arrived: int64(i), Deadline: int64(d/2 + 1)})
	}
	s := state(linear(t, 1, 8, 0, 1), nil, queued...)
	slices.SortStableFunc(queued, func(a, b sched.Request) int { return cmp.Compare(a.Deadline, b.Deadline) })
	return s, queued
}

// Requests are picked by deadline, whatever their order in the queue.
func TestPicksByDeadline(t *testing.T) {
	for n := range 200 {
		s, want := shuffled(t, n)
		late := n / 3 // clockwork gives up requests that cannot end in time
		now := int64(0)
		if n > 0 {
			now = want[late].Deadline - 1
			late = slices.IndexFunc(want, func(r sched.Request) bool { return r.Deadline >= now+1 })
		}
		edf := (&sched.EDF{}).Decide(0, s, &sched.Event{}, nil)
		var got []device.RequestID
		for _, a := range edf {
			got = append(got, a.Requests...)
		}
		for i, r := range want[:min(8, n)] {
			if i >= len(got) || got[i] != r.ID {
				t.Fatalf("%d wait, edf launches %v, expected the first of %v", n, got, want)
			}
		}
		for i, a := range (&sched.Clockwork{}).Decide(now, s, &sched.Event{}, nil) {
			if drop := a.Kind == sched.Drop; drop != (i < late) || drop && a.Request != want[i].ID || !drop && a.Requests[0] == want[0].ID && late > 0 {
				t.Fatalf("%d wait, %d are late, clockwork's action %d is %+v", n, late, i, a)
			}
		}
	}
}

// A decision costs little more than the square of the batch size plus the length of the queue: a queue that is eight times
// as long takes some ten times the processor's time, and 64 times if each request given up looked at all others.
func TestPicksAreLinear(t *testing.T) {
	cost := func(n int) time.Duration {
		s, _ := shuffled(t, n)
		least := time.Duration(math.MaxInt64)
		for range 3 {
			before := processor(t)
			if got := (&sched.Clockwork{}).Decide(int64(n), s, &sched.Event{}, nil); len(got) != n {
				t.Fatalf("%d of %d given up", len(got), n)
			}
			least = min(least, processor(t)-before)
		}
		return least
	}
	if short, long := cost(10_000), cost(80_000); long > 30*short {
		t.Errorf("10,000 are given up in %v, 80,000 in %v", short, long)
	}
}

// processor is the processor time of this process.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
