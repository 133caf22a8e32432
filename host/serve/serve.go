// Package serve provides an inference server for devices, with the Open Inference Protocol. gRPC and REST are two thin
// interfaces of one Server. The Server converts requests to tasks of host/engine, and the tasks' results to answers.
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

// Name and Version are the server's name and version in its metadata.
const Name = "sluice"

// extensions returns the supported protocol extensions, by Triton's names.
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
	Classes int  // number of best classes to return instead of the tensor; 0: return the tensor
	Binary  bool // for REST only
}

// Request is an inference request from either interface.
type Request struct {
	Model, Version, ID string
	Params             map[string]any // values have the type bool, int64, uint64, float64 or string
	Inputs             []Tensor
	Outputs            []Wanted  // empty: all outputs
	Came               time.Time // time at which the request began to arrive; zero: now
}

// Answer is the answer to a request, or one sample's result at one exit.
type Answer struct {
	Model, Version, ID string
	Params             map[string]any
	Outputs            []Tensor
}

// Ballast returns memory that a server should keep but never use. It counts as live, so the garbage collector runs only
// after requests have produced garbage of the same size. Otherwise only a few megabytes are live, and the collector
// uses a fifth of a request's CPU time. Ballast adds about 32 MiB to the process. It is nil if GOMEMLIMIT is too small.
func Ballast() []byte {
	const size = 32 << 20
	if debug.SetMemoryLimit(-1) < 8*size {
		return nil
	}
	return make([]byte, size)
}

// Limits are limits for requests. A zero value selects the default.
type Limits struct {
	Message     int           // maximum bytes of a request, decompressed; default 64 MiB
	Memory      int           // maximum bytes of all requests in flight, decompressed; default 1 GiB
	Samples     int           // maximum samples of a request; default 64
	Connections int           // maximum connections at a time, per port; default 1024
	Rate        float64       // maximum requests per second per client address; 0: no limit
	Transfer    time.Duration // maximum time to send a whole request on REST, or to receive an answer; default 1 min
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
	Latency Latency                               // returns bundles' tables on the devices that Open opens; nil: use the tables in the bundles
	About   func(b *bundle.Bundle) (About, error) // nil: no information about bundles
	Limits  Limits
	Token   func() string // bearer token that clients must send; nil: none
	// Defaults replace a model's missing settings.
	Defaults Settings
	// TritonMetrics adds nv_inference_* to the metrics.
	TritonMetrics bool
	Tracer        *Tracer // nil: no spans
	Log           *slog.Logger
}

// About contains the information that a bundle's author has recorded about the bundle.
type About struct {
	Classes []string                           // names; nil: unknown
	Pixels  string                             // description of the conversion from pixels to the input
	Pixel   func(v uint8, channel int) float32 // the conversion of one pixel; nil: unknown
	Warning string                             // information for users who serve the bundle
}

// otelVariables returns the names of the OpenTelemetry environment variables that are set.
func otelVariables() (set []string) {
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") && value != "" {
			set = append(set, name)
		}
	}
	return set
}

// Server stores models and answers requests.
type Server struct {
	opts     Options
	ctx      context.Context // context of all work of the server
	stop     context.CancelFunc
	quiet    atomic.Bool // set by Leave: the server reports that it is not ready although it serves requests
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

// New returns a server without models. The end of ctx stops the server at once. Drain stops it gracefully.
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

// After Leave, the server and its models report that they are not ready although they still serve requests. Balancers
// can then send requests elsewhere before Drain rejects requests.
func (s *Server) Leave() { s.quiet.Store(true) }

func (s *Server) leaving() bool { return s.quiet.Load() || s.draining.Load() }

// Drain rejects new requests, waits for requests in flight, and closes the models. When ctx ends, the remaining
// requests are abandoned.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true) // set under the lock, so that Drain waits for all calls that began earlier
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

// Infer answers a request. If passed is not nil, Infer calls it with the answer of every exit. If passed blocks, only
// this request is delayed.
func (s *Server) Infer(ctx context.Context, r *Request, passed func(*Answer) error) (*Answer, error) {
	if r.Came.IsZero() {
		r.Came = time.Now()
	}
	ctx, sp := s.opts.Tracer.begin(ctx, r)
	a, m, err := s.infer(ctx, r, passed)
	sp.end(err)
	s.book.request(m, r, time.Since(r.Came), err)
	s.load.report(time.Now(), s) // must follow end, so that the report includes this request
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
		case gone != nil: // the model was unloaded meanwhile
			return nil, m, gone
		case next == m:
			return nil, m, err
		}
		m = next // the model was loaded again meanwhile
	}
	return nil, nil, err
}
