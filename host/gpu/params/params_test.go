package params_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

func TestFiles(t *testing.T) {
	if n := len(params.Names()); n != 6 {
		t.Fatalf("%d GPUs", n)
	}
	for _, n := range params.Names() {
		f, err := params.Of(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sim.New(f.Params()); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		for _, k := range f.Uncertain() {
			for _, factor := range []float64{0.5, 2} {
				if _, err := sim.New(f.With(k, factor).Params()); err != nil {
					t.Errorf("%s with %s x %v: %v", n, k, factor, err)
				}
			}
		}
	}
	// A value that was measured on one GPU, or derived from such a value, is not a source for another GPU.
	for _, n := range params.Names() {
		f, err := params.Of(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"wake_ns", "reset_host_ns", "reclaim_ns", "evict_ns", "evict_each_ns", "kill_ns", "pad_share"} {
			v := f.Values[k]
			published := n == "mi50" || (n == "gv100" || n == "h100") && k == "kill_ns"
			if v.Assumed() == published {
				t.Errorf("%s, %s: %q", n, k, v.Source)
			}
			if fitted := strings.HasPrefix(v.Source, "fitted"); fitted != (n == "mi50" && (k == "wake_ns" || k == "reclaim_ns" || k == "evict_each_ns")) {
				t.Errorf("%s, %s: %q", n, k, v.Source)
			}
		}
	}
	for _, name := range []string{`""`, `"mi\u001b[2J"`, `"mi\n50"`} {
		_, err := params.Read("own.yaml", []byte("name: "+name+"\nvalues: {}\n"))
		if err == nil || !strings.Contains(err.Error(), "own.yaml: a name of ") || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("a GPU called %s: %v", name, err)
		}
	}
	if _, err := params.Of("voodoo"); !errors.Is(err, params.ErrFile) {
		t.Errorf("an unknown GPU: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	raw, err := os.ReadFile("mi50.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("name: x\nvalues: {sms: {value: .nan, source: y}}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := params.Read("fuzz", raw)
		if err != nil {
			return
		}
		if _, err := sim.New(g.Params()); err != nil {
			t.Fatalf("accepted, and no GPU: %v", err)
		}
	})
}

// A GPU is found by the name from its driver, and no other GPU is mistaken for it.
func TestFind(t *testing.T) {
	for gpu, want := range map[string]string{
		"NVIDIA H200": "H200", "NVIDIA H200 NVL": "H200", "NVIDIA L4": "L4", "NVIDIA GeForce RTX 3090": "RTX 3090", "Quadro GV100": "GV100",
		"NVIDIA L40S": "", "NVIDIA A100-SXM4-40GB": "", "NVIDIA H100 80GB HBM3": "H100", "Fake GPU": "", "": "",
	} {
		f, err := params.Find(gpu)
		if err != nil {
			t.Fatal(err)
		}
		if got := f != nil; got != (want != "") || got && f.Name != want {
			t.Errorf("%q is taken for %+v", gpu, f)
		}
	}
}
