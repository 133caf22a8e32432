// Server and Serve run in real time. One goroutine owns the engine's state and calls the policy. It waits only for the
// next message. Devices, clients and plans post messages from their own goroutines.

package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// posted is a message from a device, a plan or a change. The work in progress limits the number of messages.
type posted struct {
	kind   postKind
	dev    int
	event  device.Event
	plan   any
	change *change
}

type postKind uint8

const (
	fromDevice postKind = iota
	fromPlan
	fromChange
	drainNow
)

// asked is a client's request to serve a task, or to cancel a task by its id or ticket.
type asked struct {
	task   sched.Task
	ticket *Ticket
	at     Time
	cancel uint64
	reply  *reply // only for a request to serve a task
	room   bool   // the request uses a place in Server.room; cancelTicket needs no place, as it never waits
}

// reply carries the answer to a client that waits until its task is accepted or rejected.
type reply struct {
	refused chan error // receives the error of a rejected task, or nil if the task was accepted
	state   atomic.Int32
	timer   *time.Timer
}

// States of a reply. The server tries to change `waiting` to `looked`, the client to `withdrawn`. The first of them to
// succeed decides whether the task is served.
const (
	waiting   int32 = iota
	looked          // the server has read the request, and will answer
	withdrawn       // the client no longer waits, so the task is not served
)

// Server serves in real time. Any goroutine may submit tasks.
type Server struct {
	c       *core
	start   time.Time
	other   func() Time // Config.Now, shifted to start at 0; nil: use this machine's clock
	wake    chan struct{}
	plans   sync.WaitGroup
	posters []device.Poster // devices that post some events only when the engine calls Post

	room  chan struct{} // one entry per unprocessed request of a client; its capacity limits their number
	gone  chan struct{} // closed when no more tasks are accepted
	ended chan struct{} // closed when messages are not read any more
	ran   atomic.Bool
	busy  atomic.Bool   // the server's goroutine works and does not wait for a message
	turns atomic.Uint64 // number of messages read
	frame uintptr       // address of Run's frame on the stack; set before busy

	mu     sync.Mutex
	in     []posted
	asks   []asked
	closed error // the reason why no more tasks are accepted
	over   bool

	// The fields below belong to the loop's goroutine.
	again    []posted // memory that is swapped with in
	open     []asked  // memory that is swapped with asks; the requests before next have been processed
	next     int
	draining bool
	looks    Time // time until which the watchdog has checked the work
	alarm    Time // time for which the loop's timer is set; never: the timer is not set
	replies  sync.Pool
}

// NewServer makes a server. It does nothing until Run.
func NewServer(cfg Config) (*Server, error) {
	if cfg.Keep == AsUsual {
		cfg.Keep = Counts
	}
	return newServer(cfg)
}

func newServer(cfg Config) (*Server, error) {
	c, err := newCore(&cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Inputs == nil {
		return nil, fmt.Errorf("%w: no inputs", ErrConfig)
	}
	c.real = true
	s := &Server{
		c: c, wake: make(chan struct{}, 1), start: time.Now(),
		room: make(chan struct{}, maxAsked), gone: make(chan struct{}), ended: make(chan struct{}),
	}
	if now := cfg.Now; now != nil {
		start := now()
		s.other = func() Time { return now() - start }
	}
	s.replies.New = func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return &reply{refused: make(chan error, 1), timer: t}
	}
	for i := range c.devs {
		d := &c.devs[i]
		_, ok := d.Device.(device.Real)
		if a, is := d.Device.(*device.Adapter); is && a.Estimates() {
			ok = false
		}
		if !ok {
			v, ok := d.Device.(device.Virtual)
			if !ok {
				return nil, fmt.Errorf("%w: device %d (%s) knows no real time", ErrConfig, i, d.info.Name)
			}
			d.Device = device.Pace(v)
			d.info = d.Info()
		}
		if p, ok := d.Device.(device.Poster); ok {
			s.posters = append(s.posters, p)
		}
		if _, ok := d.Device.(*device.Paced); ok && s.other != nil {
			return nil, fmt.Errorf("%w: device %d (%s) runs by this machine's clock, and Now is another", ErrConfig, i, d.info.Name)
		}
	}
	return s, nil
}

// maxAsked limits the unprocessed requests of clients. Further requests wait.
const maxAsked = 4096

