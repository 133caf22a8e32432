// Package serve puts devices behind the Open Inference Protocol: gRPC and REST are two thin faces of one Server, which
// turns a request into a task of host/engine and what comes of it into an answer.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// Name and Version are what the server says it is.
const Name = "sluice"

// extensions are those of the protocol that the server has, in Triton's words.
func extensions() []string {
	return []string{
		"classification", "model_configuration", "model_repository", "schedule_policy", "statistics", "binary_tensor_data", "parameters",
	}
}

// Tensor is a named array as it comes over the wire: elements little endian, row by row.
type Tensor struct {
	Name     string
	Datatype string
	Shape    []int64
	Data     []byte
}

// Wanted is an output that a client asks for.
type Wanted struct {
	Name    string
	Classes int  // the best so many classes in place of the tensor; 0: the tensor
	Binary  bool // of REST alone
}

// Request is a question, of either face.
type Request struct {
	Model, Version, ID string
	Params             map[string]any // bool, int64, uint64, float64, string
	Inputs             []Tensor
	Outputs            []Wanted  // none: all
	Came               time.Time // when the client began to ask; zero: now
}

// Answer is a whole answer, or that of one exit.
type Answer struct {
	Model, Version, ID string
	Params             map[string]any
	Outputs            []Tensor
}

// Ballast is memory that a program which serves had better hold and never touch: it counts as live, so the collector runs when
// requests have left as much. Without it, where few megabytes live, the collector takes a fifth of a request's CPU time; with
// it a process grows by about 32 MiB. There is none where GOMEMLIMIT leaves no room for it.
func Ballast() []byte {
	const size = 32 << 20
	if debug.SetMemoryLimit(-1) < 8*size {
		return nil
	}
	return make([]byte, size)
}

// Limits bound what clients may ask. Zero values are the defaults.
type Limits struct {
	Message     int           // bytes of a request, unpacked; 64 MiB
	Memory      int           // bytes of all requests under way, unpacked; 1 GiB
	Samples     int           // of a request; 64
	Connections int           // at a time, of each port; 1024
	Rate        float64       // requests a second of one client's address; 0: not limited
	Transfer    time.Duration // until a request has come whole, on REST, or an answer has been taken; 1 min
}

func (l Limits) filled() Limits {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&l.Message, 64<<20)
	set(&l.Memory, 1<<30)
	set(&l.Samples, 64)
	set(&l.Connections, 1024)
	if l.Transfer <= 0 {
		l.Transfer = time.Minute
	}
	return l
}

// Options of a Server.
type Options struct {
	Version string
	Open    Opener
	Latency Latency                               // on the devices that Open opens; nil: the bundles' own tables
	About   func(b *bundle.Bundle) (About, error) // nil: nothing is known
	Limits  Limits
	Token   func() string // bearer token that clients must show; nil: none
	// Defaults are the settings of models that have none of their own.
	Defaults Settings
	// TritonMetrics shows nv_inference_* beside the server's own metrics.
	TritonMetrics bool
	Tracer        *Tracer // nil: no spans
	Log           *slog.Logger
}

// About is what a bundle's maker has written down of it.
type About struct {
	Classes []string                           // names; nil: unknown
	Pixels  string                             // how pixels become its input
	Pixel   func(v uint8, channel int) float32 // the same, of one; nil: unknown
	Warning string                             // what who serves it must know
}

// otelVariables are the names of OpenTelemetry's environment variables that are set.
func otelVariables() (set []string) {
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") && value != "" {
			set = append(set, name)
		}
	}
	return set
}

// Server holds models and answers requests.
type Server struct {
	opts     Options
	ctx      context.Context // of everything that runs
	stop     context.CancelFunc
	quiet    atomic.Bool // not ready, though it serves
	draining atomic.Bool
	pending  sync.WaitGroup
	book     book
	rates    rates
	memory   memory
	devices  devices
	loads    atomic.Uint64
	load     load

	mu     sync.Mutex
	models map[string]map[string]*entry // by name and version
	paths  []string                     // where they are
}

