package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/drive"
	"github.com/sluice-npu/sluice/host/serve/oip"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(servesAlone); path != "" {
		if err := serveAlone(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

var tiny = sync.OnceValues(func() (*bundle.Bundle, error) {
	design, err := configs.Load("tiny")
	if err != nil {
		return nil, err
	}
	return (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
})

// stub is an executor that takes no time: both exits give class 3, with confidence 0.5 at the first.
type stub struct{ classes int }

func (stub) NewSlot() []byte                { return nil }
func (stub) SetInput([]byte, []int16) error { return nil }
func (stub) Segment(int, int, []byte) error { return nil }
func (s stub) Logits([]byte, int) ([]int16, error) {
	out := make([]int16, s.classes)
	out[3] = 100
	return out, nil
}

type running struct {
	*serve.Server
	dir  string
	rest string
	oip.GRPCInferenceServiceClient
}

// start serves the model tiny on soft; by the table each segment takes the given time for one sample.
func start(t *testing.T, segment time.Duration, change func(*serve.Options)) *running {
	t.Helper()
	dir, _ := paced(t, segment)
	r := &running{dir: dir}
	o := serve.Options{Version: "test", Open: stubbed(true)}
	if change != nil {
		change(&o)
	}
	var err error
	if r.Server, err = serve.New(context.WithoutCancel(t.Context()), o); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Add(r.dir), r.LoadAll()); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(r.REST())
	r.rest = h.URL
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := r.GRPC()
	go g.Serve(l)
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	r.GRPCInferenceServiceClient = oip.NewGRPCInferenceServiceClient(c)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
		defer stop()
		if err := r.Drain(ctx); err != nil {
			t.Error(err)
		}
		c.Close()
		g.Stop()
		http.DefaultClient.CloseIdleConnections()
		h.Close()
	})
	return r
}

const pixels = 28 * 28

func values(n int) []byte {
	var out []byte
	for i := range n * pixels {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(i%7)/8))
	}
	return out
}

func question(n int, params map[string]*oip.InferParameter) *oip.ModelInferRequest {
	return &oip.ModelInferRequest{
		ModelName: "tiny", Id: "q", Parameters: params, RawInputContents: [][]byte{values(n)},
		Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "FP32", Shape: []int64{int64(n), 28, 28, 1}}},
	}
}

func text(v string) *oip.InferParameter {
	return &oip.InferParameter{ParameterChoice: &oip.InferParameter_StringParam{StringParam: v}}
}

func whole(v int64) *oip.InferParameter {
	return &oip.InferParameter{ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: v}}
}

func body(n int, params map[string]any) []byte {
	head, _ := json.Marshal(map[string]any{
		"id": "q", "parameters": params,
		"inputs": []any{map[string]any{"name": "input", "datatype": "FP32", "shape": []int{n, 28, 28, 1}, "parameters": map[string]any{"binary_data_size": 4 * n * pixels}}},
	})
	return append(head, values(n)...)
}

func post(t *testing.T, url string, b []byte, binary int) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if binary > 0 {
		req.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(b)-binary))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, out
}

// TestFacesAgree: REST and gRPC give the same answer to the same request.
func TestFacesAgree(t *testing.T) {
	s := start(t, 0, golden)
	for _, n := range []int{1, 3} {
		a, err := s.ModelInfer(t.Context(), question(n, nil))
		if err != nil {
			t.Fatal(err)
		}
		code, _, got := post(t, s.rest+"/v2/models/tiny/versions/1/infer", body(n, nil), 4*n*pixels)
		var doc struct {
			ID      string `json:"id"`
			Outputs []struct {
				Name  string    `json:"name"`
				Shape []int64   `json:"shape"`
				Data  []float64 `json:"data"`
			} `json:"outputs"`
		}
		if err := json.Unmarshal(got, &doc); code != 200 || err != nil || doc.ID != "q" || len(doc.Outputs) != 4 {
			t.Fatalf("%d %s: %v", code, got, err)
		}
		for i, o := range doc.Outputs {
			raw := a.RawOutputContents[i]
			if o.Name != a.Outputs[i].Name || !slices.Equal(o.Shape, a.Outputs[i].Shape) || o.Shape[0] != int64(n) {
				t.Errorf("REST has %s %v, gRPC %s %v", o.Name, o.Shape, a.Outputs[i].Name, a.Outputs[i].Shape)
			}
			for k, v := range o.Data {
				w := binary.LittleEndian.Uint32(raw[4*k:])
				of := float64(int32(w))
				if a.Outputs[i].Datatype == "FP32" {
					of = float64(math.Float32frombits(w))
				}
				if math.Abs(v-of) > 1e-6 {
					t.Errorf("%s[%d] is %v by REST, %v by gRPC", o.Name, k, v, of)
				}
			}
		}
	}
}