// stuck is the time after which a waiting call checks whether the server waits for the calling goroutine.
const stuck = 10 * time.Millisecond

// ask posts a client's request when `room` has a free place.
func (s *Server) ask(ctx context.Context, q *asked, gone <-chan struct{}) error {
	select {
	case s.room <- struct{}{}:
	default:
		turn := s.turns.Load()
		timer := time.NewTimer(stuck)
		defer timer.Stop()
		for held := false; !held; {
			select {
			case s.room <- struct{}{}:
				held = true
			case <-gone:
				return ErrClosed
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timer.C:
				if s.inside(turn) {
					return ErrInside
				}
			}
		}
	}
	s.mu.Lock()
	err := s.closed
	if q.cancel != 0 && !s.over { // tasks can be cancelled until the last task has ended
		err = nil
	}
	if err == nil {
		q.room = true
		s.asks = append(s.asks, *q)
	}
	s.mu.Unlock()
	if err != nil {
		<-s.room
		return err
	}
	s.stir()
	return nil
}

// cancelTicket sends the request to end a ticket's task to the server. It never waits. Each ticket does this only once,
// so the number of tasks limits the number of these requests.
func (s *Server) cancelTicket(t *Ticket) {
	s.mu.Lock()
	if !s.over {
		s.asks = append(s.asks, asked{ticket: t})
	}
	s.mu.Unlock()
	s.stir()
}

// leaveRoom frees the places of requests in the channel `room`.
func (s *Server) leaveRoom(asks []asked) {
	for i := range asks {
		if asks[i].room {
			<-s.room
		}
	}
}

// post posts a message; it never waits.
func (s *Server) post(m *posted) {
	s.mu.Lock()
	s.in = append(s.in, *m)
	s.mu.Unlock()
	s.stir()
}

func (s *Server) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Now returns the time on the server's clock, in ns since NewServer. Deadlines are times on this clock.
func (s *Server) Now() Time {
	if s.other != nil {
		return s.other()
	}
	return time.Since(s.start).Nanoseconds()
}

// inside reports whether the server is waiting for the caller: the server has read no message since `turn`, and Run is
// on the caller's stack. A callback of another server is rejected too if this server has read no message meanwhile.
func (s *Server) inside(turn uint64) bool {
	if !s.busy.Load() || s.turns.Load() != turn {
		return false
	}
	pcs := make([]uintptr, 128)
	n := runtime.Callers(3, pcs)
	for n == len(pcs) { // the stack may be deep, although this is rare; so read the whole stack
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(3, pcs)
	}
	for _, pc := range pcs[:n] {
		if f := runtime.FuncForPC(pc); f != nil && f.Entry() == s.frame {
			return true
		}
	}
	return false
}

// look is the interval for polling a clock other than this machine's. Its speed is unknown, so no timer is exact.
const look = 10 * time.Millisecond

// Submit submits a task, from any goroutine. It returns an error if the task is rejected (ErrNetwork, ErrTaken,
// ErrExpired, ErrSamples, ErrAdmitted, ErrClosed). The observer receives the ending of an accepted task. Latency counts
// from Arrived if Arrived is set and not in the future, otherwise from now. Deadlines are times on the server's clock
// (Now); 0: no deadline.
//
// Submit waits until Run has accepted the task, or until ctx ends. After an error the task is not served. If Submit
// returns nil, the end of ctx has no effect on the task.
//
// Callbacks (observer, policy, Admission, source) must not wait for their own server. The server rejects such calls
// (ErrInside) after some ms. Tasks that follow from an ending must come from Source.Ended, or from another goroutine.
func (s *Server) Submit(ctx context.Context, t *sched.Task) error {
	return s.submit(ctx, &asked{task: *t})
}

