//go:build !otel

package serve_test

import (
	"log/slog"
	"testing"

	"github.com/sluice-npu/sluice/host/serve"
)

// TestNoSpans: a build without spans logs a warning if an endpoint for them is set.
func TestNoSpans(t *testing.T) {
	for endpoint, warnings := range map[string]int{"": 0, "http://127.0.0.1:4318": 1} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		said := &lines{}
		if tracer, err := serve.NewTracer(t.Context(), slog.New(slog.NewTextHandler(said, nil))); tracer != nil || err != nil {
			t.Fatal(tracer, err)
		}
		if n := said.count("OTEL_EXPORTER_OTLP_ENDPOINT"); n != warnings {
			t.Errorf("endpoint %q: %d warnings, expected %d: %s", endpoint, n, warnings, said)
		}
	}
}
