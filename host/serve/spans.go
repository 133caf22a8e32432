//go:build !otel

// Without the build tag otel, the server records no spans of requests. This keeps a board's image small.

package serve

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/sluice-npu/sluice/host/engine"
)

// Tracer sends no spans in this build.
type Tracer struct{}

// NewTracer returns nil, and logs a warning if spans are configured.
func NewTracer(_ context.Context, log *slog.Logger) (*Tracer, error) {
	if set := otelVariables(); set != nil {
		log.Warn("no spans are sent: this program was built without the tag otel", "ignored", set)
	}
	return nil, nil
}

// Close does nothing.
func (*Tracer) Close(context.Context) error { return nil }

type span struct{}

func (*Tracer) begin(ctx context.Context, _ *Request) (context.Context, *span) { return ctx, nil }

func spanOf(context.Context) *span { return nil }

func (*span) exit(*engine.Exit, engine.Time) {}

func (*span) end(error) {}

func traced(r *http.Request) context.Context { return r.Context() }
