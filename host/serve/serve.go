// Package serve serves devices through the Open Inference Protocol. gRPC and REST are two thin interfaces of one
// Server, which turns requests into tasks of host/engine, and their results into answers.
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

// Name and Version are what the server reports as its own.
const Name = "sluice"

// extensions are the supported protocol extensions, by Triton's names.
func extensions() []string {
	return []string{
		"classification", "model_configuration", "model_repository", "schedule_policy", "statistics", "binary_tensor_data", "parameters",
	}
}

// Tensor is a named array in wire format: little-endian elements, row by row.
type Tensor struct {
	Name     string
	Datatype string
	Shape    []int64
	Data     []byte
}

// Wanted is a requested output.
type Wanted struct {
	Name    string
	Classes int  // number of best classes to return instead of the tensor; 0: the tensor
	Binary  bool // for REST only
}

// Request is an inference request from either interface.
type Request struct {
	Model, Version, ID string
	Params             map[string]any // values are bool, int64, uint64, float64 or string
	Inputs             []Tensor
	Outputs            []Wanted  // empty: all
	Came               time.Time // when it began to arrive; zero: now
}

// Answer is the answer to a request, or the result at one exit.
type Answer struct {
	Model, Version, ID string
	Params             map[string]any
	Outputs            []Tensor
}

// Ballast returns memory that a serving program should hold and never use. It counts as live, so the garbage collector runs
// only when requests have left as much garbage. Without it few megabytes are live, and the collector takes a fifth of a
// request's CPU time. It adds about 32 MiB to the process. It is nil if GOMEMLIMIT leaves no room for it.
func Ballast() []byte {
	const size = 32 << 20
	if debug.SetMemoryLimit(-1) < 8*size {
		return nil
	}
	return make([]byte, size)
}

// Limits limit requests. Zero values are the defaults.
type Limits struct {
	Message     int           // bytes of a request, decompressed; default 64 MiB
	Memory      int           // bytes of all requests in flight, decompressed; default 1 GiB
	Samples     int           // samples of a request; default 64
	Connections int           // connections at a time, per port; default 1024
	Rate        float64       // requests per second per client address; 0: no limit
	Transfer    time.Duration // time to send a whole request on REST, or to receive an answer; default 1 min
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
	Latency Latency                               // bundles' tables on the devices that Open opens; nil: those in the bundles
	About   func(b *bundle.Bundle) (About, error) // nil: nothing is known about bundles
	Limits  Limits
	Token   func() string // bearer token that clients must send; nil: none
	// Defaults replace settings that a model lacks.
	Defaults Settings
	// TritonMetrics adds nv_inference_* to the metrics.
	TritonMetrics bool
	Tracer        *Tracer // nil: no spans
	Log           *slog.Logger
}

// About is what a bundle's author has recorded about it.
type About struct {
	Classes []string                           // names; nil: unknown
	Pixels  string                             // how pixels become its input, in words
	Pixel   func(v uint8, channel int) float32 // the conversion of one pixel; nil: unknown
	Warning string                             // what a user must know before serving it
}

// otelVariables are the OpenTelemetry environment variables that are set.
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
	ctx      context.Context // context of everything that runs
	stop     context.CancelFunc
	quiet    atomic.Bool // set by Leave: it reports that it is not ready although it serves
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
	paths  []string                     // files and folders of bundles
}

// New makes a server without models. Ending ctx stops it at once; Drain stops it gracefully.
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

// Ready reports whether the server accepts requests and every model that should be loaded is loaded.
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

// Leave makes the server and its models report that they are not ready while they still serve, so that balancers send
// requests elsewhere before Drain rejects any.
func (s *Server) Leave() { s.quiet.Store(true) }

func (s *Server) leaving() bool { return s.quiet.Load() || s.draining.Load() }

// Drain rejects new requests, waits for those in flight, and closes the models. When ctx ends, the remaining requests
// are abandoned.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true) // set under the lock, so that Drain waits for calls that began before
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

// begin counts a request as in flight, or rejects it.
func (s *Server) begin() (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || s.ctx.Err() != nil {
		return nil, refuse(Unavailable, "the server is shutting down and accepts no more requests: ask another one")
	}
	s.pending.Add(1)
	return s.pending.Done, nil
}

// Infer answers a request. passed, if set, is called with the answer of every exit. It may block, which delays only
// this request.
func (s *Server) Infer(ctx context.Context, r *Request, passed func(*Answer) error) (*Answer, error) {
	if r.Came.IsZero() {
		r.Came = time.Now()
	}
	ctx, sp := s.opts.Tracer.begin(ctx, r)
	a, m, err := s.infer(ctx, r, passed)
	sp.end(err)
	s.book.request(m, r, time.Since(r.Came), err)
	s.load.report(time.Now(), s) // after end, so that the report includes this request
	return a, err
}

// unread counts a request that could not be read, and returns its error.
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
		case gone != nil: // unloaded meanwhile
			return nil, m, gone
		case next == m:
			return nil, m, err
		}
		m = next // loaded again meanwhile
	}
	return nil, nil, err
}