func exitOf(a *oip.ModelInferResponse) int {
	for i, o := range a.Outputs {
		if o.Name == "exit" {
			return int(binary.LittleEndian.Uint32(a.RawOutputContents[i]))
		}
	}
	return -1
}

// TestThresholds: an absent threshold is the model's default, and 0 means 0.
func TestThresholds(t *testing.T) {
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Defaults.Theta = []float32{2} })
	type p = map[string]*oip.InferParameter
	for i, c := range []struct {
		params p
		exit   int
	}{
		{nil, 1},
		{p{"exit_threshold": whole(0)}, 0},
		{p{"exit_threshold": text("0.01")}, 0},
		{p{"exit_threshold": whole(2000)}, 1},
		{p{"exit_threshold": whole(1)}, 1},
		{p{"exit_threshold": whole(5)}, 0},
		{p{"max_exit": whole(0)}, 0},
		{p{"max_exit": whole(1)}, 1},
		{p{"priority": whole(1)}, 1},
	} {
		a, err := s.ModelInfer(t.Context(), question(1, c.params))
		if err != nil || exitOf(a) != c.exit {
			t.Errorf("case %d: exit %d, %v: expected exit %d", i, exitOf(a), err, c.exit)
		}
	}
}

// late is a driver whose second segment ends when it is released.
type late struct {
	device.Blocking
	let chan struct{}
}

