// Where tasks come from and how they end: types that load and engine share.

package sched

import (
	"fmt"
	"slices"
)

// Ending is how a request ends; each request ends exactly once.
type Ending uint8

const (
	Pending   Ending = iota // has not ended
	OnTime                  // its result came by its deadline
	Late                    // its result came after it
	Dropped                 // the policy gave it up after it was queued
	Refused                 // never admitted
	Cancelled               // by its client
	Errored                 // the device failed, and a retry failed too or would have been too late
)

var endings = [...]string{"pending", "on_time", "late", "dropped", "refused", "cancelled", "error"}

// String names an ending as the summary does.
func (e Ending) String() string { return name(int(e), endings[:]...) }

// MarshalText gives the name.
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

// Item is an event from outside: a task, or the cancellation of one.
type Item struct {
	At     Time
	Task   *Task  // nil for a cancel
	Cancel uint64 // the task to cancel, where Task is nil
}

// Source is where tasks come from.
type Source interface {
	// Next returns the next item in order of time, among those that do not depend on the endings of tasks; false if there is
	// none (left). The task is copied, so a source may reuse its memory. The engine asks for an item when the time of the
	// previous one has come.
	Next() (Item, bool)
	// Ended reports that a task has ended, with the worst ending of its samples. It returns the items that follow from this
	// (closed loops). The source may only read the task, and only until it returns.
	Ended(now Time, t *Task, how Ending) []Item
}

// Advisee is a Source that receives advice (Advise).
type Advisee interface {
	Advised(now Time, a *Advice)
}
