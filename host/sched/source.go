// This file has types for the sources and endings of tasks. The packages load and engine share them.

package sched

import (
	"fmt"
	"slices"
)

// Ending is the way in which a request ends. Each request ends exactly once.
type Ending uint8

const (
	Pending   Ending = iota // has not ended
	OnTime                  // the result was ready by the deadline
	Late                    // the result was ready after the deadline
	Dropped                 // given up by the policy, after the request was queued
	Refused                 // never admitted
	Cancelled               // cancelled by the client
	Errored                 // the device failed, and a retry failed too or would have been too late
)

var endings = [...]string{"pending", "on_time", "late", "dropped", "refused", "cancelled", "error"}

// String returns the name of an ending, as in the summary.
func (e Ending) String() string { return name(int(e), endings[:]...) }

// MarshalText returns the name.
func (e Ending) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the name.
func (e *Ending) UnmarshalText(text []byte) error {
	i := slices.Index(endings[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown ending %q", text)
	}
	*e = Ending(i)
	return nil
}

// Item is an event from outside the engine: a task, or the cancellation of a task.
type Item struct {
	At     Time
	Task   *Task  // nil for a cancellation
	Cancel uint64 // id of the task to cancel, if Task is nil
}

// Source delivers tasks to the engine.
type Source interface {
	// Next returns the next item, in the order of time. Items that depend on the endings of tasks come from Ended
	// instead. Next returns false if no item is left. The engine copies the task, so a source may reuse its memory. The
	// engine requests an item when the time of the previous item has come.
	Next() (Item, bool)
	// Ended tells the source that a task has ended. The argument how is the worst ending of its samples. Ended returns
	// the items that a closed loop sends next. The source may only read the task, and only during the call.
	Ended(now Time, t *Task, how Ending) []Item
}

// Advisee is a Source that receives advice (Advise).
type Advisee interface {
	Advised(now Time, a *Advice)
}
