// This file handles the arrival, rejection, cancellation and end of tasks.

package engine

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// maxSamples limits the samples of a task.
const maxSamples = 1 << 20

// item handles an item of the source. "due" is the item's time, which may be in the past.
func (c *core) item(it Item) error {
	switch {
	case it.Task != nil:
		_, err := c.arrive(it.Task, min(it.At, c.now), nil)
		return err
	case it.Cancel != 0:
		return c.cancel(it.Cancel)
	}
	c.waits = slices.DeleteFunc(c.waits, func(t Time) bool { return t <= c.now })
	return c.tell(sched.Event{Kind: sched.Timer})
}

// check returns the reason to reject a task, or nil. "seen" is the traffic of the task's network.
func (c *core) check(in *sched.Task, due Time, seen *sched.Traffic) error {
	switch {
	case c.shut:
		return fmt.Errorf("task %d: %w", in.ID, ErrClosed)
	case in.ID == 0 || c.byID.get(in.ID) != nil:
		return fmt.Errorf("task %d: %w", in.ID, ErrTaken)
	case in.Samples < 0 || in.Samples > maxSamples:
		return fmt.Errorf("task %d: %w: %d, expected 1..%d", in.ID, ErrSamples, in.Samples, maxSamples)
	case seen == nil || c.leaves(in.Network):
		return fmt.Errorf("task %d: %w: %q", in.ID, ErrNetwork, in.Network)
	case in.Deadline != 0 && in.Deadline <= due:
		return fmt.Errorf("task %d: %w: it comes at %d ns, its deadline is %d ns", in.ID, ErrExpired, due, in.Deadline)
	}
	return nil
}

// refuse ends a task that is not accepted.
func (c *core) refuse(in *sched.Task, due Time, why error) {
	c.last++
	rec := Record{
		ID: c.last, Task: in.ID, Arrived: due, Deadline: in.Deadline, Started: -1, Ended: c.now, Exit: -1, Class: -1,
		Ending: Refused, Why: why.Error(),
	}
	c.hear(&rec, nil)
	t := *in
	t.Arrived = due
	c.taskEnded(&t, Refused)
}

// arrive accepts a task or rejects it. A task with a ticket but without an id receives a free id.
func (c *core) arrive(in *sched.Task, due Time, ticket *Ticket) (refused, err error) {
	if ticket != nil {
		in.ID = ticket.number(c, in.ID)
	}
	seen := c.traffic(in.Network)
	if err := c.check(in, due, seen); err != nil {
		c.refuse(in, due, err)
		return err, nil
	}
	if err := c.admission.hopeless(c.now, in); err != nil {
		c.refuse(in, due, err)
		return err, nil
	}
	samples := max(1, in.Samples)
	seen.Arrive(max(due, seen.Latest), samples)
	e := &c.ev
	*e = sched.Event{}
	e.Request = c.last + device.RequestID(samples)
	t := c.spareTasks.take()
	// Here and below, fields are assigned one by one. The compiler builds a literal on the stack and then copies it,
	// and processors stall when they copy data that was just written in smaller pieces.
	t.Task = *in
	t.Arrived, t.Samples = due, samples
	t.left, t.flying, t.worst, t.over, t.reqs, t.ticket = samples, 0, Pending, false, t.reqs[:0], nil
	c.enlist(t)
	admitted := c.cfg.Admission == nil || c.cfg.Admission(c.now, &c.st, &t.Task)
	deadline := t.Deadline
	if deadline == 0 {
		deadline = never
	}
	var home *family
	if len(c.families) > 0 {
		home = c.families[t.Network]
	}
	for s := range samples {
		c.newRequest(t, s, deadline, seen, home)
	}
	reqs := t.reqs // the last ending clears t.reqs
	how, why := Refused, ""
	switch {
	case !admitted:
		refused = fmt.Errorf("task %d: %w", in.ID, ErrAdmitted)
	case c.allDead():
		how, why = Errored, "no device is left"
		refused = fmt.Errorf("task %d: %w: %s", in.ID, device.ErrGone, why)
	case ticket != nil: // the ticket receives no outcome of a rejected task
		t.ticket = ticket
		ticket.admit(samples, len(seen.Passed))
	}
	for _, r := range reqs {
		if refused == nil {
			c.st.Queue.Push(&r.Request)
		} else {
			c.end(r, how, why, nil)
		}
	}
	if refused != nil {
		return refused, nil
	}
	if err := c.ask(); err != nil || ticket == nil || ticket.taken == nil || ticket.over {
		return nil, err
	}
	ticket.taken()
	return nil, nil
}

