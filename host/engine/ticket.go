// Tickets are tasks of a Server with their own inputs. Their callers receive the exits of each sample and the end.

package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// MaxOpen limits the samples of a Call, since memory for all their exits is allocated at once.
const MaxOpen = 1 << 14

// firstGiven is less than all ids that Open assigns. Ids from clients are smaller. JSON numbers represent all exactly.
const firstGiven = 1 << 52

// Call is a task with its own inputs.
type Call struct {
	Task sched.Task // if ID is 0, the server assigns a free id above 1<<52
	// Inputs are the inputs by sample; nil: Config.Inputs is used. The caller must not change them any more.
	Inputs [][]device.Tensor
	// Taken, if set, is called on the server's goroutine when the task has been accepted, unless the task has ended at once.
	// It must not block.
	Taken func()
}

// Exit is an exit that a sample has passed. The receiver may store and change the value.
type Exit struct {
	Sample, Exit int
	Result       device.ExitResult
	At           Time
}

// Outcome is the ending of a sample. Result is the result at the exit taken; nil: none.
type Outcome struct {
	Record Record
	Result *device.ExitResult
}

// Ticket represents an accepted task.
type Ticket struct {
	s         *Server
	id        uint64
	inputs    [][]device.Tensor
	exits     chan Exit
	whole     bool  // created by Do, which only waits for the end
	over      bool  // the task has ended; only the server's goroutine uses this
	closed    error // for Do: the server ended before it accepted the task
	taken     func()
	done      chan struct{}
	outcomes  []Outcome
	cancelled atomic.Bool
}

// Open is like Submit, for a task with its own inputs. It returns when the task is accepted or rejected. After that the
// end of ctx has no effect. To cancel the task at the end of ctx, use context.AfterFunc(ctx, ticket.Cancel).
func (s *Server) Open(ctx context.Context, c *Call) (*Ticket, error) { return s.ticket(ctx, c, false) }

// Do opens a task and waits for its end. Callers that do not need exits use Do, since their goroutine wakes only once.
// If ctx ends after the task has been accepted, the task is cancelled, and Do returns its outcomes.
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

// ID is the id of the task.
func (t *Ticket) ID() uint64 { return t.id }

// Exits returns a channel that delivers every exit that a sample passes, once and immediately. The channel has room for
// all exits, so the server never waits for the reader. The channel is closed when the task has ended.
func (t *Ticket) Exits() <-chan Exit { return t.exits }

// Done returns a channel that is closed when the task has ended.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Outcomes returns the endings of the samples, after Done.
func (t *Ticket) Outcomes() []Outcome { return t.outcomes }

// Cancel ends the task; a running sample ends at its next exit. It never waits, and may be called at any time.
func (t *Ticket) Cancel() {
	if !t.cancelled.Swap(true) {
		t.s.cancelTicket(t)
	}
}

// toEnd returns the channel that is closed when the task of a Do has ended; nil if submit need not wait for the end.
func (t *Ticket) toEnd() <-chan struct{} {
	if t == nil || !t.whole {
		return nil
	}
	return t.done
}

// number sets the ticket's id and returns it. If the parameter id is 0, a free id is used.
func (t *Ticket) number(c *core, id uint64) uint64 {
	for id == 0 {
		if c.given++; c.byID.get(firstGiven+c.given) == nil {
			id = firstGiven + c.given
		}
	}
	t.id = id
	return id
}

// admit allocates memory for all exits and outcomes that will be reported.
func (t *Ticket) admit(samples, exits int) {
	t.outcomes = make([]Outcome, samples)
	if !t.whole {
		t.exits = make(chan Exit, samples*exits)
	}
}

// passed reports an exit, unless the exit was reported before. A request that starts again passes the same exits again.
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
