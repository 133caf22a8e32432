package cuda

import (
	"context"
	"sync"

	"github.com/sluice-npu/sluice/host/device"
)

// Seat is an attached device. Networks are loaded and measured on it before it serves.
type Seat struct {
	*Device
	end  context.CancelFunc
	gone <-chan struct{}
	last device.WorkID

	mu   sync.Mutex
	post func(device.Event)
}

// NewSeat attaches a device.
func NewSeat(ctx context.Context, d *Device) *Seat {
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Seat{Device: d, end: end, last: 1 << 60, post: func(device.Event) {}}
	s.gone = d.Attach(inner, func(e device.Event) {
		s.mu.Lock()
		post := s.post
		s.mu.Unlock()
		post(e)
	})
	return s
}

func (s *Seat) to(post func(device.Event)) {
	s.mu.Lock()
	s.post = post
	s.mu.Unlock()
}

// Do executes one piece of work before serving begins. It returns how long the launcher's thread took, in ns.
func (s *Seat) Do(ctx context.Context, w *device.Work) (ns int64, err error) {
	s.last++
	w.ID = s.last
	over := make(chan device.Event, 1)
	s.to(func(e device.Event) {
		if e.Work != w.ID {
			return
		}
		if e.Report != nil {
			ns += e.Report.Ns
		}
		if e.Over {
			over <- e
		}
	})
	if _, err := s.Begin(ctx, 0, w); err != nil {
		return 0, err
	}
	e := <-over
	return ns, e.Err
}

// Attach implements device.Real.
func (s *Seat) Attach(ctx context.Context, post func(device.Event)) <-chan struct{} {
	s.to(post)
	over := make(chan struct{})
	go func() {
		<-ctx.Done()
		s.end()
		<-s.gone
		close(over)
	}()
	return over
}

// Shut detaches the device and closes it.
func (s *Seat) Shut() error {
	s.end()
	<-s.gone
	return s.Close()
}

var _ device.Real = (*Seat)(nil)
