package params_test

import (
	"errors"
	"os"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

func TestFiles(t *testing.T) {
	if n := len(params.Names()); n != 5 {
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
		for _, k := range f.Assumed() {
			for _, factor := range []float64{0.5, 2} {
				if _, err := sim.New(f.With(k, factor).Params()); err != nil {
					t.Errorf("%s with %s x %v: %v", n, k, factor, err)
				}
			}
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