// Run implements device.Blocking.
func (l *late) Run(ctx context.Context, w *device.Launch) (*device.Report, error) {
	if w.Last > 0 {
		select {
		case <-l.let:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return l.Blocking.Run(ctx, w)
}

// heldBy makes a server's devices wait for let in each segment except the first.
func heldBy(let chan struct{}) func(*serve.Options) {
	return func(o *serve.Options) {
		o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
			d := soft.New(b.Design, soft.Options{Executor: func(b *bundle.Bundle) (soft.Executor, error) { return stub{b.Network.Exits[0].Classes}, nil }})
			opened := &serve.Opened{Device: device.Adapt(&late{d, let})}
			opened.Watchdog.Fixed = 600e9
			let <- struct{}{} // for the warm-up
			return opened, d.Load(ctx, b)
		}
	}
}

// TestExitsArriveEarly: the client receives exit k before the segment of exit k+1 ends, in 100 of 100 tries: that segment
// is held until the client has the answer.
func TestExitsArriveEarly(t *testing.T) {
	let := make(chan struct{}, 1)
	s := start(t, time.Millisecond, heldBy(let))
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	st, err := s.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := st.Send(question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")})); err != nil {
			t.Fatal(err)
		}
		var exits []int
		for final := false; !final; {
			r, err := st.Recv()
			if err != nil || r.ErrorMessage != "" {
				t.Fatalf("request %d, behind exits %v: %v, %v", i, exits, err, r)
			}
			if exits, final = append(exits, exitOf(r.InferResponse)), r.InferResponse.Parameters["triton_final_response"].GetBoolParam(); len(exits) == 1 {
				let <- struct{}{}
			}
		}
		if !slices.Equal(exits, []int{0, 1, 1}) {
			t.Fatalf("exits %v: expected 0, 1, and 1 as the final answer", exits)
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// TestHangUp: if a client disconnects during the first segment, its work ends at the first exit, with REST and gRPC.
func TestHangUp(t *testing.T) {
	hang := map[string]func(ctx context.Context, s *running) error{
		"gRPC": func(ctx context.Context, s *running) error {
			_, err := s.ModelInfer(ctx, question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")}))
			return err
		},
		"stream": func(ctx context.Context, s *running) error {
			st, err := s.ModelStreamInfer(ctx)
			if err == nil {
				err = st.Send(question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")}))
			}
			for err == nil {
				_, err = st.Recv()
			}
			return err
		},
		"REST": func(ctx context.Context, s *running) error {
			b := body(1, map[string]any{"exit_threshold": "2"})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.rest+"/v2/models/tiny/infer", bytes.NewReader(b))
			if err != nil {
				return err
			}
			req.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(b)-4*pixels))
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		},
	}
	for face, call := range hang {
		t.Run(face, func(t *testing.T) {
			s := start(t, 400*time.Millisecond, nil)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- call(ctx, s) }()
			eventually(t, "the request is there", func() bool { return s.Take().Models[0].Queued == 1 })
			stop()
			if err := <-ended; err == nil {
				t.Fatal("a call that was cancelled has an answer")
			}
			eventually(t, "the request has gone", func() bool { return s.Take().Models[0].Queued == 0 })
			m := s.Take().Models[0]
			if m.Batches > 1 || m.Samples != 0 || m.Requests["Canceled"] != 1 {
				t.Errorf("%d segments, %d samples, requests %v: expected the first segment at most, and one that was cancelled", m.Batches, m.Samples, m.Requests)
			}
		})
	}
}

// TestGoneWhileWaiting: if a client disconnects before its first exit, the request of its stream is released, even if work
// still runs.
func TestGoneWhileWaiting(t *testing.T) {
	let := make(chan struct{}, 1)
	s := start(t, time.Millisecond, func(o *serve.Options) {
		heldBy(let)(o)
		o.Defaults.Policy = "serial"
	})
	never := map[string]*oip.InferParameter{"exit_threshold": text("2")}
	first := make(chan error, 1)
	go func() {
		_, err := s.ModelInfer(context.Background(), question(1, never))
		first <- err
	}()
	eventually(t, "the first request runs", func() bool { return s.Take().Models[0].Batches == 1 })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	st, err := s.ModelStreamInfer(ctx)
	if err == nil {
		err = st.Send(question(1, never))
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second waits", func() bool { return s.Take().Models[0].Queued == 2 })
	stop()
	eventually(t, "it has gone", func() bool { return s.Take().Models[0].Requests["Canceled"] == 1 })
	let <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestRaw: Triton's raw request, whose JSON has no bytes, is answered as the same with JSON, in binary; a body of another
// length is refused.
func TestRaw(t *testing.T) {
	s := start(t, 0, golden)
	url := s.rest + "/v2/models/tiny/infer"
	ask := func(b []byte) (int, http.Header, []byte) { return post(t, url, b, len(b)) }
	code, header, got := ask(values(1))
	length, err := strconv.Atoi(header.Get("Inference-Header-Content-Length"))
	if code != 200 || err != nil || length > len(got) {
		t.Fatalf("%d, %v, %s", code, err, got)
	}
	_, _, want := post(t, url, body(1, map[string]any{"binary_data_output": true}), 4*pixels)
	if n := len(got) - length; n == 0 || !bytes.Equal(got[length:], want[len(want)-n:]) {
		t.Errorf("%d bytes of outputs, which are not those of the request with JSON", n)
	}
	if code, _, got := ask(values(1)[4:]); code != 400 || !bytes.Contains(got, []byte("expected 3136")) {
		t.Errorf("a body that is short: %d, %s", code, got)
	}
}

// TestCodes: each refusal has its code on REST and gRPC, and says what was expected.
func TestCodes(t *testing.T) {
	s := start(t, 500*time.Millisecond, func(o *serve.Options) { o.Limits.Samples = 4 })
	type p = map[string]any
	for name, c := range map[string]struct {
		change func(*oip.ModelInferRequest)
		code   codes.Code
		http   int
		words  string
	}{
		"model":     {func(q *oip.ModelInferRequest) { q.ModelName = "none" }, codes.NotFound, 404, "none"},
		"version":   {func(q *oip.ModelInferRequest) { q.ModelVersion = "9" }, codes.NotFound, 404, "version"},
		"name":      {func(q *oip.ModelInferRequest) { q.Inputs[0].Name = "x" }, codes.InvalidArgument, 400, `expected one, "input"`},
		"shape":     {func(q *oip.ModelInferRequest) { q.Inputs[0].Shape = []int64{1, 28, 14, 2} }, codes.InvalidArgument, 400, "expected [n 28 28 1]"},
		"negative":  {func(q *oip.ModelInferRequest) { q.Inputs[0].Shape = []int64{-1, 28, 28, 1} }, codes.InvalidArgument, 400, "shape"},
		"samples":   {func(q *oip.ModelInferRequest) { *q = *question(5, nil) }, codes.InvalidArgument, 400, "n of 1..4"},
		"datatype":  {func(q *oip.ModelInferRequest) { q.Inputs[0].Datatype = "INT32" }, codes.InvalidArgument, 400, "expected FP32"},
		"threshold": {func(q *oip.ModelInferRequest) { q.Parameters["exit_threshold"] = text("-1") }, codes.InvalidArgument, 400, "exit_threshold"},
		"max_exit":  {func(q *oip.ModelInferRequest) { q.Parameters["max_exit"] = whole(2) }, codes.InvalidArgument, 400, "0..1"},
		"priority":  {func(q *oip.ModelInferRequest) { q.Parameters["priority"] = whole(3) }, codes.InvalidArgument, 400, "0..2"},
		"slo":       {func(q *oip.ModelInferRequest) { q.Parameters["slo_us"] = whole(0) }, codes.InvalidArgument, 400, "slo_us"},
		"hopeless":  {func(q *oip.ModelInferRequest) { q.Parameters["slo_us"] = whole(400_000) }, codes.ResourceExhausted, 429, "deadline"},
		"timeout":   {func(q *oip.ModelInferRequest) { q.Parameters["timeout"] = whole(400_000) }, codes.ResourceExhausted, 429, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			q := question(1, map[string]*oip.InferParameter{})
			c.change(q)
			_, err := s.ModelInfer(t.Context(), q)
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.words) {
				t.Errorf("gRPC: %v: expected %s with %q", err, c.code, c.words)
			}
			if d := status.Convert(err).Details(); len(d) != 0 {
				t.Errorf("gRPC: details %v: expected no word of when to ask again, as it does not help", d)
			}
			params := p{}
			for k, v := range q.Parameters {
				if params[k] = v.GetStringParam(); params[k] == "" {
					params[k] = v.GetInt64Param()
				}
			}
			in := q.Inputs[0]
			head, _ := json.Marshal(p{"parameters": params, "inputs": []p{{"name": in.Name, "datatype": in.Datatype, "shape": in.Shape, "parameters": p{"binary_data_size": len(q.RawInputContents[0])}}}})
			url := s.rest + "/v2/models/" + q.ModelName
			if q.ModelVersion != "" {
				url += "/versions/" + q.ModelVersion
			}
			code, header, got := post(t, url+"/infer", append(head, q.RawInputContents[0]...), len(q.RawInputContents[0]))
			var doc struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal(got, &doc); err != nil || code != c.http || !strings.Contains(doc.Error, c.words) {
				t.Errorf("REST: %d %s: expected %d with %q", code, got, c.http, c.words)
			}
			if retry := header.Get("Retry-After"); retry != "" {
				t.Errorf("REST: %d with Retry-After %q", code, retry)
			}
		})
	}
}

// TestQueueIsBounded: requests beyond the limit are refused at once; all others are answered.
func TestQueueIsBounded(t *testing.T) {
	s := start(t, 20*time.Millisecond, func(o *serve.Options) { o.Defaults.Queue = 2 })
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		seen = map[codes.Code]int{}
	)
	for range 12 {
		all.Go(func() {
			_, err := s.ModelInfer(t.Context(), question(1, nil))
			mu.Lock()
			defer mu.Unlock()
			seen[status.Code(err)]++
		})
	}
	all.Wait()
	if seen[codes.OK] < 2 || seen[codes.ResourceExhausted] == 0 || seen[codes.OK]+seen[codes.ResourceExhausted] != 12 {
		t.Errorf("%v: expected at least 2 answers, and the others refused", seen)
	}
	if m := s.Take().Models[0]; m.Requests["OK"] != uint64(seen[codes.OK]) || m.Queued != 0 {
		t.Errorf("the books have %v, %d left: expected %v", m.Requests, m.Queued, seen)
	}
}