// newRequest adds the request for sample s of a task. It does not add the request to a queue.
func (c *core) newRequest(t *task, s int, deadline Time, seen *sched.Traffic, home *family) {
	c.last++
	r := c.spareReqs.take()
	if r.input == nil {
		r.input = func() ([]device.Tensor, error) { return c.input(r) }
	}
	r.task, r.launch, r.seen, r.dev, r.home, r.waits, r.copying = t, nil, seen, -1, home, false, false
	r.retried, r.ended, r.inFlight, r.shown = false, false, false, 0
	r.ID, r.Task, r.Sample, r.Client, r.Network, r.Link = c.last, t.ID, s, t.Client, t.Network, t.Link
	r.Arrived, r.Deadline, r.Priority, r.Theta, r.Thetas = t.Arrived, deadline, t.Priority, t.Theta, t.Thetas
	rec := &r.rec
	*rec = Record{}
	rec.ID, rec.Task, rec.Sample, rec.Arrived, rec.Deadline = r.ID, t.ID, s, t.Arrived, t.Deadline
	rec.Started, rec.Exit, rec.Class = -1, -1, -1
	c.reqs.put(uint64(r.ID), r)
	t.reqs = append(t.reqs, r)
}

// enlist adds an accepted task to the list of tasks that have not ended.
func (c *tasks) enlist(t *task) {
	c.byID.put(t.ID, t)
	t.older, t.newer = c.newest, nil
	if c.newest == nil {
		c.oldest = t
	} else {
		c.newest.newer = t
	}
	c.newest = t
}

// delist removes an ended task from the list.
func (c *tasks) delist(t *task) {
	c.byID.drop(t.ID)
	if t.older == nil {
		c.oldest = t.newer
	} else {
		t.older.newer = t.newer
	}
	if t.newer == nil {
		c.newest = t.older
	} else {
		t.newer.older = t.older
	}
	t.older, t.newer = nil, nil
}

// input makes the input of a request, on the goroutine that copies it.
func (c *core) input(r *request) (in []device.Tensor, err error) {
	defer func() {
		if err != nil {
			err = &inputError{r.ID, err}
			c.cfg.logPanic("Inputs", err)
		}
	}()
	defer device.Recover(&err)
	if k := r.task.ticket; k != nil && k.inputs != nil {
		return k.inputs[r.Sample], nil
	}
	return c.cfg.Inputs(&r.Request)
}

// inputError is an error of the function that makes inputs.
type inputError struct {
	id  device.RequestID
	err error
}

func (e *inputError) Error() string { return fmt.Sprintf("input of request %d: %v", e.id, e.err) }
func (e *inputError) Unwrap() error { return e.err }

func (c *core) cancel(id uint64) error {
	t := c.byID.get(id)
	if t == nil {
		return nil // the task has ended, so there is nothing to cancel
	}
	last := c.takeBack(t, Cancelled, "")
	return c.tell(sched.Event{Kind: sched.Cancel, Request: last})
}

// takeBack ends all requests of a task in queues, copies and launches. It returns the id of the last request.
func (c *core) takeBack(t *task, how Ending, why string) (last device.RequestID) {
	reqs := t.reqs // the last ending clears t.reqs
	t.over = true
	for _, r := range reqs {
		if r.ended {
			continue
		}
		last = r.ID
		l := r.launch
		switch {
		case r.copying || l != nil && (l.busy || l.doomed != nil):
			if r.waits {
				c.unqueue(r)
			}
			r.inFlight = true
			t.flying++
		case l != nil:
			c.leave(l, r)
			c.release(r)
		default:
			c.unqueue(r)
			c.release(r)
		}
		c.end(r, how, why, nil)
	}
	return last
}

// unqueue removes a request from its queue.
func (c *core) unqueue(r *request) {
	q := &c.st.Queue
	if r.waits {
		q, r.waits = &c.st.Devices[r.dev].Queue, false
	}
	if !c.shut {
		q.Remove(r.ID)
	}
}

