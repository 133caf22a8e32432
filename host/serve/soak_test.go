// A soak of the whole server, over loopback.

package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
	"github.com/sluice-npu/sluice/host/soft"
)

var (
	soakN    = flag.Int("soak.n", 5_000, "requests of the soak")
	soakSeed = flag.Uint64("soak.seed", 1, "seed of the soak")
)

const soakConns = 256 // half of them gRPC's

// kind is the behaviour of a request of the soak, and the codes that it may end with besides OK.
type kind struct {
	name   string
	change func(q *oip.ModelInferRequest, rng *rand.Rand)
	may    []codes.Code
	fails  bool // it never has an answer
}

// kinds are drawn with equal chance; plain ones fill the list up.
func kinds() []kind {
	set := func(name string, v *oip.InferParameter) func(*oip.ModelInferRequest, *rand.Rand) {
		return func(q *oip.ModelInferRequest, _ *rand.Rand) { q.Parameters[name] = v }
	}
	plain := func(*oip.ModelInferRequest, *rand.Rand) {}
	invalid := []codes.Code{codes.InvalidArgument}
	late := []codes.Code{codes.DeadlineExceeded, codes.ResourceExhausted}
	out := []kind{
		{"cancel", set("exit_threshold", text("2")), []codes.Code{codes.Canceled}, false},
		{"hopeless", set("slo_us", whole(1)), late, true},
		{"tight", func(q *oip.ModelInferRequest, rng *rand.Rand) { q.Parameters["slo_us"] = whole(1 + rng.Int64N(20_000)) }, late, false},
		{"shape", func(q *oip.ModelInferRequest, _ *rand.Rand) { q.Inputs[0].Shape = []int64{1, 28, 14, 2} }, invalid, true},
		{"short", func(q *oip.ModelInferRequest, _ *rand.Rand) { q.RawInputContents[0] = q.RawInputContents[0][:5] }, invalid, true},
		{"parameter", set("max_exit", text("last")), invalid, true},
		{"model", func(q *oip.ModelInferRequest, _ *rand.Rand) { q.ModelName = "nobody's" }, []codes.Code{codes.NotFound}, true},
		{"second", func(q *oip.ModelInferRequest, _ *rand.Rand) { q.ModelName = "second" }, []codes.Code{codes.NotFound}, false},
		{"whole", set("exit_threshold", text("2")), nil, false},
		{"batch", func(q *oip.ModelInferRequest, _ *rand.Rand) { *q = *question(3, q.Parameters) }, nil, false},
	}
	for len(out) < 20 {
		out = append(out, kind{"plain", plain, nil, false})
	}
	return out
}

// soakClient is one connection.
type soakClient interface {
	ask(ctx context.Context, q *oip.ModelInferRequest) codes.Code
	io.Closer
}

type soakGRPC struct{ *grpc.ClientConn }

func (c soakGRPC) ask(ctx context.Context, q *oip.ModelInferRequest) codes.Code {
	_, err := oip.NewGRPCInferenceServiceClient(c).ModelInfer(ctx, q)
	return status.Code(err)
}

type soakREST struct {
	url  string
	http *http.Client
}

func (c soakREST) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func (c soakREST) ask(ctx context.Context, q *oip.ModelInferRequest) codes.Code {
	params := map[string]any{}
	for k, v := range q.Parameters {
		if params[k] = v.GetStringParam(); params[k] == "" {
			params[k] = v.GetInt64Param()
		}
	}
	in, raw := q.Inputs[0], q.RawInputContents[0]
	head, err := json.Marshal(map[string]any{"parameters": params, "inputs": []any{map[string]any{
		"name": in.Name, "datatype": in.Datatype, "shape": in.Shape, "parameters": map[string]any{"binary_data_size": len(raw)},
	}}})
	if err != nil {
		return codes.Unknown
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v2/models/"+q.ModelName+"/infer", bytes.NewReader(append(head, raw...)))
	if err != nil {
		return codes.Unknown
	}
	req.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(head)))
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return codes.Canceled
		}
		return codes.Unknown
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && ctx.Err() == nil {
		return codes.Unknown
	}
	for _, of := range []struct {
		http int
		code codes.Code
	}{
		{200, codes.OK},
		{400, codes.InvalidArgument},
		{404, codes.NotFound},
		{429, codes.ResourceExhausted},
		{499, codes.Canceled},
		{500, codes.Internal},
		{503, codes.Unavailable},
		{504, codes.DeadlineExceeded},
	} {
		if of.http == resp.StatusCode {
			return of.code
		}
	}
	return codes.Unknown
}