// submit submits a task. It waits until the task is accepted or, with a ticket of Do, until it has ended.
func (s *Server) submit(ctx context.Context, q *asked) error {
	id := q.task.ID
	if ctx.Err() != nil {
		return fmt.Errorf("task %d: %w", id, context.Cause(ctx))
	}
	q.at = s.Now()
	if q.task.Arrived > 0 {
		q.at = min(q.task.Arrived, q.at)
	}
	r := s.replies.Get().(*reply)
	r.state.Store(waiting)
	q.reply = r
	if err := s.ask(ctx, q, s.gone); err != nil {
		s.replies.Put(r)
		return fmt.Errorf("task %d: %w", id, err)
	}
	select {
	case err := <-r.refused: // usually the answer has arrived already
		s.replies.Put(r)
		return err
	default:
	}
	turn := s.turns.Load()
	r.timer.Reset(stuck)
	ended := q.ticket.toEnd()
	for {
		var err error
		select {
		case err = <-r.refused:
		case <-ended:
		case <-ctx.Done():
			if r.state.CompareAndSwap(waiting, withdrawn) { // unprocessed, so the server will skip the request
				return fmt.Errorf("task %d: %w", id, context.Cause(ctx))
			}
			ctx = context.WithoutCancel(ctx) // the server is processing the request, so an answer will come
			if ended != nil {
				q.ticket.Cancel()
			}
			continue
		case <-r.timer.C:
			if s.inside(turn) && r.state.CompareAndSwap(waiting, withdrawn) {
				return fmt.Errorf("task %d: %w", id, ErrInside)
			}
			continue
		}
		r.timer.Stop()
		s.replies.Put(r)
		return err
	}
}

// Cancel cancels a task, also after Drain. It ignores unknown and ended tasks. Cancel waits only if thousands of other
// calls are unprocessed, and only until ctx ends. Otherwise it works even if ctx has ended. After the end of Run,
// Cancel returns ErrClosed.
func (s *Server) Cancel(ctx context.Context, id uint64) error {
	if id == 0 {
		return nil
	}
	if err := s.ask(ctx, &asked{cancel: id}, s.ended); err != nil {
		return fmt.Errorf("cancel task %d: %w", id, err)
	}
	return nil
}

// Drain stops the acceptance of tasks from clients and the source. Items of the source that are not due yet are
// dropped. Run returns when the remaining tasks have ended.
func (s *Server) Drain() {
	s.close(ErrClosed)
	s.post(&posted{kind: drainNow})
}

// Gone reports whether every device has been given up because no reset succeeded. It returns true before the requests
// end for that reason.
func (s *Server) Gone() bool { return s.c.gone.Load() }

func (s *Server) close(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = why
		close(s.gone)
	}
}

// Serve serves a source in real time until the source has no tasks left and every request has ended. Config.Clock has no
// effect.
func Serve(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Source == nil {
		return nil, fmt.Errorf("%w: no load source", ErrConfig)
	}
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	s.draining = true // only the source may send tasks
	return s.Run(ctx)
}

// Run serves until Drain has been called and every request has ended. If ctx ends first, all remaining requests end as
// errors, and work on devices is abandoned. The error of Run wraps the error of ctx. Run waits at most Config.Grace for
// devices and plans that do not stop. The error names them. A server runs only once.
func (s *Server) Run(ctx context.Context) (*Result, error) {
	if s.ran.Swap(true) {
		return nil, fmt.Errorf("%w: this server has run, or runs", ErrClosed)
	}
	if pc, _, _, ok := runtime.Caller(0); ok {
		s.frame = runtime.FuncForPC(pc).Entry()
	}
	s.busy.Store(true)
	defer s.busy.Store(false)
	c := s.c
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c.ctx = work
	var gone []<-chan struct{}
	for i := range c.devs {
		gone = append(gone, c.devs[i].Device.(device.Real).Attach(work, func(ev device.Event) {
			s.post(&posted{kind: fromDevice, dev: i, event: ev})
		}))
	}
	c.plan = func(p sched.Plan) {
		s.plans.Go(func() {
			s.post(&posted{kind: fromPlan, plan: c.found(work, p)})
		})
	}
	err := s.pull()
	if err == nil {
		err = s.loop(ctx)
	}
	s.close(ErrClosed)
	s.refuseAll()
	if err != nil {
		c.stop(err)
	}
	grace := c.cfg.grace()
	until := time.Now().Add(grace)
	late := time.NewTimer(grace)
	defer late.Stop()
	s.land(late)
	stop()
	late.Reset(max(letGo, time.Until(until))) // slow plans and devices have a little more time
	found := make(chan struct{})
	go func() {
		defer close(found)
		s.plans.Wait()
	}()
	ends := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		case <-late.C:
			late.Reset(0) // the next channel has no time left either
		}
		select {
		case <-ch: // both cases were ready, so the goroutine has stopped in time
			return true
		default:
			return false
		}
	}
	for i, ch := range gone {
		if !ends(ch) {
			err = errors.Join(err, fmt.Errorf("%w: %s does not let go, %v after it was told to", ErrDevice, c.devs[i].info.Name, grace))
		}
	}
	if !ends(found) {
		err = errors.Join(err, fmt.Errorf("%w: %s has a plan that does not let go, %v after it was told to", ErrPolicy, c.res.Policy, grace))
	}
	return &c.res, err
}

