//go:build otel

package serve

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sluice-npu/sluice/host/engine"
)

// TestSpansOfExitsGoForward: a request's goroutine may be paused between reading the two clocks, so that an exit seems
// later than it was. The next span must not end before it begins.
func TestSpansOfExitsGoForward(t *testing.T) {
	kept := tracetest.NewSpanRecorder()
	_, s := TracerOf(sdk.NewTracerProvider(sdk.WithSpanProcessor(kept))).begin(t.Context(), &Request{Model: "tiny"})
	s.exit(&engine.Exit{Exit: 0, At: 1e6}, 1e6)
	s.exit(&engine.Exit{Exit: 1, At: 2e6}, 100e6) // paused for at least 98 ms before
	s.end(nil)
	for _, x := range kept.Ended() {
		if x.EndTime().Before(x.StartTime()) {
			t.Errorf("%s ends at %v, before it begins at %v", x.Name(), x.EndTime(), x.StartTime())
		}
	}
	if n := len(kept.Ended()); n != 3 {
		t.Errorf("%d spans: expected 3", n)
	}
}