// TestDrain: the request in flight is answered, and a new one gets the advice to use another server.
func TestDrain(t *testing.T) {
	s := start(t, time.Second, nil)
	first := make(chan error, 1)
	go func() {
		_, err := s.ModelInfer(t.Context(), question(1, nil))
		first <- err
	}()
	eventually(t, "the request is there", func() bool { return s.Take().Models[0].Queued == 1 })
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	eventually(t, "the server drains", func() bool { return !s.Ready() })
	if _, err := s.ModelInfer(t.Context(), question(1, nil)); status.Code(err) != codes.Unavailable {
		t.Errorf("while it drains: %v: expected Unavailable", err)
	}
	select {
	case err := <-first:
		t.Errorf("the first request had ended before (%v): nothing was drained", err)
		first <- err
	default:
	}
	if err := <-first; err != nil {
		t.Errorf("the request that was there: %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestReload: a model that is loaded again loses no request.
func TestReload(t *testing.T) {
	s := start(t, 10*time.Microsecond, nil)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	answers := make([]int, 8)
	for i := range answers {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.ModelInfer(t.Context(), question(8, nil)); err != nil {
					t.Errorf("while the model is loaded again: %v", err)
					return
				}
				answers[i]++
			}
		})
	}
	for range 30 {
		if _, err := s.RepositoryModelLoad(t.Context(), &oip.RepositoryModelLoadRequest{ModelName: "tiny"}); err != nil {
			t.Error(err)
		}
	}
	stop()
	all.Wait()
	if slices.Min(answers) == 0 {
		t.Errorf("%v answers: expected some of each client", answers)
	}
}

