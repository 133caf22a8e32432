// The simulated GPU and a real GPU (package real) use these tasks, their source, and their results.

package seeb

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// Task is a group of images for one network that arrive together.
type Task struct {
	At, Deadline int64 // ns; the deadline is relative to the arrival
	Network      string
	Images       int
}

// Source returns the tasks as a sched.Source.
func Source(tasks []Task) *load.Open {
	s := &load.Open{Task: func(i int, at int64) sched.Task {
		t := &tasks[i]
		return sched.Task{Network: t.Network, Created: at, Arrived: at, Deadline: at + t.Deadline, Samples: t.Images, Theta: 2}
	}}
	for i := range tasks {
		s.Times = append(s.Times, tasks[i].At)
	}
	return s
}

// Span contains the start and end time of a task, in ns. Failed means that an image of the task failed.
type Span struct {
	From, To int64
	Failed   bool
}

// Spans is an engine.Observer that records the spans of a Source's tasks.
type Spans struct {
	engine.NopObserver
	Tasks         []Span // by task
	Images, Right int    // number of answered images; number of images with the correct class
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