// letGo is the minimum time for goroutines of devices and plans to end after their context, even on a loaded machine.
const letGo = time.Second

// clock updates the engine's time.
func (s *Server) clock() { s.c.now = max(s.c.now, s.Now()) }

// Limits of a turn of the loop: the number of clients' requests, and the time in ns after which no further request is
// processed. Between turns the loop serves devices, timers, the watchdog and the context, so clients cannot delay them.
const (
	perTurn = 64
	aTurn   = Time(time.Millisecond)
)

func (s *Server) loop(ctx context.Context) error {
	c := s.c
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	s.alarm = never
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("serving with %s, %d requests ended: %w", c.res.Policy, c.ended, context.Cause(ctx))
		}
		for _, step := range [...]func() error{s.events, s.due, s.watchdog, s.clients, s.c.settle} {
			if err := step(); err != nil {
				return err
			}
		}
		if !s.empty() {
			continue
		}
		if s.draining && c.idle() {
			return c.close()
		}
		s.rest(ctx, timer)
	}
}

// rest waits until a message arrives or an event is due.
func (s *Server) rest(ctx context.Context, timer *time.Timer) {
	c := s.c
	next := min(c.nextWatch(), s.nextPost())
	if len(c.heap) > 0 {
		next = min(next, c.heap[0].at)
	}
	switch {
	case s.other == nil && next == s.alarm: // usually the timer is already set
	case s.other == nil:
		s.alarm = next
		timer.Reset(min(time.Hour, time.Duration(next)-time.Since(s.start)))
	case next <= c.now: // more events were due than one turn handles
		return
	default:
		timer.Reset(look)
	}
	s.busy.Store(false)
	select {
	case <-ctx.Done():
	case <-s.wake:
	case <-timer.C:
		s.alarm = never
	}
	s.busy.Store(true)
	if s.other == nil {
		s.looks = max(s.looks, min(s.Now(), next)) // the wait counts as checked, since no time limit is before "next"
	}
}

// nextPost returns the earliest time at which Post of a device must be called.
func (s *Server) nextPost() Time {
	next := never
	for _, p := range s.posters {
		if due, ok := p.Next(); ok {
			next = min(next, due)
		}
	}
	return next
}

// empty reports whether all messages have been read.
func (s *Server) empty() bool {
	if s.next < len(s.open) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.in) == 0 && len(s.asks) == 0
}

// took counts the messages read, and records the time.
func (s *Server) took() {
	s.turns.Add(1)
	s.clock()
}

// take calls Post of devices with due events, and returns all posted messages. They are valid until the next call.
func (s *Server) take() []posted {
	for _, p := range s.posters {
		if due, ok := p.Next(); ok && due <= s.c.now {
			p.Post(s.c.now)
		}
	}
	select {
	case <-s.wake: // the signal is for messages that are read below
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.again)
	s.again, s.in = s.in, s.again[:0]
	return s.again
}

// events handles the messages of devices, plans and tickets.
func (s *Server) events() error {
	s.clock()
	msgs := s.take()
	for i := range msgs {
		s.took()
		if err := s.event(&msgs[i]); err != nil {
			s.mu.Lock() // land reads the remaining messages
			defer s.mu.Unlock()
			s.in = append(slices.Clone(msgs[i+1:]), s.in...)
			return err
		}
	}
	return nil
}

func (s *Server) event(m *posted) error {
	c := s.c
	switch m.kind {
	case fromPlan:
		return c.planned(m.plan)
	case fromChange:
		c.change(m.change)
		return c.tell(sched.Event{Kind: sched.Loaded})
	case drainNow:
		s.draining = true
		c.stopSource()
		return nil
	}
	return c.answer(&c.devs[m.dev], &m.event)
}