// TestSettings: a model's settings are in the file beside it, and errors in them are reported.
func TestSettings(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	path := filepath.Join(s.dir, "tiny.yaml")
	for text, want := range map[string]string{
		"policy: nobody":      "unknown policy",
		"polcy: fluid":        "polcy",
		"theta: [0.1, 2, 3]":  "theta",
		"theta: []":           "empty",
		"theta: [1, 1, 1, 1]": "one an exit",
		"slo: fast":           "20ms",
		"priority: 3":         "priority",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Load("tiny"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: expected %q", text, err, want)
		}
		if _, err := s.ModelInfer(t.Context(), question(1, nil)); err != nil {
			t.Fatalf("after %q the old model does not answer: %v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte("policy: edf\ntheta: [2]\nslo: 300ms\nqueue: 3\npriorities: 4\npriority: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Load("tiny"); err != nil {
		t.Fatal(err)
	}
	c, err := s.ModelConfig(t.Context(), &oip.ModelConfigRequest{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]string{"policy": "edf", "slo_us": "300000", "queue": "3", "priorities": "4", "exit_threshold": "[2]"} {
		if got := c.Config.Parameters[k].GetStringValue(); got != want {
			t.Errorf("%s is %q: expected %q", k, got, want)
		}
	}
	if a, err := s.ModelInfer(t.Context(), question(1, nil)); err != nil || exitOf(a) != 1 || !a.Parameters["deadline_met"].GetBoolParam() {
		t.Errorf("%v, %v: expected the last exit, in time", a, err)
	}
}

// TestVersions: without a version the newest loaded one answers.
func TestVersions(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	text, err := os.ReadFile(filepath.Join(s.dir, "tiny.sluice"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"2", "10"} {
		path := filepath.Join(t.TempDir(), "tiny@"+v+".sluice")
		if err := errors.Join(os.WriteFile(path, text, 0o600), s.Add(path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Load("tiny"); err != nil {
		t.Fatal(err)
	}
	a, err := s.ModelInfer(t.Context(), question(1, nil))
	if err != nil || a.ModelVersion != "10" {
		t.Errorf("version %q, %v: expected 10", a.GetModelVersion(), err)
	}
	q := question(1, nil)
	q.ModelVersion = "2"
	if a, err = s.ModelInfer(t.Context(), q); err != nil || a.ModelVersion != "2" {
		t.Errorf("version %q, %v: expected 2", a.GetModelVersion(), err)
	}
	for _, bad := range []string{"tiny@0.sluice", "tiny@x.sluice", "tiny@2.sluice"} {
		path := filepath.Join(t.TempDir(), bad)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(path); err == nil {
			t.Errorf("%s: taken: expected a refusal", bad)
		}
	}
}

// TestToken: without the token only the liveness check is answered.
func TestToken(t *testing.T) {
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Token = func() string { return "secret" } })
	if _, err := s.ModelInfer(t.Context(), question(1, nil)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("gRPC: %v", err)
	}
	if r, err := s.ServerLive(t.Context(), &oip.ServerLiveRequest{}); err != nil || !r.Live {
		t.Errorf("live: %v", err)
	}
	for path, want := range map[string]int{"/v2/health/ready": 200, "/v2": 401, "/v2/models/tiny": 401} {
		resp, err := http.Get(s.rest + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d: expected %d", path, resp.StatusCode, want)
		}
	}
	page := httptest.NewRecorder()
	s.Status().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if page.Code != 401 {
		t.Errorf("metrics: %d: expected 401", page.Code)
	}
	c, err := drive.Dial(s.rest, "secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Describe(t.Context(), "tiny"); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

// TestTokenRevoked: after a token is revoked, open streams and pages receive nothing more.
func TestTokenRevoked(t *testing.T) {
	var token atomic.Value
	token.Store("first")
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Token = func() string { return token.Load().(string) } })
	st, err := s.ModelStreamInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer first"))
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		if err := st.Send(question(1, map[string]*oip.InferParameter{"exit_threshold": whole(0)})); err != nil {
			t.Fatal(err)
		}
	}
	send()
	for range 2 { // an exit and the whole answer
		if r, err := st.Recv(); err != nil || r.ErrorMessage != "" {
			t.Fatalf("%v, %v", r, err)
		}
	}
	page := httptest.NewServer(s.Status())
	defer page.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer first")
	events, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	token.Store("second")
	send()
	if r, err := st.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("on a stream whose token is revoked: %v, %v: expected Unauthenticated", r, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, events.Body)
		ended <- err
	}()
	s.Take()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the page's events go on")
	}
}

// TestRate: a client beyond its rate is refused; other calls continue.
func TestRate(t *testing.T) {
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Limits.Rate = 1 })
	seen := map[codes.Code]int{}
	for range 5 {
		_, err := s.ServerMetadata(t.Context(), &oip.ServerMetadataRequest{})
		seen[status.Code(err)]++
	}
	if seen[codes.OK] == 0 || seen[codes.ResourceExhausted] == 0 {
		t.Errorf("%v: expected the first to be answered, and not all", seen)
	}
}

// TestPackedBomb: a small request that unpacks beyond the limit is refused.
func TestPackedBomb(t *testing.T) {
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Limits.Message = 1 << 20 })
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	z.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.rest+"/v2/models/tiny/infer", &packed)
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); resp.StatusCode != 413 || !strings.Contains(string(got), "longer") {
		t.Errorf("%d %s: expected 413, longer than it may be", resp.StatusCode, got)
	}
}

