package serve_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// TestPerfAnalyzer: the calls of perf_analyzer 2.60 with --async --streaming, in its order, and what it demands of each.
// Its own message on counts that differ is "Server side statistics compute counts must be the same".
func TestPerfAnalyzer(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	ctx := t.Context()
	about, err := s.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.ModelConfig(ctx, &oip.ModelConfigRequest{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if len(about.Inputs) != len(c.Input) || len(about.Outputs) != len(c.Output) || c.MaxBatchSize < 1 || !c.ModelTransactionPolicy.GetDecoupled() {
		t.Errorf("metadata %v, configuration %v: expected the same tensors, and batches", about, c)
	}
	for i, in := range about.Inputs { // a batch's dimension stands before the configuration's
		if !slices.Equal(in.Shape, append([]int64{-1}, c.Input[i].Dims...)) {
			t.Errorf("input %s is %v in the metadata, %v in the configuration", in.Name, in.Shape, c.Input[i].Dims)
		}
	}
	server, err := s.ServerMetadata(ctx, &oip.ServerMetadataRequest{})
	if err != nil || !slices.Contains(server.Extensions, "statistics") {
		t.Fatalf("%v, %v: expected the extension statistics", server, err)
	}
	counts := func() []uint64 {
		t.Helper()
		r, err := s.ModelStatistics(ctx, &oip.ModelStatisticsRequest{Name: "tiny"})
		if err != nil || len(r.ModelStats) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		st := r.ModelStats[0].InferenceStats
		return []uint64{st.Success.Count, st.Queue.Count, st.ComputeInput.Count, st.ComputeInfer.Count, st.ComputeOutput.Count}
	}
	if got := counts(); slices.Max(got) != 0 {
		t.Errorf("counts %v before any request", got)
	}
	st, err := s.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5
	for range n {
		q := question(1, map[string]*oip.InferParameter{"triton_enable_empty_final_response": {ParameterChoice: &oip.InferParameter_BoolParam{BoolParam: true}}})
		if err := st.Send(q); err != nil {
			t.Fatal(err)
		}
		for final := false; !final; {
			r, err := st.Recv()
			if err != nil || r.ErrorMessage != "" {
				t.Fatalf("%v, %v", r, err)
			}
			final = r.InferResponse.Parameters["triton_final_response"].GetBoolParam()
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := counts(); !slices.Equal(got, []uint64{n, n, n, n, n}) {
		t.Errorf("counts of success, queue and the three of computing are %v: expected %d of each", got, n)
	}
}
