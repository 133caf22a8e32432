package sched_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Compares the queue with a plain slice.
func TestQueueIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q sched.Queue
		var want []sched.Request
		next, levels := 0, rapid.IntRange(1, 3).Draw(t, "levels")
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				next++
				r := sched.Request{
					ID: device.RequestID(next), Arrived: int64(next / 2), Deadline: rapid.Int64Range(0, 5).Draw(t, "deadline"),
					Priority: rapid.IntRange(0, levels-1).Draw(t, "level"),
				}
				q.Push(&r)
				want = append(want, r)
				slices.SortStableFunc(want, func(a, b sched.Request) int { return cmp.Compare(b.Priority, a.Priority) })
			case 2:
				r, ok := q.Pop()
				if ok != (len(want) > 0) || ok && r.ID != want[0].ID {
					t.Fatalf("pop gave %v, %v; want the first of %v", r, ok, want)
				}
				if ok {
					want = want[1:]
				}
			case 3: // remove one, and sometimes put it back
				if len(want) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				r, ok := q.Remove(want[i].ID)
				if !ok || r.ID != want[i].ID {
					t.Fatalf("remove %d gave %v, %v", want[i].ID, r, ok)
				}
				if rapid.Bool().Draw(t, "back") {
					q.Insert(&r)
				} else {
					want = slices.Delete(slices.Clone(want), i, i+1)
				}
			case 4:
				if _, ok := q.Remove(1 << 40); ok {
					t.Fatal("removed a request that is not there")
				}
			}
			if q.Len() != len(want) {
				t.Fatalf("length %d, want %d", q.Len(), len(want))
			}
			if got, want := q.Ordered(), slices.IsSortedFunc(want, func(a, b sched.Request) int {
				return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Deadline, b.Deadline))
			}); got != want {
				t.Fatalf("ordered by level and deadline: %v, want %v", got, want)
			}
			for i := range want {
				if q.At(i).ID != want[i].ID {
					t.Fatalf("place %d holds %d, want %d", i, q.At(i).ID, want[i].ID)
				}
			}
		}
	})
}