// TestSoak: 256 connections send requests, cancels, invalid data and impossible deadlines, while segments fail and hang and
// models are loaded and unloaded, until the server drains. Each request ends with an allowed code, client and server have
// equal counts, memory does not grow and nothing remains.
func TestSoak(t *testing.T) {
	n := *soakN
	if testing.Short() {
		n = min(n, 1000)
	}
	hangs, failures := 0, 0 // one launch at a time
	s := start(t, 10*time.Microsecond, func(o *serve.Options) {
		o.Defaults.Theta = []float32{2}
		o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
			d := soft.New(b.Design, soft.Options{Executor: func(b *bundle.Bundle) (soft.Executor, error) { return stub{b.Network.Exits[0].Classes}, nil }})
			faulty := &enginetest.Faulty{
				Blocking: d, Real: true,
				Fail: func(run int) bool {
					if run%200 != 70 {
						return false
					}
					failures++
					return true
				},
				Hang: func(run int) bool {
					if run%10_000 != 500 {
						return false
					}
					hangs++
					return true
				},
			}
			opened := &serve.Opened{Device: device.Adapt(faulty), Timely: true}
			opened.Watchdog.Fixed = 500e6
			return opened, d.Load(ctx, b)
		}
	})
	s.also(t, "second", "")
	clients := make([]soakClient, soakConns)
	grpcAt := listen(t, s)
	var dials atomic.Int64
	for i := range clients {
		if i%2 == 0 {
			c, err := grpc.NewClient(grpcAt, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			clients[i] = soakGRPC{c}
			continue
		}
		clients[i] = soakREST{s.rest, &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, at)
		}}}}
	}

	coming, done := context.WithCancel(t.Context())
	var around sync.WaitGroup
	loads := 0
	var draining atomic.Bool
	around.Go(func() { // models come and go
		for coming.Err() == nil {
			for _, step := range []func() error{func() error { return s.Unload("second") }, func() error { return s.Load("tiny") }, func() error { return s.Load("second") }} {
				if err := step(); err != nil && !draining.Load() {
					t.Errorf("a model comes or goes: %v", err)
				}
				loads++
				time.Sleep(5 * time.Millisecond)
			}
		}
	})

	var (
		next    atomic.Int64
		cancels atomic.Int64
		all     sync.WaitGroup
		mu      sync.Mutex
		seen    = map[codes.Code]uint64{}
		heap    []uint64
		drained = make(chan error, 1)
		list    = kinds()
		drainAt = int64(n - n/20)
	)
	var pause sync.RWMutex
	live := func() { // without requests
		pause.Lock()
		defer pause.Unlock()
		runtime.GC()
		runtime.GC() // what pools let go of
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = append(heap, m.HeapAlloc)
	}
	for i, c := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(*soakSeed, uint64(100+i)))
			for {
				id := next.Add(1)
				if id > int64(n) {
					return
				}
				switch id {
				case int64(n) / 3, int64(2*n) / 3:
					live()
				case drainAt:
					draining.Store(true)
					go func() { drained <- s.Drain(context.Background()) }()
				}
				k := &list[rng.IntN(len(list))]
				q := question(1, map[string]*oip.InferParameter{})
				k.change(q, rng)
				ctx, stop := context.WithCancel(context.Background())
				if k.name == "cancel" {
					cancels.Add(1)
					time.AfterFunc(time.Duration(rng.IntN(5000))*time.Microsecond, stop)
				}
				pause.RLock()
				code := c.ask(ctx, q)
				pause.RUnlock()
				stop()
				switch {
				case code == codes.OK && !k.fails, slices.Contains(k.may, code):
				case code == codes.Internal: // a segment has failed twice
				case code == codes.ResourceExhausted && !k.fails: // the queue is full
				case code == codes.Unavailable && draining.Load():
				default:
					t.Errorf("request %d, %s: %s", id, k.name, code)
				}
				mu.Lock()
				seen[code]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	done()
	around.Wait()
	live()
	for _, c := range clients {
		c.Close()
	}

	p := s.Take()
	counted, asked := uint64(0), uint64(0)
	for _, k := range p.Requests {
		counted += k
	}
	for _, k := range seen {
		asked += k
	}
	lost := uint64(cancels.Load()) // some have not left their client
	if asked != uint64(n) || counted > asked || counted+lost < asked || p.Requests["OK"] < seen[codes.OK] || p.Requests["OK"] > seen[codes.OK]+lost {
		t.Errorf("clients asked %d times and saw %v, the server counts %d: %v; %d were cancelled", asked, seen, counted, p.Requests, lost)
	}
	if len(p.Devices)+len(p.Models) != 0 {
		t.Errorf("devices %+v, models %+v are left", p.Devices, p.Models)
	}
	for _, code := range []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.Canceled, codes.Unavailable} {
		if seen[code] == 0 {
			t.Errorf("nothing ended with %s: %v", code, seen)
		}
	}
	if seen[codes.OK] < uint64(n)/3 || failures == 0 || loads < 3 {
		t.Errorf("%v, %d failures, %d loads: expected a third answered, and both of the others", seen, failures, loads)
	}
	t.Logf("seed %d: %d requests, %v; %d failures, %d hangs, %d loads and unloads, %d HTTP connections, live heap %d", *soakSeed, n, p.Requests, failures, hangs, loads, dials.Load(), heap)
	if grown := int64(heap[1]) - int64(heap[0]); grown > 4<<20 {
		t.Errorf("memory grows by %d bytes between the first third and the second", grown)
	}
}
