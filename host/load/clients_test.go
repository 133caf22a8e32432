package load_test

import (
	"fmt"
	"testing"

	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// Clients send at their due times, and in a closed loop after the end of their last task, until End and at most Most
// tasks.
func TestClients(t *testing.T) {
	c := &load.Clients{
		Due: []load.Due{{At: 0, Client: 1}, {At: 3, Client: 0}}, Closed: func(client int) bool { return client == 1 }, End: 10, Most: 4,
		Task: func(client int, at int64) sched.Task {
			return sched.Task{Network: fmt.Sprint(client), Deadline: at + 7}
		},
	}
	want := func(it sched.Item, is string) {
		t.Helper()
		k := it.Task
		if got := fmt.Sprintf("%d %d %d %s %d %d %d %d", it.At, k.ID, k.Client, k.Network, k.Created, k.Arrived, k.Deadline, k.Samples); got != is {
			t.Errorf("%s, expected %s", got, is)
		}
	}
	next := func(is string) *sched.Task {
		t.Helper()
		it, ok := c.Next()
		if !ok {
			t.Fatal("nothing is due")
		}
		want(it, is)
		return it.Task
	}
	ended := func(now int64, k *sched.Task, is ...string) *sched.Task {
		t.Helper()
		items := c.Ended(now, k, sched.OnTime)
		if len(items) != len(is) {
			t.Fatalf("at %d %d follow, expected %d", now, len(items), len(is))
		}
		if len(is) == 0 {
			return nil
		}
		want(items[0], is[0])
		return items[0].Task
	}
	first := next("0 1 1 1 0 0 7 1")
	open := next("3 2 0 0 3 3 10 1")
	if _, ok := c.Next(); ok {
		t.Error("a third is due")
	}
	ended(4, open)
	second := ended(0, first, "1 3 1 1 1 1 8 1") // a task that took no time is followed 1 ns later
	ended(10, second)
	third := ended(9, second, "9 4 1 1 9 9 16 1")
	ended(9, third) // four are the most
}
