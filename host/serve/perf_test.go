package serve_test

import (
	"context"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// TestPerfAnalyzer: the calls of perf_analyzer 2.60 with --async --streaming, in its order, with its requirements on
// each answer. Its own message on counts that differ is "Server side statistics compute counts must be the same".
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
	for i, in := range about.Inputs { // the dimension of the batch comes before those of the configuration
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

// TestPerfAnalyzerItself: perf_analyzer measures the server through each interface, if SLUICE_PERF_ANALYZER names the
// program (make perf-analyzer): it succeeds, and the server has answered as many requests as it reports. 2.48 is the
// last version in a wheel of tritonclient; a newer one needs glibc 2.38.
func TestPerfAnalyzerItself(t *testing.T) {
	bin := os.Getenv("SLUICE_PERF_ANALYZER")
	if bin == "" {
		t.Skip("SLUICE_PERF_ANALYZER names no perf_analyzer: make perf-analyzer makes and names it")
	}
	s := start(t, time.Millisecond, nil)
	at := map[string]string{"grpc": listen(t, s), "http": strings.TrimPrefix(s.rest, "http://")}
	// Three windows of fifty requests, stable whatever they say: the machine may be busy.
	always := []string{"-m", "tiny", "--input-data", "zero", "--measurement-mode", "count_windows", "--measurement-request-count", "50", "-s", "999999"}
	for _, how := range [][]string{{"-i", "grpc", "--async", "--streaming"}, {"-i", "grpc"}, {"-i", "http"}, {"-i", "grpc", "-b", "4", "--concurrency-range", "4"}} {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			answered := func() uint64 {
				t.Helper()
				r, err := s.ModelStatistics(t.Context(), &oip.ModelStatisticsRequest{Name: "tiny"})
				if err != nil {
					t.Fatal(err)
				}
				return r.ModelStats[0].InferenceStats.Success.Count
			}
			before, file := answered(), filepath.Join(t.TempDir(), "out.csv")
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			text, err := exec.CommandContext(ctx, bin, slices.Concat(always, how, []string{"-u", at[how[1]], "-f", file})...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rows, err := csv.NewReader(f).ReadAll()
			if err != nil || len(rows) != 2 {
				t.Fatalf("%v, %v: expected one row\n%s", rows, err, text)
			}
			of := func(column string) float64 {
				v, err := strconv.ParseFloat(rows[1][slices.Index(rows[0], column)], 64)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			if of("Inferences/Second") <= 0 || of("Server Compute Infer") < 2000 { // two segments of a millisecond, in us
				t.Errorf("%v: expected inferences, each of 2 ms on the device", rows)
			}
			// "Request count: 152", of the windows that it took
			_, after, _ := strings.Cut(string(text), "Request count: ")
			count, _, _ := strings.Cut(after, "\n")
			if n, err := strconv.ParseUint(count, 10, 64); err != nil || n < 50 || answered()-before < n {
				t.Errorf("it says that it was answered %q times (%v), the server has answered %d\n%s", count, err, answered()-before, text)
			}
		})
	}
}
