//go:build !otel

// Spans of requests: without the build tag otel there are none, so that a board's image stays small.

package serve

import (
	"context"
	"net/http"

	"github.com/sluice-npu/sluice/host/engine"
)

// Tracer sends spans; without the build tag otel there is none.
type Tracer struct{}

// NewTracer is nil.
func NewTracer(context.Context) (*Tracer, error) { return nil, nil }

// Close does nothing.
func (*Tracer) Close(context.Context) error { return nil }

type span struct{}

func (*Tracer) begin(ctx context.Context, _ *Request) (context.Context, *span) { return ctx, nil }

func spanOf(context.Context) *span { return nil }

func (*span) exit(*engine.Exit, engine.Time) {}

func (*span) end(error) {}

func traced(r *http.Request) context.Context { return r.Context() }