// TestSnapshot: page and metrics show the same values, from one snapshot.
func TestSnapshot(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	if text, err := json.Marshal(s.Take()); err != nil || bytes.Contains(text, []byte("null")) {
		t.Errorf("%s, %v: expected empty lists before any request, as the page reads them", text, err)
	}
	for range 3 {
		if _, err := s.ModelInfer(t.Context(), question(2, nil)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"max_exit": whole(7)}))
	p := s.Take()
	get := func(path string) string {
		w := httptest.NewRecorder()
		s.Status().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	var seen serve.Snapshot
	if err := json.Unmarshal([]byte(get("/snapshot")), &seen); err != nil || seen.Number != p.Number {
		t.Fatalf("snapshot %d, %v: expected %d", seen.Number, err, p.Number)
	}
	m := seen.Models[0]
	metrics := get("/metrics")
	for _, line := range []string{
		fmt.Sprintf("sluice_snapshot %d", seen.Number),
		fmt.Sprintf(`sluice_requests_total{code="OK",model="tiny",version="1"} %d`, m.Requests["OK"]),
		fmt.Sprintf(`sluice_requests_total{code="InvalidArgument",model="tiny",version="1"} %d`, m.Requests["InvalidArgument"]),
		fmt.Sprintf(`sluice_batches_total{model="tiny",version="1"} %d`, m.Batches),
		fmt.Sprintf(`sluice_exits_total{exit="0",model="tiny",version="1"} %d`, m.Exits[0]),
		fmt.Sprintf(`sluice_request_seconds_count{model="tiny",version="1"} %d`, m.Success.Count),
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics lack %q", line)
		}
	}
	if m.Requests["OK"] != 3 || m.Samples != 6 || m.Requests["InvalidArgument"] != 1 || len(seen.Refused) != 1 {
		t.Errorf("%+v: expected 3 answers of 2 samples, and one refusal", m)
	}
	if page := get("/"); !strings.Contains(page, `EventSource("events")`) {
		t.Error("the page does not listen to events")
	}
}

// zeros are five samples of zeros, all of class 0.
func zeros(m *drive.Model) (data [][]byte, labels []int, err error) {
	n := 4
	for _, d := range m.Inputs[0].Shape {
		n *= int(max(1, d))
	}
	for range 5 {
		data, labels = append(data, make([]byte, n)), append(labels, 0)
	}
	return data, labels, nil
}

