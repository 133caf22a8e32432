// Server and Serve: real time. One goroutine keeps the books and asks the policy; it waits for
// nothing but the next message. Devices, clients and plans post theirs from goroutines of their own.

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

// message is something posted to the books.
type message struct {
	kind  messageKind
	dev   int
	event device.Event
	item  Item
	task  sched.Task
	plan  any
	reply chan error
	seen  bool // it holds no room any more
}

type messageKind uint8

const (
	fromDevice messageKind = iota
	fromClient
	fromPlan
	drainNow
)

// Server serves in real time. Tasks come from any goroutine.
type Server struct {
	c     *core
	start time.Time
	other func() Time // Config.Now, from 0 on; nil: this machine's
	wake  chan struct{}
	plans sync.WaitGroup
	again []message // read by the loop; its storage is used in turns with in's

	room chan struct{} // what clients have posted and nobody has looked at: so many wait at most
	gone chan struct{} // closed with closed

	ran   atomic.Bool
	books atomic.Uint64 // the goroutine that keeps them, while one does
	entry uintptr       // of Run; set before books

	mu     sync.Mutex
	in     []message
	closed error // why no more tasks are taken

	draining bool
	replies  sync.Pool
}

// NewServer makes a server. It does nothing until Run.
func NewServer(cfg Config) (*Server, error) {
	c, err := newCore(&cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Inputs == nil {
		return nil, fmt.Errorf("%w: no inputs", ErrConfig)
	}
	s := &Server{
		c: c, wake: make(chan struct{}, 1), start: time.Now(),
		room: make(chan struct{}, maxPosted), gone: make(chan struct{}),
	}
	if now := cfg.Now; now != nil {
		start := now()
		s.other = func() Time { return now() - start }
	}
	s.replies.New = func() any { return make(chan error, 1) }
	for i := range c.devs {
		d := &c.devs[i]
		if _, ok := d.Device.(device.Real); !ok {
			v, ok := d.Device.(device.Virtual)
			if !ok {
				return nil, fmt.Errorf("%w: device %d (%s) knows no real time", ErrConfig, i, d.info.Name)
			}
			d.Device = device.Pace(v)
			d.info = d.Info()
		}
		if _, ok := d.Device.(*device.Paced); ok && s.other != nil {
			return nil, fmt.Errorf("%w: device %d (%s) runs by this machine's clock, and Now is another", ErrConfig, i, d.info.Name)
		}
	}
	return s, nil
}

// maxPosted bounds what clients have posted that nobody has looked at: further ones wait.
const maxPosted = 4096

// ask posts a client's message, when there is room.
func (s *Server) ask(ctx context.Context, m *message) error {
	select {
	case s.room <- struct{}{}:
	default:
		if s.inside() {
			return ErrInside
		}
		select {
		case s.room <- struct{}{}:
		case <-s.gone:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := s.post(m)
	if err != nil {
		<-s.room
	}
	return err
}

// post puts a message in; it never waits.
func (s *Server) post(m *message) error {
	s.mu.Lock()
	if m.kind == fromClient && s.closed != nil {
		defer s.mu.Unlock()
		return s.closed
	}
	s.in = append(s.in, *m)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Now is the time on the server's clock, which starts with NewServer; deadlines are on it.
func (s *Server) Now() Time {
	if s.other != nil {
		return s.other()
	}
	return time.Since(s.start).Nanoseconds()
}

// inside tells whether the caller is called by the books.
func (s *Server) inside() bool {
	books := s.books.Load()
	return books != 0 && s.underRun() && books == goroutine()
}

// underRun tells whether a server's Run, this one's or another's, may be among the callers: it costs a tenth of
// what goroutine does, and clients have none there.
func (s *Server) underRun() bool {
	var pcs [64]uintptr
	n := runtime.Callers(3, pcs[:])
	for _, pc := range pcs[:n] {
		if f := runtime.FuncForPC(pc); f != nil && f.Entry() == s.entry {
			return true
		}
	}
	return n == len(pcs)
}

// goroutine is the number of the goroutine that runs, as its trace gives it: no other way tells a callback's
// caller from anybody else.
func goroutine() (n uint64) {
	var text [len("goroutine ") + 20]byte
	for _, c := range text[len("goroutine "):runtime.Stack(text[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + uint64(c-'0')
	}
	return n
}

// look is how often a clock that is not this machine's is looked at while nothing comes: nobody knows how
// fast it runs.
const look = 10 * time.Millisecond

// Submit hands a task in, from any goroutine, and tells why it is refused where it is (ErrNetwork,
// ErrTaken, ErrExpired, ErrSamples, ErrAdmitted, ErrClosed). Its latency counts from Arrived, when it
// was due, where that is set and has passed, else from now. Deadlines are on the server's clock (Now);
// 0: none. How it ends the observer is told.
//
// It waits until Run has taken the task in: before Run is called, for as long as ctx lets it. Run's own
// goroutine, on which the observer, the policy, Admission and the source are called, is refused at once
// (ErrInside): what follows from an ending comes from Source.Ended, or from a goroutine that the observer
// tells.
func (s *Server) Submit(ctx context.Context, t *sched.Task) error {
	if s.inside() {
		return fmt.Errorf("task %d: %w", t.ID, ErrInside)
	}
	m := message{kind: fromClient, task: *t, reply: s.replies.Get().(chan error)}
	m.item.At = s.Now()
	if t.Arrived > 0 {
		m.item.At = min(t.Arrived, m.item.At)
	}
	if err := s.ask(ctx, &m); err != nil {
		return fmt.Errorf("task %d: %w", t.ID, err)
	}
	select {
	case err := <-m.reply:
		s.replies.Put(m.reply)
		return err
	case <-ctx.Done():
		return fmt.Errorf("task %d was handed in: %w", t.ID, context.Cause(ctx))
	}
}

// Cancel takes a task back. One that has ended, or is not known, is left alone. It waits while
// thousands of others have not been looked at yet; an observer is refused then (ErrInside).
func (s *Server) Cancel(ctx context.Context, id uint64) error {
	m := message{kind: fromClient, item: Item{At: s.Now(), Cancel: id}}
	if err := s.ask(ctx, &m); err != nil {
		return fmt.Errorf("cancel task %d: %w", id, err)
	}
	return nil
}

// Drain takes no more tasks, from clients or the source: what the source has brought and is not due yet is
// dropped. Run returns when the tasks that are there have ended.
func (s *Server) Drain() {
	s.close(ErrClosed)
	_ = s.post(&message{kind: drainNow}) // refuses clients alone
}

func (s *Server) close(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = why
		close(s.gone)
	}
}

// Serve serves a source in real time until it has no task left and every request has ended.
// Durations are those that pass; Config.Clock has no say.
func Serve(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Source == nil {
		return nil, fmt.Errorf("%w: no load source", ErrConfig)
	}
	s, err := NewServer(cfg)
	if err != nil {
		return nil, err
	}
	s.draining = true // clients are the source alone
	return s.Run(ctx)
}

// Run serves until Drain has been called and every request has ended. When ctx ends before, it ends
// all requests that are left as errors, gives up what the devices do, and its error wraps ctx's. A
// device or a plan that does not let go is waited for as long as Config.Grace says, and named. A server
// runs once.
func (s *Server) Run(ctx context.Context) (*Result, error) {
	if s.ran.Swap(true) {
		return nil, fmt.Errorf("%w: this server has run, or runs", ErrClosed)
	}
	if pc, _, _, ok := runtime.Caller(0); ok {
		s.entry = runtime.FuncForPC(pc).Entry()
	}
	s.books.Store(goroutine())
	defer s.books.Store(0)
	c := s.c
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c.ctx = work
	var gone []<-chan struct{}
	for i := range c.devs {
		gone = append(gone, c.devs[i].Device.(device.Real).Attach(work, func(ev device.Event) {
			_ = s.post(&message{kind: fromDevice, dev: i, event: ev}) // refuses clients alone
		}))
	}
	c.plan = func(p sched.Plan) {
		s.plans.Go(func() {
			_ = s.post(&message{kind: fromPlan, plan: p.Find(work)}) // refuses clients alone
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
	late.Reset(max(letGo, time.Until(until))) // one that took the time to answer may still let go at once
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
			late.Reset(0) // for the next one
		}
		select {
		case <-ch: // in time, though it is the second to be looked at
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

// letGo is what the goroutines of devices and plans have at least, to end when their context has: what a loaded machine
// may hold one up for.
const letGo = time.Second

// clock brings the books' time up to date.
func (s *Server) clock() { s.c.now = max(s.c.now, s.Now()) }

func (s *Server) loop(ctx context.Context) error {
	c := s.c
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.clock()
		if err := s.turn(); err != nil {
			return err
		}
		for len(c.heap) > 0 && c.heap[0].at <= c.now {
			if err := s.outside(); err != nil {
				return err
			}
		}
		for c.nextWatch() <= c.now {
			if err := c.watch(); err != nil {
				return err
			}
		}
		if s.draining && c.idle() && s.empty() {
			return c.close()
		}
		next := c.nextWatch()
		if len(c.heap) > 0 {
			next = min(next, c.heap[0].at)
		}
		if s.other != nil {
			timer.Reset(look)
		} else {
			timer.Reset(min(time.Hour, time.Duration(next)-time.Since(s.start)))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("serving with %s, %d requests ended: %w", c.res.Policy, c.ended, context.Cause(ctx))
		case <-s.wake:
		case <-timer.C:
		}
	}
}

func (s *Server) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.in) == 0
}

// take takes all messages out; they are the caller's until the next call.
func (s *Server) take() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.again)
	s.again, s.in = s.in, s.again[:0]
	for i := range s.again {
		if s.again[i].kind == fromClient && !s.again[i].seen {
			s.again[i].seen = true
			<-s.room
		}
	}
	return s.again
}

// turn takes in what has been posted.
func (s *Server) turn() error {
	for msgs := s.take(); len(msgs) > 0; msgs = s.take() {
		for i := range msgs {
			if err := s.message(&msgs[i]); err != nil {
				s.mu.Lock() // refuseAll and land look at the rest
				defer s.mu.Unlock()
				s.in = append(slices.Clone(msgs[i+1:]), s.in...)
				return err
			}
		}
		s.clock()
	}
	return nil
}

func (s *Server) message(m *message) error {
	c := s.c
	switch m.kind {
	case fromDevice:
		return c.answer(&c.devs[m.dev], &m.event)
	case fromPlan:
		return c.planned(m.plan)
	case drainNow:
		s.draining = true
		c.stopSource()
		return nil
	}
	if m.reply == nil {
		_, err := c.item(m.item)
		return err
	}
	m.item.Task = &m.task
	refused, err := c.item(m.item)
	if err != nil && refused == nil {
		refused = fmt.Errorf("task %d: %w", m.task.ID, ErrClosed)
	}
	m.reply <- refused
	return err
}

// outside takes in what is due in the heap.
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
	_, err := c.item(e.item())
	return err
}

// refuseAll answers those who handed tasks in that nobody looks at any more.
func (s *Server) refuseAll() {
	msgs := s.take()
	kept := msgs[:0]
	for i := range msgs {
		if m := &msgs[i]; m.reply != nil {
			m.reply <- fmt.Errorf("task %d: %w", m.task.ID, ErrClosed)
		} else if m.kind == fromDevice {
			kept = append(kept, *m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in = append(slices.Clone(kept), s.in...)
}

// land takes in what devices still answer, so that slots are freed.
func (s *Server) land(late *time.Timer) {
	c := s.c
	c.shut = true
	for i := range c.heap { // what has ended as it began, and would be told later
		if x := c.heap[i].x; x != nil && x.job != nil {
			c.jobs = slices.DeleteFunc(c.jobs, func(j *job) bool { return j == x.job })
		}
	}
	for {
		s.clock()
		msgs := s.take()
		for i := range msgs {
			if msgs[i].kind == fromDevice {
				_ = c.answer(&c.devs[msgs[i].dev], &msgs[i].event) // the policy is not asked any more
			}
		}
		if !c.flying() && s.empty() {
			return
		}
		select {
		case <-s.wake:
		case <-late.C:
			return
		}
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
	if it.Task != nil { // copied, so that a source may use one task again and again
		t := *it.Task
		it.Task = &t
	}
	e := s.c.push(it.At)
	e.task, e.cancel, e.fresh = it.Task, it.Cancel, true
	return nil
}
