package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
)

// TestCUDA serves and profiles on the driver without a GPU: golden's results, and nothing called measured.
func TestCUDA(t *testing.T) {
	lib, err := fake.Build(filepath.Join("..", "..", "..", "build", "fakecuda"))
	if err != nil {
		t.Fatal(err)
	}
	if lib, err = filepath.Abs(lib); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_CUDA", lib)
	dir := t.TempDir()
	var out, log bytes.Buffer
	args := []string{"run", "--device", "cuda", "--config", "tiny", "--network", "tiny", "-n", "12", "--policy", "serial,fluid", "--build", dir, "--out", dir, "--rate", "20/s", "--slo", "10s", "--json"}
	if code := realMain(args, &out, &log); code != codeOK {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	var doc runDoc
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Label != "simulated" || doc.Clock != "measured" || len(doc.Runs) != 2 {
		t.Errorf("label %s, clock %s, %d runs", doc.Label, doc.Clock, len(doc.Runs))
	}
	for _, r := range doc.Runs {
		if r.Requests != 12 || r.Reference == nil || r.Reference.Results != 0 || r.Cycles != nil {
			t.Errorf("%s: %d requests, reference %+v, cycles %v", r.Policy, r.Requests, r.Reference, r.Cycles)
		}
	}
	log.Reset()
	if code := realMain([]string{"run", "--device", "cuda", "--config", "tiny", "--network", "tiny"}, &out, &log); code != codeUsage || !strings.Contains(log.String(), "--rate N/s and --slo TIME") {
		t.Errorf("multiples of the NPU's figures: exit code %d, %s", code, log.String())
	}
	out.Reset()
	log.Reset()
	gpu := []string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", dir, "--out", dir, "-n", "2", "--batches", "1", "--json"}
	if code := realMain(gpu, &out, &log); code != codeOK {
		t.Fatalf("bench gpu: exit code %d: %s", code, log.String())
	}
	var measured cudaBenchDoc
	if err := json.Unmarshal(out.Bytes(), &measured); err != nil {
		t.Fatal(err)
	}
	if measured.Label != "simulated" || !measured.Facts.Fake || measured.N != 2 || len(measured.Rows) < 50 {
		t.Errorf("bench gpu: label %s, %+v, n %d, %d rows", measured.Label, measured.Facts, measured.N, len(measured.Rows))
	}
	in, err := os.Open(filepath.Join(dir, bench.RawFile))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	raw, err := bench.Read(bench.RawFile, in)
	if err != nil || !reflect.DeepEqual(raw.Rows(), measured.Rows) {
		t.Errorf("bench gpu: the runs that it keeps are not those of its figures: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "params.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bench gpu writes parameters of what is no GPU: %v", err)
	}
	log.Reset()
	if code := realMain([]string{"bench", "gpu", "-n", "0"}, &out, &log); code != codeUsage {
		t.Errorf("bench gpu -n 0: exit code %d, %s", code, log.String())
	}
	t.Setenv("SLUICE_CUDA", filepath.Join(dir, "none.so"))
	log.Reset()
	if code := realMain(args[:len(args)-1], &out, &log); code != codeDevice || !strings.Contains(log.String(), "no CUDA driver") {
		t.Errorf("without a driver: exit code %d, %s", code, log.String())
	}
}
