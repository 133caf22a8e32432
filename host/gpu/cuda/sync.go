package cuda

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-npu/sluice/host/device"
)

// Sync is a GPU whose calls block, so device.Adapt can use it in virtual time. Launches run one after another, as on an
// NPU. A launch advances virtual time by its real duration. Only Device can run them concurrently and stop them.
type Sync struct {
	d    *Device
	end  context.CancelFunc
	gone <-chan struct{}

	mu    sync.Mutex
	last  device.WorkID
	waits map[device.WorkID]chan device.Event
}

// NewSync opens a GPU.
func NewSync(cfg Config) (*Sync, error) {
	d, err := New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	s := &Sync{d: d, end: end, waits: map[device.WorkID]chan device.Event{}}
	s.gone = d.Attach(ctx, s.post)
	return s, nil
}

func (s *Sync) post(ev device.Event) {
	s.mu.Lock()
	c := s.waits[ev.Work]
	delete(s.waits, ev.Work)
	s.mu.Unlock()
	if c != nil && ev.Over {
		c <- ev
	}
}

// do starts work and waits until it has ended. If ctx ends first, the launch is killed.
func (s *Sync) do(ctx context.Context, w *device.Work) (device.Event, error) {
	c := make(chan device.Event, 1)
	s.mu.Lock()
	s.last++
	w.ID = s.last
	s.waits[w.ID] = c
	s.mu.Unlock()
	if _, err := s.d.Begin(ctx, 0, w); err != nil {
		s.mu.Lock()
		delete(s.waits, w.ID)
		s.mu.Unlock()
		return device.Event{}, err
	}
	var ev device.Event
	select {
	case ev = <-c:
	case <-ctx.Done():
		s.d.Abort(0, w.ID, true)
		ev = <-c
	}
	if ev.Kind == device.Aborted {
		return ev, fmt.Errorf("%s on %s: %w", w.Kind, s.d.info.Name, ctx.Err())
	}
	return ev, ev.Err
}

// Info implements device.Blocking.
func (s *Sync) Info() device.Info {
	info := s.d.Info()
	info.Places, info.Units, info.UnitAlign, info.Priorities, info.Preempt = 1, 0, 0, 0, device.PreemptExit
	info.Through, info.Neighbours = false, false
	return info
}

// Units returns the number of units to which a launch can be confined. Launches still run one after another.
func (s *Sync) Units() int { return s.d.Info().Units }

func (s *Sync) Device() *Device { return s.d }

// Load implements device.Blocking.
func (s *Sync) Load(ctx context.Context, a device.Artefact) error {
	_, err := s.do(ctx, &device.Work{Kind: device.Load, Artefact: a})
	return err
}

// Unload implements device.Unloader.
func (s *Sync) Unload(ctx context.Context, network string) error {
	_, err := s.do(ctx, &device.Work{Kind: device.Unload, Network: network})
	return err
}

// Admit implements device.Blocking.
func (s *Sync) Admit(ctx context.Context, network string, id device.RequestID, in []device.Tensor) error {
	_, err := s.do(ctx, &device.Work{Kind: device.Copy, Network: network, Request: id, Input: func() ([]device.Tensor, error) { return in, nil }})
	return err
}

// Run implements device.Blocking.
func (s *Sync) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	rep := &device.Report{}
	places := map[device.RequestID]int{}
	for i, id := range l.Requests {
		rep.Results = append(rep.Results, device.Result{Request: id, Taken: -1})
		places[id] = i
	}
	next := l.Requests
	for seg := l.First; seg <= l.Last && (len(next) > 0 || seg == l.First); seg++ {
		one := *l
		one.First, one.Last, one.Requests, one.Theta = seg, seg, next, nil
		for _, id := range next {
			one.Theta = append(one.Theta, l.ThetaAt(places[id], seg))
		}
		if seg > l.First {
			one.Kernel = 0
		}
		ev, err := s.do(ctx, &device.Work{Kind: device.Run, Launch: one, Limit: l.Limit})
		if err != nil {
			return nil, err
		}
		rep.Ns += ev.Report.Ns
		next = nil
		for _, r := range ev.Report.Results {
			out := &rep.Results[places[r.Request]]
			out.Exits = append(out.Exits, r.Exits...)
			if out.Taken = r.Taken; r.Taken < 0 {
				next = append(next, r.Request)
			}
		}
	}
	return rep, nil
}

// Release implements device.Blocking.
func (s *Sync) Release(id device.RequestID) { s.d.Release(id) }

// Reset implements device.Blocking.
func (s *Sync) Reset(ctx context.Context) error {
	_, err := s.do(ctx, &device.Work{Kind: device.Reset})
	return err
}

// Close implements device.Blocking.
func (s *Sync) Close() error {
	s.end()
	<-s.gone
	return s.d.Close()
}