// TestLoad: an open and a closed loop over REST and gRPC; all endings add up and agree with the server's counts.
func TestLoad(t *testing.T) {
	s := start(t, 200*time.Microsecond, nil)
	c, err := drive.Dial(s.rest, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, l := range map[string]*drive.Load{
		"open":   {Model: "tiny", Times: []int64{0, 1e6, 2e6, 2e6, 5e6, 9e6}, SLO: 20 * time.Second},
		"closed": {Model: "tiny", Clients: 3, N: 20, Theta: "2"},
		"data":   {Model: "tiny", Clients: 3, N: 20, Theta: "2", Batch: 3, Priority: 1, Samples: zeros},
	} {
		before := s.Take().Models[0].Requests["OK"]
		sum, err := drive.Run(t.Context(), c, l)
		if err != nil {
			t.Fatal(name, err)
		}
		n := max(l.N, len(l.Times))
		exits := []int{0, n * max(1, l.Batch)}
		if l.Samples != nil {
			if r := &sum.Results[n-1]; len(r.Classes) != 3 || r.Classes[0] != r.Classes[2] || sum.Accuracy == nil || *sum.Accuracy != math.Round(*sum.Accuracy) {
				t.Errorf("the last of 60 zeros in requests of 3: %+v, accuracy %v", r, sum.Accuracy)
			}
		}
		if l.Theta == "" {
			exits = []int{n}
		}
		if sum.OnTime != n || sum.Requests != n || sum.Violations != 0 || !slices.Equal(sum.Exits, exits) && l.Theta != "" {
			t.Errorf("%s: %d on time of %d, exits %v, the first %+v: expected %d, %v", name, sum.OnTime, sum.Requests, sum.Exits, sum.Results[0], n, exits)
		}
		if got := s.Take().Models[0].Requests["OK"] - before; got != uint64(n) {
			t.Errorf("%s: the server counts %d: expected %d", name, got, n)
		}
	}
	if sum, err := drive.Run(t.Context(), c, &drive.Load{Model: "tiny", Clients: 1, N: 2, Priority: 9}); err != nil || sum.Errors != 2 || !strings.Contains(sum.Results[0].Why, "priority") {
		t.Errorf("priority 9: %+v, %v: expected two errors that name it", sum, err)
	}
	late := &drive.Load{Model: "tiny", Times: make([]int64, 64), SLO: 2 * time.Millisecond, Theta: "2"}
	sum, err := drive.Run(t.Context(), c, late)
	if err != nil {
		t.Fatal(err)
	}
	if lost := sum.Refused + sum.Dropped + sum.Unsent; sum.OnTime+sum.Late+lost+sum.Cancelled != 64 || lost == 0 || sum.Errors != 0 {
		t.Errorf("%d+%d+%d+%d+%d+%d, %d errors: expected 64 together, some refused, dropped or not sent, no error", sum.OnTime, sum.Late, sum.Dropped, sum.Refused, sum.Unsent, sum.Cancelled, sum.Errors)
	}
}

// answering is a server that always gives the same answer.
type answering struct {
	model drive.Model
	reply drive.Reply
	asked func(*drive.Question) // may be nil
}

func (a *answering) Describe(context.Context, string) (*drive.Model, error) { return &a.model, nil }
func (a *answering) Infer(_ context.Context, q *drive.Question) drive.Reply {
	if a.asked != nil {
		a.asked(q)
	}
	return a.reply
}
func (a *answering) Close() error { return nil }

// TestAbsurdAnswers: an impossible answer counts as a server error, not as answered in time.
func TestAbsurdAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		exits string
		reply drive.Reply
		fails bool
	}{
		"well": {"2", drive.Reply{Exits: []int{0, 1}, Classes: []int{3, 3}}, false}, "nothing said": {"2", drive.Reply{}, false}, "exits unknown": {"", drive.Reply{Exits: []int{7, 8}}, false},
		"beyond": {"2", drive.Reply{Exits: []int{0, 2}}, true}, "below": {"2", drive.Reply{Exits: []int{-1, 0}}, true}, "far beyond": {"", drive.Reply{Exits: []int{0, 1 << 30}}, true},
		"too few": {"2", drive.Reply{Exits: []int{0}}, true}, "too many classes": {"2", drive.Reply{Exits: []int{0, 0}, Classes: []int{1, 2, 3}}, true},
	} {
		a := &answering{drive.Model{Inputs: []drive.Tensor{{Name: "input", Datatype: "FP32", Shape: []int64{-1, 2}}}, Params: map[string]string{"exits": c.exits}}, c.reply, nil}
		sum, err := drive.Run(t.Context(), a, &drive.Load{Clients: 1, N: 3, Batch: 2})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 3}[c.fails]; sum.Errors != want || sum.OnTime != 3-want || c.fails && sum.Results[0].Why == "" {
			t.Errorf("%s: %d errors, %d on time, %q: expected %d errors of 3", name, sum.Errors, sum.OnTime, sum.Results[0].Why, want)
		}
	}
}