// requeue puts a request back in the queue, at its original place.
func (c *core) requeue(r *request) {
	if r.home != nil {
		r.Network = r.home.name
	}
	c.admission.look = 0
	c.st.Queue.Insert(&r.Request)
}

// giveBack handles a request of a launch that has failed. The request starts again at most once, and only if it can
// meet its deadline when it starts at the time "ready".
func (c *core) giveBack(r *request, v *sched.DeviceView, ready Time, cause error) {
	r.launch = nil
	c.release(r)
	t := v.Table(r.Network)
	switch {
	case r.inFlight:
		c.landed(r)
	case !r.retried && t != nil && (r.Deadline == never || ready+t.Alone() <= r.Deadline):
		r.retried = true
		r.rec.Retried = true
		c.res.Retries++
		c.requeue(r)
	default:
		c.end(r, Errored, cause.Error(), nil)
	}
}

// drain ends all waiting requests.
func (c *core) drain(why string) {
	for {
		q, ok := c.st.Queue.Pop()
		if !ok {
			return
		}
		c.end(c.reqs.get(uint64(q.ID)), Errored, why, nil)
	}
}

func (c *core) finish(l *launch, r *request, exit int, exits []device.ExitResult) {
	e := exitResult(exits, exit)
	rec := &r.rec
	rec.Exit, rec.Class, rec.Confidence = exit, e.Class, e.Confidence
	how := OnTime
	if c.now > r.Deadline {
		how = Late
	}
	l.seen.Ended++
	if r.home != nil {
		r.seen.Ended++
	}
	c.end(r, how, "", e)
}

// end ends a request.
func (c *core) end(r *request, how Ending, why string, result *device.ExitResult) {
	rec := &r.rec
	rec.Ending, rec.Ended, rec.Why = how, c.now, why
	r.ended = true
	if rec.Started < 0 && !c.shut {
		r.seen.Gone(r.Arrived)
		if r.home != nil && r.Network != r.home.name {
			c.traffic(r.Network).Gone(r.Arrived)
		}
	}
	c.hear(rec, result)
	if k := r.task.ticket; k != nil {
		k.outcome(rec, result)
	}
	if !r.inFlight {
		c.dropRequest(r)
	}
	t := r.task
	t.worst = max(t.worst, how)
	if t.left--; t.left > 0 {
		if c.admission.on && !t.over && (how == Dropped || how == Errored) { // without this result the task's other samples are useless
			t.over = true
			c.spoiled, c.again = append(c.spoiled, spoiled{t.ID, how, why}), true
		}
		return
	}
	c.delist(t)
	c.taskEnded(&t.Task, t.worst)
	if t.ticket != nil {
		t.ticket.finish()
	}
	c.recycle(t)
}

// hear records the ending of a request and reports it to the observer.
func (c *core) hear(rec *Record, result *device.ExitResult) {
	c.res.End = max(c.res.End, c.now)
	c.res.Stream.take(rec)
	c.ended++
	if c.keep.keep != Counts {
		c.keep.ended(rec, result)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Ended(rec, result)
	}
}

func (c *core) taskEnded(t *sched.Task, how Ending) {
	if c.cfg.Observer != nil {
		c.cfg.Observer.TaskEnded(c.now, t, how)
	}
	if c.cfg.Source == nil {
		return
	}
	for _, it := range c.cfg.Source.Ended(c.now, t, how) {
		if !c.shut && (!c.drained || it.Task == nil) {
			it.At = max(it.At, c.now)
			c.schedule(it)
		}
	}
}

// landed removes a request that ended during its segment or copy. It is called when the segment or copy has ended too.
func (c *core) landed(r *request) {
	c.dropRequest(r)
	r.task.flying--
	c.recycle(r.task)
}

// recycle returns the memory of a task and its requests to the pools, if nothing refers to the memory any more. The
// fields stay valid until the next arrival, which is another event.
func (c *core) recycle(t *task) {
	if t.left > 0 || t.flying > 0 || c.shut { // after shut no more tasks arrive
		return
	}
	for _, r := range t.reqs {
		c.spareReqs.give(r)
	}
	t.ticket = nil // otherwise the pool would keep the ticket alive
	c.spareTasks.give(t)
}