// New makes a server without models. ctx ends it at once; Drain ends it gracefully.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Open == nil {
		return nil, errors.New("serve: no way to open a device")
	}
	if err := o.Defaults.check(); err != nil {
		return nil, fmt.Errorf("serve: default settings: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.filled()
	s := &Server{opts: o, models: map[string]map[string]*entry{}}
	s.memory.most.Store(int64(o.Limits.Memory))
	s.load.marks = []mark{{at: time.Now()}}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s, nil
}

// Ready tells whether the server takes requests, and every model that is meant to be loaded is.
func (s *Server) Ready() bool {
	if s.leaving() || s.ctx.Err() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, versions := range s.models {
		for _, e := range versions {
			if e.wanted && !e.ready() {
				return false
			}
		}
	}
	return true
}

// Leave has the server, and all of its models, say that they are not ready, while they serve on: balancers then send requests
// elsewhere before Drain refuses any.
func (s *Server) Leave() { s.quiet.Store(true) }

func (s *Server) leaving() bool { return s.quiet.Load() || s.draining.Load() }

// Drain refuses new requests, waits for those that are there, and closes the models. Requests that are there when ctx ends
// are given up.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true) // under the lock: calls that began before are waited for
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.pending.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("drain: requests are left: %w", context.Cause(ctx))
	}
	if err != nil {
		s.stop()
	}
	s.mu.Lock()
	var open []*Model
	for _, versions := range s.models {
		for _, e := range versions {
			if e.model != nil {
				open = append(open, e.model)
			}
			e.model, e.wanted, e.reason = nil, false, "the server has ended"
		}
	}
	s.mu.Unlock()
	for _, m := range open {
		err = errors.Join(err, s.devices.leave(m))
	}
	s.stop()
	<-done
	s.devices.gone.Wait()
	return err
}

// begin counts a request in, or refuses it.
func (s *Server) begin() (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || s.ctx.Err() != nil {
		return nil, refuse(Unavailable, "the server drains and takes no more requests: ask another one")
	}
	s.pending.Add(1)
	return s.pending.Done, nil
}

// Infer answers a request. passed, where set, is given the answer of every exit as it is passed; it may wait, which holds up
// nobody but this request.
func (s *Server) Infer(ctx context.Context, r *Request, passed func(*Answer) error) (*Answer, error) {
	if r.Came.IsZero() {
		r.Came = time.Now()
	}
	ctx, sp := s.opts.Tracer.begin(ctx, r)
	a, m, err := s.infer(ctx, r, passed)
	sp.end(err)
	s.book.request(m, r, time.Since(r.Came), err)
	s.load.report(time.Now(), s) // so that what a report is of is no older than the requests
	return a, err
}

// unread counts a request that could not be read, and gives its error back.
func (s *Server) unread(model, version string, err error) error {
	m, _ := s.model(model, version)
	s.book.request(m, &Request{Model: model}, 0, err)
	return err
}

func (s *Server) infer(ctx context.Context, r *Request, passed func(*Answer) error) (*Answer, *Model, error) {
	end, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	defer end()
	m, err := s.model(r.Model, r.Version)
	for err == nil {
		a, err := m.infer(ctx, r, s.opts.Limits.Samples, passed)
		if err != nil && s.ctx.Err() != nil && ctx.Err() == nil {
			return nil, m, refuse(Unavailable, "%s: the server has stopped before the request ended: ask another one", r.Model)
		}
		if !errors.Is(err, errClosed) {
			return a, m, err
		}
		next, gone := s.model(r.Model, r.Version)
		switch {
		case gone != nil: // unloaded between the two
			return nil, m, gone
		case next == m:
			return nil, m, err
		}
		m = next // loaded again between the two
	}
	return nil, nil, err
}
