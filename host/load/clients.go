package load

import "github.com/sluice-npu/sluice/host/sched"

// Due is a time at which a client sends a task.
type Due struct {
	At     Time
	Client int
}

// Clients send tasks at their due times. A client in a closed loop sends its next task when its last task has ended, if
// this is before End. Most, if set, limits the number of tasks.
type Clients struct {
	Due    []Due // in order of time
	Task   func(client int, at Time) sched.Task
	Closed func(client int) bool // nil: no closed loops
	End    Time
	Most   int

	next int
	id   int
}

func (c *Clients) item(client int, at Time) sched.Item {
	c.id++
	t := c.Task(client, at)
	t.ID, t.Client, t.Created, t.Arrived, t.Samples = uint64(c.id), client, at, at, 1
	return sched.Item{At: at, Task: &t}
}

// Next implements sched.Source.
func (c *Clients) Next() (sched.Item, bool) {
	if c.next == len(c.Due) {
		return sched.Item{}, false
	}
	d := c.Due[c.next]
	c.next++
	return c.item(d.Client, d.At), true
}

// Ended implements sched.Source. If a task took no time, the next task follows 1 ns later. Otherwise virtual time would
// not advance.
func (c *Clients) Ended(now Time, t *sched.Task, _ sched.Ending) []sched.Item {
	if c.Closed == nil || !c.Closed(t.Client) || now >= c.End || c.Most > 0 && c.id >= c.Most {
		return nil
	}
	return []sched.Item{c.item(t.Client, max(now, t.Arrived+1))}
}
