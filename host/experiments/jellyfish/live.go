// In real time, frames arrive over a network, and the workers are simulated.

package jellyfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/ingest"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/sched"
)

// Serve serves a setting's clients with workers that are simulated in real time. The clients connect to the listener l
// over real links (package ingest). Serve returns after the setting's time, or when l is closed and all clients have
// disconnected. If captured is not nil, the rate of a transfer comes from the live capture. Otherwise the rate is
// measured while the frame arrives. If bad is not nil, it is called for each connection that the server terminates.
func Serve(ctx context.Context, set *Setting, sys System, a Assumed, l net.Listener, captured *Rates, bad func(error)) (*Outcome, error) {
	defer l.Close()
	if len(set.Clients) == 0 || set.Workers < 1 || set.Ns < 1 || sys.Static >= len(set.Zoo) {
		return nil, fmt.Errorf("%w: %d clients, %d workers, %d ns, network %d of %d", ErrSetup, len(set.Clients), set.Workers, set.Ns, sys.Static, len(set.Zoo))
	}
	src := &cameras{zoo: set.Zoo}
	in := ingest.Config{Network: family, Bytes: 4 * int(set.Zoo[len(set.Zoo)-1].Bytes)}
	if captured != nil {
		in.Link = captured.Of
	}
	for _, c := range set.Clients {
		src.all = append(src.all, camera{Registered: c.Registered})
		in.SLO = append(in.SLO, c.SLO)
	}
	v := &live{seen: seen{src: src, zoo: set.Zoo, upscale: a.Upscale, clients: make([]clientSeen, len(set.Clients))}, class: map[uint64]int{}}
	cfg, policy, err := configure(set, sys, sys.Sizing.Advised, a)
	if err != nil {
		return nil, err
	}
	cfg.Observer = v
	server, err := engine.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	in.Now = server.Now
	in.Submit = func(ctx context.Context, t *sched.Task, side int) error {
		v.remember(t, side)
		err := server.Submit(ctx, t)
		if err != nil && !errors.Is(err, engine.ErrClosed) {
			v.refused(t)
		}
		return err
	}
	v.gate = ingest.NewGate(in)
	if sys.Fixed {
		for i := range set.Clients {
			v.gate.Advise(i, set.Zoo[sys.Static].Side)
		}
	}
	open, stop := context.WithCancel(ctx)
	defer stop()
	defer time.AfterFunc(time.Duration(set.Ns), server.Drain).Stop()
	taking := make(chan error, 1)
	go func() {
		err := v.gate.Serve(open, l, bad)
		server.Drain()
		taking <- err
	}()
	res, err := server.Run(ctx)
	stop()
	if err := errors.Join(err, <-taking); err != nil {
		return nil, fmt.Errorf("%d clients under %s: %w", len(set.Clients), sys.Name, err)
	}
	return v.outcome(res, policy), nil
}

// live observes the end of tasks and sends the answers.
type live struct {
	seen
	gate  *ingest.Gate
	mu    sync.Mutex
	class map[uint64]int // by task: class of its result, if there is a result
}

// remember records the frame of a task.
func (v *live) remember(t *sched.Task, side int) {
	size := 0
	for j := range v.zoo {
		if v.zoo[j].Side <= side {
			size = j
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for uint64(len(v.src.frames)) < t.ID {
		v.src.frames = append(v.src.frames, sentFrame{})
	}
	v.src.frames[t.ID-1] = sentFrame{int32(size), int32(t.Client)}
}

// refused counts a frame that the server rejected before it reached the engine.
func (v *live) refused(t *sched.Task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
	v.clients[t.Client].n++
}

// Ended implements engine.Observer.
func (v *live) Ended(r *engine.Record, result *device.ExitResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.Ended(r, result)
	v.class[r.Task] = r.Class
}

// TaskEnded implements engine.Observer.
func (v *live) TaskEnded(now int64, t *sched.Task, how engine.Ending) {
	v.seen.TaskEnded(now, t, how)
	v.mu.Lock()
	class := v.class[t.ID]
	delete(v.class, t.ID)
	v.mu.Unlock()
	v.gate.Answer(t.ID, ingest.Answer{Ending: how, Class: class})
}

// Advised implements engine.Observer.
func (v *live) Advised(_ int64, a *sched.Advice) {
	if j := slices.IndexFunc(v.zoo, func(n jellyfish.Net) bool { return n.Name == a.Network }); j >= 0 {
		v.gate.Advise(a.Client, v.zoo[j].Side)
	}
}

// NewSender returns a camera that sends the frames of client k. If shaped is set, the trace of the client's own link
// limits the rate.
func NewSender(zoo jellyfish.Zoo, k int, c *Camera, shaped bool) *ingest.Camera {
	m := &ingest.Camera{Client: k, Rate: c.Rate, Headroom: jellyfish.Headroom}
	for _, n := range zoo {
		m.Sizes = append(m.Sizes, ingest.Size{Side: n.Side, Bytes: int(n.Bytes)})
	}
	if shaped {
		m.Arrive = c.Trace.Arrive
	}
	return m
}