// TestLoadCounts: a load counts its results: when each was due, its time from then, and its ending.
func TestLoadCounts(t *testing.T) {
	var mu sync.Mutex
	at := map[uint64]time.Time{}
	a := &answering{
		drive.Model{Inputs: []drive.Tensor{{Name: "input", Datatype: "FP32", Shape: []int64{-1, 2}}}},
		drive.Reply{Exits: []int{1, 0}, Classes: []int{4, 5}},
		func(q *drive.Question) {
			mu.Lock()
			defer mu.Unlock()
			if at[q.ID] = time.Now(); q.Batch != 2 || len(q.Data[0]) != 16 || q.Priority != 3 || q.Theta != "0.5" || q.SLO > time.Hour || q.SLO < time.Minute {
				t.Errorf("%+v: expected 2 samples of 2 elements, priority 3, threshold 0.5, about an hour", q)
			}
		},
	}
	labels := []int{4, 4, 4, 5}
	l := &drive.Load{Times: []int64{0, 2e6, 9e6, 20e6, 20e6}, SLO: time.Hour, Theta: "0.5", Priority: 3, Batch: 2, Samples: func(*drive.Model) ([][]byte, []int, error) {
		return [][]byte{make([]byte, 8), make([]byte, 8), make([]byte, 8), make([]byte, 8)}, labels, nil
	}}
	before := time.Now()
	sum, err := drive.Run(t.Context(), a, l)
	if err != nil {
		t.Fatal(err)
	}
	var took []int64
	last, total := int64(0), int64(0)
	for i, r := range sum.Results {
		if took, last, total = append(took, r.Latency), max(last, r.Due+r.Latency), total+r.Latency; r.Due != l.Times[i] || r.Latency <= 0 || at[r.ID].Before(before.Add(time.Duration(r.Due))) {
			t.Errorf("request %d, asked %v after the start: %+v: expected it when it was due, %d ns", i, at[r.ID].Sub(before), r, l.Times[i])
		}
	}
	slices.Sort(took)
	if want := (drive.Latencies{Avg: int64(math.Round(float64(total) / 5)), P50: took[2], P99: took[4]}); sum.Latency != want || sum.Rate != 4/20e-3 || sum.Goodput != 5/(float64(last)/1e9) {
		t.Errorf("latencies %+v, rate %v, goodput %v: expected %+v, 200 and %v", sum.Latency, sum.Rate, sum.Goodput, want, 5/(float64(last)/1e9))
	}
	if sum.OnTime != 5 || !slices.Equal(sum.Exits, []int{5, 5}) || sum.Accuracy == nil || *sum.Accuracy != 0.7 { // 4 5 is right of 4 4 by half, of 4 5 whole
		t.Errorf("%d on time, exits %v, accuracy %v: expected 5, 5 of each, 0.7", sum.OnTime, sum.Exits, sum.Accuracy)
	}
	a.asked = func(q *drive.Question) { time.Sleep(q.SLO) } // the answer is late
	for ending, want := range map[drive.Ending]func(*drive.Summary) (n, violations int){
		drive.Answered:  func(s *drive.Summary) (int, int) { return s.Late, 3 },
		drive.Expired:   func(s *drive.Summary) (int, int) { return s.Dropped, 3 },
		drive.Refused:   func(s *drive.Summary) (int, int) { return s.Refused, 3 },
		drive.Cancelled: func(s *drive.Summary) (int, int) { return s.Cancelled, 0 },
		drive.Errored:   func(s *drive.Summary) (int, int) { return s.Errors, 3 },
		drive.Unsent:    func(s *drive.Summary) (int, int) { return s.Unsent, 3 },
	} {
		a.reply.Ending = ending
		slo := 50 * time.Millisecond // far more than it takes to send
		if ending == drive.Unsent {
			slo = time.Nanosecond
		}
		sum, err := drive.Run(t.Context(), a, &drive.Load{Clients: 2, N: 3, Batch: 2, SLO: slo})
		if err != nil {
			t.Fatal(err)
		}
		if n, violations := want(sum); n != 3 || sum.Violations != violations || sum.OnTime != 0 {
			t.Errorf("ending %d: %+v: expected three of it", ending, sum)
		}
	}
}

// TestLoadStreams: requests on streams end like others, and their first exit comes before the last.
func TestLoadStreams(t *testing.T) {
	s := start(t, 5*time.Millisecond, nil)
	c, err := drive.Dial("grpc://"+listen(t, s), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := func(l *drive.Load) *drive.Summary {
		t.Helper()
		l.Model, l.Stream = "tiny", true
		sum, err := drive.Run(t.Context(), c, l)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	sum := run(&drive.Load{Clients: 2, N: 6, Theta: "2", Batch: 2})
	if sum.OnTime != 6 || !slices.Equal(sum.Exits, []int{0, 12}) || sum.First == nil {
		t.Fatalf("%+v: expected 6 on time, 12 samples at the last exit, when the first exit came", sum)
	}
	for _, r := range sum.Results {
		if r.First <= 0 || r.First >= r.Latency {
			t.Errorf("the first exit after %d ns, the last after %d", r.First, r.Latency)
		}
	}
	if sum := run(&drive.Load{Clients: 1, N: 2, Theta: "2", SLO: time.Millisecond}); sum.Refused+sum.Dropped != 2 || sum.First != nil {
		t.Errorf("a deadline of 1 ms: %+v: expected two refusals", sum)
	}
	if sum := run(&drive.Load{Clients: 1, N: 2, Theta: "-1"}); sum.Errors != 2 || !strings.Contains(sum.Results[0].Why, "exit_threshold") {
		t.Errorf("a threshold of -1: %+v: expected two errors", sum)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &drive.Model{Name: "tiny", Inputs: []drive.Tensor{{Name: "input", Datatype: "FP32", Shape: []int64{-1, 28, 28, 1}}}}
	if r := c.Infer(t.Context(), &drive.Question{Model: m, Batch: 1, Data: [][]byte{values(1)}, Stream: true}); r.Ending != drive.Refused {
		t.Errorf("the server drains: %+v: expected a refusal", r)
	}
}
