// Tickets: a task of a Server with inputs of its own. Its caller is told of its exits and its end.

package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// MaxOpen bounds the samples of one Call: room for all their exits is made at once.
const MaxOpen = 1 << 14

// firstGiven is the first id that Open gives: clients' own are smaller, and JSON's numbers still hold it.
const firstGiven = 1 << 52

// Call is one task with its own inputs.
type Call struct {
	Task sched.Task // ID 0: the server gives a free one, from 1<<52 on
	// Inputs are by sample; nil: Config.Inputs has them. They are handed over: nobody changes them any more.
	Inputs [][]device.Tensor
	// Taken, where set, is called in the server's goroutine when the task has been taken in and has not ended at once; it
	// must not wait.
	Taken func()
}

// Exit is an exit that a sample has passed. It is the receiver's.
type Exit struct {
	Sample, Exit int
	Result       device.ExitResult
	At           Time
}

// Outcome is how a sample has ended; Result is what it showed at the exit taken, nil where it took none.
type Outcome struct {
	Record Record
	Result *device.ExitResult
}

// Ticket stands for a task that has been taken in.
type Ticket struct {
	s         *Server
	id        uint64
	inputs    [][]device.Tensor
	exits     chan Exit
	whole     bool  // of Do, which waits for the end alone
	over      bool  // it has ended; only the server's goroutine uses this
	closed    error // of Do: the server ended as the task came
	taken     func()
	done      chan struct{}
	outcomes  []Outcome
	cancelled atomic.Bool
}

// Open is Submit for a task with inputs of its own. It returns when the task has been taken in or is refused; ctx has
// no more to do with it then (context.AfterFunc(ctx, ticket.Cancel) lets it cancel).
func (s *Server) Open(ctx context.Context, c *Call) (*Ticket, error) { return s.ticket(ctx, c, false) }

// Do is Open and waiting for the end, for who asks for no exit on the way: its goroutine is woken once. Where ctx ends
// after the task has been taken in, the task is cancelled, which its outcomes tell.
func (s *Server) Do(ctx context.Context, c *Call) ([]Outcome, error) {
	t, err := s.ticket(ctx, c, true)
	if err == nil {
		err = t.closed
	}
	if err != nil {
		return nil, err
	}
	return t.outcomes, nil
}

func (s *Server) ticket(ctx context.Context, c *Call, whole bool) (*Ticket, error) {
	n := max(1, c.Task.Samples)
	if n > MaxOpen || c.Inputs != nil && len(c.Inputs) != n {
		return nil, fmt.Errorf("task %d: %w: %d with inputs for %d, expected as many inputs as samples, %d at most",
			c.Task.ID, ErrSamples, c.Task.Samples, len(c.Inputs), MaxOpen)
	}
	t := &Ticket{s: s, id: c.Task.ID, inputs: c.Inputs, done: make(chan struct{}), whole: whole, taken: c.Taken}
	if err := s.submit(ctx, &asked{task: c.Task, ticket: t}); err != nil {
		return nil, err
	}
	return t, nil
}

// ID is the task's.
func (t *Ticket) ID() uint64 { return t.id }

// Exits are all exits that samples pass, each once and as it is passed. There is room for all of them, so the server
// never waits for who reads them. It is closed when the task has ended.
func (t *Ticket) Exits() <-chan Exit { return t.exits }

// Done is closed when the task has ended.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Outcomes are how the samples have ended, by sample. It is to be called after Done.
func (t *Ticket) Outcomes() []Outcome { return t.outcomes }

// Cancel ends the task, at the next exit where it runs. It never waits, and may be called at any time.
func (t *Ticket) Cancel() {
	if !t.cancelled.Swap(true) {
		t.s.cancelTicket(t)
	}
}

// toEnd is closed when the task of a Do has ended; nil: nobody waits for that in submit.
func (t *Ticket) toEnd() <-chan struct{} {
	if t == nil || !t.whole {
		return nil
	}
	return t.done
}

// number is the task's id: the one it came with, or a free one.
func (t *Ticket) number(c *core, id uint64) uint64 {
	for id == 0 {
		if c.given++; c.byID.get(firstGiven+c.given) == nil {
			id = firstGiven + c.given
		}
	}
	t.id = id
	return id
}

// admit makes room for what will be told of the task.
func (t *Ticket) admit(samples, exits int) {
	t.outcomes = make([]Outcome, samples)
	if !t.whole {
		t.exits = make(chan Exit, samples*exits)
	}
}

// passed tells of an exit, once: a request that starts again passes the same ones.
func (t *Ticket) passed(r *request, exit int, exits []device.ExitResult, now Time) {
	if t.whole {
		return
	}
	e := exitResult(exits, exit)
	if e == nil || exit < r.shown {
		return
	}
	r.shown = exit + 1
	t.exits <- Exit{Sample: r.Sample, Exit: exit, Result: e.Clone(), At: now}
}

func (t *Ticket) outcome(r *Record, result *device.ExitResult) {
	o := &t.outcomes[r.Sample]
	o.Record = *r
	if result != nil {
		e := result.Clone()
		o.Result = &e
	}
}

func (t *Ticket) finish() {
	t.over = true
	if !t.whole {
		close(t.exits)
	}
	close(t.done)
}
