package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// unread opens a stream with 64 requests, more than the limit, and reads no answer.
func unread(t *testing.T, s *running) oip.GRPCInferenceService_ModelStreamInferClient {
	t.Helper()
	c, err := grpc.NewClient(listen(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ss, err := oip.NewGRPCInferenceServiceClient(c).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 64 {
		q := question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")})
		q.Id = strings.Repeat("x", 1000)
		if err := ss.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	return ss
}

// TestUnreadStream: a client that reads no answers occupies no place in the queue, and does not keep the server from ending.
func TestUnreadStream(t *testing.T) {
	s := start(t, 0, func(o *serve.Options) { o.Defaults.Queue = 64 })
	unread(t, s)
	eventually(t, "all have ended on the device", func() bool { return s.Take().Models[0].Samples == 64 })
	if p := s.Take().Models[0]; p.Queued != 0 || p.Requests["OK"] == 64 {
		t.Errorf("%d wait or run, %d have been answered: expected none, and some that wait for the client", p.Queued, p.Requests["OK"])
	}
	if _, err := s.ModelInfer(t.Context(), question(64, nil)); err != nil {
		t.Errorf("another client: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v: expected that requests are left", err)
	}
}

// TestUnreadStreamEnds: a stream whose answers are not read is ended.
func TestUnreadStreamEnds(t *testing.T) {
	s := start(t, 0, func(o *serve.Options) { o.Limits.Transfer = 50 * time.Millisecond })
	ss := unread(t, s)
	eventually(t, "it is given up", func() bool { return s.Take().Models[0].Requests["Canceled"] > 0 })
	var err error
	for err == nil {
		_, err = ss.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("%v: expected Canceled", err)
	}
}

// TestLongDeadlines: a deadline beyond the range of times has not passed.
func TestLongDeadlines(t *testing.T) {
	s := start(t, 0, nil)
	for _, d := range []time.Duration{math.MaxInt64, 200 * 365 * 24 * time.Hour} {
		ctx, stop := context.WithTimeout(t.Context(), d)
		if _, err := s.ModelInfer(ctx, question(1, nil)); err != nil {
			t.Errorf("%v: %v", d, err)
		}
		stop()
	}
	if _, err := serve.ParseSettings([]byte("slo: 2562047h")); err == nil || !strings.Contains(err.Error(), "a year") {
		t.Errorf("slo: 2562047h: %v: expected a year at most", err)
	}
}

// TestSnapshotsInOrder: of two snapshots the one with the larger number has the larger counts, and the server's counts are
// those of its only model.
func TestSnapshotsInOrder(t *testing.T) {
	s := start(t, 0, nil)
	var clients, lookers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := map[uint64]*serve.Snapshot{}
	for range 4 {
		lookers.Go(func() {
			for ctx.Err() == nil {
				p := s.Take()
				mu.Lock()
				seen[p.Number] = p
				mu.Unlock()
			}
		})
		clients.Go(func() {
			for range 100 {
				if _, err := s.Infer(ctx, &serve.Request{Model: "tiny"}, nil); err == nil {
					t.Error("a request without an input is answered")
				}
			}
		})
	}
	clients.Wait()
	stop()
	lookers.Wait()
	last := uint64(0)
	for n := uint64(1); n <= uint64(len(seen)); n++ {
		p := seen[n]
		if p == nil {
			continue
		}
		now := p.Models[0].Requests["InvalidArgument"]
		if now < last || now != p.Requests["InvalidArgument"] {
			t.Fatalf("snapshot %d has %d requests of the model and %d of the server, one before it %d", n, now, p.Requests["InvalidArgument"], last)
		}
		last = now
	}
	if last == 0 {
		t.Error("no snapshot has a request")
	}
}

// raw is a message in bytes.
type raw []byte

// rawCodec sends them.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.(raw), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }

// TestFewTensors: a short message does not use much memory, for any content.
func TestFewTensors(t *testing.T) {
	const size = 1 << 20
	s := start(t, 0, func(o *serve.Options) { o.Limits.Message = size })
	c, err := grpc.NewClient(listen(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	within := func(name string, ask func() bool) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refused := ask()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; !refused || got > 16*size {
			t.Errorf("%s: refused: %v, %d bytes were taken: expected a refusal with at most %d", name, refused, got, 16*size)
		}
	}
	list := func(head, of, tail string) []byte {
		return []byte(head + strings.Repeat(of, (size-len(head)-len(tail))/len(of)) + tail)
	}
	for name, b := range map[string][]byte{
		"inputs":   list("", "\x2a\x00", ""),
		"raw":      list("", "\x3a\x00", ""),
		"contents": list("", "\x2a\x02\x2a\x00", ""),
		"a shape":  list("\x2a\xfc\xff\x3f\x1a\xf8\xff\x3f", "\x01", ""),
		"broken":   {0x2a, 5},
	} {
		within(name, func() bool {
			const method = "/inference.GRPCInferenceService/Model"
			err := c.Invoke(t.Context(), method+"Infer", raw(b), new(raw), grpc.ForceCodec(rawCodec{}), grpc.UseCompressor("gzip"))
			ss, _ := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method+"StreamInfer", grpc.ForceCodec(rawCodec{}))
			_ = ss.SendMsg(raw(b))
			streamed := ss.RecvMsg(new(raw))
			if status.Code(err) != codes.InvalidArgument || status.Code(streamed) != codes.InvalidArgument {
				t.Errorf("%s: %v, on a stream %v: expected InvalidArgument", name, err, streamed)
			}
			return err != nil
		})
	}
	for name, b := range map[string][]byte{
		"inputs":      list(`{"inputs":[`, "{},", "{}]}"),
		"outputs":     list(`{"outputs":[`, "{},", "{}]}"),
		"a shape":     list(`{"inputs":[{"shape":[`, "1,", "1]}]}"),
		"parameters":  list(`{"parameters":{"a":[`, "[],", "[]]}}"),
		"of a tensor": list(`{"inputs":[{"parameters":{"a":[`, "1,", "1]}}]}"),
	} {
		within(name, func() bool { // refused only because it is longer than the model's requests may be
			code, _, _ := post(t, s.rest+"/v2/models/tiny/infer", b, 0)
			return code == 400
		})
	}
}

// TestMemory: all requests in flight together stay within the memory limit.
func TestMemory(t *testing.T) {
	s := start(t, 300*time.Millisecond, func(o *serve.Options) { o.Limits.Memory = 2 * 4 * pixels })
	ended := make(chan error, 1)
	go func() {
		_, err := s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")}))
		ended <- err
	}()
	eventually(t, "the request is there", func() bool { return s.Take().Models[0].Queued == 1 })
	ask := func() (rest int, grpc codes.Code) {
		rest, _, _ = post(t, s.rest+"/v2/models/tiny/infer", body(1, nil), 4*pixels)
		_, err := s.ModelInfer(t.Context(), question(1, nil))
		return rest, status.Code(err)
	}
	if code, other := ask(); code != http.StatusTooManyRequests || other != codes.ResourceExhausted {
		t.Errorf("beside another request: %d, %s: expected 429, ResourceExhausted", code, other)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code, other := ask(); code != 200 || other != codes.OK {
		t.Errorf("alone: %d, %s: expected 200, OK", code, other)
	}
	// what is longer than any request of the model is not read
	resp, err := http.Post(s.rest+"/v2/models/tiny/infer", "", io.MultiReader(bytes.NewReader(make([]byte, 8<<20))))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 && resp.StatusCode != 429 {
		t.Errorf("%d: expected 413 or 429", resp.StatusCode)
	}
}

// TestKeptOnce: a waiting request is stored only in the device's format, half as large as FP32.
func TestKeptOnce(t *testing.T) {
	const n, samples = 24, 64
	s := start(t, 500*time.Millisecond, func(o *serve.Options) { o.Defaults.Queue = 2 * n * samples })
	c, err := grpc.NewClient(listen(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	message, err := proto.Marshal(question(samples, nil))
	if err != nil {
		t.Fatal(err)
	}
	document := body(samples, nil)
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // frees the content of pools
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for name, ask := range map[string]func(){ // the clients keep nothing
		"REST": func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.rest+"/v2/models/tiny/infer", bytes.NewReader(document))
			r.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(document)-4*samples*pixels))
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		},
		"gRPC": func() {
			_ = c.Invoke(ctx, "/inference.GRPCInferenceService/ModelInfer", raw(message), new(raw), grpc.ForceCodec(rawCodec{}))
		},
	} {
		before, queued := live(), s.Take().Models[0].Queued
		for range n {
			all.Go(ask)
		}
		eventually(t, "they wait", func() bool { return s.Take().Models[0].Queued == queued+n })
		if kept := float64(live()-before) / float64(n*len(message)); kept > 1.5 {
			t.Errorf("%s: %.2f bytes are kept of each that was sent", name, kept)
		}
	}
	stop()
	all.Wait()
}
