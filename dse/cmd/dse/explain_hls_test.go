package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/hls/estimate"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

var countRE = regexp.MustCompile(`(?m)^count (\w+) (\d+)$`)

// The estimate's trip counts equal the numbers of elements that pass every stream in C-simulation.
func TestHLSTrips(t *testing.T) {
	text, err := os.ReadFile("../../../hw/configs/v5.yaml")
	if err != nil {
		t.Fatal(err)
	}
	eight := filepath.Join(t.TempDir(), "v5-post-int8.yaml")
	text = append(bytes.Replace(text, []byte("name: v5\n"), []byte("name: v5-post-int8\n"), 1), "post: true\ndepthwise: true\ntype: int8\n"...)
	if err := os.WriteFile(eight, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("int16", func(t *testing.T) { hlsTrips(t, "tinyx", 24) })
	t.Run("int8", func(t *testing.T) { hlsTrips(t, eight, 12) })
}

func hlsTrips(t *testing.T, config string, networks uint64) {
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := estimate.New(d)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("../../../hls/build.sh", config)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := randnet.Built()
	o.MaxMACs = 200_000
	dram := filepath.Join(t.TempDir(), "dram")
	if err := os.WriteFile(dram, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dram, 32<<20); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for seed := uint64(1); seed <= networks; seed++ {
		net, err := randnet.New(seed, d, o)
		if err != nil {
			t.Fatal(err)
		}
		batch := 1 + int(seed%testvec.MaxBatch)
		records, err := testvec.FromBundle(net.Bundle, rand.New(rand.NewPCG(seed, 1)), batch, testvec.Layout{Limit: testvec.StartLimit})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "a.vec")
		if err := vectors.WriteFile(file, records); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("../../../build/cosim/"+d.Name+"-hls/npu_cosim", "--dram", dram, "--play", file)
		cmd.Env = append(os.Environ(), "SLUICE_HLS_COUNTS=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, out)
		}
		got, want := map[string]int64{}, map[string]int64{}
		for _, g := range countRE.FindAllStringSubmatch(string(out), -1) {
			n, err := strconv.ParseInt(g[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got[g[1]] += n
		}
		for i := range net.Bundle.Layers {
			l := m.Layer(&net.Bundle.Layers[i], net.Bundle.FBCB[i][batch-1], batch)
			for s, n := range l.Streams {
				want[s] += n
			}
			if l.Cycles < max(1, l.DRAM, l.Port) || l.Stages[l.Bound] > l.Cycles {
				t.Errorf("seed %d, layer %d: %+v", seed, i, l)
			}
		}
		for s, n := range got {
			if n != want[s] {
				t.Errorf("seed %d, batch %d: stream %s: %d elements, estimated %d", seed, batch, s, n, want[s])
			}
			seen[s] += n
		}
	}
	for _, s := range []string{"rows", "biases", "weights", "vecs", "pooled", "sums", "fetched", "residuals", "outs", "local", "packed"} {
		if seen[s] == 0 {
			t.Errorf("nothing went through %s", s)
		}
	}
}

// A report for another clock than the configuration's is used, with a message.
func TestCsynthDoubts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "csynth.xml")
	if err := os.WriteFile(file, []byte(`<profile><UserAssignments><TopModelName>multiply</TopModelName><TargetClockPeriod>10</TargetClockPeriod></UserAssignments>
<PerformanceEstimates><SummaryOfTimingAnalysis><EstimatedClockPeriod>9.9</EstimatedClockPeriod></SummaryOfTimingAnalysis>
<SummaryOfLoopLatency><rows><PipelineII>2</PipelineII><PipelineDepth>9</PipelineDepth></rows></SummaryOfLoopLatency></PerformanceEstimates></profile>`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call("explain", "--network", "tiny", "--config", "run", "--images", "8", "--csynth", file)
	for _, want := range []string{"warning: " + file + ": synthesised for a clock of 10.000 ns, run has 6.667 ns (150 MHz)", "misses the clock: 9.900 ns"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("expected %q: %s", want, stderr)
		}
	}
	if code != cli.OK || !strings.Contains(stdout, "1 of ") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}
