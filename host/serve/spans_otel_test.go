//go:build otel

package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// TestSpans: a request's span is a child of the client's, with REST and gRPC, and has one span per passed exit, in order. A
// refusal's span has the reason.
func TestSpans(t *testing.T) {
	kept := tracetest.NewSpanRecorder()
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Tracer = serve.TracerOf(sdk.NewTracerProvider(sdk.WithSpanProcessor(kept))) })
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	never := map[string]*oip.InferParameter{"exit_threshold": text("2")}
	if _, err := s.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent), question(1, never)); err != nil {
		t.Fatal(err)
	}
	b := body(2, map[string]any{"exit_threshold": "2"})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.rest+"/v2/models/tiny/infer", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("traceparent", parent)
	req.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(b)-2*4*pixels))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, err := s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"slo_us": whole(1)})); err == nil {
		t.Fatal("a deadline of 1 us was met")
	}
	var all []sdk.ReadOnlySpan
	eventually(t, "3 requests' spans", func() bool {
		all = kept.Ended()
		n := 0
		for _, sp := range all {
			if sp.Name() == "infer tiny" {
				n++
			}
		}
		return n == 3
	})
	exits := map[string]int{}
	for _, sp := range all {
		if sp.Name() != "infer tiny" {
			continue
		}
		refused := sp.Status().Code == codes.Error
		if id := sp.Parent().TraceID().String(); refused == (id == "0af7651916cd43dd8448eb211c80319c") {
			t.Errorf("%s, refused %v: under the trace %s", sp.Name(), refused, id)
		}
		for _, x := range all {
			if x.Parent().SpanID() == sp.SpanContext().SpanID() {
				exits[x.Name()]++
				if x.StartTime().Before(sp.StartTime()) || x.EndTime().After(sp.EndTime()) || x.EndTime().Before(x.StartTime()) || refused {
					t.Errorf("%s of %v..%v in a request of %v..%v", x.Name(), x.StartTime(), x.EndTime(), sp.StartTime(), sp.EndTime())
				}
			}
		}
	}
	if len(exits) != 2 || exits["exit 0"] != 3 || exits["exit 1"] != 3 {
		t.Errorf("spans of exits: %v: expected three of each", exits)
	}
}

// TestSpansOfABadName: a model's name in REST may not be UTF-8, which OTLP cannot carry; other spans in the batch arrive.
func TestSpansOfABadName(t *testing.T) {
	var mu sync.Mutex
	var sent []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, b...)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tracer, err := serve.NewTracer(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Tracer = tracer })
	if _, err := s.ModelInfer(t.Context(), question(1, nil)); err != nil {
		t.Fatal(err)
	}
	b := body(1, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.rest+"/v2/models/a%ffz/versions/%ff/infer", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(b)-4*pixels))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := tracer.Close(context.Background()); err != nil {
		t.Errorf("spans are not sent: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"infer tiny", "infer a\uFFFDz"} {
		if !bytes.Contains(sent, []byte(name)) {
			t.Errorf("no span %q among what was sent", name)
		}
	}
}
