// The tasks of a run, on the simulated GPU and on a real one (package real): what serves them and what became of them.

package seeb

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
)

// Task is one of a load: images of a network that arrive together.
type Task struct {
	At, Deadline int64 // ns; the deadline is from the arrival on
	Network      string
	Images       int
}

// Source is the tasks of a load as a sched.Source.
type Source struct {
	Tasks []Task
	next  int
}

// Next implements sched.Source.
func (s *Source) Next() (sched.Item, bool) {
	if s.next == len(s.Tasks) {
		return sched.Item{}, false
	}
	t := &s.Tasks[s.next]
	s.next++
	return sched.Item{At: t.At, Task: &sched.Task{
		ID: uint64(s.next), Network: t.Network, Created: t.At, Arrived: t.At, Deadline: t.At + t.Deadline, Samples: t.Images, Theta: 2,
	}}, true
}

// Ended implements sched.Source.
func (*Source) Ended(int64, *sched.Task, sched.Ending) []sched.Item { return nil }

// Span is when a task began and ended, in ns. Failed: one of its images did not end well.
type Span struct {
	From, To int64
	Failed   bool
}

// Spans is an engine.Observer that records the spans of a Source's tasks.
type Spans struct {
	engine.Deaf
	Tasks         []Span // by task
	Images, Right int    // answered; with the right class
}

// Ended implements engine.Observer.
func (s *Spans) Ended(r *engine.Record, _ *device.ExitResult) {
	t := &s.Tasks[r.Task-1]
	if r.Ending != engine.OnTime && r.Ending != engine.Late {
		t.Failed = true
		return
	}
	if t.To == 0 || r.Started < t.From {
		t.From = r.Started
	}
	t.To = max(t.To, r.Ended)
	s.Images++
	s.Right += r.Class
}
