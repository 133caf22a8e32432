//go:build otel

// OpenTelemetry spans of requests. The parent of a request's span is the client's span. The request's span has one
// child per sample and exit, which begins at the previous exit.

package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-npu/sluice/host/engine"
)

// Tracer sends spans.
type Tracer struct {
	tracer trace.Tracer
	close  func(context.Context) error
}

// NewTracer returns a Tracer that sends spans to OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
// (OTLP over HTTP) and applies the exporter's other environment variables. If neither is set, NewTracer returns nil.
func NewTracer(ctx context.Context, log *slog.Logger) (*Tracer, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		if set := otelVariables(); set != nil {
			log.Warn("no spans are sent: OTEL_EXPORTER_OTLP_ENDPOINT does not say where to", "ignored", set)
		}
		return nil, nil
	}
	out, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send spans: %w", err)
	}
	name := resource.NewSchemaless(attribute.String("service.name", Name))
	about, err := resource.Merge(name, resource.Environment()) // OTEL_SERVICE_NAME overrides the name
	if err != nil {
		return nil, fmt.Errorf("send spans: %w", err)
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(out), sdk.WithResource(about))
	t := TracerOf(p)
	t.close = p.Shutdown
	return t, nil
}

// TracerOf returns a Tracer for a provider.
func TracerOf(p trace.TracerProvider) *Tracer {
	return &Tracer{tracer: p.Tracer("github.com/sluice-npu/sluice/host/serve")}
}

// Close sends all pending spans.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil || t.close == nil {
		return nil
	}
	return t.close(ctx)
}

// span is the span of one request. Only the request's goroutine uses it.
type span struct {
	trace.Span
	ctx    context.Context
	tracer trace.Tracer
	began  time.Time
	since  map[int]time.Time // by sample: time at which it passed its last exit
}

type spanKey struct{}

func (t *Tracer) begin(ctx context.Context, r *Request) (context.Context, *span) {
	if t == nil {
		return ctx, nil
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		of := propagation.MapCarrier{}
		for _, key := range (propagation.TraceContext{}).Fields() {
			if v := md.Get(key); len(v) > 0 {
				of[key] = v[0]
			}
		}
		ctx = propagation.TraceContext{}.Extract(ctx, of)
	}
	s := &span{tracer: t.tracer, began: time.Now(), since: map[int]time.Time{}}
	s.ctx, s.Span = t.tracer.Start(ctx, "infer "+brief(r.Model, maxKept), trace.WithTimestamp(s.began), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("sluice.model", brief(r.Model, maxKept)), attribute.String("sluice.version", brief(r.Version, maxKept)), attribute.String("sluice.id", brief(r.ID, maxKept)),
	))
	return context.WithValue(s.ctx, spanKey{}, s), s
}

func spanOf(ctx context.Context) *span {
	s, _ := ctx.Value(spanKey{}).(*span)
	return s
}

// exit records that a sample passed an exit. The argument now is the current time of the engine.
func (s *span) exit(e *engine.Exit, now engine.Time) {
	if s == nil {
		return
	}
	at := time.Now().Add(time.Duration(e.At - now))
	from, there := s.since[e.Sample]
	if !there {
		from = s.began
	}
	if at.Before(from) { // the two clocks were read at slightly different times
		at = from
	}
	s.since[e.Sample] = at
	_, x := s.tracer.Start(s.ctx, fmt.Sprintf("exit %d", e.Exit), trace.WithTimestamp(from), trace.WithAttributes(
		attribute.Int("sluice.sample", e.Sample), attribute.Int("sluice.exit", e.Exit), attribute.Int("sluice.class", e.Result.Class),
		attribute.Float64("sluice.confidence", float64(e.Result.Confidence)),
	))
	x.End(trace.WithTimestamp(at))
}

func (s *span) end(err error) {
	if s == nil {
		return
	}
	if err != nil {
		e := coded(err)
		s.SetAttributes(attribute.String("sluice.code", e.Code.String()))
		s.SetStatus(codes.Error, e.Error())
	}
	s.End()
}

// traced adds the client's span to the request's context.
func traced(r *http.Request) context.Context {
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}