// due handles the items and events of the heap that are due.
func (s *Server) due() error {
	c := s.c
	s.clock()
	for n := 0; n < perTurn && len(c.heap) > 0 && c.heap[0].at <= c.now; n++ {
		if err := s.outside(); err != nil {
			return err
		}
		s.took()
	}
	return nil // the next turn handles the rest
}

func (s *Server) watchdog() error {
	c := s.c
	s.clock()
	away := c.now - s.looks
	s.looks = c.now
	for c.nextWatch() <= c.now {
		if err := c.watch(away); err != nil {
			return err
		}
	}
	return nil
}

// clients processes clients' requests, up to the limits of a turn.
func (s *Server) clients() error {
	if s.next == len(s.open) {
		s.mu.Lock()
		clear(s.open)
		s.open, s.asks, s.next = s.asks, s.open[:0], 0
		s.mu.Unlock()
		s.leaveRoom(s.open)
	}
	began := s.c.now
	for n := 0; n < perTurn && s.next < len(s.open) && s.c.now-began < aTurn; n++ {
		s.took()
		q := &s.open[s.next]
		s.next++
		if err := s.client(q); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) client(q *asked) error {
	c := s.c
	switch {
	case q.reply == nil && q.ticket != nil:
		if t := c.byID.get(q.ticket.id); t != nil && t.ticket == q.ticket { // nil: the ticket's task has ended
			return c.cancel(q.ticket.id)
		}
		return nil
	case q.reply == nil:
		return c.cancel(q.cancel)
	case !q.reply.state.CompareAndSwap(waiting, looked):
		return nil
	}
	refused, err := c.arrive(&q.task, min(q.at, c.now), q.ticket)
	whole := q.ticket.toEnd() != nil
	switch failed := err != nil && refused == nil; {
	case failed && whole && !q.ticket.over: // Do waits for the end of its task, and then returns this error
		q.ticket.closed = fmt.Errorf("task %d: %w", q.task.ID, ErrClosed)
	case failed && !whole:
		q.reply.refused <- fmt.Errorf("task %d: %w", q.task.ID, ErrClosed)
	case refused != nil || !whole:
		q.reply.refused <- refused
	}
	return err
}

// outside handles the first event of the heap.
func (s *Server) outside() error {
	c := s.c
	e := *c.pop()
	if e.x != nil {
		return c.own(&e)
	}
	if e.fresh {
		if err := s.pull(); err != nil {
			return err
		}
	}
	return c.item(e.item())
}

// refuseAll answers the clients whose requests will not be processed.
func (s *Server) refuseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	close(s.ended)
	s.leaveRoom(s.asks)
	for _, q := range slices.Concat(s.open[s.next:], s.asks) {
		if q.reply != nil && q.reply.state.CompareAndSwap(waiting, looked) {
			q.reply.refused <- fmt.Errorf("task %d: %w", q.task.ID, ErrClosed)
		}
	}
	s.asks, s.open, s.next = nil, nil, 0
}

// land handles the last events of devices. These events free slots.
func (s *Server) land(late *time.Timer) {
	c := s.c
	c.shut = true
	for i := range c.heap { // jobs that ended when they began and have not been reported
		if x := c.heap[i].x; x != nil && x.job != nil {
			c.jobs = slices.DeleteFunc(c.jobs, func(j *job) bool { return j == x.job })
		}
	}
	for {
		s.clock()
		msgs := s.take()
		for i := range msgs {
			if msgs[i].kind == fromDevice {
				_ = c.answer(&c.devs[msgs[i].dev], &msgs[i].event) // not reported, since the policy is not asked any more
			}
		}
		if !c.flying() && s.empty() {
			return
		}
		due := time.NewTimer(min(time.Hour, time.Duration(s.nextPost()-c.now)))
		select {
		case <-s.wake:
		case <-due.C:
		case <-late.C:
			return
		}
		due.Stop()
	}
}

func (s *Server) pull() error {
	if s.c.cfg.Source == nil {
		return nil
	}
	it, ok := s.c.cfg.Source.Next()
	if !ok {
		return nil
	}
	if err := checkItem(it, 0); err != nil {
		return err
	}
	if it.Task != nil { // the source can reuse the memory of its task
		t := *it.Task
		it.Task = &t
	}
	e := s.c.push(it.At)
	e.task, e.cancel, e.fresh = it.Task, it.Cancel, true
	return nil
}
