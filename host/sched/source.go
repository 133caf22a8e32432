// Where tasks come from and how they end: what load and engine share.

package sched

import (
	"fmt"
	"slices"
)

// Ending is how a request ends; each does exactly once.
type Ending uint8

// Endings (design/architecture, "How a request ends").
const (
	Pending   Ending = iota // has not ended
	OnTime                  // its result came by its deadline
	Late                    // its result came after it
	Dropped                 // the policy gave it up after queueing
	Refused                 // never admitted
	Cancelled               // by its client
	Errored                 // the device failed it, and once more after a retry or too late for one
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

// Item is something that comes from outside: a task, or the cancel of one.
type Item struct {
	At     Time
	Task   *Task  // nil for a cancel
	Cancel uint64 // the task to cancel, where Task is nil
}

// Source is where tasks come from.
type Source interface {
	// Next is the next item that comes by itself, in order of time; false: there is none (left).
	// The task is copied, so a source may hand out the same one again. It is asked for the next one
	// when it is time for the one before.
	Next() (Item, bool)
	// Ended tells that a task has ended, with the worst of its samples' endings, and returns what
	// follows from that (closed loops). The task is the source's to read only until it returns.
	Ended(now Time, t *Task, how Ending) []Item
}

// Advisee is a Source that listens to advice (Advise).
type Advisee interface {
	Advised(now Time, a *Advice)
}
