// Tickets: a task of a Server with inputs of its own, whoever opened it being told of its exits and its end.

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
	done      chan struct{}
	outcomes  []Outcome
	cancelled atomic.Bool
}

// Open is Submit for a task with inputs of its own. It returns when the task has been taken in or is refused; ctx has
// no more to do with it then (context.AfterFunc(ctx, ticket.Cancel) lets it cancel).
func (s *Server) Open(ctx context.Context, c *Call) (*Ticket, error) {
	n := max(1, c.Task.Samples)
	if n > MaxOpen || c.Inputs != nil && len(c.Inputs) != n {
		return nil, fmt.Errorf("task %d: %w: %d with inputs for %d, expected as many inputs as samples, %d at most",
			c.Task.ID, ErrSamples, c.Task.Samples, len(c.Inputs), MaxOpen)
	}
	t := &Ticket{s: s, id: c.Task.ID, inputs: c.Inputs, done: make(chan struct{})}
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
	t.exits, t.outcomes = make(chan Exit, samples*exits), make([]Outcome, samples)
}

// passed tells of an exit, once: a request that starts again passes the same ones.
func (t *Ticket) passed(r *request, exit int, exits []device.ExitResult, now Time) {
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
	close(t.exits)
	close(t.done)
}
